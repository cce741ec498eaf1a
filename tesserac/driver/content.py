"""What the code of a function is made from, wherever it stands: an edit beside it leaves its code.

Enters: a checked function and what it calls as Graph IR, which all code follows from, but for a few things beside it.
Leaves: a text that is equal for functions that say the same, and the places that messages may tell of. A function below
a line that is new has the same text, and its places in the same order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping

from tessera.errors import Place
from tessera.interface import Content
from tesserac.base.source import SourceFile, Span
from tesserac.check.model.typed import TypedFunction
from tesserac.graph.devices import alone
from tesserac.ir.attributes import attribute_name
from tesserac.ir.core import Attr, Module
from tesserac.ir.printer import print_module
from tesserac.tune.schedules import cache_reads

PlaceOf = Callable[[Span], Place]


def content_of(module: Module, said: Iterable[str], place_of: PlaceOf) -> Content:
    """`said` is what the code depends on beside the module. The text says which places are one: each is kept once."""
    beside = [what for op in module.walk() for what in (op.span, *_not_shown(tuple(op.attrs.values())))]
    places: dict[Place, int] = {}
    order = [places.setdefault(place_of(what), len(places)) for what in beside if isinstance(what, Span)]
    texts = [what for what in beside if not isinstance(what, Span)]
    shown = print_module(module, annotate=lambda op: op.span.file)  # what the library says is not doubted as others
    return Content(repr((shown, *said, texts, order)), tuple(places))


def places_in(sources: Mapping[str, SourceFile]) -> PlaceOf:
    """How places are told at run time; nothing of those that are unknown."""

    def place_of(span: Span) -> Place:
        source = sources.get(span.file)
        return Place(span.file, *source.position(span.start)) if source is not None and span.known else Place("", 0, 0)

    return place_of


def beside(function: TypedFunction, reached: Iterable[TypedFunction]) -> Iterator[str]:
    """What a function and those that it calls say beside their bodies. Raises DevicesMissing."""
    yield repr((function.symbol, function.name, sorted(alone(function).items()), [p.name for p in function.reads]))
    yield repr(function.result)
    for one in reached:
        requests = [(request.device, request.is_needed, request.number) for request in one.requests]
        tuned = cache_reads([one.program.cache]) if one.program is not None else ()
        yield repr((requests, tuned))


def _not_shown(value: Attr) -> Iterator[object]:
    """What attributes hold and do not print: places, and what messages say there."""
    if isinstance(value, tuple):
        for item in value:
            yield from _not_shown(item)
    elif attribute_name(value) is not None:
        assert dataclasses.is_dataclass(value)
        for field in dataclasses.fields(value):
            held = getattr(value, field.name)
            if field.compare:
                yield from _not_shown(held)
            else:
                yield held
