"""Pass `write_out_products`: a contraction over a few terms in which no operand is used again becomes a map.

    %p = form.view(%x) {view = #window<axis=2, ...>} : tensor<[N, C, L, 3]>
    %y = form.contract(%w, %p) {lhs = [1, 3], rhs = [0, 1, 2, 3], out = [0, 1, 2]} : tensor<[N, C, L]>      becomes
    %y = form.map(slices of %w and %p) { fma(w2, p2, fma(w1, p1, fma(w0, p0, 0))) + 0 }

Enters: a function of forms. Leaves: the same function, in place. Blocks of registers pay where rows meet columns; a
convolution of single channels has one row for each of its columns, and would lay its windows out in memory first. A map
reads them where they lie, in vectors along the last dim. The terms are one chain, as the order of contractions says.
"""

from __future__ import annotations

from itertools import product as places_of

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, attr
from tesserac.ir.forms import Window, compute_type, contract_dims, contracted, indices, tensor_type
from tesserac.ir.passes import FORMS, Pass, function_pass
from tesserac.ir.types import ScalarType
from tesserac.numerics.order import Chain
from tesserac.schedule.forms.short_folds import FEW_RESULTS, SHORT, place_of
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.access import access_through, view_source
from tesserac.types.dims import Dim, product
from tesserac.types.dtype import DType

SHORT_WINDOW = 64
"""Terms that are written out where windows would be laid out in memory instead, and a machine has vectors."""
FEW_ROWS = 4
"""Rows that may each read the columns by themselves."""
NEAR = 2
"""How far apart neighbours may lie that are read as a vector."""


def short_products_pass(machine: Machine) -> Pass:
    """Writes out what is short on one machine."""
    most = SHORT if machine.registers else SHORT_WINDOW

    @function_pass(FORMS, FORMS, "write_out_products")
    def write_out_products(func: Op) -> None:
        for op in [inner for inner in func.walk() if inner.name == "form.contract"]:
            if _is_short(op, most):
                _write_out(op)

    return write_out_products


def _is_short(op: Op, most: int) -> bool:
    order, result, accum = op.attrs.get("order"), tensor_type(op.result), attr(op, "accum", DType)
    count = product([contract_dims(op)[index] for index in contracted(op)]).constant
    if count is None or not 1 < count <= most or not isinstance(order, Chain) or count > order.length:
        return False
    plain = accum.kind == "f" and not result.policy.stochastic_round
    same = all(compute_type(value).dtype == accum for value in (*op.operands, op.result))
    results = product(result.dims).constant
    many = results is None or results >= FEW_RESULTS
    return many and plain and same and any(_is_read_once(op, side) for side in (0, 1))


def _is_read_once(op: Op, side: int) -> bool:
    """Whether windows of one operand meet few rows of the other, and neighbours of the result are neighbours there."""
    own, other, out = indices(op, ("lhs", "rhs")[side]), indices(op, ("rhs", "lhs")[side]), indices(op, "out")
    sizes = contract_dims(op)
    rows = product([sizes[index] for index in other if index in out and index not in own]).constant
    if rows is None or rows > FEW_ROWS or not out or out[-1] not in own or not _has_windows(op.operands[side]):
        return False
    strides = _strides(op.operands[side])
    step = None if strides is None else strides[own.index(out[-1])].constant
    return step is not None and 1 <= step <= NEAR and _strides(op.operands[1 - side]) is not None


def _has_windows(value: Value) -> bool:
    return any(isinstance(view.attrs["view"], Window) for view in view_source(value)[1])


def _strides(value: Value) -> tuple[Dim, ...] | None:
    base, views = view_source(value)
    access = access_through(views, base)
    return None if access is None else access.strides


def _write_out(op: Op) -> None:
    inner, sizes = contracted(op), contract_dims(op)
    places = [dict(zip(inner, at, strict=True)) for at in places_of(*(range(sizes[i].constant or 0) for i in inner))]
    terms = [_term(op, side, place) for place in places for side in (0, 1)]
    block = Block([compute_type(term) for term in terms])
    builder = Builder(block, op.span)
    builder.op("form.yield", (_chain(builder, attr(op, "accum", DType), block.args),))
    attrs = {"maps": (_dim_map(op, 0), _dim_map(op, 1)) * len(places)}
    written = Builder.before(op).op("form.map", terms, (op.result.type,), attrs, (block,), (op.result.name,))
    op.result.replace_all_uses(written.result)
    op.erase()


def _term(op: Op, side: int, place: dict[int, int]) -> Value:
    own = indices(op, ("lhs", "rhs")[side])
    return place_of(op, op.operands[side], {axis: place[index] for axis, index in enumerate(own) if index in place})


def _dim_map(op: Op, side: int) -> tuple[int | None, ...]:
    out = indices(op, "out")
    return tuple(out.index(index) if index in out else None for index in indices(op, ("lhs", "rhs")[side]))


def _chain(builder: Builder, accum: DType, terms: list[Value]) -> Value:
    """fma(a, b, ...) ascending from +0, and `+ (+0)` at the end."""
    scalar = ScalarType(accum)
    zero = builder.value("scalar.constant", (), scalar, {"value": 0.0})
    total = zero
    for left, right in zip(terms[::2], terms[1::2], strict=True):
        total = builder.value("scalar.fma", (left, right, total), scalar)
    return builder.value("scalar.add", (total, zero), scalar)
