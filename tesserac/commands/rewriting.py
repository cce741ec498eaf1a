"""`tesserac inspect --rewrites`: the laws that a function's linear algebra went by, and what they saved."""

from __future__ import annotations

from dataclasses import replace

from tesserac.check.model.library_annotations import APPLIED, DIAGONAL, KRONECKER, LOWER, UPDATE, UPPER
from tesserac.check.model.typed import TypedFunction
from tesserac.commands.outcome import Outcome
from tesserac.driver.session import Session
from tesserac.graph.algebra.engine import Choice
from tesserac.graph.algebra.terms import Term
from tesserac.graph.build import build_module
from tesserac.graph.passes.algebra import Rewrite, algebra, by_laws
from tesserac.graph.passes.choose_forms import Chosen, by_structure, choose_forms
from tesserac.ir.passes import run_passes
from tesserac.pipeline import CALL_PASSES

NOTHING = "no law changes this function: its linear algebra is computed as it is written\n"


def show_rewrites(session: Session, functions: list[TypedFunction], symbol: str) -> Outcome:
    """Each expression that a law changed, with its costs: how many products and sums, as polynomials in the sizes; and
    each function of a matrix that was taken for its structure."""
    found = rewrites_of(functions, symbol)
    own = [step for step in found if step.function == symbol]
    blocks = [_form(session, step) if isinstance(step, Chosen) else _block(session, step) for step in own]
    return Outcome("\n".join(dict.fromkeys(blocks)) or NOTHING)


def rewrites_of(functions: list[TypedFunction], symbol: str) -> list[Rewrite | Chosen]:
    """What the laws do to a function and what it calls, derivatives included."""
    found: list[Rewrite | Chosen] = []
    watched = {
        algebra.name: replace(algebra, run=lambda module: by_laws(module, found.append)),
        choose_forms.name: replace(choose_forms, run=lambda module: by_structure(module, found.append)),
    }
    module = build_module(functions, {symbol})
    run_passes(module, [watched.get(step.name, step) for step in CALL_PASSES], verify=False)
    return found


def _form(session: Session, step: Chosen) -> str:
    file, line, _ = session.locate(step.op.span)
    what = (
        "what it is multiplied with is known"
        if step.structure == APPLIED
        else f"the matrix is {_WORDS[step.structure]}"
    )
    return f"{file}:{line}: {step.called}\n    {what}: computed by `{step.form.partition('._')[2].partition('.')[0]}`\n"


_WORDS = {
    DIAGONAL: "diagonal",
    LOWER: "lower triangular",
    UPPER: "upper triangular",
    KRONECKER: "a Kronecker product",
    UPDATE: "a diagonal one and a product",
}


def _block(session: Session, rewrite: Rewrite) -> str:
    file, line, _ = session.locate(rewrite.op.span)
    lines = [f"{file}:{line}: {rewrite.before}"]
    for step in rewrite.steps:
        lines.append(f"    {step.law}: {step.before} = {step.after}")
    if rewrite.steps:
        lines.append(f"    cost: {_cost(rewrite.before)} before, {_cost(rewrite.after)} after")
    lines += [line for choice in rewrite.choices for line in _not_taken(choice)]
    return "".join(f"{line}\n" for line in lines)


def _not_taken(choice: Choice) -> list[str]:
    saves = choice.written.cost - choice.other.cost
    return [
        f"    as written: {choice.other} costs {_cost(choice.other)} instead of {_cost(choice.written)}",
        f"        it is cheaper where {saves} > 0; say so by sizes that are numbers, or by `where`",
    ]


def _cost(term: Term) -> str:
    return str(term.cost)
