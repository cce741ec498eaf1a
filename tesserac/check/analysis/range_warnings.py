"""What ranges show: results that overflow, constants and integers that lose bits, sums that stop growing.

Enters: a checked function of a program. Leaves: W0401, W0404 and W0405 with the bound or the number of bits.
An end of which nothing is known warns of nothing, except where an exponential meets a dtype with a short range.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tesserac.base.source import Span
from tesserac.check.analysis.range_reasons import RangeReasons
from tesserac.check.analysis.ranges import Find, Ranges, extent_of
from tesserac.check.model import typed
from tesserac.check.model.message_text import SYMBOLS
from tesserac.check.state.body import Body
from tesserac.diag.codes.precision import W0401, W0404, W0405
from tesserac.diag.sink import Draft
from tesserac.numerics.interval import INF, Interval, overflows, values_of
from tesserac.numerics.narrow import nearest
from tesserac.ops.convert import Cast
from tesserac.ops.elementwise import Add
from tesserac.types.dtype import BOOL, F32, DType
from tesserac.types.ty import FloatType, IntType, TensorType

SHORT_RANGE = 1e6
"""A dtype that ends before this has a short range: f16 and fp8."""
FEW_BITS = 16
"""Below this many significant bits whole numbers of everyday size are rounded."""


def warn_of_ranges(body: Body, function: typed.TypedFunction, find: Find) -> None:
    """Reports what the ranges of a function's own expressions show."""
    Ranges(find, extent_of(body.facts), _Warnings(body, function.span.file)).function(function)
    for loop in _loops(function.body):
        _running_sums(body, loop)


class _Warnings:
    """Implements `Watch`. Constants of other files are evaluated here too, but belong to those."""

    def __init__(self, body: Body, file: str) -> None:
        self._body = body
        self._file = file
        self._reasons = RangeReasons(body)

    def bound(self, name: str, value: typed.Expr, range_: Interval) -> None:
        self._reasons.bound(name, value, range_)

    def applied(self, expression: typed.Apply, operands: Sequence[Interval], exact: Interval) -> None:
        ty = expression.type
        if not isinstance(ty, TensorType) or ty.dtype.is_complex or expression.span.file != self._file:
            return
        limit = expression.op.largest_argument(ty.dtype)
        if limit is not None and not ty.policy.saturate:
            self._exponential(expression, operands[0], ty.dtype, limit)
        elif isinstance(expression.op, Cast):
            self._cast(expression, operands[0], exact)
        elif overflows(exact, ty.dtype) and not ty.policy.saturate:
            self._overflow(expression, operands, ty.dtype, exact)

    def _exponential(self, expression: typed.Apply, argument: Interval, dtype: DType, limit: float) -> None:
        known = argument.high < INF
        if argument.high <= limit or not (known or dtype.largest < SHORT_RANGE):
            return
        reaches = f"its argument reaches {argument.high:g}" if known else "nothing bounds its argument"
        name = expression.op.name
        reason = f"{reaches}, the limit is {limit:.4g}"
        label = f"{dtype} holds up to {dtype.largest:g} = {name}({limit:.4g})"
        draft = self._body.sink.warning(
            W0404, at=expression.span, label=label, operation=f"`{name}`", dtype=dtype, reason=reason
        )
        self._reasons.explain(draft, expression.operands, [argument])
        operand = expression.operands[0]
        has_rows = isinstance(operand.type, TensorType) and operand.type.rank > 0
        if name == "exp" and isinstance(operand, typed.Local) and has_rows:
            title = "subtract the maximum of each row: it cancels in a quotient, and exp stays in [0, 1]"
            draft.replace(title, operand.span, f"{operand.name} - max({operand.name}, axis=-1, keep=True)")
        if dtype.largest < SHORT_RANGE:
            draft.remark(f"or compute it in f32, where the limit is {expression.op.largest_argument(F32):.4g}")

    def _overflow(
        self, expression: typed.Apply, operands: Sequence[Interval], dtype: DType, exact: Interval
    ) -> None:
        held = values_of(dtype)
        upper = exact.high < INF and exact.high > held.high
        reached, limit = (exact.high, held.high) if upper else (exact.low, held.low)
        symbol = SYMBOLS.get(expression.op.name, expression.op.name)
        label = "the result is then infinite" if dtype.is_float else "the result then wraps around"
        draft = self._body.sink.warning(
            W0404,
            at=expression.span,
            label=label,
            operation=f"`{symbol}`",
            dtype=dtype,
            reason=f"it reaches {reached:.6g}, the limit is {limit:.6g}",
        )
        self._reasons.explain(draft, expression.operands, operands)

    def _cast(self, expression: typed.Apply, value: Interval, exact: Interval) -> None:
        """Whole numbers that become others or floats; a float that is narrowed says so itself, a bool asks for zero."""
        source, target = expression.operands[0].type, expression.type
        assert isinstance(target, TensorType)
        if not isinstance(source, TensorType) or not source.dtype.is_integer or target.dtype == BOOL:
            return
        largest = min(exact.magnitude, source.dtype.largest)
        if overflows(exact, target.dtype) and not target.policy.saturate:
            self._overflow(expression, [value], target.dtype, exact)
        elif target.dtype.is_float and _loses_bits(value, largest, target.dtype):
            bits = math.ceil(math.log2(largest))
            kept, exactly = target.dtype.significand, 2**target.dtype.significand
            reason = f"it keeps {kept} of {bits} bits"
            label = f"whole numbers above {exactly} are rounded"
            what = f"a cast from {source.dtype}"
            draft = self._loss(expression.span, what, target.dtype, reason, label)
            self._reasons.explain(draft, expression.operands, [value])
            text = self._body.rules.text(expression.span)
            if kept < F32.significand and f", {target.dtype})" in text and expression.span.file == self._file:
                wider = text.replace(f", {target.dtype})", f", {F32})")
                draft.replace(f"{F32} keeps {F32.significand} bits", expression.span, wider)

    def coerced(self, expression: typed.Coerce, value: Interval) -> None:
        """A number of the program takes a dtype."""
        ty, number = expression.type, _literal(expression.value)
        if not isinstance(ty, TensorType) or not ty.dtype.is_float or number is None:
            return
        text = self._body.rules.text(expression.span)
        if expression.span.file != self._file or not text or not math.isfinite(number):
            return
        held = nearest(number, ty.dtype)
        if not math.isfinite(held) or abs(number) > 2 * ty.dtype.largest:
            label = f"{ty.dtype} holds up to {ty.dtype.largest:g}"
            reason = f"the limit is {ty.dtype.largest:g}"
            self._body.sink.warning(
                W0404, at=expression.span, label=label, operation=f"`{text}`", dtype=ty.dtype, reason=reason
            )
        elif held == 0.0 and number != 0.0:
            self._loss(expression.span, f"`{text}`", ty.dtype, "it becomes 0", "too small for this dtype")
        elif isinstance(expression.value.type, IntType) and held != number:
            label = f"{ty.dtype} has {ty.dtype.significand} significant bits"
            self._loss(expression.span, f"`{text}`", ty.dtype, f"it becomes {held:g}", label)

    def _loss(self, at: Span, what: str, dtype: DType, reason: str, label: str) -> Draft:
        return self._body.sink.warning(W0405, at=at, label=label, what=what, dtype=dtype, reason=reason)


def _loses_bits(value: Interval, largest: float, dtype: DType) -> bool:
    """Whether values that are known, or any of a wide integer in a float of few bits, are rounded."""
    return largest > 2**dtype.significand and (value.is_bounded or dtype.significand < FEW_BITS)


def _literal(expression: typed.Expr) -> float | None:
    match expression.type:
        case IntType(value=dim):
            return None if dim.constant is None else float(dim.constant)
        case FloatType(value=value):
            return value
    return None


# ------------------------------------------------------------------------------------------- sums in loops

Loop = typed.For | typed.While


def _loops(block: typed.Block) -> Iterator[Loop]:
    for statement in block:
        if isinstance(statement, Loop):
            yield statement
            yield from _loops(statement.body)
        elif isinstance(statement, typed.If):
            yield from (*_loops(statement.then), *_loops(statement.otherwise))


def _running_sums(body: Body, loop: Loop) -> None:
    """`total += x` in a loop rounds the total in every iteration, whatever its accumulation type."""
    carried = {c.name for c in loop.carried}
    for statement in loop.body:
        if not (isinstance(statement, typed.Bind) and statement.name in carried):
            continue
        value = statement.value
        if isinstance(value, typed.Apply) and isinstance(value.op, Add) and _reads(value, statement.name):
            _report_running_sum(body, value, statement.name)


def _reads(value: typed.Apply, name: str) -> bool:
    return any(isinstance(operand, typed.Local) and operand.name == name for operand in value.operands)


def _report_running_sum(body: Body, value: typed.Apply, name: str) -> None:
    ty = value.type
    if not isinstance(ty, TensorType) or not ty.dtype.is_float or ty.dtype.bits >= 32 or ty.policy.stochastic_round:
        return
    bits = ty.dtype.significand
    label = f"{bits} significant bits, one rounding in every iteration"
    draft = body.sink.warning(W0401, at=value.span, label=label, operation=f"`{name}`", dtype=ty.dtype)
    draft.remark(f"a running {ty.dtype} sum of ones stops at {2**bits}; the same sum in f32 stays exact to 2**24")
    draft.remark(f"keep `{name}` in f32 and cast it once after the loop")
