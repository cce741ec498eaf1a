"""Texts that Python fills in by `%` and `format`: the f-string that says the same.

Enters: the literal as it is written, and the texts of the values. Leaves: an f-string; None where one cannot be told.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_PERCENT = re.compile(r"%([+\-0 #]*\d*(?:\.\d+)?)([dfsgeiGEr%])")
_BRACES = re.compile(r"\{(\d*)(![rs])?(:[^{}]*)?\}")
_PLAIN = ("d", "i", "s")
"""Letters after `%` that an f-string need not have."""


def from_percent(literal: str, values: list[str]) -> str | None:
    """`"%d of %.2f" % (a, b)`."""
    left = list(values)

    def filled(found: re.Match[str]) -> str:
        width, kind = found.groups()
        if kind == "%":
            return "%"
        shown = f"{width}{'' if kind in _PLAIN else kind}"
        return "{" + left.pop(0) + (f":{shown}" if shown else "") + "}"

    return _f_string(literal, lambda: _PERCENT.sub(filled, literal), values, left)


def from_format(literal: str, values: list[str]) -> str | None:
    """`"{} of {:.2f}".format(a, b)`."""
    left = list(values)

    def filled(found: re.Match[str]) -> str:
        place, shown, form = found.groups()
        value = values[int(place)] if place else left.pop(0)
        if place and value in left:
            left.remove(value)
        return "{" + value + (shown or "") + (form or "") + "}"

    return _f_string(literal, lambda: _BRACES.sub(filled, literal), values, left)


def _f_string(literal: str, fill: Callable[[], str], values: list[str], left: list[str]) -> str | None:
    """An f-string has no quote of its own within."""
    quote = literal[:1]
    if quote not in "'\"" or literal[:3] == quote * 3 or any(quote in value or "\\" in value for value in values):
        return None
    try:
        text = fill()
    except (IndexError, ValueError):
        return None
    return None if left else f"f{text}"
