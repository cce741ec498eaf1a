"""Kernels as people write them who know other tile languages: they run as tiles on a CPU and on a GPU, with the bits of
their meaning under every schedule.
"""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.graph.interp import run_function
from tesserac.graph.passes.place_kernels import kernel_limits, placed_kernels
from tesserac.ir.builder import Builder
from tesserac.ir.core import Module, VerifyError, clone_op
from tesserac.ir.verify import verify_module
from tesserac.schedule.machine import AARCH64, MACHINES, SM_90A, Machine
from tesserac.tile.gpu.barriers import insert_barriers
from tesserac.tile.gpu.model.errors import NoRolesError
from tesserac.tile.gpu.model.values import memory
from tesserac.types.dims import Dim
from tests.schedule.test_given_schedules import levels
from tests.support.cpu_kernels import same_bits
from tests.support.kernel_programs import scheduled
from tests.support.source_support import compile_to_forms
from tests.tile.test_programs_gpu import emulated, lowered

VARIANCE = """
@kernel
def f(x: KTile[S, L, f32]):
    T = tile.context()
    s, h = tile.zeros((T.m, 1), f32), tile.full((T.m, 1), -INF)
    for j in tile.range_k(x, T.k):
        t = tile.load(x, None, j, rows=T.m)
        s = tile.reduce_sum(t * t, axis=1, keep=True) + s
        h = maximum(h, tile.reduce_max(t, axis=1, keep=True))
    return s / L, h[:, 0]
"""
NORMED_PRODUCT = """
@kernel
def f(x: KTile[S, L, f32], w: KTile[L, 8, f32]):
    T = tile.context()
    s, a = tile.zeros((T.m, 1), f32), tile.zeros((T.m, 8), f32)
    for j in tile.range_k(x, T.k):
        t = tile.load(x, None, j, rows=T.m)
        s += tile.reduce_sum(t * t, axis=1, keep=True)
        a += tile.dot(t, tile.load(w, j))
    return a * rsqrt(s / L + 1e-5)
"""
SINKS_THEN_WINDOW = """
@kernel
def f(q: KTile[S, 16, f32], k: KTile[S, 16, f32], v: KTile[S, 16, f32]) -> Tile[S, 16, f32]:
    T = tile.context()
    x = tile.load(q, rows=T.m)
    acc, m, l = tile.zeros((T.m, T.d), f32), tile.full((T.m,), -INF), tile.zeros((T.m,), f32)
    for j in tile.range_n(k, T.n, stop=4):
        s = tile.dot(x, tile.transpose(tile.load(k, j)))
        tile.mask_causal(s, tile.row_index(), tile.col_index(j))
        p, mc, lc = tile.softmax_online(s)
        acc, m, l = tile.softmax_accumulate(acc, m, l, p, tile.load(v, j, cols=T.d), mc, lc)
    for j in tile.range_n(k, T.n, start=maximum(4, tile.row_index() - 23), stop=tile.row_index() + 1):
        p, mc, lc = tile.softmax_online(tile.dot(x, tile.transpose(tile.load(k, j))))
        acc, m, l = tile.softmax_accumulate(acc, m, l, p, tile.load(v, j, cols=T.d), mc, lc)
    return acc / l[:, None]
"""
ADDED_TO = """
@kernel
def f(x: KTile[S, L, f32], z: KTile[S, f32]):
    T = tile.context()
    s, h = tile.load(z, rows=T.m), tile.load(z, rows=T.m)
    for j in tile.range_k(x, T.k):
        t = tile.load(x, None, j, rows=T.m)
        s += tile.reduce_sum(t, axis=1)
        h = minimum(h, tile.reduce_min(t, axis=1))
    return s, h
"""
PRODUCT_ADDED_TO = """
@kernel
def f(x: KTile[S, L, f32], w: KTile[L, 8, f32], b: KTile[S, 8, f32]):
    T = tile.context()
    a = tile.load(b, rows=T.m)
    for j in tile.range_k(x, T.k):
        a += tile.dot(tile.load(x, None, j, rows=T.m), tile.load(w, j))
    return a
"""
SOFTMAX_OF_PRODUCT = """
@kernel
def f(x: KTile[S, L, f32], w: KTile[L, 8, f32]):
    T = tile.context()
    acc = tile.zeros((T.m, 8), f32)
    for j in tile.range_k(x, T.k):
        acc += tile.dot(tile.load(x, None, j, rows=T.m), tile.load(w, j))
    p = softmax(acc)
    return p, max(p, axis=1)
"""
HISTOGRAM = """
@kernel
def f(x: KTile[L, i32], bins: KTile[S, i32]):
    T = tile.context()
    c, b = tile.zeros((T.m,), i64), tile.load(bins, rows=T.m)
    for j in tile.range_n(x, T.n):
        c += tile.reduce_sum(cast(tile.load(x, j)[None, :] == b[:, None], i32), axis=1)
    return c
"""
SHORT_LOOPS = """
@kernel
def f(x: KTile[S, 16, f32], w: KTile[4, 16, f32]):
    T = tile.context()
    t, weights = tile.load(x, rows=T.m), tile.load(w)
    y = t
    for i in range(4):
        y = y * 0.5 + t * weights[i][None, :]
        for k in range(2):
            y = y - (y * y * y - t) / (3.0 * y * y + 1.0)
    return y
"""
PAGED = """
@kernel
def f(q: KTile[2, S, 16, f32], k: KTile[2, P, 16, f32], v: KTile[2, P, 16, f32], table: KTile[10, i32],
      slots: KTile[40, i32], end: KTile[1, i32]) -> Tile[2, S, 16, f32]:
    T = tile.context()
    x = tile.load(q, rows=T.m, cols=T.d)
    acc, m, l = tile.zeros((T.m, T.d), f32), tile.full((T.m,), -INF), tile.zeros((T.m,), f32)
    for j in tile.range_n(slots, T.n, stop=tile.load(end)[0] * 4 + 1):
        at = table[tile.col_index(j) // 4] * 4 + tile.col_index(j) % 4
        p, mc, lc = tile.softmax_online(tile.dot(x, tile.transpose(tile.load(k, at))) * 0.25)
        acc, m, l = tile.softmax_accumulate(acc, m, l, p, tile.load(v, at), mc, lc)
    return acc / l[:, None]
"""
ROWS_TAKEN = """
@kernel
def f(w: KTile[P, 16, f32], ids: KTile[S, 3, i32], g: KTile[16, f32]):
    T = tile.context()
    at = tile.load(ids, rows=T.m)
    x = tile.load(w, at[:, 0]) + w[at[:, 1]] - gather(w, at[:, 2])
    return x * rsqrt(mean(x * x, axis=-1, keep=True) + 1e-5) * g[None, :]
"""
PRODUCT_OF_ROWS_TAKEN = """
@kernel
def f(x: KTile[P, L, f32], order: KTile[S, i32], w: KTile[L, 8, i8], scale: KTile[40, 8, f32]):
    T = tile.context()
    at, acc = tile.load(order, rows=T.m), tile.zeros((T.m, T.n), f32)
    for k in tile.range_k(x, T.k):
        groups = scale[(tile.col_index(k) // 32)[:, None], tile.col_index()[None, :]]
        acc += tile.dot(tile.load(x, at, k), cast(tile.load(w, k, None, cols=T.n), f32) * groups)
    return acc
"""
CAUSAL_CONVOLUTION = """
@kernel
def f(x: KTile[S, 16, f32], w: KTile[4, 16, f32]):
    T = tile.context()
    y, r = tile.load(x, rows=T.m) * w[3][None, :], tile.row_index()
    for i in range(3):
        at = r - 3 + i
        y = y + where(at[:, None] >= 0, tile.load(x, maximum(at, 0)), 0.0) * w[i][None, :]
    return y
"""
RUNNING = """
@kernel
def f(x: KTile[S, 40, f32], q: KTile[S, 16, f32], k: KTile[40, 16, f32], g: KTile[40, i32]):
    T = tile.context()
    p, decay = softmax(tile.load(x, rows=T.m)), cumsum(cast(tile.load(g), f32), axis=0)
    s = tile.dot(tile.load(q, rows=T.m), tile.transpose(k)) * exp(-decay)[None, :]
    return where(cumsum(p, axis=1) - p < 0.9, p, 0.0), tile.dot(s, k), cummax(s, axis=1)
"""
PAIRS = """
@kernel
def f(x: KTile[2, S, 16, f32], c: KTile[S, 8, f32], s: KTile[S, 8, f32]):
    T = tile.context()
    t, co, si = tile.load(x, rows=T.m), tile.load(c, rows=T.m), tile.load(s, rows=T.m)
    a, b = t[:, 0::2], t[:, 1::2]
    return flatten(stack([a * co - b * si, a * si + b * co], axis=2), 1, 2)
"""
KERNELS = {
    "variance": (VARIANCE, "SL"),
    "normed product": (NORMED_PRODUCT, "SL L8"),
    "sinks, then a window": (SINKS_THEN_WINDOW, "Sd Sd Sd"),
    "added to": (ADDED_TO, "SL S"),
    "product added to": (PRODUCT_ADDED_TO, "SL L8 S8"),
    "softmax of a product": (SOFTMAX_OF_PRODUCT, "SL L8"),
    "histogram": (HISTOGRAM, "iL iS"),
    "short loops": (SHORT_LOOPS, "Sd 4d"),
    "pages": (PAGED, "2Sd 2Pd 2Pd it iP i1"),
    "rows taken": (ROWS_TAKEN, "Pd iS3 d"),
    "product of rows taken": (PRODUCT_OF_ROWS_TAKEN, "PL iS bL8 P8"),
    "causal convolution": (CAUSAL_CONVOLUTION, "Sd 4d"),
    "running folds": (RUNNING, "SP Sd Pd iP"),
    "pairs": (PAIRS, "2Sd S8 S8"),
}
SHIFTED = """
@kernel
def f(x: KTile[S, 16, f32], w: KTile[16, 8, f32]):
    T = tile.context()
    t = tile.load(x, rows=T.m)
    n = t * rsqrt(mean(t * t, axis=-1, keep=True) + 1e-5)
    y = concat([n[:, 8:] * 2.0, -n[:, :8]], axis=1) + roll(n, -5, axis=1)
    padded = pad(t, ((0, 0), (3, 0)))
    return tile.dot(y, w), flip(t, axis=1) + padded[:, 0:16] * 0.5 + padded[:, 2:18]
"""
INTEGERS = {"i": "i4", "b": "i1"}
MEANT = {
    "reshape(softmax(t), (t.shape[0], 2, 8))": "a view of a computed tile that is no permutation",
}


def arguments(name: str, rows: int, length: int) -> list[np.ndarray]:
    sizes = {"S": rows, "L": length, "d": 16, "P": 40, "t": 10, **{digit: int(digit) for digit in "12348"}}
    made, rng = [], np.random.default_rng(length)
    for letters in KERNELS[name][1].split():
        shape = [sizes[letter] for letter in letters if letter not in INTEGERS]
        kind = INTEGERS.get(letters[0])
        made.append(rng.integers(0, 9, shape).astype(kind) if kind else rng.standard_normal(shape, "f4"))
    return made


def why(text: str, machine: Machine) -> list[str]:
    return [reason for _, reason in placed_kernels(levels(text, machine).forms.lookup("main.f"))]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("machine", [AARCH64, SM_90A], ids=lambda machine: machine.arch)
@pytest.mark.parametrize("name", KERNELS)
def test_they_run_as_tiles(name: str, machine: Machine) -> None:
    """One launch, and nothing in memory but arguments and results."""
    made = levels(KERNELS[name][0], machine)
    assert [reason for _, reason in placed_kernels(made.forms.lookup("main.f"))] == [""]
    assert [op.attrs["kind"] for op in made.schedule.walk() if op.name == "schedule.launch"] == ["program"]
    assert not [op for op in made.schedule.walk() if op.attrs.get("role") == "workspace"]


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", KERNELS)
def test_they_have_the_bits_of_their_meaning(name: str) -> None:
    text, args = KERNELS[name][0], arguments(name, 9, 1100)
    wanted = run_function(compile_to_forms(text), "m.f", args)
    found = [tessera.compile(scheduled(text, blocks)).f(*args) for blocks in (None, (5, 3, 300))]
    ways = [*(one if isinstance(one, tuple) else (one,) for one in found), emulated(text)(*args)]
    for results in ways:
        for got, expected in zip(results, wanted, strict=True):
            same_bits(np.asarray(got), np.asarray(expected))


@pytest.mark.one_in(8)
@pytest.mark.parametrize("machine", [MACHINES["x86-64-v4-amx"], SM_90A], ids=lambda machine: machine.arch)
def test_blocks_of_few_terms_are_as_matrix_units_add_them(machine: Machine) -> None:
    """A dim of 40 terms has one block, that ends behind it: what nobody has scheduled is never refused."""
    narrow = PAGED.replace("f32]", "bf16 @accum(f32)]")
    [launch] = [op for op in levels(narrow, machine).schedule.walk() if op.name == "schedule.launch"]
    assert f"blocks T_n of {64 if machine.matrix_unit and not machine.warps else 48}" in str(launch.attrs["reason"])


@pytest.mark.one_in(12)
def test_a_gpu_reads_parts_of_computed_tiles_where_they_stand() -> None:
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape, "f4") for shape in ((9, 16), (16, 8))]
    assert why(SHIFTED, SM_90A) == [""]
    for got, wanted in zip(emulated(SHIFTED)(*args), run_function(compile_to_forms(SHIFTED), "m.f", args), strict=True):
        same_bits(np.asarray(got), np.asarray(wanted))


NARROW = "bf16 @accum(f32)"
NARROW_ROWS = (
    PRODUCT_OF_ROWS_TAKEN.replace("L, f32]", f"L, {NARROW}]")
    .replace("L, 8, i8]", f"L, 64, {NARROW}]")
    .replace("cast(tile.load(w, k, None, cols=T.n), f32) * groups", "tile.load(w, k, None, cols=T.n)")
)
NARROW_PAGES = PAGED.replace("16, f32]", f"64, {NARROW}]").replace("KTile[40, i32]", "KTile[L, i32]")


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("text", "copies"), [(NARROW_ROWS, 1), (NARROW_PAGES, 3)])
def test_rows_that_products_read_are_copied_by_the_producer(text: str, copies: int) -> None:
    """Behind the loop once more, where a product is left to the next round; no element of them is in a register."""
    kernel = next(op for op in lowered(text).walk() if op.name == "gpu.kernel")
    consumer, producer = (op for op in kernel.walk() if op.name == "gpu.role")
    assert [op.name for op in producer.walk()].count("gpu.copy_rows") == copies
    assert not {"gpu.barrier", "gpu.gather", "gpu.copy_rows"} & {op.name for op in consumer.walk()}
    tables = {str(memory(op.operands[0]).dtype) for op in producer.walk() if op.name == "gpu.gather"}
    assert tables <= {"i32"}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("length", [64, 70])
def test_rows_are_copied_in_pieces_that_are_aligned_or_element_by_element(length: int) -> None:
    """Behind the end of the table nothing is read, and places before it count from there."""
    text, rng = PRODUCT_OF_ROWS_TAKEN.replace("i8]", "f32]").replace(" * groups", ""), np.random.default_rng(0)
    args = [rng.standard_normal((40, length), "f4"), rng.integers(-40, 40, 37).astype("i4")]
    args += [rng.standard_normal(shape, "f4") for shape in ((length, 8), (40, 8))]
    kernel = next(op for op in lowered(text).walk() if op.name == "gpu.kernel")
    assert [op.name for op in kernel.walk()].count("gpu.copy_rows") > 0
    for got, wanted in zip(emulated(text)(*args), run_function(compile_to_forms(text), "m.f", args), strict=True):
        same_bits(np.asarray(got), np.asarray(wanted))


@pytest.mark.one_in(6)
def test_a_barrier_in_a_role_is_refused() -> None:
    """The other warps would never arrive."""
    kernel = clone_op(next(op for op in lowered(NARROW_ROWS).walk() if op.name == "gpu.kernel"), {})
    role = next(op for op in kernel.walk() if op.name == "gpu.role")
    Builder.before(role.body.ops[0]).op("gpu.barrier")
    with pytest.raises(NoRolesError, match="other warps never arrive"):
        insert_barriers(kernel)
    with pytest.raises(VerifyError, match="other warps never arrive"):
        verify_module(Module([kernel]))


@pytest.mark.one_in(2)
def test_sizes_up_to_which_tiles_run_are_told() -> None:
    text = "@kernel\ndef f(x: KTile[S, D, f32]): return softmax(tile.load(x, rows=tile.context().m))\n"
    assert kernel_limits(levels(text, AARCH64).forms.lookup("main.f")) == [("main.f", Dim.sym("D"), 256)]


@pytest.mark.one_in(3)
def test_a_table_of_each_program_is_as_long_as_it_likes() -> None:
    """A loop takes the places that it needs of a row of it, which is no tile."""
    text = PAGED.replace("table: KTile[10, i32]", "table: KTile[2, 1, N, i32]").replace("table[", "table[0][")
    assert why(text, SM_90A) == [""] and kernel_limits(levels(text, SM_90A).forms.lookup("main.f")) == []


@pytest.mark.one_in(2)
def test_rows_that_are_not_there_are_told() -> None:
    w, ids, g = arguments("rows taken", 9, 1)
    f = tessera.compile(ROWS_TAKEN).f
    ids[5, 1] = -40
    f(w, ids, g)
    ids[5, 1] = 40
    with pytest.raises(tessera.TesseraError, match="index 40 is out of range for a dim of size 40"):
        f(w, ids, g)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("body", MEANT)
def test_what_is_no_tile_program_is_told_with_its_reason(body: str) -> None:
    text = f"""
@kernel
def f(x: KTile[S, 16, f32]):
    t = tile.load(x, rows=tile.context().m)
    return {body}
"""
    assert why(text, AARCH64) == [MEANT[body]]
