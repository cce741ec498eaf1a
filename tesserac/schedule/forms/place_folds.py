"""Pass `sort_folds`: rows for places that integers say, for machines that do not take one row after the other.

    %y = form.scatter(%x, %v, %i) {kind = "sum"}    becomes a sort of %i, folds of its runs, and a scatter of runs
    %y = form.scatter(%x, %v, %i) {kind = "set"}    becomes a sort of %i, and a scatter of runs
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import operand_maps, tensor_type
from tesserac.ir.indexed import IN_RUNS, gather_source, is_ordered_fold
from tesserac.ir.passes import FORMS, function_pass
from tesserac.ops.folded import fold_sorted, set_sorted
from tesserac.ops.lowering import convert_form
from tesserac.types.dtype import I64
from tesserac.types.ty import TensorType

FEW_ROWS = 64
"""Rows that are written one after the other in less time than a sort takes."""


@function_pass(FORMS, FORMS, "sort_folds")
def sort_folds(func: Op) -> None:
    for op in [op for op in func.walk() if op.name == "form.scatter" and IN_RUNS not in op.attrs]:
        if is_ordered_fold(op) or _puts_rows(op):
            op.result.replace_all_uses(_sorted(op))
            op.erase()


def _puts_rows(op: Op) -> bool:
    """Whether rows are put at places, one of each index for a row, and they may be many."""
    ty, source = tensor_type(op.operands[1]), gather_source(op)
    places = [place for place in source if place is not None]
    if op.attrs["kind"] != "set" or any(dim_map != (0,) for dim_map in operand_maps(op)):
        return False
    rows = ty.dims[0].constant if ty.rank else 1
    checked = op.attrs["bounds"] == "wrap"
    return checked and places == list(range(1, ty.rank)) and (rows is None or rows > FEW_ROWS)


def _sorted(op: Op) -> Value:
    builder = Builder.before(op)
    x, rows, *indices = op.operands
    places = [convert_form(builder, index, TensorType(tensor_type(index).dims, I64)) for index in indices]
    axes = tuple(axis for axis, place in enumerate(gather_source(op)) if place is None)
    if is_ordered_fold(op):
        return fold_sorted(builder, x, rows, places, axes, str(op.attrs["kind"]), in_runs=True)
    return set_sorted(builder, x, rows, places, axes, str(op.attrs["operator"]))
