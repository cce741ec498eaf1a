"""Writes rows that something else chooses: by number, by a mask, by ones.

Enters: a term, and the values of what it is made of. Leaves: operators, the last of which gives its value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tesserac.graph.algebra.terms import Term
from tesserac.ir.core import Value
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.dtype import I64
from tesserac.types.ty import TensorType

if TYPE_CHECKING:
    from tesserac.graph.algebra.writing import TermWriter


def _hot(w: TermWriter, term: Term, index: Value) -> Value:
    places = w.write.reshape(index, term.shape[:-1])
    return w.write("one_hot", places, classes=term.shape[-1], dtype=w.like.dtype, policy=w.like.policy)


def _perm(w: TermWriter, term: Term, index: Value) -> Value:
    size = term.shape[1]
    whole = w.write("eye", size=size, dtype=w.like.dtype, policy=w.like.policy)
    return w.write("gather", whole, index, axis=0)


def _take(w: TermWriter, term: Term, a: Value, index: Value) -> Value:
    return w.write("gather", a, w.write.reshape(index, term.args[1].shape), axis=0)


def _chosen(w: TermWriter, term: Term, a: Value) -> Value:
    """Rows by number, and zeros where a number is none of them: those of a row of zeros behind the last, unless it is
    known that there is a first one to take instead."""
    hot = term.args[0]
    has_rows = (hot.shape[-1].constant or 0) > 0
    index, is_one = _places(w, hot, ZERO if has_rows else hot.shape[-1])
    table = a if has_rows else w.write("pad", a, axis=0, before=ZERO, after=ONE, value=0.0)
    rows = w.write("gather", table, index, axis=0)
    if not has_rows:
        return rows
    beside = w.write.reshape(is_one, (*hot.shape[:-1], *[ONE] * (term.rank - hot.rank + 1)))
    return w.write("where", beside, rows, w.write.number(0.0, w.like))


def _spread(w: TermWriter, term: Term, a: Value) -> Value:
    """Each row added to the one that has its number; of a number that no row has, to one behind the last."""
    hot = term.args[0]
    index, _ = _places(w, hot, hot.shape[1])
    more = (term.shape[0] + ONE, *term.shape[1:])
    added = w.write("scatter_add", w.write.zeros(TensorType(more, w.like.dtype, w.like.policy)), index, a, axis=0)
    return w.write("cut", added, starts=(ZERO,) * term.rank, sizes=term.shape, steps=(1,) * term.rank)


def _places(w: TermWriter, hot: Term, other: Dim) -> tuple[Value, Value]:
    """The number of a row, or another where there is no such row; and whether there is."""
    given = hot.args[0].leaf
    assert given is not None
    like = TensorType((), I64)
    index = w.write.stored(w.write.reshape(given, hot.shape[:-1]), like)
    zero, size = w.write.size(ZERO, like), w.write.size(hot.shape[-1], like)
    is_one = w.write("bitwise_and", w.write("less_equal", zero, index), w.write("less", index, size))
    return w.write("where", is_one, index, w.write.size(other, like)), is_one


def _kept(w: TermWriter, term: Term, mask: Value, a: Value) -> Value:
    beside = w.write.reshape(mask, (term.shape[0], *[ONE] * (term.rank - 1)))
    return w.write("where", beside, a, w.write.number(0.0, w.like))


def _per(w: TermWriter, term: Term, total: Value) -> Value:
    count = term.args[1].shape[0] * term.args[2].shape[0]
    return w.write("div", total, w.write.size(count, w.like))


ROWS: dict[str, Callable[..., Value]] = {
    "hot": _hot,
    "perm": _perm,
    "take": _take,
    "chosen": _chosen,
    "spread": _spread,
    "kept": _kept,
    "per": _per,
}
ASKED_FOR = {"chosen": (0,), "spread": (0,), "per": (1, 2)}
"""Arguments of which a writer needs what they are made of, or their sizes, and not their values."""
