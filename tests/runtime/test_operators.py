"""Operators that leave the language: objects of Python's with the operations of the language, passed back in."""

from __future__ import annotations

import inspect
import json
import sys
import warnings
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tessera
from tessera import op as of_python
from tessera.descriptor import TAGS, Flags, Representation
from tessera.sparse import entries_of
from tesserac.check.algebra.base import Kind
from tesserac.check.algebra.encoding import _classes
from tesserac.check.algebra.flags import FLAGS
from tesserac.check.algebra.rules import RULES

PROGRAM = """
struct Layer[D]:
    A: Operator[D, D] = op.diag(ones(D))
    b: Tensor[D, f32] = zeros(D)

    def apply(self, x: Tensor[D, f32]): return self.A @ x + self.b

struct Double[D]:
    A: Operator[2*D, 2*D]
    b: Tensor[2*D, f32]

def sum_of(d: Tensor[N, f32], M: Tensor[K, K, f32]): return op.kronecker(op.dense(M), op.diag(d)) + 2.0 * op.eye(N*K)
def doubled(n: int): return Double(A=op.kronecker(op.eye(2), op.diag(ones(n))), b=ones(2*n))
def of_double(m: Double[D], x: Tensor[2*D, f32]): return m.A @ x + m.b
def applied(A: Operator[D, E], x: Tensor[D, f32]) -> Tensor[E, f32]: return A @ x
def layer(d: Tensor[N, f32]): return Layer(A=op.diag(d), b=d)
def run(m: Layer[D], x: Tensor[D, f32]): return m(x)
def loss(m: Layer[D], x: Tensor[D, f32]): return sum(m(x) ** 2)
def step(m: Layer[D], x: Tensor[D, f32]): return m - 0.125 * grad(loss)(m, x)
def factors(A: Operator[D, D], x: Tensor[D, f32]): return grad(lambda B: sum(B @ x))(A)
"""


@pytest.mark.one_in(16)
def test_an_operator_is_an_object_that_comes_back() -> None:
    m = tessera.compile(PROGRAM)
    d, x = np.arange(1, 4, dtype="f4"), np.arange(6, dtype="f4")
    M = np.array([[1, 2], [0, 1]], "f4")
    A, matrix = m.sum_of(d, M), np.kron(M, np.diag(d)) + 2 * np.eye(6, dtype="f4")
    assert A.shape == (6, 6) and np.allclose(A.to_dense(), matrix)
    assert np.allclose(A @ x, matrix @ x) and np.allclose(A.H @ x, matrix.T @ x) and np.allclose(x @ A, x @ matrix)
    assert np.allclose(((A + A.H) / 2.0 - 0.5 * A) @ x, (matrix.T / 2) @ x) and np.allclose((-A)(x), -matrix @ x)
    assert np.allclose((A @ A) @ x, matrix @ (matrix @ x)) and np.allclose(A.solve(x), np.linalg.solve(matrix, x))
    assert np.isclose(A.logdet(), np.linalg.slogdet(matrix)[1]) and np.isclose(A.trace(), np.trace(matrix))
    assert np.allclose(m.applied(A, x), matrix @ x)
    assert np.allclose(A.matvec(x), matrix @ x) and np.allclose(A.rmatvec(x), matrix.T @ x)
    with pytest.raises(tessera.TesseraError, match=r"to_dense\(\)"):
        np.asarray(A)
    with pytest.raises(tessera.TesseraError, match="takes 6 entries"):
        A @ x[:5]


@pytest.mark.one_in(8)
def test_promises_are_made_by_name_and_looked_at() -> None:
    matrix = 2 * np.eye(2, dtype="f4")
    assert tessera.op.dense(matrix, psd=True).flags == ("self_adjoint", "normal", "psd")
    assert tessera.op.dense(matrix, self_adjoint=True).flags == ("self_adjoint", "normal")
    entries = tessera.op.dense(matrix, diagonal=True)
    assert "diagonal" in entries.flags and entries.representation == Representation.IMPLICIT
    assert tessera.op.dense(matrix, lower=True).flags == ("lower", "triangular")
    turned = tessera.op.kronecker(tessera.op.dense(matrix, normal=True), entries).H
    assert turned.flags == ("normal",) and turned.spectral_radius() == 4
    with pytest.raises(tessera.TesseraError, match="not unitary"):
        tessera.op.dense(matrix, unitary=True)


@pytest.mark.one_in(24)
def test_parts_of_a_spectral_form_and_numbers_of_what_has_none() -> None:
    matrix, eye = np.array([[1, 2, 0], [3, 4, 1]], "f4"), tessera.op.eye(3)
    form: Any = tessera.op.dense(matrix).spectral()
    assert np.allclose((form.U * form.S) @ form.V.T, matrix, atol=1e-5)
    turned: Any = (2j * eye) @ np.ones(3, "f4")
    assert eye.dtype is None and turned.dtype == np.complex64
    with pytest.raises(tessera.TesseraError, match="this operator is none"):
        _ = eye.U


@pytest.mark.one_in(24)
def test_operations_of_the_language_are_methods() -> None:
    m, d = np.array([[4.0, 1, 0], [2, 3, 1], [0, 1, 2]]), np.array([1.0, 2, 3])
    A, D = tessera.op.dense(m), tessera.op.diag(d)
    w, v = np.linalg.eigh(m.T @ m)
    of_operators = [
        (A.sym(), (m + m.T) / 2), (A.skew(), (m - m.T) / 2), (A.commutator(D), m * d - d[:, None] * m),
        (A.resolvent(1 + 2j), np.linalg.inv((1 + 2j) * np.eye(3) - m)), (D.expm(), np.diag(np.exp(d))),
        ((1j * D).conj(), np.diag(-1j * d)), ((A.H @ A).sqrt(), (v * np.sqrt(w)) @ v.T),
        (D.spectral().truncate(1).reconstruct(), np.diag([0, 0, 3])), (D.pseudoinverse(), np.diag(1 / d)),
    ]  # fmt: skip
    for found, matrix in of_operators:
        assert np.allclose(found.to_dense(), matrix)
    assert np.allclose(D.cond(), 3) and np.allclose(D.spectral_radius(), 3) and not D.is_unitary()
    assert np.allclose(D.slogdet(), (1, np.log(6)))


@pytest.mark.one_in(8)
def test_equal_operators_of_python() -> None:
    """By the laws, and by the matrices where these do not tell; of another shape, or no operator, it is another."""
    m, d = np.array([[1.0, 2], [3, 4]]), np.array([1.0, 2])
    A, D = tessera.op.dense(m), tessera.op.diag(d)
    assert A.H.H == A and D @ D == D**2 and tessera.op.dense(m.copy()) == A and A in [D, A]
    assert A != A.H and A != D and tessera.op.eye(3) != A and m.tolist() != A
    with pytest.raises(TypeError, match="unhashable"):
        hash(A)


@pytest.mark.one_in(8)
def test_an_expression_of_python_is_one_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = np.array([[1, 2], [3, 4]], "f4")
    A = tessera.op.dense(matrix)
    assert (A.H @ A).flags == ("self_adjoint", "normal", "psd") and (A + A.H).flags == ("self_adjoint", "normal")
    assert len((A.H @ A).parts) == 1 and '"Zero"' in (A - A).tree and np.allclose((A**2).to_dense(), matrix @ matrix)
    total = A + matrix
    matrix[:] = 0
    assert np.allclose(total.to_dense(), [[2, 4], [6, 8]]), "an array may change after it was added"
    monkeypatch.setattr("tessera.operator._LONGEST", 10)
    assert np.allclose((total + A + A).to_dense()[0], [4, 8])
    assert A.dtype == np.float32 and A.device == "cpu"
    last = weakref.ref(total)
    del total
    assert last() is None, "no operator holds itself"
    with pytest.raises(tessera.TesseraError, match="takes 2 entries, the second gives 3"):
        A @ tessera.op.eye(3)


@pytest.mark.one_in(8)
def test_operators_of_structs_cross_and_their_gradients_have_their_structure() -> None:
    m = tessera.compile(PROGRAM)
    d, x = np.array([1, 2], "f4"), np.array([1, -1], "f4")
    model = m.layer(d)
    assert np.allclose(m.run(model, x), d * x + d) and np.allclose(m.run(m.Layer(2, seed=0), x), x)
    found = m.step(model, x)
    assert np.allclose(found.A.parts[0], d - 0.125 * 2 * (d * x + d) * x)
    assert np.allclose(m.run(m.Layer(A=tessera.op.dense(np.eye(2, dtype="f4")), b=d), x), x + d)
    small = tessera.op.kronecker(tessera.op.dense(np.ones((2, 2), "f4")), tessera.op.dense(np.ones((3, 3), "f4")))
    cotangent = m.factors(small, np.ones(6, "f4"))
    assert [part.shape for part in cotangent.parts] == [(2, 2), (3, 3)] and np.allclose(cotangent.parts[0], 9)


@pytest.mark.one_in(4)
def test_a_size_that_is_a_multiple_is_known_beside_an_operator() -> None:
    m, x = tessera.compile(PROGRAM), np.arange(6, dtype="f4")
    assert np.allclose(m.of_double(m.doubled(3), x), x + 1)


@pytest.mark.one_in(4)
def test_the_gradient_by_a_sparse_operator_stands_where_its_entries_do() -> None:
    m, x, op = tessera.compile(PROGRAM), np.array([1, 2, 3], "f4"), tessera.op
    A = op.coo(np.array([0, 2, 2]), np.array([1, 1, 2]), x, 3)
    slope, matrix = m.factors(A, x), A.to_dense()
    assert np.allclose(slope.to_dense(), np.where(matrix != 0, x, 0))
    assert np.allclose((A - 0.5 * slope) @ x, matrix @ x - 0.5 * np.where(matrix != 0, x, 0) @ x)


@pytest.mark.one_in(4)
def test_what_python_makes() -> None:
    d, op = np.array([1, 2, 3], "f4"), tessera.op
    A = tessera.op.coo(np.array([0, 2]), np.array([1, 0]), d[:2], 3, 3) + tessera.op.permutation(np.array([1, 2, 0]))
    assert np.allclose(A @ d, [2 + 2, 3, 2 + 1]) and "unitary" in tessera.op.permutation(np.array([1, 0])).flags
    assert op.zero(3).shape == (3, 3) and np.allclose(op.toeplitz(d).to_dense()[0], d)
    assert np.allclose(op.block([[op.diag(d), 0], [op.eye(3), op.diag(d)]]) @ np.ones(6, "f4"), [1, 2, 3, 2, 3, 4])
    with pytest.raises(AttributeError, match="kronecker"):
        tessera.op.nothing  # noqa: B018
    with pytest.raises(tessera.TesseraError, match="not sparse"):
        tessera.op.dense(np.diag(d)).to_scipy()


_ANSWERS = {"triangular"}
"""Parameters of the language that only answer what others call so."""


def test_constructors_of_python_have_the_names_of_the_language() -> None:
    for name, (given, _) in of_python._CONSTRUCTORS.items():
        slots = RULES[name if name in RULES else "dense"][0]
        names = [slot.name for slot in slots if slot.name not in _ANSWERS or name != "dense"]
        own = [part.split(":")[0].split("=")[0].strip() for part in given.split(", ") if part != "*"]
        assert own == (names if name in RULES else names[:1]), name
    operations = list(RULES)[list(RULES).index("apply") :]
    assert set(RULES) - set(operations) <= set(of_python._CONSTRUCTORS)


@pytest.mark.one_in(8)
def test_python_says_a_dtype_and_leaves_out_a_size() -> None:
    op, x = tessera.op, np.arange(4, dtype="f4")
    assert op.eye(4).dtype is None and op.permutation(np.array([1, 0]), dtype=None).dtype is None
    for dtype in ("f64", "float64", float, np.dtype("f8")):
        assert op.zero(4, 2, dtype=dtype).to_dense().dtype == "f8" == op.eye(4, dtype=dtype).dtype
    assert op.fft(4, dtype=np.complex128).to_dense().dtype == "c16"
    with pytest.raises(tessera.TesseraError, match="a dtype of operators"):
        op.eye(4, dtype="i32")
    F = op.fft()
    assert np.allclose(F @ x, np.fft.fft(x)) and "any size" in repr(F) and op.fft() == F and op.ifft() @ F == op.eye(4)
    assert (F @ op.diag(x)).shape == (4, 4) and np.allclose((F @ op.diag(x)) @ x, np.fft.fft(x * x))
    with pytest.raises(tessera.TesseraError, match="of any size"):
        _ = F.shape


@pytest.mark.one_in(12)
def test_a_descriptor_has_the_numbers_of_the_binary_interface() -> None:
    assert list(Representation) == [0, 1, 2, 3] and [flag.name.lower() for flag in Flags] == list(FLAGS)
    kinds = {name for name, kind in _classes().items() if issubclass(kind, Kind) and not inspect.isabstract(kind)}
    held = {name for name in kinds if _classes()[name].representation is Kind.representation}
    assert held == set(TAGS) and len(set(TAGS.values())) == len(TAGS), "every rule has a number of its own"
    d, m = np.array([1, 2], "f4"), np.array([[1, 2], [3, 4]], "f4")
    op, made = tessera.op, {}
    made["dense"], made["rows"] = op.dense(m).H * 2.0, op.low_rank(m, m)
    made["diag"], made["placed"] = op.diag(d) * 3.0, op.coo(np.array([0, 1]), np.array([0, 1]), d, 2, 2)
    found = {name: operator.descriptor() for name, operator in made.items()}
    assert [row.repr.name for row in found.values()] == ["DENSE", "FACTORIZED", "IMPLICIT", "BLOCK_SPARSE"]
    assert found["diag"].tag == TAGS["Diag"] and Flags.DIAGONAL in found["diag"].flags and found["rows"].tag == 0
    assert all(made[name].representation == row.repr for name, row in found.items())
    assert np.array_equal(found["rows"].payload[0], m)


class Entries:
    """What SciPy's sparse matrices have, for machines without it."""

    def __init__(self, entries: tuple[Any, tuple[Any, Any]], shape: tuple[int, int]) -> None:
        (self.data, (self.row, self.col)), self.shape = entries, shape

    def tocoo(self) -> Entries:
        return self

    def toarray(self) -> Any:
        dense = np.zeros(self.shape, self.data.dtype)
        np.add.at(dense, (self.row, self.col), self.data)
        return dense


@pytest.mark.one_in(4)
def test_sparse_operators_come_from_scipy_and_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        from scipy.sparse import coo_matrix as made
    except ImportError:
        made = Entries
        monkeypatch.setitem(sys.modules, "scipy.sparse", SimpleNamespace(coo_matrix=Entries))
    places = np.array([0, 2, 2, 3], "i4"), np.array([1, 0, 2, 2], "i4")
    matrix = made((np.array([1, 2j, 3, 4 - 1j], "c16"), places), shape=(4, 3))
    A, dense, x = tessera.op.from_scipy(matrix), matrix.toarray(), np.array([1, -2, 3j], "c16")
    assert np.allclose(A @ x, dense @ x) and np.array_equal(A.to_dense(), dense)
    assert np.array_equal(A.to_scipy().toarray(), dense) and np.array_equal(A.H.to_scipy().toarray(), dense.conj().T)
    with pytest.raises(tessera.TesseraError, match="sparse matrix of SciPy's, not a `ndarray`"):
        tessera.op.from_scipy(dense)
    with pytest.raises(tessera.TesseraError, match="floats or complex numbers, and this matrix int64"):
        tessera.op.from_scipy(made((np.array([1, 2, 3, 4]), places), shape=(4, 3)))


@pytest.mark.one_in(24)
def test_what_is_made_of_entries_has_entries() -> None:
    op, d = tessera.op, np.array([1, 2j, 3, -4], "c16")
    A = op.coo(np.array([0, 0, 3]), np.array([1, 1, 2]), d[:3], 4)
    B = op.block_sparse(np.arange(8, dtype="c16").reshape(2, 2, 2), np.array([0, 1]), np.array([1, 1]), 4)
    for C in (A.T, 2.0 * A - B.H, (op.diag(d).H + B) / (1 + 2j)):
        values, rows, columns = entries_of(json.loads(C.tree), C.parts)
        dense = Entries((values, (rows, columns)), C.shape).toarray()
        assert values.dtype == C.dtype and np.allclose(dense, C.to_dense()) and np.any(dense)
    assert entries_of(json.loads((A.H @ A).tree), A.parts) is None


@pytest.mark.one_in(16)
def test_every_format_of_scipy_is_taken() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    dense = np.zeros((4, 6), "f4")
    dense[[0, 1, 1, 3], [2, 0, 5, 3]] = 1.0, 2.0, -3.0, 4.0
    x = np.arange(6, dtype="f4")
    for name in ("csr", "csc", "coo", "bsr", "dia", "lil", "dok"):
        for kind in ("matrix", "array"):
            A = tessera.op.from_scipy(getattr(sparse, f"{name}_{kind}")(dense))
            assert np.array_equal(A @ x, dense @ x) and np.array_equal(A.to_scipy().toarray(), dense), name


def test_an_array_for_an_operator_and_an_operator_for_an_array_are_told() -> None:
    m = tessera.compile(PROGRAM + "def plain(a: Tensor[2, 2, f32]): return a\n")
    with pytest.raises(tessera.TesseraError, match=r"`A` is an operator: `op\.dense\(m\)`"):
        m.applied(np.eye(2, dtype="f4"), np.ones(2, "f4"))
    with pytest.raises(tessera.TesseraError, match="is an Operator, not an array") as caught:
        m.plain(tessera.op.dense(np.eye(2, dtype="f4")))
    assert "its matrix: `a.to_dense()`" in str(caught.value)
    with pytest.raises(AttributeError, match=r"it is a method of operators, `A\.solve`"):
        tessera.op.solve  # noqa: B018
    with pytest.raises(AttributeError, match="there are eye, "):
        tessera.op.nothing  # noqa: B018


@pytest.mark.one_in(12)
def test_many_kinds_of_operators_are_not_many_sizes_of_one() -> None:
    """Each is compiled for; a warning is of many sizes only."""
    d, m, op = np.ones(3, "f4"), np.eye(3, dtype="f4"), tessera.op
    made = [op.dense(m), op.diag(d), op.circulant(d), op.toeplitz(d), op.low_rank(m, m), op.triangular(m), op.eye(3)]
    made += [op.fft(3), op.projector(m), op.direct_sum(m, m)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert {operator.shape for operator in made} == {(3, 3), (6, 6)}
