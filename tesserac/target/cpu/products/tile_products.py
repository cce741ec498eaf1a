"""Products in the matrix unit of a core: `cpu.tile_product`.

    for a pair of tiles of columns:  for a pair of tiles of rows:     tmm0 tmm1     a0 b0  a0 b1
        for a tile of terms:  a0 a1 = tmm4 tmm5, b0 b1 = tmm6 tmm7    tmm2 tmm3  +=  a1 b0  a1 b1

A tile has 32 terms of bf16, or 64 of i8. The unit is set up once for a block and released behind it: a thread that
holds tiles costs the system their memory at every switch. A process asks for them once, which Linux demands. Where the
code is made for another processor, the same sums are written out, in the order of `numerics/tiles.py`; those of i8,
which have no order, in vectors if it has VNNI (`byte_products.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.core import Op
from tesserac.schedule.machine import AMX
from tesserac.target.cpu.elements.frame import Frame
from tesserac.target.cpu.products.byte_products import BytesWrittenOut, VectorsOfBytes
from tesserac.target.cpu.products.tile_blocks import ROW, SIDE, TILE, Blocks
from tesserac.target.dims import ceil_div
from tesserac.target.emit import Function, Module
from tesserac.target.entry.system import imported, machine_of
from tesserac.target.flow import for_loop, if_else, if_then
from tesserac.target.llvm_types import (
    F32,
    I8,
    I32,
    I64,
    VOID,
    Value,
    array,
    const_i64,
    const_int,
    vector,
    zero,
)
from tesserac.types.dtype import BF16, DType

_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
_ASK = "tiles_ask"
_ALLOWED = "tessera.tiles_allowed"


def emit_tile_product(frame: Frame, op: Op) -> None:
    """The addresses of the blocks, and a call."""
    b = frame.b
    left, right, c = (frame.memories[op.operands[i]] for i in (0, 1, 4))
    term, column, rows, columns, depth, done = (frame.value(op.operands[n]) for n in (2, 3, 5, 6, 7, 8))
    terms = const_i64(AMX.terms(left.dtype))
    pitches = [b.mul(ceil_div(b, memory.dims[0], terms), const_i64(TILE)) for memory in (left, right)]
    tiles = b.mul(b.binary("udiv", column, const_i64(SIDE)), pitches[1])
    place = b.add(tiles, b.mul(b.binary("udiv", term, terms), const_i64(TILE)))
    pairs = [ceil_div(b, count, const_i64(2 * SIDE)) for count in (rows, columns)]
    kind = frame.target.tiles if machine_of(frame.module.triple) == "x86_64" else ""
    if kind == "amx":
        b.call(frame.module.find_function(_ASK) or _build_asking(frame.module), [])
    function = _function(frame.module, left.dtype, kind)
    starts = [left.start, b.gep(I8, right.start, place), c.start]
    b.call(function, [*starts, *pitches, c.strides[0], *pairs, ceil_div(b, depth, terms), done, rows])


def _function(module: Module, dtype: DType, kind: str) -> Function:
    name = f"tiles_{dtype}_{kind or 'written'}"
    found = module.find_function(name)
    if found is not None:
        return found
    if kind == "amx":
        return _TileProduct(module, name, dtype).build()
    if dtype == BF16:
        return _WrittenOut(module, name, dtype).build()
    return (VectorsOfBytes if kind == "vnni" else BytesWrittenOut)(module, name, dtype).build()


def _build_asking(module: Module) -> Function:
    """Asks for the unit where that is not done. It refers to what the loader of a program fills in, so that it is the
    program's own, unlike the products, which are compiled once for all programs."""
    function = module.function(_ASK, VOID, [], attributes=("nounwind", "noinline"), linkage="internal")
    b = function.builder
    allowed = module.variable(_ALLOWED, I8, align=1)

    def ask() -> None:
        numbers = ", ".join(f"i64 {n}" for n in (_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA))
        b.define(I64, f"call i64 (i64, ...) {imported(b, 'libc.syscall').text}({numbers})")
        b.store(const_int(I8, 1), allowed, 1)

    if_then(b, b.icmp("eq", b.load(I8, allowed, 1), const_int(I8, 0)), ask)
    b.ret()
    return function


class _TileProduct(Blocks):
    """By instructions of AMX."""

    def _begin(self) -> None:
        self.b.intrinsic("llvm.x86.ldtilecfg", VOID, [self._settings()])

    def _settings(self) -> Value:
        """Palette 1: eight tiles of 16 rows of 64 bytes. Bytes 16 on say the bytes of a row, bytes 48 on the rows."""
        b = self.b
        place = b.alloca(array(I8, 64), 64)
        row_bytes, rows = 0x0001000100010001 * ROW, 0x0101010101010101 * SIDE
        words = [1, 0, row_bytes, row_bytes, 0, 0, rows, 0]
        for number, word in enumerate(words):
            b.store(const_int(I64, word), b.gep(I64, place, number), 8)
        return place

    def _end(self) -> None:
        self.b.intrinsic("llvm.x86.tilerelease", VOID, [])

    def _block(self, left: Value, right: Value, c: Value, rows: Value) -> None:
        b = self.b
        stride = b.mul(self.stride, const_i64(self.sum.bits // 8))
        beside = (const_i64(0), const_i64(SIDE))
        below = (const_i64(0), b.mul(self.stride, const_i64(SIDE)))
        places = [b.gep(self.sum, c, b.add(row, column)) for row in below for column in beside]

        def fresh() -> None:
            for tile in range(4):
                b.intrinsic("llvm.x86.tilezero", VOID, [const_int(I8, tile)])

        def continued() -> None:
            for tile, place in enumerate(places):
                self._load(tile, place, stride)

        if_else(b, b.icmp("eq", self.done, const_i64(0)), fresh, continued)
        lefts, rights = ((p, b.gep(I8, p, pitch)) for p, pitch in ((left, self.left_pitch), (right, self.right_pitch)))

        multiply = "tdpbf16ps" if self.sum == F32 else "tdpbssd"

        def step(q: Value, _: list[Value]) -> Sequence[Value]:
            place = b.mul(q, const_i64(TILE))
            for tile, start in zip((4, 5, 6, 7), (*lefts, *rights), strict=True):
                self._load(tile, b.gep(I8, start, place), const_i64(ROW))
            for sums, (x, y) in enumerate(((4, 6), (4, 7), (5, 6), (5, 7))):
                b.intrinsic(f"llvm.x86.{multiply}", VOID, [const_int(I8, n) for n in (sums, x, y)])
            return []

        for_loop(b, const_i64(0), self.chunks, const_i64(1), [], step)
        for tile, place in enumerate(places):
            b.intrinsic("llvm.x86.tilestored64", VOID, [const_int(I8, tile), place, stride])

    def _load(self, tile: int, place: Value, stride: Value) -> None:
        self.b.intrinsic("llvm.x86.tileloadd64", VOID, [const_int(I8, tile), place, stride])


class _WrittenOut(Blocks):
    """By fma, for tests of kernels on processors without the unit."""

    def _block(self, left: Value, right: Value, c: Value, rows: Value) -> None:
        b = self.b
        for side, below in enumerate((const_i64(0), b.mul(self.stride, const_i64(SIDE)))):
            for beside in range(2):
                a = b.gep(I8, left, b.mul(self.left_pitch, const_i64(side)))
                other = b.gep(I8, right, b.mul(self.right_pitch, const_i64(beside)))
                self._tile(a, other, b.gep(F32, c, b.add(below, const_i64(beside * SIDE))))

    def _tile(self, left: Value, right: Value, c: Value) -> None:
        b, row_type = self.b, vector(F32, SIDE)

        def row(r: Value, _: list[Value]) -> Sequence[Value]:
            place = b.gep(F32, c, b.mul(r, self.stride))
            begun = b.select(
                b.icmp("eq", self.done, const_i64(0)), zero(row_type), b.load(row_type, place, 4)
            )  # fmt: skip

            def chunk(q: Value, state: list[Value]) -> Sequence[Value]:
                tile = b.mul(q, const_i64(TILE))
                a = b.gep(I8, left, b.add(tile, b.mul(r, const_i64(ROW))))
                even, odd = for_loop(
                    b, const_i64(0), const_i64(ROW // 4), const_i64(1), [zero(row_type)] * 2,
                    self._pairs(a, b.gep(I8, right, tile)),
                )  # fmt: skip
                return [b.fadd(state[0], b.fadd(even, odd))]

            (total,) = for_loop(b, const_i64(0), self.chunks, const_i64(1), [begun], chunk)
            b.store(total, place, 4)
            return []

        for_loop(b, const_i64(0), const_i64(SIDE), const_i64(1), [], row, nonempty=True)

    def _pairs(self, a: Value, right: Value) -> Callable[[Value, list[Value]], Sequence[Value]]:
        b, words = self.b, vector(I32, SIDE)

        def body(p: Value, sums: list[Value]) -> Sequence[Value]:
            x = b.splat(b.load(I32, b.gep(I32, a, p), 4), SIDE)
            y = b.load(words, b.gep(I8, right, b.mul(p, const_i64(ROW))), 4)
            shifts = [(v, b.binary("shl", v, const_int(words, 16))) for v in (x, y)]
            low = [b.cast("bitcast", shifted, vector(F32, SIDE)) for _, shifted in shifts]
            upper = [b.binary("and", v, const_int(words, -(1 << 16))) for v in (x, y)]
            high = [b.cast("bitcast", v, vector(F32, SIDE)) for v in upper]
            return [b.fma(low[0], low[1], sums[0]), b.fma(high[0], high[1], sums[1])]

        return body
