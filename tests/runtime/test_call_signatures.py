"""Calls of functions with scalars, tuples, sizes to solve for or to divide, narrow types and other orders in memory."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tessera import TesseraError
from tessera.function import CompiledFunction
from tesserac.target.llvm_types import F32, I16, I32, Value, const_float, const_i64
from tests.support.called_functions import f4, solved, ways
from tests.support.native_support import Kernel, build


def test_scalars_tuples_and_solved_sizes(way: int) -> None:
    x, w = np.arange(7, dtype=f4), np.zeros((3, 0), f4)
    for scalar in (2.0, 2, f4(2), np.array(2, f4)):
        result = ways(solved())[way](x, scalar, w)
        assert isinstance(result, tuple) and len(result) == 2
        np.testing.assert_array_equal(result[0], [0, 2, 4])
        assert type(result[1]) is f4 and result[1] == 6


@pytest.mark.parametrize(
    ("size", "scalar", "code", "text"),
    [
        (9, 2.0, "E0924", "`x` of `halves` has size 9 in dim 0, but `2\\*N \\+ 1` is 7"),
        (7, True, "E0921", "`s` of `halves` is a bool"),
        (7, 1j, "E0921", "is a complex"),
        (7, np.float64(1), "E0922", "dtype float64"),
    ],
)
def test_wrong_sizes_and_scalars(way: int, size: int, scalar: object, code: str, text: str) -> None:
    with pytest.raises(TesseraError, match=text) as caught:
        ways(solved())[way](np.zeros(size, f4), scalar, np.zeros((3, 2), f4))
    assert caught.value.code == code


INTEGER = """
schedule.func @keep {params = ["n", "b"]} {
  ^(%n: memref<[], i32, global>, %b: memref<[], bool, global>):
    %z = schedule.buffer() {role = "output", slot = 0} : memref<[], i32, global>
    tile.launch(%n, %z) {kernel = "k"}
    schedule.return(%z)
}
cpu.kernel @k {grid = [`1`], scratch = `0`, symbols = [], target = "neon"} {
  ^(%p: index, %n: memref<[], i32, global>, %z: memref<[], i32, global>):
    cpu.return()
}
"""


def test_python_numbers_fit_or_are_refused(way: int) -> None:
    code = {"k": lambda k: k.b.store(k.b.load(I32, k.memory[0], 4), k.memory[1], 4)}
    function = ways(CompiledFunction(build(INTEGER, code)))[way]
    assert function(-(2**31), True) == -(2**31)
    for wrong, text in ((2**31, "is 2147483648, which i32 does not hold"), (1.0, "is a float"), (True, "is a bool")):
        with pytest.raises(TesseraError, match=text):
            function(wrong, True)
    with pytest.raises(TesseraError, match="`b` of `keep` is an int, not a bool"):
        function(1, 1)


def test_a_float_too_large_becomes_infinite(way: int) -> None:
    result = ways(solved())[way](np.ones(7, f4), 1e300, np.zeros((3, 2), f4))
    assert isinstance(result, tuple) and np.isinf(result[0]).all()


LINEAR = """
schedule.func @unpair {params = ["x"]} {
  ^(%x: memref<[2*N + 1], f32, global>):
    %z = schedule.buffer() {role = "output", slot = 0} : memref<[N], f32, global>
    tile.launch(%x, %z) {kernel = "k"}
    schedule.return(%z)
}
cpu.kernel @k {grid = [`1`], scratch = `0`, symbols = ["N"], target = "neon"} {
  ^(%p: index, %x: memref<[2*N + 1], f32, global>, %z: memref<[N], f32, global>):
    cpu.return()
}
"""


def linear_code(k: Kernel) -> None:
    x, z = k.memory
    k.each(const_i64(0), k.sizes["N"], lambda i: k.store(k.load(x, k.b.mul(i, const_i64(2))), z, i))


def test_a_symbol_is_solved_from_a_linear_size(way: int) -> None:
    function = ways(CompiledFunction(build(LINEAR, {"k": linear_code})))[way]
    np.testing.assert_array_equal(function(np.arange(7, dtype=f4)), [0, 2, 4])
    for size in (0, 6):
        with pytest.raises(TesseraError, match=f"size {size} in dim 0, but it must be .2\\*N \\+ 1. for a whole .N."):
            function(np.zeros(size, f4))


DIVIDED = """
schedule.func @split {params = ["x", "h"]} {
  ^(%x: memref<[D], f32, global>, %h: memref<[H], f32, global>):
    %z = schedule.buffer() {role = "output", slot = 0} : memref<[D/H, D - H], f32, global>
    tile.launch(%x, %z) {kernel = "k"}
    schedule.return(%z)
}
cpu.kernel @k {grid = [`1`], scratch = `0`, symbols = ["D", "H"], target = "neon"} {
  ^(%p: index, %x: memref<[D], f32, global>, %z: memref<[D/H, D - H], f32, global>):
    cpu.return()
}
"""


def test_divisions_in_sizes_are_guarded(way: int) -> None:
    def code(k: Kernel) -> None:
        rows = k.b.binary("sdiv exact", k.sizes["D"], k.sizes["H"])
        total = k.b.mul(rows, k.b.sub(k.sizes["D"], k.sizes["H"]))
        k.each(const_i64(0), total, lambda i: k.store(const_float(F32, 1.0), k.memory[1], i))

    function = ways(CompiledFunction(build(DIVIDED, {"k": code})))[way]
    result = function(np.zeros(6, f4), np.zeros(2, f4))
    np.testing.assert_array_equal(result, np.ones((3, 4), f4))
    with pytest.raises(TesseraError, match="`split` needs `H` to divide `D`, but the sides are 2 and 5"):
        function(np.zeros(5, f4), np.zeros(2, f4))
    with pytest.raises(TesseraError, match="needs `H` to divide `D`, but the sides are 0 and 5"):
        function(np.zeros(5, f4), np.zeros(0, f4))
    with pytest.raises(TesseraError, match=r"would have the shape \(0, -4\)"):
        function(np.zeros(0, f4), np.zeros(4, f4))


NARROW = """
schedule.func @same {params = ["x"]} {
  ^(%x: memref<[M, N], bf16 @accum(f32), global>):
    %z = schedule.buffer() {role = "output", slot = 0} : memref<[N, M], bf16 @accum(f32), global>
    tile.launch(%x, %z) {kernel = "k"}
    schedule.return(%z)
}
cpu.kernel @k {grid = [`M`], scratch = `0`, symbols = ["M", "N"], target = "neon"} {
  ^(%p: index, %x: memref<[M, N], bf16 @accum(f32), global>, %z: memref<[N, M], bf16 @accum(f32), global>):
    cpu.return()
}
"""


def transpose_code(k: Kernel) -> None:
    x, z = k.memory

    def row(i: Value) -> None:
        def element(j: Value) -> None:
            source = k.b.gep(I16, x, k.b.add(k.b.mul(i, k.sizes["N"]), j))
            target = k.b.gep(I16, z, k.b.add(k.b.mul(j, k.sizes["M"]), i))
            k.b.store(k.b.load(I16, source, 2), target, 2)

        k.each(const_i64(0), k.sizes["N"], element)

    k.each(k.begin, k.end, row)


@pytest.mark.parametrize("order", ["C", "F"])
def test_bfloat16_and_fortran_order(way: int, order: str) -> None:
    function = ways(CompiledFunction(build(NARROW, {"k": transpose_code})))[way]
    x = np.asarray(np.arange(15).reshape(3, 5), dtype=ml_dtypes.bfloat16, order=order)  # type: ignore[call-overload]
    result = function(x)
    assert isinstance(result, np.ndarray) and result.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(result, x.T)
    with pytest.raises(TesseraError, match="dtype float32") as caught:
        function(np.zeros((2, 2), f4))
    assert "it must be Tensor[M, N, bf16 @accum(f32)]" in str(caught.value)
    assert function(np.zeros((0, 3), ml_dtypes.bfloat16)).shape == (3, 0)  # type: ignore[attr-defined]
