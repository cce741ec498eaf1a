"""Calls of functions of JAX and PyTorch that are written otherwise here: the call that does the same.

Enters: the names before the brackets, as `jax.random.normal`, and the text of the call. Leaves: its text here, as
`normal((3, 4), key=k)`; None where that is not known. What is given stays as it is written: names of other modules in
it are told, and mended, where they stand.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tesserac.base.dataclass import dataclass
from tesserac.check.names.foreign_classes import loss_here
from tesserac.syntax.ported_layers import NoCounterpart, arguments


@dataclass(frozen=True)
class _Call:
    """A function of this library: what each parameter of the other one is called here, in their order (an empty name
    stands without one), the order of those, and what is given where nothing is."""

    function: str
    parameters: Mapping[str, str]
    first: tuple[str, ...] = ()
    unless_given: tuple[tuple[str, str], ...] = ()


_DRAWN = {"key": "key", "shape": "", "dtype": "dtype"}
_SCALAR = (("shape", "()"),)
CALLS = {
    ("random", "split"): _Call("split", {"key": "", "num": ""}, unless_given=(("num", "2"),)),
    ("random", "fold_in"): _Call("fold_in", {"key": "", "data": ""}),
    ("random", "normal"): _Call("normal", _DRAWN, unless_given=_SCALAR),
    ("random", "uniform"): _Call(
        "uniform", {**_DRAWN, "minval": "low", "maxval": "high"}, unless_given=_SCALAR
    ),
    ("random", "exponential"): _Call("exponential", _DRAWN, unless_given=_SCALAR),
    ("random", "gumbel"): _Call("gumbel", _DRAWN, unless_given=_SCALAR),
    ("random", "bernoulli"): _Call("bernoulli", {"key": "key", "p": "", "shape": ""}, unless_given=(("p", "0.5"),)),
    ("random", "randint"): _Call(
        "randint",
        {"key": "key", "shape": "", "minval": "", "maxval": "", "dtype": "dtype"},
        first=("minval", "maxval", "shape"),
    ),
    ("random", "categorical"): _Call("categorical", {"key": "key", "logits": "", "axis": "axis"}),
    ("random", "PRNGKey"): _Call("cast", {"seed": "", "dtype": ""}, unless_given=(("dtype", "u64"),)),
    ("random", "key"): _Call("cast", {"seed": "", "dtype": ""}, unless_given=(("dtype", "u64"),)),
    ("F", "cross_entropy"): _Call(
        "cross_entropy",
        {
            "input": "", "target": "", "weight": "weight", "ignore_index": "ignore_index", "reduction": "reduction",
            "label_smoothing": "label_smoothing",
        },
        unless_given=(("reduction", '"mean"'),),
    ),
}  # fmt: skip
"""By the module and the name. What PyTorch's loss gives is the mean."""
_BY_ROW = ("cross_entropy", "kl_div")
"""Losses that are one for each row here, and their mean in PyTorch, unless said."""
_SAME = {"functional": "F", "jr": "random"}
"""Other names of a module."""


def call_here(path: tuple[str, ...], call: str) -> str | None:
    """What stands here for a call of `path`."""
    module = _SAME.get(path[-2], path[-2])
    try:
        node = ast.parse(call, mode="eval").body
        if not isinstance(node, ast.Call):
            return None
        if path[-1] == "dot":
            return _product(node)
        known = CALLS.get((module, path[-1]))
        return _written(known, node) if known is not None else _loss(path[-1], node)
    except (NoCounterpart, SyntaxError, ValueError):
        return None


def _written(known: _Call, node: ast.Call) -> str:
    given = dict(known.unless_given)
    given |= {name: ast.unparse(value) for name, value in arguments(node, list(known.parameters)).items()}
    order = [*known.first, *(name for name in known.parameters if name not in known.first)]
    held = [(known.parameters[name], given[name]) for name in order if name in given]
    plain = [value for name, value in held if not name]
    return f"{known.function}({', '.join([*plain, *(f'{name}={value}' for name, value in held if name)])})"


def _product(node: ast.Call) -> str:
    """`np.dot(a, b)`; of more than two dims it is none of these, which sizes tell."""
    given = arguments(node, ["a", "b"])
    if len(given) != 2:
        raise NoCounterpart
    return " @ ".join(within(ast.unparse(value)) for value in given.values())


def within(text: str) -> str:
    """An expression where it is part of another: in brackets, unless it has some, or is a name."""
    closed = ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.Constant
    return text if isinstance(ast.parse(text, mode="eval").body, closed) else f"({text})"


def _loss(name: str, node: ast.Call) -> str | None:
    """`nn.MSELoss()` is an object that is called: a function of what it is called with."""
    function = loss_here(name)
    if function is None or node.args:
        return None
    given = [ast.unparse(keyword) for keyword in node.keywords]
    if function in _BY_ROW and not any(keyword.arg == "reduction" for keyword in node.keywords):
        given.append('reduction="mean"')
    return f"lambda x, y: {function}({', '.join(['x', 'y', *given])})"
