"""The derivative of a kernel: that of the function it implements, as a rule for both modes.

Enters: a kernel, and a call of its meaning with the kernel's parameters. Leaves: a function like a
`@jvp_of(kernel)`,

    def rule(x, ..., y, dx, ...): return jvp(meaning, (x, ...), (dx, ...))[1]

The value stays what the kernel computes; only changes of it go by its meaning. Where that has a `@vjp_of` rule alone,
so has the kernel; where it has both, both are the kernel's.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.state.body import is_static
from tesserac.check.values.tangents import has_tangent, tangent_type
from tesserac.check.values.tuples import item_of, rebuilt, tuple_items
from tesserac.ops.convert import Cast
from tesserac.ops.shape import Reshape
from tesserac.types.ty import TensorType, TupleType, Type, parts


def forward_rule(kernel: typed.TypedFunction, meaning: typed.Expr) -> typed.TypedFunction:
    """The rule of a kernel that reads no params; its meaning is an expression of the kernel's parameters."""
    span = kernel.span
    given = [param for param in kernel.params if not is_static(param.type)]
    places = tuple(place for place, param in enumerate(given) if has_tangent(param.type))
    tangents = [typed.Param(f"d{given[place].name}$", tangent_type(given[place].type), span) for place in places]
    pair = TupleType((meaning.type, tangent_type(meaning.type)))
    changes = typed.Derivative(
        pair,
        span,
        False,
        tuple(param.name for param in given),
        tuple(typed.Local(param.type, span, param.name) for param in given),
        places,
        tuple(typed.Local(param.type, span, param.name) for param in tangents),
        meaning,
    )
    wanted = tangent_type(kernel.result)
    change = stored(wanted, item_of(changes, 1, span))
    return replace(
        kernel,
        symbol=f"{kernel.symbol}.forward",
        params=(*kernel.params, typed.Param("result$", kernel.result, span), *tangents),
        result=wanted,
        body=(typed.Return(span, change),),
        closed=False,
    )


def backward_rule(kernel: typed.TypedFunction, meaning: typed.Expr) -> typed.TypedFunction | None:
    """The rule of a kernel whose meaning has one for reverse mode, which is then the kernel's too,

        def rule(x, ..., y, dy): return rule_of_meaning(x, ..., y, dy)

    None where the meaning has none, or is given something else than the kernel's parameters."""
    rules = [rule for rule in meaning.rules if not rule.forward] if isinstance(meaning, typed.Call) else []
    if len(rules) != 1 or not isinstance(meaning, typed.Call) or not _is_given(meaning, kernel):
        return None
    (rule,), span = rules, kernel.span
    changes = [tangent_type(param.type) for param in kernel.params if has_tangent(param.type)]
    result = changes[0] if len(changes) == 1 else TupleType(tuple(changes))
    params = (
        *kernel.params,
        typed.Param("result$", kernel.result, span),
        typed.Param("dresult$", tangent_type(kernel.result), span),
    )
    args = tuple(_own(param, span) for param in params)
    back = typed.Call(result, span, rule.function, args, rule.dims)
    symbol = f"{kernel.symbol}.backward"
    return replace(kernel, symbol=symbol, params=params, result=result, body=(typed.Return(span, back),), closed=False)


def _is_given(meaning: typed.Call, kernel: typed.TypedFunction) -> bool:
    """Whether a call has the parameters of a kernel as they are, and gives what it gives."""
    if len(meaning.args) != len(kernel.params) or meaning.type != kernel.result:
        return False
    return all(_is_itself(arg, param.name, param.type) for arg, param in zip(meaning.args, kernel.params, strict=True))


def _is_itself(arg: typed.Expr, name: str, type_: Type) -> bool:
    """Whether an argument is a parameter as it is, or put together of all its parts."""
    if is_static(type_):
        return arg.type == type_
    match arg:
        case typed.Local():
            return arg.name == name
        case typed.TupleOf(items=items):
            own = parts(type_) or ()
            return len(own) == len(items) and all(
                item.type == part
                if is_static(part)
                else isinstance(item, typed.Item) and item.index == place and _is_itself(item.value, name, type_)
                for place, (item, part) in enumerate(zip(items, own, strict=True))
            )
    return False


def _own(param: typed.Param, span: Span) -> typed.Expr:
    return typed.Static(param.type, span) if is_static(param.type) else typed.Local(param.type, span, param.name)


def stored(wanted: Type, value: typed.Expr) -> typed.Expr:
    """A value as a result of this type is stored: one of the two may leave the policy open, and write sizes
    otherwise."""
    if isinstance(wanted, TensorType) and isinstance(value.type, TensorType):
        if (wanted.dtype, wanted.policy) != (value.type.dtype, value.type.policy):
            cast = Cast(wanted.dtype, wanted.policy)
            value = typed.Apply(TensorType(value.type.dims, wanted.dtype, wanted.policy), value.span, cast, (value,))
        same = value.type == wanted
        return value if same else typed.Apply(wanted, value.span, Reshape(wanted.dims), (value,))
    inner = parts(wanted)
    if inner is None or is_static(wanted):
        return value
    items = tuple_items(value, value.span)
    return rebuilt(value, [stored(own, item) for own, item in zip(inner, items, strict=True)])
