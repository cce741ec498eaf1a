"""The short way from arguments to the flat values that compiled code takes, and to the compilation that a call means.

Enters: the interface of a function. Leaves: a `Reader`, which takes arrays, numbers, the module's own objects, dicts,
lists and tuples apart as they lie, and says None of everything else: that is for `values.py`, which is slower, knows
what is wrong, and finds the compilation when a key is met for the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Protocol

import numpy as np

from tessera.device_array import DeviceArray
from tessera.interface import Compound, Computed, FunctionInterface, Kind, Missing, StructInterface
from tessera.scaled import Scaled
from tessera.structs import StructValue
from tessera.values import opened

Leaves = list[object]
Key = list[object]
"""What the compilation depends on beside the declarations, in the order in which it is met: values of ints, bools and
strings, lengths of lists, dtypes and ranks of arrays that declare none."""
Read = Callable[[object, Leaves, Key], object]
"""Adds the leaves of a value, and what it adds to the key. Raises one of UNUSUAL for what it does not know."""

_Fields = Callable[[object], Sequence[object]]

UNUSUAL = (TypeError, LookupError, AttributeError)
"""A field that is missing raises one of these, too."""
NO_COUNT = -1
_STATIC: Mapping[str, type] = {"int": int, "bool": bool, "str": str}
_ARRAYS = (np.ndarray, DeviceArray)


class Classes(Protocol):
    """What is known of the structs of a module."""

    structs: dict[str, StructInterface]

    def struct_class(self, struct: str) -> type[StructValue]: ...


class Reader:
    """How to read the arguments of a function: `reads` has one rule per parameter. Where no dims are declared, the
    compilation depends on which sizes are equal, and all shapes are in the key; so they are where sizes are known while
    compiling, `by_shapes`."""

    def __init__(self, interface: FunctionInterface, home: Classes, *, by_shapes: bool = False) -> None:
        parameters = interface.parameters
        kinds = [parameter.kind for parameter in parameters]
        is_open = any(_has_open(kind, home.structs) for kind in kinds)
        self.by_shapes = by_shapes or is_open
        reading = Reading(home, by_shapes=self.by_shapes)
        self.reads = [reading.of(kind) for kind in kinds]
        self.count = len(parameters) if not any(parameter.keyword_only for parameter in parameters) else NO_COUNT
        """How many arguments by position are all of them, in their order."""
        self._names = [parameter.name for parameter in parameters]
        self._positional = sum(not parameter.keyword_only for parameter in parameters)
        given = {p.name: p.default for p in parameters if not isinstance(p.default, Missing | Computed)}
        self._defaults: Mapping[str, object] = given
        self.is_plain = self.count != NO_COUNT and all(kind in ("tensor", "float") for kind in kinds)
        """Whether arguments by position are what compiled code takes."""

    def complete(self, args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[object, ...]:
        """The values of all parameters: those by position come first."""
        missing = self._names[len(args) :]
        used = [name for name in missing if name in kwargs]
        if len(args) > self._positional or len(used) != len(kwargs):
            raise TypeError
        return (*args, *[kwargs[name] if name in kwargs else self._defaults[name] for name in missing])


def _has_open(kind: Kind, structs: Mapping[str, StructInterface]) -> bool:
    """Whether equal sizes are to be found in the arrays of a call."""
    if isinstance(kind, str):
        return kind == "open"
    fields = structs[kind.name].fields if kind.kind == "struct" and not kind.items else ()
    inside = kind.items or tuple(own for _, own in fields)
    return kind.kind.startswith("any ") or any(_has_open(item, structs) for item in inside)


class Reading:
    """What reads a value of each kind."""

    def __init__(self, home: Classes, *, by_shapes: bool) -> None:
        self._home = home
        self._by_shapes = by_shapes
        self._structs: dict[type[StructValue], Read] = {}

    def of(self, kind: Kind) -> Read:
        if isinstance(kind, Compound):
            return self._compound(kind)
        if kind in _STATIC:
            return _static(_STATIC[kind])
        if kind == "float":
            return _float
        if kind == "tensor":
            return _sized if self._by_shapes else _leaf
        if kind == "generic":
            return _shaped if self._by_shapes else _ranked
        assert kind == "open"
        return self._open

    def _compound(self, kind: Compound) -> Read:
        if kind.kind in ("struct", "any struct"):
            return self._struct(kind)
        if kind.kind in ("scaled", "any scaled"):
            return self._scaled(kind)
        reads = [self.of(item) for item in kind.items]
        return {"optional": _optional, "list": _listed, "tuple": _several}[kind.kind](reads)

    def _struct(self, kind: Compound) -> Read:
        """An object of the module's class, or a dict with its fields and no others."""
        fields = self._home.structs[kind.name].fields
        own = kind.items or tuple(own for _, own in fields)
        kinds = [opened(item) for item in own] if kind.kind == "any struct" else list(own)
        names, cls = [name for name, _ in fields], self._home.struct_class(kind.name)
        attributes, items = _all_of(attrgetter, names), _all_of(itemgetter, names)
        are_leaves = all(item == "tensor" for item in kinds) and not self._by_shapes
        read_all = None if are_leaves else _several([self.of(item) for item in kinds])

        def read(value: object, leaves: Leaves, key: Key) -> None:
            if isinstance(value, cls):
                found = attributes(value)
            elif type(value) is dict and len(value) == len(names):
                found = items(value)
            else:
                raise TypeError
            if read_all is None:
                leaves += found
            else:
                read_all(found, leaves, key)

        return read

    def _scaled(self, kind: Compound) -> Read:
        read = self._open if kind.kind == "any scaled" else _leaf

        def both(value: object, leaves: Leaves, key: Key) -> None:
            if type(value) is not Scaled:
                raise TypeError
            read(value.q, leaves, key)
            leaves.append(value.scale)

        return both

    def _open(self, value: object, leaves: Leaves, key: Key) -> None:
        """A value that nothing is declared of: its type is in the key, too."""
        cls = type(value)
        key.append(cls)
        if cls in _ARRAYS:
            _shaped(value, leaves, key)
        elif cls is float:
            leaves.append(value)
        elif value is None or cls in (int, bool, str):
            key.append(value)
        elif cls in (tuple, list):
            assert isinstance(value, tuple | list)
            key.append(len(value))
            for item in value:
                self._open(item, leaves, key)
        else:
            self._object(value)(value, leaves, key)

    def _object(self, value: object) -> Read:
        if not isinstance(value, StructValue) or value._struct_name() not in self._home.structs:
            raise TypeError
        cls = type(value)
        if cls not in self._structs:
            self._structs[cls] = self._struct(Compound("any struct", (), value._struct_name()))
        return self._structs[cls]


def _leaf(value: object, leaves: Leaves, key: Key) -> None:
    leaves.append(value)


def _sized(value: object, leaves: Leaves, key: Key) -> None:
    leaves.append(value)
    key.append(value.shape if type(value) in _ARRAYS else _shape_of_number(value))  # type: ignore[attr-defined]


def _shape_of_number(value: object) -> tuple[()]:
    if type(value) not in (float, int):
        raise TypeError
    return ()


def _shaped(value: object, leaves: Leaves, key: Key) -> None:
    _ranked(value, leaves, key)
    key.append(value.shape)  # type: ignore[attr-defined]


def _ranked(value: object, leaves: Leaves, key: Key) -> None:
    if type(value) not in _ARRAYS:
        raise TypeError
    leaves.append(value)
    key.append(value.dtype)  # type: ignore[attr-defined]
    key.append(value.ndim)  # type: ignore[attr-defined]


def _float(value: object, leaves: Leaves, key: Key) -> None:
    if type(value) not in (float, int):
        raise TypeError
    leaves.append(value)


def _static(cls: type) -> Read:
    def read(value: object, leaves: Leaves, key: Key) -> None:
        if type(value) is not cls:
            raise TypeError
        key.append(value)

    return read


def _optional(reads: Sequence[Read]) -> Read:
    def read(value: object, leaves: Leaves, key: Key) -> None:
        key.append(value is None)
        if value is not None:
            reads[0](value, leaves, key)

    return read


def _listed(reads: Sequence[Read]) -> Read:
    def read(value: object, leaves: Leaves, key: Key) -> None:
        if type(value) is not list and type(value) is not tuple:
            raise TypeError
        key.append(len(value))
        for item in value:
            reads[0](item, leaves, key)

    return read


def _several(reads: Sequence[Read]) -> Read:
    def read(value: object, leaves: Leaves, key: Key) -> None:
        if (type(value) is not list and type(value) is not tuple) or len(value) != len(reads):
            raise TypeError
        for one, item in zip(reads, value, strict=True):
            one(item, leaves, key)

    return read


def _all_of(getter: Callable[..., Callable[[Any], Any]], names: Sequence[str]) -> _Fields:
    """Reads what stands under each name."""
    if not names:
        return lambda value: ()
    get = getter(*names)
    return get if len(names) > 1 else lambda value: (get(value),)
