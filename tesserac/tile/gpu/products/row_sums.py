"""Pass `row_sums`: a loop carries the sum of its terms as a product with ones, in as many columns as a unit makes.

    gpu.for(%low, %high, %l) { ^(%i, %l):
        %terms = ...; %scaled = ldexp(%l, %power)
        gpu.yield(gpu.sum_rows(%terms, %scaled)) }
  becomes, with %zero : fragment<[128, 8]>,
    %sums = gpu.for(%low, %high, %zero) { ^(%i, %sums):
        %terms = ...; %scaled = ldexp(%sums, %power)
        gpu.yield(gpu.sum_rows(%terms, %scaled)) }
    %l = gpu.column(%sums)

Terms in registers, as products of narrow numbers take them, are summed where they are multiplied, in the chain of every
other column: beside a product whose stages have `ones` it costs nothing but these columns.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, clone_op
from tesserac.tile.gpu.model.types import SUM_COLUMNS, FragmentType
from tesserac.tile.gpu.model.values import fragment, scalar_of
from tesserac.tile.gpu.products.chains import Chain, behind, carried_chain
from tesserac.tile.gpu.products.pipeline import carry_more


def carry_sums(kernel: Op) -> None:
    """Changes the kernel in place."""
    for op in [op for op in kernel.walk() if op.name == "gpu.sum_rows"]:
        if isinstance(op.operands[0].type, FragmentType):
            chain = carried_chain(op.result, op.operands[1])
            _sum_here(op) if chain is None else _carry(op, chain)


def _carry(op: Op, chain: Chain) -> None:
    loop, body = chain.loop, chain.loop.body
    ty = _columns(op)
    zero = Builder.before(loop).value("gpu.full", (), ty, {"value": 0})
    sums = body.add_arg(ty, op.result.name)
    b, scaled = Builder.before(op), sums
    if chain.rescaling is not None:
        scaled = _rescaled(b, sums, chain.rescaling)
    total = b.value("gpu.sum_rows", (op.operands[0], scaled), ty, dict(op.attrs), hint=op.result.name)
    yielded = list(body.terminator.operands)
    yielded[chain.position] = chain.carried
    body.terminator.set_operands([*yielded, total])
    op.result.replace_all_uses(op.operands[1])
    op.erase()
    whole = carry_more(loop, [zero])
    readers = list(whole.results[chain.position].uses)
    column = _column(behind(whole), whole.results[-1])
    for user, place in readers:
        user.set_operand(place, column)


def _rescaled(b: Builder, sums: Value, rescaling: Op) -> Value:
    """The sums of each row times its power of two."""
    block = clone_op(rescaling, {}).regions[0].block
    operands, attrs = (sums, rescaling.operands[1]), {"maps": ((0, 1), (0,))}
    return b.value("gpu.map", operands, sums.type, attrs, [block], hint=rescaling.result.name)


def _columns(op: Op) -> FragmentType:
    """Sums of rows as a product has them: each lane in the columns of its own."""
    terms, acc = fragment(op.operands[0]), fragment(op.operands[1])
    layout, step = terms.layout, terms.shape[1] // 2
    while step >= SUM_COLUMNS:
        layout = layout.halved(1, step)
        step //= 2
    return replace(acc, shape=(terms.shape[0], SUM_COLUMNS), layout=layout)


def _column(b: Builder, sums: Value) -> Value:
    ty = fragment(sums)
    row = replace(ty, shape=ty.shape[:1], layout=ty.layout.project([0]))
    return b.value("gpu.column", (sums,), row, hint=sums.name)


def _sum_here(op: Op) -> None:
    """A sum that is no loop's: all of its terms are here."""
    terms, before = op.operands
    b, ty = Builder.before(op), _columns(op)
    zero = b.value("gpu.full", (), ty, {"value": 0})
    total = b.value("gpu.sum_rows", (terms, zero), ty, dict(op.attrs), hint=op.result.name)
    op.result.replace_all_uses(_added(b, before, _column(b, total)))
    op.erase()


def _added(b: Builder, column: Value, row: Value) -> Value:
    scalar = scalar_of(fragment(column))
    block = Block([scalar, scalar])
    inner = Builder(block, b.span)
    inner.op("form.yield", (inner.value("scalar.add", block.args, scalar),))
    return b.value("gpu.map", (column, row), column.type, {"maps": ((0, 1), (0,))}, [block], hint=column.name)
