"""Pass `promote`: products of 8-bit floats are summed in f32, block by block of 128 terms.

    %y = gpu.dot(%a, %b, %acc)
  becomes, where %a and %b have 8-bit numbers and a matrix unit multiplies them,
    %part = gpu.dot(%a, %b, %zero)
    %y = gpu.map(%acc, %part) { add }

Inside of an instruction of a matrix unit sums of 8-bit numbers keep about 14 bits of the largest term, and so does the
chain of instructions that goes on with its result. The length of such a chain is part of the meaning: `TERMS`, counted
from the start of the terms, whatever the schedule.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, clone_op
from tesserac.ir.index import dim_value, index_op
from tesserac.ir.types import ScalarType
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.matrix import TERM_BYTES, WGMMA, accumulator_layout
from tesserac.tile.gpu.model.shared import SharedLayout
from tesserac.tile.gpu.model.types import FIRST
from tesserac.tile.gpu.model.values import fragment, integer, matrix_unit_of
from tesserac.types.dtype import F32

TERMS = 128
MOST_COLUMNS = 128
"""Of a block of sums that has room in registers beside the whole."""
UNIT_TERMS = TERM_BYTES
"""Those of one instruction that takes bytes."""


def promote_sums(kernel: Op) -> None:
    """Changes the kernel in place."""
    for dot in [op for op in kernel.walk() if op.name == "gpu.dot"]:
        staged = dot.operands[0].defining_op
        if _keeps_few_bits(dot) and staged is not None:
            _promote(dot, staged)


def pair_products(kernel: Op) -> None:
    """Two blocks of terms in a round of a loop: the unit multiplies the second while the first is added."""
    for number, loop in enumerate([op for op in kernel.walk() if op.name == "gpu.for"]):
        dots = [op for op in loop.body.ops if op.name == "gpu.dot"]
        if len(dots) == 1 and _keeps_few_bits(dots[0]):
            _pair(loop, dots[0], number)


def _keeps_few_bits(dot: Op) -> bool:
    """Whether a matrix unit multiplies 8-bit floats: sums of integers have all of theirs."""
    return matrix_unit_of(dot).k == UNIT_TERMS and fragment(dot.result).dtype == F32


def _pair(loop: Op, dot: Op, number: int) -> None:
    body, step = loop.body, integer(loop, "step")
    *ops, yielded = body.ops
    (total,) = yielded.operands
    for value in dot.operands[:2]:
        load = value.defining_op
        assert load is not None
        load.attrs["ring"] = number
    b = Builder.before(yielded)
    known = {body.args[0]: index_op(b, "add", body.args[0], dim_value(b, step)), body.args[1]: total}
    for op in ops:
        b.add(clone_op(op, known))
    added = total.defining_op
    assert added is not None and added.name == "gpu.map"
    added.detach()
    again = known[total].defining_op
    assert again is not None
    body.insert(body.place(again), added)
    yielded.set_operands([known[total]])
    loop.attrs["step"] = 2 * step


def _promote(dot: Op, staged: Op) -> None:
    layout = staged.attrs["layout"]
    if not isinstance(layout, SharedLayout) or layout.shape[1] != TERMS:
        raise LoweringError(f"products of 8-bit numbers are promoted every {TERMS} terms")
    left, right, acc = dot.operands
    ty, b = fragment(acc), Builder.before(dot)
    if ty.shape[1] > MOST_COLUMNS and matrix_unit_of(dot).name == WGMMA:
        dot.result.replace_all_uses(_in_parts(b, dot))
        dot.erase()
        return
    zero = b.value("gpu.full", (), ty, {"value": 0.0})
    part = b.value("gpu.dot", (left, right, zero), ty, dict(dot.attrs), hint="part")
    body = Block([ScalarType(F32)] * 2, ["total", "term"])
    inner = Builder(body, dot.span)
    inner.op("form.yield", (inner.value("scalar.add", body.args, ScalarType(F32)),))
    whole = ((0, 1), (0, 1))
    total = b.value("gpu.map", (acc, part), ty, {"maps": whole}, (body,), hint=dot.result.name)
    dot.result.replace_all_uses(total)
    dot.erase()


def _in_parts(b: Builder, dot: Op) -> Value:
    """Columns part by part: while one group of warps adds, the unit multiplies for the other."""
    left, right, total = dot.operands
    rows, columns = fragment(total).shape
    unit = matrix_unit_of(dot)
    part_type = replace(
        fragment(total), shape=(rows, MOST_COLUMNS), layout=accumulator_layout(unit, (rows, MOST_COLUMNS))
    )
    for first in range(0, columns, MOST_COLUMNS):
        zero = b.value("gpu.full", (), part_type, {"value": 0.0})
        attrs = {"unit": unit, FIRST: first}
        part = b.value("gpu.dot", (left, right, zero), part_type, attrs, hint="part")
        total = b.value("gpu.add_columns", (total, part), total.type, {FIRST: first}, hint=dot.result.name)
    return total
