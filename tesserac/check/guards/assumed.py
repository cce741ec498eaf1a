"""What a condition says of sizes where it holds, and where it does not: a branch is a fact.

Enters: a checked condition. Leaves: facts that hold while the branch it leads to is checked. What is said of tensors
alone says nothing of sizes; of `a or b` that holds, and of `a and b` that does not, it is not known which.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from tesserac.base.dataclass import dataclass
from tesserac.check.model import typed
from tesserac.check.sizes.facts import Why
from tesserac.check.state.body import Body
from tesserac.types.dims import ONE, ZERO, Dim, TooComplex
from tesserac.types.polynomial import Opaque
from tesserac.types.ty import BoolType, IntType

_COMPARISONS = ("less", "less_equal", "equal", "not_equal", "bitwise_and", "bitwise_or", "bitwise_not")
_LIMIT = 64
"""Facts that one condition may add: far more than one written by hand has."""


@dataclass(frozen=True)
class Assumed:
    """left is at least, equals, divides, or differs from, right."""

    kind: typed.GuardKind | None
    left: Dim
    right: Dim


def relies_on(body: Body, test: typed.Expr, checked: int) -> bool:
    """Whether what a condition leads to may rely on sizes that are so only there: it is a fact about sizes, or more
    than `checked` checks have been made there."""
    says = any(True for holds in (True, False) for _ in _assumed(body, test, holds))
    return says or body.sizes.checked > checked


@contextmanager
def assuming(body: Body, test: typed.Expr, *, holds: bool) -> Iterator[None]:
    """Inside, the condition holds, or does not. What is checked inside is no matter of other runs."""
    with body.facts.scope():
        assume(body, test, holds=holds)
        body.flow.branches += 1
        yield
        body.flow.branches -= 1


def assume(body: Body, test: typed.Expr, *, holds: bool) -> None:
    """From here on, until the scope of facts ends."""
    try:
        for fact in islice(_assumed(body, test, holds), _LIMIT):
            _state(body, fact, Why(f"the condition {'holds' if holds else 'does not hold'} here", test.span))
    except TooComplex:
        return  # what is not known is checked where it happens


def _state(body: Body, fact: Assumed, why: Why) -> None:
    if fact.kind is None:
        body.facts.exclude(fact.left, fact.right)
    elif not body.facts.refutes(fact.kind, fact.left, fact.right):
        body.facts.state(fact.kind, fact.left, fact.right, why)


def _assumed(body: Body, test: typed.Expr, holds: bool) -> Iterator[Assumed]:
    """Without recursion: a condition of many terms nests as deep as it is long. A name that a loop carries may be
    bound anew in its iterations."""
    waiting = [(test, holds)]
    while waiting:
        part, truth = waiting.pop()
        match part:
            case typed.Apply(op=op, operands=(left, right)) if op.name in ("bitwise_and", "bitwise_or"):
                if truth == (op.name == "bitwise_and"):
                    waiting += [(right, truth), (left, truth)]
            case typed.Apply(op=op, operands=(inner,)) if op.name == "bitwise_not":
                waiting.append((inner, not truth))
            case typed.Conditional(test=first, then=then, otherwise=otherwise):
                waiting += _of_choice(first, then, otherwise, truth)
            case typed.Let(value=value):
                waiting.append((value, truth))
            case typed.Local(name=name) if name not in body.scope.pinned:
                bound = body.origins.get(part)
                waiting += [] if bound is None or bound.value is None else [(bound.value, truth)]
            case typed.Apply(op=op, operands=(left, right)) if (sizes := _sizes(left, right)) is not None:
                yield from _compared(op.name, *sizes, truth)


def compares_sizes(test: typed.Expr) -> bool:
    """Whether a condition is made of comparisons of sizes alone: it can be computed anywhere."""
    waiting = [test]
    while waiting:
        part = waiting.pop()
        if isinstance(part, typed.Apply) and part.op.name in _COMPARISONS:
            waiting += part.operands
        elif isinstance(part, typed.Coerce):
            waiting.append(part.value)
        elif not isinstance(part, typed.Static) or (isinstance(part.type, IntType) and _divides(part.type.value)):
            return False
    return True


def _divides(size: Dim) -> bool:
    """Whether a size has no value where a divisor is zero, or does not divide."""
    return size.nesting > 0 or size.has_fraction


def _of_choice(
    first: typed.Expr, then: typed.Expr, otherwise: typed.Expr, truth: bool
) -> list[tuple[typed.Expr, bool]]:
    """`b if a else False` is `a and b`, `True if a else b` is `a or b`."""
    if truth and _is(otherwise, False):
        return [(then, True), (first, True)]
    if not truth and _is(then, True):
        return [(otherwise, False), (first, False)]
    return []


def _is(value: typed.Expr, truth: bool) -> bool:
    while isinstance(value, typed.Coerce):
        value = value.value
    return isinstance(value, typed.Static) and value.type == BoolType(truth)


def _sizes(*operands: typed.Expr) -> tuple[Dim, Dim] | None:
    found: list[Dim] = []
    for operand in operands:
        while isinstance(operand, typed.Coerce):
            operand = operand.value
        if isinstance(operand, typed.Static) and isinstance(operand.type, IntType):
            found.append(operand.type.value)
    return (found[0], found[1]) if len(found) == 2 else None


def _compared(comparison: str, left: Dim, right: Dim, truth: bool) -> Iterator[Assumed]:
    match comparison:
        case "less":
            yield Assumed("at_least", right, left + ONE) if truth else Assumed("at_least", left, right)
        case "less_equal":
            yield Assumed("at_least", right, left) if truth else Assumed("at_least", left, right + ONE)
        case "equal" | "not_equal":
            if truth == (comparison == "equal"):
                yield from _equal(left, right)
            else:
                yield Assumed(None, left, right)


def _equal(left: Dim, right: Dim) -> Iterator[Assumed]:
    """`i % 2 == 0` says that 2 divides i."""
    division = _remainder(left - right)
    yield Assumed("equal", left, right) if division is None else Assumed("divides", *division)


def _remainder(gap: Dim) -> tuple[Dim, Dim] | None:
    """(divisor, dividend) where a size is what a division leaves."""
    for atom in gap.atoms():
        if isinstance(atom, Opaque) and atom.function in ("mod", "floor_div"):
            dividend, divisor = atom.args
            if gap in (dividend.mod(divisor), ZERO - dividend.mod(divisor)):
                return divisor, dividend
    return None
