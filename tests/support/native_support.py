"""Hand-made functions for the tests of linking, loading and calling: real host programs over tiny kernels.

A test writes the host program as IR text and each kernel's code as a Python function over the LLVM writer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import tesserac.ir.index
import tesserac.tile.cpu.dialect  # noqa: F401  dialects are registered by importing them
from tessera.artifact import Artifact
from tesserac.base.source import Span
from tesserac.ir.core import Op
from tesserac.ir.parser import parse_module
from tesserac.ir.types import MemRefType
from tesserac.ir.verify import verify_module
from tesserac.target.compile import Machine, data_layout, host_machine
from tesserac.target.cpu.artifact import build_artifact
from tesserac.target.emit import Module
from tesserac.target.flow import for_loop
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import F32, I64, PTR, VOID, Value, const_i64
from tesserac.tile.dialect import kernel_memrefs
from tesserac.types.dims import Dim, product


@dataclass
class Kernel:
    """What a kernel finds in its context, already loaded."""

    b: Builder
    memory: list[Value]
    sizes: dict[str, Value]
    scratch: Value
    scratch_bytes: Value
    begin: Value
    end: Value
    worker: Value

    def each(self, low: Value, high: Value, body: Callable[[Value], None]) -> None:
        def step(index: Value, _: list[Value]) -> list[Value]:
            body(index)
            return []

        for_loop(self.b, low, high, const_i64(1), [], step)

    def each_element(self, count: Value, block: int, body: Callable[[Value], None]) -> None:
        """The elements of the blocks begin .. end."""
        low = self.b.mul(self.begin, const_i64(block))
        high = self.b.minimum_int(self.b.mul(self.end, const_i64(block)), count)
        self.each(low, high, body)

    def load(self, memory: Value, index: Value) -> Value:
        return self.b.load(F32, self.b.gep(F32, memory, index), 4)

    def store(self, value: Value, memory: Value, index: Value) -> None:
        self.b.store(value, self.b.gep(F32, memory, index), 4)


Code = Callable[[Kernel], None]


def buffer_bytes(memref: MemRefType) -> Dim:
    return product(memref.dims) * (memref.dtype.bits // 8)


def locate(span: Span) -> tuple[str, int, int]:
    return (span.file, 1, span.start + 1) if span.known else ("", 0, 0)


def build(
    text: str, code: Mapping[str, Code], machine: Machine | None = None, *, returns_tuple: bool = False
) -> Artifact:
    """The artifact of the one `schedule.func` in the text."""
    ir = parse_module(text)
    verify_module(ir)
    (func,) = (op for op in ir.ops if op.name == "schedule.func")
    kernels = {op.symbol: op for op in ir.ops if op.name == "cpu.kernel"}
    target = machine or host_machine()
    module = Module(func.symbol, target.triple, data_layout(target))
    for name, kernel in kernels.items():
        emit_kernel(module, kernel, code[name])
    return build_artifact(
        lambda _: module, [func], kernels, target, buffer_bytes, locate, name=func.symbol, returns_tuple=returns_tuple
    )


def emit_kernel(module: Module, kernel: Op, code: Code) -> None:
    function = module.function(kernel.symbol, VOID, [PTR, I64, I64, I64], linkage="internal")
    b, (context, begin, end, worker) = function.builder, function.args
    memrefs, symbols = len(kernel_memrefs(kernel)), kernel.attrs["symbols"]
    assert isinstance(symbols, tuple)
    memory = [b.load(PTR, b.gep(PTR, context, i), 8) for i in range(memrefs)]
    at = range(memrefs, memrefs + len(symbols))
    sizes = {str(name): b.load(I64, b.gep(I64, context, i), 8) for i, name in zip(at, symbols, strict=True)}
    scratch = b.load(PTR, b.gep(PTR, context, at.stop), 8)
    scratch_bytes = b.load(I64, b.gep(I64, context, at.stop + 1), 8)
    code(Kernel(b, memory, sizes, scratch, scratch_bytes, begin, end, worker))
    b.ret()


BLOCK = 256

ADD = """
schedule.func @add {params = ["x", "y"]} {
  ^(%x: memref<[N], f32, global>, %y: memref<[N], f32, global>):
    schedule.guard() {guard = #guard<kind="at_least", left=`1000000`, right=`N`, text="N <= 1000000">}
    %z = schedule.buffer() {role = "output", slot = 0} : memref<[N], f32, global>
    tile.launch(%x, %y, %z) {kernel = "sum"}
    schedule.return(%z)
}
cpu.kernel @sum {grid = [`ceil_div(N, 256)`], scratch = `0`, symbols = ["N"], target = "neon"} {
  ^(%p: index, %x: memref<[N], f32, global>, %y: memref<[N], f32, global>, %z: memref<[N], f32, global>):
    cpu.return()
}
"""


def add_code(k: Kernel) -> None:
    x, y, z = k.memory
    k.each_element(k.sizes["N"], BLOCK, lambda i: k.store(k.b.fadd(k.load(x, i), k.load(y, i)), z, i))


def add_artifact(machine: Machine | None = None) -> Artifact:
    return build(ADD, {"sum": add_code}, machine)
