"""Host programs of neutral Tile IR, run on NumPy arrays; `tile_kernel_eval.py` runs their kernels."""

from __future__ import annotations

from math import prod

import numpy as np

from tesserac.graph.interp import bind_sizes
from tesserac.graph.interp_indexed import BadIndex
from tesserac.ir.core import Block, Module, Op, Value
from tesserac.ir.table import table_of
from tesserac.ir.types import TensorType
from tesserac.numerics.narrow import storage
from tesserac.schedule.dialect import LENGTH, LENGTHS
from tesserac.tile.dialect import CODE, GIVEN, SYMBOLS, memref_type
from tests.support.cuts import block_sizes
from tests.support.tile_kernel_eval import NO_BAD_INDEX, POISON, index_value, run_kernel

THREADS = 3
"""Among which launches are cut."""


class Peak:
    """Bytes of workspace that a run held at once, by slot."""

    def __init__(self) -> None:
        self.slots: dict[int, int] = {}

    @property
    def bytes(self) -> int:
        return sum(self.slots.values())


def run_host(module: Module, name: str, args: list[np.ndarray], peak: Peak | None = None) -> list[np.ndarray]:
    """Calls a host program whose launches are tile launches."""
    host = module.lookup(name)
    dims = [memref_type(a).dims for a in host.body.args]
    sizes = bind_sizes(dims, [a.shape for a in args])
    env: dict[Value, object] = {}
    for value, array in zip(host.body.args, args, strict=True):
        env[value] = np.array(array, order="C").reshape(-1)
    _Host(module, sizes, env, peak or Peak()).run(host.body)
    results = []
    for value in host.body.terminator.operands:
        shape = tuple(d.evaluate(sizes) for d in memref_type(value).dims)
        results.append(env[value].reshape(shape))
    return results


class _Host:
    def __init__(self, module: Module, sizes: dict[str, int], env: dict[Value, object], peak: Peak) -> None:
        self.module, self.sizes, self.env, self.peak = module, sizes, env, peak
        self.slots: dict[int, np.ndarray] = {}
        self.is_last = False
        """Whether the loop that runs now has nothing more to do."""

    def run(self, block: Block) -> Op:
        for op in block.ops:
            if not op.opdef.terminator:
                self.step(op)
        return block.terminator

    def step(self, op: Op) -> None:
        rule = getattr(self, "_" + op.name.replace(".", "_"), None)
        if op.opdef.dialect == "index":
            self.env[op.result] = index_value(op, self.env, self.sizes)
        else:
            rule(op)

    def _schedule_guard(self, op: Op) -> None:
        pass

    def _schedule_buffer(self, op: Op) -> None:
        if op.attrs["role"] == "constant":
            ty = memref_type(op.result)
            self.env[op.result] = table_of(op).values(TensorType(ty.dims, ty.dtype)).reshape(-1)
        elif op.attrs["role"] == "status":
            self.env[op.result] = np.full(memref_type(op.result).dims[0].evaluate({}), NO_BAD_INDEX)
        else:
            self.env[op.result] = self._buffer(op)

    def _schedule_box(self, op: Op) -> None:
        self.env[op.result] = self.env[op.operands[0]][op.attrs["offset"].evaluate(self.sizes) :]

    def _schedule_parts(self, op: Op) -> None:
        self.env[op.result] = self.env[op.operands[0]].view(storage(memref_type(op.result).dtype))

    def _schedule_swap(self, op: Op) -> None:
        left, right = op.operands
        self.env[left], self.env[right] = self.env[right], self.env[left]

    def _schedule_check(self, op: Op) -> None:
        for index, size in zip(self.env[op.operands[0]], op.attrs["sizes"], strict=True):
            if index != NO_BAD_INDEX:
                raise BadIndex(op.attrs["operator"], int(index), size.evaluate(self.sizes))

    def _tile_launch(self, op: Op) -> None:
        """Of each tensor of a launch, which may have several."""
        memories, lengths = [self.env[v] for v in op.operands], op.attrs.get(LENGTHS)
        sizes = {**self.sizes, **block_sizes(op, self.sizes, THREADS)}
        given = [{LENGTH: length.evaluate(self.sizes)} for length in lengths] if lengths else [{}]
        many = len(memories) // len(given)
        for number, length in enumerate(given):
            self._run_kernel(op.attrs["kernel"], memories[number * many : (number + 1) * many], {**sizes, **length})

    def _run_kernel(self, name: str, memories: list[np.ndarray], sizes: dict[str, int]) -> None:
        kernel = self.module.lookup(name)
        if CODE in kernel.attrs:
            shared = self.module.lookup(str(kernel.attrs[CODE]))
            given = [size.evaluate(sizes) for size in kernel.attrs[GIVEN]]
            kernel, sizes = shared, dict(zip(shared.attrs[SYMBOLS], given, strict=True))
        self._run_code(kernel, memories, sizes)

    def _run_code(self, kernel: Op, memories: list[np.ndarray], sizes: dict[str, int]) -> None:
        run_kernel(kernel, memories, sizes)

    def _schedule_loop(self, op: Op) -> None:
        low, high = (self.env[v] for v in op.operands)
        for i in range(low, high):
            self.sizes[op.attrs["counter"]] = self.env[op.body.args[0]] = i
            self.run(op.body)
            if self.is_last:
                self.is_last = False
                break

    def _schedule_last(self, op: Op) -> None:
        self.is_last = True

    def _schedule_while(self, op: Op) -> None:
        while self.env[self.run(op.regions[0].block).operands[0]][0]:
            self.run(op.regions[1].block)

    def _schedule_cond(self, op: Op) -> None:
        self.run(op.regions[0 if self.env[op.operands[0]][0] else 1].block)

    def _buffer(self, op: Op) -> np.ndarray:
        """Outputs, registers and workspace start as garbage; workspace of one slot shares bytes."""
        ty = memref_type(op.result)
        count = prod(d.evaluate(self.sizes) for d in ty.dims)
        dtype = storage(ty.dtype)
        if op.attrs["role"] in ("output", "register"):
            return np.full(count, POISON).astype(dtype)
        slot, size = op.attrs["slot"], count * dtype.itemsize
        self.peak.slots[slot] = max(size, self.peak.slots.get(slot, 0))
        if slot not in self.slots:
            self.slots[slot] = np.full(1 << 20, POISON, np.uint8)
        assert size <= self.slots[slot].size, "the test bench has slots of 1 MiB"
        return self.slots[slot][:size].view(dtype)

    def _schedule_kept(self, op: Op) -> None:
        """No memory is frozen here."""
        self.run(op.regions[-1].block)

    def _schedule_select(self, op: Op) -> None:
        for number, p in enumerate(op.attrs["predicates"]):
            left, right = p.left.evaluate(self.sizes), p.right.evaluate(self.sizes)
            if right % left == 0 if p.kind == "divides" else left >= right:
                self.run(op.regions[number].block)
                return
        self.run(op.regions[-1].block)
