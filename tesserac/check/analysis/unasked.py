"""What is computed only where a program asks for it: the second side of `and` and `or`.

Enters: a checked expression. Leaves: whether computing it may end the call, or take any time. All else costs less than
a branch, and is computed whether it is asked for or not.
"""

from __future__ import annotations

from tesserac.check.model import typed
from tesserac.ops.elementwise import FloorDiv, Mod
from tesserac.types.dtype import F64
from tesserac.types.ty import TensorType, Type


def may_end(value: typed.Expr) -> bool:
    """An index may be out of range, an integer divided by zero; a call may do either, and loop."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case typed.Apply(op=op, operands=operands):
                if isinstance(op, FloorDiv | Mod) or op.may_fail(tuple(_as_tensor(part.type) for part in operands)):
                    return True
                waiting += operands
            case typed.Coerce(value=inner) | typed.Item(value=inner):
                waiting.append(inner)
            case typed.TupleOf(items=items):
                waiting += items
            case typed.Conditional(test=test, then=then, otherwise=otherwise):
                waiting += [test, then, otherwise]
            case typed.Static() | typed.Local() | typed.Weight():
                pass
            case _:
                return True
    return False


def _as_tensor(type_: Type) -> TensorType:
    """Numbers without a dtype are those of the run."""
    return type_ if isinstance(type_, TensorType) else TensorType((), F64)
