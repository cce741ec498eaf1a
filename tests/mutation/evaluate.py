"""The oracle: runs the syntax tree of a program on shapes, every symbol a prime, by the strict rules of the language.

Enters: a parsed module. Leaves: nothing if every function, method and test that could be run is sound; `Rejected` if
one is not; `Unjudged` if none is wrong and one needs a rule that the oracle does not have.
"""

from __future__ import annotations

from tesserac.syntax import ast
from tests.mutation.annotations import Signatures
from tests.mutation.expressions import Expressions, Names
from tests.mutation.expressions import definition as library_definition
from tests.mutation.natives import call_native
from tests.mutation.rules import binary
from tests.mutation.values import (
    Array,
    Closure,
    Rejected,
    Sizes,
    Struct,
    StructType,
    Unjudged,
    Value,
    type_of,
)


class Returned(Exception):
    def __init__(self, value: Value) -> None:
        self.value = value


def judge(module: ast.Module) -> None:
    """Runs all that can be run without knowing a caller."""
    Oracle(module).run()


class Oracle(Expressions):
    def __init__(self, module: ast.Module) -> None:
        super().__init__()
        self.module = module
        self.depth = 0
        self.symbols = Sizes()  # those of params: one size for the whole module
        self._declare()

    def _declare(self) -> None:
        for item in self.module.items:
            if isinstance(item, ast.FunctionDef):
                self.globals[item.name] = Closure(item.name, item, self.globals)
            elif isinstance(item, ast.StructDef):
                self.globals[item.name] = StructType(item)
            elif isinstance(item, ast.ConstDef) and isinstance(item.targets[0], ast.Name):
                self.constants[item.targets[0].id] = item.value
            elif isinstance(item, ast.ParamDecl):
                self.globals[item.name] = Signatures(self).made(item.annotation, self.globals, self.symbols)
        self.globals.update(self.symbols.taken)

    def run(self) -> None:
        unknown: Unjudged | None = None
        for item in self.module.items:
            try:
                self._run_item(item)
            except Unjudged as missing:
                unknown = missing
        if unknown is not None:
            raise unknown

    def _run_item(self, item: ast.Item) -> None:
        if isinstance(item, ast.FunctionDef):
            self.enter(Closure(item.name, item, self.globals))
        elif isinstance(item, ast.StructDef):
            self._run_struct(item)
        elif isinstance(item, ast.TestBlock):
            self.block(item.body, dict(self.globals))

    def _run_struct(self, item: ast.StructDef) -> None:
        sizes = Sizes()
        value = Signatures(self).new_struct(item, tuple(sizes.of(p.id) for p in item.parameters), self.globals)
        for field in item.fields:
            if field.init is not None:
                names = {**self.globals, **dict(zip((p.id for p in item.parameters), value.sizes, strict=True))}
                Signatures(self).fits(field.annotation, self.expression(field.init, names), names)
        for method in item.methods:
            self.enter(Closure(method.name, method, self.globals, value), sizes)

    # ------------------------------------------------------------------------------------------------ calls

    def enter(self, function: Closure, sizes: Sizes | None = None) -> None:
        """A function on values made from its own signature; one with an open parameter waits for its callers."""
        assert isinstance(function.definition, ast.FunctionDef)
        parameters = function.definition.parameters[1 if function.bound else 0 :]
        if any(p.annotation is None and p.default is None for p in parameters):
            return
        values = Signatures(self).arguments(function, sizes or Sizes())
        self.call(function, [], values)

    def call(self, function: Value, positional: list[Value], named: Names) -> Value:
        if isinstance(function, StructType):
            return Signatures(self).construct(function, positional, named)
        if isinstance(function, Struct):
            return self.call(self.attribute(function, "apply"), positional, named)
        if not isinstance(function, Closure):
            raise Rejected("not a function")
        if function.definition is None:
            return call_native(function.name, positional, named)
        self.depth += 1
        try:
            if self.depth > 30:
                raise Unjudged("calls too deep")
            return self._called(function, positional, named)
        finally:
            self.depth -= 1

    def _called(self, function: Closure, positional: list[Value], named: Names) -> Value:
        names = Signatures(self).bound(function, positional, named)
        definition = function.definition
        if isinstance(definition, ast.Lambda):
            return self.expression(definition.body, names)
        assert definition is not None
        try:
            self.block(definition.body, names)
            result: Value = None
        except Returned as returned:
            result = returned.value
        except Unjudged:
            if definition.returns is None or library_definition(definition.name) is None:
                raise
            return Signatures(self).made(definition.returns, names, None)
        if definition.returns is not None:
            Signatures(self).fits(definition.returns, result, names)
        return result

    # ------------------------------------------------------------------------------------------- statements

    def block(self, body: tuple[ast.Stmt, ...], names: Names) -> None:
        for statement in body:
            self.statement(statement, names)

    def statement(self, node: ast.Stmt, names: Names) -> None:
        match node:
            case ast.Return(value=value):
                raise Returned(None if value is None else self.expression(value, names))
            case ast.Assignment(targets=targets, value=value):
                for target in targets:
                    self.assign(target, self.expression(value, names), names)
            case ast.AnnotatedAssignment(target=target, annotation=annotation, value=value) if value is not None:
                found = self.expression(value, names)
                Signatures(self).fits(annotation, found, names)
                self.assign(target, found, names)
            case ast.AugmentedAssignment(target=target, op=op, value=value):
                new = self.operate(op, self.expression(target, names), self.expression(value, names))
                self.assign(target, new, names, must_fit=True)
            case ast.ExpressionStatement(value=value):
                self.expression(value, names)
            case ast.Assert(test=test):
                self.condition(self.expression(test, names))
            case ast.FunctionDef():
                names[node.name] = Closure(node.name, node, names)
            case ast.Pass() | ast.Break() | ast.Continue():
                pass
            case _:
                self.control(node, names)

    def control(self, node: ast.Stmt, names: Names) -> None:
        match node:
            case ast.If(test=test, body=body, otherwise=otherwise):
                self.branch(self.expression(test, names), body, otherwise, names)
            case ast.For(target=target, iterable=iterable, body=body):
                over = self.expression(iterable, names)
                if isinstance(over, range):
                    self.assign(target, over.start, names)
                    self.loop(body, names)
                elif isinstance(over, list | tuple):
                    for value in over:
                        self.assign(target, value, names)
                        self.block(body, names)
                else:
                    raise Rejected("not to be iterated")
            case ast.While(test=test, body=body):
                self.condition(self.expression(test, names))
                self.loop(body, names)
            case ast.With(body=body):
                self.block(body, names)
            case _:
                raise Unjudged(type(node).__name__)

    def loop(self, body: tuple[ast.Stmt, ...], names: Names) -> None:
        """What lives before a loop keeps its type through it."""
        before = {name: type_of(value) for name, value in names.items() if isinstance(value, Array | Struct)}
        self.block(body, names)
        if any(type_of(names[name]) != kind for name, kind in before.items()):
            raise Rejected("a type changes in a loop")

    def branch(
        self, test: Value, body: tuple[ast.Stmt, ...], otherwise: tuple[ast.Stmt, ...], names: Names
    ) -> None:
        if not isinstance(test, Array):
            return self.block(body if test else otherwise, names)
        self.condition(test)
        ways = (dict(names), dict(names))
        self.block(body, ways[0])
        self.block(otherwise, ways[1])
        for name in ways[0].keys() & ways[1].keys():
            if type_of(ways[0][name]) != type_of(ways[1][name]):
                raise Rejected("two types after a branch")
            names[name] = ways[0][name]
        return None

    def condition(self, value: Value) -> None:
        if isinstance(value, Array) and (value.shape or value.dtype.name != "bool"):
            raise Rejected("a condition is one bool")

    def assign(self, target: ast.Expr, value: Value, names: Names, must_fit: bool = False) -> None:
        match target:
            case ast.Name(id=name):
                if must_fit and isinstance(value, Array) and type_of(names[name]) != type_of(value):
                    raise Rejected("an update changes the type")
                names[name] = value
            case ast.TupleExpr(items=items):
                if not isinstance(value, tuple | list) or len(value) != len(items):
                    raise Rejected("another number of values")
                for item, part in zip(items, value, strict=True):
                    self.assign(item, part, names)
            case ast.Subscript():
                self.update_part(self.expression(target, names), value)
            case ast.Attribute(value=owner, name=name):
                self.update_field(self.expression(owner, names), name, value)
            case _:
                raise Unjudged("a target")

    def update_part(self, place: Value, value: Value) -> None:
        if not (isinstance(place, Array) and isinstance(value, Array)):
            return
        if place.dtype.name != value.dtype.name or binary("==", place, value).shape != place.shape:
            raise Rejected("does not fit there")

    def update_field(self, owner: Value, name: str, value: Value) -> None:
        if not isinstance(owner, Struct) or name not in owner.fields:
            raise Rejected("no such field")
        if type_of(owner.fields[name]) != type_of(value):
            raise Rejected("a field changes its type")
