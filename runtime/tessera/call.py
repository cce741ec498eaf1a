"""The careful way into compiled code, in Python, which can explain what is wrong with a call.

Enters: contiguous arrays of the declared dtypes and ranks. Leaves: fresh arrays, or a `TesseraError` that names
parameter, dim, value and rule. The stub in the image does the same for the usual call and comes here otherwise.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tessera.donation import check_apart
from tessera.dtypes import numpy_dtype
from tessera.errors import (
    ASSERTION_FAILED,
    BAD_INDEX,
    GUARD_FAILED,
    OUT_OF_MEMORY,
    SIZE_CONFLICT,
    TOO_LARGE,
    Place,
    TesseraError,
    failure,
)
from tessera.outputs import writable_outputs
from tessera.printing import noted_failure
from tessera.signature import (
    STATUS_ASSERT,
    STATUS_BAD_INDEX,
    STATUS_GUARD,
    STATUS_INTERRUPTED,
    STATUS_OK,
    STATUS_OUT_OF_MEMORY,
    STATUS_RAISED,
    STATUS_SIZE,
    STATUS_TOO_LARGE,
    Binding,
    Signature,
    Site,
)
from tessera.sizes import LARGEST_SIZE, SizeError

if TYPE_CHECKING:
    from tessera.arguments import Array

_LEAST_TOLD = 1 - 2**63
"""What a status tells of an index that is this or less: the least number says that none was bad."""

NativeFunction = Callable[[int, int], int]
"""(address of the argument block, address of the status) -> status code"""


class Entry(NamedTuple):
    """`guards` only tests what `run` tests first, so it may be called before there is memory for the results."""

    guards: NativeFunction
    run: NativeFunction


Shape = tuple[int, ...]


def call(signature: Signature, entry: Entry, inputs: Sequence[Array], out: Sequence[object] | None = None) -> object:
    """The results, in the memory of arguments that are given away, in fresh arrays, or in those of `out`."""
    check_apart(signature, inputs)
    symbols = bind_symbols(signature, [array.shape for array in inputs])
    sizes = [symbols[name] for name in signature.symbols]
    data = [array.ctypes.data for array in inputs]
    _invoke(signature, entry.guards, [*data, *[0] * len(signature.results), *sizes], symbols)
    if out is None:
        outputs = result_arrays(signature, inputs, symbols)
    else:
        outputs = writable_outputs(signature, out, inputs, symbols)
    _invoke(signature, entry.run, [*data, *(array.ctypes.data for array in outputs), *sizes], symbols)
    results = tuple(array if array.ndim else array[()] for array in outputs)  # [()]: a 0-d array as a scalar
    return results if signature.returns_tuple else results[0]


def _invoke(signature: Signature, function: NativeFunction, words: Sequence[int], symbols: Mapping[str, int]) -> None:
    block = (ctypes.c_int64 * len(words))(*words)
    status = ctypes.create_string_buffer(STATUS_SIZE)
    code = function(ctypes.addressof(block), ctypes.addressof(status))
    if code == STATUS_INTERRUPTED:
        restore_raised(status.raw)
    if code != STATUS_OK:
        raise failed_status(signature, status.raw, symbols)


def restore_raised(status: bytes) -> None:
    """Raises what a handler of a signal did, which has ended a call."""
    restore = ctypes.pythonapi.PyErr_Restore
    restore.argtypes, restore.restype = [ctypes.c_void_p] * 3, None
    restore(*struct.unpack_from("<3Q", status, STATUS_RAISED))


def bind_symbols(signature: Signature, shapes: Sequence[Shape]) -> dict[str, int]:
    """The value of every symbol. Raises TesseraError where shapes contradict each other or the declared sizes."""
    symbols: dict[str, int] = {}
    try:
        for binding in signature.bindings:
            symbols[binding.symbol] = _solve(signature, binding, shapes[binding.parameter], symbols)
        _check_shapes(signature, shapes, symbols)
    except SizeError as error:
        raise failure(SIZE_CONFLICT, f"a size of an argument of `{signature.name}` has no value: {error}") from None
    return symbols


def _check_shapes(signature: Signature, shapes: Sequence[Shape], symbols: Mapping[str, int]) -> None:
    for parameter, shape in zip(signature.parameters, shapes, strict=True):
        for axis, size in enumerate(parameter.sizes):
            expected = size.evaluate(symbols)
            if expected != shape[axis]:
                rule = f"`{size.text}` is {expected}" if size.symbols() else f"it must be {expected}"
                raise _conflict(signature, parameter.name, axis, shape, rule, symbols)


def _solve(signature: Signature, binding: Binding, shape: Shape, symbols: Mapping[str, int]) -> int:
    found = binding.factor.evaluate(symbols) * shape[binding.axis] - binding.offset.evaluate(symbols)
    scale = binding.scale.evaluate(symbols)
    if scale == 0 or found % scale or found // scale < 0:
        parameter = signature.parameters[binding.parameter]
        rule = f"it must be `{parameter.sizes[binding.axis].text}` for a whole `{binding.symbol}`"
        raise _conflict(signature, parameter.name, binding.axis, shape, rule, symbols)
    if found // scale > LARGEST_SIZE:
        message = f"`{signature.name}` needs `{binding.symbol}` = {found // scale}, which is too large for 64 bits"
        raise failure(TOO_LARGE, message)
    return found // scale


def _conflict(
    signature: Signature, parameter: str, axis: int, shape: Shape, rule: str, symbols: Mapping[str, int]
) -> TesseraError:
    declared = next(p for p in signature.parameters if p.name == parameter)
    sources = [
        f"`{b.symbol}` = {symbols[b.symbol]} from dim {b.axis} of `{signature.parameters[b.parameter].name}`"
        for b in signature.bindings
        if b.symbol in symbols and b.symbol in declared.sizes[axis].symbols()
    ]
    message = f"argument `{parameter}` of `{signature.name}` has size {shape[axis]} in dim {axis}, but {rule}"
    return failure(SIZE_CONFLICT, message, (*sources, f"`{parameter}` is declared {declared.show()}"))


def result_arrays(signature: Signature, inputs: Sequence[Array], symbols: Mapping[str, int]) -> list[Array]:
    """The memory of the results: that of an argument which is given away, or new."""
    taken = signature.taken()
    return [
        inputs[taken[position]] if position in taken else allocate_result(signature, position, symbols)
        for position in range(len(signature.results))
    ]


def allocate_result(signature: Signature, position: int, symbols: Mapping[str, int]) -> Array:
    import numpy as np

    result, shape = signature.results[position], result_shape(signature, position, symbols)
    try:
        return np.empty(shape, numpy_dtype(result.dtype))
    except (ValueError, MemoryError, OverflowError):
        message = f"no memory for the result {result.show()} of `{signature.name}` with shape {shape}"
        raise failure(OUT_OF_MEMORY, message) from None


def result_shape(signature: Signature, position: int, symbols: Mapping[str, int]) -> Shape:
    result = signature.results[position]
    shape = tuple(size.evaluate(symbols) for size in result.sizes)
    if any(size < 0 for size in shape):
        message = f"the result {result.show()} of `{signature.name}` would have the shape {shape}"
        raise failure(SIZE_CONFLICT, message, tuple(f"`{name}` = {value}" for name, value in symbols.items()))
    return shape


def failed_status(signature: Signature, status: bytes, symbols: Mapping[str, int]) -> TesseraError:
    """The error that a status of an entry stands for."""
    code, number, *values = struct.unpack_from("<ii4q", status)
    site = signature.sites[number]
    sizes = tuple(f"`{name}` = {value}" for name, value in symbols.items())
    place = (Place(site.file, site.line, site.column),) if site.file else ()
    message = _MESSAGES[code](signature, site, values)
    text, *notes = noted_failure().split("\n`") if code == STATUS_ASSERT else [""]
    message += f": {text}" if text else ""
    return failure(_CODES[code], message, (*(f"`{note}" for note in notes), *sizes), place)


def _guard_message(signature: Signature, site: Site, values: Sequence[int]) -> str:
    needs = "" if site.operator == "guard" else f"`{site.operator}` in "
    return f"{needs}`{signature.name}` needs {site.text}, but the sides are {values[0]} and {values[1]}"


def _memory_message(signature: Signature, site: Site, values: Sequence[int]) -> str:
    return f"`{signature.name}` needs {values[0]} bytes of workspace, which the system does not give; {site.text}"


def _index_message(signature: Signature, site: Site, values: Sequence[int]) -> str:
    index, size = values[:2]
    beyond = {_LEAST_TOLD: " or less", LARGEST_SIZE: " or more"}.get(index, "")
    return f"`{site.operator}` in `{signature.name}`: index {index}{beyond} is out of range for a dim of size {size}"


def _assert_message(signature: Signature, site: Site, values: Sequence[int]) -> str:
    failed = f"an assertion in `{signature.name}` does not hold"
    told = failed if site.operator == "assert" else f"`{site.operator}` in `{signature.name}`"
    return f"{told}{': ' if site.text else ''}{site.text}"


def _size_message(signature: Signature, site: Site, values: Sequence[int]) -> str:
    return f"`{signature.name}` needs {site.text}, which is too large for 64 bits"


_CODES = {
    STATUS_GUARD: GUARD_FAILED,
    STATUS_OUT_OF_MEMORY: OUT_OF_MEMORY,
    STATUS_BAD_INDEX: BAD_INDEX,
    STATUS_ASSERT: ASSERTION_FAILED,
    STATUS_TOO_LARGE: TOO_LARGE,
}
_MESSAGES: dict[int, Callable[[Signature, Site, Sequence[int]], str]] = {
    STATUS_GUARD: _guard_message,
    STATUS_OUT_OF_MEMORY: _memory_message,
    STATUS_BAD_INDEX: _index_message,
    STATUS_ASSERT: _assert_message,
    STATUS_TOO_LARGE: _size_message,
}
