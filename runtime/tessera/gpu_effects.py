"""What a run on a GPU tells its host: bad indices, and values to print.

Enters: memory of the device, read into bytes. Leaves: text, or the `TesseraError` that the CPU's code would give. A
kernel never ends a call by itself: it leaves words that the host looks at before it needs something from the device.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence

from tessera.gpu_function import failed
from tessera.gpu_program import CheckIndices
from tessera.printing import write_site
from tessera.signature import STATUS_BAD_INDEX, Signature, Site

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
