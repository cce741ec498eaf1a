"""Reverse mode: what is linear in tangents, transposed.

Enters: linear operations in order, and the cotangents of some of their results. Leaves: cotangents of the tangents that
they start from. Cotangents of one value add up in the order in which they are found, which is reverse program order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tesserac.graph.autodiff.called import Pull
from tesserac.graph.autodiff.cotangents import is_zero, total
from tesserac.graph.autodiff.custom import PULLBACK, Functions
from tesserac.graph.autodiff.dialect import BACKWARD, CHECKPOINT, ITERATIONS, TANGENT, smooth
from tesserac.graph.autodiff.errors import BY_TANGENTS, ITSELF, NOT_LINEAR, NotDifferentiable
from tesserac.graph.autodiff.linear import erase_unused, linear_ops, loop_bounds, used_values
from tesserac.graph.autodiff.loss_scale import across, scale_of, scaled
from tesserac.graph.autodiff.windowed import over_product
from tesserac.graph.autodiff.writing import fit, writer
from tesserac.graph.dialect import NUMERICS, is_operator, operator_of
from tesserac.graph.substitute import copy_op
from tesserac.ir.builder import Builder
from tesserac.ir.calls import CALLED
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import indices, tensor_type
from tesserac.ir.index import dim_value
from tesserac.ir.types import INDEX
from tesserac.ops.calculus import Writer
from tesserac.ops.registry import Operator
from tesserac.types.dims import Dim


class Transpose:
    """Walks linear operations from the last to the first. `tangents` are all values that are linear."""

    def __init__(self, builder: Builder, tangents: set[Value], functions: Functions) -> None:
        self.builder = builder
        self.tangents = tangents
        self.cotangents: dict[Value, Value] = {}
        self._functions = functions

    def add(self, value: Value, cotangent: Value | None) -> None:
        """A value has this cotangent, beside what it has already; one that is no tangent has none."""
        if cotangent is not None and value in self.tangents:
            known = self.cotangents.get(value)
            write = writer(self.builder, {})
            self.cotangents[value] = cotangent if known is None else total(write, known, cotangent)

    def run(self, ops: Sequence[Op]) -> None:
        for op in reversed(ops):
            if op.name != TANGENT and any(result in self.cotangents for result in op.results):
                with self.builder.spanned(op.span):
                    self._op(op)

    def given(self, values: Sequence[Value]) -> list[Value]:
        """Cotangents as tensors, also where they are zero."""
        write = writer(self.builder, {})
        return [write.given(self.cotangents.get(value), value) for value in values]

    def _op(self, op: Op) -> None:
        if is_operator(op):
            self._operator(op)
        elif op.name == PULLBACK:
            (self._called if CALLED in op.attrs else self._pullback)(op)
        elif op.name == "form.loop":
            self._loop(op)
        elif op.name == ITERATIONS:
            self._iterations(op)
        elif op.name in ("form.cond", CHECKPOINT) and self.tangents.isdisjoint(op.operands):
            self._cond(op)
        else:
            raise NotDifferentiable(op.span, "this", BY_TANGENTS)

    def _operator(self, op: Op) -> None:
        write = writer(self.builder, {name: op.attrs[name] for name in (NUMERICS,) if name in op.attrs})
        operator, cotangent = operator_of(op), self.cotangents[op.result]
        if not self._is_linear(op, operator):
            raise NotDifferentiable(op.span, f"`{operator.name}`", NOT_LINEAR)
        for position, operand in enumerate(op.operands):
            if operand in self.tangents:
                self.add(operand, self._transposed(write, op, cotangent, position))

    def _transposed(self, write: Writer, op: Op, cotangent: Value, position: int) -> Value | None:
        """What an operator sends back to one of its operands."""
        operand = op.operands[position]

        def transpose(value: Value) -> Value | None:
            back = over_product(write, op, value)
            if back is None:
                back = operator_of(op).transpose(write, value, op.operands, position)
            return None if back is None else fit(write, back, operand)

        return across(write, cotangent, scale_of(op.result), scale_of(operand), transpose)

    def _is_linear(self, op: Op, operator: Operator) -> bool:
        """Whether an operator is linear in those of its operands that are. Rules of operators are; those of programs
        are held to it."""
        places = [place for place, operand in enumerate(op.operands) if operand in self.tangents]
        if any(not smooth([op.operands[place]]) for place in places):
            return False
        if operator.linear == "jointly":
            others = [v for v in smooth(op.operands) if v not in self.tangents]
            return all(map(is_zero, others))
        return len(places) == 1 and operator.is_linear_in(places[0])

    def _called(self, op: Op) -> None:
        """The way back of a function that is called goes on from the cotangents that its arguments have. One that is
        several arguments, or has a scale, is added to instead."""
        wrt = indices(op, "wrt")
        args, tangents = op.operands[: len(op.operands) - len(wrt)], op.operands[len(op.operands) - len(wrt) :]
        known = {place: self.cotangents.get(t) for place, t in zip(wrt, tangents, strict=True)}
        alone = {place: t for place, t in zip(wrt, tangents, strict=True) if tangents.count(t) == 1}
        begun = tuple(place for place, t in alone.items() if known[place] is not None and scale_of(t) == 1)
        given = tuple(place for place, v in enumerate(op.results) if v in self.cotangents)
        write = writer(self.builder, {})
        back = [scaled(write, self.cotangents[v], 1 / scale_of(v)) for v in op.results if v in self.cotangents]
        back += [value for place in begun if (value := known[place]) is not None]
        found = self._functions.pull(self.builder, op.attrs["rule"], (*args, *back), Pull(given, begun))
        for place, tangent in zip(wrt, tangents, strict=True):
            if place in begun:
                self.cotangents[tangent] = found[place]
            else:
                self.add(tangent, scaled(write, found[place], scale_of(tangent)))

    def _pullback(self, op: Op) -> None:
        wrt = indices(op, "wrt")
        given, tangents = op.operands[: len(op.operands) - len(wrt)], op.operands[len(op.operands) - len(wrt) :]
        write = writer(self.builder, {})
        back = [scaled(write, c, 1 / scale_of(v)) for c, v in zip(self.given(op.results), op.results, strict=True)]
        if self._functions.is_open(op.attrs["rule"]):
            raise NotDifferentiable(op.span, "this call", ITSELF)
        found = self._functions.rule(self.builder, op.attrs["rule"], (*given, *back), op)
        for place, tangent in zip(wrt, tangents, strict=True):
            if found[place] is not None:
                self.add(tangent, scaled(write, found[place], scale_of(tangent)))

    # ------------------------------------------------------------------------------------------ control flow

    def _cond(self, op: Op) -> None:
        outer = self._outer(op)
        given, known = ([self.cotangents.get(v) for v in values] for values in (op.results, outer))
        blocks = []
        for region in op.regions:
            back = self._region(Block(), region.block, {}, {}, given, (), dict(zip(outer, known, strict=True)))
            back.builder.op("form.yield", back.given(outer))
            erase_unused(back.builder.block)
            blocks.append(back.builder.block)
        new = self.builder.op(op.name, op.operands, [v.type for v in outer], op.attrs, blocks)
        self._gathered((), outer, new.results)

    def _gathered(self, own: Sequence[Value], outer: Sequence[Value], cotangents: Sequence[Value]) -> None:
        """After control flow: tangents from around have what they had before and more, its own operands some more."""
        self.cotangents.update(zip(outer, cotangents[len(own) :], strict=True))
        for value, cotangent in zip(own, cotangents, strict=False):
            self.add(value, cotangent)

    def _loop(self, op: Op) -> None:
        """The iterations from the last to the first."""
        (low, high), outer = loop_bounds(op), self._outer(op)
        counter = self._functions.fresh(str(op.attrs["counter"]))
        bounds = [dim_value(self.builder, bound) for bound in (low, high)]
        inits = self.given((*op.results, *outer))
        block = Block((INDEX, *(v.type for v in inits)), (counter,))
        iteration = {str(op.attrs["counter"]): low + high - 1 - Dim.sym(counter)}
        index, *given = block.args
        Builder(block, self.builder.span).op("form.yield", self._iteration(op, block, index, iteration, given, outer))
        erase_unused(block)
        attrs = {**op.attrs, "counter": counter, BACKWARD: True}
        new = self.builder.op("form.loop", (*bounds, *inits), [v.type for v in inits], attrs, (block,))
        self._gathered(op.operands[2:], outer, new.results)

    def _iterations(self, op: Op) -> None:
        """The same where the run counts: down to zero."""
        outer, one = self._outer(op), tensor_type(op.operands[0])
        inits = (op.operands[0], *self.given((*op.results, *outer)))
        test, block = (Block([v.type for v in inits], ("iteration",)) for _ in range(2))
        inside = Builder(test, self.builder.span)
        write = writer(inside, {})
        inside.op("form.yield", (write("less", write.full(0, one), test.args[0]),))
        inside = Builder(block, self.builder.span)
        write = writer(inside, {})
        iteration = write("sub", block.args[0], write.full(1, one))
        inside.op("form.yield", (iteration, *self._iteration(op, block, iteration, {}, block.args[1:], outer)))
        erase_unused(block)
        new = self.builder.op("form.while", inits, [v.type for v in inits], op.attrs, (test, block))
        self._gathered(op.operands[1:], outer, new.results[1:])

    def _iteration(
        self,
        op: Op,
        block: Block,
        index: Value,
        iteration: Mapping[str, Dim],
        carried: Sequence[Value],
        outer: Sequence[Value],
    ) -> list[Value]:
        """What an iteration that is given cotangents carries on to the one before it."""
        body, count = op.body, len(op.results)
        known = dict(zip(outer, carried[count:], strict=True))
        back = self._region(block, body, {body.args[0]: index}, iteration, carried[:count], body.args[1:], known)
        return back.given((*body.args[1:], *outer))

    def _region(
        self,
        block: Block,
        source: Block,
        values: dict[Value, Value],
        iteration: Mapping[str, Dim],
        given: Sequence[Value | None],
        own: Sequence[Value],
        known: Mapping[Value, Value | None],
    ) -> Transpose:
        """A body transposed into `block`: its values are computed, then cotangents go from what it yields to `own`, the
        tangents it is given, and to those from around, of which some are `known`: sums go on from there, so that they
        have one order however control flow is nested."""
        for op in source.ops[:-1]:
            block.append(copy_op(op, values, iteration))
        tangents = {*self.tangents, *own}
        linear = linear_ops(block.ops, tangents)
        back = Transpose(Builder(block, self.builder.span), tangents, self._functions)
        back.cotangents.update((v, cotangent) for v, cotangent in known.items() if cotangent is not None)
        for value, cotangent in zip(source.terminator.operands, given, strict=True):
            back.add(values.get(value, value), cotangent)
        back.run(linear)
        for op in reversed(linear):
            op.erase()
        return back

    def _outer(self, op: Op) -> list[Value]:
        """The tangents from around that the regions of an operation use."""
        seen = dict.fromkeys(v for region in op.regions for inner in region.block.ops for v in used_values(inner))
        return [v for v in seen if v in self.tangents]
