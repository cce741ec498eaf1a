"""Parts that merge dims which lie apart, such as heads side by side again, are put in their places by one copy each."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tests.schedule.test_horizontal import launches
from tests.support.cpu_kernels import same_bits

CASES = {
    "same": ([(3, 4), (3, 4), (3, 4)], 4),
    "other_counts": ([(3, 4), (2, 4)], 3),
    "other_widths": ([(3, 4), (2, 6)], 5),
}
"""Heads and their widths, and how many launches there are."""


def program(heads: list[tuple[int, int]]) -> str:
    given = ", ".join(f"x{i}: Tensor[2, {h}, 5, {d}, f32]" for i, (h, d) in enumerate(heads))
    merged = [f"reshape(permute(x{i}, (0, 2, 1, 3)), (2, 5, {h * d}))" for i, (h, d) in enumerate(heads)]
    return f"def beside({given}):\n    return max(concat([{', '.join(merged)}], axis=2), axis=1)\n"


@pytest.mark.parametrize("arch", ["x86-64-v4", "sm_90a"])
@pytest.mark.parametrize("case", CASES)
def test_each_part_is_copied_once(case: str, arch: str) -> None:
    heads, count = CASES[case]
    assert len(launches(program(heads), "beside", arch)) == count


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", CASES)
def test_each_part_is_at_its_place(case: str) -> None:
    heads, _ = CASES[case]
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(2, h, 5, d)).astype(np.float32) for h, d in heads]
    merged = [x.transpose(0, 2, 1, 3).reshape(2, 5, -1) for x in parts]
    same_bits(tessera.compile(program(heads)).beside(*parts), np.concatenate(merged, axis=2).max(axis=1))
