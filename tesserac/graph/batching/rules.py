"""Operations for all elements of a mapped dim at once, copied to where a builder stands.

Enters: the body of a function, what its arguments are, and which of those are mapped: they have one more dim in front.
Leaves: the body on whole tensors. What does not depend on a mapped value stays as it is, and is computed once. Control
flow stays where its condition is not mapped; otherwise see Note [Conditions that are mapped].
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.graph.autodiff.custom import Functions
from tesserac.graph.autodiff.dialect import CHECKPOINT
from tesserac.graph.autodiff.writing import writer
from tesserac.graph.batching.custom import mapped_custom
from tesserac.graph.dialect import CUSTOM, NUMERICS, is_operator, operator_of
from tesserac.graph.substitute import copy_op
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.effects import NOTE
from tesserac.ir.forms import SIZED, tensor_type
from tesserac.ir.ordering import COLLECTIVE
from tesserac.ir.types import Type
from tesserac.ops.calculus import Writer
from tesserac.ops.collective import Collective
from tesserac.ops.create import Zeros
from tesserac.ops.elementwise import Where
from tesserac.types.dims import Dim
from tesserac.types.ty import TensorType

FULL = "graph.full"


class Mapping:
    """`values` says what stands for a value of the original, `mapped` are those of the copies that have the dim of this
    size. `functions` are those of the module. `active` are the elements that the program comes here for; None where
    it is for all. `axis` is that of a mesh whose devices the elements are, if they are."""

    def __init__(
        self,
        builder: Builder,
        size: Dim,
        values: dict[Value, Value],
        mapped: set[Value],
        functions: Functions,
        active: Value | None = None,
        axis: str = "",
    ) -> None:
        self.builder = builder
        self.size = size
        self.values = values
        self.mapped = mapped
        self.functions = functions
        self.active = active
        self.axis = axis

    def block(self, block: Block) -> list[Value]:
        """Goes through a body; what it yields."""
        for op in block.ops[:-1]:
            with self.builder.spanned(op.span):
                self.operation(op)
        return self._all(block.terminator.operands)

    def whole(self, value: Value) -> Value:
        """A value for every element, also where it is the same for all."""
        if value in self.mapped:
            return value
        repeated = self.writer().expand(value, (self.size, *tensor_type(value).dims))
        self.mapped.add(repeated)
        return repeated

    def _all(self, values: Sequence[Value]) -> list[Value]:
        return [self.values.get(v, v) for v in values]

    def writer(self, op: Op | None = None) -> Writer:
        """Writes where the builder stands, in the mode of numerics that an operation has."""
        mode = None if op is None else op.attrs.get(NUMERICS)
        return writer(self.builder, {} if mode is None else {NUMERICS: mode})

    def operation(self, op: Op) -> None:
        if op.name in ("form.cond", CHECKPOINT):
            self._cond(op)
        elif op.name == "form.loop":
            self._loop(op)
        elif op.name == "form.while":
            self._while(op)
        elif op.name == "form.assert":
            self._assert(op)
        elif op.name == "form.require":
            self._require(op)
        elif op.name == "form.print":
            self._print(op)
        elif self.axis and op.opdef.effect == COLLECTIVE and op.attrs["across"] == self.axis:
            self._collective(op)
        elif self.mapped.isdisjoint(self._all(op.operands)):
            self.builder.add(copy_op(op, self.values, {}))
        elif op.name == CUSTOM:
            self._custom(op)
        else:
            self._operator(op)

    def _operator(self, op: Op) -> None:
        assert is_operator(op), f"{op.name} has no rule for mapped operands"
        operator, operands = operator_of(op), self._all(op.operands)
        if self.active is not None and bends(op):
            operands = [self._only_here(v, pointwise=operator.batching == "aligned") for v in operands]
        result = operator.batched(self.writer(op), operands, [v in self.mapped for v in operands])
        expected = self.mapped_type(op.result.type)
        assert result.type == expected, f"{op.name} of mapped operands gives {result.type}, not {expected}"
        result.name = result.name or op.result.name
        self.values[op.result] = result
        self.mapped.add(result)

    def _only_here(self, value: Value, *, pointwise: bool) -> Value:
        """A value through which gradients flow only for elements that go here. What is the same for all stays so,
        but for operators of single elements."""
        made = value.defining_op
        is_number = made is not None and made.name == FULL
        if tensor_type(value).dtype.kind not in "fc" or is_number or not (pointwise or value in self.mapped):
            return value
        assert self.active is not None
        held = self.writer()("stop_gradient", value)
        self.mapped.update({held} if value in self.mapped else ())
        return self._select(self.active, value, held)

    def _collective(self, op: Op) -> None:
        """Its devices are the elements, and all of them are here."""
        assert self.active is None, "the checker refuses collectives where devices may disagree"
        operator = operator_of(op)
        assert isinstance(operator, Collective)
        [operand] = self._all(op.operands)
        result = operator.together(self.writer(op), self.whole(operand))
        self.values[op.result] = result
        if not operator.agreed:
            self.mapped.add(result)

    def _custom(self, op: Op) -> None:
        new = mapped_custom(self, op, self._all(op.operands))
        self.values.update(zip(op.results, new, strict=True))
        self.mapped.update(new)

    def mapped_type(self, type_: Type) -> Type:
        """The type of all elements."""
        assert isinstance(type_, TensorType)
        return TensorType((self.size, *type_.dims), type_.dtype, type_.policy)

    def _type(self, type_: Type, *, is_mapped: bool) -> Type:
        return self.mapped_type(type_) if is_mapped else type_

    # ---------------------------------------------------------------------------------------------- effects

    def _assert(self, op: Op) -> None:
        """It holds if it holds for all elements for which the program comes here."""
        [flag] = self._all(op.operands)
        write = self.writer()
        if self.active is not None:
            flag = self._both(write, "bitwise_or", write("bitwise_not", self.active), flag)
        if flag in self.mapped:
            flag = write("all", flag, axes=(0,))
        self.builder.op("form.assert", (flag,), (), op.attrs)

    def _require(self, op: Op) -> None:
        """Sizes are the same for all elements: it is asked where the program comes here for any of them."""
        if self.active is None:
            self.builder.add(copy_op(op, self.values, {}))
            return
        asked, skipped = Block(), Block()
        asked.append(copy_op(op, self.values, {}))
        for block in (asked, skipped):
            Builder(block, self.builder.span).op("form.yield")
        self.builder.op("form.cond", (self._anywhere(self.active),), (), {SIZED: True}, (asked, skipped))

    def _anywhere(self, flag: Value) -> Value:
        """Whether a flag holds for any element."""
        return self.writer()("any", flag, axes=(0,)) if flag in self.mapped else flag

    def _print(self, op: Op) -> None:
        """What is noted of an assertion that fails can be said of one element only, so nothing is."""
        operands = self._all(op.operands)
        if self.active is None and self.mapped.isdisjoint(operands):
            self.builder.add(copy_op(op, self.values, {}))
        else:
            assert op.attrs["to"] == NOTE, "the checker refuses to map what prints"

    # ---------------------------------------------------------------------------------------------- branches

    def _cond(self, op: Op) -> None:
        flags = self._all(op.operands)  # none, where it is a checkpoint
        if not self.mapped.isdisjoint(flags):
            self._choose(op, *flags)
            return
        inner = [self.inside(Block()) for _ in op.regions]
        yields = [own.block(region.block) for own, region in zip(inner, op.regions, strict=True)]
        places = {i for i in range(len(op.results)) if any(out[i] in self.mapped for out in yields)}
        for own, out in zip(inner, yields, strict=True):
            own._yield(out, places)
        self._replace(op, flags, [own.builder.block for own in inner], places)

    def _choose(self, op: Op, flag: Value) -> None:
        """Both branches, and of each result the one that the flag of an element says."""
        write = self.writer()
        outcomes = []
        for region, holds in zip(op.regions, (flag, write("bitwise_not", flag)), strict=True):
            self.mapped.add(holds)
            active = holds if self.active is None else self._both(write, "bitwise_and", self.active, holds)
            if SIZED in op.attrs:
                outcomes.append(self._where_taken(op, region.block, active))
                continue
            inner = self.beside(self.builder, active)
            outcomes.append(inner.block(region.block))
        for result, yes, no in zip(op.results, *outcomes, strict=True):
            self.values[result] = self._select(flag, yes, no)

    def _where_taken(self, op: Op, branch: Block, active: Value) -> list[Value]:
        """What a branch gives if any element takes it, else zeros: its sizes may be impossible then."""
        taken, skipped = self.inside(Block()), self.inside(Block())
        taken.active = active
        outcome = taken.block(branch)
        places = set(range(len(outcome)))
        taken._yield(outcome, places)
        types = [self.mapped_type(v.type) for v in op.results]
        write, given = skipped.writer(), [tensor_type(v) for v in taken.builder.block.terminator.operands]
        skipped.builder.op("form.yield", [write.apply(Zeros(ty.dims, ty.dtype, ty.policy), ()) for ty in given])
        blocks = [taken.builder.block, skipped.builder.block]
        made = self.builder.op("form.cond", (self._anywhere(active),), types, op.attrs, blocks)
        self.mapped.update(made.results)
        return list(made.results)

    def _select(self, flag: Value, yes: Value, no: Value) -> Value:
        if yes is no:
            return yes
        operands = (flag, yes, no)
        chosen = Where().batched(self.writer(), operands, [v in self.mapped for v in operands])
        self.mapped.add(chosen)
        return chosen

    def _both(self, write: Writer, name: str, left: Value, right: Value) -> Value:
        """Two flags joined, the first of them mapped."""
        joined = write(name, left, right)
        self.mapped.add(joined)
        return joined

    # ---------------------------------------------------------------------------------------------- loops

    def _loop(self, op: Op) -> None:
        """Which of the carried values are mapped shows where the body yields one: then it is tried again."""
        operands = self._all(op.operands)
        places = {place for place, init in enumerate(operands[2:]) if init in self.mapped}
        while True:
            body = self.inside(self._entered(op.body, 1, places))
            yields = body.block(op.body)
            found = {place for place, value in enumerate(yields) if value in self.mapped}
            if found <= places:
                break
            places |= found
            body.builder.block.drop_all_uses()
        body._yield(yields, places)
        self._replace(op, (*operands[:2], *self._given(operands[2:], places)), [body.builder.block], places)

    def _while(self, op: Op) -> None:
        """As a loop. Where the test is mapped, iterations go on until no element needs another, and what an element
        carries no longer changes once its own test fails."""
        operands = self._all(op.operands)
        places = {place for place, init in enumerate(operands) if init in self.mapped}
        while True:
            test, go_on = self._test(op, places)
            body, yields = self._iteration(op, places, decided=go_on in self.mapped)
            found = {place for place, value in enumerate(yields) if value in self.mapped}
            if found <= places:
                break
            places |= found
            for own in (test, body):
                own.builder.block.drop_all_uses()
        flag = test.writer()("any", go_on, axes=(0,)) if go_on in self.mapped else go_on
        test.builder.op("form.yield", (flag,))
        body._yield(yields, places)
        blocks = [test.builder.block, body.builder.block]
        self._replace(op, self._given(operands, places), blocks, places)

    def _test(self, op: Op, places: set[int]) -> tuple[Mapping, Value]:
        block = op.regions[0].block
        test = self.inside(self._entered(block, 0, places))
        [flag] = test.block(block)
        if self.active is not None:
            flag = self._both(test.writer(), "bitwise_and", self.active, test.whole(flag))
        return test, flag

    def _iteration(self, op: Op, places: set[int], *, decided: bool) -> tuple[Mapping, list[Value]]:
        """The body of a while loop; what it carries on."""
        test, block = (region.block for region in op.regions)
        body = self.inside(self._entered(block, 0, places))
        own = body.builder.block.args
        if not decided:
            return body, body.block(block)
        self.values.update(zip(test.args, own, strict=True))
        [going] = body.block(test)
        write = body.writer()
        body.active = going if self.active is None else self._both(write, "bitwise_and", self.active, going)
        new = body.block(block)
        return body, [body._select(going, value, old) for value, old in zip(new, own, strict=True)]

    def inside(self, block: Block) -> Mapping:
        return self.beside(Builder(block, self.builder.span), self.active)

    def beside(self, builder: Builder, active: Value | None) -> Mapping:
        """The same where another builder stands, for elements of which some are active."""
        return Mapping(builder, self.size, self.values, self.mapped, self.functions, active, self.axis)

    def of_size(self, size: Dim) -> Mapping:
        """The same with another name for the size."""
        return Mapping(self.builder, size, self.values, self.mapped, self.functions, self.active, self.axis)

    def _entered(self, block: Block, first: int, places: set[int]) -> Block:
        """A new block with the arguments of another, those at `places` behind the first ones mapped."""
        is_mapped = [index - first in places for index in range(len(block.args))]
        types = [self._type(a.type, is_mapped=has_dim) for a, has_dim in zip(block.args, is_mapped, strict=True)]
        new = Block(types, [a.name for a in block.args])
        self.values.update(zip(block.args, new.args, strict=True))
        self.mapped.update(a for a, has_dim in zip(new.args, is_mapped, strict=True) if has_dim)
        return new

    def _given(self, values: Sequence[Value], places: set[int]) -> list[Value]:
        return [self.whole(v) if place in places else v for place, v in enumerate(values)]

    def _yield(self, values: Sequence[Value], places: set[int]) -> None:
        self.builder.op("form.yield", self._given(values, places))

    def _replace(self, op: Op, operands: Sequence[Value], blocks: Sequence[Block], places: set[int]) -> None:
        types = [self._type(v.type, is_mapped=place in places) for place, v in enumerate(op.results)]
        new = self.builder.op(op.name, operands, types, op.attrs, blocks, [v.name for v in op.results])
        self.values.update(zip(op.results, new.results, strict=True))
        self.mapped.update(new.results[place] for place in places)


def bends(op: Op) -> bool:
    """Whether the derivative of an operator may be infinite or no number somewhere, because it depends on operands."""
    operator = operator_of(op)
    if tensor_type(op.result).dtype.kind not in "fc" or operator.linear == "jointly" or operator.differential == "0":
        return False
    numbers = [v.defining_op is not None and v.defining_op.name == FULL for v in op.operands]
    return not (any(numbers) if operator.name == "mul" else operator.name == "div" and numbers[1])


# Note [Conditions that are mapped]
# Where each element has a condition of its own there is no one way to go. A branch becomes both branches, and each
# result is selected; so both must be pure, and what fails for an element that does not go there (an index out of range)
# fails. Assertions are asked only of elements that go there. A branch that is `sized` runs only if an element goes
# there: sizes are the same for all, so what its condition says of them holds by then. A while loop takes as many
# iterations as the element that needs most; the others keep what they carried.
#
# What an element computes in the branch that it does not take may have no derivative there: `if x > 0: y = sqrt(x)`.
# Its cotangent is zero, but zero times infinity is not a number. So operators in a branch take
# `where(taken, x, stop_gradient(x))` for x, through which nothing flows where the branch is not taken; once derivatives
# have been here, that is x again.
