"""The state of one lowering: where new operations go, what became of neutral values, and the scratch handed out.

Pure operations are written once, in the outermost open block that has their operands, so a loop body holds only what
varies in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tesserac.ir.builder import Builder
from tesserac.ir.core import Attr, Block, Op, Value
from tesserac.ir.index import constant_index
from tesserac.ir.types import INDEX, MemRefType, Type
from tesserac.tile.cpu.dialect import Shape
from tesserac.tile.cpu.join_rows import join_rows
from tesserac.tile.cpu.shapes import loop_shape
from tesserac.tile.cpu.target import CpuTarget, held, tiled_bytes
from tesserac.tile.cpu.tiles import Axes, Axis, LoweringError, Stored, Tile, compute_type
from tesserac.tile.dialect import compute_scalar, memref_type
from tesserac.types.dims import ONE, ZERO, Dim, product
from tesserac.types.dtype import DType

if TYPE_CHECKING:
    from tesserac.tile.cpu.finished_products import Finished

SCRATCH_ALIGNMENT = LINE_BYTES = 64


class Context:
    """Sizes and scratch stand once, before the body; everything else is appended where `builder` is."""

    def __init__(self, target: CpuTarget, body: Block) -> None:
        self.target = target
        self.builder = Builder(body)
        self.values: dict[Value, Value] = {}
        self.tiles: dict[Value, Tile] = {}
        self.axes: dict[Value, Axis] = {}
        self.versions: dict[Value, int] = {}
        self.scratch_bytes = ZERO
        self.packed: dict[tuple[Tile, bool, int], tuple[Block, Value]] = {}
        """Tiles that stand in panels: in which block they were laid out, and where."""
        self.costly: dict[Tile, Value] = {}
        """Tiles that take long to compute and have several readers, with the values that they are."""
        self.lowered: set[Op] = set()
        """The neutral operations that are done."""
        self.in_place: dict[Op, Stored] = {}
        """Products whose accumulator is changed, and then added to, in the scratch of what a loop carries."""
        self.folded_rows: set[Value] = set()
        """Scratch that has a number for each row of a tile that lies transposed."""
        self.done_stores: set[Op] = set()
        """Stores that the product before them has done."""
        self.finished: dict[Op, Finished] = {}
        """Products whose sums may go to the memory of the result at once."""
        self.stores_elsewhere: dict[Op, Value] = {}
        """Stores that are to be done only where this is not 0 at run time."""
        self._prologue = Block()
        self._open = [self._prologue, body]
        self._pure: dict[object, Value] = {}

    def finish(self) -> None:
        """Puts sizes and scratch before the body; scratch that nobody is left to use takes no room."""
        body = self._open[1]
        for position, op in enumerate(list(self._prologue.ops)):
            op.detach()
            body.insert(position, op)
        join_rows(body)
        self.scratch_bytes = ZERO
        for op in [op for op in body.ops if op.name == "cpu.scratch"]:
            if not op.result.uses:
                op.erase()
                continue
            op.attrs["offset"] = self.scratch_bytes
            self.scratch_bytes += _aligned_bytes(memref_type(op.result))

    # --- places ---------------------------------------------------------------------------------------------------

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """New operations go into `block`, the region of an operation still to be made."""
        self._open.append(block)
        with self.builder.at(block):
            yield block
        self._open.pop()

    @contextmanager
    def outside(self, home: int) -> Iterator[None]:
        """New operations go where block `home` of those open stands now, before what is being made in it."""
        inner, self._open = self._open, self._open[: home + 1]
        with self.builder.at(self._open[-1]):
            yield
        self._open = inner

    def home(self, values: Sequence[Value]) -> int:
        """The number of the outermost open block that has these values; never the sizes alone."""
        return max(self._home(values), 1)

    def is_open(self, block: Block) -> bool:
        return block in self._open

    @property
    def depth(self) -> int:
        """How many blocks are open."""
        return len(self._open)

    def pure(self, name: str, operands: Sequence[Value], type_: Type, attrs: Mapping[str, Attr] | None = None) -> Value:
        """A pure operation, as far out as its operands allow; equal ones are made once."""
        key = (name, tuple(operands), type_, _attr_key(attrs))
        home = self._home(operands)
        made = self._pure.get(key)
        if made is None or self._block_of(made) not in self._open:
            made = self._pure[key] = self._at(home, name, operands, type_, attrs)
        return made

    def load(self, memory: Value, at: Sequence[Value], outermost: int) -> Value:
        """Reads memory that is not written from depth `outermost` on, no further out than that."""
        home = max(self._home(at), outermost - 1)
        assert isinstance(memory.type, MemRefType)
        return self._at(home, "cpu.load", (memory, *at), compute_type(memory.type), None)

    def gather(self, memory: Value, at: Sequence[Value], status: Value | None, wraps: bool, outermost: int) -> Value:
        """Reads memory at places of which some are computed; as `load`."""
        home = max(self._home(at), outermost - 1)
        assert isinstance(memory.type, MemRefType)
        told = () if status is None else (status,)
        return self._at(home, "cpu.gather", (memory, *at, *told), compute_type(memory.type), {"wraps": wraps})

    def _home(self, operands: Sequence[Value]) -> int:
        return max((self._open.index(self._block_of(v)) for v in operands), default=0)

    def _at(
        self, home: int, name: str, operands: Sequence[Value], type_: Type, attrs: Mapping[str, Attr] | None
    ) -> Value:
        with self.builder.at(self._open[home]):
            return self.builder.value(name, operands, type_, attrs)

    def _block_of(self, value: Value) -> Block:
        block = value.owner.parent if isinstance(value.owner, Op) else value.owner
        assert block is not None
        return block

    # --- indices --------------------------------------------------------------------------------------------------

    def dim(self, dim: Dim | int) -> Value:
        """The run-time value of a size, computed once."""
        return self.pure("index.dim", (), INDEX, {"dim": Dim.const(dim) if isinstance(dim, int) else dim})

    def index(self, name: str, left: Value, right: Value | int) -> Value:
        """An index operation, folded where both are constants or the right one changes nothing."""
        other = self.dim(right) if isinstance(right, int) else right
        x, y = constant_index(left), constant_index(other)
        if y is not None and y == _NEUTRAL.get(name):
            return left
        if x == 0 and name == "add":
            return other
        if x is not None and y is not None and name in ("add", "sub", "mul", "min", "max"):
            return self.dim({"add": x + y, "sub": x - y, "mul": x * y, "min": min(x, y), "max": max(x, y)}[name])
        return self.pure(f"index.{name}", (left, other), INDEX)

    def value(self, neutral: Value) -> Value:
        """What became of an index or memory."""
        return self.values[neutral]

    def tile(self, neutral: Value) -> Tile:
        found = self.tiles.get(neutral)
        if found is None:
            raise LoweringError("a tile is used before it is computed", neutral.defining_op)
        return found

    def extents(self, axes: Axes, shape: Sequence[int]) -> list[Value]:
        """How many elements each dim has at run time."""
        return [self.dim(n) if a is None else a.extent for a, n in zip(axes, shape, strict=True)]

    # --- memory ---------------------------------------------------------------------------------------------------

    def scratch(self, dims: Sequence[Dim | int], dtype: DType, layout: str = "strided") -> Value:
        """A new part of the worker's scratch."""
        sizes = tuple(Dim.const(d) if isinstance(d, int) else d for d in dims)
        return self.scratch_like(MemRefType(sizes, dtype, space="local", layout=layout))

    def scratch_like(self, type_: MemRefType) -> Value:
        with self.builder.at(self._prologue):
            return self.builder.value("cpu.scratch", (), type_, {"offset": ZERO})

    def transposed_scratch(self, rows: int, columns: int, dtype: DType) -> Value:
        """Scratch in which rows of a block lie side by side. Neighbouring columns are an odd number of lines apart:
        otherwise those that are read one after the other would share a few sets of a cache."""
        line = LINE_BYTES // dtype.bytes
        lines = -(-rows // line)
        sizes = Dim.const((lines + 1 - lines % 2) * line), Dim.const(columns)
        return self.scratch_like(MemRefType(sizes, dtype, strides=(ONE, sizes[0]), space="local"))

    def stored(self, tile: Tile) -> Stored:
        """Scratch for a tile's elements in the computing type, not yet written."""
        memory = self.scratch(tile.type.shape, compute_scalar(tile.type).dtype)
        return Stored(tile.type, memory, (None,) * len(tile.type.shape), tile.axes)

    def written(self, memory: Value) -> None:
        """From here on blocks of this memory that were loaded before must not be read."""
        self.versions[memory] = self.versions.get(memory, 0) + 1

    def check_current(self, memory: Value, version: int) -> None:
        """Refuses to read a block of memory that was overwritten since it was loaded."""
        if version != self.versions.get(memory, 0):
            raise LoweringError("a block of memory is used after that memory was overwritten")

    # --- loops ----------------------------------------------------------------------------------------------------

    @contextmanager
    def loop(self, low: Value, high: Value, step: int = 1, hint: str = "i") -> Iterator[Value]:
        """A counted loop that carries nothing."""
        block = Block([INDEX], [hint])
        with self.inside(block):
            yield block.args[0]
            self.builder.op("cpu.yield")
        self.builder.op("cpu.loop", (low, high), attrs={"step": step}, blocks=[block])

    @contextmanager
    def vector_loop(self, high: Value, hint: str = "i", *, whole: int = 0) -> Iterator[Value]:
        """Every element from 0 to `high`; the shape is decided by the body that is put into it. `whole`: vectors have
        at most so many lanes, and all of them are full: what lies behind the last element may be overwritten."""
        block = Block([INDEX], [hint])
        with self.inside(block):
            yield block.args[0]
            self.builder.op("cpu.yield")
        shape = loop_shape(self.target, block)
        attrs: dict[str, Attr] = {"shape": shape}
        if whole:
            shape = Shape(min(shape.lanes, whole), shape.parts)
            attrs = {"shape": shape, "whole": True}
            high = self.index("mul", self.index("ceil_div", high, shape.lanes), shape.lanes)
        self.builder.op("cpu.vector_loop", (self.dim(0), high), attrs=attrs, blocks=[block])

    def carrying_loop(self, low: Value, high: Value, init: Value, body: Callable[[Value, Value], Value]) -> Value:
        """A loop that carries one value, from `init` on."""
        block = Block([INDEX, init.type], ["k", "total"])
        with self.inside(block):
            self.builder.op("cpu.yield", (body(*block.args),))
        return self.builder.op("cpu.loop", (low, high, init), [init.type], {"step": 1}, [block]).result

    @contextmanager
    def when(self, left: Value, test: str, right: Value) -> Iterator[None]:
        block = Block()
        with self.inside(block):
            yield
            self.builder.op("cpu.yield")
        self.builder.op("cpu.when", (left, right), attrs={"test": test}, blocks=[block])


_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "floor_div": 1, "ceil_div": 1}


def _aligned_bytes(type_: MemRefType) -> Dim:
    if type_.layout == "tiles":
        size = tiled_bytes(type_.dims, type_.dtype)
    else:
        size = product(type_.dims) * (held(type_.dtype) if type_.layout == "panels" else type_.dtype).bytes
    return size.ceil_div(SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT


def only_user(value: Value) -> tuple[Op, int] | None:
    """The one operation that uses a value, and as which operand."""
    return next(iter(value.uses)) if len(value.uses) == 1 else None


def _attr_key(attrs: Mapping[str, Attr] | None) -> object:
    """Attributes as a key; the text keeps 0.0 and -0.0, or 1 and True, apart."""
    return tuple((name, repr(value)) for name, value in sorted((attrs or {}).items()))
