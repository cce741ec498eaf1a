"""Every operator of the registry over a mapped dim: to the bit what a loop over its elements gives, in the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from tesserac.graph.batching.dialect import VMAP, with_dim
from tesserac.graph.dialect import PREFIX, operator_attrs
from tesserac.graph.interp import run_function
from tesserac.graph.passes.generalize import generalize
from tesserac.graph.passes.split_complex import split_complex
from tesserac.graph.passes.transforms import transforms
from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Block, Module, Op, Region, Value
from tesserac.ir.passes import run_passes
from tesserac.ops.contract import MatMul
from tesserac.ops.elementwise import Add
from tesserac.ops.registry import OPERATORS, Operator, register
from tesserac.types.dims import Dim
from tesserac.types.ty import TensorType
from tests.ops.test_graph_lower import CASES, module_of, parse_type, sample
from tests.support.sampling import of_each_operator

Axes = tuple[int | None, ...]
SIZE = 3
"""Of a mapped dim."""


Levels = Sequence[tuple[Axes, int]]
"""Where the mapped dims of nested maps go in and come out, the outermost first."""


def mapped_call(builder: Builder, operator: Operator, operands: Sequence[Value], levels: Levels) -> Value:
    """The operator under one `graph.vmap` per level."""
    types = [v.type for v in operands]
    if not levels:
        return builder.value(PREFIX + operator.name, operands, operator.infer(types), operator_attrs(operator))
    (axes, out), *inner = levels
    elements = [_element(ty, axis) for ty, axis in zip(types, axes, strict=True)]
    block = Block(elements)
    result = mapped_call(Builder(block), operator, block.args, inner)
    Builder(block).op("form.yield", (result,))
    attrs = {"in_axes": axes, "out_axes": (out,), "size": Dim.const(SIZE)}
    return builder.value(VMAP, operands, with_dim(result.type, out, Dim.const(SIZE)), attrs, (block,))


def _element(ty: TensorType, axis: int | None) -> TensorType:
    dims = ty.dims if axis is None else (*ty.dims[:axis], *ty.dims[axis + 1 :])
    return TensorType(dims, ty.dtype, ty.policy)


def mapped_module(operator: Operator, types: Sequence[TensorType], levels: Levels) -> Module:
    block = Block(list(types))
    builder = Builder(block)
    builder.op("graph.return", (mapped_call(builder, operator, block.args, levels),))
    attrs = {"sym_name": "f", "params": ("x",) * len(types), "guards": (), "entry": True}
    return Module([Op(OPDEFS["graph.func"], (), (), attrs, [Region(block)])])


def bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def loops(forms: Module) -> int:
    """How many there are: some operators are loops themselves, as the product of complex numbers is."""
    return sum(op.name in ("form.loop", "form.while") for op in forms.walk())


def check_mapped(operator: Operator, types: Sequence[TensorType], axes: Axes, out: int) -> None:
    rng = np.random.default_rng(1)
    rows = [[sample(ty, rng) for _ in range(SIZE)] for ty in types]
    rows = [row if axis is not None else row[:1] * SIZE for row, axis in zip(rows, axes, strict=True)]
    single = run_passes(module_of(operator, list(types)), [generalize, split_complex], verify=True)
    expected = [run_function(single, "f", [row[i] for row in rows])[0] for i in range(SIZE)]
    whole = [ty if axis is None else with_dim(ty, axis, Dim.const(SIZE)) for ty, axis in zip(types, axes, strict=True)]
    args = [row[0] if axis is None else np.stack(row, axis) for row, axis in zip(rows, axes, strict=True)]
    module = mapped_module(operator, whole, [(axes, out)])
    forms = run_passes(module, [transforms, generalize, split_complex], verify=True)
    (found,) = run_function(forms, "f", args)
    assert loops(forms) == loops(single), "a hidden loop"
    assert bits(np.moveaxis(found, out, 0)) == bits(np.stack(expected))


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("operator", "types"), of_each_operator((case for case in CASES if case.values[1]), 2))
def test_a_mapped_operator_is_the_loop(operator: Operator, types: tuple[str, ...]) -> None:
    """Every choice of mapped operands; the dim in front, or at the end of each and of the result."""
    tensors = [parse_type(text) for text in types]
    for chosen in product((True, False), repeat=len(tensors)):
        if any(chosen):
            check_mapped(operator, tensors, tuple(0 if own else None for own in chosen), 0)
    last = tuple(ty.rank for ty in tensors)
    check_mapped(operator, tensors, last, operator.infer(tensors).rank)


FIRST_CASES = [cls.cases()[0] for cls in OPERATORS.values() if cls.parsed[0].operands]


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("operator", "types"), FIRST_CASES)
def test_mapped_twice(operator: Operator, types: tuple[str, ...]) -> None:
    """The first operand is mapped outside, the others inside, and all of them in between."""
    tensors = [parse_type(text) for text in types]
    rng = np.random.default_rng(2)
    size = Dim.const(SIZE)
    outer: Axes = (0, *(None for _ in tensors[1:]))
    inner: Axes = tuple(0 for _ in tensors)
    whole = [with_dim(ty, 0, size) for ty in tensors]
    whole[0] = with_dim(whole[0], 0, size)
    args = [sample(ty, rng) for ty in whole]
    module = mapped_module(operator, whole, [(outer, 0), (inner, 0)])
    (found,) = run_function(run_passes(module, [transforms, generalize, split_complex], verify=True), "f", args)
    single = run_passes(module_of(operator, tensors), [generalize, split_complex], verify=True)
    for i, j in np.ndindex(SIZE, SIZE):
        (expected,) = run_function(single, "f", [args[0][i, j], *(arg[j] for arg in args[1:])])
        np.testing.assert_array_equal(found[i, j], expected)


@pytest.mark.parametrize(
    ("left", "right"), [("[2, 4, 5]", "[2, 5, 6]"), ("[4, 5]", "[5, 6]"), ("[4, 5]", "[5]"), ("[5]", "[5, 6]")]
)
@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_a_mapped_product_is_one_contraction(left: str, right: str, axes: Axes) -> None:
    types = [parse_type(f"f32{shape}") for shape in (left, right)]
    whole = [ty if axis is None else with_dim(ty, axis, Dim.const(SIZE)) for ty, axis in zip(types, axes, strict=True)]
    forms = run_passes(mapped_module(MatMul(), whole, [(axes, 0)]), [transforms, generalize], verify=True)
    names = [op.name for op in forms.walk() if op.name.startswith("form.") and op.name != "form.view"]
    assert names == ["form.contract"]


def test_the_registry_refuses_an_operator_without_a_rule() -> None:
    class Unmapped(Add):
        """def f(x: Tensor[f32]) -> Tensor[f32]: return x"""

        name, batching = "unmapped", None

    with pytest.raises(TypeError, match="needs a rule for mapped operands"):
        register(Unmapped)
    assert "unmapped" not in OPERATORS
