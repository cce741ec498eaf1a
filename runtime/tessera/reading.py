"""The short way from arguments to the flat values that compiled code takes, for functions whose parameters say all.

Enters: the interface of a function of arrays, numbers and structs. Leaves: a `Reader`, which reads the fields of the
module's own objects and says None of everything else: that is for `values.py`, which is slower and knows what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

from tessera.interface import FunctionInterface, Kind, Missing, StructInterface
from tessera.structs import StructValue


class Classes(Protocol):
    """What is known of the structs of a module."""

    structs: dict[str, StructInterface]

    def struct_class(self, struct: str) -> type[StructValue]: ...


class _Leaf(NamedTuple):
    """A value behind a path of fields; a struct of the class `struct` where it has one, else an array, or a float."""

    path: tuple[str, ...]
    struct: str
    is_float: bool


class Reader(NamedTuple):
    """`leaves_of` gives the flat values of the arguments of a call, or None."""

    leaves_of: Callable[[Sequence[object]], list[object] | None]
    has_structs: bool
    has_floats: bool


def reader_of(interface: FunctionInterface, home: Classes) -> Reader | None:
    """None for a function that some calls give other parameters or types than others."""
    parts: list[list[_Leaf]] = []
    for parameter in interface.parameters:
        if parameter.keyword_only or not isinstance(parameter.default, Missing):
            return None
        found = list(_leaves(parameter.kind, home.structs, ()))
        if None in found:
            return None
        parts.append([leaf for leaf in found if leaf is not None])
    leaves = [leaf for part in parts for leaf in part]
    has_structs = any(leaf.struct for leaf in leaves)
    return Reader(_reading(parts, home), has_structs, any(leaf.is_float for leaf in leaves))


def _leaves(
    kind: Kind, structs: Mapping[str, StructInterface], path: tuple[str, ...]
) -> Iterator[_Leaf | None]:
    if isinstance(kind, str):
        yield _Leaf(path, "", kind == "float") if kind in ("tensor", "float") else None
    elif kind.kind != "struct":
        yield None
    else:
        yield _Leaf(path, kind.name, False)
        struct = structs[kind.name]
        for (name, own), used in zip(struct.fields, kind.items or [own for _, own in struct.fields], strict=True):
            yield from _leaves(used if kind.items else own, structs, (*path, name))


_Plan = tuple[type | None, Callable[[object], Sequence[object]]]
"""Of one parameter: the class of its struct, if it is one, and what reads its fields; None for those of other kinds."""


def _reading(parts: Sequence[Sequence[_Leaf]], home: Classes) -> Callable[[Sequence[object]], list[object] | None]:
    plans = [_plan(leaves, home) for leaves in parts]
    count = len(plans)

    def leaves_of(args: Sequence[object]) -> list[object] | None:
        if len(args) != count:
            return None
        found: list[object] = []
        try:
            for value, (cls, read) in zip(args, plans, strict=True):
                if cls is None:
                    found.append(value)
                elif isinstance(value, cls):
                    found += read(value)
                else:
                    return None
        except (AttributeError, TypeError):  # a field was deleted, or is no struct of the module
            return None
        return found

    return leaves_of


def _plan(leaves: Sequence[_Leaf], home: Classes) -> _Plan:
    if not leaves[0].struct:
        return float if leaves[0].is_float else None, lambda value: (value,)
    values = [leaf for leaf in leaves if not leaf.struct]
    inner = [leaf for leaf in leaves[1:] if leaf.struct]
    fields: Callable[[object], Sequence[object]] = _fields([leaf.path for leaf in values])
    if not inner and not any(leaf.is_float for leaf in values):
        return home.struct_class(leaves[0].struct), fields
    structs = _fields([leaf.path for leaf in inner])
    classes = [home.struct_class(leaf.struct) for leaf in inner]
    floats = [place for place, leaf in enumerate(values) if leaf.is_float]

    def read(value: object) -> Sequence[object]:
        found = fields(value)
        fits = all(map(isinstance, structs(value), classes)) and all(type(found[place]) is float for place in floats)
        if not fits:
            raise TypeError
        return found

    return home.struct_class(leaves[0].struct), read


def _fields(paths: Sequence[tuple[str, ...]]) -> Callable[[object], Sequence[object]]:
    """Reads what stands behind each path."""
    names = [".".join(path) for path in paths]
    if not names:
        return lambda value: ()
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda value: (get(value),)
