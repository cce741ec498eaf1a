"""Typed expressions become operations of the graph.

Enters: an expression, and what names are bound to. Leaves: what is built of it, once, whoever reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, compress

from tesserac.base.dataclass import dataclass
from tesserac.check.model import typed
from tesserac.check.model.typed import STREAM
from tesserac.graph.applying import apply_operator
from tesserac.graph.autodiff.dialect import AUX, CHECKPOINT, JVP, VJP, smooth
from tesserac.graph.batching.dialect import VMAP
from tesserac.graph.built import (
    Built,
    Known,
    Names,
    add_arguments,
    has_stream,
    is_scaled,
    known_of,
    leaves_of,
    moves,
    moving_leaves,
    number_of,
    regrow,
    replant,
    stream_of,
    weight_name,
)
from tesserac.graph.dialect import (
    AS,
    CALL,
    CUSTOM,
    FORMS,
    FORWARD_RULE,
    MEANT,
    PREFIX,
    READS,
    REVERSE_RULE,
    SCHEDULE,
    operator_attrs,
)
from tesserac.graph.rng_keys import KEY, RngKeys
from tesserac.graph.stochastic_rounding import rounded_stochastically
from tesserac.ir import forms
from tesserac.ir.builder import Builder
from tesserac.ir.core import Attr, Block, Value
from tesserac.ops.convert import Cast
from tesserac.ops.create import Arange, Full, Zeros
from tesserac.ops.registry import Operator
from tesserac.ops.rounding import rounds
from tesserac.ops.shape import Expand, Permute
from tesserac.types.dims import Dim
from tesserac.types.dtype import F64, U64
from tesserac.types.leaves import leaf_types, run_time_type
from tesserac.types.ty import TensorType, TupleType, Type, parts


@dataclass(frozen=True)
class _Differentiated:
    """A function whose derivative is asked for: its region and what that gives, the arguments that count, by name; the
    leaves of all arguments, and of the tangents or cotangents."""

    block: Block
    value: Built
    by: Built
    args: list[Value]
    seeds: list[Value]


def _places(leaves: Sequence[Value]) -> tuple[int, ...]:
    return tuple(leaf.index for leaf in leaves)


class Expressions:
    """Builds expressions. `names` is what every name is bound to at the point being built."""

    def __init__(self, builder: Builder, result: Type, asserts: bool, derives: bool) -> None:
        self.builder = builder
        self.result = result
        self.asserts = asserts
        self.derives = derives
        self.keys = RngKeys(builder)
        self.numerics: dict[str, Attr] = {}
        self._built: list[dict[typed.Expr, Built]] = [{}]

    def statements(self, body: typed.Block, names: dict[str, Built]) -> Built | None:
        """Those that stand inside an expression."""
        raise NotImplementedError

    def expression(self, expression: typed.Expr, names: Names) -> Built:
        """A value is built by the first that reads it, and found by all others to which it is visible."""
        if isinstance(expression, typed.Static | typed.Local | typed.Weight):
            return self._expression(expression, names)
        for built in reversed(self._built):
            if expression in built:
                return built[expression]
        with self.builder.spanned(expression.span):
            value = self._built[-1][expression] = self._expression(expression, names)
        return value

    @contextmanager
    def _inside(self, block: Block) -> Iterator[Block]:
        """Builds into a block; what is built there is not seen outside."""
        self._built.append({})
        with self.builder.at(block):
            yield block
        self._built.pop()

    def _settled(self, built: Built, ty: Type) -> Built:
        """A value of this type: a number that is known here, but not where control flow joins, is one of the run, and
        one that has no dtype here takes the one that it has there."""
        inner = parts(ty)
        if isinstance(built, tuple) and inner is not None:
            return tuple(self._settled(item, type_) for item, type_ in zip(built, inner, strict=True))
        target = run_time_type(ty)
        if isinstance(built, Known) or target is None:
            return built if target is None else self._materialize(built, target)
        return self._coerce(built, ty) if isinstance(built, Value) else built

    def _value(self, expression: typed.Expr, names: Names) -> Value:
        built = self.expression(expression, names)
        assert isinstance(built, Value), f"{built} has no run-time value"
        return built

    def _expression(self, expression: typed.Expr, names: Names) -> Built:
        match expression:
            case typed.Static():
                return known_of(expression.type)
            case typed.Local() | typed.Weight() | typed.NextKey():
                return self._read(expression, names)
            case typed.Coerce():
                return self._coerce(self.expression(expression.value, names), expression.type)
            case typed.Apply():
                return self._application(expression, names)
            case typed.Call():
                return self._call(expression, names)
            case typed.TupleOf():
                return tuple(self.expression(item, names) for item in expression.items)
            case typed.Item():
                value = self.expression(expression.value, names)
                assert isinstance(value, tuple)
                return value[expression.index]
            case _:
                return self._scoped(expression, names)

    def _scoped(
        self,
        expression: typed.Conditional | typed.Let | typed.Derivative | typed.Mapped | typed.Checkpoint,
        names: Names,
    ) -> Built:
        """Expressions with others inside that are not evaluated as they stand, or with names of their own."""
        match expression:
            case typed.Conditional():
                return self._conditional(expression, names)
            case typed.Let():
                inner = dict(names)
                self.statements(expression.bindings, inner)
                return self.expression(expression.value, inner)
            case typed.Derivative():
                return self._derivative(expression, names)
            case typed.Mapped():
                return self._mapped(expression, names)
            case typed.Checkpoint():
                return self._checkpoint(expression, names)

    def _checkpoint(self, expression: typed.Checkpoint, names: Names) -> Built:
        with self._inside(Block()) as block:
            value = self._settled(self.expression(expression.value, names), expression.type)
            self.builder.op("form.yield", leaves_of(value))
        types = [leaf.type for leaf in leaves_of(value)]
        return replant(value, iter(self.builder.op(CHECKPOINT, (), types, None, (block,)).results))

    def _derivative(self, expression: typed.Derivative, names: Names) -> Built:
        """The function as a region, whose arguments are the leaves of its own."""
        args = [self._settled(self.expression(arg, names), arg.type) for arg in expression.args]
        inner, block = dict(names), Block()
        for name, arg in zip(expression.params, expression.args, strict=True):
            inner[name] = add_arguments(block, name, arg.type)
        with self._inside(block):
            value = self._settled(self.expression(expression.value, inner), expression.value.type)
            self.builder.op("form.yield", leaves_of(value))
        seeds = [self._settled(self.expression(seed, names), seed.type) for seed in expression.seeds]
        by = tuple(inner[expression.params[place]] for place in expression.wrt)
        built = _Differentiated(block, value, by, leaves_of(tuple(args)), leaves_of(tuple(seeds)))
        return self._pulled_back(expression, built) if expression.reverse else self._pushed_forward(expression, built)

    def _pushed_forward(self, expression: typed.Derivative, built: _Differentiated) -> Built:
        """What the value changes by; nobody asks for the changes of its buffers."""
        pair = expression.type
        assert isinstance(pair, TupleType)
        wrt = moving_leaves(built.by, TupleType(tuple(seed.type for seed in expression.seeds)))
        outputs = leaves_of(built.value)
        types = [leaf.type for leaf in (*outputs, *smooth(outputs))]
        op = self.builder.op(JVP, [*built.args, *built.seeds], types, {"wrt": _places(wrt)}, (built.block,))
        changes = compress(op.results[len(outputs) :], moves(built.value, pair.items[1]))
        return regrow(pair, chain(op.results[: len(outputs)], changes))

    def _pulled_back(self, expression: typed.Derivative, built: _Differentiated) -> Built:
        """The cotangents of the arguments; that of a buffer of the value is zero."""
        pair, value, (seed,) = expression.type, built.value, expression.seeds
        assert isinstance(pair, TupleType)
        wrt = moving_leaves(built.by, pair.items[1])
        attrs: dict[str, Attr] = {"wrt": _places(wrt)}
        outputs = leaves_of(value)
        if expression.has_aux:
            assert isinstance(value, tuple)
            value, besides = value
            attrs[AUX] = len(leaves_of(besides))
        given, counted = iter(built.seeds), zip(smooth(leaves_of(value)), moves(value, seed.type), strict=True)
        cotangents = [next(given) if counts else self._zeros(leaf) for leaf, counts in counted]
        types = [leaf.type for leaf in (*outputs, *wrt)]
        op = self.builder.op(VJP, [*built.args, *cotangents], types, attrs, (built.block,))
        return regrow(pair, iter(op.results))

    def _zeros(self, like: Value) -> Value:
        type_ = forms.tensor_type(like)
        return apply_operator(self.builder, Zeros(type_.dims, type_.dtype, type_.policy))

    def _mapped(self, expression: typed.Mapped, names: Names) -> Built:
        """The function for one element as a region. What is random depends on the element as it does on the iteration
        of a loop."""
        args = [self._settled(self.expression(arg, names), arg.type) for arg in expression.args]
        operands = [leaf for arg in args for leaf in leaves_of(arg)]
        axes = [axis for places in expression.in_axes for axis in places]
        inner, block = dict(names), Block()
        for param in expression.params:
            inner[param.name] = add_arguments(block, param.name, param.type)
        with self._inside(block):
            if has_stream(names):
                element = block.add_arg(KEY, "iteration")
                inner[weight_name(STREAM)] = self.keys.iteration(stream_of(names), expression, element)
            value = self._settled(self.expression(expression.value, inner), expression.value.type)
            self.builder.op("form.yield", leaves_of(value))
        if has_stream(names):
            operands.append(apply_operator(self.builder, Arange(expression.size, dtype=U64)))
            axes.append(0)
        attrs: dict[str, Attr] = {"in_axes": tuple(axes), "out_axes": expression.out_axes, "size": expression.size}
        attrs |= {"across": expression.axis_name} if expression.axis_name else {}
        op = self.builder.op(VMAP, operands, list(leaf_types(expression.type)), attrs, (block,))
        return regrow(expression.type, iter(op.results))

    def _read(self, expression: typed.Local | typed.Weight | typed.NextKey, names: Names) -> Built:
        if isinstance(expression, typed.NextKey):
            return self.keys.key(stream_of(names), expression)
        is_weight = isinstance(expression, typed.Weight)
        return names[weight_name(expression.name) if is_weight else expression.name]

    def _operand(self, expression: typed.Expr, names: Names) -> Value:
        built = self.expression(expression, names)
        return built if isinstance(built, Value) else self._materialize(built, TensorType((), F64))

    def _apply(self, operator: Operator, operands: Sequence[Value], ty: Type) -> Value:
        result = run_time_type(ty)
        assert result is not None, f"{operator.name} has no run-time result"
        attrs = {**operator_attrs(operator), **self.numerics}
        return self.builder.value(PREFIX + operator.name, operands, result, attrs)

    def _application(self, expression: typed.Apply, names: Names) -> Built:
        if is_scaled(expression.type) or any(is_scaled(operand.type) for operand in expression.operands):
            return self._apply_scaled(expression.op, expression.operands[0], expression.type, names)
        operands = [self._operand(e, names) for e in expression.operands]
        result = run_time_type(expression.type)
        if result is not None and expression.schedule:
            attrs = {**operator_attrs(expression.op), **self.numerics, SCHEDULE: expression.schedule}
            return self.builder.value(PREFIX + expression.op.name, operands, result, attrs)
        if result is not None and _rounds_at_random(expression):
            key = self.keys.key(stream_of(names), expression)
            return rounded_stochastically(self.builder, expression.op, operands, result, key)
        return self._apply(expression.op, operands, expression.type)

    def _apply_scaled(self, operator: Operator, operand: typed.Expr, ty: Type, names: Names) -> Built:
        from tesserac.graph.scaled import dequantise, quantise

        leaves = leaves_of(self.expression(operand, names))
        assert isinstance(ty, TensorType) and isinstance(operand.type, TensorType)
        if isinstance(operator, Permute):
            return apply_operator(self.builder, operator, leaves[0]), leaves[1]
        if operand.type.is_scaled:
            leaves = [dequantise(self.builder, operand.type, leaves[0], leaves[1], ty)]
        return quantise(self.builder, leaves[0], ty) if ty.is_scaled else leaves[0]

    def _coerce(self, built: Built, ty: Type) -> Built:
        target = run_time_type(ty)
        if target is None:
            return Known(ty)
        if not isinstance(built, Value):
            return self._materialize(built, target)
        if built.type == target:
            return built
        if forms.tensor_type(built).dims != target.dims:  # a fact makes them equal
            return self._apply(Expand(target.dims), (built,), target)
        return self._apply(Cast(target.dtype, target.policy), (built,), target)

    def _materialize(self, built: Built, target: TensorType) -> Value:
        """A compile-time number as a 0-d tensor, rounded once to its dtype."""
        assert isinstance(built, Known), f"{built} is not a number"
        number = number_of(built.type)
        if isinstance(number, Dim):
            return self.builder.value("graph.size", (), target, {"dim": number})
        return self._apply(Full((), target.dtype, target.policy, number), (), target)

    def _call(self, call: typed.Call, names: Names) -> Built:
        operands = [leaf for arg in call.args for leaf in leaves_of(self.expression(arg, names))]
        count = len(operands)
        for weight in call.reads:
            operands += [self._stream_of(call, names)] if weight == STREAM else leaves_of(names[weight_name(weight)])
        attrs: dict[str, Attr] = {"callee": call.function, "dims": call.dims, **self.numerics}
        for rule in call.rules if self.derives else ():
            attrs[FORWARD_RULE if rule.forward else REVERSE_RULE] = (rule.function, rule.dims)
        if call.meant:
            attrs[MEANT] = True
        if call.schedule:
            attrs[SCHEDULE] = call.schedule
        if call.forms:
            attrs[FORMS] = tuple((form.structure, form.function, form.dims) for form in call.forms)
        name = CUSTOM if call.rules or call.closed else CALL
        if call.told:
            attrs["operator" if name == CUSTOM else AS] = call.told
        if call.reads and name == CUSTOM:
            attrs[READS] = len(operands) - count
        op = self.builder.op(name, operands, list(leaf_types(call.type)), attrs)
        return regrow(call.type, iter(op.results))

    def _stream_of(self, call: typed.Call, names: Names) -> Value:
        """The random stream of a callee: the key that the call gives, else one of this place."""
        return self._value(call.key, names) if call.key is not None else self.keys.key(stream_of(names), call)

    def _conditional(self, expression: typed.Conditional, names: Names) -> Built:
        flag = self._value(expression.test, names)
        blocks = []
        for branch in (expression.then, expression.otherwise):
            with self._inside(Block()) as block:
                self.builder.op("form.yield", leaves_of(self._settled(self.expression(branch, names), expression.type)))
            blocks.append(block)
        types = list(leaf_types(expression.type))
        op = self.builder.op("form.cond", (flag,), types, sized_attrs(expression), blocks)
        return regrow(expression.type, iter(op.results))


def sized_attrs(branch: typed.If | typed.Conditional) -> dict[str, Attr]:
    return {forms.SIZED: True} if branch.sized else {}


def _rounds_at_random(expression: typed.Apply) -> bool:
    ty = expression.type
    if not isinstance(ty, TensorType) or not ty.policy.stochastic_round:
        return False
    return rounds(expression.op, [o.type for o in expression.operands if isinstance(o.type, TensorType)], ty)
