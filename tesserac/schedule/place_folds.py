"""Pass `sort_folds`: folds into places, for machines whose programs cannot fold one row after the other.

    %y = form.scatter(%x, %v, %i) {kind = "sum"}    becomes a sort of %i, folds of its runs, and a scatter that sets
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op
from tesserac.ir.forms import tensor_type
from tesserac.ir.indexed import gather_source, is_ordered_fold
from tesserac.ir.passes import FORMS, function_pass
from tesserac.ops.folded import fold_sorted
from tesserac.ops.lowering import convert_form
from tesserac.types.dtype import I64
from tesserac.types.ty import TensorType


@function_pass(FORMS, FORMS, "sort_folds")
def sort_folds(func: Op) -> None:
    for op in [op for op in func.walk() if op.name == "form.scatter" and is_ordered_fold(op)]:
        builder = Builder.before(op)
        x, rows, *indices = op.operands
        places = [convert_form(builder, index, TensorType(tensor_type(index).dims, I64)) for index in indices]
        axes = tuple(axis for axis, place in enumerate(gather_source(op)) if place is None)
        op.result.replace_all_uses(fold_sorted(builder, x, rows, places, axes, str(op.attrs["kind"])))
        op.erase()
