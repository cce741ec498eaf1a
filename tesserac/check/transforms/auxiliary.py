"""`has_aux=True`: a function gives one float and something besides, which derivatives pass on as it is.

Enters: what a transform was told, and what the function under it gives. Leaves: whether that is a pair, as it has to
be, or a diagnostic.
"""

from __future__ import annotations

from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.check.transforms.wrt import function_name
from tesserac.diag.codes.differentiation import E0726
from tesserac.diag.codes.names import E0210
from tesserac.types.ty import BoolType, TransformType, TupleType, Type

HAS_AUX = "has_aux"


def reads_aux(body: Body, said: typed.Expr | None) -> bool:
    """Whether the setting is one: True or False, known while compiling."""
    if said is None or isinstance(said.type, BoolType):
        return True
    body.sink.error(E0210, at=said.span, expected="True or False", found=type_text(said.type))
    return False


def has_aux(type_: TransformType) -> bool:
    return type_.setting(HAS_AUX) == BoolType(True)


def is_pair(body: Body, function: Type, found: Type, transform: str, callee: Callee) -> bool:
    """Whether a function gives a value and something besides; says so where it does not."""
    if isinstance(found, TupleType) and len(found.items) == 2:
        return True
    shown = f"{function_name(function)} gives {type_text(found)}"
    draft = body.sink.error(E0726, at=callee.at, label=shown, transform=transform)
    draft.remark("the first is the value to differentiate, the second anything besides")
    return False
