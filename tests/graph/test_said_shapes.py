"""A shape that is said again, as the fact of a call does, hides nothing from the laws: a function alone has the bits
that it has when it is mapped."""

from __future__ import annotations

import numpy as np
import pytest

import tessera

SIGNAL = np.random.default_rng(5).normal(size=(3, 40)).astype("f4")
BODIES = (
    "istft(stft(s, 8), 8)",
    "irfft(expand(rfft(s), (21,)), 40)",
    "irfft(reshape(rfft(s), (21,)), 40)",
    "irfft(rfft(s)[0:21], 40)",
)


@pytest.mark.parametrize("body", BODIES)
def test_a_function_alone_has_the_bits_of_the_mapped_one(body: str) -> None:
    m = tessera.compile(
        f"def f(s: Tensor[40, f32]):\n    return {body}\n\ndef g(s: Tensor[3, 40, f32]):\n    return vmap(f)(s)\n"
    )
    np.testing.assert_array_equal(m.g(SIGNAL), np.stack([m.f(row) for row in SIGNAL]))


def test_a_transform_that_is_undone_is_seen_through_shapes() -> None:
    """What came back is the signal itself, not what two transforms leave of it."""
    m = tessera.compile("def f(s: Tensor[40, f32]):\n    return irfft(reshape(expand(rfft(s), (21,)), (21,)), 40)\n")
    np.testing.assert_array_equal(m.f(SIGNAL[0]), SIGNAL[0])
