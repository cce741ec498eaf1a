"""Objects of settings, and what a class decides when it is made: `config.n_embd`, `@dataclass`, `bias=config.bias`.

    @dataclass
    class Config:                                      struct Config:
        n_embd: int = 768                                  n_embd: int = 768
        bias: bool = True                                  bias: bool = True

    class MLP(nn.Module):                              class MLP(nn.Module):
        def __init__(self, config):                        def __init__(self, n_embd=768):
            super().__init__()                                 super().__init__()
            self.fc = nn.Linear(config.n_embd,                 self.fc = nn.Linear(n_embd, 4 * n_embd,
                4 * config.n_embd, bias=config.bias)               bias=True)

Enters: the classes of a file as Python has parsed them. Leaves: the same classes with a parameter for
each setting that one reads, or hands on to another.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Mapping

from tesserac.base.dataclass import dataclass
from tesserac.porting.layers import NoCounterpart, last_name

_NUMBERS = ("int", "float", "bool")
Value = Callable[[str], ast.expr]


@dataclass(frozen=True)
class Settings:
    """A dataclass: its fields in order, with the types and values that are numbers here."""

    name: str
    fields: Mapping[str, tuple[str, ast.expr | None]]

    def text(self) -> str:
        lines = [f"    {name}: {kind}{'' if value is None else f' = {ast.unparse(value)}'}"
                 for name, (kind, value) in self.fields.items()]  # fmt: skip
        return "\n".join([f"struct {self.name}:", *lines])


def settings_of(node: ast.ClassDef) -> Settings:
    """What a dataclass holds. What is no number, as a path, is left out: no struct can hold it."""
    fields = dict[str, tuple[str, ast.expr | None]]()
    for line in node.body:
        match line:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id=kind), value=value):
                if kind in _NUMBERS:
                    fields[name] = kind, value
            case ast.AnnAssign() | ast.Expr() | ast.Pass():
                continue
            case _:
                raise NoCounterpart
    if not fields:
        raise NoCounterpart
    return Settings(node.name, fields)


def tensor_fields(node: ast.ClassDef) -> dict[ast.stmt, str]:
    """The lines of a class that are fields here as they stand: `w: Tensor[D, H, f32]`."""
    return {
        line: ast.unparse(line)
        for line in node.body
        if isinstance(line, ast.AnnAssign) and ast.unparse(line.annotation).startswith("Tensor[")
    }


def sizes_within(fields: Iterable[ast.stmt]) -> tuple[str, ...]:
    """The names of sizes in the types of fields: they begin with a capital."""
    types = (line.annotation.slice for line in fields
             if isinstance(line, ast.AnnAssign) and isinstance(line.annotation, ast.Subscript))  # fmt: skip
    names = (part.id for type_ in types for part in ast.walk(type_) if isinstance(part, ast.Name))
    return tuple(dict.fromkeys(name for name in names if name[:1].isupper()))


def method_of(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == name), None)


class Expanded:
    """Classes with a parameter for each setting: `params` are their names by the class, `held` the name that the object
    of settings had."""

    def __init__(self, nodes: Iterable[ast.ClassDef], settings: Iterable[Settings]) -> None:
        self.nodes = {node.name: copy.deepcopy(node) for node in nodes}
        self.known = {name: default for one in settings for name, (_, default) in one.fields.items()}
        self.kinds = {name: kind for one in settings for name, (kind, _) in one.fields.items()}
        self.objects = dict[str, str]()
        self.places = dict[str, int]()
        self.read = dict[str, list[str]]()
        for node in self.nodes.values():  # what one holds stands before it
            self._expand(node)

    def _expand(self, node: ast.ClassDef) -> None:
        made = method_of(node, "__init__")
        name = None if made is None else next((a.arg for a in made.args.args[1:] if _is_object(made, a.arg)), None)
        if made is None or name is None:
            return
        self.objects[node.name] = name
        self.places[node.name] = [arg.arg for arg in made.args.args[1:]].index(name)
        kept = _kept_as(made, name)
        read = [part for part in ast.walk(node) if isinstance(part, ast.Attribute)]
        found = dict.fromkeys(part.attr for part in read if _is_of(part, name))
        in_methods = dict.fromkeys(part.attr for part in read if kept and _is_kept(part.value, kept))
        for call in (part for part in ast.walk(made) if isinstance(part, ast.Call)):
            if any(isinstance(item, ast.Name) and item.id == name for item in call.args):
                found |= dict.fromkeys(self.read.get(last_name(call.func), ()))
        self.read[node.name] = [*dict.fromkeys([*found, *in_methods])]
        _Settings(self, name, kept).visit(node)
        self._declare(made, name, kept, list(in_methods))

    def _declare(self, made: ast.FunctionDef, name: str, kept: str, in_methods: list[str]) -> None:
        """A parameter for each setting, which has its value of the dataclass if it has none."""
        args, read = made.args, self.read[next(n for n, node in self.nodes.items() if made in node.body)]
        if {arg.arg for arg in args.args} & set(read):
            raise NoCounterpart
        args.args = [arg for arg in args.args if arg.arg != name]
        args.kwonlyargs += [ast.arg(one, self._kind(one)) for one in read]
        args.kw_defaults += [self.known.get(one) for one in read]
        made.body = [line for line in made.body if not _keeps(line, name)]
        made.body += [_assignment(f"{kept}_{one}", ast.Name(one, ast.Load())) for one in in_methods]

    def _kind(self, name: str) -> ast.expr | None:
        return ast.Name(self.kinds[name], ast.Load()) if name in self.kinds else None


class _Settings(ast.NodeTransformer):
    """Writes `n_embd` for `config.n_embd`, and for a class that is handed the settings those that it reads."""

    def __init__(self, all_: Expanded, name: str, kept: str) -> None:
        self.all, self.name, self.kept = all_, name, kept

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if _is_of(node, self.name):
            return ast.Name(node.attr, ast.Load())
        if self.kept and _is_kept(node.value, self.kept):
            return ast.Attribute(ast.Name("self", ast.Load()), f"{self.kept}_{node.attr}", ast.Load())
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        kind = node.func.id if isinstance(node.func, ast.Name) else ""
        if kind in self.all.objects:
            node = with_settings(node, self.all, kind, lambda one: ast.Name(one, ast.Load()))
        self.generic_visit(node)
        return node


def with_settings(call: ast.Call, all_: Expanded, kind: str, value: Value) -> ast.Call:
    """A call of a class with the settings that it reads, each as `value` writes it, in place of their object."""
    made = method_of(all_.nodes[kind], "__init__")
    assert made is not None
    places, place = [arg.arg for arg in made.args.args[1:]], all_.places[kind]
    if place >= len(call.args):
        return call
    rest = [item for number, item in enumerate(call.args) if number != place]
    if len(rest) > len(places):
        raise NoCounterpart
    named = [ast.keyword(place, item) for place, item in zip(places, rest, strict=False)]
    return ast.Call(call.func, [], [*named, *call.keywords, *(ast.keyword(one, value(one)) for one in all_.read[kind])])


def _is_object(made: ast.FunctionDef, name: str) -> bool:
    """Whether attributes are read of a parameter, or whether it is handed on alone to what reads them."""
    return any(_is_of(part, name) for part in ast.walk(made))


def _is_of(part: ast.AST, name: str) -> bool:
    return isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == name


def _kept_as(made: ast.FunctionDef, name: str) -> str:
    """`config` of `self.config = config`."""
    for line in made.body:
        match line:
            case ast.Assign(targets=[ast.Attribute(attr=kept)], value=ast.Name(id=known)) if known == name:
                return kept
    return ""


def _keeps(line: ast.stmt, name: str) -> bool:
    return isinstance(line, ast.Assign) and isinstance(line.value, ast.Name) and line.value.id == name


def _is_kept(part: ast.AST, kept: str) -> bool:
    is_own = isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self"
    return is_own and isinstance(part, ast.Attribute) and part.attr == kept


def _assignment(name: str, value: ast.expr) -> ast.stmt:
    target = ast.Attribute(ast.Name("self", ast.Load()), name, ast.Store())
    return ast.Assign([target], value)
