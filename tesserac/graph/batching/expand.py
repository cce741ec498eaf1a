"""`graph.vmap` becomes its body on whole tensors.

Enters: the operation, whose region has only operators and control flow in it. Leaves: values for its results, computed
before where it stands. Mapped dims move to the front on the way in, and to where they are wanted on the way out.
"""

from __future__ import annotations

from tesserac.graph.autodiff.custom import Functions
from tesserac.graph.autodiff.writing import writer
from tesserac.graph.batching.dialect import MappedResult, in_axes, mapped_dim, mesh_axis, out_axes
from tesserac.graph.batching.rules import Mapping
from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.calculus import Writer
from tesserac.types.dims import ZERO, Dim


def expand_vmap(op: Op, functions: Functions) -> list[Value]:
    builder = Builder.before(op)
    write = writer(builder, {})
    mapping = Mapping(builder, mapped_dim(op), {}, set(), functions, axis=mesh_axis(op))
    inputs = []
    for arg, operand, axis in zip(op.body.args, op.operands, in_axes(op), strict=True):
        if axis is not None:  # one value may be two arguments, of which one is mapped
            inputs.append(builder.op("graph.input", (operand,), (operand.type,)))
            mapping.mapped.add(moved := _sized(write, _moved(write, inputs[-1].result, axis, 0), mapping.size))
            mapping.values[arg] = moved
        else:
            mapping.values[arg] = operand
    outputs = zip(mapping.block(op.body), out_axes(op), strict=True)
    results = [_result(write, mapping, value, axis, op) for value, axis in outputs]
    for made in inputs:
        results = [made.operands[0] if value is made.result else value for value in results]
        made.result.replace_all_uses(made.operands[0])
        made.erase()
    return results


def _result(write: Writer, mapping: Mapping, value: Value, axis: int | None, op: Op) -> Value:
    """A result with the mapped dim at its place. Raises MappedResult for one that should have none, and needs it."""
    if axis is not None:
        return _moved(write, mapping.whole(value), 0, axis)
    if value in mapping.mapped:
        raise MappedResult(op.span)
    return value


def _sized(write: Writer, value: Value, size: Dim) -> Value:
    """A value whose mapped dim has the size as it is written elsewhere; facts, or a guard, say that they are equal."""
    dims = tensor_type(value).dims
    if dims[0] == size:
        return value
    return write("cut", value, starts=(ZERO,) * len(dims), sizes=(size, *dims[1:]), steps=(1,) * len(dims))


def _moved(write: Writer, value: Value, source: int, target: int) -> Value:
    order = list(range(tensor_type(value).rank))
    order.insert(target, order.pop(source))
    return write.permute(value, order)
