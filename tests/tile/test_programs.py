"""Kernels as tile programs: every schedule has the bits of the meaning, as neutral tiles and as machine code."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessera
from tesserac.graph.build import build_module
from tesserac.graph.interp import run_function
from tesserac.graph.passes.place_kernels import PLACED, place_kernels
from tesserac.ir.core import Module, Op
from tesserac.ir.kernels import KERNEL
from tesserac.ir.passes import run_passes
from tesserac.ir.printer import print_module
from tesserac.pipeline import CALL_PASSES, GRAPH_PASSES, PROGRAM_PASSES, schedule_passes, tile_passes
from tesserac.schedule.machine import AARCH64
from tesserac.tile.dialect import grid
from tesserac.tile.trial import tiles_of
from tests.support import tile_eval, tile_kernel_eval
from tests.support.cpu_kernels import same_bits
from tests.support.kernel_programs import BLOCKS, PROGRAMS, arguments, scheduled
from tests.support.native_runs import compiled_equals_oracle
from tests.support.source_support import check_text, compile_to_forms, library


@cache
def placed(program: str) -> Module:
    """The forms of `f` with its kernel in it."""
    checked = check_text(program, "m", library())
    graph = run_passes(build_module(list(checked.functions.values()), {"m.f"}), CALL_PASSES, verify=True)
    place = place_kernels(tiles_of(AARCH64, PROGRAM_PASSES, schedule_passes(AARCH64)))
    return run_passes(graph, [place, *GRAPH_PASSES], verify=True)


@cache
def tiles(program: str) -> Module:
    return run_passes(placed(program), [*schedule_passes(AARCH64), *tile_passes(AARCH64)], verify=True)


def kernels(module: Module) -> list[Op]:
    return [op for op in module.ops if op.name == "tile.kernel"]


def dots(module: Module, args: list[np.ndarray], monkeypatch: pytest.MonkeyPatch) -> int:
    """How many products of blocks a run makes."""
    count = 0
    plain = tile_kernel_eval._Program.tile_dot

    def counted(self: tile_kernel_eval._Program, op: Op, operands: list[object]) -> list[object]:
        nonlocal count
        count += 1
        return plain(self, op, operands)

    monkeypatch.setattr(tile_kernel_eval._Program, "tile_dot", counted)
    tile_eval.run_host(module, "m.f", args)
    return count


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "any width"])  # which has its meaning beside it
def test_a_kernel_is_one_launch_without_workspace(name: str) -> None:
    module = tiles(PROGRAMS[name])
    assert len(kernels(module)) == 1, print_module(module)
    host = module.lookup("m.f")
    assert not [op for op in host.walk() if op.name == "schedule.buffer" and op.attrs["role"] == "workspace"]


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_every_schedule_has_the_bits_of_the_meaning(name: str, data: st.DataObject) -> None:
    blocks = data.draw(st.sampled_from(BLOCKS[1:]))
    program = scheduled(PROGRAMS[name], blocks)
    s, other = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 20))
    args = arguments(name, s, other, data.draw(st.integers(0, 99)))
    meaning = run_function(compile_to_forms(PROGRAMS[name]), "m.f", args)
    spanning = run_function(placed(program), "m.f", args)
    for got, other_form, wanted in zip(tile_eval.run_host(tiles(program), "m.f", args), spanning, meaning, strict=True):
        same_bits(other_form, wanted)
        same_bits(got, wanted)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("blocks", [None, (8, 16, 7), (33, 100, 50)])
@pytest.mark.parametrize("name", ["product", "causal", "bias", "largest"])
def test_machine_code_has_the_bits_of_the_meaning(name: str, blocks: tuple[int, ...] | None) -> None:
    compiled = tessera.compile(scheduled(PROGRAMS[name], blocks))
    for s, other in ((1, 1), (37, 70), (5, 4100)):
        args = arguments(name, s, other)
        meaning = run_function(compile_to_forms(PROGRAMS[name]), "m.f", args)
        got = compiled.f(*args)
        for one, wanted in zip(got if isinstance(got, tuple) else (got,), meaning, strict=True):
            same_bits(np.asarray(one), wanted)


@pytest.mark.one_in(6)
def test_a_schedule_changes_the_grid_and_not_the_bits() -> None:
    grids = {blocks: grid(kernels(tiles(scheduled(PROGRAMS["causal"], blocks)))[0]) for blocks in BLOCKS[1:]}
    assert len(set(map(str, grids.values()))) == len(grids)


@pytest.mark.one_in(8)
def test_masked_blocks_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {}
    for name in ("attention", "causal", "window"):
        module = tiles(scheduled(PROGRAMS[name], (8, 8, 8)))
        counts[name] = dots(module, arguments(name, 32, 32), monkeypatch)
        monkeypatch.undo()
    blocks = 32 // 8
    per_block = counts["attention"] // (2 * blocks * blocks)
    assert counts["causal"] == per_block * 2 * blocks * (blocks + 1) // 2
    assert counts["window"] == per_block * 2 * (2 * blocks - 1)


@pytest.mark.one_in(24)
@pytest.mark.parametrize(("dtype", "width"), [("f32", "8"), ("f32", "D"), ("bf16 @accum(f32)", "8")])
def test_causal_attention_of_the_library_passes_over_masked_blocks(
    dtype: str, width: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where only a run knows by what root scores are scaled."""
    tensors = ", ".join(f"{name}: Tensor[1, 384, {width}, {dtype}]" for name in "qkv")
    counts = []
    for causal in (False, True):
        module = tiles(f"def f({tensors}):\n    return attention(q, k, v, causal={causal})\n")
        rng = np.random.default_rng(0)
        kind = ml_dtypes.bfloat16 if "bf16" in dtype else np.float32
        args = [rng.standard_normal((1, 384, 8)).astype(kind) for _ in range(3)]
        counts.append(dots(module, args, monkeypatch))
        monkeypatch.undo()
    assert counts[1] * 6 == counts[0] * 5  # of three blocks of rows the first meets one of the two blocks of keys


def test_what_tiles_cannot_say_runs_as_its_meaning_and_says_why() -> None:
    program = """
@kernel
def f(x: KTile[S, 600, f32]) -> Tile[S, 600, f32]:
    T = tile.context()
    return sort(tile.load(x, rows=T.m), axis=1)
"""
    module = placed(program)
    function = module.lookup("m.f")
    assert not [op for op in function.walk() if op.name == KERNEL]
    ((_, why),) = function.attrs[PLACED]  # type: ignore[misc]
    assert str(why) == "a dim of size 600 that a program takes whole"
    x = np.random.default_rng(0).standard_normal((3, 600)).astype(np.float32)
    same_bits(np.asarray(tessera.compile(program).f(x)), run_function(compile_to_forms(program), "m.f", [x])[0])


NUMBERS = """
@kernel
def k(x: KTile[S, 8, {t}], by: float, eps: float = 0.5) -> Tile[S, 8, {t}]:
    T = tile.context()
    t = tile.load(x, rows=T.m)
    a, b = split(t * by + eps, 2, axis=-1)
    return concat([b, a], axis=-1)

def f(x: Tensor[S, 8, {t}]):
    return k(x, 3.0)

def g(x: Tensor[S, 8, {t}], by: Tensor[f64]):
    return k(x, by)
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["f32", "bf16 @accum(f32)"])
def test_numbers_and_roundings_are_in_the_program_and_parts_are_stored_one_by_one(dtype: str) -> None:
    text = NUMBERS.format(t=dtype)
    assert len([op for op in tiles(text).lookup("m.f").walk() if op.name == "tile.launch"]) == 1
    (kernel,) = kernels(tiles(text))
    assert [op.name for op in kernel.walk()].count("tile.store") == 2
    x = np.arange(40, dtype=np.float32).reshape(5, 8)
    wanted = np.roll(x * 3 + 0.5, 4, axis=1)
    given = x if dtype == "f32" else x.astype(ml_dtypes.bfloat16)
    module = tessera.compile(text)
    for got in (module.f(given), module.g(given, 3.0)):
        assert np.array_equal(np.asarray(got, np.float32), wanted.astype(given.dtype).astype(np.float32))


@pytest.mark.one_in(12)
def test_a_number_of_the_run_is_read_by_every_program() -> None:
    """It lies in memory without dims, which programs share parts of their code over."""
    run = compiled_equals_oracle(
        "def f(q: Tensor[B, S, 4, f64], k: Tensor[B, T, 4, f64], v: Tensor[B, T, 4, f64], t: Tensor[f64]):\n"
        "    return attention(q, k, v, causal=True, scale=t)\n"
    )
    q, k, v = np.random.default_rng(0).normal(size=(3, 2, 5, 4))
    np.testing.assert_array_equal(run("f", q, k, v, np.float64(0.5)), run("f", q, k, v, np.array(0.5)))
