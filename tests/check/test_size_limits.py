"""Sizes that 64 bits do not hold: every one of them ends in a coded error, whoever computes it; none wraps."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessera
from tessera import TesseraError
from tesserac.target.magnitudes import LARGEST, Floats, TooLargeError, bound, parts, possible_parts, telling
from tesserac.types.dims import Dim, DimError, parse_dim
from tests.schedule.test_host_program import SYMBOLS, dims
from tests.support.sampling import examples

pytestmark = pytest.mark.slow

TOO_LARGE = {"E0949", "E0926", "E0315"}

# --- numbers -------------------------------------------------------------------------------------------------------

KINDS = {
    "an update": "    z = zeros(k, k, dtype=f64)\n    z[0, 0] = 1.0\n    return z[0, 0]",
    "a sort": "    return sort(arange(k))[0]",
    "a scan": "    return cumsum(arange(k))[0]",
    "a roll": "    return roll(sort(arange(k)), 1, axis=0)[0]",
    "a scatter": "    return scatter_add(zeros(k, dtype=f64), arange(3), ones(3, dtype=f64))[0]",
    "a product": "    x = sort(arange(k))\n    return (x[:, None] * x[None, :])[1, 1]",
    "a result": "    return zeros(k, k, dtype=f64)",
    "a loop": "    z = zeros(k, dtype=f64)\n    for i in range(3):\n        z = flip(z, axis=0) + 1.0\n    return z[1]",
    "a join": "    return sort(concat([arange(k), arange(k), arange(k)], axis=0))[0]",
}
SIZES = {"2^30": 1 << 30, "2^31": 1 << 31, "2^60": 1 << 60, "2^61": 1 << 61, "2^62": 1 << 62, "2^63 - 1": (1 << 63) - 1}
CALL = """
import sys, tessera
try:
    tessera.compile(sys.argv[1]).f(int(sys.argv[2]))
except tessera.TesseraError as error:
    print(error.code)
"""


def huge(kind: str, size: int) -> bool:
    """Whether no machine has the memory, so that the call ends before it touches any."""
    squared = "k, k" in KINDS[kind] or kind == "a product"
    return size >= (1 << 50) or (squared and size >= 1 << 30)


@pytest.mark.parametrize(("kind", "size"), [(k, s) for k in KINDS for s in SIZES if huge(k, SIZES[s])])
def test_a_number_that_is_too_large_is_a_coded_error(kind: str, size: str) -> None:
    with pytest.raises(TesseraError) as caught:
        tessera.compile(f"def f(k: int):\n{KINDS[kind]}\n").f(SIZES[size])
    assert caught.value.code in TOO_LARGE, str(caught.value)


@pytest.mark.one_in(12)
def test_a_process_lives_on_after_one() -> None:
    """Of a fault that would end the process by a signal, only another process can tell."""
    text = f"def f(k: int):\n{KINDS['an update']}\n"
    run = subprocess.run([sys.executable, "-c", CALL, text, str(1 << 31)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() in TOO_LARGE


# --- sizes of a call -----------------------------------------------------------------------------------------------

Call = Callable[[object, np.ndarray], object]
WAYS: dict[str, Call] = {"stub": lambda f, x: f(x), "fallback": lambda f, x: f(x=x)}  # type: ignore[operator]
BY_SYMBOL = {
    "result": "def f(x: Tensor[N, i8]):\n    return zeros(N*N*N, dtype=f32)\n",
    "workspace": "def f(x: Tensor[N, i8]):\n    z = zeros(N*N*N, dtype=f64)\n    z[0] = 1.0\n    return z[N - 1]\n",
    "guard": "def f(x: Tensor[N, i8]) where N*N*N == 0:\n    return x\n",
    "divisor": "def f(x: Tensor[N, i8]) where (N*N*N + 7) // 8 <= 64:\n    return x\n",
    "minimum": "def f(x: Tensor[N, i8]) where min(N*N*N, 1) == 0:\n    return x\n",
    "loop": "def f(x: Tensor[N, i8]):\n    z = zeros(1)\n    for i in range(2):\n"
    "        z = z + sort(zeros((i + 1)*N*N*N))[:1]\n    return z\n",
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", BY_SYMBOL)
def test_a_size_that_wraps_is_refused(kind: str, way: str) -> None:
    """N^3 of 2^22 is 2^66, which is 0 modulo 2^64."""
    function = tessera.compile(BY_SYMBOL[kind]).f
    with pytest.raises(TesseraError) as caught:
        WAYS[way](function, np.zeros(1 << 22, np.int8))
    assert caught.value.code in {"E0949", "E0926"}, str(caught.value)
    assert "N" in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_a_symbol_that_an_argument_gives_may_be_too_large(way: str) -> None:
    function = tessera.compile("def f(x: Tensor[N/4, 0, i8]):\n    return x\n").f
    with pytest.raises(TesseraError) as caught:
        WAYS[way](function, np.zeros((1 << 62, 0), np.int8))
    assert caught.value.code == "E0949"


@pytest.mark.parametrize("way", WAYS)
def test_no_elements_are_never_too_many(way: str) -> None:
    """A dim of 0 beside ones of 2^40: the product is 0, whatever stands in it."""
    both = "reshape(x[:, None, :] + y[None, :, :], (N*M*0,))"
    function = tessera.compile(f"def f(x: Tensor[N, 0, i8], y: Tensor[M, 0, i8]):\n    return {both}\n").f
    many = np.zeros((1 << 40, 0), np.int8)
    assert np.asarray(function(many, y=many) if way == "fallback" else function(many, many)).shape == (0,)


SIZED_BY_COUNTER = """
def f(x: Tensor[N, i64]):
    z = zeros(1, dtype=i64)
    for i in range(4):
        z = z + sum(sort(arange((i + 1)*(i + 1)*N)))
    return z
"""


def test_memory_that_grows_with_a_counter_is_as_large_as_it_gets() -> None:
    """Also the scratch of a kernel, and where the counter stands in several terms."""
    expected = sum(sum(range((i + 1) ** 2 * 3)) for i in range(4))
    np.testing.assert_array_equal(tessera.compile(SIZED_BY_COUNTER).f(np.zeros(3, np.int64)), [expected])


# --- bounds --------------------------------------------------------------------------------------------------------

large = st.one_of(st.integers(0, 20), st.integers(0, 1 << 40), st.sampled_from([(1 << k) for k in range(64)]))


@pytest.mark.one_in(4)
@examples(300)
@given(dims(), st.fixed_dictionaries({s: large for s in SYMBOLS}))
def test_a_bound_is_one(dim: Dim, symbols: dict[str, int]) -> None:
    """An expression whose parts are bounded is exact in 64 bits; so is what the telling ones among them bound."""
    floats = {name: float(value) for name, value in symbols.items()}
    every = list(parts(dim))
    fits = all(bound(part, floats, Floats()) < LARGEST for part in telling(every))
    for part in every:
        try:
            value = part.evaluate(symbols)
        except DimError:
            return  # what has no value a guard refuses
        assert not fits or abs(value) < 1 << 63


def test_numbers_alone_are_refused_while_compiling() -> None:
    with pytest.raises(TooLargeError, match="the size"):
        possible_parts(parse_dim("4611686018427387904*N"))
    assert possible_parts(parse_dim("2*N + 1")) == (parse_dim("2*N + 1"),)


def test_a_tensor_of_numbers_is_checked() -> None:
    with pytest.raises(TesseraError, match="has at least 36893488147419103232 bytes") as caught:
        tessera.compile("def f(x: Tensor[N, f64]):\n    return zeros(N, 2**31, 2**31, dtype=f64)\n")
    assert caught.value.code == "E0315"
