"""Products cut into as many programs as a call has threads for."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessera
from tesserac.numerics.order import chain_contract
from tesserac.schedule.dialect import launch_stages
from tesserac.schedule.machine import MACHINES
from tesserac.schedule.model.cuts import MANY_THREADS, PARAMETERS, PRODUCT_TURNS, block_rule, cut_of
from tesserac.tile.cpu.target import BY_ARCH
from tesserac.types.dtype import F32
from tests.schedule.test_horizontal import launches
from tests.support.sampling import examples

SOURCE = """
def product(a: Tensor[M, K, f32], b: Tensor[K, N, f32]) -> Tensor[M, N, f32]:
    return a @ b

def batched(a: Tensor[B, M, K, f32], b: Tensor[B, K, N, f32]) -> Tensor[B, M, N, f32]:
    return a @ b


def weights(x: Tensor[N, M, f32], w: Tensor[M, K, f32]) -> Tensor[M, K, f32]:
    return grad(lambda w: sum(gelu(x @ w)))(w)
"""
SHAPES = [
    [(1, 300), (300, 700)], [(7, 65), (65, 1030)], [(37, 1003), (1003, 777)], [(96, 40), (40, 400)],
    [(97, 130), (130, 33)], [(200, 4100), (4100, 50)], [(0, 8), (8, 500)], [(500, 0), (0, 70)], [(300, 200), (200, 0)],
]  # fmt: skip
BATCHES = [[(5, 33, 70), (5, 70, 129)], [(1, 128, 128), (1, 128, 128)], [(0, 40, 40), (0, 40, 40)]]
THREADS = (1, 2, 3, 16, 61)

sizes, blocks = st.integers(0, 5000), st.integers(1, 9)


@pytest.mark.one_in(3)
@given(sizes, sizes, sizes, blocks, blocks, blocks, blocks, st.integers(1, 200), st.integers(0, 1))
@examples(200)
def test_blocks_are_whole_units_that_fill_the_threads(
    leads: int, first: int, second: int, m: int, n: int, unit_first: int, unit_second: int, threads: int, square: int
) -> None:
    most = (m * unit_first, n * unit_second)
    numbers = (leads, first, second, *most, unit_first, unit_second, threads, square)
    given = dict(zip(PARAMETERS, numbers, strict=True))
    one, two = (rule.evaluate(given) for rule in block_rule())
    assert 0 < one <= most[0] and one % unit_first == 0
    assert 0 < two <= most[1] and two % unit_second == 0
    programs = leads * -(-first // one) * -(-second // two)
    units = leads * -(-first // unit_first) * -(-second // unit_second)
    assert programs >= min(units, threads) // 2, "half the threads at least, where there is work for them"


@pytest.mark.parametrize("arch", BY_ARCH)
def test_blocks_are_cut_where_register_blocks_are(arch: str) -> None:
    machine, micro = MACHINES[arch], BY_ARCH[arch].micro(F32)
    assert machine.register_block == (micro.rows, micro.columns)
    rest, columns = machine.product_units(F32, F32)
    assert micro.rows % rest == 0 and rest < micro.rows and columns == micro.columns


def test_many_threads_have_several_blocks_unless_each_packs_all_rows() -> None:
    """What is frozen is cut by columns where rows are few."""
    turns = {}
    for op in launches(SOURCE, "product", "x86-64-v4"):
        packed = tuple(stage.operand for stage in launch_stages(op) if "panel" in stage.layout)
        if (cut := cut_of(op)) is not None:
            turns[packed, cut.rows_first] = (cut.turns, cut.turns_from)
    several = (PRODUCT_TURNS, MANY_THREADS)
    assert (turns[(0, 1), False], turns[(0,), True]) == (several, several)
    assert turns[(0,), False] == (1, MANY_THREADS)


def test_of_windows_many_threads_have_as_many_blocks() -> None:
    source = """
def windows(x: Tensor[N, C, H, W, f32], w: Tensor[O, C, 3, 3, f32]):
    return conv2d(x, w, padding=1)
"""
    for arch in ("x86-64-v4", "aarch64"):
        (cut,) = [cut for op in launches(source, "windows", arch) if (cut := cut_of(op)) is not None]
        assert (cut.turns, cut.turns_from) == (PRODUCT_TURNS, MANY_THREADS)


@pytest.mark.parametrize(
    ("shape", "threads", "block"),
    [((2048, 2048), 16, (516, 512)), ((512, 512), 16, (132, 128)), ((1024, 1024), 4, (516, 512)),
     ((1024, 1024), 2, (1032, 512)), ((37, 777), 16, (48, 64)), ((4096, 512), 16, (1032, 128))],
)  # fmt: skip
def test_blocks_of_many_threads_are_about_square(
    shape: tuple[int, int], threads: int, block: tuple[int, int]
) -> None:
    numbers = (1, shape[1], shape[0], 1024, 2048, 32, 12, threads, 1)
    given = dict(zip(PARAMETERS, numbers, strict=True))
    columns, rows = (rule.evaluate(given) for rule in block_rule())
    assert (rows, columns) == block


@pytest.mark.one_in(6)
def test_rows_beside_whole_register_blocks_have_the_bits_of_the_chain() -> None:
    module, rng = tessera.compile(SOURCE), np.random.default_rng(1)
    b = rng.standard_normal((45, 70)).astype("f4")
    for rows in range(9, 27):
        a = rng.standard_normal((rows, 45)).astype("f4")
        assert np.array_equal(module.product(a, b), chain_contract(a, b)), rows
    for rows, columns in itertools.product((1, 3, 5, 8), (1, 3, 4, 6, 7, 8, 9, 15, 19, 33, 63, 70)):
        a = rng.standard_normal((rows, 45)).astype("f4")
        assert np.array_equal(module.product(a, b[:, :columns]), chain_contract(a, b[:, :columns])), (rows, columns)


@pytest.mark.one_in(12)
def test_bits_are_those_of_one_thread() -> None:
    module, rng = tessera.compile(SOURCE), np.random.default_rng(0)
    calls = [(module.product, shapes) for shapes in SHAPES] + [(module.batched, shapes) for shapes in BATCHES]
    calls.append((module.weights, [(40, 300), (300, 70)]))
    before = tessera.get_num_threads()
    try:
        for function, shapes in calls:
            arguments = [rng.standard_normal(shape).astype("f4") for shape in shapes]
            found = [_on(threads, function, arguments) for threads in THREADS]
            assert len(set(found)) == 1, shapes
    finally:
        tessera.set_num_threads(before)


def _on(threads: int, function: Callable[..., np.ndarray], arguments: list[np.ndarray]) -> bytes:
    tessera.set_num_threads(threads)
    return np.asarray(function(*arguments)).tobytes()
