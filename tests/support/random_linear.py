"""Random programs of linear algebra as users write it, whose lines are also lines of Python: NumPy runs the same text.

    draw -> `Program`: text, arguments, what NumPy has of it in twice the precision, what rounding may add to that

Matrices are tensors and operators, named and used twice, carried by loops, held in fields, given to lambdas, mapped and
differentiated. What rounding can do is asked of NumPy: the same lines, each value moved by a rounding wherever it
stands.
"""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy import linalg as la

import tessera
from tesserac.graph.interp import run_function
from tesserac.types.terms import DimError
from tests.support.drawing import Drawing
from tests.support.source_support import compile_to_forms

SIZES = {"N": 4, "K": 2, "B": 3}
WIDE = {"f32": "f8", "f64": "f8", "c64": "c16", "c128": "c16"}
NARROW = {"f32": "f4", "f64": "f8", "c64": "c8", "c128": "c16"}
PARAMETERS = {
    "a": "N, N", "b": "N, N", "u": "N, K", "w": "N, K", "d": "N", "v": "N", "z": "K", "x": "B, N, N", "y": "B, N",
    "k": "K, K", "g": "N * K", "s": "", "p": "N",
}  # fmt: skip
SLACK, FEWEST, STEP = 64, 1e-11, 1e-5
LOOSE = 0.02
"""Where rounding can make an error larger than this share of the result, a program says nothing."""

_FORMS: dict[str, tuple[str, ...]] = {
    "matrix": (
        "a", "b", "a", "b", "a.T", "conj(a).T", "diag(d)", "eye(N, dtype=TYPE)", "outer(d, v)", "(u @ w.T)",
        "({matrix} @ {matrix})", "({matrix} + {matrix})", "({matrix} - {matrix})", "({matrix} @ {matrix} @ {matrix})",
        "(s * {matrix})", "({matrix} / 2.0)", "(-{matrix})", "({matrix}).T", "({matrix} * {vector})",
        "({vector}[:, None] * {matrix})", "({matrix} * {vector}[None, :])", "(diag({vector}) @ {matrix})",
        "({matrix} @ diag({vector}))", "tril({matrix})", "triu({matrix})", "({tall} @ {tall}.T)", "inv({regular})",
        "outer({vector}, {vector})", "({vector}[:, None] @ {vector}[None, :])", "(a[p] @ b)", "eye(N, dtype=TYPE)[p]",
        "matrix_power({matrix}, 2)", "({matrix} * eye(N, dtype=TYPE))", "diag(diagonal({matrix}))", "{matrix}[p]",
        "solve({regular}, {matrix})", "({matrix} @ inv({regular}))", "({matrix} * {matrix})", "ones(N, N, dtype=TYPE)",
        "to_dense(op.diag(d) + {operator})", "x[1]",
        '({einsum}("ij,jk->ik", {matrix}, {matrix}))', "tensordot({matrix}, {matrix}, 1)",
        '({einsum}("ij,kj->ik", {matrix}, {matrix}))', '({einsum}("i,ij,jk->ik", {vector}, {matrix}, {matrix}))',
        "full(N, N, value=2.0, dtype=TYPE)", "zeros(N, N, dtype=TYPE)",
    ),
    "operator": (
        "op.diag({vector})", "op.dense({matrix})", "op.low_rank({tall}, {tall})", "op.eye(N, dtype=TYPE)",
        "compose({operator}, {operator})", "({operator} + {operator})", "adjoint({operator})", "(s * {operator})",
        "op.circulant({vector})", "op.toeplitz(v, v)", "op.permutation(p)",
    ),
    "regular": (
        "a", "b", "a.T", "diag(d)", "(diag(d) + u @ w.T)", "tril(a)", "triu(b)", "(a @ b)", "(2.0 * a)",
        "(eye(N, dtype=TYPE) + outer(d, v))", "(diag(d) @ a)", "(a * d)", "inv(a)", "(a + diag(d))",
        "(diag(d) - u @ u.T)",
    ),
    "tall": ("u", "w", "({matrix} @ {tall})", "({tall} + {tall})", "({tall} @ k)", "(d[:, None] * {tall})",
             "solve({regular}, {tall})", "({operator} @ {tall})", "({matrix} @ {tall} @ k)", "({tall} * z)"),
    "vector": (
        "v", "d", "v", "({matrix} @ {vector})", "({matrix} @ {vector})", "({vector} @ {matrix})",
        "({vector} + {vector})", "({vector} * {vector})", "diagonal({matrix})", "sum({matrix}, axis=0)",
        "sum({matrix}, axis=1)", "mean({matrix}, axis=1)", "({matrix})[1]", "({matrix})[:, 2]", "(s * {vector})",
        "solve({regular}, {vector})", "(inv({regular}) @ {vector})", "({vector} @ inv({regular}))",
        "({tall} @ z)", "({tall} @ ({tall}.T @ {vector}))", "sum({matrix} * {vector}, axis=1)",
        "sum({matrix} * {matrix}.T, axis=1)", '{einsum}("ij,jk,k->i", {matrix}, {matrix}, {vector})',
        '{einsum}("ij,ji->i", {matrix}, {matrix})', "({operator} @ {vector})", "({vector} @ {operator})",
        "({matrix} @ {vector} + {matrix} @ {vector})", "(a @ {vector} - a @ {vector})", "y[0]", "({batched})[1]",
        "sum(kron({matrix}, k), axis=1)[2:2 + N]", "solve(op.diag(d), {vector})",
        "(lambda at: {matrix} @ at)({vector})",
        "((eye(N, dtype=TYPE) - ones(N, N, dtype=TYPE) / 4.0) @ {vector})", "{fourier}",
    ),
    "grid": ("g", "(kron({matrix}, k) @ {grid})", "({grid} @ kron({matrix}, k))", "solve(kron({regular}, k), {grid})",
             "(kron({matrix}, k).T @ {grid})", "(op.kronecker(op.dense({matrix}), op.dense(k)) @ {grid})",
             "diagonal(kron({matrix}, k))", "(inv(kron({regular}, k)) @ {grid})", "(kron(diag(d), k) @ {grid})",
             "(kron({matrix}, k) @ kron({matrix}, k) @ {grid})", "kron({vector}, z)"),
    "batch": ("x", "(x @ {matrix})", "({matrix} @ x)", "({batch} @ {batch})", "({batch} + x)", "transpose({batch})",
              "(x * d)", "(s * {batch})", '{einsum}("bij,jk->bik", {batch}, {matrix})'),
    "batched": ("y", "(y @ {matrix})", "sum({batch}, axis=1)", '{einsum}("bij,bj->bi", {batch}, {batched})',
                '{einsum}("bij,bjk,bk->bi", {batch}, {batch}, {batched})', "(y @ {matrix} @ {matrix})",
                "(y * d @ {matrix})"),
    "number": (
        "trace({matrix})", "trace({matrix} @ {matrix})", "({vector} @ {vector})", "({vector} @ {matrix} @ {vector})",
        "sum({matrix})", "mean({matrix})", "sum({vector})", "det({regular})", "sum({matrix} * {matrix}.T)",
        "sum({matrix} * {matrix})", "sum(outer({vector}, {vector}) * {matrix})", "({matrix})[1, 2]", "det(kron(a, k))",
        "trace({matrix} @ {matrix} @ {matrix})", "trace(inv({regular}) @ {matrix})", "trace({matrix} + {matrix})",
        '{einsum}("ij,ji->", {matrix}, {matrix})', '{einsum}("ij,jk,ki->", {matrix}, {matrix}, {matrix})',
        '{einsum}("i,ij,j->", {vector}, {matrix}, {vector})', "trace(op.diag(v) + {operator})", "det(op.diag(d))",
        "trace(kron({matrix}, k))", "slogdet({regular})[1]", "sum(kron({matrix}, k))", "sum({matrix} @ {vector})",
        "trace({matrix} - {matrix})", "({vector} @ {matrix}.T @ {matrix} @ {vector})", "slogdet({regular} @ b)[1]",
        "trace(s * ({matrix} @ {matrix}))", "sum({grid})", "sum({batched} @ {vector})", "logdet(op.diag(d * d))",
    ),
}  # fmt: skip
_SHAPES = {"matrix": "N, N", "tall": "N, K", "vector": "N", "grid": "N * K", "batch": "B, N, N", "batched": "B, N"}


@dataclass(frozen=True)
class Program:
    text: str
    arguments: list[Any]
    expected: Any
    allowed: float


class _Draw(Drawing):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.named: dict[str, list[str]] = {}

    def expression(self, kind: str, depth: int) -> str:
        if kind == "einsum":
            return "einsum"
        if kind == "fourier":
            return "ifft(fft(v) * fft(d))" if self.dtype.startswith("c") else "real(ifft(fft(v) * fft(d)))"
        names = self.named.get(kind, [])
        if names and self.random.random() < 0.4:
            return self.random.choice(names)
        forms = [form for form in _FORMS[kind] if depth > 0 or "{" not in form] or ["op.diag(d)"]
        form = self.random.choice(forms)
        return re.sub(r"\{(\w+)\}", lambda part: self.expression(part[1], depth - 1), form)

    def lines(self) -> tuple[list[str], str]:
        """Named parts, and the kind of what is returned."""
        found = []
        for place in range(self.random.choice([0, 1, 2, 3])):
            kind = self.random.choice(["matrix", "matrix", "vector", "tall", "number"])
            found.append(f"n{place} = {self.expression(kind, self.random.choice([1, 2]))}")
            if kind != "number":
                self.named.setdefault(kind, []).append(f"n{place}")
        kinds = ("matrix", "vector", "vector", "number", "number", "grid", "batch", "batched", "tall")
        return found, self.random.choice(kinds)


def program(seed: int) -> Program:
    """The program of a seed; one that says something, of several that are drawn."""
    draw = _Draw(seed)
    while True:
        draw.named = {}
        found = _drawn(draw, seed)
        if found is not None:
            return found


def _drawn(draw: _Draw, seed: int) -> Program | None:
    lines, kind = draw.lines()
    wanted = draw.expression(kind, draw.random.choice([1, 2, 2, 3]))
    place = draw.random.choice(["alone", "alone", "mapped", "slope", "forward", "loop", "field", "lambda"])
    if place in ("slope", "forward") and draw.dtype != "f64":
        place = "alone"
    if place == "loop" and kind not in ("vector", "matrix", "tall"):
        place = "alone"
    body = _placed(draw, place, kind, lines, wanted)
    used = set(re.findall(r"(?<![\w.])\w\b", re.sub(r'"[^"]*"', "", body)))
    used |= {"v", "a", "s", "d"} if place == "mapped" else {"v", "a"}
    given = _values(seed, draw.dtype)
    names = [name for name in PARAMETERS if name in used]
    try:
        with np.errstate(all="ignore"):
            expected, moved = _in_numpy(body, given, draw.dtype, place, seed)
    except la.LinAlgError:
        return None
    if not np.isfinite(expected).all() or not np.isfinite(moved):
        return None
    size = float(abs(expected).max(initial=0))
    eps = float(np.finfo(NARROW[draw.dtype]).eps)
    allowed = SLACK * (moved + eps * size) + FEWEST
    if allowed > LOOSE * max(size, LOOSE) or size > 1e6:
        return None
    types = {name: "Tensor[N, i64]" if name == "p" else _type(name, draw.dtype) for name in names}
    params = ", ".join(f"{name}: {types[name]}" for name in names)
    text = f"{_BOX if 'Box(' in body else ''}def run({params}):\n{_transformed(place, body)}"
    if draw.known:
        text = re.sub(r"\b[NKB]\b", lambda name: str(SIZES[name[0]]), text)
    text = re.sub(r"\bTYPE\b", draw.dtype, text)
    return Program(text, [given[name] for name in names], expected, allowed)


_BOX = "struct Box[I, J]:\n    m: Tensor[I, J, TYPE]\n    c: TYPE\n\n"


def _type(name: str, dtype: str) -> str:
    return f"Tensor[{PARAMETERS[name]}, {dtype}]" if PARAMETERS[name] else dtype


def _placed(draw: _Draw, place: str, kind: str, lines: list[str], wanted: str) -> str:
    """Lines that Python runs as well; of what is transformed, the function `inner` of v, or of a."""
    if place == "field":
        lines, wanted = [*lines, "box = Box(m=a, c=s)"], re.sub(r"(?<![\w\"])a\b(?!\")", "box.m", wanted)
    if place == "lambda":
        wanted = f"(lambda a, v: {wanted})(b, d)"
    if place == "loop":
        form = {"vector": "v", "matrix": "a", "tall": "u"}[kind]
        lines = [*lines, f"at = {form}", "for step in range(3):", f"    at = at / 8.0 + {form} - ({wanted}) / 8.0"]
        wanted = "at"
        if draw.random.random() < 0.7:
            lines[-1] = re.sub(rf"(?<![\w.\"]){form}\b(?!\")", "at", lines[-1])
    if place in ("slope", "forward"):
        if kind != "number":
            wanted = f"sum(sin({wanted}))"
        by = draw.random.choice("va")
        return "\n".join([f"# {by}", *lines, f"return {wanted}"])
    return "\n".join([*lines, f"return {wanted}"])


def _transformed(place: str, body: str) -> str:
    lines = body.split("\n")
    if place not in ("mapped", "slope", "forward"):
        return "".join(f"    {line}\n" for line in lines)
    by = lines[0].removeprefix("# ") if place != "mapped" else "v"
    inner = f"    def inner({by}):\n" + "".join(f"        {line}\n" for line in lines if not line.startswith("#"))
    asked = {
        "mapped": "vmap(inner)(stack([v, s * v, d]))",
        "slope": f"grad(inner)({by})",
        "forward": f"jvp(inner, ({by},), ({by} / 2.0,))[1]",
    }
    return f"{inner}    return {asked[place]}\n"


# --------------------------------------------------------------------------------------------------------- in NumPy


def _in_numpy(body: str, given: dict[str, Any], dtype: str, place: str, seed: int) -> tuple[Any, float]:
    """What it is, and how far roundings of the values move that."""
    wide = {name: value if name == "p" else value.astype(WIDE[dtype]) for name, value in given.items()}
    rng, eps = np.random.default_rng(seed), float(np.finfo(NARROW[dtype]).eps)

    def run(values: dict[str, Any], share: float) -> Any:
        def near(value: Any) -> Any:
            return value * (1 + share * rng.uniform(-1, 1, np.shape(value)))

        moved = "".join(_each(part) for part in re.split(r'("[^"]*"|lambda [\w, ]+:)', body)) if share else body
        text = "def run():\n" + "".join(f"    {line}\n" for line in moved.split("\n"))
        space = _numpy_names(dtype) | values | {"_": near}
        exec(text, space)
        return np.asarray(space["run"]())

    def asked(share: float) -> Any:
        if place == "mapped":
            return np.stack([run(wide | {"v": v}, share) for v in (wide["v"], wide["s"] * wide["v"], wide["d"])])
        return run(wide, share)

    def slope(step: float) -> Any:
        by, found = body[2], []
        for at in [wide[by] / 2.0] if place == "forward" else _ones(wide[by]):
            ends = [run(wide | {by: wide[by] + sign * step * at}, 0.0) for sign in (1, -1)]
            found.append((ends[0] - ends[1]) / (2 * step))
        return np.asarray(found[0] if place == "forward" else np.reshape(found, wide[by].shape))

    if place in ("slope", "forward"):
        steps = [slope(STEP), slope(4 * STEP), slope(STEP / 4)]
        return steps[0], max(float(abs(other - steps[0]).max(initial=0)) for other in steps[1:])
    expected = asked(0.0)
    moved = [float(abs(asked(4 * eps) - expected).max(initial=0)) for _ in range(3)]
    return expected, max(moved)


def _each(part: str) -> str:
    """A part of a program with every value that stands in it marked."""
    if part.startswith(('"', "lambda")):
        return part
    names = "|".join(name for name in PARAMETERS if name != "p")
    return re.sub(rf"(?<![\w.])({names})\b(?!=)", r"_(\1)", part)


def _ones(like: Any) -> list[Any]:
    return [one.reshape(like.shape) for one in np.eye(like.size)]


def _numpy_names(dtype: str) -> dict[str, Any]:
    wide = WIDE[dtype]
    found: dict[str, Any] = {name: getattr(np, name) for name in _SAME}
    found |= {name: getattr(la, name) for name in ("inv", "det", "solve", "matrix_power", "slogdet")}
    found |= {"eye": lambda size, dtype=None: np.eye(size), "transpose": lambda m: np.swapaxes(m, -1, -2)}
    found |= {"ones": lambda *dims, dtype=None: np.ones(dims), "zeros": lambda *dims, dtype=None: np.zeros(dims)}
    found |= {"full": lambda *dims, value, dtype=None: np.full(dims, value), "fft": np.fft.fft, "ifft": np.fft.ifft}
    found |= {"to_dense": np.asarray, "compose": np.matmul, "adjoint": lambda m: np.conj(m).T, "op": _OPERATORS}
    found |= {"logdet": lambda m: la.slogdet(m)[1], "TYPE": wide, "Box": SimpleNamespace, **SIZES}
    return found


_SAME = (
    "diag", "outer", "tril", "triu", "sum", "mean", "diagonal", "trace", "kron", "einsum", "conj", "real", "sin",
    "tensordot",
)  # fmt: skip


def _circulant(c: Any) -> Any:
    return np.stack([np.roll(c, place) for place in range(len(c))], axis=1)


def _toeplitz(c: Any, r: Any) -> Any:
    size = len(c)
    return np.array([[c[i - j] if i >= j else r[j - i] for j in range(size)] for i in range(size)])


_OPERATORS = SimpleNamespace(
    diag=np.diag, dense=np.asarray, low_rank=lambda left, right: left @ np.conj(right).T, kronecker=np.kron,
    eye=lambda size, dtype=None: np.eye(size), circulant=_circulant, toeplitz=_toeplitz,
    permutation=lambda p: np.eye(len(p))[p],
)  # fmt: skip


def _values(seed: int, dtype: str) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for name, dims in PARAMETERS.items():
        shape = tuple(eval(dim, dict(SIZES)) for dim in dims.split(", ") if dim)
        value = rng.random(shape) + 0.5
        if dtype.startswith("c"):
            value = value + 1j * (rng.random(shape) - 0.5)
        if name in "abk":
            value = value + 2.0 * np.eye(shape[0])
        found[name] = np.asarray(value, NARROW[dtype])
    return found | {"p": rng.permutation(SIZES["N"])}


def judged(drawn: Program, *, compiled: bool = True) -> tuple[str, str]:
    """`right`, or what is wrong with a program, and what was told; interpreted, which takes less time, if it is not
    compiled."""
    try:
        found = np.asarray(tessera.compile(drawn.text)["run"](*drawn.arguments) if compiled else _interpreted(drawn))
    except tessera.TesseraError as error:
        return f"refused {str(error)[6:11]}", str(error)
    except DimError:  # the interpreter has no transforms of unknown sizes
        return judged(drawn)
    except Exception:  # a fault of the compiler
        return "a fault", traceback.format_exc()[-1500:]
    wanted = np.asarray(drawn.expected)
    if found.shape != wanted.shape:
        return "another shape", f"{found.shape} instead of {wanted.shape}"
    if abs(np.subtract(found, wanted, dtype="c16")).max(initial=0) <= drawn.allowed:
        return "right", ""
    return "wrong", f"{found} instead of {wanted}, {drawn.allowed:.1e} allowed"


def _interpreted(drawn: Program) -> Any:
    return run_function(compile_to_forms(drawn.text), "m.run", [np.asarray(each) for each in drawn.arguments])[0]
