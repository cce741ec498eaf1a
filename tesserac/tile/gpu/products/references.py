"""Pass `references`: the maximum of a block of scores is looked for where it may exceed what terms are relative to.

    gpu.for(%low, %high, %m, %acc) { ^(%i, %m, %acc):
        %mc = ... max(%s) ...; %top = max(%m, %mc)
        %p = gpu.round(gpu.map(%s, %mc, %mc - %top) {narrow}); %scaled = ldexp(%acc, %m - %top); gpu.yield(%top, ...) }
  becomes
    gpu.for(%low, %high, %m, %acc) { ^(%i, %m, %acc):
        %below = gpu.map(gpu.fold(bits of %s) {kind = "max"}, %m) { whether no score is above %m }
        %top = gpu.unless(%below, %m) { %mc = ... max(%s) ...; gpu.yield(%mc <= %m ? %m : raised max(%m, %mc)) }
        %p = gpu.round(gpu.map(%s, %top, 0) {narrow}); %scaled = ldexp(%acc, %m - %top); gpu.yield(%top, ...) }

A row's terms are relative to a power of two at or above the largest; elsewhere that is the row's maximum so far. Here
it is ABOVE larger when it is first met, and stays until a score exceeds it, so that most blocks need no maximum, no
lanes tell each other theirs, and no sum is rescaled. Which power of two it is shows in no digit, but in terms below
2^-125 of it, which are 0. Which one a row has depends on its own scores alone, whatever other rows of a warp ask for.

Whether a score is above is asked of its bits as an integer, two scores an instruction: of floats with a sign it has the
order only above 0. So a power of two that is not far below 1 is 1, and rows whose powers are smaller always look.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, clone_op
from tesserac.ir.types import ScalarType
from tesserac.numerics.formats import parts
from tesserac.tile.bodies import constant_scalar
from tesserac.tile.gpu.model.values import fragment, memory, scalar_of
from tesserac.types.dtype import BF16, BOOL, F32, I32
from tesserac.types.policy import NO_POLICY

ABOVE = 8.0
"""How much larger than a maximum what terms are relative to is when it is met, as a power of two."""
NEAR = -32.0
"""From which power of two on 1 serves instead."""
SINGLE, FLAG = ScalarType(F32), ScalarType(BOOL)


@dataclass(frozen=True)
class _Terms:
    """A loop's terms: the map that makes them, where it has scores, what they are relative to and powers of two; what
    scores lack as a factor; the map that gives the new maximum, and the steps that look for one in a block."""

    made: Op
    score: int
    maximum: int
    power: int
    factor: float
    top: Op
    steps: list[Op]

    @property
    def scores(self) -> Value:
        return self.made.operands[self.score]


def refer_terms(kernel: Op) -> None:
    """Changes the kernel in place, unless it stores maxima."""
    stores = [op for op in kernel.walk() if op.name == "gpu.store"]
    if all(memory(op.operands[1]).dtype == BF16 for op in stores):
        for terms in list(_all_terms(kernel)):
            _refer(terms)


def _all_terms(kernel: Op) -> Iterator[_Terms]:
    for rounded in [op for op in kernel.walk() if op.name == "gpu.round"]:
        made = rounded.operands[0].defining_op
        loop = made.parent.parent_op if made is not None and made.parent is not None else None
        if made is not None and loop is not None and loop.name == "gpu.for":
            terms = _terms(loop, made)
            if terms is not None:
                yield terms


def _terms(loop: Op, made: Op) -> _Terms | None:
    places = _places(made)
    shifts = made.operands[places[2]].defining_op if places is not None else None
    top = shifts.operands[1].defining_op if shifts is not None and len(shifts.operands) == 2 else None
    if places is None or top is None or not _is_maximum(top) or top.operands[0] not in loop.body.args[1:]:
        return None
    carried = loop.body.terminator.operands[loop.body.args.index(top.operands[0]) - 1] is top.result
    steps = _steps(top.operands[1], made.operands[places[0]], loop.body)
    folds = [op for op in steps if op.name == "gpu.fold" and op.operands[0] is made.operands[places[0]]]
    factor = _factor(made)
    if not carried or not folds or factor is None or fragment(made.operands[places[0]]).dtype != F32:
        return None
    return _Terms(made, *places, factor, top, steps)


def _places(made: Op) -> tuple[int, int, int] | None:
    """Which operands of a map are scores, their maxima and powers of two of terms."""
    term = [op for op in made.body.ops if op.name == "scalar.exp_lifted"]
    scaled = [op for op in made.body.ops if op.name == "scalar.ldexp"]
    args = list(made.body.args)
    if len(term) != 1 or len(scaled) != 1 or len(args) != 3:
        return None
    score, maximum = term[0].operands
    product = score.defining_op
    values = (score if product is None else product.operands[0], maximum, scaled[0].operands[1])
    if set(values) != set(args):
        return None
    first, second, third = (args.index(value) for value in values)
    return first, second, third


def _factor(made: Op) -> float | None:
    """What a score is multiplied by, if that is known and above 0."""
    (term,) = (op for op in made.body.ops if op.name == "scalar.exp_lifted")
    product = term.operands[0].defining_op
    factor = 1.0 if product is None else constant_scalar(product.operands[1])
    return factor if factor is not None and factor > 0 else None


def _is_maximum(op: Op) -> bool:
    return op.name == "gpu.map" and len(op.body.ops) == 2 and op.body.ops[0].name == "scalar.max"


def _steps(value: Value, scores: Value, body: Block) -> list[Op]:
    """What is between scores and a value, in its order."""
    found, waiting = set[Op](), [value]
    while waiting:
        made = waiting.pop().defining_op
        if made is not None and made.parent is body and made not in found and made is not scores.defining_op:
            found.add(made)
            waiting += made.operands
    return [op for op in body.ops if op in found]


# ------------------------------------------------------------------------------------------------------ the change


def _refer(terms: _Terms) -> None:
    top, before = terms.top, terms.top.operands[0]
    b = Builder.before(top)
    below = _below(b, terms, before)
    reference = b.value("gpu.unless", (below, before), before.type, {}, [_raised(terms, before)], hint=top.result.name)
    shown = _map(b, (reference,), terms.made.operands[terms.maximum], _or_zero)
    none = b.value("gpu.full", (), terms.made.operands[terms.power].type, {"value": 0.0})
    terms.made.set_operand(terms.maximum, shown)
    terms.made.set_operand(terms.power, none)
    top.result.replace_all_uses(reference)
    _erase_unread(terms)


def _erase_unread(terms: _Terms) -> None:
    """What looked for a maximum before, and the maps that read it."""
    assert terms.top.parent is not None
    for op in reversed(list(terms.top.parent.ops)):
        looked = op in terms.steps or op.name == "gpu.map"
        if looked and not any(user.parent is not None for user, _ in op.result.uses):
            op.result.uses.clear()
            op.erase()


def _below(b: Builder, terms: _Terms, before: Value) -> Value:
    """Whether what a thread has of a row is not above its power of two, nor that far below 1."""
    scores = fragment(terms.scores)
    fold = next(op for op in terms.steps if op.name == "gpu.fold" and op.operands[0] is terms.scores)
    places = tuple(range(len(scores.shape)))
    whole = replace(scores, dtype=I32, policy=NO_POLICY)
    bits = Block([SINGLE])
    inner = Builder(bits, b.span)
    inner.op("form.yield", (inner.value("scalar.bitcast", bits.args, ScalarType(I32), {"dtype": I32}),))
    as_bits = b.value("gpu.map", (terms.scores,), whole, {"maps": (places,)}, [bits])
    folded = replace(fragment(fold.result), dtype=I32, policy=NO_POLICY)
    largest = b.value("gpu.fold", (as_bits,), folded, dict(fold.attrs), hint="largest")
    asked = Block([ScalarType(I32), SINGLE])
    inner = Builder(asked, b.span)
    rate = inner.value("scalar.constant", (), SINGLE, {"value": terms.factor * parts("log2e", F32)[0]})
    score = inner.value("scalar.bitcast", (asked.args[0],), SINGLE, {"dtype": F32})
    exponent = inner.value("scalar.mul", (score, rate), SINGLE)
    zero = inner.value("scalar.constant", (), SINGLE, {"value": 0.0})
    least = inner.value("scalar.max", (exponent, zero), SINGLE)
    inner.op("form.yield", (inner.value("scalar.le", (least, asked.args[1]), FLAG),))
    maps = {"maps": (places, places[:-1])}
    return b.value("gpu.map", (largest, before), replace(folded, dtype=BOOL), maps, [asked], hint="below")


def _raised(terms: _Terms, before: Value) -> Block:
    """The region that looks for the maximum of a block."""
    block, known = Block([]), dict[Value, Value]()
    inner = Builder(block, terms.made.span)
    for op in terms.steps:
        inner.add(clone_op(op, known))
    mine = known[terms.top.operands[1]]
    inner.op("gpu.yield", (_map(inner, (before, mine), before, _further),))
    return block


def _map(b: Builder, operands: tuple[Value, ...], like: Value, body: Callable[..., Value]) -> Value:
    """A map of rows."""
    block = Block([scalar_of(fragment(value)) for value in operands])
    inner = Builder(block, b.span)
    inner.op("form.yield", (body(inner, *block.args),))
    rows = tuple(range(len(fragment(operands[0]).shape)))
    return b.value("gpu.map", operands, like.type, {"maps": (rows,) * len(operands)}, [block])


def _or_zero(b: Builder, x: Value) -> Value:
    """A power of two, 1 where there is none yet."""
    none = b.value("scalar.eq", (x, _constant(b, -math.inf)), FLAG)
    return b.value("scalar.select", (none, _constant(b, 0.0), x), SINGLE)


def _further(b: Builder, before: Value, mine: Value) -> Value:
    """What a row's terms are relative to from here on."""
    kept = b.value("scalar.le", (mine, before), FLAG)
    raised = b.value("scalar.add", (b.value("scalar.max", (before, mine), SINGLE), _constant(b, ABOVE)), SINGLE)
    small = b.value("scalar.lt", (raised, _constant(b, NEAR)), FLAG)
    at_least_1 = b.value("scalar.max", (raised, _constant(b, 0.0)), SINGLE)
    chosen = b.value("scalar.select", (small, raised, at_least_1), SINGLE)
    return b.value("scalar.select", (kept, before, chosen), SINGLE)


def _constant(b: Builder, number: float) -> Value:
    return b.value("scalar.constant", (), SINGLE, {"value": number})
