"""Calls that are over sooner than others could use the interpreter lock meanwhile.

    i1 tessera.short(ptr args)        args as those of the entry

To give up the lock and take it back is a third of what the call of a small function costs. So the stub keeps it where
this function says so: where all launches together touch fewer elements than would be worth a second thread, and the
host program does nothing that takes longer than that tells, or that waits for another thread, which may itself want the
lock. Its guards have not been tested yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tesserac.ir.core import Op
from tesserac.target.cpu.host.launches import INLINE_ELEMENTS
from tesserac.target.entry.fits import emit_is_below
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, Value, const_int
from tesserac.types.dims import ZERO, Dim

SHORT = "tessera.short"
_OF_SCHEDULE = "func guard buffer box parts check swap select cond assert require end return"
_STRAIGHT = frozenset(f"schedule.{name}" for name in _OF_SCHEDULE.split()) | {"tile.launch"}
"""What takes no time but that of its launches, and waits for no one. Loops, calls of other functions, operands that are
packed once for all threads, and output are not among it."""


def is_straight(func: Op) -> bool:
    return all(op.name in _STRAIGHT or op.name.startswith("index.") for op in func.walk())


def emit_short(b: Builder, touched: Sequence[Dim], symbols: Mapping[str, Value]) -> None:
    """The body of the function, for a host program that is straight."""
    total = sum(touched, ZERO)
    if total.symbols() <= symbols.keys():
        b.ret(emit_is_below(b, total, INLINE_ELEMENTS, symbols))
    else:
        b.ret(const_int(I1, 0))
