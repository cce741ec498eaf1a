"""A fault of the compiler, told with what to report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from tesserac.commands.outcome import FAULT


def report_fault(error: Exception, arguments: Sequence[str]) -> int:
    from tessera.errors import render
    from tesserac.driver.faults import INTERNAL_FAULT, fault_report

    message, notes = fault_report(error, _described(arguments))
    click.echo(render(INTERNAL_FAULT, message, notes), err=True)
    return FAULT


def _described(arguments: Sequence[str]) -> str:
    """The command line and the files it names, for a report."""
    parts = [f"arguments: {list(arguments)}"]
    for argument in arguments:
        for path in (Path(argument), Path(argument.rpartition(":")[0])):
            if path.is_file():
                parts.append(f"--- {path}\n{path.read_text(encoding='utf-8', errors='replace')}")
    return "\n".join(parts)
