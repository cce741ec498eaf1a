"""The functions that the oracle knows by name; the library's others it reads from their text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.mutation.rules import (
    BOOL,
    F32,
    I64,
    accepts_number,
    axis_of,
    broadcast,
    einsum,
    elementwise,
    joined,
    matmul,
    merged,
    permuted,
    reduced,
    reshaped,
    sum_dtype,
    undivided,
)
from tests.mutation.values import COMPLEX, FLOATS, INTEGERS, NAMES, Array, DType, Rejected, Unjudged, Value

Native = Callable[..., Value]
NUMBERS = (*FLOATS, *INTEGERS, *COMPLEX)
FLOAT_FUNCTIONS = (
    "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "tanh", "erf", "erfc", "sin", "cos",
    "rint", "floor", "ceil", "exp_int", "exp_frac", "isfinite", "sigmoid", "silu", "gelu", "softplus", "elu",
    "leaky_relu", "relu6", "hardsigmoid", "hardswish", "mish", "isnan", "isinf", "reciprocal",
)  # fmt: skip
BOOL_RESULTS = ("isfinite", "isnan", "isinf")
SPELLINGS = {"dim": "axis", "keepdim": "keep", "keepdims": "keep"}


def tensor(value: Value) -> Array:
    if not isinstance(value, Array):
        raise Rejected("no tensor")
    return value


def dtype_of(value: Value) -> DType:
    if isinstance(value, str) and value in NAMES:
        return DType(NAMES[value])
    if not isinstance(value, DType):
        raise Rejected("no dtype")
    return value


def sizes_of(shape: Sequence[Value]) -> tuple[int, ...]:
    """`zeros(3, N)` and `zeros((3, N))` are one."""
    if len(shape) == 1 and isinstance(shape[0], tuple | list):
        shape = shape[0]
    if not all(isinstance(size, int) and not isinstance(size, bool) for size in shape):
        raise Rejected("sizes are ints")
    return tuple(size for size in shape if isinstance(size, int))


def _floats(name: str) -> Native:
    def rule(x: Value, **_: Value) -> Value:
        if isinstance(x, int | float):
            return 2.0
        kinds = (*FLOATS, *COMPLEX) if name in ("exp", "sqrt") else FLOATS
        if tensor(x).dtype.name not in kinds:
            raise Rejected(f"{name} of {tensor(x).dtype.name}")
        return Array(tensor(x).shape, BOOL) if name in BOOL_RESULTS else x

    return rule


def _fold(kinds: tuple[str, ...], dtype: Callable[[DType], DType]) -> Native:
    def rule(x: Value, axis: Value = None, keep: Value = False) -> Value:
        if tensor(x).dtype.name not in kinds:
            raise Rejected("a reduction of other elements")
        return reduced(tensor(x), axis, keep, dtype(tensor(x).dtype))

    return rule


def _extremum(x: Value, axis: Value = None, keep: Value = False, *more: Value) -> Value:
    if isinstance(x, int):
        raise Unjudged("of numbers")
    if tensor(x).dtype.name not in (*FLOATS, *INTEGERS):
        raise Rejected("no order")
    return reduced(tensor(x), axis, keep, tensor(x).dtype)


def _pointwise(x: Value, y: Value) -> Value:
    if not (isinstance(x, Array) or isinstance(y, Array)):
        raise Unjudged("of numbers")
    return elementwise([x, y], (*FLOATS, *INTEGERS))


def _float_pair(x: Value, y: Value) -> Value:
    return elementwise([x, y], FLOATS)


def _along(x: Value, axis: Value = -1, **_: Value) -> Value:
    """Functions of the elements along one axis that keep the shape."""
    axis_of(tensor(x), axis)
    if tensor(x).dtype.name not in FLOATS:
        raise Rejected("not of floats")
    return x


def _where(c: Value, x: Value, y: Value) -> Value:
    if isinstance(c, bool):
        return x if c else y
    if tensor(c).dtype.name != "bool":
        raise Rejected("a condition is a bool")
    if not (isinstance(x, Array) or isinstance(y, Array)):
        raise Rejected("two numbers have no dtype")
    chosen = elementwise([x, y], (*NUMBERS, "bool"))
    return Array(broadcast(tensor(c).shape, *(v.shape for v in (x, y) if isinstance(v, Array))), chosen.dtype)


def _made(*shape: Value, dtype: Value = F32, **_: Value) -> Value:
    return Array(sizes_of(shape), dtype_of(dtype))


def _full(*arguments: Value, dtype: Value = F32, value: Value = None) -> Value:
    *shape, last = arguments if value is None else (*arguments, value)
    if isinstance(last, int | float):
        accepts_number(dtype_of(dtype), last)
    return Array(sizes_of(shape), dtype_of(dtype))


def _arange(start: Value, stop: Value = None, step: Value = 1, dtype: Value = I64) -> Value:
    bounds = [v for v in (start, stop, step) if v is not None]
    if not all(isinstance(v, int) for v in bounds):
        raise Rejected("sizes are ints")
    ends = (start, stop) if stop is not None else (0, start)
    return Array((len(range(*ends, step)),), dtype_of(dtype))  # type: ignore[arg-type]


def _reshape(x: Value, *shape: Value) -> Value:
    return reshaped(tensor(x), sizes_of(shape))


def _permute(x: Value, *order: Value) -> Value:
    return permuted(tensor(x), order[0] if len(order) == 1 else order)


def _expand(x: Value, *shape: Value) -> Value:
    target = sizes_of(shape)
    if broadcast(tensor(x).shape, target) != target:
        raise Rejected("does not stretch to that")
    return Array(target, tensor(x).dtype)


def _transpose(x: Value) -> Value:
    if tensor(x).rank < 2:
        raise Rejected("no two dims")
    return Array((*tensor(x).shape[:-2], tensor(x).shape[-1], tensor(x).shape[-2]), tensor(x).dtype)


def _concat(parts: Value, axis: Value = 0) -> Value:
    if not isinstance(parts, list | tuple):
        raise Rejected("no list")
    arrays = [tensor(part) for part in parts]
    return joined(arrays, axis_of(arrays[0], axis))


def _stack(parts: Value, axis: Value = 0) -> Value:
    if not isinstance(parts, list | tuple):
        raise Rejected("no list")
    arrays = [tensor(part) for part in parts]
    if any(array.shape != arrays[0].shape for array in arrays):
        raise Rejected("parts differ")
    dtype = arrays[0].dtype
    for array in arrays:
        dtype = merged(dtype, array.dtype)
    place = axis_of(arrays[0], axis, extra=1)
    return Array((*arrays[0].shape[:place], len(arrays), *arrays[0].shape[place:]), dtype)


def _split(x: Value, parts: Value, axis: Value = 0) -> Value:
    place = axis_of(tensor(x), axis)
    if not isinstance(parts, int) or parts < 1 or tensor(x).shape[place] % parts:
        raise undivided(tensor(x).shape[place])
    return (_sized(tensor(x), place, tensor(x).shape[place] // parts),) * parts


def _sized(array: Array, place: int, size: int) -> Array:
    return Array((*array.shape[:place], size, *array.shape[place + 1 :]), array.dtype)


def _pad(x: Value, before: Value, after: Value, axis: Value, value: Value = 0) -> Value:
    place = axis_of(tensor(x), axis)
    if not (isinstance(before, int) and isinstance(after, int)):
        raise Rejected("sizes are ints")
    return _sized(tensor(x), place, tensor(x).shape[place] + before + after)


def _repeat(x: Value, times: Value, axis: Value) -> Value:
    place = axis_of(tensor(x), axis)
    if not isinstance(times, int):
        raise Rejected("sizes are ints")
    return _sized(tensor(x), place, tensor(x).shape[place] * times)


def _same_along(x: Value, *_: Value, axis: Value = None, **__: Value) -> Value:
    if axis is not None:
        axis_of(tensor(x), axis)
    return x


def _cumulative(x: Value, axis: Value = -1) -> Value:
    axis_of(tensor(x), axis)
    return Array(tensor(x).shape, sum_dtype(tensor(x).dtype))


def _gather(x: Value, index: Value, axis: Value = 0) -> Value:
    place = axis_of(tensor(x), axis)
    if tensor(index).dtype.name not in INTEGERS:
        raise Rejected("an index is an integer")
    shape = tensor(x).shape
    return Array((*shape[:place], *tensor(index).shape, *shape[place + 1 :]), tensor(x).dtype)


def _scatter_add(x: Value, index: Value, v: Value, axis: Value = 0) -> Value:
    target = _gather(x, index, axis)
    if tensor(v).shape != tensor(target).shape:
        raise Rejected("contributions of another shape")
    return Array(tensor(x).shape, merged(tensor(x).dtype, tensor(v).dtype))


def _take_along(x: Value, index: Value, axis: Value) -> Value:
    place = axis_of(tensor(x), axis)
    if tensor(index).rank != tensor(x).rank or tensor(index).dtype.name not in INTEGERS:
        raise Rejected("an index of another rank")
    if any(a != b for i, (a, b) in enumerate(zip(tensor(x).shape, tensor(index).shape, strict=True)) if i != place):
        raise Rejected("differs beside the axis")
    return Array(tensor(index).shape, tensor(x).dtype)


def _one_hot(index: Value, classes: Value, dtype: Value = F32) -> Value:
    if tensor(index).dtype.name not in INTEGERS or not isinstance(classes, int):
        raise Rejected("classes of integers")
    return Array((*tensor(index).shape, classes), dtype_of(dtype))


def _cast(x: Value, dtype: Value) -> Value:
    if isinstance(x, int | float):
        return Array((), dtype_of(dtype))
    return Array(tensor(x).shape, dtype_of(dtype))


def _wide(x: Value) -> Value:
    array = tensor(x)
    accumulators = [p for p in array.dtype.policy if p.startswith("accum(")]
    if "stochastic_round" in array.dtype.policy and not accumulators:
        return Array(array.shape, F32)
    return Array(array.shape, DType(accumulators[0][6:-1]) if accumulators else array.dtype)


def _squeeze(x: Value, axis: Value) -> Value:
    place = axis_of(tensor(x), axis)
    if tensor(x).shape[place] != 1:
        raise Rejected("not a unit dim")
    return Array((*tensor(x).shape[:place], *tensor(x).shape[place + 1 :]), tensor(x).dtype)


def _unsqueeze(x: Value, axis: Value) -> Value:
    place = axis_of(tensor(x), axis, extra=1)
    return Array((*tensor(x).shape[:place], 1, *tensor(x).shape[place:]), tensor(x).dtype)


def _einsum(equation: Value, *operands: Value) -> Value:
    if not isinstance(equation, str):
        raise Rejected("no equation")
    return einsum(equation, [tensor(operand) for operand in operands])


def _windows(x: Value, size: Value, axis: Value, stride: Value = 1, dilation: Value = 1) -> Value:
    raise Unjudged("windows")


def _diagonal(x: Value) -> Value:
    if tensor(x).rank < 2 or tensor(x).shape[-1] != tensor(x).shape[-2]:
        raise Rejected("not square")
    return Array(tensor(x).shape[:-1], tensor(x).dtype)


def _argsort(x: Value, axis: Value = -1, descending: Value = False) -> Value:
    axis_of(tensor(x), axis)
    return Array(tensor(x).shape, I64)


def _float(x: Value) -> Value:
    if not isinstance(x, int | float):
        raise Rejected("float of a tensor")
    return float(x)


def _number(x: Value) -> Value:
    if isinstance(x, Array) and x.dtype.name not in NUMBERS:
        raise Rejected("no number")
    return x if isinstance(x, Array | int | float) else tensor(x)


NATIVES: dict[str, Native] = {
    **{name: _floats(name) for name in FLOAT_FUNCTIONS},
    **{name: _along for name in ("softmax", "log_softmax", "softmax_safe")},
    **{name: _pointwise for name in ("maximum", "minimum")},
    **{name: _float_pair for name in ("ldexp", "exp_term", "exp_lifted", "pow")},
    **{name: _same_along for name in ("roll", "flip", "sort", "dropout", "stop_gradient")},
    **{name: _made for name in ("zeros", "ones", "normal", "uniform")},
    **{name: _extremum for name in ("max", "min")},
    **{name: _fold(("bool",), lambda d: BOOL) for name in ("any", "all")},
    **{name: _fold((*FLOATS, *INTEGERS), lambda d: I64) for name in ("argmax", "argmin")},
    **{name: _fold(FLOATS, lambda d: d) for name in ("var", "std", "logsumexp")},
    "sum": _fold((*NUMBERS, "bool"), sum_dtype), "prod": _fold((*FLOATS, *INTEGERS), sum_dtype),
    "mean": _fold((*FLOATS, *COMPLEX), sum_dtype), "where": _where, "full": _full, "arange": _arange,
    "reshape": _reshape, "permute": _permute, "expand": _expand, "transpose": _transpose, "concat": _concat,
    "stack": _stack, "split": _split, "pad": _pad, "repeat": _repeat, "cumsum": _cumulative, "gather": _gather,
    "scatter_add": _scatter_add, "take_along_axis": _take_along, "one_hot": _one_hot, "cast": _cast, "wide": _wide,
    "squeeze": _squeeze, "unsqueeze": _unsqueeze, "einsum": _einsum, "windows": _windows, "float": _float,
    "diagonal": _diagonal, "argsort": _argsort, "count_nonzero": _fold((*NUMBERS, "bool"), lambda d: I64),
    "matmul": lambda x, y: matmul(x, y), "abs": _number, "neg": _number, "square": _number,
    "eye": lambda size, dtype=F32: Array(sizes_of((size, size)), dtype_of(dtype)),
    "zeros_like": lambda x: tensor(x), "ones_like": lambda x: tensor(x),
}  # fmt: skip


def call_native(name: str, positional: Sequence[Value], named: dict[str, Value]) -> Value:
    """An argument that the rule does not know is a mistake of the program."""
    try:
        return NATIVES[name](*positional, **{SPELLINGS.get(key, key): value for key, value in named.items()})
    except TypeError as problem:
        raise Rejected(str(problem)) from None
