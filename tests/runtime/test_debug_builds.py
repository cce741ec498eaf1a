"""Debug builds: what makes inf or NaN of finite numbers ends the call and is named, on every target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tessera
from tessera import TesseraError
from tests.support.fake_cuda import emulated_cuda

PROGRAM = """
def of_log(x: Tensor[N, f32]) -> Tensor[N, f32]:
    y = x - 1.0
    return log(y)

def in_a_loop(x: Tensor[N, f32]) -> Tensor[N, f32]:
    for i in range(4):
        x = x * 1.0e20
    return x

def slope(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return grad(lambda y: sum(sqrt(y)))(x)

def masked(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return softmax(where(x > 0.0, x, -INF))
"""
FINE, ZERO = np.array([2.0, 3.0], np.float32), np.array([1.0, 0.0], np.float32)


@pytest.fixture(scope="module")
def module() -> tessera.module.Module:
    return tessera.compile(PROGRAM, debug=True)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "given", "operator", "line"),
    [("of_log", ZERO + 1.0, "log", 4), ("in_a_loop", FINE, "mul", 8), ("slope", ZERO, "div", 12)],
)
def test_the_operator_is_named(module, name: str, given: np.ndarray, operator: str, line: int) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TesseraError) as error:
        module[name](given)
    assert error.value.code == "E0933"
    assert f"makes inf or NaN of finite numbers\n  --> <text>:{line}:" in error.value.text
    assert f"`{operator}`" in error.value.text or name == "slope"


@pytest.mark.one_in(4)
def test_bits_are_those_of_other_builds(module) -> None:  # type: ignore[no-untyped-def]
    plain = tessera.compile(PROGRAM)
    for name, given in (("of_log", FINE), ("slope", FINE), ("masked", ZERO)):
        assert module[name](given).tobytes() == plain[name](given).tobytes()
    given = np.array([np.inf, 2.0], np.float32)
    assert module.of_log(given).tobytes() == plain.of_log(given).tobytes(), "what was given is nobody's fault"


@pytest.mark.one_in(12)
def test_rows_that_shrink_with_a_loop_are_looked_at() -> None:
    """How long they are at most no bound of the loop tells: they are not cut in parts, which would need memory."""
    text = "def f(m: Tensor[N, N, f32], x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return solve(m, x)\n"
    matrix, x = np.array([[2.0, 1.0], [1.0, 3.0]], np.float32), np.array([3.0, 4.0], np.float32)
    assert np.allclose(tessera.compile(text, debug=True).f(matrix, x), 1.0)


@pytest.mark.one_in(12)
def test_on_a_gpu(tmp_path: Path) -> None:
    with emulated_cuda(tmp_path):
        module = tessera.compile(PROGRAM, debug=True, device="cuda")
        assert np.array_equal(module.of_log(FINE), np.log(FINE - 1.0))
        with pytest.raises(TesseraError) as error:
            module.of_log(ZERO + 1.0)
        assert "`log` makes inf or NaN" in error.value.text and "<text>:4:" in error.value.text


def test_a_bundle_is_built_already(tmp_path: Path) -> None:
    (tmp_path / "m.tessb").write_bytes(b"")
    with pytest.raises(TesseraError) as error:
        tessera.load(tmp_path / "m.tessb", debug=True)
    assert error.value.code == "E0920"
