"""The engine: an expression becomes the cheapest one that the laws give.

Enters: a term and what is known of its sizes. Leaves: a term of the same meaning, and the steps that led to it.
Arguments come first; chains of products are taken as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.graph.algebra.chains import Tree, may_reassociate, mirrored, trees
from tesserac.graph.algebra.contractions import by_pairs, contraction_trees
from tesserac.graph.algebra.costs import Facts, beats, is_open
from tesserac.graph.algebra.known import undoes
from tesserac.graph.algebra.rules import rules_for
from tesserac.graph.algebra.terms import Term, equation_of, eye, make

ASSOCIATIVITY = "associativity"
ORDER = "order of a contraction"
UNDONE = "orthonormal columns"
INVERSE = "a matrix and its inverse"
MIRRORED = "the same from both ends"
MAX_STEPS = 400
"""Of one expression: more only laws that undo each other could need."""
MOST_TRIED = 100
"""Laws that one expression tries beyond its normal form. Sums of sums that each stand in several places meet ever more
vectors, twice as many with each; what programs write tries a few dozen."""


@dataclass(frozen=True)
class Step:
    """A law that was applied."""

    law: str
    before: Term
    after: Term


@dataclass(frozen=True)
class Choice:
    """An order that was not taken, since it is cheaper for some sizes only."""

    written: Term
    other: Term


class Engine:
    """Rewrites expressions of one function; `steps` and `choices` are of the last one."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.steps: list[Step] = []
        self.choices: list[Choice] = []
        self._known: dict[Term, Term] = {}
        self._tried = 0
        self._products: dict[Term, tuple[Term, list[Step], list[Choice]]] = {}

    def simplify(self, term: Term) -> Term:
        """The expression in its cheapest form; the same term where none is surely cheaper."""
        found = self.normal(term)
        if found == term or not self.is_gain(found, term):
            self.steps = []
            return term
        return found

    def normal(self, term: Term) -> Term:
        """The expression with its structure moved to where it is seen, whatever it costs as a whole."""
        self.steps, self.choices, self._known, self._products, self._tried = [], [], {}, {}, 0
        return self._simplified(term)

    def is_gain(self, new: Term, old: Term) -> bool:
        """Whether a form is cheaper, or as cheap and shorter; what only looks otherwise is not worth other bits."""
        if beats(new.cost, old.cost, self._facts):
            return True
        return new.cost == old.cost and len(new.distinct) < len(old.distinct)

    def _simplified(self, term: Term) -> Term:
        if not term.args or len(self.steps) > MAX_STEPS:
            return term
        found = self._known.get(term)
        if found is None:
            self._known[term] = term  # as a law that undoes another finds it
            found = self._known[term] = self._of_parts(term)
        return found

    def _of_parts(self, term: Term) -> Term:
        if term.head == "mm":
            return self._product(term)
        inside = self._inside(term)
        return self._with_laws(inside) if equation_of(term.head) is None else self._contraction(inside)

    def _inside(self, term: Term) -> Term:
        args = tuple(map(self._simplified, term.args))
        return term if args == term.args else Term(term.head, args, term.shape, term.leaf)

    def _with_laws(self, term: Term) -> Term:
        """The laws of a head whose arguments are done."""
        for rule in rules_for(term.head, tuple(arg.head for arg in term.args)):
            is_left = rule.law.normal or self._tried < MOST_TRIED
            other = rule.apply(term) if is_left and rule.may_pay(term) else None
            if other is None:
                continue
            self._tried += not rule.law.normal
            count, choices = len(self.steps), len(self.choices)
            self.steps.append(Step(rule.law.name, term, other))
            best = self._simplified(other)
            if rule.law.normal or beats(best.cost, term.cost, self._facts):
                return best
            del self.steps[count:], self.choices[choices:]
            if is_open(best.cost, term.cost, self._facts):
                self.choices.append(Choice(term, best))
        return term

    # -------------------------------------------------------------------------------------------------- products

    def _contraction(self, term: Term) -> Term:
        best = term
        for tree in contraction_trees(term, self._facts.expected):
            other = by_pairs(term, tree)
            if beats(other.cost, best.cost, self._facts):
                self.steps.append(Step(ORDER, best, other))
                best = other
            elif is_open(other.cost, best.cost, self._facts):
                self.choices.append(Choice(best, other))
        return best

    def _product(self, term: Term) -> Term:
        tree, factors = self._opened(term)
        best = self._built(tree, factors)
        if len(factors) < 3 or not may_reassociate(factors):
            return best
        for other_tree in trees(factors, self._facts.expected):
            if other_tree == tree:
                continue
            count = len(self.steps)
            other = self._built(other_tree, factors)
            taken, self.steps[count:] = self.steps[count:], []
            if beats(other.cost, best.cost, self._facts):
                self.steps += [Step(ASSOCIATIVITY, best, other), *taken]
                best = other
            elif is_open(other.cost, best.cost, self._facts):
                self.choices.append(Choice(best, other))
        return self._from_both_ends(best, factors)

    def _from_both_ends(self, best: Term, factors: Sequence[Term]) -> Term:
        """A form that is the same from both ends has one half, and what stands between two of it."""
        half = mirrored(factors)
        if not half:
            return best
        count, end = len(self.steps), factors[0]
        for factor in factors[1:half]:
            end = self._multiplied(make("mm", end, factor))
        middle = factors[half:-half]
        other = self._multiplied(make("mm", middle[0], end)) if middle else end
        other = self._multiplied(make("mm", end, other))
        if beats(other.cost, best.cost, self._facts):
            self.steps.insert(count, Step(MIRRORED, best, other))
            return other
        del self.steps[count:]
        return best

    def _opened(self, term: Term) -> tuple[Tree, list[Term]]:
        """The factors of a product, each in its cheapest form, and the order in which they are written. A factor that
        turns out to be a product (the transpose of one) is opened, too."""
        factors: list[Term] = []
        tree = _open(term, factors)
        simple = list(map(self._simplified, factors))
        if any(_is_product(new) and not _is_product(old) for new, old in zip(simple, factors, strict=True)):
            again = _joined(tree, simple)
            simple = []
            tree = _open(again, simple)
        return self._without_undone(tree, simple)

    def _without_undone(self, tree: Tree, factors: list[Term]) -> tuple[Tree, list[Term]]:
        """A product without neighbours that are known to undo each other, in whatever order they would be multiplied,
        and without those that are neighbours then."""
        kept: list[int] = []
        for place, factor in enumerate(factors):
            if not kept or factor.rank != 2 or not undoes(factors[kept[-1]], factor):
                kept.append(place)
                continue
            product = make("mm", factors[kept.pop()], factor)
            law = INVERSE if "made" in {part.head for part in product.distinct} else UNDONE
            self.steps.append(Step(law, product, eye(product.shape[0])))
        if len(kept) == len(factors):
            return tree, factors
        if not kept:
            return 0, [eye(factors[0].shape[0])]
        left = _pruned(tree, {place: number for number, place in enumerate(kept)})
        assert left is not None, "a factor that is kept stands in the tree"
        return left, [factors[place] for place in kept]

    def _built(self, tree: Tree, factors: Sequence[Term]) -> Term:
        if isinstance(tree, int):
            return factors[tree]
        left, right = (self._built(part, factors) for part in tree)
        return self._multiplied(make("mm", left, right))

    def _multiplied(self, product: Term) -> Term:
        """A product of two that are done. Orders of a chain share most of their products."""
        known = self._products.get(product)
        if known is None:
            steps, choices = len(self.steps), len(self.choices)
            found = self._with_laws(product)
            self._products[product] = found, self.steps[steps:], self.choices[choices:]
            return found
        self.steps += known[1]
        self.choices += known[2]
        return known[0]


def _open(term: Term, factors: list[Term]) -> Tree:
    """Adds the factors of a product of products, from left to right. A product that is a vector stands for a row on the
    left and for a column on the right: it is opened only where it was made as one."""
    if not _is_product(term):
        factors.append(term)
        return len(factors) - 1
    left, right = term.args
    found: list[Tree] = []
    for part, edge in ((left, 1), (right, 0)):
        if _is_product(part) and part.args[edge].rank >= 2:
            found.append(_open(part, factors))
        else:
            factors.append(part)
            found.append(len(factors) - 1)
    return found[0], found[1]


def _pruned(tree: Tree, numbers: Mapping[int, int]) -> Tree | None:
    """The tree over the factors that have a number, under that."""
    if isinstance(tree, int):
        return numbers.get(tree)
    left, right = (_pruned(part, numbers) for part in tree)
    if left is None or right is None:
        return right if left is None else left
    return left, right


def _joined(tree: Tree, factors: Sequence[Term]) -> Term:
    if isinstance(tree, int):
        return factors[tree]
    return make("mm", *(_joined(part, factors) for part in tree))


def _is_product(term: Term) -> bool:
    return term.head == "mm"
