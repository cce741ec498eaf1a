"""Kernels lowered to the CPU and run here: the bits of the interpreter of neutral Tile and of `numerics/`."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tesserac.ir.parser import parse_module
from tesserac.ir.printer import print_module, print_op
from tesserac.numerics.elementary import program
from tesserac.numerics.exact import fma
from tesserac.numerics.narrow import round_to_tf32, storage
from tesserac.numerics.order import CONTRACTION, block_sum, chain_contract
from tesserac.numerics.program import evaluate
from tesserac.schedule.costs.tiles import CPU_COLUMNS, CPU_ROWS
from tesserac.schedule.machine import MACHINES
from tesserac.tile.cpu.lower import buffer_bytes, lower_kernel
from tesserac.tile.cpu.target import AVX2, AVX512, BY_ARCH, NEON
from tesserac.tile.cpu.tiles import LoweringError
from tesserac.tile.dialect import kernel_memrefs, memref_type
from tesserac.types.dtype import F32, F64
from tests.support import tile_eval
from tests.support.cpu_kernels import HOST, compiled, lowered, same_bits
from tests.support.cpu_texts import DOTS, PLANE_SUM, RESCALED, TEXTS, elementwise, kernel
from tests.support.paths import CASES as PROGRAMS
from tests.support.sampling import examples

CASES = PROGRAMS / "tile"
CPU_CASES = ["vadd", "softmax", "matmul_f32_cpu", "matmul_bf16_cpu", "pack_f32_cpu", "pack_bf16_cpu"]
quick = examples(25)


def case(name: str) -> str:
    return (CASES / f"{name}.tile").read_text()


def numbers(shape: tuple[int, ...], dtype: np.dtype, seed: int = 0) -> np.ndarray:
    """Values of many binades, with zeros of both signs, infinities and NaN here and there where the type has them."""
    rng = np.random.default_rng(seed)
    if dtype.kind in "iu":
        return rng.integers(-100 if dtype.kind == "i" else 0, 100, size=shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, size=shape).astype(dtype)
    return np.asarray(rng.normal(size=shape) * 2.0 ** rng.integers(-8, 3, size=shape)).astype(dtype)


def with_specials(x: np.ndarray) -> np.ndarray:
    flat = x.reshape(-1)
    for step, value in ((7, 0.0), (11, -0.0), (29, np.inf), (31, -np.inf), (37, np.nan)):
        flat[step - 1 :: step] = value
    return x


# --- the four programs --------------------------------------------------------------------------------------------


@pytest.mark.one_in(4)
@pytest.mark.parametrize("target", [NEON, AVX2, AVX512], ids=lambda t: t.name)
@pytest.mark.parametrize("name", [*CPU_CASES, *TEXTS, *DOTS])
def test_lowered_text_parses_back(name: str, target: object) -> None:
    text = {**TEXTS, **DOTS}.get(name) or case(name)
    printed = "\n".join(print_op(op) for op in lowered(text, target))
    assert print_module(parse_module(printed)).strip() == printed.strip()


@pytest.mark.one_in(2)
@given(st.integers(0, 9000), st.integers(1, 3))
@quick
def test_vadd(n: int, ranges: int) -> None:
    x, y = (with_specials(numbers((n,), np.dtype("f4"), seed)) for seed in (0, 1))
    z = np.full(n, 9, np.float32)
    compiled(case("vadd")).run([x, y, z], {"N": n}, ranges=ranges)
    with np.errstate(all="ignore"):
        same_bits(z, x + y)


def softmax(x: np.ndarray) -> np.ndarray:
    run = {name: program(name, F32) for name in ("exp_int", "exp_frac", "ldexp")}
    whole, fraction = evaluate(run["exp_int"], x), evaluate(run["exp_frac"], x)
    with np.errstate(all="ignore"):
        top = np.max(whole, axis=-1, initial=-np.inf, keepdims=True)
        terms = evaluate(run["ldexp"], fraction, whole - top)
        terms = np.where(whole == -np.inf, np.float32(0), terms)
        return terms / block_sum(terms)[:, None]


@given(st.integers(0, 5), st.integers(0, 2600), st.integers(0, 9))
@example(3, 512, 0)
@example(2, 1024, 1)
@quick
def test_softmax(m: int, n: int, seed: int) -> None:
    x = numbers((m, n), np.dtype("f4"), seed) * np.float32(20)
    if seed % 3 == 0 and n:
        x[:, seed % n] = -np.inf
    y = np.full((m, n), 9, np.float32)
    compiled(case("softmax")).run([x, y], {"M": m, "N": n})
    same_bits(y, softmax(x))


def product(kind: str, a: np.ndarray, b: np.ndarray, ranges: int = 1) -> np.ndarray:
    sizes = {"M": a.shape[0], "K": a.shape[1], "N": b.shape[1]}
    pack = compiled(case(f"pack_{kind}_cpu"))
    (kernel,) = pack.kernels.values()
    size = buffer_bytes(memref_type(kernel_memrefs(kernel)[1]), HOST).evaluate(sizes)
    panels = np.full(size + 64, 0xFF, np.uint8)  # all NaN
    pack.run([b, panels], sizes, ranges=ranges)
    assert (panels[size:] == 0xFF).all()
    c = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    compiled(case(f"matmul_{kind}_cpu")).run([a, panels, c], sizes, ranges=ranges)
    return c


SMALL = st.one_of(st.integers(0, 40), st.integers(120, 140))


@pytest.mark.one_in(8)
@given(SMALL, st.one_of(SMALL, st.integers(500, 530)), st.one_of(SMALL, st.integers(500, 620)), st.integers(1, 3))
@example(1, 1, 1, 1)
@example(128, 512, 512, 1)
@example(129, 513, 1030, 2)
@quick
def test_matmul_f32(m: int, k: int, n: int, ranges: int) -> None:
    a, b = numbers((m, k), np.dtype("f4")), numbers((k, n), np.dtype("f4"), 1)
    same_bits(product("f32", a, b, ranges), chain_contract(a, b))


@pytest.mark.one_in(24)
@pytest.mark.parametrize("k", [4096, 4097, 3 * 4096, 5 * 4096 + 1, 7 * 4096 + 600])
def test_matmul_of_several_segments(k: int) -> None:
    a, b = numbers((3, k), np.dtype("f4")), numbers((k, 14), np.dtype("f4"), 1)
    same_bits(product("f32", a, b), chain_contract(a, b))


@pytest.mark.one_in(2)
@given(st.integers(0, 20), st.integers(0, 70), st.integers(0, 30))
@quick
def test_matmul_bf16(m: int, k: int, n: int) -> None:
    bf16 = np.dtype(ml_dtypes.bfloat16)
    a, b = numbers((m, k), bf16), numbers((k, n), bf16, 1)
    wide = chain_contract(a.astype(np.float32), b.astype(np.float32))
    same_bits(product("bf16", a, b), wide.astype(bf16))


def test_matmul_keeps_signs_of_zero_and_nan() -> None:
    a = with_specials(numbers((20, 9), np.dtype("f4")))
    b = with_specials(numbers((9, 25), np.dtype("f4"), 1))
    same_bits(product("f32", a, b), chain_contract(a, b))


# --- everything else, against the interpreter ---------------------------------------------------------------------


def memories(text: str, name: str, sizes: dict[str, int], special: bool) -> list[np.ndarray]:
    kernel = parse_module(text).lookup(name)
    made = []
    for seed, value in enumerate(kernel_memrefs(kernel)):
        ty = memref_type(value)
        spans = [(d.evaluate(sizes), s.evaluate(sizes)) for d, s in zip(ty.dims, ty.strides, strict=True)]
        count = 0 if any(d == 0 for d, _ in spans) else 1 + sum((d - 1) * s for d, s in spans)
        x = numbers((count,), storage(ty.dtype), seed)
        made.append(with_specials(x) if special and ty.dtype.is_float else x)
    return made


def check_kernel(text: str, name: str, sizes: dict[str, int], *, special: bool = False, ranges: int = 1) -> None:
    """Machine code and interpreter leave the same bits in all memory."""
    expected = memories(text, name, sizes, special)
    got = [x.copy() for x in expected]
    with np.errstate(all="ignore"):
        tile_eval.run_kernel(parse_module(text).lookup(name), expected, dict(sizes))
    compiled(text).run(got, sizes, name=name, ranges=ranges)
    for x, y in zip(got, expected, strict=True):
        same_bits(x, y)


DIM = st.one_of(st.integers(0, 9), st.integers(30, 70), st.integers(500, 530))


@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", TEXTS)
@given(sizes=st.fixed_dictionaries({"A": DIM, "B": DIM, "C": st.integers(0, 5)}), special=st.booleans())
@examples(12)
def test_kernels(name: str, sizes: dict[str, int], special: bool) -> None:
    check_kernel(TEXTS[name], name, sizes, special=special and "sum" not in name)


WITH_EXTREMES = ("f64", "f32", "tf32", "f16", "i64", "i32", "i16", "i8", "u64", "u32", "u8", "bool")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", WITH_EXTREMES)
@pytest.mark.parametrize("n", [0, 3, 16, 100, 517])
def test_every_element_type(dtype: str, n: int) -> None:
    check_kernel(elementwise(dtype), f"elementwise_{dtype}", {"A": n}, special=True)


def test_tiles_that_share_what_they_are_computed_from_are_walked_once() -> None:
    """Each map reads the one before it twice: there are 2 ** 60 ways to the block that is loaded."""
    body = "^(%l: scalar<f32>, %r: scalar<f32>):\n  %s = scalar.add(%l, %r) : scalar<f32>\n  form.yield(%s)\n}"
    result = "{maps = [[0], [0]]} : tile<[8], f32> {\n" + body
    doubled = [f"%t{i + 1} = tile.map(%t{i}, %t{i}) {result}" for i in range(60)]
    lines = "\n".join(["%n = index.dim() {dim = `A`} : index", "%zero = index.dim() {dim = `0`} : index",
        "%r = tile.axis(%zero, %n) : axis<8>", "%t0 = tile.load(%x, %r) : tile<[8], f32>", *doubled,
        "tile.store(%t60, %z, %r)"])  # fmt: skip
    arguments = "%p: index, %x: memref<[A], f32, global>, %z: memref<[A], f32, global>"
    (made,) = lowered(kernel("doubled", "`1`", arguments, lines))
    assert sum(op.name == "scalar.add" for op in made.walk()) == 60


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", DOTS)
@given(m=st.integers(0, 90), n=st.integers(0, 110), k=st.integers(0, 20))
@examples(15)
def test_products_that_pack_both_operands(name: str, m: int, n: int, k: int) -> None:
    dtype = np.dtype({"dot_f64": "f8", "dot_i32": "i4"}.get(name, "f4"))
    a, b, bias = numbers((m, k), dtype), numbers((k, n), dtype, 1), numbers((n,), dtype, 2)
    out = np.full((m, n), 9, dtype)
    left = np.ascontiguousarray(a.T) if "transposed" in name else a
    compiled(DOTS[name]).run([left, b, bias, out], {"A": m, "B": n, "C": k})
    shorten = round_to_tf32 if name == "dot_tf32" else np.asarray
    same_bits(out, chain_contract(shorten(a + a), shorten(b)) + bias)


def test_a_costly_row_is_computed_once() -> None:
    """The exponential of a row that many rows are multiplied by stands outside the loop over rows."""
    (kernel,) = lowered(TEXTS["repeated"])
    loops = [op for op in kernel.body.ops if op.name == "cpu.loop"]
    inside = {inner.name for loop in loops for inner in loop.walk()}
    assert "scalar.mul" in inside and "scalar.exp" not in inside
    assert any(op.name == "scalar.exp" for op in kernel.walk())


def test_maps_fuse_into_one_loop() -> None:
    """Two outputs of one chain of maps: one nest, nothing in scratch."""
    (kernel,) = lowered(TEXTS["broadcast"])
    names = [op.name for op in kernel.walk()]
    assert names.count("cpu.vector_loop") == 1 and names.count("cpu.store") == 2 and "cpu.scratch" not in names


@pytest.mark.one_in(2)
@given(m=st.integers(0, 40), n=st.integers(0, 50), k=st.integers(0, 11))
@quick
def test_an_accumulator_may_start_anywhere_and_be_rescaled(m: int, n: int, k: int) -> None:
    a, b, start = (numbers(s, np.dtype("f4"), i) for i, s in enumerate([(m, k), (k, n), (m, n)]))
    factor = numbers((m,), np.dtype("f4"), 3)
    out = np.full((m, n), 9, np.float32)
    compiled(RESCALED).run([a, b, factor, start, out], {"A": m, "B": n, "C": k})
    expected = start
    for low in range(0, k, 3):
        expected = expected * factor[:, None]
        for i in range(low, min(low + 3, k)):
            expected = fma(a[:, i, None], b[None, i], expected)
    same_bits(out, expected)


@given(planes=st.integers(0, 5), rows=st.integers(0, 64), columns=st.integers(0, 8))
@quick
def test_two_dims_fold_as_one_sequence(planes: int, rows: int, columns: int) -> None:
    x = numbers((planes, rows, columns), np.dtype("f4"))
    y = np.full(planes, 9, np.float32)
    compiled(PLANE_SUM).run([x, y], {"A": planes, "B": rows, "C": columns})
    same_bits(y + np.float32(0), block_sum(x.reshape(planes, rows * columns)))


# --- refusals -----------------------------------------------------------------------------------------------------

HEAD = """tile.kernel @k {config = #config<warps=1, roles="uniform">, grid = [`1`]} {
  ^(%p: index, %x: memref<[N], f32, global>, %y: memref<[N], f32, global>):
    %zero = index.dim() {dim = `0`} : index
    %n = index.dim() {dim = `N`} : index
    %i = tile.axis(%zero, %n) : axis<8>
"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            """    %t = tile.load(%x, %i) : tile<[8], f32>
    %u = tile.load(%y, %i) : tile<[8], f32>
    tile.store(%u, %x, %i)
    tile.store(%t, %y, %i)
    tile.return()
}""",
            "overwritten",
        ),
        (
            """    %t = tile.load(%x, %i) : tile<[8], f32>
    %u = tile.map(%t) {maps = [[0]]} : tile<[8], f32> {
      ^(%a: scalar<f32>):
        %j = scalar.index() {axis = 0} : scalar<f32>
        form.yield(%j)
    }
    tile.store(%u, %y, %i)
    tile.return()
}""",
            "iota",
        ),
    ],
)
def test_what_is_not_accepted_is_refused(body: str, message: str) -> None:
    (kernel,) = parse_module(HEAD + body).ops
    with pytest.raises(LoweringError, match=message):
        lower_kernel(kernel, HOST)


@pytest.mark.parametrize("arch", BY_ARCH)
def test_blocks_of_products_suit_the_registers_and_the_first_cache(arch: str) -> None:
    """No program packs a part of a panel, and a panel of the right operand stays near while left ones pass."""
    machine, target = MACHINES[arch], BY_ARCH[arch]
    for dtype in (F32, F64):
        micro, depth = target.micro(dtype), machine.panel_bytes // dtype.bytes
        assert all(rows % micro.rows == 0 for rows in CPU_ROWS)
        assert all(columns % micro.columns == 0 for columns in CPU_COLUMNS)
        right, left = (depth * width * dtype.bytes for width in (micro.columns, micro.rows))
        assert right + left <= machine.near_bytes and CONTRACTION.length % depth == 0
        assert micro.rows * micro.columns // micro.lanes + micro.columns // micro.lanes < target.registers
