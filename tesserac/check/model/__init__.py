"""What the checker speaks of: the typed program, signatures as written, scopes."""
