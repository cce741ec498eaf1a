"""Learning rates that one of PyTorch's schedulers changes: the value that `lr=` has in each step.

    scheduler = StepLR(optimizer, step_size=30, gamma=0.1)      (nothing)
    for epoch in range(epochs):                                 for epoch in range(epochs):
        ...                                                         ...
        optimizer.step()                                            net, state = sgd(net, grads, state,
        scheduler.step()                                                lr=step_schedule(epoch, start=0.1, every=30))

Enters: the function that trains, and the name of its optimizer. Leaves: the lines that fall away, and how the rate is
written; what is counted is the loop over a range in which the scheduler makes its steps.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tesserac.base.dataclass import dataclass
from tesserac.porting.layers import NoCounterpart, arguments, last_name

_SCHEDULES = {
    "StepLR": (["optimizer", "step_size", "gamma"], "step_schedule({step}, start={lr}, every={step_size}{gamma})"),
    "ExponentialLR": (["optimizer", "gamma"], "step_schedule({step}, start={lr}, every=1{gamma})"),
    "CosineAnnealingLR": (
        ["optimizer", "T_max", "eta_min"], "cosine_schedule({step}, peak={lr}, steps={T_max}{eta_min})",
    ),
}  # fmt: skip
"""By their names in PyTorch: parameters, and what is written here."""
_SAID = {"gamma": ", factor={}", "eta_min": ", end={}"}
"""What may be left out there as here."""


@dataclass(frozen=True)
class Schedule:
    """The lines of a scheduler, where it is made and where it steps, and the rate with an `{lr}` to be filled in."""

    lines: tuple[ast.stmt, ...]
    rate: str


def schedule_of(function: ast.FunctionDef, optimizer: str) -> Schedule | None:
    """What changes the rate of an optimizer; None where nothing does. Raises what has no form here."""
    made = next(_made(function, optimizer), None)
    if made is None:
        return None
    line, name, call = made
    known = _SCHEDULES.get(last_name(call.func))
    loops = [node for node in ast.walk(function) if isinstance(node, ast.For)]
    loops = [node for node in loops if any(_steps(line, name) for line in node.body)]
    if known is None or len(loops) != 1:
        raise NoCounterpart
    given = {key: ast.unparse(value) for key, value in arguments(call, known[0]).items()}
    said = {key: form.format(given[key]) if key in given else "" for key, form in _SAID.items()}
    rate = known[1].format(**{**given, **said, "step": _counted(loops[0]), "lr": "{lr}"})
    return Schedule((line, *(s for s in loops[0].body if _steps(s, name))), rate)


def _made(function: ast.FunctionDef, optimizer: str) -> Iterator[tuple[ast.stmt, str, ast.Call]]:
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[ast.Name(id=given), *_]) as call):
                if given == optimizer:
                    yield node, name, call


def _steps(line: ast.stmt, name: str) -> bool:
    return isinstance(line, ast.Expr) and ast.unparse(line) == f"{name}.step()"


def _counted(loop: ast.For) -> str:
    match loop:
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[_])):
            return name
    raise NoCounterpart
