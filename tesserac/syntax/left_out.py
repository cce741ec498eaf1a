"""Statements of Python that Tessera leaves out, written without: `if (n := f(x)) > 1:`, `try:`.

Enters: the text of a file, and where the word stands. Leaves: changes of the text, as places and what stands there
instead; None where that is not known.
"""

from __future__ import annotations

import re
import textwrap

from tesserac.base.dataclass import dataclass

_HANDLED = re.compile(r"(?:except\b.*|else|finally)\s*:\s*(?:#.*)?$")


@dataclass(frozen=True)
class Written:
    start: int
    end: int
    text: str


def without_walrus(text: str, at: int) -> list[Written] | None:
    """`:=` at `at`, in brackets of its own: the name is bound on a line before, and of a loop again at its end."""
    opened = text.rfind("(", 0, at)
    named = re.fullmatch(r"\(\s*(\w+)\s*", text[opened:at]) if opened >= 0 else None
    end = closed(text, opened)
    line = text.rfind("\n", 0, at) + 1
    if named is None or end is None or "\n" in text[line:end] or text[line:opened][-1:].isalnum():
        return None
    indent, word = re.match(r"[ ]*", text[line:])[0], text[line:].split(None, 1)[0]  # type: ignore[index]
    bound = f"{indent}{named[1]} = {text[at + 2 : end].strip()}\n"
    changes = [Written(line, line, bound), Written(opened, end + 1, named[1])]
    if word not in ("while", "elif"):
        return changes
    end = _block_end(text, line)
    if word == "elif" or end is None or re.search(r"\bcontinue\b", text[line:end]):
        return None
    inner = re.search(r"\n([ ]+)\S", text[line:end])
    return [*changes, Written(end, end, f"\n{inner[1]}{bound.strip()}")] if inner is not None else None


def without_try(text: str, at: int) -> list[Written] | None:
    """What stands below `try:` alone, with that below `else` and `finally`: nothing can be caught."""
    line = text.rfind("\n", 0, at) + 1
    end = _block_end(text, line)
    if text[line:at].strip() or end is None:
        return None
    kept, last = [_body(text[line:end], text[line:at])], end
    while (behind := re.match(r"\n(?:[ ]*\n)*" + text[line:at] + r"(\S.*)", text[last:])) is not None:
        if _HANDLED.match(behind[1]) is None:
            break
        start = last + behind.start(1)
        last = _block_end(text, text.rfind("\n", 0, start) + 1) or start + len(behind[1])
        if not behind[1].startswith("except"):
            kept.append(_body(text[start:last], text[line:at]))
    return [Written(line, last, "\n".join(kept))] if last > end and all(kept) else None


def without_raise(text: str, at: int) -> list[Written] | None:
    """`if n < 0:` and below it nothing but `raise ValueError("n")`, as an assertion; elsewhere one that never holds."""
    line = text.rfind("\n", 0, at) + 1
    before = text.rfind("\n", 0, max(line - 1, 0)) + 1
    asked = re.fullmatch(r"([ ]*)if (.+):[ ]*", text[before : max(line - 1, 0)])
    raised = re.match(r"raise \w+(?:\((.*)\))?[ ]*(?=\n|$)", text[at:])
    if raised is None or text[line:at].strip():
        return None
    said = f", {raised[1]}" if raised[1] and re.match("f?[\"']", raised[1]) else ""
    end = _block_end(text, before)
    is_alone = asked is not None and end is not None and not text[at + raised.end() : end].strip()
    if asked is None or not is_alone or re.match(rf"\n{asked[1]}(?:elif|else)\b", text[end or 0 :]):
        return [Written(at, at + raised.end(), f"assert False{said}")]
    return [Written(before, end or 0, f"{asked[1]}assert not ({asked[2]}){said}")]


def without_line(text: str, at: int) -> list[Written] | None:
    """Nothing, where a line holds one statement."""
    line, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    is_alone = not text[line:at].strip() and end >= 0 and ";" not in text[at:end]
    return [Written(line, end + 1, "")] if is_alone else None


_PLAIN_CASE = re.compile(r"""case ((?:-?\d+(?:\.\d+)?|"[^"\n]*"|'[^'\n]*'|True|False)(?: \| .+)?|_):[ ]*$""")


def without_match(text: str, at: int) -> list[Written] | None:
    """`match mode:` of numbers and texts, as `if` and `elif`."""
    line = text.rfind("\n", 0, at) + 1
    end = _block_end(text, line)
    head = re.match(r"match ([\w.]+):[ ]*\n", text[at:])
    if head is None or end is None or text[line:at].strip():
        return None
    indent, below = text[line:at], textwrap.dedent(text[at + head.end() : end])
    written, word = list[str](), "if"
    for one in below.splitlines():
        case = _PLAIN_CASE.match(one)
        if case is None:
            if not one.startswith(" ") and one.strip():
                return None
            written.append(one)
        elif case[1] == "_":
            written.append("else:")
        else:
            written.append(f"{word} {' or '.join(f'{head[1]} == {value}' for value in case[1].split(' | '))}:")
            word = "elif"
    return [Written(line, end, textwrap.indent("\n".join(written), indent))] if word == "elif" else None


def is_handler(text: str, at: int) -> bool:
    """Whether `except` or `finally` at `at` belongs to a `try`, which is told."""
    line = text.rfind("\n", 0, at) + 1
    indent = text[line:at]
    for before in reversed(text[:line].splitlines()):
        own = before[: len(before) - len(before.lstrip())]
        if before.strip() and len(own) <= len(indent):
            if own != indent or not re.match(r"try\s*:|except\b|else\s*:|finally\s*:", before.strip()):
                return False
            if before.strip().startswith("try"):
                return True
    return False


def _body(block: str, indent: str) -> str:
    """What a block holds, where its first line stands."""
    _, _, below = block.partition("\n")
    return textwrap.indent(textwrap.dedent(below), indent)


def _block_end(text: str, line: int) -> int | None:
    """Behind the last line that stands deeper than that at `line`; None where none does."""
    indent, end = len(re.match(r"[ ]*", text[line:])[0]), None  # type: ignore[index]
    for found in re.finditer(r"\n([ ]*)(\S.*)?", text[line:]):
        if found[2] and len(found[1]) <= indent:
            break
        if found[2]:
            end = line + found.end()
    return end


def closed(text: str, opened: int) -> int | None:
    depth = 0
    for place in range(max(opened, 0), len(text)):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if depth == 0:
            return place
    return None
