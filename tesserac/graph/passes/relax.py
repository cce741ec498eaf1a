"""Where numbers are fast, a quotient by what many elements share is a product, and a product that is added is one step.

    x / s, s smaller than x      x * (1 / s)          one quotient for many elements, and one rounding more
    a * b + c                    fma(a, b, c)         one rounding less

Enters: a module with operators, of which some say `numerics = "fast"`. Leaves: the same, where those of f32 and of
narrower floats are changed in this way, and a function that has any says so. Nothing else is changed: both operators
must be fast, and a product that is also read elsewhere stays. Elementary functions take their shorter programs in
`generalize.py`.

Before:
    graph.func @f {entry = true, guards = [], params = ["x", "s"]} {
      ^(%x: tensor<[M, N], f32>, %s: tensor<[M, 1], f32>):
        %y = graph.div(%x, %s) {numerics = "fast"} : tensor<[M, N], f32>
        %z = graph.div(%y, %s) : tensor<[M, N], f32>
        graph.return(%z)
    }
After:
    graph.func @f {entry = true, guards = [], numerics = "fast", params = ["x", "s"]} {
      ^(%x: tensor<[M, N], f32>, %s: tensor<[M, 1], f32>):
        %0 = graph.full() {dtype = dtype<f32>, policy = policy<>, shape = [], value = 1.0} : tensor<[], f32>
        %1 = graph.div(%0, %s) {numerics = "fast"} : tensor<[M, 1], f32>
        %y = graph.mul(%x, %1) {numerics = "fast"} : tensor<[M, N], f32>
        %z = graph.div(%y, %s) : tensor<[M, N], f32>
        graph.return(%z)
    }
"""

from __future__ import annotations

from tesserac.graph.applying import apply_operator
from tesserac.graph.dialect import NUMERICS
from tesserac.ir.builder import Builder
from tesserac.ir.core import Module, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.passes import GRAPH, pass_
from tesserac.ops.create import Full
from tesserac.types.dims import ONE
from tesserac.types.dtype import F32
from tesserac.types.policy import compute_dtype


@pass_(GRAPH, GRAPH, "relax")
def relax(module: Module) -> Module:
    for function in module.ops:
        for op in list(function.walk()):
            if op is not function and NUMERICS in op.attrs and op.parent is not None:
                function.attrs[NUMERICS] = op.attrs[NUMERICS]
                _relax(op)
    return module


def _relax(op: Op) -> None:
    if op.name == "graph.div" and _is_short(op.result) and _is_shared(op.operands[1], op.result):
        _by_reciprocal(op)
    elif op.name == "graph.add" and _is_short(op.result):
        _by_fma(op)


def _is_short(value: Value) -> bool:
    """Of numbers that are computed in f32."""
    ty = tensor_type(value)
    return ty.dtype.is_float and compute_dtype(ty.dtype, ty.policy) == F32


def _is_shared(value: Value, result: Value) -> bool:
    """Whether many elements of the result see the same element."""
    dims, whole = tensor_type(value).dims, tensor_type(result).dims
    return len(dims) < len(whole) or any(a == ONE != b for a, b in zip(dims, whole, strict=True))


def _by_reciprocal(op: Op) -> None:
    builder, (x, shared) = Builder.before(op), op.operands
    ty, mode = tensor_type(shared), {NUMERICS: op.attrs[NUMERICS]}
    one = apply_operator(builder, Full((), ty.dtype, ty.policy, 1.0))
    inverse = builder.value("graph.div", (one, shared), ty, mode)
    _replace(op, builder.value("graph.mul", (x, inverse), op.result.type, mode, hint=op.result.name))


def _by_fma(op: Op) -> None:
    for product, other in (op.operands, op.operands[::-1]):
        made = product.defining_op
        if made is None or made.name != "graph.mul" or NUMERICS not in made.attrs or len(product.uses) != 1:
            continue
        if any(tensor_type(v) != tensor_type(op.result) for v in (product, other, *made.operands)):
            continue
        operands, mode = (*made.operands, other), {NUMERICS: op.attrs[NUMERICS]}
        _replace(op, Builder.before(op).value("graph.fma", operands, op.result.type, mode, hint=op.result.name))
        made.erase()
        return


def _replace(op: Op, value: Value) -> None:
    op.result.replace_all_uses(value)
    op.erase()
