"""Layouts: every element has its place, and the hardware's addressing finds it where the layout put it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.layout import TEAM, WHOLE_WARP, Layout, blocked, parse_layout, reduction
from tesserac.tile.gpu.model.matrix import FMA, MMA, WGMMA, MatrixUnit, accumulator_layout, operand_layout
from tesserac.tile.gpu.model.shared import ATOM_BYTES, PANEL_BYTES, SharedLayout, descriptor, swizzle, tensor_box
from tesserac.types.dtype import BF16, F32

powers = st.integers(0, 6).map(lambda n: 1 << n)


def positions(layout: Layout, rank: int) -> list[tuple[int, ...]]:
    """The element that each register of each thread holds."""
    bits = (*layout.registers, *layout.lanes, *layout.warps)
    found = []
    for chosen in itertools.product((0, 1), repeat=len(bits)):
        place = [0] * rank
        for bit, is_set in zip(bits, chosen, strict=True):
            if bit is not None and is_set:
                place[bit[0]] += bit[1]
        found.append(tuple(place))
    return found


def assert_covers(layout: Layout, shape: tuple[int, ...]) -> None:
    """Every element is held, each by the same number of threads."""
    places = positions(layout, len(shape))
    expected = set(itertools.product(*(range(n) for n in shape)))
    assert set(places) == expected
    assert len(places) % len(expected) == 0
    assert {places.count(p) for p in list(expected)[:3]} == {len(places) // len(expected)}


@given(st.lists(powers, min_size=0, max_size=2), st.sampled_from([1, 2, 4, 8]), st.sampled_from([0, 1, 2]))
def test_blocked_layouts_cover_the_block(shape: list[int], element: int, warp_bits: int) -> None:
    layout = blocked(shape, element, 5, warp_bits, 1 << warp_bits)
    assert_covers(layout, tuple(shape))
    assert parse_layout(str(layout)) == layout


@given(
    st.sampled_from([1, 2, 4, 16, 64, 128, 512]), st.sampled_from([(), (2,), (4,)]), st.sampled_from([TEAM, WHOLE_WARP])
)
def test_reduction_layouts_put_the_64_lanes_on_a_team(size: int, before: tuple[int, ...], team: int) -> None:
    shape = (*before, size)
    layout = reduction(shape, len(shape) - 1, 4, team)
    assert_covers(layout, shape)
    assert all(bit is None for bit in layout.warps) and (team == WHOLE_WARP or layout.lanes[4] is None)
    for number in range(team):
        moved = sum(bit[1] for i, bit in enumerate(layout.lanes) if bit is not None and number >> i & 1)
        assert moved in (64 // team * number, moved if size < 64 else -1)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("unit", "shape", "registers"),
    [
        (MatrixUnit(FMA, 1, 8), (128, 128), 64),
        (MatrixUnit(FMA, 1, 4), (64, 128), 64),
        (MatrixUnit(MMA, 16, 8), (128, 128), 64),
        (MatrixUnit(MMA, 16, 8), (128, 256), 128),
        (MatrixUnit(MMA, 16, 4), (32, 64), 16),
        (MatrixUnit(WGMMA, 16, 8), (128, 256), 128),
        (MatrixUnit(WGMMA, 16, 4), (64, 64), 32),
    ],
)
def test_accumulators_cover_the_block_once(unit: MatrixUnit, shape: tuple[int, int], registers: int) -> None:
    layout = accumulator_layout(unit, shape)
    assert layout.count == registers
    places = positions(layout, 2)
    assert len(places) == len(set(places)) == shape[0] * shape[1]


def test_a_block_too_small_for_its_warps_is_refused() -> None:
    with pytest.raises(LoweringError, match="too small"):
        accumulator_layout(MatrixUnit(MMA, 16, 8), (16, 16))
    with pytest.raises(LoweringError, match="64 rows"):
        accumulator_layout(MatrixUnit(WGMMA, 16, 8), (64, 256))
    with pytest.raises(LoweringError, match="power of two"):
        blocked((96,), 4, 5, 2, 4)


def test_projection_drops_and_moves_dims() -> None:
    layout = accumulator_layout(MatrixUnit(MMA, 16, 4), (64, 64))
    bias = layout.project((1,))
    assert {p for (p,) in positions(bias, 1)} == set(range(64))
    turned = layout.project((1, 0))
    assert sorted(positions(turned, 2)) == sorted((j, i) for i, j in positions(layout, 2))
    assert layout.project((None,)).registers == ()


@pytest.mark.parametrize("shape", [(128, 32), (128, 64), (32, 128), (64, 256)])
def test_swizzled_stages_hold_each_element_once_and_avoid_conflicts(shape: tuple[int, int]) -> None:
    layout = operand_layout(MatrixUnit(MMA, 16, 8), shape, BF16, 0)
    rows, columns = shape
    offsets = {layout.offset(r, c) for r in range(rows) for c in range(columns)}
    assert offsets == set(range(0, layout.bytes, 2))
    for column in range(0, columns, 8):
        for row in range(0, rows, 8):
            banks = {layout.offset(row + i, column) % PANEL_BYTES // 16 for i in range(8)}
            assert len(banks) == 8, "ldmatrix would read eight rows in more than one go"


def test_plain_stages_are_rows() -> None:
    layout = operand_layout(MatrixUnit(FMA, 1, 8), (16, 128), F32, 1)
    assert layout.offset(3, 5) == (3 * 128 + 5) * 4


def test_descriptors_address_what_the_layout_stored() -> None:
    """wgmma finds element (m, k) of A and (k, n) of B by the descriptor's distances and the 128-byte swizzle."""
    a = SharedLayout((128, 192), 2, 64, True)
    b = SharedLayout((64, 256), 2, 64, True)
    left, right = descriptor(a, 1, 16), descriptor(b, 0, 16)
    assert not left.transposed and right.transposed
    for m, k in itertools.product(range(0, 128, 5), range(192)):
        step, inside = divmod(k, 16)
        plain = m // 8 * left.stride + m % 8 * PANEL_BYTES + left.steps[step] + inside * 2
        assert swizzle(plain) == a.offset(m, k)
    for k, n in itertools.product(range(64), range(0, 256, 3)):
        step, inside = divmod(k, 16)
        plain = n // 64 * right.leading + right.steps[step] + inside // 8 * right.stride
        plain += inside % 8 * PANEL_BYTES + n % 64 * 2
        assert swizzle(plain) == b.offset(k, n)


def test_descriptors_of_half_a_panel() -> None:
    b = SharedLayout((128, 32), 2, 32, True)
    right = descriptor(b, 0, 16)
    for k, n in itertools.product(range(128), range(32)):
        step, inside = divmod(k, 16)
        plain = right.steps[step] + inside // 8 * right.stride + inside % 8 * 64 + n * 2
        assert swizzle(plain, 0x30) == b.offset(k, n)
    assert right.transposed and right.constant_bits >> 62 == 2 and tensor_box(b) == (128, 32)


def test_a_layout_may_end_before_a_power_of_two() -> None:
    layout = accumulator_layout(MatrixUnit(WGMMA, 16, 8), (128, 192))
    assert layout.count == 96 and parse_layout(str(layout)) == layout
    assert {offset.get(1, 0) + lane for offset in layout.offsets for lane in (0, 2, 4, 6)} == set(range(192))
    assert layout.project((1,)).ends == ((0, 192),) and layout.project((1,)).count == 48
    assert layout.project((0,)).ends == () and layout.project((0,)).count == 2
    with pytest.raises(LoweringError, match="power of two"):
        layout.halved(1, 8)


def test_descriptor_bits() -> None:
    right = descriptor(SharedLayout((64, 256), 2, 64, True), 0, 16)
    assert right.constant_bits == (8192 >> 4) << 16 | (ATOM_BYTES >> 4) << 32 | 1 << 62
    assert tensor_box(SharedLayout((64, 256), 2, 64, True)) == (64, 64)
    with pytest.raises(LoweringError, match="128-byte panels"):
        descriptor(SharedLayout((128, 32), 2, 32, True), 1, 16)
