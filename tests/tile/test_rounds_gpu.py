"""Rounds of the gradient of attention on a GPU: what is loaded, masked and computed in each, and who has which."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tesserac.base.source import SourceFile
from tesserac.ir.core import Op
from tesserac.ir.passes import run_passes
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, kernels_of
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.tile.gpu.model.layout import parse_layout
from tesserac.tile.gpu.model.types import FALLS, RISES, WORK
from tesserac.tile.gpu.model.values import fragment, is_persistent
from tesserac.tile.gpu.products.spread import dealt
from tesserac.types.dtype import BOOL
from tests.support.gpu_kernels import tile_of

ARCH = "sm_90a"
BACK = """
half = bf16 @accum(f32)

def f(q: Tensor[B, S, 64, half], k: Tensor[B, S, 64, half], v: Tensor[B, S, 64, half], w: Tensor[B, S, 64, half]):
    y, back = vjp(lambda q, k, v: attention(q, k, v, causal=True), q, k, v)
    return back(w)
"""


@cache
def passes_back() -> tuple[Op, Op]:
    """The kernels for keys and values and for queries."""
    tiles = tile_of(SourceFile("m.tess", BACK), "f", ARCH)
    module = run_passes(tiles, [gpu_pass(PLATFORMS[ARCH].schedule)], verify=True)
    first = {op.attrs["variant_of"]: op for op in reversed(kernels_of(module))}
    with_roles = [op for op in first.values() if any(inner.name == "gpu.role" for inner in op.walk())]
    products = {op: sum(inner.name.startswith("gpu.multiply") for inner in rounds(op)) for op in with_roles}
    (keys,), (queries,) = ([op for op, many in products.items() if many == wanted] for wanted in (4, 3))
    return keys, queries


def rounds(kernel: Op) -> list[Op]:
    """All that the loop with the products runs."""
    consumer = next(op for op in kernel.walk() if op.attrs.get("name") == "consumer")
    loop = next(op for op in consumer.walk() if op.name == "gpu.for" and any("multiply" in i.name for i in op.body.ops))
    return list(loop.body.ops)


@pytest.mark.one_in(8)
def test_numbers_of_queries_are_loaded_once_by_each_warp_a_round_ahead() -> None:
    keys, _ = passes_back()
    ops = rounds(keys)
    loads = [fragment(op.result).layout for op in ops if op.name == "gpu.load"]
    assert [layout.count for layout in loads] == [4, 4] and all(None not in layout.lanes for layout in loads)
    assert sum(op.name == "gpu.spread" for op in ops) == 2
    carried = [fragment(op.operands[0]).layout for op in ops if op.name == "gpu.spread"]
    assert carried == loads, "what is spread was loaded in the round before"


@pytest.mark.one_in(8)
def test_masks_are_compared_where_they_choose() -> None:
    for kernel in passes_back():
        maps = [op for op in rounds(kernel) if op.name == "gpu.map"]
        assert not any(fragment(op.result).dtype == BOOL for op in maps)
        assert any("scalar.le" in {inner.name for inner in op.body.ops} for op in maps)


@pytest.mark.one_in(8)
def test_both_passes_begin_with_the_longest_programs() -> None:
    keys, queries = passes_back()
    assert (keys.attrs[WORK], queries.attrs[WORK]) == (FALLS, RISES)
    assert is_persistent(keys) and is_persistent(queries)
    assert "mov.b64 $0, $1;" in emit_kernel(keys).llvm, "places are computed where a mask fails"


def test_numbers_are_dealt_to_lanes_that_held_copies() -> None:
    wanted = parse_layout("r[0:1 0:8 0:16 0:32] l[0:2 0:4 - - -] w[- -]")
    few = dealt(wanted)
    assert few is not None and str(few) == "r[0:1] l[0:2 0:4 0:8 0:16 0:32] w[- -]"
    assert dealt(parse_layout("r[0:1 0:8] l[0:2 0:4 - - -] w[-]")) is None, "fewer numbers than lanes"
    assert dealt(parse_layout("r[0:1] l[0:2 0:4 0:8 0:16 0:32] w[-]")) is None, "no copies"


def test_blocks_of_threads_that_turn_round_have_about_as_much_to_do() -> None:
    """The order of Note [Persistent kernels], of 32 heads of 4096 keys."""
    blocks, heads, places = 132, 32, 32
    load = np.zeros(blocks, np.int64)
    for number in range(heads * places):
        wave, at = divmod(number, blocks)
        load[at if wave % 2 == 0 else blocks - 1 - at] += places - number // heads
    assert load.max() / load.mean() < 1.01
