"""How operators take operands of which some are mapped: one more dim, in front.

Enters: an operator, its operands, and which of them are mapped. Leaves: its results for all elements of the mapped dim,
as operators on whole tensors, with that dim in front. An operator names its family, or has a rule of its own: see
Note [One rule for a mapped dim].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Literal, TypeVar

from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.calculus import Writer
from tesserac.ops.registry import Operator
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.dtype import I64
from tesserac.types.policy import NO_POLICY

Mapped = Sequence[bool]
Rule = Callable[[Operator, Writer, Sequence[Value], Mapped], Value]
O = TypeVar("O", bound=Operator)  # noqa: E741


def mapped_size(operands: Sequence[Value], mapped: Mapped) -> Dim:
    """The size of the mapped dim; at least one operand is mapped."""
    return next(tensor_type(v).dims[0] for v, has_dim in zip(operands, mapped, strict=True) if has_dim)


def mapped_whole(write: Writer, operands: Sequence[Value], mapped: Mapped, size: Dim | None = None) -> list[Value]:
    """All operands with the mapped dim: a value that does not depend on it is repeated, as a view."""
    size = mapped_size(operands, mapped) if size is None else size
    pairs = zip(operands, mapped, strict=True)
    return [v if has_dim else write.expand(v, (size, *tensor_type(v).dims)) for v, has_dim in pairs]


def aligned(write: Writer, operands: Sequence[Value], mapped: Mapped, inner: int = 0) -> list[Value]:
    """Operands that broadcast, with unit dims such that the mapped dim meets only itself. The last `inner` dims of each
    take no part in it."""
    own = [max(tensor_type(v).rank - has_dim - inner, 0) for v, has_dim in zip(operands, mapped, strict=True)]
    result = []
    for value, has_dim, rank in zip(operands, mapped, own, strict=True):
        dims = tensor_type(value).dims
        first, rest = (dims[:1], dims[1:]) if has_dim else ((ONE,), dims)
        plain = not has_dim and rank == 0  # nothing of it could meet the mapped dim
        result.append(value if plain else write.reshape(value, (*first, *[ONE] * (max(own) - rank), *rest)))
    return result


def shifted(operator: O) -> O:
    """The operator with its axes one further on, and a first dim that it leaves as it is."""
    changes = {field.name: _ONE_FURTHER[field.name](getattr(operator, field.name))
               for field in fields(operator) if field.name in _ONE_FURTHER}  # fmt: skip
    return replace(operator, **changes)


def _axis(axis: int) -> int:
    """One that counts from the end stays."""
    return axis + 1 if axis >= 0 else axis


_ONE_FURTHER: Mapping[str, Callable[..., object]] = {
    "axis": _axis,
    "axes": lambda axes: tuple(map(_axis, axes)),
    "at": lambda at: at + 1,
    "order": lambda order: (0, *(axis + 1 for axis in order)),
    "starts": lambda starts: (ZERO, *starts),
    "steps": lambda steps: (1, *steps),
}
"""What becomes of the static attributes that speak of axes."""
_WHOLE = ("shape", "sizes")
"""Those that list sizes, of which the mapped one is the first."""


def _by_alignment(operator: Operator, write: Writer, operands: Sequence[Value], mapped: Mapped) -> Value:
    return write.apply(operator, aligned(write, operands, mapped))


def _as_it_is(operator: Operator, write: Writer, operands: Sequence[Value], mapped: Mapped) -> Value:
    return write.apply(operator, mapped_whole(write, operands, mapped))


def _by_shift(operator: Operator, write: Writer, operands: Sequence[Value], mapped: Mapped) -> Value:
    size, moved = mapped_size(operands, mapped), shifted(operator)
    own = {field.name: (size, *getattr(moved, field.name)) for field in fields(moved) if field.name in _WHOLE}
    return write.apply(replace(moved, **own), mapped_whole(write, operands, mapped))


Batching = Literal["aligned", "leading", "shifted"]
FAMILIES: Mapping[Batching, Rule] = {"aligned": _by_alignment, "leading": _as_it_is, "shifted": _by_shift}


# ---------------------------------------------------------------------------------------------- mapped places


def own_rows(write: Writer, indices: Sequence[Value], mapped: Mapped, size: Dim) -> list[Value]:
    """Indices into a tensor with a mapped dim: each element reads and writes its own row."""
    places = [write("cast", index, dtype=I64, policy=NO_POLICY) for index in indices]
    together = aligned(write, places, mapped)
    rank = max(tensor_type(place).rank for place in together)
    rows = write.reshape(write("arange", start=size), (size, *[ONE] * (rank - 1)))
    return [rows, *together]


def after_new_dims(new: int, at: int, rank: int) -> list[int]:
    """The order that moves `new` dims, which stand behind the mapped one, to before dim `at` of the others."""
    behind = list(range(1 + new, rank))
    return [0, *behind[:at], *range(1, 1 + new), *behind[at:]]


# Note [One rule for a mapped dim]
# `vmap` makes no loops: an operator on mapped operands is the operator, or another, on larger tensors. Most belong to a
# family. *aligned* ones broadcast, so that unit dims put the mapped dim in front of all others; *leading* ones take any
# leading dims as they are; *shifted* ones have static attributes that speak of axes. A rule keeps the bits: every
# element of the result is computed in the order in which the operator itself would, since orders of sums are orders
# of the dims that are summed.
