"""Operators: tier 0 (`scalar.py`, closed) and tier 1 (one class each). Importing this package fills the registry."""

from tesserac.ops import (  # noqa: F401  (each import registers its operators)
    accumulate,
    compare,
    contract,
    convert,
    create,
    cumulative,
    einsum,
    elementary,
    elementwise,
    exponents,
    index,
    join,
    rearrange,
    reduce,
    scalar,
    search,
    shape,
    sort,
    update,
    window,
)
