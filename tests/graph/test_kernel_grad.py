"""A kernel has the derivative of the function that it implements; its value is its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import tessera
from tesserac.graph.interp import run_function
from tesserac.graph.passes.place_kernels import placed_kernels
from tesserac.schedule.machine import SM_90A
from tests.support.source_support import compile_to_forms, normal
from tests.tile.test_user_kernels import levels

PROGRAM = """
@kernel(implements=attention)
def flash(q: KTile["BH", S, D, f32], k: KTile["BH", S2, D, f32], v: KTile["BH", S2, D, f32]) -> Tile["BH", S, D, f32]:
    T = tile.context()
    Q = tile.load(q, rows=T.m, cols=T.d)
    acc, m, l = tile.zeros((T.m, T.d), f32), tile.full((T.m,), -INF), tile.zeros((T.m,), f32)
    for n in tile.range_n(k, T.n):
        s = tile.dot(Q, tile.transpose(tile.load(k, n, cols=T.d))) * tile.rsqrt(float(T.d))
        p, mc, lc = tile.softmax_online(s)
        acc, m, l = tile.softmax_accumulate(acc, m, l, p, tile.load(v, n, cols=T.d), mc, lc)
    return acc / l[:, None]

def by_kernel(q: Tensor[B, S, D, f32], k: Tensor[B, T, D, f32], v: Tensor[B, T, D, f32]) -> Tensor[f32]:
    return sum(flash(q, k, v) ** 2)

def by_meaning(q: Tensor[B, S, D, f32], k: Tensor[B, T, D, f32], v: Tensor[B, T, D, f32]) -> Tensor[f32]:
    return sum(attention(q, k, v) ** 2)

def first(q: Tensor[B, S, D, f32], k: Tensor[B, T, D, f32], v: Tensor[B, T, D, f32]):
    wrt = ("q", "k", "v")
    return value_and_grad(by_kernel, wrt=wrt)(q, k, v), value_and_grad(by_meaning, wrt=wrt)(q, k, v)

def second(q: Tensor[B, S, D, f32], k: Tensor[B, T, D, f32], v: Tensor[B, T, D, f32]):
    return hvp(by_kernel)(q, k, v, q), hvp(by_meaning)(q, k, v, q)

def mapped(q: Tensor[R, B, S, D, f32], k: Tensor[B, T, D, f32], v: Tensor[B, T, D, f32]):
    axes = (0, None, None)
    inside, meaning = vmap(grad(by_kernel), in_axes=axes)(q, k, v), vmap(grad(by_meaning), in_axes=axes)(q, k, v)
    return inside, meaning, grad(lambda rows: sum(vmap(flash, in_axes=axes)(rows, k, v) ** 2))(q)

def over_cache(q: Tensor[1, 2, 5, 4, f32], k: Tensor[1, 2, 5, 4, f32], v: Tensor[1, 2, 5, 4, f32]) -> Tensor[f32]:
    return sum(flash_attention(q, KVCache[1, 2, 8, 4, f32]().append(k, v), causal=True) ** 2)

def cached(q: Tensor[1, 2, 5, 4, f32], k: Tensor[1, 2, 5, 4, f32], v: Tensor[1, 2, 5, 4, f32]):
    plain = grad(lambda a, b, c: sum(attention(a, b, c, causal=True) ** 2), wrt=(0, 1, 2))(q, k, v)
    return grad(over_cache, wrt=(0, 1, 2))(q, k, v), plain

"""
CUBED = """
@kernel
def cubed(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    T = tile.context()
    t = tile.load(x, rows=T.m, cols=T.n)
    return t * t * t
"""
PROGRAM += (
    CUBED
    + """
def value(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return vmap(cubed)(x[None])[0]
"""
)
DRAWN = """
def noisy(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return dropout(x, 0.5)

@kernel(implements=noisy)
def noisy_tiles(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    T = tile.context()
    return dropout(tile.load(x, rows=T.m, cols=T.n), 0.5)

def f(x: Tensor[M, N, f32]) -> (Tensor[f32], Tensor[M, N, f32]):
    return value_and_grad(lambda v: sum(noisy_tiles(v)))(x)
"""
ALONE = (
    CUBED
    + """
def f(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return grad(lambda v: sum(cubed(v)))(x)
"""
)


def run(function: str, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """The results of a function for normal arguments of these shapes, by the interpreter."""
    args = [normal(seed, *shape) for seed, shape in enumerate(shapes)]
    return run_function(compile_to_forms(PROGRAM), f"m.{function}", args)


def agree(own: Sequence[np.ndarray], meaning: Sequence[np.ndarray]) -> None:
    for mine, other in zip(own, meaning, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)


@pytest.mark.one_in(16)
def test_a_kernel_has_the_gradient_of_what_it_implements() -> None:
    found = run("first", (2, 5, 4), (2, 7, 4), (2, 7, 4))
    np.testing.assert_array_equal(found[0], found[4])
    agree(found[1:4], found[5:])
    assert all(np.abs(slope).max() > 0.1 for slope in found[1:4])


@pytest.mark.one_in(24)
def test_and_its_second_derivative() -> None:
    own, meaning = run("second", (1, 3, 4), (1, 5, 4), (1, 5, 4))
    agree([own], [meaning])


@pytest.mark.one_in(4)
def test_mapped_kernels_have_it_too() -> None:
    inside, meaning, outside = run("mapped", (3, 1, 3, 4), (1, 5, 4), (1, 5, 4))
    agree([inside, outside], [meaning, meaning])


@pytest.mark.one_in(4)
def test_attention_of_the_library_over_a_cache() -> None:
    found = run("cached", *[(1, 2, 5, 4)] * 3)
    agree(found[:3], found[3:])


@pytest.mark.one_in(4)
def test_a_kernel_alone_still_computes_and_is_mapped() -> None:
    (found,), x = run("value", (3, 4)), normal(0, 3, 4)
    np.testing.assert_array_equal(found, x * x * x)


def test_a_kernel_that_draws_replays_its_own_numbers() -> None:
    value, slope = tessera.compile(DRAWN).f(np.ones((4, 8), "f4"))
    assert value == slope.sum() and 0 < np.count_nonzero(slope) < 32


def test_a_kernel_alone_has_no_derivative() -> None:
    with pytest.raises(tessera.TesseraError) as caught:
        tessera.compile(ALONE).f(np.ones((2, 3), "f4"))
    assert "E0702" in str(caught.value) and "implements=" in str(caught.value)


def test_a_kernel_with_leading_dims_runs_as_tiles_beside_its_derivative() -> None:
    """Its own body is a loop over programs, of which the derivative of what it implements computes nothing."""
    text = "def f(x: Tensor[B, S, 8, f32], c: Tensor[S, 4, f32], s: Tensor[S, 4, f32]):\n"
    text += "    y, back = vjp(lambda x: rotary_rows(x, c, s), x)\n    return y, back(x)\n"
    made = levels(text, SM_90A)
    assert [why for _, why in placed_kernels(made.forms.lookup("main.f"))] == [""]
    assert not [op for op in made.schedule.walk() if op.name == "schedule.loop"]
