"""Ordinary programs with scalars and loops, as people write them in Python: run by the compiler and the interpreter,
against Python itself.

Each program is valid Python but for its types, so that its text is its own reference where no other is given.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tessera
from tesserac.graph.interp import run_function
from tests.support.cpu_kernels import same_bits
from tests.support.sampling import spread
from tests.support.scalar_gen import ScalarPrograms
from tests.support.source_support import compile_to_forms

CRC16 = """
def f(data: Tensor[N, i64]) -> int:
    crc = 65535
    for i in range(N):
        crc = crc ^ (data[i] << 8)
        for _ in range(8):
            if (crc & 32768) != 0:
                crc = ((crc << 1) ^ 4129) & 65535
            else:
                crc = (crc << 1) & 65535
    return crc
"""

COLLATZ = """
def f(n: i64) -> int:
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps
"""

BISECTION = """
def g(x: f64) -> f64:
    return x * x * x - x - 2.0

def f(lo: f64, hi: f64, tol: f64) -> f64:
    for i in range(200):
        mid = 0.5 * (lo + hi)
        if g(mid) == 0.0 or hi - lo < tol:
            return mid
        if (g(mid) > 0.0) == (g(hi) > 0.0):
            hi = mid
        else:
            lo = mid
    return 0.5 * (lo + hi)
"""

NEWTON = """
def f(a: f64) -> (f64, int):
    x = a
    for i in range(100):
        step = (x * x - a) / (2.0 * x)
        x = x - step
        if abs(step) < 1e-12:
            return x, i
    return x, -1
"""

HISTOGRAM = """
def f(x: Tensor[N, f64], lo: f64, hi: f64) -> Tensor[10, i64]:
    counts = zeros(10, dtype=i64)
    width = (hi - lo) / 10.0
    for i in range(N):
        k = 0
        edge = lo + width
        while k < 9 and x[i] >= edge:
            k += 1
            edge += width
        counts[k] += 1
    return counts
"""

NUSSINOV = """
def pairs(a: i64, b: i64) -> int:
    return 1 if a + b == 3 else 0

def f(seq: Tensor[N, i64]) -> i64:
    table = zeros(N, N, dtype=i64)
    for i in range(N - 1, -1, -1):
        for j in range(i + 1, N):
            best = table[i, j - 1]
            best = max(best, table[i + 1, j])
            if j - 1 > i:
                best = max(best, table[i + 1, j - 1] + pairs(seq[i], seq[j]))
            for k in range(i + 1, j):
                best = max(best, table[i, k] + table[k + 1, j])
            table[i, j] = best
    return table[0, N - 1]
"""

SIEVE = """
def f(n: int) -> (int, int):
    prime = ones(n + 1, dtype=bool)
    count, last = 0, 0
    for i in range(2, n + 1):
        if prime[i]:
            count += 1
            last = i
            j = i * i
            while j <= n:
                prime[j] = False
                j += i
    return count, last
"""

RUNNING = """
def f(x: Tensor[N, f64]) -> (int, f64, f64, f64, f64):
    n = 0
    mean = 0.0
    m2 = 0.0
    low, high = INF, -INF
    for i in range(N):
        n += 1
        delta = x[i] - mean
        mean += delta / n
        m2 += delta * (x[i] - mean)
        low = min(low, x[i])
        high = max(high, x[i])
    return n, mean, m2 / max(n - 1, 1), low, high
"""

ANNEALING = """
def cost(x: f64) -> f64:
    return x * x + 10.0 * sin(3.0 * x)

def f(x: f64, seed: i64, steps: int) -> (f64, f64, int):
    best, best_cost = x, cost(x)
    current = best_cost
    temperature = 10.0
    accepted = 0
    state = seed
    for k in range(steps):
        state = (state * 1103515245 + 12345) % 2147483648
        u = cast(state, f64) / 2147483648.0
        state = (state * 1103515245 + 12345) % 2147483648
        v = cast(state, f64) / 2147483648.0
        candidate = x + (u - 0.5)
        new = cost(candidate)
        if new < current or v < exp((current - new) / temperature):
            x, current = candidate, new
            accepted += 1
        if current < best_cost:
            best, best_cost = x, current
        temperature *= 0.99
    return best, best_cost, accepted
"""

LEVENSHTEIN = """
def f(a: Tensor[N, i64], b: Tensor[M, i64]) -> i64:
    previous = arange(M + 1)
    for i in range(N):
        current = zeros(M + 1, dtype=i64)
        current[0] = i + 1
        for j in range(M):
            cost = 0 if a[i] == b[j] else 1
            current[j + 1] = min(previous[j + 1] + 1, current[j] + 1, previous[j] + cost)
        previous = current
    return previous[M]
"""

LIFE = """
def f(grid: Tensor[H, W, i64], generations: int) -> Tensor[H, W, i64]:
    for g in range(generations):
        after = zeros(H, W, dtype=i64)
        for i in range(H):
            for j in range(W):
                n = 0
                for di in (-1, 0, 1):
                    for dj in (-1, 0, 1):
                        if di != 0 or dj != 0:
                            n += grid[(i + di) % H, (j + dj) % W]
                if n == 3 or (n == 2 and grid[i, j] == 1):
                    after[i, j] = 1
        grid = after
    return grid
"""

MANDELBROT = """
def f(h: int, w: int, most: int) -> Tensor[h, w, i64]:
    image = zeros(h, w, dtype=i64)
    for i in range(h):
        for j in range(w):
            cr = -2.0 + 3.0 * float(j) / float(w)
            ci = -1.5 + 3.0 * float(i) / float(h)
            zr, zi = 0.0, 0.0
            for k in range(most):
                zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
                if zr * zr + zi * zi > 4.0:
                    break
                image[i, j] = k
    return image
"""

BINARY_SEARCH = """
def f(x: Tensor[N, f64], v: f64) -> int:
    lo, hi = 0, N - 1
    while lo <= hi:
        mid = (lo + hi) // 2
        if x[mid] == v:
            return mid
        if x[mid] < v:
            lo = mid + 1
        else:
            hi = mid - 1
    return -1
"""

GCD = """
def f(a: i64, b: i64) -> i64:
    while b != 0:
        a, b = b, a % b
    return a
"""

MOVING = """
def f(x: Tensor[N, f64], w: int) -> Tensor[N, f64]:
    y = zeros(N, dtype=f64)
    for i in range(N):
        total, n = 0.0, 0
        for j in range(max(0, i - w), min(N, i + w + 1)):
            total += x[j]
            n += 1
        y[i] = total / n
    return y
"""

FLOYD = """
def f(d: Tensor[N, N, f64]) -> Tensor[N, N, f64]:
    for k in range(N):
        for i in range(N):
            for j in range(N):
                if d[i, k] + d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] + d[k, j]
    return d
"""

FIBONACCI = """
def f(n: i64) -> i64:
    a, b = 0, 1
    for i in range(n):
        a, b = b, a + b
    return a
"""

COUNTDOWN = """
def f(start: i64, stop: i64, step: i64) -> (int, i64):
    n, total = 0, 0
    for i in range(start, stop, step):
        n += 1
        total += i * n
    return n, total
"""

HORNER = """
def f(c: Tensor[N, f64], x: f64) -> f64:
    y = 0.0
    for i in range(N - 1, -1, -1):
        y = y * x + c[i]
    return y
"""

PRIMES = """
def is_prime(n: i64) -> bool:
    if n < 2:
        return False
    d = 2
    while d * d <= n:
        if n % d == 0:
            return False
        d += 1
    return True

def f(n: i64) -> int:
    count = 0
    for i in range(n):
        if is_prime(i):
            count += 1
    return count
"""

BUBBLE = """
def f(x: Tensor[N, f64]) -> (Tensor[N, f64], int):
    swaps = 0
    changed = True
    while changed:
        changed = False
        for i in range(N - 1):
            if x[i] > x[i + 1]:
                x[i], x[i + 1] = x[i + 1], x[i]
                swaps += 1
                changed = True
    return x, swaps
"""

LONGEST = """
def f(x: Tensor[N, i64]) -> (int, int):
    best, start, length, begin = 0, 0, 0, 0
    for i in range(N):
        if x[i] > 0:
            if length == 0:
                begin = i
            length += 1
            if length > best:
                best, start = length, begin
        else:
            length = 0
    return best, start
"""

PAIR = """
def f(x: Tensor[N, i64], target: i64) -> (int, int):
    for i in range(N):
        for j in range(i + 1, N):
            if x[i] + x[j] == target:
                return i, j
    return -1, -1
"""

RNG = np.random.default_rng(3)
FLOATS = RNG.standard_normal(17)
INTS = RNG.integers(0, 4, 13)
DISTANCES = np.where(RNG.random((6, 6)) < 0.5, RNG.random((6, 6)), 9.0)

PROGRAMS: dict[str, tuple[str, Sequence[Sequence[Any]]]] = {
    "crc16": (CRC16, [[np.frombuffer(b"123456789", np.uint8).astype(np.int64)]]),
    "collatz": (COLLATZ, [[27], [1]]),
    "bisection": (BISECTION, [[1.0, 2.0, 1e-9], [1.0, 2.0, 0.0]]),
    "newton": (NEWTON, [[2.0], [1e6]]),
    "histogram": (HISTOGRAM, [[FLOATS, -2.0, 2.0]]),
    "nussinov": (NUSSINOV, [[INTS]]),
    "sieve": (SIEVE, [[50], [2]]),
    "running": (RUNNING, [[FLOATS], [FLOATS[:1]]]),
    "annealing": (ANNEALING, [[3.0, 7, 100]]),
    "levenshtein": (LEVENSHTEIN, [[INTS, INTS[2:9]], [INTS[:1], INTS]]),
    "life": (LIFE, [[(RNG.random((5, 6)) < 0.4).astype(np.int64), 3]]),
    "mandelbrot": (MANDELBROT, [[6, 7, 20]]),
    "binary search": (BINARY_SEARCH, [[np.sort(FLOATS), np.sort(FLOATS)[k]] for k in (0, 5, 16)] + [[FLOATS, 99.0]]),
    "gcd": (GCD, [[84, 36], [7, 0]]),
    "moving average": (MOVING, [[FLOATS, 2]]),
    "floyd warshall": (FLOYD, [[DISTANCES]]),
    "fibonacci": (FIBONACCI, [[30], [0]]),
    "countdown": (COUNTDOWN, [[10, 0, -3], [0, 10, 4], [3, 3, 1], [5, 0, 1], [-7, 8, 5]]),
    "horner": (HORNER, [[FLOATS, 0.7]]),
    "primes": (PRIMES, [[40]]),
    "bubble": (BUBBLE, [[FLOATS]]),
    "longest": (LONGEST, [[np.array([0, 1, 2, 0, 3, 1, 1, 0, 5])]]),
    "pair": (PAIR, [[INTS, 5], [INTS, 99]]),
}


def reference(program: str) -> Callable[..., Any]:
    """The program as Python: annotations are not read, and a few names are NumPy's."""
    names: dict[str, Any] = {
        "INF": math.inf, "bool": np.bool_, "i64": np.int64, "f64": np.float64, "sin": np.sin, "exp": np.exp,
        "zeros": lambda *dims, dtype: np.zeros(dims, dtype), "ones": lambda *dims, dtype: np.ones(dims, dtype),
        "arange": np.arange, "cast": lambda x, dtype: dtype(x),
    }  # fmt: skip
    exec(compile("from __future__ import annotations\n" + program, "reference", "exec"), names)
    found: Callable[..., Any] = names["f"]
    return found


def sizes(program: str, args: Sequence[Any]) -> dict[str, int]:
    """The sizes that a program names, of the arguments of one call."""
    header = next(line for line in program.splitlines() if line.startswith("def f("))
    found: dict[str, int] = {}
    arrays = [arg for arg in args if isinstance(arg, np.ndarray)]
    for part, arg in zip(header.split("(", 1)[1].split("]"), arrays, strict=False):
        dims = [d.strip() for d in part.split("Tensor[")[-1].split(",")][:-1]
        found |= dict(zip(dims, arg.shape, strict=True))
    return found


def leaves(value: Any) -> list[np.ndarray]:
    return [np.asarray(item) for item in value] if isinstance(value, tuple) else [np.asarray(value)]


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", PROGRAMS)
def test_against_python(name: str) -> None:
    program, calls = PROGRAMS[name]
    compiled = tessera.compile(program).f
    for args in calls:
        python = reference(program)
        python.__globals__.update(sizes(program, args))
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        with np.errstate(over="ignore"):
            expected = leaves(python(*copies))
        for got, wanted in zip(leaves(compiled(*args)), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


INT_PARAMETER = re.compile(r"^def f\(.*: int\b.*\) ->", re.MULTILINE)


def interpreted(program: str, args: Sequence[Any]) -> list[np.ndarray]:
    dtypes = {"f64": np.float64, "i64": np.int64}
    header = next(line for line in program.splitlines() if line.startswith("def f("))
    kinds = [part.strip() for part in header.split("(", 1)[1].split(")")[0].split(":")[1:]]
    arrays = [a if isinstance(a, np.ndarray) else dtypes[kind[:3]](a) for a, kind in zip(args, kinds, strict=False)]
    return [np.asarray(item) for item in run_function(compile_to_forms(program), "m.f", list(map(np.asarray, arrays)))]


@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", [name for name, (text, _) in PROGRAMS.items() if not INT_PARAMETER.search(text)])
def test_interpreted(name: str) -> None:
    """The interpreter is the oracle for bits; it takes no ints that are known while compiling."""
    program, calls = PROGRAMS[name]
    compiled = tessera.compile(program).f
    for args in calls:
        for got, wanted in zip(leaves(compiled(*args)), interpreted(program, args), strict=True):
            same_bits(got, wanted)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", spread(range(24), 8))
def test_random_programs(seed: int) -> None:
    """Every branch, exit and range that a program of a generator has, to the bit."""
    program, x = ScalarPrograms(seed).program(), np.array([0.5, -1.25, 2.0, 3.5])
    python, compiled = reference(program), tessera.compile(program).f
    python.__globals__["N"] = len(x)
    for n, m in ((3, 4), (0, 1), (5, 2)):
        assert [float(v) for v in compiled(n, m, x)] == [float(v) for v in python(n, m, x)], program
