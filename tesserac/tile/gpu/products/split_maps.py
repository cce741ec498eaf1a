"""Pass `split_maps`: what a map makes of one product alone is a map of its own, which another product runs beside.

    %s = gpu.dot(...)
    %d = gpu.dot(...)
    %t = gpu.map(%s, %m, %d) { ^(%a, %b, %c): form.yield(exp_term(%a, %b) * %c) }
  becomes
    %p = gpu.map(%s, %m) { ^(%a, %b): form.yield(exp_term(%a, %b)) }
    %t = gpu.map(%p, %s, %m, %d) { ^(%e, %a, %b, %c): form.yield(%e * %c) }

Only terms are worth it: they take about as long as a product. A map waits for all that it reads.
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, clone_op
from tesserac.ir.forms import operand_maps
from tesserac.ir.types import ScalarType
from tesserac.tile.gpu.model.values import fragment
from tesserac.types.policy import NO_POLICY

TERM = "scalar.exp_term"


def split_maps(kernel: Op) -> None:
    """Changes the kernel in place."""
    for loop in [op for op in kernel.walk() if op.name == "gpu.for"]:
        for op in [op for op in loop.body.ops if op.name == "gpu.map"]:
            term = _term_of_one_product(op)
            if term is not None:
                _split(op, term)


def _term_of_one_product(op: Op) -> Op | None:
    """The one term of a map that reads two products, computed from the first of them."""
    block = op.parent
    dots = [v for v in op.operands if v.defining_op is not None and v.defining_op.name == "gpu.dot"]
    terms = [inner for inner in op.body.ops if inner.name == TERM]
    if block is None or len(dots) != 2 or len(terms) != 1 or any(v.owner.parent is not block for v in dots):
        return None
    (term,) = terms
    read = _needed(term)
    first, second = (op.body.args[op.operands.index(v)] for v in dots)
    one = (first in read) != (second in read)
    return term if one and not any(arg is term.result for arg in op.body.terminator.operands) else None


def _needed(op: Op) -> set[Value]:
    """All values that an operation of a body is computed from."""
    found, waiting = set[Value](), list(op.operands)
    for value in waiting:
        if value not in found:
            found.add(value)
            waiting += value.defining_op.operands if value.defining_op is not None else ()
    return found


def _split(op: Op, term: Op) -> None:
    read, ty = _needed(term), fragment(op.result)
    scalar = term.result.type
    assert isinstance(scalar, ScalarType)
    kept = [i for i, arg in enumerate(op.body.args) if arg in read]
    body = Block([op.body.args[i].type for i in kept], [op.body.args[i].name for i in kept])
    known = dict(zip((op.body.args[i] for i in kept), body.args, strict=True))
    inner = Builder(body, op.span)
    for each in op.body.ops[: op.body.place(term) + 1]:
        if each is term or any(result in read for result in each.results):
            inner.add(clone_op(each, known))
    inner.op("form.yield", (known[term.result],))
    maps = operand_maps(op)
    attrs = {"maps": tuple(maps[i] for i in kept)}
    wide = replace(ty, dtype=scalar.dtype, policy=NO_POLICY)
    made = Builder.before(op).value("gpu.map", [op.operands[i] for i in kept], wide, attrs, [body], hint="terms")
    arg = op.body.add_arg(scalar, "terms")
    term.result.replace_all_uses(arg)
    term.erase()
    op.set_operands([*op.operands, made])
    op.attrs["maps"] = (*maps, tuple(range(len(ty.shape))))
