"""The signature of an operator, read from one line of text.

    (x: N[s..., m, k], y: N[s..., k, n]) -> dot(N)[s..., m, n]
    (x: N[*s], axis: axes = None, keep: bool = False) -> acc(N)[{dims}]

Enters: that text. Leaves: a `Signature`, which the unifier in `unify.py` matches against operands.

- An element is a variable of a class (`N` numbers, `F` floats, `I` integers, `R` real numbers, `C` complex ones, `A`
  floats and complex numbers, `L` bools and integers, `O` what has an order, `E` anything; a digit makes another
  variable), `bool`, `i64` or `u64`. In a result it may go through `acc`, `dot`, `wide`, `real` or `complex`, and
  `{dtype}` is read from the operator's own fields.
- A dim is a variable (`m`), a group of equal dims (`*s`), a group that broadcasts (`s...`), or `{dims}`: of a result
  computed by the operator from its operands and fields, of an operand any dims that its `mismatch` accepts.
- A parameter without brackets is static: it becomes fields of the operator.
- An operand `*x` stands for one or more, given as one list.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property
from typing import Literal

from tesserac.base.dataclass import dataclass

StaticKind = Literal["axis", "axes", "unit_axes", "dims", "order", "bool", "int", "size", "number", "dtype"]
STATIC_KINDS: tuple[StaticKind, ...] = (
    "axis", "axes", "unit_axes", "dims", "order", "bool", "int", "size", "number", "dtype",
)  # fmt: skip

ELEMENT_CLASSES = {
    "N": "fiuc", "F": "f", "I": "iu", "L": "iub", "E": "fiucbs", "V": "fiucb", "R": "fiu", "A": "fc", "C": "c",
    "O": "fiub", "B": "fius",
}  # fmt: skip
"""The dtype kinds that each class of element variables allows."""
ANY_ELEMENT = "E"


def takes_integers_alone(variable: str) -> bool:
    """Whether elements of this variable are integers: an int beside none is then an i64."""
    return set(ELEMENT_CLASSES.get(variable[:1], "")) in ({"i", "u"}, {"i"})


class SignatureError(ValueError):
    """An operator's signature text is malformed: a fault of its author, found at import."""


@dataclass(frozen=True)
class Element:
    """`variable`, possibly through a `function`; a variable in braces comes from the operator's fields."""

    variable: str
    function: str = ""


@dataclass(frozen=True)
class OneDim:
    name: str


@dataclass(frozen=True)
class DimGroup:
    """`*s`: the same dims wherever it stands."""

    name: str


@dataclass(frozen=True)
class BroadcastGroup:
    """`s...`: dims that broadcast against those of the other operands."""

    name: str


@dataclass(frozen=True)
class ComputedDims:
    """`{dims}`: the operator knows."""


DimPattern = OneDim | DimGroup | BroadcastGroup | ComputedDims


@dataclass(frozen=True)
class TensorPattern:
    element: Element
    dims: tuple[DimPattern, ...]

    @cached_property
    def least_rank(self) -> int:
        return sum(isinstance(dim, OneDim) for dim in self.dims)

    @cached_property
    def fixed_rank(self) -> bool:
        return all(isinstance(dim, OneDim) for dim in self.dims)


@dataclass(frozen=True)
class Operand:
    """`many` stands for one or more operands of this pattern."""

    name: str
    pattern: TensorPattern
    many: bool = False


@dataclass(frozen=True)
class StaticParameter:
    """`default` is source text, or None where the argument is required."""

    name: str
    kind: StaticKind
    default: str | None


@dataclass(frozen=True)
class Signature:
    text: str
    operands: tuple[Operand, ...]
    statics: tuple[StaticParameter, ...]
    result: TensorPattern

    def for_count(self, count: int) -> Signature:
        """The signature for so many operands: `*x` as often as it takes."""
        extra = count - len(self.operands)
        if extra <= 0 or not any(operand.many for operand in self.operands):
            return self
        operands = [o for operand in self.operands for o in [operand] * (1 + extra * operand.many)]
        return replace(self, operands=tuple(operands))

    def accepts_ranks(self, ranks: tuple[int, ...]) -> bool:
        patterns = [operand.pattern for operand in self.operands]
        return len(ranks) == len(patterns) and all(
            rank == p.least_rank if p.fixed_rank else rank >= p.least_rank
            for rank, p in zip(ranks, patterns, strict=True)
        )


_PARAMETER = re.compile(r"(\*?\w+)\s*:\s*(\w+)\s*(\[[^\]]*\])?\s*(?:=\s*([^,]+?))?\s*(?:,|$)\s*")
_RESULT = re.compile(r"(?:(\w+)\((\w+)\)|(\w+)|(\{dtype\}))\[(.*)\]")


def parse_signature(text: str) -> Signature:
    match = re.fullmatch(r"\((.*)\)\s*->\s*(.*)", text)
    if match is None:
        raise SignatureError(f"`{text}` has no parameters or no result")
    operands: list[Operand] = []
    statics: list[StaticParameter] = []
    rest = match[1].strip()
    while rest:
        parameter = _PARAMETER.match(rest)
        if parameter is None:
            raise SignatureError(f"`{text}`: cannot read `{rest}`")
        name, kind, dims, default = parameter.groups()
        if dims is not None:
            pattern = TensorPattern(Element(kind), _parse_dims(dims[1:-1], text))
            operands.append(Operand(name.removeprefix("*"), pattern, many=name.startswith("*")))
        else:
            statics.append(StaticParameter(name, _static_kind(kind, text), default))
        rest = rest[parameter.end() :]
    return Signature(text, tuple(operands), tuple(statics), _parse_result(match[2], text))


def _static_kind(kind: str, text: str) -> StaticKind:
    for known in STATIC_KINDS:
        if kind == known:
            return known
    raise SignatureError(f"`{text}`: `{kind}` is no kind of static parameter")


def _parse_result(result: str, text: str) -> TensorPattern:
    match = _RESULT.fullmatch(result.strip())
    if match is None:
        raise SignatureError(f"`{text}`: cannot read the result `{result}`")
    function, argument, plain, computed, dims = match.groups()
    return TensorPattern(Element(argument or plain or computed, function or ""), _parse_dims(dims, text))


def _parse_dims(dims: str, text: str) -> tuple[DimPattern, ...]:
    return tuple(_parse_dim_pattern(part.strip(), text) for part in dims.split(",") if part.strip())


def _parse_dim_pattern(part: str, text: str) -> DimPattern:
    if part == "{dims}":
        return ComputedDims()
    if part.startswith("*") and part[1:].isidentifier():
        return DimGroup(part[1:])
    if part.endswith("...") and part[:-3].isidentifier():
        return BroadcastGroup(part[:-3])
    if part.isidentifier():
        return OneDim(part)
    raise SignatureError(f"`{text}`: `{part}` is no pattern of dims")
