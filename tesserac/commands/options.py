"""Options that several commands have."""

from __future__ import annotations

import os

import click

from tessera.toolchain import MAX_MATERIALIZE
from tesserac.base.targets import TARGETS


class Targets(click.ParamType[tuple[str, ...]]):
    """Targets with commas between them."""

    name = "targets"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        found = tuple(value.split(",")) if isinstance(value, str) else value
        for target in found:
            if target not in TARGETS:
                self.fail(f"`{target}` is not one of {', '.join(TARGETS)}", param, ctx)
        return found

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"[{'|'.join(TARGETS)}],..."


device_option = click.option(
    "--device", default="cpu", show_default=True, metavar="[cpu|cuda|cuda:1]", help="Where functions run."
)
target_option = click.option(
    "--target",
    type=click.Choice(TARGETS),
    help="`cpu` is this machine, `cuda` is cuda:sm_90a. [default: cpu; cuda for the levels gpu and ptx]",
)


def _say_limit(context: click.Context, option: click.Parameter, entries: int | None) -> None:
    if entries is not None:
        os.environ[MAX_MATERIALIZE] = str(entries)


materialize_option = click.option(
    "--max-materialize",
    type=click.IntRange(min=1),
    metavar="ENTRIES",
    expose_value=False,
    callback=_say_limit,
    help="The most entries of a matrix that a function of an operator may make by itself. [default: 67108864]",
)
