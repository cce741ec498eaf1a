"""Reads and writes `.safetensors` files: the length of a header, the header as JSON, then the bytes of all tensors.

Enters: a path. Leaves: arrays by name, which are copies. A file that is cut off or says what cannot be is a
`TesseraError`. The other way: arrays by name become the bytes of a file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tessera.dtypes import numpy_dtype
from tessera.errors import UNREADABLE_FILE, UNREADABLE_WEIGHTS, TesseraError, failure, reason_of, shown_number
from tessera.files import read_file

if TYPE_CHECKING:
    from tessera.arguments import Array

_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool", "C64": "complex64",
}  # fmt: skip

_PICKLED = (
    "PyTorch or NumPy wrote it, as an archive",
    "of PyTorch: `safetensors.torch.save_file(net.state_dict(), path)`; of NumPy: `m.params = dict(numpy.load(path))`",
)
_OTHER_FILES = {
    b"\x93NUMPY": ("it is one array of NumPy", "`m.params = {\"w\": numpy.load(path)}` sets one param"),
    b"PK\x03\x04": _PICKLED,
    b"\x80": ("it is a pickle", "of PyTorch: `safetensors.torch.save_file(torch.load(path), path)`"),
    b"\x89HDF": ("it is an HDF5 file", "`m.params = {\"w\": numpy.asarray(file[\"w\"])}` sets params"),
}
"""Other files of weights, by how they begin: what they are, and how their arrays come here."""


def read_safetensors(path: str) -> dict[str, Array]:
    try:
        data = read_file(path)
    except (OSError, ValueError) as error:
        raise failure(UNREADABLE_FILE, f"cannot read `{path}`: {reason_of(error)}") from None
    try:
        return _tensors(data)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _unreadable(path, data, str(error)) from None


def _unreadable(path: str, data: bytes, reason: str) -> TesseraError:
    others = _OTHER_FILES if data[8:9] != b"{" else {}
    made = next((words for begin, words in others.items() if data.startswith(begin)), None)
    reason, note = made or (reason, "it is not a safetensors file, or it is damaged")
    return failure(UNREADABLE_WEIGHTS, f"cannot read the weights in `{path}`: {reason}", (note,))


def _tensors(data: bytes) -> dict[str, Array]:
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise ValueError("its header is cut off")
    if _is_deep(data[8 : 8 + length]):
        raise ValueError("its header has brackets that do not close, or that are nested too deeply")
    header = json.loads(data[8 : 8 + length])
    if not isinstance(header, dict):
        raise ValueError("its header is not an object")
    body = data[8 + length :]
    return {name: _tensor(name, entry, body) for name, entry in header.items() if name != "__metadata__"}


_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"')
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
MOST_NESTED = 8
"""Brackets within one another in a header; those of a tensor are three."""


def _is_deep(header: bytes) -> bool:
    """Found without recursion: a compiler in another thread may have made room for more than the stack of this one
    holds, and then Python's reader ends the process."""
    brackets = _STRINGS.sub(b"", header).translate(None, _NO_BRACKETS)
    for _ in range(MOST_NESTED):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets)


def _tensor(name: str, entry: object, body: bytes) -> Array:
    import numpy as np

    if not isinstance(entry, dict) or not entry.keys() >= {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"`{name}` lacks its dtype, shape or place")
    kind, shape, offsets = entry["dtype"], _sizes(entry["shape"]), _sizes(entry["data_offsets"])
    if not isinstance(kind, str) or kind not in _DTYPES:
        raise ValueError(f"`{name}` has the dtype {kind}, which is not known")
    if shape is None or offsets is None or len(offsets) != 2:
        raise ValueError(f"the shape and the place of `{name}` must be lists of sizes")
    dtype, (begin, end) = numpy_dtype(_DTYPES[kind]), offsets
    count = math.prod(shape)
    if not begin <= end <= len(body) or end - begin != count * dtype.itemsize:
        bytes_ = shown_number(count * dtype.itemsize)
        raise ValueError(f"`{name}` should have {bytes_} bytes at {begin} to {end} of {len(body)}")
    return np.frombuffer(body[begin:end], dtype).reshape(shape).copy()


def _sizes(value: object) -> tuple[int, ...] | None:
    """A list of sizes as JSON has it; None for anything else: text, fractions, true."""
    if not isinstance(value, list) or not all(type(size) is int and 0 <= size < 1 << 63 for size in value):
        return None
    return tuple(value)


def encode_safetensors(tensors: Mapping[str, Array]) -> bytes:
    """The bytes of a file with these tensors. Raises ValueError for a dtype that the format lacks."""
    names = {dtype: name for name, dtype in _DTYPES.items()}
    header: dict[str, object] = {}
    parts: list[bytes] = []
    begin = 0
    for name, tensor in tensors.items():
        if str(tensor.dtype) not in names:
            raise ValueError(f"`{name}` has the dtype {tensor.dtype}, which safetensors lacks")
        parts.append(tensor.tobytes())
        end = begin + len(parts[-1])
        header[name] = {"dtype": names[str(tensor.dtype)], "shape": list(tensor.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])
