"""Every law of linear algebra, checked by machine: both sides on random matrices over a finite field, where they are
equal exactly or not at all. Laws that are false must be refuted by the same test."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tesserac.graph.algebra.law import Law
from tesserac.graph.algebra.laws import LAWS
from tesserac.graph.algebra.rules import CONSTANTS, Rule, rules_of
from tesserac.graph.algebra.terms import HEADS, Term, equation_of, make
from tesserac.ir.core import OPDEFS, Op, Value
from tesserac.ir.forms import TensorType
from tesserac.types.dims import Dim
from tesserac.types.dtype import C64, F32, I64
from tests.support.field import Number, random_numbers, root_of_unity
from tests.support.folding import folded

ATTEMPTS, WANTED = 4000, 3
KNOWN = ("S", "U", "H")
"""Names of a law that stand for matrices of which the graph knows something."""
SIZES = (1, 2, 3, 4, 6)


def fourier(size: int, sign: int) -> Any:
    root = root_of_unity(size)
    powers = [[root.power((sign * i * j) % size) for j in range(size)] for i in range(size)]
    scale = Number(1) if sign > 0 else inverse_of(size)
    return np.array([[entry * scale for entry in row] for row in powers], object)


def lower(matrix: Any, keep: Callable[[int, int], bool]) -> Any:
    zero = matrix.flat[0] * 0
    return np.array([[x if keep(i, j) else zero for j, x in enumerate(row)] for i, row in enumerate(matrix)], object)


def on_diagonal(d: Any) -> Any:
    return np.array([[x if i == j else x * 0 for j in range(len(d))] for i, x in enumerate(d)], object)


def identity(shape: tuple[int, ...]) -> Any:
    assert shape[0] == shape[1]
    return on_diagonal(np.array([Number(1)] * shape[0], object))


def taken(a: Any, index: Any) -> Any:
    return a[index]


def conjugated(a: Any) -> Any:
    return np.vectorize(lambda x: x.conjugate(), otypes=[object])(a)


def equal(x: Any, y: Any) -> tuple[Any, Any]:
    """Two of one shape: in the language no size stretches."""
    assert np.shape(x) == np.shape(y)
    return x, y


def square(a: Any) -> Any:
    assert a.shape[0] == a.shape[1]
    return a


def turned(a: Any, b: Any) -> Any:
    x, y = equal(a, b.T)
    return x * y


def scaled(a: Any, d: Any, size: int) -> Any:
    assert len(d) == size
    return a * d


def averaged(total: Any, count: int) -> Any:
    return total * inverse_of(count)


def inverse_of(number: int) -> Number:
    return Number(number).power((2**31 - 1) ** 2 - 2)


def mirrored_back(z: Any) -> Any:
    """The inverse transform of frequencies whose others are their conjugates, of an even number of points: the first
    and the last are their own."""
    inner, ends = z[..., 1:-1], real_parts(z)
    whole = np.concatenate([ends[..., :1], inner, ends[..., -1:], conjugated(inner[..., ::-1])], axis=-1)
    return np.dot(whole, fourier(whole.shape[-1], -1))


REFERENCES: dict[str, Callable[..., Any]] = {
    "diag": on_diagonal,
    "t": lambda a: np.swapaxes(a, -1, -2),
    "conj": conjugated,
    "neg": lambda a: -a,
    "scale": lambda s, a: a * s,
    "add": lambda a, b: np.add(*equal(a, b)),
    "sub": lambda a, b: np.subtract(*equal(a, b)),
    "times": lambda x, y: np.multiply(*equal(x, y)),
    "mm": lambda a, b: np.dot(a, b),
    "rows": lambda d, a: scaled(a, d[:, None], a.shape[0]),
    "columns": lambda a, d: scaled(a.T, d[:, None], a.shape[1]).T,
    "kron": lambda a, b: np.kron(a, b),
    "apply_kron": lambda a, b, x: np.dot(np.kron(a, b), x),
    "second_first": lambda a, b, x: np.dot(np.kron(a, b), x),
    "less_diagonal": lambda a, d, x: np.dot(np.subtract(*equal(a, on_diagonal(d))), x),
    "outer_kron": lambda x, y: np.kron(x, y),
    "take": taken,
    "cut_rows": taken,
    "cut_columns": lambda a, p: a[:, p],
    "column": lambda x: x[:, None],
    "row": lambda x: x[None, :],
    "outer": lambda x, y: x[:, None] * y[None, :],
    "flat": lambda a: a.ravel(),
    "stop": lambda a: a,
    "by_columns": lambda p: p,
    "running": lambda x: np.cumsum(x, axis=0),
    "running_back": lambda x: np.cumsum(x[::-1], axis=0)[::-1],
    "before": lambda x: np.cumsum(x, axis=0) - x,
    "after": lambda x: np.cumsum(x[::-1], axis=0)[::-1] - x,
    "above": lambda a, b: np.concatenate([a, b]),
    "beside": lambda a, b: np.concatenate([a, b], axis=1),
    "made": lambda a: a,
    "system": lambda a, x: np.dot(a, x),
    "turned_system": lambda a, x: np.dot(a.T, x),
    "sum_all": lambda a: np.sum(a),
    "row_sums": lambda a: np.sum(a, axis=1),
    "column_sums": lambda a: np.sum(a, axis=0),
    "mean_all": lambda a: averaged(np.sum(a), a.size),
    "row_means": lambda a: averaged(np.sum(a, axis=1), a.shape[1]),
    "column_means": lambda a: averaged(np.sum(a, axis=0), a.shape[0]),
    "diagonal": lambda a: np.diagonal(square(a)),
    "trace": lambda a: np.trace(square(a)),
    "total": lambda x: np.sum(x),
    "sum_products": lambda a, b: np.sum(turned(a, b)),
    "row_products": lambda a, b: np.sum(turned(a, b), axis=1),
    "tril": lambda a: lower(a, lambda i, j: j <= i),
    "triu": lambda a: lower(a, lambda i, j: j >= i),
    "below": lambda a: lower(a, lambda i, j: j < i),
    "over": lambda a: lower(a, lambda i, j: j > i),
    "fft": lambda x: np.dot(x, fourier(x.shape[-1], 1)),
    "ifft": lambda x: np.dot(x, fourier(x.shape[-1], -1)),
    "rfft": lambda x: np.dot(x, fourier(x.shape[-1], 1))[..., : x.shape[-1] // 2 + 1],
    "irfft": mirrored_back,
    "kept": lambda p, a: scaled(a.T, p % 2, a.shape[0]).T,
    "chosen": lambda h, a: np.dot(h, a),
    "spread": lambda h, a: np.dot(h.T, a),
    "per": lambda s, x, y: averaged(s, len(x) * len(y)),
    "cast": lambda x: x,
    "filled": lambda a: a[:, 0],
    "inverse": lambda s: s.power((2**31 - 1) ** 2 - 2),
}
"""What each head means."""


def shape_of(term: Term) -> tuple[int, ...]:
    return tuple(dim.constant or 0 for dim in term.shape)


def evaluate(term: Term, values: dict[Value, Any]) -> Any:
    if term.leaf is not None:
        return values[term.leaf]
    if term.head == "eye":
        return identity(shape_of(term))
    if term.head == "ones":
        return np.array([Number(1)] * shape_of(term)[0], object)
    args = [evaluate(arg, values) for arg in term.args]
    if term.head == "hot":
        size = shape_of(term)[-1]
        return np.array([[Number(int(i == j)) for j in range(size)] for i in args[0].flat], object).reshape(
            shape_of(term)
        )
    if term.head == "perm":
        return identity((shape_of(term)[1],) * 2)[args[0]]
    return REFERENCES[term.head](*args)


class Sample:
    """Random terms for the left side of a law."""

    def __init__(self, law: Law, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._names: dict[str, Term] = {}
        self.values: dict[Value, Any] = {}
        self._transforms = "fft" in law.left
        self._is_real = "irfft(rfft" in law.left
        self._cuts_one = law.when == "last row"
        self._has_ones = law.when == "batch of ones"
        self.left = self._term(ast.parse(law.left, mode="eval").body)

    def _size(self) -> int:
        return int(self._rng.choice((1, 2, 4, 8) if self._transforms else SIZES))

    def _term(self, side: ast.expr) -> Term:
        if isinstance(side, ast.Name) and side.id in CONSTANTS:
            size = Dim.const(self._size())
            return Term(side.id, (), (size, size) if side.id == "eye" else (size,))
        if isinstance(side, ast.Name):
            return self._names.setdefault(side.id, self._leaf(side.id))
        assert isinstance(side, ast.Call) and isinstance(side.func, ast.Name)
        args = [self._term(arg) for arg in side.args]
        if side.func.id == "perm":
            size = int(self.values[args[0].leaf].max()) + 1  # type: ignore[index]
            return Term("perm", tuple(args), (args[0].shape[0], Dim.const(size)))
        return make(side.func.id, *args)

    def _chosen(self, rank: int) -> Term:
        """A matrix, or a batch of them, with one 1 in each row, or none."""
        shape = tuple(self._size() for _ in range(rank))
        value = Value(TensorType(tuple(map(Dim.const, shape[:-1])), I64), None, 0, "i")  # type: ignore[arg-type]
        self.values[value] = self._rng.integers(-1, shape[-1] + 1, size=shape[:-1])
        dims = tuple(map(Dim.const, shape))
        return Term("hot", (Term("", (), dims[:-1], value),), dims)

    def _leaf(self, name: str) -> Term:
        if name == "H" or (name == "M" and self._has_ones):
            return self._chosen(2 if name == "H" else 3)
        if name in KNOWN:
            return self._known_leaf(name)
        if self._cuts_one and name == "p":
            return self._one_row()
        rank = 2 if name.isupper() else 0 if name == "s" else 1
        shape = tuple(self._size() for _ in range(rank))
        dims = tuple(map(Dim.const, shape))
        value = Value(TensorType(dims, F32), None, 0, name)  # type: ignore[arg-type]
        is_index = name in ("p", "q")
        array = self._rng.integers(0, 4, size=shape) if is_index else random_numbers(self._rng, shape)
        if self._is_real:
            array = real_parts(array)
        self.values[value] = array
        return Term("", (), dims, value)

    def _one_row(self) -> Term:
        """One of some rows, as an operation takes it."""
        start, dims = int(self._rng.integers(6)), (Dim.const(1),)
        source = Value(TensorType((Dim.const(6),), F32), None, 0, "x")  # type: ignore[arg-type]
        attrs = {"starts": (Dim.const(start),), "sizes": dims, "steps": (1,)}
        cut = Op(OPDEFS["graph.cut"], (source,), (TensorType(dims, F32),), attrs)
        self.values[cut.result] = np.array([start])
        return Term("", (), dims, cut.result)

    def _known_leaf(self, name: str) -> Term:
        """A matrix of which the graph says what it is: self-adjoint, or unitary, now and then both, or with orthonormal
        columns only; real or complex."""
        size, is_real, kind = self._size(), bool(self._rng.integers(2)), int(self._rng.integers(3))
        made = orthonormal(self._rng, size, is_real)
        flags: tuple[str, ...] = ("unitary",)
        if name == "S":
            half = random_matrix(self._rng, size, is_real)
            made, flags = half + conjugated(half).T, ("self_adjoint",)
        elif kind == 1:
            made, flags = made[:, : max(size // 2, 1)], ("isometry",)
        elif kind == 2:
            made, flags = reflection(self._rng, size, is_real), ("unitary", "self_adjoint")
        dims = tuple(map(Dim.const, made.shape))
        ty = TensorType(dims, F32 if is_real else C64)
        source = Value(ty, None, 0, name)  # type: ignore[arg-type]
        held = Op(OPDEFS["graph.operator"], (source,), (ty,), {"kind": "dense", "flags": flags})
        self.values[held.result] = made
        return Term("", (), dims, held.result)


def random_matrix(rng: np.random.Generator, size: int, is_real: bool) -> Any:
    found = random_numbers(rng, (size, size))
    return real_parts(found) if is_real else found


def real_parts(numbers: Any) -> Any:
    return np.vectorize(lambda x: Number(x.re), otypes=[object])(numbers)


def inverse(matrix: Any) -> Any:
    """By elimination, exactly."""
    size = len(matrix)
    rows = np.concatenate([matrix, identity((size, size))], axis=1)
    for k in range(size):
        pivot = next(i for i in range(k, size) if rows[i, k] != Number(0))
        rows[[k, pivot]] = rows[[pivot, k]]
        rows[k] = rows[k] * rows[k, k].power((2**31 - 1) ** 2 - 2)
        for i in range(size):
            if i != k:
                rows[i] = rows[i] - rows[k] * rows[i, k]
    return rows[:, size:]


def orthonormal(rng: np.random.Generator, size: int, is_real: bool) -> Any:
    """(1 - K) (1 + K)^-1 of what is its own negative adjoint."""
    half = random_matrix(rng, size, is_real)
    skew, one = half - conjugated(half).T, identity((size, size))
    return np.dot(one - skew, inverse(one + skew))


def reflection(rng: np.random.Generator, size: int, is_real: bool) -> Any:
    """U D U.H with 1 and -1 on the diagonal."""
    turned = orthonormal(rng, size, is_real)
    signs = on_diagonal(np.array([Number(1) if i % 2 else -Number(1) for i in range(size)], object))
    return np.dot(turned, np.dot(signs, conjugated(turned).T))


def fits(term: Term, values: dict[Value, Any]) -> bool:
    try:
        found = evaluate(term, values)
    except (ValueError, AssertionError, IndexError):
        return False
    return np.shape(found) == shape_of(term)


def verdict(law: Law) -> bool | None:
    """Whether a law holds on all samples; None where no sample fits it."""
    rule = Rule(law)
    seen = 0
    for seed in range(ATTEMPTS):
        sample = Sample(law, seed)
        if not fits(sample.left, sample.values):
            continue
        right = rule.apply(sample.left)
        if right is None:
            continue
        expected = evaluate(sample.left, sample.values)
        try:
            found = evaluate(right, sample.values)
        except (ValueError, AssertionError, IndexError):
            return False
        if np.shape(found) != np.shape(expected) or not np.all(np.asarray(found == expected)):
            return False
        seen += 1
        if seen == WANTED:
            return True
    return None


@pytest.mark.one_in(2)
@folded("law", LAWS, ids=lambda law: law.name, one_in=12)
def test_law_holds_over_a_finite_field(law: Law) -> None:
    assert verdict(law) is True


FALSE_LAWS = (
    Law("product not turned", "t(mm(A, B))", "mm(t(A), t(B))"),
    Law("products commute", "mm(A, B)", "mm(B, A)"),
    Law("diagonal on the wrong side", "mm(diag(d), A)", "columns(A, d)"),
    Law("trace of a product as a product of traces", "trace(mm(A, B))", "times(trace(A), trace(B))"),
    Law("trace by rows", "trace(mm(A, B))", "sum_products(A, t(B))"),
    Law("Kronecker factors exchanged", "mm(kron(A, B), x)", "apply_kron(B, A, x)"),
    Law("mixed product without fit", "mm(kron(A, B), kron(C, D))", "kron(mm(A, D), mm(B, C))"),
    Law("conjugate dropped", "conj(t(A))", "t(A)"),
    Law("transform twice", "fft(fft(x))", "x"),
    Law("transform of a conjugate", "fft(conj(x))", "conj(fft(x))"),
    Law("permutations exchanged", "mm(perm(p), perm(q))", "perm(take(p, q))"),
    Law("triangle of a product", "tril(mm(A, B))", "mm(tril(A), tril(B))"),
    Law("diagonal of a product", "diagonal(mm(A, B))", "times(diagonal(A), diagonal(B))"),
    Law("identity added to all", "add(diag(d), eye)", "diag(d)"),
    Law("a transpose for an adjoint", "t(S)", "S", when="self_adjoint"),
    Law("every matrix its own inverse", "mm(U, U)", "eye"),
    Law("rows for columns", "mm(U, t(conj(U)))", "eye"),
    Law("a conjugate forgotten", "mm(t(U), U)", "eye"),
    Law("sum of a product by rows", "sum_all(mm(A, B))", "mm(row_sums(A), column_sums(B))"),
    Law("mean of a product by sums", "mean_all(mm(A, B))", "mm(column_sums(A), row_sums(B))"),
    Law("row sums on the wrong side", "row_sums(mm(A, B))", "mm(row_sums(A), B)"),
    Law("a row for a column", "mm(outer(x, y), z)", "scale(mm(x, z), y)"),
    Law("rows of the second factor", "cut_rows(mm(A, B), p)", "mm(A, cut_rows(B, p))"),
    Law("transform of an inverse real transform", "rfft(irfft(x))", "x"),
    Law("sums up to a row for those before it", "mm(below(outer(ones, ones)), x)", "running(x)"),
    Law("sums before a row for those behind it", "mm(x, below(outer(ones, ones)))", "before(x)"),
    Law("any of running sums", "cut_rows(running(A), p)", "row(column_sums(A))"),
    Law("running sums on the wrong side", "mm(running(A), B)", "mm(A, running(B))"),
    Law("squares of any product", "sum_all(times(mm(A, B), mm(A, B)))", "sum_all(times(mm(B, A), mm(B, A)))"),
    Law("elements of products", "times(mm(A, B), mm(C, D))", "mm(times(A, C), times(B, D))"),
    Law("kept rows for columns", "mm(x, kept(p, A))", "kept(p, mm(x, A))"),
    Law("rows where ones say, not turned", "mm(t(H), A)", "chosen(H, A)", when="one in each row"),
    Law("columns of a transform", "mm(fft(eye), A)", "fft(A)", when="square"),
    Law("difference exchanged", "mm(sub(A, B), x)", "sub(mm(B, x), mm(A, x))"),
)


@pytest.mark.one_in(2)
@folded("law", FALSE_LAWS, ids=lambda law: law.name)
def test_false_law_is_refuted(law: Law) -> None:
    assert verdict(law) is False


def test_every_head_has_a_meaning_and_every_law_its_own_name() -> None:
    named = {head for head in HEADS if equation_of(head) is None}  # contractions have heads as they are asked for
    assert named == {*REFERENCES, *CONSTANTS, "perm", "hot"}
    assert len({law.name for law in LAWS}) == len(LAWS)
    assert len({law.left for law in LAWS}) == len(LAWS)
    heads = {law.left.partition("(")[0] for law in LAWS}
    assert {rule.law for head in heads for rule in rules_of(head)} == set(LAWS)


@pytest.mark.parametrize("order", [1, 2, 4, 8])
def test_roots_of_unity_are_as_of_complex_numbers(order: int) -> None:
    root = root_of_unity(order)
    assert root.power(order) == Number(1) and root * root.conjugate() == Number(1)
