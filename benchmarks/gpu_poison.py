"""Whether kernels of a GPU read what nobody has written: all memory that a call gets, and the shared memory of every
multiprocessor, is NaN before it.

    python -m benchmarks.gpu_poison [--only NAME] [--out DIR]

Results of f32 programs must have the bits of the CPU all the same. The poison is looked at first: a kernel that reads
shared memory without writing it must find NaN, else nothing is shown. The report goes to DIR/gpu_poison.md.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import numpy as np  # noqa: E402

import tessera  # noqa: E402
from benchmarks.bits import digest  # noqa: E402
from tessera.cuda_driver import MULTIPROCESSORS, LaunchConfig  # noqa: E402
from tessera.devices import Gpu, gpu  # noqa: E402
from tessera.gpu_memory import Block, Memory  # noqa: E402
from tests.support.kernel_programs import PROGRAMS as KERNELS  # noqa: E402
from tests.support.kernel_programs import arguments  # noqa: E402

POISON, SHARED_BYTES, THREADS = 0xFF, 227 * 1024, 1024
PTX = """
.version 7.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 room[];
.visible .entry fill(.param .u64 told) {
  .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %d<3>;
  mov.u32 %r0, %tid.x; mul.lo.u32 %r0, %r0, 4; mov.u32 %r1, room;
again:
  add.u32 %r2, %r1, %r0; st.shared.b32 [%r2], 0xffffffff;
  add.u32 %r0, %r0, 4096; setp.lt.u32 %p, %r0, BYTES; @%p bra again;
  ret;
}
.visible .entry look(.param .u64 told) {
  .reg .pred %p, %q; .reg .b32 %r<4>; .reg .b64 %d<3>;
  ld.param.u64 %d0, [told];
  mov.u32 %r0, %tid.x; mul.lo.u32 %r0, %r0, 4; mov.u32 %r1, room;
again:
  add.u32 %r2, %r1, %r0; ld.shared.b32 %r3, [%r2];
  setp.ne.b32 %q, %r3, 0xffffffff; @%q red.global.add.u32 [%d0], 1;
  add.u32 %r0, %r0, 4096; setp.lt.u32 %p, %r0, BYTES; @%p bra again;
  ret;
}
"""
PROGRAM = """
def totals(x: Tensor[M, N, f32]): return sum(x, axis=0), sum(x, axis=1), max(x, axis=1)
def soft(x: Tensor[M, N, f32]): return softmax(x), layernorm(x)
def running(x: Tensor[M, N, f32]): return cumsum(x, axis=1), argsort(x, axis=1)
def turned(x: Tensor[M, N, f32]): return fft(x)
def product(x: Tensor[M, N, f32]): return x @ x.T, x.T @ x
def heads(x: Tensor[M, N, f32]):
    q = reshape(x, (1, M, N))
    return attention(q, q, q, causal=True)
def back(x: Tensor[M, N, f32]): return grad(lambda y: sum(attention(y, y, y) * y))(x)
def solved(x: Tensor[M, N, f32]): return solve(x @ x.T + 50.0 * eye(M), x)
"""
SIZES = {"turned": [(3, 1024), (5, 300)], "heads": [(200, 64), (33, 24)], "back": [(130, 64)], "solved": [(40, 70)]}
USUAL = [(1, 1), (37, 70), (130, 513), (3, 5000)]
KERNEL_SIZES = [(1, 1), (37, 70), (130, 513), (5, 4100)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device, taken = gpu(0), Memory.take

    def poisoned(memory: Memory, rounded: int, stream: int, what: str) -> Block:
        block = taken(memory, rounded, stream, what)
        with device.entered() as driver:
            driver.fill(block.address, POISON, rounded, stream)
        return block

    shared = Shared(device)
    Memory.take = poisoned  # type: ignore[method-assign, assignment]
    print(f"words of shared memory that are not NaN after the filling: {shared.count()}", flush=True)
    lines = ["| program | sizes | result |", "|---|---|---|"]
    for name, text, function, cases in programs(options.only):
        wrong = differences(text, function, cases, shared)
        lines.append(f"| {name} | {len(cases)} | {'; '.join(wrong) or 'equal'} |")
        print(lines[-1], flush=True)
    if options.out:
        title = "# Memory that is NaN before it is written\n\n`python -m benchmarks.gpu_poison`.\n\n"
        (options.out / "gpu_poison.md").write_text(title + "\n".join(lines) + "\n")
    sys.exit(any("equal" not in line for line in lines[2:]) or shared.count() != 0)


def programs(only: str) -> list[tuple[str, str, str, list[list[np.ndarray]]]]:
    rng = np.random.default_rng(0)
    found = []
    for line in [line for line in PROGRAM.splitlines() if line.startswith("def ")]:
        name = line.split("(")[0].removeprefix("def ")
        cases = [[rng.standard_normal(size, np.float32)] for size in SIZES.get(name, USUAL)]
        found.append((name, PROGRAM, name, cases))
    for name, text in KERNELS.items():
        found.append((f"kernel {name}", text, "f", [arguments(name, *sizes) for sizes in KERNEL_SIZES]))
    return [one for one in found if only in one[0]]


def differences(text: str, function: str, cases: list[list[np.ndarray]], shared: Shared) -> list[str]:
    wanted, ours = (getattr(made, function) for made in (tessera.compile(text), tessera.compile(text, device="cuda")))
    wrong = []
    for args in cases:
        for turn in range(3):  # the third is a replay of a graph
            shared.fill()
            if digest(ours(*args)) != digest(wanted(*args)):
                wrong.append(f"{[a.shape for a in args]}, call {turn}: other bits")
    return wrong


class Shared:
    """The shared memory of all multiprocessors, one block of threads on each."""

    def __init__(self, device: Gpu) -> None:
        self.device = device
        with device.entered() as driver:
            module = driver.load(PTX.replace("BYTES", str(SHARED_BYTES)).encode())
            self.functions = {name: driver.function(module, name) for name in ("fill", "look")}
            for function in self.functions.values():
                driver.allow_shared(function, SHARED_BYTES)
            self.blocks = driver.attribute(0, MULTIPROCESSORS)
            self.told = driver.allocate(256)

    def fill(self) -> None:
        self._launch("fill")

    def count(self) -> int:
        """Words of a kernel after this that are not NaN."""
        self.fill()
        found = ctypes.c_uint32(0)
        with self.device.entered() as driver:
            driver.fill(self.told, 0, 256, 0)
            self._launch("look")
            driver.copy_out(ctypes.addressof(found), self.told, 4, 0)
            driver.synchronize()
        return found.value

    def _launch(self, name: str) -> None:
        config = LaunchConfig(self.blocks, 1, 1, THREADS, 1, 1, SHARED_BYTES, 0, 0, 0)
        told = ctypes.c_uint64(self.told)
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(told))
        with self.device.entered() as driver:
            driver.synchronize()
            driver.call(
                "cuLaunchKernelEx", ctypes.addressof(config), self.functions[name], ctypes.addressof(parameters), 0
            )
            driver.synchronize()


if __name__ == "__main__":
    main()
