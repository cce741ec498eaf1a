"""Values of the session as text: the type, a summary of a large tensor, then values, abbreviated."""

from __future__ import annotations

from tesserac.commands.showing import MOST_VALUES, show_array, summary
from tesserac.repl.values import Value
from tesserac.types.ty import BoolType, FloatType, IntType, NoneType, StrType, StructType, TensorType, TupleType

INDENT = "  "


def show(value: Value) -> str:
    """All of a value, with a line end after each line."""
    match value.type:
        case NoneType():
            return ""
        case TensorType():
            return show_array(value.leaves[0], heading(value))
        case TupleType() if value.leaves:
            return "".join(map(show, value.items()))
        case StructType(fields=fields):
            named = zip(fields, value.items(), strict=True)
            return f"{heading(value)}\n" + "".join(f"{INDENT}{name}: {one_line(part)}\n" for (name, _), part in named)
    return f"{one_line(value)}\n"


def one_line(value: Value) -> str:
    """A value in a list of names: small ones whole, others by their type and summary."""
    match value.type:
        case IntType(value=known) | BoolType(value=known):
            return str(known)
        case StrType(value=known):
            return repr(known)
        case FloatType(value=known):
            return repr(known) if known is not None else f"{float(value.leaves[0])!r}"
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
