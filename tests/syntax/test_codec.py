"""Trees on disk: what comes back is what was written, and bytes that are not a tree make nothing."""

from __future__ import annotations

import random
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tesserac.base.codec import Codec
from tesserac.base.columns import Unencodable, fields_of
from tesserac.base.dataclass import dataclass
from tesserac.base.late import Fields, Late
from tesserac.base.source import SourceFile
from tesserac.check.module.stored import CHECKED, NAMED
from tesserac.diag.stored import DIAGNOSTICS
from tesserac.syntax.parse import parse_module
from tests.support.paths import ROOT


class Place(NamedTuple):
    """A flat tuple: it stands in columns."""

    file: str
    start: int
    end: int


class Pair(NamedTuple):
    """A tuple of anything."""

    left: object
    right: object


@dataclass(frozen=True)
class Node:
    """A class with a place."""

    at: Place
    parts: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Slotted:
    value: object


class Machine:
    """A class whose objects have the attributes that they have."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.home = self
        self.known: dict[object, object] = {}

    def run(self) -> None:
        """Nothing may stand in its place."""


class Outsider:
    """A class that is not listed."""


SEVEN = object()
CODEC = Codec([Place, Pair, Node, Slotted], [Machine], {"seven": SEVEN}, values=[Node])


def again(value: object) -> object:
    return CODEC.decode(CODEC.encode(value))


texts = st.text(st.characters(codec=None), max_size=8)
atoms = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
places = st.builds(Place, st.text(max_size=3), st.integers(-(2**31), 2**31 - 1), st.integers(0, 9))
trees = st.recursive(
    atoms | places | st.frozensets(atoms, max_size=3),
    lambda inner: st.lists(inner, max_size=4)
    | st.lists(inner, max_size=4).map(tuple)
    | st.dictionaries(atoms, inner, max_size=3)
    | st.builds(Pair, inner, inner)
    | st.builds(Slotted, inner)
    | st.builds(Node, places, st.lists(inner, max_size=3).map(tuple)),
    max_leaves=25,
)


def shown(tree: object) -> str:
    """A tree as text; sets have no order."""
    if isinstance(tree, frozenset):
        return f"frozenset({sorted(map(repr, tree))})"
    if isinstance(tree, dict):
        return f"{{{', '.join(f'{key!r}: {shown(value)}' for key, value in tree.items())}}}"
    if isinstance(tree, list | tuple):
        return f"{type(tree).__name__}({', '.join(map(shown, tree))})"
    if isinstance(tree, Slotted | Node):
        return f"{type(tree).__name__}({', '.join(shown(getattr(tree, name)) for name in fields_of(type(tree)) or ())})"
    return repr(tree)


def test_values_made_of_the_same_are_written_once() -> None:
    """Not what only compares as equal, and no object that is known by what it is, not by what it holds."""
    same = [Node(Place("a", 1, 2), (*"xy", number)) for number in (7, 7, True, 1, 0.0, -0.0)]
    first, second, *others = again(same)  # type: ignore[misc]
    assert first is second and shown(others) == shown(same[2:])
    assert len({*map(id, others)}) == len(others)
    left, right = again([Slotted(first), Slotted(second)])  # type: ignore[misc]
    assert left is not right and left.value is right.value


@dataclass(frozen=True, slots=True, eq=False)
class Chapter(Late):
    book: str
    text: object


OF_BOOKS = {Chapter: Fields(("text",), lambda one: one.book)}
LATE = Codec([Chapter, Node, Place, Slotted, Pair], [Machine], late=OF_BOOKS, values=[Node])


def test_a_value_like_one_of_two_books_is_that_one() -> None:
    of_both, alike = (tuple(["a", 1]) for _ in range(2))
    chapters = [Chapter("a", (of_both, (of_both, 1), (alike, 2))), Chapter("b", (of_both,))]
    found = LATE.decode(LATE.encode(chapters))
    assert [shown(chapter.text) for chapter in found] == [shown(chapter.text) for chapter in chapters]


def is_there(chapter: Chapter) -> bool:
    try:
        Chapter.__dict__["text"].__get__(chapter)
    except AttributeError:
        return False
    return True


@pytest.mark.one_in(2)
@given(st.lists(trees, min_size=1, max_size=4))
def test_late_fields_come_when_asked_for(texts: list[object]) -> None:
    whole = [Chapter("ab"[number % 2], text) for number, text in enumerate(texts)]
    data = LATE.encode(whole)
    found = LATE.decode(data)
    assert not any(map(is_there, found))
    assert shown(found[0].text) == shown(texts[0])
    assert [is_there(chapter) for chapter in found] == [chapter.book == "a" for chapter in found]
    assert [shown(chapter.text) for chapter in found] == list(map(shown, texts))
    with pytest.raises(AttributeError):
        found[0].texts  # noqa: B018
    assert [shown(chapter.text) for chapter in LATE.decode(LATE.encode(LATE.decode(data)))] == list(map(shown, texts))


def test_what_late_fields_share_stays_shared() -> None:
    inner = Chapter("b", (Slotted(7),))
    node, machine = Node(Place("f", 1, 2), (inner,)), Machine("m")
    chapters = [Chapter("a", [node, machine, inner]), Chapter("b", (node,)), Chapter("c", machine)]
    machine.known["all"] = chapters
    first, second, third = LATE.decode(LATE.encode(chapters))
    kept, home, part = first.text
    assert second.text[0] is kept and third.text is home and kept.parts[0] is part
    assert home.known["all"][0] is first and part.text[0].value == 7


def test_late_fields_of_other_classes_are_refused_at_once() -> None:
    data = LATE.encode([Chapter("a", Slotted(1))])
    with pytest.raises(ValueError, match="Slotted"):
        Codec([Chapter], late={Chapter: Fields(("text",), lambda one: one.book)}).decode(data)


@pytest.mark.one_in(2)
@given(trees)
def test_trees_come_back(tree: object) -> None:
    found = again(tree)
    assert shown(found) == shown(tree)  # tells 1, 1.0 and True apart, and the order of dicts
    assert shown(again(found)) == shown(tree)


def test_what_is_shared_stays_shared_and_circles_close() -> None:
    machine = Machine("m")
    node = Node(Place("f", 1, 2))
    machine.known[node] = [machine, node, (node, node)]
    found = again(machine)
    assert isinstance(found, Machine) and found.home is found
    ((key, (own, same, (left, right))),) = found.known.items()
    assert own is found and same is key and left is right is key


def test_numbers_keep_their_bits() -> None:
    values = (-0.0, float("inf"), 1e-310, 2**63 - 1, -(2**63), 2**63, -(10**5000), Fraction(2, 3), Counter("aab"))
    found = again(values)
    assert found == values and str(found[0]) == "-0.0" and type(found[-1]) is Counter  # type: ignore[index]
    assert repr(again(float("nan"))) == "nan" and again(SEVEN) is SEVEN


def test_a_deep_tree_needs_no_recursion() -> None:
    tree: object = ()
    for _ in range(3 * sys.getrecursionlimit()):
        tree = Slotted((tree, tree))
    found = again(tree)
    for _ in range(3 * sys.getrecursionlimit()):
        assert isinstance(found, Slotted)
        left, right = found.value  # type: ignore[misc]
        assert left is right
        found = left


@pytest.mark.parametrize(
    "value",
    [Outsider(), [Outsider()], Outsider, print, b"x", 1j, Node(None), Pair(1, Place("", 2**31, 0))],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_listed_is_refused(value: object) -> None:
    with pytest.raises(Unencodable):
        CODEC.encode(value)


def test_a_class_of_another_list_is_not_made() -> None:
    wider = Codec([Place, Pair, Node, Slotted, Outsider], [Machine, Outsider], {"seven": SEVEN})
    for value in (Outsider(), [Outsider()]):
        with pytest.raises(ValueError, match="classes"):
            CODEC.decode(wider.encode(value))


def test_no_method_is_hidden() -> None:
    machine = Machine("m")
    data = CODEC.encode(machine).replace(b'"name"', b'"run" ')
    with pytest.raises(ValueError, match=r"fields|classes"):
        CODEC.decode(data)


def test_damage_is_a_value_error_or_another_tree() -> None:
    """The file that holds a tree has a checksum; without it, damage still runs nothing and raises one error."""
    data = CODEC.encode([Node(Place("f", 1, 2), (1, "two", 3.0, {"k": (Pair(1, 2),)})), Machine("m"), frozenset("ab")])
    dice = random.Random(7)
    for _ in range(600):
        at = dice.randrange(len(data) * 8)
        damaged = bytearray(data)
        damaged[at // 8] ^= 1 << at % 8
        try:
            CODEC.decode(bytes(damaged))
        except ValueError:
            continue
    for length in range(0, len(data), 7):
        with pytest.raises(ValueError):
            CODEC.decode(data[:length])




@pytest.mark.one_in(4)
@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.tess")), ids=lambda path: path.stem)
def test_programs_come_back(path: Path) -> None:
    module = parse_module(SourceFile(path.name, path.read_text(encoding="utf-8"))).module
    codec = Codec(CHECKED, named=NAMED)
    assert repr(codec.decode(codec.encode(module))) == repr(module)


def test_the_lists_hold_data_only() -> None:
    assert all(hasattr(cls, "__dataclass_fields__") or hasattr(cls, "_fields") for cls in (*CHECKED, *DIAGNOSTICS))


@pytest.mark.parametrize("kind", [set, frozenset])
def test_equal_sets_are_equal_bytes_whatever_order_they_were_filled_in(kind: type) -> None:
    """0 and 8 want the same place in a small table, so that who comes first stands first."""
    one, other = kind([0, 8]), kind([8, 0])
    assert one == other and list(one) != list(other)
    codec = Codec([])
    assert codec.encode((one, kind(["b", "a"]))) == codec.encode((other, kind(["a", "b"])))
