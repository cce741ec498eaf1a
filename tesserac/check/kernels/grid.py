"""The grid of a kernel: calls of its program, one for every index of the leading dims and every block that is meant.

Enters: a program and the parameters of the kernel. Leaves: statements that run it, and the result put together. Blocks
that the result does not depend on span their dims. Of those that it does, all but the last are whole: a loop over them,
and one of at most one iteration for what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.instances.binding import substitute_type
from tesserac.check.instances.conform import conform, expected_storage
from tesserac.check.model import typed
from tesserac.check.model.kernel_state import TILE_RANK, Kernel
from tesserac.check.model.specs import Signature, TensorSpec, TupleSpec, TypeSpec
from tesserac.check.operators.apply import apply_operator
from tesserac.check.state.body import Body, is_static
from tesserac.check.values.tuples import make_tuple, rebuilt, tuple_items
from tesserac.ops.convert import Cast
from tesserac.ops.create import Zeros
from tesserac.ops.shape import Expand, Reshape, Slice
from tesserac.ops.update import Insert
from tesserac.types.blocks import block_parts
from tesserac.types.dims import ONE, ZERO, Dim, product
from tesserac.types.stretching import stretches
from tesserac.types.ty import Aggregate, IntType, TensorType, TupleType, Type


@dataclass(frozen=True)
class Grid:
    """Statements that run a kernel, and its result after them."""

    block: typed.Block
    result: typed.Expr


def grid(
    types: Sequence[Type], signature: Signature, kernel: Kernel, program: typed.TypedFunction, leading: tuple[Dim, ...]
) -> Grid:
    """All programs of a kernel, in order."""
    own = [block for block in kernel.cuts if block in kernel.own and block in kernel.meant]
    index = _free_name("program", program.symbols)
    span, lead = program.span, Dim.sym(index) if leading else None
    whole, params = whole_parameters(signature), zip(signature.parameters, types, strict=True)
    given = [typed.Local(type_, span, parameter.name) for parameter, type_ in params]
    args = tuple(value if value.name in whole else _part(value, lead, leading, span) for value in given)
    reads = tuple(param.name for param in program.reads)
    call = typed.Call(program.result, span, program.symbol, args, (), reads)
    if lead is None and not own:
        return Grid((), _with_sizes(call, program.symbols, _spanning(kernel)))
    return _Programs(kernel, program, call, index, leading).run(own)


def whole_parameters(signature: Signature) -> set[str]:
    """The parameters that every program sees as they are: those that are said to be tensors, and no tiles, of more dims
    than a tile has. A program reads any matrix of one, `w[e]`."""
    return {
        parameter.name
        for parameter in signature.parameters
        if isinstance(parameter.spec, TensorSpec)
        and not parameter.spec.is_tile
        and not parameter.spec.leading
        and len(parameter.spec.dims) > TILE_RANK
    }


def _spanning(kernel: Kernel) -> dict[str, Dim]:
    """The sizes of blocks: where the kernel means them, loops over them say what they are."""
    return kernel.sizes() | {block.symbol or "": block for block in kernel.meant}


def _with_sizes(call: typed.Call, symbols: Sequence[str], sizes: dict[str, Dim]) -> typed.Call:
    dims = tuple((name, sizes.get(name, Dim.sym(name))) for name in symbols)
    return replace(call, type=substitute_type(call.type, sizes), dims=dims)


def _free_name(name: str, taken: Sequence[str]) -> str:
    return name if name not in taken else _free_name(f"{name}_", taken)


def _part(value: typed.Expr, index: Dim | None, leading: tuple[Dim, ...], span: Span) -> typed.Expr:
    """What one program sees of an argument."""
    type_ = value.type
    if is_static(type_):
        return typed.Static(type_, span)
    if isinstance(type_, Aggregate):
        return rebuilt(value, [_part(item, index, leading, span) for item in tuple_items(value, span)])
    if not isinstance(type_, TensorType) or type_.rank <= TILE_RANK or index is None:
        return value
    own, tile = type_.dims[:-TILE_RANK], type_.dims[-TILE_RANK:]
    if product(own) != product(leading) and stretches(own, leading):
        own, whole = leading, (*leading, *tile)
        value = typed.Apply(replace(type_, dims=whole), span, Expand(whole), (value,))
    flat = reshaped(value, (product(own), *tile), span)
    box = typed.Apply(
        replace(type_, dims=(ONE, *tile)), span, Slice((index, ZERO, ZERO), (ONE, *tile), (1, 1, 1)), (flat,)
    )
    return reshaped(box, tile, span)


def reshaped(value: typed.Expr, dims: tuple[Dim, ...], span: Span) -> typed.Expr:
    assert isinstance(value.type, TensorType)
    if value.type.dims == dims:
        return value
    return typed.Apply(replace(value.type, dims=dims), span, Reshape(dims), (value,))


class _Programs:
    """Loops over programs, whose tiles are put in their places."""

    def __init__(
        self, kernel: Kernel, program: typed.TypedFunction, call: typed.Call, index: str, leading: tuple[Dim, ...]
    ) -> None:
        self._kernel, self._program, self._call = kernel, program, call
        self._index, self._leading, self._span = index, leading, program.span
        result = program.result
        self._tiles = result.items if isinstance(result, TupleType) else (result,)
        first = (product(leading),) if leading else ()
        self._outs = [
            typed.Local(replace(tile, dims=(*first, *tile.dims)), self._span, f"out${position}")
            for position, tile in enumerate(substitute_type(tile, kernel.sizes()) for tile in self._tiles)
            if isinstance(tile, TensorType)
        ]

    def run(self, own: Sequence[Dim]) -> Grid:
        span, several = self._span, isinstance(self._program.result, TupleType)
        begun = [typed.Bind(span, out.name, self._zeros(out)) for out in self._outs]
        loops = self._over(list(own), _spanning(self._kernel), {})
        if self._leading:
            loops = (self._loop(self._index, ZERO, product(self._leading), loops),)
        rest = 1 if self._leading else 0
        results = [reshaped(out, (*self._leading, *_dims(out)[rest:]), span) for out in self._outs]
        return Grid((*begun, *loops), make_tuple(results, span) if several else results[0])

    def _zeros(self, out: typed.Local) -> typed.Expr:
        assert isinstance(out.type, TensorType)
        return typed.Apply(out.type, self._span, Zeros(out.type.dims, out.type.dtype, out.type.policy), ())

    def _loop(self, index: str, start: Dim, stop: Dim, block: typed.Block) -> typed.For:
        bounds = [typed.Static(IntType(bound), self._span) for bound in (start, stop)]
        carried = tuple(typed.Carried(out.name, out.type) for out in self._outs)
        return typed.For(self._span, index, bounds[0], bounds[1], 1, block, carried)

    def _over(self, own: list[Dim], sizes: dict[str, Dim], starts: dict[Dim, Dim]) -> typed.Block:
        """All blocks of dims that the kernel means: those that are whole, and the rest."""
        if not own:
            return self._iteration(sizes, starts)
        block, over = own[0], self._kernel.cuts[own[0]].size
        loops = []
        for part, (first, last, size) in enumerate(block_parts(over, self._kernel.meant[block])):
            name = _free_name(f"{self._kernel.number(block)}_{part}{len(starts)}", self._program.symbols)
            inner = sizes | {block.symbol or "": size, self._kernel.number(block): Dim.sym(name)}
            begins = starts | {block: Dim.sym(name) * self._kernel.meant[block]}
            loops.append(self._loop(name, first, last, self._over(own[1:], inner, begins)))
        return tuple(loops)

    def _iteration(self, sizes: dict[str, Dim], starts: dict[Dim, Dim]) -> typed.Block:
        call = _with_sizes(self._call, self._program.symbols, sizes)
        made = typed.Local(call.type, self._span, "tiles$")
        block: list[typed.Stmt] = [typed.Bind(self._span, made.name, call)]
        several = isinstance(call.type, TupleType)
        for position, (out, tile) in enumerate(zip(self._outs, self._tiles, strict=True)):
            assert isinstance(tile, TensorType)
            type_ = substitute_type(tile, sizes)
            value = typed.Item(type_, self._span, made, position) if several else made
            places = [starts.get(dim, ZERO) for dim in tile.dims]
            block.append(typed.Bind(self._span, out.name, self._put(out, value, places)))
        return tuple(block)

    def _put(self, out: typed.Local, tile: typed.Expr, places: Sequence[Dim]) -> typed.Expr:
        if self._leading:
            tile, places = reshaped(tile, (ONE, *_dims(tile)), self._span), [Dim.sym(self._index), *places]
        insert = Insert(tuple(places), (1,) * len(places))
        return typed.Apply(out.type, self._span, insert, (out, tile))


def _dims(value: typed.Expr) -> tuple[Dim, ...]:
    assert isinstance(value.type, TensorType)
    return value.type.dims


def declared(body: Body, spec: TypeSpec | None, value: typed.Expr) -> typed.Expr:
    """The result as the signature says: a kernel stores in the declared dtype, which rounds once."""
    return value if spec is None else conform(body, spec, _rounded(body, spec, value))


def _rounded(body: Body, spec: TypeSpec, value: typed.Expr) -> typed.Expr:
    """Each tensor of the result in the dtype that its own place of the signature says."""
    if isinstance(spec, TupleSpec) and isinstance(value.type, TupleType) and len(spec.items) == len(value.type.items):
        items = zip(spec.items, tuple_items(value, value.span), strict=True)
        return make_tuple([_rounded(body, own, item) for own, item in items], value.span)
    storage = expected_storage(body, spec) if isinstance(spec, TensorSpec) else None
    if storage is None or not isinstance(value.type, TensorType):
        return value
    return apply_operator(body, Cast(storage.dtype, storage.policy), [value], value.span, value.span)
