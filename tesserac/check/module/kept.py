"""What a checker has found out of some items of its module, without what it knows of the others.

Enters: the names of the module, and the places of the items. Leaves: tables of the same kinds with less in them. An
instance is of such an item if its function is, and so is all that the types of its arguments mention.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.module.findings import Tables
from tesserac.check.names.resolve import ModuleNames
from tesserac.check.state.rules import Instance
from tesserac.syntax import ast
from tesserac.types.ty import BoolType, FloatType, IntType, NoneType, StrType, TensorType, Type, mentioned_in

V = TypeVar("V")

_PLAIN = frozenset((TensorType, IntType, FloatType, BoolType, StrType, NoneType))
"""Types that mention no function and no struct."""


class Kept:
    """Some items of a module, by their places."""

    def __init__(self, names: ModuleNames, places: Sequence[Span]) -> None:
        self._module = names.name
        self._places = sorted(places, key=lambda place: place.start)
        groups: tuple[Mapping[str, ast.Item], ...] = (
            names.functions, names.hidden, names.inner, names.structs, names.constants, names.params
        )  # fmt: skip
        nodes = (named for group in groups for named in group.items())
        self.names = frozenset(name for name, node in nodes if self._holds(node.span))

    def _holds(self, span: Span) -> bool:
        at = bisect_right(self._places, span.start, key=lambda place: place.start) - 1
        return at >= 0 and self._places[at].holds(span)

    def of(self, known: Mapping[str, V]) -> dict[str, V]:
        """What is known by name."""
        return {name: value for name, value in known.items() if name in self.names}

    def tables(self, known: Tables) -> Tables:
        """What is known of the module's own functions."""
        instances = dict(known.instances)  # which hashes no types
        for key in [key for key, found in instances.items() if found is None or not self._is_kept(key)]:
            del instances[key]
        return Tables(
            instances,
            {symbol: function for symbol, function in known.by_symbol.items() if self._holds(function.span)},
            self.of(known.decorated),
            self.of(known.representatives),
            {symbol: asked for symbol, asked in known.promised.items() if self._is_kept(asked)},
        )

    def of_guest(self, known: Tables) -> Tables:
        """What is known of functions of another module for the types of this one."""
        instances = dict(known.instances)
        others = [key for key in instances if not self._mentions_no_other(key[1])]
        gone = {symbol for key in others for symbol in _symbols(instances.pop(key))}
        by_symbol = {symbol: function for symbol, function in known.by_symbol.items() if symbol not in gone}
        promised = {symbol: asked for symbol, asked in known.promised.items() if self._mentions_no_other(asked[1])}
        return replace(known, instances=instances, by_symbol=by_symbol, promised=promised)

    def _is_kept(self, asked: tuple[str, tuple[Type, ...]]) -> bool:
        return asked[0] in self.names and self._mentions_no_other(asked[1])

    def _mentions_no_other(self, types: Iterable[Type]) -> bool:
        if _PLAIN.issuperset(map(type, types)):
            return True
        mentioned = (mention for type_ in types for mention in mentioned_in(type_))
        return all(module != self._module or name in self.names for module, name in mentioned)


def _symbols(instance: Instance | None) -> list[str]:
    found: list[typed.TypedFunction | None] = [] if instance is None else [instance.function, instance.outline]
    return [function.symbol for function in found if function is not None]
