"""Calls from Python: results, every kind of wrong argument, memory, threads, the state of the machine."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from collections.abc import Callable
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessera
from tessera import TesseraError, set_num_threads
from tessera.artifact import read_artifact
from tessera.function import CompiledFunction
from tessera.loader import load_image
from tessera.threads import resolve_libc
from tesserac.target.compile import emit_object, host_machine
from tesserac.target.link import link
from tesserac.target.llvm_types import F32, I16, I32, I64, Value, const_float, const_i64
from tests.support.native_support import BLOCK, Kernel, add_artifact, build
from tests.support.sampling import examples

f4 = np.float32


@cache
def add() -> CompiledFunction:
    return CompiledFunction(add_artifact())


def ways(function: CompiledFunction) -> list[Callable[..., object]]:
    """The stub, and the careful way that it falls back to."""
    slow = CompiledFunction.__new__(CompiledFunction)
    slow.__dict__.update(function.__dict__, _fast=None)
    return [function.fast, slow]


@pytest.fixture(params=[0, 1], ids=["stub", "careful"])
def way(request: pytest.FixtureRequest) -> int:
    assert isinstance(request.param, int)
    return request.param


# --- results ---------------------------------------------------------------------------------------------------------


@examples(40)
@given(st.integers(0, 5 * BLOCK), st.integers(1, 4), st.integers(0, 1))
def test_sizes_and_strides(size: int, step: int, choice: int) -> None:
    x = np.arange(size * step, dtype=f4)[::step]
    y = np.linspace(-1, 1, size, dtype=f4)[::-1]
    result = ways(add())[choice](x, y)
    assert isinstance(result, np.ndarray) and result.dtype == f4
    np.testing.assert_array_equal(result, x + y)


def test_large_arrays_on_any_number_of_threads() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(700_001, dtype=f4) for _ in range(2))
    bits = []
    for threads in (1, 2, 3):
        set_num_threads(threads)
        bits.append(np.asarray(add().fast(x, y)).tobytes())
    set_num_threads(2)
    assert bits[0] == bits[1] == bits[2] == (x + y).tobytes()


def test_python_threads_call_at_once() -> None:
    x = np.arange(300_000, dtype=f4)
    wrong: list[int] = []

    def caller(number: int) -> None:
        y = np.full_like(x, number)
        for _ in range(50):
            if not np.array_equal(add().fast(x, y), x + f4(number)):
                wrong.append(number)

    callers = [threading.Thread(target=caller, args=(i,)) for i in range(4)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert not wrong


def test_misaligned_and_read_only_input(way: int) -> None:
    raw = np.zeros(4 * 10 + 1, np.uint8)
    x = raw[1:].view(f4)
    x[:] = np.arange(10)
    assert not x.flags.aligned
    y = np.ones(10, f4)
    y.flags.writeable = False
    np.testing.assert_array_equal(ways(add())[way](x, y), np.arange(1, 11, dtype=f4))


def test_results_are_fresh_and_inputs_untouched(way: int) -> None:
    x, y = np.arange(8, dtype=f4), np.ones(8, f4)
    first = ways(add())[way](x, y)
    second = ways(add())[way](x, y)
    assert isinstance(first, np.ndarray) and isinstance(second, np.ndarray)
    assert not np.shares_memory(first, second) and not np.shares_memory(first, x)
    assert first.flags.writeable and first.flags.owndata
    np.testing.assert_array_equal(x, np.arange(8, dtype=f4))


def test_keywords_in_any_order(way: int) -> None:
    x, y = np.arange(4, dtype=f4), np.ones(4, f4)
    np.testing.assert_array_equal(ways(add())[way](y=y, x=x), x + 1)
    np.testing.assert_array_equal(ways(add())[way](x, y=y), x + 1)


class _Tensor:
    """Speaks DLPack and nothing else, like a tensor of another library."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: object) -> object:
        return self._array.__dlpack__(**options)  # type: ignore[arg-type]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def test_dlpack_subclasses_and_memory_maps(way: int) -> None:
    class Sub(np.ndarray):
        pass

    x = np.arange(4, dtype=f4)
    np.testing.assert_array_equal(ways(add())[way](_Tensor(x), x.view(Sub)), 2 * x)


class _Elsewhere:
    """A tensor that NumPy cannot reach, such as one in the memory of a GPU."""

    def __dlpack__(self, **options: object) -> object:
        raise BufferError("the data is on another device")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


# --- wrong calls -----------------------------------------------------------------------------------------------------

X = np.arange(4, dtype=f4)

WRONG: list[tuple[tuple[object, ...], dict[str, object], str, str]] = [
    ((X,), {}, "E0920", "`add` takes 2 arguments; `y` is missing"),
    ((), {}, "E0920", "`x`, `y` are missing"),
    ((X, X, X), {}, "E0920", "`add` takes 2 arguments, but 3 were given"),
    ((X,), {"q": X}, "E0920", "`add` has no parameter `q`"),
    ((X, X), {"x": X}, "E0920", "`add` was given `x` twice"),
    ((X, None), {}, "E0921", "argument `y` of `add` is None, not an array"),
    ((X, [1.0, 2.0]), {}, "E0921", "is a list, not an array"),
    ((X, 3.0), {}, "E0921", "is a float, not an array"),
    ((X, _Elsewhere()), {}, "E0921", "gives no array that NumPy can read: the data is on another device"),
    ((X, X.astype(np.float64)), {}, "E0922", "argument `y` of `add` has dtype float64"),
    ((X, X.astype(">f4")), {}, "E0922", "dtype >f4"),
    ((X, X.reshape(2, 2)), {}, "E0923", r"has 2 dims \(2, 2\)"),
    ((X, f4(1)), {}, "E0923", "has 0 dims"),
    ((X, X[:3]), {}, "E0924", "`y` of `add` has size 3 in dim 0, but `N` is 4"),
    ((np.zeros(1_000_001, f4),) * 2, {}, "E0925", "needs N <= 1000000, but the sides are 1000000 and 1000001"),
]


@pytest.mark.parametrize(("args", "kwargs", "code", "text"), WRONG, ids=[w[3][:40] for w in WRONG])
def test_wrong_calls(way: int, args: tuple[object, ...], kwargs: dict[str, object], code: str, text: str) -> None:
    with pytest.raises(TesseraError, match=text) as caught:
        ways(add())[way](*args, **kwargs)
    assert caught.value.code == code
    assert str(caught.value).startswith(f"error[{code}]: ")


def test_an_error_says_where_a_size_came_from(way: int) -> None:
    with pytest.raises(TesseraError) as caught:
        ways(add())[way](X, X[:3])
    assert "`N` = 4 from dim 0 of `x`" in str(caught.value)
    assert "`y` is declared Tensor[N, f32]" in str(caught.value)


# --- other signatures ------------------------------------------------------------------------------------------------

SOLVED = """
schedule.func @halves {params = ["x", "s", "w"]} {
  ^(%x: memref<[2*N + 1], f32, global>, %s: memref<[], f32, global>, %w: memref<[N, M], f32, global>):
    %z = schedule.buffer() {role = "output", slot = 0} : memref<[N], f32, global>
    %t = schedule.buffer() {role = "output", slot = 1} : memref<[], f32, global>
    tile.launch(%x, %s, %z, %t) {kernel = "k"}
    schedule.return(%z, %t)
}
cpu.kernel @k {grid = [`1`], scratch = `0`, symbols = ["N"], target = "neon"} {
  ^(%p: index, %x: memref<[2*N + 1], f32, global>, %s: memref<[], f32, global>, %z: memref<[N], f32, global>,
    %t: memref<[], f32, global>):
    cpu.return()
}
"""


def solved_code(k: Kernel) -> None:
    x, s, z, t = k.memory
    factor = k.load(s, const_i64(0))
    k.each(const_i64(0), k.sizes["N"], lambda i: k.store(k.b.fmul(k.load(x, i), factor), z, i))
    k.store(k.load(x, k.b.mul(k.sizes["N"], const_i64(2))), t, const_i64(0))


@cache
def solved() -> CompiledFunction:
    return CompiledFunction(build(SOLVED, {"k": solved_code}, returns_tuple=True))


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


# --- memory and state ------------------------------------------------------------------------------------------------


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_no_leak_over_many_calls() -> None:
    x, y = np.arange(2000, dtype=f4), np.ones(2000, f4)
    dtype, function, both = np.dtype(f4), add().fast, solved().fast
    w = np.zeros((3, 2), f4)
    small = np.zeros(7, f4)
    scalar = np.array(2, f4)

    def calls(count: int) -> None:
        for _ in range(count):
            function(x, y)
            both(small, scalar, w)

    def errors(count: int) -> None:
        big = np.zeros(1_000_001, f4)
        for _ in range(count):
            for arguments in ((x, y[:3]), (big, big)):
                with pytest.raises(TesseraError):
                    function(*arguments)

    errors(5)
    calls(1000)
    gc.collect()
    references = [sys.getrefcount(o) for o in (x, y, dtype, function, scalar)]
    before = resident_bytes()
    calls(100_000)
    errors(20)
    gc.collect()
    assert [sys.getrefcount(o) for o in (x, y, dtype, function, scalar)] == references
    assert resident_bytes() - before < 4 << 20


WORKSPACE = """
schedule.func @sum4 {params = ["x"]} {
  ^(%x: memref<[N], f32, global>):
    %a = schedule.buffer() {role = "workspace", slot = 0} : memref<[N], f32, global>
    %b = schedule.buffer() {role = "workspace", slot = 1} : memref<[N + 3], f32, global>
    %c = schedule.buffer() {role = "workspace", slot = 0} : memref<[2*N], f32, global>
    %z = schedule.buffer() {role = "output", slot = 0} : memref<[N], f32, global>
    tile.launch(%x, %a) {kernel = "twice"}
    tile.launch(%a, %b) {kernel = "twice"}
    tile.launch(%b, %c) {kernel = "twice"}
    tile.launch(%c, %z) {kernel = "through_scratch"}
    schedule.return(%z)
}
cpu.kernel @twice {grid = [`ceil_div(N, 256)`], scratch = `0`, symbols = ["N"], target = "neon"} {
  ^(%p: index, %x: memref<[N], f32, global>, %z: memref<[N], f32, global>):
    cpu.return()
}
cpu.kernel @through_scratch {grid = [`ceil_div(N, 256)`], scratch = `1024`, symbols = ["N"], target = "neon"} {
  ^(%p: index, %x: memref<[N], f32, global>, %z: memref<[N], f32, global>):
    cpu.return()
}
"""


def twice_code(k: Kernel) -> None:
    x, z = k.memory
    k.each_element(k.sizes["N"], BLOCK, lambda i: k.store(k.b.fadd(k.load(x, i), k.load(x, i)), z, i))


def through_scratch_code(k: Kernel) -> None:
    """Copies each block into the worker's scratch and from there to the result."""
    x, z = k.memory
    own = k.b.gep(I64, k.scratch, k.b.binary("lshr", k.b.mul(k.worker, k.scratch_bytes), const_i64(3)))

    def block(p: Value) -> None:
        low = k.b.mul(p, const_i64(BLOCK))
        count = k.b.minimum_int(k.b.sub(k.sizes["N"], low), const_i64(BLOCK))
        k.each(const_i64(0), count, lambda i: k.store(k.load(x, k.b.add(low, i)), own, i))
        k.each(const_i64(0), count, lambda i: k.store(k.load(own, i), z, k.b.add(low, i)))

    k.each(k.begin, k.end, block)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_workspace_slots_and_scratch(threads: int) -> None:
    function = CompiledFunction(build(WORKSPACE, {"twice": twice_code, "through_scratch": through_scratch_code})).fast
    set_num_threads(threads)
    for size in (0, 1, 1000, 200_003):
        x = np.arange(size, dtype=f4)
        np.testing.assert_array_equal(function(x), 8 * x)
    set_num_threads(2)


HUGE = """
schedule.func @huge {params = ["x"]} {
  ^(%x: memref<[N], f32, global>):
    %a = schedule.buffer() {role = "workspace", slot = 0} : memref<[N*1125899906842624], f32, global>
    %z = schedule.buffer() {role = "output", slot = 0} : memref<[N], f32, global>
    tile.launch(%a, %z) {kernel = "k"}
    schedule.return(%z)
}
cpu.kernel @k {grid = [`N`], scratch = `0`, symbols = ["N"], target = "neon"} {
  ^(%p: index, %x: memref<[N], f32, global>, %z: memref<[N], f32, global>):
    cpu.return()
}
"""


def test_too_little_memory_is_a_status(way: int) -> None:
    function = ways(CompiledFunction(build(HUGE, {"k": lambda k: None})))[way]
    with pytest.raises(TesseraError, match="`huge` needs 9007199254740992 bytes of workspace") as caught:
        function(np.zeros(2, f4))
    assert caught.value.code == "E0926"
    assert np.asarray(function(np.zeros(0, f4))).shape == (0,)


STATE = {
    "aarch64": """
declare void @llvm.aarch64.set.fpcr(i64)
declare i64 @llvm.aarch64.get.fpcr()
define void @flush() { call void @llvm.aarch64.set.fpcr(i64 16777216)
 ret void }
define i64 @state() { %v = call i64 @llvm.aarch64.get.fpcr()
 ret i64 %v }
define void @restore(i64 %v) { call void @llvm.aarch64.set.fpcr(i64 %v)
 ret void }
""",
    "x86_64": """
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse.stmxcsr(ptr)
@flushing = internal global i32 40896
@place = internal global i32 0
define void @flush() { call void @llvm.x86.sse.ldmxcsr(ptr @flushing)
 ret void }
define i64 @state() { call void @llvm.x86.sse.stmxcsr(ptr @place)
 %v = load i32, ptr @place
 %m = and i32 %v, -64
 %w = zext i32 %m to i64
 ret i64 %w }
define void @restore(i64 %v) { %w = trunc i64 %v to i32
 store i32 %w, ptr @place
 call void @llvm.x86.sse.ldmxcsr(ptr @place)
 ret void }
""",
}


def test_subnormals_are_kept_whatever_the_caller_set() -> None:
    machine = add_artifact().code.machine
    image = load_image(link([emit_object(STATE[machine], host_machine())]), resolve_libc)
    flush = ctypes.CFUNCTYPE(None)(image.address("flush"))
    state = ctypes.CFUNCTYPE(ctypes.c_int64)(image.address("state"))
    restore = ctypes.CFUNCTYPE(None, ctypes.c_int64)(image.address("restore"))
    x = np.full(300_000, 1e-40, f4)
    expected = (x + x).tobytes()
    before = state()
    flush()
    try:
        flushing = state()
        result = np.asarray(add().fast(x, x)).tobytes()
        after = state()
    finally:
        restore(before)
    assert flushing != before and after == flushing
    assert result == expected and any(result)


# --- without the stub ------------------------------------------------------------------------------------------------


def test_another_array_layout_takes_the_careful_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tessera.function.layout_holds", lambda: False)
    function = CompiledFunction(read_artifact(add_artifact().to_bytes(), "test")).fast
    assert type(function).__name__ == "method"
    np.testing.assert_array_equal(function(X, X[::-1]), [3, 3, 3, 3])
    with pytest.raises(TesseraError, match="E0925"):
        function(np.zeros(1_000_001, f4), np.zeros(1_000_001, f4))


def test_the_layout_check_sees_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    from tessera import numpy_abi

    assert numpy_abi.layout_holds.__wrapped__()
    for name in ("TYPE_OFFSET", "DATA_OFFSET", "RANK_OFFSET", "SHAPE_OFFSET", "DTYPE_OFFSET", "FLAGS_OFFSET"):
        with monkeypatch.context() as patch:
            patch.setattr(numpy_abi, name, 40)  # where the strides are
            assert not numpy_abi.layout_holds.__wrapped__(), name


def test_a_masked_array_is_refused_wherever_it_stands() -> None:
    m = tessera.compile("""
struct P[N]:
    w: Tensor[N, f32]

def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return x

def g(x, p: P[N]):
    return x, p.w

def h(x: Tensor[..., N]) -> Tensor[..., N, x.dtype]:
    return x
""")
    plain = np.ones(3, np.float32)
    masked = np.ma.array(plain, mask=[0, 1, 0])
    calls = [
        lambda: m.f(masked),
        lambda: m.f(x=masked),
        lambda: m.g(masked, m.P(w=plain)),
        lambda: m.g(plain, m.P(w=masked)),
        lambda: m.g(plain, {"w": masked}),
        lambda: m.h(masked),
        lambda: tessera.freeze(masked),
    ]
    for call in calls:
        with pytest.raises(tessera.TesseraError, match="masked array") as caught:
            call()
        assert caught.value.code == "E0921"
    assert m.f(masked.filled(0.0)).tolist() == [1, 0, 1]
