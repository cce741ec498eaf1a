"""One case of ONNX's node tests: an operator, its attributes, what goes in and what must come out.

Operand i is `x{i}` in the text of a form. What a form needs while compiling (axes, sizes, repeats) it takes from
`value`; an operand that the text does not name is then no parameter of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

DTYPES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "bool": "bool", "complex64": "c64",
    "complex128": "c128", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "int4": "i4", "uint64": "u64",
    "uint32": "u32", "uint16": "u16", "uint8": "u8", "uint4": "u4", "float8_e4m3fn": "fp8_e4m3",
    "float8_e5m2": "fp8_e5m2", "float4_e2m1fn": "fp4_e2m1", "float8_e8m0fnu": "fp8_e8m0",
}  # fmt: skip
# Formats that are no dtypes of the language: bytes, which `float_codes` writes and `codes_to_float` reads.
CODES = {"float8_e4m3fnuz": "e4m3fnuz", "float8_e5m2fnuz": "e5m2fnuz"}
# Integers of two bits: bytes that hold their numbers, which wrap around where a program makes them.
PAIRS = {"int2": np.int8, "uint2": np.uint8}


class NotInTheLanguage(Exception):
    """Why a case has no program: what it needs is no tensor program, or a type that the language lacks."""


@dataclass(frozen=True)
class Node:
    name: str
    op: str
    inputs: tuple[Any, ...]
    attributes: dict[str, Any]
    outputs: tuple[str, ...]
    results: tuple[Any, ...]

    def attr(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def has(self, i: int) -> bool:
        return i < len(self.inputs) and self.inputs[i] is not None

    def value(self, i: int, default: Any = None) -> Any:
        """Operand i as numbers of Python."""
        return np.asarray(self.inputs[i]).tolist() if self.has(i) else default

    def shape(self, i: int = 0) -> tuple[int, ...]:
        return tuple(self.inputs[i].shape)

    def rank(self, i: int = 0) -> int:
        return len(self.shape(i))

    def dtype(self, i: int = 0) -> str:
        return dtype_name(self.inputs[i])

    def size(self, i: int = 0) -> tuple[int, ...]:
        """The shape of result i."""
        return tuple(self.results[i].shape)

    def is_float(self, i: int = 0) -> bool:
        return self.dtype(i)[0] in "fb" and self.dtype(i) != "bool"

    def axis(self, default: int = -1, name: str = "axis") -> int:
        return int(self.attr(name, default))

    def every(self) -> str:
        return ", ".join(f"x{i}" for i in range(len(self.inputs)))


def plain(array: Any) -> Any:
    """The array as a program takes it: of a format that is no dtype, its codes, or its numbers in bytes."""
    array = np.array(array, order="C")
    if str(array.dtype) in PAIRS:
        return array.astype(PAIRS[str(array.dtype)])
    return array.view(np.uint8) if str(array.dtype) in CODES else array


def dtype_name(array: Any) -> str:
    name = str(plain(array).dtype)
    if name not in DTYPES:
        raise NotInTheLanguage(f"elements of {'text' if name in ('object', 'str') or name[0] in '<|' else name}")
    return DTYPES[name]


def called(function: str, *parts: Any, **options: Any) -> str:
    """The text of a call; what is None is left out."""
    named = [f"{key}={literal(value)}" for key, value in options.items() if value is not None]
    return f"{function}({', '.join([literal(part) for part in parts if part is not None] + named)})"


def literal(value: Any) -> str:
    """A str is a part of a program, bytes are text in quotes, as ONNX has it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return f'"{value.decode()}"'
    if isinstance(value, (list, tuple)):
        inner = ", ".join(literal(item) for item in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)


Form = Callable[[Node], str]
FORMS: dict[str, Form] = {}


def form(*ops: str) -> Callable[[Form], Form]:
    """Registers how operators of ONNX are written: an expression, or a body of several lines."""

    def keep(made: Form) -> Form:
        FORMS.update(dict.fromkeys(ops, made))
        return made

    return keep
