"""Operations on operators: composition, adjoint, sums, powers, application.

Enters: checked operands. Leaves: an operator in normal form, a tensor where one is applied, or an error expression
after a diagnostic.
"""

from __future__ import annotations

from tesserac.check.algebra.applying import Application
from tesserac.check.algebra.base import Kind
from tesserac.check.algebra.combined import Conjugate, Eye, Factor, added, composed, inverse, scaled
from tesserac.check.algebra.constructors import Given
from tesserac.check.algebra.elements import element, own_dtypes, remembered
from tesserac.check.algebra.flags import is_real
from tesserac.check.algebra.operands import (
    note_operands,
    read,
    read_both,
    refuse_operand,
    require_fit,
    require_same_shape,
    require_size,
    require_square,
)
from tesserac.check.algebra.pool import Pool
from tesserac.check.algebra.ranks import require_inverse
from tesserac.check.model import typed
from tesserac.check.model.message_text import dims_text, type_text
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0210, E0215
from tesserac.diag.codes.operators import E0802, E0806
from tesserac.types.algebra import outline
from tesserac.types.dims import Dim
from tesserac.types.dtype import component
from tesserac.types.ty import BoolType, ErrorType, FloatType, IntType, OperatorType, TensorType

_MOST = 64
"""The highest power: every factor is applied."""


def apply(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`A @ x`, `apply(A, x)`; of two operators the composition."""
    operator, x = given["operator"], given["x"]
    if isinstance(x.type, OperatorType):
        return compose(body, callee, {"left": operator, "right": x})
    return applied(body, callee, operator, x, given.get("axis"))


def applied(
    body: Body, callee: Callee, operator: typed.Expr, x: typed.Expr, axis: typed.Expr | None = None
) -> typed.Expr:
    """An operator on a vector, on the columns of a matrix, or along one of the last two axes of a batch."""
    pool = Pool(body)
    tree = read(pool, operator, callee)
    if tree is None:
        return body.error(callee.span)
    if not isinstance(x.type, TensorType) or x.type.rank == 0:
        found = dims_text(x.type.dims) if isinstance(x.type, TensorType) else type_text(x.type)
        problem = f"an operator applies to vectors, matrices and batches; this is {found}"
        body.sink.error(E0802, at=x.span, problem=problem)
        return body.error(callee.span)
    domain = tree.shape(pool.types)[0]
    place = _axis(body, callee, domain, x, axis)
    what = "the operator takes {wanted} entries, and this has {found}"
    if place is None or not require_fit(body, callee, (domain, x.type.dims[place]), operator, x, what):
        return body.error(callee.span)
    if not _same_numbers(pool, tree, x, operator, callee):
        return body.error(callee.span)
    pool.add(x)  # beside it, so that a matrix of an operator without numbers of its own has those of x
    return _along(Application(pool, callee, of=outline(tree)), tree, x, place)


def _along(use: Application, tree: Kind, x: typed.Expr, place: int) -> typed.Expr:
    assert isinstance(x.type, TensorType)
    rank = x.type.rank
    if place == -rank:
        return use.applied(tree, x)
    is_last = typed.Static(BoolType(place == -1), use.span)
    columns = use.applied(tree, use.call("structured._as_columns", x, is_last))
    return use.call("structured._from_columns", columns, x, is_last)


def _axis(body: Body, callee: Callee, domain: Dim | None, x: typed.Expr, axis: typed.Expr | None) -> int | None:
    """Which axis of x, from the right, the operator takes: as said, the rows of a matrix, and of a batch the one of the
    last two that has its size; None after a diagnostic."""
    assert isinstance(x.type, TensorType)
    dims, rank = x.type.dims, x.type.rank
    if axis is not None:
        said = axis.type.value.constant if isinstance(axis.type, IntType) else None
        if said in (-1, -2, rank - 1, rank - 2) and -rank <= said:
            return said if said < 0 else said - rank
        body.sink.error(E0802, at=axis.span, problem="an operator applies along the last axis, -1, or along -2")
        return None
    if rank <= 2 or domain is None:
        return -min(rank, 2)
    fitting = [place for place in (-2, -1) if body.facts.same(dims[place], domain)]
    if len(fitting) == 2:
        problem = "the last two axes both have the size that the operator takes"
        draft = body.sink.error(E0806, at=callee.at, problem=problem)
        draft.remark("`apply(A, x, axis=-1)` takes the last one, as `x @ A.T` does; `axis=-2` takes columns")
        return None
    return fitting[0] if fitting else -2


def apply_right(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`x @ A`: the transpose on every row of x."""
    turned, x = transposed(body, callee, {"operator": given["operator"]}), given["x"]
    if isinstance(turned.type, ErrorType):
        return turned
    if isinstance(turned.type, OperatorType) and isinstance(x.type, TensorType) and x.type.rank:
        what = "the operator on the right gives {wanted} entries, and this has {found}"
        sizes = (turned.type.shape[0], x.type.dims[-1])
        if not require_fit(body, callee, sizes, given["operator"], x, what):
            return body.error(callee.span)
    last = typed.Static(IntType(Dim.const(-1)), callee.span)
    return applied(body, callee, turned, x, last if isinstance(x.type, TensorType) and x.type.rank > 1 else None)


def transposed(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`A.T`: the adjoint of the conjugate."""
    pool, operator = Pool(body), given["operator"]
    tree = read(pool, operator, callee)
    if tree is None or not require_size(body, tree, operator, callee):
        return body.error(callee.span)
    turned = tree.adjoint(pool)
    if not is_real(pool, tree):
        turned = turned.of if isinstance(turned, Conjugate) else Conjugate(turned)
    return pool.value(turned, callee.span)


def _same_numbers(pool: Pool, tree: Kind, x: typed.Expr, operator: typed.Expr, callee: Callee) -> bool:
    """An operator of f32 takes f32 and c64, one of f64 takes f64 and c128; one without tensors takes all."""
    assert isinstance(x.type, TensorType)
    own, found = element(pool, tree), component(x.type.dtype)
    if found == own or (not own_dtypes(pool, tree) and (found.is_float or found.is_complex)):
        return True
    text = pool.body.rules.text(x.span)
    problem = f"the operator is of {own}, what it is applied to of {found}"
    draft = pool.body.sink.error(E0802, at=callee.at, problem=problem)
    note_operands(pool.body, draft, operator)
    how = f"widen it to {own}" if found.bits < own.bits else f"round it once, to {own}"
    draft.replace(how, x.span, f"cast({text}, {own})")
    return False


def compose(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`A ∘ B`, `compose(A, B)`: B is applied first."""
    pool, left, right = Pool(body), given["left"], given["right"]
    both = read_both(pool, left, right, callee)
    if both is None:
        return body.error(callee.span)
    sizes = (both[0].shape(pool.types)[0], both[1].shape(pool.types)[1])
    what = "the first operator takes {wanted} entries, the second gives {found}"
    if not require_fit(body, callee, sizes, left, right, what):
        return body.error(callee.span)
    return pool.value(composed(pool, both), callee.span)


def adjoint(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`A.H`, `adjoint(A)`."""
    pool, operator = Pool(body), given["operator"]
    tree = read(pool, operator, callee)
    if tree is None or not require_size(body, tree, operator, callee):
        return body.error(callee.span)
    return pool.value(tree.adjoint(pool), callee.span)


def conjugated(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`conj(A)`: the transpose of the adjoint."""
    turned = adjoint(body, callee, given)
    return turned if isinstance(turned.type, ErrorType) else transposed(body, callee, {"operator": turned})


def plus(body: Body, callee: Callee, given: Given) -> typed.Expr:
    return _added(body, callee, given, 1.0)


def minus(body: Body, callee: Callee, given: Given) -> typed.Expr:
    return _added(body, callee, given, -1.0)


def _added(body: Body, callee: Callee, given: Given, sign: float) -> typed.Expr:
    pool, left, right = Pool(body), given["left"], given["right"]
    both = read_both(pool, left, right, callee)
    if both is None:
        return body.error(callee.span)
    shapes = (both[0].shape(pool.types), both[1].shape(pool.types))
    if not require_same_shape(body, callee, shapes, left, right, "added"):
        return body.error(callee.span)
    return pool.value(added(pool, [both[0], scaled(pool, sign, (), both[1])]), callee.span)


def scale(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`c * A`, `scale(A, c)`."""
    return _scaled(body, callee, given, False)


def divide(body: Body, callee: Callee, given: Given) -> typed.Expr:
    return _scaled(body, callee, given, True)


def _scaled(body: Body, callee: Callee, given: Given, reciprocal: bool) -> typed.Expr:
    pool, number = Pool(body), given["factor"]
    tree = read(pool, given["operator"], callee)
    parts = None if tree is None else number_parts(pool, number, reciprocal)
    if tree is None or parts is None:
        if tree is not None:
            expected = "a number other than 0" if reciprocal else "a number"
            draft = body.sink.error(E0210, at=number.span, expected=expected, found=type_text(number.type))
            if isinstance(number.type, TensorType) and not reciprocal:
                draft.remark("`A @ x` applies an operator")
            if isinstance(number.type, OperatorType) and not reciprocal:
                draft.remark("`A @ B` is the product of operators, B first")
        return body.error(callee.span)
    return pool.value(scaled(pool, *parts, tree), callee.span)


def number_parts(pool: Pool, number: typed.Expr, reciprocal: bool) -> tuple[float, tuple[Factor, ...]] | None:
    """A number as what is known of it and what is not; None where it is not one."""
    match number.type:
        case IntType(value=value) if value.constant is not None:
            known: float | None = float(value.constant)
        case FloatType(value=known):
            pass
        case IntType() | TensorType(dims=()):
            known = None
        case _:
            return None
    if isinstance(number, typed.Coerce) and isinstance(number.value.type, IntType):
        number = number.value
    if known is None:
        return 1.0, (Factor(pool.add(number), reciprocal=reciprocal),)
    if reciprocal and known == 0.0:
        return None
    return (1.0 / known if reciprocal else known), ()


def power(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`power(A, n)`: A composed n times; of a negative n the inverse."""
    pool, operator, exponent = Pool(body), given["operator"], given["n"]
    tree = read(pool, operator, callee)
    if tree is None or not require_square(pool, tree, operator, callee):
        return body.error(callee.span)
    count = exponent.type.value.constant if isinstance(exponent.type, IntType) else None
    if not isinstance(exponent.type, IntType) or (count is not None and abs(count) > _MOST):
        problem = f"the power of an operator is an int from -{_MOST} to {_MOST}"
        return refuse_operand(body, callee, exponent.span, problem)
    if count is None:
        if not body.wants_value(exponent.type.value):
            body.sink.error(E0215, at=exponent.span, what="the power of an operator")
        return body.error(callee.span)
    if count == 0:
        domain = tree.shape(pool.types)[0]
        size = None if domain is None else pool.size(domain, callee.span)
        return pool.value(Eye(size, remembered(pool, tree)), callee.span)
    if count < 0 and not require_inverse(pool, tree, operator, callee):
        return body.error(callee.span)
    base = tree if count > 0 else inverse(pool, tree)
    return pool.value(composed(pool, [base] * abs(count)), callee.span)


def commutator(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`A ∘ B - B ∘ A`."""
    pool, left, right = Pool(body), given["left"], given["right"]
    both = read_both(pool, left, right, callee)
    if both is None:
        return body.error(callee.span)
    what = "operators that commute take and give the same; here {wanted} meets {found}"
    sizes = (both[0].shape(pool.types)[0], both[1].shape(pool.types)[0])
    pairs = zip(both, (left, right), strict=True)
    if not all(require_square(pool, tree, value, callee) for tree, value in pairs):
        return body.error(callee.span)
    if not require_fit(body, callee, sizes, left, right, what):
        return body.error(callee.span)
    after = scaled(pool, -1.0, (), composed(pool, reversed(both)))
    return pool.value(added(pool, [composed(pool, both), after]), callee.span)


def sym(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`(A + A.H) / 2`."""
    return _half(body, callee, given, 0.5)


def skew(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`(A - A.H) / 2`."""
    return _half(body, callee, given, -0.5)


def _half(body: Body, callee: Callee, given: Given, other: float) -> typed.Expr:
    pool, operator = Pool(body), given["operator"]
    tree = read(pool, operator, callee)
    fits = tree is not None and require_size(body, tree, operator, callee)
    if tree is None or not fits or not require_square(pool, tree, operator, callee):
        return body.error(callee.span)
    halves = [scaled(pool, 0.5, (), tree), scaled(pool, other, (), tree.adjoint(pool))]
    return pool.value(added(pool, halves), callee.span)


def resolvent(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """The inverse of `z I - A`."""
    pool, operator, z = Pool(body), given["operator"], given["z"]
    tree = read(pool, operator, callee)
    fits = tree is not None and require_size(body, tree, operator, callee)
    if tree is None or not fits or not require_square(pool, tree, operator, callee):
        return body.error(callee.span)
    parts = number_parts(pool, z, False)
    domain = tree.shape(pool.types)[0]
    if parts is None or domain is None:
        body.sink.error(E0210, at=z.span, expected="a number", found=type_text(z.type))
        return body.error(callee.span)
    shifted = scaled(pool, *parts, Eye(pool.size(domain, callee.span)))
    return pool.value(inverse(pool, added(pool, [shifted, scaled(pool, -1.0, (), tree)])), callee.span)
