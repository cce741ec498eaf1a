"""What a word at the prompt may become: a name, a method, a command, a file."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence

from tesserac.commands.names import LEVELS
from tesserac.repl.engine import Engine
from tesserac.repl.lines import COMMAND
from tesserac.repl.meta import COMMANDS
from tesserac.syntax.lexer import vocabulary

FIELDS = ("T", "dtype", "shape")


def complete(engine: Engine, before: str, word: str) -> Sequence[str]:
    """`before` is the line up to the word."""
    line = before.lstrip()
    if not line and word.startswith(COMMAND):
        return _matching((f"{COMMAND}{name}" for name in COMMANDS), word)
    if line.startswith(f"{COMMAND}load"):
        return _files(word)
    if line.startswith(f"{COMMAND}ir ") and line.rstrip().count(" "):
        return _matching([*(level.name for level in LEVELS), *_names(engine)], word)
    if "." in word:
        value, _, start = word.rpartition(".")
        return [f"{value}.{name}" for name in _matching([*FIELDS, *engine.names()], start)]
    return _matching(_names(engine), word)


def _names(engine: Engine) -> list[str]:
    return [*engine.names(), *sorted(vocabulary().keywords)]


def _matching(names: Iterable[str], start: str) -> list[str]:
    return sorted({name for name in names if name.startswith(start)})


def _files(start: str) -> list[str]:
    found = glob.glob(f"{glob.escape(start)}*")
    return sorted(f"{path}{os.sep}" if os.path.isdir(path) else path for path in found)
