"""An f-string that a name is given, and `print` then shows: the message, with the f-string where it is shown.

Enters: the f-string. Leaves: E0219.
"""

from __future__ import annotations

import re
import sys

from tesserac.base.source import Span
from tesserac.check.state.body import Body
from tesserac.check.values.rewriting import whole_lines
from tesserac.diag.codes.names import E0219
from tesserac.diag.diagnostic import Edit
from tesserac.syntax import ast

_BOUND = re.compile(r"\n[ ]*(\w+) = $")
_NEXT_ITEM = re.compile(r"^\S", re.MULTILINE)


def refuse_text(body: Body, node: ast.FString) -> None:
    at = node.span
    draft = body.sink.error(E0219, at=at).remark("text with values in it is made at run time, to be shown")
    bound = _BOUND.search(body.rules.text(Span(at.file, 0, at.start)))
    behind = body.rules.text(Span(at.file, at.end, sys.maxsize))
    item = _NEXT_ITEM.search(behind)
    uses = list(re.finditer(rf"\b{bound[1]}\b", behind[: item.start()] if item else behind)) if bound else []
    if len(uses) == 1 and re.search(r"\bprint\([^()\n]*$", behind[: uses[0].start()]):
        place = Span(at.file, at.end + uses[0].start(), at.end + uses[0].end())
        draft.fix("say it where it is shown", Edit(whole_lines(body, at), ""), Edit(place, body.rules.text(at)))
