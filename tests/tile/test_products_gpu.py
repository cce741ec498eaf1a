"""Products on a GPU: those of fp8 and i8 in matrix units, and what follows a product beside the next one."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from math import gcd

import pytest

from tesserac.base.source import SourceFile
from tesserac.ir.core import Module, Op
from tesserac.ir.passes import run_passes
from tesserac.ir.printer import print_op
from tesserac.target.compile import emit_object, host_machine
from tesserac.target.emit import Function
from tesserac.target.llvm_types import Value, const_i64
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.positions import Prepared, Together, grouped_place
from tesserac.target.nvptx.ptx import assemble, emit_ptx, find_ptxas
from tesserac.tile.gpu.model.types import WAITING
from tesserac.tile.gpu.model.values import fragment, integer, matrix_unit_of, memory
from tesserac.tile.gpu.products.finish import CONSUMER_REGISTERS, OTHER_REGISTERS
from tests.support.gpu_kernels import count, tile_of, variants_of
from tests.target.test_emit import integers

PROGRAMS = SourceFile(
    "products.tess",
    """
half = bf16 @accum(f32)
byte = fp8_e4m3 @accum(f32) @saturate

def rows(a: Tensor[M, K, byte], b: Tensor[N, K, byte]):
    return wide(a) @ wide(b).T

def columns(a: Tensor[M, K, byte], b: Tensor[K, N, byte]):
    return wide(a) @ wide(b)

def vector(a: Tensor[K, byte], b: Tensor[K, N, byte]):
    return wide(a) @ wide(b)

def bell(a: Tensor[M, K, half], b: Tensor[K, N, half], c: Tensor[N, half]):
    return erf(a @ b + c)

def biased(a: Tensor[M, K, half], b: Tensor[K, N, half], c: Tensor[N, half]):
    return a @ b + c

def short_bell(a: Tensor[M, 768, half], b: Tensor[768, N, half]):
    return erf(a @ b)

def wide_product(a: Tensor[M, K, half], b: Tensor[K, N, half]):
    return wide(a) @ wide(b)
""",
)


@cache
def tiles(name: str, arch: str = "sm_90a") -> Module:
    return tile_of(PROGRAMS, name, arch)


@cache
def kernels(name: str, arch: str = "sm_90a") -> dict[str, Op]:
    return variants_of(tiles(name, arch), name, arch)


def launched(name: str) -> list[Op]:
    return [op for op in tiles(name).walk() if op.name == "tile.kernel"]


def roles(kernel: Op) -> dict[str, Op]:
    return {str(op.attrs["name"]): op for op in kernel.body.ops if op.name == "gpu.role"}


# --- fp8 --------------------------------------------------------------------------------------------------------------


def test_sums_of_fp8_go_to_f32_every_128_terms() -> None:
    """Two products are under way: of 128 terms each, each from nothing, and both are added in order."""
    consumer = roles(kernels("rows")["$1"])["consumer"]
    (loop,) = (op for op in consumer.walk() if op.name == "gpu.for")
    assert integer(loop, "step") == 256
    products = [op for op in loop.body.ops if op.name == "gpu.multiply"]
    starts = [op.operands[4].defining_op for op in products]
    assert [made.name for made in starts if made is not None] == ["gpu.full", "gpu.full"]
    waits = [op for op in loop.body.ops if op.name == "gpu.wait_mma"]
    assert [integer(op, "pending") for op in waits] == [1, 0]
    added = [op for op in loop.body.ops if op.name == "gpu.map"]
    assert [op.operands[0] for op in added] == [loop.body.args[1], added[0].result]
    assert [op.operands[1] for op in added] == [op.results[0] for op in waits]


def test_large_blocks_of_fp8_are_summed_in_halves() -> None:
    """Both read one stage, which is given back behind the second."""
    consumer = roles(kernels("rows")["$0"])["consumer"]
    (loop,) = (op for op in consumer.walk() if op.name == "gpu.for")
    names = [op.name for op in loop.body.ops if op.name in ("gpu.multiply", "gpu.add_columns", "gpu.arrive")]
    assert names == ["gpu.multiply", "gpu.add_columns", "gpu.multiply", "gpu.arrive", "gpu.add_columns"]
    for name in ("gpu.multiply", "gpu.add_columns"):
        assert [integer(op, "first") for op in loop.body.ops if op.name == name] == [0, 128]
    assert integer(loop, "step") == 128


@pytest.mark.one_in(3)
def test_fp8_takes_the_matrix_unit_whatever_the_sizes() -> None:
    """Where rows are not aligned, or terms no neighbours, operands are copied; only one row by its type is a chain."""
    for name in ("rows", "columns"):
        multiplied = [op for op in launched(name) if any(inner.name == "tile.dot" for inner in op.walk())]
        assert multiplied and all('layout="terms"' in print_op(op) for op in multiplied)
        assert all(count(kernel, "gpu.multiply") for kernel in kernels(name).values() if count(kernel, "gpu.role"))
    assert len(launched("columns")) == len(launched("rows")) + 2, "two shapes of blocks that lie across"
    assert all('layout="terms"' not in print_op(op) for op in launched("vector"))


def test_older_gpus_multiply_fp8_in_chains() -> None:
    assert "wgmma" not in "".join(map(print_op, kernels("rows", "sm_80").values()))
    assert 'name="fma"' in print_op(kernels("rows", "sm_80")["$0"])


@pytest.mark.one_in(8)
@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed (package nvidia-cuda-nvcc)")
def test_warps_multiply_fp8_where_none_feeds_them() -> None:
    code = emit_ptx(emit_kernel(kernels("rows", "sm_89")["$0"]).llvm, "sm_89")
    assert len(re.findall(r"mma\.sync\.aligned\.m16n8k32\.row\.col\.f32\.e4m3\.e4m3\.f32", code)) == 2 * 4 * 4
    assembled = assemble(code, "sm_89")
    assert (assembled.spilled_bytes, assembled.notes) == (0, ())


@pytest.mark.one_in(4)
@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed (package nvidia-cuda-nvcc)")
def test_fp8_products_assemble() -> None:
    code = emit_ptx(emit_kernel(kernels("rows")["$0"]).llvm, "sm_90a")
    assert len(re.findall(r"m64n128k32\.f32\.e4m3\.e4m3", code)) == 8
    assembled = assemble(code, "sm_90a")
    assert (assembled.spilled_bytes, assembled.notes) == (0, ())
    code = emit_ptx(emit_kernel(kernels("rows")["$2_mma"]).llvm, "sm_90a")
    assert "mma.sync.aligned.m16n8k32" in code and assemble(code, "sm_90a").cubin


@pytest.mark.one_in(16)
def test_code_for_a_gpu_does_not_depend_on_what_was_compiled_before() -> None:
    """LLVM's switches belong to the process: one that was set for a CPU made products of bytes spill."""
    text = emit_kernel(kernels("rows")["$0"]).llvm
    before = emit_ptx(text, "sm_90a")
    machine = host_machine()
    emit_object(f'target triple = "{machine.triple}"\ndefine void @nothing() {{\n  ret void\n}}\n', machine)
    assert emit_ptx(text, "sm_90a") == before


# --- what follows a product -------------------------------------------------------------------------------------------


def test_what_follows_a_product_has_warps_of_its_own() -> None:
    found = roles(kernels("bell")["$1"])
    assert list(found) == ["consumer", "producer", "finisher"]
    assert "scalar.erf" in print_op(found["finisher"]) and "scalar.erf" not in print_op(found["consumer"])
    stored = [op.operands[1].type for op in found["consumer"].walk() if op.name == "gpu.store"]
    assert [str(ty).endswith("shared>") for ty in stored] == [True]
    places = [(integer(role, "first"), integer(role, "warps")) for role in found.values()]
    assert places == [(0, 8), (8, 1), (9, 3)]
    assert 2 * CONSUMER_REGISTERS + OTHER_REGISTERS == 3 * 168, "what 384 threads have"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["wide_product", "biased"])
def test_wide_sums_and_little_work_stay_with_those_that_have_the_sums(name: str) -> None:
    assert list(roles(kernels(name)["$1"])) == ["consumer", "producer"]


@pytest.mark.one_in(2)
def test_maps_join_a_product_where_they_run_beside_it() -> None:
    assert all(any(op.name == "tile.dot" for op in kernel.walk()) for kernel in launched("bell")[:5])
    assert "scalar.erf" in print_op(launched("bell")[0])
    for apart in (tiles("bell", "sm_80"), tiles("short_bell")):
        assert not any("scalar.erf" in print_op(op) and "tile.dot" in print_op(op) for op in apart.ops)


@pytest.mark.one_in(8)
@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed (package nvidia-cuda-nvcc)")
@pytest.mark.parametrize("variant", ["$1", "$2"])
def test_finishers_assemble_without_spills(variant: str) -> None:
    assembled = assemble(emit_ptx(emit_kernel(kernels("bell")[variant]).llvm, "sm_90a"), "sm_90a")
    assert (assembled.spilled_bytes, assembled.notes) == (0, ())


@pytest.mark.parametrize(("name", "accesses"), [("rows", [20]), ("short_bell", [])])
def test_what_copies_leave_of_shared_memory_has_sums_that_wait(name: str, accesses: list[int]) -> None:
    """Of 128 sums of a thread 80 beside three copies of 48 KiB; none where one segment is known to be all."""
    waiting = [op for op in kernels(name)["$0"].walk() if op.name == "gpu.alloc" and WAITING in op.attrs]
    assert [memory(op.result).dims[0].constant for op in waiting] == accesses


# --- the order of programs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "columns"), [(1, 5), (8, 3), (19, 4), (16, 1)])
def test_every_program_has_its_place(rows: int, columns: int) -> None:
    def place(which: int) -> object:
        def build(f: Function) -> Value:
            return grouped_place(f.builder, f.args[0], const_i64(rows), const_i64(columns), 8)[which]

        return integers(build, 1)

    parts = [place(which) for which in range(2)]
    found = [tuple(part(number) for part in parts) for number in range(rows * columns)]  # type: ignore[operator]
    assert sorted(found) == list(product(range(rows), range(columns)))
    first = [row for row, _ in found[: min(rows, 8)]]
    assert first == list(range(min(rows, 8))), "rows side by side"


@pytest.mark.parametrize(("others", "places", "blocks"), [(10, 4, 6), (7, 8, 6), (25, 3, 2), (1, 5, 132)])
def test_groups_of_ordered_programs_share_out_all_work(others: int, places: int, blocks: int) -> None:
    def found(which: int) -> object:
        def build(f: Function) -> Value:
            sizes = const_i64(others), const_i64(places)
            return Together(f.builder, lambda: const_i64(blocks), *sizes).divide(f.args[0])[which]

        return integers(build, 1)

    parts = [found(which) for which in range(2)]
    programs = [tuple(part(number) for part in parts) for number in range(others * places)]  # type: ignore[operator]
    assert sorted(programs) == list(product(range(places), range(others)))
    work, busy = [places - place for place, _ in programs], [0] * blocks
    for number, own in enumerate(work):
        wave, place = divmod(number, blocks)
        busy[blocks - 1 - place if wave % 2 else place] += own
    assert max(busy) <= sum(work) / blocks + places, "more than the last wave leaves undone"
    group = 2 * blocks // gcd(2 * blocks, places & -places)
    assert {other for _, other in programs[: group * places]} == set(range(min(group, others))), "one group first"


@pytest.mark.parametrize("which", [0, 1])
def test_a_prepared_divisor_divides_exactly(which: int) -> None:
    divided = integers(lambda f: Prepared(f.builder, f.args[1]).divide(f.args[0])[which], 2)
    sizes = [1, 2, 3, 7, 2**31 - 1, 2**32 + 1, 2**62, 2**63 - 1]
    numbers = {n for size in sizes for n in (0, 1, size - 1, size, 3 * size - 1, 2**63 - 1) if n < 2**63}
    for size, number in product(sizes, numbers):
        assert divided(number, size) == divmod(number, size)[which]


# --- i8 ---------------------------------------------------------------------------------------------------------------

INTEGERS = {
    "plain": ("a: Tensor[M, K, i8], b: Tensor[K, N, i8]", "a @ b", True),
    "batched": ("a: Tensor[B, M, K, i8], b: Tensor[N, K, i8]", "a @ b.T", True),
    "scaled": ("a: Tensor[M, K, i8], b: Tensor[K, N, i8], s: Tensor[N, f32]", "cast(a @ b, f32) * s", True),
    "vector": ("a: Tensor[M, K, i8], b: Tensor[K, i8]", "a @ b", False),
    "one row": ("a: Tensor[K, i8], b: Tensor[K, N, i8]", "expand(a[None, :], (40, K)) @ b", False),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize(("arch", "unit"), [("sm_80", "fma"), ("sm_89", "mma"), ("sm_90a", "wgmma")])
def test_matrix_units_take_bytes_with_sums_of_integers(name: str, arch: str, unit: str) -> None:
    """No sum is promoted: integers have all of their bits. What has no rows, or no columns, is multiplied in words."""
    taken, value, in_bytes = INTEGERS[name]
    file = SourceFile("integers.tess", f"def f({taken}):\n    return {value}\n")
    module = run_passes(tile_of(file, "f", arch), [gpu_pass(PLATFORMS[arch].schedule)], verify=True)
    products = [op for op in module.walk() if op.name == "gpu.multiply"]
    assert all(fragment(op.results[0]).dtype.name in ("i32", "i64") for op in products)
    if products:
        wanted = unit if in_bytes else "fma"
        assert {matrix_unit_of(op).name for op in products} - {"mma"} <= {wanted}
        assert matrix_unit_of(products[0]).name == wanted


@pytest.mark.one_in(4)
@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed (package nvidia-cuda-nvcc)")
@pytest.mark.parametrize(
    ("arch", "instruction"), [("sm_89", "m16n8k32.row.col.s32.s8.s8"), ("sm_90a", "k32.s32.s8.s8")]
)
def test_products_of_integers_assemble(arch: str, instruction: str) -> None:
    file = SourceFile("integers.tess", "def f(a: Tensor[M, K, i8], b: Tensor[N, K, i8]):\n    return a @ b.T\n")
    module = run_passes(tile_of(file, "f", arch), [gpu_pass(PLATFORMS[arch].schedule)], verify=True)
    first = next(op for op in module.walk() if op.name == "gpu.kernel" and count(op, "gpu.multiply"))
    code = emit_ptx(emit_kernel(first).llvm, arch)
    assembled = assemble(code, arch)
    assert instruction in code and (assembled.spilled_bytes, assembled.notes) == (0, ())
