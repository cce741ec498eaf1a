"""Gathers whose indices are computed inside the table are not checked: a clamped index is in range by construction.

What an index may be follows from how maps compute it of whole numbers: constants, positions, the order of a sort, the
smaller and the larger of two, sums, differences and products, quotients and rests by a positive constant. Anything else
may be any number of its type.

Before:
    func.func @f {guards = [], params = ["x", "i"]} {
      ^(%x: tensor<[8], f32>, %i: tensor<[N], i64>):
        %0 = form.map(%i) {maps = [[0]]} : tensor<[N], i64> {
          ^(%j: scalar<i64>):
            %1 = scalar.constant() {value = 0} : scalar<i64>
            %2 = scalar.max(%j, %1) : scalar<i64>
            %3 = scalar.constant() {value = 7} : scalar<i64>
            %4 = scalar.min(%2, %3) : scalar<i64>
            form.yield(%4)
        }
        %5 = form.gather(%x, %0) {bounds = "wrap", maps = [[0]], operator = "gather", source = [none]} : tensor<[N], f32>
        func.return(%5)
    }
After:
    func.func @f {guards = [], params = ["x", "i"]} {
      ^(%x: tensor<[8], f32>, %i: tensor<[N], i64>):
        %0 = form.map(%i) {maps = [[0]]} : tensor<[N], i64> {
          ^(%j: scalar<i64>):
            %1 = scalar.constant() {value = 0} : scalar<i64>
            %2 = scalar.max(%j, %1) : scalar<i64>
            %3 = scalar.constant() {value = 7} : scalar<i64>
            %4 = scalar.min(%2, %3) : scalar<i64>
            form.yield(%4)
        }
        %5 = form.gather(%x, %0) {bounds = "known", maps = [[0]], operator = "gather", source = [none]} : tensor<[N], f32>
        func.return(%5)
    }
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Callable

from tesserac.ir.core import Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.indexed import gather_source, gives_elements, sorted_axis
from tesserac.ir.passes import FORMS, function_pass
from tesserac.ir.types import ScalarType
from tesserac.types.dtype import DType

Range = tuple[int, int]
"""The smallest and the largest number that a value may be."""


@function_pass(FORMS, FORMS, "known_places")
def known_places(func: Op) -> None:
    known: dict[Value, Range] = {}
    for op in func.walk():
        if op.name == "form.gather" and _is_inside(op, known):
            op.attrs["bounds"] = "known"


def _is_inside(gather: Op, known: dict[Value, Range]) -> bool:
    dims = tensor_type(gather.operands[0]).dims
    sizes = [dim.constant for dim, place in zip(dims, gather_source(gather), strict=True) if place is None]
    ranges = [_range_of(value, known) for value in gather.operands[1:]]
    return all(
        size is not None and low >= 0 and high < size for size, (low, high) in zip(sizes, ranges, strict=True)
    )


def _range_of(value: Value, known: dict[Value, Range]) -> Range:
    """What the elements of a tensor of whole numbers may be."""
    if value not in known:
        made = value.defining_op
        if made is not None and made.name == "form.view":
            known[value] = _range_of(made.operands[0], known)
        elif made is not None and made.name == "form.map":
            known[value] = _computed(made, known)
        elif made is not None and made.name == "form.sort" and not gives_elements(made):
            known[value] = _below(tensor_type(value).dims[sorted_axis(made)].constant)
        else:
            known[value] = _any_of(tensor_type(value).dtype)
    return known[value]


def _computed(op: Op, known: dict[Value, Range]) -> Range:
    """What a map gives."""
    found: dict[Value, Range] = {}
    for arg, value in zip(op.body.args, op.operands, strict=True):
        if tensor_type(value).dtype.is_integer:
            found[arg] = _range_of(value, known)
    for inner in op.body.ops[:-1]:
        type_ = inner.result.type
        if not isinstance(type_, ScalarType) or not type_.dtype.is_integer:
            continue
        whole, rule = _any_of(type_.dtype), _RULES.get(inner.name)
        given = [found.get(v) for v in inner.operands]
        low, high = whole if rule is None else rule(op, inner, [whole if one is None else one for one in given])
        found[inner.result] = (low, high) if whole[0] <= low and high <= whole[1] else whole
    result = op.body.terminator.operands[0]
    return found.get(result, _any_of(tensor_type(op.result).dtype))


def _any_of(dtype: DType) -> Range:
    bits = dtype.bits
    return (0, 2**bits - 1) if dtype.kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _below(size: int | None) -> Range:
    """Places along a dim; sizes are counted in i64."""
    return (0, 2**63 - 1 if size is None else max(size - 1, 0))


def _constant(_: Op, op: Op, given: list[Range]) -> Range:
    value = op.attrs["value"]
    assert isinstance(value, int)
    return value, value


def _position(map_: Op, op: Op, given: list[Range]) -> Range:
    axis = op.attrs["axis"]
    assert isinstance(axis, int)
    return _below(tensor_type(map_.result).dims[axis].constant)


def _cast(_: Op, op: Op, given: list[Range]) -> Range:
    source = op.operands[0].type
    whole = isinstance(source, ScalarType) and source.dtype.is_integer
    return given[0] if whole else _any_of(_dtype(op))


def _product(_: Op, op: Op, given: list[Range]) -> Range:
    ends = [x * y for x in given[0] for y in given[1]]
    return min(ends), max(ends)


def _difference(_: Op, op: Op, given: list[Range]) -> Range:
    (low, high), (least, most) = given
    return low - most, high - least


def _quotient(_: Op, op: Op, given: list[Range]) -> Range:
    (low, high), (divisor, most) = given
    return (low // divisor, high // divisor) if 0 < divisor == most else _any_of(_dtype(op))


def _rest(_: Op, op: Op, given: list[Range]) -> Range:
    divisor, most = given[1]
    return (0, divisor - 1) if 0 < divisor == most else _any_of(_dtype(op))


def _dtype(op: Op) -> DType:
    assert isinstance(op.result.type, ScalarType)
    return op.result.type.dtype


def _ends(rule: Callable[[list[int]], int]) -> Callable[[Op, Op, list[Range]], Range]:
    """Of what grows with each of its operands."""
    return lambda _, op, given: (rule([low for low, _ in given]), rule([high for _, high in given]))


_RULES: dict[str, Callable[[Op, Op, list[Range]], Range]] = {
    "scalar.constant": _constant,
    "scalar.index": _position,
    "scalar.cast": _cast,
    "scalar.min": _ends(min),
    "scalar.max": _ends(max),
    "scalar.add": _ends(sum),
    "scalar.sub": _difference,
    "scalar.mul": _product,
    "scalar.floor_div": _quotient,
    "scalar.mod": _rest,
    "scalar.select": lambda _, op, given: (min(low for low, _ in given[1:]), max(high for _, high in given[1:])),
}
