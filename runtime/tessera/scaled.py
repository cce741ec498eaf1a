"""Values with scales, `i8 @scale(axis=0)` and its kin, as Python sees them."""

from __future__ import annotations

from typing import NamedTuple


class Scaled(NamedTuple):
    """Numbers, and one f32 per index of the scale's axis to multiply them by: `q * scale` along that axis. Functions
    take this, a dict with both, or any object that has them."""

    q: object
    scale: object
