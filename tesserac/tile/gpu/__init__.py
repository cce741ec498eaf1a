"""Tiles as the threads of a GPU run them: one dialect, and the passes that lower to it."""

from tesserac.tile.gpu.model import dialect as dialect  # every pass of this room leaves operations of it
