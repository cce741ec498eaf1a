"""Where a bound came from: the steps that a warning of ranges gives.

Enters: what names were bound to, with the range of each, as the analysis comes by; the operands of an operator that a
warning is about. Leaves: because-steps, nearest first.

    = because: `t` is in [-40, 40]: `s * 2.0` (line 3)
    = because: `s` is in [-20, 20]: `clamp(x, -20.0, 20.0)` (line 2)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.check.model import typed
from tesserac.check.state.body import Body
from tesserac.diag.sink import Draft
from tesserac.numerics.interval import INF, Interval

MAX_STEPS = 4
MAX_TEXT = 40
"""Longer expressions are not repeated: their line is named."""


@dataclass(frozen=True, eq=False)
class _Bound:
    value: typed.Expr
    range: Interval


class RangeReasons:
    """What is known of the names of one function so far."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._names: dict[str, _Bound] = {}

    def bound(self, name: str, value: typed.Expr, range_: Interval) -> None:
        self._names[name] = _Bound(value, range_)

    def explain(self, draft: Draft, operands: Sequence[typed.Expr], ranges: Sequence[Interval]) -> None:
        """Says of each operand between what it lies, and of the names it is made of, where that is known."""
        for operand, range_ in zip(operands, ranges, strict=True):
            if isinstance(operand, typed.Apply | typed.Call) and _says_something(range_):
                text = self._body.rules.text(operand.span)
                if text and len(text) <= MAX_TEXT:
                    draft.because(f"`{text}` is {_range(range_)}")
        waiting, told = list(_names_in(operands)), set[str]()
        while waiting and draft.steps < MAX_STEPS:
            name = waiting.pop(0)
            bound = self._names.get(name)
            if name in told or bound is None or not _says_something(bound.range):
                continue
            told.add(name)
            text = self._body.rules.text(bound.value.span)
            shown = f": `{text}`" if text and len(text) <= MAX_TEXT else ""
            draft.because(f"`{name}` is {_range(bound.range)}{shown}", bound.value.span)
            waiting += _names_in([bound.value])


def _says_something(range_: Interval) -> bool:
    return range_.low > -INF or range_.high < INF


def _range(range_: Interval) -> str:
    if range_.is_bounded:
        return f"in [{range_.low:g}, {range_.high:g}]"
    return f"at most {range_.high:g}" if range_.high < INF else f"at least {range_.low:g}"


def _names_in(expressions: Sequence[typed.Expr]) -> Iterator[str]:
    for expression in expressions:
        match expression:
            case typed.Local(name=name):
                yield name
            case typed.Apply(operands=inner) | typed.Call(args=inner) | typed.TupleOf(items=inner):
                yield from _names_in(inner)
            case typed.Coerce(value=value) | typed.Item(value=value):
                yield from _names_in([value])
