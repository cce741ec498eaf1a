"""What calls are in this library whose results are along another axis, of all elements, or several: medians, running
sums, triangles, and SciPy's functions.

Enters: a call. Leaves: its text here, by `foreign_forms`, which says of what calls each of these is.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from tesserac.porting.layers import NoCounterpart, arguments

Form = Callable[[ast.Call], str]
Part = Callable[[ast.Call, int], str | None]
_EITHER_WAY = ("cumsum", "cumprod")
"""What runs from the end, too."""


def given_texts(call: ast.Call, names: Sequence[str]) -> dict[str, str]:
    return {name: ast.unparse(value) for name, value in arguments(call, list(names)).items()}


def within(text: str) -> str:
    closed = ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.Constant
    return text if isinstance(ast.parse(text, mode="eval").body, closed) else f"({text})"


def written(function: str, *given: str | None, **named: str | None) -> str:
    """A call with those arguments that are something."""
    plain = [value for value in given if value is not None]
    said = [f"{name}={value}" for name, value in named.items() if value is not None]
    return f"{function}({', '.join([*plain, *said])})"


def median(function: str) -> Form:
    """`torch.median(x)`, the lower of two in the middle; along a dim it has places, too."""
    return lambda call: f'{function}({given_texts(call, ("input",))["input"]}, 0.5, method="lower")'


def medians(function: str) -> Part:
    """`torch.median(x, dim)[0]`."""

    def write(call: ast.Call, item: int) -> str | None:
        given = given_texts(call, ("input", "dim", "keepdim"))
        if item or "dim" not in given:
            return None
        named = {"axis": given["dim"], "keep": given.get("keepdim"), "method": '"lower"'}
        return written(function, given["input"], "0.5", **named)

    return write


def slope_along(call: ast.Call, item: int) -> str:
    """`torch.gradient(x)[1]`: the slopes along one axis."""
    given = given_texts(call, ("input", "spacing"))
    return written("gradient", given["input"], given.get("spacing"), axis=str(item))


def solution_of_triangle(call: ast.Call) -> str:
    """`torch.triangular_solve(b, a)[0]`, of an upper triangle unless that is said."""
    given = given_texts(call, ("b", "A", "upper"))
    return written("solve_triangular", given["A"], given["b"], upper=given.get("upper", "True"))


def running(function: str, *more: str) -> Form:
    """`np.cumsum(x)`, which is of all elements in a row unless an axis is said."""

    def write(call: ast.Call) -> str:
        given = given_texts(call, ("a", "axis", *more))
        said = {name: given[name] for name in more if name in given}
        if given.get("axis", "None") == "None":
            return written(function, f"ravel({given['a']})", **said)
        return written(function, given["a"], axis=given["axis"], **said)

    return write


def along_first(function: str) -> Form:
    """`lax.cumsum(x)`, `np.add.accumulate(x)`: along the first axis unless one is said."""

    def write(call: ast.Call) -> str:
        given = given_texts(call, ("operand", "axis", *(("reverse",) if function in _EITHER_WAY else ())))
        return written(function, given["operand"], axis=given.get("axis", "0"), reverse=given.get("reverse"))

    return write


def of_all(function: str) -> Form:
    """`scipy.special.softmax(x)`, of all elements unless an axis is said."""

    def write(call: ast.Call) -> str:
        given = given_texts(call, ("x", "axis"))
        if given.get("axis", "None") != "None":
            return written(function, given["x"], axis=given["axis"])
        return f"reshape({function}(ravel({given['x']})), {within(given['x'])}.shape)"

    return write


def divergence(call: ast.Call) -> str:
    """SciPy's `kl_div`, of each element."""
    x, y = (within(text) for text in given_texts(call, ("x", "y")).values())
    return f"xlogy({x}, {x} / {y}) - {x} + {y}"


def correlation(call: ast.Call) -> str:
    """SciPy's `correlate`, whole unless that is said."""
    given = given_texts(call, ("in1", "in2", "mode"))
    return written("correlate", given["in1"], given["in2"], mode=given.get("mode", '"full"'))


def thin(call: ast.Call) -> str:
    """SciPy's `qr`, whose factors are square unless that is said."""
    given = given_texts(call, ("a", "mode"))
    if given.get("mode") != "'economic'":
        raise NoCounterpart
    return f"qr({given['a']})"


def scaled(function: str, sign: str) -> Form:
    """`torch.add(x, y, alpha=2)`."""

    def write(call: ast.Call) -> str:
        given = given_texts(call, ("input", "other", "alpha"))
        if "alpha" not in given:
            return written(function, given["input"], given["other"])
        x, y, scale = (within(given[name]) for name in ("input", "other", "alpha"))
        return f"{x} {sign} {scale} * {y}"

    return write


def nonzero(call: ast.Call) -> str:
    """`torch.nonzero(x)`, a row for each place."""
    given = given_texts(call, ("input", "as_tuple"))
    return f"{'nonzero' if given.get('as_tuple') == 'True' else 'argwhere'}({given['input']})"


def flat_diagonal(call: ast.Call) -> str:
    """`np.diagflat(x, k)`: all elements on a diagonal."""
    x, *offset = map(ast.unparse, call.args)
    named = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    if len(offset) + len(named) > 1 or set(named) - {"k", "offset"}:
        raise NoCounterpart
    return written("diag", f"ravel({x})", *offset, *named.values())


def powers(call: ast.Call) -> str:
    """`torch.linalg.vander(x)`, whose powers increase."""
    given = given_texts(call, ("x", "N"))
    return written("vander", given["x"], given.get("N"), increasing="True")


def places_in_one(function: str) -> Form:
    """`torch.triu_indices(row, col, offset)`: rows and columns in one tensor."""

    def write(call: ast.Call) -> str:
        given = given_texts(call, ("row", "col", "offset"))
        return f"stack({written(function, given['row'], given['col'], given.get('offset'))})"

    return write
