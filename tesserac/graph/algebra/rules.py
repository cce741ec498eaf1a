"""Laws at work: whether an expression is the left side of one, and what the right side is then.

Enters: the rows of `laws.py`, and terms. Leaves: for a head the rules that may fit it, each of which gives the other
side of an expression, or None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import combinations, repeat
from operator import itemgetter

from tesserac.base.dataclass import dataclass
from tesserac.base.once import once
from tesserac.graph.algebra.chains import pays_apart
from tesserac.graph.algebra.known import flags_of, is_real, undoes
from tesserac.graph.algebra.law import Law
from tesserac.graph.algebra.laws import LAWS
from tesserac.graph.algebra.reading_folds import NOT_NARROW
from tesserac.graph.algebra.terms import Term, eye, make, ones
from tesserac.graph.dialect import PREFIX, operator_of
from tesserac.ir.forms import tensor_type
from tesserac.ops.held import SELF_ADJOINT
from tesserac.ops.shape import Slice
from tesserac.types.dims import ONE, Dim

Bound = dict[str, Term]


def _square(bound: Mapping[str, Term], term: Term) -> bool:
    matrix = next((arg for arg in (term, *term.args) if arg.rank == 2), term)
    return matrix.rank == 2 and matrix.shape[0] == matrix.shape[1]


def _square_outer(bound: Mapping[str, Term], term: Term) -> bool:
    return bound["x"].shape == bound["y"].shape


def _squares(bound: Mapping[str, Term], term: Term) -> bool:
    return all(bound[name].shape[0] == bound[name].shape[1] for name in ("A", "B"))


def _conformal(bound: Mapping[str, Term], term: Term) -> bool:
    return bound["A"].shape[1] == bound["C"].shape[0] and bound["B"].shape[1] == bound["D"].shape[0]


def _summands(term: Term) -> Iterator[Term]:
    if term.head in ("add", "sub"):
        for arg in term.args:
            yield from _summands(arg)
    else:
        yield term


def _is_last_row(bound: Mapping[str, Term], term: Term) -> bool:
    """Whether what is cut out of a matrix is its last row, as the operation says."""
    cut = bound["p"].args[0] if bound["p"].args else bound["p"]
    op = None if cut.leaf is None else cut.leaf.defining_op
    operator = None if op is None else operator_of(op)
    if not isinstance(operator, Slice) or cut.shape != (ONE,):
        return False
    return operator.starts[int(cut is not bound["p"])] == bound["A"].shape[0] - ONE


def _differs_from_its_diagonal(bound: Mapping[str, Term], term: Term) -> bool:
    """Whether no matrix has its own diagonal taken from it: of that, the difference leaves zeros, and the product less
    than rounding."""
    one, two = bound["A"], bound["B"]
    return not any(_may_cancel(a, d.args[0]) for a, d in ((one, two), (two, one)) if d.head == "diag")


def _has_its_diagonal(bound: Mapping[str, Term], term: Term) -> bool:
    """Of numbers whose products are held as they are summed."""
    leaves = [part.leaf for part in bound["A"].distinct if part.leaf is not None]
    is_wide = all(tensor_type(leaf).dtype.bits >= NOT_NARROW for leaf in leaves)
    return is_wide and _may_cancel(bound["A"], bound["d"])


def _may_cancel(matrix: Term, d: Term) -> bool:
    """Whether numbers are, or for all that is known may be, those on the diagonal of a matrix that is computed element
    by element: such as a program is given. What it has summed or scaled has its own rounding."""
    if _has_diagonal_of(d, matrix):
        return True
    value = (d.args[0] if d.head == "diagonal" else d).leaf
    if value is None or not all(part.head in _BY_ELEMENTS for part in matrix.distinct):
        return False
    while value.defining_op is not None and value.defining_op.name in _PICKED:
        value = value.defining_op.operands[0]
    return value.defining_op is None


def _has_diagonal_of(diagonal: Term, matrix: Term) -> bool:
    for part in diagonal.distinct:
        if part.head == "diagonal" and part.args[0] == matrix:
            return True
        op = part.leaf.defining_op if part.leaf is not None else None
        while op is not None and op.name in _READ_ON:
            op = op.operands[0].defining_op
        if op is not None and op.name == PREFIX + "diagonal" and matrix.leaf in (None, op.operands[0]):
            return True
    return False


_BY_ELEMENTS = ("", "t", "conj", "neg", "scale", "rows", "columns", "add", "sub", "tril", "triu", "below", "over")
_PICKED = tuple(
    PREFIX + name for name in ("cut", "gather", "lookup", "diagonal", "reshape", "expand", "permute", "neg")
)
_READ_ON = (PREFIX + "reshape", PREFIX + "expand", PREFIX + "mul", PREFIX + "div", PREFIX + "neg")


def _self_adjoint(bound: Mapping[str, Term], term: Term) -> bool:
    return SELF_ADJOINT in flags_of(bound["S"])


def _undone(bound: Mapping[str, Term], term: Term) -> bool:
    return undoes(*term.args)


CONDITIONS: dict[str, Callable[[Mapping[str, Term], Term], bool]] = {
    "": lambda bound, term: True,
    "square": _square,
    "squares": _squares,
    "square outer": _square_outer,
    "conformal": _conformal,
    "side by side": lambda bound, term: term.args[0].args[0].shape[1] == term.args[1].args[0].shape[0],
    "one row": lambda bound, term: bound["A"].shape[0] == ONE,
    "one column": lambda bound, term: bound["A"].shape[1] == ONE,
    "last row": _is_last_row,
    "not of its diagonal": _differs_from_its_diagonal,
    "its own diagonal": _has_its_diagonal,
    "self_adjoint": _self_adjoint,
    "real self_adjoint": lambda bound, term: _self_adjoint(bound, term) and is_real(term),
    "undone": _undone,
    "alike": lambda bound, term: term.args[0].args[0].shape == term.args[1].args[0].shape,
    "real": lambda bound, term: is_real(term),
    "not squares": lambda bound, term: term.args[0].args[0] != term.args[0].args[1],
    "one in each row": lambda bound, term: bound["H"].head == "hot",
    "batch of ones": lambda bound, term: bound["M"].head == "hot" and bound["M"].rank > 2,
}


@dataclass(frozen=True)
class Rule:
    """A law whose sides are read once a program has their heads."""

    law: Law

    @once
    def left(self) -> Pattern:
        return _parsed(self.law.left)

    @once
    def right(self) -> Pattern:
        return _parsed(self.law.right)

    @once
    def heads(self) -> tuple[tuple[int, str], ...]:
        """Of the arguments of the left side, where it says them: most terms differ there already."""
        parts = self.left[2] or ()
        said = enumerate(parts)
        return tuple((place, name) for place, (name, count, inner) in said if inner is not None or count == _CONSTANT)

    def may_pay(self, term: Term) -> bool:
        """Whether the right side may be cheaper, as far as that is seen without simplifying it."""
        if self.law.sum_at is None:
            return True
        sum_, other = term.args[self.law.sum_at], term.args[1 - self.law.sum_at]
        return bool(flags_of(other)) or pays_apart(tuple(_summands(sum_)), other.shape[self.law.sum_at - 1])

    def apply(self, term: Term) -> Term | None:
        """The right side, where the term is a left side of the law."""
        bound: Bound = {}
        if not _matches(self.left, term, bound) or not CONDITIONS[self.law.when](bound, term):
            return None
        found = _build(self.right, bound, term)
        return found if found.shape == term.shape else None


Pattern = tuple[str, int, tuple["Pattern", ...] | None]
"""A head and its arguments; without arguments, a constant by its head, or the name of anything with so many dims."""
_CONSTANT = -1
_WORDS = re.compile(r"\w+|[(),]")


def _parsed(side: str) -> Pattern:
    return _pattern(_WORDS.findall(side)[::-1])


def _pattern(words: list[str]) -> Pattern:
    """What stands at the end of the words, which go from right to left."""
    name = words.pop()
    if not words or words[-1] != "(":
        return name, _CONSTANT if name in CONSTANTS else _rank(name), None
    parts: list[Pattern] = []
    while words.pop() in "(,":
        parts.append(_pattern(words))
    return name, len(parts), tuple(parts)


def _matches(pattern: Pattern, term: Term, bound: Bound) -> bool:
    name, count, parts = pattern
    if parts is not None:
        if term.head != name or len(term.args) != count:
            return False
        return all(map(_matches, parts, term.args, repeat(bound)))
    if count == _CONSTANT:
        return term.head == name
    rank = len(term.shape)
    if rank != count and not (name == "M" and rank > 2):
        return False
    return bound.setdefault(name, term) == term


def _rank(name: str) -> int:
    """Of what a name of a row stands for."""
    return 2 if name.isupper() else 0 if name == "s" else 1


CONSTANTS = ("eye", "ones")
"""What a row names without arguments."""


def _build(side: Pattern, bound: Bound, term: Term) -> Term:
    """The identity has the sizes of the left side, a vector of ones those of the identity that this has."""
    name, _, parts = side
    if parts is None:
        if name in bound:
            return bound[name]
        return ones(_edge(bound, term)) if name == "ones" else Term("eye", (), term.shape)
    args = [_build(part, bound, term) for part in parts]
    if name in _OF_SIZE:
        return _OF_SIZE[name](args[0])
    if name == "perm":
        return Term("perm", tuple(args), term.shape)
    return make(name, *args)


_OF_SIZE: dict[str, Callable[[Term], Term]] = {
    "eye_left": lambda a: eye(a.shape[0]),
    "eye_right": lambda a: eye(a.shape[1]),
    "ones_left": lambda a: ones(a.shape[0]),
    "ones_right": lambda a: ones(a.shape[1]),
}
"""What a right side names by the matrix beside which it fits."""


def _edge(bound: Bound, term: Term) -> Dim:
    """How long a vector of ones is: as the diagonal of the identity on the left side."""
    return next(part.shape[0] for part in term.parts() if part.head == "eye")


@cache
def rules_of(head: str) -> tuple[Rule, ...]:
    """The laws whose left side has this head, read when a program has it."""
    return tuple(Rule(law) for law in LAWS if law.left.startswith(f"{head}("))


@cache
def _by_heads(head: str) -> dict[tuple[tuple[int, str], ...], list[tuple[int, Rule]]]:
    """The same with their places in the table, by what they say of their arguments' heads."""
    found: dict[tuple[tuple[int, str], ...], list[tuple[int, Rule]]] = {}
    for place, rule in enumerate(rules_of(head)):
        found.setdefault(rule.heads, []).append((place, rule))
    return found


@lru_cache(maxsize=4096)
def rules_for(head: str, heads: tuple[str, ...]) -> tuple[Rule, ...]:
    """The laws whose left side has this head, and says nothing else of its arguments' heads."""
    table, said = _by_heads(head), list(enumerate(heads))
    asked = (some for count in range(len(said) + 1) for some in combinations(said, count))
    found = sorted([pair for some in asked for pair in table.get(some, ())], key=itemgetter(0))
    return tuple([rule for _, rule in found])
