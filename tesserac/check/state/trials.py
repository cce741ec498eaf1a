"""Checking a part of a body on trial: what it left behind can be taken back.

Enters: a body under check. Leaves: a function that puts it back into the state it was in. A loop is checked again where
an iteration tells what its names have to start as.
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.base.source import Span
from tesserac.check.model.scope import Pinned
from tesserac.check.state.body import Body
from tesserac.types.forest import ProofForest
from tesserac.types.ty import ErrorType, Type, parts

_LEFT = frozenset(("origins", "_normal", "_forms"))
"""What may stay: origins of expressions that are no more are asked by nobody, and what was found of sizes is thrown
away as a whole where a fact is stated, so that what is kept here holds for the facts kept with it."""


def undo_of(body: Body) -> Callable[[], None]:
    """What takes back all that is stated, bound and reported from here on."""
    states = [(thing, _state(thing)) for thing in (body, body.sink, *body.parts)]

    def undo() -> None:
        for thing, state in states:
            vars(thing).update(state)

    return undo


def _state(thing: object) -> dict[str, object]:
    return {name: value if name in _LEFT else _copied(value) for name, value in vars(thing).items()}


def _copied(value: object) -> object:
    """Containers are changed in place, and so are those in dicts; everything else is replaced, if it changes."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list | set | ProofForest):
        return value.copy()
    return value


def rise(body: Body, name: str, pinned: Pinned, type_: Type) -> bool:
    """Notes that a name has to start further up in a loop, which is then checked again; False if that was tried.
    In a branch of the loop that is not taken it has not, nor where a mistake was made: its report would be lost."""
    if body.flow.dead > pinned.dead or _is_wrong(type_):
        return True
    key = (pinned.path, pinned.loop, name)
    if body.flow.rises.starts.get(key) == type_:
        return False
    body.flow.rises.starts[key] = type_
    body.flow.rises.again.add(pinned.loop)
    return True


def _is_wrong(type_: Type) -> bool:
    return isinstance(type_, ErrorType) or any(map(_is_wrong, parts(type_) or ()))


def risen(body: Body, name: str, loop: Span) -> Type | None:
    """What an iteration of a loop has told that a name starts as."""
    return body.flow.rises.starts.get((body.flow.path, loop, name))
