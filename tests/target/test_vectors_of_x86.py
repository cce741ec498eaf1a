"""What x86 does in vectors in its own way, tried on any machine: limits of integers, and reads at computed places. The
programs are in no other test, since compiled ones are kept by their text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tessera
from tesserac.target.cpu.elements import gathers, scalars
from tests.support.native_runs import compiled_equals_oracle

WHOLE = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "i4")
CASTS = "".join(
    f"def from_{real}(x: Tensor[N, {real}]): return {', '.join(f'cast(cast(x, {whole}), i64)' for whole in WHOLE)}\n"
    for real in ("f32", "f64")
)
POWERS = "".join(
    f"def powers_{real}(x: Tensor[N, {real}]): return exp(x), exp2(x), pow(x, -0.5), log(x), log2(x), log10(x)\n"
    for real in ("f32", "f64")
)
GATHERS = """
def columns(x: Tensor[M, N, f32], i: Tensor[K, i64]): return gather(x, i, axis=1)
def points(x: Tensor[M, N, f64], i: Tensor[K, i64], j: Tensor[K, i64]): return x[i, j]
def bytes(x: Tensor[N, i8], i: Tensor[K, i64]): return gather(x, i)
def nothing(x: Tensor[0, f32], i: Tensor[K, i64]): return gather(x, i)
"""


@pytest.fixture(autouse=True)
def as_on_x86(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (gathers, scalars):
        monkeypatch.setattr(module, "machine_of", lambda triple: "x86_64")
    yield
    compiled_equals_oracle.cache_clear()


def test_floats_become_the_nearest_integer_that_there_is() -> None:
    edges = [0.0, -0.0, 0.5, -0.9, 1e300, -1e300, np.inf, -np.inf, np.nan]
    for bits in (3, 4, 7, 8, 15, 16, 31, 32, 63, 64):
        for step in (-1.5, -1.0, 0.0, 1.0):
            edges += [2.0**bits + step, -(2.0**bits) + step, 2.0**bits * (1 + step * 2.0**-23)]
    run, values = compiled_equals_oracle(CASTS), np.resize(np.array(edges), 301)
    run("from_f64", values)
    with np.errstate(over="ignore"):
        run("from_f32", values.astype(np.float32))


@pytest.mark.one_in(2)
def test_computed_places_are_read_as_vectors() -> None:
    run, rng = compiled_equals_oracle(GATHERS), np.random.default_rng(0)
    x, i = rng.standard_normal((7, 40)), rng.integers(-7, 7, 150)
    j = rng.integers(-40, 40, 150)
    run("columns", x.astype(np.float32), j)
    run("points", x, i, j)
    run("bytes", rng.integers(-128, 127, 40).astype(np.int8), j)


def test_a_bad_place_among_good_ones_is_told() -> None:
    module, x = tessera.compile(GATHERS), np.ones((3, 40), np.float32)
    for bad in (40, -41, 2**40):
        places = np.zeros(150, np.int64)
        places[137] = bad
        with pytest.raises(tessera.TesseraError, match="gather") as told:
            module.columns(x, places)
        assert str(bad) in str(told.value)
    with pytest.raises(tessera.TesseraError):
        module.nothing(np.ones(0, np.float32), np.zeros(64, np.int64))


@pytest.mark.parametrize("real", ["f32", "f64"])
def test_powers_of_two_at_the_ends_of_their_range(real: str) -> None:
    """Where an instruction scales a vector by powers of two, or takes numbers apart, subnormal ones too."""
    info, rng = np.finfo(np.dtype(real.replace("f", "float"))), np.random.default_rng(0)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal, 1.0, np.sqrt(0.5)]
    few = info.smallest_subnormal * rng.integers(1, 1000, 40).astype(info.dtype)
    small, high = info.minexp - info.nmant + np.arange(-2, 4), info.maxexp + np.arange(-3, 2)
    exponents = np.concatenate([small, small * np.log(2), high, high * np.log(2)])
    run, values = compiled_equals_oracle(POWERS), np.concatenate([edges, few, exponents, rng.standard_normal(150)])
    run(f"powers_{real}", values.astype(info.dtype))
