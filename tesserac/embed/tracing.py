"""What a run of a program shows while it goes on: a table of its operators, or who made the first inf or NaN.

Enters: the steps of a traced run. Leaves: lines of text, as soon as they are known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from tessera.tracing import NUMERICS, SHAPES
from tesserac.base.source import Span
from tesserac.driver.operator_trace import Observe, Step
from tesserac.numerics.exact import Array
from tesserac.ops.registry import OPERATORS
from tesserac.ops.signature import ANY_ELEMENT
from tesserac.types.dtype import DType

Say = Callable[[str], object]
Locate = Callable[[Span], tuple[str, int, int]]
Typed = tuple[DType, Array]

WIDTHS = (20, 24, 22)
"""Of the first columns; what is longer moves the rest of its row."""


class ShapeTable:
    """One row per operator: where it stands, what it is, what it gave and took."""

    def __init__(self, function: str, say: Say, locate: Locate) -> None:
        self._say = say
        self._locate = locate
        say(f"{function}\n" + _row(("place", "operator", "result"), "bytes", "operands"))

    def __call__(self, step: Step) -> None:
        if step.operator and not _is_constant(step):
            results = ", ".join(map(_shape, step.results))
            size = sum(dtype.bytes * array.size for dtype, array in step.results)
            cells = (_place(step.span, self._locate), _name(step), results)
            self._say(_row(cells, str(size), ", ".join(map(_shape, step.operands))))


class NumericsWatch:
    """Names the first operator whose result is not finite though its operands are. What the library makes inside a call
    counts only if the call gives it to the program: there inf is often on its way to 0."""

    def __init__(self, say: Say, locate: Locate) -> None:
        self._say = say
        self._locate = locate
        self._suspect: str | None = None
        self._found = False

    def __call__(self, step: Step) -> None:
        if self._found:
            return
        if not step.operator:
            self._end_of_call(step)
        elif self._suspect is None and not (_is_constant(step) or _only_moves(step)) and (made := _made(step)):
            if step.function:
                self._suspect = self._message(step, made)
            else:
                self._tell(self._message(step, made))

    def _end_of_call(self, step: Step) -> None:
        suspect, self._suspect = self._suspect, None
        if suspect is not None and _made(step):
            self._tell(suspect)

    def _tell(self, text: str) -> None:
        self._found = True
        self._say(text)

    def _message(self, step: Step, made: str) -> str:
        dtype, result = step.results[0]
        bad = int(np.count_nonzero(~np.isfinite(_floats(result))))
        head = f"{_place(step.span, self._locate)}: `{_name(step)}` made {made} in {bad} of {result.size} elements\n"
        lines = [f"  operand {i}: {_shape(typed)} {_range(typed[1])}\n" for i, typed in enumerate(step.operands, 1)]
        limit = (_at_pole(step) or f"  {dtype} holds up to {dtype.largest:g}\n") if made == "inf" else ""
        return head + "".join(lines) + limit


def _at_pole(step: Step) -> str:
    """What to say of an inf that no dtype could hold; nothing where some inf is a number that is too large."""
    operator = OPERATORS[step.operator]
    if operator.pole is None:
        return ""
    position, pole = operator.pole
    result, operand = (_floats(array) for _, array in (step.results[0], step.operands[position]))
    if not (np.broadcast_to(operand, result.shape) == pole)[np.isinf(result)].all():
        return ""
    what = "a division by zero" if step.operator == "div" else f"a pole of `{step.operator}`, whatever the dtype"
    return f"  operand {position + 1} is {pole:g} there: {what}\n"


def observers(modes: Collection[str], function: str, say: Say, locate: Locate) -> Observe:
    """All that is to watch a call of a function, as one."""
    watching: list[Observe] = [ShapeTable(function, say, locate)] if SHAPES in modes else []
    watching += [NumericsWatch(say, locate)] if NUMERICS in modes else []

    def observe(step: Step) -> None:
        for watch in watching:
            watch(step)

    return observe


def _row(cells: Sequence[str], size: str, operands: str) -> str:
    padded = (f"{cell:<{width}}" for cell, width in zip(cells, WIDTHS, strict=True))
    return f"  {' '.join(padded)} {size:>10}  {operands}".rstrip() + "\n"


def _is_constant(step: Step) -> bool:
    """A number of the program; INF there is meant."""
    return step.operator == "full"


def _name(step: Step) -> str:
    return f"{step.function}: {step.operator}" if step.function else step.operator


def _place(span: Span, locate: Locate) -> str:
    file, line, _ = locate(span)
    return f"{file.rpartition('/')[2]}:{line}"


def _shape(typed: Typed) -> str:
    dtype, array = typed
    return f"{dtype}[{', '.join(map(str, array.shape))}]"


def _floats(array: Array) -> Array:
    """Values in which inf and NaN can be looked for; integers have neither."""
    if array.dtype.kind in "biuc":
        return array if array.dtype.kind == "c" else np.zeros(array.shape)
    with np.errstate(all="ignore"):
        return array.astype(np.float64)


def _made(step: Step) -> str:
    """What an operator made of numbers that did not have it: NaN of any others, inf of finite ones. Where operands line
    up with the result this is seen element by element: a mask of -inf hides nothing."""
    results, operands = ([_floats(array) for _, array in side] for side in (step.results, step.operands))
    [result] = results if len(results) == 1 else [np.concatenate([r.ravel() for r in results] or [np.zeros(0)])]
    lined_up = all(_lines_up(x, result) for x in operands)
    had_nan, had_inf = (_any(test, operands, lined_up) for test in (np.isnan, np.isinf))
    if (np.isnan(result) & ~had_nan).any():
        return "NaN"
    return "inf" if (np.isinf(result) & ~(had_nan | had_inf)).any() else ""


def _lines_up(operand: Array, result: Array) -> bool:
    trailing = result.shape[result.ndim - operand.ndim :] if operand.ndim <= result.ndim else ()
    return operand.ndim <= result.ndim and all(a in (1, b) for a, b in zip(operand.shape, trailing, strict=True))


def _any(test: Callable[[Array], Array], operands: Sequence[Array], lined_up: bool) -> Array:
    """Where some operand passes a test; anywhere, unless they line up."""
    found: Array = np.zeros((), bool)
    for x in operands:
        found = found | (test(x) if lined_up else test(x).any())
    return found


def _only_moves(step: Step) -> bool:
    """Whether an operator computes nothing: what is not finite was so before."""
    element = OPERATORS[step.operator].parsed[0].result.element
    return (element.variable, element.function) == (ANY_ELEMENT, "")


def _range(array: Array) -> str:
    if array.dtype.kind == "c" or not array.size:
        return "complex" if array.size else "empty"
    with np.errstate(all="ignore"):
        values = array.astype(np.float64)
    numbers = values[~np.isnan(values)]
    return f"in [{numbers.min():g}, {numbers.max():g}]" if numbers.size else "all NaN"
