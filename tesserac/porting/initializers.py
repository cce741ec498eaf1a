"""What `__init__` computes before it makes layers, written into the layers.

    expansion = 4                                          def __init__(self, dim, heads):
    def __init__(self, dim, heads, drop=None):                 super().__init__()
        super().__init__()                                     self.qkv = nn.Linear(dim, 3 * (dim // heads))
        size = dim // heads                                    self.out = nn.Linear(4 * dim, dim)
        self.qkv = nn.Linear(dim, 3 * size)
        self.out = nn.Linear(self.expansion * dim, dim)
        if drop is not None:
            self.drop = drop

Enters: a class. Leaves: one whose `__init__` only gives values to fields. Names that stand for a value are that value;
a branch whose condition is known is one of its blocks; lines that only fill weights with other numbers are left out,
and told.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping

from tesserac.porting.layers import NoCounterpart, last_name
from tesserac.porting.settings import method_of

FILLS = ("_init_weights", "init_weights", "reset_parameters", "initialize_weights", "_reset_parameters")
"""Methods that fill weights."""
_WHOLE = ("int", "round")


class Simplified:
    """A class after its `__init__` is read: `node`, and whether lines that fill weights were left out."""

    def __init__(self, node: ast.ClassDef, fixed: Mapping[str, ast.expr], is_derived: bool = False) -> None:
        """A size that is divided `is_derived`: a parameter of its own, whose value is computed where none is given."""
        self.node, self.fills, self.is_derived = copy.deepcopy(node), False, is_derived
        self.derived: dict[str, ast.expr] = {}
        self.values: dict[str, ast.expr] = dict(fixed)
        self.own: dict[str, ast.expr] = {}
        self.lines: list[ast.stmt] = []
        self.node.body = [item for item in self.node.body if not self._is_constant(item)]
        made = method_of(self.node, "__init__")
        if made is not None:
            self._block(made.body)
            made.body = [*self.lines] or [ast.Pass()]
            _drop_parameters(made, fixed)
            made.args.kwonlyargs += [ast.arg(name) for name in self.derived]
            made.args.kw_defaults += list(self.derived.values())
        self.node.body = [item for item in self.node.body if not self._fills(item)]
        for item in self.node.body:
            if isinstance(item, ast.FunctionDef) and item is not made:
                item.body = _folded(_Values({}, self._known_own(), self.node).visit_all(item.body))

    def _known_own(self) -> dict[str, ast.expr]:
        """What `self.name` is in methods, where that is nothing: `self.downsample` of a class without one."""
        return {name: value for name, value in self.own.items() if _is_nothing(value)}

    def _is_constant(self, item: ast.stmt) -> bool:
        """`expansion = 4` of the class."""
        match item:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant() as value):
                self.own[name] = value
                return True
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant() as value):
                self.own[name] = value
                return True
        return False

    def _fills(self, item: ast.stmt) -> bool:
        return isinstance(item, ast.FunctionDef) and item.name in FILLS

    def _block(self, lines: list[ast.stmt]) -> None:
        for line in _folded(_Values(self.values, self.own, self.node).visit_all(copy.deepcopy(lines[:1]))):
            self._line(line)
        if lines[1:]:
            self._block(lines[1:])

    def _line(self, line: ast.stmt) -> None:
        match line:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_arithmetic(value):
                (self.derived if self.is_derived and _divides(value) else self.values)[name] = value
            case ast.Assign(targets=[ast.Attribute(attr=name) as target], value=value) if _is_self(target):
                if _is_nothing(value) or _is_arithmetic(value):
                    self.own[name] = value
                if not _is_nothing(value):
                    self.lines.append(line)
            case ast.Expr(value=ast.Call() as call):
                self._call(line, call)
            case ast.If() | ast.For() | ast.While() | ast.With() | ast.Return():
                if any(isinstance(part, ast.Attribute) and _is_self(part) for part in ast.walk(line)):
                    raise NoCounterpart(line)
                self.lines.append(line)
            case ast.Assign(targets=[ast.Attribute() as target]) if _is_requiring(target):
                self.fills = True
            case ast.Assign() | ast.AugAssign():
                self.lines.append(line)
            case _:
                self.lines.append(line)

    def _call(self, line: ast.stmt, call: ast.Call) -> None:
        if self._is_filling(call):
            self.fills = True
        else:
            self.lines.append(line)

    def _is_filling(self, call: ast.Call) -> bool:
        """`nn.init.zeros_(self.fc.bias)`, `self.apply(self._init_weights)`, `self.weight.data.uniform_(...)`."""
        text = ast.unparse(call.func)
        own = text in ("self.apply", *(f"self.{name}" for name in FILLS))
        return own or ".init." in f".{text}" or (text.startswith("self.") and text.endswith("_"))


class _Values(ast.NodeTransformer):
    """Writes what names stand for, and values of `self` that are known."""

    def __init__(self, values: Mapping[str, ast.expr], own: Mapping[str, ast.expr], node: ast.ClassDef) -> None:
        self.values, self.own, self.name = values, own, node.name

    def visit_all(self, lines: list[ast.stmt]) -> list[ast.stmt]:
        return [self.visit(line) for line in lines]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        known = self.values.get(node.id) if isinstance(node.ctx, ast.Load) else None
        return node if known is None else copy.deepcopy(known)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        is_own = _is_self(node) or _is_name(node.value, self.name)
        if isinstance(node.ctx, ast.Load) and is_own and node.attr in self.own:
            return copy.deepcopy(self.own[node.attr])
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """`int(dim * 4.0)` is a product of whole numbers."""
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id=name), args=[ast.BinOp() as value], keywords=[]) if name in _WHOLE:
                return _whole(value)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        known = _decided(node.test)
        return node if known is None else node.body if known else node.orelse


def _whole(value: ast.expr) -> ast.expr:
    """Without the point of numbers that are whole."""
    for part in ast.walk(value):
        if isinstance(part, ast.Constant) and isinstance(part.value, float) and part.value.is_integer():
            part.value = int(part.value)
    return value


def _folded(lines: list[ast.stmt]) -> list[ast.stmt]:
    """Without branches whose condition is known."""
    found = list[ast.stmt]()
    for line in lines:
        known = _decided(line.test) if isinstance(line, ast.If) else None
        if isinstance(line, ast.If) and known is not None:
            found += _folded(line.body if known else line.orelse)
        else:
            found.append(line)
    return found


def _decided(test: ast.expr) -> bool | None:
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            known = _decided(inner)
            return None if known is None else not known
        case ast.Compare(left=ast.Constant(value=left), ops=[op], comparators=[ast.Constant(value=right)]):
            is_same = isinstance(op, ast.Is | ast.Eq)
            return None if not isinstance(op, ast.Is | ast.Eq | ast.IsNot | ast.NotEq) else (left == right) is is_same
        case ast.Compare(left=ast.Call(), ops=[ast.IsNot() | ast.Is() as op], comparators=[ast.Constant(value=None)]):
            return isinstance(op, ast.IsNot)
        case ast.BoolOp(op=op, values=values):
            known_values = [_decided(value) for value in values]
            deciding = isinstance(op, ast.Or)
            if deciding in known_values:
                return deciding
            return None if None in known_values else not deciding
    return None


def _is_arithmetic(value: ast.expr) -> bool:
    """Whether a value is computed from numbers and names alone."""
    plain = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context)
    return all(isinstance(part, plain) for part in ast.walk(value))


def _divides(value: ast.expr) -> bool:
    return _is_arithmetic(value) and any(isinstance(part, ast.FloorDiv) for part in ast.walk(value))


def _is_nothing(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _is_self(node: ast.Attribute) -> bool:
    return _is_name(node.value, "self")


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_requiring(target: ast.expr) -> bool:
    """`self.linear.weight.requires_grad`, `self.weight.data`: what says nothing of the layers."""
    return isinstance(target, ast.Attribute) and target.attr in ("requires_grad", "data")


def _drop_parameters(made: ast.FunctionDef, fixed: Mapping[str, ast.expr]) -> None:
    """Without parameters that have one value."""
    args = made.args
    first = len(args.args) - len(args.defaults)
    placed = [(arg, args.defaults[place - first] if place >= first else None) for place, arg in enumerate(args.args)]
    placed = [(arg, default) for arg, default in placed if arg.arg not in fixed]
    args.args, args.defaults = [arg for arg, _ in placed], [default for _, default in placed if default is not None]
    named = [(arg, value) for arg, value in zip(args.kwonlyargs, args.kw_defaults, strict=True) if arg.arg not in fixed]
    args.kwonlyargs, args.kw_defaults = [arg for arg, _ in named], [value for _, value in named]


def fixed_parameters(node: ast.ClassDef, calls: list[ast.Call]) -> dict[str, ast.expr]:
    """Parameters that decide which layers there are, and that have one value in the file: None that nobody gives, a
    bool, and a float, which is a factor of sizes."""
    made = method_of(node, "__init__")
    if made is None:
        return {}
    args, first = made.args, len(made.args.args) - len(made.args.defaults)
    pairs = (*zip(args.args[first:], args.defaults, strict=True), *zip(args.kwonlyargs, args.kw_defaults, strict=True))
    defaults = {arg.arg: value for arg, value in pairs if value is not None}
    places = [arg.arg for arg in args.args[1:]]
    found = dict[str, ast.expr]()
    for name in [*places, *(arg.arg for arg in args.kwonlyargs)]:
        given = [_given(call, places, name) or defaults.get(name) for call in calls] or [defaults.get(name)]
        values = {ast.unparse(value): value for value in given if value is not None}
        if len(values) == 1 and None not in given and _is_deciding(made, name, next(iter(values.values()))):
            found[name] = next(iter(values.values()))
    return found


def _given(call: ast.Call, places: list[str], name: str) -> ast.expr | None:
    by_place = dict(zip(places, call.args, strict=False))
    return by_place.get(name) or next((k.value for k in call.keywords if k.arg == name), None)


def _is_deciding(made: ast.FunctionDef, name: str, value: ast.expr) -> bool:
    if not isinstance(value, ast.Constant):
        return False
    if value.value is None or isinstance(value.value, bool):
        return True
    wholes = [part for part in ast.walk(made) if isinstance(part, ast.Call) and isinstance(part.func, ast.Name)
              and part.func.id in _WHOLE]  # fmt: skip
    within = any(_is_name(inner, name) for part in wholes for inner in ast.walk(part) if isinstance(inner, ast.expr))
    return isinstance(value.value, float) and within


def layer_name(call: ast.Call) -> str:
    """The class that a call makes one of; empty where it is none."""
    try:
        return last_name(call.func)
    except NoCounterpart:
        return ""
