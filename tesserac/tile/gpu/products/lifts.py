"""Pass `lifts`: the factor that keeps small terms of attention from underflow is multiplied behind the loop, not in it.

    gpu.for(%low, %high, %acc) { ^(%i, %acc):
        %p = gpu.map(...) { ... form.yield(exp_lifted(%x, %m)) }
        gpu.yield(gpu.dot(%p, ..., ldexp(%acc, %power))) }
  becomes
    %sums = gpu.for(%low, %high, %acc) { ^(%i, %acc):
        %p = gpu.map(...) { ... form.yield(exp_lifted(%x, %m) * 2^-33) }
        gpu.yield(gpu.dot(%p, ..., ldexp(%acc, %power))) }
    %acc = %sums * 2^33

A target whose powers of two are below 1 so takes terms as they come (Note [Terms] in the target): each round has as
many of them as the whole loop has sums. Powers of two change no digit, and terms have none below what is left of them.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.types import ScalarType
from tesserac.numerics.exponential import TERM_LIFT
from tesserac.tile.gpu.model.values import fragment, scalar_of
from tesserac.tile.gpu.products.chains import Chain, behind, carried_chain
from tesserac.types.dtype import BF16, F32

_ACCUMULATORS = {"gpu.dot": 2, "gpu.sum_rows": 1}
"""Where operations that sum terms have what they add to."""


def sink_lifts(kernel: Op) -> None:
    """Changes the kernel in place."""
    for op in list(kernel.walk()):
        if op.name == "gpu.map" and _is_term(op):
            chains = [_chain(user, place) for user, place in op.result.uses]
            found = [chain for chain in chains if chain is not None]
            if found and len(found) == len(chains):
                _sink(op, found)


def _is_term(op: Op) -> bool:
    """Whether a map gives terms of attention, computed in f32, rounded to bf16 and scaled by powers of two."""
    value = op.body.terminator.operands[0]
    made = value.defining_op
    while made is not None and made.name in ("scalar.ldexp", "scalar.round"):
        made = made.operands[0].defining_op
    if made is None or made.name != "scalar.exp_lifted" or made.result.type != ScalarType(F32):
        return False
    return fragment(op.result).dtype == BF16


def _chain(user: Op, place: int) -> Chain | None:
    if user.name not in _ACCUMULATORS or place != 0:
        return None
    return carried_chain(user.result, user.operands[_ACCUMULATORS[user.name]])


def _sink(terms: Op, chains: list[Chain]) -> None:
    end = terms.body.terminator
    end.set_operands([_multiplied(Builder.before(end), end.operands[0], 1.0 / TERM_LIFT)])
    for chain in chains:
        result = chain.loop.results[chain.position]
        readers = list(result.uses)
        lifted = _lifted(behind(chain.loop), result)
        for user, place in readers:
            user.set_operand(place, lifted)


def _lifted(b: Builder, sums: Value) -> Value:
    scalar = scalar_of(fragment(sums))
    block = Block([scalar])
    inner = Builder(block, b.span)
    inner.op("form.yield", (_multiplied(inner, block.args[0], TERM_LIFT),))
    places = tuple(range(len(fragment(sums).shape)))
    return b.value("gpu.map", (sums,), sums.type, {"maps": (places,)}, [block], hint=sums.name)


def _multiplied(b: Builder, value: Value, factor: float) -> Value:
    return b.value("scalar.mul", (value, b.value("scalar.constant", (), value.type, {"value": factor})), value.type)
