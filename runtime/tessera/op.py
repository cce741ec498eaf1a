"""Operators made in Python: `tessera.op.diag(d)`, `tessera.op.kronecker(A, B)`, `tessera.op.from_scipy(matrix)`.

Each is what `op.diag`, ... of the language gives, as a `tessera.Operator`, on the device that its arrays lie on. Sizes
are ints, and functions those of a module: `tessera.op.jacobian(m.residual, x)`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, cast

from tessera.devices import CPU
from tessera.errors import WRONG_KIND, failure
from tessera.operator import device_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tessera.module import Module
    from tessera.operator import Operator

_CONSTRUCTORS = {
    "eye": ("size: int, *, dtype=None", "op.eye(size, dtype=dtype)"),
    "zero": (
        "domain: int, codomain=None, *, dtype=None",
        "op.zero(domain, domain if codomain is None else codomain, dtype=dtype)",
    ),
    "dense": (
        "matrix, *, unitary: bool = False, self_adjoint: bool = False, psd: bool = False, normal: bool = False, "
        "diagonal: bool = False, lower: bool = False, upper: bool = False",
        "op.dense(matrix, unitary=unitary, self_adjoint=self_adjoint, psd=psd, normal=normal, diagonal=diagonal, "
        "lower=lower, upper=upper)",
    ),
    "self_adjoint": ("matrix", "op.dense(matrix, self_adjoint=True)"),
    "psd": ("matrix", "op.dense(matrix, psd=True)"),
    "unitary": ("matrix", "op.dense(matrix, unitary=True)"),
    "diag": ("entries", "op.diag(entries)"),
    "projector": ("basis", "op.projector(basis)"),
    "fft": ("size=None, *, dtype=None", "op.fft(dtype=dtype) if size is None else op.fft(size, dtype=dtype)"),
    "ifft": ("size=None, *, dtype=None", "op.ifft(dtype=dtype) if size is None else op.ifft(size, dtype=dtype)"),
    "conv1d": ("taps, size=None", "op.conv1d(taps, taps.shape[0] if size is None else size)"),
    "circulant": ("column", "op.circulant(column)"),
    "toeplitz": ("column, row=None", "op.toeplitz(column) if row is None else op.toeplitz(column, row)"),
    "banded": ("bands, lower: int, upper: int", "op.banded(bands, lower, upper)"),
    "permutation": ("order, *, dtype=None", "op.permutation(order, dtype=dtype)"),
    "triangular": ("matrix, *, lower: bool = True", "op.triangular(matrix, lower=lower)"),
    "low_rank": ("left, right", "op.low_rank(left, right)"),
    "block_sparse": (
        "blocks, rows, columns, domain: int, codomain=None",
        "op.block_sparse(blocks, rows, columns, domain, domain if codomain is None else codomain)",
    ),
    "block": ("rows", "op.block(rows)"),
    "coo": (
        "rows, columns, values, domain: int, codomain=None",
        "op.coo(rows, columns, values, domain, domain if codomain is None else codomain)",
    ),
    "csr": ("starts, columns, values, domain: int", "op.csr(starts, columns, values, domain)"),
    "kronecker": ("left, right", "op.kronecker(left, right)"),
    "tensor": ("left, right", "op.tensor(left, right)"),
    "kron": ("left, right", "op.kron(left, right)"),
    "kronecker_sum": ("left, right", "op.kronecker_sum(left, right)"),
    "direct_sum": ("left, right", "op.direct_sum(left, right)"),
    "implicit": (
        "forward, backward, domain: int, codomain=None",
        "op.implicit(forward, backward, domain, domain if codomain is None else codomain)",
    ),
    "jacobian": ("function, point", "op.jacobian(function, point)"),
}
"""Their parameters have the names that the language gives them."""
_DTYPES = ("f32", "f64", "c64", "c128")


@cache
def _module(device: str) -> Module:
    import tessera

    bodies = [f"def {name}({given}):\n    return {body}\n" for name, (given, body) in _CONSTRUCTORS.items()]
    return tessera.compile("\n".join(bodies), device=device)


def from_scipy(matrix: Any) -> Operator:
    """A sparse matrix of SciPy's: its stored entries, as they are."""
    if not hasattr(matrix, "tocoo"):
        what = f"`from_scipy` takes a sparse matrix of SciPy's, not a `{type(matrix).__name__}`"
        raise failure(WRONG_KIND, what, ("`tessera.op.dense(matrix)` takes an array",))
    entries = matrix.tocoo()
    if entries.data.dtype.kind not in "fc":
        what = f"an operator has floats or complex numbers, and this matrix {entries.data.dtype}"
        raise failure(WRONG_KIND, what, ('`matrix.astype("float32")` has floats',))
    rows, columns = (cast("Any", places).astype("int64") for places in (entries.row, entries.col))
    height, width = entries.shape
    return cast("Operator", _module(CPU)["coo"](rows, columns, entries.data, width, height))


def _dtype_name(dtype: object) -> object:
    """The name of a dtype as the language or NumPy says it; what neither knows is left to the language to refuse."""
    if dtype is None or (isinstance(dtype, str) and dtype in _DTYPES):
        return dtype
    import numpy as np

    try:
        return np.dtype(cast("Any", dtype)).name
    except TypeError:
        return str(dtype)


def _instead(name: str) -> str:
    from tessera.operator import Operator

    if hasattr(Operator, name) and not name.startswith("_"):
        return f"it is a method of operators, `A.{name}`"
    return f"there are {', '.join(_CONSTRUCTORS)}, from_scipy"


def __getattr__(name: str) -> Callable[..., object]:
    if name not in _CONSTRUCTORS:
        raise AttributeError(f"`tessera.op` has no `{name}`; {_instead(name)}")

    def made(*arguments: object, **named: object) -> object:
        if "dtype" in named:
            named["dtype"] = _dtype_name(named["dtype"])
        device = device_of((*arguments, *named.values()))
        return cast("Callable[..., object]", _module(device)[name])(*arguments, **named)

    made.__name__ = name
    return made


def __dir__() -> list[str]:
    return [*_CONSTRUCTORS, "from_scipy"]
