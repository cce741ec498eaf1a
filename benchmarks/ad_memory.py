"""What a gradient through a loop keeps, and how long it takes: nothing said, `every` near the root, a treeverse.

`python -m benchmarks.ad_memory` prints a table: for each length of the loop the workspace that the host program takes
for one call, and the time of the gradient beside that of the function. The workspace is that of the plan, evaluated for
these sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from time import perf_counter

import numpy as np

import tessera
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tesserac.ir.core import Op
from tesserac.schedule.dialect import memory
from tesserac.target.cpu.build import host_platform
from tesserac.target.entry.extents import largest, loop_bounds
from tesserac.types.dims import product

WIDTH = 1024
LENGTHS = (64, 256, 1024, 4096)
PROGRAM = """
def run(w: Tensor[N, f32], x: Tensor[{length}, N, f32]) -> Tensor[f32]:
    h = zeros(N)
    {said}
        for t in range({length}):
            h = tanh(h * w + x[t])
    return sum(h * w)

def slope(w: Tensor[N, f32], x: Tensor[{length}, N, f32]) -> Tensor[N, f32]:
    return grad(run)(w, x)
"""


def ways(length: int) -> Iterator[tuple[str, str]]:
    """What is said of the loop, by name."""
    root, slots = math.isqrt(length), 2 * round(math.log2(length))
    yield "nothing", "if True:"
    yield f"every={root}", f"with checkpoint(every={root}):"
    yield f"slots={slots}", f"with checkpoint(slots={slots}):"


def workspace(text: str, sizes: dict[str, int]) -> int:
    """Bytes of all slots, each as large as the largest of its buffers."""
    session, source = Session(), SourceFile("memory.tess", text)
    levels = session.levels(source, session.function(source, "slope"), host_platform().schedule)
    host = next(op for op in levels.schedule.ops if op.name == "schedule.func")
    slots: dict[int, int] = {}
    for op in host.body.ops:
        if op.name == "schedule.buffer" and op.attrs["role"] == "workspace":
            slot = op.attrs["slot"]
            assert isinstance(slot, int)
            slots[slot] = max(slots.get(slot, 0), _bytes(op, host, sizes))
    return sum(slots.values())


def _bytes(buffer: Op, host: Op, sizes: dict[str, int]) -> int:
    ty, bounds = memory(buffer.result), loop_bounds(host)
    return product(largest(dim, bounds) for dim in ty.dims).evaluate(sizes) * ty.dtype.bytes


def _milliseconds(function: tessera.Function, *args: object) -> float:
    function(*args)
    times = []
    for _ in range(5):
        start = perf_counter()
        function(*args)
        times.append(perf_counter() - start)
    return 1e3 * min(times)


def main() -> None:
    rng = np.random.default_rng(0)
    print(f"| turns | what is said | workspace, rows of {WIDTH} f32 | gradient, ms | function, ms |")
    print("|---|---|---|---|---|")
    for length in LENGTHS:
        w, x = (rng.normal(size=size).astype(np.float32) for size in ((WIDTH,), (length, WIDTH)))
        for name, said in ways(length):
            text = PROGRAM.format(length=length, said=said)
            rows = workspace(text, {"N": WIDTH}) / (4 * WIDTH)
            module = tessera.compile(text)
            times = [_milliseconds(function, w, x) for function in (module.slope, module.run)]
            print(f"| {length} | {name} | {rows:.1f} | {times[0]:.2f} | {times[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
