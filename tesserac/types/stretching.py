"""Leading dims that repeat: a kernel's operand may have 1, or nothing, where the grid has a dim."""

from __future__ import annotations

from tesserac.types.dims import ONE, Dim


def stretches(own: tuple[Dim, ...], whole: tuple[Dim, ...]) -> bool:
    """Whether dims, aligned from the right, are those of the whole, or 1, or are not there."""
    pairs = zip(reversed(own), reversed(whole), strict=False)
    return len(own) <= len(whole) and all(dim in (ONE, wanted) for dim, wanted in pairs)
