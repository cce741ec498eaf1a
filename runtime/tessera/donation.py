"""Arguments that a call gives away: `@export(donate=(m,))`.

Enters: the arguments of a call whose function takes the memory of some of them. Leaves: a `TesseraError` where it
cannot be taken. A struct that was given away is consumed: its arrays are the result's now, and who uses it again is
told so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tessera.device_array import DeviceArray
from tessera.errors import ASSERTION_FAILED, BAD_INDEX, CONSUMED, NOT_DONATED, TesseraError, failure
from tessera.gpu_memory import Block
from tessera.signature import Signature
from tessera.structs import StructValue

if TYPE_CHECKING:
    from tessera.arguments import AnyArray

HALFWAY = (BAD_INDEX, ASSERTION_FAILED)
"""Ways in which a run ends that has written already."""


def check_apart(signature: Signature, arrays: Sequence[AnyArray]) -> None:
    """Raises where an array that is given away shares memory with another argument."""
    taken = sorted(signature.taken().values())
    if not taken or _have_blocks(arrays) or _are_apart(frozenset(taken), arrays):
        return
    for given in taken:
        for place, other in enumerate(arrays):
            if place != given and may_overlap(arrays[given], other):
                both = f"`{signature.parameters[given].name}` and `{signature.parameters[place].name}`"
                note = "the call writes its results there, so no other argument may lie in the same memory"
                raise failure(NOT_DONATED, f"arguments {both} of `{signature.name}` share memory", (note,))


def _have_blocks(arrays: Sequence[AnyArray]) -> bool:
    """Whether each array of the device has a block of its memory for itself, and all others are numbers."""
    blocks = [array.owner for array in arrays if type(array) is DeviceArray and type(array.owner) is Block]
    others = sum(array.ndim == 0 and type(array) is not DeviceArray for array in arrays)
    return len(blocks) + others == len(arrays) and len(set(map(id, blocks))) == len(blocks)


def may_overlap(left: AnyArray, right: AnyArray) -> bool:
    """Whether two arrays may share memory."""
    import numpy as np

    if not isinstance(left, DeviceArray) and not isinstance(right, DeviceArray):
        return np.may_share_memory(left, right)
    (space, start), (other_space, other) = _place(left), _place(right)
    return space == other_space and start < other + right.nbytes and other < start + left.nbytes


def _place(array: AnyArray) -> tuple[int, int]:
    """The memory that an array lies in, and its address there."""
    return (array.gpu.index, array.address) if isinstance(array, DeviceArray) else (_HOST, array.ctypes.data)


_HOST = -1


def _are_apart(given: frozenset[int], arrays: Sequence[AnyArray]) -> bool:
    """Whether no array that is given away overlaps another. In the order of their starts, one that begins before an
    earlier one has ended shares memory with it: there is no need to look at pairs."""
    starts = [(_place(array), array.nbytes, place in given) for place, array in enumerate(arrays) if array.nbytes]
    reached = reached_given = (_HOST, 0)
    for (space, start), size, is_given in sorted(starts):
        if (space, start) < (reached if is_given else reached_given):
            return False
        reached = max(reached, (space, start + size))
        reached_given = max(reached_given, (space, start + size if is_given else 0))
    return True


def taken_structs(signature: Signature, arguments: Mapping[str, object]) -> list[StructValue]:
    """The structs among the arguments that give their memory away, with those inside them."""
    names = {signature.parameters[place].name.partition(".")[0] for place in signature.taken().values()}
    return [found for name in arguments if name in names for found in _structs(arguments[name])]


def _structs(value: object) -> Iterator[StructValue]:
    if isinstance(value, StructValue):
        yield value
        value = list(vars(value).values())
    for item in value if isinstance(value, tuple | list) else ():
        yield from _structs(item)


def consuming(function: str, structs: Sequence[StructValue], run: Callable[[], object]) -> object:
    """What `run` gives; the structs are then consumed, also where it failed after it had begun to write."""
    try:
        result = run()
    except TesseraError as error:
        for struct in structs if error.code in HALFWAY else ():
            _consume(struct, function)
        raise
    for struct in structs:
        _consume(struct, function)
    return result


class _Consumed(StructValue):
    """What is left of an object that was given away."""

    _consumer: str

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        own = type(self).__name__
        note = f"use the `{own}` that `{self._consumer}` returned"
        raise failure(CONSUMED, f"this `{own}` was given to `{self._consumer}`, which took it", (note,))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, given to `{self._consumer}`>"


_classes: dict[type[StructValue], type[StructValue]] = {}


def _consume(struct: StructValue, function: str) -> None:
    own = type(struct)
    if own not in _classes:
        _classes[own] = type(own.__name__, (_Consumed, own), {})
    vars(struct).clear()
    vars(struct)["_consumer"] = function
    object.__setattr__(struct, "__class__", _classes[own])
