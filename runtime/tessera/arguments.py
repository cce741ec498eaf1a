"""From what the caller wrote to contiguous arrays of the declared types.

Arrays pass as they are; strided, Fortran-ordered and misaligned ones are copied; anything that speaks DLPack is
viewed; Python numbers fit scalar parameters. Nothing is converted from one element type to another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tessera.dtypes import numpy_dtype
from tessera.errors import WRONG_ARGUMENTS, WRONG_DTYPE, WRONG_KIND, WRONG_RANK, TesseraError, failure
from tessera.signature import Signature, TensorSpec

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]


def arrays_of(signature: Signature, args: Sequence[object], kwargs: Mapping[str, object]) -> list[Array]:
    """One contiguous array per parameter."""
    names = [p.name for p in signature.parameters]
    values = match_arguments(signature.name, names, args, kwargs)
    pairs = zip(signature.parameters, values, strict=True)
    return [_as_array(signature.name, spec, value) for spec, value in pairs]


def match_arguments(
    function: str, names: Sequence[str], args: Sequence[object], kwargs: Mapping[str, object]
) -> list[object]:
    """The values in the order of the parameters."""
    if len(args) > len(names):
        raise failure(WRONG_ARGUMENTS, f"`{function}` takes {_count(len(names))}, but {len(args)} were given")
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise failure(WRONG_ARGUMENTS, f"`{function}` has no parameter `{name}`")
        if name in given:
            raise failure(WRONG_ARGUMENTS, f"`{function}` was given `{name}` twice")
        given[name] = value
    if missing := [name for name in names if name not in given]:
        listed = ", ".join(f"`{name}`" for name in missing)
        raise failure(WRONG_ARGUMENTS, f"`{function}` takes {_count(len(names))}; {listed} is missing")
    return [given[name] for name in names]


def _count(number: int) -> str:
    return "no arguments" if number == 0 else f"{number} argument{'' if number == 1 else 's'}"


def _as_array(function: str, spec: TensorSpec, value: object) -> Array:
    import numpy as np

    array = _viewed(spec, value)
    if array is None:
        raise _misfit(WRONG_KIND, function, spec, f"is a {_kind(value)}, not an array")
    if array.dtype != numpy_dtype(spec.dtype):
        raise _misfit(WRONG_DTYPE, function, spec, f"has dtype {array.dtype}")
    if array.ndim != len(spec.sizes):
        raise _misfit(WRONG_RANK, function, spec, f"has {array.ndim} dims {array.shape}")
    return np.require(array, requirements=["C", "A"])


def _misfit(code: str, function: str, spec: TensorSpec, what: str) -> TesseraError:
    return failure(code, f"argument `{spec.name}` of `{function}` {what}", (f"it must be {spec.show()}",))


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _viewed(spec: TensorSpec, value: object) -> Array | None:
    """The argument as an array, without copying elements; None where it is not one."""
    import numpy as np

    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    if not spec.sizes and isinstance(value, bool | int | float | complex):
        return _number(spec, value)
    return None


def _number(spec: TensorSpec, value: complex) -> Array | None:
    """A Python number as a 0-d array, where the element type can hold it."""
    import numpy as np

    dtype = numpy_dtype(spec.dtype)
    accepted: dict[str, tuple[type, ...]] = {"b": (bool,), "i": (int,), "u": (int,), "c": (int, float, complex)}
    if not isinstance(value, accepted.get(dtype.kind, (int, float))):
        return None
    if isinstance(value, bool) != (dtype.kind == "b"):
        return None
    try:
        return np.array(value, dtype=dtype)
    except OverflowError:
        return None
