"""A state of training as a file: arrays by name in the safetensors format, with step, losses, seed and a digest.

Enters: a state, which is a struct, a tuple, a list or a dict of arrays and operators, any deep, or None. Leaves: a
file that is whole or not there at all; or, from a file, a state like one that is given. A file that is damaged, or of
another state, is a `TesseraError`. An operator is its arrays, and how it is made of them and of which numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tessera.errors import BAD_CHECKPOINT, UNREADABLE_FILE, TesseraError, failure, kind_of, reason_of
from tessera.files import write_file
from tessera.operator import Operator
from tessera.programs import FunctionValue
from tessera.random_stream import read_seed
from tessera.safetensors import encode_safetensors, read_safetensors
from tessera.structs import StructValue

if TYPE_CHECKING:
    from tessera.arguments import Array

_STATE, _STEP, _LOSSES, _SEED, _DIGEST = "state", "step", "losses", "seed", "digest"
_FORM = "form"
"""What the form of an operator is called, beside the numbers of its parts."""


class Checkpoint(NamedTuple):
    """`losses` are those of all steps up to here; from `seed` and `step` follow the random numbers of the next step."""

    state: object
    step: int
    losses: tuple[float, ...]
    seed: int = 0


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The content of the file. Raises TesseraError for a state that holds something else than arrays."""
    import numpy as np

    tensors = dict(leaves_of(checkpoint.state, _STATE))
    tensors[_STEP] = np.array(checkpoint.step, np.int64)
    tensors[_LOSSES] = np.array(checkpoint.losses, np.float64)
    tensors[_SEED] = np.array(read_seed(checkpoint.seed), np.uint64)
    tensors[_DIGEST] = _digest(tensors)
    try:
        return encode_safetensors(tensors)
    except ValueError as error:
        raise failure(BAD_CHECKPOINT, f"cannot save the state: {error}") from None


def save_checkpoint(path: str, checkpoint: Checkpoint) -> None:
    """Writes beside the place, then renames: whoever reads finds the file before or the file after."""
    write_whole(path, encode_checkpoint(checkpoint))


def write_whole(path: str, content: bytes) -> None:
    try:
        write_file(path, content, durable=True)
    except (OSError, ValueError) as error:
        raise failure(UNREADABLE_FILE, f"cannot write `{path}`: {reason_of(error)}") from None


def load_checkpoint(path: str, like: object) -> Checkpoint:
    """The checkpoint in a file; its state has the structure, the shapes and the dtypes of `like`."""
    try:
        tensors = read_safetensors(path)
    except TesseraError as error:
        if error.code == UNREADABLE_FILE:
            raise
        raise _refused(path, "it is damaged, or not a checkpoint") from None
    digest = tensors.pop(_DIGEST, None)
    if digest is None or not tensors.keys() >= {_STEP, _LOSSES, _SEED}:
        raise _refused(path, "it is not a checkpoint of `tessera train`")
    if digest.tobytes() != _digest(tensors).tobytes():
        raise _refused(path, "its content is not what was written")
    step, losses = int(tensors.pop(_STEP)), tuple(map(float, tensors.pop(_LOSSES)))
    seed = int(tensors.pop(_SEED))
    _compare(path, dict(leaves_of(like, _STATE)), tensors)
    for name, operator in _operators_of(like, _STATE):
        if tensors[f"{name}.{_FORM}"].tobytes() != _form_of(operator).tobytes():
            raise _refused(path, "it is of another state", f"`{name}` is made in another way in the program")
    return Checkpoint(_rebuilt(like, _STATE, tensors), step, losses, seed)


def leaves_of(value: object, name: str) -> Iterator[tuple[str, Array]]:
    """The arrays of a state, by their paths."""
    import numpy as np

    if isinstance(value, np.ndarray | np.generic):
        yield name, np.asarray(value)
        return
    items = [] if value is None else _items(value)
    if items is None:
        note = "a state is made of tensors and operators, in structs, tuples, lists and dicts"
        if isinstance(value, Operator):
            note = "this one is made of functions; build it where it is used, of tensors of the state"
        raise failure(BAD_CHECKPOINT, f"`{name}` is {kind_of(value)}, which a checkpoint cannot hold", (note,))
    for key, item in items:
        yield from leaves_of(item, f"{name}.{key}")


def _items(value: object) -> list[tuple[str, object]] | None:
    if isinstance(value, StructValue):
        return list(vars(value).items())
    if isinstance(value, Mapping):
        return [(str(key), item) for key, item in value.items()]
    if isinstance(value, tuple | list):
        return [(str(place), item) for place, item in enumerate(value)]
    if isinstance(value, Operator) and not any(isinstance(part, FunctionValue) for part in value.parts):
        return [*_arrays_of(value), (_FORM, _form_of(value))]
    return None


def _arrays_of(operator: Operator) -> list[tuple[str, object]]:
    import numpy as np

    parts = enumerate(operator.parts)
    return [(str(place), part) for place, part in parts if isinstance(part, np.ndarray | np.generic)]


def _form_of(operator: Operator) -> Array:
    """A digest of its tree and of those of its parts that are numbers of Python's."""
    import numpy as np

    arrays = dict(_arrays_of(operator))
    numbers = {place: part for place, part in enumerate(operator.parts) if str(place) not in arrays}
    return np.frombuffer(hashlib.sha256(json.dumps([operator.tree, numbers]).encode()).digest(), np.uint8)


def _operators_of(value: object, name: str) -> Iterator[tuple[str, Operator]]:
    if isinstance(value, Operator):
        yield name, value
        return
    for key, item in _items(value) or ():
        yield from _operators_of(item, f"{name}.{key}")


def _rebuilt(like: object, name: str, tensors: Mapping[str, Array]) -> object:
    import numpy as np

    if isinstance(like, np.ndarray | np.generic):
        found = tensors[name]
        return found[()] if isinstance(like, np.generic) else found
    if like is None:
        return None
    made: dict[str, Any] = {key: _rebuilt(item, f"{name}.{key}", tensors) for key, item in _items(like) or ()}
    if isinstance(like, StructValue):
        return type(like)._of_fields(made)
    if isinstance(like, Operator):
        return Operator(like.tree, [made.get(str(place), part) for place, part in enumerate(like.parts)])
    if isinstance(like, Mapping):
        return dict(zip(like, made.values(), strict=True))
    return tuple(made.values()) if isinstance(like, tuple) else list(made.values())


def _compare(path: str, expected: Mapping[str, Array], found: Mapping[str, Array]) -> None:
    for name in (*expected, *(other for other in found if other not in expected)):
        if _form(expected, name) != _form(found, name):
            here, there = _form(expected, name), _form(found, name)
            raise _refused(path, "it is of another state", f"`{name}` is {there} there, but {here} in the program")


def _form(arrays: Mapping[str, Array], name: str) -> str:
    return f"{arrays[name].dtype}{list(arrays[name].shape)}" if name in arrays else "missing"


def _digest(tensors: Mapping[str, Array]) -> Array:
    import numpy as np

    total = hashlib.sha256()
    for name in sorted(tensors):
        shape: Sequence[int] = tensors[name].shape
        total.update(json.dumps([name, str(tensors[name].dtype), list(shape)]).encode())
        total.update(np.ascontiguousarray(tensors[name]).tobytes())
    return np.frombuffer(total.digest(), np.uint8)


def _refused(path: str, reason: str, *notes: str) -> TesseraError:
    note = "nothing was changed; give another file, or start anew without it"
    return failure(BAD_CHECKPOINT, f"cannot resume from `{path}`: {reason}", (*notes, note))
