"""Loops whose iterations do not wait for each other are computed at once; others stay as they are, and so does what
both compute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import tessera
from tesserac.graph.build import build_module
from tesserac.graph.interp import run_function
from tesserac.graph.passes.map_loops import inline_with_maps
from tesserac.ir.core import Module
from tesserac.ir.passes import before, run_passes
from tesserac.pipeline import CALL_PASSES
from tesserac.schedule.model.access import is_view
from tests.support.loop_gen import loop_program
from tests.support.loop_runs import both_forms, check_loops
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import check_text, library

HEAD = "def f(a: Tensor[N, N, f64], b: Tensor[N, N, f64], x: Tensor[N, f64], y: Tensor[N, f64], n: i64):\n"
END = "    return a, b, x, y, s, t\n"


def program(lines: Sequence[str]) -> str:
    return HEAD + "    s = 0.0\n    t = 1.5\n" + "".join(f"    {line}\n" for line in lines) + END


def graph_of(text: str) -> Module:
    return build_module(list(check_text(text, "m", library()).functions.values()), {"m.f"})


def loops(text: str) -> int:
    """How many loops are left of a program."""
    steps = [*before(CALL_PASSES, inline_with_maps), inline_with_maps]
    return sum(op.name == "form.loop" for op in run_passes(graph_of(text), steps, verify=True).walk())


def arguments(size: int) -> list[np.ndarray]:
    draw = np.random.default_rng(size)
    return [
        *(draw.uniform(0.5, 1.5, (size, size)) for _ in "ab"),
        *(draw.uniform(0.5, 1.5, size) for _ in "xy"),
        np.array(3),
    ]


def same(text: str, *sizes: int) -> None:
    """With the pass and without it."""
    forms = both_forms(text, "f")
    for size in sizes:
        found, wanted = (run_function(one, "m.f", arguments(size)) for one in forms)
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
    "outer products": ("for k in range(N):", "    a += 2.0 * outer(b[:, k], b[k, :])"),
    "three factors": ("for i in range(N):", "  for j in range(N):", "    x[i] += y[i] * b[j, i] * (y[j] * 0.5)"),
    "the same for a row": ("for i in range(N):", "  for j in range(N):", "    a[i, :] -= float(i) * y[j]"),
    "a product for all": ("for i in range(N):", "  for j in range(N):", "    a[i, :] += y[i] * x"),
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
    same(text, 0, 1, 2, 5, 9)


@pytest.mark.parametrize("name", STAYING)
def test_stays(name: str) -> None:
    text = program(STAYING[name])
    assert loops(text) >= 1
    same(text, 1, 2, 9)


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


def test_what_a_branch_does_not_take_has_no_gradient() -> None:
    """The derivative of a root is infinite at 0, and zero times that is not a number."""
    text = """
def root(x: Tensor[N, f64]) -> Tensor[f64]:
    s = 0.0
    for i in range(N):
        if x[i] > 0.0:
            s += sqrt(x[i])
    return s

def f(x: Tensor[N, f64]):
    return grad(root)(x)
"""
    for form in both_forms(text, "f"):
        (found,) = run_function(form, "m.f", [np.array([1.0, 0.0, 4.0])])
        np.testing.assert_array_equal(found, [0.5, 0.0, 0.25])


def test_a_sum_has_the_same_bits_wherever_its_function_is_called() -> None:
    """Alone, from a caller who knows the size, and mapped."""
    module = tessera.compile("""
def s(x: Tensor[N, f32]) -> Tensor[f32]:
    s = 0.0
    for i in range(N):
        s += x[i]
    return s

def called(x: Tensor[8, f32]) -> Tensor[f32]:
    return s(x)

def mapped(x: Tensor[4, 8, f32]) -> Tensor[4, f32]:
    return vmap(s)(x)
""")
    rows = 1e3 * np.random.default_rng(0).random((4, 8), np.float32)
    alone = [module.s(row) for row in rows]
    assert [module.called(row) for row in rows] == alone == list(module.mapped(rows))


def test_what_is_the_same_in_all_iterations_leaves_the_product() -> None:
    """A contraction of the two others, not of a scaled copy of one of them."""
    text = program(("for i in range(N):", "  for j in range(N):", "    x[i] += 0.5 * b[j, i] * y[j]"))
    forms, _ = both_forms(text, "f")
    [product] = [op for op in forms.walk() if op.name == "form.contract"]
    assert all(is_view(v.defining_op) or v.defining_op is None for v in product.operands)


def test_few_iterations_are_mapped_with_the_loop_around_them() -> None:
    inner = ("    for c in range(3):", "        y[i] += x[i] * float(c)")
    assert loops(program(("for i in range(N):", *inner))) == 0
    assert loops(program(("for c in range(3):", "    x[c] = y[c]"))) == 1


def test_compiled() -> None:
    names = ("product", "neighbours", "sum with a branch", "backwards")
    text = program([line for name in names for line in MAPPED[name]]).replace(
        END, "    return sum(a) + sum(x * y) + s\n"
    )
    run = compiled_equals_oracle(text)
    for size in (0, 1, 40):
        run("f", *arguments(size))


# ---------------------------------------------------------------------------------------------- random loops


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(24))
def test_random(seed: int) -> None:
    """Of one in three derivatives too, of another one in three of two at once."""
    made = loop_program(seed)
    check_loops(made, ["f", *("h" * (made.is_smooth and seed % 3 == 0)), *("v" * (seed % 3 == 1))])
