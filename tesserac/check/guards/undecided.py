"""Says why a question about sizes is left to a check on entry.

Enters: the question, the facts, and the code that asks it. Leaves: a sentence for `check --explain-guards`: what needs
it, which fact is missing, and the `where` clause that would settle it.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.state.body import Body
from tesserac.types.dims import Dim

STATED = "stated by `where`"


def undecided(body: Body, kind: typed.GuardKind, left: Dim, right: Dim, at: Span) -> str:
    """Why this is not known while compiling; asked before the guard itself becomes a fact."""
    code = code_at(body, at)
    needs = f"`{code}` needs it" if code else "the library needs it"
    return f"{needs}; {_missing(body, kind, left, right)}"


def code_at(body: Body, at: Span) -> str:
    """What stands there, in one short line; nothing where it is text of the library."""
    code = " ".join(body.rules.text(at).split())
    return code if len(code) <= 40 else code[:37] + "..."


def _missing(body: Body, kind: typed.GuardKind, left: Dim, right: Dim) -> str:
    indices = [name for name in sorted((left - right).symbols()) if body.facts.is_index(name)]
    if body.flow.branches:
        return "not every call comes to it, so it is checked there"
    if indices:
        return f"it depends on `{indices[0]}`, so it is checked for the ends of that range"
    if kind == "equal" and body.may_agree(left, right):
        return "only a call tells the sizes of an argument without dims, or of another file's params"
    if kind == "at_least":
        left, right = typed.balanced(left, right)
    clause = typed.Guard(kind, left, right, Span("", 0, 0), "").text
    return f"{_why_open(body, kind, left, right)}; `where {clause}` settles it while compiling"


def _why_open(body: Body, kind: typed.GuardKind, left: Dim, right: Dim) -> str:
    if body.facts.gave_up:
        return "the proof was given up, since it has too many cases"
    if kind != "at_least":
        return f"no fact says that `{left}` {'divides' if kind == 'divides' else 'is'} `{right}`"
    names = " and ".join(f"`{name}`" for name in sorted((left - right).symbols()))
    if body.facts.nearby(left - right):
        return f"the facts about {names} do not say so"
    return f"no fact bounds {names}"
