"""From what the caller wrote to contiguous arrays of the declared types.

Arrays pass as they are; strided, Fortran-ordered and misaligned ones are copied; anything that speaks DLPack is
viewed; Python numbers fit scalar parameters. Nothing is converted from one element type to another, and nothing is
copied from one device to another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tessera.device_array import DeviceArray
from tessera.dtypes import numpy_dtype
from tessera.errors import (
    NOT_DONATED,
    SIZE_CONFLICT,
    WRONG_ARGUMENTS,
    WRONG_DEVICE,
    WRONG_DTYPE,
    WRONG_KIND,
    WRONG_RANK,
    TesseraError,
    failure,
    kind_of,
    shown_number,
)
from tessera.operator import Operator
from tessera.signature import Signature, TensorSpec
from tessera.sizes import Size, SizeError
from tessera.values import MASKED, copied_in_order, is_masked, viewed

if TYPE_CHECKING:
    import numpy as np

Array: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.generic]]"
AnyArray: TypeAlias = "Array | DeviceArray"


def arrays_of(signature: Signature, args: Sequence[object], kwargs: Mapping[str, object]) -> list[Array]:
    """One contiguous array of the host per parameter."""
    arrays = []
    for spec, array in zip(signature.parameters, placed_arrays_of(signature, args, kwargs), strict=True):
        if isinstance(array, DeviceArray):
            note = 'load the module for it, `device="cuda"`, or copy the array: `x.numpy()`'
            where = f"lies on {array.device}, and the function runs on the CPU"
            raise failure(WRONG_DEVICE, f"argument `{spec.name}` of `{signature.name}` {where}", (note,))
        arrays.append(array)
    return arrays


def placed_arrays_of(signature: Signature, args: Sequence[object], kwargs: Mapping[str, object]) -> list[AnyArray]:
    """One contiguous array per parameter, of the host or of a device, wherever the caller has it."""
    names = [p.name for p in signature.parameters]
    values = match_arguments(signature.name, names, names, {}, args, kwargs)
    arrays = [
        _as_array(signature.name, spec, value) for spec, value in zip(signature.parameters, values, strict=True)
    ]
    taken = frozenset(signature.taken().values())
    return [
        _owned(signature, place, a) if place in taken else _in_order(signature, place, a)
        for place, a in enumerate(arrays)
    ]


def _in_order(signature: Signature, place: int, array: AnyArray) -> AnyArray:
    if isinstance(array, DeviceArray) or (array.flags.c_contiguous and array.flags.aligned):
        return array
    return copied_in_order(array, f"argument `{signature.parameters[place].name}` of `{signature.name}`")


def _owned(signature: Signature, place: int, array: AnyArray) -> AnyArray:
    """An array that is given away; it is written, hence never copied."""
    spec = signature.parameters[place]
    if array.is_readonly if isinstance(array, DeviceArray) else not array.flags.writeable:
        raise _misfit(NOT_DONATED, signature.name, spec, "is given away, but it is read-only")
    if isinstance(array, DeviceArray):
        return array
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned):
        raise _misfit(NOT_DONATED, signature.name, spec, "is given away, but it is not contiguous and aligned")
    return array


def match_arguments(
    function: str,
    names: Sequence[str],
    positional: Sequence[str],
    defaults: Mapping[str, object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> list[object]:
    """The values in the order of `names`, of which only `positional` may be given without their name."""
    if len(args) > len(positional):
        raise failure(WRONG_ARGUMENTS, f"`{function}` takes {_count(positional)}, but {len(args)} were given")
    given = dict(zip(positional, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise failure(WRONG_ARGUMENTS, f"`{function}` has no parameter `{name}`")
        if name in given:
            raise failure(WRONG_ARGUMENTS, f"`{function}` was given `{name}` twice")
        given[name] = value
    complete = {**defaults, **given}
    if missing := [name for name in names if name not in complete]:
        listed = ", ".join(f"`{name}`" for name in missing)
        verb = "is" if len(missing) == 1 else "are"
        raise failure(WRONG_ARGUMENTS, f"`{function}` takes {_count(names)}; {listed} {verb} missing")
    return [complete[name] for name in names]


def _count(names: Sequence[str]) -> str:
    return "no arguments" if not names else f"{len(names)} argument{'' if len(names) == 1 else 's'}"


def _as_array(function: str, spec: TensorSpec, value: object) -> AnyArray:
    array = value if type(value) is DeviceArray else _viewed(function, spec, value)
    if array is None:
        expected = "an array" if spec.sizes else _SCALARS.get(numpy_dtype(spec.dtype).kind, "a number")
        made = isinstance(value, list | tuple) and bool(spec.sizes)
        how = (f"made of the list: `numpy.array({spec.name}, dtype={_spelled(spec)})`",) if made else ()
        if isinstance(value, Operator):
            how = (f"its matrix: `{spec.name}.to_dense()`",)
        raise _misfit(WRONG_KIND, function, spec, f"is {kind_of(value)}, not {expected}", how)
    if array.dtype != numpy_dtype(spec.dtype):
        known = array.dtype.kind in "biufc" and hasattr(value, "astype")
        how = (f"converted: `{spec.name}.astype({_spelled(spec)})`",) if known else ()
        raise _misfit(WRONG_DTYPE, function, spec, f"has dtype {array.dtype}", how)
    if array.ndim != len(spec.sizes):
        raise _misfit(WRONG_RANK, function, spec, f"has {array.ndim} dims {array.shape}")
    return array


def check_params(params: Sequence[tuple[TensorSpec, object]]) -> None:
    """Whether arrays fit the params that they are for, one by one and in the sizes that they share."""
    arrays = [(spec, _as_array("", spec, value)) for spec, value in params]
    known: dict[str, int] = {}
    for spec, array in arrays:
        for size, found in zip(spec.sizes, array.shape, strict=True):
            if isinstance(size.tree, str):
                known.setdefault(size.tree, found)
    for spec, array in arrays:
        for axis, (size, found) in enumerate(zip(spec.sizes, array.shape, strict=True)):
            if size.symbols() <= known.keys() and not _is_size(size, known, found):
                told = ", ".join(f"{name} = {known[name]}" for name in sorted(size.symbols()))
                what = f"has size {found} at axis {axis}, not {size.text}{f' with {told}' if told else ''}"
                raise _misfit(SIZE_CONFLICT, "", spec, what)


def _is_size(size: Size, known: Mapping[str, int], found: int) -> bool:
    try:
        return size.evaluate(known) == found
    except SizeError:
        return False


def _misfit(code: str, function: str, spec: TensorSpec, what: str, how: Sequence[str] = ()) -> TesseraError:
    subject = f"argument `{spec.name}` of `{function}`" if function else f"the param `{spec.name}`"
    return failure(code, f"{subject} {what}", (f"it must be {spec.show()}", *how))


def _spelled(spec: TensorSpec) -> str:
    """The dtype as a program of NumPy says it; what NumPy does not have by itself is one of `ml_dtypes`."""
    dtype = numpy_dtype(spec.dtype)
    return f'"{dtype}"' if dtype.isbuiltin == 1 else f"ml_dtypes.{dtype}"


def _viewed(function: str, spec: TensorSpec, value: object) -> AnyArray | None:
    """The argument as an array, without copying elements; None where it is not one."""
    import numpy as np

    if is_masked(value):
        raise _misfit(WRONG_KIND, function, spec, MASKED)
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__"):
        try:
            return viewed(value)
        except BufferError as error:
            raise _misfit(WRONG_KIND, function, spec, f"gives no array that NumPy can read: {error}") from None
    if not spec.sizes and isinstance(value, bool | int | float | complex):
        return _number(function, spec, value)
    return None


_SCALARS = {"b": "a bool", "i": "an integer", "u": "an integer"}
"""What a scalar parameter takes, for a message, by the kind of its dtype; all others take numbers."""
_NUMBERS: dict[str, tuple[type, ...]] = {"b": (bool,), "i": (int,), "u": (int,), "c": (int, float, complex)}
"""Python's types that fit a scalar parameter, by the kind of its dtype; floats of any width take the two below."""


def _number(function: str, spec: TensorSpec, value: complex) -> Array | None:
    """A Python number as a 0-d array, rounded once; None where its type does not fit the parameter."""
    import numpy as np

    dtype = numpy_dtype(spec.dtype)
    fits = isinstance(value, _NUMBERS.get(dtype.kind, (int, float)))
    if not fits or isinstance(value, bool) != (dtype.kind == "b"):
        return None
    try:
        with np.errstate(over="ignore"):
            return np.array(value, dtype=dtype)
    except OverflowError:
        what = f"is {shown_number(value)}, which {spec.element} does not hold"
        raise _misfit(WRONG_DTYPE, function, spec, what) from None
