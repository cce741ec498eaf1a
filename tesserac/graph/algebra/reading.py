"""Reads expressions of linear algebra off the graph.

Enters: the operation whose result is wanted. Leaves: a term; what is no linear algebra, has another element type or
another mode of numerics, or is used elsewhere too, is a leaf. The structure of a matrix (a diagonal, a triangle, a
Kronecker product) is read wherever the matrix stands and however it is used: then nothing of it needs to be computed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from tesserac.check.model.library_annotations import APPLIED
from tesserac.graph.algebra.applied import uses_of
from tesserac.graph.algebra.known import best_known, flags_of, held_flags
from tesserac.graph.algebra.reading_elements import ELEMENTS, is_structure, says_more
from tesserac.graph.algebra.reading_folds import FOLDS, NOT_NARROW, same_element
from tesserac.graph.algebra.reading_rows import ROWS
from tesserac.graph.algebra.terms import Term, contracted, eye, leaf, make, ones
from tesserac.graph.dialect import NUMERICS, PREFIX, forms_of, operator_of
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.create import Eye
from tesserac.ops.einsum import Einsum
from tesserac.ops.held import ISOMETRY, UNITARY, Held
from tesserac.ops.shape import Permute
from tesserac.types.dims import ONE
from tesserac.types.ty import TensorType

MAX_DEPTH = 64
MOST_FACTORS = 32
"""Of a product that stands in an expression more than once: a power is a product of powers, each of two halves."""


class Reader:
    """Reads what leads to one operation; where it is `shared`, also what others need too, since what the expression is
    replaced by costs less than it alone. With `undone`, that only of products that another factor may undo; whether
    there were any, `has_shared` says."""

    def __init__(self, root: Op, *, shared: bool = False, undone: bool = False) -> None:
        self._root = root
        self._shared = shared
        self._undone = undone
        self.has_shared = False
        self._mode = root.attrs.get(NUMERICS)
        self._known: dict[Value, Term] = {}
        self._opened: set[Op] = {root}
        self._several: set[Op] = set()
        self._needed: set[Op] = set()

    def read(self) -> Term:
        """The result of the root. What this expression alone needs in several places is read like anything else, see
        Note [Needed several times]."""
        while True:
            found = self._read(self._root, 0) or self.atom(self._root.result)
            needed = {op for op in self._several if not all(user in self._opened for user, _ in op.result.uses)}
            if not needed:
                return found
            self._needed |= needed
            self._known, self._opened, self._several = {}, {self._root}, set()

    def term(self, value: Value, depth: int) -> Term:
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = self.opened(value, depth) or self.atom(value)
        return found

    def atom(self, value: Value) -> Term:
        return leaf(best_known(value, self._root), tensor_type(value).dims)

    def opened(self, value: Value, depth: int) -> Term | None:
        op = value.defining_op
        if op is None or depth > MAX_DEPTH or op.attrs.get(NUMERICS) != self._mode:
            return None
        term = self._read(op, depth)
        if term is None:
            return None
        if self._is_alone(value, op) or self._is_inner(op, term):
            self._opened.add(op)
            return term
        if is_structure(term):
            return term
        if term.head == "made" and uses_of(op):
            return term
        if self._undone and term.head in ("mm", "scale") and _may_be_undone(term):
            self.has_shared = True
            return term
        return None

    def _is_alone(self, value: Value, op: Op) -> bool:
        """Whether nobody else needs the value, so that it need not be computed; what stands outside of a loop is
        computed once for all its iterations."""
        return self._shared or (op.parent is self._root.parent and len(value.uses) == 1)

    def _is_inner(self, op: Op, term: Term) -> bool:
        """Whether all that need a value may be parts of the expression."""
        is_one = len(op.results) == 1 and op.parent is self._root.parent and op not in self._needed
        if not is_one or spread(term) > MOST_FACTORS or any(user.name not in _READERS for user, _ in op.result.uses):
            return False
        self._several.add(op)
        return True

    def _read(self, op: Op, depth: int) -> Term | None:
        reader = _READERS.get(op.name)
        return reader(self, op, depth + 1) if reader is not None else None

    def operand(self, op: Op, position: int, depth: int) -> Term:
        return self.term(op.operands[position], depth)


def _may_be_undone(term: Term) -> bool:
    product = term.args[1] if term.head == "scale" else term
    return product.head == "mm" and any(flags_of(arg) & _OF_COLUMNS for arg in product.args)


@lru_cache(maxsize=4096)
def spread(term: Term) -> int:
    """How many factors a product has once it is opened."""
    return sum(map(spread, term.args)) if term.head in ("mm", "t", "neg") else 1


# -------------------------------------------------------------------------------------------------------- products


def _matmul(reader: Reader, op: Op, depth: int) -> Term | None:
    if not same_element(op, *op.operands):
        return None
    return make("mm", reader.operand(op, 0, depth), reader.operand(op, 1, depth))


def _einsum(reader: Reader, op: Op, depth: int) -> Term | None:
    """A trace or a diagonal; a column times a row; matrices and vectors, each multiplied with what stands before it
    over the only letter that both have; or any other contraction of several tensors."""
    operator = operator_of(op)
    assert isinstance(operator, Einsum)
    terms, output = operator.terms, operator.output
    if not same_element(op, *op.operands):
        return None
    if len(terms) == 1:
        return _of_one(reader, op, operator.equation, depth)
    if len(terms) == 2 and (scaled := _LINES.get(_by_order(operator.equation))) is not None:
        return _scaled_lines(reader, op, *scaled, depth)
    if len(terms) == 2 and "".join(terms) == output and len(output) == len(set(output)) == 2:
        return make("outer", reader.operand(op, 0, depth), reader.operand(op, 1, depth))
    if len(terms) < 2 or any(len(set(term)) < len(term) for term in terms):
        return None
    return _chain(reader, op, operator, depth) or _contraction(reader, op, operator, depth)


def _by_order(equation: str) -> str:
    """An equation whose letters go by their order."""
    letters = dict(zip(dict.fromkeys(filter(str.isalpha, equation)), "ijklmnop", strict=False))
    return "".join(letters.get(letter, letter) for letter in equation)


_LINES = {
    "i,ij->ij": (0, "rows", False), "i,ij->ji": (0, "rows", True), "i,ji->ji": (0, "columns", False),
    "i,ji->ij": (0, "columns", True), "ij,i->ij": (1, "rows", False), "ij,i->ji": (1, "rows", True),
    "ij,j->ij": (1, "columns", False), "ij,j->ji": (1, "columns", True),
}  # fmt: skip
"""Einsums that multiply lines of a matrix: which operand is the vector, what it multiplies, whether all is turned."""


def _scaled_lines(reader: Reader, op: Op, place: int, head: str, turned: bool, depth: int) -> Term:
    d, matrix = reader.operand(op, place, depth), reader.operand(op, 1 - place, depth)
    found = make("rows", d, matrix) if head == "rows" else make("columns", matrix, d)
    return make("t", found) if turned else found


_OF_ONE = {
    "ii->": "trace", "ii->i": "diagonal", "ij->ji": "t", "ij->": "sum_all", "ij->i": "row_sums", "ij->j": "column_sums",
}  # fmt: skip


def _of_one(reader: Reader, op: Op, equation: str, depth: int) -> Term | None:
    """What an einsum makes of one matrix; letters go by their order."""
    head = _OF_ONE.get(_by_order(equation))
    found = reader.operand(op, 0, depth)
    is_sum = head is not None and head.endswith(("_all", "_sums"))
    if head is None or (is_sum and (not found.head or tensor_type(op.result).dtype.bits < NOT_NARROW)):
        return None
    return make(head, found)


def _contraction(reader: Reader, op: Op, operator: Einsum, depth: int) -> Term | None:
    """Of two tensors there is one order."""
    count = len(operator.terms)
    if count < 3:
        return None
    return make(contracted(operator.equation), *(reader.operand(op, place, depth) for place in range(count)))


def _chain(reader: Reader, op: Op, operator: Einsum, depth: int) -> Term | None:
    terms, output = operator.terms, operator.output
    if any(len(term) > 2 for term in terms):
        return None
    found, letters = reader.operand(op, 0, depth), terms[0]
    for place in range(1, len(terms)):
        needed = "".join((*terms[place + 1 :], output))
        shared = [letter for letter in letters if letter in terms[place]]
        if len(shared) != 1 or shared[0] in needed:
            return None
        found = _contracted(found, letters, reader.operand(op, place, depth), terms[place], shared[0])
        letters = (letters + terms[place]).replace(shared[0], "")
    if sorted(letters) != sorted(output):
        return None
    return make("t", found) if output != letters else found


def _contracted(left: Term, first: str, right: Term, second: str, shared: str) -> Term:
    """Two factors, whose dims have these letters, multiplied over the one that they share."""
    left = make("t", left) if len(first) == 2 and first[0] == shared else left
    right = make("t", right) if len(second) == 2 and second[1] == shared else right
    return make("mm", left, right)


# ------------------------------------------------------------------------------------------------------- structure


def _eye(reader: Reader, op: Op, depth: int) -> Term | None:
    operator = operator_of(op)
    assert isinstance(operator, Eye)
    dims = tensor_type(op.result).dims
    return eye(dims[0]) if operator.k == 0 and dims[0] == dims[1] else None


def _full(reader: Reader, op: Op, depth: int) -> Term | None:
    """One number everywhere, other than zero: a column of it, and ones."""
    dims, value = tensor_type(op.result).dims, op.attrs.get("value", 1)
    if len(dims) != 2 or value == 0:
        return None
    return make("outer", ones(dims[0]) if value == 1 else make("filled", leaf(op.result, dims)), ones(dims[1]))


def _expand(reader: Reader, op: Op, depth: int) -> Term | None:
    """One everywhere."""
    value = op.operands[0]
    while (inner := value.defining_op) is not None and inner.name == PREFIX + "reshape":
        value = inner.operands[0]
    dims = tensor_type(op.result).dims
    is_one = inner is not None and inner.name in (PREFIX + "full", PREFIX + "ones") and inner.attrs.get("value", 1) == 1
    return ones(dims[0]) if is_one and len(dims) == 1 else None


def _permute(reader: Reader, op: Op, depth: int) -> Term | None:
    operator = operator_of(op)
    assert isinstance(operator, Permute)
    last = len(operator.order) - 1
    turned = (*range(last - 1), last, last - 1)
    return make("t", reader.operand(op, 0, depth)) if last > 0 and operator.order == turned else None


def _reshape(reader: Reader, op: Op, depth: int) -> Term | None:
    """A vector that is a row or a column of a matrix; a Kronecker product: two matrices spread over four dims,
    multiplied, and joined to two."""
    inner = op.operands[0].defining_op
    result = tensor_type(op.result)
    dims = tensor_type(op.operands[0]).dims
    if result.dims == dims:
        return reader.operand(op, 0, depth)
    if dims in ((ONE, *result.dims), (*result.dims, ONE)) and result.rank == 1:
        found = reader.operand(op, 0, depth)
        return make("flat", found) if found.head else None
    if inner is None or inner.name != PREFIX + "mul" or result.rank != 2:
        return None
    spread = [value.defining_op for value in inner.operands]
    if any(part is None or part.name != op.name for part in spread):
        return None
    first, second = (part.operands[0] for part in spread if part is not None)
    a, b = tensor_type(first), tensor_type(second)
    if not _is_kronecker(a, b, tensor_type(inner.operands[0]), tensor_type(inner.operands[1])):
        return None
    found = make("kron", reader.term(first, depth), reader.term(second, depth))
    return found if found.shape == result.dims else None


def _is_kronecker(a: TensorType, b: TensorType, left: TensorType, right: TensorType) -> bool:
    if a.rank != 2 or b.rank != 2:
        return False
    return left.dims == (a.dims[0], ONE, a.dims[1], ONE) and right.dims == (ONE, b.dims[0], ONE, b.dims[1])


def _held(reader: Reader, op: Op, depth: int) -> Term | None:
    """A matrix of which something is known: what it is made of says more, where that is seen."""
    found = reader.opened(op.operands[0], depth)
    return found if found is not None and (is_structure(found) or not held_flags(op.result) & _OF_COLUMNS) else None


_OF_COLUMNS = {UNITARY, ISOMETRY}


def _call(reader: Reader, op: Op, depth: int) -> Term | None:
    """An inverse, or solutions side by side, of which those are computed that are needed."""
    if len(op.results) != 1 or tensor_type(op.result).rank != 2 or APPLIED not in forms_of(op):
        return None
    return make("made", leaf(op.result, tensor_type(op.result).dims))


# ---------------------------------------------------------------------------------------- what changes nothing


def _conj(reader: Reader, op: Op, depth: int) -> Term | None:
    found = reader.operand(op, 0, depth)
    return make("conj", found) if tensor_type(op.result).dtype.is_complex else found


def _same(reader: Reader, op: Op, depth: int) -> Term | None:
    """An operator that leaves a value of this type as it is."""
    return reader.operand(op, 0, depth) if op.operands[0].type == op.result.type else None


def _power(reader: Reader, op: Op, depth: int) -> Term | None:
    """Of a matrix that has more to say than its numbers, a product of elements."""
    if op.attrs["exponent"] == 1:
        return _same(reader, op, depth)
    if op.attrs["exponent"] != 2 or tensor_type(op.result).rank != 2 or not same_element(op, op.operands[0]):
        return None
    found = reader.operand(op, 0, depth)
    return make("times", found, found) if says_more(found) else None


_READERS: dict[str, Callable[[Reader, Op, int], Term | None]] = {
    PREFIX + name: reader
    for name, reader in {
        "matmul": _matmul,
        "einsum": _einsum,
        "eye": _eye,
        "full": _full,
        "ones": _full,
        "expand": _expand,
        "permute": _permute,
        "reshape": _reshape,
        **ELEMENTS,
        **FOLDS,
        **ROWS,
        "conj": _conj,
        "wide": _same,
        "cast": _same,
        "power": _power,
        "call": _call,
        Held.name: _held,
    }.items()
}

_TRANSFORMS = frozenset((PREFIX + "fft", PREFIX + "ifft"))
_PRODUCTS = frozenset((PREFIX + "matmul", PREFIX + "einsum"))
_ROOTS = _TRANSFORMS | _PRODUCTS
_ROOTS |= {PREFIX + name for name in ("diagonal", "sum", "mean", "irfft", "permute", "conj")}
_SUMS = frozenset((PREFIX + "add", PREFIX + "sub"))
_TURNS = frozenset(PREFIX + name for name in ("permute", "flip", "roll"))
_CUT = _PRODUCTS | _SUMS | _TURNS | {PREFIX + n for n in ("mul", "div", "neg", "call", "cumsum", "slice")}
_INSIDE = {
    PREFIX + "gather": (any, _PRODUCTS),
    PREFIX + "lookup": (any, _PRODUCTS),
    PREFIX + "add": (all, _TRANSFORMS | _PRODUCTS | _SUMS | _TURNS),
    PREFIX + "sub": (all, _PRODUCTS | _SUMS | _TURNS),
    PREFIX + "mul": (any, frozenset((PREFIX + Eye.name,))),
    PREFIX + "slice": (any, _CUT),
    PREFIX + "cut": (all, _CUT),
}
"""What is read from an operation only where all or any of its operands are made by one of these: what else it adds,
multiplies or cuts is read for itself."""


def is_root(op: Op) -> bool:
    """Whether expressions are read from here."""
    if op.name not in _INSIDE:
        return op.name in _ROOTS
    which, names = _INSIDE[op.name]
    return which(v.defining_op is not None and v.defining_op.name in names for v in op.operands)


# Note [Needed several times]
# `half = a @ a; (half @ half) @ v` needs `half` twice, and nothing else does: it is not computed where the whole
# expression has a cheaper form. While reading, it is not known yet whether what needs a value is itself read as a part
# of the expression: it is taken to be, and where one is not, that value is needed, and all is read once more. What
# stands in a term twice is computed, and counted, once.
