"""Derivatives that PyTorch records and `backward` leaves in `w.grad`, as they are here: the fix of `loss.backward()`.

    loss = ((x @ w - y) ** 2).mean()       def loss_of(w):
                                               loss = ((x @ w - y) ** 2).mean()
                                               return loss
    loss.backward()                        loss, w_grad = value_and_grad(loss_of)(w)
    w = w - 0.1 * w.grad                   w = w - 0.1 * w_grad
    w.grad.zero_()

Enters: the text of a file, and where `backward` is called. Leaves: the lines that change, each with its text; None
where the block is not of this form. The function of the loss has the lines before the call, from the first that reads
one of the names whose `.grad` is read. Lines that clear a gradient go.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from tesserac.porting.layers import NoCounterpart
from tesserac.porting.training import Change, Lines, assigned_names, free_name, function_around, method_called

_GRAD = "grad"
_CLEARED = re.compile(r"\w+\.grad(\.zero_\(\)| = None|\.data\.zero_\(\))")


def ported_backward(text: str, start: int) -> tuple[Change, ...] | None:
    """What changes in the function around `start`, where `backward` is called."""
    begin, block = function_around(text, start)
    try:
        (function,) = ast.parse(block).body
        if not isinstance(function, ast.FunctionDef):
            return None
        at = text.count("\n", begin, start) + 1
        return tuple(_changes(Lines(text, begin), function, at))
    except (NoCounterpart, SyntaxError, ValueError):
        return None


def _changes(lines: Lines, function: ast.FunctionDef, at: int) -> Iterator[Change]:
    block, back = _block_of(function, at)
    loss = method_called(back)[0]
    weights = _weights(function, at)
    computed = _computing(block, back, loss, weights)
    taken = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    loss_of, grads = free_name("loss_of", taken), [free_name(f"{name}_{_GRAD}", taken) for name in weights]
    given, several = ", ".join(weights), len(weights) > 1
    pad = " " * computed[0].col_offset
    deeper = [f"    {line}" if line.strip() else line for line in lines.of(computed[0], computed[-1])]
    written = [f"{pad}def {loss_of}({given}):", *deeper, f"{pad}    return {loss}", ""]
    whole = lines.replaced(computed[0], [], computed[-1])
    yield Change(whole.start, whole.end, "\n".join(written))
    wrt = f", wrt=({', '.join(map(str, range(len(weights))))})" if several else ""
    made = f"({', '.join(grads)})" if several else grads[0]
    yield lines.replaced(back, [f"{loss}, {made} = value_and_grad({loss_of}{wrt})({given})"])
    yield from _reads(lines, function, at, dict(zip(weights, grads, strict=True)))


def _block_of(function: ast.FunctionDef, at: int) -> tuple[list[ast.stmt], ast.stmt]:
    """The statements among which `backward` is called, and that call: all of a statement, without arguments."""
    for node in ast.walk(function):
        for part in ("body", "orelse"):
            block = getattr(node, part, None)
            if not isinstance(block, list):  # of a lambda it is an expression
                continue
            for line in block:
                if line.lineno == at and ast.unparse(line) == f"{method_called(line)[0]}.backward()":
                    return block, line
    raise NoCounterpart


def _weights(function: ast.FunctionDef, at: int) -> list[str]:
    """Names whose `.grad` is read behind the call."""
    found = dict.fromkeys(
        node.value.id
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and node.attr == _GRAD and isinstance(node.value, ast.Name)
        and node.lineno > at and isinstance(node.ctx, ast.Load)
    )  # fmt: skip
    if not found:
        raise NoCounterpart
    return list(found)


def _computing(block: list[ast.stmt], back: ast.stmt, loss: str, weights: Sequence[str]) -> list[ast.stmt]:
    """The statements that compute the loss: plain assignments, from the first that reads a weight."""
    before = [line for line in block if line.lineno < back.lineno]
    first = next((i for i, line in enumerate(before) if _reads_any(line, weights)), len(before))
    computed = before[first:]
    if loss not in assigned_names(computed) or any(not isinstance(line, ast.Assign) for line in computed):
        raise NoCounterpart
    if assigned_names(computed) & set(weights):
        raise NoCounterpart
    return computed


def _reads_any(line: ast.stmt, weights: Sequence[str]) -> bool:
    if not isinstance(line, ast.Assign):
        return False
    return any(isinstance(node, ast.Name) and node.id in weights for node in ast.walk(line.value))


def _reads(lines: Lines, function: ast.FunctionDef, at: int, grads: dict[str, str]) -> Iterator[Change]:
    """The gradient by its name where it is read; lines that clear it go."""
    cleared = [node for node in ast.walk(function)
               if isinstance(node, ast.Expr | ast.Assign) and _CLEARED.fullmatch(ast.unparse(node))]  # fmt: skip
    yield from (lines.replaced(line, []) for line in cleared)
    gone = {line.lineno for line in cleared}
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if attr == _GRAD and name in grads:
                if node.lineno not in gone and node.lineno > at:
                    end = lines.column(node.lineno, node.end_col_offset or 0)
                    yield Change(lines.column(node.lineno, node.col_offset), end, grads[name])
