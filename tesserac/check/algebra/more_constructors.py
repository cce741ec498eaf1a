"""`op.permutation`, `op.triangular`, `op.banded`, `op.toeplitz`, `op.block`, `op.jacobian`, `op.coo`, `op.csr`.

Enters: checked arguments by name. Leaves: an operator value, or an error expression after a diagnostic.
"""

from __future__ import annotations

from tesserac.check.algebra.applying import Application
from tesserac.check.algebra.base import Kind
from tesserac.check.algebra.combined import Zero
from tesserac.check.algebra.constructors import (
    Given,
    flag_value,
    function_leaf,
    has_good_dtype,
    indices_leaf,
    length_of,
    said_dtype,
    size_leaf,
    tensor_leaf,
    use_value,
    wrong_kind,
)
from tesserac.check.algebra.operands import read, refuse_operand, require_fit, require_size, require_square
from tesserac.check.algebra.pool import Pool
from tesserac.check.algebra.products import Grid
from tesserac.check.algebra.structured import Banded, Jacobian, Permutation, Sparse, Toeplitz, Triangular
from tesserac.check.model import typed
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.check.values.tuples import item_of, tuple_items
from tesserac.types.algebra import Leaf
from tesserac.types.dims import ONE, Dim
from tesserac.types.ty import ErrorType, IntType, TensorType, TupleType


def permutation(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`(P @ x)[i] = x[order[i]]`; that each index is there once is looked at when the program runs."""
    pool = Pool(body)
    order = indices_leaf(pool, given["order"])
    if order is None or not has_good_dtype(pool, given):
        return body.error(callee.span)
    checked = Application(pool, callee).call("structured._checked_permutation", given["order"])
    return pool.value(Permutation(pool.add(checked), dtype=said_dtype(given)), callee.span)


def triangular(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """The lower triangle of a matrix, or the upper one."""
    pool = Pool(body)
    matrix = tensor_leaf(pool, given["matrix"], 2)
    lower = flag_value(body, given["lower"]) if "lower" in given else True
    if matrix is None or lower is None:
        return body.error(callee.span)
    tree = Triangular(matrix, lower)
    square = require_square(pool, tree, given["matrix"], callee)
    return pool.value(tree, callee.span) if square else body.error(callee.span)


def banded(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`op.banded(bands, lower, upper)`: diagonals as SciPy's `solve_banded` takes them."""
    pool = Pool(body)
    bands = tensor_leaf(pool, given["bands"], 2)
    lower, upper = (size_leaf(pool, given[name]) for name in ("lower", "upper"))
    if bands is None or lower is None or upper is None:
        return body.error(callee.span)
    count = _int(pool, lower) + _int(pool, upper) + ONE
    what = "`bands` needs {wanted} rows for these diagonals, and has {found}"
    fits = require_fit(body, callee, (count, length_of(pool, bands)), given["lower"], given["bands"], what)
    return pool.value(Banded(bands, upper), callee.span) if fits else body.error(callee.span)


def _int(pool: Pool, leaf: Leaf) -> Dim:
    type_ = pool.types[leaf.index]
    assert isinstance(type_, IntType)
    return type_.value


def toeplitz(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """Of its first column and its first row; without one, the row is the conjugated column."""
    pool = Pool(body)
    column = tensor_leaf(pool, given["column"], 1)
    if column is None:
        return body.error(callee.span)
    other = tensor_leaf(pool, given["row"], 1) if "row" in given else _conjugated(pool, column, callee)
    return body.error(callee.span) if other is None else pool.value(Toeplitz(column, other), callee.span)


def _conjugated(pool: Pool, leaf: Leaf, callee: Callee) -> Leaf:
    """Real numbers are one value with their conjugates, so that laws see that both are the same."""
    type_ = pool.types[leaf.index]
    is_complex = isinstance(type_, TensorType) and type_.dtype.is_complex
    value = use_value(pool, leaf)
    return pool.add(Application(pool, callee).call("structured._conjugated", value)) if is_complex else leaf


def block(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`op.block([[A, B], [C, D]])`; 0 stands for a zero operator."""
    rows = given["rows"]
    lists = tuple_items(rows, rows.span) if isinstance(rows.type, TupleType) else []
    if not lists or not all(isinstance(row.type, TupleType) for row in lists):
        return refuse_operand(body, callee, rows.span, "`op.block` takes a list of rows, each a list of operators")
    parts = [list(tuple_items(row, row.span)) for row in lists]
    if len({len(row) for row in parts}) != 1 or not parts[0]:
        return refuse_operand(body, callee, rows.span, "every row of `op.block` has as many operators as the others")
    return _grid(body, callee, parts)


def _grid(body: Body, callee: Callee, parts: list[list[typed.Expr]]) -> typed.Expr:
    pool = Pool(body)
    read_rows = [[None if _is_zero(part) else read(pool, part, callee) for part in row] for row in parts]
    pairs = [(t, p) for row, own in zip(read_rows, parts, strict=True) for t, p in zip(row, own, strict=True)]
    if any(tree is None and not _is_zero(part) for tree, part in pairs):
        return body.error(callee.span)
    if not all(require_size(body, tree, part, callee) for tree, part in pairs if tree is not None):
        return body.error(callee.span)
    if not _fit(pool, callee, read_rows, parts):
        return body.error(callee.span)
    filled = _filled(pool, callee, read_rows)
    if filled is None:
        problem = "a row and a column of `op.block` each have an operator that is not 0"
        return refuse_operand(body, callee, callee.span, problem)
    return pool.value(Grid(filled), callee.span)


def _is_zero(part: typed.Expr) -> bool:
    return isinstance(part.type, IntType) and part.type.value.constant == 0


Rows = list[list[Kind | None]]


def _fit(pool: Pool, callee: Callee, rows: Rows, parts: list[list[typed.Expr]]) -> bool:
    """Whether all of a row give the same, and all of a column take the same."""
    by_column = (list(map(list, zip(*rows, strict=True))), list(map(list, zip(*parts, strict=True))))
    for side, (lines, values) in ((1, (rows, parts)), (0, by_column)):
        what = ("operators of a column take the same", "operators of a row give the same")[side]
        for line, own in zip(lines, values, strict=True):
            known = [(tree, value) for tree, value in zip(line, own, strict=True) if tree is not None]
            for tree, value in known[1:]:
                sizes = (known[0][0].shape(pool.types)[side], tree.shape(pool.types)[side])
                text = what + "; here {wanted} meets {found}"
                if not require_fit(pool.body, callee, sizes, known[0][1], value, text):
                    return False
    return True


def _filled(pool: Pool, callee: Callee, rows: Rows) -> tuple[tuple[Kind, ...], ...] | None:
    """The grid with zero operators of the right size for those left out; None where nothing tells that size."""
    gives = [next((t.shape(pool.types)[1] for t in row if t is not None), None) for row in rows]
    columns = list(map(list, zip(*rows, strict=True)))
    takes = [next((t.shape(pool.types)[0] for t in column if t is not None), None) for column in columns]
    if any(size is None for size in (*gives, *takes)):
        return None
    found = []
    for row, out in zip(rows, gives, strict=True):
        own: list[Kind] = []
        for tree, into in zip(row, takes, strict=True):
            assert out is not None and into is not None
            zero = Zero(pool.size(into, callee.span), pool.size(out, callee.span))
            own.append(zero if tree is None else tree)
        found.append(tuple(own))
    return tuple(found)


def jacobian(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`op.jacobian(f, x)`: the derivative of a function from vectors to vectors, at x."""
    pool = Pool(body)
    function, point = function_leaf(pool, given["function"]), tensor_leaf(pool, given["point"], 1)
    if function is None or point is None:
        return body.error(callee.span)
    value = Application(pool, callee).call("structured._value_of", use_value(pool, function), given["point"])
    if isinstance(value.type, ErrorType):
        return value
    if not isinstance(value.type, TensorType) or value.type.rank != 1:
        wrong_kind(pool, given["function"], "a function that gives a vector, a tensor with one dim")
        return body.error(callee.span)
    size = pool.size(value.type.dims[0], callee.span)
    return pool.value(Jacobian(function, point, size), callee.span)


def coo(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`op.coo(rows, columns, values, Din, Dout)`: entry k stands in row rows[k] and column columns[k]."""
    pool = Pool(body)
    values = tensor_leaf(pool, given["values"], 1)
    places = [indices_leaf(pool, given[name]) for name in ("rows", "columns")]
    domain, codomain = (size_leaf(pool, given.get(name, given["domain"])) for name in ("domain", "codomain"))
    if values is None or None in places or domain is None or codomain is None:
        return body.error(callee.span)
    for name in ("rows", "columns"):
        what = "there are {wanted} values, and {found} numbers of " + name
        leaf = indices_leaf(pool, given[name])
        assert leaf is not None
        counts = (length_of(pool, values), length_of(pool, leaf))
        if not require_fit(body, callee, counts, given["values"], given[name], what):
            return body.error(callee.span)
    return _sparse(pool, callee, given["rows"], given, (domain, codomain))


def csr(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`op.csr(starts, columns, values, Din)`: row i has the entries starts[i] up to starts[i + 1]."""
    pool = Pool(body)
    values, starts = tensor_leaf(pool, given["values"], 1), indices_leaf(pool, given["starts"])
    columns, domain = indices_leaf(pool, given["columns"]), size_leaf(pool, given["domain"])
    if values is None or starts is None or columns is None or domain is None:
        return body.error(callee.span)
    what = "there are {wanted} values, and {found} numbers of columns"
    counts = (length_of(pool, values), length_of(pool, columns))
    if not require_fit(body, callee, counts, given["values"], given["columns"], what):
        return body.error(callee.span)
    codomain = pool.size(length_of(pool, starts) - ONE, callee.span)
    rows = Application(pool, callee).call("structured._rows_of", given["starts"], given["values"])
    return _sparse(pool, callee, rows, given, (domain, codomain))


def _sparse(pool: Pool, callee: Callee, rows: typed.Expr, given: Given, sizes: tuple[Leaf, Leaf]) -> typed.Expr:
    """That every entry lies inside is looked at when the program runs."""
    domain, codomain = sizes
    use = Application(pool, callee)
    parts = (given["values"], rows, given["columns"], pool.values[codomain.index], pool.values[domain.index])
    places = use.call("structured._checked_entries", *parts)
    if isinstance(places.type, ErrorType):
        return places
    own = [pool.add(item_of(places, i, callee.span)) for i in range(2)]
    return pool.value(Sparse(pool.add(given["values"]), own[0], own[1], domain, codomain), callee.span)
