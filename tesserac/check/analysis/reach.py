"""Which functions a program needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

from tesserac.check.model import typed


def reachable(
    roots: Iterable[typed.TypedFunction], find: Callable[[str], typed.TypedFunction]
) -> dict[str, typed.TypedFunction]:
    """The functions given and all that they call, by symbol; a callee may stand after its caller."""
    return _reached(roots, find, _needs)


def called(
    roots: Iterable[typed.TypedFunction], find: Callable[[str], typed.TypedFunction]
) -> dict[str, typed.TypedFunction]:
    """The same, less what only derivatives and other forms of these need."""
    return _reached(roots, find, lambda call: [call.function])


def _reached(
    roots: Iterable[typed.TypedFunction],
    find: Callable[[str], typed.TypedFunction],
    needs: Callable[[typed.Call], list[str]],
) -> dict[str, typed.TypedFunction]:
    reached: dict[str, typed.TypedFunction] = {}
    waiting = list(roots)
    while waiting:
        function = waiting.pop(0)
        if function.symbol not in reached:
            reached[function.symbol] = function
            waiting += [find(symbol) for call in _calls(function.body) for symbol in needs(call)]
    return reached


def _needs(call: typed.Call) -> list[str]:
    rules, forms = (rule.function for rule in call.rules), (form.function for form in call.forms)
    return [call.function, *rules, *forms]


def _calls(body: typed.Block) -> Iterator[typed.Call]:
    return (part for part in parts_of(body) if isinstance(part, typed.Call))


def parts_of(body: object) -> Iterator[object]:
    """All statements and expressions inside, in the order of the program. Expressions share parts, such as a struct
    whose fields are read one by one: each part is given once."""
    seen: set[int] = set()
    waiting: list[object] = [body]
    while waiting:
        part = waiting.pop()
        if id(part) not in seen:
            seen.add(id(part))
            yield part
            waiting += reversed(list(children(part)))


def requirements(block: typed.Block) -> list[typed.Require]:
    """The checks of sizes inside statements, in the order of the program."""
    found: dict[typed.Require, None] = {}
    waiting: list[object] = [block]
    while waiting:
        part = waiting.pop()
        if isinstance(part, typed.Require):
            found[part] = None
        else:
            waiting += reversed(list(children(part)))
    return list(found)


def children(part: object) -> Iterator[object]:
    """What a typed statement or expression, or a tuple of them, consists of."""
    if isinstance(part, tuple):
        yield from part
    elif dataclasses.is_dataclass(part) and type(part).__module__ == typed.__name__:
        yield from (getattr(part, field.name) for field in dataclasses.fields(part))
