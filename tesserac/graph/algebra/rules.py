"""Laws at work: whether an expression is the left side of one, and what the right side is then.

Enters: the rows of `laws.py`, and terms. Leaves: for a head the rules that may fit it, each of which gives the other
side of an expression, or None.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache

from tesserac.base.dataclass import dataclass
from tesserac.base.once import once
from tesserac.graph.algebra.chains import pays_apart
from tesserac.graph.algebra.known import flags_of, is_real, undoes
from tesserac.graph.algebra.laws import LAWS, Law
from tesserac.graph.algebra.terms import Term, eye, make, ones
from tesserac.graph.dialect import PREFIX, operator_of
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
    return not any(_has_diagonal_of(d, a) for a, d in ((one, two), (two, one)) if d.head == "diag")


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
    "self_adjoint": _self_adjoint,
    "real self_adjoint": lambda bound, term: _self_adjoint(bound, term) and is_real(term),
    "undone": _undone,
}


@dataclass(frozen=True)
class Rule:
    """A law whose sides are parsed."""

    law: Law
    left: ast.expr
    right: ast.expr

    @once
    def pattern(self) -> Pattern:
        return _pattern(self.left)

    @once
    def heads(self) -> tuple[tuple[int, str], ...]:
        """Of the arguments of the left side, where it says them: most terms differ there already."""
        assert isinstance(self.left, ast.Call)
        found = enumerate(map(_head, self.left.args))
        return tuple((place, head) for place, head in found if head is not None)

    def fits(self, heads: Sequence[str]) -> bool:
        return all(heads[place] == head for place, head in self.heads)

    def may_pay(self, term: Term) -> bool:
        """Whether the right side may be cheaper, as far as that is seen without simplifying it."""
        if self.law.sum_at is None:
            return True
        sum_, other = term.args[self.law.sum_at], term.args[1 - self.law.sum_at]
        return bool(flags_of(other)) or pays_apart(tuple(_summands(sum_)), other.shape[self.law.sum_at - 1])

    def apply(self, term: Term) -> Term | None:
        """The right side, where the term is a left side of the law."""
        bound: Bound = {}
        if not _matches(self.pattern, term, bound) or not CONDITIONS[self.law.when](bound, term):
            return None
        found = _build(self.right, bound, term)
        return found if found.shape == term.shape else None


def _head(pattern: ast.expr) -> str | None:
    if isinstance(pattern, ast.Name):
        return pattern.id if pattern.id in CONSTANTS else None
    assert isinstance(pattern, ast.Call) and isinstance(pattern.func, ast.Name)
    return pattern.func.id


Pattern = tuple[str, int, tuple["Pattern", ...] | None]
"""A head and its arguments; without arguments, a constant by its head, or the name of anything with so many dims."""
_CONSTANT = -1


def _pattern(side: ast.expr) -> Pattern:
    if isinstance(side, ast.Name):
        return side.id, _CONSTANT if side.id in CONSTANTS else _rank(side.id), None
    assert isinstance(side, ast.Call) and isinstance(side.func, ast.Name)
    return side.func.id, len(side.args), tuple(map(_pattern, side.args))


def _matches(pattern: Pattern, term: Term, bound: Bound) -> bool:
    name, count, parts = pattern
    if parts is not None:
        if term.head != name or len(term.args) != count:
            return False
        return all(_matches(part, arg, bound) for part, arg in zip(parts, term.args, strict=True))
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


def _build(side: ast.expr, bound: Bound, term: Term) -> Term:
    """The identity has the sizes of the left side, a vector of ones those of the identity that this has."""
    if isinstance(side, ast.Name) and side.id in bound:
        return bound[side.id]
    if isinstance(side, ast.Name):
        return ones(_edge(bound, term)) if side.id == "ones" else Term("eye", (), term.shape)
    assert isinstance(side, ast.Call) and isinstance(side.func, ast.Name)
    args = [_build(arg, bound, term) for arg in side.args]
    if side.func.id in _OF_SIZE:
        return _OF_SIZE[side.func.id](args[0])
    if side.func.id == "perm":
        return Term("perm", tuple(args), term.shape)
    return make(side.func.id, *args)


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
    """The laws whose left side has this head, parsed when a program has it."""
    return tuple(Rule(law, _parsed(law.left), _parsed(law.right)) for law in LAWS if law.left.startswith(f"{head}("))


def _parsed(side: str) -> ast.expr:
    return ast.parse(side, mode="eval").body


@lru_cache(maxsize=4096)
def rules_for(head: str, heads: tuple[str, ...]) -> tuple[Rule, ...]:
    """The laws whose left side has this head, and says nothing else of its arguments' heads."""
    return tuple(rule for rule in rules_of(head) if rule.fits(heads))
