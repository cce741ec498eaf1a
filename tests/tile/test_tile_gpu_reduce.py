"""Reductions as threads do them, thread by thread: the canonical order for every layout that folds a block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.types import AxisType
from tesserac.numerics.order import Blocks, block_sum
from tesserac.tile.gpu.model.layout import TEAM, WHOLE_WARP, Layout, reduction, row_reduction, shared_reduction
from tesserac.tile.gpu.model.types import FragmentType
from tesserac.tile.gpu.model.values import fragment, integer, text
from tesserac.tile.gpu.rows.reduce import expand_reductions
from tesserac.types.dtype import F32
from tesserac.types.policy import NO_POLICY
from tests.support.sampling import examples

FOLDS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {"sum": np.add, "max": np.maximum}


def places(layout: Layout, rank: int) -> np.ndarray:
    """[thread, register, dim]: the position that each register of each thread holds."""
    bits = (*layout.registers, *layout.lanes, *layout.warps)
    found = np.zeros((1 << len(bits), rank), int)
    for number, bit in enumerate(bits):
        if bit is not None:
            found[np.arange(1 << len(bits)) >> number & 1 == 1, bit[0]] += bit[1]
    return found.reshape(len(found) // layout.count, layout.count, rank)


def distribute(block: np.ndarray, layout: Layout) -> np.ndarray:
    at = places(layout, block.ndim)
    return block[tuple(at[..., d] for d in range(block.ndim))]


def collect(held: np.ndarray, ty: FragmentType) -> np.ndarray:
    """The block that threads hold; copies must agree."""
    if not ty.shape:
        assert np.all(held == held[0, 0])
        return held[0, 0]
    block = np.full(ty.shape, np.nan, np.float32)
    at = places(ty.layout, len(ty.shape))
    block[tuple(at[..., d] for d in range(len(ty.shape)))] = held
    assert np.array_equal(distribute(block, ty.layout), held, equal_nan=True)
    return block


class Threads:
    """Runs what a reduction was expanded to, on [thread, register] arrays."""

    def __init__(self, source: Value, block: np.ndarray, extent: int) -> None:
        self.extent = extent
        self.held = {source: distribute(block, fragment(source).layout)}

    def run(self, ops: list[Op]) -> None:
        for op in ops:
            self.held[op.results[0]] = getattr(self, op.name.removeprefix("gpu."))(op)

    def mask(self, op: Op) -> np.ndarray:
        ty, dim = fragment(op.result), integer(op, "dim")
        inside = places(ty.layout, len(ty.shape))[..., dim] < self.extent
        return np.where(inside, self.held[op.operands[0]], np.float32(op.attrs["value"]))

    def fold(self, op: Op) -> np.ndarray:
        source, result = fragment(op.operands[0]), fragment(op.result)
        dim, width, fold = integer(op, "dim"), integer(op, "width"), FOLDS[text(op, "kind")]
        held, columns = self.held[op.operands[0]], []
        for offset in result.layout.offsets:
            dropped = len(source.shape) != len(result.shape)
            start = {d + (dropped and d >= dim): step for d, step in offset.items()}
            steps = range(0, source.shape[dim], width)
            first, *others = [source.layout.register_at({**start, dim: start.get(dim, 0) + s}) for s in steps]
            total = held[:, first]
            for register in others:
                total = fold(total, held[:, register])
            columns.append(total)
        return np.stack(columns, axis=1)

    def butterfly(self, op: Op) -> np.ndarray:
        held = self.held[op.operands[0]]
        other = held[np.arange(len(held)) ^ integer(op, "lane")]
        return FOLDS[text(op, "kind")](held, other)

    def halve(self, op: Op) -> np.ndarray:
        source, result, held = fragment(op.operands[0]), fragment(op.result), self.held[op.operands[0]]
        dim, lane, step = integer(op, "dim"), integer(op, "lane"), integer(op, "step")
        lanes, columns = np.arange(len(held)), []
        for offset in result.layout.offsets:
            low, high = (source.layout.register_at({**offset, dim: offset.get(dim, 0) + far}) for far in (0, step))
            mine = np.where(lanes & lane, high, low)
            columns.append(FOLDS[text(op, "kind")](held[lanes, mine], held[lanes ^ lane, mine]))
        return np.stack(columns, axis=1)

    def relabel(self, op: Op) -> np.ndarray:
        return self.held[op.operands[0]]

    def convert(self, op: Op) -> np.ndarray:
        block = collect(self.held[op.operands[0]], fragment(op.operands[0]))
        return distribute(block, fragment(op.result).layout)


def run_reduction(block: np.ndarray, layout: Layout, kind: str, extent: int) -> np.ndarray:
    """The fold along dim 0 of the first `extent` of `block`."""
    source_type = FragmentType(block.shape, F32, NO_POLICY, layout)
    kept = list(range(1, block.ndim))
    result_type = FragmentType(block.shape[1:], F32, NO_POLICY, layout.project(kept))
    body = Block([source_type, AxisType(block.shape[0])])
    attrs = {"kind": kind, "axes": (0,), "order": Blocks()}
    b = Builder(body)
    total = b.value("gpu.reduce", body.args, result_type, attrs)
    b.op("gpu.yield", (total,))
    kernel = Builder(Block()).op("gpu.role", (), (), {"name": "", "first": 0, "warps": 1, "registers": 0}, [body])
    expand_reductions(kernel)
    threads = Threads(body.args[0], block, extent)
    threads.run(body.ops[:-1])
    (result,) = body.terminator.operands
    assert result.type == result_type
    return collect(threads.held[result], result_type)


@pytest.mark.one_in(2)
@given(
    st.sampled_from([(512,), (64,), (512, 16), (512, 4), (512, 2), (128, 16), (512, 64), (32, 8), (1, 4)]),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 512),
    st.sampled_from(["sum", "max"]),
    st.integers(0, 2**32),
)
@examples(80)
def test_all_threads_fold_in_the_canonical_order(
    shape: tuple[int, ...], warps: int, extent: int, kind: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    block = (rng.standard_normal(shape) * np.exp2(rng.integers(-12, 12, shape))).astype(np.float32)
    extent = min(extent, shape[0])
    result = run_reduction(block, shared_reduction(shape, 0, warps), kind, extent)
    present = np.moveaxis(block[:extent], 0, -1)
    expected = block_sum(present) if kind == "sum" else present.max(axis=-1)
    assert np.array_equal(result + np.float32(0), expected)


@given(
    st.sampled_from([(8, 128), (8, 256), (16, 64), (4, 256), (32, 32), (128, 8), (2, 128), (1, 64)]),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 4),
    st.integers(1, 256),
    st.integers(0, 2**32),
)
@examples(60)
def test_rows_that_lie_side_by_side_fold_in_the_canonical_order(
    shape: tuple[int, int], element: int, warp_bits: int, extent: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    block = (rng.standard_normal(shape) * np.exp2(rng.integers(-12, 12, shape))).astype(np.float32)
    extent, layout = min(extent, shape[1]), row_reduction(shape, element, 1 << warp_bits - 1)
    result = run_reduction(block.T, layout.project((1, 0)), "sum", extent)
    assert np.array_equal(result + np.float32(0), block_sum(block[:, :extent]))


@pytest.mark.parametrize("team", [TEAM, WHOLE_WARP])
@pytest.mark.parametrize("extent", [1, 63, 64, 65, 511, 512])
def test_teams_fold_in_the_canonical_order(extent: int, team: int) -> None:
    rng = np.random.default_rng(extent)
    block = (rng.standard_normal(512) * np.exp2(rng.integers(-12, 12, 512))).astype(np.float32)
    result = run_reduction(block, reduction((512,), 0, 4, team), "sum", extent)
    assert np.array_equal(result + np.float32(0), block_sum(block[:extent]))
