"""`python -m benchmarks.npbench_written`: programs of NPBench as several authors would write them, with loops for
slices and slices for loops; writes `benchmarks/results/npbench-written-MACHINE.md`.

The variants of a program are `npbench/written_*.tess`, NAME_a, NAME_b, ...; what they must give is the NumPy text here.
How much slower than the fastest the slowest is says whether a way to write falls off a cliff. No clone of the suite is
needed.
"""

from __future__ import annotations

import argparse
import copy
import datetime
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tessera

HERE = Path(__file__).parent
FILES = ("written_products", "written_factors", "written_grids")
SECONDS, CALLS = 0.3, 3
CLIFF = 3.0
Arrays = Sequence[Any]


def _draw() -> Callable[..., np.ndarray]:
    return np.random.default_rng(0).random


r = _draw()


def _positive(size: int) -> np.ndarray:
    a = r((size, size))
    return np.asarray(a @ a.T + size * np.eye(size))


def _centred(data: np.ndarray) -> np.ndarray:
    return np.asarray(data - data.mean(axis=0))


def _corr(n: float, data: np.ndarray) -> np.ndarray:
    c = _centred(data) / (np.sqrt(n) * data.std(axis=0))
    return np.asarray(c.T @ c)


def _lu(a: np.ndarray) -> np.ndarray:
    a = a.copy()
    for k in range(len(a)):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a


def _gram(a: np.ndarray) -> Arrays:
    q, upper = np.linalg.qr(a)
    sign = np.sign(np.diag(upper))
    return q * sign, (upper.T * sign).T


def _gemver(al: float, be: float, a: Any, u1: Any, v1: Any, u2: Any, v2: Any, w: Any, x: Any, y: Any, z: Any) -> Arrays:
    a = a + np.outer(u1, v1) + np.outer(u2, v2)
    x = x + be * y @ a + z
    return a, w + al * a @ x, x


def _jacobi(steps: int, a: np.ndarray, b: np.ndarray) -> Arrays:
    a, b = a.copy(), b.copy()
    for _ in range(1, steps):
        for x, y in ((b, a), (a, b)):
            x[1:-1, 1:-1] = 0.2 * (y[1:-1, 1:-1] + y[1:-1, :-2] + y[1:-1, 2:] + y[2:, 1:-1] + y[:-2, 1:-1])
    return a, b


def _floyd(path: np.ndarray) -> np.ndarray:
    path = path.copy()
    for k in range(len(path)):
        path = np.minimum(path, path[:, k][:, None] + path[k][None])
    return path


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def _azimint(data: np.ndarray, radius: np.ndarray, empty: np.ndarray) -> np.ndarray:
    n, most = len(empty), radius.max()
    return np.array([data[(most * i / n <= radius) & (radius < most * (i + 1) / n)].mean() for i in range(n)])


def _nbody(pos: np.ndarray, mass: np.ndarray, soft: float) -> np.ndarray:
    d = pos[None] - pos[:, None]
    inv = ((d**2).sum(-1) + soft * soft) ** -1.5
    return np.asarray((d * inv[..., None] * mass[None, :, None]).sum(1))


def _hdiff(field: np.ndarray, coeff: np.ndarray) -> np.ndarray:
    i, j = coeff.shape[:2]
    lap = 4 * field[1 : i + 3, 1 : j + 3] - field[2 : i + 4, 1 : j + 3] - field[0 : i + 2, 1 : j + 3]
    lap = lap - field[1 : i + 3, 2 : j + 4] - field[1 : i + 3, 0 : j + 2]
    x = lap[1:, 1 : j + 1] - lap[:-1, 1 : j + 1]
    x = np.where(x * (field[2 : i + 3, 2 : j + 2] - field[1 : i + 2, 2 : j + 2]) > 0, 0, x)
    y = lap[1 : i + 1, 1:] - lap[1 : i + 1, :-1]
    y = np.where(y * (field[2 : i + 2, 2 : j + 3] - field[2 : i + 2, 1 : j + 2]) > 0, 0, y)
    return np.asarray(field[2 : i + 2, 2 : j + 2] - coeff * (x[1:] - x[:-1] + y[:, 1:] - y[:, :-1]))


def _lower(full: np.ndarray, rest: np.ndarray) -> np.ndarray:
    return np.asarray(np.tril(full) + np.triu(rest, 1))


CASES: dict[str, tuple[Callable[[], Arrays], Callable[..., Any] | None]] = {
    "trmm": (lambda: (1.5, r((65, 65)), r((65, 80))), lambda al, a, b: al * (b + np.tril(a, -1).T @ b)),
    "corr": (lambda: (600.0, r((600, 500))), _corr),
    "cov": (lambda: (600.0, r((600, 500))), lambda n, d: _centred(d).T @ _centred(d) / (n - 1)),
    "trisolv": (lambda: (np.tril(r((2000, 2000))) / 1000 + np.eye(2000), np.zeros(2000), r(2000)),
                lambda a, x, b: np.linalg.solve(a, b)),
    "atax": (lambda: (r((1800, 2200)), r(2200)), lambda a, x: (a @ x) @ a),
    "bicg": (lambda: (r((1800, 2200)), r(2200), r(1800)), lambda a, p, q: (q @ a, a @ p)),
    "mvt": (lambda: (*(r(2000) for _ in range(4)), r((2000, 2000))), lambda a, b, c, d, m: (a + m @ c, b + d @ m)),
    "gemver": (lambda: (1.5, 1.2, r((1000, 1000)), *(r(1000) for _ in range(8))), _gemver),
    "gemm": (lambda: (1.5, 1.2, r((200, 220)), r((200, 240)), r((240, 220))),
             lambda al, be, c, a, b: al * a @ b + be * c),
    "doitgen": (lambda: (r((30, 32, 64)), r((64, 64))), lambda a, c: a @ c),
    "k2mm": (lambda: (1.5, 1.2, r((160, 180)), r((180, 170)), r((170, 150)), r((160, 150))),
             lambda al, be, a, b, c, d: al * a @ b @ c + be * d),
    "gesummv": (lambda: (1.5, 1.2, r((700, 700)), r((700, 700)), r(700)),
                lambda al, be, a, b, x: al * a @ x + be * b @ x),
    "lu": (lambda: (_positive(120),), _lu),
    "chol": (lambda: (_positive(150),), lambda a: _lower(np.linalg.cholesky(a), a)),
    "syrk": (lambda: (1.5, 1.2, r((100, 100)), r((100, 120))), lambda al, be, c, a: _lower(al * a @ a.T + be * c, c)),
    "syr2k": (lambda: (1.5, 1.2, r((70, 70)), r((70, 80)), r((70, 80))),
              lambda al, be, c, a, b: _lower(al * (a @ b.T + b @ a.T) + be * c, c)),
    "symm": (lambda: (1.5, 1.2, r((80, 100)), r((80, 80)), r((80, 100))),
             lambda al, be, c, a, b: al * (np.tril(a) + np.tril(a, -1).T) @ b + be * c),
    "gram": (lambda: (r((70, 60)),), _gram),
    "softm": (lambda: (r((4, 8, 64, 128)).astype(np.float32),), _softmax),
    "azim": (lambda: (r(40000), r(40000), np.zeros(100)), _azimint),
    "nbody": (lambda: (r((100, 3)), r(100), 0.1), _nbody),
    "gofast": (lambda: (r((1000, 1000)),), lambda a: a + np.tanh(np.diag(a)).sum()),
    "arc": (lambda: tuple(r(100000) for _ in range(4)), None),
    "mandel": (lambda: (np.linspace(-1.75, 0.25, 125), np.linspace(-1, 1, 125), 60), None),
    "hdiff": (lambda: (r((68, 68, 60)), r((64, 64, 60))), _hdiff),
    "seidel": (lambda: (8, r((50, 50))), None),
    "crc": (lambda: ((256 * r(1600)).astype(np.uint8),), None),
    "jac1": (lambda: (200, r(3200), r(3200)), None),
    "jac2": (lambda: (50, r((150, 150)), r((150, 150))), _jacobi),
    "fdtd": (lambda: (20, *(r((200, 220)) for _ in range(3)), r(20)), None),
    "floyd": (lambda: ((100 * r((150, 150)) * (1 - np.eye(150))).astype(np.int32),), _floyd),
    "deriche": (lambda: (0.25, r((400, 200))), None),
}  # fmt: skip
"""Arguments, and what NumPy makes of them; where it says nothing, the variants are compared with the first one."""


def _least(call: Callable[..., Any], args: Arrays) -> float:
    """Seconds of a call with arguments made anew; the first, which may compile, does not count."""
    call(*copy.deepcopy(args))
    times, end = list[float](), time.perf_counter() + SECONDS
    while len(times) < CALLS or time.perf_counter() < end:
        given = copy.deepcopy(args)
        start = time.perf_counter()
        call(*given)
        times.append(time.perf_counter() - start)
    return min(times)


def _several(result: Any) -> Arrays:
    return result if isinstance(result, tuple) else (result,)


def _same(found: Any, wanted: Any) -> bool:
    pairs = zip(_several(found), _several(wanted), strict=True)
    return all(np.allclose(one, other, rtol=1e-4 if one.dtype.itemsize < 8 else 1e-8) for one, other in pairs)


def row(name: str, modules: Sequence[Any]) -> str:
    make, reference = CASES[name]
    args = make()
    forms = [getattr(m, f) for m in modules for f in sorted(dir(m)) if f.rpartition("_")[0] == name]
    wanted = (reference or forms[0])(*copy.deepcopy(args))
    assert all(_same(form(*copy.deepcopy(args)), wanted) for form in forms), f"{name} has other numbers"
    times = [_least(form, args) for form in forms]
    numpy = f"{_least(reference, args) / min(times):.2f}" if reference else "-"
    worst = max(times) / min(times)
    mark = f"**{worst:.1f}**" if worst > CLIFF else f"{worst:.1f}"
    return f"| {name} | {len(forms)} | {min(times) * 1e3:.3g} ms | {mark} | {numpy} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, default=HERE / "results" / f"npbench-written-{platform.machine()}.md")
    chosen = parser.parse_args()
    modules = [tessera.load(HERE / "npbench" / f"{file}.tess") for file in FILES]
    rows = list[str]()
    for name in chosen.names or CASES:
        rows.append(row(name, modules))
        print(rows[-1], flush=True)
    head = f"# NPBench as several authors write it\n\n`python -m benchmarks.npbench_written`, {datetime.date.today()}, "
    head += f"{platform.machine()}.\n\n| program | variants | fastest | slowest over fastest | NumPy over fastest |\n"
    if not chosen.names:
        chosen.out.write_text("\n".join([head + "|---|---|---|---|---|", *rows]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
