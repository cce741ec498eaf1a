"""A power of a float and a whole number has two dtypes: the error is of these, and its fix the cast of one."""

from __future__ import annotations

import pytest

from tests.diag.test_growing_lists import mended, offered


@pytest.mark.parametrize(
    ("left", "right", "power"),
    [
        ("f32", "i64", "x ** cast(y, f32)"),
        ("i32", "f32", "cast(x, f32) ** y"),
        ("c64", "i32", "x ** cast(y, c64)"),
    ],
)
def test_the_whole_number_is_cast(left: str, right: str, power: str) -> None:
    text = f"def f(x: Tensor[N, {left}], y: Tensor[N, {right}]):\n    return x ** y\n"
    (said,) = offered(text)
    assert said.code == "E0405" and "stdlib" not in str(said.because)
    assert mended(text) == text.replace("x ** y", power)
