"""Updates in place: a round of a loop touches what it changes, and nothing is overwritten that is read later."""

from __future__ import annotations

import numpy as np
import pytest

import tesserac.tile.dialect  # noqa: F401  (register the operations)
from tesserac.ir.core import Op
from tesserac.ir.passes import run_passes
from tesserac.pipeline import schedule_passes
from tesserac.schedule.dialect import launch_kind, launch_outs, memory
from tesserac.schedule.machine import AARCH64
from tesserac.types.dims import product
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import compile_to_forms

HEAD = "def f(a: Tensor[N, f32], b: Tensor[N, f32], p: Tensor[N, i32]) -> {} where N >= 3:\n"


def scheduled(lines: list[str], result: str) -> Op:
    """The host program of a function that returns what its last line says."""
    program = HEAD.format(result) + "".join(f"    {line}\n" for line in lines)
    module = run_passes(compile_to_forms(program), schedule_passes(AARCH64), verify=True)
    return module.ops[0]


INTO_PLACES = ("scatter", "folds")


def whole_writes(op: Op) -> int:
    """Launches inside `op` that write a whole tensor of size N; a scatter writes where it is told."""
    launches = [inner for inner in op.walk() if inner.name == "schedule.launch"]
    launches = [launch for launch in launches if launch_kind(launch) not in INTO_PLACES]
    outs = [memory(out).dims for launch in launches for out in launch_outs(launch)]
    return sum(product(dims).constant is None for dims in outs)


def loop_of(host: Op) -> Op:
    return next(op for op in host.walk() if op.name == "schedule.loop")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "body",
    [
        ["a[i] = 1.0"],
        ["a[i] = a[i] * 2.0"],
        ["a[i] = a[N - 1 - i] + b[i]"],
        ["a[p[i]] = 1.0"],
        ["a[p[i]] += b[i]"],
        ["t = a[i]", "a[i] = a[N - 1 - i]", "a[N - 1 - i] = t"],
        ["a[i] = 1.0", "b[i] = a[i]", "a[p[i]] = b[0]"],
        ["if a[i] > 0.0:", "    a[i] = 0.0"],
        ["if a[i] > 0.0:", "    a[i] = 0.0", "else:", "    a[i] = b[i]"],
        ["for j in range(2):", "    a[i] = a[i] + a[j]"],
        ["a, b = b, a"],
        ["a[i] = b[i]", "a, b = b, a"],
    ],
)
def test_a_round_writes_only_what_changes(body: list[str]) -> None:
    lines = ["for i in range(N):", *(f"    {line}" for line in body), "    a[0] = a[0] / 3.0", "return a, b"]
    assert whole_writes(loop_of(scheduled(lines, "(Tensor[N, f32], Tensor[N, f32])"))) == 0


@pytest.mark.parametrize(
    ("body", "copies"),
    [
        (["a = a * 2.0"], 1),
        (["k = a", "a[i] = 1.0", "b = k"], 1),
        (["a[p] = b", "b = flip(a, 0)"], 1),
        (["a = b"], 1),
    ],
    ids=["every element changes", "the old value is read", "fresh values", "two names for one tensor"],
)
def test_what_must_be_written_is_written_once(body: list[str], copies: int) -> None:
    lines = ["for i in range(N):", *(f"    {line}" for line in body), "return a, b"]
    assert whole_writes(loop_of(scheduled(lines, "(Tensor[N, f32], Tensor[N, f32])"))) == copies


def test_a_chain_of_updates_copies_once() -> None:
    host = scheduled(["a[0] = 1.0", "a[p[1]] = 2.0", "a[2] = a[0]", "return a"], "Tensor[N, f32]")
    assert whole_writes(host) == 1


def test_inputs_are_never_overwritten() -> None:
    host = scheduled(["a[p] = b", "return a"], "Tensor[N, f32]")
    inputs = set(host.body.args)
    launches = [op for op in host.walk() if op.name == "schedule.launch"]
    assert not any(out in inputs for launch in launches for out in launch_outs(launch))


def test_a_loop_takes_over_what_nobody_else_reads() -> None:
    """Zeros are written once, into what the loop carries, and once more as the result."""
    lines = ["k = zeros(N)", "for i in range(1, N):", "    k[i] = a[i] + k[i - 1]", "return k"]
    assert whole_writes(scheduled(lines, "Tensor[N, f32]")) == 2


SHIFTS = """
def shifts(a: Tensor[N, f32], p: Tensor[N, i32]) -> (Tensor[N, f32], Tensor[N, f32]) where N >= 3:
    k = zeros(N) + 1.0
    for i in range(3):
        a[1:] = a[:N - 1] * 0.5
        k[:N - 1] = k[1:] + a[1:]
        a[p] = a
        k[p] = flip(k, 0)
        t = a[i]
        a[i] = k[N - 1 - i]
        k[N - 1 - i] = t
        a, k = k, a
        if a[0] > k[0]:
            a[0] = 1.0
            k[1] = 2.0
            a, k = k, a
        else:
            a[1] = 3.0
            k[0] = 4.0
    return a, k
"""


@pytest.mark.parametrize("n", [3, 64, 5000])
def test_reads_of_other_places_come_first(n: int) -> None:
    """Long enough that a launch which read what it overwrites would read new elements."""
    rng = np.random.default_rng(n)
    compiled_equals_oracle(SHIFTS)("shifts", rng.normal(size=n).astype("f4"), rng.integers(-n, n, n).astype("i4"))


ROWS_LATER = """
def rows_later(x: Tensor[M, K, f32], w: Tensor[K, K, f32]) -> (Tensor[M, K, f32], Tensor[K, f32]) where M >= 1:
    old = x @ w
    new = old.at[0].set(zeros(K))
    s = zeros(K)
    for i in range(M):
        s = s * 0.5 + old[i] + old[0]
    return new, s
"""


@pytest.mark.one_in(2)
def test_rows_that_a_later_loop_reads_are_not_overwritten() -> None:
    """Which row is read, only the turn knows: no copy from before the update can stand for it."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(5, 3)).astype("f4"), rng.normal(size=(3, 3)).astype("f4")
    compiled_equals_oracle(ROWS_LATER)("rows_later", x, w)


GUARDED = """
def guarded(x: Tensor[N, f32], n: i32) -> (Tensor[N, f32], Tensor[f32]) where N >= 3:
    s = cast(0.0, f32)
    for t in range(N):
        old = x
        x[t] = 1.0
        assert n > 0, "no"
        s = s + old[N - 1 - t]
    return x, s
"""


def test_nothing_is_read_before_what_makes_sure_that_it_is_there() -> None:
    """A read behind an assertion stays behind it: the update copies instead."""
    module = run_passes(compile_to_forms(GUARDED), schedule_passes(AARCH64), verify=True)
    inside = [op for op in loop_of(module.ops[0]).walk() if op.name in ("schedule.launch", "schedule.assert")]
    reads = [i for i, op in enumerate(inside) if op.name == "schedule.launch" and "s" in [v.name for v in op.operands]]
    asserts = [i for i, op in enumerate(inside) if op.name == "schedule.assert"]
    assert min(reads) > max(asserts)
    rng = np.random.default_rng(0)
    compiled_equals_oracle(GUARDED)("guarded", rng.normal(size=5).astype("f4"), np.array(1, "i4"))
