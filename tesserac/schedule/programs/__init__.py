"""Launches of tile programs that users write: their grid, and the sizes of their blocks."""
