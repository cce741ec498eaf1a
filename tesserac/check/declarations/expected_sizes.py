"""`@sizes(N=1024, K=8)`: the sizes that a function expects, for choices that depend on them.

Enters: the decorator, and the signature of its function. Leaves: numbers for names of sizes, and diagnostics for what
is no size, no number, or against the `where` clauses. Calls of other sizes are as right: nothing is checked then.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model.message_text import type_text
from tesserac.check.model.specs import Signature
from tesserac.check.state.body import Body
from tesserac.diag.codes.operators import E0807
from tesserac.diag.sink import Draft
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.ty import ErrorType, IntType

SIZES = "sizes"


@dataclass(frozen=True)
class ExpectedSize:
    """`span` is where the name of the size stands."""

    name: str
    value: int
    span: Span


def expected_sizes(body: Body, node: ast.Call, before: Sequence[ExpectedSize]) -> tuple[ExpectedSize, ...]:
    """What the decorator says besides those before it, each name once."""
    found = {each.name: each for each in before}
    for argument in node.arguments:
        if argument.name is None:
            _wrong(body, argument.span, "it names each size, `@sizes(N=1024)`")
            continue
        type_ = body.expression(argument.value).type
        value = type_.value.constant if isinstance(type_, IntType) else None
        if isinstance(type_, ErrorType):
            continue
        if value is None or value < 1:
            _wrong(body, argument.value.span, f"a size is a positive int that is known, not {type_text(type_)}")
        elif argument.name in found:
            _wrong(body, argument.span, f"`{argument.name}` is said twice")
        else:
            found[argument.name] = ExpectedSize(argument.name, int(value), argument.name_span)
    if not node.arguments:
        _wrong(body, node.span, "it names at least one size, `@sizes(N=1024)`")
    return tuple(found.values())


def check_sizes(body: Body, signature: Signature, expected: Sequence[ExpectedSize]) -> None:
    """Every name is a size of the function, and all together are what its `where` clauses allow."""
    names = signature.symbols
    for each in expected:
        if each.name not in names:
            draft = _wrong(body, each.span, f"`{each.name}` is no size of `{signature.name}`")
            draft.did_you_mean(each.name, names, each.span)
    numbers = {each.name: Dim.const(each.value) for each in expected}
    for fact in signature.facts:
        left, right = fact.left.substitute(numbers), fact.right.substitute(numbers)
        told = [each for each in expected if each.name in {*fact.left.symbols(), *fact.right.symbols()}]
        if told and body.facts.refutes(fact.kind, left, right):
            shown = ", ".join(f"{each.name}={each.value}" for each in told)
            draft = _wrong(body, told[0].span, f"no call has {shown}")
            draft.note(fact.span, "this says so")


def refuse_for_kernel(body: Body, expected: Sequence[ExpectedSize]) -> None:
    """A kernel is computed as it is written, whatever its sizes are."""
    if expected:
        _wrong(body, expected[0].span, "a kernel is computed as it is written, for all sizes")


def _wrong(body: Body, at: Span, problem: str) -> Draft:
    return body.sink.error(E0807, at=at, problem=problem)
