"""What a kernel is attached to: `@kernel(implements=f)`.

Enters: a checked kernel and the function that is its meaning. Leaves: a diagnostic where the function does not take
what the kernel takes, gives another type, or does less; else the kernel with an assertion that both give the same bits,
and with the derivative of its meaning. A release leaves assertions out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tesserac.base.resources import of_library
from tesserac.base.source import Span
from tesserac.check.instances.checking import enter
from tesserac.check.instances.verify import every, with_checks
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.model.specs import Signature
from tesserac.check.operators.apply import apply_operator
from tesserac.check.state.body import Body
from tesserac.check.state.effects import RANDOM
from tesserac.check.transforms.meaning_rule import backward_rule, forward_rule, stored
from tesserac.check.values.tangents import has_tangent
from tesserac.check.values.tuples import tuple_items
from tesserac.diag.codes.kernels import E0509
from tesserac.diag.diagnostic import Severity
from tesserac.diag.sink import Draft, Sink
from tesserac.ops.compare import BitAnd, BitOr, Equal, LessEqual, NotEqual
from tesserac.ops.elementwise import Abs, Maximum, Mul, Sub
from tesserac.ops.registry import Operator
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32, F64
from tesserac.types.ty import Aggregate, FloatType, TensorType, Type, parts

MEANT, BY = ".meant", ".by"
"""What is added to the symbol of a kernel for what it implements, and for a function that calls it."""


def implementing(
    body: Body,
    signature: Signature,
    function: typed.TypedFunction,
    meaning: ast.Expr,
    tolerance: float | None,
) -> typed.TypedFunction | None:
    """The kernel, which gives what its meaning gives, or is no further from it than the tolerance; None after an
    error."""
    inner = Body(body.rules, Sink(), body.name)
    enter(inner, signature, tuple(param.type for param in function.params))
    expected = inner.expression(_call(signature, meaning))
    if _differs(body, function, meaning, inner, expected):
        return None
    if isinstance(expected, typed.Call):
        expected = replace(expected, meant=True)  # else a call of what it implements could be one of the kernel
    if RANDOM in function.effects:
        # each draws its own numbers: a derivative replays those of the kernel
        return replace(function, closed=False, program=None)
    guards = dict.fromkeys([*function.guards, *inner.sizes.guards.values()])
    reads = {param.name: param for param in (*function.reads, *inner.doing.reads.values())}
    if reads:
        # a rule is given no params, and the body is what the meaning is
        apart = function.apart or f"what it implements reads the param `{min(reads)}`"
        function = replace(function, closed=False, program=None, apart=apart)
    else:
        function = _with_rule(body, function, expected)
    function = replace(function, guards=tuple(guards), reads=tuple(reads.values()))
    if not reads and not function.effects:
        expected = _with_pattern(body, function, expected, body.rules.text(meaning.span))
    if of_library(function.span.file):
        return function  # its own tests compare the two
    what, how = ("bits", "") if tolerance is None else ("values", f", to within {tolerance:g}")
    said = f"`{function.name}` gives the {what} of `{body.rules.text(meaning.span)}`, which it implements{how}"

    def checks(result: typed.Expr) -> Iterator[typed.Stmt]:
        name = "meaning$"
        yield typed.Bind(function.span, name, expected)
        other = typed.Local(expected.type, function.span, name)
        for own, wanted in zip(_compared(result), _compared(other), strict=True):
            same = _same_bits(body, own, wanted, function.span)
            if tolerance is not None and own.type.dtype.is_float:  # type: ignore[union-attr]
                near = _near(body, own, wanted, tolerance, function.span)
                same = apply_operator(body, BitOr(), [same, near], function.span, function.span)
            yield typed.Assert(function.span, every(body, same, function.span), said, compares=True)

    return with_checks(body, function, "alone", checks)


def _with_pattern(body: Body, kernel: typed.TypedFunction, meaning: typed.Expr, text: str) -> typed.Expr:
    """Leaves what the kernel implements among the functions of the body, and a call of the kernel: who finds the first
    in a program may compute the second. The meaning as a call of it."""
    span = kernel.span
    plain = replace(kernel, program=None, closed=False, forward="", backward="", exported=False, requests=())
    args = tuple(typed.Local(param.type, span, param.name) for param in kernel.params)
    dims = tuple((name, Dim.sym(name)) for name in kernel.symbols)
    call = typed.Call(kernel.result, span, kernel.symbol, args, dims)
    by = replace(plain, symbol=f"{kernel.symbol}{BY}", body=(typed.Return(span, call),))
    shown = (typed.Return(span, stored(kernel.result, meaning)),)
    pattern = replace(plain, symbol=f"{kernel.symbol}{MEANT}", body=shown, guards=(), pattern=text)
    body.functions += [by, pattern]
    if isinstance(meaning, typed.Call):
        return meaning
    return typed.Call(kernel.result, span, pattern.symbol, args, dims, meant=True)


def _with_rule(body: Body, function: typed.TypedFunction, meaning: typed.Expr) -> typed.TypedFunction:
    """The kernel with the derivatives of its meaning."""
    made = function
    if (back := backward_rule(function, meaning)) is not None:
        body.functions.append(back)
        made = replace(made, backward=back.symbol)
    has_forward = isinstance(meaning, typed.Call) and any(rule.forward for rule in meaning.rules)
    if has_tangent(function.result) and (back is None or has_forward):
        rule = forward_rule(function, meaning)
        body.functions.append(rule)
        made = replace(made, forward=rule.symbol)
    return made


def _call(signature: Signature, meaning: ast.Expr) -> ast.Call:
    """The meaning called with the kernel's parameters."""
    arguments = tuple(
        ast.Argument(p.span, p.name if p.keyword_only else None, p.span, ast.Name(p.span, p.name))
        for p in signature.parameters
    )
    return ast.Call(meaning.span, meaning, arguments)


def _differs(body: Body, function: typed.TypedFunction, meaning: ast.Expr, inner: Body, expected: typed.Expr) -> bool:
    """Whether the kernel and its meaning have different types or effects: reported."""
    text = body.rules.text(meaning.span)
    wrong = next((d for d in inner.sink.diagnostics if d.severity is Severity.ERROR), None)
    if wrong is not None:
        draft = _report(body, function, meaning, f"`{text}` does not take what it takes")
        draft.remark(f"as a call of `{text}`: {wrong.title}")
        return True
    if not same_type(inner, function.result, expected.type):
        draft = _report(body, function, meaning, f"`{text}` gives another type")
        draft.because(f"`{function.name}` gives {type_text(function.result)}")
        draft.because(f"`{text}` gives {type_text(expected.type)}")
        return True
    more = sorted(function.effects - inner.doing.effects.keys())
    if more:
        difference = f"it has the effect {more[0]}, which `{text}` has not"
        _report(body, function, meaning, difference).note(body.doing.effects[more[0]], f"{more[0]} happens here")
    return bool(more)


def _report(body: Body, function: typed.TypedFunction, meaning: ast.Expr, difference: str) -> Draft:
    draft = body.sink.error(E0509, at=function.span, kernel=function.name, difference=difference)
    return draft.note(meaning.span, "what it implements")


def same_type(body: Body, own: Type, wanted: Type) -> bool:
    """Of one shape and dtype; one of the two may leave the policy open."""
    if isinstance(own, TensorType) and isinstance(wanted, TensorType):
        open_policy = not str(own.policy) or not str(wanted.policy)
        same_element = own.dtype == wanted.dtype and (open_policy or own.policy == wanted.policy)
        sizes = zip(own.dims, wanted.dims, strict=False)
        return same_element and own.rank == wanted.rank and all(body.facts.same(*pair) for pair in sizes)
    inner, theirs = parts(own), parts(wanted)
    if inner is None or theirs is None or type(own) is not type(wanted):
        return own == wanted
    return len(inner) == len(theirs) and all(same_type(body, *pair) for pair in zip(inner, theirs, strict=True))


def _compared(value: typed.Expr) -> Iterator[typed.Expr]:
    """The tensors whose bits are the same on every machine."""
    if isinstance(value.type, Aggregate):
        for item in tuple_items(value, value.span):
            yield from _compared(item)
    elif isinstance(value.type, TensorType) and (value.type.dtype in (F32, F64) or value.type.dtype.is_integer):
        yield value


def _same_bits(body: Body, own: typed.Expr, wanted: typed.Expr, span: Span) -> typed.Expr:
    """Equal, or both NaN."""
    same = apply_operator(body, Equal(), [own, wanted], span, span)
    nans = [apply_operator(body, NotEqual(), [value, value], span, span) for value in (own, wanted)]
    both = apply_operator(body, BitAnd(), nans, span, span)
    return apply_operator(body, BitOr(), [same, both], span, span)


def _near(body: Body, own: typed.Expr, wanted: typed.Expr, tolerance: float, span: Span) -> typed.Expr:
    """No further apart than the tolerance, of 1 or of what is wanted where that is larger."""

    def applied(op: Operator, *operands: typed.Expr) -> typed.Expr:
        return apply_operator(body, op, list(operands), span, span)

    apart = applied(Abs(), applied(Sub(), own, wanted))
    size = applied(Maximum(), applied(Abs(), wanted), typed.Static(FloatType(1.0), span))
    return applied(LessEqual(), apart, applied(Mul(), size, typed.Static(FloatType(tolerance), span)))
