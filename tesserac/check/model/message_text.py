"""How types, sizes and operators read in a message.

Enters: types and operators. Leaves: text. Sizes that are names or expressions stand in quotes, numbers do not.
"""

from __future__ import annotations

from collections.abc import Iterable

from tesserac.types.algebra import outline
from tesserac.types.dims import Dim
from tesserac.types.ty import (
    FloatType,
    FunctionType,
    IntType,
    OperatorType,
    RecordType,
    RunIntType,
    TensorType,
    TransformType,
    TupleType,
    Type,
)


def dim_text(dim: Dim) -> str:
    return str(dim) if dim.fraction is not None else f'"{dim}"'


def dims_text(dims: Iterable[Dim]) -> str:
    return f"[{', '.join(map(dim_text, dims))}]"


# As many numbers of a list are told one by one.
_WRITTEN_OUT = 3


def type_text(type_: Type) -> str:
    if isinstance(type_, IntType):
        return "an int"
    if isinstance(type_, RunIntType):
        return "an int of the run"
    if isinstance(type_, FloatType):
        return "a float"
    if isinstance(type_, RecordType):
        return f"a `{type_.kind}`"
    if isinstance(type_, FunctionType | TransformType):
        return f"the {type_.show()}"
    if isinstance(type_, TupleType) and len(type_.items) > _WRITTEN_OUT:
        kinds = {type_text(item) for item in type_.items}
        if kinds <= {"an int"} or kinds <= {"a float"}:
            return f"{len(type_.items)} {kinds.pop().split()[1]}s"
    if isinstance(type_, TupleType) and type_.items and all(isinstance(item, IntType) for item in type_.items):
        return f"the ints `{ints_text(type_)}`"
    return f"`{type_.show()}`"


def ints_text(type_: TupleType) -> str:
    """A tuple of ints as it is written."""
    values = [str(item.value) for item in type_.items if isinstance(item, IntType)]
    return f"({', '.join(values)}{',' if len(values) == 1 else ''})"


def change_texts(before: Type, after: Type) -> dict[str, str]:
    """What a name was and would be; of operators that differ only in how they are made, that."""
    if isinstance(before, OperatorType) and isinstance(after, OperatorType) and before.show() == after.show():
        made, other = outline(before.tree), outline(after.tree)
        if made != other:
            return {"before": f"`{made}`", "after": f"`{other}`"}
    return {"before": before.show(), "after": after.show()}


def structure_text(before: Type, after: Type) -> str:
    """What two operators of one size differ in, where a name must keep its type; nothing for other types."""
    if not (isinstance(before, OperatorType) and isinstance(after, OperatorType) and before.show() == after.show()):
        return ""
    return "the type of an operator is what it is made of: change its parts, and make it where it is used"


def storage_text(type_: TensorType) -> str:
    return f"{type_.dtype}{type_.policy}"


def axis_text(axis: int, rank: int) -> str:
    """`first`, `last`, or a number counted from 1."""
    if axis == rank - 1:
        return "last" if rank > 1 else "only"
    names = ("first", "second", "third")
    return names[axis] if axis < len(names) else f"{axis + 1}th"


SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floor_div": "//", "mod": "%", "matmul": "@", "power": "**",
    "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=",
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
}  # fmt: skip
"""Operators that are written between their operands."""

VERBS = {"add": "added", "sub": "subtracted", "mul": "multiplied", "div": "divided"}
NOUNS = {"add": "addition", "sub": "subtraction", "mul": "product", "div": "division"}


def verb(operator: str) -> str:
    """What happens to an operand that is lined up with another."""
    return VERBS.get(operator, "combined")


def noun(operator: str) -> str:
    return NOUNS.get(operator, f"`{written(operator)}`")


def written(operator: str) -> str:
    """An operator as a program writes it."""
    name, is_fold, fold = operator.partition("reduce_")
    if name == "all_" and is_fold:
        return f'all_reduce(op="{fold}")'
    return SYMBOLS.get(operator, operator)


def kinds_text(kinds: str) -> str:
    names = {
        "w": "f32 and f64", "f": "floats", "i": "integers", "u": "unsigned integers", "b": "bools",
        "c": "complex numbers", "s": "formats of storage",
    }  # fmt: skip
    words = [names[kind] for kind in kinds if not (kind == "u" and "i" in kinds)]
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1]
