"""What a call gives back, put together from the flat values that compiled code returns.

Enters: values in order, and the shape that the function's result has. Leaves: arrays and scalars, tuples, structs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

from tessera.container import Row
from tessera.operator import Operator
from tessera.programs import FUNCTION, TRANSFORM, Program, function_of
from tessera.scaled import Scaled
from tessera.sizes import Size, read_size


class Maker(Program, Protocol):
    """The module whose function was called."""

    def make_struct(self, struct: str, fields: dict[str, object]) -> object: ...


class Returned(NamedTuple):
    """`kind` is `value` (the next one that compiled code returns), `tuple`, `scaled`, `struct` (called `detail`, with
    the fields `names`), `dict` (with those keys), `operator` (the expression `detail` of its items), `function` or
    `transform` (with what it captured; `names` say which), `number` (its item as a float of Python's), `constant`
    (which is `detail`) or `size` (likewise)."""

    kind: str
    items: tuple[Returned, ...] = ()
    names: tuple[str | int, ...] = ()
    detail: int | float | bool | str | Size | None = None


VALUE = Returned("value")


def as_they_come(count: int, *, several: bool) -> Returned:
    """One value, or all of them as a tuple."""
    return Returned("tuple", (VALUE,) * count) if several else VALUE


def is_flat(returned: Returned) -> bool:
    """Whether compiled code returns it as it is: one value, or a tuple of values."""
    return returned == VALUE or (returned.kind == "tuple" and all(item == VALUE for item in returned.items))


def assemble(
    returned: Returned, values: Iterator[object], sizes: Callable[[], Mapping[str, int]], home: Maker
) -> object:
    """The result; `sizes` are those of the call, asked for only where a size is part of it."""
    match returned.kind:
        case "value":
            return next(values)
        case "size":
            assert isinstance(returned.detail, Size)
            return returned.detail.evaluate(sizes())
        case "constant":
            return returned.detail
    items = [assemble(item, values, sizes, home) for item in returned.items]
    if returned.kind == "tuple":
        return tuple(items)
    if returned.kind == "scaled":
        return Scaled(*items)
    if returned.kind == "number":
        return float(items[0])  # type: ignore[arg-type]
    if returned.kind == "operator":
        return Operator(str(returned.detail), items)
    if returned.kind in (FUNCTION, TRANSFORM):
        return function_of(home, (returned.kind, *returned.names), items)
    named = dict(zip(returned.names, items, strict=True))
    if returned.kind == "dict":
        return named
    return home.make_struct(str(returned.detail), {str(name): item for name, item in named.items()})


def read_returned(row: Row) -> Returned:
    kind, items, names, detail = row
    size = read_size(detail) if isinstance(detail, list) else detail
    return Returned(kind, tuple(map(read_returned, items)), tuple(names), size)
