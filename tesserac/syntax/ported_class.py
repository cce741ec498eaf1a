"""A class of PyTorch as the struct that it is here: the fix of `class`.

    class Net(nn.Module):                              struct Net[D]:
        def __init__(self, d):                             fc: Linear[D, 10]
            super().__init__()
            self.fc = nn.Linear(d, 10)
            self.act = nn.ReLU()

        def forward(self, x):                              def apply(self, x):
            return self.act(self.fc(x))                        return relu(self.fc(x))

Enters: the text of a file, and where a line that begins with `class` does. Leaves: where the block ends and what stands
there instead; None where anything in it has no counterpart, or means something else here. What `__init__` makes are
fields; its parameters, as far as they are sizes of weights, are the struct's; layers without weights are functions, and
numbers that are no sizes go to the calls. Whether a network is being trained is an argument of the methods in which
something depends on it. The rest of a method is left as it is: what is PyTorch's in it is told, and mended, where it
stands.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from tesserac.base.dataclass import dataclass
from tesserac.syntax.ported_layers import (
    FILLED,
    LAYERS,
    TRAINING,
    NoCounterpart,
    arguments,
    function_of,
    last_name,
    layer_of,
    options_of,
    size_text,
)

_TRAINED = f"{TRAINING}: bool = True"
_BASES = ("Module", "object", "LightningModule")


@dataclass(frozen=True)
class _Field:
    """What a name of `self` stands for: what is declared, and what is called in its place, one after the other. A step
    has a function, or a field, and the arguments that follow the first; `items` are those of each layer of a list."""

    declared: tuple[str, ...]
    steps: tuple[tuple[str, tuple[str, ...]], ...] = ()
    items: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Known:
    """A class of the same file: the parameters that are sizes of its weights, and whether calls of it say that it is
    being trained."""

    sizes: tuple[str, ...]
    is_trained: bool


@dataclass(frozen=True)
class Ported:
    """A struct for a class: where the class ends, the text that stands there instead, and what to know of it."""

    end: int
    text: str
    remarks: tuple[str, ...]


def ported_class(text: str, start: int) -> Ported | None:
    """The struct for the class at `start`."""
    end = _block_end(text, start)
    try:
        struct = _Struct(_parsed(text[start:end]), _known_classes(text))
        written = struct.text(text[start:end])
        return Ported(end, written, struct.remarks(written))
    except (NoCounterpart, KeyError, SyntaxError, ValueError):
        return None


def _block_end(text: str, start: int) -> int:
    """Behind the last line that stands deeper than the first."""
    end = start
    for line in re.finditer(r"[^\n]+", text[start:]):
        if end > start and not line[0][0].isspace():
            break
        if line[0].strip():
            end = start + line.end()
    return end


def _parsed(block: str) -> ast.ClassDef:
    (node,) = ast.parse(block).body
    if not isinstance(node, ast.ClassDef) or node.decorator_list or node.keywords:
        raise NoCounterpart
    if any(last_name(base) not in _BASES for base in node.bases):
        raise NoCounterpart
    return node


def _classes(text: str) -> Iterator[ast.ClassDef]:
    for found in re.finditer(r"^class\b", text, re.MULTILINE):
        try:
            yield _parsed(text[found.start() : _block_end(text, found.start())])
        except (NoCounterpart, SyntaxError, ValueError):
            continue


def _method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == name), None)


def _parameters(made: ast.FunctionDef | None) -> list[str]:
    if made is None:
        return []
    if made.args.vararg or made.args.kwarg:
        raise NoCounterpart
    return [arg.arg for arg in (*made.args.args[1:], *made.args.kwonlyargs)]


def _known_classes(text: str) -> dict[str, _Known]:
    """The classes of a file of which a struct is known; those that others hold stand before them."""
    known = dict[str, _Known]()
    for node in _classes(text):
        try:
            struct = _Struct(node, known)
            called = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "forward"]
            methods = [struct.method(item, struct.fields()) for item in called]
            known[node.name] = _Known(struct.sizes(), any(_TRAINED in method for method in methods))
        except (NoCounterpart, KeyError, ValueError):
            continue
    return known


class _Struct:
    """The struct of one class. `others` are classes of the same file."""

    def __init__(self, node: ast.ClassDef, others: Mapping[str, _Known]) -> None:
        self.node, self.others = node, others
        self.made = _method(node, "__init__")
        self.parameters = _parameters(self.made)
        self.used: set[str] = set()

    def sizes(self) -> tuple[str, ...]:
        return tuple(name for name in self.parameters if name in self.used)

    def text(self, block: str) -> str:
        """`block` is that of the class: its words are kept as they stand."""
        fields = self.fields()
        methods = [self.method(item, fields) for item in self.node.body if self.is_kept(item)]
        sizes = ", ".join(map(_size_name, self.sizes()))
        declared = [f"    {line}" for field in fields.values() for line in field.declared]
        if not declared and not methods:
            raise NoCounterpart
        head = [f"struct {self.node.name}{f'[{sizes}]' if sizes else ''}:"]
        words = self.node.body[0]
        if _is_words(words):
            head.append(f"    {ast.get_source_segment(block, words)}")
        return "\n".join([*head, *declared]) + "".join(f"\n\n{method}" for method in methods)

    def remarks(self, written: str) -> tuple[str, ...]:
        """What is otherwise than in PyTorch, of the text of the struct."""
        dropout = f"`{TRAINING}=False` is what `eval()` is there" if _TRAINED in written else ""
        norm = "a batch norm learns by `y, layer = layer.train(x)`" if ": BatchNorm[" in written else ""
        return tuple(remark for remark in (dropout, norm) if remark)

    def is_kept(self, item: ast.stmt) -> bool:
        """Whether it is a method; raises what is neither that, nor words, nor `__init__`."""
        if isinstance(item, ast.FunctionDef):
            return item is not self.made
        if _is_words(item):
            return False
        raise NoCounterpart

    # -- what `__init__` makes

    def fields(self) -> dict[str, _Field]:
        made = dict[str, _Field]()
        for line in () if self.made is None else self.made.body:
            if _calls_super(line) or _is_words(line):
                continue
            name, value = _own_assignment(line)
            made[name] = self.field(name, value)
        return made

    def field(self, name: str, value: ast.expr) -> _Field:
        if not isinstance(value, ast.Call):
            raise NoCounterpart
        kind = last_name(value.func)
        if kind == "Sequential":
            return self.sequence(name, value)
        if kind == "ModuleList":
            return self.repeated(name, value)
        if kind == "Parameter":
            return self.parameter(name, value)
        if kind not in LAYERS and kind not in self.others:
            return _Field((), ((function_of(kind), options_of(kind, value)),))
        type_, options = self.layer(value)
        return _Field((f"{name}: {type_}",), ((f"self.{name}", options),) if options else ())

    def layer(self, value: ast.expr) -> tuple[str, tuple[str, ...]]:
        """The type of a layer with weights, and what its call takes besides."""
        if not isinstance(value, ast.Call):
            raise NoCounterpart
        kind = last_name(value.func)
        if kind in self.others:
            trained = (f"{TRAINING}={TRAINING}",) if self.others[kind].is_trained else ()
            return self.own_struct(kind, value), trained
        return layer_of(value, self.size)

    def own_struct(self, kind: str, value: ast.Call) -> str:
        """The type of a struct that another class of the file becomes."""
        sizes = self.others[kind].sizes
        given = arguments(value, sizes)
        return f"{kind}[{', '.join(self.size(given[name]) for name in sizes)}]" if sizes else kind

    def sequence(self, name: str, value: ast.Call) -> _Field:
        declared, steps = list[str](), list[tuple[str, tuple[str, ...]]]()
        for number, item in enumerate(value.args):
            one = self.field(f"{name}_{number}", item)
            declared += one.declared
            steps += one.steps or [(f"self.{name}_{number}", ())]
        return _Field(tuple(declared), tuple(steps))

    def repeated(self, name: str, value: ast.Call) -> _Field:
        (made,) = value.args
        if not isinstance(made, ast.ListComp) or len(made.generators) != 1 or made.generators[0].ifs:
            raise NoCounterpart
        walked = made.generators[0].iter
        if not isinstance(walked, ast.Call) or last_name(walked.func) != "range" or len(walked.args) != 1:
            raise NoCounterpart
        type_, options = self.layer(made.elt)
        return _Field((f"{name}: List[{self.size(walked.args[0])}, {type_}]",), items=options)

    def parameter(self, name: str, value: ast.Call) -> _Field:
        (filled,), factor = value.args, ""
        match filled:
            case ast.BinOp(left=left, op=ast.Mult(), right=ast.Constant() as right):
                filled, factor = left, f" * {ast.unparse(right)}"
        if not isinstance(filled, ast.Call) or filled.keywords or not filled.args:
            raise NoCounterpart
        function = FILLED.get(last_name(filled.func))
        if function is None:
            raise NoCounterpart
        sizes = ", ".join(map(self.size, filled.args))
        return _Field((f"{name}: Tensor[{sizes}, f32] = {function}({sizes}){factor}",))

    def size(self, value: ast.expr) -> str:
        return size_text(value, self.size_name)

    def size_name(self, name: str) -> str:
        if name not in self.parameters:
            raise NoCounterpart
        self.used.add(name)
        return _size_name(name)

    # -- methods

    def method(self, item: ast.stmt, fields: Mapping[str, _Field]) -> str:
        assert isinstance(item, ast.FunctionDef)
        if item.decorator_list:
            raise NoCounterpart
        written = _Calls(fields).visit(item)
        written.name = "apply" if item.name == "forward" else item.name
        written.returns = None
        for arg in (*written.args.args, *written.args.kwonlyargs):
            arg.annotation = None
        _take_training(written)
        lines = ast.unparse(written).replace(f"{TRAINING}: bool=True", _TRAINED).split("\n")
        return "\n".join(f"    {line}" if line else line for line in lines)


class _Calls(ast.NodeTransformer):
    """Writes what is called in the place of fields that are none, or that have options."""

    def __init__(self, fields: Mapping[str, _Field]) -> None:
        self.fields = fields
        self.items: dict[str, tuple[str, ...]] = {}

    def visit_For(self, node: ast.For) -> ast.For:
        """Names that go over a list of layers."""
        field = self.fields.get(last_name(node.iter)) if _is_own(node.iter) else None
        if field is not None and isinstance(node.target, ast.Name):
            self.items[node.target.id] = field.items
        self.generic_visit(node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        return ast.Name(TRAINING, ast.Load()) if _is_own(node) and node.attr == TRAINING else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and self.items.get(node.func.id):
            return _called(node, ((node.func.id, self.items[node.func.id]),))
        field = self.fields.get(last_name(node.func)) if _is_own(node.func) else None
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


def _is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _size_name(name: str) -> str:
    """Names of sizes begin with a capital."""
    return name[:1].upper() + name[1:]


def _is_words(line: ast.stmt) -> bool:
    """A string that documents."""
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def _calls_super(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and ast.unparse(line).startswith("super(")


def _own_assignment(line: ast.stmt) -> tuple[str, ast.expr]:
    """`self.name = value`."""
    if not isinstance(line, ast.Assign) or len(line.targets) != 1:
        raise NoCounterpart
    (target,) = line.targets
    if not isinstance(target, ast.Attribute) or not _is_own(target):
        raise NoCounterpart
    return target.attr, line.value
