"""Straight-line bodies: the scalar operations of the CPU dialect, for one element or for several vectors at once.

The same operations in the same order are written for vectors and for single elements, so where a loop is cut never
shows in the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.core import Block, Op, attr
from tesserac.ir.core import Value as IRValue
from tesserac.ir.types import IndexType, ScalarType
from tesserac.numerics.elementary import PROGRAMS, program_dtype
from tesserac.target.cpu.elements.accesses import emit_load, emit_prefetch, emit_store
from tesserac.target.cpu.elements.frame import SINGLE, Entry, Frame, Lanes, Mode, Run, per_part, vectors
from tesserac.target.cpu.elements.gathers import emit_gather, emit_scatter
from tesserac.target.cpu.elements.ordered_floats import extreme, is_ranged
from tesserac.target.cpu.elements.programs import expand, expand_ahead
from tesserac.target.cpu.elements.registers import (
    NARROW,
    UnsupportedError,
    constant,
    round_register,
    saturate,
)
from tesserac.target.cpu.elements.scalars import emit_bitcast, emit_cast, emit_scalar
from tesserac.target.dims import INDEX_OPS
from tesserac.target.entry.system import machine_of
from tesserac.target.flow import for_loop
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I64, Value, const_i64, const_int, const_vector
from tesserac.types.dims import Dim
from tesserac.types.dtype import I64 as INT64
from tesserac.types.dtype import DType
from tesserac.types.policy import Policy


def emit_body(frame: Frame, block: Block, arguments: Sequence[Entry], mode: Mode) -> list[Entry]:
    """Writes the operations of a body once; gives what it yields."""
    saved = frame.mode, frame.memo
    frame.mode, frame.memo = mode, dict(frame.ahead.get((block, mode), {}))
    frame.entries.update(zip(block.args, arguments, strict=True))
    for op in block.ops[:-1]:
        emit_simple(frame, op)
    frame.mode, frame.memo = saved
    return [frame.entries[v] for v in block.terminator.operands]


def prepare_functions(frame: Frame, block: Block, mode: Mode) -> None:
    """Writes, before a loop, what elementary functions of its body need of values that it does not change: the maximum
    of a row, of which every term of a softmax needs some more, is one number."""
    if not mode.lanes or mode.rest:
        return
    saved = frame.mode, frame.memo
    frame.mode, frame.memo = mode, dict(frame.memo) if frame.mode == mode else {}
    for op in block.ops[:-1]:
        name = op.name.removeprefix("scalar.")
        if name not in PROGRAMS or not op.name.startswith("scalar."):
            continue
        outside = [None if _stands_in(block, v) else frame.entries[v] for v in op.operands]
        if any(outside) and not all(outside):
            given = [[None] * mode.parts if entry is None else vectors(frame, entry) for entry in outside]
            dtype = program_dtype(_operand_dtype(op, name))
            for of_part in dict.fromkeys(zip(*given, strict=True)):
                expand_ahead(frame.b, name, dtype, of_part, frame.memo, scales=_scales(frame))
    frame.ahead[block, mode] = frame.memo
    frame.mode, frame.memo = saved


def _stands_in(block: Block, value: IRValue) -> bool:
    made = value.defining_op
    return value in block.args if made is None else made.parent is block


def prefetch(frame: Frame, block: Block, arguments: Sequence[Value]) -> None:
    """Asks for what a body would read at an element that is still to come, which may lie behind the end of memory."""
    saved = frame.mode, frame.memo
    frame.mode, frame.memo = SINGLE, {}
    frame.entries.update(zip(block.args, arguments, strict=True))
    for op in block.ops[:-1]:
        if op.opdef.dialect == "index":
            emit_simple(frame, op)
        elif op.name == "cpu.load" and all(value in frame.entries for value in op.operands[1:]):
            emit_prefetch(frame, op)
    frame.mode, frame.memo = saved


def emit_simple(frame: Frame, op: Op) -> None:
    """One operation of a body."""
    dialect, _, name = op.name.partition(".")
    if dialect == "scalar":
        frame.entries[op.result] = _scalar(frame, op, name)
    elif dialect == "index":
        frame.entries[op.result] = _index(frame, op, name)
    elif op.name == "cpu.load":
        frame.entries[op.result] = emit_load(frame, op)
    elif op.name == "cpu.gather":
        frame.entries[op.result] = emit_gather(frame, op)
    elif op.name == "cpu.store":
        emit_store(frame, op)
    elif op.name == "cpu.scatter":
        emit_scatter(frame, op)
    elif op.name == "cpu.index":
        frame.entries[op.result] = frame.entries[op.operands[0]]
    elif op.name == "cpu.position":
        frame.entries[op.result] = _position(frame, frame.entries[op.operands[0]])
    elif op.name == "cpu.loop":
        _loop(frame, op)
    else:
        raise UnsupportedError(f"{op.name} inside a loop over elements")


def _loop(frame: Frame, op: Op) -> None:
    """A loop that all elements of a group run through together; what it carries varies among them."""
    low, high = (frame.value(v) for v in op.operands[:2])
    step, mode = const_i64(attr(op, "step", int)), frame.mode
    inits = [_spread(frame, frame.entries[v]) for v in op.operands[2:]]
    prepare_functions(frame, op.body, mode)

    def grouped(values: Sequence[Value]) -> list[Entry]:
        return [Lanes(tuple(values[i : i + mode.parts])) for i in range(0, len(values), mode.parts)]

    def body(i: Value, carried: list[Value]) -> Sequence[Value]:
        yielded = emit_body(frame, op.body, [i, *grouped(carried)], mode)
        return [value for entry in yielded for value in _spread(frame, entry)]

    results = for_loop(frame.b, low, high, step, [value for parts in inits for value in parts], body)
    frame.entries.update(zip(op.results, grouped(results), strict=True))


def _spread(frame: Frame, entry: Entry) -> tuple[Value, ...]:
    """One value for each part."""
    assert not isinstance(entry, Run)
    return vectors(frame, entry) if frame.mode.lanes else per_part(frame, entry)


# --- indices ------------------------------------------------------------------------------------------------------


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
    pairs = zip(per_part(frame, left), per_part(frame, right), strict=True)
    return Lanes(tuple(apply(frame.b, x, y) for x, y in pairs))


def _dim_attr(op: Op) -> Dim:
    return attr(op, "dim", Dim)


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
    spread = [vectors(frame, entry) for entry in entries]
    return Lanes(tuple(_apply(frame, op, name, list(zip(*spread, strict=True)))))


def _apply(frame: Frame, op: Op, name: str, rows: Sequence[Sequence[Value]]) -> list[Value]:
    """One primitive on each tuple of operands."""
    b, dtype = frame.b, _operand_dtype(op, name)
    match name:
        case "select":
            return [b.select(*row) for row in rows]
        case "cast":
            return [emit_cast(b, row[0], dtype, _dtype_attr(op)) for row in rows]
        case "bitcast":
            return [emit_bitcast(b, row[0], dtype, _dtype_attr(op)) for row in rows]
        case "round":
            return [_round(b, row[0], dtype, op) for row in rows]
        case _ if name in PROGRAMS:
            return _expanded(frame, name, dtype, rows)
        case _ if is_ranged(frame, name, rows[0][0].type):
            return [extreme(b, name, *row) for row in rows]
    return [emit_scalar(b, name, dtype, row) for row in rows]


def _expanded(frame: Frame, name: str, dtype: DType, rows: Sequence[Sequence[Value]]) -> list[Value]:
    """Narrow types compute in f32 and round; tf32 is stored as f32 and computes as it."""
    wide, rest = program_dtype(dtype), frame.mode.rest
    results = expand(frame.b, name, wide, rows, frame.memo, rest=rest, scales=_scales(frame))
    return [round_register(frame.b, r, dtype) for r in results] if dtype in NARROW else results


def _scales(frame: Frame) -> bool:
    return frame.target.has_masks and machine_of(frame.b.module.triple) == "x86_64"


def _operand_dtype(op: Op, name: str) -> DType:
    type_ = op.operands[1 if name == "select" else 0].type
    assert isinstance(type_, ScalarType)
    return type_.dtype


def _dtype_attr(op: Op) -> DType:
    return attr(op, "dtype", DType)


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
