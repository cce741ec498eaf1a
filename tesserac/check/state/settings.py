"""Where the settings of a transform are written: `grad(f, wrt="w")`, `vmap(f, in_axes=(0, "B"))`.

Enters: a call of what a transform made, and the name or number that is wrong in a setting. Leaves: its place in the
text, if the function is made where it is called, for a message to point at and a fix to change.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.types.ty import IntType, NoneType, StrType, Type


def word_span(body: Body, span: Span, word: Type) -> Span | None:
    """Where a name, a number or None is spelt out in the text of what gives it, the first time."""
    text = body.rules.text(span)
    places = [(text.index(spelt), spelt) for spelt in _spelt(word) if spelt in text]
    if not places:
        return None
    start, spelt = min(places)
    return Span(span.file, span.start + start, span.start + start + len(spelt))


def _spelt(word: Type) -> tuple[str, ...]:
    match word:
        case StrType(value=value):
            return f'"{value}"', f"'{value}'"
        case IntType(value=value):
            return (str(value),)
        case NoneType():
            return ("None",)
    return ()


def setting_span(body: Body, callee: Callee, setting: str, word: Type) -> Span | None:
    """Where a setting says this."""
    text = body.rules.text(callee.at)
    if f"{setting}=" not in text:
        return None
    start = callee.at.start + text.rindex(f"{setting}=") + len(setting) + 1
    return word_span(body, Span(callee.at.file, start, callee.at.end), word)
