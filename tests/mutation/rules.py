"""The oracle's rules of operators: shapes and dtypes as the language states them, strictly.

Enters: values with concrete sizes. Leaves: the value of the result, `Rejected`, or `Unjudged` where there is no rule.
"""

from __future__ import annotations

from math import prod

from tests.mutation.values import COMPLEX, FIRST_PRIME, FLOATS, INTEGERS, Array, DType, Rejected, Unjudged, Value

BOOL, I64, F32 = DType("bool"), DType("i64"), DType("f32")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
RANGES = {"u8": (0, 255), "i8": (-128, 127), "i16": (-(2**15), 2**15 - 1), "u32": (0, 2**32 - 1)}


def merged(a: DType, b: DType) -> DType:
    """One dtype, and the policy that either has."""
    if a.name != b.name:
        raise Rejected(f"{a.name} meets {b.name}")
    if a.policy and b.policy and a.policy != b.policy:
        raise Unjudged("two policies of fp8") if a.name.startswith("fp8") else Rejected("two policies")
    return a if a.policy else b


def undivided(*sizes: int) -> Exception:
    """A size that does not divide is wrong where it is a number; of symbols it is checked on entry."""
    return Unjudged("a guard") if max(sizes) >= FIRST_PRIME else Rejected("does not divide")


def accepts_number(dtype: DType, number: float) -> None:
    if isinstance(number, bool):
        raise Unjudged("a bool meets a tensor")
    if dtype.name == "bool":
        raise Rejected("a number meets bools")
    if isinstance(number, float) and dtype.name not in (*FLOATS, *COMPLEX):
        raise Rejected("a float meets integers")
    low, high = RANGES.get(dtype.name, (-(2**63), 2**64 - 1))
    if isinstance(number, int) and dtype.name in INTEGERS and not low <= number <= high:
        raise Rejected(f"{number} is no {dtype.name}")


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Dims from the right; equal, or a 1 that stretches, but not against an operand that was extended."""
    result, *others = sorted(shapes, key=lambda shape: (-len(shape), -prod(shape)))
    for shape in others:
        rank = max(len(result), len(shape))
        pairs = list(zip(_led(result, rank), _led(shape, rank), strict=True))
        for mine, other in pairs:
            if None not in (mine, other) and mine != other and 1 not in (mine, other):
                raise Rejected(f"{mine} meets {other}")
        for short, long in ((result, shape), (shape, result)):
            tail = long[len(long) - len(short) :]
            if len(short) < len(long) and any(o == 1 and m != 1 for o, m in zip(tail, short, strict=True)):
                raise Rejected("an outer product by accident")
        result = tuple(max(m or 0, o or 0) if 0 not in (m, o) else 0 for m, o in pairs)
    return result


def _led(shape: tuple[int, ...], rank: int) -> tuple[int | None, ...]:
    return (None,) * (rank - len(shape)) + shape


def elementwise(operands: list[Value], kinds: tuple[str, ...]) -> Array:
    """One dtype of the kinds for all tensors; numbers fit it."""
    arrays = [value for value in operands if isinstance(value, Array)]
    if not arrays:
        raise Unjudged("no tensor")
    dtype = arrays[0].dtype
    for array in arrays[1:]:
        dtype = merged(dtype, array.dtype)
    if dtype.name not in kinds:
        raise Rejected(f"not for {dtype.name}")
    for value in operands:
        if isinstance(value, int | float):
            accepts_number(dtype, value)
        elif not isinstance(value, Array):
            raise Rejected("no tensor and no number")
    return Array(broadcast(*(array.shape for array in arrays)), dtype)


def binary(op: str, left: Value, right: Value) -> Array:
    if op == "@":
        return matmul(left, right)
    kinds = {
        "/": (*FLOATS, *COMPLEX), "//": INTEGERS, "%": INTEGERS, "&": (*INTEGERS, "bool"),
        "|": (*INTEGERS, "bool"), "^": (*INTEGERS, "bool"), "<<": INTEGERS, ">>": INTEGERS,
    }.get(op, (*FLOATS, *INTEGERS, *COMPLEX))  # fmt: skip
    if op in COMPARISONS:
        every = (*FLOATS, *INTEGERS, *COMPLEX, "bool") if op in ("==", "!=") else (*FLOATS, *INTEGERS)
        return Array(elementwise([left, right], every).shape, BOOL)
    return elementwise([left, right], kinds)


def contracted(dtype: DType) -> DType:
    """The dtype of a product; fp8 needs an accumulation type."""
    if dtype.name == "bool":
        raise Rejected("a product of bools")
    if dtype.name.startswith("fp8") and not any(p.startswith("accum") for p in dtype.policy):
        raise Rejected("fp8 without an accumulator")
    if dtype.name in ("i8", "i4"):
        return DType("i32")
    return dtype


def matmul(left: Value, right: Value) -> Array:
    if not (isinstance(left, Array) and isinstance(right, Array)):
        raise Rejected("a product needs two tensors")
    both_fp8 = left.dtype.name.startswith("fp8") and right.dtype.name.startswith("fp8")
    if both_fp8 and left.dtype.name != right.dtype.name:
        raise Unjudged("two formats of fp8")
    dtype = contracted(merged(left.dtype, right.dtype))
    if not left.rank or not right.rank:
        raise Rejected("a product of a number")
    inner = right.shape[-2] if right.rank > 1 else right.shape[0]
    if left.shape[-1] != inner:
        raise Rejected(f"contracts {left.shape[-1]} with {inner}")
    if left.rank == 1 or right.rank == 1:
        return Array(left.shape[:-1] + right.shape[:-2] + right.shape[-1:] * (right.rank > 1), dtype)
    return Array((*broadcast(left.shape[:-2], right.shape[:-2]), left.shape[-2], right.shape[-1]), dtype)


def axis_of(array: Array, axis: Value, extra: int = 0) -> int:
    """A position, or the size of a symbol: symbols are primes that are no position."""
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise Rejected("no axis")
    if axis >= FIRST_PRIME:
        places = [place for place, size in enumerate(array.shape) if size == axis]
        if len(places) != 1:
            raise Rejected("no such dim, or several")
        return places[0]
    rank = array.rank + extra
    if not -rank <= axis < rank:
        raise Rejected("axis out of range")
    return axis % rank


def axes_of(array: Array, axis: Value) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(array.rank))
    places = tuple(axis_of(array, one) for one in (axis if isinstance(axis, tuple | list) else (axis,)))
    if len(set(places)) != len(places):
        raise Rejected("one axis twice")
    return places


def reduced(array: Array, axis: Value, keep: Value, dtype: DType) -> Array:
    places = axes_of(array, axis)
    if keep:
        return Array(tuple(1 if i in places else d for i, d in enumerate(array.shape)), dtype)
    return Array(tuple(d for i, d in enumerate(array.shape) if i not in places), dtype)


def sum_dtype(dtype: DType) -> DType:
    if dtype.name in ("u8", "u32", "u64"):
        return DType("u64")
    if dtype.name in (*INTEGERS, "bool"):
        return I64
    if dtype.name.startswith("fp8"):
        contracted(dtype)
    return dtype


def reshaped(array: Array, shape: tuple[int, ...]) -> Array:
    """Neighbours are split and merged in order; sizes of symbols do not change places."""
    if shape.count(-1) == 1:
        rest = prod(d for d in shape if d != -1)
        if not rest or prod(array.shape) % rest:
            raise undivided(prod(array.shape))
        shape = tuple(prod(array.shape) // rest if d == -1 else d for d in shape)
    if prod(shape) != prod(array.shape):
        raise Rejected("another number of elements")
    for old, new in _groups(array.shape, shape):
        if len(old) > 1 and len(new) > 1 and max(prod(old), prod(new)) >= FIRST_PRIME:
            if sorted(old) == sorted(new) or _large(old) != _large(new):
                raise Rejected("data moves between dims")
            raise Unjudged("a reshape across dims")
    return Array(shape, array.dtype)


def _large(shape: list[int]) -> list[int]:
    return [d for d in shape if d >= FIRST_PRIME]


def _groups(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of both with equal products."""
    groups: list[tuple[list[int], list[int]]] = []
    a, b = [d for d in old if d != 1], [d for d in new if d != 1]
    while a and b:
        mine, other = [a.pop(0)], [b.pop(0)]
        while prod(mine) != prod(other) and (a or b):
            if (prod(mine) < prod(other) and a) or not b:
                mine.append(a.pop(0))
            else:
                other.append(b.pop(0))
        groups.append((mine, other))
    return groups


def permuted(array: Array, order: Value) -> Array:
    if not isinstance(order, tuple | list):
        raise Rejected("an order is a tuple")
    places = tuple(axis_of(array, one) for one in order)
    if sorted(places) != list(range(array.rank)):
        raise Rejected("not every axis once")
    return Array(tuple(array.shape[i] for i in places), array.dtype)


def einsum(equation: str, operands: list[Array]) -> Array:
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    if not arrow or "..." in equation:
        raise Unjudged("an einsum without its result")
    names = inputs.split(",")
    sizes: dict[str, int] = {}
    if len(names) != len(operands):
        raise Rejected("another number of operands")
    dtype = operands[0].dtype
    for labels, operand in zip(names, operands, strict=True):
        dtype = merged(dtype, operand.dtype)
        if len(labels) != operand.rank:
            raise Rejected("labels are not dims")
        for label, size in zip(labels, operand.shape, strict=True):
            if sizes.setdefault(label, size) != size:
                raise Rejected("a label of two sizes")
    if not set(output) <= sizes.keys():
        raise Rejected("a label from nowhere")
    return Array(tuple(sizes[label] for label in output), contracted(dtype))


def joined(arrays: list[Array], axis: int) -> Array:
    first = arrays[0]
    dtype = first.dtype
    for other in arrays[1:]:
        dtype = merged(dtype, other.dtype)
        same = [a == b for i, (a, b) in enumerate(zip(first.shape, other.shape, strict=False)) if i != axis]
        if other.rank != first.rank or not all(same):
            raise Rejected("parts differ beside the axis")
    total = sum(array.shape[axis] for array in arrays)
    return Array((*first.shape[:axis], total, *first.shape[axis + 1 :]), dtype)


def indexed(array: Array, items: list[Value]) -> Array:
    """Numbers, slices, None, `...` and one integer tensor."""
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > array.rank:
        raise Rejected("too many indices")
    shape: list[int] = []
    place = 0
    for item in items:
        if item is None:
            shape.append(1)
        elif item is Ellipsis:
            rest = array.rank - used
            shape += array.shape[place : place + rest]
            place += rest
        else:
            shape += _one_index(array.shape[place], item, sum(isinstance(i, Array) for i in items))
            place += 1
    return Array((*shape, *array.shape[place:]), array.dtype)


def _one_index(size: int, item: Value, tensors: int) -> tuple[int, ...]:
    if isinstance(item, slice):
        bounds = [b for b in (item.start, item.stop) if b is not None]
        if any(isinstance(b, Array) for b in bounds):
            raise Unjudged("a slice of the run")
        if any(abs(b) > size for b in bounds):
            raise Unjudged("a guard") if size >= FIRST_PRIME else Rejected("a slice beyond the end")
        count = len(range(size)[item])
        if len(bounds) == 2 and range(size)[item.start :].start > item.stop % (size + 1):
            raise Rejected("a slice that ends before it starts")
        return (count,)
    if isinstance(item, Array):
        if item.dtype.name not in INTEGERS:
            raise Rejected("an index that is no integer")
        if tensors > 1:
            raise Unjudged("several integer tensors")
        return item.shape
    if isinstance(item, bool) or not isinstance(item, int):
        raise Rejected("no index")
    if not -size <= item < size:
        raise Rejected("an index out of range")
    return ()
