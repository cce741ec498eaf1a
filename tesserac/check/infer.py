"""The checker of one module: ties the rules together and remembers what is checked.

Enters: a module of the syntax tree, its source, and the library modules that were checked before. Leaves: a
`CheckResult`. Nothing is raised for what a user wrote. See Note [Checking on demand].
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tesserac.base.source import SourceFile, Span
from tesserac.check import typed
from tesserac.check.body import Body, Instance
from tesserac.check.decorators import check_decorators
from tesserac.check.entry import entry_types
from tesserac.check.expressions import infer_expression
from tesserac.check.instances import check_instance, instance_symbol, representative, without_optionals
from tesserac.check.names import check_names
from tesserac.check.reach import reachable
from tesserac.check.resolve import Exports, ModuleNames, Resolved
from tesserac.check.signatures import read_signature
from tesserac.check.specs import NoneSpec, Signature
from tesserac.check.statements import check_block
from tesserac.diag.codes.names import E0202
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.sink import Sink
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.ty import IntType, Type

MAX_DEPTH = 64
"""Instances within instances: recursion on compile-time arguments ends before this, or not at all."""


@dataclass(frozen=True)
class CheckResult:
    """A checked module.

    `functions` has every instance that the module's own functions and tests reach, by symbol, the library's among them.
    `types` gives the type of each expression: as the definition has it, or in the first call that completes it.
    """

    module: typed.TypedModule
    functions: Mapping[str, typed.TypedFunction]
    types: Mapping[ast.Expr, Type]
    diagnostics: tuple[Diagnostic, ...]
    checker: ModuleChecker

    @property
    def has_errors(self) -> bool:
        return any(diagnostic.severity == "error" for diagnostic in self.diagnostics)

    def instantiate(self, name: str, types: Sequence[Type]) -> Instance:
        """The instance of a function for a call from outside, by the types of its arguments.

        Dims of tensors are their sizes; only rank and, for parameters without dims, equality of sizes count.
        """
        with deep_recursion():
            own = entry_types(self.checker.own_signature(name), types)
            return Instance(None) if own is None else self.checker.own_instance(name, own)

    def reach(self, function: typed.TypedFunction) -> Mapping[str, typed.TypedFunction]:
        """A function and all that it calls, by symbol."""
        return reachable([function], self.checker.find)


def check_module(
    module: ast.Module, source: SourceFile, name: str, libraries: Sequence[CheckResult] = ()
) -> CheckResult:
    """Checks one module. `name` is what its functions' symbols start with; `libraries` are in scope everywhere."""
    with deep_recursion():
        return ModuleChecker(module, source, name, libraries).run()


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Room for the rules, which recurse over trees up to 200 deep, in instances within instances."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 50_000))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


class ModuleChecker:
    """Implements the rules that bodies call back, for one module."""

    def __init__(
        self, module: ast.Module, source: SourceFile, name: str, libraries: Sequence[CheckResult]
    ) -> None:
        self.name = name
        self.sink = Sink()
        self._modules: dict[str, ModuleChecker] = {name: self}
        self._sources = {source.path: source}
        for library in libraries:
            self._modules.update(library.checker._modules)
            self._sources.update(library.checker._sources)
        self._modules[name] = self
        exports = Exports([library.checker.names for library in libraries])
        self.names: ModuleNames = ModuleNames(name, module, exports, self.sink)
        self.types: dict[ast.Expr, Type] = {}
        self._signatures: dict[str, tuple[Signature, dict[str, list[Span]]]] = {}
        self._instances: dict[tuple[str, tuple[Type, ...]], Instance | None] = {}
        self._by_symbol: dict[str, typed.TypedFunction] = {}
        self._representatives: dict[str, tuple[tuple[Type, ...], ...]] = {}
        self._found: list[Diagnostic] = []
        self._constants: list[str] = []
        self._depth = 0

    def run(self) -> CheckResult:
        functions = [f for node in self.names.functions.values() if (f := self._define(node)) is not None]
        tests = [f for block in self.names.tests if (f := self._test(block)) is not None]
        for name in self.names.constants:
            self._check_constant(name)
        module = typed.TypedModule(self.name, tuple(functions), tuple(tests))
        reached = reachable([*functions, *tests], self.find)
        return CheckResult(module, reached, self.types, self._diagnostics(), self)

    def _diagnostics(self) -> tuple[Diagnostic, ...]:
        """In the order of the text, each once."""
        unique = {(d.code, d.primary.span): d for d in (*self.sink.diagnostics, *self._found)}
        return tuple(sorted(unique.values(), key=lambda d: (d.primary.span.start, d.code)))

    def find(self, symbol: str) -> typed.TypedFunction:
        """A checked instance of this module or of the library."""
        for checker in self._modules.values():
            if symbol in checker._by_symbol:
                return checker._by_symbol[symbol]
        raise KeyError(symbol)

    # ------------------------------------------------------------------------------------------- definitions

    def _define(self, node: ast.FunctionDef) -> typed.TypedFunction | None:
        """Checks a function where it is defined; one that only calls can complete gets its names checked."""
        signature = self.own_signature(node.name)
        if not check_decorators(node, self.sink):
            return None
        if signature.has_open_parameters:
            check_names(Body(self, self.sink, node.name), signature)
            return None
        instances = [self.own_instance(node.name, types) for types in self.representatives(node.name)]
        return instances[0].function

    def representatives(self, name: str) -> tuple[tuple[Type, ...], ...]:
        """The types with which a definition alone is checked: optional arguments given, and not given."""
        if name not in self._representatives:
            signature = self.own_signature(name)
            given = representative(Body(self, Sink(), name), signature)
            self._representatives[name] = tuple(dict.fromkeys((given, without_optionals(signature, given))))
        return self._representatives[name]

    def _test(self, block: ast.TestBlock) -> typed.TypedFunction | None:
        """A test is a function without parameters."""
        name = block.name.value
        span = block.name.span
        node = ast.FunctionDef(block.span, (), name, span, (), ast.NoneLiteral(span), (), None, None, block.body)
        signature = Signature(node, (), NoneSpec(span), (), ())
        body = Body(self, Sink(), name)
        function = check_instance(body, signature, (), {}, f"{self.name}.test {name}")
        self._found += body.sink.diagnostics
        return function

    def _check_constant(self, name: str) -> None:
        """A constant may name a type; anything else is an expression."""
        if self.names.constant_is_type(name):
            return
        self.constant(Body(self, self.sink, name), self.name, name, self.names.constants[name].span)

    def own_signature(self, name: str) -> Signature:
        if name not in self._signatures:
            node = self.names.functions[name]
            self._signatures[name] = read_signature(node, self._constant_size, self.names, self.sink)
        return self._signatures[name][0]

    def own_instance(self, name: str, types: tuple[Type, ...]) -> Instance:
        known = self._instances.get((name, types))
        if known is not None:
            return known
        if (name, types) in self._instances or self._depth >= MAX_DEPTH:
            return Instance(None, recursive=True)
        self._instances[name, types] = None
        self._depth += 1
        self._instances[name, types] = instance = self._check(name, types)
        self._depth -= 1
        return instance

    def _check(self, name: str, types: tuple[Type, ...]) -> Instance:
        """Diagnostics of a definition belong to the module, those of another instance to the call that made it."""
        signature, spans = self.own_signature(name), self._signatures[name][1]
        body = Body(self, Sink(), name)
        body.at_definition = types in self.representatives(name)
        function = check_instance(body, signature, types, spans, instance_symbol(self.name, signature, types))
        if body.needs_value:
            check_names(Body(self, self.sink, name), signature)
            return Instance(None, needs_value=True)
        if function is not None:
            self._by_symbol[function.symbol] = function
        if not body.at_definition:
            return Instance(function, body.sink.diagnostics)
        self._found += body.sink.diagnostics
        return Instance(function)

    def _constant_size(self, name: str) -> Dim | None:
        """The value of a module constant that is an int, as a size."""
        if name not in self.names.constants or self.names.constant_is_type(name):
            return None
        value = self.constant(Body(self, Sink(), name), self.name, name, self.names.constants[name].span)
        return value.type.value if isinstance(value.type, IntType) else None

    # ------------------------------------------------------------------------------------- rules for bodies

    def expression(self, body: Body, node: ast.Expr) -> typed.Expr:
        result = infer_expression(body, node)
        if body.at_definition:
            self.types[node] = result.type
        else:
            self.types.setdefault(node, result.type)
        return result

    def block(self, body: Body, statements: Sequence[ast.Stmt]) -> typed.Block:
        return check_block(body, statements)

    def constant(self, body: Body, owner: str, name: str, span: Span) -> typed.Expr:
        """A constant is its expression, evaluated where it is used."""
        checker = self._modules[owner]
        if name in checker._constants:
            body.sink.error(E0202, at=span, name=name).remark("its value depends on itself")
            return body.error(span)
        checker._constants.append(name)
        inner = Body(checker, body.sink if owner == self.name else Sink(), name)
        value = checker.expression(inner, checker.names.constants[name].value)
        checker._constants.pop()
        return value

    def signature(self, owner: str, name: str) -> Signature:
        return self._modules[owner].own_signature(name)

    def default(self, owner: str, node: ast.Expr) -> typed.Expr:
        checker = self._modules[owner]
        return checker.expression(Body(checker, checker.sink, "default"), node)

    def instance(self, owner: str, name: str, types: tuple[Type, ...]) -> Instance:
        return self._modules[owner].own_instance(name, types)

    def recheck(self, owner: str, name: str, types: tuple[Type, ...]) -> tuple[Diagnostic, ...]:
        """What is wrong with an instance, said in the caller's names of sizes; nothing is remembered."""
        checker = self._modules[owner]
        signature, spans = checker.own_signature(name), checker._signatures[name][1]
        body = Body(checker, Sink(), name)
        check_instance(body, signature, types, spans, name)
        return body.sink.diagnostics

    def resolve(self, name: str) -> Resolved | None:
        return self.names.lookup(name)

    def library(self, name: str) -> Resolved | None:
        return self.names.library(name)

    def suggestions(self) -> Sequence[str]:
        return self.names.names()

    def alias(self, name: str) -> ast.Expr | None:
        return self.names.alias(name)

    def is_reported(self, name: str) -> bool:
        return self.names.is_reported(name)

    def text(self, span: Span) -> str:
        source = self._sources.get(span.file)
        return source.slice(span) if source is not None and span.known else ""

    def line(self, span: Span) -> int:
        source = self._sources.get(span.file)
        return source.position(span.start)[0] if source is not None else 0


# Note [Checking on demand]
# A function is checked when it is defined and when a call needs an instance that does not exist yet; both go through
# one table, keyed by the types of its parameters in its own symbols. A call needs the callee's instance first, for
# its guards and effects, so the order of definitions does not matter and recursion shows as an entry under way.
