"""Narrow numbers that are read in several ways leave the branches in words, and are taken apart when the first of them
is needed.

Taken apart inside a branch, a thread waits there for what it has just asked for, before it asks for the next block.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.core import Value as IRValue
from tesserac.target.llvm_types import I32, LType, Value, vector
from tesserac.target.nvptx.context import Context
from tesserac.target.nvptx.registers import control

WORD = 4


def load_words(ctx: Context, address: Value, size: int, attributes: str) -> list[Value]:
    """So many bytes, as words."""
    count = size // WORD
    loaded = ctx.b.load(vector(I32, count) if count > 1 else I32, address, size, attributes)
    return [ctx.b.extract(loaded, i) for i in range(count)] if count > 1 else [loaded]


def come_later(ctx: Context, fragment: IRValue, words: Sequence[Value], types: Sequence[LType]) -> None:
    """Makes a fragment of words when something first reads one."""

    def arrive() -> None:
        ctx.fragments[fragment] = control.unpaired(ctx, words, types)

    ctx.arriving.append(arrive)
