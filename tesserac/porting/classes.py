"""A class of PyTorch as the struct that it is here.

    class Net(nn.Module):                              struct Net[D]:
        def __init__(self, d):                             fc: Linear[D, 10]
            super().__init__()
            self.fc = nn.Linear(d, 10)
            self.act = nn.ReLU()

        def forward(self, x):                              def apply(self, x):
            return self.act(self.fc(x))                        return relu(self.fc(x))

Enters: a class, as Python has parsed it, whose `__init__` only gives values to fields (`initializers.py`), and what is
known of others. Leaves: the text that stands there instead. Raises what has no counterpart, or means something else.
What `__init__` makes are fields; its parameters, as far as they are sizes of weights, are the struct's; layers without
weights are functions, and numbers that are no sizes go to the calls. Tensors that it computes are buffers, each made by
a function before the struct. Whether a network is being trained is an argument of the methods in which something
depends on it. The rest of a method is left as it is: what is PyTorch's in it is told, and mended, where it stands.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Mapping, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.porting.buffers import computed_shape, is_local, is_named, is_tensor
from tesserac.porting.composite_layers import ATTENTION, RECURRENT, attention_of, layers_of
from tesserac.porting.layers import (
    FILLED,
    LAYERS,
    TRAINING,
    UNFILLED,
    NoCounterpart,
    arguments,
    function_of,
    last_name,
    layer_of,
    options_of,
    reading,
    reduced,
    size_text,
    with_defaults,
)
from tesserac.porting.methods import TRAINED, Field, is_own, ported_method
from tesserac.porting.settings import sizes_within, tensor_fields

_ARITHMETIC = (
    ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip
_BASES = ("Module", "object", "LightningModule")


@dataclass(frozen=True)
class Known:
    """A class of the same file: the parameters that it is made with, those that are sizes of its weights, those that
    are fields, whether calls of it say that it is being trained, whether the order of its parameters is known, and what
    they are where they are not given."""

    parameters: tuple[str, ...]
    sizes: tuple[str, ...]
    numbers: tuple[str, ...]
    is_trained: bool
    is_ordered: bool = True
    defaults: Mapping[str, ast.expr] | None = None


def block_end(text: str, start: int) -> int:
    """Behind the last line that stands deeper than the first."""
    end = start
    for line in re.finditer(r"[^\n]+", text[start:]):
        if end > start and not line[0][0].isspace():
            break
        if line[0].strip():
            end = start + line.end()
    return end


def parsed_class(block: str) -> ast.ClassDef:
    (node,) = ast.parse(block).body
    if not isinstance(node, ast.ClassDef) or node.decorator_list or node.keywords:
        raise NoCounterpart
    for base in node.bases:
        if last_name(base) not in _BASES:
            raise NoCounterpart(base)
    return node


def _method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == name), None)


def _parameters(made: ast.FunctionDef | None) -> list[str]:
    if made is None:
        return []
    if made.args.vararg or made.args.kwarg:
        raise NoCounterpart
    return [arg.arg for arg in (*made.args.args[1:], *made.args.kwonlyargs)]


def known_structs(text: str) -> Iterator[tuple[str, Known]]:
    """Structs that were classes: the order of what those were made with is not known, their names are."""
    for found in re.finditer(r"^struct (\w+)(?:\[([\w, ]+)\])?:$", text, re.MULTILINE):
        block = text[found.start() : block_end(text, found.start())]
        sizes = tuple(size[:1].lower() + size[1:] for size in (found[2] or "").split(", ") if size)
        fields = re.findall(r"^    (\w+): (?:int|bool|float)\b", block, re.MULTILINE)
        numbers = tuple(fields)
        yield found[1], Known((*sizes, *numbers), sizes, numbers, TRAINED in block, is_ordered=not numbers)


class Struct:
    """The struct of one class. `others` are classes of the same file. A parameter of `__init__` that is the size of a
    weight is one of the struct's; any other is a field, as the number of heads is. Which are sizes is known when all
    fields have been read once."""

    def __init__(self, node: ast.ClassDef, others: Mapping[str, Known]) -> None:
        self.node, self.others = node, others
        self.made = _method(node, "__init__")
        self.parameters = _parameters(self.made)
        self.used: set[str] = set()
        self.held: set[str] = set()
        self.makers: dict[str, str] = {}
        self.is_read = False
        self.written: list[ast.expr] = []
        self.fields()
        self.is_read = True
        if any(not self.is_told(name) for name in self.used):
            raise Untold

    def sizes(self) -> tuple[str, ...]:
        return tuple(name for name in self.parameters if name in self.used)

    def numbers(self) -> tuple[str, ...]:
        return tuple(name for name in self.parameters if name in self.held)

    def known(self, is_trained: bool) -> Known:
        """What others have to know of it."""
        return Known(tuple(self.parameters), self.sizes(), self.numbers(), is_trained, defaults=self.defaults())

    def defaults(self) -> dict[str, ast.expr]:
        if self.made is None:
            return {}
        args = self.made.args
        places = args.args[len(args.args) - len(args.defaults) :]
        pairs = (*zip(places, args.defaults, strict=True), *zip(args.kwonlyargs, args.kw_defaults, strict=True))
        return {arg.arg: value for arg, value in pairs if value is not None}

    def text(self, block: str) -> str:
        """`block` is that of the class: its words are kept as they stand."""
        fields = self.fields()
        methods = [method for item in self.node.body for method in self.methods(item, fields)]
        tensors = tensor_fields(self.node)
        sizes = ", ".join(dict.fromkeys((*map(_size_name, self.sizes()), *sizes_within(tensors))))
        declared = [f"    {line}" for line in tensors.values()]
        declared += [f"    {self.number_field(name)}" for name in self.numbers()]
        declared += [f"    {line}" for field in fields.values() for line in field.declared]
        if not declared and not methods:
            raise NoCounterpart
        head = [f"struct {self.node.name}{f'[{sizes}]' if sizes else ''}:"]
        words = self.node.body[0]
        if _is_words(words):
            head.append(f"    {ast.get_source_segment(block, words)}")
        makers = "".join(f"{maker}\n\n" for maker in self.makers.values())
        return makers + "\n".join([*head, *declared]) + "".join(f"\n\n{method}" for method in methods)

    def remarks(self, written: str) -> tuple[str, ...]:
        """What is otherwise than in PyTorch, of the text of the struct."""
        dropout = f"`{TRAINING}=False` is what `eval()` is there" if TRAINED in written else ""
        norm = "a batch norm learns by `y, layer = layer.train(x)`" if ": BatchNorm[" in written else ""
        return tuple(remark for remark in (dropout, norm) if remark)

    def methods(self, item: ast.stmt, fields: Mapping[str, Field]) -> Iterator[str]:
        """The method that a part of the class is, if it is one. Raises what is none, and no words."""
        if item is self.made or _is_words(item) or item in tensor_fields(self.node):
            return
        with reading(item):
            if not isinstance(item, ast.FunctionDef):
                raise NoCounterpart
            yield self.method(item, fields)

    # -- what `__init__` makes

    def fields(self) -> dict[str, Field]:
        made, local = dict[str, Field](), list[ast.stmt]()
        for line in () if self.made is None else self.made.body:
            if _calls_super(line) or _is_words(line) or isinstance(line, ast.Assert | ast.Pass):
                continue
            if is_local(line):
                local.append(line)
                continue
            with reading(line):
                name, value, is_buffer = _own_assignment(line)
                made[name] = self.buffer(name, value, local) if is_buffer else self.field(name, value)
        return made

    def buffer(self, name: str, value: ast.expr, local: Sequence[ast.stmt]) -> Field:
        """A tensor that is not trained, made by a function of the sizes."""
        names = tuple(self.parameters)
        shaped, lines = computed_shape(value, local, self.size, names)
        taken = [own for own in self.parameters if any(is_named(own, line) for line in lines)]
        if not all(own in self.used for own in taken):
            raise NoCounterpart
        maker = f"{_snake(self.node.name)}_{name}"
        written = "\n".join(f"    {ast.unparse(line)}" for line in lines)
        self.makers[name] = f"def {maker}({', '.join(f'{own}: int' for own in taken)}):\n{written}"
        sizes = ", ".join(map(_size_name, taken))
        return Field((f"buffer {name}: {shaped.type} = {maker}({sizes})",))

    def field(self, name: str, value: ast.expr) -> Field:
        if not isinstance(value, ast.Call):
            return Field((), number=self.number(value))
        kind = last_name(value.func)
        if kind == "Sequential" and len(value.args) == 1 and isinstance(value.args[0], ast.Starred):
            made = self.repeated(name, ast.Call(value.func, [value.args[0].value], []))
            return Field(made.declared, items=made.items, is_loop=True)
        if kind == "Sequential":
            return self.sequence(name, value)
        if kind == "ModuleDict":
            return self.named(name, value)
        if kind == "ModuleList":
            return self.repeated(name, value)
        if kind in RECURRENT and (deep := layers_of(kind, name, value, self.size, self.option)) is not None:
            return deep
        if kind == ATTENTION:
            return attention_of(name, self.with_numbers(value), self.size, self.option)
        if kind == "Parameter":
            return self.parameter(name, value)
        if kind not in LAYERS and kind not in self.others:
            return Field((), ((function_of(kind), options_of(kind, self.with_numbers(value), self.option)),))
        type_, initial, options = self.layer(value)
        declared = f"{name}: {type_}{f' = {initial}' if initial else ''}"
        return Field((declared,), ((f"self.{name}", options),) if options else ())

    def layer(self, value: ast.expr) -> tuple[str, str, tuple[str, ...]]:
        """The type of a layer with weights, its initial value where it needs one, and what its call takes besides."""
        if not isinstance(value, ast.Call):
            raise NoCounterpart
        kind = last_name(value.func)
        if kind in self.others:
            trained = (f"{TRAINING}={TRAINING}",) if self.others[kind].is_trained else ()
            return *self.own_struct(kind, value), trained
        type_, options = layer_of(self.with_numbers(value), self.size, self.option)
        return type_, "", options

    def own_struct(self, kind: str, value: ast.Call) -> tuple[str, str]:
        """The type of a struct that another class of the file becomes, and how it is made if that takes numbers."""
        other = self.others[kind]
        call = value if other.is_ordered else _by_name(value)
        given = arguments(call, other.parameters)
        known = with_defaults(given, other.defaults or {})
        sizes = ", ".join(self.size(known[name]) for name in other.sizes)
        type_ = f"{kind}[{sizes}]" if sizes else kind
        numbers = {name: self.number(given[name], "initial") for name in other.numbers if name in given}
        made = ", ".join(f"{name}={ast.unparse(value)}" for name, value in numbers.items())
        return type_, f"{type_}({made})" if made else ""

    def sequence(self, name: str, value: ast.Call) -> Field:
        declared, steps = list[str](), list[tuple[str, tuple[str, ...]]]()
        for number, item in enumerate(value.args):
            with reading(item):
                one = self.field(f"{name}_{number}", item)
            declared += one.declared
            steps += one.steps or [(f"self.{name}_{number}", ())]
        return Field(tuple(declared), tuple(steps))

    def named(self, name: str, value: ast.Call) -> Field:
        """`nn.ModuleDict(dict(a=..., b=...))`: fields of their own, `name_a`."""
        (held,) = value.args
        match held:
            case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
                items = {str(keyword.arg): keyword.value for keyword in keywords}
            case ast.Dict(keys=keys, values=values):
                pairs = zip(keys, values, strict=True)
                items = {str(key.value): one for key, one in pairs if isinstance(key, ast.Constant)}
            case _:
                raise NoCounterpart
        parts = {key: self.field(f"{name}_{key}", one) for key, one in items.items()}
        return Field(tuple(line for part in parts.values() for line in part.declared), parts=parts)

    def repeated(self, name: str, value: ast.Call) -> Field:
        (made,) = value.args
        if not isinstance(made, ast.ListComp) or len(made.generators) != 1 or made.generators[0].ifs:
            raise NoCounterpart
        walked = made.generators[0].iter
        if not isinstance(walked, ast.Call) or last_name(walked.func) != "range" or len(walked.args) != 1:
            raise NoCounterpart
        type_, initial, options = self.layer(made.elt)
        count = self.size(walked.args[0])
        each = f" = [{initial} for _ in range({count})]" if initial else ""
        return Field((f"{name}: List[{count}, {type_}]{each}",), items=options)

    def parameter(self, name: str, value: ast.Call) -> Field:
        (filled,), factor = value.args, ""
        match filled:
            case ast.BinOp(left=left, op=ast.Mult(), right=ast.Constant() as right):
                filled, factor = left, f" * {ast.unparse(right)}"
        if not isinstance(filled, ast.Call) or filled.keywords or not filled.args:
            raise NoCounterpart
        kind = last_name(filled.func)
        function, factor = ("normal", " * 0.02") if kind in UNFILLED else (FILLED.get(kind), factor)
        if function is None:
            raise NoCounterpart
        sizes = ", ".join(map(self.size, filled.args))
        return Field((f"{name}: Tensor[{sizes}, f32] = {function}({sizes}){factor}",))

    def size(self, value: ast.expr) -> str:
        """As a kernel whose two numbers are equal, or a shape of one."""
        if isinstance(value, ast.Tuple) and len({ast.unparse(item) for item in value.elts}) == 1:
            value = value.elts[0]
        value = reduced(value)
        self.written.append(value)
        return size_text(value, self.size_name)

    def is_told(self, name: str) -> bool:
        """Whether a size of a field tells this one: it stands there without being divided."""
        with_it = [value for value in self.written if any(_is_named(part, name) for part in ast.walk(value))]
        return any(not any(isinstance(part, ast.FloorDiv | ast.Pow) for part in ast.walk(value)) for value in with_it)

    def size_name(self, name: str) -> str:
        if name not in self.parameters:
            raise NoCounterpart
        self.used.add(name)
        return _size_name(name)

    # -- numbers that are no sizes

    def number(self, value: ast.expr, where: str = "method") -> ast.expr:
        """What computes a number of parameters, as it is written in a method, or in the initial value of a field."""
        if any(isinstance(part, ast.Name) and part.id not in self.parameters for part in ast.walk(value)):
            raise NoCounterpart
        if not all(isinstance(part, _ARITHMETIC) for part in ast.walk(value)):
            raise NoCounterpart
        written: ast.expr = _Numbers(self, where).visit(ast.parse(ast.unparse(value), mode="eval").body)
        return written

    def with_numbers(self, call: ast.Call) -> ast.Call:
        """A call whose arguments may be numbers: as methods write them. Sizes stay what they are."""
        args = [_Numbers(self, "option").visit(item) for item in call.args]
        keywords = [ast.keyword(item.arg, _Numbers(self, "option").visit(item.value)) for item in call.keywords]
        return ast.Call(call.func, args, keywords)

    def option(self, value: ast.expr) -> str:
        """What a call is given, with the names that sizes have here."""
        return ast.unparse(_Numbers(self, "method").visit(copy.deepcopy(value)))

    def number_field(self, name: str) -> str:
        """`heads: int`, `p: float = 0.1`."""
        assert self.made is not None
        args = self.made.args
        places = [*args.args, *args.kwonlyargs]
        defaults = [*[None] * (len(args.args) - len(args.defaults)), *args.defaults, *args.kw_defaults]
        argument, default = next((a, d) for a, d in zip(places, defaults, strict=True) if a.arg == name)
        said = argument.annotation.id if isinstance(argument.annotation, ast.Name) else ""
        kind = type(default.value).__name__ if isinstance(default, ast.Constant) else said or "int"
        if kind not in ("int", "bool", "float") or (default is not None and not isinstance(default, ast.Constant)):
            raise NoCounterpart
        return f"{name}: {kind}" + (f" = {ast.unparse(default)}" if default is not None else "")

    # -- methods

    def method(self, item: ast.FunctionDef, fields: Mapping[str, Field]) -> str:
        if item.decorator_list:
            raise NoCounterpart
        asserted = [line for line in (self.made.body if self.made else ()) if isinstance(line, ast.Assert)]
        known = [line for line in asserted if not _is_about_nothing(line)]
        written = list[ast.stmt](ast.Assert(self.number(line.test), line.msg) for line in known)
        return ported_method(item, fields, written)


class Untold(NoCounterpart):
    """A size that no field has: it stands only in what is computed of it."""


class _Numbers(ast.NodeTransformer):
    """Writes parameters of `__init__` as what they are here: sizes, or fields."""

    def __init__(self, struct: Struct, where: str) -> None:
        self.struct, self.where = struct, where

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.struct.used:
            return node if self.where == "option" else ast.Name(_size_name(node.id), ast.Load())
        if node.id not in self.struct.parameters or not self.struct.is_read:
            return node
        self.struct.held.add(node.id)
        if self.where == "initial":
            return node
        return ast.Attribute(ast.Name("self", ast.Load()), node.id, ast.Load())


def _is_about_nothing(line: ast.Assert) -> bool:
    """`assert config.size is not None`."""
    return any(isinstance(part, ast.Constant) and part.value is None for part in ast.walk(line.test))


def _by_name(call: ast.Call) -> ast.Call:
    """A call that is given names, as what they say they are."""
    if not all(isinstance(item, ast.Name) for item in call.args):
        raise NoCounterpart
    named = [ast.keyword(item.id, item) for item in call.args if isinstance(item, ast.Name)]
    return ast.Call(call.func, [], [*named, *call.keywords])


def _size_name(name: str) -> str:
    """Names of sizes begin with a capital."""
    return name[:1].upper() + name[1:]


def _is_named(part: ast.AST, name: str) -> bool:
    return isinstance(part, ast.Name) and part.id == name


def _is_words(line: ast.stmt) -> bool:
    """A string that documents."""
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def _calls_super(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and ast.unparse(line).startswith("super(")


def _own_assignment(line: ast.stmt) -> tuple[str, ast.expr, bool]:
    """`self.name = value`, `self.register_buffer("name", value)`: the name, the value, and whether it is a buffer."""
    match line:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="register_buffer") as func, args=[name, value])) if (
            is_own(func) and isinstance(name, ast.Constant) and isinstance(name.value, str)
        ):
            return name.value, value, True
        case ast.Assign(targets=[ast.Attribute(attr=name) as target], value=ast.Call() as value) if is_own(target):
            return name, value.args[0] if _is_buffer(value) else value, _is_buffer(value) or is_tensor(value)
        case ast.Assign(targets=[ast.Attribute(attr=name) as target], value=value) if is_own(target):
            return name, value, False
    raise NoCounterpart


def _is_buffer(call: ast.Call) -> bool:
    return last_name(call.func) == "Buffer" and len(call.args) == 1


def _snake(name: str) -> str:
    """`PositionalEncoding` as functions are called."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
