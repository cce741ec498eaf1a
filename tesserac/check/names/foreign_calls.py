"""Calls of functions of NumPy, JAX and PyTorch that are written otherwise here: the call that does the same.

Enters: the names before the brackets, as `jax.random.normal`, and the text of the call. Leaves: its text here, as
`normal((3, 4), key=k)`; None where that is not known. An expression of the table of equivalents is written with what is
given: `vdot(a, b)` as `sum(conj(a) * b)`. What is given stays as it is written: names of other modules in
it are told, and mended, where they stand.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from tesserac.base.dataclass import dataclass
from tesserac.check.names.equivalents import by_peer_name
from tesserac.check.names.foreign_classes import loss_here
from tesserac.check.names.foreign_forms import form_of, item_of
from tesserac.check.names.foreign_methods import PRODUCTS
from tesserac.porting.layers import NoCounterpart, arguments


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
_SIZED = {"size": ""}
_FOLDED = {"input": "", "axis": "axis", "keep_dims": "keep"}
_NO_SIZE = (("size", "()"),)
_WINDOWS = _Call("windows", {"x": "", "window_shape": "", "axis": "axis"}, unless_given=(("axis", "-1"),))
CALLS = {
    ("", "sliding_window_view"): _WINDOWS,
    ("stride_tricks", "sliding_window_view"): _WINDOWS,
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
    ("F", "kl_div"): _Call(
        "kl_div",
        {"input": "", "target": "", "reduction": "reduction", "log_target": "log_target"},
        unless_given=(("reduction", '"mean"'),),
    ),
    ("F", "embedding"): _Call(
        "embedding",
        {"input": "", "weight": "", "padding_idx": "padding_idx"},
        first=("weight", "input"),
    ),
    ("lax", "select"): _Call("where", {"pred": "", "on_true": "", "on_false": ""}),
    ("torch", "gather"): _Call(
        "take_along_axis", {"input": "", "dim": "axis", "index": ""}, first=("input", "index", "dim")
    ),
    ("tl", "max"): _Call("tile.reduce_max", _FOLDED),
    ("tl", "min"): _Call("tile.reduce_min", _FOLDED),
    ("tl", "sum"): _Call("tile.reduce_sum", _FOLDED),
    ("tl", "trans"): _Call("tile.transpose", {"input": ""}),
    ("tl", "cdiv"): _Call("ceil_div", {"x": "", "div": ""}),
    ("triton", "cdiv"): _Call("ceil_div", {"x": "", "div": ""}),
    ("torch", "index_add"): _Call(
        "scatter_add",
        {"input": "", "dim": "axis", "index": "", "source": ""},
        first=("input", "index", "source", "dim"),
    ),
    ("torch", "index_select"): _Call(
        "gather", {"input": "", "dim": "axis", "index": ""}, first=("input", "index", "dim")
    ),
}  # fmt: skip
"""By the module and the name. What PyTorch's loss gives is the mean."""
OF_NUMPY = {
    "rand": _Call("uniform", {}),
    "randn": _Call("normal", {}),
    "random": _Call("uniform", _SIZED, unless_given=_NO_SIZE),
    "random_sample": _Call("uniform", _SIZED, unless_given=_NO_SIZE),
    "standard_normal": _Call("normal", _SIZED, unless_given=_NO_SIZE),
    "uniform": _Call("uniform", {"low": "low", "high": "high", "size": ""}, unless_given=_NO_SIZE),
    "randint": _Call("randint", {"low": "", "high": "", "size": ""}, unless_given=_NO_SIZE),
    "integers": _Call("randint", {"low": "", "high": "", "size": ""}, unless_given=_NO_SIZE),
    "choice": _Call("choice", {"a": "", "size": "", "replace": "replace"}, unless_given=_NO_SIZE),
    "permutation": _Call("permutation", {"x": ""}),
}
"""Of `numpy.random`, whose functions take no keys."""
OF_PYTHON = {
    "random": _Call("uniform", {}, unless_given=_NO_SIZE),
    "uniform": _Call("uniform", {"a": "low", "b": "high"}, unless_given=_NO_SIZE),
}
"""Of Python's own `random`: numbers."""
_BY_ROW = ("cross_entropy", "kl_div")
"""Losses that are one for each row here, and their mean in PyTorch, unless said."""
_GENERATOR = "rng"
"""What programs call a generator of NumPy, whose methods are named like the functions of `numpy.random`."""
_SAME = {"functional": "F", "jr": "random"}
"""Other names of a module."""


PLACEHOLDERS = ("x", "y", "z", "n", "low", "high")
"""What expressions of the table call what is given, in the order in which it is given."""


def call_here(path: tuple[str, ...], call: str) -> str | None:
    """What stands here for a call of `path`; of a name alone it is one name."""
    path = ("np", "random", *path[1:]) if path[0] == _GENERATOR else path
    module = _SAME.get(path[-2], path[-2]) if len(path) > 1 else ""
    try:
        node = ast.parse(call, mode="eval").body
        if not isinstance(node, ast.Call):
            return None
        if len(path) == 1 and path[0] in OF_PYTHON_ITSELF:
            return OF_PYTHON_ITSELF[path[0]](node)
        form = form_of(path if len(path) > 1 else ("torch", *path)) or WRITTEN.get(path[-2:])
        if form is not None:
            return form(node)
        if path[-3:-1] == ("stats", "norm") and path[-1] in _OF_NORMAL:
            return _of_normal(_OF_NORMAL[path[-1]], node)
        if path[-1] in LIKE and len(path) == 2:
            return _like(LIKE[path[-1]], node)
        if len(path) > 1 and path[-1] in SPREAD and (path[0] in ("np", "numpy") or path[-1] != "normal"):
            return _spread(SPREAD[path[-1]], node)
        known = _known(path, module, node)
        if known is not None:
            return _written(known, node)
        if path[-1] in PRODUCTS:
            return _product(node)
        return _loss(path[-1], node) or _of_the_table(path[-1], node)
    except (NoCounterpart, SyntaxError, ValueError, KeyError):
        return None


def item_here(path: tuple[str, ...], call: str, item: int) -> str | None:
    """What stands here for one of the two results of a call of `path`."""
    try:
        node = ast.parse(call, mode="eval").body
        return item_of(path, node, item) if isinstance(node, ast.Call) else None
    except (NoCounterpart, SyntaxError, ValueError, KeyError):
        return None


def _alone(node: ast.Call) -> ast.expr:
    """The only argument of a call."""
    if len(node.args) != 1 or node.keywords:
        raise NoCounterpart
    return node.args[0]


def _backwards(node: ast.Call) -> str:
    """`reversed(range(...))`."""
    counted = _alone(node)
    if not isinstance(counted, ast.Call) or not isinstance(counted.func, ast.Name) or counted.func.id != "range":
        raise NoCounterpart
    *start, stop = map(ast.unparse, counted.args[:2])
    if len(counted.args) > 2 or counted.keywords:
        raise NoCounterpart
    return f"range({within(stop)} - 1, {f'{within(start[0])} - 1' if start else '-1'}, -1)"


def _in_order(node: ast.Call) -> str:
    """`sorted(x, reverse=True)`."""
    named = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
    if len(node.args) != 1 or set(named) - {"reverse"}:
        raise NoCounterpart
    descending = ", descending=True" if named.get("reverse") == "True" else ""
    return f"sort({ast.unparse(node.args[0])}{descending})"


def _entries(node: ast.Call) -> str:
    """`dict(a=x)`."""
    if node.args or any(keyword.arg is None for keyword in node.keywords):
        raise NoCounterpart
    entries = [f'"{keyword.arg}": {ast.unparse(keyword.value)}' for keyword in node.keywords]
    return f"{{{', '.join(entries)}}}"


OF_PYTHON_ITSELF: Mapping[str, Callable[[ast.Call], str]] = {
    "dict": _entries,
    "list": lambda node: ast.unparse(_alone(node)),
    "reversed": _backwards,
    "sorted": _in_order,
    "tuple": lambda node: ast.unparse(_alone(node)),
}
"""Functions of Python: what is in brackets, or written otherwise."""


_OF_NORMAL = {
    "cdf": "cdf({d}, {x})",
    "logpdf": "log_prob({d}, {x})",
    "pdf": "exp(log_prob({d}, {x}))",
    "ppf": "icdf({d}, {x})",
}
"""Of SciPy's normal distribution."""


def _of_normal(form: str, node: ast.Call) -> str:
    given = {name: ast.unparse(value) for name, value in arguments(node, ["x", "loc", "scale"]).items()}
    said = [f"{name}={value}" for name, value in given.items() if name != "x"]
    return form.format(d=f"Normal({', '.join(said)})", x=given["x"])


def _sum_and_product(node: ast.Call) -> str:
    """`torch.addmm(b, x, w)`."""
    given = {name: within(ast.unparse(value)) for name, value in arguments(node, ["input", "mat1", "mat2"]).items()}
    return f"{given['input']} + {given['mat1']} @ {given['mat2']}"


def _choice(node: ast.Call) -> str:
    """`lax.cond(p, f, g, x)`: one of two calls."""
    if len(node.args) < 3 or node.keywords:
        raise NoCounterpart
    test, *functions = map(ast.unparse, node.args[:3])
    given = ", ".join(map(ast.unparse, node.args[3:]))
    then, otherwise = (f"{within(function)}({given})" for function in functions)
    return f"{then} if {test} else {otherwise}"


COPIES = (("copy", "copy"), ("copy", "deepcopy"))
"""Of Python's module `copy`: nothing changes a value that another name has."""
WRITTEN: Mapping[tuple[str, ...], Callable[[ast.Call], str]] = {
    **dict.fromkeys(COPIES, lambda node: ast.unparse(_alone(node))),
    ("lax", "cond"): _choice,
    ("torch", "addmm"): _sum_and_product,
}
"""By the module and the name, what is an expression here."""
SPREAD = {"normal": ("loc", "scale", "size"), "gauss": ("mu", "sigma"), "normalvariate": ("mu", "sigma")}
"""What NumPy and Python draw with a mean and a spread, by the names of these and of a shape."""
LIKE = {"randn_like": "normal", "rand_like": "uniform"}
"""What draws a tensor of another's shape."""


def _known(path: tuple[str, ...], module: str, node: ast.Call) -> _Call | None:
    """What is known of a function. Of `random` JAX's take a key first, those of NumPy and Python do not."""
    if path[-2:-1] == ("random",) and path[0] in ("np", "numpy"):
        return OF_NUMPY.get(path[-1])
    if path[:-1] == ("random",) and not any(isinstance(item, ast.Name) for item in node.args[:1]):
        return OF_PYTHON.get(path[-1])
    return CALLS.get((module, path[-1]))


def _like(function: str, node: ast.Call) -> str:
    given = {name: ast.unparse(value) for name, value in arguments(node, ["input", "dtype"]).items()}
    tensor = within(given["input"])
    return f"{function}({tensor}.shape, dtype={given.get('dtype', f'{tensor}.dtype')})"


def _spread(names: tuple[str, ...], node: ast.Call) -> str:
    given = {name: ast.unparse(value) for name, value in arguments(node, names).items()}
    mean, spread = (given.get(name) for name in names[:2])
    drawn = f"normal({given.get('size', '()')})"
    scaled = drawn if spread in (None, "1", "1.0") else f"{within(str(spread))} * {drawn}"
    return scaled if mean in (None, "0", "0.0") else f"{mean} + {scaled}"


def _written(known: _Call, node: ast.Call) -> str:
    given = dict(known.unless_given)
    if not known.parameters and not node.keywords:  # sizes, as they stand
        given |= {"size": ", ".join(map(ast.unparse, node.args))} if node.args else {}
        return f"{known.function}({given.get('size', '()')})"
    given |= {name: ast.unparse(value) for name, value in arguments(node, list(known.parameters)).items()}
    order = [*known.first, *(name for name in known.parameters if name not in known.first)]
    held = [(known.parameters[name], given[name]) for name in order if name in given]
    plain = [value for name, value in held if not name]
    return f"{known.function}({', '.join([*plain, *(f'{name}={value}' for name, value in held if name)])})"


def _of_the_table(name: str, node: ast.Call) -> str | None:
    """The expression of a row without a remark, with what is given in it; of `np.dot` of more than two dims it is
    another, which sizes tell."""
    row = by_peer_name().get(name)
    if row is None or row.note or row.ours.isidentifier():
        return None
    expression = ast.parse(row.ours, mode="eval").body
    used = [part.id for part in ast.walk(expression) if isinstance(part, ast.Name)]
    places = [place for place in PLACEHOLDERS if place in used]
    called = [ast.unparse(part.func) for part in ast.walk(expression) if isinstance(part, ast.Call)]
    if any(name not in places and name not in called and not name.isupper() for name in used):
        return None  # of something that is not given
    given = [] if node.keywords else [value for value in node.args if not isinstance(value, ast.Starred)]
    if not places or len(given) != len(node.args) or len(given) != len(places):
        return None
    return ast.unparse(_Filled(dict(zip(places, given, strict=True))).visit(expression))


class _Filled(ast.NodeTransformer):
    """Puts what is given where an expression of the table has a placeholder."""

    def __init__(self, given: Mapping[str, ast.expr]) -> None:
        self.given = given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.given.get(node.id, node)


def _product(node: ast.Call) -> str:
    """`np.dot(a, b)`; of more than two dims it is none of these, which sizes tell."""
    given = dict(enumerate(node.args))
    if len(given) != 2 or node.keywords:
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
