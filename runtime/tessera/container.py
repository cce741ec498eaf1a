"""The layout of every file that compiled code is kept in.

    8 bytes   magic            what kind of file this is
    4 bytes   version          of this layout
    4 bytes   length           of the header
    32 bytes  SHA-256          of the length and everything that follows
    header    JSON
    blobs     bytes, whose lengths stand in the header

A file that is cut off, changed or of another version is refused before any of it is used.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from typing import Any

from tessera.image import Image

MAGIC = b"TESSERA\n"
VERSION = 1
_IMAGE = "image 1"
_PREFIX = struct.Struct("<8sII32s")

Row = list[Any]
"""The fields of one object as JSON holds them, in their order."""


def pack(content: object, blobs: Sequence[bytes]) -> bytes:
    header = json.dumps([content, [len(blob) for blob in blobs]], separators=(",", ":")).encode()
    rest = header + b"".join(blobs)
    return _PREFIX.pack(MAGIC, VERSION, len(header), _digest(len(header), rest)) + rest


def unpack(data: bytes) -> tuple[Any, list[bytes]]:
    """What was packed. Raises ValueError, with a reason for people, where it is not exactly that."""
    if len(data) < _PREFIX.size or not data.startswith(MAGIC):
        raise ValueError("it is not a compiled Tessera file, or it is cut off")
    _, version, length, digest = _PREFIX.unpack_from(data)
    if version != VERSION:
        raise ValueError(f"it has format version {version}; this runtime reads version {VERSION}")
    rest = data[_PREFIX.size :]
    if _digest(length, rest) != digest:
        raise ValueError("its content does not match its checksum")
    content, lengths = json.loads(rest[:length])
    blobs, at = [], length
    for size in lengths:
        blobs.append(rest[at : at + size])
        at += size
    return content, blobs


def _digest(length: int, rest: bytes) -> bytes:
    return hashlib.sha256(length.to_bytes(4, "little") + rest).digest()


def image_row(image: Image) -> Row:
    """An image without its bytes."""
    return [image.machine, image.data_offset, image.size, image.slots, image.imports, image.symbols]


def image_of(row: Row, text: bytes, data: bytes) -> Image:
    machine, data_offset, size, slots, imports, symbols = row
    return Image(
        machine=machine,
        text=text,
        data=data,
        data_offset=data_offset,
        size=size,
        slots=tuple(slots),
        imports=tuple((name, offset) for name, offset in imports),
        symbols=tuple((name, offset) for name, offset in symbols),
    )


def image_to_bytes(image: Image) -> bytes:
    return pack([_IMAGE, image_row(image)], [image.text, image.data])


def image_from_bytes(data: bytes) -> Image:
    """Raises ValueError where `data` is not an image."""
    content, blobs = unpack(data)
    if content[0] != _IMAGE:
        raise ValueError(f"it holds {content[0]!r}, not an image")
    return image_of(content[1], *blobs)
