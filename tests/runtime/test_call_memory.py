"""What calls do with memory and with the state of the machine: no leaks, workspaces, too little of it, subnormals."""

from __future__ import annotations

import ctypes
import gc
import sys

import numpy as np
import pytest

from tessera import TesseraError, freeze, set_num_threads
from tessera.function import CompiledFunction
from tessera.loader import load_image
from tessera.threads import resolve_libc
from tesserac.target.compile import emit_object, host_machine
from tesserac.target.cpu.host.launches import CHUNK_BITS
from tesserac.target.link import link
from tesserac.target.llvm_types import F32, I64, Value, const_i64
from tests.support.called_functions import add, f4, solved, ways
from tests.support.native_support import BLOCK, Kernel, add_artifact, build


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.one_in(12)
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


def test_too_little_memory_for_a_copy_is_told() -> None:
    """An array whose elements do not lie in order is copied: this one has none of its own."""
    huge = np.broadcast_to(np.float32(0), (1 << 46,))
    with pytest.raises(TesseraError, match="no memory for a copy of argument `x`") as caught:
        add()(huge, huge)
    assert caught.value.code == "E0926"
    with pytest.raises(TesseraError, match="E0926"):
        freeze(huge)


CUT = """
schedule.func @cut {params = ["x"]} {
  ^(%x: memref<[N], f32, global>):
    %z = schedule.buffer() {role = "output", slot = 0} : memref<[N], f32, global>
    tile.launch(%x, %z) {kernel = "k", touched = `67108864`}
    schedule.return(%z)
}
cpu.kernel @k {grid = [`N`], scratch = `0`, symbols = ["N"], target = "neon"} {
  ^(%p: index, %x: memref<[N], f32, global>, %z: memref<[N], f32, global>):
    cpu.return()
}
"""


def test_a_large_launch_has_many_chunks() -> None:
    """A call ends between two of them where it is interrupted: few chunks would go on for long."""

    def code(k: Kernel) -> None:
        k.each(k.begin, k.end, lambda p: k.store(k.b.cast("sitofp", k.b.sub(k.end, k.begin), F32), k.memory[1], p))

    set_num_threads(1)
    programs = np.asarray(CompiledFunction(build(CUT, {"k": code}))(np.zeros(1000, f4)))
    set_num_threads(2)
    assert programs.max() == np.ceil(1000 / (67108864 >> CHUNK_BITS)) and programs.min() > 0


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
