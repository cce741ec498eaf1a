"""Contractions and reductions get the settings that tuning has found for them.

Enters: forms, in which a contraction may have a schedule that the program gives it. Leaves: the same, where any other
has what was found for forms of its indices, dtypes and policies, at its sizes. What is inside a kernel is the kernel's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from tesserac.graph.dialect import SCHEDULE
from tesserac.graph.passes.place_kernels import Tuned
from tesserac.ir.core import Block, Module, Op
from tesserac.ir.forms import indices, tensor_type
from tesserac.ir.kernels import KERNEL
from tesserac.ir.passes import FORMS, Pass
from tesserac.types.dims import Dim, product

TUNABLE = ("form.contract", "form.reduce")


def tune_forms(tuned: Tuned) -> Pass:
    def run(module: Module) -> Module:
        for op in tunable_forms(module):
            found = tuned(form_digest(op), form_sizes(op))
            if found and SCHEDULE not in op.attrs:
                op.attrs[SCHEDULE] = tuple(sorted(found.items()))
        return module

    return Pass("tune_forms", FORMS, FORMS, run)


def tunable_forms(module: Module) -> Iterator[Op]:
    """The contractions and reductions that are no part of a kernel."""
    for function in module.ops:
        yield from _tunable(function.body)


def _tunable(block: Block) -> Iterator[Op]:
    for op in block.ops:
        if op.name in TUNABLE:
            yield op
        for region in op.regions if op.name != KERNEL else ():
            yield from _tunable(region.block)


def form_digest(op: Op) -> str:
    """By which tuning knows a form: what is summed or kept, and numbers of which kind."""
    names = ("lhs", "rhs", "out") if op.name == "form.contract" else ("axes",)
    kinds = [f"{tensor_type(v).dtype}{tensor_type(v).policy}" for v in (*op.operands, op.result)]
    how = [op.attrs["accum"], op.attrs.get("kind", ""), tensor_type(op.operands[0]).rank]
    text = f"{op.name} {[indices(op, name) for name in names]} {kinds} {how}"
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def form_sizes(op: Op) -> dict[str, Dim]:
    """Rows, columns and terms of a product; rows and terms of a reduction. Sizes have other names in each program."""
    if op.name == "form.reduce":
        dims, axes = tensor_type(op.operands[0]).dims, indices(op, "axes")
        return {"m": _of(dims, [a for a in range(len(dims)) if a not in axes]), "k": _of(dims, axes)}
    left, right = (tensor_type(v).dims for v in op.operands)
    lhs, rhs, out = (indices(op, name) for name in ("lhs", "rhs", "out"))
    rows = [place for place, axis in enumerate(lhs) if axis in out and axis not in rhs]
    columns = [place for place, axis in enumerate(rhs) if axis in out and axis not in lhs]
    terms = [place for place, axis in enumerate(lhs) if axis not in out]
    return {"m": _of(left, rows), "n": _of(right, columns), "k": _of(left, terms)}


def _of(dims: Sequence[Dim], places: Sequence[int]) -> Dim:
    return product([dims[place] for place in places])
