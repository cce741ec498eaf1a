"""Sizes that a command is told: `--sizes S=4096,D=64`."""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.commands.outcome import UsageMistake


def read_tuning_sizes(given: Sequence[str]) -> dict[str, int]:
    """`S=4096,D=64` as sizes and their values. Raises UsageMistake."""
    sizes: dict[str, int] = {}
    for text in (part for one in given for part in one.split(",")):
        name, _, value = text.partition("=")
        if not name.isidentifier() or not value.isdecimal() or not int(value):
            raise UsageMistake(f"--sizes takes sizes and their values, such as S=4096,D=64, not `{text}`")
        sizes[name] = int(value)
    return sizes
