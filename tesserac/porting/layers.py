"""Layers of PyTorch, by what their constructors are given: the library's structs and functions, and what goes where.

Enters: the text of a call, as `nn.Conv2d(3, 64, 7, stride=2)`. Leaves: the type of a field, `Conv2d[3, 64, 7]`, and the
arguments that its call takes, `stride=2`; None where something in it has no counterpart.
"""

from __future__ import annotations

import ast
import copy
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from tesserac.base.dataclass import dataclass


class NoCounterpart(Exception):
    """Something of PyTorch's is not known to have a form here: `part`, which is the innermost that was read."""

    def __init__(self, part: ast.AST | None = None) -> None:
        super().__init__()
        self.part = part


@contextmanager
def reading(part: ast.AST) -> Iterator[None]:
    """What has no counterpart in here is this part, if no smaller one is known to be it."""
    try:
        yield
    except NoCounterpart as problem:
        problem.part = problem.part or part
        raise


@dataclass(frozen=True)
class Layer:
    """The struct for a layer with weights: parameters of PyTorch's constructor, in order, that are its sizes (None) or
    arguments of its call, by the names that those have here; and the struct for one with `bias=False`."""

    struct: str
    parameters: Mapping[str, str | None]
    without_bias: str = ""


_LINE = {"stride": "stride", "padding": "padding", "dilation": "dilation", "groups": "groups"}
_KERNEL = {"in_channels": None, "out_channels": None, "kernel_size": None}
_TURNED = {"stride": "stride", "padding": "padding", "output_padding": "output_padding"}
_RECURRENT = {"input_size": None, "hidden_size": None}
LAYERS = {
    "Linear": Layer("Linear", {"in_features": None, "out_features": None}, "LinearNoBias"),
    "Embedding": Layer("Embedding", {"num_embeddings": None, "embedding_dim": None}),
    "LayerNorm": Layer("LayerNorm", {"normalized_shape": None, "eps": "eps"}),
    "RMSNorm": Layer("RMSNorm", {"normalized_shape": None, "eps": "eps"}),
    "GroupNorm": Layer("GroupNorm", {"num_groups": "groups", "num_channels": None, "eps": "eps"}),
    **{f"BatchNorm{rank}d": Layer("BatchNorm", {"num_features": None, "eps": "eps"}) for rank in (1, 2, 3)},
    "Conv1d": Layer("Conv1d", {**_KERNEL, **_LINE}, "Conv1dNoBias"),
    "Conv2d": Layer("Conv2d", {**_KERNEL, **_LINE}, "Conv2dNoBias"),
    "Conv3d": Layer("Conv3d", {**_KERNEL, **_LINE}, "Conv3dNoBias"),
    **{
        f"ConvTranspose{rank}d": Layer(f"ConvTranspose{rank}d", {**_KERNEL, **_TURNED}, f"ConvTranspose{rank}dNoBias")
        for rank in (1, 2, 3)
    },
    "LSTM": Layer("LSTM", {**_RECURRENT, "batch_first": "batch_first"}),
    "GRU": Layer("GRU", {**_RECURRENT, "batch_first": "batch_first"}),
    "RNN": Layer("RNN", {**_RECURRENT, "batch_first": "batch_first"}),
    **{f"{kind}Cell": Layer(f"{kind}Cell", _RECURRENT) for kind in ("LSTM", "GRU", "RNN")},
}
_POSITIONAL = {"LSTM": 2, "GRU": 2, "RNN": 2}
"""How many arguments may stand without a name, where not all."""
_WITH_MORE = re.compile("Norm|Dropout|Loss|RNN|LSTM|GRU|Transformer|Embedding|Linear|Bilinear|PReLU|Conv|Attention")
"""Layers that have weights, or that do another thing while they are trained."""
STRUCTS = frozenset(name for layer in LAYERS.values() for name in (layer.struct, layer.without_bias) if name)
_DROPOUTS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d")
TRAINING = "training"
"""The argument of a method that says whether a network is being trained, as it is in PyTorch until `eval()`."""
_IN_PLACE = "inplace"
_IN_PLACE_AT = {
    **dict.fromkeys(("ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardswish", "Hardsigmoid"), 0),
    **dict.fromkeys(("LeakyReLU", "ELU", "CELU", *_DROPOUTS), 1),
    **dict.fromkeys(("Hardtanh", "RReLU", "Threshold"), 2),
}
"""Which argument of a layer says that it works in place."""
FILLED = {"zeros": "zeros", "ones": "ones", "randn": "normal", "rand": "uniform"}
UNFILLED = ("empty", "FloatTensor", "Tensor")
"""What has no values until they are filled in."""


Sizes = Callable[[ast.expr], str]
"""How a size of weights is written here. Raises NoCounterpart where that is not known."""


def ported_layer(text: str) -> tuple[str, tuple[str, ...]] | None:
    """The type of a layer that a call makes, and what calls of it take besides."""
    try:
        call = ast.parse(text.strip(), mode="eval").body
        return layer_of(call, _as_written) if isinstance(call, ast.Call) else None
    except (NoCounterpart, KeyError, SyntaxError, ValueError):
        return None


def _as_written(value: ast.expr) -> str:
    if isinstance(value, ast.Tuple) and len({ast.unparse(item) for item in value.elts}) == 1:
        value = value.elts[0]
    return size_text(value, lambda name: name)


def layer_of(call: ast.Call, size: Sizes, option: Sizes = ast.unparse) -> tuple[str, tuple[str, ...]]:
    """The same of what is parsed; `option` writes what goes to calls."""
    kind = last_name(call.func)
    layer = LAYERS.get(kind)
    if layer is None:
        raise NoCounterpart
    struct, call = _with_or_without_bias(layer, call)
    given = _in_groups(arguments(call, list(layer.parameters), _POSITIONAL.get(kind)))
    sizes = [size(given[name]) for name, here in layer.parameters.items() if here is None]
    options = [f"{here}={option(given[name])}" for name, here in layer.parameters.items()
               if here is not None and name in given]  # fmt: skip
    return f"{struct}[{', '.join(sizes)}]", tuple(options)


def _in_groups(given: dict[str, ast.expr]) -> dict[str, ast.expr]:
    """Weights of a convolution in groups have the channels of one: those that go in, over the number of groups."""
    groups = given.get("groups")
    if groups is None:
        return given
    if isinstance(groups, ast.Constant) and groups.value == 1:
        return {name: value for name, value in given.items() if name != "groups"}
    is_each = ast.unparse(given["in_channels"]) == ast.unparse(groups)
    one = ast.Constant(1) if is_each else ast.BinOp(given["in_channels"], ast.FloorDiv(), groups)
    return {**given, "in_channels": one}


def _with_or_without_bias(layer: Layer, call: ast.Call) -> tuple[str, ast.Call]:
    """The struct of a layer, and its call without what says whether it has a bias."""
    if not layer.without_bias:
        return layer.struct, call
    rest, struct = list[ast.keyword](), layer.struct
    for keyword in call.keywords:
        if keyword.arg != "bias":
            rest.append(keyword)
        elif not isinstance(keyword.value, ast.Constant) or not isinstance(keyword.value.value, bool):
            raise NoCounterpart
        elif not keyword.value.value:
            struct = layer.without_bias
    return struct, ast.Call(call.func, call.args, rest)


_IN_SIZES = (ast.Name, ast.Constant, ast.BinOp, ast.Mult, ast.Add, ast.Sub, ast.FloorDiv, ast.Pow, ast.expr_context)


def size_text(value: ast.expr, named: Callable[[str], str]) -> str:
    """A size, with the names that it has here."""
    if not all(isinstance(part, _IN_SIZES) for part in ast.walk(value)):
        raise NoCounterpart
    return ast.unparse(_Sizes(named).visit(copy.deepcopy(value)))


def reduced(value: ast.expr) -> ast.expr:
    """`heads * (dim // heads)` is `dim`, which heads divide."""
    match value:
        case ast.BinOp(left=left, op=ast.Mult(), right=ast.BinOp(left=whole, op=ast.FloorDiv(), right=part)):
            return whole if ast.unparse(left) == ast.unparse(part) else value
        case ast.BinOp(left=ast.BinOp(left=whole, op=ast.FloorDiv(), right=part), op=ast.Mult(), right=right):
            return whole if ast.unparse(right) == ast.unparse(part) else value
    return value


class _Sizes(ast.NodeTransformer):
    """Names as they are here, and squares as products."""

    def __init__(self, named: Callable[[str], str]) -> None:
        self.named = named

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(self.named(node.id), ast.Load())

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if not isinstance(node.value, int) or isinstance(node.value, bool):
            raise NoCounterpart
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Pow):
            return node
        if not isinstance(node.right, ast.Constant) or node.right.value != 2:
            raise NoCounterpart
        return ast.BinOp(node.left, ast.Mult(), node.left)


def arguments(call: ast.Call, names: Sequence[str], positional: int | None = None) -> dict[str, ast.expr]:
    """What a call gives, by the names of parameters. Raises what is none of these."""
    places = names[:positional]
    if len(call.args) > len(places) or any(isinstance(item, ast.Starred) for item in call.args):
        raise NoCounterpart
    given = dict(zip(places, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg not in names or keyword.arg in given:
            raise NoCounterpart
        given[keyword.arg] = keyword.value
    return given


def with_defaults(given: Mapping[str, ast.expr], defaults: Mapping[str, ast.expr]) -> dict[str, ast.expr]:
    """What parameters are, given or not; a default may be computed of others."""
    known = {**{name: value for name, value in defaults.items() if isinstance(value, ast.Constant)}, **given}
    computed = {name: value for name, value in defaults.items() if name not in known}
    return {**known, **{name: _computed(value, known) for name, value in computed.items()}}


def _computed(value: ast.expr, known: Mapping[str, ast.expr]) -> ast.expr:
    """A value with what names in it stand for; a number, if all are."""
    class Given(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return copy.deepcopy(known.get(node.id, node))

    written: ast.expr = Given().visit(copy.deepcopy(value))
    plain = (ast.Constant, ast.BinOp, ast.operator)
    if not all(isinstance(part, plain) for part in ast.walk(written)):
        return written
    return ast.Constant(_number(written))


def _number(value: ast.expr) -> int:
    """What whole numbers come to."""
    match value:
        case ast.Constant(value=int(known)):
            return known
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _ARITHMETIC[type(op)](_number(left), _number(right))
    raise NoCounterpart


_ARITHMETIC: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}  # fmt: skip


def function_of(kind: str) -> str:
    """The function that a layer without weights is, with its options: PyTorch's has the name of the class in small
    letters. Nothing is called for one that changes nothing."""
    if kind == "Identity":
        return ""
    if kind in _DROPOUTS:
        return kind.lower()
    if not kind[:1].isupper() or _WITH_MORE.search(kind):
        raise NoCounterpart
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.replace("LU", "lu")).lower()


def options_of(kind: str, call: ast.Call, option: Sizes) -> tuple[str, ...]:
    """What a function is given besides: what its layer was. Flattening begins behind the batch."""
    options = [option(item) for item in call.args[: _IN_PLACE_AT.get(kind)]]
    options += [f"{item.arg}={option(item.value)}" for item in call.keywords if item.arg != _IN_PLACE]
    if kind in _DROPOUTS:
        options.append(f"{TRAINING}={TRAINING}")
    return tuple(options or (["1"] if kind == "Flatten" else []))


def last_name(node: ast.expr) -> str:
    """`Linear` of `torch.nn.Linear`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    raise NoCounterpart
