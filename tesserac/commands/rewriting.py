"""`tesserac inspect --rewrites`: the laws that a function's linear algebra went by, and what they saved."""

from __future__ import annotations

from tesserac.check.model.typed import TypedFunction
from tesserac.commands.outcome import Outcome
from tesserac.driver.rewriting import Asked, Found, asked_of, lines_of, rewrites_of
from tesserac.driver.session import Session
from tesserac.graph.passes.algebra import Rewrite

NOTHING = "no law changes this function: its linear algebra is computed as it is written\n"


def show_rewrites(session: Session, functions: list[TypedFunction], symbol: str) -> Outcome:
    """What each operator is after its own laws; each expression that a law changed, with its costs: how many products
    and sums, as polynomials in the sizes; and each function of a matrix that was taken for its structure."""
    asked = [_asked(session, one) for one in asked_of(functions, symbol)]
    told = [(step, lines) for step in rewrites_of(functions, symbol) if (lines := lines_of(step))]
    blocks = [*asked, *(_block(session, step, lines) for step, lines in told)]
    return Outcome("\n".join(dict.fromkeys(blocks)) or NOTHING)


def _asked(session: Session, asked: Asked) -> str:
    file, line, _ = session.locate(asked.span)
    by = ", ".join(f"`{name}`" for name in asked.by)
    return f"{file}:{line}: {asked.called}\n    the operator is {asked.operator}: computed by {by}\n"


def _block(session: Session, step: Found, lines: list[str]) -> str:
    file, line, _ = session.locate(step.op.span)
    what = str(step.before) if isinstance(step, Rewrite) else step.called
    return f"{file}:{line}: {what}\n" + "".join(f"    {line}\n" for line in lines)
