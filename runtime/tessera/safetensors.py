"""Reads and writes `.safetensors` files: the length of a header, the header as JSON, then the bytes of all tensors.

Enters: a path. Leaves: arrays by name, which are copies. A file that is cut off or says what cannot be is a
`TesseraError`. The other way: arrays by name become the bytes of a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tessera.dtypes import numpy_dtype
from tessera.errors import UNREADABLE_FILE, UNREADABLE_WEIGHTS, failure

if TYPE_CHECKING:
    from tessera.arguments import Array

_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool", "C64": "complex64",
}  # fmt: skip


def read_safetensors(path: str) -> dict[str, Array]:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise failure(UNREADABLE_FILE, f"cannot read `{path}`: {error.strerror}") from None
    try:
        return _tensors(data)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        message = f"cannot read the weights in `{path}`: {error}"
        raise failure(UNREADABLE_WEIGHTS, message, ("it is not a safetensors file, or it is damaged",)) from None


def _tensors(data: bytes) -> dict[str, Array]:
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise ValueError("its header is cut off")
    header = json.loads(data[8 : 8 + length])
    body = data[8 + length :]
    return {name: _tensor(name, entry, body) for name, entry in header.items() if name != "__metadata__"}


def _tensor(name: str, entry: dict[str, Any], body: bytes) -> Array:
    import numpy as np

    if entry["dtype"] not in _DTYPES:
        raise ValueError(f"`{name}` has the dtype {entry['dtype']}, which is not known")
    dtype, shape = numpy_dtype(_DTYPES[entry["dtype"]]), tuple(map(int, entry["shape"]))
    begin, end = entry["data_offsets"]
    count = 1
    for size in shape:
        count *= size
    if not 0 <= begin <= end <= len(body) or end - begin != count * dtype.itemsize or min(shape, default=0) < 0:
        raise ValueError(f"`{name}` should have {count * dtype.itemsize} bytes at {begin} to {end} of {len(body)}")
    return np.frombuffer(body[begin:end], dtype).reshape(shape).copy()


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
