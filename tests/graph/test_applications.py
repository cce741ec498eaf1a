"""Operators that have no matrix are known to the laws where they are applied: after inlining, in derivatives, maps and
loops, as fields and as what functions give. A program computes what its matrices say, with fewer applications."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessera
from tesserac.graph.algebra.applications import OUT
from tesserac.ir.core import Module
from tesserac.ir.parser import parse_module
from tesserac.ir.printer import print_module, print_op
from tesserac.ir.verify import verify_module
from tests.support.operator_modules import module_after_laws, program_text

ARGS = (
    "p: Tensor[N, i64], q: Tensor[N, i64], r: Tensor[K, i64], c: Tensor[K, i64], v: Tensor[K, f32], t: Tensor[3, f32], "
    "z: Tensor[3, c64], m: Tensor[N, N, f32], x: Tensor[N, f32], y: Tensor[N, f32]"
)
HELPERS = """
struct Layer[D]:
    A: Operator[D, D]

def turn(A: Operator[N, N], x: Tensor[N, f32]): return A @ x
def back(A: Operator[N, N], x: Tensor[N, f32]): return A.H @ x
def through(l: Layer[D], x: Tensor[D, f32]): return l.A.H @ (l.A @ x)
def made(p: Tensor[N, i64]): return op.permutation(p)
def looped(p: Tensor[N, i64], x: Tensor[N, f32]):
    P = op.permutation(p)
    for i in range(3):
        x = 2.0 * (P.H @ (P @ x))
    return x
def carried(p: Tensor[N, i64], x: Tensor[N, f32]):
    P = op.permutation(p)
    for i in range(3):
        x = 2.0 * (P.H @ (P @ x))
        P = P.H
    return P @ x
def loss(p: Tensor[N, i64], x: Tensor[N, f32]): return 0.5 * sum((op.permutation(p) @ x) ** 2)
def both(p: Tensor[N, i64], x: Tensor[N, f32]): return loss(p, x), grad(lambda y: loss(p, y))(x)
def entries(r: Tensor[K, i64], c: Tensor[K, i64], v: Tensor[K, f32], x: Tensor[N, f32]):
    return grad(lambda v: sum((op.coo(r, c, v, N, N) @ x) * (op.coo(r, c, v, N, N) @ x)))(v)

"""
INSIDE = 1
"""Whether there is a solution is looked at by solving: that is an effect, and stays with what it is given."""
C, P = "op.coo(r, c, v, N, N)", "op.permutation(p)"
PROGRAMS: dict[str, tuple[str, str, int]] = {
    # name: (expression, what NumPy computes, applications that are left)
    "undone": (f"{P}.H @ ({P} @ x)", "x", 0),
    "forth_after_back": (f"{P} @ ({P}.H @ x)", "x", 0),
    "with_numbers": (f"{P}.H @ (-(y[0] * ({P} @ x) / 4.0))", "-y[0] * x / 4", 0),
    "inlined": (f"back({P}, turn({P}, x))", "x", 0),
    "given": ("made(p).H @ (made(p) @ x)", "x", 0),
    "field": (f"through(Layer(A={P}), x)", "x", 0),
    "columns": (f"{P}.H @ ({P} @ m)", "m", 0),
    "mapped": (f"vmap(lambda y: {P}.H @ ({P} @ y))(m)", "m", 0),
    "mapped_operator": ("vmap(lambda s: op.conv1d(s, N).H @ (op.conv1d(s, N) @ x))(m[:, :3])",
                        "np.stack([ring(s).T @ (ring(s) @ x) for s in m[:, :3]])", 0),
    "gradient": ("grad(lambda y: loss(p, y))(x)", "x", 0),
    "with_value": ("both(p, x)[1]", "x", 0),
    "tangent": ("jvp(lambda y: made(p).H @ (made(p) @ sin(y)), (x,), (y,))[1]", "np.cos(x) * y", 0),
    "loop": ("looped(p, x)", "8 * x", 0),
    "loop_carried": ("carried(p, x)", "8 * perm(p).T @ x", 1),
    "kronecker": (f"op.kronecker({P}, op.permutation(q)).H @ (op.kronecker({P}, op.permutation(q)) @ "
                  "reshape(m, (N * N,)))", "m.ravel()", 0),
    "direct_sum": (f"op.direct_sum({P}, op.eye(2)).H @ (op.direct_sum({P}, op.eye(2)) @ concat([x, y[:2]]))",
                   "np.concatenate([x, y[:2]])", 0),
    "two": (f"({P} ∘ op.permutation(q)).H @ (({P} ∘ op.permutation(q)) @ x)", "x", 0),
    "inverse": ("inverse(op.conv1d(t, N)) @ (op.conv1d(t, N) @ x)", "x", INSIDE),
    "system": ("solve(op.conv1d(t, N), 2.0 * (op.conv1d(t, N) @ x))", "2 * x", INSIDE),
    "sum": (f"{C} @ x + {C} @ y", "sparse @ (x + y)", 1),
    "difference": (f"2.0 * ({C} @ x) - {C} @ y", "sparse @ (2 * x - y)", 1),
    "sum_of_implicit": ("op.implicit(lambda s: m @ s, lambda s: m.T @ s, N) @ x + "
                        "op.implicit(lambda s: m @ s, lambda s: m.T @ s, N) @ y", "m @ (x + y)", 2),
    "not_the_same": (f"op.permutation(q).H @ ({P} @ x)", "perm(q).T @ (perm(p) @ x)", 2),
    "not_back": (f"{P} @ ({P} @ x)", "perm(p) @ perm(p) @ x", 2),
    "not_unitary": (f"{C}.H @ ({C} @ x)", "sparse.T @ (sparse @ x)", 2),
    "not_turned": (f"{C} @ x + {C}.H @ x", "sparse @ x + sparse.T @ x", 2),
    "not_alone": (f"sum({C} @ x) * ({C} @ x + {C} @ y)", "np.sum(sparse @ x) * (sparse @ (x + y))", 2),
    "not_a_number": (f"{P}.H @ (y * ({P} @ x))", "perm(p).T @ (y * (perm(p) @ x))", 2),
    "by_entries": ("entries(r, c, v, x)", "2 * (sparse @ x)[r] * x[c]", 1),
    "complex": ("grad(lambda y: sum(abs(op.conv1d(z, N) @ y) ** 2))(x)",
                "2 * np.real(ring(z).conj().T @ (ring(z) @ x))", 1),
}  # fmt: skip


TEXT = program_text(HELPERS, ARGS, PROGRAMS)


@pytest.fixture(scope="module")
def module() -> Module:
    return module_after_laws(TEXT)


def perm(p: Any) -> Any:
    return np.eye(len(p))[p]


def ring(taps: Any, n: int = 6) -> Any:
    found = np.zeros((n, n), taps.dtype)
    for j, tap in enumerate(taps):
        found += tap * np.roll(np.eye(n), j, axis=0)
    return found


def numbers() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    n, k = 6, 9
    r, c = rng.integers(0, n, (2, k))
    v = rng.standard_normal(k).astype("f4")
    z = (rng.standard_normal(3) + 1j * rng.standard_normal(3)).astype("c8")
    t, m = np.array([4, 1, -1], "f4"), rng.standard_normal((n, n)).astype("f4")
    x, y = rng.standard_normal((2, n)).astype("f4")
    return {"p": rng.permutation(n), "q": rng.permutation(n), "r": r, "c": c, "v": v, "t": t, "z": z, "m": m,
            "x": x, "y": y}  # fmt: skip


@pytest.mark.one_in(16)
def test_laws_spare_applications(module: Module) -> None:
    left = {name: sum(op.name == OUT for op in module.lookup(f"m.f_{name}").walk()) for name in PROGRAMS}
    assert left == {name: row[2] for name, row in PROGRAMS.items()}


@pytest.mark.one_in(48)
def test_the_numbers_are_those_of_the_matrices() -> None:
    compiled, given = tessera.compile(TEXT), numbers()
    sparse = np.zeros((6, 6))
    np.add.at(sparse, (given["r"], given["c"]), given["v"])
    for name, (_, expected, _) in PROGRAMS.items():
        found = compiled[f"f_{name}"](*given.values())
        wanted = eval(expected, {"np": np, "perm": perm, "ring": ring, "sparse": sparse, **given})
        assert np.allclose(found, wanted, rtol=1e-4, atol=2e-5), name


@pytest.mark.one_in(6)
def test_ends_are_printed_and_read(module: Module) -> None:
    text = print_op(module.lookup("m.f_not_back"))
    ends = '{flags = ["unitary", "real"], inverse = false, kind = "permutation(0)", sizes = [], turned = false}'
    assert f"graph.operator_in(%x, %order) {ends}" in text
    again = parse_module(text)
    verify_module(again)
    assert print_module(again).strip() == text.strip()


WRONG = """graph.func @f {entry = true, guards = [], params = ["a"]} {
  ^(%a: tensor<[2], f32>):
    %b = graph.operator_in(%a) {flags = ["FLAG"], inverse = false, kind = "KIND", sizes = [], turned = false} : tensor<[2], f32>
    graph.return(%b)
}"""  # noqa: E501


def test_the_verifier_refuses_what_nobody_reads() -> None:
    verify_module(parse_module(WRONG.replace("FLAG", "unitary").replace("KIND", "implicit")))
    for flag, kind in (("orthogonal", "implicit"), ("unitary", "")):
        with pytest.raises(Exception, match="does not fit its operands"):
            verify_module(parse_module(WRONG.replace("FLAG", flag).replace("KIND", kind)))


KINDS = {
    "op.dense(m, unitary=True)": ("unitary",),
    "op.permutation(p)": ("unitary",),
    "op.kronecker(op.permutation(p), op.eye(1))": ("unitary",),
    "op.dense(m + m.T, self_adjoint=True)": ("self_adjoint",),
    "0.5 * op.permutation(p)": (),
    "op.coo(r, c, v, N, N)": (),
    "op.coo(r, c, v, N, N) + op.eye(N)": (),
    "op.conv1d(t, N)": ("normal",),
    "op.toeplitz(x, y)": (),
    "op.banded(m[:3], 1, 1)": (),
    "op.triangular(m)": (),
    "op.block_sparse(v[:, None, None] * m[None, :2, :2], r, c, N, N)": (),
}


@pytest.mark.one_in(48)
@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_goes_on_with_the_adjoint(kind: str) -> None:
    compiled = tessera.compile(f"""
def whole({ARGS}): return to_dense({kind})
def f({ARGS}, w: Tensor[N, f32]):
    A = {kind}
    for i in range(3):
        w = A @ w + A.H @ (A @ w)
        A = A.H
    return w, A
def g({ARGS}, w: Tensor[N, f32]): return grad(lambda w: sum(f(p, q, r, c, v, t, z, m, x, y, w)[0]))(w)
""")
    given = numbers()
    given["m"] = np.linalg.qr(given["m"])[0]
    if "block" in kind:
        given |= {"r": given["r"] % 3, "c": given["c"] % 3}
    a, w, whole = compiled.whole(*given.values()), given["x"], np.eye(6)
    for turn in range(3):
        own = a if turn % 2 == 0 else a.T
        whole = (own + own.T @ own) @ whole
    found, operator = compiled.f(*given.values(), w)
    assert np.allclose(found, whole @ w, rtol=1e-3, atol=1e-3)
    assert np.allclose(operator.to_dense(), a.T, atol=1e-6) and set(KINDS[kind]) <= set(operator.flags)
    assert np.allclose(compiled.g(*given.values(), w), whole.T @ np.ones(6), rtol=1e-3, atol=1e-3)


CAPTURED = """
def f(a: Tensor[N, N, f64], b: Tensor[N, N, c128], x: Tensor[N, f64], z: Tensor[N, c128]):
    A = op.implicit(lambda v: a @ v, lambda v: a.T @ v, N)
    B = op.implicit(lambda v: b @ v, lambda v: b.H @ v, N)
    return to_dense(A), trace(A), B.T @ z
"""


@pytest.mark.one_in(12)
def test_numbers_of_functions_are_those_that_they_captured() -> None:
    rng = np.random.default_rng(2)
    a, x, b = rng.standard_normal((4, 4)), rng.standard_normal(4), rng.standard_normal((4, 4)) * (1 + 2j)
    matrix, trace, turned = tessera.compile(CAPTURED).f(a, b, x, x + 1j)
    assert np.array_equal(matrix, a) and np.isclose(trace, np.trace(a)) and np.allclose(turned, b.T @ (x + 1j))


def test_taps_have_one_for_each_place_before_a_loop_turns_them() -> None:
    """They were read as if there were as many, beyond their memory: what pads them needs as many places."""
    turned = tessera.compile("""
def f(t: Tensor[3, f32], w: Tensor[N, f32]):
    A = op.conv1d(t, N)
    for i in range(2):
        w = A @ w
        A = A.H
    return w
""").f
    with pytest.raises(tessera.TesseraError, match="N >= 3"):
        turned(np.ones(3, "f4"), np.ones(2, "f4"))
