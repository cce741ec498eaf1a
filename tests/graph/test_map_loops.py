"""Loops whose iterations do not wait for each other are computed at once; others stay as they are, and so does what
both compute."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from tesserac.graph.build import build_module
from tesserac.graph.interp import run_function
from tesserac.graph.passes.map_loops import map_loops
from tesserac.ir.core import Module
from tesserac.ir.passes import run_passes
from tesserac.pipeline import CALL_PASSES, GRAPH_PASSES
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import check_text, library

HEAD = "def f(a: Tensor[N, N, f64], b: Tensor[N, N, f64], x: Tensor[N, f64], y: Tensor[N, f64], n: i64):\n"
END = "    return a, b, x, y, s, t\n"


def program(lines: Sequence[str]) -> str:
    return HEAD + "    s = 0.0\n    t = 1.5\n" + "".join(f"    {line}\n" for line in lines) + END


def graph_of(text: str) -> Module:
    return build_module(list(check_text(text, "m", library()).functions.values()), {"m.f"})


def forms(text: str, *, mapped: bool) -> Module:
    calls = [step for step in CALL_PASSES if mapped or step is not map_loops]
    return run_passes(graph_of(text), [*calls, *GRAPH_PASSES], verify=True)


def loops(text: str) -> int:
    """How many loops are left of a program."""
    steps = CALL_PASSES[: CALL_PASSES.index(map_loops) + 1]
    return sum(op.name == "form.loop" for op in run_passes(graph_of(text), steps, verify=True).walk())


def arguments(size: int) -> list[np.ndarray]:
    draw = np.random.default_rng(size)
    return [
        *(draw.uniform(0.5, 1.5, (size, size)) for _ in "ab"),
        *(draw.uniform(0.5, 1.5, size) for _ in "xy"),
        np.array(3),
    ]


def same(text: str, size: int) -> None:
    """With the pass and without it."""
    args = arguments(size)
    found, wanted = (run_function(forms(text, mapped=mapped), "m.f", args) for mapped in (True, False))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


MAPPED = {
    "elements": ("for i in range(N):", "    y[i] = exp(x[i]) + y[i]"),
    "neighbours": ("for i in range(1, N - 1):", "    y[i] = x[i - 1] + x[i] + x[i + 1]"),
    "rows": ("for i in range(N):", "    a[i, :] = b[i, :] * x"),
    "backwards": ("for i in range(N - 1, -1, -1):", "    y[i] = x[N - 1 - i]"),
    "every other one": ("for i in range(0, N - 1, 2):", "    y[i] = x[i + 1]"),
    "not written yet": ("for i in range(N - 1):", "    x[i] = x[i] + x[i + 1]"),
    "sum": ("for i in range(N):", "    s += x[i] * y[i]"),
    "sum with a branch": ("for i in range(N):", "    if x[i] > y[i]:", "        s += x[i]"),
    "element with a branch": ("for i in range(N):", "    if x[i] > 1.0:", "        y[i] = x[i]"),
    "largest": ("for i in range(N):", "    s = max(s, x[i])"),
    "difference": ("for i in range(N):", "    s -= x[i]"),
    "counter": ("for i in range(2, N):", "    y[i] = x[i] * float(3 * i)"),
    "product": ("for i in range(N):", "  for j in range(N):", "    for k in range(N):",
                "      a[i, j] += b[i, k] * b[k, j]"),
    "product, rows": ("for i in range(N):", "  for k in range(N):", "    a[i, :] += 2.0 * b[i, k] * b[k, :]"),
    "product, outer": ("for k in range(N):", "  for i in range(N):", "    for j in range(N):",
                       "      a[i, j] += b[i, k] * b[k, j]"),
    "vector, turned": ("for i in range(N):", "  for j in range(N):", "    x[i] += a[j, i] * y[j]"),
    "both": ("for i in range(N):", "  for j in range(N):", "    x[i] += a[i, j] * 2.0", "    s += a[i, j]"),
    "scratch": ("for i in range(N):", "  for j in range(N):", "    y[j] = a[i, j] * x[j]", "  for j in range(N):",
                "    b[i, j] = y[j]", "y = x"),
}  # fmt: skip
STAYING = {
    "recurrence": ("for i in range(1, N):", "    x[i] = x[i - 1] + y[i]"),
    "one row after the other": ("for i in range(1, N):", "    a[i, :] = a[i - 1, :] * 0.5"),
    "two places that meet": ("for i in range(N - 1):", "    x[i] = y[i]", "    x[i + 1] = 0.5"),
    "sum that is read": ("for i in range(N):", "    s += x[i]", "    y[i] = s"),
    "sums of each other": ("for i in range(N):", "    s += t", "    t += s"),
    "column of a row": ("for k in range(N):", "    for j in range(N):", "        a[k, j] = a[k, j] + a[k, k]"),
}  # fmt: skip


@pytest.mark.parametrize("name", MAPPED)
def test_maps(name: str) -> None:
    text = program(MAPPED[name])
    assert loops(text) == 0
    for size in (0, 1, 2, 5, 33):
        same(text, size)


@pytest.mark.parametrize("name", STAYING)
def test_stays(name: str) -> None:
    text = program(STAYING[name])
    assert loops(text) >= 1
    for size in (1, 2, 9):
        same(text, size)


def test_a_loop_that_stays_keeps_maps_in_it() -> None:
    rows = ("for k in range(N - 1):", "    for i in range(k + 1, N):", "        a[i, k] /= a[k, k]",
            "        for j in range(k + 1, N):", "            a[i, j] -= a[i, k] * a[k, j]")  # fmt: skip
    assert loops(program(rows)) == 1
    same(program(rows), 17)


def test_sums_over_a_part_of_a_row_stay_in_a_recurrence() -> None:
    rows = ("for i in range(N):", "    for j in range(i):", "        x[i] -= a[i, j] * x[j]", "    x[i] /= a[i, i]")
    assert loops(program(rows)) == 2


def test_a_map_larger_than_all_tensors_stays() -> None:
    rows = ("for i in range(N):", "    y[i] = sum(abs(a - x[i]))")
    assert loops(program(rows)) == 1


def test_a_part_that_a_loop_changes_is_held() -> None:
    """No copy of the matrix for the sake of one of its elements."""
    rows = ("for k in range(N):", "    for i in range(N):", "        s = a[i, k]", "        for j in range(N):",
            "            if a[i, j] > s + a[k, j]:", "                a[i, j] = s + a[k, j]")  # fmt: skip
    same(program(rows), 13)


def test_compiled() -> None:
    names = ("product", "neighbours", "sum with a branch", "backwards")
    text = program([line for name in names for line in MAPPED[name]]).replace(
        END, "    return sum(a) + sum(x * y) + s\n"
    )
    run = compiled_equals_oracle(text)
    for size in (0, 1, 40):
        run("f", *arguments(size))


# ---------------------------------------------------------------------------------------------- random loops


def drawn(seed: int) -> str:
    """A nest of loops that reads and writes here and there."""
    draw = random.Random(seed)
    ranges = ["range(N)", "range(1, N)", "range(2, N - 2)", "range(N - 1)", "range(N - 1, 0, -1)", "range(0, N - 1, 2)"]
    inner = [*ranges, "range(i)", "range(i, N)", "range(i + 1, N)"]
    lines = [f"for i in {draw.choice(ranges)}:"]
    for _ in range(draw.randrange(1, 3)):
        lines += _statement(draw, "    ", ["i"])
    lines.append(f"    for j in {draw.choice(inner)}:")
    for _ in range(draw.randrange(1, 4)):
        lines += _statement(draw, "        ", ["i", "j"])
    if draw.random() < 0.5:
        lines.append(f"        for k in {draw.choice(inner[:3])}:")
        lines += _statement(draw, "            ", ["i", "j", "k"])
    return program(lines)


def _statement(draw: random.Random, indent: str, counters: list[str]) -> list[str]:
    target = draw.choice(["a", "b", "x", "y", "s", "t"])
    rank = {"a": 2, "b": 2, "x": 1, "y": 1}.get(target, 0)
    where = _place(draw, target, rank, counters)
    row = rank == 2 and draw.random() < 0.25
    if row:
        where = f"{target}[{draw.choice(counters)}, :]"
    value = " * ".join(_value(draw, counters) for _ in range(draw.randrange(1, 3)))
    value = value if not row or draw.random() < 0.5 else f"{value} * {draw.choice('ab')}[{draw.choice(counters)}, :]"
    sign = draw.choice(["=", "+=", "+=", "-="])
    made = (
        f"{where} {sign} 0.01 * {value}" if not (row and sign == "=") else f"{where} = 0.5 * {where} + 0.01 * {value}"
    )
    if draw.random() < 0.2 and not row:
        return [f"{indent}if {_value(draw, counters)} > 0.8:", f"{indent}    {made}"]
    return [indent + made]


def _place(draw: random.Random, name: str, rank: int, counters: list[str]) -> str:
    return f"{name}[{', '.join(draw.choice(counters) for _ in range(rank))}]" if rank else name


def _value(draw: random.Random, counters: list[str]) -> str:
    name = draw.choice(["a", "b", "x", "y", "s", "float", "1.5"])
    if name == "float":
        return f"float({draw.choice(counters)})"
    return _place(draw, name, {"a": 2, "b": 2, "x": 1, "y": 1}.get(name, 0), counters)


@pytest.mark.parametrize("seed", range(40))
def test_random(seed: int) -> None:
    text = drawn(seed)
    for size in (1, 2, 3, 7):
        same(text, size)
