"""Forward mode: operations copied to where a builder stands, each followed by what its tangents are.

Enters: the body of a function, what its arguments are, and the tangents of some values. Leaves: the body, and tangents
of its results where they depend on those. Control flow carries tangents beside values: a loop or a branch has as many
more results as its attribute `tangents` says, the last ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.graph.autodiff.arranging import arrange
from tesserac.graph.autodiff.custom import PULLBACK, Functions
from tesserac.graph.autodiff.dialect import CHECKPOINT, TANGENT, TANGENTS, smooth
from tesserac.graph.autodiff.errors import ITSELF, KERNEL, NOT_FORWARD, NotDifferentiable
from tesserac.graph.autodiff.writing import fit, writer
from tesserac.graph.dialect import (
    CUSTOM,
    FORWARD_RULE,
    MEANT,
    NUMERICS,
    REVERSE_RULE,
    is_operator,
    operator_of,
    own_arguments,
)
from tesserac.graph.substitute import copy_block, copy_op
from tesserac.ir.builder import Builder
from tesserac.ir.calls import CALLED
from tesserac.ir.core import Attr, Block, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ops.calculus import Writer, is_smooth


class Jvp:
    """`values` says what stands for a value of the original, `tangents` what the tangents of the copies are. `reverse`
    says that what is linear in them will be transposed."""

    def __init__(
        self,
        builder: Builder,
        values: dict[Value, Value],
        tangents: dict[Value, Value],
        functions: Functions,
        *,
        reverse: bool,
    ) -> None:
        self.builder = builder
        self.values = values
        self.tangents = tangents
        self._functions = functions
        self._reverse = reverse

    def block(self, block: Block) -> list[Value]:
        """Goes through a body; what it yields."""
        for op in block.ops[:-1]:
            with self.builder.spanned(op.span):
                self._op(op)
        return [self.values.get(v, v) for v in block.terminator.operands]

    def _op(self, op: Op) -> None:
        if op.name in ("form.cond", CHECKPOINT):
            self._cond(op)
        elif op.name in ("form.loop", "form.while"):
            self._loop(op)
        elif op.name == CUSTOM and self._functions.is_plain(op) and self._is_active(op):
            self._body(op)
        else:
            copy = self.builder.add(copy_op(op, self.values, {}))
            if is_operator(copy):
                self._operator(copy)
            elif copy.name == CUSTOM:
                self._custom(copy)

    def _operator(self, op: Op) -> None:
        tangents = [self.tangents.get(operand) for operand in op.operands]
        if all(tangent is None for tangent in tangents) or not is_smooth(tensor_type(op.result)):
            return
        operator = operator_of(op)
        if operator.not_differentiable:
            raise NotDifferentiable(op.span, f"`{operator.name}`", operator.not_differentiable)
        write = self._writer(op)
        tangent = operator.derivative(write, op.operands, op.result, tangents)
        if tangent is not None:
            self.tangents[op.result] = fit(write, tangent, op.result)

    def _writer(self, op: Op) -> Writer:
        return writer(self.builder, {name: op.attrs[name] for name in (NUMERICS,) if name in op.attrs})

    def _inner(self, block: Block) -> Jvp:
        builder = Builder(block, self.builder.span)
        return Jvp(builder, self.values, self.tangents, self._functions, reverse=self._reverse)

    def _is_active(self, op: Op) -> bool:
        return any(self.values.get(v, v) in self.tangents for v in op.operands)

    def _body(self, call: Op) -> None:
        """A call whose derivative is that of its body becomes it."""
        block = Block()
        builder = Builder(block, call.span)
        given = [self.values.get(v, v) for v in call.operands]
        found = self._functions.body(builder, call, given)
        for op in list(block.ops):
            self._op(op)
        self.values.update((old, self.values.get(new, new)) for old, new in zip(call.results, found, strict=True))
        block.drop_all_uses()

    def _custom(self, op: Op) -> None:
        """A function goes by the rule that the program gives for the mode that is asked for."""
        own = own_arguments(op)
        operands, results = smooth(own), smooth(op.results)
        wrt = tuple(place for place, operand in enumerate(operands) if operand in self.tangents)
        if not wrt or not results:
            return
        given = (*own, *op.results)
        if CALLED in op.attrs and not self._reverse:
            op.attrs[FORWARD_RULE] = self._functions.forward_rule(op)
        if self._reverse and (REVERSE_RULE in op.attrs or CALLED in op.attrs):
            found = self._pullback(op, [self.tangents[operands[place]] for place in wrt], wrt)
        elif FORWARD_RULE in op.attrs:
            if self._functions.shares_value(op):
                op.attrs[MEANT] = True  # what the derivative computes of the meaning anyway
            tangents = [self.tangents.get(operand) or self._zero(operand) for operand in operands]
            linear = len(tangents) if self._reverse else 0
            if self._functions.is_open(op.attrs[FORWARD_RULE]):
                raise NotDifferentiable(op.span, "this call", ITSELF)
            before = set(self.builder.block.ops)
            found = self._functions.rule(self.builder, op.attrs[FORWARD_RULE], (*given, *tangents), op, linear)
            if linear:
                found = self._arranged(before, tangents, found)
        else:
            raise NotDifferentiable(op.span, "this call", NOT_FORWARD if REVERSE_RULE in op.attrs else KERNEL)
        self.tangents.update(zip(results, found, strict=True))

    def _pullback(self, op: Op, tangents: Sequence[Value], wrt: tuple[int, ...]) -> list[Value]:
        attrs: dict[str, Attr] = {name: op.attrs[name] for name in (NUMERICS, CALLED, "operator") if name in op.attrs}
        given = op.operands if CALLED in op.attrs else (*own_arguments(op), *op.results)
        rule = (op.attrs["callee"], op.attrs["dims"]) if CALLED in op.attrs else op.attrs[REVERSE_RULE]
        types = [v.type for v in smooth(op.results)]
        made = self.builder.op(PULLBACK, (*given, *tangents), types, {**attrs, "rule": rule, "wrt": wrt})
        return list(made.results)

    def _arranged(self, before: set[Op], tangents: Sequence[Value], found: Sequence[Value]) -> list[Value]:
        """What a rule gives, once its loops and branches say what of them is linear."""
        made = [op for op in self.builder.block.ops if op not in before]
        held = self.builder.op("graph.held", found)
        arrange(made, set(tangents))
        outcome = list(held.operands)
        held.erase()
        return outcome

    def _zero(self, value: Value) -> Value:
        """A tangent that is zero, for a rule that may do anything linear with it."""
        if self._reverse:
            return self.builder.value(TANGENT, (), value.type)
        return writer(self.builder, {}).given(None, value)

    # ------------------------------------------------------------------------------------------ control flow

    def _cond(self, op: Op) -> None:
        blocks, yields = [], []
        for region in op.regions:
            blocks.append(Block())
            yields.append(self._inner(blocks[-1]).block(region.block))
        places = [i for i in range(len(op.results)) if any(out[i] in self.tangents for out in yields)]
        if not places:
            self._unchanged(op, blocks)
            return
        for block, out in zip(blocks, yields, strict=True):
            self._yield(block, out, places)
        self._replace(op, [self.values.get(v, v) for v in op.operands], blocks, places)

    def _loop(self, op: Op) -> None:
        """Which of the carried values have tangents shows where the body yields one: then it is tried again."""
        skip = 2 if op.name == "form.loop" else 0
        operands = [self.values.get(v, v) for v in op.operands]
        inits = operands[skip:]
        active = {place for place, init in enumerate(inits) if init in self.tangents}
        while True:
            blocks, yields = self._bodies(op, sorted(active))
            found = {place for place, value in enumerate(yields) if value in self.tangents}
            if found <= active:
                break
            active |= found
            for block in blocks:
                block.drop_all_uses()
        places = sorted(active)
        if not places:
            self._unchanged(op, blocks)
            return
        self._yield(blocks[-1], yields, places)
        write = writer(self.builder, {})
        operands += [write.given(self.tangents.get(inits[place]), inits[place]) for place in places]
        self._replace(op, operands, blocks, places)

    def _bodies(self, op: Op, places: Sequence[int]) -> tuple[list[Block], list[Value]]:
        """The regions of a loop with tangents carried for these places; what the last one yields."""
        *tests, body = (region.block for region in op.regions)
        first = 1 if op.name == "form.loop" else 0
        blocks = []
        for test in tests:
            blocks.append(copy_block(test, self.values, {}))
            for place in places:
                blocks[-1].add_arg(op.results[place].type)
        block = Block([a.type for a in body.args], [a.name for a in body.args])
        self.values.update(zip(body.args, block.args, strict=True))
        for place in places:
            name = f"d{body.args[first + place].name}"
            self.tangents[block.args[first + place]] = block.add_arg(op.results[place].type, name)
        return [*blocks, block], self._inner(block).block(body)

    def _unchanged(self, op: Op, blocks: Sequence[Block]) -> None:
        """Nothing that control flow gives has a tangent. What has one inside, as a sum that is only compared, has it
        for nobody, and would make all of it look linear."""
        for block in blocks:
            block.drop_all_uses()
        self.builder.add(copy_op(op, self.values, {}))

    def _yield(self, block: Block, values: Sequence[Value], places: Sequence[int]) -> None:
        builder = Builder(block, self.builder.span)
        write = writer(builder, {})
        tangents = [write.given(self.tangents.get(values[place]), values[place]) for place in places]
        builder.op("form.yield", (*values, *tangents))

    def _replace(self, op: Op, operands: Sequence[Value], blocks: Sequence[Block], places: Sequence[int]) -> None:
        types = [v.type for v in op.results] + [op.results[place].type for place in places]
        names, attrs = [v.name for v in op.results], {**op.attrs, TANGENTS: len(places)}
        new = self.builder.op(op.name, operands, types, attrs, blocks, names)
        count = len(op.results)
        self.values.update(zip(op.results, new.results[:count], strict=True))
        for place, tangent in zip(places, new.results[count:], strict=True):
            self.tangents[new.results[place]] = tangent
