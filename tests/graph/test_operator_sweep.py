"""Kinds of operators under operations of theirs compute what their matrices do, in every dtype, or are refused.

Here is one of twelve of the products of both; `python -m benchmarks.operator_sweep` runs all.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.operator_kinds import KINDS, NUMPY
from tests.support.operator_sweep import OPERATIONS, judged, outcome

_EVERY = [(k, o) for k in range(len(KINDS)) for o in range(len(OPERATIONS)) if (k + 5 * o) % 12 == 0]
CASES = [(list(KINDS)[k], list(OPERATIONS)[o], list(NUMPY)[at % 4]) for at, (k, o) in enumerate(_EVERY)]


def test_the_sample_has_every_kind_operation_and_dtype() -> None:
    for table, found in zip((KINDS, OPERATIONS, NUMPY), zip(*CASES, strict=True), strict=True):
        assert set(table) == set(found)


@pytest.mark.one_in(48)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", CASES, ids=", ".join)
def test_an_operator_computes_what_its_matrix_does(case: tuple[str, str, str]) -> None:
    assert not judged(*case, *outcome(*case))


def test_a_wrong_number_and_a_wrong_error_are_told() -> None:
    right = np.eye(6, dtype="f4")
    assert not judged("eye", "to_dense", "f32", "", right)
    assert "an error of" in judged("eye", "to_dense", "f32", "", right * 1.001)
    assert "refused" in judged("eye", "to_dense", "f32", "E0801", "told")
    assert "though" in judged("low rank", "solve", "f32", "", np.ones(6))
