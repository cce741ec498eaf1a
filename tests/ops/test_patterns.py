"""`rearrange`, and `reduce` and `repeat` with a pattern, as einops has them: values against NumPy, mistakes by names of
axes, sizes that only a call knows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tests.support.folding import folded
from tests.support.native_runs import compiled_equals_oracle

Array = np.ndarray
CASES: list[tuple[str, tuple[int, ...], Callable[[Array], Array]]] = [
    ('rearrange(x, "b (h d) s -> b h s d", h=3)', (2, 12, 5), lambda x: x.reshape(2, 3, 4, 5).transpose(0, 1, 3, 2)),
    ('rearrange(x, "b (h d) s -> b h s d", d=4)', (2, 12, 5), lambda x: x.reshape(2, 3, 4, 5).transpose(0, 1, 3, 2)),
    ('rearrange(x, "b h s d -> b s (h d)")', (2, 3, 5, 4), lambda x: x.transpose(0, 2, 1, 3).reshape(2, 5, 12)),
    ('rearrange(x, "... a b -> ... b a")', (2, 3, 4, 5), lambda x: x.transpose(0, 1, 3, 2)),
    ('rearrange(x, "... a -> (...) a")', (2, 3, 4), lambda x: x.reshape(6, 4)),
    ('rearrange(x, "a ... -> ... a")', (2, 3, 4), lambda x: np.moveaxis(x, 0, -1)),
    ('rearrange(x, "b 1 c -> c b")', (2, 1, 4), lambda x: x[:, 0].T),
    ('rearrange(x, "b c -> b () c 1")', (2, 4), lambda x: x[:, None, :, None]),
    (
        'rearrange(x, "(b1 b2) (h h2) (w w2) c -> (b1 h) (b2 w) (c h2 w2)", b1=2, h2=2, w2=3)',
        (6, 4, 6, 3),
        lambda x: x.reshape(2, 3, 2, 2, 2, 3, 3).transpose(0, 2, 1, 4, 6, 3, 5).reshape(4, 6, 18),
    ),
    (
        'reduce(x, "b c (h h2) (w w2) -> b c h w", "max", h2=2, w2=3)',
        (2, 3, 4, 6),
        lambda x: x.reshape(2, 3, 2, 2, 2, 3).max(axis=(3, 5)),
    ),
    ('reduce(x, "b c h w -> c b 1", "sum")', (2, 3, 4, 6), lambda x: x.sum(axis=(2, 3)).T[:, :, None]),
    ('reduce(x, "b ... -> b", "min")', (2, 3, 4), lambda x: x.min(axis=(1, 2))),
    ('reduce(x, "... -> ", "mean")', (3, 4), lambda x: x.mean()),
    ('repeat(x, "h w -> h w c", c=4)', (2, 3), lambda x: np.repeat(x[:, :, None], 4, 2)),
    ('repeat(x, "h w -> (h a) (w b)", a=2, b=3)', (2, 3), lambda x: x.repeat(2, 0).repeat(3, 1)),
    ('repeat(x, "h w -> (r h) w", r=2)', (2, 3), lambda x: np.tile(x, (2, 1))),
]


def _parameter(shape: tuple[int, ...]) -> str:
    return ", ".join("1" if size == 1 else f"D{axis}" for axis, size in enumerate(shape))


def _program() -> str:
    lines = []
    for number, (call, shape, _) in enumerate(CASES):
        slope = f"grad(lambda x: sum(sin(sum(1.5 * {call}))))(x)"
        lines += [f"def f{number}(x: Tensor[{_parameter(shape)}, f64]):", f"    return {call}, {slope}"]
    return "\n".join(lines) + "\n"


@pytest.mark.one_in(6)
def test_values_are_those_of_numpy_and_derivatives_run() -> None:
    run = compiled_equals_oracle(_program())
    for number, (call, shape, meaning) in enumerate(CASES):
        x = np.random.default_rng(number).normal(size=shape)
        found, slope = run(f"f{number}", x)
        np.testing.assert_allclose(found, meaning(x), rtol=1e-12, err_msg=call)
        step = np.random.default_rng(9).normal(size=shape) * 1e-6
        rise = np.sin(1.5 * meaning(x + step).sum()) - np.sin(1.5 * meaning(x - step).sum())
        np.testing.assert_allclose((slope * step).sum() * 2, rise, rtol=1e-5, atol=1e-12, err_msg=call)


WRONG = [
    ('rearrange(x, "b (h d) -> b h d")', "E0417", "of `(h d)` only one size may be left open"),
    ('rearrange(x, "b c d -> b")', "E0417", "the left side has 3 dims, and the tensor 2"),
    ('rearrange(x, "b c -> b")', "E0417", "axis `c` is missing on the right"),
    ('rearrange(x, "b c -> b c d", d=2)', "E0417", "axis `d` is missing on the left"),
    ('repeat(x, "b c -> b c d")', "E0417", "how large the new axis `d` is must be said"),
    ('rearrange(x, "b b -> b")', "E0417", "axis `b` stands twice"),
    ('rearrange(x, "b c", b=2)', "E0417", "a pattern has one `->`"),
    ('rearrange(x, "b (c -> b c")', "E0417", "is not closed"),
    ('rearrange(x, "b c) -> b c")', "E0417", "parentheses"),
    ('rearrange(x, "b + -> b")', "E0417", "`+` is no part of a pattern"),
    ('rearrange(x, "b c -> ... b c")', "E0417", "`...` stands on the right alone"),
    ('rearrange(x, "b c -> c b", e=2)', "E0417", "`e`, which is no axis"),
    ('rearrange(x, "b (h d) -> b h d", h=5)', "E0418", "`(h d)` of the pattern does not fit: 5 does not divide 12"),
    ('rearrange(x, "b c -> c b", c=11)', "E0418", "axis `c` of the pattern does not fit: 11 is not 12"),
    ('rearrange(x, "b 1 -> b")', "E0418", "`1` of the pattern does not fit: 1 is not 12"),
    ('reduce(x, "b c -> b", "average")', "E0210", "expected one of"),
    ('rearrange(x, "b c -> c b", c=2.0)', "E0210", "expected an int"),
    ("rearrange(x, 3)", "E0210", "a pattern"),
    ("rearrange(x)", "E0205", "a tensor and a pattern"),
]


@folded("call, code, said", WRONG)
def test_what_does_not_fit_is_told_by_the_name_of_the_axis(call: str, code: str, said: str) -> None:
    source = SourceFile("own.tess", f"def f(x: Tensor[N, 12, f32]):\n    return {call}\n")
    found = Session().check(source).diagnostics
    assert [d.code for d in found] == [code], found
    assert said in found[0].title, found[0].title


def test_a_size_that_only_a_call_knows_is_checked_there() -> None:
    run = compiled_equals_oracle('def f(x: Tensor[N, f32]):\n    return rearrange(x, "(a b) -> b a", a=3)\n')
    found = run("f", np.arange(6, dtype=np.float32))
    np.testing.assert_array_equal(found, [[0, 2, 4], [1, 3, 5]])
    with pytest.raises(Exception, match="N % 3"):
        run("f", np.arange(7, dtype=np.float32))
