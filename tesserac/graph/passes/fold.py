"""Computes while compiling what depends on constants alone: an operator on single numbers becomes its value.

The value is the oracle's, so folding never changes a bit. An assertion that holds by then is gone, a branch that is
decided is the side that is taken: the other may have sizes that there are not.

Before:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %d = graph.size() {dim = `64`} : tensor<[], f32>
        %s = graph.rsqrt(%d) : tensor<[], f32>
        %y = graph.mul(%x, %s) : tensor<[N], f32>
        graph.return(%y)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %d = graph.full() {dtype = dtype<f32>, policy = policy<>, shape = [], value = 64.0} : tensor<[], f32>
        %s = graph.full() {dtype = dtype<f32>, policy = policy<>, shape = [], value = 0.125} : tensor<[], f32>
        %y = graph.mul(%x, %s) : tensor<[N], f32>
        graph.return(%y)
    }
"""

from __future__ import annotations

from tesserac.graph.dialect import PREFIX, is_operator, operator_attrs
from tesserac.graph.passes.generalize import generalize
from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Module, Op, Region, Value, attr_tuple, clone_op
from tesserac.ir.core import Block as IRBlock
from tesserac.ir.forms import tensor_type
from tesserac.ir.passes import GRAPH, pass_
from tesserac.ops.create import Full
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import BOOL, F32
from tesserac.types.ty import TensorType


@pass_(GRAPH, GRAPH, "fold")
def fold(module: Module) -> Module:
    while _fold(module):
        pass
    return module


def _fold(module: Module) -> bool:
    """Goes through all operations once; whether a branch was decided, which may make more known."""
    for op in module.walk():
        if _is_constant_expression(op):
            constant = _constant(Builder.before(op), tensor_type(op.result), _evaluate(op))
            constant.name = op.result.name
            op.result.replace_all_uses(constant)
            op.erase()
        elif _is_decided(op):
            op.result.replace_all_uses(_constant(Builder.before(op), tensor_type(op.result), _DECIDING[op.name]))
            op.erase()
        elif is_as_it_is(op):
            op.result.replace_all_uses(op.operands[0])
            op.erase()
        elif (rounded := _rounded_before(op)) is not None:
            op.result.replace_all_uses(rounded)
            op.erase()
        elif op.name == "form.assert" and _is_true(op.operands[0]):
            op.erase()
    decided = [op for op in module.walk() if op.name == "form.cond" and _is_constant(op.operands[0])]
    for op in reversed(decided):  # branches inside first
        _take(op, op.regions[0 if _is_true(op.operands[0]) else 1].block)
    return bool(decided)


def _take(cond: Op, branch: IRBlock) -> None:
    """The operations of one side, where the branch stood."""
    block = cond.parent
    assert block is not None
    outcome = branch.terminator.operands
    for op in branch.ops[:-1]:
        op.detach()
        block.insert(block.ops.index(cond), op)
    for old, new in zip(cond.results, outcome, strict=True):
        new.name = new.name or old.name
        old.replace_all_uses(new)
    cond.erase()


_DECIDING = {"graph.bitwise_and": False, "graph.bitwise_or": True}
"""The bool that decides what it is joined with."""


def _is_decided(op: Op) -> bool:
    """Whether one of two bools makes the other not matter."""
    if op.name not in _DECIDING or tensor_type(op.result).rank > 0:
        return False
    return _DECIDING[op.name] in map(_truth, op.operands)


def is_as_it_is(op: Op) -> bool:
    """Whether an operator gives what it is given: a rounding to the type that it has, its own shape, or a part that is
    all of it. A kernel and what it implements differ by no more than these where blocks span their dims."""
    if op.name not in _ALIKE or op.result.type != op.operands[0].type:
        return False
    return op.name != "graph.cut" or set(attr_tuple(op, "starts", Dim)) <= {ZERO}


def _rounded_before(op: Op) -> Value | None:
    """What is rounded once more to the type that it has, behind a type with all of its numbers: a program may round
    terms that its library rounded."""
    made = op.operands[0].defining_op if op.name == "graph.cast" else None
    if made is None or made.name not in ("graph.cast", "graph.wide") or made.operands[0].type != op.result.type:
        return None
    narrow, between = tensor_type(op.result).dtype, tensor_type(made.result).dtype
    holds = narrow.is_float and between.is_float and between.bits > narrow.bits and between.bits >= F32.bits
    return made.operands[0] if holds else None


SHAPED = ("graph.expand", "graph.reshape")
_ALIKE = ("graph.cast", "graph.wide", "graph.cut", *SHAPED)


def _truth(value: Value) -> bool | None:
    """The value of a constant bool."""
    op, ty = value.defining_op, tensor_type(value)
    return bool(op.attrs["value"]) if op is not None and _is_constant(value) and ty.dtype == BOOL else None


def _is_true(value: Value) -> bool:
    return _truth(value) is True


def _is_constant_expression(op: Op) -> bool:
    """One number from numbers; a constant itself is not computed again, and complex ones have no literal."""
    if any(tensor_type(v).dtype.is_complex for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)):
        return False
    if op.name == "graph.size":
        dim = op.attrs["dim"]
        return isinstance(dim, Dim) and dim.constant is not None
    if not is_operator(op) or _is_constant(op.result) or tensor_type(op.result).rank > 0:
        return False
    return bool(op.operands) and all(map(_is_constant, op.operands))


def _is_constant(value: Value) -> bool:
    op = value.defining_op
    return op is not None and op.name == "graph.full" and tensor_type(value).rank == 0


def _evaluate(op: Op) -> bool | int | float:
    """Runs the one operation in the interpreter."""
    block = IRBlock()
    values: dict[Value, Value] = {}
    for operand in dict.fromkeys(op.operands):
        assert operand.defining_op is not None
        block.append(clone_op(operand.defining_op, values))
    block.append(clone_op(op, values))
    block.append(Op(OPDEFS["graph.return"], (values[op.result],)))
    attrs = {"sym_name": "constant", "params": (), "guards": (), "entry": True}
    alone = Module([Op(OPDEFS["graph.func"], (), (), attrs, (Region(block),))])
    from tesserac.graph.interp import run_function

    (result,) = run_function(generalize.run(alone), "constant", ())
    kind = tensor_type(op.result).dtype.kind
    return bool(result) if kind == "b" else int(result) if kind in "iu" else float(result)


def _constant(builder: Builder, ty: TensorType, value: bool | int | float) -> Value:
    return builder.value(PREFIX + Full.name, (), ty, operator_attrs(Full((), ty.dtype, ty.policy, value)))
