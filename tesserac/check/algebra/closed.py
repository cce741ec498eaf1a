"""Operators of which every number is known while compiling: their matrices, of few rows, by which a question that the
laws leave open is answered.

Enters: a tree. Leaves: its matrix, None where a run has a say or there are many rows; whether two differ, or a flag is
refuted, by more than rounding.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Sequence

from tesserac.check.algebra.base import Kind
from tesserac.check.algebra.combined import Compose, Conjugate, Eye, Factor, Scaled, Sum, Zero
from tesserac.check.algebra.kinds import Fourier
from tesserac.check.algebra.pool import Pool
from tesserac.check.algebra.products import DirectSum, Kronecker
from tesserac.types.ty import IntType

Matrix = list[list[complex]]
MOST_ROWS = 32
"""A product of two takes the third power of it, in Python."""
_ROUNDING = 1e-9


def matrix_of(pool: Pool, tree: Kind) -> Matrix | None:
    sizes = tree.shape(pool.types)
    if any(size is None or size.constant is None or not 0 < size.constant <= MOST_ROWS for size in sizes):
        return None
    match tree:
        case Eye():
            return _square(pool, tree, lambda i, j, size: float(i == j))
        case Fourier(is_inverse=is_inverse):
            return _square(pool, tree, lambda i, j, size: _wave(i * j % size, size, is_inverse))
        case Zero():
            columns, rows = (int(size.constant or 0) for size in sizes if size is not None)
            return [[0.0] * columns for _ in range(rows)]
        case Conjugate(of=of):
            return _each(matrix_of(pool, of), complex.conjugate)
        case Scaled():
            return _scaled(pool, tree)
    return _of_parts(pool, tree)


def _of_parts(pool: Pool, tree: Kind) -> Matrix | None:
    match tree:
        case Sum(terms=parts):
            return _folded([matrix_of(pool, part) for part in parts], _added)
        case Compose(factors=parts):
            return _folded([matrix_of(pool, part) for part in parts], _multiplied)
        case Kronecker(left=one, right=two):
            return _folded([matrix_of(pool, one), matrix_of(pool, two)], _kronecker)
        case DirectSum(first=one, second=two):
            return _folded([matrix_of(pool, one), matrix_of(pool, two)], _direct_sum)
    return None


def differ(pool: Pool, one: Kind, two: Kind) -> bool:
    """Whether two operators of known numbers are certainly not equal."""
    a, b = matrix_of(pool, one), matrix_of(pool, two)
    return a is not None and b is not None and not _is_close(a, b)


def refutes(pool: Pool, tree: Kind, flag: str) -> bool:
    a = matrix_of(pool, tree)
    return a is not None and flag in _HOLDS and not _HOLDS[flag](a)


# -------------------------------------------------------------------------------------------------------- matrices


def _square(pool: Pool, tree: Kind, entry: Callable[[int, int, int], complex]) -> Matrix:
    rows = tree.shape(pool.types)[0]
    assert rows is not None and rows.constant is not None
    size = int(rows.constant)
    return [[entry(i, j, size) for j in range(size)] for i in range(size)]


def _wave(turns: int, size: int, is_inverse: bool) -> complex:
    found = cmath.exp((2j if is_inverse else -2j) * cmath.pi * turns / size)
    return found / size if is_inverse else found


def _scaled(pool: Pool, tree: Scaled) -> Matrix | None:
    """The numbers in front may be sizes."""
    number = tree.coefficient
    for factor in tree.factors:
        size = _known_factor(pool, factor)
        if not size:
            return None
        number = number / size if factor.reciprocal else number * size
    return _each(matrix_of(pool, tree.of), lambda x: number * x)


def _known_factor(pool: Pool, factor: Factor) -> float | None:
    type_ = pool.types[factor.leaf.index]
    return float(type_.value.constant or 0) if isinstance(type_, IntType) else None


def _each(a: Matrix | None, change: Callable[[complex], complex]) -> Matrix | None:
    return None if a is None else [[change(complex(x)) for x in row] for row in a]


def _folded(parts: Sequence[Matrix | None], join: Callable[[Matrix, Matrix], Matrix]) -> Matrix | None:
    found = parts[0]
    for part in parts[1:]:
        if found is None or part is None:
            return None
        found = join(found, part)
    return found


def _added(a: Matrix, b: Matrix) -> Matrix:
    return [[x + y for x, y in zip(*rows, strict=True)] for rows in zip(a, b, strict=True)]


def _multiplied(a: Matrix, b: Matrix) -> Matrix:
    columns = list(zip(*b, strict=True))
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in columns] for row in a]


def _kronecker(a: Matrix, b: Matrix) -> Matrix:
    return [[x * y for x in one for y in two] for one in a for two in b]


def _direct_sum(a: Matrix, b: Matrix) -> Matrix:
    left, right = len(a[0]), len(b[0])
    return [[*row, *[0.0] * right] for row in a] + [[*[0.0] * left, *row] for row in b]


# ----------------------------------------------------------------------------------------------------------- flags


def _adjoint(a: Matrix) -> Matrix:
    return [[complex(x).conjugate() for x in column] for column in zip(*a, strict=True)]


def _is_close(a: Matrix, b: Matrix) -> bool:
    largest = max((abs(x) for part in (a, b) for row in part for x in row), default=0.0)
    gaps = (abs(x - y) for one, two in zip(a, b, strict=True) for x, y in zip(one, two, strict=True))
    return max(gaps, default=0.0) <= _ROUNDING * largest


def _is_zero(a: Matrix, where: Callable[[int, int], bool]) -> bool:
    kept: Matrix = [[x * where(i, j) for j, x in enumerate(row)] for i, row in enumerate(a)]
    return _is_close(a, _added(a, kept))


def _is_unitary(a: Matrix) -> bool:
    one: Matrix = [[float(i == j) for j in range(len(a[0]))] for i in range(len(a[0]))]
    return len(a) == len(a[0]) and _is_close(_multiplied(_adjoint(a), a), one)


def _is_self_adjoint(a: Matrix) -> bool:
    return len(a) == len(a[0]) and _is_close(a, _adjoint(a))


def _is_normal(a: Matrix) -> bool:
    turned = _adjoint(a)
    return len(a) == len(a[0]) and _is_close(_multiplied(a, turned), _multiplied(turned, a))


def _may_be_psd(a: Matrix) -> bool:
    """Of a matrix without a negative eigenvalue no entry of the diagonal is."""
    largest = max(abs(x) for row in a for x in row)
    return _is_self_adjoint(a) and all(complex(a[i][i]).real >= -_ROUNDING * largest for i in range(len(a)))


def _is_lower(a: Matrix) -> bool:
    return _is_zero(a, lambda i, j: j > i)


def _is_upper(a: Matrix) -> bool:
    return _is_zero(a, lambda i, j: j < i)


_HOLDS: dict[str, Callable[[Matrix], bool]] = {
    "unitary": _is_unitary,
    "self_adjoint": _is_self_adjoint,
    "normal": _is_normal,
    "psd": _may_be_psd,
    "diagonal": lambda a: _is_lower(a) and _is_upper(a),
    "lower": _is_lower,
    "upper": _is_upper,
    "triangular": lambda a: _is_lower(a) or _is_upper(a),
}
