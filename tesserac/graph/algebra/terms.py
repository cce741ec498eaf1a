"""Expressions of linear algebra: what the engine rewrites.

A `Term` is a head, its arguments and its shape; a leaf is a value of the graph. Terms are equal where they are written
alike, so that one law serves `A @ A.T` and `U @ V`. What a head is stands in `HEADS`: the shape of what it gives, what
it costs, and whether it says something about the structure of a matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from tesserac.base.dataclass import dataclass
from tesserac.base.once import once
from tesserac.graph.algebra.costs import counted, counted_all, joined, total
from tesserac.graph.dialect import PREFIX
from tesserac.ir.core import Value
from tesserac.ops.contract import MatMul
from tesserac.ops.create import Full
from tesserac.types.dims import ONE, ZERO, Dim, product
from tesserac.types.dtype import F32
from tesserac.types.ty import TensorType

Shape = tuple[Dim, ...]


@dataclass(frozen=True)
class Term:
    """`leaf` is the value that a term without a head stands for."""

    head: str
    args: tuple[Term, ...]
    shape: Shape
    leaf: Value | None = None

    @once
    def _hash(self) -> int:
        return hash((self.head, self.args, self.shape, id(self.leaf)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def rank(self) -> int:
        return len(self.shape)

    def parts(self) -> Iterator[Term]:
        """This term and all in it, each once, arguments first."""
        seen: set[Term] = set()
        waiting: list[tuple[Term, bool]] = [(self, False)]
        while waiting:
            term, ready = waiting.pop()
            if term in seen:
                continue
            if ready:
                seen.add(term)
                yield term
            else:
                waiting.append((term, True))
                waiting += [(arg, False) for arg in reversed(term.args)]

    @once
    def distinct(self) -> frozenset[Term]:
        """This term and all in it, in no order."""
        return frozenset((self,)).union(*[arg.distinct for arg in self.args])

    @once
    def cost(self) -> Dim:
        """Of the whole expression; what stands in it twice is computed once."""
        if len(self.distinct) == 1 + sum([len(arg.distinct) for arg in self.args]):
            return joined(self.own_cost, *[arg.cost for arg in self.args])
        return total([part.own_cost for part in self.distinct])

    @once
    def own_cost(self) -> Dim:
        """Of its head alone."""
        return _cost_of(self.head, self.shape, tuple(arg.shape for arg in self.args)) if self.head else ZERO

    def __str__(self) -> str:
        return text(self)


def leaf(value: Value, shape: Shape) -> Term:
    return Term("", (), shape, value)


def make(head: str, *args: Term) -> Term:
    """A head applied to arguments."""
    return Term(head, args, HEADS[head].shape(*args))


@dataclass(frozen=True)
class Head:
    """`structured` ones say where a matrix has zeros, or what it is made of: they are read wherever they stand, since
    nothing of their matrix needs to be computed."""

    shape: Callable[..., Shape]
    cost: Callable[[Term], Dim]
    text: str
    structured: bool = False


@lru_cache(maxsize=8192)
def _cost_of(head: str, shape: Shape, shapes: tuple[Shape, ...]) -> Dim:
    """Costs know shapes only, of which an expression has few."""
    return HEADS[head].cost(Term(head, tuple(Term("", (), each) for each in shapes), shape))


@lru_cache(maxsize=4096)
def product_shape(left: Shape, right: Shape) -> Shape:
    return MatMul().infer([TensorType(left, F32), TensorType(right, F32)], lambda a, b: True).dims


def _free(term: Term) -> Dim:
    return ZERO


def _size(term: Term) -> Dim:
    return counted_all(term.shape)


def _product_cost(term: Term) -> Dim:
    return counted_all(term.shape) * counted(term.args[0].shape[-1])


def _folded(term: Term) -> Dim:
    return counted_all(term.args[0].shape)


def _real_transform_cost(term: Term) -> Dim:
    return _FFT * _size(term)


def _places(term: Term) -> Dim:
    """Of a matrix that is not made: it has a number for each row."""
    return counted_all(term.shape[:-1])


def _spread_cost(term: Term) -> Dim:
    return _size(term) + counted_all(term.args[1].shape)


def _pair_cost(term: Term) -> Dim:
    """Every element of the first operand meets one of the second."""
    return counted_all(term.args[0].shape)


def _kronecker_shape(a: Term, b: Term) -> Shape:
    return (a.shape[0] * b.shape[0], a.shape[1] * b.shape[1])


def _applied_shape(a: Term, b: Term, x: Term) -> Shape:
    return (a.shape[0] * b.shape[0], *x.shape[1:])


def _applied_cost(term: Term) -> Dim:
    """Of a Kronecker product that applies its first factor first."""
    (m, n), (p, q), columns = _applied_sizes(term)
    return m * n * q * columns + m * q * p * columns


def _second_first_cost(term: Term) -> Dim:
    (m, n), (p, q), columns = _applied_sizes(term)
    return n * q * p * columns + m * n * p * columns


def _applied_sizes(term: Term) -> tuple[Iterator[Dim], Iterator[Dim], Dim]:
    a, b, x = term.args
    return map(counted, a.shape), map(counted, b.shape), counted_all(x.shape[1:])


def _made_cost(term: Term) -> Dim:
    """Of the systems for all columns that an inverse or a solution has."""
    rows, columns = map(counted, term.shape)
    return rows * rows * columns


def _system_cost(term: Term) -> Dim:
    """Of systems for what is applied to, and of the product that is their right side."""
    a, x = term.args
    rows, made = map(counted, a.shape)
    return (rows * rows + rows * made) * counted_all(x.shape[1:])


def _turned_system_cost(term: Term) -> Dim:
    """The transpose of the matrix is not there yet."""
    a, x = term.args
    rows, made = map(counted, a.shape)
    return (rows * rows + rows * made) * counted_all(x.shape[1:]) + rows * rows


def _turned(a: Term) -> Shape:
    return (*a.shape[:-2], a.shape[-1], a.shape[-2])


_FFT = Dim.const(16)
"""Of one element of a transform: about what the steps of a few thousand points take."""

_EINSUM = "einsum "


def contracted(equation: str) -> str:
    """The head of a contraction by letters."""
    return _EINSUM + equation


def equation_of(head: str) -> str | None:
    return head.removeprefix(_EINSUM) if head.startswith(_EINSUM) else None


def needed_letters(letters: str, by: str) -> str:
    """Those that others have, each once."""
    return "".join(dict.fromkeys(letter for letter in letters if letter in by))


def _letters_of(equation: str, args: Sequence[Term]) -> dict[str, Dim]:
    terms = equation.partition("->")[0].split(",")
    return dict(pair for term, arg in zip(terms, args, strict=True) for pair in zip(term, arg.shape, strict=True))


def _contraction_shape(equation: str, args: Sequence[Term]) -> Shape:
    dims = _letters_of(equation, args)
    return tuple(dims[letter] for letter in equation.partition("->")[2])


def _contraction_cost(equation: str, term: Term) -> Dim:
    """Of tensors that are contracted from left to right."""
    dims = {letter: counted(dim) for letter, dim in _letters_of(equation, term.args).items()}
    operands, _, output = equation.partition("->")
    first, *rest = operands.split(",")
    costs = []
    for place, letters in enumerate(rest):
        costs.append(product(dims[letter] for letter in dict.fromkeys(first + letters)))
        first = needed_letters(first + letters, output + "".join(rest[place + 1 :]))
    return total(costs)


class _Heads(dict[str, "Head"]):
    """The table, and a head for every contraction by letters."""

    def __missing__(self, head: str) -> Head:
        equation = equation_of(head)
        if equation is None:
            raise KeyError(head)
        places = ", ".join("{}" for _ in equation.partition("->")[0].split(","))
        self[head] = Head(
            lambda *args: _contraction_shape(equation, args),
            lambda term: _contraction_cost(equation, term),
            f'einsum("{equation}", {places})',
        )
        return self[head]


HEADS: dict[str, Head] = _Heads({
    "eye": Head(lambda: (), _size, "eye", structured=True),
    "diag": Head(lambda d: (d.shape[0], d.shape[0]), _size, "diag({})", structured=True),
    "perm": Head(lambda p: (), _size, "eye[{}]", structured=True),
    "kron": Head(_kronecker_shape, _size, "kron({}, {})", structured=True),
    "outer": Head(lambda x, y: (*x.shape, *y.shape), _size, "outer({}, {})", structured=True),
    "tril": Head(lambda a: a.shape, _size, "tril({})", structured=True),
    "triu": Head(lambda a: a.shape, _size, "triu({})", structured=True),
    "below": Head(lambda a: a.shape, _size, "tril({}, -1)", structured=True),
    "over": Head(lambda a: a.shape, _size, "triu({}, 1)", structured=True),
    "t": Head(_turned, _free, "{}.T"),
    "conj": Head(lambda a: a.shape, _size, "conj({})"),
    "neg": Head(lambda a: a.shape, _size, "-{}"),
    "scale": Head(lambda s, a: a.shape, _size, "{} * {}"),
    "add": Head(lambda a, b: a.shape, _size, "({} + {})"),
    "sub": Head(lambda a, b: a.shape, _size, "({} - {})"),
    "times": Head(lambda x, y: x.shape, _size, "({} * {})"),
    "mm": Head(lambda a, b: product_shape(a.shape, b.shape), _product_cost, "({} @ {})"),
    "rows": Head(lambda d, a: a.shape, _size, "{}[:, None] * {}"),
    "columns": Head(lambda a, d: a.shape, _size, "{} * {}[None, :]"),
    "apply_kron": Head(_applied_shape, _applied_cost, "kron({}, {}) applied to {}"),
    "second_first": Head(_applied_shape, _second_first_cost, "kron({}, {}), its second factor first, applied to {}"),
    "made": Head(lambda a: a.shape, _made_cost, "{}"),
    "system": Head(lambda a, x: (a.shape[0], *x.shape[1:]), _system_cost, "({} @ {})"),
    "turned_system": Head(lambda a, x: (a.shape[1], *x.shape[1:]), _turned_system_cost, "({}.T @ {})"),
    "less_diagonal": Head(lambda a, d, x: a.shape[:1], _folded, "(({} - diag({})) @ {})"),
    "outer_kron": Head(lambda x, y: (x.shape[0] * y.shape[0],), _size, "kron({}, {})"),
    "take": Head(lambda a, p: (p.shape[0], *a.shape[1:]), _size, "{}[{}]"),
    "cut_rows": Head(lambda a, p: (p.shape[0], *a.shape[1:]), _free, "rows of {}"),
    "cut_columns": Head(lambda a, p: (a.shape[0], p.shape[0]), _free, "columns of {}"),
    "by_columns": Head(lambda p: p.shape, _free, "{}"),
    "kept": Head(lambda p, a: a.shape, _size, "where({}, {}, 0)"),
    "hot": Head(lambda p: (), _places, "one_hot({})", structured=True),
    "chosen": Head(lambda h, a: (*h.shape[:-1], *a.shape[1:]), _size, "{} @ {}, row by row"),
    "spread": Head(lambda h, a: (h.shape[1], *a.shape[1:]), _spread_cost, "{}.T @ {}, row by row"),
    "running": Head(lambda x: x.shape, _size, "cumsum({}, axis=0)"),
    "running_back": Head(lambda x: x.shape, _size, "cumsum({}, axis=0, reverse=True)"),
    "before": Head(lambda x: x.shape, _size, "sums before {}"),
    "after": Head(lambda x: x.shape, _size, "sums after {}"),
    "above": Head(lambda a, b: (a.shape[0] + b.shape[0], *a.shape[1:]), _size, "concat([{}, {}])"),
    "beside": Head(lambda a, b: (a.shape[0], a.shape[1] + b.shape[1]), _size, "concat([{}, {}], axis=1)"),
    "stop": Head(lambda a: a.shape, _free, "stop_gradient({})"),
    "column": Head(lambda x: (*x.shape, ONE), _free, "{}[:, None]"),
    "row": Head(lambda x: (ONE, *x.shape), _free, "{}[None, :]"),
    "flat": Head(lambda a: (a.shape[0] * a.shape[1],), _free, "{}"),
    "diagonal": Head(lambda a: (a.shape[0],), _size, "diagonal({})"),
    "trace": Head(lambda a: (), lambda term: counted(term.args[0].shape[0]), "trace({})"),
    "total": Head(lambda x: (), _folded, "sum({})"),
    "sum_all": Head(lambda a: (), _folded, "sum({})"),
    "row_sums": Head(lambda a: a.shape[:1], _folded, "sum({}, axis=1)"),
    "column_sums": Head(lambda a: a.shape[1:], _folded, "sum({}, axis=0)"),
    "mean_all": Head(lambda a: (), _folded, "mean({})"),
    "row_means": Head(lambda a: a.shape[:1], _folded, "mean({}, axis=1)"),
    "column_means": Head(lambda a: a.shape[1:], _folded, "mean({}, axis=0)"),
    "sum_products": Head(lambda a, b: (), _pair_cost, "sum({} * {}.T)"),
    "row_products": Head(lambda a, b: (a.shape[0],), _pair_cost, "sum({} * {}.T, axis=1)"),
    "fft": Head(lambda x: x.shape, lambda term: _FFT * _size(term), "fft({})"),
    "ifft": Head(lambda x: x.shape, lambda term: _FFT * _size(term), "ifft({})"),
    "rfft": Head(lambda x: (*x.shape[:-1], x.shape[-1].floor_div(2) + 1), _real_transform_cost, "rfft({})"),
    "irfft": Head(lambda z: (*z.shape[:-1], 2 * z.shape[-1] - 2), _real_transform_cost, "irfft({})"),
    "cast": Head(lambda x: x.shape, _size, "{}"),
    "ones": Head(lambda: (), _size, "ones"),
    "filled": Head(lambda a: a.shape[:1], _size, "{}"),
    "inverse": Head(lambda s: (), lambda term: ONE, "1 / {}"),
    "per": Head(lambda s, x, y: (), lambda term: ONE, "{} / number of elements"),
})  # fmt: skip


def is_transpose(one: Term, other: Term) -> bool:
    """Whether one of two is written as the transpose of the other."""
    return (one.head == "t" and one.args[0] == other) or (other.head == "t" and other.args[0] == one)


def eye(size: Dim) -> Term:
    return Term("eye", (), (size, size))


def ones(size: Dim) -> Term:
    return Term("ones", (), (size,))


def permutation(index: Term, size: Dim) -> Term:
    return Term("perm", (index,), (index.shape[0], size))


def _leaf_text(value: Value | None) -> str:
    op = None if value is None else value.defining_op
    if op is not None and op.name == PREFIX + Full.name:
        return str(op.attrs["value"])
    return "·" if value is None else name_of(value)


def name_of(value: Value) -> str:
    """As the program calls it; what only the compiler named, whose names have spaces, is a dot."""
    return value.name if value.name and " " not in value.name else "·"


def text(term: Term) -> str:
    """The expression as a program writes it; leaves by the names of their values."""
    if not term.head:
        return _leaf_text(term.leaf)
    return HEADS[term.head].text.format(*map(text, term.args))
