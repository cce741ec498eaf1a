"""A small interpreter of neutral Tile IR and of its host program, on NumPy arrays: the builders' test bench.

It runs every program of a grid one after another, keeps blocks at their full size with zeros outside the valid extent,
and obeys the orders of `numerics/`. Panels are kept as plain rows: their format is the target's own affair.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from tesserac.graph.interp import bind_sizes
from tesserac.graph.interp_scalar import Space, evaluate_body, store
from tesserac.ir.core import Block, Module, Op, Value
from tesserac.ir.forms import indices, operand_maps
from tesserac.ir.types import AxisType, MemRefType, TileType
from tesserac.numerics.exact import fma
from tesserac.numerics.narrow import convert, round_to_tf32, storage
from tesserac.numerics.order import block_prod, block_sum, fold_max, fold_min, tree
from tesserac.tile.dialect import grid, memref_type, tile_type
from tesserac.types.dims import Dim
from tesserac.types.dtype import TF32
from tesserac.types.policy import compute_dtype

POISON = 77


@dataclass
class Axis:
    start: int
    count: int
    block: int


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

    def run(self, block: Block) -> Op:
        for op in block.ops:
            if not op.opdef.terminator:
                self.step(op)
        return block.terminator

    def step(self, op: Op) -> None:
        match op.name:
            case "schedule.guard":
                return
            case "schedule.buffer":
                self.env[op.result] = self._buffer(op)
            case "schedule.box":
                self.env[op.result] = self.env[op.operands[0]][op.attrs["offset"].evaluate(self.sizes) :]
            case "tile.launch":
                kernel = self.module.lookup(op.attrs["kernel"])
                run_kernel(kernel, [self.env[v] for v in op.operands], self.sizes)
            case "schedule.loop":
                low, high = (self.env[v] for v in op.operands)
                for i in range(low, high):
                    self.sizes[op.attrs["counter"]] = self.env[op.body.args[0]] = i
                    self.run(op.body)
            case "schedule.while":
                while self.env[self.run(op.regions[0].block).operands[0]][0]:
                    self.run(op.regions[1].block)
            case "schedule.cond":
                self.run(op.regions[0 if self.env[op.operands[0]][0] else 1].block)
            case "schedule.select":
                self._select(op)
            case _:
                self.env[op.result] = _index(op, self.env, self.sizes)

    def _buffer(self, op: Op) -> np.ndarray:
        """Outputs and workspace start as garbage; buffers of one slot share bytes."""
        ty = memref_type(op.result)
        count = prod(d.evaluate(self.sizes) for d in ty.dims)
        dtype = storage(ty.dtype)
        if op.attrs["role"] == "output":
            return np.full(count, POISON).astype(dtype)
        slot, size = op.attrs["slot"], count * dtype.itemsize
        self.peak.slots[slot] = max(size, self.peak.slots.get(slot, 0))
        if slot not in self.slots:
            self.slots[slot] = np.full(1 << 20, POISON, np.uint8)
        assert size <= self.slots[slot].size, "the test bench has slots of 1 MiB"
        return self.slots[slot][:size].view(dtype)

    def _select(self, op: Op) -> None:
        for number, p in enumerate(op.attrs["predicates"]):
            left, right = p.left.evaluate(self.sizes), p.right.evaluate(self.sizes)
            if left >= right if p.kind == "at_least" else right % left == 0:
                self.run(op.regions[number].block)
                return
        self.run(op.regions[-1].block)


def run_kernel(kernel: Op, memories: list[np.ndarray], sizes: dict[str, int]) -> None:
    counts = [d.evaluate(sizes) for d in grid(kernel)]
    for place in product(*map(range, counts)):
        env: dict[Value, object] = dict(zip(kernel.body.args, [*place, *memories], strict=True))
        _Program(env, sizes).run(kernel.body)


def _index(op: Op, env: dict[Value, object], sizes: dict[str, int]) -> int:
    if op.name == "index.dim":
        dim = op.attrs["dim"]
        assert isinstance(dim, Dim)
        return dim.evaluate(sizes)
    a, b = (env[v] for v in op.operands)
    operations = {
        "add": a + b, "sub": a - b, "mul": a * b, "min": min(a, b), "max": max(a, b),
        "floor_div": a // b if b else 0, "ceil_div": -(-a // b) if b else 0, "rem": a % b if b else 0,
    }  # fmt: skip
    return operations[op.name.removeprefix("index.")]


class _Program:
    """One program of a grid."""

    def __init__(self, env: dict[Value, object], sizes: dict[str, int]) -> None:
        self.env, self.sizes = env, sizes

    def run(self, block: Block, args: list[object] = ()) -> list[object]:
        self.env.update(zip(block.args, args, strict=False))
        for op in block.ops[:-1]:
            name = op.name.replace(".", "_")
            if op.name.startswith("index."):
                self.env[op.result] = _index(op, self.env, self.sizes)
            else:
                result = getattr(self, name)(op, [self.env[v] for v in op.operands])
                self.env.update(zip(op.results, result, strict=True))
        return [self.env[v] for v in block.terminator.operands]

    def tile_axis(self, op: Op, args: list[object]) -> list[object]:
        start, stop = args
        assert isinstance(op.result.type, AxisType)
        block = op.result.type.block
        return [Axis(start, max(0, min(block, stop - start)), block)]

    def tile_alloc(self, op: Op, args: list[object]) -> list[object]:
        ty = memref_type(op.result)
        count = prod(d.evaluate(self.sizes) for d in ty.dims)
        return [np.full(count, POISON).astype(storage(ty.dtype))]

    def _addresses(self, ty: MemRefType, at: list[object]) -> np.ndarray:
        """The place of every valid element; the shape is that of the valid block."""
        strides = [s.evaluate(self.sizes) for s in ty.strides]
        axes = [a for a in at if isinstance(a, Axis)]
        address = np.zeros([a.count for a in axes], np.int64)
        dim = 0
        for coordinate, stride in zip(at, strides, strict=True):
            if isinstance(coordinate, Axis):
                shape = [1] * len(axes)
                shape[dim] = coordinate.count
                along = coordinate.start + np.arange(coordinate.count, dtype=np.int64)
                address = address + along.reshape(shape) * stride
                dim += 1
            else:
                address = address + coordinate * stride
        return address

    def tile_load(self, op: Op, args: list[object]) -> list[object]:
        mem, at = args[0], args[1:]
        ty = tile_type(op.result)
        address = self._addresses(memref_type(op.operands[0]), at)
        tile = np.zeros(ty.shape, mem.dtype)
        if address.size:
            assert address.min() >= 0 and address.max() < mem.size, "a load outside its memory"
        tile[tuple(slice(n) for n in address.shape)] = mem[address]
        return [tile]

    def tile_store(self, op: Op, args: list[object]) -> list[object]:
        tile, mem, at = args[0], args[1], args[2:]
        address = self._addresses(memref_type(op.operands[1]), at)
        if address.size:
            assert address.min() >= 0 and address.max() < mem.size, "a store outside its memory"
        mem[address] = tile[tuple(slice(n) for n in address.shape)]
        return []

    def tile_full(self, op: Op, args: list[object]) -> list[object]:
        ty = tile_type(op.result)
        return [np.full(ty.shape, op.attrs["value"], storage(ty.dtype))]

    def tile_iota(self, op: Op, args: list[object]) -> list[object]:
        return [args[0].start + np.arange(args[0].block, dtype=np.int64)]

    def tile_map(self, op: Op, args: list[object]) -> list[object]:
        result = tile_type(op.result)
        spread = [
            self._spread(tile, tile_type(v), m, len(result.shape))
            for tile, v, m in zip(args, op.operands, operand_maps(op), strict=True)
        ]
        value = evaluate_body(op.body, spread, Space(result.shape, self.sizes))
        return [np.array(np.broadcast_to(store(value, result.dtype, result.policy), result.shape))]

    @staticmethod
    def _spread(tile: np.ndarray, ty: TileType, dim_map: tuple[int | None, ...], rank: int) -> np.ndarray:
        kept = [(p, n) for p, n in zip(dim_map, tile.shape, strict=True) if p is not None]
        tile = tile.reshape([n for _, n in kept])
        order = sorted(range(len(kept)), key=lambda i: kept[i][0])
        shape = [1] * rank
        for place, size in kept:
            shape[place] = size
        return convert(tile.transpose(order).reshape(shape), compute_dtype(ty.dtype, ty.policy))

    def tile_cast(self, op: Op, args: list[object]) -> list[object]:
        ty = tile_type(op.result)
        return [store(args[0], ty.dtype, ty.policy)]

    def tile_reduce(self, op: Op, args: list[object]) -> list[object]:
        (axis,), source = indices(op, "axes"), tile_type(op.operands[0])
        x = convert(args[0], compute_dtype(source.dtype, source.policy))
        x = np.moveaxis(x, axis, -1)[..., : args[1].count]
        match op.attrs["kind"]:
            case "sum":
                return [block_sum(x, op.attrs["order"])]
            case "prod":
                return [block_prod(x, op.attrs["order"])]
            case "max":
                return [fold_max(x)]
        return [fold_min(x)]

    def tile_dot(self, op: Op, args: list[object]) -> list[object]:
        source = tile_type(op.operands[0])
        a, b = (convert(x, compute_dtype(source.dtype, source.policy)) for x in args[:2])
        acc = args[2]
        if acc.dtype.kind in "iu":
            return [acc + a @ b]
        if source.dtype == TF32:
            a, b = round_to_tf32(a), round_to_tf32(b)
        (m, terms), (_, n) = (self._extents(v) for v in op.operands[:2])
        acc = np.array(acc)
        part = acc[:m, :n]
        for k in range(terms):
            part = fma(a[:m, k, None], b[None, k, :n], part)
        acc[:m, :n] = part
        return [acc]

    def _extents(self, tile: Value) -> list[int]:
        """The valid part of a loaded block; outside it all is zero."""
        load = tile.defining_op
        assert load is not None and load.name == "tile.load"
        return [at.count for v in load.operands[1:] if isinstance(at := self.env[v], Axis)]

    def tile_for(self, op: Op, args: list[object]) -> list[object]:
        low, high, *carried = args
        for i in range(low, high, op.attrs["step"]):
            carried = self.run(op.body, [i, *carried])
        return carried

    def tile_tree(self, op: Op, args: list[object]) -> list[object]:
        count, *empty = args
        block, combine = (r.block for r in op.regions)
        parts = [self.run(block, [i]) for i in range(count)]
        return tree(parts, lambda x, y: self.run(combine, [*x, *y])) if parts else empty
