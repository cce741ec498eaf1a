"""Where a size came from: the way back from an expression to the declaration of one of its dims.

Enters: a typed expression and an axis. Leaves: a `Trail`: the steps on the way, latest first, and the declaration if
there is one. It is walked only when there is something to explain, so that checking keeps no record of its own.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import SYMBOLS, dims_text
from tesserac.check.state.body import Body
from tesserac.types.dims import Dim
from tesserac.types.ty import TensorType

MAX_STEPS = 4


@dataclass(frozen=True)
class Step:
    """An operation that a size went through: its name, if it was given one, and the operation's text."""

    name: str
    span: Span
    shapes: str


@dataclass(frozen=True)
class Trail:
    """How a size reached an expression. `declared` is where an annotation writes it, `parameter` whose it is."""

    steps: tuple[Step, ...]
    declared: Span | None
    parameter: str


def trace(body: Body, expr: typed.Expr, axis: int) -> Trail:
    """Follows one dim of an expression back through assignments and operators."""
    steps: list[Step] = []
    name = ""
    for _ in range(64):
        if isinstance(expr, typed.Local):
            binding = body.origins.get(expr)
            if binding is None or binding.value is None:
                return Trail(_chosen(steps), *_declaration(body, expr, axis))
            name, expr = binding.name, binding.value
            continue
        if isinstance(expr, typed.Apply | typed.Call):
            shapes = _shapes(expr)
            if steps and steps[-1].span == expr.span:  # an index is a slice, and a dim that is left out
                last = steps.pop()
                name, shapes = last.name, f"{shapes.partition(' -> ')[0]} -> {last.shapes.rpartition(' -> ')[2]}"
            steps.append(Step(name, expr.span, shapes))
        source = _source(expr, axis)
        if source is None:
            break
        (expr, axis), name = source, ""
    return Trail(_chosen(steps), None, "")


def _chosen(steps: list[Step]) -> tuple[Step, ...]:
    """The steps that are shown: those with a name before parts of an expression, late ones before early ones."""
    kept = sorted(range(len(steps)), key=lambda place: (not steps[place].name, place))[:MAX_STEPS]
    return tuple(steps[place] for place in sorted(kept))


def _declaration(body: Body, expr: typed.Local, axis: int) -> tuple[Span | None, str]:
    dims = body.declared.parameter_dims.get(expr.name, ())
    from_right = _rank(expr) - axis
    return (dims[-from_right].span, expr.name) if 0 < from_right <= len(dims) else (None, "")


def _rank(expr: typed.Expr) -> int:
    return expr.type.rank if isinstance(expr.type, TensorType) else 0


def _dim(expr: typed.Expr, axis: int) -> Dim:
    assert isinstance(expr.type, TensorType)
    return expr.type.dims[axis]


def _source(expr: typed.Expr, axis: int) -> tuple[typed.Expr, int] | None:
    """The operand and axis that gave this axis its size; the one in the same place from the right is preferred."""
    if isinstance(expr, typed.Apply):
        candidates = expr.operands
    elif isinstance(expr, typed.Call):
        candidates = expr.args
    else:
        return None
    wanted, place = _dim(expr, axis), _rank(expr) - axis
    matches = [
        (operand, own)
        for operand in candidates
        for own in range(_rank(operand))
        if _dim(operand, own) == wanted
    ]
    matches.sort(key=lambda match: _rank(match[0]) - match[1] != place)
    return matches[0] if matches else None


def _shapes(expr: typed.Apply | typed.Call) -> str:
    """`["B", "D"] @ ["D", "H"] -> ["B", "H"]`."""
    operands = expr.operands if isinstance(expr, typed.Apply) else expr.args
    shown = [dims_text(o.type.dims) for o in operands if isinstance(o.type, TensorType)]
    symbol = SYMBOLS.get(expr.op.name) if isinstance(expr, typed.Apply) else None
    result = dims_text(expr.type.dims) if isinstance(expr.type, TensorType) else expr.type.show()
    return f"{f' {symbol} '.join(shown) if symbol else ', '.join(shown)} -> {result}"
