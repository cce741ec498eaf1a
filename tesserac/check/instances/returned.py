"""What a function returns: one type for all of its returns.

Enters: the values that a checked body returns, and its block. Leaves: their type, and the block with each operator as
the one that they have in common.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.check.model import typed
from tesserac.check.model.message_text import change_texts, structure_text, type_text
from tesserac.check.state.body import Body
from tesserac.check.values.common_types import converted, meet
from tesserac.diag.codes.names import E0212
from tesserac.types.ty import ErrorType, NoneType, Type, holds_operator


def result_type(body: Body) -> Type:
    """The type of all returns; a function without one returns None."""
    if not body.flow.returns:
        return NoneType()
    result = body.flow.returns[0].type
    for value in body.flow.returns[1:]:
        joined = meet(body, result, value.type)
        if joined is None:
            draft = body.sink.error(E0212, at=value.span, name="the result", **change_texts(result, value.type))
            draft.note(body.flow.returns[0].span, f"this returns {type_text(result)}")
            if structure := structure_text(result, value.type):
                draft.remark(structure)
            return ErrorType()
        result = joined
    return result


def returning(body: Body, block: typed.Block, result: Type) -> typed.Block:
    """Every operator that is returned as the one that they have in common; numbers rise where code is made of them."""
    if not holds_operator(result):
        return block
    made: list[typed.Stmt] = []
    for statement in block:
        match statement:
            case typed.Return(value=value):
                statement = replace(statement, value=converted(body, value, result))
            case typed.If(then=then, otherwise=otherwise):
                ways = (returning(body, way, result) for way in (then, otherwise))
                statement = replace(statement, then=next(ways), otherwise=next(ways))
        made.append(statement)
    return tuple(made)
