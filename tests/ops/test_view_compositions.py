"""Cuts of views of computed values; operators that change nothing, wherever they stand; tensors without dims."""

from __future__ import annotations

from functools import cache
from itertools import product
from operator import itemgetter

import numpy as np
import pytest

import tessera
from tessera.function import CompiledFunction
from tesserac.base.source import SourceFile
from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import Session
from tesserac.ops.registry import OPERATORS
from tesserac.target.cpu.build import host_platform
from tests.support.checking import diagnose
from tests.support.sampling import some_of_each, spread

X = np.arange(24, dtype=np.float32).reshape(4, 6) - 7.5

# --- views, then elementwise operators, then cuts --------------------------------------------------------------------

VIEWS = {
    "merged": ("reshape(x, (N*M,))", lambda x: x.reshape(-1)),
    "split": ("reshape(x, (N, M/2, 2))", lambda x: x.reshape(4, 3, 2)),
    "regrouped": ("reinterpret(x, (M, N))", lambda x: x.reshape(6, 4)),
    "turned": ("transpose(x)", lambda x: x.T),
    "turned and merged": ("reshape(transpose(x), (M*N,))", lambda x: x.T.reshape(-1)),
    "with a unit dim": ("reshape(x, (N, 1, M))", lambda x: x.reshape(4, 1, 6)),
    "mirrored": ("flip(x, axis=0)", lambda x: x[::-1]),
    "repeated": ("expand(x, (3, N, M))", lambda x: np.broadcast_to(x, (3, 4, 6))),
    "cut and merged": ("reshape(x[:, 1:3], (2*N,))", lambda x: x[:, 1:3].reshape(-1)),
}
CUTS = (
    *("[:3]", "[1:]", "[:-1]", "[::2]", "[1::2]", "[2]", "[-1]"),
    *("[None, :2]", "[..., :1]", "[..., 0]", "[1:][::2][:1]"),
)
BETWEEN = {"nothing": "{}", "a sign": "(-{})", "a sum with itself": "({0} * 2.0 + {0})", "a function": "relu({})"}
MEANING = {
    "nothing": lambda v: v,
    "a sign": lambda v: -v,
    "a sum with itself": lambda v: v * 2 + v,
    "a function": lambda v: np.maximum(v, 0),
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("view", "between"), some_of_each(product(VIEWS, BETWEEN), key=itemgetter(0)))
def test_a_cut_of_a_view_reads_the_right_elements(view: str, between: str) -> None:
    text, meant = VIEWS[view]
    cuts = ", ".join(f"v{cut}" for cut in CUTS)
    where = "where M % 2 == 0, N >= 3, M >= 4"
    program = f"def f(x: Tensor[N, M, f32]) {where}:\n    v = {BETWEEN[between].format(text)}\n    return {cuts}\n"
    expected = MEANING[between](meant(X))
    for cut, got in zip(CUTS, tessera.compile(program).f(X), strict=True):
        np.testing.assert_array_equal(got, eval(f"v{cut}", {"v": expected}), err_msg=cut)


# --- operators that change nothing -----------------------------------------------------------------------------------

IDENTITIES = {
    "pad": "pad({}, 0, 0, axis=0)",
    "concat": "concat([{}], axis=0)",
    "concat with nothing": "concat([{}, zeros(0, M)], axis=0)",
    "reshape": "reshape({}, (N, M))",
    "permute": "permute({}, (0, 1))",
    "slice": "{}[:, :]",
    "roll": "roll({}, 0, axis=0)",
    "repeat": "repeat({}, 1, axis=0)",
    "split": "split({}, 1)[0]",
    "flip twice": "flip(flip({}, axis=1), axis=1)",
}
POSITIONS = """
def changed(x: Tensor[N, M, f32]):
    y = x
    for i in range(3):
        y = {of_y} * 0.5 + x
    behind = {of_y}
    for i in range(2):
        y = {of_behind}
    if sum(y) > 0.0:
        y = {of_y}
    else:
        y = {of_x}
    z = {of_x}
    z[0] = 1.0
    return {of_x}, behind, y, z, {of_behind} + x

def total(x: Tensor[N, M, f32]):
    a, b, c, d, e = changed(x)
    return sum(a * b) + sum(c * d) + sum(e)

def f(x: Tensor[N, M, f32]) where N >= 1:
    a, b, c, d, e = changed(x)
    return a, b, c, d, e, grad(total)(x)
"""


def written(identity: str) -> str:
    return POSITIONS.format(**{f"of_{name}": identity.format(name) for name in ("x", "y", "behind")})


@pytest.fixture(scope="module")
def plain() -> tuple[np.ndarray, ...]:
    return tessera.compile(written("{}")).f(X)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("kind", IDENTITIES)
def test_what_changes_nothing_changes_nothing(kind: str, plain: tuple[np.ndarray, ...]) -> None:
    for got, expected in zip(tessera.compile(written(IDENTITIES[kind])).f(X), plain, strict=True):
        np.testing.assert_array_equal(got, expected)


# --- sizes that are equal have one form ------------------------------------------------------------------------------

EQUAL = {
    "product": "zeros(2, N//2, dtype=f64) @ y",
    "sum": "zeros(2, N//2, dtype=f64) + y",
    "einsum": "einsum('i,i->i', zeros(N//2, dtype=f64), y)",
    "call": "dot(zeros(2, N//2, dtype=f64), y)",
    "solve": "solve(eye(N//2, dtype=f64), y)",
    "join": "concat([zeros(2, N//2, dtype=f64), y[None, :]], axis=0)",
}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("kind", EQUAL)
def test_halves_are_equal_however_they_are_rounded(kind: str) -> None:
    """`x[:-1][::2]` has `ceil_div(N - 1, 2)` elements, which are `N // 2`; the verifier says so too."""
    text = f"""
def dot(a: Tensor[M, K, f64], b: Tensor[K, f64]):
    return a @ b

def f(x: Tensor[N, f64]):
    y = x[:-1][::2]
    return {EQUAL[kind]}
"""
    session, source = Session(verify=True), SourceFile("halves.tess", text)
    session.artifact(source, session.function(source, "f"), host_platform())


FACTS = {
    "equal": ("N == 2*M", "ones(3, N, dtype=f64) @ concat([y, y], axis=0)"),
    "rows": ("N == 2*M", "ones(N, 3, dtype=f64).T @ concat([y, y], axis=0)"),
    "smaller": ("N >= M", "ones(3, min(N, M), dtype=f64) @ y"),
    "einsum": ("N == 2*M", "einsum('ij,j->i', ones(3, N, dtype=f64), concat([y, y], axis=0))"),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", FACTS)
def test_a_product_over_sizes_that_a_fact_makes_equal(kind: str) -> None:
    fact, result = FACTS[kind]
    text = f"def f(x: Tensor[N, f64], y: Tensor[M, f64]) where {fact}:\n    return {result}\n"
    session, source = Session(verify=True), SourceFile("facts.tess", text)
    function = CompiledFunction(session.artifact(source, session.function(source, "f"), host_platform()))
    x, y = np.arange(6.0), np.arange(3.0)
    np.testing.assert_array_equal(function(x, y), np.full(3, 3.0 if kind == "smaller" else 6.0))


# --- few dims and many -----------------------------------------------------------------------------------------------

CALLS = ("{}(x)", "{}(x, x)", "{}(x, axis=0)", "{}([x, x])", "{}([x])", "{}(x, keep=True)")


@cache
def session() -> Session:
    return Session(verify=True)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", spread((name for name, op in OPERATORS.items() if op.surface), 30))
def test_a_number_is_taken_or_refused_with_a_code(name: str) -> None:
    for dtype in ("f32", "i32"):
        for call in CALLS:
            source = SourceFile("number.tess", f"def f(x: Tensor[{dtype}]):\n    return {call.format(name)}\n")
            try:
                session().levels(source, session().function(source, "f"), host_platform().schedule)
            except ProgramError as problem:
                assert all(found.code != "E0999" for found in problem.diagnostics)
            session().forget(source.path)


@pytest.mark.parametrize("function", ["argmax", "argmin"])
def test_a_number_is_its_own_first_extreme(function: str) -> None:
    assert tessera.compile(f"def f(x: Tensor[f32]):\n    return {function}(x)\n").f(np.float32(3)) == 0


@pytest.mark.parametrize("dims", [["1"] * 65, ["N"] * 70, [f"A{i}" for i in range(100)]])
def test_a_tensor_has_as_many_dims_as_numpy_allows(dims: list[str]) -> None:
    found = diagnose(SourceFile("many.tess", f"def f(x: Tensor[{', '.join(dims)}, f32]):\n    return x + 1.0\n"))
    assert [diagnostic.code for diagnostic in found] == ["E0316"]
    text = f"def f(x: Tensor[f32]):\n    return zeros({', '.join(['1'] * len(dims))})\n"
    assert [diagnostic.code for diagnostic in diagnose(SourceFile("many.tess", text))] == ["E0316"]


def test_sixty_four_dims_are_not_too_many() -> None:
    text = f"def f(x: Tensor[{', '.join(['1'] * 64)}, f32]):\n    return sum(x + 1.0), x[0], -x\n"
    total, row, negated = tessera.compile(text).f(np.ones((1,) * 64, np.float32))
    assert total == 2 and row.ndim == 63 and negated.ndim == 64
