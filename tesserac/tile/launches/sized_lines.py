"""Kernels of lines without the sizes of one program: steps of transforms of any length share their code.

    launch lines  space [B, 4096, 16]                      tile.kernel @f$1 {code = "lines.91c0", given = [B, 4096, 16]}
    reads  strides [1048576, 16, 1], line (16, 65536)   ==>  tile.kernel @lines.91c0    sizes s00, s01, s02
    writes strides [1048576, 256, 1], line (16, 16)             reads strides [16*s01*s02, s02, 1], line (16, s01*s02)

Enters: a decided launch of lines. Leaves: a kernel in which every size is a symbol, called by what it says, and what a
launch gives for each symbol. A stride that follows from sizes is written so; any other is a symbol of its own. What a
line holds, how elements lie beside each other and a size of a few stay numbers, since vectors are made of them. The
operations at a point are those of the launch: sizes never change bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import sha256

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import OPDEFS, Attr, Block, Op, Region, attr_tuple
from tesserac.ir.lines import codelet_of
from tesserac.ir.meaning import body_meaning
from tesserac.ir.types import MemRefType
from tesserac.schedule.chains.packed_columns import Packed, packed_reach
from tesserac.schedule.dialect import PACKS, Loop, launch_loops, launch_space, launch_units, memory
from tesserac.schedule.model.space import Reach, computing, read_reach, write_reach
from tesserac.tile.dialect import CODE, GIVEN, SYMBOLS
from tesserac.tile.launches.frame import Frame
from tesserac.tile.launches.lines import build_lines
from tesserac.tile.merge import merge_maps
from tesserac.types.dims import ONE, ZERO, Dim

FEW = 4
"""A size or stride up to which a number stays one: fewer elements make no vector, and parts lie so far apart."""
SHORT = (4, 8)
"""Sizes of the innermost loop that are a short vector, which stay numbers too: of rows of so many a loop would show."""
BLOCKS = (3, 7, 15, 8192)
"""The most that a program walks of a loop, which is told how far it goes: vectors are as long as fit into the least
that is above the one before."""
NOMINAL = 1 << 20
"""What a symbol of the program counts where strides are ordered."""


@dataclass(frozen=True)
class _Extent:
    """A size with the stride along it: of a loop, or of a line that has no loop."""

    size: Dim
    stride: Dim
    loop: int | None = None


class _Symbols:
    """Names for numbers of a launch, and what each stands for there."""

    def __init__(self) -> None:
        self.given: list[Dim] = []
        self._strides: dict[Dim, Dim] = {}

    def new(self, number: Dim) -> Dim:
        self.given.append(number)
        return Dim.sym(f"s{len(self.given) - 1:02}")

    def size(self, size: Dim, is_inner: bool) -> Dim:
        number = size.constant
        few = number is not None and is_inner and (number < FEW or number in SHORT)
        return size if size == ONE or few else self.new(size)

    def stride(self, stride: Dim) -> Dim:
        """One that does not follow from sizes."""
        if stride.constant is not None and abs(stride.constant) <= FEW:
            return stride
        if _is_negative(stride):
            return -self.stride(-stride)
        if stride not in self._strides:
            self._strides[stride] = self.new(stride)
        return self._strides[stride]

    def values(self) -> dict[str, Dim]:
        return {f"s{number:02}": dim for number, dim in enumerate(self.given)}


class SizedFrame(Frame):
    """A frame whose space are the loops of a launch, with symbols for their sizes."""

    def __init__(self, launch: Op) -> None:
        super().__init__(launch)
        (self._op,) = computing(launch)
        self.symbols = _Symbols()
        own, space = launch_loops(launch), launch_space(launch)
        self._sizes = [loop.size for loop in own]
        inner = max((i for i, size in enumerate(self._sizes) if size != ONE), default=0)
        self.space = tuple(self.symbols.size(size, i == inner) for i, size in enumerate(self._sizes))
        named = zip(own, self.space, strict=True)
        self.loops = tuple(
            Loop((i,), size, _block(loop, i == inner, i == 0), loop.kind) for i, (loop, size) in enumerate(named)
        )
        blocks = {i: own[i].block for i, loop in enumerate(self.loops) if loop.block > 1 and loop.size != ONE}
        self._blocks = {i: self.symbols.new(Dim.const(block)) for i, block in blocks.items()}
        self._reads: list[Reach] = []
        for position in range(len(self._op.operands)):
            reach = read_reach(launch, self._op, position)
            assert reach is not None, "a launch of lines computes nothing else"
            self._reads.append(self._sized(_along(_packed(launch, reach), own, space)))
        self._write = self._sized(_along(_packed(launch, write_reach(launch, 0)), own, space))

    def read(self, op: Op, position: int) -> Reach:
        return self._reads[position]

    def write(self, number: int) -> Reach:
        return self._write

    def _steps(self) -> dict[int, Dim]:
        return self._blocks

    def walked(self, op: Op) -> tuple[int, ...]:
        return tuple(range(len(self.loops)))

    def _sized(self, reach: Reach) -> Reach:
        """The same with symbols. From the innermost extent outwards, each stride follows from those before if memory
        has no gap there."""
        extents = [_Extent(self._sizes[i], s, i) for i, s in enumerate(reach.strides) if s != ZERO]
        lines = [_Extent(dim, stride) for dim, stride in reach.computed]
        found: dict[_Extent, Dim] = {}
        whole, named = ONE, ONE
        for extent in sorted({*extents, *lines}, key=_reached):
            stride = self._named_stride(extent, whole, named)
            found[extent] = stride
            size = extent.size if extent.loop is None else self.space[extent.loop]
            if extent.size != ONE:
                whole, named = _positive(extent.stride) * extent.size, _positive(stride) * size
        along = {extent.loop: found[extent] for extent in extents}
        strides = tuple(along.get(i, ZERO) for i in range(len(self.loops)))
        computed = tuple((extent.size, found[extent]) for extent in lines)
        offset = named if reach.offset == whole != ONE else self.symbols.stride(reach.offset)
        return replace(reach, offset=offset, strides=strides, computed=computed)

    def _named_stride(self, extent: _Extent, whole: Dim, named: Dim) -> Dim:
        if extent.stride in (whole, -whole):
            return named if extent.stride == whole else -named
        return named if extent.size == ONE else self.symbols.stride(extent.stride)

    @cached_property
    def name(self) -> str:
        """What the kernel is called: equal for launches that do the same."""
        memories = [str(_element(memory(self.launch.operands[r.operand]))) for r in (*self._reads, self._write)]
        said = [*memories, *map(repr, (self.loops, self._reads, self._write, launch_units(self.launch)))]
        codelet = codelet_of(self._op)
        computed = body_meaning(self._op.body) if codelet is None else repr(codelet)
        return f"lines.{sha256(chr(10).join([*said, computed]).encode()).hexdigest()[:24]}"

    def kernel(self) -> Op:
        """The kernel itself."""
        build_lines(self)
        made = self.finish(self.name)
        made.attrs[SYMBOLS] = tuple(self.symbols.values())
        merge_maps(made)
        return made

    def head(self, symbol: str) -> Op:
        """What stands for it in a program: its grid and memory there, and what its sizes are given as."""
        values = self.symbols.values()
        block = Block()
        for arg in self.block.args:
            type_ = arg.type
            if isinstance(type_, MemRefType):
                dims, strides = (tuple(d.substitute(values) for d in part) for part in (type_.dims, type_.strides))
                type_ = MemRefType(dims, type_.dtype, type_.policy, strides)
            block.add_arg(type_, arg.name)
        block.append(Op(OPDEFS["tile.return"], (), (), {}, (), self.launch.span))
        attrs: dict[str, Attr] = {**self.kernel_attrs(symbol), CODE: self.name, GIVEN: tuple(self.symbols.given)}
        attrs["grid"] = tuple(size.substitute(values) for size in self.grid)
        return Op(OPDEFS["tile.kernel"], (), (), attrs, [Region(block)], self.launch.span)

    def touched(self) -> Dim:
        return super().touched().substitute(self.symbols.values())


def _block(loop: Loop, is_inner: bool, is_first: bool) -> int:
    """What a block holds at most: one of a few numbers. A program of one row has no loop over rows."""
    if loop.size == ONE or (is_first and loop.block == 1):
        return loop.block
    size = loop.size.constant
    most = loop.block if size is None else min(loop.block, size)
    return next(block for block in (*BLOCKS, loop.block) if block >= most) if is_inner else max(BLOCKS[-1], loop.block)


def _packed(launch: Op, reach: Reach) -> Reach:
    """A reach of memory as it lies where programs run in turn."""
    packed = attr_tuple(launch, PACKS, object)[reach.operand] if PACKS in launch.attrs else None
    if not isinstance(packed, Packed):
        return reach
    found = packed_reach(reach, packed)
    assert found is not None, "a chain is one where memory can be packed"
    return found


def _along(reach: Reach, loops: Sequence[Loop], space: Sequence[Dim]) -> Reach:
    """A reach along loops."""
    strides = [reach.stride(loop.axes, tuple(space)) for loop in loops]
    assert None not in strides, "loops are merged only where every operand sees one run"
    sized = zip(strides, loops, strict=True)
    return replace(reach, strides=tuple(ZERO if s is None or loop.size == ONE else s for s, loop in sized))


def _reached(extent: _Extent) -> tuple[int, int, int]:
    """How far an extent is from the innermost."""
    return abs(_nominal(extent.stride)), _nominal(extent.size), -1 if extent.loop is None else extent.loop


def _positive(stride: Dim) -> Dim:
    return -stride if _is_negative(stride) else stride


def _is_negative(stride: Dim) -> bool:
    return _nominal(stride) < 0


def _nominal(dim: Dim) -> int:
    return dim.evaluate(dict.fromkeys(dim.symbols(), NOMINAL))


def _element(type_: MemRefType) -> tuple[str, str]:
    return type_.dtype.name, str(type_.policy)
