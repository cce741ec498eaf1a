"""The correct programs that are mutated: examples, doc strings, cases and models written for this."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tesserac.base.source import SourceFile
from tesserac.ops.registry import OPERATORS
from tesserac.syntax.parse import parse_module
from tests.mutation.evaluate import judge
from tests.mutation.values import Rejected, Unjudged
from tests.support.checking import diagnose
from tests.support.library_functions import docs

ROOT = Path(__file__).parents[2]
FOLDERS = ("examples", "tests/cases/mutants", "tests/cases/check")
SLOW = ("resnet",)
"""Checking it takes most of a second, and its mistakes are those of the others."""
LONGEST = 60
"""Lines of a program: longer ones take longer to check and teach nothing new."""


@dataclass(frozen=True)
class Program:
    name: str
    text: str


def programs() -> tuple[Program, ...]:
    """Those that the checker has nothing to say about, and that the oracle can run."""
    return tuple(program for program in candidates() if usable(program))


@cache
def candidates() -> tuple[Program, ...]:
    """Whether one can be used is asked when it is drawn: to ask all takes a third of a minute."""
    return (*_files(), *_doc_strings())


def _files() -> list[Program]:
    found: list[Program] = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).glob("*.tess")):
            text = path.read_text(encoding="utf-8")
            if path.stem not in SLOW and (folder.endswith("check") or text.count("\n") <= LONGEST):
                found += _controls(path.stem, text) if folder.endswith("check") else [Program(path.stem, text)]
    return found


def _controls(name: str, text: str) -> list[Program]:
    """The functions of a case that no diagnostic is expected in."""
    items = re.split(r"\n(?=\S)", text)
    plain = [re.sub(r"\s*# type:.*", "", item) for item in items if "error[" not in item and "warning[" not in item]
    defs = [item for item in plain if item.startswith(("def ", "struct "))]
    return [Program(f"{name}_{number}", item + "\n") for number, item in enumerate(defs)]


def _doc_strings() -> list[Program]:
    texts = {operator.name: operator.__doc__ or "" for operator in OPERATORS.values()}
    texts |= {name: doc for (_, name), doc in docs().items()}
    found = {name: re.search(r"^ *def f\(.*", doc, re.MULTILINE | re.DOTALL) for name, doc in texts.items()}
    return [Program(f"doc_{name}", _dedented(match[0])) for name, match in sorted(found.items()) if match]


def _dedented(text: str) -> str:
    margin = len(text) - len(text.lstrip())
    return "\n".join(line[margin:] for line in text.rstrip().splitlines()) + "\n"


@cache
def usable(program: Program) -> bool:
    """Nothing to say about it, and the oracle runs it to the end."""
    source = SourceFile("example.tess", program.text)
    if diagnose(source):
        return False
    try:
        judge(parse_module(source).module)
    except (Rejected, Unjudged):
        return False
    return True
