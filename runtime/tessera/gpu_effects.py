"""What a call on a GPU tells: sizes that do not fit, bad indices, values to print.

Enters: memory of the device, read into bytes. Leaves: text, or the `TesseraError` that the CPU's code would give. A
kernel never ends a call by itself: it leaves words that the host looks at before it needs something from the device.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence

from tessera.call import Shape, bind_symbols, failed_status
from tessera.errors import TesseraError
from tessera.gpu_program import CheckIndices, GpuProgram, Require
from tessera.printing import write_site
from tessera.signature import (
    STATUS_BAD_INDEX,
    STATUS_GUARD,
    STATUS_TOO_LARGE,
    STATUS_VALUES,
    Signature,
    Site,
)
from tessera.sizes import LARGEST_SIZE

NO_BAD_INDEX = -(2**63)
"""What a word holds as long as no index was bad."""


def check_words(
    signature: Signature, step: CheckIndices, words: bytearray, sizes: Sequence[int], symbols: Mapping[str, int]
) -> None:
    """Raises where one of the words tells of a bad index; `sizes` are what each has to be below."""
    for index, size in zip(struct.unpack(f"<{len(sizes)}q", words), sizes, strict=True):
        if index != NO_BAD_INDEX:
            raise failed(signature, STATUS_BAD_INDEX, step.site, (index, size), symbols)


def print_values(site: Site, values: Sequence[bytearray], sizes: Sequence[int]) -> None:
    """Writes what a site prints, given the memory of its values and all their sizes."""
    kept = [(ctypes.c_char * max(len(data), 1)).from_buffer(data or bytearray(1)) for data in values]
    words = (ctypes.c_int64 * max(len(kept) + len(sizes), 1))(*(ctypes.addressof(data) for data in kept), *sizes)
    write_site(site, ctypes.addressof(words))


def checked_symbols(program: GpuProgram, shapes: Sequence[Shape]) -> dict[str, int]:
    """The value of every symbol in a call with arguments of these shapes, once all checks hold."""
    symbols = bind_symbols(program.signature, shapes)
    for check in program.checks:
        require(program.signature, Require(check.condition, check.site, None), symbols)
    return symbols


def require(signature: Signature, check: Require, symbols: Mapping[str, int]) -> None:
    """Raises the error of a check that does not hold; `symbols` may have counters of loops."""
    condition, code = check.condition, STATUS_GUARD if check.shown is None else STATUS_BAD_INDEX
    if condition.holds(symbols):
        return
    code = STATUS_TOO_LARGE if condition.kind == "fits" else code
    first = condition.left if check.shown is None else check.shown
    sides = (first.evaluate(symbols), condition.right.evaluate(symbols))
    raise failed(signature, code, check.site, sides, symbols)


def failed(
    signature: Signature, code: int, site: int, values: Sequence[int], symbols: Mapping[str, int]
) -> TesseraError:
    """The error of a call that ends at `site`."""
    told = [max(-LARGEST_SIZE, min(value, LARGEST_SIZE)) for value in values] + [0] * (STATUS_VALUES - len(values))
    status = struct.pack(f"<ii{STATUS_VALUES}q", code, site, *told)
    sizes = {name: value for name, value in symbols.items() if name in signature.symbols}  # and no counters of loops
    return failed_status(signature, status, sizes)
