"""Products of 16-bit numbers on GPUs: rows that are not aligned are copied first, blocks go by how many there are."""

from __future__ import annotations

from functools import cache

import pytest

from tesserac.base.source import SourceFile
from tesserac.commands.costs import is_taken
from tesserac.driver.session import Session
from tesserac.ir.core import Op, attr_tuple
from tesserac.schedule.dialect import Predicate, launch_kind, launch_loops, memory
from tesserac.schedule.machine import SM_90A
from tesserac.schedule.products import aligned
from tests.tile.test_tile_build import CASES, check, named, values

SESSION = Session(verify=True)
BLOCKS = [(64, 64), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64)]


@cache
def host(left: str, right: str, expression: str = "a @ b", dtype: str = "bf16 @accum(f32)") -> Op:
    text = f"h = {dtype}\ndef f(a: Tensor[{left}, h], b: Tensor[{right}, h]):\n    return {expression}\n"
    file = SourceFile("m.tess", text)
    return next(iter(SESSION.levels(file, SESSION.function(file, "f"), SM_90A).schedule.ops))


def launches(op: Op) -> list[Op]:
    return [inner for inner in op.walk() if inner.name == "schedule.launch"]


def blocks(op: Op) -> list[tuple[int, int]]:
    products = [launch_loops(launch) for launch in launches(op) if launch_kind(launch) == "contract"]
    return [(loops[-3].block, loops[-2].block) for loops in products]


def choice() -> Op:
    (found,) = [op for op in host("M, K", "K, N").body.ops if op.name == "schedule.select"]
    return found


def test_sizes_choose_between_rows_as_they_lie_and_copies() -> None:
    plain, copied = (region.block.ops for region in choice().regions)
    assert blocks(plain[0]) == BLOCKS and len(launches(plain[0])) == len(BLOCKS)
    kinds = [launch_kind(op) for op in copied if op.name == "schedule.launch"]
    assert kinds == ["map", "map"]
    for launch in launches(copied[-2]):
        rows = [str(memory(value).strides[0]) for value in launch.operands[:2]]
        assert rows == ["8*ceil_div(K, 8)", "8*ceil_div(N, 8)"]


@pytest.mark.parametrize(("m", "k", "n", "missing"), [(512, 512, 512, 0), (1024, 1024, 1024, 1), (512, 512, 7, 0)])
def test_the_predicate_asks_for_large_products_with_missing_elements(m: int, k: int, n: int, missing: int) -> None:
    (predicate,) = attr_tuple(choice(), "predicates", Predicate)
    sizes = {"M": m, "K": k + missing, "N": n}
    assert (predicate.left.evaluate(sizes) >= predicate.right.evaluate(sizes)) == (missing == 0)


def test_copies_take_no_memory_where_rows_are_aligned() -> None:
    rooms = [memory(op.result).dims[0] for op in host("M, K", "K, N").body.ops if op.attrs.get("role") == "workspace"]
    assert [room.evaluate({"M": 3, "K": 16, "N": 24}) for room in rooms] == [0, 0]
    assert [room.evaluate({"M": 3, "K": 16, "N": 25}) for room in rooms] == [3 * 16, 16 * 32]


@pytest.mark.parametrize(
    ("left", "right", "expression", "kinds"),
    [
        ("512, 1024", "1024, 512", "a @ b", ["contract"]),
        ("512, 1023", "1023, 512", "a @ b", ["map", "contract"]),
        ("512, 1024", "513, 1024", "a @ b.T", ["contract"]),
        ("3, 512, 1023", "3, 1023, 512", "a @ b", ["map", "contract"]),
        ("8, 15", "15, 8", "a @ b", ["contract"]),
        ("40, 129", "1, 1", "reshape(a, (5160, 1)) @ reshape(a, (1, 5160))", ["contract"]),  # rows are merged
    ],
)
def test_known_sizes_are_decided_at_once(left: str, right: str, expression: str, kinds: list[str]) -> None:
    assert [launch_kind(op) for op in launches(host(left, right, expression))] == kinds


def test_wide_numbers_are_read_as_they_lie() -> None:
    assert {launch_kind(op) for op in launches(host("M, K", "K, N", dtype="f32"))} == {"contract"}


@pytest.mark.parametrize("sizes", [(5, 7, 9), (6, 16, 9), (1, 9, 16)])
def test_copies_give_the_bits_of_the_meaning(sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aligned, "LEAST_WORK", 1)
    m, k, n = sizes
    args = [values(named("bf16"), (m, k)), values(named("bf16"), (k, n), 1)]
    check((CASES / "matmul_bf16.forms").read_text(), args, SM_90A, "matmul_bf16")


def test_costs_are_those_of_the_variant_that_runs() -> None:
    """One inside the other: the blocks of the aligned product, and that it is aligned."""
    text = "half = bf16 @accum(f32)\ndef f(a: Tensor[M, K, half], b: Tensor[K, N, half]): return a @ b\n"
    file = SourceFile("odd.tess", text)
    module = SESSION.levels(file, SESSION.function(file, "f"), SM_90A).schedule
    found = [op for op in module.walk() if op.name == "schedule.launch"]
    for size, kinds in ((1024, ["contract"]), (1001, ["map", "map", "contract"])):
        sizes = dict.fromkeys("MKN", size)
        assert [launch_kind(op) for op in found if is_taken(op, sizes)] == kinds
