"""What an editor can ask, one file each: functions of the session, a text and a place in it, giving plain data."""
