"""Trees of objects as bytes: of classes that are listed, and without running any code of theirs.

Enters: objects of the listed classes, of tuples, lists, dicts, sets, text and numbers; what is shared stays shared.
Leaves: a table of columns, and from one the objects again. Whether the bytes are whole is for the file that holds them
to know (`tessera.sealed`). See Note [Why columns].
"""

from __future__ import annotations

import json
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import accumulate, repeat
from types import ModuleType
from typing import Any, NamedTuple, cast

from tesserac.base.columns import (
    FILLED,
    Listed,
    Names,
    Writer,
    attributes_of,
    class_name,
    fields_of,
    flat_tuples,
    found_in,
    has_fields,
    number_fields,
    numbers,
    spread_fields,
)
from tesserac.base.late import Fields, Late, groups, make_late

_COUNTED: dict[type, Names] = {Fraction: ("_numerator", "_denominator")}


def classes_in(*modules: ModuleType) -> list[type]:
    """The classes of data that modules define: dataclasses and named tuples."""
    members = ((module, value) for module in modules for value in vars(module).values() if isinstance(value, type))
    return [value for module, value in members if value.__module__ == module.__name__ and has_fields(value)]


class Codec:
    """`classes` are those of data, `open_classes` others, whose objects are kept with all attributes that they have,
    and `named` are objects that a tree refers to by name. `late` has the fields of some classes that are not read
    before they are asked for, and objects of `values` are what their fields are: equal ones may become one."""

    def __init__(
        self,
        classes: Iterable[type],
        open_classes: Iterable[type] = (),
        named: Mapping[str, object] | None = None,
        late: Mapping[type[Late], Fields] | None = None,
        values: Iterable[type] = (),
    ) -> None:
        self._data, self._open = tuple(classes), frozenset(open_classes)
        self._flat = flat_tuples(self._data)
        self._named = dict(named or {})
        self._late: Mapping[type, Fields] = dict(late or {})
        self._values = frozenset(values)
        listed = (*self._data, *self._open, *_COUNTED, *FILLED, tuple, frozenset)
        self._classes = {class_name(cls): cls for cls in listed}

    def encode(self, root: object) -> bytes:
        """Raises Unencodable where the tree holds something that is not listed."""
        fields = {cls: self._fields(cls) for cls in (*self._data, *self._open, *_COUNTED)}
        tree, islands = found_in(root, Listed(fields, self._values), self._named, self._late)
        return Writer(tree, None, self._named).encode(root, islands)

    def decode(self, data: bytes) -> Any:
        """The tree. Raises ValueError where `data` is not what `encode` gives for the same classes."""
        try:
            return self._decode(data)
        except (LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f"it is not a tree of these classes: {error}") from None

    def _decode(self, data: bytes) -> Any:
        start = 4 + int.from_bytes(data[:4], "little")
        names, strings, large, sizes, objects, containers, values, root, kinds = json.loads(data[4:start])
        pool: list[Any] = [None, True, False, (), *(self._named[name] for name in names), *strings]
        ints, floats, words, ends, islands = _cut(memoryview(data)[start:], sizes)
        pool += [*numbers("q", ints), *(int(text, 16) for text in large), *numbers("d", floats)]
        made = self._make(_Reader(pool, numbers("I", words)), objects, containers, values, self._late)
        known = [self._checked_kind(json.loads(kind)) for kind in kinds]
        self._leave(made, _Islands(pool, numbers("I", ends), islands, known))
        return pool[root]

    def _checked_kind(self, kind: list[Any]) -> list[Any]:
        """A class of an island: whether it fits is known before anybody asks for what is on it."""
        if len(kind) == 1:
            self._class(kind[0], (*FILLED, tuple, frozenset))
        else:
            self._object_class(*kind)
        return kind

    def _make(
        self, reader: _Reader, objects: Groups, containers: Groups, values: Groups, late: Mapping[type, Fields]
    ) -> list[list[Any]]:
        """All that a table has; gives the groups of objects."""
        shells = [reader.new_objects(self._object_class(name, own), count) for name, own, count in objects]
        empty = [reader.new_containers(self._class(name, FILLED), count) for name, count in containers]
        for name, count in values:
            reader.new_values(self._class(name, (tuple, frozenset)), count)
        for made, (name, own, _) in zip(shells, objects, strict=True):
            cls = self._classes[name]
            fields = [field for field in own if cls not in late or field not in late[cls].names]
            reader.set_fields(made, fields, spread_fields(cls, self._flat))
        for one in empty:
            reader.fill(one)
        return shells

    def _leave(self, made: Iterable[Sequence[Any]], islands: _Islands) -> None:
        """Says of the objects with late fields where these stand."""
        late = (one for group in made if group and type(group[0]) in self._late for one in group)
        for number, owners in enumerate(groups(late, self._late)):
            make_late(owners, self._late, partial(self._island, islands, number))

    def _island(self, islands: _Islands, number: int) -> Iterable[Iterable[object]]:
        reader, tables, root = islands.read(number)
        self._make(reader, *tables, {})
        return cast("Iterable[Iterable[object]]", reader.at(root))

    def _object_class(self, name: str, own: Sequence[str]) -> type:
        cls = self._classes[name]
        declared = self._fields(cls)
        fits = attributes_of(cls, own) == own if declared is None else tuple(own) == declared
        if issubclass(cls, tuple) or not fits:
            raise ValueError(f"{name} has other fields")
        return cls

    def _fields(self, cls: type) -> Names | None:
        """Those of a listed class, found where objects of it are; None where each has its own."""
        return _COUNTED.get(cls) or (None if cls in self._open else fields_of(cls))

    def _class(self, name: str, kinds: tuple[type, ...]) -> type:
        cls = self._classes[name]
        if not issubclass(cls, kinds):
            raise ValueError(f"{name} is another kind of class")
        return cls


Groups = Sequence[Any]
"""Classes, each with its fields where they are not always the same, and how many objects there are of it."""


def _cut(data: memoryview, sizes: Sequence[int]) -> Iterator[memoryview]:
    ends = list(accumulate(sizes))
    if ends[-1] != len(data):
        raise ValueError("it is cut off")
    return map(data.__getitem__, map(slice, [0, *ends], ends))


class _Reader:
    """The objects made so far, and the words that say how the rest is made of them."""

    def __init__(self, pool: list[Any], words: array[int]) -> None:
        self._pool = pool
        self._words = words
        self._at = 0

    def at(self, number: int) -> Any:
        return self._pool[number]

    def new_objects(self, cls: type, count: int) -> list[Any]:
        """None of them has a field yet."""
        return self._more(map(object.__new__, repeat(cls, count)))

    def new_containers(self, cls: type, count: int) -> list[Any]:
        return self._more(cls() for _ in range(count))

    def _more(self, objects: Iterable[Any]) -> list[Any]:
        made = list(objects)
        self._pool += made
        return made

    def new_values(self, cls: type, count: int) -> None:
        """Tuples, tuples with names and frozen sets; what they are made of is there."""
        if cls not in (tuple, frozenset):
            self._pool += self._named_tuples(cls, count)
            return
        runs = self._runs(list(accumulate(self._next(count))))
        self._pool += runs if cls is tuple else map(frozenset, runs)

    def set_fields(self, objects: Sequence[Any], names: Sequence[str], spread: Mapping[str, type]) -> None:
        count = len(objects)
        for name in names:
            values = self._named_tuples(spread[name], count) if name in spread else self._take(count)
            deque(map(setattr, objects, repeat(name), values), maxlen=0)

    def _named_tuples(self, cls: type, count: int) -> Iterator[Any]:
        columns = [self._numbers(count) if number else self._take(count) for number in number_fields(cls).values()]
        return map(partial(tuple.__new__, cls), zip(*columns, strict=True))

    def fill(self, containers: Sequence[Any]) -> None:
        ends = list(accumulate(self._next(len(containers))))
        members = list(self._runs(ends))
        if containers and isinstance(containers[0], dict):
            for mapping, keys, values in zip(containers, members, self._runs(ends), strict=True):
                dict.update(mapping, zip(keys, values, strict=True))
        else:
            for container, own in zip(containers, members, strict=True):
                (container.extend if isinstance(container, list) else container.update)(own)

    def _runs(self, ends: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        parts = tuple(self._take(ends[-1] if ends else 0))
        return map(parts.__getitem__, map(slice, [0, *ends], ends))

    def _take(self, count: int) -> Iterator[Any]:
        return map(self._pool.__getitem__, self._next(count))

    def _numbers(self, count: int) -> array[int]:
        return array("i", self._next(count).tobytes())

    def _next(self, count: int) -> array[int]:
        start, self._at = self._at, self._at + count
        if not start <= self._at <= len(self._words):
            raise ValueError("it is cut off")
        return self._words[start : self._at]


class _IslandReader(_Reader):
    """The same for an island, whose numbers go on where those of the tree end."""

    def __init__(self, outer: Sequence[Any], words: array[int]) -> None:
        super().__init__([], words)
        self._outer = outer

    def at(self, number: int) -> Any:
        inside = number - len(self._outer)
        return self._outer[number] if inside < 0 else self._pool[inside]

    def _take(self, count: int) -> Iterator[Any]:
        tree, own, end = self._outer, self._pool, len(self._outer)
        return iter([tree[number] if number < end else own[number - end] for number in self._next(count)])


class _Islands(NamedTuple):
    """What late fields hold, as it stands in the file; most of it stays bytes."""

    tree: list[Any]
    ends: array[int]
    data: memoryview
    kinds: list[list[Any]]

    def read(self, number: int) -> tuple[_Reader, tuple[Groups, Groups, Groups], int]:
        """The words of an island, its groups, and the number of the fields' values."""
        size = self.ends.itemsize
        words = numbers("I", self.data[size * self.ends[number - 1] if number else 0 : size * self.ends[number]])
        first, second, third = words[:3]
        root = 3 + 2 * (first + second + third)
        pairs = zip(words[3:root:2], words[4:root:2], strict=True)
        found = [[*self.kinds[kind], size] for kind, size in pairs]
        tables = found[:first], found[first : first + second], found[first + second :]
        return _IslandReader(self.tree, words[root + 1 :]), tables, words[root]


# Note [Why columns]
# A pickle says which functions are to be called, so reading one that somebody else wrote runs what he likes. Here a
# file names classes out of a list, and reading it calls no method of theirs: objects are made bare, and their fields
# set. Doing that object by object takes Python three times as long as unpickling. So all objects of a class are made
# at once, then one field of all of them is set, by functions that loop in C: `map(setattr, objects, ...)`. Tuples are
# made before fields are set, those inside others first, since a tuple holds its members from the start; sets and dicts
# are filled at the end, since they hash theirs.
