"""Lines of complex numbers (`ir/lines.py`) as lines of their parts.

Enters: a `form.lines` of complex tensors, and the parts of its operands. Leaves: one of real tensors, whose result has
one more line, of the two parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice

from tesserac.base.dataclass import dataclass
from tesserac.graph.complex_scalars import Pair, PartsWriter, Scalar
from tesserac.ir.attributes import register_attribute
from tesserac.ir.builder import Builder
from tesserac.ir.core import Attr, Block, Op, Value
from tesserac.ir.forms import operand_maps, tensor_type
from tesserac.ir.interleaved import TWO, part_type
from tesserac.ir.lines import CODELET, LINES, Codelet, codelet_of, line_length, lines_out
from tesserac.ir.types import ScalarType, TensorType
from tesserac.ops.lowering import DimMap
from tesserac.types.dtype import component

ROW, PAIR, REAL, PLAIN = "row", "pair", "real", "plain"
"""How the elements of an operand or result stand: number by number, all real parts and then all imaginary ones, real
parts alone, or as no complex numbers."""


@dataclass(frozen=True)
class PartsOf:
    """What another codelet computes, of parts of its complex numbers."""

    whole: Codelet
    lengths: tuple[int, ...]
    reads: tuple[str, ...]
    writes: str

    @property
    def work(self) -> int:
        return self.whole.work

    def block(self) -> Block:
        return _parts_of(self)


@lru_cache(64)
def _parts_of(codelet: PartsOf) -> Block:
    return _split_body(codelet.whole.block(), codelet.lengths, codelet.reads, codelet.writes)


register_attribute("parts_of", PartsOf)


def split_lines(
    builder: Builder, op: Op, pairs: Mapping[Value, Pair], rows: Mapping[Value, Value], in_a_row: bool
) -> Value:
    """The result as its parts: `in_a_row`, number by number in a last dim of two, or one behind the other in a first.
    Operands are read in the same ways: number by number where they are in `rows`. A real result is as it is."""
    operands: list[Value] = []
    maps: list[DimMap] = []
    reads: list[str] = []
    lengths: list[int] = []
    for value, dim_map in zip(op.operands, operand_maps(op), strict=True):
        lengths.append(line_length(tensor_type(value), dim_map))
        if value in rows:
            operands.append(rows[value])
            maps.append((*dim_map, None))
            reads.append(ROW)
            continue
        pair = pairs.get(value, Pair(value, None))
        parts = [part for part in (pair.real, pair.imag) if part is not None]
        operands += parts
        maps += [dim_map] * len(parts)
        reads.append(PLAIN if value not in pairs else PAIR if len(parts) == 2 else REAL)
    writes = PLAIN if not tensor_type(op.result).dtype.is_complex else ROW if in_a_row else PAIR
    result, out = _written(op, writes)
    attrs: dict[str, Attr] = {"maps": tuple(maps), "out": out}
    blocks: list[Block] = []
    codelet = codelet_of(op)
    if codelet is None:
        blocks = [_split_body(op.body, lengths, reads, writes)]
    else:
        attrs[CODELET] = PartsOf(codelet, tuple(lengths), tuple(reads), writes)
    return builder.value(LINES, operands, result, attrs, blocks, hint=op.result.name)


def _split_body(body: Block, lengths: Sequence[int], reads: Sequence[str], writes: str) -> Block:
    block, values, args = Block(), dict[Value, Scalar](), iter(body.args)
    for length, read in zip(lengths, reads, strict=True):
        own = list(islice(args, length))
        if read == ROW:
            for arg in own:
                values[arg] = Pair(*(block.add_arg(_part(arg), arg.name) for _ in range(2)))
            continue
        columns = [[block.add_arg(_part(arg), arg.name) for arg in own] for _ in range(2 if read == PAIR else 1)]
        for place, arg in enumerate(own):
            imag = columns[1][place] if read == PAIR else None
            values[arg] = columns[0][place] if read == PLAIN else Pair(columns[0][place], imag)
    writer = PartsWriter(block, values)
    for inner in body.ops[:-1]:
        writer.copy(inner)
    numbers = [writer.both(value) for value in body.terminator.operands]
    if writes == PLAIN:
        written = [real for real, _ in numbers]
    elif writes == ROW:
        written = list(chain(*numbers))
    else:
        written = [number[i] for i in (0, 1) for number in numbers]
    Builder(block, body.terminator.span).op("form.yield", written)
    return block


def _written(op: Op, writes: str) -> tuple[TensorType, DimMap]:
    """What is written, and which dim of the space each of its dims follows."""
    ty, out = tensor_type(op.result), lines_out(op)
    if writes == PLAIN:
        return ty, out
    part = part_type(ty)
    if writes == ROW:
        return TensorType((*part.dims, TWO), part.dtype, part.policy), (*out, None)
    return TensorType((TWO, *part.dims), part.dtype, part.policy), (None, *out)


def _part(arg: Value) -> ScalarType:
    assert isinstance(arg.type, ScalarType)
    return ScalarType(component(arg.type.dtype))
