"""Operators as values: expressions that are put into a normal form while compiling, and applied by the library."""
