"""Writes an expression of linear algebra into the graph.

Enters: a term, and where it is needed. Leaves: operators, the last of which gives its value.
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.graph.algebra.reading_folds import NOT_NARROW
from tesserac.graph.algebra.terms import Term, equation_of
from tesserac.graph.algebra.writing_rows import ASKED_FOR, ROWS
from tesserac.graph.dialect import operator_of
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.calculus import Writer
from tesserac.ops.create import Full
from tesserac.ops.index import SliceAt
from tesserac.ops.join import Roll
from tesserac.ops.rearrange import Flip
from tesserac.ops.shape import Slice
from tesserac.types.dims import ONE, ZERO
from tesserac.types.ty import TensorType


class TermWriter:
    """`like` is a value of the element type that all of the expression has."""

    def __init__(self, write: Writer, like: TensorType) -> None:
        self.write = write
        self.like = like
        self._known: dict[Term, Value] = {}

    def value(self, term: Term) -> Value:
        for part in term.parts():
            if part not in self._known and (part.head not in _NOT_WRITTEN or part is term):
                self._known[part] = part.leaf if part.leaf is not None else self._written(part)
        return self._known[term]

    def _written(self, term: Term) -> Value:
        if term.head in _MULTIPLES and (quotient := self._quotient(term)) is not None:
            return quotient
        writer = _WRITERS.get(term.head)
        asked_for = ASKED_FOR.get(term.head, ())
        args = [self.value(arg) for place, arg in enumerate(term.args) if place not in asked_for]
        if (equation := equation_of(term.head)) is not None:
            return self.write("einsum", *args, equation=equation)
        return self.write(_OPERATORS[term.head], *args) if writer is None else writer(self, term, *args)

    def _quotient(self, term: Term) -> Value | None:
        """A multiple by the inverse of a number is divided, as a program writes it: the inverse of one that is close to
        zero is infinite, and is rounded where the quotient may not be."""
        for number, other in (term.args, term.args[::-1]):
            if number.head == "inverse":
                return self.write("div", self.value(other), self.value(number.args[0]))
        return None

    def type(self, term: Term) -> TensorType:
        return TensorType(term.shape, self.like.dtype, self.like.policy)

    def column(self, vector: Value) -> Value:
        return self.write.reshape(vector, (*tensor_type(vector).dims, ONE))

    def row(self, vector: Value) -> Value:
        return self.write.reshape(vector, (ONE, *tensor_type(vector).dims))


_MULTIPLES = ("scale", "times")
_NOT_WRITTEN = ("inverse", "hot", "ones")
"""Heads whose value is written where something needs it: there are writers that need what it is made of."""
_OPERATORS = {
    "conj": "conj",
    "neg": "neg",
    "add": "add",
    "sub": "sub",
    "times": "mul",
    "scale": "mul",
    "mm": "matmul",
    "system": "matmul",
    "diagonal": "diagonal",
    "fft": "fft",
    "ifft": "ifft",
    "stop": "stop_gradient",
}
"""Heads that are operators."""


def _eye(w: TermWriter, term: Term) -> Value:
    return w.write("eye", size=term.shape[0], dtype=w.like.dtype, policy=w.like.policy)


def _ones(w: TermWriter, term: Term) -> Value:
    return w.write.full(1.0, w.type(term))


def _filled(w: TermWriter, term: Term, matrix: Value) -> Value:
    """The number that another matrix has everywhere."""
    assert matrix.defining_op is not None
    full = operator_of(matrix.defining_op)
    assert isinstance(full, Full)
    return w.write.full(full.value, w.type(term))


def _diag(w: TermWriter, term: Term, d: Value) -> Value:
    return w.write.on_diagonal(w.write.expand(w.write.reshape(d, (ONE, term.shape[1])), term.shape), (0, 1))


def _kron(w: TermWriter, term: Term, a: Value, b: Value) -> Value:
    (m, n), (p, q) = tensor_type(a).dims, tensor_type(b).dims
    spread = w.write("mul", w.write.reshape(a, (m, ONE, n, ONE)), w.write.reshape(b, (ONE, p, ONE, q)))
    return w.write.reshape(spread, term.shape)


def _triangle(lower: bool, comparison: str = "less_equal") -> Callable[[TermWriter, Term, Value], Value]:
    def written(w: TermWriter, term: Term, a: Value) -> Value:
        rows, columns = (w.write.places(term.shape, axis) for axis in (0, 1))
        mask = w.write(comparison, *((columns, rows) if lower else (rows, columns)))
        return w.write("where", mask, a, w.write.number(0.0, w.like))

    return written


def _turned(w: TermWriter, term: Term, a: Value) -> Value:
    last = term.rank - 1
    return w.write.permute(a, (*range(last - 1), last, last - 1))


def _rows(w: TermWriter, term: Term, d: Value, a: Value) -> Value:
    return w.write("mul", w.column(d), a)


def _columns(w: TermWriter, term: Term, a: Value, d: Value) -> Value:
    return w.write("mul", a, w.row(d))


_KRON_STEPS = {
    ("apply_kron", False): (("mn,nq->mq", "ax"), ("mq,pq->mp", "xb")),
    ("apply_kron", True): (("mn,nqc->mqc", "ax"), ("pq,mqc->mpc", "bx")),
    ("second_first", False): (("nq,pq->np", "xb"), ("mn,np->mp", "ax")),
    ("second_first", True): (("pq,nqc->npc", "bx"), ("mn,npc->mpc", "ax")),
}
"""The products that apply a Kronecker product, of which x is what was computed before; with columns beside it or not.
Both factors may be one value."""


def _apply_kron(w: TermWriter, term: Term, a: Value, b: Value, x: Value) -> Value:
    """(A kron B) x is A X B.T with the vector x as a matrix X, by either factor first; columns beside it go along."""
    n, q = tensor_type(a).dims[1], tensor_type(b).dims[1]
    rest = term.shape[1:]
    spread = w.write.reshape(x, (n, q, *rest))
    for equation, which in _KRON_STEPS[term.head, bool(rest)]:
        factors = {"a": a, "b": b, "x": spread}
        spread = w.write("einsum", *(factors[name] for name in which), equation=equation)
    return w.write.reshape(spread, term.shape)


def _less_diagonal(w: TermWriter, term: Term, a: Value, d: Value, x: Value) -> Value:
    """Row by row, so that the matrix that is left is not made."""
    rows, columns = (w.write.places(tensor_type(a).dims, axis) for axis in (0, 1))
    left = w.write("where", w.write("equal", rows, columns), w.write("sub", a, w.column(d)), a)
    return w.write.sum(w.write("mul", left, w.row(x)), (1,))


def _made(w: TermWriter, term: Term, a: Value) -> Value:
    return a


def _turned_system(w: TermWriter, term: Term, a: Value, x: Value) -> Value:
    return w.write("matmul", w.write.permute(a, (1, 0)), x)


def _outer_kron(w: TermWriter, term: Term, x: Value, y: Value) -> Value:
    return w.write.reshape(w.write("mul", w.column(x), w.row(y)), term.shape)


def _outer(w: TermWriter, term: Term, x: Value, y: Value) -> Value:
    return w.write("mul", w.column(x), w.row(y))


def _part(axis: int) -> Callable[[TermWriter, Term, Value, Value], Value]:
    def written(w: TermWriter, term: Term, a: Value, cut: Value) -> Value:
        """Of another matrix what an operation has taken of its own, or how it has put that in order; of its rows, maybe
        by what it does to columns."""
        assert cut.defining_op is not None
        operator = operator_of(cut.defining_op)
        if isinstance(operator, Flip):
            return w.write("flip", a, axes=(axis,))
        if isinstance(operator, Roll):
            return w.write("roll", a, axis=axis, shift=operator.shift)
        if isinstance(operator, SliceAt):
            return w.write.apply(SliceAt(operator.size, axis), (a, cut.defining_op.operands[1]))
        assert isinstance(operator, Slice)
        starts, steps = [ZERO] * term.rank, [1] * term.rank
        of = int(term.args[1].head == "by_columns")
        starts[axis], steps[axis] = operator.starts[of], operator.steps[of]
        return w.write("cut", a, starts=tuple(starts), sizes=term.shape, steps=tuple(steps))

    return written


def _joined(axis: int) -> Callable[[TermWriter, Term, Value, Value], Value]:
    def written(w: TermWriter, term: Term, a: Value, b: Value) -> Value:
        return w.write("concat", a, b, axis=axis)

    return written


def _by_columns(w: TermWriter, term: Term, cut: Value) -> Value:
    return cut


def _running(w: TermWriter, term: Term, x: Value) -> Value:
    return w.write("cumsum", x, axis=0)


def _running_back(w: TermWriter, term: Term, x: Value) -> Value:
    return w.write("flip", w.write("cumsum", w.write("flip", x, axes=(0,)), axis=0), axes=(0,))


def _before(w: TermWriter, term: Term, x: Value) -> Value:
    """Sums of what stands before each row: of the first one nothing does."""
    return _moved_on(w, _running(w, term, x))


def _after(w: TermWriter, term: Term, x: Value) -> Value:
    turned = _moved_on(w, w.write("cumsum", w.write("flip", x, axes=(0,)), axis=0))
    return w.write("flip", turned, axes=(0,))


def _moved_on(w: TermWriter, x: Value) -> Value:
    """Each row in the place of the next, and zeros in the first."""
    padded = w.write("pad", x, axis=0, before=ONE, after=ZERO, value=0.0)
    dims = tensor_type(x).dims
    return w.write("cut", padded, starts=(ZERO,) * len(dims), sizes=dims, steps=(1,) * len(dims))


def _column(w: TermWriter, term: Term, x: Value) -> Value:
    return w.column(x)


def _row(w: TermWriter, term: Term, x: Value) -> Value:
    return w.row(x)


def _flat(w: TermWriter, term: Term, a: Value) -> Value:
    return w.write.reshape(a, term.shape)


def _fold(name: str, *axes: int) -> Callable[[TermWriter, Term, Value], Value]:
    def written(w: TermWriter, term: Term, a: Value) -> Value:
        return w.write(name, a, axes=axes, keep=False)

    return written


def _trace(w: TermWriter, term: Term, a: Value) -> Value:
    return w.write.sum(w.write("diagonal", a), (0,))


def _total(w: TermWriter, term: Term, x: Value) -> Value:
    return w.write.sum(x, (0,))


def _sum_products(w: TermWriter, term: Term, a: Value, b: Value) -> Value:
    """Row by row, as the other operand is turned block by block on the way; at once where a row would be rounded to few
    bits between."""
    if w.like.dtype.bits < NOT_NARROW:
        return w.write("einsum", a, b, equation="ik,ki->")
    return w.write.sum(_row_products(w, term, a, b), (0,))


def _row_products(w: TermWriter, term: Term, a: Value, b: Value) -> Value:
    return w.write("einsum", a, b, equation="ik,ki->i")


def _inverse(w: TermWriter, term: Term, number: Value) -> Value:
    return w.write("div", w.write.number(1.0, w.like), number)


def _cast(w: TermWriter, term: Term, x: Value) -> Value:
    return w.write.stored(x, w.like)


_WRITERS: dict[str, Callable[..., Value]] = {
    "eye": _eye,
    "ones": _ones,
    "filled": _filled,
    "diag": _diag,
    "kron": _kron,
    "tril": _triangle(True),
    "triu": _triangle(False),
    "below": _triangle(True, "less"),
    "over": _triangle(False, "less"),
    "t": _turned,
    "rows": _rows,
    "columns": _columns,
    "apply_kron": _apply_kron,
    "second_first": _apply_kron,
    "made": _made,
    "turned_system": _turned_system,
    "less_diagonal": _less_diagonal,
    "outer_kron": _outer_kron,
    "outer": _outer,
    "cut_rows": _part(0),
    "cut_columns": _part(1),
    "by_columns": _by_columns,
    "running": _running,
    "running_back": _running_back,
    "before": _before,
    "after": _after,
    "above": _joined(0),
    "beside": _joined(1),
    "column": _column,
    "row": _row,
    "flat": _flat,
    "sum_all": _fold("sum", 0, 1),
    "row_sums": _fold("sum", 1),
    "column_sums": _fold("sum", 0),
    "mean_all": _fold("mean", 0, 1),
    "row_means": _fold("mean", 1),
    "column_means": _fold("mean", 0),
    "trace": _trace,
    "total": _total,
    "sum_products": _sum_products,
    "row_products": _row_products,
    "cast": _cast,
    "inverse": _inverse,
    **ROWS,
}
