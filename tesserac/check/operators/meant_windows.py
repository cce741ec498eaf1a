"""Where a call of something with windows, a convolution or a pool, may be given a border.

Enters: a text. Leaves: the place before its last bracket, if it says nothing of a border.
"""

from __future__ import annotations

import re

from tesserac.base.source import Span

_WINDOWED = re.compile(r"(?:[\w.]*(?:conv|pool)\w*|self\.\w+)\((?![^()]*padding)[^()]*\)")
"""A call of something that a window may have made smaller, without a word on the border."""


def border_place(text: str, span: Span) -> Span | None:
    """Behind the arguments of the first such call in a text that lies there."""
    window = _WINDOWED.search(text)
    if window is None:
        return None
    at = span.start + window.end() - 1
    return span._replace(start=at, end=at)
