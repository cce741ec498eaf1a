"""The methods of a class of PyTorch, as those of the struct that it becomes.

Enters: a method, and what the names of `self` stand for. Leaves: the method with calls of what layers without weights
are, with the arguments that layers take here, and with a parameter that says whether the network is being trained where
anything depends on that.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tesserac.base.dataclass import dataclass
from tesserac.syntax.ported_layers import TRAINING, last_name

TRAINED = f"{TRAINING}: bool = True"
"""The parameter that says whether a network is being trained."""


@dataclass(frozen=True)
class Field:
    """What a name of `self` stands for: what is declared, and what is called in its place, one after the other. A step
    has a function, or a field, and the arguments that follow the first; `items` are those of each layer of a list, and
    `number` is what is computed where it is no layer."""

    declared: tuple[str, ...]
    steps: tuple[tuple[str, tuple[str, ...]], ...] = ()
    items: tuple[str, ...] = ()
    number: ast.expr | None = None


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
        field = self.fields.get(last_name(node.iter)) if is_own(node.iter) else None
        if field is not None and isinstance(node.target, ast.Name):
            self.items[node.target.id] = field.items
        self.generic_visit(node)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        """`q, k, v = y.split(d, dim=2)` is of parts of d, of which there are three."""
        self.generic_visit(node)
        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=parts)],
                value=ast.Call(func=ast.Attribute(value=whole, attr="split"), args=[_, *rest], keywords=keywords),
            ):
                chunk = ast.Attribute(whole, "chunk", ast.Load())
                node.value = ast.Call(chunk, [ast.Constant(len(parts)), *rest], keywords)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if not is_own(node):
            return node
        if node.attr == TRAINING:
            return ast.Name(TRAINING, ast.Load())
        field = self.fields.get(node.attr)
        return node if field is None or field.number is None else field.number

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and self.items.get(node.func.id):
            return _called(node, ((node.func.id, self.items[node.func.id]),))
        field = self.fields.get(last_name(node.func)) if is_own(node.func) else None
        return node if field is None or not field.steps else _called(node, field.steps)


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
