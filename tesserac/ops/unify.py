"""Matches operand types against an operator's signature: the one place where shapes and dtypes meet.

Enters: a `Signature`, operand types, and what "the same size" means (the caller may know facts about symbols).
Leaves: the types of variables, or a `Mismatch` that says which operands and axes disagree, as data; the checker
turns it into a message, an IR verifier into a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ops.signature import (
    ELEMENT_CLASSES,
    BroadcastGroup,
    DimGroup,
    OneDim,
    Operand,
    Signature,
    TensorPattern,
)
from tesserac.types.dims import ONE, Dim
from tesserac.types.dtype import BOOL, F32, I32, I64, U64, DType, complex_of, component
from tesserac.types.policy import NO_POLICY, Policy, compute_dtype
from tesserac.types.ty import TensorType

FIXED = {"bool": BOOL, "i64": I64, "u64": U64}
"""Elements of a signature that are one dtype."""
_FIXED_KINDS = {"bool": "b", "i64": "i", "u64": "iu"}
"""The dtype kinds that may be given for each: what is a u64 may be given as any integer, modulo 2^64."""

SameSize = Callable[[Dim, Dim], bool]
Storage = tuple[DType, Policy]


@dataclass(frozen=True)
class Place:
    """One axis of one operand, counted from the left."""

    operand: int
    axis: int


class Mismatch(Exception):
    """Why operands do not fit; the subclasses say how."""


@dataclass(eq=False)
class DimMismatch(Mismatch):
    """Two dims that one variable or group of the signature makes equal."""

    left: Place
    right: Place


@dataclass(eq=False)
class BroadcastMismatch(Mismatch):
    """Two dims that line up from the right, differ, and are not 1."""

    left: Place
    right: Place


@dataclass(eq=False)
class OuterProduct(Mismatch):
    """`unit` is a 1 that would stretch only because `extended`, of lower rank, is given new leading dims."""

    unit: Place
    extended: Place


@dataclass(eq=False)
class RankMismatch(Mismatch):
    """An operand has too few or too many dims."""

    operand: int


@dataclass(eq=False)
class DTypeMismatch(Mismatch):
    """Two operands of one element variable have different dtypes."""

    left: int
    right: int


@dataclass(eq=False)
class PolicyMismatch(Mismatch):
    """Two operands of one element variable have different policies."""

    left: int
    right: int


@dataclass(eq=False)
class KindMismatch(Mismatch):
    """The operator does not work on this operand's dtype; `kinds` are those it works on."""

    operand: int
    kinds: str


@dataclass(eq=False)
class OtherBits(Mismatch):
    """The bits of an operand would be read as a value of `dtype`, which has more or fewer of them."""

    operand: int
    dtype: DType


@dataclass(eq=False)
class LostPart(Mismatch):
    """A complex operand would become a value of `dtype`, which has no imaginary part."""

    operand: int
    dtype: DType


@dataclass(eq=False)
class UnknownWord(Mismatch):
    """The operator says of itself what nobody reads."""

    word: str


def choose(signatures: Sequence[Signature], ranks: tuple[int, ...]) -> Signature:
    """The alternative for these ranks; signatures of one operator differ in nothing else."""
    for signature in signatures:
        if signature.accepts_ranks(ranks):
            return signature
    widest = max(signatures, key=lambda s: sum(o.pattern.least_rank for o in s.operands))
    for position, (operand, rank) in enumerate(zip(widest.operands, ranks, strict=True)):
        if rank < operand.pattern.least_rank or operand.pattern.fixed_rank:
            raise RankMismatch(position)
    raise RankMismatch(0)


def match_elements(
    operands: Sequence[Operand], types: Sequence[TensorType | None], mixes_fp8: bool
) -> dict[str, Storage]:
    """What each element variable stands for; an operand whose dtype is still open is None."""
    bound: dict[str, Storage] = {name: (dtype, NO_POLICY) for name, dtype in FIXED.items()}
    first: dict[str, int] = {}
    for position, (operand, ty) in enumerate(zip(operands, types, strict=True)):
        if ty is None:
            continue
        variable = operand.pattern.element.variable
        _require_kind(variable, ty, position)
        if variable in FIXED:
            continue
        if variable not in first:
            bound[variable], first[variable] = (ty.dtype, ty.policy), position
        else:
            bound[variable] = _merge(bound[variable], ty, first[variable], position, mixes_fp8)
    return bound


def _require_kind(variable: str, ty: TensorType, position: int) -> None:
    kinds = _FIXED_KINDS[variable] if variable in FIXED else ELEMENT_CLASSES[variable[0]]
    if ty.dtype.kind not in kinds:
        raise KindMismatch(position, kinds)


def _merge(bound: Storage, ty: TensorType, left: int, right: int, mixes_fp8: bool) -> Storage:
    dtype, policy = bound
    both_fp8 = dtype.is_fp8 and ty.dtype.is_fp8 and mixes_fp8
    if dtype != ty.dtype and not both_fp8:
        raise DTypeMismatch(left, right)
    if policy == NO_POLICY or ty.policy == NO_POLICY:
        return dtype, (ty.policy if policy == NO_POLICY else policy)
    agrees = policy.accum == ty.policy.accum if both_fp8 else policy == ty.policy
    if not agrees:
        raise PolicyMismatch(left, right)
    return dtype, policy


class DimMatcher:
    """Binds the dim variables and groups of a signature, operand by operand."""

    def __init__(self, same: SameSize) -> None:
        self._same = same
        self._dims: dict[str, tuple[Dim, Place]] = {}
        self._groups: dict[str, tuple[tuple[Dim, ...], Place]] = {}
        self._broadcasts: dict[str, list[tuple[tuple[Dim, ...], Place]]] = {}

    def bind(self, position: int, pattern: TensorPattern, dims: tuple[Dim, ...]) -> None:
        width = len(dims) - pattern.least_rank
        axis = 0
        for part in pattern.dims:
            if isinstance(part, OneDim):
                self._bind_one(part.name, dims[axis], Place(position, axis))
                axis += 1
            elif isinstance(part, DimGroup):
                self._bind_group(part.name, dims[axis : axis + width], Place(position, axis))
                axis += width
            elif isinstance(part, BroadcastGroup):
                group = dims[axis : axis + width], Place(position, axis)
                self._broadcasts.setdefault(part.name, []).append(group)
                axis += width

    def _bind_one(self, name: str, dim: Dim, place: Place) -> None:
        bound, where = self._dims.setdefault(name, (dim, place))
        if not self._same(bound, dim):
            raise DimMismatch(where, place)

    def _bind_group(self, name: str, dims: tuple[Dim, ...], place: Place) -> None:
        bound, where = self._groups.setdefault(name, (dims, place))
        if len(bound) != len(dims):
            raise RankMismatch(place.operand)
        for offset, (left, right) in enumerate(zip(bound, dims, strict=True)):
            if not self._same(left, right):
                raise DimMismatch(Place(where.operand, where.axis + offset), Place(place.operand, place.axis + offset))

    def result(self, pattern: TensorPattern) -> tuple[Dim, ...]:
        dims: list[Dim] = []
        for part in pattern.dims:
            if isinstance(part, OneDim):
                dims.append(self._dims[part.name][0])
            elif isinstance(part, DimGroup):
                dims.extend(self._groups[part.name][0])
            elif isinstance(part, BroadcastGroup):
                dims.extend(broadcast(self._broadcasts[part.name], self._same))
        return tuple(dims)


def broadcast(shapes: Sequence[tuple[tuple[Dim, ...], Place]], same: SameSize) -> tuple[Dim, ...]:
    """The shape that groups of dims have together, lined up from the right.

    A unit dim does not stretch for the sake of an operand of lower rank alone: `[N, 1] - [N]` is an error.
    """
    first = shapes[0][0]
    if all(dims == first for dims, _ in shapes):  # nothing stretches, as in most operations
        return first
    rank = max(len(dims) for dims, _ in shapes)
    return tuple(_broadcast_axis(shapes, rank, axis, same) for axis in range(rank))


def _broadcast_axis(shapes: Sequence[tuple[tuple[Dim, ...], Place]], rank: int, axis: int, same: SameSize) -> Dim:
    present: list[tuple[Dim, Place, bool]] = []
    for dims, start in shapes:
        own = axis - (rank - len(dims))
        if own >= 0:
            present.append((dims[own], Place(start.operand, start.axis + own), len(dims) < rank))
    wide = [entry for entry in present if entry[0] != ONE]
    if not wide:
        return ONE
    for other in wide[1:]:
        if not same(wide[0][0], other[0]):
            raise BroadcastMismatch(wide[0][1], other[1])
    units = [place for dim, place, extended in present if dim == ONE and not extended]
    if units and all(extended for _, _, extended in wide):
        raise OuterProduct(units[0], wide[0][1])
    return wide[0][0]


_WIDER_SUM = {"i": I64, "u": U64, "b": I64}


def result_storage(function: str, storage: Storage) -> Storage:
    """The element of a result: `acc` widens integer sums, `dot` i8 and i4 products, `wide` is the accumulator,
    `real` the dtype of a part of complex numbers, `complex` that of numbers with such parts."""
    dtype, policy = storage
    if function == "acc":
        return _WIDER_SUM.get(dtype.kind, dtype), policy
    if function == "dot":
        return (I32, NO_POLICY) if dtype.kind == "i" and dtype.bits < 16 else storage
    if function == "real":
        return component(dtype), policy if not dtype.is_complex else NO_POLICY
    if function == "complex":
        whole = dtype if dtype.is_complex else complex_of(dtype)
        assert whole is not None, f"no complex numbers of {dtype}"
        return whole, NO_POLICY
    if function == "wide":
        return F32 if dtype.is_stored else compute_dtype(dtype, policy), NO_POLICY
    assert not function, f"no element function {function}"
    return storage
