"""Sweeps that take turns: in all parts together every case of every test has its turn."""

from __future__ import annotations

import pytest

from tests.support import rotation, sampling


@pytest.mark.parametrize(("of_test", "of_cases"), [(8, 24), (24, 48), (2, 3)])
def test_every_case_of_a_test_that_takes_turns_is_run(
    monkeypatch: pytest.MonkeyPatch, of_test: int, of_cases: int
) -> None:
    monkeypatch.setattr(sampling, "thorough", False)
    met = set()
    for part in range(rotation.PARTS**2):
        monkeypatch.setenv(rotation.VARIABLE, str(part))
        if rotation.is_turn(5, of_test):
            met |= {place for place in range(of_cases) if rotation.is_turn_in_fold(place, of_cases)}
    assert met == set(range(of_cases))
