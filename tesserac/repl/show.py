"""Values of the session as text: the type, a summary of a large tensor, then values, abbreviated."""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.commands.showing import MOST_VALUES, show_array, summary
from tesserac.repl.values import Value
from tesserac.types.ty import (
    SCALED_NAMES,
    BoolType,
    FloatType,
    IntType,
    NoneType,
    RunIntType,
    StrType,
    StructType,
    TensorType,
    TupleType,
)

INDENT = "  "


def show(value: Value) -> str:
    """All of a value, with a line end after each line."""
    match value.type:
        case NoneType():
            return ""
        case TensorType(is_scaled=True):
            return f"{value.type.show()}\n" + _named_parts(SCALED_NAMES, value)
        case TensorType():
            return show_array(value.leaves[0], heading(value))
        case TupleType() if value.leaves:
            return "".join(map(show, value.items()))
        case StructType(fields=fields):
            return f"{heading(value)}\n" + _named_parts([name for name, _ in fields], value)
    return f"{one_line(value)}\n"


def _named_parts(names: Sequence[str], value: Value) -> str:
    return "".join(f"{INDENT}{name}: {one_line(part)}\n" for name, part in zip(names, value.items(), strict=True))


def one_line(value: Value) -> str:
    """A value in a list of names: small ones whole, others by their type and summary."""
    match value.type:
        case IntType(value=known) | BoolType(value=known):
            return str(known)
        case StrType(value=known):
            return repr(known)
        case FloatType(value=known):
            return repr(known) if known is not None else f"{float(value.leaves[0])!r}"
        case RunIntType():
            return str(int(value.leaves[0]))
        case TupleType(items=items) if not value.leaves:
            return f"({', '.join(map(one_line, value.items()))}{',' * (len(items) == 1)})"
        case TensorType(dims=()):
            return show_array(value.leaves[0], heading(value)).rstrip()
    return heading(value, always=True)


def heading(value: Value, *, always: bool = False) -> str:
    """The type, and for a tensor that is not shown whole what is in it."""
    shown = value.type.show()
    if not isinstance(value.type, TensorType) or not value.type.dims:
        return shown
    array = value.leaves[0]
    return f"{shown}  {summary(array)}" if always or array.size > MOST_VALUES else shown
