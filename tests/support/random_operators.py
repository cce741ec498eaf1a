"""Random programs of operators: a kind of operator made of others, and a place where a program has it.

    draw -> `Made`: text and matrix, of the kinds that `operator_kinds` has, by sums, products, adjoints, inverses, ...
         -> `Place`: a function, a loop, a field, mapped, differentiated; what it returns beside NumPy's of the matrix

Errors are bounded by what rounding of the parts can become: `reach` is the largest number on the way to a matrix.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy import linalg as la

import tessera
from tests.support.drawing import Drawing
from tests.support.operator_kinds import KINDS, NUMPY, PARAMETERS, PLACES, Kind, adjoint, exponential, values, wide
from tests.support.operator_sweep import OPERATIONS

SIZES = {"N": 6, "M": 4, "K": 2, "T": 3, "P": 2, "Q": 3, "E": 8, "G": 4, "Z": 2, "L": 5}
LOOSE = 0.01
"""Where rounding can make an error larger than this share of the result, a program says nothing."""
SLACK = 64
STEP = 1e-5
PROMISED = "hsqo"
"""Values of which a program says what they are: others than these would break the promise."""
REFUSALS = ("E0804", "E0933")
"""Without a known structure, or an inverse, no function of an operator."""
Matrix = Callable[[Any], Any]
_SMALL = (
    Kind("op.diag(t)", lambda z: np.diag(z.t), sizes=("M", "M")),
    Kind("op.dense(r) ∘ op.dense(r).H", lambda z: z.r @ adjoint(z.r), sizes=("M", "M")),
    Kind("op.dense(b)", lambda z: z.b, sizes=("Q", "Q")),
    Kind("op.diag(g)", lambda z: np.diag(z.g), sizes=("Q", "Q")),
    Kind("op.dense(a)", lambda z: z.a, sizes=("P", "P")),
)
"""Of 4, 3 and 2 entries."""


@dataclass(frozen=True)
class Made:
    """An operator as a program writes it, its matrix of the values z, and the largest number on the way there."""

    text: str
    matrix: Matrix
    reach: float


class Draw(Drawing):
    """Draws operators of 6 or 4 entries, of known sizes or of symbols."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.z = wide(self.dtype)

    def leaf(self, rows: int, columns: int) -> Made:
        able = [kind for kind in (*KINDS.values(), *_SMALL) if self._fits(kind, rows, columns)]
        kind = self.random.choice(able)
        text = self._sized(kind.text_of(self.dtype))
        return Made(f"({text})" if " " in text else text, kind.matrix, 1 + float(la.norm(kind.matrix(self.z))))

    def _fits(self, kind: Kind, rows: int, columns: int) -> bool:
        m = kind.matrix(self.z)
        real = self.dtype.startswith("c") or not np.iscomplexobj(m)
        return m.shape == (rows, columns) and real and (self.known or set(kind.sizes) <= {"N", "M"})

    def _sized(self, text: str) -> str:
        """With the sizes as numbers, where they are known."""
        return re.sub(r"(?<!\.)\b[A-Z]\b", lambda name: str(SIZES.get(name[0], name[0])), text) if self.known else text

    def operator(self, depth: int, rows: int = 6, columns: int = 6) -> Made:
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf(rows, columns)
        return self.random.choice(_FORMS if rows == columns else _FORMS[:_RECTANGULAR])(self, depth - 1, rows, columns)

    def size(self, rows: int) -> str:
        """As a program of known sizes or of symbols writes it."""
        return str(rows) if self.known else {6: "N", 4: "M"}[rows]

    def parameters(self, names: set[str]) -> str:
        """The types of the values that are named."""
        given = {name: self._sized(f"Tensor[{dims}, {self.dtype}]") for name, dims in (PARAMETERS | _FREE).items()}
        given |= {name: self._sized(f"Tensor[{dims}]") for name, dims in PLACES.items()} | {"f": self.dtype}
        return ", ".join(f"{name}: {type_}" for name, type_ in given.items() if name in names)


_FREE = {"x": "N", "X": "N, K", "W": "Z, L, N"}
"""What operators are applied to."""


def _sum(draw: Draw, depth: int, rows: int, columns: int) -> Made:
    a, b, sign = draw.operator(depth, rows, columns), draw.operator(depth, rows, columns), draw.random.choice("+-")
    factor = 1 if sign == "+" else -1
    return Made(f"({a.text} {sign} {b.text})", lambda z: a.matrix(z) + factor * b.matrix(z), a.reach + b.reach)


def _multiple(draw: Draw, depth: int, rows: int, columns: int) -> Made:
    a = draw.operator(depth, rows, columns)
    text, factor = draw.random.choice([("(2.0 * {})", 2.0), ("({} / -4.0)", -0.25), ("(0.0 * {})", 0.0), ("(-{})", -1)])
    return Made(text.format(a.text), lambda z: factor * a.matrix(z), 2 * a.reach)


def _by_value(draw: Draw, depth: int, rows: int, columns: int) -> Made:
    a = draw.operator(depth, rows, columns)
    return Made(f"(f * {a.text})", lambda z: z.f * a.matrix(z), 4 * a.reach)


def _composed(draw: Draw, depth: int, rows: int, columns: int) -> Made:
    middle = draw.random.choice([rows, columns, 6, 4]) if {rows, columns} <= {6, 4} else rows
    a, b = draw.operator(depth, rows, middle), draw.operator(depth, middle, columns)
    return Made(f"({a.text} ∘ {b.text})", lambda z: a.matrix(z) @ b.matrix(z), a.reach * b.reach)


def _turned(draw: Draw, depth: int, rows: int, columns: int) -> Made:
    a = draw.operator(depth, columns, rows)
    form, turned = draw.random.choice([("{}.H", adjoint), ("{}.T", np.transpose), ("conj({}).H", np.transpose)])
    return Made(form.format(a.text), lambda z: turned(a.matrix(z)), a.reach)


def _part(draw: Draw, depth: int, rows: int, columns: int) -> Made:
    a = draw.operator(depth, rows, columns)
    if draw.random.random() < 0.5:
        return Made(f"sym({a.text})", lambda z: (a.matrix(z) + adjoint(a.matrix(z))) / 2, a.reach)
    return Made(f"skew({a.text})", lambda z: (a.matrix(z) - adjoint(a.matrix(z))) / 2, a.reach)


def _gram(draw: Draw, depth: int, rows: int, columns: int) -> Made:
    a = draw.operator(depth, draw.random.choice([6, 4]) if columns in (6, 4) else columns, columns)
    return Made(f"({a.text}.H ∘ {a.text})", lambda z: adjoint(a.matrix(z)) @ a.matrix(z), a.reach**2)


def _commutator(draw: Draw, depth: int, rows: int, columns: int) -> Made:
    a, b = draw.operator(depth, rows, columns), draw.operator(depth, rows, columns)

    def matrix(z: Any) -> Any:
        m, n = a.matrix(z), b.matrix(z)
        return m @ n - n @ m

    return Made(f"commutator({a.text}, {b.text})", matrix, 2 * a.reach * b.reach)


def _power(draw: Draw, depth: int, rows: int, columns: int) -> Made:
    a, times = draw.operator(depth, rows, columns), draw.random.choice([0, 1, 2, 3, -2])
    if times < 0:
        return _inverse(draw, depth, rows, columns, times)
    return Made(f"power({a.text}, {times})", lambda z: la.matrix_power(a.matrix(z), times), a.reach ** max(times, 1))


def _inverse(draw: Draw, depth: int, rows: int, columns: int, times: int = -1) -> Made:
    a = draw.operator(depth, rows, columns)
    m = a.matrix(draw.z)
    if la.cond(m) > 100:
        return a
    reach = ((1 + a.reach) * float(la.norm(la.inv(m))) ** 2) ** -times
    text = f"inverse({a.text})" if times == -1 else f"({a.text} ** {times})"
    return Made(text, lambda z: la.matrix_power(la.inv(a.matrix(z)), -times), reach)


def _resolvent(draw: Draw, depth: int, rows: int, columns: int) -> Made:
    a = draw.operator(depth, rows, columns)

    def matrix(z: Any) -> Any:
        return la.inv(9.5 * np.eye(rows) - a.matrix(z))

    shifted = 9.5 * np.eye(rows) - a.matrix(draw.z)
    if la.cond(shifted) > 100:
        return a
    return Made(f"resolvent({a.text}, 9.5)", matrix, (10 + a.reach) * float(la.norm(la.inv(shifted))) ** 2)


def _spectral(draw: Draw, depth: int, rows: int, columns: int) -> Made:
    """The same operator by its values, or its pseudoinverse."""
    a = draw.operator(depth, rows, columns)
    if rows == columns or draw.random.random() < 0.5:
        form = draw.random.choice(["spectral({})", "reconstruct(spectral({}))"])
        return Made(form.format(a.text), a.matrix, 4 * a.reach)
    a = draw.operator(depth, columns, rows)
    m = a.matrix(draw.z)
    if la.cond(m) > 100:
        return draw.operator(depth, rows, columns)
    reach = (1 + a.reach) * float(la.norm(la.pinv(m))) ** 2
    return Made(f"pseudoinverse(spectral({a.text}))", lambda z: la.pinv(a.matrix(z)), 4 * reach)


def _root(draw: Draw, depth: int, rows: int, columns: int) -> Made:
    """A function of a positive operator, by its eigenvalues."""
    a = draw.operator(depth, rows, columns)
    name, of_values = draw.random.choice([("sqrt", np.sqrt), ("log", np.log), ("rsqrt", lambda w: w**-0.5)])

    def matrix(z: Any) -> Any:
        m = a.matrix(z)
        w, v = la.eigh(adjoint(m) @ m + np.eye(rows))
        return (v * of_values(w)) @ adjoint(v)

    return Made(f"{name}({a.text}.H ∘ {a.text} + op.eye({draw.size(rows)}))", matrix, 2 * (1 + a.reach) ** 2)


def _joined(draw: Draw, depth: int, rows: int, columns: int) -> Made:
    """Of smaller operators, whose sizes are known."""
    if not draw.known or rows != 6:
        return draw.operator(depth, rows, columns)
    form, sizes, together = draw.random.choice(_JOINED)
    a, b = (draw.operator(depth, size, size) for size in sizes)
    return Made(form.format(a.text, b.text), lambda z: together(a.matrix(z), b.matrix(z)), 3 * a.reach * b.reach)


def _kronecker_sum(a: Any, b: Any) -> Any:
    return np.kron(a, np.eye(len(b))) + np.kron(np.eye(len(a)), b)


def _direct_sum(a: Any, b: Any) -> Any:
    return np.block([[a, np.zeros((len(a), len(b)))], [np.zeros((len(b), len(a))), b]])


def _block(a: Any, b: Any) -> Any:
    return np.block([[a, b], [0 * a, a]])


_JOINED: tuple[tuple[str, tuple[int, int], Callable[[Any, Any], Any]], ...] = (
    ("op.kronecker({}, {})", (2, 3), np.kron),
    ("op.kronecker_sum({}, {})", (3, 2), _kronecker_sum),
    ("op.direct_sum({}, {})", (4, 2), _direct_sum),
    ("op.block([[{0}, {1}], [0, {0}]])", (3, 3), _block),
)


def _exponential(draw: Draw, depth: int, rows: int, columns: int) -> Made:
    a = draw.operator(depth, rows, columns)
    size = la.norm(a.matrix(draw.z), 2)
    if size > 4:
        return a
    return Made(f"expm({a.text})", lambda z: exponential(a.matrix(z)), a.reach * float(np.exp(size)))


_FORMS: tuple[Callable[[Draw, int, int, int], Made], ...] = (
    _sum, _sum, _multiple, _by_value, _composed, _composed, _turned,
    _spectral, _part, _gram, _commutator, _power, _inverse, _exponential, _resolvent, _root, _joined, _joined,
)  # fmt: skip
_RECTANGULAR = 8
"""So many take operators that are not square."""


@dataclass(frozen=True)
class Place:
    """Lines of a program in which `{A}` is an operator, what stands before the function, what it returns of the matrix
    m and the values z, and whether it is only for real numbers."""

    lines: str
    expected: Callable[[Any, Any], Any]
    before: str = ""
    real: bool = False


def _carried(m: Any, z: Any) -> Any:
    v = z.x
    for step in range(3):
        v = 0.5**step * m @ v + z.x
    return v


def _flags(m: Any, z: Any) -> Any:
    against = (m - adjoint(m), m - np.diag(np.diag(m)), np.triu(m, 1), np.tril(m, -1))
    return np.array([la.norm(one) < 1e-4 * (1 + la.norm(m)) for one in against])


_SQUARED = "grad(lambda at: sum(({A} @ at) ** 2))"
PLACES_OF_OPERATORS: dict[str, Place] = {
    "function": Place(
        "    return ask({A}, x)\n",
        lambda m, z: m @ z.x,
        before="def ask(A: Operator[I, J], x: Tensor[I, {dtype}]): return A @ x\n",
    ),
    "field": Place(
        "    box = Box(A={A}, c=2.0)\n    return box.c * (box.A @ x) + to_dense(box.A) @ x\n",
        lambda m, z: 3 * m @ z.x,
        before="struct Box[I, J]:\n    A: Operator[I, J]\n    c: {real}\n",
    ),
    "loop": Place(
        "    at = x\n    A = {A}\n"
        "    for step in range(3):\n        at = A @ at + x\n        A = 0.5 * A\n    return at\n",
        _carried,
    ),
    "branch": Place(
        "    A = {A}\n    if abs(x[0]) > 0.5:\n        A = 2.0 * A\n    return A @ x\n",
        lambda m, z: (2 if abs(z.x[0]) > 0.5 else 1) * m @ z.x,
    ),
    "mapped": Place(
        "    return vmap(lambda by: {A} @ (by * x))(stack([x[0], 2.0 * x[1]]))\n",
        lambda m, z: np.multiply.outer([z.x[0], 2 * z.x[1]], m @ z.x),
    ),
    "rows": Place("    return x @ {A} + {A} @ x\n", lambda m, z: (m.T + m) @ z.x),
    "given": Place("    return {A}\n", lambda m, z: m),
    "forward": Place(
        "    return jvp(lambda at: at * ({A} @ at), (x,), (2.0 * x,))[1]\n", lambda m, z: 4 * z.x * (m @ z.x)
    ),
    "slope": Place(f"    return {_SQUARED}(x)\n", lambda m, z: 2 * m.T @ m @ z.x, real=True),
    "mapped slope": Place(
        f"    return vmap({_SQUARED}, in_axes=1, out_axes=1)(X)\n", lambda m, z: 2 * m.T @ m @ z.X, real=True
    ),
    "equal": Place(
        "    A = {A}\n    return stack([cast(A + A == 2.0 * A, i32), cast(A.H.H == A, i32), cast(A.T.T == A, i32)])\n",
        lambda m, z: np.ones(3, "i4"),
    ),
    "flags": Place(
        "    A = {A}\n    held = (A.self_adjoint, A.diagonal, A.lower, A.upper)\n"
        "    return stack([cast(one, i32) for one in held])\n",
        _flags,
    ),
}


@dataclass(frozen=True)
class Program:
    """A program, its arguments, what it shall return, and what rounding may add to that."""

    text: str
    arguments: list[Any]
    expected: Any
    allowed: float


def program(seed: int) -> Program:
    """The program of a seed; one that says something, of several that are drawn."""
    draw = Draw(seed)
    while True:
        found = draw.random.choice([_asked, _asked, _placed, _placed, _by_part])(draw)
        if found is not None and found.allowed <= LOOSE * max(abs(np.asarray(found.expected)).max(initial=0), LOOSE):
            return found


def _asked(draw: Draw) -> Program | None:
    """An operation that the sweep asks of every kind, of those that need nothing but a square matrix."""
    made = draw.operator(draw.random.choice([1, 2, 2, 3]))
    m = made.matrix(draw.z)
    inverse = la.cond(m) < 200
    able = [one for one in OPERATIONS.values() if set(one.needs) <= {"square", "an inverse"[: 10 * inverse]}]
    regular = [one for one in able if inverse or one.when_singular is None]
    operation = draw.random.choice([one for one in regular if _named(one.text) <= {"A", *_FREE}])
    wanted = operation.expected(m, draw.z)
    if isinstance(wanted, tuple) or operation.seen(m, m) is not m or not np.isfinite(wanted).all():
        return None
    return _made(draw, made, f"    A = {{A}}\n    return {operation.text}\n", wanted, operation.growth(m))


def _placed(draw: Draw) -> Program | None:
    name = draw.random.choice(list(PLACES_OF_OPERATORS))
    place = PLACES_OF_OPERATORS[name]
    if place.real and draw.dtype.startswith("c"):
        return None
    made = draw.operator(draw.random.choice([1, 2, 2, 3]))
    if name == "given" and "lambda" in made.text:
        return None  # functions stay inside the language
    m = made.matrix(draw.z)
    real = {"c64": "f32", "c128": "f64"}.get(draw.dtype, draw.dtype)
    before = place.before.replace("{dtype}", draw.dtype).replace("{real}", real)
    return _made(draw, made, place.lines, place.expected(m, draw.z), 1 + float(la.norm(m)), before)


_DIFFERENTIATED: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    ("sum(sin({A} @ x))", lambda m, z: np.sin(m @ z.x).sum()),
    ("sum(sin({A}.H @ x))", lambda m, z: np.sin(m.T @ z.x).sum()),
    ("sum(sin(solve({A}, x)))", lambda m, z: np.sin(la.solve(m, z.x)).sum()),
    ("trace({A}) + sum(diagonal({A}) ** 2)", lambda m, z: np.trace(m) + (np.diag(m) ** 2).sum()),
    ("logdet({A}) + sum(solve({A}, x))", lambda m, z: la.slogdet(m)[1] + la.solve(m, z.x).sum()),
    ("norm({A})", lambda m, z: la.norm(m, 2)),
    ("sum(to_dense({A}) ** 2)", lambda m, z: (m**2).sum()),
)
"""What is differentiated by what an operator is made of."""


def _by_part(draw: Draw) -> Program | None:
    """A gradient by a value that the operator is made of, beside differences of NumPy's."""
    made = draw.operator(draw.random.choice([1, 2, 2]))
    names = [name for name in sorted(_named(made.text)) if name in PARAMETERS and name not in PROMISED + "f"]
    if draw.dtype != "f64" or not names or "op.projector" in made.text:
        return None
    name = draw.random.choice(names)
    text = re.sub(rf"\b{name}\b", "part", made.text)
    slope, at = np.zeros_like(getattr(draw.z, name)), getattr(draw.z, name)

    asked, in_numpy = draw.random.choice(_DIFFERENTIATED)
    if "solve" in asked and la.cond(made.matrix(draw.z)) > 100:
        return None

    def value(part: Any) -> Any:
        return in_numpy(made.matrix(SimpleNamespace(**vars(draw.z) | {name: part})), draw.z)

    for place in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[place] = STEP
        slope[place] = (value(at + step) - value(at - step)) / (2 * STEP)
    lines = f"    return grad(lambda part: {asked.format(A=text)})({name})\n"
    found = _made(draw, made, lines, slope, 1.0)
    return Program(found.text, found.arguments, slope, 1e-4 * max(1.0, abs(slope).max()))


def _named(text: str) -> set[str]:
    return set(re.findall(r"(?<!\.)\b[a-zA-Z]\b", text))


def _made(draw: Draw, made: Made, lines: str, expected: Any, growth: float, before: str = "") -> Program:
    body = lines.replace("{A}", made.text)
    names = _named(body) | {"x"}
    if not draw.known:
        names |= {"r"} if "M" in _named(made.text) else set()  # where a size is only said, a value has it
    text = f"{before}def run({draw.parameters(names)}):\n{body}"
    given = values(draw.dtype)
    arguments = [given[name] for name in re.findall(r"(\w+): ", text.rpartition("def run(")[2].partition("):")[0])]
    eps = float(np.finfo(NUMPY[draw.dtype]).eps)
    size = 1 + float(abs(np.asarray(expected) * 1.0).max(initial=0))
    return Program(text, arguments, expected, SLACK * eps * growth * (1 + made.reach) * size)


def judged(drawn: Program) -> tuple[str, str]:
    """`right`, `refused` or what is wrong with a program, and what was told."""
    try:
        given = tessera.compile(drawn.text)["run"](*drawn.arguments)
        found = np.asarray(given.to_dense() if isinstance(given, tessera.Operator) else given)
    except tessera.TesseraError as error:
        code = re.search(r"E\d{4}", str(error))
        return ("refused" if code and code[0] in REFUSALS else "an error"), str(error)
    except Exception:  # a fault of the compiler
        return "a fault", traceback.format_exc()[-1500:]
    wanted = np.asarray(drawn.expected)
    if found.shape != wanted.shape:
        return "another shape", f"{found.shape} instead of {wanted.shape}"
    if abs(np.subtract(found, wanted, dtype="c16")).max(initial=0) <= drawn.allowed:
        return "right", ""
    return "wrong", f"{found} instead of {wanted}, {drawn.allowed:.1e} allowed"
