"""What every compiled entry has, on any target: guards of sizes, a status, ways to end a call."""
