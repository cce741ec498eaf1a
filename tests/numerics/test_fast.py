"""`with numerics(fast):` is faster arithmetic: within its bounds, the same on every target, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.commands.inspection import about
from tesserac.driver.session import Session
from tesserac.graph.interp import run_function
from tesserac.ir.printer import print_module
from tesserac.numerics.approximate import APPROXIMATE, SUFFIX
from tesserac.numerics.elementary import program
from tesserac.numerics.program import evaluate
from tesserac.target.cpu.build import host_platform
from tesserac.types.dtype import F32, F64
from tests.support.source_support import compile_to_forms
from tests.tile.test_programs_gpu import emulated

EDGES = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 88.0, 88.8, 200.0, -86.0, -200.0, 1e30, -1e30, 1e-40], "f4")
BODY = "softmax(x) * 2.0 + exp(x) / sum(x * x, axis=1, keep=True) + tanh(x)"
FAST = f"def f(x: Tensor[M, N, f32]):\n    with numerics(fast):\n        return {BODY}\n"
PLAIN = f"def f(x: Tensor[M, N, f32]):\n    return {BODY}\n"


def numbers(*shape: int) -> np.ndarray:
    return (np.random.default_rng(0).standard_normal(shape) * 4).astype("f4")


@pytest.mark.parametrize("name", ["exp_fast", "exp2_fast", "tanh_fast"])
def test_bounds_of_functions(name: str) -> None:
    x = np.concatenate([np.linspace(-80, 80, 200_001), np.linspace(-1, 1, 100_001)]).astype("f4")
    exact = getattr(np, name.removesuffix(SUFFIX))(x.astype("f8"))
    error = np.abs(evaluate(program(name, F32), x) - exact) / np.maximum(np.abs(exact), 1e-300)
    bound = 2.0**-20 if name == "tanh_fast" else 2.0**-18 + np.abs(x) * (2.0**-23 if name == "exp_fast" else 0.0)
    assert np.all(error <= bound), (error - bound).max()


def test_edges_are_those_of_the_function() -> None:
    for name in ("exp", "exp2", "tanh"):
        fast, exact = (evaluate(program(n, F32), EDGES) for n in (name + SUFFIX, name))
        assert np.array_equal(np.isnan(fast), np.isnan(exact)) and np.array_equal(np.isinf(fast), np.isinf(exact))
        assert np.array_equal(fast == 0, exact == 0)


@pytest.mark.parametrize("name", ["exp_term", "exp_lifted"])
def test_terms_of_softmax(name: str) -> None:
    x = np.concatenate([numbers(5000) * 3, np.array([1e8, -1e8, -np.inf, 3e7], "f4")])
    for m in (20.0, float(np.rint(1e8 * np.log2(np.e)))):
        high = np.full_like(x, m)
        fast, exact = (evaluate(program(n, F32), x, high) for n in (name + SUFFIX, name))
        shown = (np.abs(exact) > 2.0**-120) & (x * np.log2(np.e) < m + 0.5)  # m is the largest exponent of its row
        np.testing.assert_allclose(fast[shown], exact[shown], rtol=2e-5)
        assert np.all(fast[exact <= 2.0**-120] <= 2.0**-119)


def test_f64_is_as_ever() -> None:
    x = np.linspace(-5, 5, 1001)
    for name, (arity, _) in APPROXIMATE.items():
        given = [x, np.full_like(x, 9.0)][:arity]
        exact = evaluate(program(name.removesuffix(SUFFIX), F64), *given)
        assert np.array_equal(evaluate(program(name, F64), *given), exact)


@pytest.mark.one_in(48)
def test_targets_and_the_interpreter_agree_to_the_bit() -> None:
    x = numbers(5, 40)
    wanted = run_function(compile_to_forms(FAST), "m.f", [x])[0]
    assert np.array_equal(tessera.compile(FAST).f(x), wanted)
    assert np.array_equal(emulated(FAST)(x)[0], wanted)
    exact = np.asarray(tessera.compile(PLAIN).f(x))
    assert not np.array_equal(wanted, exact)
    np.testing.assert_allclose(wanted, exact, rtol=1e-4, atol=1e-6)


@pytest.mark.one_in(2)
def test_it_shows_in_every_level_and_in_the_signature(tmp_path: Path) -> None:
    path = tmp_path / "m.tess"
    path.write_text(FAST)
    session, source = Session(), SourceFile(str(path), FAST)
    said = about(session, f"{path}:f", "cpu:aarch64")
    assert "numerics: fast (exp_fast 1; exp_term_fast 1; tanh_fast 1)" in said and "not taken" not in said
    function = session.function(source, "f")
    levels = session.levels(source, function, host_platform().schedule)
    for module in (levels.forms, levels.schedule, levels.tile):
        assert "scalar.exp_fast" in print_module(module)
    assert session.artifact(source, function, host_platform()).signature.numerics == "fast"


@pytest.mark.one_in(2)
def test_nothing_outside_the_block_changes() -> None:
    text = (
        "def inner(x: Tensor[M, N, f32]):\n    return exp(x) / sum(x, axis=1, keep=True)\n\n"
        "def f(x: Tensor[M, N, f32]):\n    with numerics(fast):\n        y = inner(x)\n    return inner(x), y, exp(x)\n"
    )
    x = np.abs(numbers(3, 20))
    usual, quick, alone = tessera.compile(text).f(x)
    plain = tessera.compile(text.replace("with numerics(fast):", "if True:")).f(x)
    assert np.array_equal(usual, plain[0]) and np.array_equal(alone, plain[2])
    assert not np.array_equal(quick, plain[1])


@pytest.mark.one_in(12)
def test_kernels_called_inside_have_it_too() -> None:
    text = "def f(q: Tensor[2, S, 8, f32]):\n    with numerics(fast):\n        return attention(q, q, q)\n"
    q = numbers(2, 30, 8)
    got = np.asarray(tessera.compile(text).f(q))
    exact = np.asarray(tessera.compile(text.replace("with numerics(fast):", "if True:")).f(q))
    assert not np.array_equal(got, exact)
    np.testing.assert_allclose(got, exact, rtol=1e-3, atol=1e-5)
