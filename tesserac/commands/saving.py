"""`tessera run FILE --save PATH`: a result as a file, by the ending of its name.

Enters: what `main` returned. Leaves: `.npy` of one tensor, `.npz` of a tuple, `.png` of u8 pixels: [H, W] grey,
[H, W, 3] colours, [H, W, 4] with opacity. The file is written beside its place and renamed, so that no one reads half
of it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np

from tessera.files import write_file
from tesserac.commands.outcome import UsageMistake
from tesserac.commands.showing import AnyArray, array_type

_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}
"""PNG's number for pixels of that many values."""


def refuse_ending(path: str) -> None:
    """Raises UsageMistake for a name that says no format: before the program runs, not after."""
    if Path(path).suffix.lower() not in _WRITERS:
        raise UsageMistake(f"cannot save as `{path}`: the name must end in {', '.join(_WRITERS)}")


def save_value(value: object, path: str) -> str:
    """Writes the file and says so."""
    content = _WRITERS[Path(path).suffix.lower()](value)
    try:
        write_file(path, content)
    except OSError as error:
        raise UsageMistake(f"cannot write `{path}`: {error.strerror}") from None
    return f"wrote {path} ({len(content)} bytes)\n"


def _npy(value: object) -> bytes:
    stream = BytesIO()
    np.save(stream, _one_array(value, "npy"), allow_pickle=False)
    return stream.getvalue()


def _npz(value: object) -> bytes:
    items = value if isinstance(value, tuple) else (value,)
    stream = BytesIO()
    np.savez(stream, *(_one_array(item, "npz") for item in items), allow_pickle=False)
    return stream.getvalue()


def _png(value: object) -> bytes:
    pixels = _one_array(value, "png")
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in _COLOUR_TYPES or not pixels.size:
        found = array_type(_one_array(value, "png"))
        raise UsageMistake(f"a .png holds Tensor[H, W, u8] or Tensor[H, W, 3, u8], but `main` returned {found}")
    height, width, channels = pixels.shape
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)  # 0: no filter
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _one_array(value: object, ending: str) -> AnyArray:
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    raise UsageMistake(f"a .{ending} holds one tensor, but `main` returned a {type(value).__name__}")


_WRITERS: dict[str, Callable[[object], bytes]] = {".npy": _npy, ".npz": _npz, ".png": _png}
