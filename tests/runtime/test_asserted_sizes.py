"""What an assertion about sizes says reaches the user, wherever the sizes are checked: on entry, in a loop, on a
branch, or in a function that is called."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tests.support.checking import check_text

SAID = "give me four"
BODIES = {
    "on entry": f'assert N >= 4, "{SAID}"\n    return sum(x)',
    "divides": f'assert N % 4 == 0, "{SAID}"\n    return sum(x)',
    "with names": f'assert N == 4, f"{SAID}, not {{N}}"\n    return sum(x)',
    "two at once": f'assert 4 <= N < 9, "{SAID}"\n    return sum(x)',
    "on a branch": f'if x[0] > 0.0:\n        assert N >= 4, "{SAID}"\n    return sum(x)',
    "in a loop": f'for i in range(N):\n        assert N - i >= 4, "{SAID}"\n        x[i] = 0.0\n    return x',
    "called": "return first(x)",
}
CALLED = f'def first(x: Tensor[K, f32]):\n    assert K >= 4, "{SAID}"\n    return x[3]\n\n'


@pytest.mark.one_in(2)
@pytest.mark.parametrize("where", BODIES)
def test_the_text_of_an_assertion_is_shown(where: str) -> None:
    module = tessera.compile(CALLED + f"def f(x: Tensor[N, f32]):\n    {BODIES[where]}\n")
    with pytest.raises(tessera.TesseraError, match=SAID):
        module.f(np.ones(3, "f4"))


def test_a_size_that_a_call_gives_is_refused_with_the_text() -> None:
    found = check_text(CALLED + "def f(x: Tensor[3, f32]):\n    return first(x)\n").diagnostics
    assert any(SAID in str(d) for d in found)
