"""Pass `reduce`: a reduction block becomes what the threads that share it do, in the canonical order.

    %s = gpu.reduce(%x, %i) {axes = [0], kind = "sum", order = #blocks<block=512, lanes=64>}
  becomes
    %0 = gpu.mask(%x, %i) {dim = 0, value = -0.0}              an absent term leaves a sum as it is
    %1 = gpu.fold(%0) {dim = 0, kind = "sum", width = 64}      lane i adds x[i], x[i + 64], ... ascending
    %2 = gpu.butterfly(%1) {dim = 0, kind = "sum", lane = 8}   r[i] += r[i + 32]
    ...                                                        16, 8, 4 by lanes 4, 2, 1
    %6 = gpu.fold(%5) {dim = 0, kind = "sum", width = 2}       r[i] += r[i + 2]
    %7 = gpu.fold(%6) {dim = 0, kind = "sum", width = 1}       the dim goes away

Each halving is a fold where both halves are in one thread, and a butterfly where they are in two lanes: of threads that
have several numbers left, each keeps half of them then (`gpu.halve`), and lanes have what registers had. Where they are
in two warps, all that is left of the dim goes through shared memory into every thread's registers; what has no order is
numbered anew before (`gpu.relabel`), so that this comes last, and lanes exchange one number each.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import ORDERED_KINDS, indices
from tesserac.numerics.order import Blocks, Free
from tesserac.tile.bodies import identity_of
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.layout import REDUCE_LANES, Layout
from tesserac.tile.gpu.model.types import FragmentType
from tesserac.tile.gpu.model.values import fragment, text
from tesserac.types.dtype import DType
from tesserac.types.policy import NO_POLICY, compute_dtype


def expand_reductions(kernel: Op) -> None:
    """Changes the kernel in place."""
    ops = list(kernel.walk())
    rows = not any(op.name == "gpu.dot" for op in ops)  # of memory: what lanes have of a product is for the next one
    for op in ops:
        if op.name == "gpu.reduce":
            result = _expand(op, rows)
            op.result.replace_all_uses(result)
            op.erase()


def _expand(op: Op, rows: bool) -> Value:
    (dim,), kind, order = indices(op, "axes"), text(op, "kind"), op.attrs.get("order")
    if kind in ORDERED_KINDS and not isinstance(order, Free) and order != Blocks(512, REDUCE_LANES):
        raise LoweringError(f"a reduction in the order {order}")
    source, axis = op.operands
    b = Builder.before(op)
    ty = fragment(source)
    accum = compute_dtype(ty.dtype, ty.policy)
    x = b.value("gpu.mask", (source, axis), ty, {"dim": dim, "value": identity(kind, accum)})
    _share(op, source, x)
    if kind not in ORDERED_KINDS:
        x = _threads_last(b, x, dim, rows)
    width = min(REDUCE_LANES, ty.shape[dim]) if kind in ORDERED_KINDS else _held(ty, dim)
    x = _fold(b, x, dim, kind, width, accum)
    while width > 1:
        x = _halve(b, x, dim, kind, width // 2, accum, rows)
        width //= 2
    return x


def _share(op: Op, source: Value, masked: Value) -> None:
    """What lies outside the axis is nobody's: those that read the block later read it masked, and may know by what."""
    assert op.parent is not None
    here = op.parent.place(op)
    for user, position in list(source.uses):
        if user.parent is op.parent and user.name == "gpu.map" and op.parent.place(user) > here:
            user.set_operand(position, masked)


def _threads_last(b: Builder, x: Value, dim: int, rows: bool) -> Value:
    """The same registers, as if neighbours along the dim lay in different warps, then in different lanes: where the
    order of what is folded does not matter, threads fold what they have before they tell each other."""
    ty = fragment(x)
    layout = ty.layout
    if len(ty.shape) > 1 and not rows and not any(bit is not None and bit[0] == dim for bit in layout.warps):
        return x
    bits = [bit for bit in (*layout.warps, *layout.lanes, *layout.registers) if bit is not None and bit[0] == dim]
    steps = {bit: (dim, 1 << place) for place, bit in enumerate(bits)}
    parts = (layout.registers, layout.lanes, layout.warps)
    registers, lanes, warps = (tuple(bit and steps.get(bit, bit) for bit in part) for part in parts)
    return b.value("gpu.relabel", (x,), replace(ty, layout=Layout(registers, lanes, warps)))


def _held(ty: FragmentType, dim: int) -> int:
    """The least distance from which on each thread has all elements that far apart."""
    width = ty.shape[dim]
    while width > 1 and (dim, width // 2) in ty.layout.registers:
        width //= 2
    return width


def _halve(b: Builder, x: Value, dim: int, kind: str, half: int, accum: DType, rows: bool) -> Value:
    """r[i] (op)= r[i + half]"""
    layout, exchanges = fragment(x).layout, rows or len(fragment(x).shape) == 1
    if exchanges and (dim, half) in layout.lanes and (held := _own_bit(layout, dim)) is not None:
        return _halved(b, x, dim, kind, half, held)
    if (dim, half) in layout.lanes:
        folded = _butterfly(b, x, dim, kind, half)
        return _fold(b, folded, dim, kind, 1, accum) if half == 1 else folded
    if (dim, half) in layout.warps:
        x = b.value("gpu.convert", (x,), replace(fragment(x), layout=layout.gathered(dim)))
    return _fold(b, x, dim, kind, half, accum)


def identity(kind: str, dtype: DType) -> float | int:
    """What changes nothing. Of sums it is -0: x + -0 is x also where x is -0."""
    return -0.0 if kind == "sum" and dtype.is_float else identity_of(kind, dtype)


def _fold(b: Builder, x: Value, dim: int, kind: str, width: int, accum: DType) -> Value:
    ty = fragment(x)
    layout, step = ty.layout, ty.shape[dim] // 2
    while step >= width:
        layout = layout.halved(dim, step)
        step //= 2
    if width == 1:
        kept = [i for i in range(len(ty.shape)) if i != dim]
        folded = FragmentType(tuple(ty.shape[i] for i in kept), accum, NO_POLICY, layout.project(kept))
    else:
        folded = FragmentType(_resized(ty, dim, width), accum, NO_POLICY, layout)
    return b.value("gpu.fold", (x,), folded, {"dim": dim, "kind": kind, "width": width})


def _own_bit(layout: Layout, dim: int) -> tuple[int, int] | None:
    """The first step along a dim that a thread holds both sides of."""
    return next((bit for bit in layout.registers if bit is not None and bit[0] == dim), None)


def _halved(b: Builder, x: Value, dim: int, kind: str, half: int, held: tuple[int, int]) -> Value:
    ty = fragment(x)
    folded = replace(ty, shape=_resized(ty, dim, half), layout=ty.layout.exchanged((dim, half), held))
    attrs = {"dim": dim, "kind": kind, "lane": 1 << ty.layout.lanes.index((dim, half)), "step": held[1]}
    return b.value("gpu.halve", (x,), folded, attrs)


def _butterfly(b: Builder, x: Value, dim: int, kind: str, half: int) -> Value:
    ty = fragment(x)
    layout: Layout = ty.layout.halved(dim, half)
    folded = replace(ty, shape=_resized(ty, dim, half), layout=layout)
    attrs = {"dim": dim, "kind": kind, "lane": 1 << ty.layout.lanes.index((dim, half))}
    return b.value("gpu.butterfly", (x,), folded, attrs)


def _resized(ty: FragmentType, dim: int, size: int) -> tuple[int, ...]:
    return (*ty.shape[:dim], size, *ty.shape[dim + 1 :])
