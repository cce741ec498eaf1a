"""Arguments that may lack parts: for which of them a function is compiled before anyone calls it.

Enters: the kind of a parameter, and the results of functions. Leaves: the choices that a call could make. An
`OptimizerState[MLP[D, H]]` has moments or not, masters or not: with what a program's own functions return, a bundle
holds the step for just those states.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from tessera.interface import Choice, Compound, Declared, Kind, StructInterface, Tree
from tesserac.entry.interface import struct_key
from tesserac.types.ty import NoneType, StructType, Type, parts

MOST_VARIANTS = 64
"""A parameter of more kinds waits for a call."""

Given = Mapping[str, frozenset[tuple[bool, ...]]]
"""Of each struct that functions return, which of its fields they leave out."""


def variants(kind: Kind, structs: Mapping[str, StructInterface], given: Given) -> tuple[Choice, ...]:
    """What a call could choose for a parameter, where only the absence of parts is left open; else nothing."""
    if isinstance(kind, str):
        return (Declared(),) if kind in ("tensor", "float") else ()
    if kind.kind == "scaled":
        return (Declared(),)
    if kind.kind == "optional":
        inner = variants(kind.items[0], structs, given)
        return (*inner, None) if inner else ()
    if kind.kind not in ("struct", "tuple"):
        return ()
    known = given.get(kind.name)
    found = _products([variants(part, structs, given) for part in _parts(kind, structs)])
    return tuple(Tree(kind.name, items) for items in found if known is None or absent(items) in known)


def _parts(kind: Compound, structs: Mapping[str, StructInterface]) -> Iterable[Kind]:
    return kind.items or tuple(field for _, field in structs[kind.name].fields) if kind.name else kind.items


def _products(parts_: list[tuple[Choice, ...]]) -> Iterator[tuple[Choice, ...]]:
    number = 1
    for choices in parts_:
        number *= len(choices)
    return product(*parts_) if number <= MOST_VARIANTS else iter(())


def absent(items: Iterable[Choice]) -> tuple[bool, ...]:
    return tuple(item is None for item in items)


def given_by(results: Iterable[Type], module: str) -> Given:
    """Which fields the structs in some results lack."""
    found: dict[str, frozenset[tuple[bool, ...]]] = {}
    for struct in (struct for result in results for struct in _structs(result)):
        key = struct_key(module, struct.module, struct.name)
        lacks = tuple(isinstance(field, NoneType) for _, field in struct.fields)
        found[key] = found.get(key, frozenset()) | {lacks}
    return found


def _structs(type_: Type) -> Iterator[StructType]:
    if isinstance(type_, StructType):
        yield type_
    for part in parts(type_) or ():
        yield from _structs(part)
