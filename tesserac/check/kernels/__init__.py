"""Kernels: one tile of a result, and the grid that runs it."""
