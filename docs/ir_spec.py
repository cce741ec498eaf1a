"""`docs/ir.md`: the text of the IR, and for every level its operations and what the verifier holds them to.

Enters: the modules that define the levels. What an operation means is the doc string of its dialect; its rules are the
`require(...)` lines of its verifier, read from the source.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from types import FunctionType, ModuleType

import tesserac.graph.dialect
import tesserac.ir.effects
import tesserac.ir.forms
import tesserac.ir.func
import tesserac.ir.index
import tesserac.ir.indexed
import tesserac.ir.lines
import tesserac.ir.table
import tesserac.pipeline  # fills the table of operations with those that only passes know
import tesserac.schedule.dialect
import tesserac.tile.cpu.dialect
import tesserac.tile.cpu.product_ops
import tesserac.tile.dialect
import tesserac.tile.gpu.layouts.clusters
import tesserac.tile.gpu.model.dialect
from tesserac.ir.core import OPDEFS, OpDef
from tesserac.ops.registry import OPERATORS

OPERATOR_RULES = "its operands fit one of its signatures, and its result has the type that the signature gives"


@dataclass(frozen=True)
class Level:
    title: str
    modules: tuple[ModuleType, ...]
    prefixes: tuple[str, ...]


LEVELS = (
    Level("Graph IR", (tesserac.graph.dialect,), ("graph",)),
    Level(
        "Structural forms",
        (
            tesserac.ir.forms,
            tesserac.ir.indexed,
            tesserac.ir.lines,
            tesserac.ir.table,
            tesserac.ir.effects,
            tesserac.ir.func,
        ),
        ("form", "func", "scalar"),
    ),
    Level("Schedule IR", (tesserac.schedule.dialect,), ("schedule",)),
    Level("Tile IR", (tesserac.tile.dialect, tesserac.ir.index), ("tile", "index")),
    Level("CPU tiles", (tesserac.tile.cpu.dialect, tesserac.tile.cpu.product_ops), ("cpu",)),
    Level("GPU tiles", (tesserac.tile.gpu.model.dialect, tesserac.tile.gpu.layouts.clusters), ("gpu",)),
)
HEAD = """\
# The IR, level by level

One SSA core carries all levels: modules hold operations, operations hold regions of one block each, blocks hold
operations. Every level prints, parses back, and is verified after each pass under tests and with `--verify`.
[One function through every level](softmax.md) shows them on a program; `tesserac build FILE --emit LEVEL` on yours.

This page is generated: what an operation means stands in the dialect's own words, and its rules are the lines of its
verifier. An operation that a level does not list cannot stand in it.

## The text

```text
module    = op*
op        = [values "="] name ["@" symbol] ["(" values ")"] ["{" attrs "}"] [":" types] region*
name      = dialect "." word                            graph.call, form.map, tile.load
values    = "%" word ("," "%" word)*
attrs     = word "=" attr ("," word "=" attr)*
attr      = number | string | "true" | "false" | "none" | "inf" | "nan"
          | "[" attr, ... "]"                           a list
          | "`" dim "`"                                 a size: a polynomial of symbols, `64*ceil_div(4*N, 64)`
          | "dtype<" dtype ">" | "policy<" policy ">"
          | "#" word "<" word "=" attr, ... ">"         data of a class: #blocks<block=512, lanes=64>
region    = "{" "^(" [arguments] "):" op* "}"
arguments = "%" word ":" type ("," "%" word ":" type)*
type      = "tensor<[" dims "], " element ">"           a value
          | "memref<[" dims "], " element ", " space ">" memory
          | "tile<[" dims "], " element ">"             a block of a tensor
          | "scalar<" dtype ">" | "index" | "axis" | "token<" word ">"
element   = dtype policy*                               bf16 @accum(f32)
comment   = "//" to the end of the line
```

## At every level

- A value is defined before its use, in the block of the use or around it, and lists all its uses.
- A block ends with its terminator, and no terminator stands elsewhere.
- A symbol is defined once in a module.
- What prints, asserts or communicates has a place in the order of its function, and places ascend.
"""


def ir_page() -> str:
    return "\n".join([HEAD, *map(_level, LEVELS)])


def _level(level: Level) -> str:
    docs = [_words(module) for module in level.modules if module.__doc__]
    rows = _rows(op for op in OPDEFS.values() if op.dialect in level.prefixes)
    table = "\n".join(["| operation | | rules, in the words of the verifier |", "|---|---|---|", *rows])
    return f"## {level.title}\n\n" + "\n".join(docs) + f"\n### Rules of {level.title}\n\n{table}\n"


def _words(module: ModuleType) -> str:
    """A doc string: the first sentence as text, what describes operations as it stands."""
    title, _, rest = inspect.cleandoc(module.__doc__ or "").partition("\n\n")
    return f"{title}\n" + (f"\n```text\n{rest}\n```\n" if rest else "")


def _rows(ops: Iterable[OpDef]) -> list[str]:
    """One row for operations of the same rules; the operators of the Graph have the reference for theirs."""
    groups: dict[tuple[str, str], list[str]] = {}
    for op in sorted(ops, key=lambda op: op.name):  # they are registered in the order of imports, which differs
        kind = "ends a block" if op.terminator else "pure" if op.pure else op.effect or "acts"
        rules = "; ".join(dict.fromkeys(_rules(op.verify))) or "nothing more"
        is_operator = op.dialect == "graph" and op.name.removeprefix("graph.") in OPERATORS
        name = "graph.NAME of [every operator](operators.md)" if is_operator else f"`{op.name}`"
        groups.setdefault((kind, OPERATOR_RULES if is_operator else rules), []).append(name)
    return [f"| {', '.join(dict.fromkeys(names))} | {kind} | {rules} |" for (kind, rules), names in groups.items()]


def _rules(verify: object) -> Iterator[str]:
    """The texts of `require` in a verifier and in the functions of its module that it calls."""
    if not isinstance(verify, FunctionType):
        return
    functions, seen, waiting = _functions(verify.__module__), set[str](), [verify.__name__]
    while waiting:
        name = waiting.pop(0)
        if name in seen or name not in functions:
            continue
        seen.add(name)
        for node in ast.walk(functions[name]):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield from _text(node)
                waiting.append(node.func.id)


def _text(call: ast.Call) -> Iterator[str]:
    if isinstance(call.func, ast.Name) and call.func.id == "require" and len(call.args) > 1:
        message = call.args[1]
        if isinstance(message, ast.Constant):
            yield str(message.value).replace("|", "\\|")
        elif isinstance(message, ast.JoinedStr):
            parts = (str(part.value) if isinstance(part, ast.Constant) else "…" for part in message.values)
            yield "".join(parts).replace("|", "\\|")


@cache
def _functions(module: str) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
