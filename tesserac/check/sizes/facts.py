"""What is known about the sizes of one function: its `where` facts and the ranges of its loop indices.

Enters: facts as they are stated or follow from loops, each with its reason. Leaves: answers, yes, no or not known, to
whether two sizes are equal, one divides the other, or one is at least the other. Symbols are rigid: two of them are
equal only if a fact says so. See Note [Facts become replacements].
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model.typed import GuardKind
from tesserac.check.sizes.bounds import BUDGET, Prover
from tesserac.check.sizes.canonical import canonical_atom
from tesserac.check.sizes.elimination import Budget
from tesserac.check.sizes.solving import Rule, Solved, rewrite, solve_divides, solve_equal
from tesserac.types.dims import ONE, ZERO, Dim, DimError, TooComplex
from tesserac.types.forest import Link, ProofForest
from tesserac.types.terms import Atom, Opaque, is_whole
from tesserac.types.unify import linear_in

MAX_WORK = 6_000
"""Symbols written in all replacements of one function together: below it, facts are taken in well under a second."""


@dataclass(frozen=True)
class Why:
    """The reason of an equality: what was said, and where; no place for what the compiler itself decides."""

    text: str
    span: Span | None


@dataclass(frozen=True)
class CallSize:
    """What a size of a function's signature is in one call of it."""

    at: Span
    callee: str
    size: Dim


Node = Dim | CallSize


@dataclass(frozen=True)
class IndexRange:
    """A loop index: `first`, then every `step`, up to `last`. `runs` tells whether there is an iteration in any
    case."""

    first: Dim
    last: Dim
    step: int
    runs: bool


class Facts:
    """Grows as facts are stated; a size may be asked about at any time."""

    def __init__(self) -> None:
        self._replace: dict[str, Dim] = {}
        self._mentions: dict[str, set[str]] = {}
        self._work = 0
        self._forms: dict[Dim, Dim] = {}
        self._rules: list[Rule] = []
        self._whole: list[tuple[Dim, Dim]] = []
        self._at_least: list[Dim] = []
        self._signed: set[str] = set()
        self._ranges: dict[str, IndexRange] = {}
        self._iterations: dict[str, Dim] = {}
        self._indices: set[str] = set()
        self._stated: list[Dim] = []
        self._apart: list[Dim] = []
        self._on_entry: list[tuple[GuardKind, Dim, Dim]] = []
        self._normal: dict[Dim, Dim] = {}
        self._prover: Prover | None = None
        self.equalities: ProofForest[Node, Why] = ProofForest()
        self._owns_equalities = True

    # ---------------------------------------------------------------------------------------------- stating

    def allow_negative(self, names: Iterable[str]) -> None:
        """Symbols that are no sizes: ints that nothing says more about."""
        self._signed |= set(names)
        self._changed()

    def state(self, kind: GuardKind, left: Dim, right: Dim, why: Why | None = None) -> None:
        """States that left equals right, divides right, or is at least right."""
        if kind == "equal":
            self.equalities = self.equalities if self._owns_equalities else self.equalities.copy()
            self._owns_equalities = True
            self.equalities.merge(left, right, why or Why(f"{left} == {right}", None))
        self._take_in(kind, left, right)
        while self._separate(self._apart):
            pass

    def _take_in(self, kind: GuardKind, left: Dim, right: Dim) -> None:
        if kind == "equal":
            self._solve_equal(self.normal(left), self.normal(right))
        elif kind == "divides":
            self._solve_divides(self.normal(left), self.normal(right))
        else:
            self._at_least.append(left - right)
            self._signed -= _known_sizes(left - right)
        self._stated.append(left - right)
        self._changed()

    def _solve_equal(self, left: Dim, right: Dim) -> None:
        found = solve_equal(left, right)
        for divisor, dividend in found.divisions:
            self._solve_divides(divisor, dividend)
        if found.divisions:
            left, right = self.normal(left), self.normal(right)
            found = solve_equal(left, right)
        if found.name:
            self._take(found)
            return
        self._rules += found.rules
        self._forms = {}
        self._at_least += [left - right, right - left]

    def _solve_divides(self, divisor: Dim, dividend: Dim) -> None:
        self._at_least.append(divisor - ONE)
        self._signed -= _known_sizes(divisor - ONE)
        found = solve_divides(divisor, dividend, self._indices)
        if found is None:
            self._whole.append((divisor, dividend))
        elif found.name:
            self._take(found)

    def _take(self, found: Solved) -> None:
        """A symbol is replaced by what it equals; that it is a size stays known."""
        values = {found.name: found.value}
        for name in self._mentions.pop(found.name, ()):
            self._set(name, self._replace[name].substitute(values))
        self._set(found.name, found.value)
        self._signed |= found.signed
        if found.name in self._signed:
            self._signed |= {f"{found.name}'"} & found.value.symbols()
        elif any(c < 0 for _, c in found.value.terms) or not found.value.symbols().isdisjoint(self._signed):
            self._at_least.append(found.value)

    def _set(self, name: str, value: Dim) -> None:
        """Replaces a symbol. What all replacements cost together is limited, since each may make others longer."""
        self._replace[name] = value
        for mentioned in value.symbols():
            self._mentions.setdefault(mentioned, set()).add(name)
        self._work += sum(1 + len(monomial) for monomial, _ in value.terms)
        if self._work > MAX_WORK:
            raise TooComplex("these facts about sizes make one another too long")
        self._forms = {}
        self._changed()

    def _changed(self) -> None:
        self._normal = {}
        self._prover = None

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is stated inside holds inside: on one side of a branch, in an iteration of a loop. What every call
        checks on entry stays known."""
        saved, first = {name: copy(getattr(self, name)) for name in _SCOPED}, len(self._on_entry)
        mentions, equalities = {name: set(names) for name, names in self._mentions.items()}, self.equalities
        self._owns_equalities = False
        yield
        vars(self).update(saved)
        self._mentions, self.equalities, self._owns_equalities = mentions, equalities, False
        self._forms = {}
        self._changed()
        for kind, left, right in self._on_entry[first:]:
            self._take_in(kind, left, right)

    def state_on_entry(self, kind: GuardKind, left: Dim, right: Dim, why: Why) -> None:
        """States what every call checks before anything else."""
        self.state(kind, left, right, why)
        self._on_entry.append((kind, left, right))

    def exclude(self, left: Dim, right: Dim) -> None:
        """States that two sizes differ. Where one is known not to be below the other it is above, now or once that is
        known."""
        self._apart.append(left - right)
        gaps = [left - right]
        while self._separate(gaps):
            gaps = self._apart

    def _separate(self, gaps: Sequence[Dim]) -> bool:
        """Of gaps that are known not to be 0, those that are known not to be below it are above. Whether there are
        any. That sizes differ says nothing of others before a side is known, so a chain of such facts is asked about
        one by one."""
        sided = {gap: above for gap in gaps if (above := self._above_zero(self.normal(gap))) is not None}
        self._apart = [gap for gap in self._apart if gap not in sided]
        self._at_least += sided.values()
        if sided:
            self._changed()
        return bool(sided)

    def _above_zero(self, gap: Dim) -> Dim | None:
        """What is at least 0 since the gap is not 0; None as long as no side is known."""
        if gap.fraction is not None:
            return (gap if gap.fraction > 0 else -gap) - ONE
        return next((side - ONE for side in (gap, -gap) if self._never_negative(side)), None)

    @contextmanager
    def within(self, name: str, first: Dim, stop: Dim, step: int) -> Iterator[None]:
        """Inside a loop its index counts iterations: `first + step * iteration`, with `0 <= iteration < iterations`; so
        there is one."""
        iteration, distance = f"{name}'", (stop - first) if step > 0 else (first - stop)
        last = self.normal(distance - ONE).floor_div(abs(step))
        runs = self.at_least(distance, ONE) is True
        self._indices |= {name, iteration}
        with self.scope():
            self._ranges[name] = IndexRange(first, first + (distance - ONE).floor_div(abs(step)) * step, step, runs)
            self._set(name, self.normal(first) + Dim.sym(iteration) * step)
            self._iterations[name] = last - Dim.sym(iteration)
            self._changed()
            yield

    # ----------------------------------------------------------------------------------------------- asking

    def normal(self, dim: Dim) -> Dim:
        """The size with stated facts applied: what is equal because of them has one form."""
        known = self._normal.get(dim)
        if known is None:
            try:
                known = rewrite(dim.substitute(self._replace), self._rules)
            except DimError:
                known = dim
            if known.nesting:
                known = self._canonical(known, self._asker())
            self._normal[dim] = known
        return known

    def _canonical(self, dim: Dim, prover: Prover) -> Dim:
        def value_of(atom: Atom) -> Dim:
            args = atom.args if isinstance(atom, Opaque) else ()
            return canonical_atom(atom, tuple(self._canonical(arg, prover) for arg in args), prover.never_negative)

        try:
            dim = rewrite(dim.substitute(self._replace), self._rules)
            return rewrite(dim.map_atoms(value_of), self._rules) if dim.nesting else dim
        except DimError:
            return dim

    def _asker(self) -> Prover:
        """The prover for what is known now. Its facts are brought to normal form without asking one another."""
        if self._prover is None:
            alone = Prover((), self._is_size, Budget(BUDGET))
            facts = [*self._iterations.values(), *self._at_least]
            for fact in facts:
                if fact not in self._forms:
                    self._forms[fact] = self._canonical(fact, alone)
            known = dict.fromkeys(self._forms[fact] for fact in facts)
            self._prover = Prover(tuple(fact for fact in known if fact.fraction is None), self._is_size, Budget(0))
        self._prover.budget = Budget(BUDGET)
        return self._prover

    def _is_size(self, name: str) -> bool:
        return name not in self._signed

    def same(self, left: Dim, right: Dim) -> bool:
        """Whether two sizes are equal; where rounding or extremes hide it, by neither being above the other."""
        if left == right or self.normal(left) == self.normal(right):
            return True
        gap = self.normal(left - right)
        hidden = any(isinstance(atom, Opaque) for atom in gap.atoms())
        return hidden and self._never_negative(gap) and self._never_negative(-gap)

    def divides(self, divisor: Dim, dividend: Dim) -> bool | None:
        """Whether `dividend / divisor` is whole: for all sizes, for none, or who knows."""
        divisor, dividend = self.normal(divisor), self.normal(dividend)
        if divisor == ONE or (divisor, dividend) in self._whole:
            return True
        if divisor == ZERO:
            return False
        quotient = dividend.exact_div(divisor)
        varying = Dim(tuple(term for term in quotient.terms if term[0]))
        if _is_whole(varying):
            return (quotient - varying).constant is not None
        return True if self._follows(quotient) else None

    def _follows(self, quotient: Dim) -> bool:
        """Whether the size is a multiple of a quotient that a fact says is whole: C*H / 4 where 4 divides C."""
        known = (self.normal(e).exact_div(self.normal(d)) for d, e in self._whole if self.normal(d) != ZERO)
        return any(one != ZERO and _is_whole(quotient.exact_div(one)) for one in known)

    def at_least(self, left: Dim, right: Dim) -> bool | None:
        """Whether `left >= right`: for all sizes, for none, or who knows. Symbols are sizes, hence at least 0."""
        gap = self.normal(left - right)
        if self._never_negative(gap):
            return True
        return False if self._never_negative(-gap - ONE) else None

    def refutes(self, kind: GuardKind, left: Dim, right: Dim) -> bool:
        """Whether what is known leaves no sizes of which this could be said."""
        if kind == "divides":
            return self.divides(left, right) is False
        if kind == "at_least":
            return self.at_least(left, right) is False
        gap = self.normal(left - right)
        return self._never_negative(gap - ONE) or self._never_negative(-gap - ONE) or _is_never_zero(gap)

    def surely_at_least(self, left: Dim, right: Dim) -> bool:
        """Whether `left >= right` for all sizes."""
        return self._never_negative(self.normal(left - right))

    def _never_negative(self, gap: Dim) -> bool:
        return self._asker().never_negative(gap)

    @property
    def gave_up(self) -> bool:
        """Whether the last question ended because its search was too long."""
        return self._prover is not None and self._prover.budget.spent

    def is_index(self, name: str) -> bool:
        return name in self._indices

    def at_ends(self, gap: Dim) -> Dim | None:
        """A size that is at least 0 exactly if `gap` is so in every iteration of the loops around; None if that is no
        matter of the ends of their ranges."""
        found = self._least(gap)
        if found is None:
            return None
        least, empty = found
        for dim in empty:
            least = least.max(dim)
        return least

    def short_at_an_end(self, gap: Dim) -> int | None:
        """By how much `gap` is less than 0 in one iteration of the loops around, whatever sizes there are, unless there
        is no iteration."""
        found = self._least(gap) if self._ranges else None
        if found is None or self.at_least(found[0], ZERO) is not False:
            return None
        short = self.normal(found[0]).constant
        return None if short is None else -short

    def _least(self, gap: Dim) -> tuple[Dim, list[Dim]] | None:
        """The least that `gap` is in the iterations of the loops around; and for each loop that may have none what is
        at least 0 where it has none."""
        if not all(range_.runs for range_ in self._ranges.values()) and not _has_value(gap):
            return None  # where there is no iteration, nothing says that a divisor is not 0
        empty: list[Dim] = []
        for name, range_ in reversed(self._ranges.items()):
            linear = linear_in(gap, name) if name in gap.symbols() else (ZERO, gap)
            if linear is None:
                return None
            factor, rest = linear
            rises = self.at_least(factor, ZERO)
            if rises is None:
                return None
            gap = factor * (range_.first if rises == (range_.step > 0) else range_.last) + rest
            way = range_.last - range_.first
            empty += [] if range_.runs else [-way - ONE if range_.step > 0 else way - ONE]
        if any(not dim.symbols().isdisjoint(self._indices) for dim in (gap, *empty)):
            return None
        return gap, empty

    # ------------------------------------------------------------------------------------------- explaining

    def reasons(self, dim: Dim) -> tuple[Link[Node, Why], ...]:
        """The equalities that lead from a size, or from a symbol in it, to the first of what it was stated to be."""
        for part in (dim, *(Dim.sym(name) for name in sorted(dim.symbols()))):
            members = self.equalities.members(part) - {part}
            others = sorted((node for node in members if isinstance(node, Dim)), key=str)
            if others:
                return self.equalities.explain(part, others[0]) or ()
        return ()

    def calls_with(self, dim: Dim) -> tuple[Link[Node, Why], ...]:
        """What a size, or a symbol that it is, is called in the functions that it is passed to, in program order."""
        nodes = (node for node in self.equalities.members(dim) if isinstance(node, CallSize))
        paths = [self.equalities.explain(dim, node) or () for node in sorted(nodes, key=lambda node: node.at.start)]
        return tuple(path[0] for path in paths if len(path) == 1)

    def nearby(self, size: Dim) -> bool:
        """Whether any fact speaks of a symbol of this size."""
        names = size.symbols()
        return any(not names.isdisjoint(stated.symbols()) for stated in self._stated)


_SCOPED = (
    *("_replace", "_work", "_rules", "_whole", "_at_least", "_signed", "_ranges", "_iterations", "_apart", "_stated"),
)
"""What a scope gives back as it was."""


def _known_sizes(gap: Dim) -> frozenset[str]:
    """The symbol that is a size since `gap` is at least 0: that of `k - 3`, say."""
    below = [term for term in gap.terms if not term[0]]
    name = (gap - Dim(tuple(below))).symbol
    return frozenset() if name is None or any(c > 0 for _, c in below) else frozenset({name})


def _has_value(size: Dim) -> bool:
    """Whether a size has a value whatever its symbols are: it is not divided by any of them."""
    inside = [atom for atom in size.atoms() if isinstance(atom, Opaque)]
    divisors = [atom.args[1] for atom in inside if atom.function not in ("min", "max")]
    exponents = (exponent for monomial, _ in size.terms for _, exponent in monomial)
    whole = all(divisor.constant for divisor in divisors) and all(exponent > 0 for exponent in exponents)
    return whole and all(_has_value(arg) for atom in inside for arg in atom.args)


def _is_never_zero(gap: Dim) -> bool:
    """Whether all that varies comes in steps that pass over 0: `2*N - 4*M + 1`."""
    if not _is_whole(gap):
        return False
    steps = [c.numerator for monomial, c in gap.terms if monomial]
    rest = sum(c.numerator for monomial, c in gap.terms if not monomial)
    return bool(rest) and (not steps or rest % math.gcd(*steps) != 0)


def _is_whole(dim: Dim) -> bool:
    """Whether the size is an integer whatever the symbols are."""
    return all(is_whole(*term) for term in dim.terms) and not _is_quotient(dim)


def _is_quotient(dim: Dim) -> bool:
    return any(isinstance(atom, Opaque) and atom.function == "quotient" for atom in dim.atoms())


# Note [Facts become replacements]
# `D % h == 0` makes D `h * Q` for a new size Q, an equality makes one symbol an expression in others, and a loop index
# is its first value plus a number of iterations. So a question is asked of polynomials over independent symbols, where
# "is it whole" and "is it the same" are read off, and only inequalities need a search. The replacements are never
# shown.
