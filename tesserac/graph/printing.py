"""What a `print` writes, as pieces: text that is known, and places for values of the run.

Enters: pieces of a typed `Print`, built. Leaves: the attribute and the operands of a `form.print`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Value
from tesserac.types.ty import (
    Aggregate,
    BoolType,
    DictType,
    FloatType,
    IntType,
    StrType,
    StructType,
    TensorType,
    TupleType,
    Type,
    part_names,
    parts,
    scaled_parts,
)

Leaf = Callable[[Type], Value | None]
"""The next value of the run for a type that has one; None where the type carries it."""


@dataclass
class Pieces:
    """Grows from left to right; neighbouring texts become one."""

    pieces: list[str | tuple[str]] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def text(self, text: str) -> None:
        if self.pieces and isinstance(self.pieces[-1], str):
            self.pieces[-1] += text
        else:
            self.pieces.append(text)

    def value(self, value: Value, format_: str) -> None:
        self.values.append(value)
        self.pieces.append((format_,))

    def show(self, type_: Type, format_: str, leaf: Leaf) -> None:
        """A value as a person would write it."""
        if isinstance(type_, TensorType) and type_.is_scaled:
            type_ = scaled_parts(type_)
        if isinstance(type_, Aggregate):
            self._show_parts(type_, format_, leaf)
        elif (value := leaf(type_)) is not None:
            self.value(value, format_)
        else:
            self.text(_constant(type_, format_))

    def _show_parts(self, type_: Aggregate, format_: str, leaf: Leaf) -> None:
        opening, names, closing = _frame(type_)
        self.text(opening)
        for place, part in enumerate(parts(type_) or ()):
            self.text(", " if place else "")
            self.text(names[place] if names else "")
            self.show(part, format_, leaf)
        self.text(closing)


def _frame(type_: Aggregate) -> tuple[str, Sequence[str], str]:
    """What stands before the parts of a value, before each of them, and after them."""
    match type_:
        case StructType():
            return f"{type_.name}(", [f"{name}=" for name in part_names(type_)], ")"
        case DictType(entries=entries):
            return "{", [f"{key!r}: " for key, _ in entries], "}"
        case TupleType(items=items) if len(items) == 1:
            return "(", (), ",)"
    return "(", (), ")"


def _constant(type_: Type, format_: str) -> str:
    match type_:
        case IntType(value=size) if size.constant is not None:
            return format(size.constant, format_)
        case FloatType(value=number) if number is not None:
            return format(number, format_)
        case BoolType(value=flag):
            return str(flag)
        case StrType(value=text):
            return text
    return type_.show()
