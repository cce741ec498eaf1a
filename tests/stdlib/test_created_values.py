"""What creates tensors takes a value only as it is: none is rounded to an integer in silence."""

from __future__ import annotations

from tesserac.base.source import SourceFile
from tesserac.driver.session import Session

PROGRAM = """
def f(x: Tensor[N, i32]) -> Tensor[N, i32]:
    return full(N, 0.5, dtype=i32)

def g(x: Tensor[N, i32]) -> Tensor[N, i32]:
    return full_like(x, 0.5)

def h(x: Tensor[N, u8]) -> Tensor[N, u8]:
    return full_like(x, -1.5)

def whole(x: Tensor[N, i32], y: Tensor[N, f32], s: Tensor[f32]) -> (Tensor[N, i32], Tensor[N, f32]):
    return full_like(x, 3), full_like(y, s) + full_like(y, 1.0 / float(N)) + full_like(y, 2)
"""


def test_a_fraction_is_no_integer() -> None:
    said = Session().check(SourceFile("m.tess", PROGRAM)).errors
    assert [(d.code, PROGRAM[d.primary.span.start : d.primary.span.end]) for d in said] == [
        ("E0403", "0.5"), ("E0403", "0.5"), ("E0403", "-1.5"),
    ]  # fmt: skip
