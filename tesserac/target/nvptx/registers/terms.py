"""What is known of a map before code is written for it: which of its terms are the hardware's, to what its results are
rounded, and for how many of its elements rare programs are asked for at once.
"""

from __future__ import annotations

from tesserac.ir.core import Op, attr
from tesserac.ir.core import Value as IRValue
from tesserac.ir.types import ScalarType
from tesserac.tile.gpu.model.values import fragment
from tesserac.types.dtype import BF16, F32, DType

SINGLE = ScalarType(F32)
MOST_HELD, ASKED = 96, 16
"""Registers of what a map reads and makes from which on a question is asked for some of them at a time; how many."""


def rounded_to(op: Op) -> DType:
    """The type that what a map gives is rounded to, here or later."""
    return attr(op, "narrow", DType) if "narrow" in op.attrs else fragment(op.result).dtype


def near_terms(op: Op) -> frozenset[Op]:
    """Terms that go on to narrow numbers alone: those that the program shows as such, and of scores that a matrix unit
    has just given those of attention."""
    said = [inner for inner in op.body.ops if inner.name == "scalar.exp_term" and "narrow" in inner.attrs]
    scores = {arg for arg, v in zip(op.body.args, op.operands, strict=True) if _is_product(v)}
    terms = [inner for inner in op.body.ops if inner.name == "scalar.exp_term" and inner.result.type == SINGLE]
    found = [term for term in terms if _score(term.operands[0]) in scores]
    return frozenset((*said, *(found if found and _goes_on_narrow(op) else ())))


def _score(x: IRValue) -> IRValue:
    """What a score is some number of times, less what its row has."""
    made = x.defining_op
    if made is not None and made.name == "scalar.sub":
        x, made = made.operands[0], made.operands[0].defining_op
    return made.operands[0] if made is not None and made.name == "scalar.mul" else x


def _is_product(value: IRValue) -> bool:
    made = value.defining_op
    return made is not None and made.name == "gpu.wait_mma"


def _goes_on_narrow(op: Op) -> bool:
    """Whether all that a map gives is rounded to bf16, at once or by the maps that read it."""
    if rounded_to(op) == BF16:
        return True
    users = [user for user, _ in op.result.uses]
    return bool(users) and all(user.name == "gpu.map" and rounded_to(user) == BF16 for user in users)


def asked_together(op: Op) -> int:
    """For how many registers at once it is asked whether any needs a rare program: what the question computes is kept
    for the answer, beside all that the map reads and has made. Terms that the hardware makes keep nothing, where they
    are all that is computed."""
    held = sum(fragment(value).layout.count for value in {*op.operands, op.result})
    plain = "narrow" in op.attrs and not any(inner.name == "scalar.select" for inner in op.body.ops)
    return ASKED if held > MOST_HELD and not plain else fragment(op.result).layout.count
