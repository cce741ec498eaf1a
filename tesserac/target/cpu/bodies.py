"""Straight-line bodies: the scalar operations of the CPU dialect, for one element or for several vectors at once.

The same operations in the same order are written for vectors and for single elements, so where a loop is cut never
shows in the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.ir.core import Block, Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.types import IndexType, MemRefType, ScalarType
from tesserac.numerics.elementary import ELEMENTARY
from tesserac.target.cpu.frame import SINGLE, Entry, Frame, Lanes, Memory, Mode, Run
from tesserac.target.cpu.programs import expand
from tesserac.target.cpu.registers import (
    NARROW,
    UnsupportedError,
    constant,
    narrow,
    register_type,
    round_register,
    saturate,
    widen,
)
from tesserac.target.cpu.scalars import emit_cast, emit_scalar
from tesserac.target.dims import ceil_div, floor_div, modulo
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I64, LType, Value, const_i64, const_int, const_vector, undefined, vector
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32, DType
from tesserac.types.dtype import I64 as INT64
from tesserac.types.policy import Policy


def emit_body(frame: Frame, block: Block, arguments: Sequence[Entry], mode: Mode) -> list[Entry]:
    """Writes the operations of a body once; gives what it yields."""
    saved = frame.mode, frame.memo
    frame.mode, frame.memo = mode, {}
    frame.entries.update(zip(block.args, arguments, strict=True))
    for op in block.ops[:-1]:
        emit_simple(frame, op)
    frame.mode, frame.memo = saved
    return [frame.entries[v] for v in block.terminator.operands]


def emit_simple(frame: Frame, op: Op) -> None:
    """One operation without a region."""
    dialect, _, name = op.name.partition(".")
    if dialect == "scalar":
        frame.entries[op.result] = _scalar(frame, op, name)
    elif dialect == "index":
        frame.entries[op.result] = _index(frame, op, name)
    elif op.name == "cpu.load":
        frame.entries[op.result] = _load(frame, op)
    elif op.name == "cpu.store":
        _store(frame, op)
    elif op.name == "cpu.position":
        frame.entries[op.result] = _position(frame, frame.entries[op.operands[0]])
    else:
        raise UnsupportedError(f"{op.name} inside a loop over elements")


# --- indices ------------------------------------------------------------------------------------------------------

INDEX_OPS: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "add": Builder.add,
    "sub": Builder.sub,
    "mul": Builder.mul,
    "floor_div": floor_div,
    "ceil_div": ceil_div,
    "rem": modulo,
    "min": Builder.minimum_int,
    "max": Builder.maximum_int,
}


def _index(frame: Frame, op: Op, name: str) -> Entry:
    if name == "dim":
        return frame.dim(_dim_attr(op))
    left, right = (frame.entries[v] for v in op.operands)
    apply = INDEX_OPS[name]
    if isinstance(left, Value) and isinstance(right, Value):
        return apply(frame.b, left, right)
    if isinstance(left, Run) and isinstance(right, Value) and name in ("add", "sub"):
        return Run(apply(frame.b, left.base, right), left.offsets)
    if isinstance(right, Run) and isinstance(left, Value) and name == "add":
        return Run(frame.b.add(left, right.base), right.offsets)
    if isinstance(left, Run) or isinstance(right, Run):
        raise UnsupportedError(f"index.{name} of an index that runs along the lanes")
    pairs = zip(_per_part(frame, left), _per_part(frame, right), strict=True)
    return Lanes(tuple(apply(frame.b, x, y) for x, y in pairs))


def _dim_attr(op: Op) -> Dim:
    dim = op.attrs["dim"]
    assert isinstance(dim, Dim)
    return dim


def _per_part(frame: Frame, entry: Value | Lanes) -> tuple[Value, ...]:
    return entry.parts if isinstance(entry, Lanes) else (entry,) * frame.mode.parts


def _position(frame: Frame, entry: Entry) -> Entry:
    if not isinstance(entry, Run):
        return entry
    lanes = frame.mode.lanes
    ascending = const_vector([const_int(I64, i) for i in range(lanes)])
    starts = [frame.b.splat(frame.b.add(entry.base, const_i64(o)), lanes) for o in entry.offsets]
    return Lanes(tuple(frame.b.add(start, ascending) for start in starts))


# --- scalars ------------------------------------------------------------------------------------------------------


def _scalar(frame: Frame, op: Op, name: str) -> Entry:
    if name == "constant":
        return _constant(frame, op)
    if name == "dim":
        return _size(frame, op)
    entries = [frame.entries[v] for v in op.operands]
    if all(isinstance(e, Value) for e in entries):
        rows = [[e for e in entries if isinstance(e, Value)]]
        return _apply(frame, op, name, rows)[0]
    spread = [_vectors(frame, entry) for entry in entries]
    return Lanes(tuple(_apply(frame, op, name, list(zip(*spread, strict=True)))))


def _apply(frame: Frame, op: Op, name: str, rows: Sequence[Sequence[Value]]) -> list[Value]:
    """One primitive on each tuple of operands."""
    b, dtype = frame.b, _operand_dtype(op, name)
    match name:
        case "select":
            return [b.select(*row) for row in rows]
        case "cast":
            return [emit_cast(b, row[0], dtype, _dtype_attr(op)) for row in rows]
        case "round":
            return [_round(b, row[0], dtype, op) for row in rows]
        case _ if name in ELEMENTARY:
            return _elementary(frame, name, dtype, rows)
    return [emit_scalar(b, name, dtype, row) for row in rows]


def _elementary(frame: Frame, name: str, dtype: DType, rows: Sequence[Sequence[Value]]) -> list[Value]:
    """Narrow types compute in f32 and round."""
    results = expand(frame.b, name, F32 if dtype in NARROW else dtype, rows, frame.memo)
    return [round_register(frame.b, r, dtype) for r in results] if dtype in NARROW else results


def _operand_dtype(op: Op, name: str) -> DType:
    type_ = op.operands[1 if name == "select" else 0].type
    assert isinstance(type_, ScalarType)
    return type_.dtype


def _dtype_attr(op: Op) -> DType:
    dtype = op.attrs["dtype"]
    assert isinstance(dtype, DType)
    return dtype


def _round(b: Builder, value: Value, compute: DType, op: Op) -> Value:
    target, policy = _dtype_attr(op), op.attrs["policy"]
    assert isinstance(policy, Policy)
    if policy.saturate:
        value = saturate(b, value, target)
    return emit_cast(b, emit_cast(b, value, compute, target), target, compute)


def _constant(frame: Frame, op: Op) -> Value:
    type_, value = op.result.type, op.attrs["value"]
    assert isinstance(type_, ScalarType) and isinstance(value, bool | int | float)
    made = constant(type_.dtype, value)
    return round_register(frame.b, made, type_.dtype) if type_.dtype in NARROW else made


def _size(frame: Frame, op: Op) -> Value:
    size, type_ = frame.dim(_dim_attr(op)), op.result.type
    if isinstance(type_, IndexType):
        return size
    assert isinstance(type_, ScalarType)
    return emit_cast(frame.b, size, INT64, type_.dtype)


def _vectors(frame: Frame, entry: Entry) -> tuple[Value, ...]:
    """Every part as a vector of the mode's lanes."""
    assert not isinstance(entry, Run)
    lanes = frame.mode.lanes
    if isinstance(entry, Value):
        return (_splat(frame, entry, lanes),) * frame.mode.parts
    return tuple(v if v.type.lanes else _splat(frame, v, lanes) for v in entry.parts)


def _splat(frame: Frame, value: Value, lanes: int) -> Value:
    """A value in every lane, made once per body."""
    key = ("splat", str(value))
    if key not in frame.memo:
        frame.memo[key] = frame.b.splat(value, lanes)
    return frame.memo[key]


# --- memory -------------------------------------------------------------------------------------------------------


def _load(frame: Frame, op: Op) -> Entry:
    memory = frame.memories[op.operands[0]]
    places = [frame.entries[v] for v in op.operands[1:]]
    compute = _result_dtype(op.result)
    if all(isinstance(p, Value) for p in places):
        return _widened(
            frame, frame.b.load(memory.element, _address(frame, memory, places, 0), _align(memory)), memory, compute
        )
    step = lane_stride(frame, memory, places)
    loaded = []
    for part in range(frame.mode.parts):
        value = _load_part(frame, memory, _address(frame, memory, places, part), step)
        loaded.append(_widened(frame, value, memory, compute))
    return Lanes(tuple(loaded))


def _widened(frame: Frame, value: Value, memory: Memory, compute: DType) -> Value:
    return emit_cast(frame.b, widen(frame.b, value, memory.dtype), memory.dtype, compute)


def _load_part(frame: Frame, memory: Memory, address: Value, step: Value | None) -> Value:
    """One vector: contiguous, gathered with a stride, or one element for all lanes."""
    b, lanes = frame.b, frame.mode.lanes
    if step is None or lanes == 0:
        return b.load(memory.element, address, _align(memory))
    if step.number == 1:
        return b.load(vector(memory.element, lanes), address, _align(memory))
    whole = undefined(vector(memory.element, lanes))
    for lane in range(lanes):
        item = b.load(memory.element, b.gep(memory.element, address, b.mul(step, const_i64(lane))), _align(memory))
        whole = b.insert(whole, item, lane)
    return whole


def _store(frame: Frame, op: Op) -> None:
    memory = frame.memories[op.operands[1]]
    places = [frame.entries[v] for v in op.operands[2:]]
    compute = _result_dtype(op.operands[0])
    entry, step = frame.entries[op.operands[0]], lane_stride(frame, memory, places)
    assert not isinstance(entry, Run)
    values = _vectors(frame, entry) if step is not None else _per_part(frame, entry)
    for part, value in enumerate(values):
        stored = narrow(frame.b, _to_storage(frame, value, compute, memory, op), memory.dtype)
        _store_part(frame, memory, _address(frame, memory, places, part), step, stored)


def _to_storage(frame: Frame, value: Value, compute: DType, memory: Memory, op: Op) -> Value:
    """The element type of the memory, still as held in a register. `narrow` rounds f32 to narrow types by itself."""
    type_ = op.operands[1].type
    assert isinstance(type_, MemRefType)
    if type_.policy.saturate:
        value = saturate(frame.b, value, memory.dtype)
    if memory.dtype in NARROW and compute == F32:
        return value
    return emit_cast(frame.b, value, compute, memory.dtype)


def _store_part(frame: Frame, memory: Memory, address: Value, step: Value | None, value: Value) -> None:
    b = frame.b
    if step is None or step.number == 1 or not value.type.lanes:
        b.store(value, address, _align(memory))
        return
    for lane in range(value.type.lanes):
        place = b.gep(memory.element, address, b.mul(step, const_i64(lane)))
        b.store(b.extract(value, lane), place, _align(memory))


def _align(memory: Memory) -> int:
    return memory.element.bits // 8


def _result_dtype(value: IRValue) -> DType:
    assert isinstance(value.type, ScalarType)
    return value.type.dtype


def lane_stride(frame: Frame, memory: Memory, places: Sequence[Entry]) -> Value | None:
    """How far apart neighbouring lanes are in memory; none where all lanes are at one place."""
    runs = [s for p, s in zip(places, memory.strides, strict=True) if isinstance(p, Run)]
    if not runs:
        return None
    total = runs[0]
    for stride in runs[1:]:
        total = frame.b.add(total, stride)
    return total


def _address(frame: Frame, memory: Memory, places: Sequence[Entry], part: int) -> Value:
    """Where a part begins: what does not change in the loop first, then the running index, then the part's offset."""
    b, element = frame.b, memory.element
    fixed, running, ahead = const_i64(0), const_i64(0), const_i64(0)
    for place, stride in zip(places, memory.strides, strict=True):
        match place:
            case Run():
                running = b.add(running, b.mul(place.base, stride))
                ahead = b.add(ahead, b.mul(const_i64(place.offsets[part]), stride))
            case Lanes():
                fixed = b.add(fixed, b.mul(place.parts[part], stride))
            case _:
                fixed = b.add(fixed, b.mul(place, stride))
    return b.gep(element, b.gep(element, b.gep(element, memory.start, fixed), running), ahead)


def value_type(dtype: DType, mode: Mode) -> LType:
    """The LLVM type of one part."""
    element = register_type(dtype)
    return vector(element, mode.lanes) if mode.lanes else element


__all__ = ["SINGLE", "emit_body", "emit_simple", "value_type"]
