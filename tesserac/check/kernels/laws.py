"""Laws of the library: what a program writes out is computed in another way.

    @law(of=softmax, within=2e-6)
    def _plain(q, k, v):
        return softmax(q @ transpose(k)) @ v, attention(q, k, v)

Enters: a checked law, which gives what is written and what computes it. Leaves: two functions, the first a pattern with
the second as its alternative. Which types a law is for, programs say: those of the function that it is `of`.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.check.kernels.implementing import BY, MEANT
from tesserac.check.model import typed
from tesserac.check.model.specs import Signature, Storage, TensorSpec
from tesserac.check.state.body import Body
from tesserac.ops.contract import MatMul
from tesserac.ops.einsum import Einsum
from tesserac.ops.registry import Operator
from tesserac.types.dims import Dim
from tesserac.types.ty import TensorType, Type


def with_law(body: Body, function: typed.TypedFunction, tolerance: float | None) -> typed.TypedFunction:
    """The law, whose two sides are left among the functions of the body."""
    (returned,) = function.body
    assert isinstance(returned, typed.Return) and isinstance(returned.value, typed.TupleOf), "a law gives two values"
    written, computed = returned.value.items
    assert written.type == computed.type, f"the sides of `{function.name}` are {written.type} and {computed.type}"
    plain = replace(function, exported=False, requests=(), result=written.type)
    by = replace(plain, symbol=f"{function.symbol}{BY}", body=(typed.Return(computed.span, computed),))
    way = typed.Alternative(_text(body, computed), by.symbol, "", tolerance, "")
    pattern = replace(
        plain,
        symbol=f"{function.symbol}{MEANT}",
        guards=(),
        body=(typed.Return(written.span, written),),
        pattern=_text(body, written),
        alternatives=(way,),
        law=True,
    )
    body.functions += [by, pattern]
    return function


def _text(body: Body, value: typed.Expr) -> str:
    return " ".join(body.rules.text(value.span).split())


def contracts(op: Operator) -> bool:
    """Whether an operator sums products: what the laws end in."""
    return isinstance(op, MatMul | Einsum)


def law_types(signature: Signature, anchor: typed.TypedFunction) -> tuple[Type, ...] | None:
    """The types of a law's parameters where the function that it is of is called with these; `...` stands for what the
    first argument has before its last two dims. None where it is for no such types."""
    given = anchor.params[0].type
    if not isinstance(given, TensorType) or given.rank < 2 or not given.dtype.is_float:
        return None
    free = (f"L{number}" for number in range(1, 100) if f"L{number}" not in signature.symbols)
    leading = tuple(Dim.sym(next(free)) for _ in range(given.rank - 2))
    types = [_type_of(parameter.spec, leading, given) for parameter in signature.parameters]
    known = tuple(type_ for type_ in types if type_ is not None)
    return known if len(known) == len(types) and known[0].rank == given.rank else None


def _type_of(spec: object, leading: tuple[Dim, ...], given: TensorType) -> TensorType | None:
    if not isinstance(spec, TensorSpec):
        return None
    dims = (*(leading if spec.leading else ()), *(dim.dim for dim in spec.dims))
    if isinstance(spec.element, Storage):
        return TensorType(dims, spec.element.dtype, spec.element.policy)
    return TensorType(dims, given.dtype, given.policy)
