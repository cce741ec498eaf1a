"""The references of the command line and of the Python module, as the programs themselves state them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

import tessera
from tesserac import cli

COMMANDS = """\
# The command line

Two programs: `tesserac` checks, builds and shows; `tessera` runs. What follows is what `--help` says.

The exit status is 0 where all went well, 1 where a program has mistakes or a test failed, 2 where the command was used
wrongly, and 5 where `tesserac test` found no test.
"""
PYTHON = """\
# The Python module

`import tessera` costs a few milliseconds: the compiler is imported when something has to be compiled.
[Tessera from Python](embedding.md) tells what goes in and what comes out.
"""
WIDTH = 100


def commands_page() -> str:
    parts = [COMMANDS]
    for program, group in (("tesserac", cli.compiler), ("tessera", cli.runner)):
        whole = click.Context(group, info_name=program, terminal_width=WIDTH, **group.context_settings)
        for name, command in sorted(group.commands.items()):
            context = click.Context(command, parent=whole, info_name=name, terminal_width=WIDTH)
            parts.append(f"## {program} {name}\n\n```text\n{command.get_help(context).rstrip()}\n```\n")
    return "\n".join(parts)


def python_page() -> str:
    return "\n".join([PYTHON, *_members()])


def _members() -> Iterator[str]:
    for name in sorted(tessera.__all__, key=str.lower):
        if name.startswith("__"):
            continue
        member = getattr(tessera, name)
        head = f"class {name}" if isinstance(member, type) else f"{name}{inspect.signature(member)}"
        yield f"## {name}\n\n```text\n{head}\n```\n\n{inspect.cleandoc(member.__doc__ or '')}\n"
