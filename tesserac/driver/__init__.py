"""What drives the compiler: sessions, the check cache, faults, fixes, packaging."""
