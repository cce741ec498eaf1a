"""Random numbers in a tile program: a block has those of its place in the problem, whatever its size.

    random_bits(key) {shape = [T_m, T_n]}     those of [M, N] from row P_m * T_m and column i * T_n on

Enters: the body of a program, its sizes of blocks still symbols. Leaves: the same, in which draws are maps of absolute
indices, and what a loop over blocks folds into a key is the 0 of the one block that spans its dim in the meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tesserac.check.model.typed import STREAM
from tesserac.graph.applying import apply_operator
from tesserac.graph.dialect import PREFIX, Program, operator_of
from tesserac.graph.rng_keys import KEY
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.kernels import block_loop
from tesserac.ops.create import Arange, Full
from tesserac.ops.random import FoldIn, RandomBits
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import U64
from tesserac.types.policy import NO_POLICY


def draw_in_place(block: Block, program: Program, dims: Mapping[str, Dim]) -> None:
    """Draws of blocks become those of their places."""
    pinned = {name for name, _ in program.pinned}
    cuts = [cut for cut in program.blocks if cut.block.symbol not in pinned]
    whole = {cut.block.symbol or "": cut.over.substitute(dims) for cut in cuts}
    numbers = zip(program.blocks, program.numbers, strict=True)
    starts = {cut.block: Dim.sym(number) * cut.block for cut, number in numbers if cut.block in program.own}
    for op in [op for outer in block.ops for op in outer.walk()]:
        cut = block_loop(op)
        if cut is not None and cut.block.symbol in whole:
            _drop_number(op)
        if op.name == PREFIX + RandomBits.name:
            _place(op, whole, starts | _around(op))


def _around(op: Op) -> dict[Dim, Dim]:
    """Where the blocks of the loops around an operation start."""
    found: dict[Dim, Dim] = {}
    block = op.parent
    while block is not None and block.parent_op is not None:
        outer = block.parent_op
        cut = block_loop(outer)
        if cut is not None:
            found[cut.block] = Dim.sym(str(outer.attrs["counter"])) * cut.block
        block = outer.parent
    return found


def _place(op: Op, whole: Mapping[str, Dim], starts: Mapping[Dim, Dim]) -> None:
    draw = operator_of(op)
    assert isinstance(draw, RandomBits)
    if not any(dim.symbols() & whole.keys() for dim in draw.shape):
        return
    assert all(dim in starts or not dim.symbols() & whole.keys() for dim in draw.shape), "a block of no program"
    sizes = tuple(dim.substitute(whole) for dim in draw.shape)
    firsts = [starts[dim] if dim in starts and dim.symbol in whole else ZERO for dim in draw.shape]
    builder = Builder.before(op)
    made = replace(draw, shape=sizes).lower_part(builder, op.operands, tensor_type(op.result), firsts)
    op.result.replace_all_uses(made)
    op.erase()


def _drop_number(loop: Op) -> None:
    """The number of a block is in no key."""
    counter = Dim.sym(str(loop.attrs["counter"]))
    for op in list(loop.body.ops):
        if op.name == "graph.size" and op.attrs["dim"] == counter and op.result.type == KEY:
            op.result.replace_all_uses(apply_operator(Builder.before(op), Full((), U64, NO_POLICY, 0)))
            op.erase()


def stream_place(program: Op) -> int | None:
    """Which argument of a program is the stream that it draws from, if one is."""
    params = program.attrs["params"]
    assert isinstance(params, tuple)
    return params.index(STREAM) if STREAM in params else None


def program_streams(builder: Builder, stream: Value, leading: Sequence[Dim], programs: Dim) -> Value:
    """The streams of all programs, as the function that runs them in order has them: the loop over programs is the
    first place of its body, their call the second."""

    def folded(key: Value, number: int) -> Value:
        return apply_operator(builder, FoldIn(), key, apply_operator(builder, Full((), U64, NO_POLICY, number)))

    if not leading:
        return folded(stream, 0)
    numbers = apply_operator(builder, Arange(ZERO, programs, 1, U64))
    return folded(apply_operator(builder, FoldIn(), folded(stream, 0), numbers), 1)
