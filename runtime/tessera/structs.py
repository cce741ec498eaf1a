"""Structs of a module as Python classes: `m.MLP(8, 16, 4)`, `m.MLP[8, 16, 4](seed=0)`, `m.MLP(w1=a, b1=b, w2=c)`.

Enters: a struct's interface, and a way to make the fields that are not given. Leaves: a class whose objects have the
fields as attributes and the struct's methods as methods. Arrays are checked where the object is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar, NoReturn, Protocol

from tessera.errors import WRONG_ARGUMENTS, WRONG_KIND, TesseraError, failure
from tessera.interface import StructInterface

SEED = "seed"


class Maker(Protocol):
    """Runs initialisers. `sizes` are those of the struct, by position; without a seed random numbers come from the
    module's stream."""

    def whole(self, struct: StructInterface, sizes: tuple[object, ...], seed: object) -> StructValue: ...

    def field(
        self, struct: StructInterface, field: str, sizes: tuple[object, ...], before: Mapping[str, object], seed: object
    ) -> object: ...

    def read_by_initial_values(self, struct: StructInterface) -> frozenset[str]: ...


class StructValue:
    """An object of a struct."""

    _interface: ClassVar[StructInterface]
    _maker: ClassVar[Maker]

    def __init__(self, *sizes: object, **given: object) -> None:
        seed = given.pop(SEED, None)
        sizes = _with_named(self._interface, sizes, given)
        for name, value in _complete(self._interface, self._maker, sizes, given, seed).items():
            setattr(self, name, value)

    def __class_getitem__(cls, sizes: object) -> Callable[..., StructValue]:
        """`m.MLP[8, 16, 4](seed=0)`, as the language writes it."""
        return partial(cls, *(sizes if isinstance(sizes, tuple) else (sizes,)))

    def __setattr__(self, name: str, value: object) -> None:
        if all(name != field for field, _ in self._interface.fields):
            raise _no_field(self._interface, name)
        super().__setattr__(name, value)

    def __copy__(self) -> StructValue:
        return self._of_fields(vars(self))

    def __deepcopy__(self, memo: dict[int, object]) -> StructValue:
        from copy import deepcopy  # which only this has a use for

        made = memo[id(self)] = self._of_fields({})
        vars(made).update(deepcopy(vars(self), memo))
        return made

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Its class is a module's, which another process has not loaded."""
        name = self._struct_name()
        note = f"pickle its fields, `vars(value)`; the other process makes it of them: `m.{name}(**fields)`"
        raise failure(WRONG_KIND, f"struct `{name}` is of a module of this process and cannot be pickled", (note,))

    @classmethod
    def _struct_name(cls) -> str:
        return cls._interface.name

    @classmethod
    def _of_fields(cls, fields: Mapping[str, object]) -> StructValue:
        """An object with these fields, which are all there are."""
        made = cls.__new__(cls)
        vars(made).update(fields)
        return made

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_show(getattr(self, name))}" for name, _ in self._interface.fields)
        return f"{self._interface.name}({shown})"


def _with_named(struct: StructInterface, sizes: tuple[object, ...], given: dict[str, object]) -> tuple[object, ...]:
    """All sizes, of which the last may be given by name; those are taken out of `given`."""
    named = {name: given.pop(name) for name in struct.sizes if name in given}
    rest = struct.sizes[len(sizes) :]
    if named and named.keys() != set(rest):
        left = _listed([name for name in struct.sizes if name not in named][len(sizes) :]) or "none more"
        raise failure(WRONG_ARGUMENTS, f"`{struct.name}` takes each of its sizes once: it needs {left}")
    return (*sizes, *(named[name] for name in rest)) if named else sizes


def _complete(
    struct: StructInterface, maker: Maker, sizes: tuple[object, ...], given: dict[str, object], seed: object
) -> dict[str, object]:
    """All fields: as given, or as initialised."""
    names = [name for name, _ in struct.fields]
    for name in given:
        if name not in names:
            raise _no_field(struct, name)
    missing = [name for name in names if name not in given]
    if sizes and len(sizes) != len(struct.sizes):
        raise failure(WRONG_ARGUMENTS, f"`{struct.name}` takes {len(struct.sizes)} sizes, but {len(sizes)} were given")
    without = [name for name in missing if name not in struct.initial]
    if without:
        message = f"`{struct.name}` also needs {_listed(without)}"
        raise failure(WRONG_ARGUMENTS, message, ("a field without an initial value must be given",))
    sizes = sizes or _read_sizes(struct, given)
    if missing and len(sizes) != len(struct.sizes):
        example = f"`{struct.name}({', '.join(struct.sizes)})`"
        message = f"`{struct.name}` needs its sizes to make {_listed(missing)}: {example}"
        raise failure(WRONG_ARGUMENTS, message)
    if missing and len(struct.initial) == len(names) and not maker.read_by_initial_values(struct) & given.keys():
        whole = maker.whole(struct, sizes, seed)
        return {name: given[name] if name in given else getattr(whole, name) for name in names}
    made = dict[str, object]()
    for name in names:
        made[name] = given[name] if name in given else maker.field(struct, name, sizes, made, seed)
    return made


def _read_sizes(struct: StructInterface, given: Mapping[str, object]) -> tuple[object, ...]:
    """The sizes that the fields given have; none where they do not tell all of them."""
    found = []
    for place in struct.seen:
        shape = getattr(given.get(place[0]), "shape", ()) if place is not None else ()
        if place is None or len(shape) <= place[1]:
            return ()
        found.append(int(shape[place[1]]))
    return tuple(found)


def _no_field(struct: StructInterface, name: str) -> TesseraError:
    fields = _listed([field for field, _ in struct.fields])
    return failure(WRONG_ARGUMENTS, f"`{struct.name}` has no field `{name}`", (f"it has {fields}",))


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _show(value: object) -> str:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    return f"<{dtype} {shape}>" if shape is not None and dtype is not None else repr(value)


def struct_class(
    interface: StructInterface, maker: Maker, methods: Mapping[str, Callable[..., object]]
) -> type[StructValue]:
    """The class of a struct. A method takes the object first; `apply` is what calling the object calls."""
    members: dict[str, object] = {"_interface": interface, "_maker": maker, "__doc__": interface.doc or None}
    members.update(methods)
    if "apply" in methods:
        members["__call__"] = methods["apply"]
    return type(interface.name.rpartition(".")[2], (StructValue,), members)
