"""One use of an operator, as the rules and the messages about it see it."""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.ops.registry import Operator


@dataclass(frozen=True)
class Use:
    """`at` is where a message points (an operator sign, a function's name), `span` the whole expression."""

    op: Operator
    operands: tuple[typed.Expr, ...]
    at: Span
    span: Span
