"""Operands that are frozen are packed once: same bits, counted, and freed with the array."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tessera

SOURCE = """
param W: Tensor[160, 144, f32] = ones(160, 144) * 0.3

def product(a: Tensor[M, K, f32], b: Tensor[K, N, f32]) -> Tensor[M, N, f32]:
    return a @ b

def same_with_other_names(x: Tensor[P, Q, f32], y: Tensor[Q, R, f32]) -> Tensor[P, R, f32]:
    return x @ y + 1

def transposed(a: Tensor[M, K, f32], b: Tensor[N, K, f32]) -> Tensor[M, N, f32]:
    return a @ b.T

def five_rows(a: Tensor[5, K, f32], b: Tensor[K, N, f32]) -> Tensor[5, N, f32]:
    return a @ b

def layers(x: Tensor[M, N, f32], w: Tensor[L, N, N, f32]) -> Tensor[M, N, f32]:
    for i in range(L):
        x = x @ w[i]
    return x

@kernel.auto
def scores(q: Tile, k: Tile) -> Tile:
    return tile.dot(q, k.T)

def heads(q: Tensor[B, S, D, f32], k: Tensor[B, T, D, f32]) -> Tensor[B, S, T, f32]:
    return scores(q, k)

def with_param(a: Tensor[M, 160, f32]) -> Tensor[M, 144, f32]:
    return a @ W
"""


@pytest.fixture(scope="module")
def module() -> Any:
    return tessera.compile(SOURCE)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    gc.collect()
    before = tessera.frozen_memory()
    yield
    gc.collect()
    assert tessera.frozen_memory() == before


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def packs() -> int:
    return tessera.frozen_memory().packs


@pytest.mark.one_in(12)
@pytest.mark.parametrize("rows", [1, 3, 4, 7, 37, 400])
def test_a_frozen_operand_gives_the_same_bits_and_is_packed_once(module: Any, rows: int) -> None:
    a, b = numbers(rows, 200), numbers(200, 133)
    before, frozen = packs(), tessera.freeze(b)
    results = [module.product(a, b)]
    assert packs() == before
    results += [module.product(a, frozen) for _ in range(3)]
    assert packs() == before + (rows > 3)  # fewer rows read it as it lies
    assert all(result.tobytes() == results[0].tobytes() for result in results)


@pytest.mark.one_in(3)
def test_functions_share_a_pack_where_they_would_make_the_same_one(module: Any) -> None:
    a, b, before = numbers(9, 160), tessera.freeze(numbers(160, 160)), packs()
    module.product(a, b)
    assert module.same_with_other_names(a, b).tobytes() == (module.product(a, b) + 1).tobytes()
    assert packs() == before + 1
    module.transposed(a, b)
    assert packs() == before + 2


@pytest.mark.one_in(6)
def test_a_known_number_of_rows_and_layers_of_one_array(module: Any) -> None:
    b, before = tessera.freeze(numbers(200, 133)), packs()
    assert module.five_rows(numbers(5, 200), b).tobytes() == module.product(numbers(5, 200), b).tobytes()
    assert packs() == before + 1
    w, x = numbers(3, 136, 136) / 12, numbers(6, 136)
    frozen = tessera.freeze(w)
    assert module.layers(x, frozen).tobytes() == module.layers(x, w).tobytes() == module.layers(x, frozen).tobytes()
    assert packs() == before + 1 + 3


@pytest.mark.one_in(4)
def test_a_kernel_in_a_loop_over_leading_dims(module: Any) -> None:
    q, k, before = numbers(3, 5, 64), numbers(3, 300, 64), packs()
    expected = module.heads(q, k)
    assert np.allclose(expected, q @ k.transpose(0, 2, 1), rtol=1e-4, atol=1e-4) and packs() == before
    frozen = tessera.freeze(k)
    assert all(module.heads(q, frozen).tobytes() == expected.tobytes() for _ in range(2))
    assert packs() == before + 3


@pytest.mark.one_in(2)
def test_packs_are_counted_and_go_with_the_array_that_a_view_holds(module: Any) -> None:
    start = tessera.frozen_memory()
    frozen: Any = tessera.freeze(numbers(200, 192))
    module.product(numbers(4, 200), frozen)
    now = tessera.frozen_memory()
    assert now.bytes - start.bytes == 200 * 192 * 4 and now.packed_bytes - start.packed_bytes == 200 * 192 * 4
    view = frozen[:100]
    assert module.product(numbers(4, 100), view).tobytes() == module.product(numbers(4, 100), view.copy()).tobytes()
    assert packs() == start.packs + 2
    del frozen
    assert packs() == start.packs + 2
    del view
    assert tessera.frozen_memory() == start


@pytest.mark.one_in(2)
def test_new_memory_at_an_old_address_is_not_taken_for_what_was_there(module: Any) -> None:
    a = numbers(8, 256)
    for turn in range(20):
        b = numbers(256, 128) + np.float32(turn)
        frozen = tessera.freeze(b)
        assert module.product(a, frozen).tobytes() == module.product(a, b).tobytes()


def test_frozen_arrays_cannot_be_written(module: Any) -> None:
    frozen: Any = tessera.freeze(numbers(4, 4))
    with pytest.raises(ValueError, match="WRITEABLE"):
        frozen.setflags(write=True)
    assert tessera.freeze(frozen) is frozen


@pytest.mark.one_in(4)
def test_params_that_the_module_makes_are_packed_once(module: Any) -> None:
    fresh = tessera.compile(SOURCE)
    a, before = numbers(9, 160), packs()
    first = fresh.with_param(a)
    assert packs() == before + 1 and not fresh.params["W"].flags.writeable
    assert fresh.with_param(a).tobytes() == first.tobytes() == fresh.product(a, fresh.params["W"].copy()).tobytes()
    fresh.params = {"W": fresh.params["W"] * 2}
    gc.collect()
    assert fresh.with_param(a).tobytes() == (first * 2).tobytes()
    assert packs() == before  # it is the caller's, who may write it


@pytest.mark.one_in(4)
def test_many_threads_fill_and_free_packs_at_once(module: Any) -> None:
    a = numbers(5, 192)
    matrices = [numbers(192, 96) * np.float32(i) for i in range(6)]
    expected, wrong = [module.product(a, b).tobytes() for b in matrices], list[int]()
    shared = [tessera.freeze(b) for b in matrices]

    def work(own: int) -> None:
        for turn in range(60):
            which = (own + turn) % 6
            b = shared[which] if turn % 2 else tessera.freeze(matrices[which])
            if module.product(a, b).tobytes() != expected[which]:
                wrong.append(which)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.one_in(2)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_process_has_the_packs_of_its_parent(module: Any) -> None:
    a, b = numbers(5, 192), tessera.freeze(numbers(192, 96))
    expected, count = module.product(a, b).tobytes(), packs()
    child = os.fork()
    if child == 0:
        good = module.product(a, b).tobytes() == expected and packs() == count
        other = tessera.freeze(np.asarray(b) * 2)
        os._exit(0 if good and module.product(a, other) is not None else 1)
    assert os.waitpid(child, 0)[1] == 0
