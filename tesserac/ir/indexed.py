"""Forms that put elements at given places, read or fold them at computed ones, or find those that put them in order.

    form.assemble(part...) {boxes}
        The result is made of boxes: part i stands at `boxes[i]`, later parts over earlier ones. Together they cover
        the result; steps are positive.
    form.gather(x, index...) {source, maps, bounds, operator}
        Reads x anywhere. Dim d of x is followed by the result dim `source[d]`, or, where that is none, read at the
        next index; `maps[i]` says which result dims index i follows, as in form.map. An index out of range ends the
        call with a status that names `operator`. With `bounds` "wrap" a negative index counts from the end, with
        "exact" it is out of range; with "known" every index is in range by construction.
    form.scatter(x, v, index...) {source, maps, bounds, operator, kind, in_runs}
        x with elements replaced: v[p] stands where form.gather would read to give element p of a tensor like v. Where
        places repeat, the last one in row-major order of v stays. `kind` is "set", or that of a fold: all elements that
        name a place are folded into it. Folds of integers have no order. Of other numbers v has one row per element of
        the indices, all of which have one dim: the rows that name a place are folded in their order, in segments of 512
        through the aligned tree, in the accumulation type, and what stands there is joined with the fold. With
        `in_runs` rows that name one place stand side by side, so that each sees by the next one whether it is the last.
    form.sort(x) {axis, descending, below, elements}
        The stable permutation that puts x in order along an axis, as i64: equal elements stay in the order of their
        places, also where `descending`. -0 and +0 are equal; NaN comes last either way. With `below`, which is for
        integers in ascending order alone, other numbers than those from 0 up to that dim may stand anywhere. With
        `elements` it gives x in that order instead.
    form.runs(v, order, low, high) {kind, accum}
        Folds of runs: element j of the result folds v[order[i]] for i from low[j] to high[j], in segments of 512
        through the aligned tree; the identity where there are none. All places are in range by construction. The result
        has the accumulation type.
"""

from __future__ import annotations

from tesserac.ir.core import Attr, Op, Value, attr, attr_tuple, define_op, optional_ints
from tesserac.ir.forms import REDUCE_KINDS, Slice, operand_maps, tensor_type, verify_dim_map
from tesserac.ir.types import TensorType
from tesserac.ir.verify import require
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import I64
from tesserac.types.policy import compute_dtype


def assembled_boxes(op: Op) -> tuple[Slice, ...]:
    """Where each part of a form.assemble stands."""
    return attr_tuple(op, "boxes", Slice)


def covers_all(assemble: Op) -> bool:
    """Whether the first part is the whole tensor, which the others change."""
    box = assembled_boxes(assemble)[0]
    whole = tensor_type(assemble.operands[0]).dims == tensor_type(assemble.result).dims
    return whole and set(box.starts) <= {ZERO} and set(box.steps) <= {1}


def _same_element(op: Op, left: TensorType, right: TensorType) -> None:
    same = left.dtype == right.dtype and left.policy == right.policy
    require(same, "changes the element type or policy", op)


def _verify_assemble(op: Op) -> None:
    values = (*op.operands, *op.results)
    require(all(isinstance(v.type, TensorType) for v in values), "works on tensors", op)
    result, boxes = tensor_type(op.result), assembled_boxes(op)
    require(bool(boxes) and len(boxes) == len(op.operands), "needs one box per part", op)
    for value, box in zip(op.operands, boxes, strict=True):
        part = tensor_type(value)
        _same_element(op, part, result)
        require(part.rank == len(box.starts) == len(box.steps) == result.rank, "a part has another rank", op)
        require(all(step > 0 for step in box.steps), "steps are positive", op)


BOUNDS = ("wrap", "exact", "known")
IN_RUNS = "in_runs"


def gather_source(op: Op) -> tuple[int | None, ...]:
    """The dim that each dim of a gathered or scattered tensor follows; none where an index says the place."""
    return optional_ints(op.attrs["source"])


def is_checked(op: Op) -> bool:
    """Whether a bad index of a form.gather or form.scatter ends the call."""
    return op.attrs["bounds"] != "known"


def is_ordered_fold(op: Op) -> bool:
    """Whether a form.scatter folds rows in their order."""
    return op.attrs["kind"] != "set" and not tensor_type(op.result).dtype.is_integer


def _verify_gather(op: Op) -> None:
    require(all(isinstance(v.type, TensorType) for v in (*op.operands, *op.results)), "works on tensors", op)
    _verify_places(op, tensor_type(op.operands[0]), op.operands[1:], tensor_type(op.result))


def _verify_scatter(op: Op) -> None:
    require(all(isinstance(v.type, TensorType) for v in (*op.operands, *op.results)), "works on tensors", op)
    require(op.result.type == op.operands[0].type, "gives the type of what it changes", op)
    table, read = tensor_type(op.operands[0]), tensor_type(op.operands[1])
    kind = op.attrs.get("kind")
    require(kind == "set" or kind in REDUCE_KINDS, "does not scatter by {}", op, kind)
    require(kind == "set" or IN_RUNS not in op.attrs, "folds no runs", op)
    _verify_places(op, table, op.operands[2:], read)
    followed = {place for place in gather_source(op) if place is not None}
    for dim_map in operand_maps(op):
        require(followed.isdisjoint(dim_map), "an index follows a dim that the tensor follows too", op)
        require(not is_ordered_fold(op) or dim_map == (0,), "an index says the place of each row", op)


def _verify_places(op: Op, table: TensorType, indices: tuple[Value, ...], result: TensorType) -> None:
    """Where elements of `table` are read to give, or are replaced by, those of `result`."""
    source, maps = gather_source(op), operand_maps(op)
    _same_element(op, table, result)
    require(op.attrs.get("bounds") in BOUNDS, "has one of the bounds {}", op, BOUNDS)
    require(_is_name(op.attrs.get("operator")), "names the operator it stands for", op)
    require(len(source) == table.rank, "says for each dim where it is read", op)
    require(source.count(None) == len(maps) == len(indices), "needs one index per dim it computes", op)
    for dim, place in zip(table.dims, source, strict=True):
        require(place is None or result.dims[place] == dim, "dim {} follows another size", op, dim)
    for value, dim_map in zip(indices, maps, strict=True):
        index = tensor_type(value)
        require(index.dtype.is_integer, "indices are integers", op)
        verify_dim_map(op, index, dim_map, result)


def _is_name(attr: Attr) -> bool:
    return isinstance(attr, str)


def sorted_axis(op: Op) -> int:
    """The axis of a form.sort."""
    return attr(op, "axis", int)


def gives_elements(op: Op) -> bool:
    """Whether a sort, of whatever level, gives elements in order and not their places."""
    return op.attrs.get("elements") is True


def _verify_sort(op: Op) -> None:
    values = (*op.operands, *op.results)
    require(len(values) == 2 and all(isinstance(v.type, TensorType) for v in values), "takes one tensor", op)
    x, result, axis = tensor_type(op.operands[0]), tensor_type(op.result), op.attrs.get("axis")
    require(isinstance(axis, int) and 0 <= axis < x.rank, "bad axis", op)
    require(isinstance(op.attrs.get("descending"), bool), "says in which direction", op)
    require(x.dtype.kind in "fiub", "{} has no order", op, x.dtype)
    if "below" in op.attrs:
        plain = x.dtype.is_integer and op.attrs["descending"] is False
        require(plain and isinstance(op.attrs["below"], Dim), "only integers in ascending order have a bound", op)
    expected = x if gives_elements(op) else TensorType(x.dims, I64)
    require(result == expected, "gives places as i64, or elements as they are", op)


def _verify_runs(op: Op) -> None:
    require(all(isinstance(v.type, TensorType) for v in (*op.operands, *op.results)), "works on tensors", op)
    v, *places = (tensor_type(value) for value in op.operands)
    require(len(places) == 3 and all((p.rank, p.dtype) == (1, I64) for p in places), "takes three rows of places", op)
    require(op.attrs.get("kind") in REDUCE_KINDS, "unknown kind {}", op, op.attrs.get("kind"))
    require(v.rank > 0 and places[1].dims == places[2].dims, "a run has two ends", op)
    accum = compute_dtype(v.dtype, v.policy)
    require(op.attrs.get("accum") == accum, "the policy says to accumulate in {}", op, accum.name)
    expected = TensorType((*places[1].dims, *v.dims[1:]), accum)
    require(tensor_type(op.result) == expected, "must give {}", op, expected)


define_op("form.assemble", pure=True, verify=_verify_assemble)
define_op("form.gather", pure=True, verify=_verify_gather)
define_op("form.scatter", pure=True, verify=_verify_scatter)
define_op("form.runs", pure=True, verify=_verify_runs)
define_op("form.sort", pure=True, verify=_verify_sort)
