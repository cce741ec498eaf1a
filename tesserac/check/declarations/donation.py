"""Donation: `@export(donate=(m,))` lets results take the memory of arguments.

Enters: the names in the decorator, and the types of a function. Leaves: for each result the argument whose memory it
takes, and diagnostics for what is no parameter or can serve no result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.names.refs import ParamRef
from tesserac.check.state.body import Body
from tesserac.diag.codes.effects import W0602
from tesserac.diag.codes.kernels import E0508
from tesserac.syntax import ast
from tesserac.types.leaves import leaf_types, run_time_parts
from tesserac.types.ty import TensorType, Type

DONATE = "donate"
FRESH = -1
"""Stands where a result takes no argument's memory."""


# ------------------------------------------------------------------------------------------------------ the decorator


def donated_names(body: Body, node: ast.Expr) -> tuple[ast.Name, ...]:
    """The names in `donate=(m, state)`, or `donate=m`."""
    items = node.items if isinstance(node, ast.TupleExpr | ast.ListExpr) else (node,)
    names = tuple(item for item in items if isinstance(item, ast.Name))
    if len(names) < len(items):
        wrong = next(item for item in items if not isinstance(item, ast.Name))
        body.sink.error(E0508, at=wrong.span, problem="`donate` takes parameters: `donate=(m, state)`")
    return names


def check_names(body: Body, node: ast.FunctionDef, names: Sequence[ast.Name]) -> tuple[ast.Name, ...]:
    """Those that are parameters, each once; any other is reported."""
    parameters = [parameter.name for parameter in node.parameters]
    known: dict[str, ast.Name] = {}
    for name in names:
        if name.id not in parameters:
            problem = f"`donate` names `{name.id}`, which is no parameter of `{node.name}`"
            draft = body.sink.error(E0508, at=name.span, problem=problem)
            draft.did_you_mean(name.id, parameters, name.span)
            if isinstance(body.rules.resolve(name.id), ParamRef):
                draft.remark(f"`{name.id}` is a param of the module, which keeps its memory")
        elif name.id in known:
            body.sink.error(E0508, at=name.span, problem=f"`donate` names `{name.id}` twice")
        known.setdefault(name.id, name)
    return tuple(name for name in known.values() if name.id in parameters)


def with_donation(body: Body, function: typed.TypedFunction, names: Sequence[ast.Name]) -> typed.TypedFunction:
    """The function, which takes the memory of these parameters; where it can use none of one's, that is told."""
    donated = replace(function, donated=tuple(name.id for name in names))
    taken = set(donated_arguments(donated.donated, function.params, function.result))
    for name in names if body.at_definition else ():
        if not taken & set(_places(function.params, name.id)):
            _warn(body, function, name)
    return donated


def _warn(body: Body, function: typed.TypedFunction, name: ast.Name) -> None:
    given = next(param for param in function.params if param.name == name.id)
    draft = body.sink.warning(W0602, at=name.span, function=function.name, name=name.id)
    draft.note(given.span, f"this is {type_text(given.type)}")
    draft.because(f"`{function.name}` returns {type_text(function.result)}")
    if not any(leaf.rank for leaf in leaf_types(given.type)):
        draft.because("only tensors with dims have memory that a result can take")
    else:
        draft.because("a result takes the memory of an argument of its own sizes, dtype and policy")


# --------------------------------------------------------------------------------------------- who takes which memory


def donated_arguments(names: Sequence[str], params: Sequence[typed.Param], result: Type) -> tuple[int, ...]:
    """For each tensor of the result the place of the tensor, among all arguments, whose memory it takes, or FRESH.
    A part of the result that is of a parameter's type takes all of it; what is left goes tensor by tensor."""
    offered = {name: list(_places(params, name)) for name in names}
    wanted, types = list(leaf_types(result)), [leaf for param in params for leaf in leaf_types(param.type)]
    taken = [FRESH] * len(wanted)
    for param in params:
        places = offered.get(param.name, [])
        at = _whole(param.type, result, 0) if places else None
        if at is not None and set(taken[at : at + len(places)]) == {FRESH}:
            taken[at : at + len(places)] = places
            del offered[param.name]
    for place in (place for places in offered.values() for place in places):
        fitting = (i for i, leaf in enumerate(wanted) if taken[i] == FRESH and leaf == types[place])
        if (found := next(fitting, None)) is not None:
            taken[found] = place
    return tuple(FRESH if leaf.rank == 0 else place for leaf, place in zip(wanted, taken, strict=True))


def _places(params: Sequence[typed.Param], name: str) -> Iterator[int]:
    """Where the tensors of a parameter stand among those of all."""
    start = 0
    for param in params:
        count = len(list(leaf_types(param.type)))
        if param.name == name:
            yield from range(start, start + count)
        start += count


def _whole(wanted: Type, result: Type, start: int) -> int | None:
    """Where the tensors of a part of the result that has this type begin."""
    if wanted == result and not isinstance(wanted, TensorType):
        return start
    for _, part in run_time_parts(result) or ():
        if (found := _whole(wanted, part, start)) is not None:
            return found
        start += len(list(leaf_types(part)))
    return None
