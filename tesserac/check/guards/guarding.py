"""Checks of sizes that compiling does not decide: on entry where every call comes to them, else where they are needed.

Enters: a rule about sizes, and the code that needs it. Leaves: a guard of the function, or a check among the
statements; from then on it is a fact.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.check.guards.undecided import code_at, undecided
from tesserac.check.model import typed
from tesserac.check.sizes.facts import Why
from tesserac.check.state.body import Body
from tesserac.types.dims import ONE, ZERO, Dim


def require_guard(
    body: Body,
    kind: typed.GuardKind,
    left: Dim,
    right: Dim,
    at: Span,
    origin: typed.Guard | None = None,
    said: str = "",
) -> None:
    """A check, from then on a fact; `origin` is the check of a called function that it stands for, `said` the text of
    an assertion. It is made on entry where every call comes to it, a bound that depends on loop indices at the ends of
    their ranges; else where it is needed. That two sizes of arguments agree is a matter of types, which hold for the
    whole function."""
    if body.flow.dead:
        return
    reason = undecided(body, kind, left, right, at)
    typing = kind == "equal" and origin is None
    ends = None if body.flow.branches and not typing else _on_entry(body, kind, left, right)
    if ends is None:
        require_here(body, kind, left, right, at)
        return
    said = said or (origin.said if origin is not None else "")
    body.add_guard(kind, *ends, at, reason, origin, code_at(body, at), said)
    body.facts.state_on_entry(kind, *ends, Why("checked on entry", at))
    if ends != (left, right):
        body.facts.state(kind, left, right, Why("checked on entry", at))  # of this iteration


def require_divisor(body: Body, divisor: Dim, at: Span) -> None:
    """A check that a size by which one is divided is at least 1, where the division stands; one below 0 is no size."""
    if divisor.constant is None and not body.facts.surely_at_least(divisor, ONE):
        require_guard(body, "at_least", divisor, ONE, at)


def require_here(body: Body, kind: typed.GuardKind, left: Dim, right: Dim, at: Span) -> None:
    """A check where the program comes to it, and behind it a fact."""
    if body.flow.dead == 0:
        reason = undecided(body, kind, left, right, at)
        body.facts.state(kind, left, right, Why("checked here", at))
        if kind == "at_least":
            left, right = typed.balanced(left, right)
        body.add_check(typed.Require(at, kind, left, right, code_at(body, at), reason))


def require_position(body: Body, position: Dim, size: Dim, index: Dim, at: Span) -> None:
    """A check that a position, written as `index`, is one of a dim; then it is a fact."""
    bounds = [(left, right) for left, right in ((position, ZERO), (size, position + 1))]
    bounds = [bound for bound in bounds if not body.facts.surely_at_least(*bound)]
    if not body.flow.branches and all(_on_entry(body, "at_least", *bound) for bound in bounds):
        for left, right in bounds:
            require_guard(body, "at_least", left, right, at)
    elif body.flow.dead == 0:
        reason = undecided(body, "at_least", *bounds[0], at)
        body.add_check(typed.Require(at, "in_range", position, size, code_at(body, at), reason, index))
        for left, right in bounds:
            body.facts.state("at_least", left, right, Why("checked here", at))


def _on_entry(body: Body, kind: typed.GuardKind, left: Dim, right: Dim) -> tuple[Dim, Dim] | None:
    """The same as a question of sizes that are known on entry; None where there is none."""
    if kind == "at_least":
        end = body.facts.at_ends(left - right)
        return None if end is None else (end, ZERO)
    depends = any(body.facts.is_index(name) for name in (left - right).symbols())
    return None if depends else (left, right)
