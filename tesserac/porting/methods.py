"""The methods of a class of PyTorch, as those of the struct that it becomes.

Enters: a method, and what the names of `self` stand for. Leaves: the method with calls of what layers without weights
are, with the arguments that layers take here, and with a parameter that says whether the network is being trained where
anything depends on that.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tesserac.base.dataclass import dataclass
from tesserac.porting.layers import TRAINING, NoCounterpart

TRAINED = f"{TRAINING}: bool = True"
"""The parameter that says whether a network is being trained."""


@dataclass(frozen=True)
class Field:
    """What a name of `self` stands for: what is declared, and what is called in its place, one after the other. A step
    has a function, or a field, and the arguments that follow the first; `items` are those of each layer of a list, and
    `number` is what is computed where it is no layer. A list that `is_loop` is called layer by layer; `parts` are what
    a dict of layers has; `recurrent` and `attention` are calls, of an `{x}` and a `{state}`."""

    declared: tuple[str, ...]
    steps: tuple[tuple[str, tuple[str, ...]], ...] = ()
    items: tuple[str, ...] = ()
    number: ast.expr | None = None
    is_loop: bool = False
    parts: Mapping[str, Field] | None = None
    recurrent: str = ""
    attention: str = ""


def ported_method(method: ast.FunctionDef, fields: Mapping[str, Field], asserted: list[ast.stmt]) -> str:
    """The text of a method, which begins with what `__init__` asserts."""
    written = _Calls(fields).visit(method)
    written.body[:0] = asserted
    written.name = "apply" if method.name == "forward" else method.name
    written.returns = None
    for arg in (*written.args.args, *written.args.kwonlyargs):
        arg.annotation = None
    _take_training(written)
    lines = ast.unparse(written).replace(f"{TRAINING}: bool=True", TRAINED).split("\n")
    return "\n".join(f"    {line}" if line else line for line in lines)


class _Calls(ast.NodeTransformer):
    """Writes what is called in the place of fields that are none, or that have options."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self.fields = fields
        self.items: dict[str, tuple[str, ...]] = {}

    def visit_For(self, node: ast.For) -> ast.For:
        """Names that go over a list of layers."""
        field = self.field(node.iter)
        if field is not None and isinstance(node.target, ast.Name):
            self.items[node.target.id] = field.items
        self.generic_visit(node)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        """`q, k, v = y.split(d, dim=2)` is of parts of d, of which there are three; `y = self.blocks(x)` is a loop; and
        `y, _ = self.attn(x, x, x)` is a call that gives no weights."""
        looped = self._looped(node)
        if looped is not None:
            return looped
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=[first, ast.Name()])], value=ast.Call() as call):
                node.targets = [first] if self._attention(call) else node.targets
        self.generic_visit(node)
        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=parts)],
                value=ast.Call(func=ast.Attribute(value=whole, attr="split"), args=[_, *rest], keywords=keywords),
            ):
                chunk = ast.Attribute(whole, "chunk", ast.Load())
                node.value = ast.Call(chunk, [ast.Constant(len(parts)), *rest], keywords)
        return node

    def _looped(self, node: ast.Assign) -> list[ast.stmt] | None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute() as called, args=[given])):
                field = self.field(called)
                if field is None or not field.is_loop:
                    return None
                options = "".join(f", {option}" for option in field.items)
                first = [] if ast.unparse(given) == name else [f"{name} = {ast.unparse(given)}"]
                walked = ast.unparse(self.visit(called))
                lines = [*first, f"for layer in {walked}:", f"    {name} = layer({name}{options})"]
                return ast.parse("\n".join(lines)).body
        return None

    def field(self, called: ast.expr) -> Field | None:
        """What `self.name`, `self.group.name` or `self.group["name"]` is."""
        match called:
            case ast.Attribute(value=ast.Attribute() as group, attr=name) if is_own(group):
                return self.part(group.attr, name)
            case ast.Subscript(value=ast.Attribute() as group, slice=ast.Constant(value=str(name))) if is_own(group):
                return self.part(group.attr, name)
            case ast.Attribute(attr=name) if is_own(called):
                return self.fields.get(name)
        return None

    def part(self, group: str, name: str) -> Field | None:
        held = self.fields.get(group)
        return None if held is None or held.parts is None else held.parts.get(name)

    def _attention(self, call: ast.Call) -> str:
        field = self.field(call.func)
        return "" if field is None else field.attention

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.value, ast.Attribute) and is_own(node.value) and self.part(node.value.attr, node.attr):
            return ast.Attribute(ast.Name("self", ast.Load()), f"{node.value.attr}_{node.attr}", ast.Load())
        if not is_own(node):
            return node
        if node.attr == TRAINING:
            return ast.Name(TRAINING, ast.Load())
        field = self.fields.get(node.attr)
        return node if field is None or field.number is None else field.number

    def visit_Call(self, node: ast.Call) -> ast.expr:
        field = self.field(node.func)
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and self.items.get(node.func.id):
            return _called(node, ((node.func.id, self.items[node.func.id]),))
        if field is not None and field.is_loop:
            raise NoCounterpart
        if field is not None and field.recurrent:
            x, state = (*map(ast.unparse, node.args), "None", "None")[:2]
            return ast.parse(field.recurrent.format(x=x, state=state), mode="eval").body
        if field is not None and field.attention:
            return _of_itself(node, field.attention)
        return node if field is None or not field.steps else _called(node, field.steps)


def _of_itself(node: ast.Call, written: str) -> ast.expr:
    """Attention of a sequence to itself, whose weights nobody asks for."""
    given = {ast.unparse(item) for item in node.args}
    if len(given) != 1 or len(node.args) != 3 or any(keyword.arg != "need_weights" for keyword in node.keywords):
        raise NoCounterpart
    return ast.parse(written.format(x=given.pop()), mode="eval").body


def _called(node: ast.Call, steps: tuple[tuple[str, tuple[str, ...]], ...]) -> ast.expr:
    """One call after the other, of what the first one is given."""
    value = ", ".join(map(ast.unparse, (*node.args, *node.keywords)))
    for function, options in steps:
        value = f"{function}({', '.join((value, *options))})" if function else value
    return ast.parse(value, mode="eval").body


def _take_training(method: ast.FunctionDef) -> None:
    """A parameter for what a method reads of that name."""
    read = {node.id for line in method.body for node in ast.walk(line) if isinstance(node, ast.Name)}
    args = method.args
    if TRAINING in read and all(arg.arg != TRAINING for arg in (*args.args, *args.kwonlyargs)):
        args.args.append(ast.arg(TRAINING, ast.Name("bool", ast.Load())))
        args.defaults.append(ast.Constant(True))


def is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
