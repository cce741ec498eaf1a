"""What a derivative may keep of a loop: `with checkpoint(every=k):`, `slots=n`, `max_steps=n`.

Enters: the item of a `with`, and the loops in it. Leaves: the `LoopMemory` of each, or a diagnostic.
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.base.source import Span
from tesserac.check.model.message_text import type_text
from tesserac.check.model.typed import Expr, LoopMemory
from tesserac.check.state.body import Body
from tesserac.diag.codes.differentiation import E0710
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.ty import ErrorType, IntType

CHECKPOINT = "checkpoint"
CHECKPOINTS = (CHECKPOINT, "remat")
"""Two names of one thing."""
FEWEST_SLOTS = 2


def read_memory(body: Body, item: ast.Call) -> LoopMemory | None:
    """The settings of a `checkpoint`; None after a diagnostic."""
    every: Dim | None = None
    slots: int | None = None
    most: Dim | None = None
    for argument in item.arguments:
        known = _size(body, argument)
        if known is None:
            return None
        match argument.name:
            case "every":
                every = known
            case "slots":
                slots = known.constant
            case _:
                most = known
    if (every is None) == (slots is None) and (every is not None or most is None):
        problem = "`checkpoint` takes `every` or `slots`, one of them, or `max_steps` for a `while`"
        body.sink.error(E0710, at=item.span, problem=problem)
        return None
    return LoopMemory(every, slots, most)


_SETTINGS: dict[str, tuple[str, Callable[[Dim], bool]]] = {
    "every": ("a number of iterations, at least 1", lambda dim: dim.constant is None or dim.constant >= 1),
    "slots": (
        f"a number of states, at least {FEWEST_SLOTS}, that is known while compiling",
        lambda dim: dim.constant is not None and dim.constant >= FEWEST_SLOTS,
    ),
    "max_steps": ("a number of iterations, at least 1", lambda dim: dim.constant is None or dim.constant >= 1),
}


def _size(body: Body, argument: ast.Argument) -> Dim | None:
    if argument.name not in _SETTINGS:
        what = f"`{argument.name}`" if argument.name else "a value without a name"
        problem = f"the `checkpoint` of a loop has no setting {what}"
        draft = body.sink.error(E0710, at=argument.span, problem=problem)
        draft.remark("there are `every=`, `slots=` and `max_steps=`; `checkpoint(f)` is a function, not a context")
        return None
    wanted, fits = _SETTINGS[argument.name]
    type_ = body.expression(argument.value).type
    if isinstance(type_, IntType) and fits(type_.value):
        return type_.value
    if not isinstance(type_, ErrorType):
        problem = f"`{argument.name}` is {wanted}, not {type_text(type_)}"
        body.sink.error(E0710, at=argument.value.span, problem=problem)
    return None


def memory_of_every(body: Body, value: Expr) -> LoopMemory | None:
    """`scan(..., checkpoint=k)`: the state of every k-th iteration is kept; None after a diagnostic."""
    wanted, fits = _SETTINGS["every"]
    if isinstance(value.type, IntType) and fits(value.type.value):
        return LoopMemory(every=value.type.value)
    body.sink.error(E0710, at=value.span, problem=f"`checkpoint` is {wanted}, not {type_text(value.type)}")
    return None


def memory_of_sizes(body: Body, loop: Span) -> LoopMemory | None:
    """For a loop whose iterations sizes count."""
    if body.flow.memory is not None and body.flow.memory.max_steps is not None:
        problem = "`max_steps` is for loops whose iterations only the run counts; this one goes over a range of sizes"
        body.sink.error(E0710, at=loop, problem=problem)
        return None
    return body.flow.memory


def memory_of_run(body: Body, loop: Span) -> LoopMemory | None:
    """For a loop whose iterations the run counts."""
    if body.flow.memory is not None and body.flow.memory.slots is not None:
        problem = "`slots` needs a loop over a range of sizes; data end this one"
        draft = body.sink.error(E0710, at=loop, problem=problem)
        draft.remark("say `every=` or `max_steps=`; without either, memory does not grow with the iterations")
        return None
    return body.flow.memory
