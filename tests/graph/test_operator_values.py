"""What is promised or proven of operators reaches the laws of linear algebra as `graph.operator`: after inlining, in
derivatives, maps and loops, and for tensors beside them. What is promised falsely is an error all the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tessera
from tesserac.commands.inspection import signature
from tesserac.graph.algebra.known import HELD, flags_of
from tesserac.graph.algebra.terms import Term, eye, make
from tesserac.graph.passes.generalize import generalize
from tesserac.ir.core import OPDEFS, Module, Op, Value
from tesserac.ir.forms import TensorType
from tesserac.ir.parser import parse_module
from tesserac.ir.passes import run_passes
from tesserac.ir.printer import print_module, print_op
from tesserac.ir.verify import verify_module
from tesserac.types.dims import Dim
from tesserac.types.dtype import C64, F32
from tests.support.operator_modules import module_after_laws, program_text
from tests.support.source_support import check_text, library

ARGS = (
    "m: Tensor[N, N, f32], s: Tensor[N, N, f32], c: Tensor[N, N, c64], u: Tensor[N, K, f32], x: Tensor[N, f32], "
    "z: Tensor[N, c64]"
)
HELPERS = """
struct Layer[D]:
    A: Operator[D, D]

def turn(A: Operator[N, N], x: Tensor[N, f32]): return A @ x
def back(A: Operator[N, N], x: Tensor[N, f32]): return A.H @ x
def through(l: Layer[D], x: Tensor[D, f32]): return l.A.H @ (l.A @ x)
def looped(m: Tensor[N, N, f32], x: Tensor[N, f32]):
    U = op.dense(m, unitary=True)
    for i in range(3):
        x = 2.0 * (U.H @ (U @ x))
    return x
def carried(m: Tensor[N, N, f32], x: Tensor[N, f32]):
    U = op.dense(m, unitary=True)
    for i in range(3):
        x = U.H @ (U @ x)
        U = U.H
    return x
def loss(m: Tensor[N, N, f32], x: Tensor[N, f32]): return 0.5 * sum((op.dense(m, unitary=True) @ x) ** 2)
def both(m: Tensor[N, N, f32], x: Tensor[N, f32]): return loss(m, x), grad(lambda y: loss(m, y))(x)
def projected(u: Tensor[N, K, f32], x: Tensor[N, f32]):
    P = op.projector(u)
    return P @ (P @ (P @ x))
def powers(s: Tensor[N, N, f32], x: Tensor[N, f32]):
    S = spectral(op.dense(s, self_adjoint=True))
    return S @ (S @ x)

"""
PROGRAMS: dict[str, tuple[str, str, int]] = {
    # name: (expression, what NumPy computes, products of matrices that are left)
    "undone": ("op.dense(m, unitary=True).H @ (op.dense(m, unitary=True) @ x)", "x", 0),
    "inlined": ("back(op.dense(m, unitary=True), turn(op.dense(m, unitary=True), x))", "x", 0),
    "field": ("through(Layer(A=op.dense(m, unitary=True)), x)", "x", 0),
    "beside": ("m.T @ turn(op.dense(m, unitary=True), x)", "x", 0),
    "in_chain": ("s @ m.T @ (op.dense(m, unitary=True) @ (s @ x))", "s @ (s @ x)", 2),
    "complex": ("op.dense(c, unitary=True).H @ (op.dense(c, unitary=True) @ z)", "z", 0),
    "not_complex": ("op.dense(c, unitary=True).T @ (op.dense(c, unitary=True) @ z)", "c.T @ (c @ z)", 2),
    "mapped": ("vmap(lambda y: op.dense(m, unitary=True).H @ (op.dense(m, unitary=True) @ y))(s)", "s", 0),
    "gradient": ("grad(lambda y: loss(m, y))(x)", "x", 0),
    "with_value": ("both(m, x)[1]", "x", 0),
    "loop": ("looped(m, x)", "8 * x", 0),
    "loop_carried": ("carried(m, x)", "x", 0),
    "kronecker": ("op.kronecker(op.dense(m, unitary=True), op.dense(m, unitary=True)).H @ "
                  "reshape(x[:, None] * x[None, :], (N * N,))", "np.kron(m.T @ x, m.T @ x)", 2),
    "projector": ("projected(u, x)", "u @ (u.T @ x)", 2),
    "spectral": ("powers(s, x)", "s @ (s @ x)", 2),
    "turned": ("turn(op.dense(s, self_adjoint=True), x) + s.T @ x", "2 * s @ x", 1),
    "system": ("turn(op.dense(m, unitary=True), x) + solve(m, x)", "m @ x + m.T @ x", 2),
    "as_written": ("turn(op.dense(m, unitary=True), turn(op.dense(m, unitary=True), x))", "m @ (m @ x)", 2),
}  # fmt: skip


TEXT = program_text(HELPERS, ARGS, PROGRAMS)


@pytest.fixture(scope="module")
def module() -> Module:
    return module_after_laws(TEXT)


def numbers() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    n = 6
    m = np.linalg.qr(rng.standard_normal((n, n)))[0].astype("f4")
    s = rng.standard_normal((n, n)).astype("f4")
    c = np.linalg.qr(rng.standard_normal((n, n)) + 1j * rng.standard_normal((n, n)))[0].astype("c8")
    x, y = rng.standard_normal((2, n)).astype("f4")
    return {"m": m, "s": s + s.T, "c": c, "u": m[:, :2].copy(), "x": x, "z": (x + 1j * y).astype("c8")}


def products(function: Op) -> int:
    """Those that are not of a check, whose operands are constants to differentiation."""
    found = [op for op in function.walk() if op.name in ("graph.matmul", "graph.einsum")]
    return sum(not any(is_looked_at(value) for value in op.operands) for op in found)


def is_looked_at(value: Value) -> bool:
    op = value.defining_op
    return op is not None and (op.name == "graph.stop_gradient" or (op.name in MOVES and is_looked_at(op.operands[0])))


MOVES = ("graph.permute", "graph.conj")


@pytest.mark.one_in(6)
def test_what_is_promised_spares_products(module: Module) -> None:
    counts = {name: products(module.lookup(f"m.f_{name}")) for name in PROGRAMS if name != "spectral"}
    assert counts == {name: row[2] for name, row in PROGRAMS.items() if name != "spectral"}
    left = [op for op in module.lookup("m.f_spectral").walk() if op.name == "graph.matmul" and held(op)]
    assert len(left) == 2  # one into the basis of eigenvectors, one out of it, whatever `eigh` does


def held(op: Op) -> bool:
    flat = [value.defining_op for value in op.operands]
    return any(o is not None and (o.name == HELD or (o.name in MOVES and is_held(o.operands[0]))) for o in flat)


def is_held(value: Value) -> bool:
    return value.defining_op is not None and value.defining_op.name == HELD


@pytest.mark.one_in(48)
def test_the_numbers_are_those_of_the_program() -> None:
    compiled = tessera.compile(TEXT)
    given = numbers()
    for name, (_, expected, _) in PROGRAMS.items():
        found = getattr(compiled, f"f_{name}")(*given.values())
        assert np.allclose(found, eval(expected, {"np": np, **given}), atol=2e-5), name


FALSE = """
def straight(m: Tensor[N, N, f32], x: Tensor[N, f32]):
    U = op.dense(m, unitary=True)
    return U.H @ (U @ x)
def beside(m: Tensor[N, N, f32], x: Tensor[N, f32]):
    return op.dense(m, self_adjoint=True) @ x + m.T @ x
def in_loop(m: Tensor[N, N, f32], x: Tensor[N, f32]):
    for i in range(3):
        x = op.dense(m, unitary=True).H @ (op.dense(m, unitary=True) @ x)
    return x
def in_gradient(m: Tensor[N, N, f32], x: Tensor[N, f32]):
    return grad(lambda y: sum((op.dense(m, unitary=True) @ y) ** 2))(x)
def basis(m: Tensor[N, N, f32], x: Tensor[N, f32]):
    P = op.projector(m)
    return P @ (P @ x)
"""


@pytest.mark.one_in(12)
def test_a_false_promise_is_an_error_though_laws_use_it() -> None:
    compiled = tessera.compile(FALSE)
    m, x = np.arange(16, dtype="f4").reshape(4, 4), np.ones(4, "f4")
    for name in ("straight", "beside", "in_loop", "in_gradient", "basis"):
        with pytest.raises(tessera.TesseraError, match=r"not unitary|not self-adjoint|not orthonormal"):
            getattr(compiled, name)(m, x)


STEPPED = """
struct Layer[D]:
    A: Operator[D, D]

def loss(m: Layer[D], x: Tensor[D, f32]): return sum((m.A @ x) * x * x)
def dense(m: Tensor[N, N, f32], x: Tensor[N, f32]): return after(Layer(A=op.dense(m, unitary=True)), x)
def projector(m: Tensor[N, N, f32], x: Tensor[N, f32]): return after(Layer(A=op.projector(m[:, :2])), x)
def after(l: Layer[D], x: Tensor[D, f32]):
    g = grad(loss)(l, x)
    n = 0.5 * l - g
    return to_dense(n.A), n.A.H @ (n.A @ x), to_dense(g.A), g.A.H @ (g.A @ x)
"""


@pytest.mark.one_in(12)
def test_a_step_from_a_promised_operator_promises_nothing() -> None:
    compiled = tessera.compile(STEPPED)
    m, x = numbers()["m"], numbers()["x"]
    for name in ("dense", "projector"):
        n, there, g, back = compiled[name](m, x)
        assert np.allclose(there, n.T @ (n @ x), atol=1e-5) and np.allclose(back, g.T @ (g @ x), atol=1e-5), name


PLAIN = """
def plain(m: Tensor[N, N, f32], x: Tensor[N, f32]): return op.dense(m) @ x, op.dense(m).H @ (op.dense(m) @ x)
def said(m: Tensor[N, N, f32], x: Tensor[N, f32]):
    A = op.dense(m, self_adjoint=True)
    return A @ x, A.H @ (A @ x)
"""


@pytest.mark.one_in(6)
def test_where_no_law_fires_every_bit_is_kept() -> None:
    compiled = tessera.compile(PLAIN)
    m, x = numbers()["s"], numbers()["x"]
    assert np.array_equal(compiled.plain(m, x)[0], compiled.said(m, x)[0])


@pytest.mark.one_in(6)
def test_it_is_printed_read_and_gone_after_generalize(module: Module) -> None:
    text = print_op(module.lookup("m.f_as_written"))
    assert 'graph.operator(%m) {flags = ["unitary"], kind = "dense"} : tensor<[N, N], f32>' in text
    again = parse_module(text)
    assert print_module(again).strip() == text.strip()
    lowered = run_passes(again, (generalize,), verify=True)
    assert not any(op.name == HELD for function in lowered.ops for op in function.walk())


NAMED = """
def f(m: Tensor[N, N, f32], x: Tensor[N, f32], y: Tensor[N*N, f32]):
    K = op.kronecker(op.dense(m), op.diag(x))
    S = op.dense(m, psd=True) + op.eye(N)
    return K @ y, S @ x
"""


def test_inspect_says_what_an_operator_is_and_what_is_proven_of_it() -> None:
    [function] = check_text(NAMED, "m", library()).module.functions
    lines = signature(function).splitlines()
    assert "K: Operator[N*N, N*N, f32], kronecker(dense, diag)" in lines
    assert "S: Operator[N, N, f32], sum(dense, eye); self_adjoint, normal, psd" in lines


WRONG = """graph.func @f {entry = true, guards = [], params = ["a"]} {
  ^(%a: tensor<[2, 3], f32>):
    %b = graph.operator(%a) {flags = ["FLAG"], kind = "dense"} : tensor<[2, 3], f32>
    graph.return(%b)
}"""


@pytest.mark.parametrize("flag", ["unitary", "self_adjoint", "psd", "orthogonal"])
def test_the_verifier_refuses_what_cannot_be(flag: str) -> None:
    verify_module(parse_module(WRONG.replace("FLAG", "isometry")))
    with pytest.raises(Exception, match="does not fit its operands"):
        verify_module(parse_module(WRONG.replace("FLAG", flag)))


# --------------------------------------------------------------------------------------------- flags of expressions


def known_leaf(array: Any, *flags: str) -> tuple[Term, Value, Any]:
    dims = tuple(map(Dim.const, array.shape))
    ty = TensorType(dims, C64 if array.dtype.kind == "c" else F32)
    source = Value(ty, None, 0, "a")  # type: ignore[arg-type]
    value = Op(OPDEFS[HELD], (source,), (ty,), {"kind": "dense", "flags": flags}).result if flags else source
    return Term("", (), dims, value), value, array


def leaves(rng: np.random.Generator, is_real: bool) -> Iterator[tuple[Term, Value, Any]]:
    def random(*shape: int) -> Any:
        return rng.standard_normal(shape) + (0.0 if is_real else 1j * rng.standard_normal(shape))

    a, b = random(3, 3), random(3, 3)
    unitary = np.linalg.qr(a)[0]
    yield known_leaf(unitary, "unitary")
    yield known_leaf(a + a.conj().T, "self_adjoint")
    yield known_leaf(a @ a.conj().T, "psd")
    yield known_leaf(unitary @ np.diag([1.0, -1.0, 1.0]) @ unitary.conj().T, "unitary", "self_adjoint")
    yield known_leaf(np.linalg.qr(random(3, 3))[0], "isometry")
    yield known_leaf(b)


MEANING: dict[str, Any] = {
    "t": lambda a: a.T,
    "conj": np.conj,
    "neg": np.negative,
    "add": np.add,
    "sub": np.subtract,
    "mm": np.matmul,
    "kron": np.kron,
}


def evaluate(term: Term, values: dict[Value, Any]) -> Any:
    if term.leaf is not None:
        return values[term.leaf]
    if term.head == "eye":
        return np.eye(term.shape[0].constant or 0)
    return MEANING[term.head](*(evaluate(arg, values) for arg in term.args))


def holds(flag: str, a: Any) -> bool:
    if flag in ("unitary", "isometry"):
        return bool(np.allclose(a.conj().T @ a, np.eye(a.shape[1])))
    is_self_adjoint = bool(np.allclose(a, a.conj().T))
    return is_self_adjoint and (flag != "psd" or np.linalg.eigvalsh(a).min() > -1e-8)


def test_what_is_said_of_random_expressions_is_so() -> None:
    rng = np.random.default_rng(1)
    said = 0
    for turn in range(40):
        made = list(leaves(rng, is_real=turn % 2 == 0))
        values = {value: array for _, value, array in made}
        terms = [term for term, _, _ in made] + [eye(Dim.const(3))]
        for _ in range(5):
            head = str(rng.choice([*MEANING]))
            args = [terms[int(rng.integers(len(terms)))] for _ in range(1 if head in ("t", "conj", "neg") else 2)]
            if max(arg.shape[0].constant or 0 for arg in args) <= 3:
                terms.append(make(head, *args))
        for term in terms:
            flags = flags_of(term)
            said += len(flags)
            assert all(holds(flag, evaluate(term, values)) for flag in flags), (str(term), flags)
    assert said > 400
