"""What a loop never changes is laid out before it, and nothing else is."""

from __future__ import annotations

import pytest

from tesserac.ir.core import Op
from tesserac.ir.passes import run_passes
from tesserac.pipeline import schedule_passes
from tesserac.schedule.dialect import launch_kind
from tesserac.schedule.loops.invariant_packs import invariant_packs
from tesserac.schedule.machine import X86_64_V4
from tests.support.source_support import compile_to_forms

SMALL = "x: Tensor[400, 64, f32], w: Tensor[64, 64, f32]"
LARGE = "x: Tensor[256, 256, f32], w: Tensor[256, 256, f32]"
PROGRAMS = {
    "small": (f"def f({SMALL}):\n    for i in range(20):\n        x = x @ w\n    return x\n", 0),
    "kept, many iterations": (f"def f({LARGE}):\n    for i in range(20):\n        x = x @ w\n    return x\n", 0),
    "kept, few": (f"def f({LARGE}):\n    for i in range(5):\n        x = x @ w\n    return x\n", 1),
    "changed": (f"def f({SMALL}):\n    for i in range(20):\n        x, w = x @ w, w * 0.5\n    return x\n", 1),
    "of the iteration": (
        "def f(x: Tensor[400, 64, f32], w: Tensor[20, 64, 64, f32]):\n"
        "    for i in range(20):\n        x = x @ w[i]\n    return x\n",
        1,
    ),
    "in two loops": (
        f"def f({SMALL}):\n    for j in range(3):\n        for i in range(20):\n            x = tanh(x @ w)\n"
        "        x = x * 2.0\n    return x\n",
        0,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_only_what_stays_the_same_leaves_its_loop(name: str) -> None:
    program, left = PROGRAMS[name]
    passes = schedule_passes(X86_64_V4)
    module = run_passes(compile_to_forms(program), passes[: passes.index(invariant_packs) + 1], verify=True)
    host = module.lookup("m.f")
    inside = {pack for op in host.walk() if op.name == "schedule.loop" for pack in packs(op)}
    assert len(inside) == left and packs(host)


def packs(op: Op) -> list[Op]:
    """Launches that pack, but for those that fill what is kept."""
    found = [inner for inner in op.walk() if inner.name == "schedule.launch" and launch_kind(inner) == "pack"]
    return [pack for pack in found if not fills(pack)]


def fills(pack: Op) -> bool:
    around = pack.parent.parent_op if pack.parent is not None else None
    return around is not None and around.name == "schedule.kept" and around.regions[0].block is pack.parent
