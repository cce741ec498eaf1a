"""Keys of random numbers: what a seed stands for, keys made of keys, and the next one of a module's stream.

Enters: checked expressions. Leaves: expressions of the type `Key`, a 0-d u64.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0210
from tesserac.ops.convert import Cast
from tesserac.ops.random import FoldIn
from tesserac.types.dims import Dim
from tesserac.types.dtype import U64
from tesserac.types.ty import ErrorType, IntType, RunIntType, TensorType

KEY = TensorType((), U64)


def key_of(body: Body, seed: typed.Expr) -> typed.Expr | None:
    """The key that a seed stands for: an int, or an integer of the run, modulo 2^64; None after a diagnostic."""
    type_ = seed.type
    if isinstance(type_, IntType):
        value = type_.value.constant
        return typed.Coerce(KEY, seed.span, seed if value is None else _number(value % 2**64, seed.span))
    if isinstance(type_, RunIntType):
        return typed.Coerce(KEY, seed.span, seed)
    if type_ == KEY:
        return seed
    if isinstance(type_, TensorType) and type_.dtype.is_integer and not type_.dims:
        return typed.Apply(KEY, seed.span, Cast(U64), (seed,))
    if not isinstance(type_, ErrorType):
        draft = body.sink.error(E0210, at=seed.span, expected="a seed", found=type_text(type_))
        draft.remark("a seed is an int, or a 0-d tensor of integers such as `Tensor[i64]`")
    return None


def keyed(body: Body, value: typed.Expr) -> typed.Expr:
    """An int without a dtype as the key that it stands for; all else as it is."""
    known = key_of(body, value) if isinstance(value.type, IntType | RunIntType) else None
    return value if known is None else known


def fold_key(key: typed.Expr, place: int) -> typed.Expr:
    """`fold_in(key, place)`."""
    number = typed.Coerce(KEY, key.span, _number(place, key.span))
    return typed.Apply(KEY, key.span, FoldIn(), (key, number))


def next_key(body: Body, at: Span, span: Span) -> typed.Expr:
    """A key of the stream that the function is given."""
    body.draw(at)
    return typed.NextKey(KEY, span)


def _number(value: int, span: Span) -> typed.Expr:
    return typed.Static(IntType(Dim.const(value)), span)
