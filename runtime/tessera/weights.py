"""The params of a module: what `m.params = {...}` and `m.load(...)` set, and what functions read.

Enters: values by name, from Python or from a file. Leaves: the value of a param when a function needs it: as set, or as
its initialiser makes it; what the module makes or reads itself is frozen, what is set is frozen only if `freeze` made
it. Dtypes and sizes of arrays are checked when they are set; those of structs, and how params fit
the arguments beside them, by the call that uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tessera.arguments import check_params
from tessera.errors import UNSET_PARAM, WRONG_ARGUMENTS, failure, kind_of
from tessera.frozen import frozen_in_place
from tessera.interface import ParamInterface


class Weights:
    """`initialise` runs the initialiser of a param, which may read others."""

    def __init__(self, params: Sequence[ParamInterface], initialise: Callable[[str], object]) -> None:
        self._params = {param.name: param for param in params}
        self._initialise = initialise
        self._set: dict[str, object] = {}
        self._made: dict[str, object] = {}
        self._making: list[str] = []

    @property
    def current(self) -> object:
        """An object that is another one once params are set anew."""
        return self._set

    def kind_of(self, name: str) -> ParamInterface:
        return self._params[name]

    def set(self, values: object) -> None:
        """Replaces all that was set before."""
        if not isinstance(values, Mapping):
            raise failure(WRONG_ARGUMENTS, f"params are set by a dict, not by {kind_of(values)}")
        values = dict(self._qualified(values))
        known = ", ".join(f"`{name}`" for name in self._params) or "no params"
        for name in values:
            if name not in self._params:
                raise failure(WRONG_ARGUMENTS, f"this module has no param `{name}`", (f"it has {known}",))
        specs = [(self._params[name].tensor, value) for name, value in values.items()]
        check_params([(spec, value) for spec, value in specs if spec is not None])
        self._set, self._made = dict(values), {}

    def _qualified(self, values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
        """Values by full names: `{"layers": {"W": w}}` is `{"layers.W": w}`, as files of weights have it."""
        for name, value in values.items():
            inside = name not in self._params and isinstance(value, Mapping)
            if inside and any(param.startswith(f"{name}.") for param in self._params):
                assert isinstance(value, Mapping)
                yield from self._qualified({f"{name}.{inner}": item for inner, item in value.items()})
            else:
                yield name, value

    def values(self) -> dict[str, object]:
        """All that have a value, as set or as made."""
        return {**self._made, **self._set}

    def get(self, name: str) -> object:
        if name in self._set:
            return self._set[name]
        if name not in self._made:
            param = self._params[name]
            if not param.initial or name in self._making:
                unsized = ", and its initialiser needs sizes that no param set tells" if param.initial else ""
                note = f"it is {param.text}{unsized}; set it by `m.params = {{...}}` or `m.load(...)`"
                raise failure(UNSET_PARAM, f"the param `{name}` has no value", (note,))
            self._making.append(name)
            try:
                self._made[name] = frozen_in_place(self._initialise(name))
            finally:
                self._making.pop()
        return self._made[name]


def nested(arrays: Mapping[str, object]) -> dict[str, object]:
    """Values by dotted names as dicts in dicts, and as lists where the names are numbers."""
    tree: dict[str, object] = {}
    for name, array in arrays.items():
        *folders, last = name.split(".")
        place = tree
        for folder in folders:
            inner = place.setdefault(folder, {})
            if not isinstance(inner, dict):
                raise failure(WRONG_ARGUMENTS, f"the file has an array `{folder}`, and `{name}` inside it")
            place = inner
        place[last] = array
    return {name: _with_lists(name, value) for name, value in tree.items()}


def _with_lists(name: str, value: object) -> object:
    if not isinstance(value, dict):
        return value
    inside = {key: _with_lists(f"{name}.{key}", item) for key, item in value.items()}
    if not all(key.isdecimal() for key in inside):
        return inside
    numbers = sorted(map(int, inside))
    if numbers != list(range(len(numbers))):
        missing = next(i for i in range(len(numbers)) if i not in numbers)
        have = ", ".join(f"`{name}.{i}`" for i in numbers[:8])
        note = "layers without weights are no items of a list: number those with weights from 0 on"
        raise failure(WRONG_ARGUMENTS, f"the file has {have}, but no `{name}.{missing}`", (note,))
    return [inside[str(number)] for number in numbers]
