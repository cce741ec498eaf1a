"""Which functions a program needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple
from weakref import WeakKeyDictionary

from tesserac.check.model import typed


def reachable(
    roots: Iterable[typed.TypedFunction], find: Callable[[str], typed.TypedFunction]
) -> dict[str, typed.TypedFunction]:
    """The functions given and all that they call, by symbol; a callee may stand after its caller."""
    return _reached(roots, find, _needs)


def computed(
    roots: Iterable[typed.TypedFunction], find: Callable[[str], typed.TypedFunction]
) -> dict[str, typed.TypedFunction]:
    """The same, less what only rules of derivatives need: enough for a program that has no `transforms`."""
    return _reached(roots, find, lambda call: [call.function, *(form.function for form in call.forms)])


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
            waiting += [find(symbol) for call in uses(function).calls for symbol in needs(call)]
    return reached


def _needs(call: typed.Call) -> list[str]:
    rules, forms = (rule.function for rule in call.rules), (form.function for form in call.forms)
    return [call.function, *rules, *forms]


class Uses(NamedTuple):
    """The calls and the operators of a function's body, in the order of the program, and whether it takes derivatives
    of functions or maps them."""

    calls: tuple[typed.Call, ...]
    operators: tuple[typed.Apply, ...]
    transforms: bool


_uses: WeakKeyDictionary[typed.TypedFunction, Uses] = WeakKeyDictionary()
"""A function does not change, and a program asks several times what each of the library's uses."""


def uses(function: typed.TypedFunction) -> Uses:
    found = _uses.get(function)
    if found is None:
        parts = list(parts_of(function.body))
        calls = tuple([part for part in parts if isinstance(part, typed.Call)])
        operators = tuple([part for part in parts if isinstance(part, typed.Apply)])
        is_transforming = any(isinstance(part, typed.Derivative | typed.Mapped) for part in parts)
        found = _uses[function] = Uses(calls, operators, is_transforming)
    return found


def transforms(functions: Iterable[typed.TypedFunction]) -> bool:
    """Whether some of them take derivatives of functions or map them: only then rules of derivatives are needed."""
    return any(uses(function).transforms for function in functions)


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
            waiting += reversed(children(part))


def requirements(block: typed.Block) -> list[typed.Require]:
    """The checks of sizes inside statements, in the order of the program."""
    found: dict[typed.Require, None] = {}
    waiting: list[object] = [block]
    while waiting:
        part = waiting.pop()
        if isinstance(part, typed.Require):
            found[part] = None
        else:
            waiting += reversed(children(part))
    return list(found)


def children(part: object) -> Sequence[object]:
    """What a typed statement or expression, or a tuple of them, consists of."""
    kind: type = type(part)
    return part if isinstance(part, tuple) else [getattr(part, name) for name in _inner(kind)]


@cache
def _inner(cls: type) -> tuple[str, ...]:
    """The fields of a class that may hold statements or expressions; none of what is not the typed program's."""
    if cls.__module__ != typed.__name__ or not dataclasses.is_dataclass(cls):
        return ()
    return tuple(field.name for field in dataclasses.fields(cls) if field.type not in _LEAVES)


_LEAVES = frozenset(("Type", "Span", "str", "int", "bool"))
"""What fields are annotated with that hold neither."""
