"""Results that the caller owns: `m.f(x, out=y)`.

Enters: what was given as `out`, in the shape of the function's result. Leaves: one array per result for compiled code
to write, or a `TesseraError`. Nothing is converted or copied: compiled code writes where the caller said, or nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tessera.device_array import DeviceArray
from tessera.donation import may_overlap
from tessera.dtypes import numpy_dtype
from tessera.errors import (
    SIZE_CONFLICT,
    WRONG_ARGUMENTS,
    WRONG_DEVICE,
    WRONG_DTYPE,
    WRONG_KIND,
    TesseraError,
    failure,
    kind_of,
)
from tessera.returned import Returned
from tessera.signature import OUT, Signature, TensorSpec

if TYPE_CHECKING:
    from tessera.arguments import AnyArray, Array


def flat_outputs(function: str, returned: Returned, out: object) -> list[object]:
    """The parts of `out` that stand where compiled code returns a value, in its order."""
    return list(_parts(function, returned, out, OUT))


def _parts(function: str, returned: Returned, out: object, name: str) -> Iterator[object]:
    if returned.kind == "value":
        yield out
    elif returned.kind == "tuple":
        count = len(returned.items)
        if not isinstance(out, tuple | list) or len(out) != count:
            raise failure(WRONG_KIND, f"`{name}` of `{function}` must be a tuple of {count}, as its result is")
        for position, item in enumerate(returned.items):
            yield from _parts(function, item, out[position], f"{name}[{position}]")
    elif returned.kind in ("struct", "dict"):
        for field, item in zip(returned.names, returned.items, strict=True):
            yield from _parts(function, item, _field(function, returned, out, name, field), f"{name}.{field}")


def _field(function: str, returned: Returned, out: object, name: str, field: str | int) -> object:
    missing = object()
    found = out.get(field, missing) if isinstance(out, Mapping) else getattr(out, str(field), missing)
    if found is missing:
        wanted = f"`{returned.detail}`" if returned.kind == "struct" else "dict"
        raise failure(WRONG_KIND, f"`{name}` of `{function}` must be a {wanted}; it has no `{field}`")
    return found


def writable_outputs(
    signature: Signature, given: Sequence[object], inputs: Sequence[Array], symbols: Mapping[str, int]
) -> list[Array]:
    """The arrays to write, each of its result's dtype and shape, apart from each other and from the inputs."""
    arrays = placed_outputs(signature, given, inputs, symbols)
    for spec, array in zip(signature.results, arrays, strict=True):
        if isinstance(array, DeviceArray):
            raise _misfit(WRONG_DEVICE, signature, spec, f"lies on {array.device}, and the function runs on the CPU")
    return [array for array in arrays if not isinstance(array, DeviceArray)]


def placed_outputs(
    signature: Signature, given: Sequence[object], inputs: Sequence[AnyArray], symbols: Mapping[str, int]
) -> list[AnyArray]:
    """The same for arrays on any device."""
    if signature.donated:
        note = "its results take the memory of arguments that are given away"
        raise failure(WRONG_ARGUMENTS, f"`{signature.name}` takes no `out`", (note,))
    arrays = [_checked(signature, spec, value, symbols) for spec, value in zip(signature.results, given, strict=True)]
    names = [*(f"argument `{p.name}`" for p in signature.parameters), *("another part of `out`" for _ in arrays)]
    others: list[AnyArray] = [*inputs, *arrays]
    for position, array in enumerate(arrays):
        for place, other in enumerate(others):
            if place != len(inputs) + position and may_overlap(array, other):
                note = "results never share memory with what is read"
                raise failure(WRONG_ARGUMENTS, f"`out` of `{signature.name}` overlaps {names[place]}", (note,))
    return arrays


def _checked(signature: Signature, spec: TensorSpec, value: object, symbols: Mapping[str, int]) -> AnyArray:
    import numpy as np

    if not isinstance(value, np.ndarray | DeviceArray):
        from tessera.dlpack import adopted

        found = adopted(value)
        value = value if found is None else found
    if not isinstance(value, np.ndarray | DeviceArray):
        raise _misfit(WRONG_KIND, signature, spec, f"is {kind_of(value)}, not a NumPy array")
    if value.dtype != numpy_dtype(spec.dtype):
        raise _misfit(WRONG_DTYPE, signature, spec, f"has dtype {value.dtype}")
    shape = tuple(size.evaluate(symbols) for size in spec.sizes)
    if value.shape != shape:
        raise _misfit(SIZE_CONFLICT, signature, spec, f"has shape {value.shape}, but the result has {shape}")
    if isinstance(value, DeviceArray):
        is_fit = not value.is_readonly
    else:
        is_fit = value.flags.c_contiguous and value.flags.aligned and value.flags.writeable
    if not is_fit:
        raise _misfit(WRONG_KIND, signature, spec, "must be contiguous, aligned and writable")
    return value


def _misfit(code: str, signature: Signature, spec: TensorSpec, what: str) -> TesseraError:
    return failure(code, f"`out` of `{signature.name}` {what}", (f"the result is {spec.show()}",))
