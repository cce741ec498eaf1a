"""What the runtime must know to write a `print`: its pieces, with the dtype and rank of each value, as text."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tesserac.ir.core import Attr
from tesserac.ir.effects import COMPLEX
from tesserac.ir.types import MemRefType
from tesserac.types.dtype import C64, C128, F32, F64

_COMPLEX = {F32: C64, F64: C128}


def describe_print(pieces: Attr, values: Sequence[MemRefType]) -> str:
    """JSON that `tessera.printing` reads: a text, or [format, NumPy's dtype, rank of the memory]. The memory of complex
    numbers has one dim more than they have."""
    assert isinstance(pieces, tuple)
    shown = iter(values)
    rows: list[str | list[str | int]] = []
    for piece in pieces:
        if isinstance(piece, str):
            rows.append(piece)
        else:
            assert isinstance(piece, tuple) and isinstance(piece[0], str)
            value = next(shown)
            dtype = _COMPLEX[value.dtype] if piece[1:] == (COMPLEX,) else value.dtype
            rows.append([piece[0], dtype.numpy_name, len(value.dims)])
    return json.dumps(rows)
