"""The compiler's `@dataclass` does what the standard one does: both make a class of the same text, and are compared."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable
from dataclasses import MISSING, field, fields, replace
from typing import Any, ClassVar

import pytest

from tesserac.base import dataclass as own
from tesserac.base.codec import Codec

OPTIONS = [
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "eq": False},
    {"frozen": True, "slots": True, "eq": False},
    {},
    {"eq": False},
]


def point(decorate: Callable[..., Any], **options: bool) -> Any:
    @decorate(**options)
    class Point:
        x: int
        y: tuple[int, ...] = ()
        seen: int = field(default=0, compare=False, repr=False)

    return Point


def nothing(decorate: Callable[..., Any], **options: bool) -> Any:
    @decorate(**options)
    class Point:
        """No fields."""

    return Point


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_behaves_as_the_standard_one(options: dict[str, bool]) -> None:
    mine, theirs = point(own.dataclass, **options), point(dataclasses.dataclass, **options)
    assert [f.name for f in fields(mine)] == [f.name for f in fields(theirs)]
    assert mine.__match_args__ == theirs.__match_args__
    same = [(mine(1, (2,)), mine(1, (2,), 3), mine(1)), (theirs(1, (2,)), theirs(1, (2,), 3), theirs(1))]
    answers = [(a == a, a == b, a == c, a == 1, a != b, replace(c, x=2).x) for a, b, c in same]
    assert answers[0] == answers[1]
    assert repr(same[0][0]).rpartition(".")[2] == repr(same[1][0]).rpartition(".")[2] == "Point(x=1, y=(2,))"


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_has_a_hash_when_the_standard_one_has(options: dict[str, bool]) -> None:
    for make in (point, nothing):
        mine, theirs = make(own.dataclass, **options), make(dataclasses.dataclass, **options)
        assert (mine.__hash__ is None) == (theirs.__hash__ is None)
    if options.get("frozen") and options.get("eq", True):
        assert hash(mine()) == hash(mine()) and mine() == mine()
        assert hash(point(own.dataclass, **options)(1)) is not None


@own.dataclass(frozen=True)
class WithMethods:
    """Methods that a class writes itself stay."""

    value: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WithMethods) and self.value % 2 == other.value % 2

    def __hash__(self) -> int:
        return self.value % 2

    def __repr__(self) -> str:
        return "own"


@own.dataclass(frozen=True, slots=True)
class Slotted:
    """One that holds others."""

    parts: tuple[Slotted, ...] = ()


@own.dataclass
class Bare:
    """Without options."""

    items: list[int] = field(default_factory=list)


def test_methods_of_the_class_stay() -> None:
    assert WithMethods(1) == WithMethods(3) != WithMethods(2)
    assert hash(WithMethods(1)) == hash(WithMethods(3)) and repr(WithMethods(1)) == "own"


def test_copies_are_equal_and_shared_parts_stay_shared() -> None:
    leaf = Slotted()
    codec = Codec([Slotted])
    for made in (codec.decode(codec.encode(Slotted((leaf, leaf)))), copy.deepcopy(Slotted((leaf, leaf)))):
        assert made == Slotted((leaf, leaf)) and made.parts[0] is made.parts[1]


def test_without_options() -> None:
    first, second = Bare(), Bare()
    first.items.append(1)
    assert first != second and second.items == [] and repr(first) == "Bare(items=[1])"


def test_fields_are_found_when_somebody_asks() -> None:
    """A class that nobody makes objects of, compares or matches costs nothing more than itself."""

    @own.dataclass(frozen=True)
    class Base:
        x: int

    @own.dataclass(frozen=True)
    class Derived(Base):
        y: int = 2

    def is_late(cls: type) -> bool:
        return not isinstance(vars(cls)[own.FIELDS], dict)

    assert own.is_data_class(Derived) and not own.is_data_class(int)
    assert is_late(Base) and is_late(Derived)
    match Derived(1):
        case Derived(x, y):
            assert (x, y) == (1, 2)
    assert not is_late(Base) and not is_late(Derived)
    assert Derived(1) == Derived(1) != Base(1) and hash(Derived(1)) == hash(Derived(1))


def test_what_is_found_of_plain_classes_is_what_the_standard_library_finds() -> None:
    """Of all classes that the checker brings."""
    import tesserac.check.infer  # noqa: F401

    modules = [module for name, module in list(sys.modules.items()) if name.startswith("tesserac.")]
    classes = {c for m in modules for c in vars(m).values() if isinstance(c, type) and own.is_data_class(c)}
    plain = {cls: own._plain(cls) for cls in classes}
    for cls, found in plain.items():
        if found is not None:
            parts = fields(cls)
            assert found == {part.name: part.default for part in parts}, cls
            assert all(p.init and p.compare and not p.kw_only and p.default_factory is MISSING for p in parts), cls
    again = {cls: own._plain(cls) for cls in classes}
    assert again == plain and sum(found is not None for found in plain.values()) > len(classes) / 2


def test_inits_that_share_their_code_have_names_and_defaults_of_their_own() -> None:
    @own.dataclass
    class Left:
        a: int
        b: int = 2

    @own.dataclass
    class Right:
        c: int
        d: int = 3

        def __post_init__(self) -> None:
            self.c += 1

    @own.dataclass
    class Below(Left):
        b: int = 5
        e: ClassVar[int] = 7
        f: int = 6

    assert vars(Left(1)) == {"a": 1, "b": 2} and vars(Left(b=4, a=3)) == {"a": 3, "b": 4}
    assert vars(Right(1)) == {"c": 2, "d": 3} and vars(Below(0)) == {"a": 0, "b": 5, "f": 6}
    assert Left.__init__.__qualname__.endswith("Left.__init__")
    for wrong in ({}, {"a": 1, "c": 2}):
        with pytest.raises(TypeError, match="argument"):
            Left(**wrong)
    with pytest.raises(TypeError, match="argument"):
        Left(1, 2, 3)  # type: ignore[call-arg]
