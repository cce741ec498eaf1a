"""Lists of numbers that a program means as arrays: `dp = [0] * (n + 1)`, and `dp[c] = ...` where a loop counts c.

Enters: a list and what is done with it. Leaves: the tensor to write in its place, as text. A list has places that are
known while compiling; what is read or changed at any place is a tensor.
"""

from __future__ import annotations

import re
import sys

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.state.body import Body
from tesserac.diag.diagnostic import Edit
from tesserac.types.ty import BoolType, FloatType, IntType, TupleType

_DTYPES = {IntType: ", dtype=i64", FloatType: "", BoolType: ", dtype=bool"}
_REPEATED = re.compile(r"\[([^\[\],]*)\]\s*\*\s*(.+)", re.DOTALL)
_ITEM = r"\[(?:[^\n\[\]]|\[[^\n\[\]]*\])*\]"
MANY_NUMBERS = "so many numbers, or as many as only a run knows, are a tensor"
IN_PLACE_OF_LIST = "what is read and changed at any place is a tensor"


def filled_tensor(item: typed.Expr, text: str, count: str) -> str | None:
    """The tensor that `[item] * count` is meant to be."""
    said = _DTYPES.get(type(item.type))
    count = re.sub(r"^\((.*)\)$", r"\1", count) if count.count("(") == 1 else count
    if said is None:
        return None
    return f"zeros({count}{said})" if text in ("0", "0.0", "False") else f"full({count}, {text}{said})"


def tensor_in_place(body: Body, value: typed.Expr) -> Edit | None:
    """At the place where a list of numbers is made, where items of it are assigned: the tensor to make instead."""
    name = body.rules.text(value.span)
    binding = body.scope.bindings.get(name)
    if binding is None or not isinstance(binding.type, TupleType) or not binding.type.items:
        return None
    after = body.rules.text(Span(binding.span.file, binding.span.end, sys.maxsize))
    kinds = {type(item) for item in binding.type.items}
    made = re.match(r"\s*=\s*(\[[^\n#]*)", after)
    if len(kinds) > 1 or not kinds <= set(_DTYPES) or made is None:
        return None
    if not re.search(rf"(?<![\w.]){name}{_ITEM}\s*(?:[-+*/%]|//|\*\*)?=(?!=)", after[made.end() :]):
        return None
    text, start = made[1].rstrip(), binding.span.end + made.start(1)
    repeated = _REPEATED.fullmatch(text)
    item = typed.Static(binding.type.items[0], value.span)
    tensor = filled_tensor(item, repeated[1].strip(), repeated[2]) if repeated is not None else f"array({text})"
    return None if tensor is None else Edit(Span(binding.span.file, start, start + len(text)), tensor)
