"""Every row of the table of scalar primitives has a meaning everywhere: in the interpreter, as machine code with the
same bits, and as PTX."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import tesserac.tile.dialect  # noqa: F401  (registers the operations of the texts)
from tesserac.graph.interp_scalar import Space, evaluate_body
from tesserac.ir.core import Op
from tesserac.ir.parser import parse_module
from tesserac.ir.verify import verify_module
from tesserac.numerics.elementary import PROGRAMS
from tesserac.numerics.narrow import convert
from tesserac.ops.scalar import PRIMITIVES, Primitive
from tesserac.schedule.machine import MACHINES
from tesserac.target.nvptx.kernel import emit_kernel
from tesserac.target.nvptx.ptx import emit_ptx
from tesserac.tile.gpu.lower import lower_kernel
from tesserac.types.dtype import DType, lookup
from tests.support.cpu_kernels import Compiled, lower_all, same_bits
from tests.support.folding import folded

SIZE = 1000
DTYPES = {"f": ("f32", "f64"), "i": ("i32",), "u": ("u32", "u64"), "b": ("bool",)}
"""Where each kind is tried. Complex numbers are taken apart before a target sees them."""

CASES = [
    (row.name, dtype)
    for row in PRIMITIVES.values()
    for kind in row.kinds
    for dtype in DTYPES.get(kind, ())
    if row.bits == 0 or dtype.endswith(str(row.bits))
]


def kernel_text(row: Primitive, dtype: str) -> str:
    """One block of elements through one primitive."""
    result = dtype if row.result == "same" else "bool"
    names = [f"x{i}" for i in range(row.arity)]
    memory = ", ".join(f"%{n}: memref<[N], {dtype}, global>" for n in names)
    loads = "\n".join(f"    %t{n} = tile.load(%{n}, %i) : tile<[256], {dtype}>" for n in names)
    return f"""tile.kernel @{row.name}_{dtype} {{config = #config<warps=4, roles="uniform">, grid = [`ceil_div(N, 256)`]}} {{
  ^(%p: index, {memory}, %z: memref<[N], {result}, global>):
    %block = index.dim() {{dim = `256`}} : index
    %n = index.dim() {{dim = `N`}} : index
    %start = index.mul(%p, %block) : index
    %i = tile.axis(%start, %n) : axis<256>
{loads}
    %c = tile.map({", ".join(f"%t{n}" for n in names)}) {{maps = [{", ".join(["[0]"] * row.arity)}]}} : tile<[256], {result}> {{
      ^({", ".join(f"%a{n}: scalar<{dtype}>" for n in names)}):
        %s = scalar.{row.name}({", ".join(f"%a{n}" for n in names)}) : scalar<{result}>
        form.yield(%s)
    }}
    tile.store(%c, %z, %i)
    tile.return()
}}
"""  # noqa: E501


@cache
def kernels(dtype: str) -> dict[str, Op]:
    """The kernels of all rows that work on a dtype."""
    module = parse_module("\n".join(kernel_text(PRIMITIVES[name], dtype) for name, d in CASES if d == dtype))
    verify_module(module)
    return {op.symbol: op for op in module.ops}


@cache
def machine_code(dtype: str) -> Compiled:
    return Compiled(lower_all(list(kernels(dtype).values())), fast=True)


def samples(dtype: DType, seed: int) -> np.ndarray:
    """Ordinary values of every size, and the corners."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, SIZE).astype(bool)
    if dtype.is_integer:
        wide = rng.integers(-(2**31) if dtype.kind == "i" else 0, 2**31, SIZE)
        return np.concatenate([[0, 1, -1 % 2**32, 2**31], wide])[:SIZE].astype(np.int64).astype(dtype.numpy_name)
    corners = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3e38, -3e38, 131072.0, 2.0**40]
    spread = rng.normal(size=SIZE - len(corners)) * np.exp2(rng.uniform(-20, 40, SIZE - len(corners)))
    return convert(rng.permutation(np.concatenate([corners, spread])), dtype)


@pytest.mark.one_in(12)
@folded(("name", "dtype"), CASES, one_in=12)
def test_machine_code_gives_the_bits_of_the_interpreter(name: str, dtype: str) -> None:
    found = lookup(dtype)
    assert found is not None
    kernel = kernels(dtype)[f"{name}_{dtype}"]
    body = next(op for op in kernel.walk() if op.name == "tile.map").body
    args = [samples(found, seed) for seed in range(PRIMITIVES[name].arity)]
    expected = evaluate_body(body, args, Space((SIZE,), {"N": SIZE}))
    result = np.zeros(SIZE, expected.dtype)
    machine_code(dtype).run([*args, result], {"N": SIZE}, name=kernel.symbol)
    same_bits(result, expected)


@pytest.mark.one_in(2)
@folded(("name", "dtype"), CASES, one_in=12)
def test_ptx_is_written(name: str, dtype: str) -> None:
    [variant] = lower_kernel(kernels(dtype)[f"{name}_{dtype}"], MACHINES["sm_80"])
    assert f".entry {name}_{dtype}" in emit_ptx(emit_kernel(variant).llvm, "sm_80")


def test_every_program_is_that_of_a_row() -> None:
    assert set(PROGRAMS) <= set(PRIMITIVES)
