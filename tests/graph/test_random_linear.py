"""Random linear algebra as users write it, of tensors and operators, named, mapped, carried and differentiated, has the
numbers that NumPy has of the same lines: `python -m tests.tools.random_linear` runs more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.random_linear import judged, program


@pytest.mark.one_in(48)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(96))
def test_random_linear_algebra(seed: int) -> None:
    drawn = program(seed)
    outcome, told = judged(drawn)
    assert outcome == "right", f"{drawn.text}{told}"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_another_number_is_told() -> None:
    drawn = program(5)
    wrong = np.asarray(drawn.expected) + 1.0
    assert judged(replace(drawn, expected=wrong), compiled=False)[0] == "wrong"
