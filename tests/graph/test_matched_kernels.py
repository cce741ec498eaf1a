"""`@kernel(implements=...)` of an operator: taken wherever the operator stands, or what comes to the same forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tessera
from tests.graph.test_chosen_kernels import interpreted, told

KERNEL = """
@kernel(implements=matmul{how})
def mine(a: KTile[P, Q, f32], b: KTile[Q, R, f32]) -> Tile[P, R, f32]{where}:
    T = tile.context()
    acc = tile.zeros((T.m, T.n), f32)
    for k in tile.range_k(a, T.k):
        acc += tile.dot({sign}tile.load(a, None, k, rows=T.m), {sign}tile.load(b, k, None, cols=T.n))
    return acc{wrong}
"""
"""Products of negated factors are those of the operator to the bit. A program that multiplies blocks as they lie in
memory is not taken: the compiler's own products have panels and variants that it has not."""
USES = """
def f(x: Tensor[M, K, f32], w: Tensor[K, N, f32]):
    return tanh(x @ w) + 1.0

def summed(x: Tensor[M, K, f32], w: Tensor[K, N, f32]):
    return einsum("mk, kn -> mn", x, w)

def slope(x: Tensor[M, K, f32], w: Tensor[K, N, f32]):
    return grad(lambda w: sum((x @ w) ** 3))(w)

def loops(x: Tensor[M, M, f32], w: Tensor[M, M, f32]):
    for i in range(3):
        w = x @ w
    return w

def batched(x: Tensor[B, M, K, f32], w: Tensor[B, K, N, f32]):
    return x @ w

def narrow(x: Tensor[M, K, f64], w: Tensor[K, N, f64]):
    return x @ w

def scheduled(x: Tensor[M, K, f32], w: Tensor[K, N, f32]):
    return op.matmul(x, w, tile_shape=(32, 32, 32))
"""
TAKEN = "`matmul` takes kernel `mine`"


def program(how: str = "", where: str = "", wrong: str = "", sign: str = "-") -> str:
    return KERNEL.format(how=how, where=where, wrong=wrong, sign=sign) + USES


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


@pytest.mark.one_in(48)
@pytest.mark.parametrize("function", ["f", "summed", "slope", "loops"])
def test_an_operator_takes_its_kernel_with_its_bits(function: str, tmp_path: Path) -> None:
    assert any(TAKEN in line for line in told(program(), tmp_path, function))
    shapes = [(9, 9), (9, 9)] if function == "loops" else [(9, 30), (30, 17)]
    args = [numbers(*shape) for shape in shapes]
    got = getattr(tessera.compile(program()), function)(*args)
    assert np.array_equal(got, getattr(tessera.compile(USES), function)(*args))
    assert np.array_equal(got, interpreted(program(), function, *args))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("function", ["batched", "narrow", "scheduled"])
def test_other_types_and_what_the_program_schedules_stay(function: str, tmp_path: Path) -> None:
    assert not any(TAKEN in line for line in told(program(), tmp_path, function))


@pytest.mark.one_in(4)
def test_a_plain_product_is_the_compilers_own(tmp_path: Path) -> None:
    assert any("does not take kernel `mine`: it would cost" in line for line in told(program(sign=""), tmp_path, "f"))


@pytest.mark.one_in(16)
def test_what_it_asks_of_sizes_and_targets_is_asked(tmp_path: Path) -> None:
    assert any("it is for cuda" in line for line in told(program(', target="cuda"'), tmp_path))
    text = program(where=" where P % 8 == 0")
    assert any(TAKEN in line and ", where " in line for line in told(text, tmp_path))
    for rows in (8, 9):
        args = numbers(rows, 4), numbers(4, 5)
        assert np.array_equal(tessera.compile(text).f(*args), tessera.compile(USES).f(*args))


@pytest.mark.one_in(2)
def test_kernels_of_one_operator_are_compared(tmp_path: Path) -> None:
    other = KERNEL.format(how=', target="cuda"', where="", wrong="", sign="-").replace("mine", "theirs")
    lines = told(other + program(), tmp_path)
    assert any(TAKEN in line for line in lines)
    assert any("does not take kernel `theirs`: it is for cuda" in line for line in lines)


@pytest.mark.one_in(8)
def test_a_wrong_kernel_is_found_where_the_operator_stands() -> None:
    with pytest.raises(tessera.TesseraError, match="`mine` gives the bits of `matmul`, which it implements"):
        tessera.compile(program(wrong=" + 1.0")).f(numbers(3, 4), numbers(4, 5))
    with pytest.raises(tessera.TesseraError, match="`mine` gives the bits of `matmul`, which it implements"):
        tessera.compile(program(wrong=" + 1.0")).mine(numbers(3, 4), numbers(4, 5))


@pytest.mark.one_in(2)
def test_the_body_of_a_function_is_recognised_where_it_is_written_out(tmp_path: Path) -> None:
    text = """
def swish(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return x * sigmoid(x * 1.5)

@kernel(implements=swish)
def swish_tiled(x: KTile[M, N, f32]) -> Tile[M, N, f32]:
    T = tile.context()
    t = tile.load(x, rows=T.m, cols=T.n)
    return t * sigmoid(t * 1.5)

def f(a: Tensor[B, 8, f32]):
    return exp(a * sigmoid(a * 1.5))

def other(a: Tensor[B, 8, f32]):
    return exp(a * sigmoid(a * 2.5))
"""
    assert any("takes kernel `swish_tiled`" in line for line in told(text, tmp_path))
    assert not any("takes kernel `swish_tiled`" in line for line in told(text, tmp_path, "other"))


MAPPED = """
def rows(x: Tensor[S, 24, f32], w: Tensor[24, f32]) -> Tensor[S, 24, f32]:
    return x * rsqrt(mean(x * x, axis=-1, keep=True) + 1e-5) * w

@kernel(implements=rows)
def rows_tiled(x: KTile[S, 24, f32], w: KTile[24, f32]) -> Tile[S, 24, f32]:
    T = tile.context()
    t = tile.load(x, rows=T.m)
    return t * rsqrt(mean(t * t, axis=-1, keep=True) + 1e-5) * tile.load(w)

def f(x: Tensor[B, S, 24, f32], w: Tensor[24, f32]):
    return vmap(lambda x: rows(x, w))(x)

def direct(x: Tensor[B, S, 24, f32], w: Tensor[B, 24, f32]):
    return vmap(rows_tiled)(x, w)

def twice(x: Tensor[A, B, S, 24, f32], w: Tensor[24, f32]):
    return vmap(vmap(lambda x: rows(x, w)))(x)
"""


@pytest.mark.one_in(6)
def test_a_mapped_kernel_has_one_more_dim_of_programs(tmp_path: Path) -> None:
    module, plain = tessera.compile(MAPPED), tessera.compile(MAPPED.replace("(implements=rows)", ""))
    x, w = numbers(2, 3, 5, 24), numbers(3, 24)
    for function, args in {"f": (x[0], w[0]), "direct": (x[0], w), "twice": (x, w[0])}.items():
        lines = told(MAPPED, tmp_path, function)
        assert any("runs as tiles" in line for line in lines), lines
        got = getattr(module, function)(*args)
        assert np.array_equal(got, interpreted(MAPPED, function, *args))
        if function != "direct":
            assert any("takes kernel `rows_tiled`" in line for line in lines), lines
            assert np.array_equal(got, getattr(plain, function)(*args))
