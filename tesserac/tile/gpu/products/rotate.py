"""Pass `rotate`: a product that only carried values need is left to the next round, where it runs beside other work.

    gpu.for(%low, %high, %acc) { ^(%i, %acc):
        %s = gpu.dot(%q, gpu.stage(%k, %i), %zero)
        %p = ... %s ...; %scaled = ... %acc ...; gpu.yield(gpu.dot(%p, gpu.stage(%v, %i), %scaled)) }
  becomes, with %nowhere behind the end of the memory of v, where tensor copies read zeros,
    %scaled, %p, %at = gpu.for(%low, %high, %acc, 0, %nowhere) { ^(%i, %before, %terms, %place):
        %s = gpu.dot(%q, gpu.stage(%k, %i), %zero)
        %acc = gpu.dot(%terms, gpu.stage(%v, %place), %before)
        %p = ... %s ...; %scaled = ... %acc ...; gpu.yield(%scaled, %p, %i) }
    %acc = gpu.dot(%p, gpu.stage(%v, %at), %scaled)

Matrix units that run beside their warps have the product of the round before while those make %p of this one: what
comes first is started first, so that to wait for %s is not to wait for %acc. Sums of the rows of %p are left to the
next round too, beside the product: stages of v have `ones`. Warp groups start their products in turns: else all of
them would, and then have none while all of them make their terms. All stages of v have one `ring`, in the order in
which they come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value, attr, clone_op
from tesserac.ir.index import dim_value
from tesserac.ir.types import INDEX, AxisType
from tesserac.tile.gpu.layouts.row_copies import erase_unread
from tesserac.tile.gpu.model.matrix import WARPGROUP
from tesserac.tile.gpu.model.shared import SharedLayout
from tesserac.tile.gpu.model.types import FragmentType
from tesserac.tile.gpu.model.values import fragment, matrix_unit_of, memory, scalar_of
from tesserac.tile.gpu.products.chains import behind
from tesserac.tile.gpu.products.gathers import copies_rows, cut_axes
from tesserac.tile.gpu.products.pipeline import SKIPS, carry_more, clone_coordinates
from tesserac.types.policy import NO_POLICY

MAX_SUMMED_COLUMNS = 128
"""Up to which width a stage has room for ones."""


@dataclass(frozen=True)
class _Late:
    """The product of a loop that is left to the next round, what it is carried as, the one that it waits behind, and
    whether it sums the rows of its terms."""

    loop: Op
    dot: Op
    position: int
    first: Op
    sums: bool


def rotate_products(kernel: Op) -> None:
    """Changes the kernel in place."""
    for number, late in enumerate(list(_late_products(kernel))):
        _rotate(late, number)


def _late_products(kernel: Op) -> Iterator[_Late]:
    """Loops with two products, of which the second takes what is computed from the first, and is only carried on."""
    for loop in [op for op in kernel.walk() if op.name == "gpu.for"]:
        dots = [op for op in loop.body.ops if op.name == "gpu.dot"]
        if len(dots) != 2:
            continue
        first, dot = dots
        uses = list(dot.result.uses)
        carried = len(uses) == 1 and uses[0][0] is loop.body.terminator
        if carried and isinstance(dot.operands[0].type, FragmentType) and _ends_somewhere(dot, loop):
            summed = bool(_late_sums(loop, dot.operands[0])) and fragment(dot.result).shape[1] <= MAX_SUMMED_COLUMNS
            yield _Late(loop, dot, uses[0][1], first, summed)


def _ends_somewhere(dot: Op, loop: Op) -> bool:
    """Whether there is a place at which a right operand has no terms: behind its memory, or behind the end of a loop
    whose rounds rows at computed places belong to."""
    load = dot.operands[1].defining_op
    if load is None or load.name != "gpu.stage":
        return False
    if not copies_rows(load):
        return any(isinstance(at.type, AxisType) for at in load.operands[1:])
    rows = cut_axes(load).get(0)
    made = rows.defining_op if rows is not None else None
    return made is not None and made.operands == (loop.body.args[0], loop.operands[1])


def _nowhere(b: Builder, load: Op, loop: Op) -> Value:
    """That place."""
    if copies_rows(load):
        return loop.operands[1]
    dims = zip(memory(load.operands[0]).dims, load.operands[1:], strict=True)
    return dim_value(b, next(size for size, at in dims if isinstance(at.type, AxisType)))


def _rotate(late: _Late, number: int) -> None:
    loop, dot, body = late.loop, late.dot, late.loop.body
    terms, load, scaled = dot.operands[0], dot.operands[1].defining_op, dot.operands[2]
    assert load is not None
    before = Builder.before(loop)
    nothing = before.value("gpu.full", (), fragment(terms), {"value": 0})
    inits = [nothing, _nowhere(before, load, loop)]
    carried, counter = body.args[1 + late.position], body.args[0]
    left, place = body.add_arg(fragment(terms), "terms"), body.add_arg(INDEX, "place")
    b = Builder.before(body.ops[body.place(late.first) + 1])
    made = _product_at(b, late, number, left, place, carried)
    if not copies_rows(load):
        made.attrs[SKIPS] = True
    _read_instead(carried, made)
    if matrix_unit_of(late.first).warps > WARPGROUP:
        Builder.before(late.first).op("gpu.take_turn")
        b.op("gpu.pass_turn")
    yielded = list(body.terminator.operands)
    yielded[late.position] = scaled
    sums = _late_sums(loop, terms)
    for position, total in sums.items():
        own = body.args[1 + position]
        _read_instead(own, b.op("gpu.sum_rows", (left, own), (own.type,), dict(total.attrs)))
        yielded[position] = total.operands[1]
    body.terminator.set_operands([*yielded, terms, counter])
    whole = carry_more(loop, inits)
    _finish(whole, late, sums, number)
    _round_behind(terms, made.result)


def _late_sums(loop: Op, terms: Value) -> dict[int, Op]:
    """Sums of the rows of terms, by the position at which the loop carries them."""
    yielded = [value.defining_op for value in loop.body.terminator.operands]
    return {i: op for i, op in enumerate(yielded) if op and op.name == "gpu.sum_rows" and op.operands[0] is terms}


def _read_instead(value: Value, made: Op) -> None:
    """All that reads a value reads what was made of it."""
    for user, position in list(value.uses):
        if user is not made:
            user.set_operand(position, made.result)


def _round_behind(terms: Value, product: Value) -> None:
    """Rounds the terms of a round when the product of the round before is complete: it still reads those of its own, in
    the registers that these will have."""
    made, block = terms.defining_op, terms.owner.parent if isinstance(terms.owner, Op) else None
    if made is None or block is None or made.name != "gpu.map" or fragment(terms).dtype.bytes != 2:
        return
    readers = [block.place(user) for user, _ in product.uses if user.parent is block]
    behind = max(readers, default=0) + 1
    if behind <= block.place(made) or any(block.place(user) < behind for user, _ in terms.uses if user.parent is block):
        return
    ty = fragment(terms)
    wide = replace(ty, dtype=scalar_of(ty).dtype, policy=NO_POLICY)
    b = Builder.before(made)
    attrs = made.attrs | {"narrow": ty.dtype}
    body = clone_op(made, {}).regions
    exact = b.op("gpu.map", made.operands, (wide,), attrs, [region.block for region in body], names=(terms.name,))
    rounded = Builder.before(block.ops[behind + 1]).value("gpu.round", (exact.result,), ty, hint=terms.name)
    terms.replace_all_uses(rounded)
    made.erase()


def _finish(whole: Op, late: _Late, sums: dict[int, Op], number: int) -> None:
    """The product of the last round, behind the loop; all that has read the loop's result reads that."""
    result, (terms, place) = whole.results[late.position], whole.results[-2:]
    b = behind(whole)
    _read_instead(result, _product_at(b, late, number, terms, place, result))
    for position, total in sums.items():
        before = whole.results[position]
        _read_instead(before, b.op("gpu.sum_rows", (terms, before), (before.type,), dict(total.attrs)))
        total.erase()
    load = late.dot.operands[1].defining_op
    late.dot.erase()
    assert load is not None
    erase_unread([load.result])


def _product_at(b: Builder, late: _Late, number: int, terms: Value, place: Value, acc: Value) -> Op:
    """The product of the round at `place`."""
    load = late.dot.operands[1].defining_op
    assert load is not None and load.parent is not None and load.parent.parent_op is not None
    mem, *at = load.operands
    there = clone_coordinates(b, tuple(at), load.parent.parent_op, {load.parent.args[0]: place})
    layout = replace(attr(load, "layout", SharedLayout), ones=late.sums)
    staged = b.value("gpu.stage", (mem, *there), load.result.type, load.attrs | {"ring": number, "layout": layout})
    return b.op("gpu.dot", (terms, staged, acc), (acc.type,), dict(late.dot.attrs))
