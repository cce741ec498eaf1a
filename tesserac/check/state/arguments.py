"""Sorts the arguments of a call under the names of parameters.

Enters: arguments as written, and the parameters' names. Leaves: arguments by name; wrong ones have a diagnostic.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.base.resources import of_library
from tesserac.base.source import NO_SPAN, Span
from tesserac.check.model import typed
from tesserac.check.names.foreign_arguments import BEYOND, STANDING_IN, left_out_here
from tesserac.check.names.foreign_names import FOREIGN_PARAMETERS, NEEDLESS_PARAMETERS, NEEDLESS_VALUES
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0205
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.syntax import ast
from tesserac.types.ty import IntType, TensorType

ALIASES = {
    "dim": ("axis", "axes"),
    "dims": ("axes", "axis"),
    "axes": ("axis",),
    "axis": ("axes",),
    "keepdim": ("keep",),
    "keepdims": ("keep",),
    "argnums": ("wrt",),
    "in_dims": ("in_axes",),
    "out_dims": ("out_axes",),
}
"""Names that other libraries use, of whichever parameter there is; the formatter rewrites those of one axis."""
_OPERANDS = ("input", "other")
"""What PyTorch calls the first two parameters of nearly all of its functions."""


@dataclass(frozen=True)
class Arg:
    """One checked argument; `name` is None for a positional one."""

    name: str | None
    span: Span
    value: typed.Expr


@dataclass(frozen=True)
class Callee:
    """What is called, for messages: its name and the place a message points to."""

    name: str
    at: Span
    span: Span


def check_arguments(body: Body, arguments: Sequence[ast.Argument]) -> list[Arg]:
    return [Arg(a.name, a.name_span, body.expression(a.value)) for a in arguments]


@dataclass(frozen=True)
class Slot:
    """A parameter, as sorting sees it."""

    name: str
    required: bool
    keyword_only: bool
    declared: Span = NO_SPAN
    others: tuple[str, ...] = ()
    """What other libraries call it."""


def with_operand_names(slots: Sequence[Slot], args: Sequence[Arg]) -> Sequence[Slot]:
    """The parameters of a function of the library, the first two with the names that PyTorch gives to operands where a
    call uses these. What another parameter is said to be called is that one's."""
    if not any(arg.name in _OPERANDS for arg in args):
        return slots
    said = {name for slot in slots for name in (*slot.others, slot.name)}
    named = [
        replace(slot, others=(*slot.others, name)) if name not in said else slot
        for slot, name in zip(slots, _OPERANDS, strict=False)
    ]
    return [*named, *slots[len(named) :]]


def sort_arguments(
    body: Body, callee: Callee, args: Sequence[Arg], slots: Sequence[Slot]
) -> dict[str, typed.Expr] | None:
    """Arguments by parameter name, or None after a diagnostic."""
    names = {name: slot.name for slot in slots for name in (*slot.others, slot.name)}
    positional = [slot.name for slot in slots if not slot.keyword_only]
    given: dict[str, typed.Expr] = {}
    ordered = [arg for arg in args if arg.name is None]
    if len(ordered) > len(positional):
        were = "was" if len(ordered) == 1 else "were"
        many = f"`{callee.name}` takes {_count(len(positional))}, {len(ordered)} {were} given"
        draft = body.sink.error(E0205, at=ordered[len(positional)].value.span, problem=many)
        if callee.name in BEYOND and _is_ours(slots[0]):
            draft.remark(BEYOND[callee.name])
        elif slots:
            draft.remark(_listed(slots))
        if callee.name == "transpose" and all(isinstance(arg.value.type, IntType) for arg in ordered[1:]):
            draft.replace("axes in a new order are `permute`", callee.at, "permute")
        if len(ordered) == len(positional) + 1:
            _suggest_names(body, draft, ordered[-1].value, slots, {arg.name for arg in args})
        return None
    given.update({name: arg.value for name, arg in zip(positional, ordered, strict=False)})
    for arg in args:
        if arg.name is not None and not _put(body, callee, arg, arg.name, names, given):
            return None
    missing = [slot for slot in slots if slot.required and slot.name not in given]
    if missing:
        _tell_of_missing(body, callee, missing, slots, args)
        return None
    return given


def _tell_of_missing(
    body: Body, callee: Callee, missing: Sequence[Slot], slots: Sequence[Slot], args: Sequence[Arg]
) -> None:
    listed = ", ".join(f"`{slot.name}`" for slot in missing)
    draft = body.sink.error(E0205, at=callee.at, problem=f"`{callee.name}` also needs {listed}")
    if missing[0].declared.known:
        draft.note(missing[0].declared, "declared here, without a default")
    elif args:
        draft.remark(_listed(slots))
    _suggest_own(body, draft, callee, missing, slots, args)
    elsewhere = left_out_here(callee.name, [slot.name for slot in missing]) if _is_ours(missing[0]) else None
    if elsewhere is not None:
        draft.remark(elsewhere)
        _suggest_room(body, draft, callee, args)
        _suggest_number(body, draft, callee, missing)


def _suggest_own(
    body: Body, draft: Draft, callee: Callee, missing: Sequence[Slot], slots: Sequence[Slot], args: Sequence[Arg]
) -> None:
    """What is missing by names that are values here."""
    text = body.rules.text(callee.span)
    last = [slot.name for slot in slots][len(args) : len(args) + len(missing)]
    by_place = last == [slot.name for slot in missing] and all(arg.name is None for arg in args)
    if by_place and text.endswith(")") and all(isinstance(_bound(body, name), TensorType) for name in last):
        end = Span(callee.span.file, callee.span.end - 1, callee.span.end - 1)
        draft.replace("give it what has that name here", end, ("" if not args else ", ") + ", ".join(last))


def _bound(body: Body, name: str) -> object:
    binding = body.scope.bindings.get(name)
    return None if binding is None else binding.type


def _suggest_room(body: Body, draft: Draft, callee: Callee, args: Sequence[Arg]) -> None:
    """Room for as many places as there can be: `nonzero(mask, size=mask.size)`."""
    text, at = body.rules.text(callee.span), callee.span
    given = body.rules.text(args[0].value.span) if args else ""
    whole = given if re.fullmatch(r"[\w.]+", given) else f"({given})"
    if not given or len(args) != 1 or text[-1:] != ")":
        return
    if callee.name in _COUNTED:
        comma = "" if text[:-1].endswith("(") else ", "
        end = Span(at.file, at.end - 1, at.end - 1)
        draft.replace("with room for all", end, f"{comma}size={whole}.size")
    elif callee.name == "where":
        draft.replace("with room for all", at, f"nonzero({given}, size={whole}.size)")


def _suggest_number(body: Body, draft: Draft, callee: Callee, missing: Sequence[Slot]) -> None:
    name = missing[0].name
    number, at = STANDING_IN.get((callee.name, name)), callee.span
    if number is not None and body.rules.text(at)[-1:] == ")":
        end = Span(at.file, at.end - 1, at.end - 1)
        draft.replace(f"say how many: {number} stands for their number", end, f", {name}={number}")


_COUNTED = ("argwhere", "flatnonzero", "nonzero", "unique")
"""Functions that give as many as they find elsewhere."""


def _is_ours(slot: Slot) -> bool:
    """Whether it is of a function of the library or of an operator."""
    return not slot.declared.known or of_library(slot.declared.file)


def _suggest_names(
    body: Body, draft: Draft, value: typed.Expr, slots: Sequence[Slot], said: set[str | None]
) -> None:
    """The one argument too many may be one of the few that have to be named."""
    named = [slot.name for slot in slots if slot.keyword_only and slot.name not in said]
    for name in named if len(named) <= 2 else []:
        draft.replace(f"it may be `{name}`", value.span, f"{name}={body.rules.text(value.span)}")


def _put(
    body: Body, callee: Callee, arg: Arg, name: str, names: dict[str, str], given: dict[str, typed.Expr]
) -> bool:
    name = names.get(name) or next((alias for alias in ALIASES.get(name, ()) if alias in names), name)
    if name in given:
        problem = f"`{callee.name}` is given `{name}` twice"
    elif name not in names:
        problem = f"`{callee.name}` has no parameter `{name}`"
    else:
        given[name] = arg.value
        return True
    draft = body.sink.error(E0205, at=arg.span, problem=problem)
    if name in given and given[name].span.known:
        draft.note(given[name].span, f"this is `{name}` already")
        order = ", ".join(f"`{own}`" for own in dict.fromkeys(names.values()))
        draft.remark(f"its parameters are {order}, in this order")
    if name not in names and name in FOREIGN_PARAMETERS:
        _suggest_otherwise(body, draft, callee, arg, name)
    elif name not in names:
        draft.did_you_mean(name, names, arg.span)
    return False


def _suggest_otherwise(body: Body, draft: Draft, callee: Callee, arg: Arg, name: str) -> None:
    """What PyTorch's parameter is here: said in words, and left out where nothing stands for it."""
    draft.remark(FOREIGN_PARAMETERS[name])
    text, value = body.rules.text, arg.value
    if name == "unbiased" and text(value.span) in ("True", "False"):
        divisor = int(text(value.span) == "True")
        whole = Span(arg.span.file, arg.span.start, value.span.end)
        draft.replace(f"here it is `correction={divisor}`", whole, f"correction={divisor}")
    elif name in NEEDLESS_PARAMETERS or NEEDLESS_VALUES.get(name) == text(value.span):
        before = text(Span(arg.span.file, 0, arg.span.start))
        start = arg.span.start - len(before) + len(before.rstrip().removesuffix(","))
        edits = [Edit(Span(arg.span.file, start, value.span.end), "")]
        picked = Span(arg.span.file, callee.span.end, callee.span.end + len(_FIRST))
        if name == "rcond" and text(picked) == _FIRST:
            edits.append(Edit(picked, ""))
        draft.fix("leave it out", *edits)


_FIRST = "[0]"
"""Of what NumPy gives beside the solution the solution, which is all there is here."""


def _listed(slots: Sequence[Slot]) -> str:
    """What a function takes, by its names."""
    placed, named = (", ".join(f"`{s.name}`" for s in slots if s.keyword_only is only) for only in (False, True))
    return "it takes " + "; ".join(text for text in (placed, named and f"by name {named}") if text)


def _count(number: int) -> str:
    return "no arguments" if number == 0 else "1 argument" if number == 1 else f"{number} arguments"
