"""What stands after `with`: numerics modes, devices, prefetches.

Enters: a `with` statement. Leaves: the mode that operators inside have. A device is checked, and where the target is
another one it says nothing; so is what to prefetch.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.devices.distribution import MESH, check_layout
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.names.foreign_names import FOREIGN_CONTEXTS
from tesserac.check.names.refs import ConstantRef
from tesserac.check.names.type_attributes import read_device
from tesserac.check.state.body import Body
from tesserac.check.state.effects import STATE
from tesserac.check.state.requests import NOT_FETCHED, ONE_DEVICE, ask, ask_device
from tesserac.check.statements.foreign_contexts import suggest_without
from tesserac.check.transforms.checkpoints import CHECKPOINTS, read_memory
from tesserac.diag.codes.effects import E0603
from tesserac.diag.sink import Draft
from tesserac.syntax import ast
from tesserac.syntax.describe import dotted_name
from tesserac.types.ty import ErrorType, IntType, RecordType, StrType, StructType, TensorType, TupleType, Type

FAST, NONDET = "fast", "nondet"
MEMORIES = ("smem", "shared", "register", "l2")
OVERLAPS = ("compute", "none")
CONTEXTS = ("numerics", "device", "prefetch", *CHECKPOINTS)


@dataclass(frozen=True, slots=True, eq=False)
class EndWith(ast.Pass):
    """Where a `with` ends, among its statements and those after it; `numerics` is what held before it. So a `return` in
    a branch inside finds all that follows."""

    numerics: str
    memory: typed.LoopMemory | None
    mesh: RecordType | None


def enter_with(body: Body, node: ast.With) -> list[typed.Stmt]:
    """Checks the items from left to right; what they set holds until the end of the statement."""
    for item in node.contexts:
        name = dotted_name(item.function) if isinstance(item, ast.Call) else ""
        if not isinstance(item, ast.Call) or name in body.scope.bindings or name not in CONTEXTS:
            _no_context(body, node, item, name)
        elif name == "numerics":
            _numerics(body, item)
        elif name == "device":
            _device(body, item)
        elif name in CHECKPOINTS:
            body.flow.memory = read_memory(body, item)
        else:
            _prefetch(body, item)
    return set_numerics(body, body.doing.numerics, node.span)


def set_numerics(body: Body, mode: str, span: Span) -> list[typed.Stmt]:
    body.doing.numerics = mode
    return [typed.Numerics(span, mode)]


_KNOWN = "there are `numerics(fast)`, `device(gpu)`, `prefetch(x, into=...)`, `checkpoint(every=k)`, a mesh and layout"


def _no_context(body: Body, node: ast.With, item: ast.Expr, name: str) -> None:
    named = _named_value(body, item.function) if isinstance(item, ast.Call) else None
    if isinstance(item, ast.Call) and isinstance(named, RecordType) and named.kind == MESH:
        _layout(body, item)
    elif not isinstance(named, ErrorType):  # else what it would be has been told
        draft = _problem(body, item, "this cannot stand after `with`")
        draft.remark(FOREIGN_CONTEXTS.get(last := name.rpartition(".")[2], _KNOWN))
        suggest_without(body, draft, node, last)


def _named_value(body: Body, node: ast.Expr) -> Type | None:
    """What a name stands for, here or in the module."""
    if not isinstance(node, ast.Name):
        return None
    if node.id not in body.scope.bindings and not isinstance(body.rules.resolve(node.id), ConstantRef):
        return None
    return body.expression(node).type


def _layout(body: Body, item: ast.Call) -> None:
    """`mesh(layout={"batch": "shard"})`: how what is inside lies on the devices; `...` leaves it open. Collectives
    inside are across its axes."""
    mesh = body.expression(item.function).type
    assert isinstance(mesh, RecordType)
    body.devices.mesh = mesh
    for argument in item.arguments:
        if isinstance(argument.value, ast.EllipsisLiteral):
            continue
        if argument.name != "layout":
            _problem(body, argument, "a mesh takes `layout=` here and nothing else")
            continue
        layout = body.expression(argument.value)
        if check_layout(body, layout, mesh):
            ask(body, item.span, ONE_DEVICE)


def _problem(body: Body, at: ast.Node, problem: str) -> Draft:
    return body.sink.error(E0603, at=at.span, problem=problem)


# -------------------------------------------------------------------------------------------------- numerics


def _numerics(body: Body, item: ast.Call) -> None:
    """`numerics(fast)`, `numerics(fast(nondet))`."""
    mode = item.arguments[0].value if len(item.arguments) == 1 and item.arguments[0].name is None else None
    if isinstance(mode, ast.Call) and _is_fast(body, mode.function):
        asked = [argument.value for argument in mode.arguments]
        if len(asked) == 1 and isinstance(asked[0], ast.Name) and asked[0].id == NONDET:
            body.add_effect(NONDET, mode.span)
            body.doing.numerics = f"{FAST}({NONDET})"
            return
        _problem(body, mode, f"`{FAST}` takes `{NONDET}` and nothing else")
    elif mode is not None and _is_fast(body, mode):
        body.doing.numerics = body.doing.numerics or FAST
    elif mode is None or not isinstance(mode, ast.Name):
        _problem(body, item, "`numerics` takes one mode").remark(f"there are `{FAST}` and `{FAST}({NONDET})`")
    else:
        draft = _problem(body, mode, f"`{mode.id}` is no mode of numerics")
        draft.remark(f"there are `{FAST}` and `{FAST}({NONDET})`")
        draft.did_you_mean(mode.id, [FAST], mode.span)


def _is_fast(body: Body, node: ast.Expr) -> bool:
    return isinstance(node, ast.Name) and node.id == FAST and body.expression(node).type == StrType(FAST)


# -------------------------------------------------------------------------------------- devices and memories


def _device(body: Body, item: ast.Call) -> None:
    """`device(cpu)`, `device(gpu)`, `device(gpu[1])`."""
    if len(item.arguments) != 1 or item.arguments[0].name is not None:
        _problem(body, item, "`device` takes one device").remark("there are `cpu`, `gpu` and `gpu[1]`")
        return
    node = item.arguments[0].value
    device = read_device(body.sink, node)
    kind = node.value if isinstance(node, ast.Subscript) else node
    if device and body.expression(kind).type != StrType(device):
        _problem(body, node, f"`{device}` is a name of the program here, and no device")
        return
    known: int | None = None
    if isinstance(node, ast.Subscript):
        number = body.expression(node.arguments[0].value).type
        known = number.value.constant if isinstance(number, IntType) else None
        if known is None or known < 0:
            _problem(body, node.arguments[0], "the number of a device is 0 or a larger int, known while compiling")
            return
    if device:
        ask_device(body, device, item.span, known)


def _prefetch(body: Body, item: ast.Call) -> None:
    """`prefetch(x, into="smem", overlap="compute")`: moves data, so that it keeps its place among what does."""
    body.add_effect(STATE, item.span)
    values = [argument.value for argument in item.arguments if argument.name is None]
    if not values:
        _problem(body, item, "`prefetch` takes what to fetch")
    for node in values:
        value = body.expression(node)
        if not isinstance(value.type, ErrorType) and not _is_data(value.type):
            _problem(body, node, f"{type_text(value.type)} has nothing to prefetch")
    allowed = {"into": MEMORIES, "overlap": OVERLAPS}
    ask(body, item.span, NOT_FETCHED)
    for argument in item.arguments:
        if argument.name is not None:
            _setting(body, argument, argument.name, allowed.get(argument.name))


def _is_data(type_: Type) -> bool:
    return isinstance(type_, TensorType | StructType | TupleType)


def _setting(body: Body, argument: ast.Argument, name: str, allowed: tuple[str, ...] | None) -> None:
    if allowed is None:
        _problem(body, argument, f"`prefetch` has no setting `{name}`").remark("there are `into` and `overlap`")
        return
    value = body.expression(argument.value).type
    if isinstance(value, ErrorType) or (isinstance(value, StrType) and value.value in allowed):
        return
    _problem(body, argument.value, f"`{name}` is one of {', '.join(map(repr, allowed))}")
