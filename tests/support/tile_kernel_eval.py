"""A small interpreter of the kernels of neutral Tile IR, on NumPy arrays: the builders' test bench.

It runs every program of a grid one after another, keeps blocks at their full size with zeros outside the valid extent,
and obeys the orders of `numerics/`. Panels are kept as plain rows: their format is the target's own affair.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from tesserac.graph.interp_indexed import follow, stable_order
from tesserac.graph.interp_scalar import Space, evaluate_body, store
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import indices, operand_maps
from tesserac.ir.indexed import gives_elements
from tesserac.ir.types import AxisType, MemRefType, TileType
from tesserac.numerics.exact import fma
from tesserac.numerics.narrow import convert, round_to_tf32, storage
from tesserac.numerics.order import SCANNED, Blocks, block_prod, block_scan, block_sum, fold_max, fold_min, tree
from tesserac.tile.dialect import fold_operands, grid, load_groups, memref_type, tile_type
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32, TF32
from tesserac.types.policy import compute_dtype

POISON = 77
NO_BAD_INDEX = -(2**63)


@dataclass
class Axis:
    start: int
    count: int
    block: int


def run_kernel(kernel: Op, memories: list[np.ndarray], sizes: dict[str, int]) -> None:
    counts = [d.evaluate(sizes) for d in grid(kernel)]
    for place in product(*map(range, counts)):
        env: dict[Value, object] = dict(zip(kernel.body.args, [*place, *memories], strict=True))
        _Program(env, sizes).run(kernel.body)


def index_value(op: Op, env: dict[Value, object], sizes: dict[str, int]) -> int:
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
                self.env[op.result] = index_value(op, self.env, self.sizes)
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

    def _addresses(self, ty: MemRefType, at: list[object], groups: tuple[int, ...] = ()) -> np.ndarray:
        """The place of every valid element; the shape is that of the valid block."""
        axes = [a for a in at if isinstance(a, Axis)]
        address = np.zeros([a.count for a in axes], np.int64)
        dim, first = 0, 0
        for coordinate, count in zip(at, groups or (1,) * len(ty.dims), strict=True):
            dims, first = range(first, first + count), first + count
            if isinstance(coordinate, Axis):
                shape = [1] * len(axes)
                shape[dim] = coordinate.count
                along = coordinate.start + np.arange(coordinate.count, dtype=np.int64)
                address = address + self._through(ty, dims, along).reshape(shape)
                dim += 1
            else:
                address = address + self._through(ty, dims, np.int64(coordinate))
        return address

    def _through(self, ty: MemRefType, dims: range, index: np.ndarray) -> np.ndarray:
        """Where an index lies that counts through dims, the last one fastest."""
        place = np.zeros_like(index)
        for dim in reversed(dims[1:]):
            size = ty.dims[dim].evaluate(self.sizes)
            place, index = place + index % size * ty.strides[dim].evaluate(self.sizes), index // size
        return place + index * ty.strides[dims[0]].evaluate(self.sizes)

    def tile_load(self, op: Op, args: list[object]) -> list[object]:
        mem, at = args[0], args[1:]
        ty = tile_type(op.result)
        address = self._addresses(memref_type(op.operands[0]), at, load_groups(op))
        tile = np.zeros(ty.shape, mem.dtype)
        if address.size:
            assert address.min() >= 0 and address.max() < mem.size, "a load outside its memory"
        tile[tuple(slice(n) for n in address.shape)] = mem[address]
        return [tile]

    def tile_gather(self, op: Op, args: list[object]) -> list[object]:
        """All valid elements at once: coordinates spread over the dims of the result that have an axis somewhere."""
        mem, ty, result = args[0], memref_type(op.operands[0]), tile_type(op.result)
        at, status = args[1 : 1 + len(ty.dims)], args[1 + len(ty.dims) :]
        extents = [None] * len(result.shape)
        for value, dims in zip(at, operand_maps(op), strict=True):
            if isinstance(value, Axis):
                extents[dims[0]] = value.count
        address, bad, word = np.zeros(result.shape, np.int64), np.zeros(result.shape, bool), 0
        for value, dims, size, stride in zip(at, operand_maps(op), ty.dims, ty.strides, strict=True):
            place = value.start + np.arange(value.block) if isinstance(value, Axis) else np.asarray(value, np.int64)
            place = follow(place, dims, len(result.shape))
            if isinstance(value, np.ndarray) and status:
                bound = size.evaluate(self.sizes)
                lowest = -bound if op.attrs["bounds"] == "wrap" else 0
                outside = np.broadcast_to((place < lowest) | (place >= bound), result.shape)
                found = np.broadcast_to(place, result.shape)[outside & self._present(op, result.shape)]
                status[0][word] = found[0] if found.size else status[0][word]
                place, bad = np.where(place < 0, place + bound, place), bad | outside
                word += 1
            address = address + place * stride.evaluate(self.sizes)
        inside = ~bad & (address >= 0) & (address < mem.size)
        safe = mem[np.where(inside, address, 0)] if mem.size else np.zeros(result.shape, mem.dtype)
        return [np.where(inside, safe, mem.dtype.type(0))]

    def tile_scatter(self, op: Op, args: list[object]) -> list[object]:
        tile, mem, ty = args[0], args[1], memref_type(op.operands[1])
        at, status = args[2 : 2 + len(ty.dims)], args[2 + len(ty.dims) :]
        fixed, word = list(at), 0
        for dim, value in enumerate(at):
            if isinstance(value, np.ndarray):
                size, place = ty.dims[dim].evaluate(self.sizes), int(value)
                fixed[dim] = place + size if place < 0 and op.attrs["bounds"] == "wrap" else place
                if not 0 <= fixed[dim] < size:
                    status[0][word] = place
                    return []
                word += 1
        address = self._addresses(ty, fixed)
        new = tile[tuple(slice(n) for n in address.shape)]
        folds = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
        mem[address] = new if op.attrs["kind"] == "set" else folds[op.attrs["kind"]](mem[address], new)
        return []

    def tile_fold_at(self, op: Op, args: list[object]) -> list[object]:
        """Row after row, each place on its own."""
        values = dict(zip(op.operands, args, strict=True))
        found, along = fold_operands(op), op.attrs["along"]
        target, kind = memref_type(found.target[0]), op.attrs["kind"]
        size = memref_type(found.rows[0]).dims[along[0]].evaluate(self.sizes)
        computed = [dim.evaluate(self.sizes) for dim in target.dims[-len(found.places) :]]
        named: dict[tuple[int, ...], list[np.ndarray]] = {}
        for row in range(size):
            at = [int(self._at_row(values, p, dim, row)) for p, dim in zip(found.places, along[1:], strict=True)]
            fixed = [p + n if p < 0 and op.attrs["bounds"] == "wrap" else p for p, n in zip(at, computed, strict=True)]
            bad = [word for word, (place, n) in enumerate(zip(fixed, computed, strict=True)) if not 0 <= place < n]
            for word in bad:
                values[found.rest[0]][word] = at[word]
            number = int(np.ravel_multi_index(fixed, computed)) if not bad else -1
            if values[found.first] <= number < values[found.behind]:
                named.setdefault(tuple(fixed), []).append(self._at_row(values, found.rows, along[0], row))
        accum, combine = compute_dtype(target.dtype, target.policy), SCANNED[kind][0]
        for place, rows in named.items():
            address = self._addresses(target, [*(values[v] for v in found.target[1:]), *place])
            mem = values[found.target[0]]
            joined = combine(convert(mem[address], accum), tree([convert(row, accum) for row in rows], combine))
            mem[address] = convert(joined, target.dtype, saturate=target.policy.saturate)
        return []

    def _at_row(self, values: dict[Value, object], operand: tuple[Value, ...], dim: int, row: int) -> np.ndarray:
        """What memory has at its coordinates, `row` further along a dim."""
        at = [values[v] for v in operand[1:]]
        at[dim] += row
        return values[operand[0]][self._addresses(memref_type(operand[0]), at)]

    def _present(self, op: Op, shape: tuple[int, ...]) -> np.ndarray:
        """Which elements of a gathered block lie inside the axes that its coordinates come from."""
        present = np.ones(shape, bool)
        for value, dims in zip(op.operands[1:], operand_maps(op), strict=False):
            for axis, place in zip(self._axes(value), dims, strict=True):
                if axis is not None and place is not None:
                    present &= follow(np.arange(shape[place]) < axis.count, (place,), len(shape))
        return present

    def _axes(self, value: Value) -> list[Axis | None]:
        """The axis of each dim of a coordinate."""
        made = value.defining_op
        if isinstance(self.env[value], Axis):
            return [self.env[value]]
        if made is not None and made.name in ("tile.load", "tile.iota"):
            return [self.env[v] for v in made.operands if isinstance(self.env[v], Axis)]
        axes: list[Axis | None] = [None] * len(value.type.shape) if isinstance(value.type, TileType) else []
        if made is not None and made.name == "tile.dot":
            return [self._axes(made.operands[0])[0], self._axes(made.operands[1])[1]]
        if made is None or made.name not in ("tile.map", "tile.gather"):
            return axes
        followed = made.operands[1:] if made.name == "tile.gather" else made.operands
        for operand, places in zip(followed, operand_maps(made), strict=False):
            for axis, place in zip(self._axes(operand), places, strict=True):
                if place is not None:
                    axes[place] = axes[place] or axis
        return axes

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
        axes, source = indices(op, "axes"), tile_type(op.operands[0])
        x = convert(args[0], compute_dtype(source.dtype, source.policy))
        for axis, valid in zip(axes, args[1:], strict=True):
            x = np.take(x, range(valid.count), axis)
        x = np.moveaxis(x, axes, range(-len(axes), 0))
        x = x.reshape(*x.shape[: -len(axes)], -1)
        match op.attrs["kind"]:
            case "sum":
                return [block_sum(x, op.attrs["order"])]
            case "prod":
                return [block_prod(x, op.attrs["order"])]
            case "max":
                return [fold_max(x)]
        return [fold_min(x)]

    def tile_index(self, op: Op, args: list[object]) -> list[object]:
        return [int(args[0])]

    def tile_sort(self, op: Op, args: list[object]) -> list[object]:
        rank = len(memref_type(op.operands[0]).dims)
        mem, at, out, to = args[0], list(args[1 : 1 + rank]), args[1 + rank], list(args[2 + rank :])
        source, target, dims = memref_type(op.operands[0]), memref_type(op.operands[1 + rank]), op.attrs["dims"]
        size = source.dims[dims[0]].evaluate(self.sizes)
        at[dims[0]], to[dims[1]] = Axis(at[dims[0]], size, size), Axis(to[dims[1]], size, size)
        row = mem[self._addresses(source, at)]
        keys = convert(row, F32) if source.dtype.is_float and source.dtype.bits < 32 else row
        order = stable_order(keys, op.attrs["descending"])
        out[self._addresses(target, to)] = np.take_along_axis(row, order, -1) if gives_elements(op) else order
        return []

    def tile_scan(self, op: Op, args: list[object]) -> list[object]:
        source, dim = tile_type(op.operands[0]), op.attrs["dim"]
        x = np.moveaxis(convert(args[0], compute_dtype(source.dtype, source.policy)), dim, -1)
        valid = block_scan(x[..., : args[1].count], op.attrs["kind"], Blocks(block=x.shape[-1]))
        steps = np.zeros_like(x)
        steps[..., : args[1].count] = valid
        return [np.moveaxis(steps, -1, dim), valid[..., -1]]

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
        """The valid part of a block: what lies outside takes no part."""
        shape = tile_type(tile).shape
        return [n if axis is None else axis.count for n, axis in zip(shape, self._axes(tile), strict=True)]

    def tile_for(self, op: Op, args: list[object]) -> list[object]:
        low, high, *carried = args
        for i in range(low, high, op.attrs["step"]):
            carried = self.run(op.body, [i, *carried])
        return carried

    def tile_apart(self, op: Op, args: list[object]) -> list[object]:
        low, high, *carried = args
        step, last = (region.block for region in op.regions)
        for i in range(low, high):
            carried = self.run(step, [i, *carried])
        self.run(last, carried)
        return []

    def tile_running(self, op: Op, args: list[object]) -> list[object]:
        count, *empty = args
        block, combine = (r.block for r in op.regions)
        parts: list[list[object]] = []
        for i in range(count):
            before = tree(list(parts), lambda x, y: self.run(combine, [*x, *y])) if parts else empty
            parts.append(self.run(block, [i, *before]))
        return []

    def tile_tree(self, op: Op, args: list[object]) -> list[object]:
        count, *empty = args
        block, combine = (r.block for r in op.regions)
        parts = [self.run(block, [i]) for i in range(count)]
        return tree(parts, lambda x, y: self.run(combine, [*x, *y])) if parts else empty
