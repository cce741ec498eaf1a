"""Parts of one tensor in turn: which launches are one, which are not, and what they write."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import tessera
from tesserac.schedule.dialect import FOLLOWS
from tests.schedule.test_horizontal import launches
from tests.support.cpu_kernels import same_bits

PARTS = """def beside(x: Tensor[N, 5, f32], y: Tensor[N, 70, f32]):
    return concat([x, exp2(y), flip(x, 1)], axis=1)

def framed(x: Tensor[N, 3, 6, 9, f32]):
    return pad(x, ((0, 0), (0, 0), (2, 1), (3, 2)), mode="reflect")

def below(x: Tensor[N, 8, f32], y: Tensor[N, 8, f32]):
    return concat([x, y], axis=0)

def unknown(x: Tensor[N, M, f32], y: Tensor[N, 8, f32]):
    return concat([x, y], axis=1)

def long(x: Tensor[N, 9000, f32], y: Tensor[N, 9000, f32]):
    return concat([x, y], axis=1)

def over_itself(x: Tensor[N, 8, f32]):
    x[:, 1:] = x[:, :7] + 1.0
    return x
"""


@cache
def parts() -> object:
    return tessera.compile(PARTS)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "arch", "count"), [
    ("beside", "x86-64-v4", 3),
    ("beside", "aarch64", 3),
    ("beside", "sm_90a", 0),
    ("framed", "x86-64-v4", 9),
    ("below", "x86-64-v4", 0),
    ("unknown", "x86-64-v4", 0),
    ("long", "x86-64-v4", 0),
    ("over_itself", "x86-64-v4", 2),
])  # fmt: skip
def test_parts_of_short_rows_run_in_turn(name: str, arch: str, count: int) -> None:
    follow = [FOLLOWS in op.attrs for op in launches(PARTS, name, arch)]
    assert sum(follow) == max(0, count - 1)
    assert not follow[0]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("rows", [0, 1, 3, 700])
def test_each_part_is_at_its_place(rows: int) -> None:
    rng = np.random.default_rng(rows)
    x, y = (rng.normal(size=(rows, n)).astype(np.float32) for n in (5, 70))
    exp2 = tessera.compile("def f(y: Tensor[N, 70, f32]): return exp2(y)").f(y)
    same_bits(parts().beside(x, y), np.concatenate([x, exp2, x[:, ::-1]], 1))  # type: ignore[attr-defined]
    image = rng.normal(size=(rows, 3, 6, 9)).astype(np.float32)
    wanted = np.pad(image, ((0, 0), (0, 0), (2, 1), (3, 2)), mode="reflect")
    same_bits(parts().framed(image), wanted)  # type: ignore[attr-defined]
    narrow = rng.normal(size=(rows, 8)).astype(np.float32)
    moved = np.concatenate([narrow[:, :1], narrow[:, :7] + np.float32(1)], 1)
    same_bits(parts().over_itself(narrow), moved)  # type: ignore[attr-defined]
