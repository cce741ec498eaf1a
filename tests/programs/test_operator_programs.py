"""Programs over operators as new users write them compute what NumPy does."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tessera
from tests.support.operator_programs import GROUPS, VALUES


def numbered(text: str, number: int) -> str:
    """A program whose names no other program of its module has."""
    own = set(re.findall(r"^(?:def|struct) (\w+)|^(\w+) =", text, re.MULTILINE))
    for name in {name for pair in own for name in pair if name}:
        text = re.sub(rf"(?<!\.)\b{name}\b(?!=)", f"{name}_{number}", text)
    return text


@pytest.mark.one_in(48)
@pytest.mark.parametrize("group", GROUPS)
def test_programs_of_users_compute_what_numpy_does(group: str) -> None:
    module = tessera.compile("\n".join(numbered(text, i) for i, (text, _) in enumerate(GROUPS[group])))
    for i, (text, expected) in enumerate(GROUPS[group]):
        header = re.search(r"def f\((.*?)\):", text)
        assert header is not None
        found = module[f"f_{i}"](*(VALUES[name] for name in re.findall(r"(\w+):", header[1])))
        wanted = expected if isinstance(expected, tuple) else (expected,)
        for ours, theirs in zip(found if isinstance(expected, tuple) else (found,), wanted, strict=True):
            assert np.shape(ours) == np.shape(theirs), text
            assert np.allclose(ours, theirs, rtol=2e-4, atol=2e-5), text
