"""Sums of exponentials that one pass over a row gives: which rows, and what of them is what.

    %top = form.reduce(%y) {max};  %m = form.map(%top) { exp_int };  %total = form.reduce(form.map(%y, %m) { exp_term })

The maximum must be known before the sum begins, so that a row is read twice. But a term is a power of two times a
number that does not depend on %m: terms relative to any other integer give the same bits, times a power of two, where
none of them underflows. `tile/launches/one_pass.py` takes an integer from the first block, and looks afterwards
whether it served.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.schedule.dialect import launch_kind, launch_loops
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.space import computing, yielded_op
from tesserac.schedule.model.uses import Passes
from tesserac.types.dtype import F32

ONE_PASS = "one_pass"
"""The attribute of a launch whose rows are read once."""


@dataclass(frozen=True)
class ExponentialSum:
    """The forms of a launch: the maximum of a row, which may stand there more than once, its integer exponent, a term,
    and the sum of terms."""

    tops: tuple[Op, ...]
    exponent: Op
    term: Op
    total: Op


def exponential_sum(launch: Op) -> ExponentialSum | None:
    """What a launch computes, if it folds its rows to such a sum and to nothing else."""
    reduces = [op for op in computing(launch) if op.name == "form.reduce"]
    tops = tuple(op for op in reduces if op.attrs["kind"] == "max")
    sums = [op for op in reduces if op.attrs["kind"] == "sum"]
    if len(sums) != 1 or len(tops) + 1 != len(reduces):
        return None
    (total,) = sums
    term = total.operands[0].defining_op
    if term is None or not _is_term(term):
        return None
    exponent = term.operands[1].defining_op
    same = all(term.operands[0] is top.operands[0] for top in tops)
    if not same or exponent is None or not _is_exponent(exponent, tops) or len(term.result.uses) != 1:
        return None
    return ExponentialSum(tops, exponent, term, total) if _is_single(total.result) else None


def _is_exponent(op: Op, tops: tuple[Op, ...]) -> bool:
    """Whether a map follows a row's maximum alone, to its integer exponent."""
    follows = op.name == "form.map" and [value.defining_op in tops for value in op.operands] == [True]
    return follows and any(inner.name == "scalar.exp_int" for inner in op.body.ops)


def _is_term(op: Op) -> bool:
    """Whether a map gives the terms of a softmax, and no approximations of them."""
    if op.name != "form.map" or len(op.operands) != 2:
        return False
    first, *others = op.body.ops
    plain = first.name == "scalar.exp_term" and list(first.operands) == op.body.args and len(others) == 1
    return plain and "narrow" not in first.attrs and _is_single(op.operands[0]) and _is_single(op.result)


def _is_single(value: Value) -> bool:
    ty = tensor_type(value)
    return ty.dtype == F32 and not ty.policy.accum


def read_once(launch: Op, held: int) -> None:
    """Has a launch read its rows once, where they may be longer than `held`, and all it writes is of rows."""
    *rows, fold = launch_loops(launch)
    if launch_kind(launch) != "rows" or (fold.size.constant or held + 1) <= held or any(x.block > 1 for x in rows):
        return
    outs = [yielded_op(value) for value in launch.body.terminator.operands]
    if exponential_sum(launch) is not None and not any(map(Passes(launch).has_fold, outs)):
        launch.attrs[ONE_PASS] = True
        because(launch, "terms are relative to the first block's maximum: a row is read once")
