"""Rewrites every operator into structural forms, by its own `lower`: here names stop.

Before:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[M, N], f32>):
        %s = graph.sum(%x) {axes = [1], keep = false} : tensor<[M], f32>
        %y = graph.neg(%s) : tensor<[M], f32>
        graph.return(%y)
    }
After:
    func.func @f {guards = [], params = ["x"]} {
      ^(%x: tensor<[M, N], f32>):
        %s = form.reduce(%x) {accum = dtype<f32>, axes = [1], kind = "sum",
                              order = #blocks<block=512, lanes=64>} : tensor<[M], f32>
        %y = form.map(%s) {maps = [[0]]} : tensor<[M], f32> {
          ^(%0: scalar<f32>):
            %1 = scalar.neg(%0) : scalar<f32>
            form.yield(%1)
        }
        func.return(%y)
    }
"""

from __future__ import annotations

from collections.abc import Iterator

from tesserac.graph.dialect import EXPECTED, NUMERICS, SCHEDULE, is_operator, operator_of, runs
from tesserac.graph.renaming import lower_operator
from tesserac.graph.substitute import replace_op
from tesserac.ir import func as _func_dialect  # noqa: F401  (the functions this pass leaves)
from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Attr, Module, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.passes import FORMS, GRAPH, pass_
from tesserac.numerics.approximate import APPROXIMATE, SUFFIX
from tesserac.ops.lowering import map_form
from tesserac.types.dims import Dim
from tesserac.types.policy import compute_dtype


@pass_(GRAPH, FORMS, "generalize")
def generalize(module: Module) -> Module:
    for function in module.ops:
        for op in list(function.walk()):
            if is_operator(op) or op.name == "graph.size":
                _lower(op)
    return Module([_as_forms(function) for function in list(module.ops)])


def _lower(op: Op) -> None:
    result = tensor_type(op.result)
    builder = Builder.before(op)
    if op.name == "graph.size":
        value = _size(op, builder)
    else:
        value = lower_operator(builder, operator_of(op), op.operands, result)
        if NUMERICS in op.attrs:
            _shorten(op, value)
        if SCHEDULE in op.attrs:
            _pass_on(op, value, op.attrs[SCHEDULE])
    assert value.type == result, f"{op.name} lowers to {value.type}, not {result}"
    if value.defining_op is not None:
        value.name = value.name or op.result.name
    op.result.replace_all_uses(value)
    op.erase()


def _pass_on(op: Op, value: Value, settings: Attr) -> None:
    """What the program says of how a product runs goes to the contraction that it became."""
    for made in _made(op, value):
        if made.name == "form.contract":
            made.attrs[SCHEDULE] = settings


def _shorten(op: Op, value: Value) -> None:
    """Where numbers are fast, elementary functions take their shorter programs."""
    for inner in [inner for made in _made(op, value) for inner in made.walk()]:
        name = inner.name + SUFFIX
        if name.removeprefix("scalar.") in APPROXIMATE:
            replace_op(inner, name, inner.attrs)


def _made(op: Op, value: Value) -> Iterator[Op]:
    """The forms that an operator became, each once."""
    waiting, seen = [value], set(op.operands)
    while waiting:
        made = waiting.pop().defining_op
        if made is not None:
            yield made
            waiting += [v for v in made.operands if v not in seen]
            seen.update(made.operands)


def _size(op: Op, builder: Builder) -> Value:
    dim, result = op.attrs["dim"], tensor_type(op.result)
    assert isinstance(dim, Dim)
    dtype = compute_dtype(result.dtype, result.policy)
    return map_form(builder, (), result, lambda s, args: s.dim(dim, dtype))


def _as_forms(function: Op) -> Op:
    """The function under its new definition; its body moves over as it is."""
    assert runs(function), "inline leaves only what runs"
    end = function.body.terminator
    returned = Op(OPDEFS["func.return"], end.operands, span=end.span)
    end.erase()
    function.body.append(returned)
    attrs = {name: value for name, value in function.attrs.items() if name not in ("entry", EXPECTED)}
    regions = list(function.regions)
    function.regions.clear()
    function.detach()
    return Op(OPDEFS["func.func"], (), (), attrs, regions, function.span)
