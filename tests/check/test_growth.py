"""What compiling costs grows with the program, no faster. Counted are calls inside the compiler and what it leaves, so
that the machine and its load make no difference."""

from __future__ import annotations

import sys
from types import FrameType

import numpy as np
import pytest

import tessera
from benchmarks.compile_programs import text
from tesserac.base.source import SourceFile
from tesserac.commands.select import select_one
from tesserac.driver.session import Session
from tesserac.ir.core import Module
from tesserac.ir.types import MemRefType
from tesserac.schedule.dialect import LENGTHS
from tesserac.schedule.machine import AARCH64
from tesserac.target.cpu.call.pystub import stub_text
from tesserac.target.cpu.call.pytables import Shapes
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import F32
from tesserac.types.policy import NO_POLICY
from tests.support.cpu_kernels import same_bits
from tests.support.sampling import spread

pytestmark = pytest.mark.slow


def tiles(program: str, layers: int) -> Module:
    session, source = Session(), SourceFile("layers.tess", text(program, layers))
    return session.levels(source, select_one(session, source, "step").function, AARCH64).tile


def calls(program: str, layers: int) -> int:
    """How many functions the compiler calls from text to tiles."""
    count = 0

    def see(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(see)
    try:
        tiles(program, layers)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("program", "least"), spread([("mlp", 2), ("mlp", 4), ("donating", 1)], 1))
def test_work_grows_with_the_number_of_layers(program: str, least: int) -> None:
    calls(program, 1)  # fills what is computed once per process
    few, more, most = (calls(program, layers) for layers in (least, 2 * least, 4 * least))
    assert most - more < 2.3 * (more - few)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("program", spread(["forward", "donating"], 1))
def test_later_layers_are_the_kernels_of_earlier_ones(program: str) -> None:
    few, more = (tiles(program, layers) for layers in (4, 6))
    assert sum(op.name == "tile.kernel" for op in few.ops) == sum(op.name == "tile.kernel" for op in more.ops)
    assert _widest(few) == _widest(more)


def _widest(module: Module) -> int:
    """The most memory that a launch gives its kernel, for each of its tensors: one for all weights has many."""
    launches = [op for op in module.walk() if op.name == "tile.launch"]
    return max(len(op.operands) // len(op.attrs.get(LENGTHS, (ZERO,))) for op in launches)


def stub_lines(arrays: int, *, donated: bool) -> int:
    taken = (MemRefType((Dim.sym("N"), Dim.const(4)), F32, NO_POLICY),) * arrays
    given = tuple((i, i) for i in range(arrays // 2)) if donated else ()
    shapes = Shapes(taken, taken, returns_tuple=True, taken=given, takes_out=not donated)
    return stub_text(shapes, "aarch64-unknown-linux-gnu", "").count("\n")


@pytest.mark.parametrize("donated", [False, True])
def test_the_way_into_a_call_does_not_grow_with_its_arrays(donated: bool) -> None:
    assert stub_lines(20, donated=donated) == stub_lines(200, donated=donated)


MANY = 24
STEP = f"""
@export(donate=({", ".join(f"a{i}" for i in range(MANY))}))
def step({", ".join(f"a{i}: Tensor[N, f32]" for i in range(MANY))}, x: Tensor[N, f32], y: Tensor[N, f32]):
    return {", ".join(f"a{i} + {i + 1}.0 * (x + y)" for i in range(MANY))}
"""


def test_many_arrays_are_taken_and_must_lie_apart() -> None:
    step = tessera.compile(STEP).step
    memory = np.arange((MANY + 1) * 5, dtype="f4")
    arrays, x = list(memory.reshape(MANY + 1, 5)[:MANY]), memory[-5:]
    expected = [a + np.float32(i + 1) * (x + x) for i, a in enumerate(arrays)]
    results = step(*arrays, x, x)
    for result, array, value in zip(results, arrays, expected, strict=True):
        assert result is array
        same_bits(result, value)
    for wrong in ([*arrays, arrays[7], x], [*arrays[:-1], arrays[3], x, x], [*arrays, memory[-7:-2], x]):
        with pytest.raises(tessera.TesseraError, match="share memory"):
            step(*wrong)
