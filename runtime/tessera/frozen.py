"""Models that no longer change: `tessera.freeze(model)`.

Enters: a struct, an array, or tuples, lists and dicts of them. Leaves: the same, made of private copies that are
contiguous, aligned and read-only, so that every call reads them where they lie, and packs a matrix of them once for all
calls (`frozen_arrays.py`). A frozen struct is of its struct's class, hence accepted wherever the struct is; assigning
to a field is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tessera.device_array import DeviceArray, copied
from tessera.errors import FROZEN, WRONG_KIND, failure, kind_of
from tessera.frozen_arrays import hold, is_held
from tessera.scaled import Scaled
from tessera.structs import StructValue
from tessera.values import as_array, copied_in_order

if TYPE_CHECKING:
    from tessera.arguments import Array


def freeze(value: object) -> object:
    """A copy of `value` that nothing can change."""
    if isinstance(value, StructValue):
        return value if isinstance(value, _Frozen) else _frozen_struct(value)
    if isinstance(value, Scaled):
        return Scaled(*map(freeze, value))
    if isinstance(value, tuple | list):
        return tuple(map(freeze, value))
    if isinstance(value, Mapping):
        return {key: freeze(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | complex | str) or _is_scalar(value):
        return value
    if hasattr(value, "__dlpack__"):
        return _frozen_array(value)
    message = f"`freeze` takes a struct, an array, or tuples, lists and dicts of them, not {kind_of(value)}"
    raise failure(WRONG_KIND, message)


def _is_scalar(value: object) -> bool:
    """Whether it is a number of NumPy's, as calls return them: those do not change."""
    import numpy as np

    return isinstance(value, np.generic)


def _frozen_array(value: object) -> object:
    found = as_array(value)
    if isinstance(found, DeviceArray):
        return copied(found, is_readonly=True)
    return found if _is_frozen(found) else of_owner(copied_in_order(found, "an array that is frozen"))


def _is_frozen(array: Array) -> bool:
    return is_held(array) and array.flags.c_contiguous and not array.flags.writeable


def of_owner(owner: Array) -> Array:
    """An array whose memory is nobody else's, as one that cannot be made writable again."""
    owner.setflags(write=False)
    hold(owner)
    return owner.view()


def frozen_in_place(value: object) -> object:
    """The same value, of which nobody else has the arrays: they become read-only, without a copy."""
    import numpy as np

    if isinstance(value, StructValue):
        for name, _ in value._interface.fields:
            frozen_in_place(getattr(value, name))
    elif isinstance(value, tuple):
        for item in value:
            frozen_in_place(item)
    elif isinstance(value, np.ndarray) and value.flags.owndata and value.flags.c_contiguous:
        value.setflags(write=False)
        hold(value)
    return value


class _Frozen(StructValue):
    """What a frozen object is beside an object of its struct."""

    def __setattr__(self, name: str, value: object) -> None:
        note = "a frozen struct does not change; freeze the new one, or keep the one it was made of"
        raise failure(FROZEN, f"`{name}` of this `{self._struct_name()}` cannot be assigned", (note,))

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __repr__(self) -> str:
        return f"freeze({super().__repr__()})"


_classes: dict[type[StructValue], type[StructValue]] = {}


def _frozen_struct(value: StructValue) -> StructValue:
    own = type(value)
    if own not in _classes:
        _classes[own] = type(own.__name__, (_Frozen, own), {})
    fields = {name: freeze(getattr(value, name)) for name, _ in value._interface.fields}
    return _classes[own]._of_fields(fields)
