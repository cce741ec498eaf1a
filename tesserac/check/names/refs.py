"""What a name can mean, and the names that the language itself has.

Enters: nothing. Leaves: the meanings that `resolve.py` finds, and lists of names.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ops.registry import Operator
from tesserac.types.dtype import DType


@dataclass(frozen=True)
class FunctionRef:
    """A function of the module called `owner`."""

    owner: str
    name: str


@dataclass(frozen=True)
class ConstantRef:
    owner: str
    name: str


@dataclass(frozen=True)
class OperatorRef:
    op: type[Operator]


@dataclass(frozen=True)
class BuiltinRef:
    """A function that the checker itself knows."""

    name: str


@dataclass(frozen=True)
class DTypeRef:
    dtype: DType


@dataclass(frozen=True)
class LibraryRef:
    """The whole library under a name: `import tessera.stdlib as t`."""


@dataclass(frozen=True)
class NamespaceRef:
    """A part of the language under a name: `op.eye`, `tile.load`, `dist.Mesh`, `kernel.auto`."""

    name: str


@dataclass(frozen=True)
class ReportedRef:
    """A name without a meaning, whose item has said why: uses of it are no further mistakes."""


@dataclass(frozen=True)
class StructRef:
    """A struct of the module called `owner`."""

    owner: str
    name: str


@dataclass(frozen=True)
class ParamRef:
    """A param of the module called `owner`."""

    owner: str
    name: str


@dataclass(frozen=True)
class ModuleRef:
    """Another file under a name: `import layers as L`."""

    owner: str


Resolved = (
    FunctionRef
    | ConstantRef
    | StructRef
    | ParamRef
    | ModuleRef
    | OperatorRef
    | BuiltinRef
    | DTypeRef
    | LibraryRef
    | NamespaceRef
    | ReportedRef
)

TRANSFORMS = (
    "grad", "value_and_grad", "jvp", "vjp", "jacfwd", "jacrev", "hessian", "hvp",
    "vmap", "pmap", "map", "scan", "reduce", "jit", "autodiff", "checkpoint", "remat",
)  # fmt: skip
"""Functions of functions."""
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
"""Functions that the devices of a mesh compute together."""
FORWARD_RULE, REVERSE_RULE = "jvp_of", "vjp_of"
DERIVATIVE_RULES = (FORWARD_RULE, REVERSE_RULE)
"""Decorators of a function that is the derivative of another, forward and in reverse."""
BUILTINS = (
    "range", "float", "int", "print", "narrow", "transpose", "len", "ceil_div", "isinstance", "key", "next_key",
    "zip", "enumerate", "rearrange", "numerics", "device", "prefetch", "Schedule", "pipeline", "tree_map", "leaves",
    *COLLECTIVES, *TRANSFORMS,
)  # fmt: skip
NAMESPACES = ("op", "tile", "dist", "kernel", "graph", "verify")
ALGEBRA = "op."
"""How the names of rules for operators as values start."""
CONSTRUCTORS = (
    "eye", "diag", "fft", "ifft", "conv1d", "permutation", "triangular", "banded", "toeplitz", "circulant", "block",
    "jacobian", "coo", "csr", "kronecker_sum",
)  # fmt: skip
"""Names that stand for operators after `op.`, and for functions of tensors, or nothing, without it."""
OPERATIONS = (
    "zero", "dense", "projector", "kronecker", "direct_sum", "low_rank", "block_sparse", "implicit",
    "apply", "compose", "adjoint", "tensor", "plus", "scale", "commutator", "sym", "skew", "resolvent",
    "spectral", "truncate", "reconstruct", "pseudoinverse", "is_unitary", "spectral_radius", "inverse", "logdet",
    "to_dense",
)  # fmt: skip
"""Names that mean operators everywhere."""
