"""What the commands do: each takes a session and arguments and gives an `Outcome`. `cli.py` only wires them up."""
