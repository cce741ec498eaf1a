"""The devices that a program runs on: one.

Enters: an entry with the axes across which it communicates. Leaves: the sizes of those that it leaves open, or
`DevicesMissing` where it says itself that there are more devices.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.ops.collective import FREE, free_size
from tesserac.types.dims import ONE, Dim


class DevicesMissing(Exception):
    """A program is meant for more devices along an axis than there are."""

    def __init__(self, span: Span, axis: str, devices: Dim) -> None:
        super().__init__(f"{devices} devices along {axis}")
        self.span, self.axis, self.devices = span, axis, devices


def alone(entry: typed.TypedFunction) -> dict[str, int]:
    """What the sizes of open axes are where one device runs the program. Raises DevicesMissing."""
    for across in entry.collectives:
        if across.devices not in (ONE, Dim.sym(free_size(across.axis))):
            raise DevicesMissing(entry.span, across.axis, across.devices)
    told = [name for name in entry.symbols if name.startswith(FREE)]
    return dict.fromkeys((*told, *(free_size(across.axis) for across in entry.collectives)), 1)
