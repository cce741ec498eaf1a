"""Typed functions become Graph IR: every expression an operation, every name the value it is bound to.

Enters: `TypedFunction`s, callees included. Leaves: a module of `graph.func`, one per function, in the same order.
Static values leave nothing behind: what is known while compiling is an attribute, a dim or a constant. A tuple is as
many values as it has leaves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.declarations.donation import donated_arguments
from tesserac.check.model import typed
from tesserac.check.model.scope import HIDDEN
from tesserac.check.model.typed import STREAM
from tesserac.graph.applying import apply_operator
from tesserac.graph.assert_attribution import library_name
from tesserac.graph.autodiff.dialect import AUX, CHECKPOINT, EVERY, JVP, MAX_STEPS, SLOTS, VJP, smooth
from tesserac.graph.batching.dialect import VMAP
from tesserac.graph.dialect import CALL, CUSTOM, FORWARD_RULE, NUMERICS, PREFIX, READS, REVERSE_RULE, operator_attrs
from tesserac.graph.printing import Pieces
from tesserac.graph.rng_keys import KEY, RngKeys
from tesserac.graph.scaled import dequantise, quantise
from tesserac.graph.stochastic_rounding import rounded_stochastically
from tesserac.graph.substitute import copy_block
from tesserac.ir import forms
from tesserac.ir.builder import Builder
from tesserac.ir.core import Attr, Block, Module, Op, Value
from tesserac.ir.effects import NOTE, STANDARD_OUTPUT
from tesserac.ir.index import dim_value
from tesserac.ir.ordering import order_effects
from tesserac.ir.types import INDEX
from tesserac.ops.convert import Cast
from tesserac.ops.create import Arange, Full
from tesserac.ops.registry import Operator
from tesserac.ops.rounding import rounds
from tesserac.ops.shape import Expand, Permute
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import F64, I64, U64
from tesserac.types.leaves import leaf_types, run_time_parts, run_time_type
from tesserac.types.ty import Aggregate, BoolType, FloatType, IntType, TensorType, Type, parts


class Unsupported(Exception):
    """The program is right, but the compiler cannot build this part of it yet."""

    def __init__(self, span: Span, message: str) -> None:
        super().__init__(message)
        self.span = span


@dataclass(frozen=True)
class Known:
    """A value that exists only while compiling; its type carries it."""

    type: Type


Built = Value | Known | tuple["Built", ...]
Names = Mapping[str, Built]


def build_module(
    functions: Sequence[typed.TypedFunction], entries: Collection[str], *, asserts: bool = True
) -> Module:
    """The functions as Graph IR; `entries` are the symbols of those that may be called from outside."""
    module = Module([_build_function(f, f.symbol in entries, asserts) for f in functions])
    order_effects(module)
    return module


def _build_function(function: typed.TypedFunction, entry: bool, asserts: bool) -> Op:
    block = Block()
    names: dict[str, Built] = {}
    for param in function.params:
        names[param.name] = _argument(block, param.name, param.type)
    for weight in function.reads:
        names[_weight(weight.name)] = _argument(block, weight.name, weight.type)
    of_library = library_name(function.symbol, function.span) is not None  # that is its meaning, not a doubt
    body = _Body(Builder(block, function.span), function.result, asserts or of_library)
    returned = body.statements(function.body, names)
    with body.builder.spanned(function.span):
        body.builder.op("graph.return", _leaves(returned) if returned is not None else ())
    guards = tuple(forms.Guard(g.kind, g.left, g.right, g.text, g.code, g.span) for g in function.guards)
    params = tuple(arg.name for arg in block.args)
    attrs: dict[str, Attr] = {"sym_name": function.symbol, "params": params, "guards": guards, "entry": entry}
    if entry and function.donated:
        attrs["donated"] = donated_arguments(function.donated, function.params, function.result)
    outer = Builder(Block(), function.span)
    func = outer.op("graph.func", (), (), attrs, (block,))
    func.detach()
    return func


def _weight(name: str) -> str:
    """Params of the module stand beside local names, which may be the same."""
    return f"param {name}"


def _draws(names: Names) -> bool:
    """Whether the function has a random stream."""
    return _weight(STREAM) in names


def _stream(names: Names) -> Value:
    stream = names[_weight(STREAM)]
    assert isinstance(stream, Value)
    return stream


def _argument(block: Block, name: str, ty: Type) -> Built:
    """Block arguments for the leaves of a parameter; a static one has none."""
    if (inner := run_time_parts(ty)) is not None:
        return tuple(_argument(block, f"{name}.{part}", item) for part, item in inner)
    tensor = run_time_type(ty)
    return Known(ty) if tensor is None else block.add_arg(tensor, name)


def _leaves(built: Built) -> list[Value]:
    if isinstance(built, tuple):
        return [leaf for item in built for leaf in _leaves(item)]
    return [built] if isinstance(built, Value) else []


def _regrow(ty: Type, leaves: Iterator[Value]) -> Built:
    """The inverse of `_leaves`, for a value of this type."""
    if (inner := run_time_parts(ty)) is not None:
        return tuple(_regrow(item, leaves) for _, item in inner)
    return Known(ty) if run_time_type(ty) is None else next(leaves)


class _Body:
    """Builds statements and expressions. `names` is what every name is bound to at the point being built."""

    def __init__(self, builder: Builder, result: Type, asserts: bool) -> None:
        self.builder = builder
        self.result = result
        self.asserts = asserts
        self.keys = RngKeys(builder)
        self.numerics: dict[str, Attr] = {}
        self._built: list[dict[typed.Expr, Built]] = [{}]

    def statements(self, body: typed.Block, names: dict[str, Built]) -> Built | None:
        """Runs over a block, rebinding in `names`; what it returns, or None if it goes on."""
        for statement in body:
            with self.builder.spanned(statement.span):
                returned = self._statement(statement, names)
            if returned is not None:
                return returned
        return None

    def _statement(self, statement: typed.Stmt, names: dict[str, Built]) -> Built | None:
        match statement:
            case typed.Bind():
                names[statement.name] = self._named(statement.name, self.expression(statement.value, names))
            case typed.BindTuple():
                value = self.expression(statement.value, names)
                assert isinstance(value, tuple)
                names.update(zip(statement.names, value, strict=True))
            case typed.Evaluate():
                self.expression(statement.value, names)
            case typed.Return():
                return self._settled(self.expression(statement.value, names), self.result)
            case typed.If():
                return self._if(statement, names)
            case typed.For():
                self._for(statement, names)
            case typed.While():
                self._while(statement, names)
            case _:
                self._effect(statement, names)
        return None

    def _effect(self, statement: typed.Assert | typed.Require | typed.Print | typed.Numerics, names: Names) -> None:
        match statement:
            case typed.Require():
                self._require(statement)
            case typed.Assert() if self.asserts:
                self._assert(statement, names)
            case typed.Print():
                self._print(statement.pieces, names, STANDARD_OUTPUT)
            case typed.Numerics():
                self.numerics = {NUMERICS: statement.mode} if statement.mode else {}

    def _assert(self, statement: typed.Assert, names: Names) -> None:
        """What is to be said besides is computed, and noted, only where the check fails."""
        flag = self._value(statement.test, names)
        if statement.shown:
            blocks = []
            for holds in (True, False):
                with self._inside(Block()) as block:
                    if not holds:
                        self._print(statement.shown, names, NOTE)
                    self.builder.op("form.yield")
                blocks.append(block)
            self.builder.op("form.cond", (flag,), (), None, blocks)
        self.builder.op("form.assert", (flag,), (), {"text": statement.message})

    def _require(self, check: typed.Require) -> None:
        guard = forms.Guard(check.kind, check.left, check.right, check.text)
        attrs: dict[str, Attr] = {"guard": guard, "operator": check.code}
        self.builder.op("form.require", (), (), attrs if check.shown is None else {**attrs, "shown": check.shown})

    def _print(self, shown: Sequence[str | typed.Shown], names: Names, to: str) -> None:
        pieces = Pieces()
        for piece in shown:
            if isinstance(piece, str):
                pieces.text(piece)
                continue
            leaves = iter(_leaves(self.expression(piece.value, names)))
            pieces.show(piece.value.type, piece.format, lambda type_, leaves=leaves: self._shown(type_, leaves))  # type: ignore[misc]
        self.builder.op("form.print", pieces.values, (), {"pieces": tuple(pieces.pieces), "to": to})

    def _shown(self, type_: Type, leaves: Iterator[Value]) -> Value | None:
        """The value of the run behind a type that is printed; a size is one."""
        if isinstance(type_, IntType) and type_.value.constant is None:
            return self._materialize(Known(type_), TensorType((), I64))
        return None if run_time_type(type_) is None else next(leaves)

    @staticmethod
    def _named(name: str, built: Built) -> Built:
        if isinstance(built, Value) and not built.name and not name.startswith(HIDDEN):
            built.name = name
        return built

    # ------------------------------------------------------------------------------------------ control flow

    def _if(self, statement: typed.If, names: dict[str, Built]) -> Built | None:
        flag = self._value(statement.test, names)
        blocks, outcomes, numerics = [], [], self.numerics
        for branch in (statement.then, statement.otherwise):
            inner, self.numerics = dict(names), numerics
            with self._inside(Block()) as block:
                returned = self.statements(branch, inner)
                results: Built = returned if returned is not None else self._outcome(inner, statement.results)
                self.builder.op("form.yield", _leaves(results))
            blocks.append(block)
            outcomes.append((returned is not None, results))
        types = [leaf.type for leaf in _leaves(outcomes[0][1])]
        leaves = iter(self.builder.op("form.cond", (flag,), types, _sized(statement), blocks).results)
        if outcomes[0][0]:
            return _replant(outcomes[0][1], leaves)
        names.update((c.name, _regrow(c.type, leaves)) for c in statement.results)
        return None

    def _for(self, statement: typed.For, names: dict[str, Built]) -> None:
        start, stop = self._bound(statement.start, names), self._bound(statement.stop, names)
        initial = self._carried(names, statement.carried)
        inner = dict(names)
        block = Block((INDEX,), (statement.index,))
        for carried in statement.carried:
            inner[carried.name] = _argument(block, carried.name, carried.type)
        inner[statement.index] = Known(IntType(Dim.sym(statement.index)))
        with self._inside(block):
            if _draws(names):
                iteration = self.keys.iteration(_stream(names), statement, self.keys.index(statement.index))
                inner[_weight(STREAM)] = iteration
            self.statements(statement.body, inner)
            self._yield(inner, statement.carried)
        if statement.step != 1:
            start, stop, block = _with_unit_step(statement, start, stop, block)
        bounds = [dim_value(self.builder, bound) for bound in (start, stop)]
        attrs: dict[str, Attr] = {"counter": statement.index, **_memory(statement.memory)}
        op = self.builder.op("form.loop", (*bounds, *initial), [v.type for v in initial], attrs, (block,))
        self._rebind(names, statement.carried, op)

    def _bound(self, expression: typed.Expr, names: Names) -> Dim:
        bound = self.expression(expression, names)
        assert isinstance(bound, Known) and isinstance(bound.type, IntType), f"{bound} is no bound of a loop"
        return bound.type.value

    def _while(self, statement: typed.While, names: dict[str, Built]) -> None:
        blocks = []
        for is_test in (True, False):
            inner = dict(names)
            block = Block()
            for carried in statement.carried:
                inner[carried.name] = _argument(block, carried.name, carried.type)
            iterations = [block.add_arg(KEY, "iteration")] if _draws(names) else []
            with self._inside(block):
                for iteration in iterations:
                    inner[_weight(STREAM)] = self.keys.iteration(_stream(names), statement, iteration)
                if is_test:
                    self.builder.op("form.yield", (self._value(statement.test, inner),))
                else:
                    self.statements(statement.body, inner)
                    self._yield(inner, statement.carried, [self.keys.next(iteration) for iteration in iterations])
            blocks.append(block)
        initial = self._carried(names, statement.carried)
        initial += [self.keys.number(0)] if _draws(names) else []
        op = self.builder.op("form.while", initial, [v.type for v in initial], _memory(statement.memory), blocks)
        self._rebind(names, statement.carried, op)

    def _outcome(self, names: Names, carried: Sequence[typed.Carried]) -> tuple[Built, ...]:
        return tuple(self._settled(names[c.name], c.type) for c in carried)

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

    def _carried(self, names: Names, carried: Sequence[typed.Carried]) -> list[Value]:
        return _leaves(self._outcome(names, carried))

    def _yield(self, names: Names, carried: Sequence[typed.Carried], also: Sequence[Value] = ()) -> None:
        self.builder.op("form.yield", (*self._carried(names, carried), *also))

    def _rebind(self, names: dict[str, Built], carried: Sequence[typed.Carried], op: Op) -> None:
        leaves = iter(op.results)
        for c in carried:
            names[c.name] = self._named(c.name, _regrow(c.type, leaves))

    # ------------------------------------------------------------------------------------------- expressions

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

    def _value(self, expression: typed.Expr, names: Names) -> Value:
        built = self.expression(expression, names)
        assert isinstance(built, Value), f"{built} has no run-time value"
        return built

    def _expression(self, expression: typed.Expr, names: Names) -> Built:
        match expression:
            case typed.Static():
                return _known(expression.type)
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
            self.builder.op("form.yield", _leaves(value))
        types = [leaf.type for leaf in _leaves(value)]
        return _replant(value, iter(self.builder.op(CHECKPOINT, (), types, None, (block,)).results))

    def _derivative(self, expression: typed.Derivative, names: Names) -> Built:
        """The function as a region, whose arguments are the leaves of its own."""
        args = [self._settled(self.expression(arg, names), arg.type) for arg in expression.args]
        inner, block = dict(names), Block()
        for name, arg in zip(expression.params, expression.args, strict=True):
            inner[name] = _argument(block, name, arg.type)
        leaves = [leaf for place in expression.wrt for leaf in _leaves(inner[expression.params[place]])]
        wrt = [leaf.index for leaf in smooth(leaves)]
        with self._inside(block):
            value = self._settled(self.expression(expression.value, inner), expression.value.type)
            self.builder.op("form.yield", _leaves(value))
        seeds = [self._settled(self.expression(seed, names), seed.type) for seed in expression.seeds]
        operands = [leaf for built in (*args, *seeds) for leaf in _leaves(built)]
        name = VJP if expression.reverse else JVP
        attrs: dict[str, Attr] = {"wrt": tuple(wrt)}
        if expression.has_aux:
            assert isinstance(value, tuple)
            attrs[AUX] = len(_leaves(value[1]))
        op = self.builder.op(name, operands, list(leaf_types(expression.type)), attrs, (block,))
        return _regrow(expression.type, iter(op.results))

    def _mapped(self, expression: typed.Mapped, names: Names) -> Built:
        """The function for one element as a region. What is random depends on the element as it does on the iteration
        of a loop."""
        args = [self._settled(self.expression(arg, names), arg.type) for arg in expression.args]
        operands = [leaf for arg in args for leaf in _leaves(arg)]
        axes = [axis for places in expression.in_axes for axis in places]
        inner, block = dict(names), Block()
        for param in expression.params:
            inner[param.name] = _argument(block, param.name, param.type)
        with self._inside(block):
            if _draws(names):
                element = block.add_arg(KEY, "iteration")
                inner[_weight(STREAM)] = self.keys.iteration(_stream(names), expression, element)
            value = self._settled(self.expression(expression.value, inner), expression.value.type)
            self.builder.op("form.yield", _leaves(value))
        if _draws(names):
            operands.append(apply_operator(self.builder, Arange(expression.size, dtype=U64)))
            axes.append(0)
        attrs: dict[str, Attr] = {"in_axes": tuple(axes), "out_axes": expression.out_axes, "size": expression.size}
        attrs |= {"across": expression.axis_name} if expression.axis_name else {}
        op = self.builder.op(VMAP, operands, list(leaf_types(expression.type)), attrs, (block,))
        return _regrow(expression.type, iter(op.results))

    def _read(self, expression: typed.Local | typed.Weight | typed.NextKey, names: Names) -> Built:
        if isinstance(expression, typed.NextKey):
            return self.keys.key(_stream(names), expression)
        is_weight = isinstance(expression, typed.Weight)
        return names[_weight(expression.name) if is_weight else expression.name]

    def _operand(self, expression: typed.Expr, names: Names) -> Value:
        built = self.expression(expression, names)
        return built if isinstance(built, Value) else self._materialize(built, TensorType((), F64))

    def _apply(self, operator: Operator, operands: Sequence[Value], ty: Type) -> Value:
        result = run_time_type(ty)
        assert result is not None, f"{operator.name} has no run-time result"
        attrs = {**operator_attrs(operator), **self.numerics}
        return self.builder.value(PREFIX + operator.name, operands, result, attrs)

    def _application(self, expression: typed.Apply, names: Names) -> Built:
        if _is_scaled(expression.type) or any(_is_scaled(operand.type) for operand in expression.operands):
            return self._apply_scaled(expression.op, expression.operands[0], expression.type, names)
        operands = [self._operand(e, names) for e in expression.operands]
        result = run_time_type(expression.type)
        if result is not None and _rounds_at_random(expression):
            key = self.keys.key(_stream(names), expression)
            return rounded_stochastically(self.builder, expression.op, operands, result, key)
        return self._apply(expression.op, operands, expression.type)

    def _apply_scaled(self, operator: Operator, operand: typed.Expr, ty: Type, names: Names) -> Built:
        leaves = _leaves(self.expression(operand, names))
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
        number = _number(built.type)
        if isinstance(number, Dim):
            return self.builder.value("graph.size", (), target, {"dim": number})
        return self._apply(Full((), target.dtype, target.policy, number), (), target)

    def _call(self, call: typed.Call, names: Names) -> Built:
        operands = [leaf for arg in call.args for leaf in _leaves(self.expression(arg, names))]
        count = len(operands)
        for weight in call.reads:
            operands += [self._stream_of(call, names)] if weight == STREAM else _leaves(names[_weight(weight)])
        attrs: dict[str, Attr] = {"callee": call.function, "dims": call.dims, **self.numerics}
        for rule in call.rules:
            attrs[FORWARD_RULE if rule.forward else REVERSE_RULE] = (rule.function, rule.dims)
        name = CUSTOM if call.rules or call.closed else CALL
        if call.reads and name == CUSTOM:
            attrs[READS] = len(operands) - count
        op = self.builder.op(name, operands, list(leaf_types(call.type)), attrs)
        return _regrow(call.type, iter(op.results))

    def _stream_of(self, call: typed.Call, names: Names) -> Value:
        """The random stream of a callee: the key that the call gives, else one of this place."""
        return self._value(call.key, names) if call.key is not None else self.keys.key(_stream(names), call)

    def _conditional(self, expression: typed.Conditional, names: Names) -> Built:
        flag = self._value(expression.test, names)
        blocks = []
        for branch in (expression.then, expression.otherwise):
            with self._inside(Block()) as block:
                self.builder.op("form.yield", _leaves(self._settled(self.expression(branch, names), expression.type)))
            blocks.append(block)
        types = list(leaf_types(expression.type))
        op = self.builder.op("form.cond", (flag,), types, _sized(expression), blocks)
        return _regrow(expression.type, iter(op.results))


def _sized(branch: typed.If | typed.Conditional) -> dict[str, Attr]:
    return {forms.SIZED: True} if branch.sized else {}


def _memory(memory: typed.LoopMemory | None) -> dict[str, Attr]:
    """What the program says of a loop, as attributes."""
    said = {} if memory is None else {EVERY: memory.every, SLOTS: memory.slots, MAX_STEPS: memory.max_steps}
    return {name: setting for name, setting in said.items() if setting is not None}


def _with_unit_step(loop: typed.For, start: Dim, stop: Dim, block: Block) -> tuple[Dim, Dim, Block]:
    """The same loop counted from zero by one: in its body the index is `start + step * count`."""
    span = stop - start if loop.step > 0 else start - stop
    trips = span.ceil_div(abs(loop.step)).max(ZERO)
    index = start + Dim.sym(loop.index) * loop.step
    counted = copy_block(block, {}, {loop.index: index})
    block.drop_all_uses()
    return ZERO, trips, counted


def _replant(shape: Built, leaves: Iterator[Value]) -> Built:
    """`shape` with its leaves replaced in order."""
    if isinstance(shape, tuple):
        return tuple(_replant(item, leaves) for item in shape)
    return next(leaves) if isinstance(shape, Value) else shape


def _rounds_at_random(expression: typed.Apply) -> bool:
    ty = expression.type
    if not isinstance(ty, TensorType) or not ty.policy.stochastic_round:
        return False
    return rounds(expression.op, [o.type for o in expression.operands if isinstance(o.type, TensorType)], ty)


def _is_scaled(ty: Type) -> bool:
    return isinstance(ty, TensorType) and ty.is_scaled


def _known(ty: Type) -> Built:
    """A static value; a tuple of them is a tuple like any other."""
    return tuple(map(_known, parts(ty) or ())) if isinstance(ty, Aggregate) else Known(ty)


def _number(ty: Type) -> int | float | bool | Dim:
    if isinstance(ty, IntType):
        constant = ty.value.constant
        return ty.value if constant is None else constant
    assert isinstance(ty, BoolType | FloatType) and ty.value is not None, f"{ty} is not a number"
    return ty.value
