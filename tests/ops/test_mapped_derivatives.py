"""Derivatives and mapped dims, in both orders. For every operator with a derivative, mapped derivatives are to the bit
the derivatives of elements, and a derivative of the mapped operator is all of them; the same of random programs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import tessera
from tesserac.graph.batching.dialect import VMAP, with_dim
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.registry import Operator
from tesserac.types.dims import Dim
from tesserac.types.ty import TensorType
from tests.ops.test_ops_derivatives import derivatives, inputs, sample, smooth_cases, wide, widened
from tests.support.derivative_runs import Body, Derivatives, run_body
from tests.support.sampling import spread

SIZE = 2
"""Of the mapped dim."""


def mapped(body: Body, types: Sequence[TensorType]) -> Body:
    """A function for every element of a dim in front of all its arguments."""

    def whole(builder: Builder, args: Sequence[Value]) -> Sequence[Value]:
        block = Block(list(types))
        outputs = body(Builder(block), block.args)
        Builder(block).op("form.yield", outputs)
        attrs = {"in_axes": (0,) * len(types), "out_axes": (0,) * len(outputs), "size": Dim.const(SIZE)}
        results = [with_dim(tensor_type(v), 0, Dim.const(SIZE)) for v in outputs]
        return builder.op(VMAP, args, results, attrs, (block,)).results

    return whole


def all_of(types: Sequence[TensorType]) -> list[TensorType]:
    return [with_dim(ty, 0, Dim.const(SIZE)) for ty in types]


def first_cases() -> list[object]:
    """One case of each operator."""
    found: dict[str, object] = {}
    for operator, narrow, name in smooth_cases():
        types = [wide(ty) for ty in narrow]
        found.setdefault(operator.name, pytest.param(widened(operator), types, id=name))
    return list(found.values())


@pytest.mark.one_in(24)
@pytest.mark.parametrize(("operator", "types"), first_cases())
def test_mapped_derivatives_and_derivatives_of_mapped_operators(operator: Operator, types: list[TensorType]) -> None:
    of, rng = derivatives(operator, types), np.random.default_rng(0)
    kinds = [*of.types, *of.moving, *of.results]
    rows = []
    for _ in range(SIZE):
        directions = [sample(ty, rng) for ty in (*of.moving, *of.results)]
        rows.append([*inputs(operator, types, rng), *directions])
    n, m = len(of.types), len(of.moving)
    expected = [[*first[0], *first[1]] for first in (of.first(r[:n], r[n : n + m], r[n + m :]) for r in rows)]
    args = [np.stack(column) for column in zip(*rows, strict=True)]
    for one, *elements in zip(run_body(mapped(of.both, kinds), all_of(kinds), args), *expected, strict=True):
        assert np.ascontiguousarray(one).tobytes() == np.stack(elements).tobytes()
    whole = Derivatives(mapped(of.smooth, of.types), all_of(of.types), of.wrt)
    jw, back = whole.first(args[:n], args[n : n + m], args[n + m :])
    for one, *elements in zip((*jw, *back), *expected, strict=True):
        np.testing.assert_allclose(one, np.stack(elements), rtol=1e-12, atol=1e-12)


UNARY = ("sin({})", "tanh({})", "exp(-{} * {})", "{} * 0.5 + 1.0", "cumsum({})", "softmax({})", "{} / (1.0 + {} ** 2)")
BINARY = ("{} * {}", "{} - {}", "where({} < 0.2, {}, {})", "maximum({}, {})", "stack([sum({}), max({}), mean({})])")
BLOCKS = (
    "    for i in range(3):\n        {a} = sin({a} + {b}[i])\n",
    "    if sum({a}) > 0.3:\n        {a} = {a} * {b}\n    else:\n        {a} = {a} - {b}\n",
    "    {a} = {b} * ({a} @ {b})\n",
    "    {a}[1] = sum({b})\n",
)


def random_program(rng: np.random.Generator, length: int) -> str:
    """A function of two vectors of three and one number, as text."""
    lines, names = [], ["x", "y"]
    for number in range(length):
        a, b = rng.choice(names), rng.choice(names)
        kind = rng.integers(0, 3)
        if kind == 2:
            lines.append(f"    v{number} = {a} + 0.0\n" + str(rng.choice(BLOCKS)).format(a=f"v{number}", b=b))
        else:
            pattern = str(rng.choice(UNARY if kind == 0 else BINARY))
            text = pattern.replace("{}", "\0")
            for own in ([a] * 3 if kind == 0 else [a, b, a]):
                text = text.replace("\0", own, 1)
            lines.append(f"    v{number} = {text}\n")
        names.append(f"v{number}")
    total = " + ".join(f"sum({name})" for name in names[-3:])
    return f"def f(x: Tensor[3, f64], y: Tensor[3, f64]) -> Tensor[f64]:\n{''.join(lines)}    return {total}\n"


USES = """
def mapped(x: Tensor[B, 3, f64], y: Tensor[3, f64]) -> Tensor[B, f64]:
    return vmap(f, in_axes=(0, None))(x, y)

def slope(x: Tensor[3, f64], y: Tensor[3, f64]) -> Tensor[3, f64]:
    return grad(f)(x, y)

def slopes(x: Tensor[B, 3, f64], y: Tensor[3, f64]) -> (Tensor[B, 3, f64], Tensor[B, 3, f64]):
    return vmap(grad(f), in_axes=(0, None))(x, y), grad(lambda x: sum(mapped(x, y)))(x)
"""


@pytest.mark.one_in(24)
@pytest.mark.parametrize("seed", spread(range(8), 3))
def test_random_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = tessera.compile(random_program(rng, int(rng.integers(3, 9))) + USES)
    x, y = rng.normal(size=(4, 3)), rng.normal(size=3)
    np.testing.assert_array_equal(program.mapped(x, y), [program.f(row, y) for row in x])
    mapped_slopes, slopes_of_mapped = program.slopes(x, y)
    np.testing.assert_array_equal(mapped_slopes, [program.slope(row, y) for row in x])
    np.testing.assert_allclose(slopes_of_mapped, mapped_slopes, rtol=1e-10, atol=1e-12)
