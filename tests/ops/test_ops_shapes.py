"""Every operator over shapes that hypothesis draws: nothing, one, odd sizes, sizes past the blocks of 512 and segments
of 4096, broadcast, and operands that are strided, reversed and transposed views. Machine code gives the oracle's bits,
and both are as close to NumPy in float64 as `test_ops_dtypes` states.

An operator's own cases are taken with symbols for their sizes, so each is compiled once and then run with all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, example, given, reject, settings
from hypothesis import strategies as st

import tesserac.schedule.dialect
import tesserac.tile.dialect  # noqa: F401  (register the operations)
from tesserac.graph.dialect import PREFIX, operator_attrs
from tesserac.graph.interp import run_function
from tesserac.graph.passes.fold_views import fold_views
from tesserac.graph.passes.generalize import generalize
from tesserac.graph.passes.split_complex import split_complex
from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Block, Module, Op, Region, Value
from tesserac.ir.passes import run_passes
from tesserac.ops.convert import Bitcast
from tesserac.ops.registry import OPERATORS, Array, Operator
from tesserac.ops.shape import Permute, Reshape, Slice
from tesserac.ops.unify import Mismatch, choose
from tesserac.pipeline import schedule_passes
from tesserac.schedule.machine import AARCH64
from tesserac.tile.build import tile_pass
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32
from tesserac.types.ty import TensorType
from tests.ops.test_graph_lower import parse_type
from tests.ops.test_graph_lower import sample as any_sample
from tests.ops.test_ops_dtypes import close, wide
from tests.support.cpu_kernels import HOST, same_bits
from tests.support.sampling import of_each_operator, spread
from tests.tile.test_tile_cpu_random import Native

FIXED = ("fft", "ifft", "rfft", "irfft", "random_bits")
"""Operators with code for each size: `test_fft` and `test_random_bits` draw those."""
SIZES = (0, 1, 2, 3, 5, 17, 64, 65, 130, 513, 1025)
MOST_ELEMENTS, MOST_OF_SLOW = 4_100, 600
SLOW = ("scatter", "einsum", "add_at", "mul_at", "extreme_at", "scatter_add")
"""Operators that the oracle takes element by element."""


@dataclass(frozen=True)
class Case:
    """An operator with symbols for sizes. Where `strided`, each operand is a view of an array twice as large in every
    dim, with dims in the opposite order, read backwards along every second one."""

    operator: Operator
    types: tuple[TensorType, ...]
    symbols: tuple[str, ...]
    strided: bool


def symbolic(operator: Operator, texts: Sequence[str], strided: bool) -> Case | None:
    """The case with a symbol for each size but 1, which stretches, also where attributes have that size."""
    types = [parse_type(text) for text in texts]
    sizes = [dim for ty in types for dim in ty.dims] if types else dims_of(operator)
    names = {dim: Dim.sym(f"S{dim}") for dim in sizes if dim.constant is not None and dim.constant not in (-4, -1, 1)}
    made = with_dims(operator, lambda dim: names.get(dim, dim))
    typed = tuple(TensorType(tuple(names.get(d, d) for d in ty.dims), ty.dtype, ty.policy) for ty in types)
    try:
        made.infer(list(typed))
    except Mismatch:
        return None
    return Case(made, typed, tuple(sorted({str(name) for name in names.values()})), strided)


def dims_of(operator: Operator) -> list[Dim]:
    values = [getattr(operator, field.name) for field in fields(operator)]
    flat = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
    return [item for item in flat if isinstance(item, Dim)]


def with_dims(operator: Operator, size: Callable[[Dim], Dim]) -> Operator:
    """The operator with other sizes in its attributes."""
    changed = {}
    for field in fields(operator):
        value = getattr(operator, field.name)
        if isinstance(value, Dim):
            changed[field.name] = size(value)
        elif isinstance(value, tuple) and all(isinstance(item, Dim) for item in value):
            changed[field.name] = tuple(map(size, value))
    return replace(operator, **changed)


def cases() -> list[Any]:
    """Of each operator the case with the most dims, plain and strided, and another one of another shape."""
    found: list[Any] = []
    for name, cls in sorted(OPERATORS.items()):
        if name in FIXED:
            continue
        if name == "reshape":
            found += [pytest.param(case, id=f"{name}-{place}") for place, case in enumerate(reshapes())]
            continue
        whole = [case for case in cls.cases() if not isinstance(case[0], Slice) or min(case[0].steps) > 0]
        ranked = sorted(whole, key=lambda case: -sum(text.count(",") for text in case[1]))
        chosen = [(ranked[0], False), (ranked[0], True), (ranked[-1], False)]
        made = [symbolic(*case, strided) for case, strided in chosen]
        usable = dict.fromkeys(case for case in made if case is not None)
        found += [pytest.param(case, id=f"{name}-{place}") for place, case in enumerate(usable)]
    return found


def reshapes() -> list[Case]:
    """Merging and splitting dims of any sizes."""
    a, b, c = map(Dim.sym, "ABC")
    shapes = [((a, b, c), (a * b, c)), ((a, b, c), (a, b * c)), ((a, b, c), (a * b * c,))]
    ways, names = product(shapes, (False, True)), ("A", "B", "C")
    return [Case(Reshape(after), (TensorType(before, F32),), names, views) for (before, after), views in ways]


# ----------------------------------------------------------------------------------------------------- compiled


CASES = cases()


@cache
def compiled(case: Case) -> tuple[Module, Native]:
    stored = [storage_type(ty, case.strided) for ty in case.types]
    block = Block(stored or [TensorType(tuple(map(Dim.sym, case.symbols)), F32)])
    builder = Builder(block)
    pairs = zip(block.args, case.types, strict=False)
    operands = [strided_view(builder, arg, ty) if case.strided else arg for arg, ty in pairs]
    attrs, result = operator_attrs(case.operator), case.operator.infer(list(case.types))
    builder.op("graph.return", (builder.value(PREFIX + case.operator.name, operands, result, attrs),))
    host = {"sym_name": "f", "params": ("x",) * len(block.args), "guards": (), "entry": True}
    module = Module([Op(OPDEFS["graph.func"], (), (), host, [Region(block)])])
    forms = run_passes(module, [generalize, split_complex, fold_views], verify=True)
    return forms, Native(run_passes(forms, [*schedule_passes(AARCH64), tile_pass(AARCH64)], verify=True), HOST)


def storage_type(ty: TensorType, strided: bool) -> TensorType:
    return TensorType(tuple(d * 2 for d in reversed(ty.dims)), ty.dtype, ty.policy) if strided else ty


def strided_view(builder: Builder, array: Value, ty: TensorType) -> Value:
    if not ty.dims:
        return array
    order = tuple(reversed(range(ty.rank)))
    whole = TensorType(tuple(d * 2 for d in ty.dims), ty.dtype, ty.policy)
    turned = builder.value(PREFIX + "permute", (array,), whole, operator_attrs(Permute(order)))
    starts = tuple(d * 2 - 1 if axis % 2 == 0 else Dim.const(1) for axis, d in enumerate(ty.dims))
    steps = tuple(-2 if axis % 2 == 0 else 2 for axis in range(ty.rank))
    return builder.value(PREFIX + "cut", (turned,), ty, operator_attrs(Slice(starts, ty.dims, steps)))


def stored_so(x: Array) -> Array:
    """An array of which `strided_view` makes x."""
    if not x.ndim:
        return x
    whole = np.zeros([2 * size for size in x.shape], x.dtype)
    whole[tuple(slice(None, None, -2) if axis % 2 == 0 else slice(1, None, 2) for axis in range(x.ndim))] = x
    return np.ascontiguousarray(whole.transpose())


# --------------------------------------------------------------------------------------------------------- runs


def operand(case: Case, place: int, sizes: Mapping[str, int], rng: np.random.Generator) -> Array:
    """Places are drawn among those that the first operand has."""
    ty = case.types[place]
    shape = tuple(Dim.const(d.evaluate(sizes)) for d in ty.dims)
    fixed = TensorType(shape, ty.dtype, ty.policy)
    signatures = [s.for_count(len(case.types)) for s in case.operator.parsed]
    name = choose(signatures, tuple(t.rank for t in case.types)).operands[place].name
    if name not in ("index", "start"):
        values = any_sample(fixed, rng)
        if place in case.operator.whole:
            return np.rint(values)
        products = case.operator.name in ("prod", "cumprod", "mul_at") and values.dtype.kind == "f"
        return values ** values.dtype.type(1 / 64) if products else values  # long ones stay within the type
    least = min([d.evaluate(sizes) for d in case.types[0].dims], default=1)
    bounds = (0, 1) if name == "start" else (-least, least)
    return rng.integers(*bounds, [d.evaluate({}) for d in shape]).astype(any_sample(fixed, rng).dtype)


def drawn_so(case: Case, sizes: Mapping[str, int]) -> tuple[list[Array], Array] | None:
    """Operands of these sizes, and what NumPy makes of them; None for sizes that the operator's guards refuse, or of
    which NumPy knows no result."""
    rng = np.random.default_rng(0)
    try:
        args = [operand(case, place, sizes, rng) for place in range(len(case.types))]
        with np.errstate(all="ignore"):
            as_given = isinstance(case.operator, Bitcast)  # bits are those of the dtype
            operands = [a if as_given or a.dtype.kind == "c" else wide(a) for a in args]
            reference = concrete(case, sizes).reference(*operands)
    except (IndexError, ValueError):
        return None
    return args, np.asarray(reference)


def concrete(case: Case, sizes: Mapping[str, int]) -> Operator:
    return with_dims(case.operator, lambda dim: Dim.const(dim.evaluate(sizes)))


def check(case: Case, sizes: Mapping[str, int]) -> None:
    found = drawn_so(case, sizes)
    if found is None:
        reject()
    args, expected = found
    forms, native = compiled(case)
    given = [stored_so(a) if case.strided else a for a in args]
    given = given or [np.zeros([sizes[name] for name in case.symbols], np.float32)]
    (oracle,) = run_function(forms, "f", given)
    (got,) = native.run("f", given)
    same_bits(got, oracle)
    types = [TensorType(tuple(Dim.const(d.evaluate(sizes)) for d in t.dims), t.dtype, t.policy) for t in case.types]
    result = concrete(case, sizes).infer(types)
    assert oracle.shape == expected.shape
    if result.dtype.is_complex:
        np.testing.assert_allclose(oracle, expected, rtol=1e-5, atol=1e-5)
    else:
        close(oracle, expected, types, result)


def fitting(case: Case, drawn: Sequence[int]) -> dict[str, int]:
    """Sizes for the symbols, the later ones smaller where there would be too many elements."""
    sizes, elements = {}, 1
    most = MOST_OF_SLOW if case.operator.name in SLOW else MOST_ELEMENTS
    for name, size in zip(case.symbols, drawn, strict=False):
        sizes[name] = min(size, max(most // max(elements, 1), 1))
        elements *= max(sizes[name], 1)
    return sizes


DRAWN = (
    (0,) * 6, (1,) * 6, (4099, 3, 1, 1, 1, 1), (3, 1025, 2, 1, 1, 1), (1, 700, 2, 1, 1, 1)
)  # fmt: skip
"""Sizes that every operator is run with, whatever else is drawn."""


@pytest.mark.one_in(48)
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
@pytest.mark.parametrize("case", of_each_operator(CASES, 1))
@example(DRAWN[0])
@example(DRAWN[1])
@example(DRAWN[2])
@example(DRAWN[3])
@example(DRAWN[4])
@given(st.tuples(*[st.sampled_from(SIZES)] * 6))
@settings(max_examples=1, phases=(Phase.explicit, Phase.generate), deadline=None)
def test_shapes(case: Case, drawn: tuple[int, ...]) -> None:
    check(case, fitting(case, drawn))


# ----------------------------------------------------------------------------------------------------- coverage

NOT_RUN = {"argmax": "empty", "argmin": "empty", "max": "empty", "min": "empty", "windows": "empty"}
"""What no case is run with: NumPy knows no largest of nothing, and a window has elements."""


def coverage(name: str) -> set[str]:
    """The kinds of sizes that an operator is run with, among them `views`."""
    found = set()
    for case in (param.values[0] for param in CASES if str(param.id).rpartition("-")[0] == name):
        for drawn in DRAWN:
            sizes = fitting(case, drawn)
            if drawn_so(case, sizes) is not None:
                values = sizes.values()
                kinds = {"empty": 0 in values, "one": 1 in values, "large": any(v > 512 for v in values)}
                kinds |= {"odd": any(v % 2 and v > 1 for v in values), "views": case.strided and 0 not in values}
                found |= {kind for kind, holds in kinds.items() if holds}
    return found


@pytest.mark.one_in(4)
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
@pytest.mark.parametrize("name", spread(sorted(OPERATORS.keys() - set(FIXED)), 25))
def test_every_operator_meets_every_kind_of_size(name: str) -> None:
    kinds = {"empty", "one", "odd", "large", *(["views"] if OPERATORS[name].parsed[0].operands else [])}
    assert coverage(name) - ({"views"} - kinds) == kinds - {NOT_RUN.get(name, "")}
