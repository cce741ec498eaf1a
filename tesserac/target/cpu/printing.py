"""What the runtime must know to write a `print`: its pieces, with the dtype and rank of each value, as text."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tesserac.ir.core import Attr
from tesserac.ir.types import MemRefType


def describe_print(pieces: Attr, values: Sequence[MemRefType]) -> str:
    """JSON that `tessera.printing` reads: a text, or [format, NumPy's dtype, rank]."""
    assert isinstance(pieces, tuple)
    shown = iter(values)
    rows: list[str | list[str | int]] = []
    for piece in pieces:
        if isinstance(piece, str):
            rows.append(piece)
        else:
            assert isinstance(piece, tuple) and isinstance(piece[0], str)
            value = next(shown)
            rows.append([piece[0], value.dtype.numpy_name, len(value.dims)])
    return json.dumps(rows)
