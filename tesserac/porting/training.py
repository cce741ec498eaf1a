"""A loop that trains with one of PyTorch's optimizers, as it is here: the fix of `torch.optim.Adam(...)`.

    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)     state = adam_init(net)
    for epoch in range(epochs):                                 for epoch in range(epochs):
        optimizer.zero_grad()                                       def loss_of(net):
        out = net(x)                                                    out = net(x)
        loss = criterion(out, y)                                        loss = criterion(out, y)
                                                                        return loss
        loss.backward()                                             loss, grads = value_and_grad(loss_of)(net)
        optimizer.step()                                            net, state = adam(net, grads, state, lr=1e-3)

Enters: the text of a file, and where the optimizer is made. Leaves: the lines that change, each with its text; None
where the loop is not of this form. What computes the loss is a function of the weights: the lines between the gradients
that are cleared, or the beginning of the block, and `backward`. Lines keep their words and comments.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.porting.layers import NoCounterpart, arguments, last_name
from tesserac.porting.schedules import schedule_of


@dataclass(frozen=True)
class _Rule:
    """A function that makes a step, and what PyTorch's options are called by it, in their order."""

    function: str
    options: Mapping[str, str]


_MOMENTS = {"lr": "lr", "betas": "", "eps": "eps", "weight_decay": "weight_decay"}
_MOMENTUM = {"lr": "lr", "momentum": "beta", "dampening": "", "weight_decay": "weight_decay", "nesterov": "nesterov"}
_RULES = {
    "Adam": _Rule("adam", _MOMENTS),
    "AdamW": _Rule("adamw", _MOMENTS),
    "SGD": _Rule("sgd", _MOMENTUM),
}
_WITH_MOMENTUM = _Rule("momentum", _MOMENTUM)
_FIRST = {"adam": "adam_init", "adamw": "adam_init", "momentum": "momentum_init", "sgd": "sgd_init"}
"""What makes the first state of each."""
_CLIPPED = {"clip_grad_norm_": "clip_by_global_norm", "clip_grad_value_": "clip_by_value"}


@dataclass(frozen=True)
class Change:
    """Text from `start` to `end` of a file, and what stands there instead."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class _Optimizer:
    """An optimizer by its name in the program: what is trained, and the call that makes a step."""

    name: str
    function: str
    model: str
    options: tuple[str, ...]
    made: ast.Assign


def ported_training(text: str, start: int) -> tuple[Change, ...] | None:
    """What changes in the function around `start`, where an optimizer is made."""
    begin, block = function_around(text, start)
    try:
        (function,) = ast.parse(block).body
        if not isinstance(function, ast.FunctionDef):
            return None
        lines = Lines(text, begin)
        at = text.count("\n", begin, start) + 1
        return tuple(_changes(lines, function, _optimizer(function, at)))
    except (NoCounterpart, SyntaxError, ValueError):
        return None


def function_around(text: str, start: int) -> tuple[int, str]:
    """Where the function at the margin that holds `start` begins, and its text."""
    begins = [found.start() for found in re.finditer(r"^def\b", text[:start], re.MULTILINE)]
    begin = begins[-1] if begins else start
    after = re.search(r"^[^\s#)\]]", text[text.find("\n", begin) + 1 :], re.MULTILINE)
    end = len(text) if after is None else text.find("\n", begin) + 1 + after.start()
    return begin, text[begin:end]


@dataclass(frozen=True)
class Lines:
    """Lines of a function that begins somewhere in a file, counted from 1."""

    text: str
    begin: int

    def offset(self, line: int) -> int:
        at = self.begin
        for _ in range(line - 1):
            at = self.text.index("\n", at) + 1
        return at

    def column(self, line: int, column: int) -> int:
        """Where a column of a line is, which Python counts in bytes."""
        begin = self.offset(line)
        return begin + len(self.text[begin:].partition("\n")[0].encode()[:column].decode())

    def ends(self, node: ast.stmt) -> int:
        """Behind the last line of a statement."""
        end = self.text.find("\n", self.offset(node.end_lineno or node.lineno))
        return len(self.text) if end < 0 else end + 1

    def replaced(self, first: ast.stmt, written: Sequence[str], last: ast.stmt | None = None) -> Change:
        """Other lines for whole statements, as deep as the first of them."""
        pad = " " * first.col_offset
        text = "".join(f"{pad}{line}\n" for line in written)
        return Change(self.offset(first.lineno), self.ends(last or first), text)

    def of(self, first: ast.stmt, last: ast.stmt) -> list[str]:
        return self.text[self.offset(first.lineno) : self.ends(last)].splitlines()


def _optimizer(function: ast.FunctionDef, line: int) -> _Optimizer:
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call, lineno=at) if at == line:
                rule = _RULES.get(last_name(call.func))
                if rule is None:
                    raise NoCounterpart
                given = arguments(call, ["params", *rule.options])
                model = _trained(given.pop("params"))
                if "lr" not in given:  # its own is not ours
                    raise NoCounterpart
                rule = _WITH_MOMENTUM if "momentum" in given else rule
                return _Optimizer(name, rule.function, model, _written(given, rule.options), node)
    raise NoCounterpart


def _trained(parameters: ast.expr) -> str:
    """`net` of `net.parameters()`, and `w` of `[w]`."""
    match parameters:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="parameters"), args=[], keywords=[]):
            return name
        case ast.List(elts=[ast.Name(id=name)]):
            return name
    raise NoCounterpart


def _written(given: Mapping[str, ast.expr], options: Mapping[str, str]) -> tuple[str, ...]:
    written = list[str]()
    for name, value in given.items():
        if options[name]:
            written.append(f"{options[name]}={ast.unparse(value)}")
        elif name == "betas" and isinstance(value, ast.Tuple) and len(value.elts) == 2:
            written += [f"beta{number}={ast.unparse(item)}" for number, item in enumerate(value.elts, 1)]
        else:
            raise NoCounterpart
    return tuple(written)


def _changes(lines: Lines, function: ast.FunctionDef, optimizer: _Optimizer) -> Iterator[Change]:
    """The first state, and the block in which `step` is called."""
    taken = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    state, grads, loss_of = (free_name(name, taken) for name in ("state", "grads", "loss_of"))
    yield lines.replaced(optimizer.made, [f"{state} = {_FIRST[optimizer.function]}({optimizer.model})"])
    schedule = schedule_of(function, optimizer.name)
    yield from (lines.replaced(line, []) for line in (schedule.lines if schedule else ()))
    yield from (lines.replaced(line, []) for line in _scaling(function))
    rate = "lr="
    options = [f"{rate}{schedule.rate.format(lr=option.removeprefix(rate))}" if schedule and option.startswith(rate)
               else option for option in optimizer.options]  # fmt: skip
    step = ", ".join((optimizer.model, grads, state, *options))
    moved = f"{optimizer.model}, {state} = {optimizer.function}({step})"
    yield from _in_block(lines, function, optimizer, _Names(optimizer.model, grads, loss_of, moved))


@dataclass(frozen=True)
class _Names:
    """What the lines of a step are called, and the line that makes it."""

    model: str
    grads: str
    loss_of: str
    moved: str


def free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _block_of(function: ast.FunctionDef, optimizer: str) -> list[ast.stmt]:
    """The statements among which is the only `optimizer.step()`."""
    blocks = list[list[ast.stmt]]()
    for node in ast.walk(function):
        parts = (getattr(node, part, None) for part in ("body", "orelse"))
        blocks += [part for part in parts if isinstance(part, list)]
    found = [block for block in blocks for line in block if method_called(line) == (optimizer, "step")]
    if len(found) != 1:
        raise NoCounterpart
    return found[0]


_SCALER = "GradScaler"
"""What makes losses larger before their gradient is taken; gradients of f32 need none."""


def _scaling(function: ast.FunctionDef) -> Iterator[ast.stmt]:
    """Lines that only make and move a scaler."""
    made = [node for node in ast.walk(function) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func).endswith(_SCALER)]  # fmt: skip
    names = {ast.unparse(node.targets[0]) for node in made}
    yield from made
    for node in ast.walk(function):
        if isinstance(node, ast.Expr):
            name, method = method_called(node)
            yield from (node,) if name in names and method in ("update", "unscale_") else ()


def method_called(line: ast.stmt) -> tuple[str, str]:
    """The name and the method of `name.method(...)` as a statement of its own; empty for any other. A loss that is
    scaled is the loss, and a step that a scaler makes one of the optimizer."""
    match line:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Call(
            func=ast.Attribute(attr="scale"), args=[ast.Name(id=name)]), attr="backward"))):  # fmt: skip
            return name, "backward"
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="step"), args=[ast.Name(id=name)])):
            return name, "step"
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method))):
            return name, method
    return "", ""


def _in_block(lines: Lines, function: ast.FunctionDef, optimizer: _Optimizer, names: _Names) -> Iterator[Change]:
    block = _block_of(function, optimizer.name)
    cleared = [line for line in block if method_called(line) == (optimizer.name, "zero_grad")]
    [step] = [line for line in block if method_called(line) == (optimizer.name, "step")]
    [*_, back] = [line for line in block if method_called(line)[1] == "backward" and line.lineno < step.lineno]
    begin = max((line.lineno for line in block if method_called(line)[1] in ("step", "backward")
                 and line.lineno < back.lineno), default=0)  # fmt: skip
    whole, block = block, [line for line in block if begin < line.lineno <= step.lineno]
    cleared = [line for line in cleared if line in whole]
    loss = method_called(back)[0]
    computed = _computing(block, loss, cleared, back)
    besides = sorted((assigned_names(computed) - {loss}) & _read_after(function, back.lineno))
    within = [line for line in cleared if computed[0].lineno < line.lineno < computed[-1].lineno]
    yield from (lines.replaced(line, []) for line in cleared if line not in within)
    yield _function_of_weights(lines, computed, within, _pair(loss, besides), names)
    yield lines.replaced(back, [f"{_value_and_grad(loss, besides, names)}({names.model})"])
    scaling = list(_scaling(function))
    for line in block:
        if back.lineno < line.lineno < step.lineno and line not in cleared and line not in scaling:
            yield lines.replaced(line, [_clipped(line, names)])
    yield lines.replaced(step, [names.moved])


def _computing(block: list[ast.stmt], loss: str, cleared: list[ast.stmt], back: ast.stmt) -> list[ast.stmt]:
    """The statements that compute the loss: from where the gradients are cleared, if it is not known before that."""
    before = [line for line in block if line.lineno < back.lineno and line not in cleared]
    begin = max((line.lineno for line in cleared if line.lineno < back.lineno), default=0)
    after = [line for line in before if line.lineno > begin]
    computed = after if loss in assigned_names(after) else before
    if loss not in assigned_names(computed):
        raise NoCounterpart
    return computed


def _read_after(function: ast.FunctionDef, line: int) -> set[str]:
    return {node.id for node in ast.walk(function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.lineno > line}  # fmt: skip


def _pair(loss: str, besides: Sequence[str]) -> str:
    """The loss, and what is read besides when the step is made."""
    if not besides:
        return loss
    return f"{loss}, {besides[0]}" if len(besides) == 1 else f"{loss}, ({', '.join(besides)})"


def _value_and_grad(loss: str, besides: Sequence[str], names: _Names) -> str:
    if not besides:
        return f"{loss}, {names.grads} = value_and_grad({names.loss_of})"
    return f"({_pair(loss, besides)}), {names.grads} = value_and_grad({names.loss_of}, has_aux=True)"


def _function_of_weights(
    lines: Lines, computed: list[ast.stmt], left_out: list[ast.stmt], given: str, names: _Names
) -> Change:
    """The lines that compute the loss, one level deeper."""
    out = {number for line in left_out for number in range(line.lineno, (line.end_lineno or line.lineno) + 1)}
    written = enumerate(lines.of(computed[0], computed[-1]), computed[0].lineno)
    within = [line for line in computed if isinstance(line, ast.With)]
    out |= {number for line in within for number in range(line.lineno, line.body[0].lineno)}
    deep = {number for line in within for number in range(line.body[0].lineno, (line.end_lineno or 0) + 1)}
    deeper = [f"    {line}" if line.strip() and number not in deep else line
              for number, line in written if number not in out]  # fmt: skip
    change = lines.replaced(computed[0], [f"def {names.loss_of}({names.model}):"], computed[-1])
    pad = " " * (computed[0].col_offset + 4)
    return Change(change.start, change.end, "\n".join([change.text.rstrip("\n"), *deeper, f"{pad}return {given}", ""]))


def assigned_names(computed: list[ast.stmt]) -> set[str]:
    inner = [line for block in computed if isinstance(block, ast.With) and _is_autocast(block) for line in block.body]
    return {target.id for line in (*computed, *inner) if isinstance(line, ast.Assign) for target in line.targets
            if isinstance(target, ast.Name)}  # fmt: skip


def _is_autocast(block: ast.With) -> bool:
    """Whether a block says only that some of it is computed in narrow types; what those are is said by types here."""
    return all(isinstance(item.context_expr, ast.Call) and last_name(item.context_expr.func) == "autocast"
               for item in block.items)  # fmt: skip


def _clipped(line: ast.stmt, names: _Names) -> str:
    """Gradients that are made smaller before the step."""
    match line:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=attr)) as call) if attr in _CLIPPED:
            given = arguments(call, ["parameters", "max_norm" if attr.endswith("norm_") else "clip_value"])
            _, limit = given.values()
            return f"{names.grads} = {_CLIPPED[attr]}({names.grads}, {ast.unparse(limit)})"
    raise NoCounterpart

