"""Values while compiling: names, numbers, tuples, dicts, types."""
