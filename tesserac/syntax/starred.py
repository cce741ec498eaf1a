"""Arguments with a star, as one tuple: `x.view(*a, b)` is `x.view(a + (b,))` here, where sizes may be a tuple.

Enters: the text of a file, and where the bracket of a call opens. Leaves: where its arguments end, and the tuple; None
where they have names, or are not closed.
"""

from __future__ import annotations

import ast


def one_tuple(text: str, opened: int) -> tuple[int, str] | None:
    end = _closed(text, opened)
    try:
        call = ast.parse(f"f{text[opened : end + 1]}", mode="eval").body if end is not None else None
    except (SyntaxError, ValueError):
        return None
    if end is None or not isinstance(call, ast.Call) or call.keywords:
        return None
    parts = list[list[str]]()
    for item in call.args:
        if isinstance(item, ast.Starred):
            parts.append([_operand(item.value)])
        elif parts and parts[-1][0] == "(":
            parts[-1].append(ast.unparse(item))
        else:
            parts.append(["(", ast.unparse(item)])
    return end, " + ".join(part[0] if part[0] != "(" else f"({', '.join(part[1:])}{',' * (len(part) == 2)})"
                           for part in parts)  # fmt: skip


def _operand(value: ast.expr) -> str:
    text = ast.unparse(value)
    return text if isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.Call) else f"({text})"


def _closed(text: str, opened: int) -> int | None:
    """Where the bracket that opens at `opened` closes, of a text without brackets in quotes."""
    depth = 0
    for place in range(opened, len(text)):
        depth += (text[place] in "([{") - (text[place] in ")]}")
        if depth == 0:
            return place
    return None
