"""Tensors that a class of PyTorch computes in its `__init__` and does not train: what they are declared as.

    mask = torch.tril(torch.ones(n, n))                 buffer mask: Tensor[1, 1, N, N, f32] = net_mask(N)
    self.register_buffer("mask", mask.view(1, 1, n, n))

Enters: expressions as they stand in `__init__`. Leaves: the sizes and the dtype of what each computes, as far as the
text says them. Whatever is not known here raises NoCounterpart.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.porting.layers import FILLED, NoCounterpart, last_name

_ELEMENTWISE = ("exp", "log", "sin", "cos", "sqrt", "rsqrt", "abs", "tril", "triu", "reciprocal", "contiguous", "clone")
_SCALARS = ("log", "sqrt", "exp", "pi")
"""What is read of `math`."""
_CASTS = {"float": "f32", "long": "i64", "int": "i32", "bool": "bool", "half": "f16", "double": "f64"}
_MODULES = ("math", "torch", "np")


@dataclass(frozen=True)
class Shaped:
    """The sizes of a tensor, as a type writes them, and its dtype; of a plain number that is empty."""

    sizes: tuple[str, ...]
    dtype: str = ""

    @property
    def type(self) -> str:
        return f"Tensor[{', '.join((*self.sizes, self.dtype or 'f32'))}]"


class Shapes:
    """Finds the shapes of expressions. `size` writes a size, `known` are the names that have been computed before."""

    def __init__(self, size: Callable[[ast.expr], str], numbers: Sequence[str], known: Mapping[str, Shaped]) -> None:
        self.size, self.numbers, self.known = size, numbers, known

    def of(self, value: ast.expr) -> Shaped:
        match value:
            case ast.Constant(value=int() | float()):
                return Shaped(())
            case ast.Name(id=name) if name in self.known:
                return self.known[name]
            case ast.Name(id=name) if name in self.numbers:
                return Shaped(())
            case ast.Attribute(value=ast.Name(id="math"), attr=name) if name in _SCALARS:
                return Shaped(())
            case ast.UnaryOp(operand=operand):
                return self.of(operand)
            case ast.BinOp(left=left, right=right):
                return self.together(self.of(left), self.of(right))
            case ast.Compare(left=left, comparators=[right]):
                return Shaped(self.together(self.of(left), self.of(right)).sizes, "bool")
            case ast.Call(func=ast.Attribute(value=of, attr=name)):
                if isinstance(of, ast.Name) and of.id in _MODULES:
                    return self.called(name, value, is_number=of.id == "math")
                return self.method(self.of(of), name, value)
        raise NoCounterpart

    def called(self, name: str, call: ast.Call, *, is_number: bool) -> Shaped:
        """`torch.ones(n, n)`, `math.log(x)`."""
        if is_number and name in _SCALARS and all(not self.of(item).sizes for item in call.args):
            return Shaped(())
        given = {item.arg: item.value for item in call.keywords}
        dtype = _dtype(given.pop("dtype", None))
        if name in FILLED and not given:
            sizes = call.args[0].elts if len(call.args) == 1 and isinstance(call.args[0], ast.Tuple) else call.args
            return Shaped(tuple(map(self.size, sizes)), dtype or "f32")
        if name == "eye" and len(call.args) == 1 and not given:
            return Shaped((self.size(call.args[0]),) * 2, dtype or "f32")
        if name == "arange" and not given:
            return Shaped((self.steps(call.args),), dtype or "i64")
        if name in _ELEMENTWISE and not is_number and call.args:
            first = self.of(call.args[0])
            return Shaped(first.sizes, first.dtype if name in ("tril", "triu", "abs") else "f32")
        raise NoCounterpart

    def steps(self, args: Sequence[ast.expr]) -> str:
        """How many numbers `arange` gives."""
        match args:
            case [end] | [ast.Constant(value=0), end] | [ast.Constant(value=0), end, ast.Constant(value=1)]:
                return self.size(end)
            case [ast.Constant(value=0), end, ast.Constant(value=int(step))] if step > 1:
                return f"ceil_div({self.size(end)}, {step})"
        raise NoCounterpart

    def method(self, of: Shaped, name: str, call: ast.Call) -> Shaped:
        numbers = [_number(item) for item in call.args] if name in ("unsqueeze", "transpose") else []
        rank = len(of.sizes)
        match name, numbers:
            case ("view" | "reshape"), _ if not call.keywords:
                return Shaped(tuple(map(self.size, call.args)), of.dtype)
            case "unsqueeze", [place]:
                place %= rank + 1
                return Shaped((*of.sizes[:place], "1", *of.sizes[place:]), of.dtype)
            case "transpose", [first, second]:
                sizes = list(of.sizes)
                sizes[first], sizes[second] = sizes[second], sizes[first]
                return Shaped(tuple(sizes), of.dtype)
            case _ if name in _CASTS and not call.args:
                return Shaped(of.sizes, _CASTS[name])
            case _ if name in _ELEMENTWISE:
                return Shaped(of.sizes, of.dtype)
        raise NoCounterpart

    def together(self, left: Shaped, right: Shaped) -> Shaped:
        """Broadcast, from the right. Integers that meet a fraction are floats, as in PyTorch."""
        rank = max(len(left.sizes), len(right.sizes))
        padded = [("1",) * (rank - len(side.sizes)) + side.sizes for side in (left, right)]
        sizes = list[str]()
        for one, other in zip(*padded, strict=True):
            if one != other and "1" not in (one, other):
                raise NoCounterpart
            sizes.append(other if one == "1" else one)
        dtypes = {side.dtype for side in (left, right)} - {""}
        return Shaped(tuple(sizes), "f32" if dtypes != {"f64"} and dtypes else "".join(dtypes))


def computed_shape(
    value: ast.expr, local: Sequence[ast.stmt], size: Callable[[ast.expr], str], numbers: Sequence[str]
) -> tuple[Shaped, list[ast.stmt]]:
    """The shape of a tensor, and the lines that compute it, the last of which returns it. `local` are lines before it;
    those that it needs none of are left out."""
    known = dict[str, Shaped]()
    for line in local:
        target = _target(line)
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            known[target] = Shapes(size, numbers, known).of(line.value)
        elif target not in known:
            raise NoCounterpart
    shaped = Shapes(size, numbers, known).of(value)
    lines = list[ast.stmt]([ast.Return(value)])
    for line in reversed(local):
        if any(is_named(_target(line), later) for later in lines):
            lines.insert(0, line)
    return shaped, [_Here().visit(ast.parse(ast.unparse(line)).body[0]) for line in lines]


class _Here(ast.NodeTransformer):
    """Writes what `Shapes` knows of PyTorch as it is called here."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.value, ast.Name) or node.value.id not in _MODULES:
            return node
        return ast.Name("PI" if node.attr == "pi" else FILLED.get(node.attr, node.attr), ast.Load())

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        return ast.keyword(node.arg, ast.Name(_dtype(node.value), ast.Load())) if node.arg == "dtype" else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _CASTS and not node.args:
            dtype = ast.Name(_CASTS[node.func.attr], ast.Load())
            return ast.Call(ast.Attribute(node.func.value, "astype", ast.Load()), [dtype], [])
        return node


def is_local(line: ast.stmt) -> bool:
    """Whether a line computes something, or a part of it, that is no field: `pe = ...`, `pe[:, 0::2] = ...`."""
    return isinstance(line, ast.Assign) and len(line.targets) == 1 and bool(_target(line))


def _target(line: ast.stmt) -> str:
    match line:
        case ast.Assign(targets=[ast.Name(id=name)] | [ast.Subscript(value=ast.Name(id=name))]):
            return name
    return ""


def is_named(name: str, line: ast.stmt) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(line))


def is_tensor(call: ast.Call) -> bool:
    """Whether a call computes a tensor: `torch.tril(...)`, `torch.ones(n, n).view(1, n, n)`."""
    func = call.func
    while isinstance(func, ast.Attribute) and isinstance(func.value, ast.Call | ast.Attribute):
        func = func.value.func if isinstance(func.value, ast.Call) else func.value
    return isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "torch" and (
        func.attr in FILLED or func.attr in _ELEMENTWISE or func.attr in ("arange", "eye")
    )


def _number(value: ast.expr) -> int:
    match value:
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
    raise NoCounterpart


def _dtype(value: ast.expr | None) -> str:
    """`torch.float` and its kin; nothing where nothing is said."""
    if value is None:
        return ""
    name = last_name(value)
    known = {"float32": "f32", "int64": "i64", "int32": "i32", "float64": "f64", **_CASTS}
    if name not in known:
        raise NoCounterpart
    return known[name]
