"""Tile programs that users write as neutral tiles: the forms of a kernel over blocks, one to one."""
