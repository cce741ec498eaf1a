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
    "eye": ("n: int", "op.eye(n)"),
    "zero": ("n: int, m=None", "op.zero(n, n if m is None else m)"),
    "dense": (
        "m, unitary: bool = False, self_adjoint: bool = False, psd: bool = False, normal: bool = False, "
        "diagonal: bool = False, lower: bool = False, upper: bool = False",
        "op.dense(m, unitary=unitary, self_adjoint=self_adjoint, psd=psd, normal=normal, diagonal=diagonal, "
        "lower=lower, upper=upper)",
    ),
    "self_adjoint": ("m", "op.dense(m, self_adjoint=True)"),
    "psd": ("m", "op.dense(m, psd=True)"),
    "unitary": ("m", "op.dense(m, unitary=True)"),
    "diag": ("d", "op.diag(d)"),
    "projector": ("u", "op.projector(u)"),
    "fft": ("n: int", "op.fft(n)"),
    "ifft": ("n: int", "op.ifft(n)"),
    "conv1d": ("k, n=None", "op.conv1d(k, k.shape[0] if n is None else n)"),
    "circulant": ("c", "op.circulant(c)"),
    "toeplitz": ("c, r=None", "op.toeplitz(c) if r is None else op.toeplitz(c, r)"),
    "banded": ("bands, l: int, u: int", "op.banded(bands, l, u)"),
    "permutation": ("p", "op.permutation(p)"),
    "triangular": ("m, lower: bool = True", "op.triangular(m, lower=lower)"),
    "low_rank": ("u, v", "op.low_rank(u, v)"),
    "block_sparse": ("b, r, c, n: int, m=None", "op.block_sparse(b, r, c, n, n if m is None else m)"),
    "block": ("rows", "op.block(rows)"),
    "coo": ("r, c, v, n: int, m=None", "op.coo(r, c, v, n, n if m is None else m)"),
    "csr": ("s, c, v, n: int", "op.csr(s, c, v, n)"),
    "kronecker": ("a, b", "op.kronecker(a, b)"),
    "kronecker_sum": ("a, b", "op.kronecker_sum(a, b)"),
    "direct_sum": ("a, b", "op.direct_sum(a, b)"),
    "implicit": ("f, g, n: int, m=None", "op.implicit(f, g, n, n if m is None else m)"),
    "jacobian": ("f, x", "op.jacobian(f, x)"),
}


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


def _instead(name: str) -> str:
    from tessera.operator import Operator

    if hasattr(Operator, name) and not name.startswith("_"):
        return f"it is a method of operators, `A.{name}`"
    return f"there are {', '.join(_CONSTRUCTORS)}, from_scipy"


def __getattr__(name: str) -> Callable[..., object]:
    if name not in _CONSTRUCTORS:
        raise AttributeError(f"`tessera.op` has no `{name}`; {_instead(name)}")

    def made(*arguments: object, **named: object) -> object:
        device = device_of((*arguments, *named.values()))
        return cast("Callable[..., object]", _module(device)[name])(*arguments, **named)

    made.__name__ = name
    return made


def __dir__() -> list[str]:
    return [*_CONSTRUCTORS, "from_scipy"]
