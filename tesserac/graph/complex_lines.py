"""Lines of complex numbers (`ir/lines.py`) as lines of their parts.

Enters: a `form.lines` of complex tensors, and the parts of its operands. Leaves: one of real tensors, whose result has
one more line, of the two parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from tesserac.graph.complex_scalars import Pair, PartsWriter, Scalar
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import operand_maps, tensor_type
from tesserac.ir.interleaved import TWO, part_type
from tesserac.ir.lines import LINES, line_length, lines_out
from tesserac.ir.types import ScalarType, TensorType
from tesserac.ops.lowering import DimMap
from tesserac.types.dtype import component


def split_lines(
    builder: Builder, op: Op, pairs: Mapping[Value, Pair], rows: Mapping[Value, Value], in_a_row: bool
) -> Value:
    """The result as its parts: `in_a_row`, number by number in a last dim of two, or one behind the other in a first.
    Operands are read in the same ways: number by number where they are in `rows`. A real result is as it is."""
    operands: list[Value] = []
    maps: list[DimMap] = []
    block = Block()
    values: dict[Value, Scalar] = {}
    args = iter(op.body.args)
    for value, dim_map in zip(op.operands, operand_maps(op), strict=True):
        own = [next(args) for _ in range(line_length(tensor_type(value), dim_map))]
        if value in rows:
            operands.append(rows[value])
            maps.append((*dim_map, None))
            for arg in own:
                values[arg] = Pair(*(block.add_arg(_part(arg), arg.name) for _ in range(2)))
            continue
        pair = pairs.get(value, Pair(value, None))
        parts = [part for part in (pair.real, pair.imag) if part is not None]
        operands += parts
        maps += [dim_map] * len(parts)
        columns = [[block.add_arg(_part(arg), arg.name) for arg in own] for _ in parts]
        for place, arg in enumerate(own):
            imag = columns[1][place] if len(columns) > 1 else None
            values[arg] = Pair(columns[0][place], imag) if value in pairs else columns[0][place]
    writer = PartsWriter(block, values)
    for inner in op.body.ops[:-1]:
        writer.copy(inner)
    written, result, out = _written(op, writer, in_a_row)
    Builder(block, op.span).op("form.yield", written)
    attrs = {"maps": tuple(maps), "out": out}
    return builder.value(LINES, operands, result, attrs, (block,), hint=op.result.name)


def _written(op: Op, writer: PartsWriter, in_a_row: bool) -> tuple[list[Value], TensorType, DimMap]:
    """What a point yields, of which tensor, and which dim of the space each of its dims follows."""
    yielded, ty, out = op.body.terminator.operands, tensor_type(op.result), lines_out(op)
    if not ty.dtype.is_complex:
        return [writer.both(value)[0] for value in yielded], ty, out
    part, numbers = part_type(ty), [writer.both(value) for value in yielded]
    if in_a_row:
        return list(chain(*numbers)), TensorType((*part.dims, TWO), part.dtype, part.policy), (*out, None)
    behind = [number[i] for i in (0, 1) for number in numbers]
    return behind, TensorType((TWO, *part.dims), part.dtype, part.policy), (None, *out)


def _part(arg: Value) -> ScalarType:
    assert isinstance(arg.type, ScalarType)
    return ScalarType(component(arg.type.dtype))
