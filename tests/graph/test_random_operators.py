"""Random programs of operators give the numbers of their matrices, or are refused as those without a known structure
are: `python -m tests.tools.random_operators` runs more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.random_operators import judged, program


@pytest.mark.one_in(48)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(48))
def test_random_operators(seed: int) -> None:
    drawn = program(seed)
    outcome, told = judged(drawn)
    assert outcome in ("right", "refused"), f"{drawn.text}{told}"


@pytest.mark.one_in(48)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_wrong_number_is_told() -> None:
    drawn = program(0)
    assert judged(replace(drawn, expected=np.asarray(drawn.expected) + 0.1))[0] == "wrong"
