"""Checking a part of a body on trial: what it left behind can be taken back.

Enters: a body under check. Leaves: a function that puts it back into the state it was in. A loop is checked again where
a turn tells what its names have to start as.
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.base.source import Span
from tesserac.check.body import Body
from tesserac.check.scope import Pinned
from tesserac.types.forest import ProofForest
from tesserac.types.ty import Type


def undo_of(body: Body) -> Callable[[], None]:
    """What takes back all that is stated, bound and reported from here on."""
    things: list[object] = [body, body.scope, body.frame, body.facts, body.sink]
    things += [] if body.kernel is None else [body.kernel]
    states = [(thing, {name: _copied(value) for name, value in vars(thing).items()}) for thing in things]

    def undo() -> None:
        for thing, state in states:
            vars(thing).update(state)

    return undo


def _copied(value: object) -> object:
    """Containers are changed in place, and so are those in dicts; everything else is replaced, if it changes."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list | set | ProofForest):
        return value.copy()
    return value


def rise(body: Body, name: str, pinned: Pinned, type_: Type) -> bool:
    """Notes that a name has to start further up in a loop, which is then checked again; False if that was tried.
    In a branch that is not taken it has not."""
    if body.dead:
        return True
    key = (body.path, pinned.loop, name)
    if body.rises.starts.get(key) == type_:
        return False
    body.rises.starts[key] = type_
    body.rises.again.add(pinned.loop)
    return True


def risen(body: Body, name: str, loop: Span) -> Type | None:
    """What a turn of a loop has told that a name starts as."""
    return body.rises.starts.get((body.path, loop, name))
