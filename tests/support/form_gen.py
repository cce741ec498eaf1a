"""Random functions of forms for hypothesis: maps with broadcasting, reductions, scans, sorts, contractions, views,
gathers, scatters and tensors put together from parts, well typed by construction. Sizes are symbols; the test gives
them values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

import tesserac.ir.indexed  # noqa: F401  (the forms that are drawn)
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Module, Value
from tesserac.ir.forms import Broadcast, Permute, Reshape, Slice, Window, compute_type, tensor_type
from tesserac.ir.types import ScalarType, TensorType
from tesserac.numerics.order import Blocks, Chain
from tesserac.types.dims import ONE, ZERO, Dim, product
from tesserac.types.dtype import BF16, F32, I32, I64, DType
from tesserac.types.policy import NO_POLICY, Policy

SYMBOLS = ("A", "B", "C")
DIMS = (*(Dim.sym(s) for s in SYMBOLS), Dim.const(1), Dim.const(3))
WIDE = (F32, NO_POLICY)
NARROW = (BF16, Policy(accum=F32))
ELEMENTS = (WIDE, WIDE, WIDE, NARROW, (I32, NO_POLICY))
UNARY = {"f": ("neg", "abs", "exp", "sqrt", "exp_int"), "i": ("neg", "abs")}
BINARY = {"f": ("add", "sub", "mul", "max", "min"), "i": ("add", "mul", "max")}

Draw = Callable[[st.SearchStrategy], object]
Step = Callable[[Draw, Builder, list[Value]], Value | None]


@st.composite
def modules(draw: Draw, steps: int = 7, kinds: Sequence[Step] = ()) -> Module:
    """A module with one function @f, of steps of the given kinds, or of all."""
    count = draw(st.integers(1, 3))
    types = [_input_type(draw) for _ in range(count)]
    types[0] = TensorType((DIMS[0], DIMS[1], DIMS[2]), *WIDE)  # binds every symbol
    block = Block(types, [f"x{i}" for i in range(count)])
    builder, pool = Builder(block), list(block.args)
    for _ in range(draw(st.integers(2, steps))):
        step = draw(st.sampled_from(kinds or STEPS))
        made = step(draw, builder, pool)
        if made is not None:
            pool.append(made)
    results = [pool[-1], *draw(st.lists(st.sampled_from(pool[::-1]), max_size=2))]
    builder.op("func.return", results)
    names = tuple(a.name for a in block.args)
    func = Builder(Block()).op("func.func", (), (), {"sym_name": "f", "params": names, "guards": ()}, (block,))
    func.detach()
    return Module([func])


def _input_type(draw: Draw) -> TensorType:
    dims = draw(st.lists(st.sampled_from(DIMS), max_size=3))
    return TensorType(tuple(dims), *draw(st.sampled_from(ELEMENTS)))


def _pick(draw: Draw, pool: list[Value]) -> Value:
    """Rather a late value: chains are what fusion is about."""
    return draw(st.sampled_from([*pool[-2:], *pool[-2:], *pool]))


def _body(values: list[Value], name: str) -> Block:
    block = Block([compute_type(v) for v in values])
    inner = Builder(block)
    inner.op("form.yield", (inner.value(f"scalar.{name}", block.args, block.args[0].type),))
    return block


def _unary(draw: Draw, builder: Builder, pool: list[Value]) -> Value:
    value = _pick(draw, pool)
    ty = tensor_type(value)
    name = draw(st.sampled_from(UNARY[ty.dtype.kind]))
    attrs = {"maps": (tuple(range(ty.rank)),)}
    return builder.value("form.map", (value,), ty, attrs, (_body([value], name),))


def _binary(draw: Draw, builder: Builder, pool: list[Value]) -> Value | None:
    left = _pick(draw, pool)
    ty = tensor_type(left)
    fitting = [v for v in pool if (o := tensor_type(v)).dtype == ty.dtype and _places(o.dims, ty.dims) is not None]
    right = draw(st.sampled_from(fitting))
    maps = (tuple(range(ty.rank)), _places(tensor_type(right).dims, ty.dims))
    name = draw(st.sampled_from(BINARY[ty.dtype.kind]))
    return builder.value("form.map", (left, right), ty, {"maps": maps}, (_body([left, right], name),))


def _places(dims: tuple[Dim, ...], space: tuple[Dim, ...]) -> tuple[int | None, ...] | None:
    """Each dim at a place of its own in the space, anywhere; a unit dim may stretch."""
    free, places = list(range(len(space))), []
    for dim in dims:
        found = next((i for i in free if space[i] == dim), None)
        if found is None and dim != ONE:
            return None
        places.append(found)
        free = [i for i in free if i != found]
    return tuple(places)


def _iota(draw: Draw, builder: Builder, pool: list[Value]) -> Value | None:
    """A map that asks for its position."""
    value = _pick(draw, pool)
    ty = tensor_type(value)
    if not ty.rank or ty.dtype.kind != "f":
        return None
    scalar = compute_type(value)
    block = Block([scalar])
    inner = Builder(block)
    position = inner.value("scalar.index", (), ScalarType(I64), {"axis": draw(st.integers(0, ty.rank - 1))})
    cast = inner.value("scalar.cast", (position,), scalar, {"dtype": scalar.dtype})
    inner.op("form.yield", (inner.value("scalar.add", (block.args[0], cast), scalar),))
    return builder.value("form.map", (value,), ty, {"maps": (tuple(range(ty.rank)),)}, (block,))


def _accum(ty: TensorType) -> DType:
    return I64 if ty.dtype == I32 else F32


def _reduce(draw: Draw, builder: Builder, pool: list[Value]) -> Value | None:
    value = _pick(draw, pool)
    ty = tensor_type(value)
    if not ty.rank or ty.dtype == I64:
        return None
    axes = tuple(sorted(draw(st.sets(st.integers(0, ty.rank - 1), min_size=1))))
    kind = draw(st.sampled_from(("sum", "sum", "max", "min", "prod")))
    accum = _accum(ty) if kind in ("sum", "prod") else (I32 if ty.dtype == I32 else F32)
    dtype = accum if ty.dtype == I32 else ty.dtype
    dims = tuple(d for i, d in enumerate(ty.dims) if i not in axes)
    attrs = {"kind": kind, "axes": axes, "accum": accum}
    if kind in ("sum", "prod"):
        attrs["order"] = Blocks()
    made = builder.value("form.reduce", (value,), TensorType(dims, dtype, ty.policy), attrs)
    return None if dtype == I64 else made


def _contract(draw: Draw, builder: Builder, pool: list[Value]) -> Value | None:
    floats = [v for v in pool if tensor_type(v).dtype.is_float]
    left = _pick(draw, floats)
    a = tensor_type(left)
    right = draw(st.sampled_from([v for v in floats if tensor_type(v).dtype == a.dtype]))
    b = tensor_type(right)
    shared = [(i, j) for i in range(a.rank) for j in range(b.rank) if a.dims[i] == b.dims[j]]
    pairs = draw(st.lists(st.sampled_from(shared), max_size=2)) if shared else []
    lhs, rhs = list(range(a.rank)), [a.rank + j for j in range(b.rank)]
    taken_a, taken_b = set(), set()
    for i, j in pairs:
        if i not in taken_a and j not in taken_b:
            rhs[j] = lhs[i]
            taken_a.add(i)
            taken_b.add(j)
    both = set(lhs) & set(rhs)
    kept = draw(st.sets(st.sampled_from(sorted(both)))) if both else set()
    out = [i for i in dict.fromkeys([*lhs, *rhs]) if i not in both or i in kept]
    if len(out) > 4:
        return None
    out = draw(st.permutations(out))
    number = {label: i for i, label in enumerate(dict.fromkeys([*lhs, *rhs]))}
    sizes = {**dict(zip(rhs, b.dims, strict=True)), **dict(zip(lhs, a.dims, strict=True))}
    attrs = {
        "lhs": tuple(number[i] for i in lhs),
        "rhs": tuple(number[i] for i in rhs),
        "out": tuple(number[i] for i in out),
        "order": Chain(),
        "accum": F32,
    }
    result = TensorType(tuple(sizes[i] for i in out), a.dtype, a.policy)
    return builder.value("form.contract", (left, right), result, attrs)


def _view(draw: Draw, builder: Builder, pool: list[Value]) -> Value | None:
    value = _pick(draw, pool)
    ty = tensor_type(value)
    make = draw(st.sampled_from([_permute, _merge, _unit, _slice, _window, _stretch]))
    made = make(draw, ty)
    if made is None:
        return None
    view, dims = made
    return builder.value("form.view", (value,), TensorType(dims, ty.dtype, ty.policy), {"view": view})


def _permute(draw: Draw, ty: TensorType) -> tuple[Permute, tuple[Dim, ...]]:
    order = tuple(draw(st.permutations(range(ty.rank))))
    return Permute(order), tuple(ty.dims[i] for i in order)


def _merge(draw: Draw, ty: TensorType) -> tuple[Reshape, tuple[Dim, ...]] | None:
    if ty.rank < 2:
        return None
    at = draw(st.integers(0, ty.rank - 2))
    return Reshape(), (*ty.dims[:at], product(ty.dims[at : at + 2]), *ty.dims[at + 2 :])


def _unit(draw: Draw, ty: TensorType) -> tuple[Reshape, tuple[Dim, ...]]:
    if ONE in ty.dims:
        at = ty.dims.index(ONE)
        return Reshape(), (*ty.dims[:at], *ty.dims[at + 1 :])
    at = draw(st.integers(0, ty.rank))
    return Reshape(), (*ty.dims[:at], ONE, *ty.dims[at:])


def _slice(draw: Draw, ty: TensorType) -> tuple[Slice, tuple[Dim, ...]] | None:
    """Every other element from the first, or reversed, or all but the first of a known size."""
    if not ty.rank:
        return None
    at = draw(st.integers(0, ty.rank - 1))
    dim, kind = ty.dims[at], draw(st.sampled_from(("every_other", "reversed", "tail")))
    if kind == "tail" and (dim.constant is None or dim.constant < 2):
        kind = "reversed"
    choices = {
        "every_other": (ZERO, 2, (dim + 1).floor_div(2)),
        "reversed": (dim - 1, -1, dim),
        "tail": (ONE, 1, dim - 1),
    }
    start, step, size = choices[kind]
    starts = tuple(start if i == at else ZERO for i in range(ty.rank))
    steps = tuple(step if i == at else 1 for i in range(ty.rank))
    return Slice(starts, steps), (*ty.dims[:at], size, *ty.dims[at + 1 :])


def _window(draw: Draw, ty: TensorType) -> tuple[Window, tuple[Dim, ...]] | None:
    """Windows of a known size that fit, one or two apart."""
    fitting = [i for i, dim in enumerate(ty.dims) if dim.constant is not None and dim.constant >= 3]
    if not fitting or ty.rank > 3:
        return None
    at, stride = draw(st.sampled_from(fitting)), draw(st.integers(1, 2))
    size, dilation = draw(st.sampled_from(((1, 1), (2, 1), (3, 1), (2, 2))))
    count = (ty.dims[at] - ((size - 1) * dilation + 1)).floor_div(stride) + 1
    return Window(at, stride, dilation), (*ty.dims[:at], count, *ty.dims[at + 1 :], Dim.const(size))


def _stretch(draw: Draw, ty: TensorType) -> tuple[Broadcast, tuple[Dim, ...]] | None:
    if ty.rank > 3:
        return None
    at = draw(st.integers(0, ty.rank))
    dims = (*ty.dims[:at], draw(st.sampled_from(DIMS)), *ty.dims[at:])
    return Broadcast(tuple(i if i < at else i + 1 for i in range(ty.rank))), dims


def _assemble(draw: Draw, builder: Builder, pool: list[Value]) -> Value | None:
    """Two values of one type side by side, or every other element of one over the other."""
    first = _pick(draw, pool)
    ty = tensor_type(first)
    if not ty.rank:
        return None
    second = draw(st.sampled_from([v for v in pool if tensor_type(v) == ty]))
    at = draw(st.integers(0, ty.rank - 1))
    zeros, ones = (ZERO,) * ty.rank, (1,) * ty.rank
    if draw(st.booleans()):
        dims = (*ty.dims[:at], ty.dims[at] * 2, *ty.dims[at + 1 :])
        starts = tuple(d if i == at else ZERO for i, d in enumerate(ty.dims))
        boxes = (Slice(zeros, ones), Slice(starts, ones))
        return builder.value("form.assemble", (first, second), _with_dims(ty, dims), {"boxes": boxes})
    steps = tuple(2 if i == at else 1 for i in range(ty.rank))
    dims = tuple((d + 1).floor_div(2) if i == at else d for i, d in enumerate(ty.dims))
    half = builder.value("form.view", (second,), _with_dims(ty, dims), {"view": Slice(zeros, steps)})
    return builder.value("form.assemble", (first, half), ty, {"boxes": (Slice(zeros, ones), Slice(zeros, steps))})


def _with_dims(ty: TensorType, dims: tuple[Dim, ...]) -> TensorType:
    return TensorType(dims, ty.dtype, ty.policy)


def _gather(draw: Draw, builder: Builder, pool: list[Value]) -> Value | None:
    """A value read along one dim at positions computed from the place, from the start or from the end; the index has
    that dim alone, or all of them, or the numbers of an integer tensor of the pool."""
    table = _pick(draw, pool)
    ty = tensor_type(table)
    if not ty.rank:
        return None
    at = draw(st.integers(0, ty.rank - 1))
    whole = draw(st.booleans())
    dims = ty.dims if whole else (ty.dims[at],)
    given = [v for v in pool if tensor_type(v).dtype == I32 and tensor_type(v).dims == dims]
    values = [draw(st.sampled_from(given))] if given else []
    index = _positions(draw, builder, TensorType(dims, I64), values, at if whole else 0)
    own = tuple(range(ty.rank)) if whole else (at,)
    attrs = {
        "source": tuple(None if i == at else i for i in range(ty.rank)),
        "maps": (own,),
        "bounds": "wrap",
        "operator": "gather",
    }
    return builder.value("form.gather", (table, index), ty, attrs)


def _positions(draw: Draw, builder: Builder, ty: TensorType, values: list[Value], axis: int) -> Value:
    scalar = ScalarType(I64)
    block = Block([compute_type(v) for v in values])
    inner = Builder(block)
    number = inner.value("scalar.index", (), scalar, {"axis": axis})
    for value in block.args:
        wide = inner.value("scalar.cast", (value,), scalar, {"dtype": I64})
        number = inner.value("scalar.add", (number, wide), scalar)
    factor = inner.value("scalar.constant", (), scalar, {"value": draw(st.sampled_from((1, 3, -2)))})
    size = inner.value("scalar.dim", (), scalar, {"dim": ty.dims[axis]})
    number = inner.value("scalar.mod", (inner.value("scalar.mul", (number, factor), scalar), size), scalar)
    if draw(st.booleans()):
        number = inner.value("scalar.sub", (number, size), scalar)
    inner.op("form.yield", (number,))
    return builder.value("form.map", values, ty, {"maps": (tuple(range(ty.rank)),) * len(values)}, (block,))


def _scatter(draw: Draw, builder: Builder, pool: list[Value]) -> Value | None:
    """Elements of one value over those of another, at positions along one dim; some of them repeat."""
    table = _pick(draw, pool)
    ty = tensor_type(table)
    if not ty.rank:
        return None
    new = draw(st.sampled_from([v for v in pool if tensor_type(v) == ty]))
    at = draw(st.integers(0, ty.rank - 1))
    index = _positions(draw, builder, TensorType((ty.dims[at],), I64), [], 0)
    source = tuple(None if i == at else i for i in range(ty.rank))
    attrs = {"source": source, "maps": ((at,),), "bounds": "wrap", "operator": "index"}
    attrs["kind"] = draw(st.sampled_from(("set", "sum", "max"))) if ty.dtype.is_integer else "set"
    return builder.value("form.scatter", (table, new, index), ty, attrs)


def _scan(draw: Draw, builder: Builder, pool: list[Value]) -> Value | None:
    value = _pick(draw, pool)
    ty = tensor_type(value)
    if not ty.rank or ty.dtype == I64:
        return None
    kind = draw(st.sampled_from(("sum", "sum", "max", "min", "prod")))
    accum = I32 if ty.dtype == I32 else F32
    attrs = {"kind": kind, "axis": draw(st.integers(0, ty.rank - 1)), "accum": accum, "order": Blocks()}
    return builder.value("form.scan", (value,), ty, attrs)


def _sort(draw: Draw, builder: Builder, pool: list[Value]) -> Value | None:
    value = _pick(draw, pool)
    ty = tensor_type(value)
    if not ty.rank:
        return None
    attrs = {"axis": draw(st.integers(0, ty.rank - 1)), "descending": draw(st.booleans())}
    return builder.value("form.sort", (value,), TensorType(ty.dims, I64), attrs)


MAPS = (_unary, _binary, _binary, _iota)
DENSE = (*MAPS, _reduce, _reduce, _contract, _view, _view, _assemble)
"""Steps whose accesses follow from the program alone."""
STEPS = (*DENSE, _scan, _sort, _gather, _gather, _scatter)
