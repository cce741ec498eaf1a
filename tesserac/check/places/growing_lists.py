"""Lists that a program means to grow: `outs.append(h)`, and `outs = outs + [h]` in a loop of the run.

Enters: what would be added to a list. Leaves: diagnostics. A list has the items that it is written with: what a loop of
the run gives for each iteration is a row of a tensor that is made before it; a loop that is written out may add lists.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.check.model.message_text import storage_text, type_text
from tesserac.check.model.scope import Binding
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0208
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32
from tesserac.types.policy import NO_POLICY
from tesserac.types.ty import ErrorType, TensorType, TupleType, Type


def is_append(body: Body, node: ast.Expr) -> bool:
    """Whether a statement is `outs.append(h)` of a list."""
    if not isinstance(node, ast.Call) or not isinstance(node.function, ast.Attribute) or len(node.arguments) != 1:
        return False
    base = node.function.value
    binding = body.scope.bindings.get(base.id) if isinstance(base, ast.Name) else None
    return node.function.name == "append" and binding is not None and isinstance(binding.type, TupleType)


def report_append(body: Body, node: ast.Expr) -> None:
    """The diagnostic of an append; nothing is known of the list behind it."""
    assert isinstance(node, ast.Call) and isinstance(node.function, ast.Attribute)
    base, value = node.function.value, node.arguments[0].value
    assert isinstance(base, ast.Name)
    binding, item = body.scope.bindings[base.id], body.expression(value)
    body.scope.bind(Binding(base.id, ErrorType(), binding.span, None))
    body.error(node.span)
    if isinstance(item.type, ErrorType):
        return
    draft = body.sink.error(E0208, at=node.function.name_span, what=type_text(binding.type), name="append")
    draft.note(binding.span, f"`{base.id}` has the items that it is written with")
    text, how = body.rules.text(value.span), _kept_rows(body, base.id, item.type)
    if body.flow.counter is None:
        draft.replace("add a list of one item", node.span, f"{base.id} += [{text}]", advice=how, is_one_way=True)
        return
    rows = _rows(body, item.type)
    empty = binding.value.span if binding.value is not None else None
    if rows is None or empty is None or body.rules.text(empty) != "[]":
        draft.remark(how)
        return
    store = f"{base.id}[{body.flow.counter.name}] = {text}"
    title = f"make a tensor with a row for each iteration: `{store}`"
    draft.fix(title, Edit(empty, rows), Edit(node.span, store), advice=how, is_one_way=True)


def added_item(before: Type, after: Type) -> Type | None:
    """What an iteration adds to a list, if that is what makes its type another."""
    if not (isinstance(before, TupleType) and isinstance(after, TupleType)):
        return None
    count = len(before.items)
    return after.items[-1] if len(after.items) == count + 1 and after.items[:count] == before.items else None


def explain_rows(body: Body, draft: Draft, name: str, item: Type) -> None:
    """How what each iteration adds to a list is kept."""
    draft.remark(_kept_rows(body, name, item))


def _kept_rows(body: Body, name: str, item: Type) -> str:
    counter, rows = body.flow.counter, _rows(body, item)
    if counter is None or rows is None:
        return "what the iterations of a loop give is kept in a tensor that is made before it"
    return f"a row for each iteration: `{name} = {rows}` before the loop, `{name}[{counter.name}] = ...` in it"


def _rows(body: Body, item: Type) -> str | None:
    """A tensor with a row for each iteration of the loop, as it is written; None where its sizes are not told."""
    counter = body.flow.counter
    if counter is None or not isinstance(item, TensorType) or not counter.from_zero:
        return None
    if any(body.facts.is_index(name) for dim in (*item.dims, counter.stop) for name in dim.symbols()):
        return None
    return written_zeros(item, (counter.stop, *item.dims))


def written_zeros(like: TensorType, dims: Sequence[Dim]) -> str:
    """A tensor of zeros as a program makes it, of the dtype that another has."""
    said = "" if (like.dtype, like.policy) == (F32, NO_POLICY) else f"dtype={storage_text(like)}"
    sizes = list(map(str, dims)) or ["()"]
    return f"zeros({', '.join([*sizes, *([said] if said else [])])})"

