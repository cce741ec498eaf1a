"""What is wrong with a function that a transform is given: messages, with the place inside that is to blame.

Enters: the function, and its call with names in place of arguments. Leaves: E0701 where it does not give one float,
E0702 where what it gives does not change smoothly, E0704 and E0722 where it prints.
"""

from __future__ import annotations

import ast
import re

from tesserac.base.source import Span
from tesserac.check.analysis.reach import children
from tesserac.check.analysis.walking import MAX_DEPTH, Find
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.check.transforms.wrt import function_name
from tesserac.check.values.globals import BUILT_IN
from tesserac.diag.codes.differentiation import E0701, E0702
from tesserac.diag.diagnostic import Code
from tesserac.diag.sink import Draft
from tesserac.types.ty import FunctionType, TensorType, TupleType, Type

_OF_LAMBDA = re.compile(r"(\w+)\(lambda ([\w, ]+): (.*)\)", re.DOTALL)
_CALLED_BY_NAME = re.compile(r"(\w+)\(([^\W\d]\w*)\)")


def report_shape(body: Body, function: Type, found: Type, transform: str, callee: Callee) -> None:
    """A gradient of what is not one float."""
    draft = body.sink.error(E0701, at=callee.at, transform=transform, found=type_text(found))
    _show_result(body, draft, function, found)
    if isinstance(found, TupleType):
        draft.fix("give one of them: `lambda x: f(x)[0]`")
        if len(found.items) == 2:
            draft.fix(f"`{transform}(f, has_aux=True)` differentiates the first and passes on the second")
    elif isinstance(found, TensorType) and found.dims:
        _sum_it(body, draft, function, callee)
        draft.remark("`vjp` and `jvp` are for results of any shape, `jacrev` and `jacfwd` give all derivatives")


def _sum_it(body: Body, draft: Draft, function: Type, callee: Callee) -> None:
    """`grad(f)` as `grad(lambda x: sum(f(x)))`, where it is written so; `grad(lambda x: ...)` with a sum in it."""
    written = _with_sum(body.rules.text(callee.at))
    if written:
        draft.replace("take the sum of its elements, or their mean", callee.at, written)
        return
    match = _CALLED_BY_NAME.fullmatch(body.rules.text(callee.at))
    names = ", ".join(_needed(body, function))
    if match is None or not names:
        draft.fix("take its `sum` or `mean`")
        return
    written = f"{match[1]}(lambda {names}: sum({match[2]}({names})))"
    draft.replace("take the sum of its elements, or their mean", callee.at, written)


def _with_sum(text: str) -> str:
    match = _OF_LAMBDA.fullmatch(text)
    try:
        call = ast.parse(text, mode="eval").body if match is not None else None
    except (SyntaxError, ValueError):
        return ""
    alone = isinstance(call, ast.Call) and len(call.args) == 1 and not call.keywords
    return f"{match[1]}(lambda {match[2]}: sum({match[3]}))" if match is not None and alone else ""


def _needed(body: Body, function: Type) -> list[str]:
    """The parameters of a function that every call gives."""
    if not isinstance(function, FunctionType) or function.module == BUILT_IN:
        return []
    parameters = body.rules.signature(function.module, function.name).parameters[len(function.captures) :]
    return [parameter.name for parameter in parameters if parameter.default is None]


def report_flat(body: Body, function: Type, found: Type, callee: Callee) -> None:
    """A result that only jumps."""
    why = f"it gives {type_text(found)}, which does not change smoothly"
    draft = body.sink.error(E0702, at=callee.at, what=function_name(function), why=why)
    _show_result(body, draft, function, found)
    kind = found.dtype.kind if isinstance(found, TensorType) else ""
    if kind == "b":
        draft.fix("give a float that says how much, where a comparison says whether")
    elif kind:
        draft.fix("give floats: weights of all choices change smoothly, the number of one jumps")
    else:
        draft.fix("give a float or complex tensor, or a value with such tensors in it")


def _show_result(body: Body, draft: Draft, function: Type, found: Type) -> None:
    if not isinstance(function, FunctionType) or function.module == BUILT_IN:
        return
    result = body.rules.signature(function.module, function.name).node.returns
    if result is not None and body.rules.text(result.span):
        draft.note(result.span, f"{function_name(function)} gives {type_text(found)}")


def report_printing(body: Body, code: Code, function: Type, value: typed.Expr, callee: Callee, advice: str) -> None:
    draft = body.sink.error(code, at=callee.at, function=function_name(function))
    place = _printing(value, body.rules.known, 0)
    if place is not None and body.rules.text(place):
        draft.note(place, "this prints")
    draft.fix(advice)


def _printing(part: object, find: Find, depth: int) -> Span | None:
    """The first place that prints, in a typed expression or in what it calls."""
    if isinstance(part, typed.Print):
        return part.span
    if isinstance(part, typed.Call) and depth < MAX_DEPTH:
        function = find(part.function)
        place = None if function is None else _printing(function.body, find, depth + 1)
        if place is not None:
            return place
    return next((place for item in children(part) if (place := _printing(item, find, depth)) is not None), None)
