"""Why a launch is as it is: a text on each launch that `inspect` shows."""

from __future__ import annotations

from tesserac.ir.core import Op


def because(launch: Op, why: str) -> None:
    """Adds a reason behind those that the launch has."""
    before = launch.attrs.get("reason", "")
    launch.attrs["reason"] = f"{before}; {why}" if before else why
