"""The writing side of `codec.py`: finds all that a tree holds, numbers it, and writes it down in columns.

Numbers go in this order: constants, named objects, texts, ints, floats, objects, containers, then tuples, those inside
others first. What late fields hold that are made together, and nothing else, is an island: a table of its own, whose
numbers go on where those of the tree end. What two islands hold is in the tree. Values that are made of the same parts
are written once in a table (`shared.py`).
"""

from __future__ import annotations

import json
import sys
from array import array
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import accumulate, chain, compress, islice, repeat
from operator import attrgetter
from typing import Any

from tesserac.base.dataclass import is_data_class
from tesserac.base.late import Fields, groups
from tesserac.base.shared import Shared

CONSTANTS: tuple[object, ...] = (None, True, False, ())
FILLED: tuple[type, ...] = (list, set, dict, Counter)
"""Made empty, and filled when all else is there: their members may hold them."""
_ATOMS: tuple[type, ...] = (str, int, float)
_VALUES = (tuple, frozenset)
_SMALL = range(-(1 << 63), 1 << 63)

Names = tuple[str, ...]
Group = list[Any]
"""Objects of one class."""
Column = tuple[str, bool]
"""Where a value stands in an object (`span.start`), and whether it is a number, which is written as it is."""


class Unencodable(TypeError):
    """A tree holds something that is not listed."""


def has_fields(cls: type) -> bool:
    """Whether a class is one of data. Its fields stay late."""
    return hasattr(cls, "_fields") if issubclass(cls, tuple) else is_data_class(cls)


def fields_of(cls: type) -> Names | None:
    """The fields of a class of data; None for another class."""
    if issubclass(cls, tuple):
        return getattr(cls, "_fields", None)
    return tuple(field.name for field in fields(cls)) if is_dataclass(cls) else None


def number_fields(cls: type) -> dict[str, bool]:
    """The fields of a named tuple, each with whether it is an int: such, places in a text mostly, are not shared."""
    types = ((name, getattr(type_, "__forward_arg__", type_)) for name, type_ in cls.__annotations__.items())
    return {name: type_ in ("int", int) for name, type_ in types}


def spread_fields(cls: type, flat: Mapping[str, type]) -> dict[str, type]:
    """The fields of a class that always hold a named tuple of texts and ints, which then stands in columns too."""
    if issubclass(cls, tuple) or not is_dataclass(cls):
        return {}
    return {field.name: flat[field.type] for field in fields(cls) if isinstance(field.type, str) and field.type in flat}


def flat_tuples(classes: Iterable[type]) -> dict[str, type]:
    """The named tuples that hold ints, by their names."""
    tuples = (cls for cls in classes if issubclass(cls, tuple))
    return {cls.__name__: cls for cls in tuples if any(number_fields(cls).values())}


def attributes_of(cls: type, names: Iterable[str]) -> list[str]:
    """Those of an object's attributes that are its own: what the class computes once is computed again, and no method
    is hidden."""
    return [name for name in names if name.isidentifier() and not hasattr(cls, name)]


def class_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def numbers(typecode: str, data: bytes | memoryview) -> array[Any]:
    """Numbers as they stand in a file, with their lowest byte first."""
    found = array(typecode)
    found.frombytes(data)
    if sys.byteorder == "big":
        found.byteswap()
    return found


class Listed:
    """The classes whose objects can be written, and what of them stands in columns."""

    def __init__(self, classes: Mapping[type, Names | None], values: Container[type]) -> None:
        self.classes = classes
        self.values = {cls: names for cls, names in classes.items() if names is not None and cls in values}
        self._flat = flat_tuples(classes)
        self._columns: dict[tuple[type, Names], tuple[Column, ...]] = {}

    def columns(self, cls: type, names: Names) -> tuple[Column, ...]:
        if (cls, names) not in self._columns:
            self._columns[cls, names] = tuple(self._spread(cls, names))
        return self._columns[cls, names]

    def _spread(self, cls: type, names: Names) -> Iterator[Column]:
        spread = spread_fields(cls, self._flat)
        for name in names:
            if name in spread:
                yield from ((f"{name}.{part}", is_number) for part, is_number in number_fields(spread[name]).items())
            else:
                yield name, False


class Found:
    """What can be reached, in groups of one class. Objects are known by their identity, which they keep as long as the
    tree is there. `late` are fields that are not followed, `outside` is what is known already."""

    def __init__(
        self, listed: Listed, known: Mapping[int, Any], late: Mapping[type, Fields], outside: Mapping[int, Any]
    ) -> None:
        self._listed = listed
        self._late = late
        self._outside = outside
        self.known = dict(known)
        self.shared = Shared(listed.values, outside or known)
        self.plain: dict[type, Group] = defaultdict(list)
        self.tables: dict[tuple[type, Names], tuple[Group, dict[Column, Group]]] = {}

    def discover(self, roots: Iterable[object]) -> None:
        """Every object that can be reached from these, each once."""
        known = self.known
        before = len(known)
        self._add(list(roots))
        while len(known) > before:
            by_class: dict[type, Group] = defaultdict(list)
            for found in islice(reversed(known.values()), len(known) - before):
                by_class[type(found)].append(found)
            before = len(known)
            columns = (column for cls, group in by_class.items() for column in self._columns(cls, group))
            self._add(list(chain.from_iterable(columns)))

    def _add(self, column: Group) -> None:
        if self._outside:
            column = [value for value in column if id(value) not in self._outside]
        column = list(map(self.shared, column))
        self.known.update(zip(map(id, column), column, strict=True))

    def leave_out(self, places: Container[int]) -> None:
        """Gives up what is known elsewhere now."""
        self.known = {place: one for place, one in self.known.items() if place not in places}
        kept = {cls: [one for one in group if id(one) not in places] for cls, group in self.plain.items()}
        self.plain = {cls: group for cls, group in kept.items() if group}
        rows = {kind: _rows_without(*table, places) for kind, table in self.tables.items()}
        self.tables = {kind: table for kind, table in rows.items() if table[0]}

    def late(self) -> Iterator[object]:
        """The objects with late fields."""
        return (one for (cls, _), (group, _) in self.tables.items() if cls in self._late for one in group)

    def _columns(self, cls: type, group: Group) -> list[Group]:
        """What objects of a class hold."""
        if cls in self._listed.classes:
            return self._fields(cls, group)
        if cls not in (*FILLED, *_VALUES, *_ATOMS):
            raise Unencodable(f"{class_name(cls)} is not listed")
        self.plain[cls] += group
        if issubclass(cls, dict):
            return [list(chain.from_iterable(group)), list(chain.from_iterable(map(dict.values, group)))]
        return [] if cls in _ATOMS else [list(_members(group))]

    def _fields(self, cls: type, group: Group) -> list[Group]:
        names = self._listed.classes[cls]
        if names is None:
            return [column for one in group for column in self._rows(cls, tuple(attributes_of(cls, vars(one))), [one])]
        if not issubclass(cls, tuple):
            return self._rows(cls, names, group)
        self.plain[cls] += group
        return [_column(name, group) for name, is_number in number_fields(cls).items() if not is_number]

    def _rows(self, cls: type, names: Names, group: Group) -> list[Group]:
        if (cls, names) not in self.tables:
            own = names if cls not in self._late else tuple(n for n in names if n not in self._late[cls].names)
            self.tables[cls, names] = [], {column: [] for column in self._listed.columns(cls, own)}
        members, table = self.tables[cls, names]
        members += group
        reached = []
        for (path, is_number), column in table.items():
            more = _column(path, group)
            column += more
            if not is_number:
                reached.append(more)
        return reached


def _rows_without(
    group: Group, columns: Mapping[Column, Group], places: Container[int]
) -> tuple[Group, dict[Column, Group]]:
    chosen = [id(one) not in places for one in group]
    return list(compress(group, chosen)), {kind: list(compress(column, chosen)) for kind, column in columns.items()}


Island = tuple[tuple[tuple[object, ...], ...], Found]
"""What late fields hold that are made together, with all that only they hold."""


def found_in(
    root: object, listed: Listed, named: Mapping[str, object], late: Mapping[type, Fields]
) -> tuple[Found, list[Island]]:
    """A tree, and the islands in the order of the objects whose fields they are."""
    constants = {id(value): value for value in (*CONSTANTS, *named.values())}
    tree = Found(listed, constants, late, {})
    tree.discover([root])
    while True:
        late_ones = list(tree.late())
        values = [tuple([_late_values(one, late) for one in group]) for group in groups(late_ones, late)]
        islands = [(value, _island(value, listed, tree)) for value in values]
        counted = Counter(chain.from_iterable(found.known for _, found in islands))
        everywhere = chain.from_iterable(found.known.items() for _, found in islands)
        tree.discover([one for place, one in everywhere if counted[place] > 1 or isinstance(one, _ATOMS)])
        if len(late_ones) == sum(1 for _ in tree.late()):  # what is reached from shared objects is shared as well
            for _, found in islands:
                found.leave_out(tree.known)
            return tree, islands


def _late_values(one: object, late: Mapping[type, Fields]) -> tuple[object, ...]:
    return tuple([getattr(one, name) for name in late[type(one)].names])


def _island(value: object, listed: Listed, tree: Found) -> Found:
    found = Found(listed, {}, {}, tree.known)
    found.discover([value])
    return found


class Writer:
    """One tree, or an island of one, whose `outer` is the tree."""

    def __init__(self, found: Found, outer: Writer | None, named: Iterable[str] = ()) -> None:
        self._found = found
        self._names = list(named)
        self._count: int = 0 if outer is None else outer._count
        self._outside: Mapping[int, int] = {} if outer is None else outer._index
        self._index: dict[int, int] = {}
        self._words = array("I")

    def encode(self, root: object, islands: Sequence[Island]) -> bytes:
        """The whole tree; `islands` are the values of late fields."""
        plain = self._found.plain
        self._number(list(islice(self._found.known.values(), len(CONSTANTS) + len(self._names))))
        strings = self._number_atoms(plain.pop(str, []))
        ints = plain.pop(int, [])
        small = self._number_atoms([value for value in ints if value in _SMALL])
        large = self._number_atoms([value for value in ints if value not in _SMALL])
        floats = self._number(plain.pop(float, []))
        tables = self._write_tables()
        kinds: dict[str, int] = {}
        written = [Writer(found, self)._island(value, kinds) for value, found in islands]
        ends = array("I", accumulate(map(len, written)))
        parts = [_little(part) for part in (array("q", small), array("d", floats), self._words, ends)]
        parts.append(b"".join(map(_little, written)))
        hexadecimal, sizes = [format(value, "x") for value in large], [len(part) for part in parts]
        content = [self._names, strings, hexadecimal, sizes, *tables, self._index[id(root)], list(kinds)]
        header = json.dumps(content, separators=(",", ":")).encode()
        return len(header).to_bytes(4, "little") + header + b"".join(parts)

    def _island(self, root: object, kinds: dict[str, int]) -> array[int]:
        """The words of an island: how many groups of objects, containers and values there are, the kind of each and how
        many it has, the number of the fields' values, then what `encode` has. Kinds of groups are shared by all."""
        tables = self._write_tables()
        head = array("I", map(len, tables))
        for *kind, count in chain.from_iterable(tables):
            head.extend((kinds.setdefault(json.dumps(kind), len(kinds)), count))
        head.extend(self._numbers_of([root]))
        return head + self._words

    def _write_tables(self) -> tuple[list[Any], list[Any], list[Any]]:
        """Groups of objects, of containers and of values, in the order in which they are made."""
        plain, tables = self._found.plain, self._found.tables
        filled = [plain.pop(cls) for cls in FILLED if cls in plain]
        for group in (*(group for group, _ in tables.values()), *filled):
            self._number(group)
        levels = _levels(list(plain.values()), self._outside, self._found.shared)
        values = [self._write_values(group) for group in levels]
        objects = [[class_name(cls), own, self._write_columns(*table)] for (cls, own), table in tables.items()]
        containers = [self._write_members(group) for group in filled]
        return objects, containers, values

    def _number(self, group: Group) -> Group:
        self._index.update(zip(map(id, group), range(self._count, self._count + len(group)), strict=True))
        self._count += len(group)
        return group

    def _number_atoms(self, values: Group) -> Group:
        """Equal ones are one."""
        distinct = dict.fromkeys(values)
        places = dict(zip(distinct, range(self._count, self._count + len(distinct)), strict=True))
        self._index.update(zip(map(id, values), map(places.__getitem__, values), strict=True))
        self._count += len(distinct)
        return list(distinct)

    def _write(self, values: Iterable[Any]) -> None:
        self._words.extend(self._numbers_of(values))

    def _numbers_of(self, values: Iterable[Any]) -> array[int]:
        """Those of an island, and those of the tree around it."""
        own, outside, shared = self._index, self._outside, self._found.shared
        places = [id(value) if id(value) in outside else id(shared(value)) for value in values]
        return array("I", [own[place] if place in own else outside[place] for place in places])

    def _write_values(self, group: Group) -> list[Any]:
        if (cls := type(group[0])) in _VALUES:
            self._number(group)
            return self._write_members(group)
        self._write_columns(group, {column: _column(column[0], group) for column in number_fields(cls).items()})
        return [class_name(cls), len(self._number(group))]

    def _write_columns(self, group: Group, columns: Mapping[Column, Group]) -> int:
        for (_, is_number), column in columns.items():
            self._words.extend(_words(column)) if is_number else self._write(column)
        return len(group)

    def _write_members(self, group: Group) -> list[Any]:
        self._words.extend(map(len, group))
        self._write(_members(group))
        if isinstance(group[0], dict):
            self._write(chain.from_iterable(map(dict.values, group)))
        return [class_name(type(group[0])), len(group)]


def _members(group: Group) -> Iterator[Any]:
    """What containers of one class hold. A set has no order of its own; here it has one, so that equal trees are equal
    bytes in every process."""
    if isinstance(group[0], set | frozenset):
        return chain.from_iterable(sorted(one, key=repr) for one in group)
    return chain.from_iterable(group)


def _column(path: str, group: Group) -> Group:
    try:
        return list(map(attrgetter(path), group))
    except AttributeError:
        raise Unencodable(f"`{path}` is missing") from None


def _words(column: Group) -> array[int]:
    if set(map(type, column)) != {int}:
        raise Unencodable("a number is missing")
    try:
        return array("I", array("i", column).tobytes())
    except OverflowError:
        raise Unencodable("a number is too large") from None


def _little(column: array[Any]) -> bytes:
    return numbers(column.typecode, column.tobytes()).tobytes()


def _levels(groups: Sequence[Group], outside: Mapping[int, int], shared: Shared) -> list[Group]:
    """Tuples and frozen sets in an order in which each can be made of what comes before it."""
    kinds = {type(group[0]) for group in groups}
    depths: dict[int, int] = {id(()): 0}
    levels: dict[tuple[int, str], Group] = {}
    deeper: Group = []
    for group in groups:
        flat = levels.setdefault((1, class_name(type(group[0]))), [])
        for value in group:
            (flat if kinds.isdisjoint(map(type, value)) else deeper).append(value)
        depths.update(zip(map(id, flat), repeat(1)))
    for value in deeper:
        _place(value, depths, levels, outside, shared)
    return [group for _, group in sorted(levels.items(), key=lambda level: level[0]) if group]


def _place(
    value: Any,
    depths: dict[int, int],
    levels: dict[tuple[int, str], Group],
    outside: Mapping[int, int],
    shared: Shared,
) -> None:
    """Puts a tuple on the level above those that it holds, which are placed before it."""
    stack = [value]
    while stack:
        top = stack[-1]
        held = [shared(part) for part in top if isinstance(part, _VALUES) and id(part) not in outside]
        inner = [part for part in held if id(part) not in outside]
        if missing := [part for part in inner if id(part) not in depths]:
            stack += missing
            continue
        stack.pop()
        if id(top) not in depths:
            depth = depths[id(top)] = max((depths[id(part)] for part in inner), default=0) + 1
            levels.setdefault((depth, class_name(type(top))), []).append(top)
