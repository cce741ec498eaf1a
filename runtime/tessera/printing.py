"""`print` at run time: compiled code calls back with the place in the program and where the values are.

Enters: the text of a site, which says what is printed, and a block of words: the address of each value, then all sizes.
Leaves: the text: of a `print`, or of what an assertion says where it fails.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
from typing import TYPE_CHECKING

from tessera.dtypes import numpy_dtype
from tessera.signature import Site
from tessera.tracing import before_print

if TYPE_CHECKING:
    from tessera.arguments import Array

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)
"""(number of the site, address of the words); it takes the interpreter's lock by itself."""


NOTE = "note"
"""The operator of a site whose text belongs to the assertion that fails next."""

_noted = threading.local()


def note_failure(text: str) -> None:
    """Keeps what is said of the assertion that fails next in this thread."""
    _noted.text = text


def noted_failure() -> str:
    """What was kept last, once."""
    text: str = getattr(_noted, "text", "")
    _noted.text = ""
    return text


def write_site(site: Site, words: int) -> None:
    """Writes what a site prints, or keeps it for the assertion that fails next."""
    text = printed_text(site.text, words)
    if site.operator == NOTE:
        note_failure(text)
    else:
        before_print()
        sys.stdout.write(text)


def printed_text(text: str, words: int) -> str:
    """What a site prints, with the values that `words` lead to."""
    pieces = json.loads(text)
    values = [piece for piece in pieces if not isinstance(piece, str)]
    count = len(values) + sum(rank for _, _, rank in values)
    block = list((ctypes.c_int64 * count).from_address(words)) if count else []
    addresses, sizes = iter(block[: len(values)]), iter(block[len(values) :])
    shown = []
    for piece in pieces:
        if isinstance(piece, str):
            shown.append(piece)
        else:
            format_, dtype, rank = piece
            shown.append(_show(_array(next(addresses), dtype, tuple(next(sizes) for _ in range(rank))), format_))
    return "".join(shown)


def _array(address: int, dtype: str, shape: tuple[int, ...]) -> Array:
    import numpy as np

    kind = numpy_dtype(dtype)
    shape = shape[:-1] if kind.kind == "c" else shape  # the last dim of the memory is that of the two parts
    count = int(np.prod(shape, dtype=np.int64))
    data = ctypes.string_at(address, count * kind.itemsize) if count else b""
    return np.frombuffer(data, kind).reshape(shape)


def _show(array: Array, format_: str) -> str:
    import numpy as np

    if array.ndim == 0:
        return format(array[()].item() if format_ else array[()], format_)
    if not format_:
        return np.array2string(array, separator=", ")
    shown = [_show(item, format_) for item in array]
    return f"[{', '.join(shown)}]"
