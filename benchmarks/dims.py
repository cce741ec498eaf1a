"""How long the checker takes over sizes, and depths, that no one should write.

`python -m benchmarks.dims` checks each program and prints its time and what the checker said: nothing, or that it is
too complex. The tests use the same programs, smaller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from tesserac.base.source import SourceFile
from tesserac.driver.session import Session


def _parameters(count: int) -> str:
    return ", ".join(f"x{i}: Tensor[D{i}, f32]" for i in range(count))


def _facts(count: int, fact: Callable[[int], str], body: str) -> str:
    return f"def f({_parameters(count)}) where {', '.join(map(fact, range(count - 1)))}:\n    return {body}\n"


def _equal(by: int) -> str:
    count = 1000 // by
    return _facts(count, lambda i: f"D{i} == D{i + 1}", f"x0 + x{count - 1}")


def _sums(by: int) -> str:
    count = 1000 // by
    fact = "D{} + D{} == D{} + D{}".format
    text = _facts(count, lambda i: fact(i, i + 1, (i * 7 + 3) % count, (i * 11 + 5) % count), "x0")
    return text.replace("return x0", "return sum(x0)")


def _ordered(by: int) -> str:
    count = 1000 // by
    return _facts(count, lambda i: f"D{i} <= D{i + 1}", f"x{count - 1}[:D0]")


def _dividing(by: int) -> str:
    count = 1000 // by
    return _facts(count, lambda i: f"D{i + 1} % D{i} == 0", f"reshape(x{count - 1}, (D0, -1))")


def _product(by: int) -> str:
    count = 200 // by
    product = "*".join(f"(D{i} + 1)" for i in range(count))
    return f"def f({_parameters(count)}, y: Tensor[{product}, f32]):\n    return y\n"


def _calls(by: int) -> str:
    count = 100 // by
    steps = [f"def h{i}_(x):\n    return h{i + 1}_(x[1:])\n\n" for i in range(count)]
    return "".join(steps) + f"def h{count}_(x):\n    return x\n\ndef g(x: Tensor[N, f32]):\n    return h0_(x)\n"


def _deep(by: int) -> str:
    count = 500 // by
    return f"def f(x: Tensor[N, f32]):\n    return {'(' * count}x{' + x)' * count}\n"


def _floors(by: int) -> str:
    steps = "".join(f"    k = (k + {i}) // {2 + i % 3}\n" for i in range(500 // by))
    return f"def f(x: Tensor[N, f32]):\n    k = N\n{steps}    return zeros(k)\n"


def _extremes(by: int) -> str:
    count = 200 // by
    steps = "".join(f"    k = min(k + 1, D{i})\n" for i in range(count))
    return f"def f({_parameters(count)}):\n    k = D0\n{steps}    return x0[:k]\n"


def _squares(by: int) -> str:
    steps = "    k = k * (k + 1)\n" * (40 // by)
    return f"def f(x: Tensor[N, f32]):\n    k = N\n{steps}    return zeros(k)\n"


def _guards(by: int) -> str:
    count = 200 // by
    steps = "".join(f"    s += sum(x[D{i}:])\n" for i in range(count))
    return f"def f(x: Tensor[N, f32], {_parameters(count)}):\n    s = sum(x)\n{steps}    return s\n"


def _loops(by: int) -> str:
    count = 90 // by
    loops = "".join(" " * (i + 1) + "for i in range(N):\n" for i in range(count))
    return f"def f(x: Tensor[N, f32]):\n{loops}{' ' * (count + 1)}x = x * 2.0\n return x\n"


def _branches(by: int) -> str:
    links = "".join(f"    elif k == {i}:\n        x = x + {i}.0\n" for i in range(1, 450 // by))
    return f"def f(x: Tensor[N, f32], k: int):\n    if k == 0:\n        x = x + 0.5\n{links}    return x\n"


PATHOLOGICAL: dict[str, Callable[[int], str]] = {
    "equal dims": _equal,
    "sums": _sums,
    "ordered dims": _ordered,
    "division chain": _dividing,
    "product of sums": _product,
    "nested calls": _calls,
    "deep expression": _deep,
    "floors in floors": _floors,
    "minima in minima": _extremes,
    "squares": _squares,
    "many guards": _guards,
    "loops in loops": _loops,
    "a chain of elif": _branches,
}
"""Programs by name; the argument makes them smaller by that factor."""


def measure() -> Iterator[tuple[str, float, str]]:
    """Name, seconds of the processor, and the codes of what was said."""
    session = Session()
    session.check(SourceFile("first.tess", "x = 1\n"))
    for name, program in PATHOLOGICAL.items():
        source = SourceFile(f"{name}.tess", program(1))
        start = time.process_time()
        found = session.check(source).diagnostics
        yield name, time.process_time() - start, ", ".join(sorted({d.code for d in found})) or "checked"


if __name__ == "__main__":
    for name, seconds, said in measure():
        print(f"{name:20} {seconds:6.2f} s  {said}")
