"""Schedules that a program gives: each has its effect on the code, and none on a bit."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.base.targets import laid_over
from tesserac.check.declarations.schedules import SETTINGS
from tesserac.commands.costs import kernel_facts
from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import Session
from tesserac.pipeline import Levels
from tesserac.schedule.dialect import launch_loops, launch_stages, launch_units
from tesserac.schedule.machine import AARCH64, SM_80, SM_90A, Machine
from tesserac.schedule.programs.grid import CPU_NOT_TAKEN, NOT_TAKEN
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.tile.gpu.lower import lower_module
from tesserac.tile.gpu.model.types import StagesType
from tesserac.tile.gpu.model.values import is_persistent, kernel_grid
from tests.support.cpu_kernels import same_bits

PRODUCT = """
@kernel{own}
def product(a: KTile[S, K, f32], b: KTile[K, L, f32]) -> Tile[S, L, f32]:
    T = tile.context()
    acc = tile.zeros((T.m, T.n), f32)
    for k in tile.range_k(a, T.k):
        acc += tile.dot(tile.load(a, None, k, rows=T.m), tile.load(b, k, None, cols=T.n))
    return acc

def through(a: Tensor[S, K, f32], b: Tensor[K, L, f32]): return product(a, b) * 2.0
def f(a: Tensor[S, K, f32], b: Tensor[K, L, f32]): return {call}
"""
WAYS = {
    "plain": ("", "product(a, b)"),
    "own": (".schedule(Schedule(block=(32, 48, 16), warps=2, stages=3))", "product(a, b)"),
    "of a call": ("", "product.with_schedule(Schedule(block=(16, 24)).k(40).warps(2))(a, b)"),
    "of a call before its own": (
        ".schedule(Schedule(block=(32, 48, 16), stages=3))",
        "product.with_schedule(Schedule(BM=64))(a, b)",
    ),
    "through a function": ("", "through.with_schedule(Schedule(block=(8, 8, 8)))(a, b) * 0.5"),
    "twice": ("", "product.with_schedule(Schedule(BM=64)).with_schedule(Schedule(BN=96))(a, b)"),
    "tile shape": ("", "op.matmul(a, b, tile_shape=(48, 96, 64))"),
}
BLOCKS = {
    "own": (16, 32, 48), "of a call": (40, 16, 24), "of a call before its own": (16, 64, 48),
    "through a function": (8, 8, 8), "tile shape": (48, 96, 64),
}  # fmt: skip
"""Of loops in their order: terms, rows, columns; of a product rows, columns, terms."""


def text(way: str) -> str:
    own, call = WAYS[way]
    return PRODUCT.format(own=own, call=call)


def levels(program: str, machine: Machine, function: str = "f") -> Levels:
    session, source = Session(verify=True), SourceFile("m.tess", program)
    return session.levels(source, session.function(source, function), machine)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("machine", [AARCH64, SM_90A], ids=lambda machine: machine.arch)
@pytest.mark.parametrize("way", [way for way in BLOCKS if way != "tile shape"])
def test_a_kernel_has_the_blocks_that_are_said(way: str, machine: Machine) -> None:
    (launch,) = [op for op in levels(text(way), machine).schedule.walk() if op.attrs.get("kind") == "program"]
    assert tuple(loop.block for loop in launch_loops(launch)[1:]) == BLOCKS[way]
    if machine is SM_90A and way == "own":
        assert launch_units(launch).warps == 2 and {stage.depth for stage in launch_stages(launch)} == {3}


def test_the_later_of_two_schedules_adds_to_the_earlier() -> None:
    (launch,) = [op for op in levels(text("twice"), AARCH64).schedule.walk() if op.attrs.get("kind") == "program"]
    assert tuple(loop.block for loop in launch_loops(launch)[2:]) == (64, 96)


BASE = "Schedule(block=(32, 48, 16), warps=2)"
BY_TARGET = f'{BASE}.on("cuda", Schedule(k=32, stages=3)).on("cuda:sm_90a", BM=64, k=64).on("cpu", block=(24, 96))'


@pytest.mark.one_in(3)
@pytest.mark.parametrize("way", ["own", "of a call"])
@pytest.mark.parametrize(
    ("machine", "blocks", "told"),
    [
        (AARCH64, (16, 24, 96), {"T_m of 24": "cpu", "T_n of 96": "cpu", "T_k of 16": ""}),
        (SM_80, (32, 32, 48), {"T_m of 32": "", "T_k of 32": "cuda"}),
        (SM_90A, (64, 64, 48), {"T_m of 64": "cuda:sm_90a", "T_k of 64": "cuda:sm_90a", "T_n of 48": ""}),
    ],
    ids=lambda value: value.arch if isinstance(value, Machine) else "",
)
def test_of_what_is_said_for_targets_the_narrowest_goes_first(
    machine: Machine, blocks: tuple[int, ...], told: dict[str, str], way: str
) -> None:
    own, call = (f".schedule({BY_TARGET})", "") if way == "own" else ("", f".with_schedule({BY_TARGET})")
    program = PRODUCT.format(own=own, call=f"product{call}(a, b)")
    (launch,) = [op for op in levels(program, machine).schedule.walk() if op.attrs.get("kind") == "program"]
    assert tuple(loop.block for loop in launch_loops(launch)[1:]) == blocks
    said = str(launch.attrs["reason"]).split("; ")
    for block, target in told.items():
        assert f"blocks {block}, as its schedule says{f' for {target}' if target else ''}" in said
    if machine.warps:
        assert launch_units(launch).warps == 2 and {stage.depth for stage in launch_stages(launch)} == {3}
        assert "stages as its schedule says for cuda" in said


def test_what_a_call_says_goes_before_what_its_kernel_says_for_a_target() -> None:
    own = '.schedule(Schedule(block=(32, 48)).on("cpu:aarch64", block=(16, 24)))'
    call = 'product.with_schedule(Schedule().on("cpu", BM=8).on("cuda", BN=8)).with_schedule(Schedule(k=40))(a, b)'
    made = levels(PRODUCT.format(own=own, call=call), AARCH64)
    (launch,) = [op for op in made.schedule.walk() if op.attrs.get("kind") == "program"]
    assert tuple(loop.block for loop in launch_loops(launch)[1:]) == (40, 8, 24)


def test_of_two_schedules_of_a_call_the_later_goes_first_wherever_it_says_something() -> None:
    earlier = (("m", 1), ("m@cuda", 2), ("m@cuda:sm_80", 3), ("n@cpu", 4))
    assert dict(laid_over(earlier, (("m@cuda", 5),))) == {"m": 1, "m@cuda": 5, "n@cpu": 4}
    assert dict(laid_over(earlier, (("m", 6),))) == {"m": 6, "n@cpu": 4}


@pytest.mark.parametrize(
    ("said", "blocks"),
    [
        ("Schedule(block=(32, 48, 16)).with_block(64, 96)", (16, 64, 96)),
        ("Schedule(block=(32, 48, 16)).k(40)", (40, 32, 48)),
        ("Schedule(BM=8).k(40).block(32, 48)", (40, 32, 48)),
        ("Schedule(k=40, block=(32, 48, 16))", (16, 32, 48)),
        ('Schedule(block=(32, 48, 16)).on("cpu", block=(64, 96))', (16, 64, 96)),
    ],
)
def test_a_copy_has_the_sizes_that_it_says_and_keeps_the_others(said: str, blocks: tuple[int, ...]) -> None:
    made = levels(PRODUCT.format(own=f".schedule({said})", call="product(a, b)"), AARCH64)
    (launch,) = [op for op in made.schedule.walk() if op.attrs.get("kind") == "program"]
    assert tuple(loop.block for loop in launch_loops(launch)[1:]) == blocks


def test_a_space_of_columns_says_nothing_of_rows() -> None:
    made = [
        levels(PRODUCT.format(own=f".autotune(space=dict({space}))", call="product(a, b)"), AARCH64)
        for space in ("BM=[192], BN=[96]", "BN=[96]", "warps=[4]")
    ]
    loops = [launch_loops(op) for level in made for op in level.schedule.walk() if op.attrs.get("kind") == "program"]
    rows, columns = [[loop[at].block for loop in loops] for at in (2, 3)]
    assert rows[0] == 192 and rows[1] == rows[2] != 96 and columns[:2] == [96, 96] != columns[2:] * 2


@pytest.mark.parametrize("name", ["f", "product"])
def test_a_schedule_that_a_kernel_cannot_have_is_told_where_it_stands(name: str) -> None:
    program = PRODUCT.format(own=".schedule(Schedule(block=(512, 512, 64)))", call="product(a, b)")
    session, source = Session(), SourceFile("m.tess", program)
    with pytest.raises(ProgramError) as caught:
        session.levels(source, session.function(source, name), SM_90A)
    (problem,) = caught.value.diagnostics
    assert program[problem.primary.span.start : problem.primary.span.end] == "Schedule(block=(512, 512, 64))"
    assert [program[one.span.start : one.span.end] for one in problem.secondary] == ["product(a, b)"] * (name == "f")


def test_a_product_has_the_blocks_of_its_tile_shape() -> None:
    found = [op for op in levels(text("tile shape"), AARCH64).schedule.walk() if op.attrs.get("kind") == "contract"]
    assert {tuple(loop.block for loop in launch_loops(op)) for op in found[:3]} == {BLOCKS["tile shape"]}


@pytest.mark.one_in(12)
def test_no_way_changes_a_bit() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((45, 70)).astype("f4"), rng.standard_normal((70, 101)).astype("f4")
    wanted = tessera.compile(text("plain")).f(a, b)
    for way in WAYS:
        same_bits(np.asarray(tessera.compile(text(way)).f(a, b)), np.asarray(wanted))


def test_settings_without_a_use_are_told() -> None:
    program = PRODUCT.format(own=".schedule(Schedule(warps=2, swizzle='xor', cluster=(2, 1)))", call="product(a, b)")
    (launch,) = [op for op in levels(program, AARCH64).schedule.walk() if op.attrs.get("kind") == "program"]
    told = str(launch.attrs["reason"])
    assert "warps of its schedule is not taken: a program is one thread" in told and told.count("not taken") == 3
    (launch,) = [op for op in levels(program, SM_90A).schedule.walk() if op.attrs.get("kind") == "program"]
    told = str(launch.attrs["reason"])
    assert "cluster of its schedule is not taken: no program shares" in told and "swizzle of its schedule" in told


def test_every_setting_of_a_schedule_is_taken_by_a_gpu_or_has_a_reason() -> None:
    taken = {"block", "warps", "stages", "roles"}
    assert set(SETTINGS) - taken <= set(NOT_TAKEN)
    assert set(SETTINGS) - {"block"} <= set(NOT_TAKEN) | set(CPU_NOT_TAKEN)


NARROW = """
@kernel.schedule(Schedule(block=({rows}, 128, 64), roles={roles}, persistent=True, swizzle="none", regs=64, vector=1))
def f(a: KTile[S, K, bf16 @accum(f32)], b: KTile[K, L, bf16 @accum(f32)]) -> Tile[S, L, f32]:
    T = tile.context()
    acc = tile.zeros((T.m, T.n), f32)
    for k in tile.range_k(a, T.k):
        acc += tile.dot(tile.load(a, None, k, rows=T.m), tile.load(b, k, None, cols=T.n))
    return acc
"""


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    ("machine", "rows", "roles", "said"),
    [
        (SM_90A, 128, (4, 8), ""),
        (SM_90A, 128, (4, 4), "4 warps copy and 8 compute"),
        (SM_90A, 32, (4, 8), "all warps copy and compute"),
        (SM_80, 128, (4, 8), "all warps copy and compute"),
    ],
)
def test_what_is_said_of_settings_is_what_the_target_does(
    machine: Machine, rows: int, roles: tuple[int, int], said: str
) -> None:
    made = levels(NARROW.format(rows=rows, roles=roles), machine)
    (launch,) = [op for op in made.schedule.walk() if op.attrs.get("kind") == "program"]
    told = str(launch.attrs["reason"])
    assert f"roles of its schedule is not taken: {said}" in told if said else "roles of its" not in told
    kernel, *_ = [op for op in lower_module(made.tile, machine).ops if op.name == "gpu.kernel"]
    real = {op.attrs["name"]: op.attrs["warps"] for op in kernel.walk() if op.name == "gpu.role"}
    assert real == ({"consumer": 8, "producer": 4} if "all warps" not in said else {})
    rings = [op.result.type for op in kernel.walk() if op.name == "gpu.alloc"]
    assert all(ring.layout.swizzled for ring in rings if isinstance(ring, StagesType)), "whatever is said of it"
    shown = "".join(f"{line}\n" for line in kernel_facts(kernel, machine, {"S": 256, "K": 512, "L": 256}))
    order = "one program after the other" if is_persistent(kernel) else "one program each"
    assert order in shown and "swizzled" in shown and all(f"as {name}" in shown for name in real)


@pytest.mark.parametrize(
    ("call", "figures"),
    [
        ("product.with_schedule(Schedule(block=(512, 512, 64), stages=4))(a, b)", ("1024 KiB", "227 KiB", "T_m = 512")),
        ("product.with_schedule(Schedule(block=(256, 256, 8), warps=1))(a, b)", ("65536 numbers", "8160")),
        ("op.matmul(a, b, tile_shape=(100, 100, 16))", ("100x100x16", "64x64x16")),
    ],
)
def test_what_the_machine_cannot_have_is_an_error_with_figures(call: str, figures: tuple[str, ...]) -> None:
    program = PRODUCT.format(own="", call=call)
    levels(program, AARCH64)
    with pytest.raises(ProgramError) as caught:
        levels(program, SM_90A)
    (problem,) = caught.value.diagnostics
    place = program[problem.primary.span.start : problem.primary.span.end]
    assert problem.code == "E0513" and all(figure in problem.title for figure in figures) and place in call


def test_blocks_that_end_inside_what_a_matrix_unit_adds_are_an_error_with_figures() -> None:
    """Their sums would have another order than under other schedules; of any other block inspect says what is held."""
    narrow = PRODUCT.replace("K, f32", "K, bf16 @accum(f32)").replace("K, L, f32", "K, L, bf16 @accum(f32)")
    program = narrow.format(own=".schedule(Schedule(block=(10, 20, 7)))", call="product(a, b)")
    with pytest.raises(ProgramError) as caught:
        levels(program, SM_90A)
    (problem,) = caught.value.diagnostics
    assert problem.code == "E0513" and "16 terms of bf16" in problem.title and "T_k are of 7" in problem.title
    [launch] = [op for op in levels(program.replace("7)", "16)"), SM_90A).schedule.walk() if "loops" in op.attrs]
    assert "hold blocks of 32 for these, and use 20" in str(launch.attrs["reason"])


@pytest.mark.parametrize("k", [48, 192, 3000])
def test_terms_that_do_not_divide_a_chain_are_an_error_with_figures(k: int) -> None:
    program = PRODUCT.format(own="", call=f"op.matmul(a, b, tile_shape=(96, 96, {k}))")
    with pytest.raises(ProgramError) as caught:
        levels(program, AARCH64)
    (problem,) = caught.value.diagnostics
    assert problem.code == "E0513" and str(k) in problem.title and "4096" in problem.title


@pytest.mark.one_in(12)
@pytest.mark.parametrize("setting", ["vector=1", "cluster=(2, 1)", 'raster="columns"', 'skew="load"', "regs=64"])
def test_a_setting_that_a_gpu_does_not_take_changes_nothing_and_the_reason_holds(setting: str) -> None:
    """The code is that without it, and has what the reason says it has in any case."""
    plain = NARROW.replace(', persistent=True, swizzle="none", regs=64, vector=1', "").format(rows=128, roles=(4, 8))
    said = levels(plain.replace("roles=", f"{setting}, roles="), SM_90A)
    (launch,) = [op for op in said.schedule.walk() if op.attrs.get("kind") == "program"]
    name = setting.split("=")[0]
    assert f"{name} of its schedule is not taken: {NOT_TAKEN[name]}" in str(launch.attrs["reason"])
    texts = [
        [emit_kernel(op).llvm for op in lower_module(made.tile, SM_90A).ops if op.name == "gpu.kernel"]
        for made in (said, levels(plain, SM_90A))
    ]
    assert texts[0] == texts[1]
    roles, *others = texts[0]
    holds = {
        "vector": all("cp.async.cg.shared.global.16" in text for text in others),
        "cluster": not any("multicast" in text or "cluster.ctarank" in text for text in texts[0]),
        "raster": [str(dim) for dim in kernel_grid(lower_module(said.tile, SM_90A).ops[0])][-2:]
        == ["ceil_div(S, 128)", "ceil_div(L, 128)"],
        "skew": roles.count("wgmma.wait") > 0,
        "regs": "setmaxnreg.inc" in roles and "setmaxnreg.dec" in roles,
    }
    assert holds[name]
