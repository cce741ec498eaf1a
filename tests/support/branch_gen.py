"""Random loops with branches on counters, sizes and data: the text of each is Python too, and that is its meaning.

Enters: a number. Leaves: statements over `y`, `x`, `z` and `t` that read and write next to the counter, under
conditions some of which say that this is in bounds. `Checked` is an array that is read and written inside its bounds;
one that is `strict` has no elements before its first, where NumPy counts from the end.
"""

from __future__ import annotations

import random

import numpy as np

from tesserac.base.dataclass import dataclass

RANGES = ("N", "1, N", "N - 1", "K", "N - 1, -1, -1", "0, N, 2")
ATOMS = (
    "{i} > 0", "{i} < N - 1", "{i} >= 2", "{i} + K <= N", "{i} + K < N", "{i} % 2 == 0", "{i} % 3 == 1", "{i} != 0",
    "{i} == N - 1", "N > 2", "K < N", "0 < {i} < N - 1", "1 <= {i} <= N - K", "{i} * 2 < N", "{i} >= K", "K > 0",
    "t[{i}] > 0.5", "x[{i} - 1] > 0.1", "x[{i} + 1] > 0.1", "{i} < K", "K != 0", "not {i} == 0",
)  # fmt: skip
PLACES = (
    "{i}", "{i}", "{i} - 1", "{i} + 1", "{i} + K", "{i} - K", "N - 1 - {i}", "{i} // 2", "2 * {i}", "{i} - 2", "0", "K",
    "N // K", "N - K",
)  # fmt: skip
VALUES = (
    "x[{p}]", "x[{p}]", "x[{p}] * y[{q}]", "z[{p}]", "sum(x[{i}:])", "sum(x[:{i}])", "sum(x[{i}:{i} + K])",
    "sum(x[1:])", "sum(x[{i} - 1:{i} + 1])", "x[{p}] * z[{q}] + 1.0", "(x[{p}] if {c} else 0.5)", "sum(x[2:N - {i}])",
)  # fmt: skip


@dataclass(frozen=True)
class BranchProgram:
    seed: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """As a program, with its gradient, and for many at once."""
        args = "x: Tensor[N, f64], z: Tensor[K, f64], t: Tensor[N, f64]"
        body = "\n".join(f"    {line}" for line in self.lines)
        return f"""
def f({args}) -> Tensor[N, f64]:
    y = x * 0.5
{body}
    return y

def weighed({args}) -> Tensor[f64]:
    return sum(f(x, z, t) * cast(arange(N) + 1, f64))

def slope({args}) -> (Tensor[N, f64], Tensor[K, f64]):
    return grad(weighed, wrt=(0, 1))(x, z, t)

def many(x: Tensor[B, N, f64], z: Tensor[K, f64], t: Tensor[B, N, f64]) -> Tensor[B, N, f64]:
    return vmap(f, in_axes=(0, None, 0))(x, z, t)
"""

    def meaning(self, x: np.ndarray, z: np.ndarray, t: np.ndarray, *, strict: bool) -> np.ndarray:
        """What Python makes of it. Raises IndexError and ZeroDivisionError."""
        body = "\n".join(f"    {line}" for line in self.lines)
        scope: dict[str, object] = {"sum": lambda part: part.sum()}
        exec(f"def f(x, z, t, y, N, K):\n{body}\n    return y", scope)
        run = scope["f"]
        assert callable(run)
        given = [Checked(array, strict) for array in (x, z, t, x * 0.5)]
        found = run(*given, len(x), len(z))
        assert isinstance(found, Checked)
        return found.array


class Checked:
    """Elements from 0 to n - 1, slices in order and inside."""

    def __init__(self, array: np.ndarray, strict: bool) -> None:
        self.array = array.copy()
        self._strict = strict

    def _from_start(self, place: int) -> int:
        return place + len(self.array) if place < 0 and not self._strict else place

    def _checked(self, place: int | slice) -> int | slice:
        size = len(self.array)
        if isinstance(place, slice):
            start = 0 if place.start is None else self._from_start(place.start)
            stop = size if place.stop is None else self._from_start(place.stop)
            if not 0 <= start <= stop <= size:
                raise IndexError(f"{start}:{stop} of {size}")
            return slice(start, stop)
        if not 0 <= self._from_start(place) < size:
            raise IndexError(f"{place} of {size}")
        return self._from_start(place)

    def __getitem__(self, place: int | slice) -> np.ndarray:
        return self.array[self._checked(place)]

    def __setitem__(self, place: int, value: float) -> None:
        self.array[self._checked(place)] = value


def branch_program(seed: int) -> BranchProgram:
    return BranchProgram(seed, tuple(_loop(random.Random(seed), "i", 2)))


def _loop(rng: random.Random, counter: str, depth: int) -> list[str]:
    head = f"for {counter} in range({rng.choice(RANGES)}):"
    return [head, *_indented(_block(rng, counter, depth))]


def _block(rng: random.Random, counter: str, depth: int) -> list[str]:
    lines: list[str] = []
    for _ in range(rng.randint(1, 2)):
        kind = rng.choice(("if", "if", "if", "else", "exit", "update", "loop")) if depth else "update"
        match kind:
            case "if":
                lines += [f"if {_condition(rng, counter, 2)}:", *_indented(_block(rng, counter, depth - 1))]
            case "else":
                lines += [f"if {_condition(rng, counter, 2)}:", *_indented(_block(rng, counter, depth - 1))]
                lines += [f"elif {_condition(rng, counter, 1)}:", *_indented(_block(rng, counter, 0))]
                lines += ["else:", *_indented(_block(rng, counter, depth - 1))]
            case "exit":
                word = rng.choice(("continue", "continue", "break"))
                lines += [f"if {_condition(rng, counter, 1)}:", f"    {word}"]
            case "loop" if counter == "i":
                lines += _loop(rng, "j", depth - 1)
            case _:
                lines.append(_update(rng, counter))
    return lines


def _update(rng: random.Random, counter: str) -> str:
    sign = rng.choice(("=", "=", "+="))
    return f"y[{_place(rng, counter)}] {sign} {_value(rng, counter)}"


def _value(rng: random.Random, counter: str) -> str:
    p, q, c = _place(rng, counter), _place(rng, counter), _condition(rng, counter, 1)
    return rng.choice(VALUES).format(i=counter, p=p, q=q, c=c)


def _place(rng: random.Random, counter: str) -> str:
    return rng.choice(PLACES).format(i=counter)


def _condition(rng: random.Random, counter: str, depth: int) -> str:
    if depth and rng.random() < 0.45:
        left, right = (_condition(rng, counter, depth - 1) for _ in range(2))
        return rng.choice((f"{left} and {right}", f"{left} or {right}", f"not ({left} and {right})"))
    return rng.choice(ATOMS).format(i=counter)


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
