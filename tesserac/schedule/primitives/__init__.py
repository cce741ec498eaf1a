"""Schedule primitives, one per file: each states before and after, and refuses what would change a result."""
