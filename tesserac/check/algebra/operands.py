"""Reads operators, and says what is wrong with those that do not fit.

Enters: checked expressions. Leaves: trees over one pool, sizes filled in where only the other operand has them, or a
diagnostic with where each size came from.
"""

from __future__ import annotations

from dataclasses import fields, replace

from tessera.toolchain import materialize_limit
from tesserac.base.source import NO_SPAN, Span
from tesserac.check.algebra.base import Kind
from tesserac.check.algebra.kinds import Dense, Fourier
from tesserac.check.algebra.pool import Pool
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, type_text
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.check.values.globals import BUILT_IN
from tesserac.check.values.tuples import tuple_items
from tesserac.diag.codes.operators import E0801, E0802, E0803, E0804, E0805
from tesserac.diag.sink import Draft
from tesserac.types.algebra import Leaf, Tree
from tesserac.types.dims import Dim
from tesserac.types.ty import ErrorType, FloatType, FunctionType, IntType, OperatorType, RunIntType, TensorType

_TRANSFORMS = {"fft": False, "ifft": True}
_HOMES = (BUILT_IN, "stdlib.fft.transforms")
"""Where those names are transforms: the operators, and the functions of the library that give them options."""


_NUMBERS = (IntType, RunIntType, FloatType)
_MADE_BY = "an operator is made by `op.dense(matrix)`, `op.diag(vector)`, `op.fft(N)`, ..."
_ON_DIAGONAL = "a number times the identity is an operator: `A + 0.1 * op.eye(N)`"


def read(pool: Pool, value: typed.Expr, callee: Callee) -> Kind | None:
    """An operand as an operator: a matrix is one, and so are `fft` and `ifft`; None after a diagnostic."""
    type_ = value.type
    if isinstance(type_, OperatorType):
        return as_kind(pool.take(value))
    if isinstance(type_, TensorType) and type_.rank == 2:
        return Dense(pool.add(value))
    if isinstance(type_, FunctionType) and type_.module in _HOMES and type_.name in _TRANSFORMS:
        return Fourier(None, _TRANSFORMS[type_.name])
    if not isinstance(type_, ErrorType):
        problem = f"`{callee.name}` takes an operator; this is {type_text(type_)}"
        draft = pool.body.sink.error(E0802, at=value.span, problem=problem)
        is_added = callee.name in ("+", "-") and isinstance(type_, _NUMBERS)
        draft.remark(_ON_DIAGONAL if is_added else _MADE_BY)
    return None


def as_kind(tree: Tree) -> Kind:
    assert isinstance(tree, Kind), "every operator is made by this package"
    return tree


def read_both(pool: Pool, left: typed.Expr, right: typed.Expr, callee: Callee) -> tuple[Kind, Kind] | None:
    first, second = read(pool, left, callee), read(pool, right, callee)
    if first is None or second is None:
        return None
    first = _with_size_of(pool, first, second.shape(pool.types)[1])
    return first, _with_size_of(pool, second, first.shape(pool.types)[0])


def lacks_size(tree: object) -> bool:
    """Whether a part of the tree is of any size."""
    if not isinstance(tree, Kind):
        return any(map(lacks_size, tree)) if isinstance(tree, tuple) else False
    parts = [getattr(tree, field.name) for field in fields(tree)]  # type: ignore[arg-type]
    return any(part is None or lacks_size(part) for part in parts)


def _with_size_of(pool: Pool, tree: Kind, size: Dim | None) -> Kind:
    """What is of any size takes that of the operator beside it."""
    if size is None or not lacks_size(tree):
        return tree
    return _sized(tree, pool.size(size, NO_SPAN))


def _sized(tree: Kind, size: Leaf) -> Kind:
    new: dict[str, object] = {}
    for field in fields(tree):  # type: ignore[arg-type]
        part = getattr(tree, field.name)
        if part is None:
            new[field.name] = size
        elif isinstance(part, Kind):
            new[field.name] = _sized(part, size)
        elif isinstance(part, tuple) and part and isinstance(part[0], Kind):
            new[field.name] = tuple(_sized(item, size) for item in part)
    return replace(tree, **new)  # type: ignore[type-var]


# ------------------------------------------------------------------------------------------------------- mistakes


def require_fit(
    body: Body,
    callee: Callee,
    sizes: tuple[Dim | None, Dim | None],
    left: typed.Expr,
    right: typed.Expr,
    what: str,
    meaning: str = "",
    *,
    may_turn: bool = True,
) -> bool:
    """Whether two sizes are one; `what` says of the second operand what the first should be, `meaning` why. The adjoint
    of the left one is proposed where it has that size, if it may turn."""
    wanted, found = sizes
    if wanted is None or found is None or body.facts.same(wanted, found):
        return True
    sizes_text = what.format(wanted=dim_text(wanted), found=dim_text(found))
    draft = body.sink.error(E0801, at=callee.at, name=callee.name, sizes=sizes_text)
    note_operands(body, draft, left, right)
    if meaning:
        draft.remark(meaning)
    if may_turn:
        _suggest_adjoint(body, draft, wanted, found, left)
    if isinstance(left.type, OperatorType) and _has_rows_of(body, right, wanted):
        draft.remark("its rows have that size: `x @ A.T` takes them, and so does `apply(A, x, axis=-1)`")
    return False


def _has_rows_of(body: Body, value: typed.Expr, size: Dim) -> bool:
    return isinstance(value.type, TensorType) and value.type.rank == 2 and body.facts.same(value.type.dims[-1], size)


def note_operands(body: Body, draft: Draft, *values: typed.Expr) -> None:
    """What operands are, and where what has their sizes got its name: an operator has those of its parts."""
    parts: list[typed.Expr] = []
    for value in values:
        draft.note(value.span, f"this is {type_text(value.type)}")
        parts += tuple_items(value, value.span) if isinstance(value.type, OperatorType) else [value]
    found = [body.origins.get(part) for part in (*values, *parts) if isinstance(part, typed.Local)]
    named = {one.span: one.name for one in found if one is not None and one.name.isidentifier()}
    for span, name in named.items():
        draft.note(span, f"`{name}` is from here")


Shape = tuple[Dim | None, Dim | None]


def require_same_shape(
    body: Body, callee: Callee, shapes: tuple[Shape, Shape], left: typed.Expr, right: typed.Expr, done: str
) -> bool:
    """Whether two operators take and give the same; `done` says what is done with such."""
    (a, b), (c, d) = shapes
    what = f"operators that are {done} take and give the same; here {{wanted}} meets {{found}}"
    turns = all(x is not None and y is not None and body.facts.same(x, y) for x, y in ((a, d), (b, c)))
    return all(require_fit(body, callee, pair, left, right, what, may_turn=turns) for pair in ((a, c), (b, d)))


def _suggest_adjoint(body: Body, draft: Draft, wanted: Dim, found: Dim, left: typed.Expr) -> None:
    """Where the other side of the operator has the size that is found: it stands on the left and takes what it is
    applied to, or on the right of a row and gives as many."""
    domain, codomain = left.type.shape if isinstance(left.type, OperatorType) else (None, None)
    if domain is None or codomain is None:
        return
    takes = domain == wanted and body.facts.same(codomain, found)
    if takes or (codomain == wanted and body.facts.same(domain, found)):
        told = f"its adjoint {'takes' if takes else 'gives'} {dim_text(found)}"
        draft.replace(told, left.span, f"adjoint({body.rules.text(left.span)})")


def require_size(body: Body, tree: Kind, value: typed.Expr, callee: Callee) -> bool:
    if not lacks_size(tree):
        return True
    draft = body.sink.error(E0803, at=value.span, name=callee.name)
    draft.remark("`fft` and `ifft` are of any size; `op.fft(N)` and `op.ifft(N)` have one")
    return False


def require_square(pool: Pool, tree: Kind, value: typed.Expr, callee: Callee) -> bool:
    domain, codomain = tree.shape(pool.types)
    if domain is None or codomain is None or pool.body.facts.same(domain, codomain):
        return True
    sizes = f"a square operator is needed; this takes {dim_text(domain)} and gives {dim_text(codomain)}"
    note_operands(pool.body, pool.body.sink.error(E0801, at=callee.at, name=callee.name, sizes=sizes), value)
    return False


def refuse(body: Body, callee: Callee, at: Span, problem: str, remark: str = "") -> typed.Expr:
    """An operator that lacks what is asked of it."""
    draft = body.sink.error(E0804, at=at, problem=problem)
    if remark:
        draft.remark(remark)
    return body.error(callee.span)


def refuse_operand(body: Body, callee: Callee, at: Span, problem: str) -> typed.Expr:
    """What no operator could do with what stands beside it."""
    body.sink.error(E0802, at=at, problem=problem)
    return body.error(callee.span)


def refuse_matrix(pool: Pool, tree: Kind, callee: Callee) -> bool:
    """Whether an operator that is no matrix would become one of more entries than the program may make by itself."""
    sizes = tree.shape(pool.types)
    known = [size.constant for size in sizes if size is not None and size.constant is not None]
    limit = materialize_limit()
    if isinstance(tree, Dense) or len(known) < 2 or known[0] * known[1] <= limit:
        return False
    problem = f"`{callee.name}` would make {known[1]} x {known[0]} entries, more than {limit}"
    draft = pool.body.sink.error(E0805, at=callee.at, problem=problem)
    draft.remark("`to_dense(A)` makes it where that is meant; `--max-materialize` says how many entries may be made")
    return True
