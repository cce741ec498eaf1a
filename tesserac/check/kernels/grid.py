"""The grid of a kernel: calls of its program, one for every index of the leading dims.

Enters: a program and the parameters of the kernel. Leaves: statements that run it, and the result put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.instances.binding import substitute_type
from tesserac.check.instances.conform import conform, expected_storage
from tesserac.check.model import typed
from tesserac.check.model.kernel_state import TILE_RANK
from tesserac.check.model.specs import Signature, TensorSpec, TypeSpec
from tesserac.check.operators.apply import apply_operator
from tesserac.check.state.body import Body, is_static
from tesserac.check.values.tuples import make_tuple, rebuilt, tuple_items
from tesserac.ops.convert import Cast
from tesserac.ops.create import Zeros
from tesserac.ops.shape import Reshape, Slice
from tesserac.ops.update import Insert
from tesserac.types.dims import ONE, ZERO, Dim, product
from tesserac.types.ty import Aggregate, IntType, TensorType, TupleType, Type


@dataclass(frozen=True)
class Grid:
    """Statements that run a kernel, and its result after them."""

    block: typed.Block
    result: typed.Expr


def grid(
    types: Sequence[Type],
    signature: Signature,
    sizes: dict[str, Dim],
    program: typed.TypedFunction,
    leading: tuple[Dim, ...],
) -> Grid:
    """`sizes` are those of the blocks."""
    index = _free_name("program", program.symbols)
    span = program.span
    own = Dim.sym(index) if leading else None
    params = zip(signature.parameters, types, strict=True)
    args = [_part(typed.Local(type_, span, p.name), own, span) for p, type_ in params]
    dims = tuple((name, sizes.get(name, Dim.sym(name))) for name in program.symbols)
    reads = tuple(param.name for param in program.reads)
    result = substitute_type(program.result, sizes)
    call = typed.Call(result, span, program.symbol, tuple(args), dims, reads)
    return Grid((), call) if own is None else _loop(call, index, leading, span)


def _free_name(name: str, taken: Sequence[str]) -> str:
    return name if name not in taken else _free_name(f"{name}_", taken)


def _part(value: typed.Expr, index: Dim | None, span: Span) -> typed.Expr:
    """What one program sees of an argument."""
    type_ = value.type
    if is_static(type_):
        return typed.Static(type_, span)
    if isinstance(type_, Aggregate):
        return rebuilt(value, [_part(item, index, span) for item in tuple_items(value, span)])
    if not isinstance(type_, TensorType) or type_.rank <= TILE_RANK or index is None:
        return value
    tile = type_.dims[-TILE_RANK:]
    flat = reshaped(value, (product(type_.dims[:-TILE_RANK]), *tile), span)
    box = typed.Apply(
        replace(type_, dims=(ONE, *tile)), span, Slice((index, ZERO, ZERO), (ONE, *tile), (1, 1, 1)), (flat,)
    )
    return reshaped(box, tile, span)


def reshaped(value: typed.Expr, dims: tuple[Dim, ...], span: Span) -> typed.Expr:
    assert isinstance(value.type, TensorType)
    if value.type.dims == dims:
        return value
    return typed.Apply(replace(value.type, dims=dims), span, Reshape(dims), (value,))


def _loop(call: typed.Call, index: str, leading: tuple[Dim, ...], span: Span) -> Grid:
    """The tiles of all programs, each put in its place."""
    several = isinstance(call.type, TupleType)
    tiles = call.type.items if isinstance(call.type, TupleType) else (call.type,)
    made = typed.Local(call.type, span, "tiles$")
    start: list[typed.Stmt] = []
    iteration: list[typed.Stmt] = [typed.Bind(span, made.name, call)]
    outs: list[typed.Local] = []
    for position, tile in enumerate(tiles):
        assert isinstance(tile, TensorType)
        whole = replace(tile, dims=(product(leading), *tile.dims))
        out = typed.Local(whole, span, f"out${position}")
        value = typed.Item(tile, span, made, position) if several else made
        zeros = typed.Apply(whole, span, Zeros(whole.dims, whole.dtype, whole.policy), ())
        start.append(typed.Bind(span, out.name, zeros))
        iteration.append(typed.Bind(span, out.name, _put(out, value, Dim.sym(index), span)))
        outs.append(out)
    bounds = [typed.Static(IntType(bound), span) for bound in (ZERO, product(leading))]
    carried = tuple(typed.Carried(out.name, out.type) for out in outs)
    loop = typed.For(span, index, bounds[0], bounds[1], 1, tuple(iteration), carried)
    results = [reshaped(out, (*leading, *_dims(out)[1:]), span) for out in outs]
    return Grid((*start, loop), make_tuple(results, span) if several else results[0])


def _put(out: typed.Local, tile: typed.Expr, index: Dim, span: Span) -> typed.Expr:
    dims = _dims(tile)
    row = reshaped(tile, (ONE, *dims), span)
    insert = Insert((index, *(ZERO for _ in dims)), (1,) * (len(dims) + 1))
    return typed.Apply(out.type, span, insert, (out, row))


def _dims(value: typed.Expr) -> tuple[Dim, ...]:
    assert isinstance(value.type, TensorType)
    return value.type.dims


def declared(body: Body, spec: TypeSpec | None, value: typed.Expr) -> typed.Expr:
    """The result as the signature says: a kernel stores in the declared dtype, which rounds once."""
    if spec is None:
        return value
    storage = expected_storage(body, spec) if isinstance(spec, TensorSpec) else None
    if storage is not None and isinstance(value.type, TensorType):
        value = apply_operator(body, Cast(storage.dtype, storage.policy), [value], value.span, value.span)
    return conform(body, spec, value)
