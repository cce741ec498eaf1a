"""Pass `write_out_folds`: a reduction over a few elements becomes a map that reads each of them.

    %w = form.view(%x) {view = #window<axis=1, ...>} : tensor<[M, N, 3]>
    %y = form.reduce(%w) {kind = "sum", axes = [2]} : tensor<[M, N]>      becomes
    %a, %b, %c = slices of %w;  %y = form.map(%a, %b, %c) { (a + c) + b + 0 }

Enters: a function of forms. Leaves: the same function, in place. Rows of a few elements fill no vector; a map runs in
vectors across them, reads windows without writing them out, and is fused as any other. The terms are combined as the
order of the reduction says: lanes fold in halves, absent ones are skipped. Where others read the same elements place by
place, as in a softmax, the rows stay one launch.
"""

from __future__ import annotations

from itertools import product as places_of

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, attr
from tesserac.ir.forms import COMBINE, Slice, Window, compute_type, indices, tensor_type
from tesserac.ir.kernels import KERNEL
from tesserac.ir.passes import FORMS, Pass, function_pass
from tesserac.ir.types import ScalarType, TensorType
from tesserac.numerics.order import Blocks
from tesserac.schedule.costs.cost import body_work
from tesserac.schedule.costs.steps import step_loops
from tesserac.schedule.forms.views import sliced_map
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.access import access_through, view_source
from tesserac.types.dims import ONE, ZERO, Dim, product
from tesserac.types.dtype import DType

SHORT, SHORT_IN_REGISTERS = 16, 8
"""Elements that a map reads one by one; fewer where registers hold blocks of each."""
LITTLE = 8
"""Work of an element that is computed before it is folded."""
FEW_RESULTS, WRITTEN = 2048, 16
"""So few results are there soon in either way: not much is written out for each, since all of it is compiled."""


def short_folds_pass(machine: Machine) -> Pass:
    """Writes out what is short on one machine."""
    most = SHORT_IN_REGISTERS if machine.registers else SHORT

    @function_pass(FORMS, FORMS, "write_out_folds")
    def write_out_folds(func: Op) -> None:
        stepping = _in_steps(func)
        for op in [inner for inner in func.walk() if inner.name == "form.reduce"]:
            alone = op not in stepping and _stands_alone(op.operands[0]) and _is_worth_compiling(op)
            if _is_short(op, most) and (_count(op) == 1 or alone):
                _write_out(op)

    return write_out_folds


def _in_steps(func: Op) -> set[Op]:
    """What stands in loops of tile programs that go step by step: tiles that these carry are in registers, of which
    elements at one place are no memory."""
    kernels = [op for op in func.walk() if op.name == KERNEL]
    return {op for kernel in kernels for loop in step_loops(kernel) for op in loop.walk()}


def _is_short(op: Op, most: int) -> bool:
    order, result, count = op.attrs.get("order"), tensor_type(op.result), _count(op)
    lanes = order.lanes if isinstance(order, Blocks) else most
    plain = compute_type(op.result).dtype == attr(op, "accum", DType) and not result.policy.stochastic_round
    return count is not None and 1 <= count <= min(most, lanes) and plain


def _count(op: Op) -> int | None:
    dims = tensor_type(op.operands[0]).dims
    return product([dims[axis] for axis in indices(op, "axes")]).constant


def _stands_alone(value: Value) -> bool:
    """Whether nobody reads the elements place by place besides, and they can be read from memory or computed here."""
    base, views = view_source(value)
    if access_through(views, base) is None:
        return False
    if any(isinstance(view.attrs["view"], Window) for view in views):
        return True
    if any(len(v.uses) > 1 for v in (base, *(view.result for view in views))):
        return False
    made = base.defining_op
    return made is None or made.name != "form.map" or bool(views) or _is_copied(made)


def _is_copied(made: Op) -> bool:
    """Whether a map is little enough to be computed for each place by itself."""
    return body_work(made) <= LITTLE and not any(op.name == "scalar.index" for op in made.body.ops)


def _is_worth_compiling(op: Op) -> bool:
    """Whether there are many results, or each is little code."""
    results, made = product(tensor_type(op.result).dims).constant, op.operands[0].defining_op
    work = body_work(made) if made is not None and made.name == "form.map" else 0
    return results is None or results >= FEW_RESULTS or (_count(op) or 0) * (1 + work) <= WRITTEN


def _write_out(op: Op) -> None:
    axes, result = indices(op, "axes"), tensor_type(op.result)
    sizes = [tensor_type(op.operands[0]).dims[axis].constant or 0 for axis in axes]
    source = op.operands[0]
    terms = [place_of(op, source, dict(zip(axes, at, strict=True))) for at in places_of(*map(range, sizes))]
    kept = [axis for axis in range(tensor_type(op.operands[0]).rank) if axis not in axes]
    dim_map = tuple(kept.index(axis) if axis in kept else None for axis in range(len(kept) + len(axes)))
    block = Block([compute_type(term) for term in terms])
    inner = Builder(block, op.span)
    inner.op("form.yield", (_combined(inner, op, [_in_accum(inner, op, arg) for arg in block.args]),))
    attrs = {"maps": (dim_map,) * len(terms)}
    written = Builder.before(op).op("form.map", terms, (result,), attrs, (block,), (op.result.name,))
    op.result.replace_all_uses(written.result)
    op.erase()


def place_of(op: Op, value: Value, place: dict[int, int]) -> Value:
    """The elements of an operand at one place of some of its axes, for a form before `op`. A map that they come from is
    one for each place, so that it goes into its reader."""
    builder = Builder.before(op)
    ty, made = tensor_type(value), value.defining_op
    dims = tuple(ONE if axis in place else dim for axis, dim in enumerate(ty.dims))
    starts = tuple(Dim.const(place[axis]) if axis in place else ZERO for axis in range(ty.rank))
    cut = Slice(starts, (1,) * ty.rank)
    view = builder.op("form.view", (value,), (TensorType(dims, ty.dtype, ty.policy),), {"view": cut})
    own = sliced_map(view, made, cut) if made is not None and made.name == "form.map" else None
    if own is None:
        return view.result
    view.erase()
    return own.result


def _in_accum(inner: Builder, op: Op, value: Value) -> Value:
    accum = attr(op, "accum", DType)
    if value.type == ScalarType(accum):
        return value
    return inner.value("scalar.cast", (value,), ScalarType(accum), {"dtype": accum})


def _combined(inner: Builder, op: Op, lanes: list[Value]) -> Value:
    """Lanes fold in halves, 32, 16, ..., 1 apart; a sum ends with `+ (+0)`."""
    kind, half = attr(op, "kind", str), (1 << (len(lanes) - 1).bit_length()) // 2
    while half:
        pairs = zip(lanes[:half], lanes[half:], strict=False)
        lanes = [*(inner.value(COMBINE[kind], pair, pair[0].type) for pair in pairs), *lanes[len(lanes) - half : half]]
        half //= 2
    [total] = lanes
    if kind != "sum":
        return total
    zero = inner.value("scalar.constant", (), total.type, {"value": 0.0 if attr(op, "accum", DType).kind == "f" else 0})
    return inner.value("scalar.add", (total, zero), total.type)
