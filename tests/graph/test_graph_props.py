"""No Graph pass changes a bit: random programs, run as built and after each step of the pipeline."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tesserac.graph.dialect import PREFIX, operator_attrs
from tesserac.graph.interp import run_function
from tesserac.graph.passes.cse import cse
from tesserac.graph.passes.dce import dce
from tesserac.graph.passes.fold import fold
from tesserac.graph.passes.fold_views import fold_views
from tesserac.graph.passes.generalize import generalize
from tesserac.graph.rules import apply_rules
from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Block, Module, Op, Region, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.parser import parse_module
from tesserac.ir.passes import run_passes
from tesserac.ir.printer import print_module
from tesserac.ops.compare import Less
from tesserac.ops.contract import MatMul
from tesserac.ops.create import Full
from tesserac.ops.elementary import Exp, Rint
from tesserac.ops.elementwise import Abs, Add, Maximum, Mul, Neg, Where
from tesserac.ops.reduce import Max, Mean, Sum
from tesserac.ops.registry import Operator
from tesserac.ops.shape import Expand, Permute
from tesserac.types.dims import ONE, Dim
from tesserac.types.dtype import F32
from tesserac.types.policy import NO_POLICY
from tesserac.types.ty import TensorType
from tests.support.sampling import examples

M, N = Dim.sym("M"), Dim.sym("N")
MATRIX = TensorType((M, N), F32)
Step = Callable[[Builder, list[Value], int], Value | None]


def apply(builder: Builder, operator: Operator, *operands: Value) -> Value:
    result = operator.infer([tensor_type(v) for v in operands])
    return builder.value(PREFIX + operator.name, operands, result, operator_attrs(operator))


def pick(values: list[Value], choice: int, dims: tuple[Dim, ...] | None = None) -> Value | None:
    fitting = [v for v in values if dims is None or tensor_type(v).dims == dims]
    return fitting[choice % len(fitting)] if fitting else None


def unary(operator: Operator) -> Step:
    return lambda b, values, choice: apply(b, operator, values[choice % len(values)])


def binary(operator: Operator) -> Step:
    def step(b: Builder, values: list[Value], choice: int) -> Value | None:
        left = values[choice % len(values)]
        right = pick(values, choice // 7, tensor_type(left).dims if choice % 3 else ())
        return apply(b, operator, left, right) if right is not None else None

    return step


def folded(operator: Operator) -> Step:
    return lambda b, values, choice: apply(b, operator, pick(values, choice, (M, N)) or values[0])


def constant(b: Builder, values: list[Value], choice: int) -> Value:
    return apply(b, Full((), F32, NO_POLICY, [0.5, -0.0, 0.0, 3.0, -1.25][choice % 5]))


def spread(b: Builder, values: list[Value], choice: int) -> Value | None:
    value = pick(values, choice, ((M, ONE), (N,), ())[choice % 3])
    return apply(b, Expand((M, N)), value) if value is not None else None


def chosen(b: Builder, values: list[Value], choice: int) -> Value | None:
    matrix, other = pick(values, choice, (M, N)), pick(values, choice // 5, (M, N))
    assert matrix is not None and other is not None
    return apply(b, Where(), apply(b, Less(), matrix, other), matrix, apply(b, Neg(), other))


def twisted(b: Builder, values: list[Value], choice: int) -> Value | None:
    """A product with a transpose, of which one permutation may be read through."""
    left, right = pick(values, choice, (M, N)), pick(values, choice // 5, (M, N))
    assert left is not None and right is not None
    square = apply(b, MatMul(), left, apply(b, Permute((1, 0)), right))
    return apply(b, Sum((1,), keep=True), square)


STEPS: tuple[Step, ...] = (
    *(unary(op) for op in (Neg(), Neg(), Abs(), Exp(), Rint())),
    *(binary(op) for op in (Add(), Mul(), Maximum())),
    *(folded(op) for op in (Sum((1,), keep=True), Sum((0,)), Max((0, 1)), Mean((1,), keep=True))),
    constant,
    spread,
    chosen,
    twisted,
)


def program(choices: list[tuple[int, int]]) -> Module:
    block = Block((MATRIX, MATRIX), ("x", "y"))
    builder, values = Builder(block), list(block.args)
    for step, choice in choices:
        made = STEPS[step % len(STEPS)](builder, values, choice)
        if made is not None:
            values.append(made)
    builder.op("graph.return", values[2:][-3:] or values[:1])
    attrs = {"sym_name": "f", "params": ("x", "y"), "guards": (), "entry": True}
    return Module([Op(OPDEFS["graph.func"], (), (), attrs, [Region(block)])])


choices = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 999)), max_size=14)


@pytest.mark.one_in(2)
@examples(120)
@given(choices, st.integers(0, 4), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_passes_keep_every_bit(steps: list[tuple[int, int]], rows: int, columns: int, seed: int) -> None:
    module = program(steps)
    rng = np.random.default_rng(seed)
    special = np.float32([0.0, -0.0, 1.0, np.inf, np.nan, 1e-40])
    args = [rng.normal(size=(rows, columns)).astype(np.float32) for _ in range(2)]
    args = [np.where(rng.random(a.shape) < 0.3, rng.choice(special, a.shape), a) for a in args]
    plain = run_function(run_passes(module, [generalize], verify=True), "f", args)
    forms = run_passes(module, [apply_rules, fold, cse, dce, generalize, fold_views], verify=True)
    for before, after in zip(plain, run_function(forms, "f", args), strict=True):
        assert np.array_equal(before, after, equal_nan=True)
        numbers = ~np.isnan(before)
        assert np.array_equal(np.signbit(before[numbers]), np.signbit(after[numbers]))


@pytest.mark.one_in(2)
@examples(40)
@given(choices)
def test_graphs_and_forms_print_and_parse(steps: list[tuple[int, int]]) -> None:
    for passes in ([], [generalize, fold_views]):
        text = print_module(run_passes(program(steps), passes, verify=True))
        assert print_module(parse_module(text)) == text
