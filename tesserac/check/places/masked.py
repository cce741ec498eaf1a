"""The fix for what is reduced over a mask: `x[mask].mean()` is `mean(x, where=mask)`.

Enters: a call that has failed. Leaves: a fix on the diagnostic of the mask, where the call reduces what the mask picks.
How many elements that are only a run knows, so that they are no tensor; a reduction of them is one of all, with a mask.
"""

from __future__ import annotations

from tesserac.check.model import typed
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0210
from tesserac.syntax import ast
from tesserac.types.dtype import BOOL
from tesserac.types.ty import TensorType

_INITIAL = {"max": "-INF", "mean": "", "min": "INF", "prod": "", "sum": ""}
"""The reductions that take a mask, and what those start from that need a start where it picks nothing."""


def suggest_where(body: Body, node: ast.Call) -> None:
    """A call whose operand may have been `x[mask]`."""
    name, operand, others = _reduced(node)
    if name not in _INITIAL or not isinstance(operand, ast.Subscript) or len(operand.arguments) != 1:
        return
    entry = operand.arguments[0].value
    draft = None if isinstance(entry, ast.Slice) else body.sink.draft(E0210, entry.span)
    if draft is None:
        return
    x, mask = body.expression(operand.value), body.expression(entry)
    shape = _shapes(x, mask)
    if shape is None or not _over_rows(others):
        return
    axes, behind = shape
    text, where = body.rules.text(operand.value.span), body.rules.text(entry.span)
    if behind:
        where = f"({where})" if not isinstance(entry, ast.Name) else where
        where += f"[{', '.join([*[':'] * len(axes), *['None'] * behind])}]"
    said = [text, *([f"axis={axes[0] if len(axes) == 1 else axes}"] if others else []), f"where={where}"]
    said += [f"initial={_INITIAL[name]}"] if _INITIAL[name] else []
    draft.replace("reduce all of it, with the mask", node.span, f"{name}({', '.join(said)})")


def _reduced(node: ast.Call) -> tuple[str, ast.Expr | None, tuple[ast.Argument, ...]]:
    """The name of the function, what it reduces, and its other arguments: of `sum(x, 0)` and of `x.sum(0)`."""
    function = node.function
    if isinstance(function, ast.Attribute):
        return function.name, function.value, node.arguments
    if isinstance(function, ast.Name) and node.arguments:
        return function.id, node.arguments[0].value, node.arguments[1:]
    return "", None, ()


def _shapes(x: typed.Expr, mask: typed.Expr) -> tuple[tuple[int, ...], int] | None:
    """The axes that a mask covers, the first ones, and how many dims stand behind them."""
    if not isinstance(x.type, TensorType) or not isinstance(mask.type, TensorType) or mask.type.dtype != BOOL:
        return None
    rank = mask.type.rank
    return (tuple(range(rank)), x.type.rank - rank) if 0 < rank <= x.type.rank else None


def _over_rows(others: tuple[ast.Argument, ...]) -> bool:
    """Whether a reduction goes over what the mask picks: over all, or over the first axis."""
    if not others:
        return True
    axis = others[0]
    return len(others) == 1 and axis.name in (None, "axis", "dim") and _is_zero(axis.value)


def _is_zero(node: ast.Expr) -> bool:
    return isinstance(node, ast.IntLiteral) and node.value == 0
