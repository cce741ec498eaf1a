"""One spelling of numbers and strings. The value stays what it is."""

from __future__ import annotations

import re

_STRING = re.compile(r"([rRfF]*)('''|\"\"\"|'|\")(.*)\2", re.DOTALL)
_ESCAPED_QUOTE = re.compile(r"\\(.)", re.DOTALL)


def format_number(text: str) -> str:
    """Letters are lower case, but for the digits of a hexadecimal number: `0xFF`, `1e-5`."""
    lower = text.lower()
    return "0x" + text[2:].upper() if lower.startswith("0x") else lower


def format_string(text: str) -> str:
    """Double quotes, where that needs no more escapes. Nothing changes inside an f-string but the quotes around it."""
    found = _STRING.fullmatch(text)
    if found is None:
        return text
    prefix, quotes, body = found[1].lower(), found[2], found[3]
    if quotes[0] == "'" and '"' not in body and not ("f" in prefix and "\\" in body):
        quotes = '"' * len(quotes)
        body = body if prefix else _ESCAPED_QUOTE.sub(lambda escape: "'" if escape[1] == "'" else escape[0], body)
    return f"{prefix}{quotes}{body}{quotes}"


def plain_text(text: str) -> str | None:
    """What a string token holds if it is written as it is: no prefix, no escapes, one line."""
    found = _STRING.fullmatch(text)
    if found is None or found[1] or len(found[2]) > 1 or "\\" in found[3]:
        return None
    return found[3]
