"""Proofs about sizes are sound: no values that satisfy the facts contradict an answer, yes or no.

Facts and questions are made at random; every point of a grid that satisfies the facts is tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tesserac.check.model.typed import GuardKind
from tesserac.check.sizes.elimination import Budget, contradicts
from tesserac.check.sizes.facts import Facts
from tesserac.types.dims import ZERO, Dim, parse_dim
from tesserac.types.terms import Atom, Symbol
from tests.support.sampling import examples

NAMES = ("A", "B", "C")
GRID = [dict(zip(NAMES, point, strict=True)) for point in itertools.product(range(6), repeat=len(NAMES))]
SIGNED = [dict(zip(NAMES, point, strict=True)) for point in itertools.product(range(5), range(5), range(-4, 5))]
"""The last name is that of an int here, which may be negative."""
Fact = tuple[GuardKind, Dim, Dim]

_NUMBERS = st.integers(-3, 6).map(Dim.const)
_SYMBOLS = st.sampled_from(NAMES).map(Dim.sym)
_DIVISORS = st.one_of(st.integers(1, 6).map(Dim.const), _SYMBOLS)
_LINEAR = st.recursive(
    st.one_of(_NUMBERS, _SYMBOLS, _SYMBOLS),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
        st.tuples(inner, _DIVISORS).map(lambda p: p[0] * p[1]),
    ),
    max_leaves=4,
)
_ROUNDINGS = (Dim.floor_div, Dim.mod, Dim.ceil_div, Dim.exact_div)
SIZES = st.recursive(
    _LINEAR,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(_ROUNDINGS), inner, _DIVISORS).map(lambda p: p[0](p[1], p[2])),
        st.tuples(st.sampled_from((Dim.min, Dim.max)), inner, inner).map(lambda p: p[0](p[1], p[2])),
        st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
        st.tuples(inner, _DIVISORS).map(lambda p: p[0] * p[1]),
    ),
    max_leaves=3,
)
FACTS: st.SearchStrategy[list[Fact]] = st.lists(
    st.one_of(
        st.tuples(st.just("divides"), _DIVISORS, _LINEAR),
        st.tuples(st.sampled_from(("equal", "at_least")), _LINEAR, _LINEAR),
    ),
    max_size=3,
)


class NoValue(Exception):
    """A division by zero, or one that leaves a rest."""


def value(dim: Dim, at: Mapping[str, int]) -> int:
    """The number a size is, computed apart from `Dim.substitute`, whose normal forms are under test."""
    total = Fraction(0)
    for monomial, coefficient in dim.terms:
        term = coefficient
        for atom, exponent in monomial:
            number = _atom_value(atom, at)
            if number == 0 and exponent < 0:
                raise NoValue
            term *= Fraction(number) ** exponent
        total += term
    if total.denominator != 1:
        raise NoValue
    return total.numerator


def _atom_value(atom: Atom, at: Mapping[str, int]) -> int:
    if isinstance(atom, Symbol):
        return at[atom.name]
    args = [value(arg, at) for arg in atom.args]
    if atom.function in ("min", "max"):
        return min(args) if atom.function == "min" else max(args)
    left, right = args
    if right == 0 or (atom.function == "quotient" and left % right):
        raise NoValue
    rounded = {"floor_div": left // right, "quotient": left // right, "mod": left % right}
    return rounded.get(atom.function, -(-left // right))


def holds(fact: Fact, at: Mapping[str, int]) -> bool:
    kind, left, right = fact
    a, b = value(left, at), value(right, at)
    if kind == "divides":
        if a == 0:
            raise NoValue
        return a > 0 and b % a == 0
    return a == b if kind == "equal" else a >= b


def points(facts: list[Fact], asked: Fact, grid: list[dict[str, int]] = GRID) -> Iterator[bool]:
    """The truth of what is asked at every point where the facts hold and it has a value."""
    for at in grid:
        try:
            if all(holds(fact, at) for fact in facts):
                yield holds(asked, at)
        except NoValue:
            continue


def known(facts: list[Fact], signed: tuple[str, ...] = ()) -> Facts:
    found = Facts()
    found.allow_negative(signed)
    for kind, left, right in facts:
        found.state(kind, left, right)
    return found


@pytest.mark.one_in(6)
@examples(100)
@given(FACTS, SIZES, SIZES)
@example([("at_least", ZERO, parse_dim("B*C")), ("equal", ZERO, parse_dim("A*B*C + B*C"))], ZERO, parse_dim("A"))
def test_what_is_at_least_is_so(facts: list[Fact], left: Dim, right: Dim) -> None:
    answer = known(facts).at_least(left, right)
    if answer is not None:
        assert all(truth == answer for truth in points(facts, ("at_least", left, right)))


@pytest.mark.one_in(6)
@examples(100)
@given(FACTS, SIZES, SIZES)
def test_what_is_at_least_is_so_of_ints_too(facts: list[Fact], left: Dim, right: Dim) -> None:
    answer = known(facts, NAMES[-1:]).at_least(left, right)
    if answer is not None:
        assert all(truth == answer for truth in points(facts, ("at_least", left, right), SIGNED))


@pytest.mark.one_in(6)
@examples(200)
@given(FACTS, st.sampled_from(("divides", "equal", "at_least")), _LINEAR, _LINEAR)
@example([("divides", parse_dim("2"), parse_dim("A"))], "equal", parse_dim("A % 4"), parse_dim("1"))
@example([("at_least", parse_dim("A"), parse_dim("5"))], "at_least", parse_dim("2"), parse_dim("A"))
def test_what_is_refuted_is_so_nowhere(facts: list[Fact], kind: GuardKind, left: Dim, right: Dim) -> None:
    if known(facts, NAMES[-1:]).refutes(kind, left, right):
        assert not any(points(facts, (kind, left, right), SIGNED))


@pytest.mark.one_in(3)
@examples(100)
@given(FACTS, SIZES, SIZES)
def test_what_is_equal_is_so(facts: list[Fact], left: Dim, right: Dim) -> None:
    if known(facts).same(left, right):
        assert all(points(facts, ("equal", left, right)))


@pytest.mark.one_in(2)
@examples(100)
@given(FACTS, SIZES, _DIVISORS)
def test_what_divides_does(facts: list[Fact], dividend: Dim, divisor: Dim) -> None:
    answer = known(facts).divides(divisor, dividend)
    if answer is not None:
        assert all(truth == answer for truth in points(facts, ("divides", divisor, dividend)))


@pytest.mark.one_in(2)
@examples(100)
@given(FACTS, SIZES)
def test_a_normal_form_has_the_value(facts: list[Fact], size: Dim) -> None:
    """Without facts that introduce sizes of their own, the normal form is a size in the same symbols."""
    normal = known(facts).normal(size)
    if not normal.symbols() <= set(NAMES):
        return
    for at in GRID[::2]:
        try:
            if all(holds(fact, at) for fact in facts):
                assert value(normal, at) == value(size, at)
        except NoValue:
            continue


@pytest.mark.one_in(6)
@examples(80)
@given(FACTS, SIZES, SIZES, st.sampled_from((1, 2, 3, -1, -2)))
def test_what_holds_in_a_loop_holds_in_every_turn(facts: list[Fact], stop: Dim, limit: Dim, step: int) -> None:
    """`i` runs over a range whose end is random; what is asked mentions it."""
    found, index = known(facts), Dim.sym("i")
    first, end = (Dim.const(0), stop) if step > 0 else (stop, Dim.const(-1))
    with found.within("i", first, end, step):
        answer = found.at_least(limit, index)
    for at in GRID[::2]:
        try:
            if not all(holds(fact, at) for fact in facts):
                continue
            turns = range(value(first, at), value(end, at), step)
            truths = [value(limit, at) >= i for i in turns]
        except NoValue:
            continue
        assert answer is None or all(truth == answer for truth in truths)


@pytest.mark.one_in(4)
@examples(80)
@given(SIZES, SIZES, st.sampled_from((1, 2, 3, -1, -2)))
def test_the_ends_of_a_range_speak_for_all_turns(stop: Dim, limit: Dim, step: int) -> None:
    """The guard made of a bound in a loop is exact: it holds if and only if the bound holds in every turn."""
    found = Facts()
    first, end = (Dim.const(0), stop) if step > 0 else (stop, Dim.const(-1))
    with found.within("i", first, end, step):
        guard = found.at_ends(limit - Dim.sym("i") * 2)
    if guard is None:
        return
    for at in GRID[::2]:
        try:
            turns = range(value(first, at), value(end, at), step)
            truth = all(value(limit, at) >= 2 * i for i in turns)
            assert (value(guard, at) >= 0) == truth
        except NoValue:
            continue


@pytest.mark.one_in(2)
@examples(200)
@given(st.lists(_LINEAR, min_size=1, max_size=5))
@example([parse_dim("A - B - 1"), parse_dim("B - A")])
def test_contradictions_have_no_point(rows: list[Dim]) -> None:
    if contradicts(rows, Budget(2_000)):
        wide = [dict(zip(NAMES, point, strict=True)) for point in itertools.product(range(-4, 5), repeat=3)]
        assert not any(all(value(row, at) >= 0 for row in rows) for at in wide)
