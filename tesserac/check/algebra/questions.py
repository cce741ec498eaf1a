"""What is asked of operators: numbers of them, systems, whether two are equal, and flags.

Enters: checked arguments by name. Leaves: tensors and bools. A bool that the laws prove or refute is known while
compiling; any other is computed, up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tesserac.check.algebra import closed, measures
from tesserac.check.algebra.applying import Application
from tesserac.check.algebra.base import Kind, Use
from tesserac.check.algebra.combined import Eye, Scaled, Zero, added, canonical, inverse, scaled
from tesserac.check.algebra.constructors import Given
from tesserac.check.algebra.flags import CHECKS, OF_SQUARES, proven, refuted
from tesserac.check.algebra.operands import lacks_size, read_both, refuse, require_same_shape
from tesserac.check.algebra.operations import applied
from tesserac.check.algebra.pool import Pool
from tesserac.check.algebra.products import is_square
from tesserac.check.algebra.ranks import require_inverse, shortfall, unless_singular
from tesserac.check.algebra.spectra import of_sized
from tesserac.check.model import typed
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.check.values.tuples import make_tuple
from tesserac.types.dims import ONE
from tesserac.types.ty import BoolType, ErrorType

Question = Callable[[Body, Callee, Given], typed.Expr]


def _asked(measure: measures.Measure, *, square: bool = True) -> Question:
    """A rule that gives a number of an operator."""

    def rule(use: Application, tree: Kind, operator: typed.Expr) -> typed.Expr:
        return measure(use, tree)

    return lambda body, callee, given: of_sized(body, callee, given, rule, square=square)


def _ranked(measure: measures.Measure, singular: float) -> measures.Measure:
    """The same; of an operator whose structure leaves no inverse it is `singular`, which rounding would hide."""

    def found(use: Use, tree: Kind) -> typed.Expr:
        if not is_square(use.pool, tree):
            return measure(use, tree)
        if shortfall(use.pool, tree) is not None:
            return measures.number(use, tree, singular)
        return unless_singular(use, tree, measure(use, tree), singular)

    return found


def _log_determinant(use: Use, tree: Kind) -> measures.Parts:
    if shortfall(use.pool, tree) is not None:
        return measures.number(use, tree, 0.0), measures.number(use, tree, -math.inf)
    sign, logarithm = measures.slogdet(use, tree)
    return unless_singular(use, tree, sign, 0.0), unless_singular(use, tree, logarithm, -math.inf)


trace = _asked(measures.trace)
diagonal = _asked(measures.diagonal)
det = _asked(_ranked(measures.determinant, 0.0))
logdet = _asked(lambda use, tree: _log_determinant(use, tree)[1])
slogdet = _asked(lambda use, tree: make_tuple(_log_determinant(use, tree), use.span))
norm = _asked(measures.norm, square=False)
cond = _asked(_ranked(measures.condition, math.inf), square=False)
spectral_radius = _asked(measures.spectral_radius)


def to_dense(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """The matrix of an operator."""
    return of_sized(body, callee, given, lambda use, tree, operator: tree.matrix_of(use))


def inv(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """The inverse, which is applied by solving."""

    def rule(use: Application, tree: Kind, operator: typed.Expr) -> typed.Expr:
        if not require_inverse(use.pool, tree, operator, callee):
            return body.error(callee.span)
        return use.operator(inverse(use.pool, tree))

    return of_sized(body, callee, given, rule, square=True)


def solve(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`solve(A, b)` is `inverse(A) @ b`."""
    turned = inv(body, callee, {"operator": given["operator"]})
    return turned if isinstance(turned.type, ErrorType) else applied(body, callee, turned, given["x"])


# -------------------------------------------------------------------------------------------------------- equality


def equal(body: Body, left: typed.Expr, right: typed.Expr, callee: Callee) -> typed.Expr:
    """Proven where the laws make both the same, refuted where they differ by a multiple of the identity or have
    other known numbers; otherwise the matrices are compared when the program runs."""
    if isinstance(left.type, ErrorType) or isinstance(right.type, ErrorType):
        return body.error(callee.span)
    pool = Pool(body)
    both = read_both(pool, left, right, callee)
    if both is None:
        return body.error(callee.span)
    shapes = (both[0].shape(pool.types), both[1].shape(pool.types))
    if not require_same_shape(body, callee, shapes, left, right, "compared"):
        return body.error(callee.span)
    known = _known_equal(pool, *both)
    if known is not None:
        return typed.Static(BoolType(known), callee.span)
    if any(map(lacks_size, both)):
        problem = "whether these operators are equal is neither proven nor refuted"
        return refuse(body, callee, callee.span, problem, _SIZE)
    use = Application(pool, callee)
    return use.call("measures._same_matrices", *(use.dense(tree) for tree in both))


_SIZE = "it has no size by which its matrix could be looked at: give one, as in `op.fft(N)`"


def _known_equal(pool: Pool, left: Kind, right: Kind) -> bool | None:
    if canonical(left) == canonical(right):
        return True
    rest = added(pool, [left, scaled(pool, -1.0, (), right)])
    if isinstance(rest, Zero):
        return True
    is_refuted = (_is_number(rest) and _has_entries(pool, rest)) or closed.differ(pool, left, right)
    return False if is_refuted else None


def _is_number(tree: Kind) -> bool:
    """Whether it is a multiple of the identity that is not 0."""
    if isinstance(tree, Scaled):
        return isinstance(tree.of, Eye) and not tree.factors and tree.coefficient != 0.0
    return isinstance(tree, Eye)


def _has_entries(pool: Pool, tree: Kind) -> bool:
    """Whether its vectors certainly have some: on those without, all operators are equal."""
    size = tree.shape(pool.types)[0]
    return size is None or pool.body.facts.surely_at_least(size, ONE)


# ----------------------------------------------------------------------------------------------------------- flags


def flag(use: Application, tree: Kind, name: str) -> typed.Expr:
    """Whether an operator is so: proven, refuted, or computed."""
    if proven(use.pool, tree, name):
        return typed.Static(BoolType(True), use.span)
    if refuted(use.pool, tree, name):
        return typed.Static(BoolType(False), use.span)
    unknown = _SIZE if lacks_size(tree) else _may_be_square(use.pool, tree) if name in OF_SQUARES else ""
    if unknown:
        problem = f"whether this operator is `{name}` is neither proven nor refuted"
        return refuse(use.pool.body, use.callee, use.span, problem, unknown)
    return use.call(CHECKS[name], use.dense(tree))


def _may_be_square(pool: Pool, tree: Kind) -> str:
    """What to write where only a call tells whether an operator is square; nothing where it is known to be."""
    if is_square(pool, tree):
        return ""
    domain, codomain = tree.shape(pool.types)
    return f"it takes {domain} and gives {codomain}, which may be equal: say so by `where {domain} == {codomain}`"


def is_unitary(body: Body, callee: Callee, given: Given) -> typed.Expr:
    return of_sized(body, callee, given, lambda use, tree, operator: flag(use, tree, "unitary"))
