"""Loops over blocks whose size is meant: one over whole blocks, and one for what is left at the end of the dim.

    for i in blocks of 64 of N: body          i < N // 64: body with T_n = 64;  then, if N is no multiple, T_n = N % 64

Enters: the body of a function that calls the program of a kernel, once that is inlined. Leaves: plain loops, in which
the size of a block is a number, or the rest.
"""

from __future__ import annotations

from collections.abc import Iterable

from tesserac.graph.substitute import copy_block
from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.index import dim_value
from tesserac.ir.kernels import CUT, PINNED, Cut, block_loop
from tesserac.types.blocks import block_parts
from tesserac.types.dims import Dim


def split_pinned(ops: Iterable[Op]) -> None:
    """Splits the loops among these operations and inside them that say what size their blocks have."""
    loops = [op for outer in ops for op in outer.walk() if PINNED in op.attrs and op.name == "form.loop"]
    for loop in reversed(loops):  # those inside first, so that what is copied has none left
        cut, size = block_loop(loop), loop.attrs[PINNED]
        assert cut is not None and isinstance(size, int)
        _split(loop, cut, size)


def _split(loop: Op, cut: Cut, size: int) -> None:
    builder, carried = Builder.before(loop), list(loop.operands[2:])
    for first, last, block in block_parts(cut.over, size):
        carried = _part(builder, loop, (first, last), {cut.block.symbol or "": block}, carried)
    for old, new in zip(loop.results, carried, strict=True):
        old.replace_all_uses(new)
    loop.erase()


def _part(
    builder: Builder, loop: Op, bounds: tuple[Dim, Dim], sizes: dict[str, Dim], carried: list[Value]
) -> list[Value]:
    ends = [dim_value(builder, bound) for bound in bounds]
    attrs = {name: attr for name, attr in loop.attrs.items() if name not in (CUT, PINNED)}
    body = copy_block(loop.body, {}, sizes)
    names = [v.name for v in loop.results]
    return list(builder.op("form.loop", (*ends, *carried), [v.type for v in carried], attrs, (body,), names).results)
