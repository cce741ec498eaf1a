"""Spectral forms and functions of operators.

Enters: checked arguments by name. Leaves: an operator. What the kind of an operator tells (a diagonal, a spectral form,
a flag) is used; anything else is computed from its dense form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tesserac.check.algebra.applying import Application
from tesserac.check.algebra.base import Kind
from tesserac.check.algebra.combined import Eye, Zero, added, scaled
from tesserac.check.algebra.constructors import Given
from tesserac.check.algebra.flags import is_diagonal, is_psd, is_real, is_self_adjoint, is_skew
from tesserac.check.algebra.kinds import Dense, Diag, Projector, Singular, Spectral
from tesserac.check.algebra.measures import diagonal, kronecker_sum_of
from tesserac.check.algebra.operands import as_kind, read, refuse, refuse_operand, require_size, require_square
from tesserac.check.algebra.pool import Pool
from tesserac.check.algebra.products import DirectSum, Kronecker, direct_sum, is_square, kronecker
from tesserac.check.model import typed
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.check.values.tuples import item_of
from tesserac.types.algebra import Leaf, outline
from tesserac.types.ty import ErrorType, IntType, StrType, TensorType

Rule = Callable[[Application, Kind, typed.Expr], typed.Expr]


def spectral(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """Eigenvalues and eigenvectors of what is known to be self-adjoint, singular values and vectors of all else."""
    return of_sized(body, callee, given, _spectral)


def _spectral(use: Application, tree: Kind, operator: typed.Expr) -> typed.Expr:
    if isinstance(tree, Spectral | Singular):
        return operator
    pool, matrix, unitary = use.pool, use.dense(tree), tree.is_unitary(use.pool)
    if is_self_adjoint(pool, tree):
        values, vectors = _parts(use, use.call("_spectral_form", matrix), 2)
        form: Kind = Spectral(values, vectors, is_psd(pool, tree), unitary)
    else:
        left, values, right = _parts(use, use.call("_singular_form", matrix), 3)
        form = Singular(left, values, right, unitary)
    return pool.body.error(use.span) if values is None else use.operator(form)


def _parts(use: Application, made: typed.Expr, count: int) -> list[Any]:
    """The leaves that a function of the library made; None in their place after a diagnostic."""
    if isinstance(made.type, ErrorType):
        return [None] * count
    return [use.pool.add(item_of(made, place, use.span)) for place in range(count)]


def truncate(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """The k values of largest magnitude."""
    count = given["k"]
    if not isinstance(count.type, IntType):
        return refuse_operand(body, callee, count.span, "`truncate` keeps a number of eigenvalues that is an int")

    def rule(use: Application, form: Spectral | Singular) -> typed.Expr:
        def kept(leaf: Leaf, function: str) -> Leaf:
            return use.pool.add(use.call(function, use.value(leaf), count))

        values = kept(form.values, "_kept")
        if isinstance(form, Spectral):
            return use.operator(Spectral(values, kept(form.vectors, "_kept_columns"), form.psd))
        left, right = (kept(leaf, "_kept_columns") for leaf in (form.left, form.right))
        return use.operator(Singular(left, values, right))

    return _of_form(body, callee, given, rule)


def reconstruct(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """The dense operator that a spectral form stands for."""

    def rule(use: Application, form: Spectral | Singular) -> typed.Expr:
        left, values, right = (use.value(leaf) for leaf in factors_of(form))
        matrix = use.call("_reconstructed", values, left, right)
        itself = isinstance(form, Spectral)
        psd = isinstance(form, Spectral) and form.psd
        return _made(use, matrix, lambda leaf: Dense(leaf, form.unitary, itself, psd))

    return _of_form(body, callee, given, rule)


def factors_of(form: Spectral | Singular) -> tuple[Leaf, Leaf, Leaf]:
    """U, S and V of a spectral form: it is U diag(S) V.H."""
    if isinstance(form, Spectral):
        return form.vectors, form.values, form.vectors
    return form.left, form.values, form.right


def pseudoinverse(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """Eigenvalues become their reciprocals; those that do not count, 0. Of any other operator, that of its form."""
    pool, value = Pool(body), given["form"]
    tree = read(pool, value, callee)
    if tree is not None and not isinstance(tree, Spectral | Singular):
        form = spectral(body, callee, {"operator": value})
        return form if isinstance(form.type, ErrorType) else pseudoinverse(body, callee, {"form": form})

    def rule(use: Application, form: Spectral | Singular) -> typed.Expr:
        sizes = [size for size in form.shape(use.pool.types) if size is not None]
        values = use.call("_reciprocals", use.value(form.values), use.size(sizes[0]))
        if isinstance(form, Spectral):
            return _made(use, values, lambda leaf: Spectral(leaf, form.vectors, form.psd, form.unitary))
        return _made(use, values, lambda leaf: Singular(form.right, leaf, form.left, form.unitary))

    return _of_form(body, callee, given, rule)


def _of_form(
    body: Body, callee: Callee, given: Given, rule: Callable[[Application, Spectral | Singular], typed.Expr]
) -> typed.Expr:
    pool, value = Pool(body), given["form"]
    tree = read(pool, value, callee)
    if tree is None:
        return body.error(callee.span)
    if not isinstance(tree, Spectral | Singular):
        problem = f"`{callee.name}` takes a spectral form, which `spectral(A)` gives"
        return refuse(body, callee, value.span, problem)
    return rule(Application(pool, callee, of=outline(tree)), tree)


def expm(body: Body, callee: Callee, given: Given) -> typed.Expr:
    return _square(body, callee, given, _expm)


def _expm(use: Application, tree: Kind, operator: typed.Expr) -> typed.Expr:
    return use.operator(exponential(use, tree))


def exponential(use: Application, tree: Kind) -> Kind:
    """exp of sums of spaces is one of their parts; of A ⊗ I + I ⊗ B it is exp(A) ⊗ exp(B)."""
    pool = use.pool
    match tree:
        case Zero(domain=size, dtype=dtype):
            return Eye(size, dtype)
        case Projector():
            return of_projector(use, tree, "exp")
        case DirectSum(first=first, second=second) if is_square(pool, first):
            return direct_sum(pool, exponential(use, first), exponential(use, second))
        case _ if is_diagonal(pool, tree):
            return Diag(pool.add(use.call("_exponential", diagonal(use, tree))))
        case Spectral(values=values, vectors=vectors) if _is_whole(use, tree):
            return Spectral(pool.add(use.call("_exponential", use.value(values))), vectors, psd=True)
    halves = kronecker_sum_of(pool, tree)
    if halves is not None:
        return kronecker(pool, exponential(use, halves[0]), exponential(use, halves[1]))
    unitary, itself = is_skew(pool, tree), is_self_adjoint(pool, tree)
    return Dense(pool.add(use.call("expm", use.dense(tree))), unitary, itself, itself)


FUNCTIONS = (
    "sqrt", "rsqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "sinh", "cosh", "tanh", "atan", "sign", "abs",
)  # fmt: skip
"""Functions of numbers that an operator has too, by its eigenvalues."""
NOT_NEGATIVE = ("sqrt", "rsqrt", "cosh", "abs")
"""Of these, what has no negative value."""
AT_ENDS: dict[str, tuple[float, float]] = {
    "sqrt": (0.0, 1.0), "exp": (1.0, math.e), "expm1": (0.0, math.expm1(1.0)), "log1p": (0.0, math.log1p(1.0)),
    "sin": (0.0, math.sin(1.0)), "cos": (1.0, math.cos(1.0)), "sinh": (0.0, math.sinh(1.0)),
    "cosh": (1.0, math.cosh(1.0)), "tanh": (0.0, math.tanh(1.0)), "atan": (0.0, math.pi / 4.0), "sign": (0.0, 1.0),
    "abs": (0.0, 1.0),
}  # fmt: skip
"""What functions are at 0 and at 1, the eigenvalues of a projector: of those that have both."""


def function_of(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`sqrt(A)`, `log(A)`, ... of an operator that is known to be self-adjoint."""
    if callee.name.removeprefix(".") == "exp":
        return expm(body, callee, given)
    return _square(body, callee, given, _function)


def _function(use: Application, tree: Kind, operator: typed.Expr) -> typed.Expr:
    pool, name = use.pool, use.callee.name.removeprefix(".")
    function = typed.Static(StrType(name), use.span)
    if isinstance(tree, Eye) and name == "sqrt":
        return operator
    if isinstance(tree, Projector) and name in AT_ENDS:
        return use.operator(of_projector(use, tree, name))
    if is_diagonal(pool, tree) and is_real(pool, tree):
        return _made(use, use.call("measures._function_of_values", diagonal(use, tree), function), Diag)
    if name == "sqrt" and isinstance(tree, Kronecker) and is_psd(pool, tree):
        parts = [_function(use, part, use.operator(part)) for part in (tree.left, tree.right)]
        if not any(isinstance(part.type, ErrorType) for part in parts):
            return use.operator(kronecker(pool, *(as_kind(pool.take(part)) for part in parts)))
    if isinstance(tree, Spectral) and _is_whole(use, tree):
        made = use.call("measures._function_of_values", use.value(tree.values), function)
        return _made(use, made, lambda leaf: Spectral(leaf, tree.vectors, psd=name in NOT_NEGATIVE))
    if not is_self_adjoint(pool, tree):
        problem = f"`{name}` takes an operator that is known to be self-adjoint"
        remark = "say so where it is made, `op.dense(M, self_adjoint=True)`, or take `sym(A)`"
        return refuse(pool.body, use.callee, operator.span, problem, remark)
    matrix = use.call("measures._matrix_function", use.dense(tree), function)
    return _made(use, matrix, lambda leaf: Dense(leaf, self_adjoint=True, psd=name in NOT_NEGATIVE))


def of_projector(use: Application, tree: Projector, name: str) -> Kind:
    """f(P) = f(0) I + (f(1) - f(0)) P: an eigenvalue that is 0 but for rounding would have a root far from 0."""
    at_zero, at_one = AT_ENDS[name]
    projected = scaled(use.pool, at_one - at_zero, (), tree)
    size, _ = tree.shape(use.pool.types)
    if not at_zero or size is None:
        return projected
    return added(use.pool, [scaled(use.pool, at_zero, (), Eye(use.pool.size(size, use.span))), projected])


def _is_whole(use: Application, tree: Spectral) -> bool:
    """Whether a form has all eigenvalues: of one that was truncated the others are 0, and exp(0) is not."""
    vectors = use.value(tree.vectors).type
    return isinstance(vectors, TensorType) and use.pool.body.facts.same(*vectors.dims)


def _made(use: Application, value: typed.Expr, make: Callable[..., Kind]) -> typed.Expr:
    """An operator of a computed tensor."""
    return value if isinstance(value.type, ErrorType) else use.operator(make(use.pool.add(value)))


def _square(body: Body, callee: Callee, given: Given, rule: Rule) -> typed.Expr:
    return of_sized(body, callee, given, rule, square=True)


def of_sized(body: Body, callee: Callee, given: Given, rule: Rule, *, square: bool = False) -> typed.Expr:
    """A rule of an operator that has a size, and is square where that is asked for."""
    pool, operator = Pool(body), given["operator"]
    tree = read(pool, operator, callee)
    fits = tree is not None and require_size(body, tree, operator, callee)
    if tree is None or not fits or (square and not require_square(pool, tree, operator, callee)):
        return body.error(callee.span)
    return rule(Application(pool, callee, of=outline(tree)), tree, operator)
