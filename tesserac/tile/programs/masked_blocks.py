"""Blocks that a mask proves empty: a loop over blocks need not come to them.

    s = where(columns <= rows, s, -INF)     in a loop over blocks of columns: none behind the program's last row counts

Enters: a loop over blocks, in forms. Leaves: bounds of its dim outside of which nothing that the loop carries changes.
Two things are proved. Where the condition is false for a whole block, all tiles that it masks are one number
throughout, -inf or 0; and with that in their place every carried value comes out of the body as it went in: followed
from form to form by what is known of tiles, which is that they are one number, or a carried value as it was, or
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf, isfinite

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.types import ScalarType
from tesserac.numerics.approximate import SUFFIX
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.dtype import F32, F64

# ------------------------------------------------------------------------------------------- what is known of tiles


@dataclass(frozen=True)
class Known:
    """A tile that is this number throughout."""

    number: float


@dataclass(frozen=True)
class Carried:
    """What a loop carries, as it was."""

    value: Value


@dataclass(frozen=True)
class Size:
    """A tile that is a finite number throughout which is not negative, being a size, or a root of one."""


@dataclass(frozen=True)
class Positive:
    """A tile that is a number above 0 throughout, perhaps an infinite one."""


Fact = Known | Carried | Size | Positive | None
ROOTS: Mapping[str, Fact] = {"sqrt": Size(), "rsqrt": Positive()}
WIDE = (ScalarType(F32), ScalarType(F64))
"""Types in which no root of a size becomes 0, and none of them infinite."""


class _Facts:
    """What is known of the values of a loop's body, if masked ones are these numbers throughout."""

    def __init__(self, loop: Op, masked: Mapping[Value, Known]) -> None:
        self._facts: dict[Value, Fact] = {arg: Carried(arg) for arg in loop.body.args[1:]}
        self._facts |= masked

    def of(self, value: Value) -> Fact:
        if value not in self._facts:
            self._facts[value] = self._made(value)
        return self._facts[value]

    def _made(self, value: Value) -> Fact:
        op = value.defining_op
        if op is None:
            return None
        match op.name:
            case "form.view":
                return self.of(op.operands[0])
            case "form.reduce" if op.attrs["kind"] in ("max", "min"):
                found = self.of(op.operands[0])
                return found if isinstance(found, Known) else None
            case "form.contract":
                factors = [self.of(operand) for operand in op.operands]
                return Known(0.0) if Known(0.0) in factors else None
            case "form.map":
                return self._map(op)
        return None

    def _map(self, op: Op) -> Fact:
        facts: dict[Value, Fact] = {a: self.of(v) for a, v in zip(op.body.args, op.operands, strict=True)}
        for inner in op.body.ops[:-1]:
            facts[inner.result] = _scalar(inner, [facts[v] for v in inner.operands])
        return facts[op.body.terminator.operands[0]]


def _scalar(op: Op, facts: Sequence[Fact]) -> Fact:
    """What one operation makes of what is known. Multiplying by 2**0, adding 0 or taking the larger of a number and
    -inf changes nothing; -inf times a factor above 0 stays, and over a size; a number minus itself is 0 where it
    counts, since a row with an infinite maximum is NaN. The exponential of -inf is 0, and stays it when it is rounded
    or scaled."""
    name = op.name.removeprefix("scalar.").removesuffix(SUFFIX)
    if name == "constant":
        value = op.attrs["value"]
        return Known(float(value)) if isinstance(value, int | float) else None
    if name == "select":
        test, then, otherwise = facts
        if isinstance(test, Known):
            return then if test.number else otherwise
        return then if then == otherwise else None
    if len(facts) == 2:
        return _pair(name, *facts)
    return _single(op, name, facts[0] if facts else None)


def _single(op: Op, name: str, fact: Fact) -> Fact:
    if name == "round":
        return fact if fact == Known(0.0) else None
    if op.result.type not in WIDE:
        return None
    if name == "dim":
        return Size()
    if name == "cast":
        return fact if isinstance(fact, Size | Positive) else None
    return ROOTS.get(name) if isinstance(fact, Size) else None


def _pair(name: str, left: Fact, right: Fact) -> Fact:
    if name == "eq" and isinstance(left, Known) and isinstance(right, Known):
        return Known(float(left.number == right.number))
    if name == "sub" and left is not None and left == right:
        return Known(0.0)
    if name in ("exp_lifted", "exp_term") and left == Known(-inf) and isinstance(right, Known):
        return Known(0.0) if isfinite(right.number) else None
    if name == "ldexp" and left == Known(0.0):
        return left
    if name == "mul" and Known(-inf) in (left, right) and _is_positive(right if left == Known(-inf) else left):
        return Known(-inf)
    if name == "div" and left == Known(-inf) and (isinstance(right, Size) or _is_finite(right)):
        return left
    neutral = {"max": -inf, "min": inf, "add": 0.0, "ldexp": 0.0, "sub": 0.0}.get(name)
    if neutral is None:
        return None
    if right == Known(neutral):
        return left
    return right if left == Known(neutral) and name in ("max", "min", "add") else None


def _is_positive(fact: Fact) -> bool:
    return isinstance(fact, Positive) or (isinstance(fact, Known) and fact.number > 0)


def _is_finite(fact: Fact) -> bool:
    """Whether it is one number throughout that is above 0 and no infinite one."""
    return isinstance(fact, Known) and 0 < fact.number < inf


# ---------------------------------------------------------------------------------------------------------- conditions


@dataclass(frozen=True)
class Affine:
    """A sum of positions in blocks and of integers that a program is given, each with a factor, and of sizes."""

    places: Mapping[Dim | Value, int]
    rest: Dim

    def plus(self, other: Affine, sign: int) -> Affine:
        places = dict(self.places)
        for block, factor in other.places.items():
            places[block] = places.get(block, 0) + sign * factor
        return Affine({b: f for b, f in places.items() if f}, self.rest + other.rest * sign)


@dataclass(frozen=True)
class Bound:
    """The condition `place of block <= place of other + given + shift` (`upper`), or `>=`. What is given is taken off
    where `taken_off` says so: the width of a window, `start=row - width + 1`."""

    block: Dim
    other: Dim | None
    given: Value | None
    shift: Dim
    upper: bool
    taken_off: bool = False


def bounds_of(loop: Op, block: Dim) -> list[Bound]:
    """Conditions on a position in the dim whose blocks a loop goes over, outside of which nothing changes. Positions
    are those in the problem where the start of a block is added to them, as `tile.col_index` does."""
    masked: dict[Bound, dict[Value, Known]] = {}
    for op in loop.body.ops:
        mask = _mask(op)
        if mask is None:
            continue
        for condition in _conjuncts(mask.test, op):
            for bound in _bounds(condition, block):
                masked.setdefault(bound, {})[op.result] = mask.otherwise
    return [bound for bound, values in masked.items() if _unchanged(loop, values)]


def bounds_of_mask(op: Op, block: Dim) -> list[Bound] | None:
    """All that the condition of a mask asks of positions in a dim whose blocks a loop goes over; None where it asks for
    anything else, and for what is no mask."""
    mask = _mask(op)
    found: list[Bound] = []
    for condition in () if mask is None else _conjuncts(mask.test, op):
        bounds = list(_bounds(condition, block))
        if not bounds:
            return None
        found += bounds
    return found or None


def _unchanged(loop: Op, masked: Mapping[Value, Known]) -> bool:
    facts = _Facts(loop, masked)
    ends = zip(loop.body.args[1:], loop.body.terminator.operands, strict=True)
    return all(facts.of(value) == Carried(arg) for arg, value in ends)


@dataclass(frozen=True)
class _Mask:
    """The condition of a map that gives one number where it does not hold."""

    test: Value
    otherwise: Known


def _mask(op: Op) -> _Mask | None:
    made = op.body.terminator.operands[0].defining_op if op.name == "form.map" else None
    if made is None or made.name != "scalar.select":
        return None
    otherwise = made.operands[2].defining_op
    number = otherwise.attrs["value"] if otherwise is not None and otherwise.name == "scalar.constant" else None
    if not isinstance(number, int | float) or number not in (-inf, 0.0):
        return None
    return _Mask(made.operands[0], Known(float(number)))


def _conjuncts(test: Value, op: Op) -> Iterator[tuple[Value, Op]]:
    """Comparisons all of which must hold, each in the body of the map that makes it."""
    while (made := test.defining_op) is None:  # an operand: another map has made it
        source = _without_views(op.operands[op.body.args.index(test)])
        if source.defining_op is None or source.defining_op.name != "form.map":
            return
        op = source.defining_op
        test = op.body.terminator.operands[0]
    if made.name in ("scalar.and", "scalar.bitwise_and"):
        for part in made.operands:
            yield from _conjuncts(part, op)
    else:
        yield test, op


def _without_views(value: Value) -> Value:
    while (op := value.defining_op) is not None and op.name == "form.view":
        value = op.operands[0]
    return value


_ORDERED = {"scalar.le": (1, 0), "scalar.lt": (1, 1), "scalar.ge": (-1, 0), "scalar.gt": (-1, 1)}
"""left <= right + ..., as a sign and what is taken off for a strict one."""


def _bounds(condition: tuple[Value, Op], block: Dim) -> Iterator[Bound]:
    test, op = condition
    compared = test.defining_op
    if compared is None or compared.name not in _ORDERED:
        return
    sides = [_affine(operand, op) for operand in compared.operands]
    if sides[0] is None or sides[1] is None:
        return
    sign, strict = _ORDERED[compared.name]
    low, high = sides if sign > 0 else sides[::-1]
    assert low is not None and high is not None
    slack = high.plus(low, -1)  # the condition is slack >= strict
    factor = slack.places.get(block, 0)
    others = [b for b in slack.places if isinstance(b, Dim) and b != block]
    given = [b for b in slack.places if isinstance(b, Value)]
    added = {slack.places[value] * -factor for value in given}
    if abs(factor) != 1 or len(others) > 1 or len(given) > 1 or added - {1, -1}:
        return
    if any(slack.places[other] != -factor for other in others):
        return
    rest = slack.rest - strict
    ends = next(iter(others), None), next(iter(given), None)
    yield Bound(block, *ends, rest if factor < 0 else -rest, upper=factor < 0, taken_off=-1 in added)


def _affine(value: Value, op: Op) -> Affine | None:
    """A number in the body of a map, as a sum of positions and sizes."""
    made = value.defining_op
    if made is None:
        source = _without_views(op.operands[op.body.args.index(value)])
        maker = source.defining_op
        if maker is None:
            is_one = all(dim == ONE for dim in tensor_type(source).dims) and tensor_type(source).dtype.is_integer
            return Affine({source: 1}, ZERO) if is_one else None
        return _affine(maker.body.terminator.operands[0], maker) if maker.name == "form.map" else None
    match made.name:
        case "scalar.index":
            axis = made.attrs["axis"]
            assert isinstance(axis, int)
            return Affine({tensor_type(op.result).dims[axis]: 1}, ZERO)
        case "scalar.dim":
            dim = made.attrs["dim"]
            return Affine({}, dim) if isinstance(dim, Dim) else None
        case "scalar.constant":
            number = made.attrs["value"]
            return Affine({}, Dim.const(number)) if type(number) is int else None
        case "scalar.cast":
            return _affine(made.operands[0], op) if _is_integer(made) else None
        case "scalar.add" | "scalar.sub":
            sides = [_affine(operand, op) for operand in made.operands]
            if sides[0] is None or sides[1] is None:
                return None
            return sides[0].plus(sides[1], 1 if made.name == "scalar.add" else -1)
        case "scalar.mul":
            left, right = (_affine(operand, op) for operand in made.operands)
            return left if right == Affine({}, Dim.const(1)) else None
    return None


def _is_integer(op: Op) -> bool:
    return all(v.type.dtype.is_integer for v in (*op.operands, *op.results))  # type: ignore[attr-defined]
