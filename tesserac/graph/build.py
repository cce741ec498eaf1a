"""Typed functions become Graph IR: every expression an operation, every name the value it is bound to.

Enters: `TypedFunction`s, callees included. Leaves: a module of `graph.func`, one per function, in the same order.
Static values leave nothing behind: what is known while compiling is an attribute, a dim or a constant. A tuple is as
many values as it has leaves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from tesserac.check.analysis.reach import transforms
from tesserac.check.declarations.donation import donated_arguments
from tesserac.check.model import typed
from tesserac.check.model.scope import HIDDEN
from tesserac.check.model.typed import STREAM
from tesserac.graph.assert_attribution import library_name
from tesserac.graph.autodiff.dialect import EVERY, MAX_STEPS, SLOTS
from tesserac.graph.build_expressions import Expressions, sized_attrs
from tesserac.graph.built import (
    Built,
    Known,
    Names,
    add_arguments,
    has_stream,
    leaves_of,
    regrow,
    replant,
    stream_of,
    weight_name,
)
from tesserac.graph.dialect import (
    ALTERNATIVES,
    COLUMNS,
    EXPECTED,
    LAW,
    NUMERICS,
    PATTERN,
    PROGRAM,
    Alternative,
    Program,
)
from tesserac.graph.printing import Pieces
from tesserac.graph.rng_keys import KEY
from tesserac.graph.substitute import copy_block, substitute_attr
from tesserac.ir import forms
from tesserac.ir.builder import Builder
from tesserac.ir.core import Attr, Block, Module, Op, Value
from tesserac.ir.effects import COMPARES, NOTE, STANDARD_OUTPUT
from tesserac.ir.index import dim_value
from tesserac.ir.kernels import CUT, PINNED, Cut, block_loop
from tesserac.ir.ordering import order_effects
from tesserac.ir.types import INDEX
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import I64
from tesserac.types.leaves import run_time_type
from tesserac.types.ty import IntType, TensorType, Type


def build_module(
    functions: Sequence[typed.TypedFunction], entries: Collection[str], *, asserts: bool = True, derives: bool = False
) -> Module:
    """The functions as Graph IR; `entries` are the symbols of those that may be called from outside. Calls have their
    rules of derivatives where functions are derived or mapped, or will be: `derives`."""
    derives = derives or transforms(functions)
    module = Module([_build_function(f, f.symbol in entries, asserts, derives) for f in functions])
    for made, function in zip(list(module.ops), functions, strict=True):
        if function.alternatives:
            made.attrs[ALTERNATIVES] = tuple(_alternative(module, way) for way in function.alternatives)
    order_effects(module)
    return module


def _alternative(module: Module, way: typed.Alternative) -> Alternative:
    found = module.lookup(way.symbol).attrs["guards"] if way.symbol else ()
    assert isinstance(found, tuple)
    guards = tuple(guard for guard in found if isinstance(guard, forms.Guard))
    return Alternative(way.kernel, way.symbol, way.target, way.within is not None, guards, way.why)


def _build_function(function: typed.TypedFunction, entry: bool, asserts: bool, derives: bool) -> Op:
    block = Block()
    names: dict[str, Built] = {}
    for param in function.params:
        names[param.name] = add_arguments(block, param.name, param.type)
    for weight in function.reads:
        names[weight_name(weight.name)] = add_arguments(block, weight.name, weight.type)
    of_library = library_name(function.symbol, function.span) is not None  # that is its meaning, not a doubt
    body = _Body(Builder(block, function.span), function.result, asserts or of_library, derives)
    returned = body.statements(function.body, names)
    with body.builder.spanned(function.span):
        body.builder.op("graph.return", leaves_of(returned) if returned is not None else ())
    guards = tuple(forms.Guard(g.kind, g.left, g.right, g.text, g.code, g.span) for g in function.guards)
    params = tuple(arg.name for arg in block.args)
    attrs: dict[str, Attr] = {"sym_name": function.symbol, "params": params, "guards": guards, "entry": entry}
    if entry and function.donated:
        attrs["donated"] = donated_arguments(function.donated, function.params, function.result)
    if function.expected:
        attrs[EXPECTED] = function.expected
    if function.pattern:
        attrs[PATTERN] = function.pattern
    if function.law:
        attrs[LAW] = True
    if function.columns:
        attrs[COLUMNS] = True
    if function.program is not None:
        attrs[PROGRAM] = _program(function.program)
    outer = Builder(Block(), function.span)
    func = outer.op("graph.func", (), (), attrs, (block,))
    func.detach()
    _pin(func, dict(function.pinned))
    return func


def _program(program: typed.Program) -> Program:
    cuts = tuple(Cut(cut.block, cut.over) for cut in program.blocks)
    own, numbers, fixed = program.own, program.numbers, program.fixed
    schedule, space, pinned = program.schedule, program.space, program.pinned
    return Program(program.symbol, program.leading, cuts, own, numbers, fixed, schedule, space, pinned)


def _pin(program: Op, pinned: Mapping[str, int]) -> None:
    """In the text of a kernel a block that it means is a number, and loops over its blocks say that number."""
    sizes = {block: Dim.const(size) for block, size in pinned.items()}
    for op in program.walk():
        cut = block_loop(op)
        if cut is not None and (cut.block.symbol or "") in pinned:
            op.attrs[PINNED] = pinned[cut.block.symbol or ""]
        elif op.name == "graph.size":
            op.attrs["dim"] = substitute_attr(op.attrs["dim"], sizes)


class _Body(Expressions):
    """Builds statements and expressions. `names` is what every name is bound to at the point being built."""

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
        attrs: dict[str, Attr] = {"text": statement.message}
        self.builder.op("form.assert", (flag,), (), attrs | {COMPARES: True} if statement.compares else attrs)

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
            leaves = iter(leaves_of(self.expression(piece.value, names)))
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
                self.builder.op("form.yield", leaves_of(results))
            blocks.append(block)
            outcomes.append((returned is not None, results))
        types = [leaf.type for leaf in leaves_of(outcomes[0][1])]
        leaves = iter(self.builder.op("form.cond", (flag,), types, sized_attrs(statement), blocks).results)
        if outcomes[0][0]:
            return replant(outcomes[0][1], leaves)
        names.update((c.name, regrow(c.type, leaves)) for c in statement.results)
        return None

    def _for(self, statement: typed.For, names: dict[str, Built]) -> None:
        start, stop = self._bound(statement.start, names), self._bound(statement.stop, names)
        initial = self._carried(names, statement.carried)
        inner = dict(names)
        block = Block((INDEX,), (statement.index,))
        for carried in statement.carried:
            inner[carried.name] = add_arguments(block, carried.name, carried.type)
        inner[statement.index] = Known(IntType(Dim.sym(statement.index)))
        with self._inside(block):
            if has_stream(names):
                iteration = self.keys.iteration(stream_of(names), statement, self.keys.index(statement.index))
                inner[weight_name(STREAM)] = iteration
            self.statements(statement.body, inner)
            self._yield(inner, statement.carried)
        if statement.step != 1:
            start, stop, block = _with_unit_step(statement, start, stop, block)
        bounds = [dim_value(self.builder, bound) for bound in (start, stop)]
        attrs: dict[str, Attr] = {"counter": statement.index, **_memory(statement.memory)}
        if statement.cut is not None:
            attrs[CUT] = Cut(statement.cut.block, statement.cut.over)
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
                inner[carried.name] = add_arguments(block, carried.name, carried.type)
            iterations = [block.add_arg(KEY, "iteration")] if has_stream(names) else []
            with self._inside(block):
                for iteration in iterations:
                    inner[weight_name(STREAM)] = self.keys.iteration(stream_of(names), statement, iteration)
                if is_test:
                    self.builder.op("form.yield", (self._value(statement.test, inner),))
                else:
                    self.statements(statement.body, inner)
                    self._yield(inner, statement.carried, [self.keys.next(iteration) for iteration in iterations])
            blocks.append(block)
        initial = self._carried(names, statement.carried)
        initial += [self.keys.number(0)] if has_stream(names) else []
        op = self.builder.op("form.while", initial, [v.type for v in initial], _memory(statement.memory), blocks)
        self._rebind(names, statement.carried, op)

    def _outcome(self, names: Names, carried: Sequence[typed.Carried]) -> tuple[Built, ...]:
        return tuple(self._settled(names[c.name], c.type) for c in carried)

    def _carried(self, names: Names, carried: Sequence[typed.Carried]) -> list[Value]:
        return leaves_of(self._outcome(names, carried))

    def _yield(self, names: Names, carried: Sequence[typed.Carried], also: Sequence[Value] = ()) -> None:
        self.builder.op("form.yield", (*self._carried(names, carried), *also))

    def _rebind(self, names: dict[str, Built], carried: Sequence[typed.Carried], op: Op) -> None:
        leaves = iter(op.results)
        for c in carried:
            names[c.name] = self._named(c.name, regrow(c.type, leaves))


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
