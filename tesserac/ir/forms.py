"""The structural forms: everything that Schedule, Tile and Target know of tensor computation.

Names of operators stop at the Graph; `generalize` rewrites each into these. Forms have value semantics over tensors.

    form.map(x...) {maps} { ^(a, ...): ... form.yield(r) }
        One scalar computation at every point of the result. `maps[i][j]` is the result dim that dim j of operand i
        follows, or none where that dim is the literal 1 and stretches. The body computes in the accumulation types;
        the result is rounded once to its element type under its policy.
    form.reduce(x) {kind, axes, order, accum}
        Folds the axes, dropping them, in the canonical order.
    form.contract(a, b) {lhs, rhs, out, order, accum}
        Sums products over the indices that `out` lacks; the tuples name dims of one iteration space, as in einsum.
    form.accumulate(x, parts) {down}
        x, and all that `parts` has along its first dim, added one after the other, from the last part `down` or up.
        Schedule makes it of a loop; the Graph has none.
    form.scan(x) {kind, axis, order, accum}
        Running folds along an axis: ascending inside a block of the order, behind the tree over the blocks before it.
    form.view(x) {view}
        The same elements under another indexing.
    form.empty()
        Memory that a loop begins with and writes before it is read; zeros, where anything else reads it.
    form.loop(low, high, init...) { ^(i, carried...): ... form.yield }
    form.while(init...) { ^(carried...): ... form.yield(go_on) } { ^(carried...): ... form.yield }
    form.cond(flag) { ^(): ... form.yield } { ^(): ... form.yield }
        Structured control flow; every region sees the values around it. A `sized` branch may do what its sizes allow
        only where it is taken: it is not computed anywhere else.
"""

from __future__ import annotations

from dataclasses import field
from functools import cache

from tesserac.base.dataclass import dataclass
from tesserac.base.source import NO_SPAN, Span
from tesserac.ir.attributes import register_attribute
from tesserac.ir.core import Attr, Block, Op, Value, attr, attr_tuple, define_op, optional_ints
from tesserac.ir.types import IndexType, ScalarType, TensorType
from tesserac.ir.verify import require
from tesserac.numerics.order import Blocks, Chain, Free
from tesserac.types.dims import Dim
from tesserac.types.dtype import BOOL, DType
from tesserac.types.policy import NO_POLICY, compute_dtype

REDUCE_KINDS = ("sum", "prod", "max", "min")
ORDERED_KINDS = ("sum", "prod")
"""Kinds whose result depends on the order of folding, hence carry one."""
COMBINE = {"sum": "scalar.add", "prod": "scalar.mul", "max": "scalar.max", "min": "scalar.min"}
"""What makes one of two partial results."""

SIZED = "sized"

register_attribute("chain", Chain)
register_attribute("blocks", Blocks)
register_attribute("free", Free)


@dataclass(frozen=True)
class Guard:
    """What must hold of sizes. `kind` is equal, divides (left, at least 1, divides right), at_least, or in_range (left
    is a position in a dim of size right). `code` is the expression that needs it, which stands at `span`."""

    kind: str
    left: Dim
    right: Dim
    text: str
    code: str = field(default="", compare=False)
    span: Span = field(default=NO_SPAN, compare=False)

    def holds(self, left: int, right: int) -> bool:
        """Whether it does, for these values of both sides."""
        if self.kind == "equal":
            return left == right
        if self.kind == "divides":
            return left > 0 and right % left == 0
        return 0 <= left < right if self.kind == "in_range" else left >= right


@dataclass(frozen=True)
class Permute:
    """Result dim i is operand dim `order[i]`."""

    order: tuple[int, ...]


@dataclass(frozen=True)
class Reshape:
    """Splits and merges neighbours; row-major order of elements is kept."""


@dataclass(frozen=True)
class Renamed(Reshape):
    """The same dims under other names: sizes that a fact of the function, checked on entry, makes equal."""


@dataclass(frozen=True)
class Broadcast:
    """Operand dim i is result dim `dims[i]`, or none where it is the literal 1 and goes away or stretches."""

    dims: tuple[int | None, ...]


@dataclass(frozen=True)
class Slice:
    """Element i of result dim d is element `starts[d] + i * steps[d]` of the operand."""

    starts: tuple[Dim, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """Element [..., i, ..., j] of the result is element `i * stride + j * dilation` along `axis` of the operand: i
    stands at the axis and counts windows, j is the last dim and walks inside one."""

    axis: int
    stride: int
    dilation: int


register_attribute("guard", Guard)
register_attribute("permute", Permute)
register_attribute("reshape", Reshape)
register_attribute("renamed", Renamed)
register_attribute("broadcast", Broadcast)
register_attribute("slice", Slice)
register_attribute("window", Window)

VIEWS = (Permute, Reshape, Broadcast, Slice, Window)


def tensor_type(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType), f"expected a tensor, not {value.type}"
    return value.type


def permuted(value: Value) -> tuple[Value, tuple[int, ...]]:
    """What a value is a permuted view of, through any number of them, and which dim of that each of its dims is."""
    order = tuple(range(tensor_type(value).rank))
    while (made := value.defining_op) is not None and isinstance(view := made.attrs.get("view"), Permute):
        order, value = tuple(view.order[place] for place in order), made.operands[0]
    return value, order


def compute_type(value: Value) -> ScalarType:
    """The type in which elements of a tensor take part in computation."""
    ty = tensor_type(value)
    return ScalarType(compute_dtype(ty.dtype, ty.policy))


def indices(op: Op, name: str) -> tuple[int, ...]:
    """An attribute that is a tuple of ints."""
    return attr_tuple(op, name, int)


def operand_maps(op: Op) -> tuple[tuple[int | None, ...], ...]:
    """The `maps` of a form.map, or of the indices of a form.gather."""
    return _dim_maps(attr(op, "maps", tuple))


@cache
def _dim_maps(value: tuple[Attr, ...]) -> tuple[tuple[int | None, ...], ...]:
    """Checked once: programs have few different ones, and ask for them all the time."""
    return tuple(map(optional_ints, value))


def _tensors_only(op: Op) -> None:
    values = (*op.operands, *op.results)
    require(all(isinstance(v.type, TensorType) for v in values), "works on tensors", op)


def _verify_map(op: Op) -> None:
    _tensors_only(op)
    result, maps = tensor_type(op.result), operand_maps(op)
    require(len(maps) == len(op.operands), "needs one index map per operand", op)
    for value, dim_map in zip(op.operands, maps, strict=True):
        verify_dim_map(op, tensor_type(value), dim_map, result)
    expected = [compute_type(v) for v in op.operands]
    require([a.type for a in op.body.args] == expected, "its body must take {}", op, expected)
    (yielded,) = op.body.terminator.operands
    wanted = compute_type(op.result)
    require(yielded.type == wanted, "its body must yield {}", op, wanted)


def verify_dim_map(op: Op, operand: TensorType, dim_map: tuple[int | None, ...], result: TensorType) -> None:
    """Each dim of an operand is a dim of the result, or a 1 that stretches."""
    require(len(dim_map) == len(operand.dims), "an index map has another rank than its operand", op)
    for dim, place in zip(operand.dims, dim_map, strict=True):
        if place is None:
            require(dim == Dim.const(1), "dim {} stretches but is not 1", op, dim)
        else:
            require(result.dims[place] == dim, "dim {} meets {}", op, dim, result.dims[place])


def _verify_accum(op: Op) -> DType:
    accum = op.attrs.get("accum")
    require(isinstance(accum, DType), "needs an accumulation type", op)
    assert isinstance(accum, DType)
    result = tensor_type(op.result)
    hands_on = (result.dtype, result.policy) == (accum, NO_POLICY)
    for value in op.operands:
        ty = tensor_type(value)
        if ty.dtype.kind in "fc":
            expected = compute_dtype(ty.dtype, ty.policy)
            require(accum == expected, "accumulates in {}; the policy says {}", op, accum.name, expected.name)
        require(hands_on or ty.policy == result.policy, "loses the policy{} of its operand", op, ty.policy)
    return accum


def _verify_reduce(op: Op) -> None:
    _tensors_only(op)
    _verify_accum(op)
    kind, axes = op.attrs.get("kind"), indices(op, "axes")
    require(kind in REDUCE_KINDS, "unknown kind {}", op, kind)
    if kind in ORDERED_KINDS:
        require(isinstance(op.attrs.get("order"), Blocks | Free), "needs an order of blocks", op)
    dims = tensor_type(op.operands[0]).dims
    kept = tuple(d for i, d in enumerate(dims) if i not in axes)
    require(all(0 <= a < len(dims) for a in axes) and len(set(axes)) == len(axes), "bad axes", op)
    require(tensor_type(op.result).dims == kept, "its result must have dims {}", op, kept)


def _verify_scan(op: Op) -> None:
    _tensors_only(op)
    _verify_accum(op)
    dims, axis = tensor_type(op.operands[0]).dims, op.attrs.get("axis")
    require(op.attrs.get("kind") in REDUCE_KINDS, "unknown kind {}", op, op.attrs.get("kind"))
    require(isinstance(op.attrs.get("order"), Blocks | Free), "needs an order of blocks", op)
    require(isinstance(axis, int) and 0 <= axis < len(dims), "bad axis", op)
    require(tensor_type(op.result).dims == dims, "its result must have dims {}", op, dims)


def contract_dims(op: Op) -> dict[int, Dim]:
    """The size of each index of a contraction's iteration space."""
    sizes: dict[int, Dim] = {}
    for value, name in zip(op.operands, ("lhs", "rhs"), strict=True):
        for place, dim in zip(indices(op, name), tensor_type(value).dims, strict=True):
            require(sizes.setdefault(place, dim) == dim, "index {} is {} and {}", op, place, sizes[place], dim)
    return sizes


def _verify_contract(op: Op) -> None:
    _tensors_only(op)
    _verify_accum(op)
    require(isinstance(op.attrs.get("order"), Chain | Free), "needs a chain order", op)
    sizes = contract_dims(op)
    out = indices(op, "out")
    require(set(out) <= set(sizes), "an output index is in no operand", op)
    expected = tuple(sizes[i] for i in out)
    require(tensor_type(op.result).dims == expected, "its result must have dims {}", op, expected)


def contracted(op: Op) -> tuple[int, ...]:
    """The summed indices, in the left operand's order."""
    out = indices(op, "out")
    return tuple(i for i in indices(op, "lhs") if i not in out)


def _verify_view(op: Op) -> None:
    _tensors_only(op)
    view = op.attrs.get("view")
    source, result = tensor_type(op.operands[0]), tensor_type(op.result)
    require(isinstance(view, VIEWS), "needs a view", op)
    same = source.dtype == result.dtype and source.policy == result.policy
    require(same, "changes the element type or policy", op)
    if isinstance(view, Permute):
        require(sorted(view.order) == list(range(len(source.dims))), "bad permutation", op)
        require(result.dims == tuple(source.dims[i] for i in view.order), "dims are not permuted", op)
    elif isinstance(view, Renamed):
        require(len(source.dims) == len(result.dims), "other names are as many", op)
    elif isinstance(view, Reshape):
        require(_size(source) == _size(result), "changes the number of elements", op)
    elif isinstance(view, Broadcast):
        verify_dim_map(op, source, view.dims, result)
    elif isinstance(view, Slice):
        require(len(view.starts) == len(view.steps) == len(source.dims), "bad slice", op)
    elif isinstance(view, Window):
        _verify_window(op, view, source.dims, result.dims)


def _verify_window(op: Op, view: Window, source: tuple[Dim, ...], result: tuple[Dim, ...]) -> None:
    require(0 <= view.axis < len(source) and view.stride > 0 and view.dilation > 0, "bad window", op)
    require(len(result) == len(source) + 1, "a window adds one dim", op)
    kept = all(axis == view.axis or dim == result[axis] for axis, dim in enumerate(source))
    require(kept, "a window changes only the dim it is cut from", op)


def _size(ty: TensorType) -> Dim:
    size = Dim.const(1)
    for dim in ty.dims:
        size = size * dim
    return size


def _carried(op: Op, block: Block, skip: int, inits: tuple[Value, ...]) -> None:
    types = [v.type for v in inits]
    require([a.type for a in block.args[skip:]] == types, "its body must take the carried values", op)
    require([v.type for v in op.results] == types, "gives what it carries", op)


def _yields(op: Op, block: Block, types: list[object]) -> None:
    require([v.type for v in block.terminator.operands] == types, "a region must yield {}", op, types)


def _verify_accumulate(op: Op) -> None:
    _tensors_only(op)
    require(len(op.operands) == 2 and isinstance(op.attrs.get("down"), bool), "adds parts, down or up", op)
    start, parts = (tensor_type(v) for v in op.operands)
    require(op.result.type == start, "has the type of what it begins with", op)
    same = parts.dims[1:] == start.dims and (parts.dtype, parts.policy) == (start.dtype, start.policy)
    require(same and parts.rank == start.rank + 1, "adds parts of its own type", op)


def _verify_loop(op: Op) -> None:
    bounds, inits = op.operands[:2], op.operands[2:]
    require(all(isinstance(v.type, IndexType) for v in bounds), "bounds are indices", op)
    require(isinstance(op.body.args[0].type, IndexType), "its body takes a counter first", op)
    _carried(op, op.body, 1, inits)
    _yields(op, op.body, [v.type for v in inits])


def _is_flag(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.dims == () and value.type.dtype == BOOL


def _verify_while(op: Op) -> None:
    test, body = (r.block for r in op.regions)
    _carried(op, test, 0, op.operands)
    _carried(op, body, 0, op.operands)
    flags = test.terminator.operands
    require(len(flags) == 1 and _is_flag(flags[0]), "its test must yield one bool", op)
    _yields(op, body, [v.type for v in op.operands])


def _verify_cond(op: Op) -> None:
    require(len(op.operands) == 1 and _is_flag(op.operands[0]), "takes one bool", op)
    for region in op.regions:
        _yields(op, region.block, [v.type for v in op.results])


define_op("form.map", pure=True, verify=_verify_map)
define_op("form.reduce", pure=True, verify=_verify_reduce)
define_op("form.scan", pure=True, verify=_verify_scan)
define_op("form.contract", pure=True, verify=_verify_contract)
define_op("form.accumulate", pure=True, verify=_verify_accumulate)
define_op("form.view", pure=True, verify=_verify_view)
define_op("form.empty", pure=True, verify=_tensors_only)
define_op("form.loop", pure=True, verify=_verify_loop)
define_op("form.while", pure=True, verify=_verify_while)
define_op("form.cond", pure=True, verify=_verify_cond)
define_op("form.yield", pure=True, terminator=True)
