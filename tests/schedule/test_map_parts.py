"""Maps of which parts are read, and maps of what is put together of parts, are computed part by part."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tests.schedule.test_horizontal import launches
from tests.support.cpu_kernels import same_bits

CASES = {
    "halves": (
        "x: Tensor[B, 8, f32]",
        "a, b = split(x * 2.0, 2, axis=1)\n    return concat([a - b, b + a], axis=1) + 1.0",
        1,
    ),
    "narrowed": (
        "x: Tensor[B, 8, bf16], c: Tensor[B, 4, bf16]",
        "a, b = split(wide(x), 2, axis=1)\n    return cast(concat([a * wide(c), b], axis=1), bf16)",
        1,
    ),
    "overlapping": ("x: Tensor[B, 8, f32]", "y = exp(x)\n    return y[:, 1:] + y[:, :7]", 2),
    "of_places": ("x: Tensor[B, 9, f32]", "return x[:4] + eye(9)[:4]", 1),
    "of_other_places": ("x: Tensor[B, 9, f32]", "return x[:4] + eye(9)[1:5]", 2),
    "of_a_product": (
        "x: Tensor[64, 64, f32], w: Tensor[64, 64, f32]",
        "a, b = split(x @ w * 2.0, 2, axis=1)\n    return a * b",
        2,
    ),
    "widened": ("x: Tensor[B, 4, bf16]", "return cast(concat([x, x], axis=1), f32) * 0.5", 2),
}
"""Parameters, a body, and how many launches there are. What two slices have is computed once, unless it is nothing but
another type; what asks where it is stays there; a product is finished as a whole; nothing wider is put together."""


def program(case: str) -> str:
    given, body, _ = CASES[case]
    return f"def f({given}):\n    {body}\n"


@pytest.mark.parametrize("case", CASES)
def test_parts_need_no_launch_of_their_own(case: str) -> None:
    assert len(launches(program(case), "f", "sm_80")) == CASES[case][2]


def test_a_rotary_embedding_and_its_gradient_are_one_launch() -> None:
    text = "def f(x: Tensor[B, S, 64, bf16], c: Tensor[S, 32, bf16], s: Tensor[S, 32, bf16]):\n"
    text += "    y, back = vjp(lambda x: rotary_embedding(x, cos=c, sin=s), x)\n    return y, back(x)\n"
    assert len(launches(text, "f", "x86-64-v4")) == 1


def test_parts_have_the_bits_of_the_whole() -> None:
    x = np.random.default_rng(0).standard_normal((5, 8), "f4")
    twice = x * np.float32(2)
    a, b = twice[:, :4], twice[:, 4:]
    same_bits(tessera.compile(program("halves")).f(x), np.concatenate([a - b, b + a], axis=1) + np.float32(1))


def test_a_long_chain_is_looked_at_once() -> None:
    """Each link reads the one before three times: there are 3^40 ways from its end to what lies in memory."""
    links = "".join("    y = y * y + y\n" for _ in range(40))
    text = f"def f(x: Tensor[N, 8, f32]):\n    y = x\n{links}    return y[:, :4] * 2.0 + y[:, 4:]\n"
    assert len(launches(text, "f", "sm_80")) in (1, 2)
