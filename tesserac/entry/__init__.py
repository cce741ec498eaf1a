"""What a module looks like from outside the language, and which instance a call from there means."""
