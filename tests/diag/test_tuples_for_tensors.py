"""A list of numbers, a shape or several results where one tensor or size is wanted: the fixes give what was meant."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tests.diag.test_growing_lists import mended, offered

TOTAL = "def total(x: Tensor[N, {dtype}]):\n    return sum(x)\n\n\ndef f(z: Tensor[B, f32]):\n    return {call}\n"
Z = np.zeros(2, "f4")


@pytest.mark.parametrize(
    ("dtype", "call", "expected"),
    [
        ("f32", "total([1.5, 2.0])", 3.5),
        ("f32", "total([1, 2])", 3.0),
        ("f64", "total([1.5, 2])", 3.5),
        ("i64", "total(x=[1, 2])", 3),
        ("f32", "total(torch.tensor([1.5, 2.0]))", 3.5),
        ("i64", "total(torch.as_tensor([1, 2]))", 3),
        ("f32", "total(tensor([1.5, 2.0]))", 3.5),
        ("f32", "total(topk(array([1.5, 2.0, 4.0]), 2))", 6.0),
    ],
)
def test_numbers_become_a_tensor(dtype: str, call: str, expected: float) -> None:
    text = mended(TOTAL.format(dtype=dtype, call=call))
    assert tessera.compile(text).f(Z) == expected


@pytest.mark.parametrize("wrong", ["total([[1.0], [2.0, 3.0]])", "total([[1.0], [2.0]])", "total(['a'])"])
def test_what_is_no_vector_has_no_fix(wrong: str) -> None:
    assert [diagnostic.fixes for diagnostic in offered(TOTAL.format(dtype="f32", call=wrong))] == [()]


def test_a_field_given_a_list() -> None:
    text = mended("struct P[N]:\n    w: Tensor[N, f32]\n\n\ndef f(z: Tensor[2, f32]):\n    return P(w=[1, 2]).w + z\n")
    np.testing.assert_array_equal(tessera.compile(text).f(Z), [1.0, 2.0])


def test_a_result_beside_its_residual() -> None:
    text = mended("def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return cg(lambda v: 2.0 * v, x)\n")
    np.testing.assert_allclose(tessera.compile(text).f(np.ones(3, "f4")), [0.5, 0.5, 0.5], rtol=1e-6)


COO = """def f(r: Tensor[E, i64], c: Tensor[E, i64], v: Tensor[E, f32], x: Tensor[N, f32]):
    return op.coo(r, c, v, {sizes}) @ x
"""


@pytest.mark.parametrize(("sizes", "count"), [("(5, N)", 5), ("(N, N)", 3)])
def test_a_shape_for_the_sizes_of_an_operator(sizes: str, count: int) -> None:
    text = mended(COO.format(sizes=sizes))
    places = np.array([0, 2])
    found = tessera.compile(text).f(places, places, np.ones(2, "f4"), np.arange(3, dtype="f4"))
    np.testing.assert_array_equal(found, [0.0, 0.0, 2.0, 0.0, 0.0][:count])


GRAPH = """struct G[E]:
    src: Tensor[E, i64]
    dst: Tensor[E, i64]
    w: Tensor[E, f32]
    nodes: int


def spread(g: G[E], x: Tensor[V, f32]) -> Tensor[V, f32]:
    assert V == g.nodes
    return expm_action(op.coo(g.src, g.dst, g.w, g.nodes), x)[0]


def f(src: Tensor[E, i64], dst: Tensor[E, i64], w: Tensor[E, f32]):
    return spread(G(src=src, dst=dst, w=w, nodes=3), ones(3))
"""


def test_a_size_that_is_asserted_to_be_a_number_is_one_to_the_library() -> None:
    """A function without annotations takes the sizes of its arguments as they are, and knows no fact of the caller."""
    places = np.arange(3)
    found = tessera.compile(GRAPH).f(places, places, np.ones(3, "f4"))
    np.testing.assert_allclose(found, np.full(3, np.e), rtol=1e-5)
