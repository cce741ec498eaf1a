"""The commands of the prompt: `:type`, `:ir`, `:time`, files, names, help.

Enters: a line that starts with `:`. Leaves: text to show. A line that is no command, or names nothing, is a
UsageMistake; mistakes in an expression are those of any input.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tesserac.base.dataclass import dataclass
from tesserac.commands import names as levels
from tesserac.commands.inspection import level_text
from tesserac.commands.levels import FunctionLevels, wanted_levels
from tesserac.commands.outcome import UsageMistake
from tesserac.commands.targets import find_target
from tesserac.repl.engine import Engine, NotAnExpression, Prepared, is_known
from tesserac.repl.lines import COMMAND
from tesserac.repl.running import measure
from tesserac.repl.show import one_line
from tesserac.repl.signatures import describe_name
from tesserac.repl.workspace import defined_names

DEFAULT_LEVEL = levels.GRAPH.name


class Quit(Exception):
    """The session is to end."""


@dataclass(frozen=True)
class Call:
    """A command as typed: the whole line, and what follows the command's name."""

    line: str
    rest: str

    def expression(self, engine: Engine, text: str) -> Prepared:
        if not text:
            raise UsageMistake("an expression must follow; `:help` shows how")
        try:
            return engine.prepare(self.line, text)
        except NotAnExpression:
            raise UsageMistake(f"`{text}` is not an expression") from None


@dataclass(frozen=True)
class Command:
    usage: str
    help: str
    run: Callable[[Engine, Call], str]


def run_command(engine: Engine, line: str) -> str:
    """Raises UsageMistake, ProgramError, TesseraError, Quit."""
    name, _, rest = line.removeprefix(COMMAND).partition(" ")
    found = [command for command in COMMANDS if command == name] or [c for c in COMMANDS if c.startswith(name)]
    if not name or len(found) != 1:
        known = ", ".join(f"`{COMMAND}{command}`" for command in found if name) or "`:help` lists all"
        raise UsageMistake(f"there is no command `{line.split()[0]}`: {known}")
    return COMMANDS[found[0]].run(engine, Call(line, rest.strip()))


def _type(engine: Engine, call: Call) -> str:
    described = describe_name(engine, call.rest)
    if described is not None:
        return described
    prepared = call.expression(engine, call.rest)
    effects = f"  uses {', '.join(sorted(prepared.function.effects))}" if prepared.function.effects else ""
    return f"{prepared.type.show()}{effects}\n"


def _ir(engine: Engine, call: Call) -> str:
    expression, _, last = call.rest.rpartition(" ")
    named = bool(expression) and last in {level.name for level in levels.LEVELS}
    text, level = (expression.strip(), last) if named else (call.rest, DEFAULT_LEVEL)
    if level == levels.AST.name:
        raise UsageMistake("an expression is shown from the level `graph` on")
    target = find_target(levels.default_target(level))
    (wanted,) = wanted_levels(target.levels, level)
    prepared = call.expression(engine, text)
    return level_text(FunctionLevels(engine.session, prepared.source, prepared.function, target), wanted)


def _time(engine: Engine, call: Call) -> str:
    prepared = call.expression(engine, call.rest)
    if is_known(prepared):
        return "known without running it\n"
    start = time.perf_counter()
    function = engine.function(prepared)
    compiled = time.perf_counter() - start
    timing = measure(function, prepared.arguments.values(), engine.stream)
    calls = f"{timing.calls} call{'' if timing.calls == 1 else 's'}"
    spread = f"{duration(timing.best)} at best, {duration(timing.median)} in the middle of {calls}"
    return f"{spread}; compiled in {duration(compiled)}\n"


def duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _load(engine: Engine, call: Call) -> str:
    if not call.rest:
        raise UsageMistake("`:load` needs a file")
    engine.warnings = []
    engine.load(call.rest)
    names = list(engine.loaded[call.rest].result.checker.names.public)
    return f"{call.rest}: {', '.join(names) or 'no names'}\n"


def _reload(engine: Engine, call: Call) -> str:
    if not engine.loaded:
        raise UsageMistake("no file is loaded; `:load FILE` loads one")
    engine.warnings = []
    engine.reload()
    return f"read again: {', '.join(engine.loaded)}\n"


def _device(engine: Engine, call: Call) -> str:
    if call.rest:
        engine.choose_device(call.rest)
    return f"{'cpu' if engine.gpu is None else f'{engine.gpu.name}: {engine.gpu.title}'}\n"


def _names(engine: Engine, call: Call) -> str:
    lines = [describe_name(engine, name) or name for item in engine.workspace.items for name in defined_names(item)]
    lines += [f"{name}: {one_line(value)}" for name, value in engine.workspace.values.items()]
    lines += [f"{path}: {', '.join(file.result.checker.names.public)}" for path, file in engine.loaded.items()]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _help(engine: Engine, call: Call) -> str:
    if call.rest:
        described = describe_name(engine, call.rest, doc=True)
        if described is None:
            raise UsageMistake(f"nothing here is called `{call.rest}`")
        return described
    listed = "".join(f"  {COMMAND}{command.usage:18} {command.help}\n" for command in COMMANDS.values())
    return f"{_INTRODUCTION}{listed}{_KEYS}"


def _quit(engine: Engine, call: Call) -> str:
    raise Quit


_INTRODUCTION = """\
Type definitions, statements and expressions: `x = ones(3, 4)`, `x @ x.T`, `def f(x): return x * 2.0`.
An empty line ends a block. `_` is the last value shown.
"""
_KEYS = """\
Ctrl-C stops what runs, or drops the line; Ctrl-D leaves; Tab completes names; the arrows bring back earlier lines.
"""

COMMANDS: dict[str, Command] = {
    "type": Command("type e", "the type of an expression, without running it", _type),
    "ir": Command("ir e [level]", f"its code at a level: {', '.join(v.name for v in levels.LEVELS[1:])}", _ir),
    "time": Command("time e", "how long it takes, over many calls", _time),
    "load": Command("load FILE", "bring the names of a file into scope", _load),
    "reload": Command("reload", "read the loaded files again", _reload),
    "device": Command("device [name]", "where inputs run: cpu, cuda, cuda:1; without a name, tell", _device),
    "names": Command("names", "what is defined here", _names),
    "help": Command("help [name]", "this text, or the documentation of a function", _help),
    "quit": Command("quit", "leave", _quit),
}
