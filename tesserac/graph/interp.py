"""The bit oracle: runs functions of structural forms on NumPy arrays, in the canonical orders of `numerics/`.

Enters: a module whose functions are `func.func` over forms, a function's name, and one array per argument in the NumPy
form of its dtype. Leaves: one array per result. Sizes of symbols come from the shapes of the arguments; guards are
checked first. Speed is not its purpose, but every form is vectorised, so whole test programs run in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod

import numpy as np

from tesserac.graph.interp_complex import complex_from, parts_of
from tesserac.graph.interp_indexed import INDEXED_FORMS, BadIndex, follow
from tesserac.graph.interp_scalar import InterpreterError, Space, evaluate_bodies, evaluate_body, store
from tesserac.ir import forms, func
from tesserac.ir.calls import INVOKE, call_dims, callee_of
from tesserac.ir.core import Block, Module, Op, Value, attr
from tesserac.ir.forms import Broadcast, Guard, Permute, Reshape, Slice, Window, tensor_type
from tesserac.ir.kernels import (
    KERNEL,
    PINNED,
    block_loop,
    kernel_blocks,
    kernel_numbers,
    kernel_own,
    kernel_pinned,
    kernel_programs,
    kernel_repeats,
    kernel_split,
)
from tesserac.ir.lines import LINES, line_places, lines_body, lines_out, lines_space
from tesserac.ir.table import table_of
from tesserac.ir.types import TensorType
from tesserac.numerics.exact import Array
from tesserac.numerics.narrow import convert, round_to_tf32, storage
from tesserac.numerics.order import Order, block_prod, block_scan, block_sum, chain_contract, fold_max, fold_min
from tesserac.ops.registry import numpy_dtype
from tesserac.types.dims import Dim, DimError
from tesserac.types.dtype import TF32, DType

__all__ = ["AssertionFailed", "Frame", "InterpreterError", "bind_sizes", "run_function"]

Sizes = Mapping[str, int]
MOST_BYTES = 2**47
"""What no memory holds."""


def run_function(module: Module, name: str, args: Sequence[Array]) -> tuple[Array, ...]:
    """Calls function `name` on arrays; results are new arrays."""
    function = module.lookup(name)
    values = function.body.args
    if len(args) != len(values):
        raise InterpreterError(f"@{name} takes {len(values)} arguments, not {len(args)}")
    arrays = [_accept(value, arg) for value, arg in zip(values, args, strict=True)]
    sizes = bind_sizes([tensor_type(v).dims for v in values], [a.shape for a in arrays])
    check_guards(function, sizes)
    results = Frame(sizes, module).run(function.body, arrays)
    return tuple(np.array(r, order="C") for r in results)


def check_guards(function: Op, sizes: Sizes) -> None:
    """Raises InterpreterError where a guard does not hold."""
    for guard in func.guards(function):
        _check(guard, sizes)


def _accept(value: Value, arg: Array) -> Array:
    expected = storage(tensor_type(value).dtype)
    array = np.asarray(arg)
    if array.dtype != expected or array.ndim != tensor_type(value).rank:
        raise InterpreterError(f"{value} is given {array.dtype} of rank {array.ndim}")
    return array


def bind_sizes(dims: Sequence[tuple[Dim, ...]], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The value of every symbol, from a dim that is the symbol or is linear in it once the others are known."""
    pairs = [pair for d, s in zip(dims, shapes, strict=True) for pair in zip(d, s, strict=True)]
    sizes = {dim.symbol: size for dim, size in reversed(pairs) if dim.symbol is not None}
    pending = [(d, s) for d, s in pairs if len(d.symbols() - sizes.keys()) == 1]
    while pending:
        for dim, size in pending:
            _solve(dim, size, sizes)
        pending = [(d, s) for d, s in pairs if len(d.symbols() - sizes.keys()) == 1]
    for dim, size in pairs:
        if dim.symbols() <= sizes.keys() and _size_or_none(dim, sizes) != size:
            raise InterpreterError(f"an argument has {size} where its type says {dim}")
    return sizes


def _solve(dim: Dim, size: int, sizes: dict[str, int]) -> None:
    """Finds the one unknown symbol of `dim`, if it is linear in it."""
    unknown = dim.symbols() - sizes.keys()
    if len(unknown) != 1:
        return
    (name,) = unknown
    known = dim.substitute({symbol: Dim.const(value) for symbol, value in sizes.items()})
    at_zero, at_one = (known.substitute({name: Dim.const(value)}).fraction for value in (0, 1))
    if at_zero is None or at_one is None or at_zero == at_one:
        raise InterpreterError(f"{name} cannot be found from {dim}")
    sizes[name] = int((size - at_zero) / (at_one - at_zero))


def _size_or_none(dim: Dim, sizes: Sizes) -> int | None:
    try:
        return dim.evaluate(sizes)
    except DimError:
        return None


def _check(guard: Guard, sizes: Sizes) -> None:
    left, right = guard.left.evaluate(sizes), guard.right.evaluate(sizes)
    if not guard.holds(left, right):
        raise InterpreterError(f"guard failed: {guard.text} ({left}, {right})")


class AssertionFailed(Exception):
    """An `assert` of the program does not hold."""


class Frame:
    """Values and sizes while a block runs. Regions see the values around them, so there is one table."""

    def __init__(self, sizes: Sizes, module: Module) -> None:
        self._sizes = dict(sizes)
        self._module = module
        self._values: dict[Value, Array] = {}
        self._indices: dict[Value, int] = {}
        self._control: dict[str, Callable[[Op], Sequence[Array]]] = {
            "form.loop": self._loop,
            KERNEL: self._kernel,
            INVOKE: self._call,
            "form.while": self._while,
            "form.cond": self._cond,
            "form.assert": self._assert,
            "form.require": self._require,
            "form.print": lambda op: (),
        }

    def run(self, block: Block, args: Sequence[Array]) -> list[Array]:
        """What the block's terminator gives."""
        offset = len(block.args) - len(args)
        self._values.update(zip(block.args[offset:], args, strict=True))
        for op in block.ops[:-1]:
            self._run_op(op)
        return [self._values[v] for v in block.terminator.operands]

    def _run_op(self, op: Op) -> None:
        if op.name.startswith("index."):
            self._indices[op.result] = self._index(op)
        elif op.name in self._control:
            self._values.update(zip(op.results, self._control[op.name](op), strict=True))
        elif op.name in _FORMS:
            operands = [self._values[v] for v in op.operands]
            self._values[op.result] = _FORMS[op.name](op, operands, self._sizes)
        else:
            raise InterpreterError(f"{op.name} is not a form")

    def _index(self, op: Op) -> int:
        if op.name == "index.dim":
            dim = attr(op, "dim", Dim)
            return dim.evaluate(self._sizes)
        left, right = (self._indices[v] for v in op.operands)
        return _INDEX_OPS[op.name](left, right)

    def _loop(self, op: Op) -> list[Array]:
        low, high = (self._indices[v] for v in op.operands[:2])
        carried = [self._values[v] for v in op.operands[2:]]
        counter = attr(op, "counter", str)
        cut, size = block_loop(op), op.attrs.get(PINNED)
        for i in range(low, high):
            self._sizes[counter] = self._indices[op.body.args[0]] = i
            if cut is not None and isinstance(size, int):
                self._sizes[cut.block.symbol or ""] = min(size, cut.over.evaluate(self._sizes) - i * size)
            carried = self.run(op.body, carried)
        if cut is not None and isinstance(size, int):
            self._sizes[cut.block.symbol or ""] = size
        return carried

    def _kernel(self, op: Op) -> list[Array]:
        """A tile program at the schedule that is its meaning: one block spans its dim, unless its size is pinned.
        Nothing has no blocks."""
        own, pinned = kernel_own(op), kernel_pinned(op)
        for cut in kernel_blocks(op):
            size, block = cut.over.evaluate(self._sizes), cut.block.symbol or ""
            self._sizes[block] = pinned.get(block, size if cut.block in own else max(size, 1))
        self._sizes.update(dict.fromkeys(kernel_numbers(op), 0))
        operands = [self._values[v] for v in op.operands]
        shapes = [tuple(d.evaluate(self._sizes) for d in tensor_type(v).dims) for v in op.results]
        results = [np.zeros(s, storage(tensor_type(v).dtype)) for s, v in zip(shapes, op.results, strict=True)]
        for program in range(kernel_programs(op).evaluate(self._sizes)):
            split = zip(operands, kernel_split(op), kernel_repeats(op), strict=True)
            parts = [x[program // n.evaluate(self._sizes) % len(x)] if apart else x for x, apart, n in split]
            for starts in self._pinned_blocks(op):
                tiles = zip(results, op.body.terminator.operands, self.run(op.body, parts), strict=True)
                for result, value, tile in tiles:
                    dims = zip(tensor_type(value).dims, tile.shape, strict=True)
                    result[program][tuple(slice(s := starts.get(d, 0), s + n) for d, n in dims)] = tile
        return list(results)

    def _pinned_blocks(self, op: Op) -> Iterator[dict[Dim, int]]:
        """Where each of a program's own blocks begins that are pinned; their sizes are noted, the last may be less."""
        pinned = kernel_pinned(op)
        own = [
            (cut, pinned[cut.block.symbol or ""], number)
            for cut, number in zip(kernel_blocks(op), kernel_numbers(op), strict=True)
            if cut.block in kernel_own(op) and cut.block.symbol in pinned
        ]
        whole = [cut.over.evaluate(self._sizes) for cut, _, _ in own]
        counts = [range(-(-over // size)) for over, (_, size, _) in zip(whole, own, strict=True)]
        for place in product(*counts):
            starts = {}
            for i, over, (cut, size, number) in zip(place, whole, own, strict=True):
                starts[cut.block], self._sizes[number] = i * size, i
                self._sizes[cut.block.symbol or ""] = min(size, over - i * size)
            yield starts

    def _call(self, op: Op) -> list[Array]:
        callee = self._module.lookup(callee_of(op))
        sizes = {name: dim.evaluate(self._sizes) for name, dim in call_dims(op).items()}
        return Frame(sizes, self._module).run(callee.body, [self._values[v] for v in op.operands])

    def _while(self, op: Op) -> list[Array]:
        test, body = (region.block for region in op.regions)
        carried = [self._values[v] for v in op.operands]
        while self.run(test, carried)[0]:
            carried = self.run(body, carried)
        return carried

    def _cond(self, op: Op) -> list[Array]:
        then, otherwise = (region.block for region in op.regions)
        return self.run(then if self._values[op.operands[0]] else otherwise, [])

    def _assert(self, op: Op) -> list[Array]:
        if not self._values[op.operands[0]]:
            raise AssertionFailed(str(op.attrs["text"]))
        return []

    def _require(self, op: Op) -> list[Array]:
        guard, shown = op.attrs["guard"], op.attrs.get("shown")
        assert isinstance(guard, Guard)
        if not isinstance(shown, Dim):
            _check(guard, self._sizes)
            return []
        place, index, size = (dim.evaluate(self._sizes) for dim in (guard.left, shown, guard.right))
        if not guard.holds(place, size):
            raise BadIndex(str(op.attrs["operator"]), index, size)
        return []


_INDEX_OPS: dict[str, Callable[[int, int], int]] = {
    "index.add": lambda a, b: a + b,
    "index.sub": lambda a, b: a - b,
    "index.mul": lambda a, b: a * b,
    "index.floor_div": lambda a, b: a // b,
    "index.ceil_div": lambda a, b: -(-a // b),
    "index.rem": lambda a, b: a % b,
    "index.min": min,
    "index.max": max,
}


def _shape(ty: TensorType, sizes: Sizes) -> tuple[int, ...]:
    return tuple(dim.evaluate(sizes) for dim in ty.dims)


def _result(op: Op, x: Array) -> Array:
    ty = tensor_type(op.result)
    return store(x, ty.dtype, ty.policy)


def _map(op: Op, operands: list[Array], sizes: Sizes) -> Array:
    shape = _shape(tensor_type(op.result), sizes)
    args = []
    for value, array, dim_map in zip(op.operands, operands, forms.operand_maps(op), strict=True):
        args.append(convert(follow(array, dim_map, len(shape)), forms.compute_type(value).dtype))
    if prod(shape) * tensor_type(op.result).dtype.bytes >= MOST_BYTES:
        raise InterpreterError(f"a tensor of {' x '.join(map(str, shape))} elements has no place")
    return np.broadcast_to(_result(op, evaluate_body(op.body, args, Space(shape, sizes))), shape)


def _lines(op: Op, operands: list[Array], sizes: Sizes) -> Array:
    out, result = lines_out(op), tensor_type(op.result)
    shape = tuple(dim.evaluate(sizes) for dim in lines_space(op))
    args: list[Array] = []
    for value, array, dim_map in zip(op.operands, operands, forms.operand_maps(op), strict=True):
        wide = convert(array, forms.compute_type(value).dtype)
        followed = tuple(axis for axis in dim_map if axis is not None)
        for place in line_places(tensor_type(value), dim_map):
            args.append(follow(wide[_at(place, dim_map)], followed, len(shape)))
    written = np.empty(_shape(result, sizes), storage(result.dtype))
    order = [axis for axis in out if axis is not None]
    found = evaluate_bodies(lines_body(op), args, Space(shape, sizes))
    for place, element in zip(line_places(result, out), found, strict=True):
        written[_at(place, out)] = _result(op, np.broadcast_to(element, shape)).transpose(order)
    return written


def _at(place: tuple[int, ...], dim_map: tuple[int | None, ...]) -> tuple[int | slice, ...]:
    """The index of one element of every point."""
    lines = iter(place)
    return tuple(next(lines) if axis is None else slice(None) for axis in dim_map)


def _zeros(ty: TensorType, sizes: Sizes) -> Array:
    return np.zeros(_shape(ty, sizes), numpy_dtype(ty.dtype))


def _accum(op: Op) -> DType:
    return attr(op, "accum", DType)


def _order(op: Op) -> Order:
    order = op.attrs["order"]
    assert isinstance(order, Order)
    return order


def _reduce(op: Op, operands: list[Array], sizes: Sizes) -> Array:
    """The reduced axes become one last axis, in the operand's row-major order."""
    axes = sorted(forms.indices(op, "axes"))
    x = operands[0]
    kept = [a for a in range(x.ndim) if a not in axes]
    rows = x.transpose(*kept, *axes).reshape(*(x.shape[a] for a in kept), prod(x.shape[a] for a in axes))
    rows = convert(rows, _accum(op))
    kind = op.attrs["kind"]
    if kind == "sum":
        return _result(op, block_sum(rows, _order(op)))
    if kind == "prod":
        return _result(op, block_prod(rows, _order(op)))
    return _result(op, fold_max(rows) if kind == "max" else fold_min(rows))


def _scan(op: Op, operands: list[Array], sizes: Sizes) -> Array:
    axis, kind = op.attrs["axis"], op.attrs["kind"]
    assert isinstance(axis, int) and isinstance(kind, str)
    rows = np.moveaxis(convert(operands[0], _accum(op)), axis, -1)
    return np.moveaxis(_result(op, block_scan(rows, kind, _order(op))), -1, axis)


def _contract(op: Op, operands: list[Array], sizes: Sizes) -> Array:
    """Batch, row and column indices become one each; the contracted ones one in the left operand's order."""
    lhs, rhs, out = (forms.indices(op, name) for name in ("lhs", "rhs", "out"))
    inner = forms.contracted(op)
    if set(inner) != set(rhs) - set(out) or len(set(lhs)) < len(lhs) or len(set(rhs)) < len(rhs):
        raise InterpreterError("an index of a contraction is repeated, or summed in one operand alone")
    batch = [i for i in out if i in lhs and i in rhs]
    rows, columns = [i for i in out if i not in rhs], [i for i in out if i not in lhs]
    extent = dict(zip((*lhs, *rhs), (*operands[0].shape, *operands[1].shape), strict=True))
    left, right = (_factor(x, op) for x in operands)
    left = _matrix(left, lhs, (batch, rows, inner), extent)
    right = _matrix(right, rhs, (batch, inner, columns), extent)
    product = chain_contract(left, right, _order(op))
    found = [*batch, *rows, *columns]
    return _result(op, product.reshape([extent[i] for i in found]).transpose([found.index(i) for i in out]))


def _factor(x: Array, op: Op) -> Array:
    is_tf32 = tensor_type(op.operands[0]).dtype == TF32
    return round_to_tf32(x) if is_tf32 else convert(x, _accum(op))


def _matrix(x: Array, own: Sequence[int], groups: Sequence[Sequence[int]], extent: Mapping[int, int]) -> Array:
    order = [own.index(i) for group in groups for i in group]
    return x.transpose(order).reshape([prod(extent[i] for i in group) for group in groups])


def _view(op: Op, operands: list[Array], sizes: Sizes) -> Array:
    x, view = operands[0], op.attrs["view"]
    shape = _shape(tensor_type(op.result), sizes)
    if isinstance(view, Permute):
        return x.transpose(view.order)
    if isinstance(view, Reshape):
        return x.reshape(shape)
    if isinstance(view, Broadcast):
        return np.broadcast_to(follow(x, view.dims, len(shape)), shape)
    if isinstance(view, Window):
        places = np.arange(shape[view.axis])[:, None] * view.stride + np.arange(shape[-1]) * view.dilation
        return np.moveaxis(np.take(x, places, view.axis), view.axis + 1, -1)
    assert isinstance(view, Slice)
    starts = [start.evaluate(sizes) for start in view.starts]
    return x[np.ix_(*(s + np.arange(n) * t for s, n, t in zip(starts, shape, view.steps, strict=True)))]


_FORMS: dict[str, Callable[[Op, list[Array], Sizes], Array]] = {
    "form.map": _map,
    LINES: _lines,
    "form.reduce": _reduce,
    "form.scan": _scan,
    "form.contract": _contract,
    "form.view": _view,
    "form.empty": lambda op, operands, sizes: _zeros(tensor_type(op.result), sizes),
    "form.table": lambda op, operands, sizes: table_of(op).values(tensor_type(op.result)),
    "form.parts": lambda op, operands, sizes: parts_of(operands[0]),
    "form.complex": lambda op, operands, sizes: complex_from(operands[0]),
    **INDEXED_FORMS,
}
