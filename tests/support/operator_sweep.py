"""Every kind of operator under every operation, beside what NumPy computes of its matrix in float64 or complex128.

A program is a kind, an operation and a dtype: `A` is the kind's expression, and the function returns the operation's.
Its error is at most `SLACK` spacings of its dtype, times what the operation makes of an error, times the largest number
of the result; one without numbers of its own, as `op.eye(N)`, is of f32 where nothing tells. What an operation does not
take is an error with a code of `REFUSALS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy import linalg as la

import tessera
from tests.support.operator_kinds import KINDS, NUMPY, PARAMETERS, PLACES, Kind, adjoint, exponential, values, wide

SLACK = 64
SMALLEST = 0.01
"""Of a result, for its error: all numbers are near 1."""
REFUSALS = {
    "square": {"E0801", "E0309"},
    "an inverse": {"E0804", "E0925", "E0933"},
    "self-adjoint": {"E0804"},
    "not negative": {"E0933"},
}
NOT_ASKED = ("regular", "independent columns", "real")
"""Refusals are by what an operator lacks, or E0217, which is told of a lambda, with the reason. Of one that lacks what
is not asked a method may give a number."""


def _one(m: Any) -> float:
    return 1.0


def _norm(m: Any) -> float:
    return 1 + float(la.norm(m, 2))


def _cond(m: Any) -> float:
    found = float(la.cond(m))
    return found if found < 1e8 else 1.0


def _cond_of_square(m: Any) -> float:
    return _cond(m) ** 2


def _cond_shifted(m: Any) -> float:
    return _cond(_shifted(m))


def _many_conds(m: Any) -> float:
    """Of results that may be far smaller than the numbers they are made of."""
    return 50 * _cond(m)


def _cond_of_vectors(m: Any) -> float:
    return float(la.cond(la.eig(m)[1]))


@dataclass(frozen=True)
class Operation:
    """What a program returns, what that is of the matrix m and the values z, what it asks of A, and how many times
    larger than one spacing its error may become."""

    text: str
    expected: Callable[[Any, Any], Any]
    needs: tuple[str, ...] = ()
    growth: Callable[[Any], float] = _one
    seen: Callable[[Any, Any], Any] = lambda found, m: found
    """What is compared of the result, where more than one is right."""
    when_singular: Any = None
    when_short: str = ""
    """With what it may be refused where the powers of A take x to fewer dims than there are."""
    spacing: float = 0.0
    """The least that its bound is of: a method that stops at a tolerance is no more exact in a wider type."""


def _values(m: Any) -> Any:
    return la.svd(m, compute_uv=False)


def _kept(m: Any, z: Any) -> Any:
    s = _values(m)
    return np.append(np.where(np.arange(len(s)) < 2, s, 0), s[2])


def _cut(found: Any, m: Any) -> Any:
    """Singular values of what was kept, and how far it is from all."""
    return np.append(_values(found), la.norm(m - found, 2))


def _of_values(f: Callable[[Any], Any], m: Any, z: Any) -> Any:
    w, v = la.eigh(m)
    return (v * f(w)) @ adjoint(v)


def _root(w: Any) -> Any:
    """Of an eigenvalue that is 0 but for rounding, 0: the root of 1e-17 would be 3e-9."""
    return np.sqrt(np.where(w > 1e-14 * abs(w).max(initial=0), w, 0))


def _solved(m: Any, z: Any) -> Any:
    return la.solve(m, z.x)


def _shifted(m: Any) -> Any:
    return 9.5 * np.eye(len(m)) - m


def _commuted(m: Any, z: Any) -> Any:
    return m @ z.n @ z.x - z.n @ m @ z.x


def _radius(m: Any, z: Any) -> Any:
    return abs(la.eigvals(m)).max()


def _least_squares(m: Any, z: Any) -> Any:
    return la.pinv(m, rcond=1e-5) @ z.y


def _is_unitary(m: Any, z: Any) -> bool:
    return m.shape[0] == m.shape[1] and bool(np.allclose(adjoint(m) @ m, np.eye(len(m)), atol=1e-4))


_INVERSE, _SQUARE, _OWN = ("square", "an inverse"), ("square",), ("square", "self-adjoint")
OPERATIONS: dict[str, Operation] = {
    "A @ x": Operation("A @ x", lambda m, z: m @ z.x),
    "columns": Operation("A @ X", lambda m, z: m @ z.X),
    "batch": Operation("A @ W", lambda m, z: z.W @ m.T),
    "y @ A": Operation("y @ A", lambda m, z: z.y @ m),
    "batch @ A": Operation("V @ A", lambda m, z: z.V @ m),
    "adjoint": Operation("A.H @ y", lambda m, z: adjoint(m) @ z.y),
    "transpose": Operation("A.T @ y", lambda m, z: m.T @ z.y),
    "to_dense": Operation("to_dense(A)", lambda m, z: m),
    "A.H ∘ A": Operation("(A.H ∘ A) @ x", lambda m, z: adjoint(m) @ (m @ z.x), growth=_norm),
    "2 A - A / 2": Operation("(2.0 * A - A / 2.0) @ x", lambda m, z: 1.5 * m @ z.x),
    "commutator": Operation("commutator(A, op.dense(n)) @ x", _commuted, _SQUARE, _norm),
    "sym": Operation("sym(A) @ x", lambda m, z: (m + adjoint(m)) @ z.x / 2, _SQUARE, _norm),
    "skew": Operation("skew(A) @ x", lambda m, z: (m - adjoint(m)) @ z.x / 2, _SQUARE, lambda m: 20 * _norm(m)),
    "expm": Operation("expm(A) @ x", lambda m, z: exponential(m) @ z.x, _SQUARE, lambda m: _norm(m) ** 2),
    "power 3": Operation("(A ** 3) @ x", lambda m, z: la.matrix_power(m, 3) @ z.x, _SQUARE, _norm),
    "power 0": Operation("power(A, 0) @ x", lambda m, z: z.x, _SQUARE),
    "power -1": Operation("(A ** -1) @ x", _solved, _INVERSE, _cond),
    "power -2": Operation("power(A, -2) @ x", lambda m, z: la.solve(m, _solved(m, z)), _INVERSE, _cond_of_square),
    "resolvent": Operation("resolvent(A, 9.5) @ x", lambda m, z: _solved(_shifted(m), z), _SQUARE, _cond_shifted),
    "inverse": Operation("inverse(A) @ x", _solved, _INVERSE, _cond),
    "inverse, dense": Operation("to_dense(inverse(A))", lambda m, z: la.inv(m), _INVERSE, _cond),
    "inverse, adjoint": Operation("inverse(A).H @ x", lambda m, z: _solved(adjoint(m), z), _INVERSE, _cond),
    "solve": Operation("solve(A, x)", _solved, _INVERSE, _cond),
    "solve, columns": Operation("solve(A, X)", lambda m, z: la.solve(m, z.X), _INVERSE, _cond),
    "trace": Operation("trace(A)", lambda m, z: np.trace(m), _SQUARE, _norm),
    "diagonal": Operation("diagonal(A)", lambda m, z: np.diagonal(m), _SQUARE, _norm),
    "det": Operation("det(A)", lambda m, z: la.det(m), _SQUARE, _cond, when_singular=0.0),
    "logdet": Operation("logdet(A)", lambda m, z: la.slogdet(m)[1], _SQUARE, _many_conds, when_singular=-np.inf),
    "slogdet": Operation("slogdet(A)[0]", lambda m, z: la.slogdet(m)[0], _SQUARE, _cond, when_singular=0.0),
    "norm": Operation("norm(A)", lambda m, z: la.norm(m, 2)),
    "cond": Operation("cond(A)", lambda m, z: la.cond(m), (), _cond, when_singular=np.inf),
    "spectral_radius": Operation("spectral_radius(A)", _radius, _SQUARE, _cond_of_vectors),
    "is_unitary": Operation("is_unitary(A)", _is_unitary),
    "spectral": Operation("to_dense(spectral(A))", lambda m, z: m),
    "reconstruct": Operation("reconstruct(spectral(A)) @ x", lambda m, z: m @ z.x, growth=_norm),
    "values": Operation("abs(spectral(A).S)", lambda m, z: _values(m)),
    "truncate": Operation("to_dense(truncate(spectral(A), 2))", _kept, seen=_cut),
    "pseudoinverse": Operation("pseudoinverse(spectral(A)) @ y", _least_squares, (), lambda m: 20 * _norm(m)),
    "sqrt": Operation("to_dense(sqrt(A))", partial(_of_values, _root), (*_OWN, "not negative"), _many_conds),
    "cos": Operation("cos(A) @ x", lambda m, z: _of_values(np.cos, m, z) @ z.x, _OWN, _norm),
    "abs": Operation("to_dense(abs(A))", partial(_of_values, abs), _OWN),
    "equal": Operation("A == A, A + A == 2.0 * A, A.H.H == A", lambda m, z: (True, True, True)),
}  # fmt: skip


GROUPS = (
    ("A @ x", "columns", "batch", "y @ A", "batch @ A", "adjoint", "transpose", "to_dense", "A.H ∘ A", "2 A - A / 2"),
    ("commutator", "sym", "skew", "expm", "power 3", "power 0"),
    ("power -1", "power -2", "resolvent", "inverse", "inverse, dense", "inverse, adjoint", "solve", "solve, columns"),
    ("trace", "diagonal", "det", "logdet", "slogdet", "is_unitary"),
    ("norm", "cond", "spectral", "reconstruct", "values", "truncate", "pseudoinverse"),
    ("sqrt", "cos", "abs"),
)
"""Operations that share most of their work, so that a program of all takes little longer than one of each."""


def together(kind: Kind, operations: Sequence[Operation], dtype: str) -> Operation:
    """Several operations as one, of those that the kind has what they need for: a program has all of their results."""
    chosen = [operation for operation in operations if lacks(kind, operation, dtype) is None]
    return Operation(", ".join(one.text for one in chosen), lambda m, z: tuple(one.expected(m, z) for one in chosen))


def lacks(kind: Kind, operation: Operation, dtype: str) -> str | None:
    """What the operation asks for and the kind has not, if anything."""
    m = kind.matrix(wide(dtype))
    missing = {
        "square": kind.sizes[0] != kind.sizes[1],
        "an inverse": kind.singular,
        "self-adjoint": not kind.is_own(dtype),
        "not negative": kind.is_own(dtype) and la.eigvalsh(m).min() < -1e-6,
        "regular": kind.singular or not m.any(),
        "independent columns": la.matrix_rank(m) < m.shape[1],
        "real": np.iscomplexobj(m) or dtype.startswith("c"),
    }
    return next((need for need in operation.needs if missing[need]), None)


def _is_short(kind: Kind, dtype: str) -> bool:
    z = wide(dtype)
    m = kind.matrix(z)
    x = _fitting(vars(z), m)["x"]
    taken = np.stack([la.matrix_power(m / la.norm(m, 2) if m.any() else m, n) @ x for n in range(len(m))])
    return bool(la.matrix_rank(taken, tol=1e-9) < len(m))


def program(kind: Kind, operation: Operation, dtype: str) -> str:
    """The function `run` of the values that its expressions name, and of x and y, which have its sizes."""
    domain, codomain = kind.sizes
    own = {"n": "{0}, {0}", "x": "{0}", "y": "{1}", "X": "{0}, R", "W": "Z, L, {0}", "V": "Z, L, {1}"}
    dims = PARAMETERS | {name: text.format(domain, codomain) for name, text in own.items()}
    named = set(re.findall(r"\b[a-zA-Z]\b", f"{kind.text} {operation.text} x y"))
    types = {name: f"Tensor[{sizes}, {dtype}]" if sizes else dtype for name, sizes in dims.items()}
    types |= {name: f"Tensor[{sizes}]" for name, sizes in PLACES.items()}
    given = ", ".join(f"{name}: {types[name]}" for name in types if name in named)
    return f"def run({given}):\n    A = {kind.text_of(dtype)}\n    return {operation.text}\n"


def _fitting(given: dict[str, Any], m: Any) -> dict[str, Any]:
    """The values, where x, X and W have the size that m takes, and y and V the one that it gives."""
    rows, columns = m.shape
    wide_ones, other_ones = ("x", "X", "W"), ("y", "Y", "V")
    taken, given_ones = (wide_ones if size == 6 else other_ones for size in (columns, rows))
    own = {"x": taken[0], "X": taken[1], "W": taken[2], "y": given_ones[0], "V": given_ones[2]}
    return given | {name: given[source] for name, source in own.items()} | {"n": given["s"][:columns, :columns]}


def arguments(text: str, kind: Kind, dtype: str) -> list[Any]:
    given = _fitting(values(dtype), kind.matrix(wide(dtype)))
    return [given[name] for name in re.findall(r"(\w+): ", text.partition("):")[0])]


def expected(kind: Kind, operation: Operation, dtype: str) -> Any:
    if kind.singular and operation.when_singular is not None:
        return operation.when_singular
    z = wide(dtype)
    m = kind.matrix(z)
    return operation.expected(m, SimpleNamespace(**_fitting(vars(z), m)))


def outcome(kind_name: str, operation_name: str, dtype: str) -> tuple[str, Any]:
    """What a program gives, or the code of its error."""
    return outcome_of(KINDS[kind_name], OPERATIONS[operation_name], dtype)


def outcome_of(kind: Kind, operation: Operation, dtype: str, device: str = "cpu") -> tuple[str, Any]:
    text = program(kind, operation, dtype)
    try:
        found = tessera.compile(text, device=device)["run"](*arguments(text, kind, dtype))
    except tessera.TesseraError as error:
        told = str(error)
        code = re.search(r"E\d{4}", told)
        return (code[0] if code else "no code"), told
    return "", found


def judged(kind_name: str, operation_name: str, dtype: str, code: str, found: Any) -> str:
    """What is wrong with an outcome; nothing where it is right."""
    return judged_of(KINDS[kind_name], OPERATIONS[operation_name], dtype, code, found)


def judged_of(kind: Kind, operation: Operation, dtype: str, code: str, found: Any) -> str:
    missing = lacks(kind, operation, dtype)
    if missing in NOT_ASKED:
        return ""
    if missing is not None:
        told = code in REFUSALS[missing] or (code == "E0217" and missing in found)
        return "" if told else f"{code or 'no error'}, though it is not {missing}: {found}"
    if code:
        return "" if code == operation.when_short and _is_short(kind, dtype) else f"refused: {found}"
    wanted, given = np.asarray(expected(kind, operation, dtype)), np.asarray(found)
    m = kind.matrix(wide(dtype))
    seen = np.asarray(operation.seen(given.astype(np.result_type(given, "f8")), m))
    if seen.shape != wanted.shape:
        return f"{seen.shape} instead of {wanted.shape}"
    if not np.isfinite(wanted).all():
        return "" if np.array_equal(seen, wanted) else f"{seen} instead of {wanted}"
    error = abs(np.subtract(seen, wanted, dtype="c16")).max(initial=0)
    kinds = (np.dtype(NUMPY[dtype]), given.dtype)
    spacing = max(operation.spacing, *(np.finfo(one).eps for one in kinds if one.kind in "fc"))
    bound = SLACK * spacing * operation.growth(m) * max(abs(wanted * 1.0).max(initial=0), SMALLEST)
    return "" if error <= bound else f"an error of {error:.2e}, where {bound:.2e} is allowed"
