"""What stops a tile program: it does what tiles cannot say."""

from __future__ import annotations


class NoTiles(Exception):
    """The reason, for people."""
