"""What the laws of linear algebra make of a function: for `inspect`, and for editors.

Enters: typed functions. Leaves: the laws that were applied, the forms that were taken, and the orders and forms that
were not, since they are cheaper for some sizes only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace

from tesserac.base.dataclass import dataclass
from tesserac.base.resources import of_library
from tesserac.base.source import Span
from tesserac.check.model.library_annotations import (
    APPLIED,
    BESIDE,
    DIAGONAL,
    FACTORS,
    GRAM,
    INVERSE,
    KRONECKER,
    LOWER,
    ORTHONORMAL,
    OUTER,
    POSITIVE,
    PRODUCT,
    RANK_ONE,
    TOGETHER,
    TURNED,
    UPDATE,
    UPPER,
)
from tesserac.check.model.typed import Call, TypedFunction
from tesserac.graph.algebra.applications import Spared
from tesserac.graph.algebra.costs import Facts, beats
from tesserac.graph.algebra.engine import Choice
from tesserac.graph.build import build_module
from tesserac.graph.passes.algebra import Rewrite, algebra, by_laws
from tesserac.graph.passes.choose_forms import Chosen, Left, by_structure, choose_forms
from tesserac.graph.passes.contract_sums import as_contractions, contract_sums
from tesserac.graph.passes.transforms import transforms
from tesserac.ir.passes import before, run_passes
from tesserac.pipeline import CALL_PASSES
from tesserac.types.dims import Dim

Found = Rewrite | Spared | Chosen | Left
SAY_SO = "say so by sizes that are numbers, by `where`, or by `@sizes(...)`"
MOST_FUNCTIONS = 48
"""An editor waits for an answer: what calls more is not looked through for it."""


def rewrites_of(functions: Sequence[TypedFunction], symbol: str, *, derivatives: bool = True) -> list[Found]:
    """What the laws do to a function and what it calls; in its derivatives too, where these are asked for."""
    found: list[Found] = []
    watched = {
        algebra.name: replace(algebra, run=lambda module: by_laws(module, found.append)),
        contract_sums.name: replace(contract_sums, run=lambda module: as_contractions(module, found.append)),
        choose_forms.name: replace(choose_forms, run=lambda module: by_structure(module, found.append)),
    }
    module = build_module(functions, {symbol})
    passes = CALL_PASSES if derivatives else before(CALL_PASSES, transforms)
    run_passes(module, [watched.get(step.name, step) for step in passes], verify=False)
    return [step for step in found if step.function == symbol]


def lines_of(step: Found) -> list[str]:
    """What was done, and what was not and when that would be cheaper: nothing of the library's own orders, of which a
    program cannot say more."""
    is_own = not of_library(step.op.span.file)
    match step:
        case Spared():
            return [step.law]
        case Chosen():
            return [f"{_seen(step.structure)}: computed by `{_form_name(step.form)}`", *_decided(step.facts, step)]
        case Left() if not is_own:
            return []
        case Left():
            seen = f"as a whole: {_seen(step.structure)}, by which it costs {step.cost} instead of {step.whole}"
            return [seen, *_cheaper(step.whole - step.cost)]
    lines = [f"{law.law}: {law.before} = {law.after}" for law in step.steps]
    if step.steps:
        lines.append(f"cost: {step.before.cost} before, {step.after.cost} after")
        lines += _decided(step.facts, step)
    return lines + [line for choice in step.choices if is_own for line in _not_taken(choice)]


@dataclass(frozen=True)
class Asked:
    """What a program asks of an operator: its name and place, what the operator is after the laws of operators, and the
    functions of the library that compute it."""

    called: str
    span: Span
    operator: str
    by: tuple[str, ...]


def asked_of(functions: Sequence[TypedFunction], symbol: str) -> list[Asked]:
    """Of each operator that a function asks, in the order of the text. Its own laws are applied as it is made, before
    there is anything to compute."""
    found: dict[tuple[str, Span, str], list[str]] = {}
    for call in _calls_in([function.body for function in functions if function.symbol == symbol], set()):
        if call.of:
            names = found.setdefault((call.told, call.span, call.of), [])
            names += [name for name in [_library_name(call.function)] if name not in names]
    return [Asked(*key, tuple(names)) for key, names in sorted(found.items(), key=lambda row: row[0][1].start)]


def _calls_in(part: object, seen: set[int]) -> Iterator[Call]:
    """The calls in a part of a function, each once, those among the arguments of another before it."""
    if isinstance(part, tuple | list):
        inside: Sequence[object] = part
    elif is_dataclass(part) and id(part) not in seen:
        seen.add(id(part))
        inside = [getattr(part, field.name) for field in fields(part)]
    else:
        return
    for one in inside:
        yield from _calls_in(one, seen)
    if isinstance(part, Call):
        yield part


def _library_name(symbol: str) -> str:
    """`stdlib.operators.grids._solve_grid.f64_2d...` is `solve_grid`."""
    return symbol.split(".")[3].removeprefix("_")


def told_at(functions: Sequence[TypedFunction], symbol: str, inside: Span) -> list[str]:
    """The same for what stands in one expression, for whoever cannot wait long."""
    if len(functions) > MOST_FUNCTIONS:
        return []
    found = rewrites_of(functions, symbol, derivatives=False)
    lines = [line for step in found if inside.holds(step.op.span) for line in lines_of(step)]
    return list(dict.fromkeys(lines))


def _seen(structure: str) -> str:
    return _OTHERS[structure] if structure in _OTHERS else f"the matrix is {_WORDS[structure]}"


_OTHERS = {
    BESIDE: "a system of the matrix is solved, too",
    TOGETHER: "other systems of the matrix are solved, too",
    APPLIED: "what it is multiplied with is known",
    TURNED: "what its transpose is multiplied with is known",
}
_WORDS = {
    DIAGONAL: "diagonal",
    LOWER: "lower triangular",
    UPPER: "upper triangular",
    KRONECKER: "a Kronecker product",
    UPDATE: "a diagonal one and a product",
    ORTHONORMAL: "unitary",
    POSITIVE: "positive semidefinite",
    PRODUCT: "a product of square ones",
    FACTORS: "a product of two matrices",
    GRAM: "a matrix times its adjoint",
    RANK_ONE: "a diagonal one and an outer product",
    INVERSE: "an inverse",
    OUTER: "an outer product",
}


def _form_name(symbol: str) -> str:
    return symbol.partition("._")[2].partition(".")[0]


def _decided(facts: Facts, step: Rewrite | Chosen) -> list[str]:
    """What the expected sizes had to say, where nothing else decided."""
    new, old = (step.cost, step.whole) if isinstance(step, Chosen) else (step.after.cost, step.before.cost)
    if not facts.expected or new == old or beats(new, old, Facts(facts.above)):
        return []
    symbols = {*new.symbols(), *old.symbols()}
    return [f"by `@sizes`: {', '.join(f'{name}={size}' for name, size in facts.expected if name in symbols)}"]


def _not_taken(choice: Choice) -> list[str]:
    instead = f"as written: {choice.other} costs {choice.other.cost} instead of {choice.written.cost}"
    return [instead, *_cheaper(choice.written.cost - choice.other.cost)]


def _cheaper(saves: Dim) -> list[str]:
    return [f"    it is cheaper where {saves} > 0; {SAY_SO}"]
