"""Long chains of maps: what fusing them costs, and how large one body or one kernel becomes. Counts, no seconds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.check.analysis.ranges import Ranges
from tesserac.driver.session import Session
from tesserac.ir.core import Module
from tesserac.schedule.costs.cost import MAX_WORK, body_work
from tesserac.schedule.fusion.fuse import MAX_BODY
from tesserac.schedule.machine import AARCH64, Machine
from tesserac.schedule.primitives.fuse import _Fused
from tests.support import sampling
from tests.support.cpu_kernels import same_bits

STEPS = ("tanh(x)", "x * 1.5 + 0.25", "exp(-abs(x)) + x", "where(x > 0.5, sqrt(abs(x)), x * x)")


def chain(step: str, length: int) -> str:
    lines = "\n".join(f"    x = {step}" for _ in range(length))
    return f"def f(x: Tensor[N, f32]):\n{lines}\n    return x\n"


def tower(step: str, levels: int) -> str:
    """Each function calls the one before it twice."""
    calls = "".join(f"def f{i + 1}(x: Tensor[N, f32]): return f{i}(f{i}(x))\n" for i in range(levels))
    return f"def f0(x: Tensor[N, f32]): return {step}\n{calls}def f(x: Tensor[N, f32]): return f{levels}(x)\n"


def tiles(text: str, machine: Machine = AARCH64) -> Module:
    session, source = Session(), SourceFile("long.tess", text)
    return session.levels(source, session.function(source, "f"), machine).tile


def counted(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, run: Callable[[], object]) -> int:
    """How often a method is called."""
    calls, method = 0, getattr(owner, name)

    def counting(*args: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        return method(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, counting)
        run()
    return calls


@pytest.mark.one_in(48)
@pytest.mark.parametrize("step", STEPS)
def test_fusing_a_chain_takes_each_operation_a_few_times(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def copies(length: int) -> int:
        return counted(monkeypatch, _Fused, "copy", lambda: tiles(chain(step, length)))

    length = 256 if sampling.thorough else 128
    more, most = copies(length), copies(2 * length)
    assert most <= 2 * length * 40  # a step has up to eight operations
    assert most <= 2.2 * more


@pytest.mark.one_in(48)
@pytest.mark.parametrize("step", STEPS)
def test_no_kernel_grows_with_a_chain(step: str) -> None:
    made = tiles(chain(step, 300))
    maps = [op for op in made.walk() if op.name == "tile.map"]
    assert maps and max(len(op.body.ops) for op in maps) <= 2 * MAX_BODY + 8
    for kernel in (op for op in made.ops if op.name == "tile.kernel"):
        assert sum(body_work(op) for op in kernel.walk() if op.name == "tile.map") <= MAX_WORK + 128
    assert sum(op.name == "tile.kernel" for op in made.ops) <= 4  # and those that follow each other are alike


@pytest.mark.one_in(12)
@pytest.mark.parametrize("step", STEPS)
def test_where_a_chain_is_cut_shows_in_no_bit(step: str) -> None:
    x = np.random.default_rng(3).normal(size=37).astype("f4")
    one = tessera.compile(chain(step, 1)).f
    expected = x
    for _ in range(90):
        expected = one(expected)
    same_bits(tessera.compile(chain(step, 90)).f(x), expected)


def test_what_is_long_by_itself_is_still_summed_on_the_way() -> None:
    powers = " + ".join(f"x ** {i}.5" for i in range(1, 9))
    made = tiles(f"def f(x: Tensor[N, f32]): return sum({powers})\n")
    assert sum(op.name == "tile.launch" for op in made.walk()) <= 4, "long rows have two more"


@pytest.mark.one_in(3)
def test_what_calls_within_calls_are_checked_for_grows_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(levels: int) -> int:
        text = SourceFile("long.tess", tower("tanh(x) * 0.9", levels))
        return counted(monkeypatch, Ranges, "function", lambda: Session().check(text))

    few, more, most = map(check, (8, 16, 24))
    assert most - more <= 1.5 * (more - few)


@pytest.mark.one_in(6)
def test_a_recurrence_of_constants_grows_with_its_length() -> None:
    """Each step reads the two before it; constants copied to all of their readers would grow as Fibonacci's numbers."""

    def operations(length: int) -> int:
        steps = "".join("    a, b = b, b * c - a\n" for _ in range(length))
        text = f"def f(x: Tensor[N, f32]):\n    c = ones(N) * 0.5\n    a, b = ones(N), c\n{steps}    return x + b\n"
        return sum(1 for op in tiles(text).ops for _ in op.walk())

    assert operations(40) <= 3 * operations(20)
