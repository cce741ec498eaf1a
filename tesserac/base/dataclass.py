"""`@dataclass` as the standard library has it, made in a twentieth of the time.

Enters: a class with annotated fields, and the options `frozen`, `eq`, `slots`. Leaves: a standard dataclass (`fields`,
`replace` and `match` know it) whose methods are shared functions where the standard library compiles new ones, whose
fields are found when somebody first asks for them, and whose `__init__` is that of all classes with as many fields,
under the names of its own. See Note [Why not the standard one].
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Set
from dataclasses import MISSING, Field, field, fields
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from threading import RLock
from types import CodeType, FunctionType, MemberDescriptorType
from typing import Any, TypeVar, cast, dataclass_transform, overload

T = TypeVar("T")


@overload
def dataclass(cls: type[T], /) -> type[T]: ...


@overload
def dataclass(*, frozen: bool = False, eq: bool = True, slots: bool = False) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(field_specifiers=(field,))
def dataclass(
    cls: type[T] | None = None, /, *, frozen: bool = False, eq: bool = True, slots: bool = False
) -> type[T] | Callable[[type[T]], type[T]]:
    """A frozen class has a hash; that nobody assigns to its fields is what the type checker sees to."""

    def make(cls: type[T]) -> type[T]:
        cls.__doc__ = cls.__doc__ or cls.__name__  # else the standard one writes the signature
        made = _with_slots(cls) if slots else _with_late_fields(cls)
        _define(made, __repr__=_shown)
        if "__init__" not in vars(made):
            _find_initialiser_when_called(made)
        if frozen and slots:
            _define(made, __reduce__=_reduced)
        if eq:
            _compare_by_value(made, has_hash=frozen)
        return made

    return make if cls is None else make(cls)


_standard = dataclasses.dataclass(init=False, repr=False, eq=False)
_with_slots = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)  # another class, made at once


def _with_late_fields(cls: type[T]) -> type[T]:
    """The class itself, which becomes a dataclass when one of the things is asked for that make it one. An `__init__`
    of its own may leave fields as the class has them."""
    if "__init__" in vars(cls):
        return _standard(cls)
    for name in ("__dataclass_params__", FIELDS, "__match_args__"):
        setattr(cls, name, _Late(cls, name))
    return cls


FIELDS = "__dataclass_fields__"


def is_data_class(cls: type) -> bool:
    """As `dataclasses.is_dataclass`, which would find the fields of the class."""
    return any(FIELDS in vars(base) for base in cls.__mro__)


class _Late:
    """What the standard library says of a class, until it is asked for. Each stays until what it stands for is there:
    another thread may ask meanwhile."""

    _turn = RLock()

    def __init__(self, cls: type[Any], name: str) -> None:
        self._cls, self._name = cls, name

    def __get__(self, owner: object, cls: type | None = None) -> object:
        with self._turn:
            if isinstance(vars(self._cls)[FIELDS], _Late):
                _standard(self._cls)
                taken = (part for part in fields(self._cls) if part.init and not part.kw_only)
                type.__setattr__(self._cls, "__match_args__", tuple([part.name for part in taken]))
        return vars(self._cls)[self._name]


def _define(cls: type, **methods: object) -> None:
    """Methods that the class does not have itself; writing `__eq__` alone makes its `__hash__` None."""
    for name, method in methods.items():
        if vars(cls).get(name) is None:
            setattr(cls, name, method)


def _find_initialiser_when_called(cls: type[Any]) -> None:
    """The first object finds out what `__init__` there is to take the place of this one."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        plain = _plain(cls)
        cls.__init__ = made = _compiled_later(cls) if plain is None else _filled(cls, plain)
        made(self, *args, **kwargs)

    cls.__init__ = __init__


def _plain(cls: type) -> dict[str, object] | None:
    """The fields of a class by name, with their defaults or MISSING, where the class says no more of them than that:
    found without the standard library, which takes many times as long."""
    found: dict[str, object] = {}
    for base in reversed([base for base in cls.__mro__ if FIELDS in vars(base)]):
        own = _plain_of(base) if isinstance(vars(base)[FIELDS], _Late) else _plain_fields(base)
        if own is None:
            return None
        found |= own
    without = [default is MISSING for default in found.values()]
    return found if without == sorted(without, reverse=True) else None


def _plain_of(cls: type) -> dict[str, object] | None:
    """Those that the text of a class has."""
    said = vars(cls).get("__annotations__", {})
    found = {name: getattr(cls, name, MISSING) for name in said}
    others = (text for text in said.values() if not isinstance(text, str) or any(word in text for word in _NO_FIELDS))
    return None if any(others) or any(map(_is_more, found.values())) else found


def _is_more(default: object) -> bool:
    """Whether the standard library sees more in what stands behind an annotation than a default, or refuses it."""
    return isinstance(default, Field | MemberDescriptorType) or type(default).__hash__ is None


def _plain_fields(cls: type) -> dict[str, object] | None:
    """Those that the standard library has found."""
    parts = fields(cls)
    plain = (p.init and p.compare and not p.kw_only and p.default_factory is MISSING for p in parts)
    return {part.name: part.default for part in parts} if all(plain) else None


_NO_FIELDS = ("ClassVar", "InitVar", "KW_ONLY")


def _filled(cls: type, plain: dict[str, object]) -> Callable[..., None]:
    """The `__init__` of a class, from that which all classes with as many fields share: only names differ."""
    after = ("__post_init__",) if hasattr(cls, "__post_init__") else ()
    code = _template(len(plain), *after).replace(
        co_varnames=("self", *plain), co_names=(*plain, *after), co_qualname=f"{cls.__qualname__}.__init__"
    )
    defaults = tuple([default for default in plain.values() if default is not MISSING])
    return cast("Callable[..., None]", FunctionType(code, {}, "__init__", defaults))


@cache
def _template(count: int, *after: str) -> CodeType:
    """`def __init__(self, a, b): self.a = a; self.b = b`, and calls of methods `after` that."""
    names = [f"field_{number}" for number in range(count)]
    body = [*(f" self.{name} = {name}" for name in names), *(f" self.{name}()" for name in after)]
    made: dict[str, Any] = {}
    exec("\n".join([f"def __init__({', '.join(['self', *names])}):", *(body or [" pass"])]), made)
    code = made["__init__"].__code__
    assert isinstance(code, CodeType)
    return code


FEW = 24
"""Objects of a class that are made in less time than it takes to compile its `__init__`."""


def _compiled_later(cls: type[Any]) -> Callable[..., None]:
    """Sets the fields of the first objects one by one; then `__init__` is compiled and takes the place of this one."""
    left = FEW

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal left
        left -= 1
        given = _given(cls, args, kwargs) if left >= 0 else None
        if given is None:
            cls.__init__ = made = _initialiser(cls)
            made(self, *args, **kwargs)
            return
        for name, value in given:
            setattr(self, name, value)
        if hasattr(cls, "__post_init__"):
            self.__post_init__()

    return __init__


def _given(cls: type, args: tuple[object, ...], kwargs: dict[str, object]) -> list[tuple[str, object]] | None:
    """The fields of an object made of these arguments; None where they are wrong, of which a compiled one tells."""
    parts, in_order, taken = _parts(cls)
    given = {**dict(zip(in_order, args, strict=False)), **kwargs}
    if len(given) != len(args) + len(kwargs) or not given.keys() <= taken:
        return None
    values = [(part.name, given[part.name] if part.name in given else _default(part)) for part in parts]
    return None if any(value is MISSING for _, value in values) else values


@cache
def _parts(cls: type) -> tuple[tuple[Field[Any], ...], list[str], Set[str]]:
    """The fields of a class; the names of those that are given in order, and of all that may be given."""
    parts = fields(cls)
    taken = [part for part in parts if part.init]
    return parts, [part.name for part in taken if not part.kw_only], {part.name for part in taken}


def _default(part: Field[Any]) -> object:
    return part.default if part.default_factory is MISSING else part.default_factory()


def _initialiser(cls: type) -> Callable[..., None]:
    """`def __init__(self, a, b=b_default): self.a = a; self.b = b`, and what follows `__post_init__`."""
    given: dict[str, object] = {"MISSING": MISSING}
    for part in fields(cls):
        given[f"{part.name}_default"] = part.default
        given[f"{part.name}_factory"] = part.default_factory
    taken = [part for part in fields(cls) if part.init]
    parameters = ["self", *(_parameter(part) for part in taken if not part.kw_only)]
    named = [_parameter(part) for part in taken if part.kw_only]
    parameters += ["*", *named] if named else []
    body = [f" self.{part.name} = {_initial(part)}" for part in fields(cls)]
    body += [" self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    exec("\n".join([f"def __init__({', '.join(parameters)}):", *(body or [" pass"])]), given)
    made: Any = given["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__annotations__ = {part.name: part.type for part in taken}
    return cast("Callable[..., None]", made)


def _parameter(part: Field[Any]) -> str:
    if part.default is not MISSING:
        return f"{part.name}={part.name}_default"
    return part.name if part.default_factory is MISSING else f"{part.name}=MISSING"


def _initial(part: Field[Any]) -> str:
    made = f"{part.name}_default" if part.default_factory is MISSING else f"{part.name}_factory()"
    if not part.init:
        return made
    return part.name if part.default_factory is MISSING else f"{made} if {part.name} is MISSING else {part.name}"


def _compare_by_value(cls: type[Any], *, has_hash: bool) -> None:
    """Objects are compared by the functions that find out, at first, what of them is compared."""

    def equal(self: object, other: object) -> bool:
        _compare_these(cls, equal, hashed)
        return self == other

    def hashed(self: object) -> int:
        _compare_these(cls, equal, hashed)
        return hash(self)

    _define(cls, __eq__=equal, __hash__=hashed if has_hash else None)


def _compare_these(cls: type[Any], *late: object) -> None:
    """Puts the functions that compare fields in the place of those that stand for them."""
    plain = _plain(cls)
    names = [part.name for part in fields(cls) if part.compare] if plain is None else list(plain)
    values: Callable[[object], object] = attrgetter(*names) if names else type

    def equal(self: object, other: object) -> bool:
        if self is other:  # most values that are compared are shared
            return True
        return values(self) == values(other) if type(self) is type(other) else NotImplemented

    def hashed(self: object) -> int:
        return hash(values(self))

    for name, method in (("__eq__", equal), ("__hash__", hashed)):
        if vars(cls)[name] in late:
            setattr(cls, name, method)


@recursive_repr()
def _shown(self: Any) -> str:
    shown = (f"{part.name}={getattr(self, part.name)!r}" for part in fields(self) if part.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _reduced(self: Any) -> tuple[type, tuple[object, ...]]:
    """A copy is made as the object was."""
    return type(self), tuple([getattr(self, name) for name in self.__match_args__])


# Note [Why not the standard one]
# The compiler has some hundred frozen dataclasses, and `dataclasses.dataclass` compiles seven methods for each, which
# was a third of the time that a start takes. Its `__init__` of a frozen class goes around the `__setattr__` that
# forbids to assign, which makes a node three times as dear as a plain assignment; and it restores a frozen class with
# slots through a Python function. Here the type checker forbids to assign, and an `__init__` that only sets fields is
# the code of another one with other names: a microsecond where compiling takes some hundred. Of 480 classes a program
# makes objects of 150, 130 of which have such a one, with thirteen numbers of fields.
# One dataclass cannot derive from another that was made by the other decorator: a test holds that all use this one.
