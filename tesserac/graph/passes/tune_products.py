"""Products get the blocks that tuning has found for them.

Enters: forms, in which a contraction may have a schedule that the program gives it. Leaves: the same, where any other
has what was found for contractions of its indices, dtypes and policies. What is inside a kernel is the kernel's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from tesserac.graph.dialect import SCHEDULE
from tesserac.graph.passes.place_kernels import Tuned
from tesserac.ir.core import Block, Module, Op
from tesserac.ir.forms import indices, tensor_type
from tesserac.ir.kernels import KERNEL
from tesserac.ir.passes import FORMS, Pass


def tune_products(tuned: Tuned) -> Pass:
    def run(module: Module) -> Module:
        for op in products(module):
            found = tuned(product_digest(op), {})
            if found and SCHEDULE not in op.attrs:
                op.attrs[SCHEDULE] = tuple(sorted(found.items()))
        return module

    return Pass("tune_products", FORMS, FORMS, run)


def products(module: Module) -> Iterator[Op]:
    """The contractions that are no part of a kernel."""
    for function in module.ops:
        yield from _products(function.body)


def _products(block: Block) -> Iterator[Op]:
    for op in block.ops:
        if op.name == "form.contract":
            yield op
        for region in op.regions if op.name != KERNEL else ():
            yield from _products(region.block)


def product_digest(op: Op) -> str:
    """By which tuning knows a contraction: what is summed, and numbers of which kind."""
    axes = [indices(op, name) for name in ("lhs", "rhs", "out")]
    kinds = [f"{tensor_type(v).dtype}{tensor_type(v).policy}" for v in (*op.operands, op.result)]
    return hashlib.sha256(f"{axes} {kinds} {op.attrs['accum']}".encode()).hexdigest()[:24]
