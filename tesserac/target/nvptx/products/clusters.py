"""Blocks of threads that run side by side as a cluster, and share out sums through each other's shared memory."""

from __future__ import annotations

from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.target.llvm_types import F32, I8, I32, I64, VOID, Value, const_i64, const_int, vector
from tesserac.target.nvptx.context import Context
from tesserac.target.nvptx.registers.conversions import constant
from tesserac.tile.gpu.layouts.clusters import CLUSTER
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.layout import WHOLE_WARP
from tesserac.tile.gpu.model.values import fragment, integer
from tesserac.types.dtype import F32 as SINGLE

VECTOR = 4
"""Numbers that a thread writes and reads at once."""
WARP_ROWS = 16
"""Those of a product that a warp has the sums of."""


def size(kernel: Op) -> int:
    """How many blocks of threads a program is."""
    return integer(kernel, CLUSTER) if CLUSTER in kernel.attrs else 1


def attributes(kernel: Op) -> list[str]:
    """Those of the function of a kernel that is launched in clusters."""
    return [f'"nvvm.cluster_dim"="{size(kernel)},1,1"'] if size(kernel) > 1 else []


def emit_rank(ctx: Context, op: Op) -> None:
    ctx.indices[op.result] = ctx.b.cast("zext", ctx.sreg("cluster.ctarank"), I64)


def emit_exchange(ctx: Context, op: Op) -> None:
    """All have read their stages when parts are written there: a part for each block of threads into its memory, where
    threads of the same number find them."""
    b, (part,) = ctx.b, op.operands
    own = fragment(op.results[0])
    if own.dtype != SINGLE or own.layout.count % VECTOR:
        raise LoweringError(f"an exchange of {own} between blocks of threads")
    count, vectors = len(op.results), own.layout.count // VECTOR
    distance = VECTOR * 4 * WHOLE_WARP * (own.shape[0] // WARP_ROWS)
    if count * vectors * distance > sum(ring.type.depth * ring.type.layout.bytes for ring in ctx.rings.values()):
        raise LoweringError(f"{count} parts of {own} do not fit the stages")
    base = next(iter(ctx.shared.values()))
    mine = b.gep(I8, base, b.mul(b.cast("zext", ctx.thread, I64), const_i64(VECTOR * 4)))
    place = b.cast("trunc", b.cast("ptrtoint", mine, I64), I32)
    slot = b.mul(ctx.sreg("cluster.ctarank"), const_int(I32, vectors * distance))
    _wait_for_all(ctx)
    for other in range(count):
        there = _address_of(ctx, b.add(place, slot), other)
        for number in range(vectors):
            offsets = own.layout.offsets[VECTOR * number : VECTOR * (number + 1)]
            places = [{**at, 1: at.get(1, 0) + other * own.shape[1]} for at in offsets]
            values = [_value(ctx, part, at) for at in places]
            arguments = [b.add(there, const_int(I32, number * distance)), *values]
            b.asm(VOID, "st.shared::cluster.v4.f32 [$0], {$1, $2, $3, $4};", "r,f,f,f,f,~{memory}", arguments)
    _wait_for_all(ctx)
    for segment, result in enumerate(op.results):
        found: list[Value] = []
        for number in range(vectors):
            address = b.gep(I8, mine, (segment * vectors + number) * distance)
            loaded = b.load(vector(F32, VECTOR), address, VECTOR * 4)
            found += [b.extract(loaded, i) for i in range(VECTOR)]
        ctx.fragments[result] = found


def _value(ctx: Context, part: IRValue, at: dict[int, int]) -> Value:
    """The sum at a place of the part, 0 behind its last column."""
    ty = fragment(part)
    return ctx.fragments[part][ty.layout.register_at(at)] if at[1] < ty.shape[1] else constant(ty.dtype, 0.0)


def _wait_for_all(ctx: Context) -> None:
    """Threads of the cluster that have ended are not waited for: those that copied."""
    for step in ("arrive", "wait"):
        ctx.b.intrinsic(f"llvm.nvvm.barrier.cluster.{step}.aligned", VOID, [])


def _address_of(ctx: Context, place: Value, other: int) -> Value:
    """Where the same place is in the shared memory of another block of threads."""
    return ctx.b.asm(I32, "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", [place, const_int(I32, other)], pure=True)
