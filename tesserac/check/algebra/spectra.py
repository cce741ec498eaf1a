"""Spectral forms, functions and measures of operators.

Enters: checked arguments by name. Leaves: an operator or a number. What the kind of an operator tells (a diagonal, a
spectral form, a flag) is used; anything else is computed from its dense form.
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.check.algebra.applying import Application
from tesserac.check.algebra.base import Kind
from tesserac.check.algebra.combined import Eye, Zero
from tesserac.check.algebra.constructors import Given
from tesserac.check.algebra.kinds import Dense, Diag, Spectral
from tesserac.check.algebra.operands import read, refuse, require_size, require_square
from tesserac.check.algebra.operations import is_normal, is_self_adjoint, is_skew
from tesserac.check.algebra.pool import Pool
from tesserac.check.model import typed
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.check.values.tuples import item_of
from tesserac.types.ty import BoolType, ErrorType, FloatType, IntType, TensorType

Rule = Callable[[Application, Kind, typed.Expr], typed.Expr]


def spectral(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """Eigenvalues and eigenvectors of a real self-adjoint operator."""
    return _square(body, callee, given, _spectral)


def _spectral(use: Application, tree: Kind, operator: typed.Expr) -> typed.Expr:
    if isinstance(tree, Spectral):
        return operator
    if not is_self_adjoint(use.pool, tree):
        problem = "`spectral` takes an operator that is known to be self-adjoint"
        remark = "say so where it is made, `op.dense(M, self_adjoint=True)`, or take `sym(A)`"
        return refuse(use.pool.body, use.callee, operator.span, problem, remark)
    matrix = use.dense(tree)
    if isinstance(matrix.type, TensorType) and matrix.type.dtype.is_complex:
        return refuse(use.pool.body, use.callee, operator.span, "`spectral` takes an operator of real numbers")
    return _form(use, use.call("_spectral_form", matrix))


def _form(use: Application, pair: typed.Expr) -> typed.Expr:
    """A spectral form of eigenvalues and eigenvectors."""
    if isinstance(pair.type, ErrorType):
        return pair
    values, vectors = (use.pool.add(item_of(pair, place, use.span)) for place in range(2))
    return use.operator(Spectral(values, vectors))


def truncate(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """The k eigenvalues of largest magnitude."""
    count = given["k"]
    if not isinstance(count.type, IntType):
        return refuse(body, callee, count.span, "`truncate` keeps a number of eigenvalues that is an int")

    def rule(use: Application, form: Spectral) -> typed.Expr:
        return _form(use, use.call("_truncated", use.value(form.values), use.value(form.vectors), count))

    return _of_form(body, callee, given, rule)


def reconstruct(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """The dense operator that a spectral form stands for."""

    def rule(use: Application, form: Spectral) -> typed.Expr:
        matrix = use.call("_reconstructed", use.value(form.values), use.value(form.vectors))
        return _made(use, matrix, lambda leaf: Dense(leaf, self_adjoint=True))

    return _of_form(body, callee, given, rule)


def pseudoinverse(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """Eigenvalues become their reciprocals; those that do not count, 0."""

    def rule(use: Application, form: Spectral) -> typed.Expr:
        values = use.call("_pseudoinverse", use.value(form.values), use.value(form.vectors))
        return _made(use, values, lambda leaf: Spectral(leaf, form.vectors))

    return _of_form(body, callee, given, rule)


def _of_form(
    body: Body, callee: Callee, given: Given, rule: Callable[[Application, Spectral], typed.Expr]
) -> typed.Expr:
    pool, value = Pool(body), given["form"]
    tree = read(pool, value, callee)
    if tree is None:
        return body.error(callee.span)
    if not isinstance(tree, Spectral):
        problem = f"`{callee.name}` takes a spectral form, which `spectral(A)` gives"
        return refuse(body, callee, value.span, problem)
    return rule(Application(pool, callee), tree)


def expm(body: Body, callee: Callee, given: Given) -> typed.Expr:
    return _square(body, callee, given, _expm)


def _expm(use: Application, tree: Kind, operator: typed.Expr) -> typed.Expr:
    pool = use.pool
    match tree:
        case Zero(domain=size):
            return use.operator(Eye(size))
        case Diag(entries=entries):
            return _made(use, use.call("_exponential", use.value(entries)), Diag)
        case Spectral(values=values, vectors=vectors) if _is_whole(use, tree):
            return _made(use, use.call("_exponential", use.value(values)), lambda leaf: Spectral(leaf, vectors))
    unitary, itself = is_skew(pool, tree), is_self_adjoint(pool, tree)
    return _made(use, use.call("_matrix_expm", use.dense(tree)), lambda leaf: Dense(leaf, unitary, itself))


def _is_whole(use: Application, tree: Spectral) -> bool:
    """Whether a form has all eigenvalues: of one that was truncated the others are 0, and exp(0) is not."""
    vectors = use.value(tree.vectors).type
    return isinstance(vectors, TensorType) and use.pool.body.facts.same(*vectors.dims)


def _made(use: Application, value: typed.Expr, make: Callable[..., Kind]) -> typed.Expr:
    """An operator of a computed tensor."""
    return value if isinstance(value.type, ErrorType) else use.operator(make(use.pool.add(value)))


# ------------------------------------------------------------------------------------------------------ measures


def norm(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """The largest that a vector of length 1 becomes."""
    pool, operator = Pool(body), given["operator"]
    tree = read(pool, operator, callee)
    if tree is None or not require_size(body, tree, operator, callee):
        return body.error(callee.span)
    return _norm(Application(pool, callee), tree, operator)


def _norm(use: Application, tree: Kind, operator: typed.Expr) -> typed.Expr:
    if tree.is_unitary(use.pool):
        return typed.Static(FloatType(1.0), use.span)
    match tree:
        case Diag(entries=values) | Spectral(values=values):
            return use.call("_largest", use.value(values))
    return use.call("_matrix_norm", use.dense(tree))


def spectral_radius(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """The largest magnitude of an eigenvalue."""
    return _square(body, callee, given, _spectral_radius)


def _spectral_radius(use: Application, tree: Kind, operator: typed.Expr) -> typed.Expr:
    if is_normal(use.pool, tree):
        return _norm(use, tree, operator)
    return use.call("_matrix_spectral_radius", use.dense(tree))


def is_unitary(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """Known while compiling where the operator's kind tells, else computed, up to rounding."""
    pool, operator = Pool(body), given["operator"]
    tree = read(pool, operator, callee)
    if tree is None or not require_size(body, tree, operator, callee):
        return body.error(callee.span)
    domain, codomain = tree.shape(pool.types)
    if tree.is_unitary(pool) or domain != codomain:
        return typed.Static(BoolType(domain == codomain), callee.span)
    use = Application(pool, callee)
    return use.call("_matrix_is_unitary", use.dense(tree))


def _square(body: Body, callee: Callee, given: Given, rule: Rule) -> typed.Expr:
    pool, operator = Pool(body), given["operator"]
    tree = read(pool, operator, callee)
    fits = tree is not None and require_size(body, tree, operator, callee)
    if tree is None or not fits or not require_square(pool, tree, operator, callee):
        return body.error(callee.span)
    return rule(Application(pool, callee), tree, operator)
