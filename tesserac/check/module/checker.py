"""The checker of one module: ties the rules together and remembers what is checked.

Enters: a module of the syntax tree, its source, and the modules it can see. Leaves: typed functions and diagnostics, as
they are asked for. Nothing is raised for what a user wrote. See Note [Checking on demand].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from copy import copy
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import accumulate, chain

from tesserac.base.resources import of_library
from tesserac.base.source import NO_SPAN, SourceFile, Span
from tesserac.check.analysis.differentiable import check_derivatives
from tesserac.check.declarations.decorators import Decorations, is_kernel, read_decorators
from tesserac.check.expressions.dispatch import infer_expression
from tesserac.check.instances.checking import (
    instance_symbol,
    representative,
    without_optionals,
)
from tesserac.check.instances.untold import is_refused_value, other_values
from tesserac.check.model import typed
from tesserac.check.model.specs import Signature, StructDecl
from tesserac.check.module.definitions import check_definition
from tesserac.check.module.findings import Findings, RuleMisfit, Tables, as_promised
from tesserac.check.module.inheriting import Inheriting
from tesserac.check.module.scope import in_sight_of
from tesserac.check.module.under_way import UnderWay
from tesserac.check.names.cascades import without_cascades
from tesserac.check.names.refs import ConstantRef, FunctionRef
from tesserac.check.names.resolve import Exports, ImportPath, ImportProblem, ModuleNames
from tesserac.check.names.struct_items import is_constructor, is_test
from tesserac.check.places.assignment import assign
from tesserac.check.state.body import Body
from tesserac.check.state.certainty import certain
from tesserac.check.state.evaluation import apart, once
from tesserac.check.state.rules import Instance
from tesserac.check.statements.dispatch import check_block
from tesserac.check.transforms.custom_rules import check_rules
from tesserac.check.values.globals import BUILT_IN
from tesserac.check.values.names import check_names
from tesserac.diag.codes.names import E0202
from tesserac.diag.codes.shapes import E0316
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.sink import Sink
from tesserac.syntax import ast
from tesserac.types.dims import Dim, TooComplex
from tesserac.types.ty import IntType, Type, modules_in

MAX_RECHECKS = 4
"""Calls in a row whose failure is explained by that of the next."""
MAX_DEPTH = 64
"""Instances of one function within one another: recursion on compile-time arguments ends before this, or not at all."""
MAX_CALLS = 300
"""Instances of any functions within one another."""


@lru_cache(maxsize=8)
def _exports_of(libraries: tuple[ModuleNames, ...]) -> Exports:
    """The same for every module above the same library: what a name means is found once, however often a file that is
    being edited is checked."""
    return Exports(libraries)


class ModuleChecker(Inheriting):
    """Implements the rules that bodies call back, for one module."""

    def __init__(
        self,
        module: ast.Module,
        source: SourceFile,
        name: str,
        libraries: Sequence[ModuleChecker],
        imports: Mapping[ImportPath, ModuleChecker | ImportProblem] | None,
        qualifier: str = "",
    ) -> None:
        imported = dict(imports or {})
        modules, sources = in_sight_of(tuple(libraries))
        self._modules, self._sources = {name: self, **modules}, {source.path: source, **sources}
        self.file = source.path
        for other in (found for found in imported.values() if isinstance(found, ModuleChecker)):
            self._modules.update(other._modules)
            self._sources.update(other._sources)
        self._modules[name] = self
        exports = _exports_of(tuple(library.names for library in libraries))
        files = {path: f.names if isinstance(f, ModuleChecker) else f for path, f in imported.items()}
        sink = Sink()
        names = ModuleNames(name, module, exports, None if imports is None else files, sink)
        super().__init__(name, names, sink, qualifier)
        self.types: dict[ast.Expr, Type] = {}
        self._findings = Findings(source.path, Tables())
        self._found: list[Diagnostic] = []
        self._settled_constants: dict[str, typed.Expr] = {}
        self._under_way = UnderWay()
        self._home = self
        self._guests: dict[str, ModuleChecker] = {}
        self._settled_items: Set[str] = frozenset()

    def run(self) -> tuple[typed.TypedModule, tuple[Diagnostic, ...]]:
        """Checks every definition; what is wrong with the module, in the order of the text."""
        def new(names: Iterable[str]) -> list[str]:
            return [name for name in names if name not in self._settled_items]

        for struct in new(self.names.structs):
            self._struct(struct)
        self.params()
        for name in new(self.names.derivative_rules):
            self._check_rules(name)
        functions = [f for name in new(self.names.functions) if (f := self._define(self.names.functions[name]))]
        hidden = [name for name in new(self.names.hidden) if not is_constructor(name)]
        checked = {name: self._define(self.names.hidden[name]) for name in hidden}
        tests = [f for name, f in checked.items() if f is not None and is_test(name)]
        unpacked = [self._unpacks(target, value) for target, value in self.names.unpackings]
        for name in new(self.names.constants) if all(unpacked) else ():
            self._check_constant(name)
        return typed.TypedModule(self.name, tuple(functions), tuple(tests)), self._diagnostics()

    def adopt(self, functions: Iterable[tuple[str, tuple[Type, ...], typed.TypedFunction]]) -> None:
        """Takes in functions that have one instance only, checked before as parts of the same module."""
        for name, types, function in functions:
            self._known.instances[name, types] = Instance(function)
            self._known.by_symbol[function.symbol] = function

    def _diagnostics(self) -> tuple[Diagnostic, ...]:
        """In the order of the text, each once."""
        unique = {(d.code, d.primary.span): d for d in (*self.sink.diagnostics, *self._found)}
        own = without_cascades(list(unique.values()), (*self.names.functions.values(), *self.names.hidden.values()))
        return tuple(sorted(own, key=lambda d: (d.primary.span.start, d.code)))

    def find(self, symbol: str) -> typed.TypedFunction:
        """A checked instance, whose symbol starts with the name of its module. Raises KeyError, and RuleMisfit."""
        names = accumulate(symbol.split("."), "{}.{}".format)
        owners = (self._modules[name] for name in names if name in self._modules)
        guests = (guest for checker in self._modules.values() for guest in checker._guests.values())
        for checker in chain(owners, guests):
            if (found := checker._own_function(symbol)) is not None:
                return found
        raise KeyError(symbol)

    def _own_function(self, symbol: str) -> typed.TypedFunction | None:
        if symbol in self._known.promised and symbol not in self._known.by_symbol and self._under_way.is_free:
            return as_promised(self.own_instance(*self._known.promised[symbol]), symbol)
        return self._known.by_symbol.get(symbol)

    # ------------------------------------------------------------------------------------------- definitions

    def _define(self, node: ast.FunctionDef) -> typed.TypedFunction | None:
        """Checks a function where it is defined; one that only calls can complete gets its names checked."""
        signature = self.own_signature(node.name)
        if not self.decorations(node.name).is_known:
            return None
        if signature.has_open_parameters:
            check_names(Body(self, self.sink, node.name), signature)
            return None
        tried = self.representatives(node.name)
        instances = [self.own_instance(node.name, types) for types in tried]
        return instances[0].function if tried is self.representatives(node.name) else self._define(node)

    def _check_rules(self, name: str) -> None:
        """Rules that do not fit are reported where they stand, and forgotten."""
        if name not in self.names.functions or self.own_signature(name).has_open_parameters:
            return
        function = self.own_instance(name, self.representatives(name)[0]).function
        if function is not None:
            rules = self.names.derivative_rules[name]
            wrong = check_rules(Body(self, self.sink, name), function, FunctionRef(self.name, name))
            self.names.derivative_rules[name] = {kind: rule for kind, rule in rules.items() if rule not in wrong}

    def representatives(self, name: str) -> tuple[tuple[Type, ...], ...]:
        """The types with which a definition alone is checked: optional arguments given, and not given."""
        if name not in self._known.representatives:
            signature = self.own_signature(name)
            given = representative(Body(self, Sink(), name), signature)
            self._known.representatives[name] = tuple(dict.fromkeys((given, without_optionals(signature, given))))
        return self._known.representatives[name]

    def _represents_otherwise(self, name: str) -> bool:
        """Whether a definition that is wrong for some values of a bool or a string is right for others: then it is
        checked with those."""
        signature = self.own_signature(name)
        texts = (self.names.function(name), *(constant.value for constant in self.names.constants.values()))
        first = representative(Body(self, Sink(), name), signature)
        others = other_values(signature, first, texts) if first == self.representatives(name)[0] else ()
        for types in others:
            body = Body(self, Sink(), name)
            self._check_body(body, signature, types, instance_symbol(self.name, signature, types))
            if not body.sink.has_errors:
                self._known.representatives[name] = tuple(dict.fromkeys((types, without_optionals(signature, types))))
                return True
        return False

    def _check_constant(self, name: str) -> None:
        """A constant may name a type; anything else is an expression."""
        if self.names.constant_is_type(name):
            return
        self.constant(Body(self, self.sink, name), self.name, name, self.names.constants[name].span)

    def _unpacks(self, target: ast.Expr, value: ast.Expr) -> bool:
        """Whether `A, B = value` has as many values as names."""
        body = Body(self, self.sink, "")
        assign(body, target, self.expression(body, value), value.span)
        return not self.sink.has_errors

    def own_instance(self, name: str, types: tuple[Type, ...]) -> Instance:
        known = self._known.instances.get((name, types))
        if known is not None:
            return known
        opened = self._under_way.instances
        if (name, types) in self._known.instances or opened[name] >= MAX_DEPTH:
            return Instance(None, recursive=True)
        if opened.total() >= MAX_CALLS:
            raise TooComplex(f"more than {MAX_CALLS} calls stand in one another")
        with self._under_way.or_nothing(lambda: (self._known, *(g._known for g in self._guests.values()))) as forget:
            self._known.instances[name, types] = None
            with self._under_way.instance(name):
                self._known.instances[name, types] = instance = self._check(name, types)
            late = self._settled()
            if late:
                forget()
                self._known.instances[name, types] = instance = self._refused(name, types, instance, late)
        return instance

    def _settled(self) -> tuple[Diagnostic, ...]:
        """What is wrong with what waited until nothing else is under way."""
        late = Sink()
        while self._under_way.waiting and self._under_way.is_free:
            self._under_way.waiting.pop()(late)
        return late.diagnostics if late.has_errors else ()

    def _refused(
        self, name: str, types: tuple[Type, ...], instance: Instance, late: tuple[Diagnostic, ...]
    ) -> Instance:
        """An instance that is shown late to be wrong is none."""
        if types in self.representatives(name):
            self._found += late
            return Instance(None)
        return Instance(None, (*instance.diagnostics, *late))

    def _check(self, name: str, types: tuple[Type, ...]) -> Instance:
        """Diagnostics of a definition belong to the module, those of another instance to the call that made it."""
        signature = self.own_signature(name)
        body = Body(self, Sink(), name)
        body.at_definition = types in self.representatives(name)
        body.at_call = not body.at_definition
        with self._under_way.asking() as asked:
            function = self._check_body(body, signature, types, instance_symbol(self.name, signature, types))
        body.asked += asked
        if name in self.names.inner:
            self._under_way.asked += body.asked
        if body.needs_value:
            check_names(Body(self, self.sink, name), signature)
            if body.at_definition and not is_kernel(signature.node):
                self._found += certain(body, body.sink.diagnostics, self.types)
            return Instance(None, outline=function, needs_value=True)
        if function is not None:
            self._known.by_symbol.update({part.symbol: part for part in (*body.functions, function)})
        if not body.at_definition or (is_refused_value(body.sink) and self._represents_otherwise(name)):
            return Instance(function, body.sink.diagnostics)
        if function is not None and not of_library(self.file):
            check_derivatives(body, body.asked, self.known)
        self._found += body.sink.diagnostics
        return Instance(function)

    def checked_body(self, name: str) -> Body:
        """What checking a definition leaves: names, and where each came from. Its diagnostics were given before."""
        signature = self.own_signature(name)
        body, types = Body(self, Sink(), name), self.representatives(name)[0]
        self._check_body(body, signature, types, instance_symbol(self.name, signature, types))
        return body

    def _check_body(
        self, body: Body, signature: Signature, types: tuple[Type, ...], symbol: str
    ) -> typed.TypedFunction | None:
        return check_definition(body, signature, types, symbol, self.decorations(signature.name))

    def known(self, symbol: str) -> typed.TypedFunction | None:
        """A function that is checked already; of one under way nothing is known. Of one in another file of the program
        only what it promises: its body may change without this module being checked again."""
        try:
            function = self.find(symbol)
        except (KeyError, RuleMisfit):
            return None
        own = function.span.file == self.file or of_library(function.span.file)
        return function if own else replace(function, body=())

    def decorations(self, name: str) -> Decorations:
        """What the decorators of a function say; reported once."""
        if name not in self._known.decorated:
            self._known.decorated[name] = read_decorators(Body(self, self.sink, name), self.names.function(name))
        return self._known.decorated[name]

    @cached_property
    def implementing(self) -> tuple[tuple[FunctionRef, str], ...]:
        """The functions that kernels of this module implement, each with the name of the kernel."""
        meant = ((self.meaning(node), name) for name, node in self.names.implemented.items())
        return tuple((meaning, name) for meaning, name in meant if isinstance(meaning, FunctionRef))

    def _constant_size(self, name: str) -> Dim | None:
        """The value of a module constant that is an int, as a size."""
        meaning = self.names.lookup(name)
        if not isinstance(meaning, ConstantRef) or self._modules[meaning.owner].names.constant_is_type(meaning.name):
            return None
        value = self.constant(Body(self, Sink(), name), meaning.owner, meaning.name, NO_SPAN)
        return value.type.value if isinstance(value.type, IntType) else None

    # ------------------------------------------------------------------------------------- rules for bodies

    def expression(self, body: Body, node: ast.Expr) -> typed.Expr:
        known = body.flow.frame.known.get(node)
        if known is not None:
            return known
        around, body.doing.acts, body.doing.draws = (body.doing.acts, body.doing.draws), False, False
        try:
            result = infer_expression(body, node)
        except TooComplex as problem:
            body.sink.error(E0316, at=node.span, label=str(problem))
            result = body.error(node.span)
        if body.doing.acts or body.doing.draws:
            result = once(body, node, result, body.doing.acts)
        body.doing.acts, body.doing.draws = around
        if body.at_definition:
            self.types[node] = result.type
        else:
            self.types.setdefault(node, result.type)
        return result

    def block(self, body: Body, statements: Sequence[ast.Stmt]) -> typed.Block:
        return check_block(body, statements)

    def constant(self, body: Body, owner: str, name: str, span: Span) -> typed.Expr:
        """A constant is its expression, evaluated where it is used; what is known while compiling is so once."""
        checker = self._modules[owner]
        if name in checker._settled_constants:
            return checker._settled_constants[name]
        if name in checker._under_way.constants:
            body.sink.error(E0202, at=span, name=name).remark("its value depends on itself")
            return body.error(span)
        inner = Body(checker, body.sink if owner == self.name else Sink(), name)
        with checker._under_way.constant(name):
            value = apart(inner, lambda: checker.expression(inner, checker.names.constants[name].value))
        body.read(*inner.doing.reads.values())
        body.requests.extend(inner.requests)
        for effect in inner.doing.effects:
            body.add_effect(effect, span)
        does_nothing = not inner.doing.reads and not inner.doing.effects
        if isinstance(value, typed.Static) and not inner.has_failed and does_nothing:
            checker._settled_constants[name] = value
        return value

    def signature(self, owner: str, name: str) -> Signature:
        return self._modules[owner].own_signature(name)

    def item(self, owner: str, name: str) -> ast.Item | None:
        """The function, struct or constant of that name in a module that this one can see."""
        names = self._modules[owner].names
        return names.functions.get(name) or names.structs.get(name) or names.constants.get(name)

    def default(self, owner: str, node: ast.Expr) -> typed.Expr:
        checker = self._modules[owner]
        return checker.expression(Body(checker, checker.sink, "default"), node)

    def when_free(self, owner: str, types: tuple[Type, ...], sink: Sink, check: Callable[[Sink], None]) -> None:
        """Runs a check of an instance, at once or as soon as no other of that module is under way: then it has another
        sink to report to, since that of its place may have been read."""
        checker = self._checker_for(owner, types)
        if checker._under_way.is_free:
            check(sink)
        else:
            checker._under_way.waiting.append(check)

    def promise(self, ref: FunctionRef, types: tuple[Type, ...], symbol: str) -> bool:
        """Whether an instance may be checked when `find` is asked for it: one of the library's own, and no guest's."""
        checker = self._checker_for(ref.owner, types)
        if checker is checker._home and of_library(checker.file):
            checker._known.promised[symbol] = (ref.name, types)
        return symbol in checker._known.promised

    def instance(self, owner: str, name: str, types: tuple[Type, ...]) -> Instance:
        return self._checker_for(owner, types).own_instance(name, types)

    def _checker_for(self, owner: str, types: Iterable[Type]) -> ModuleChecker:
        """The checker of a module, or its guest here. See Note [Guests]."""
        checker = self._modules[owner]
        if all(module in checker._modules or module == BUILT_IN for type_ in types for module in modules_in(type_)):
            return checker
        guests = self._home._guests
        if owner not in guests:
            guests[owner] = checker._guest_of(self._home)
        return guests[owner]

    def _guest_of(self, home: ModuleChecker) -> ModuleChecker:
        """This module with what another one sees; what it finds out is its own."""
        guest = copy(self)
        guest._home, guest._guests = home, {}
        guest._modules = {**self._modules, **home._modules}
        guest._sources = {**self._sources, **home._sources}
        guest.sink, guest.types, guest._found = Sink(), {}, []
        guest._findings = Findings(self.file, self._known.of_guest())
        guest._under_way = UnderWay()
        return guest

    def recheck(self, owner: str, name: str, types: tuple[Type, ...]) -> tuple[Diagnostic, ...]:
        """What is wrong with an instance, said in the caller's names of sizes; nothing is remembered. Reasons of
        reasons are followed a few calls deep: a recursion that does not end has no last one."""
        checker = self._checker_for(owner, types)
        if checker._under_way.rechecks >= MAX_RECHECKS:
            return ()
        signature = checker.own_signature(name)
        body = Body(checker, Sink(), name, at_call=True)
        with checker._under_way.recheck():
            checker._check_body(body, signature, types, name)
        return body.sink.diagnostics

    def imported(self) -> tuple[ModuleChecker, ...]:
        """This module and all that it can see, the library among them."""
        return (self, *(checker for checker in self._modules.values() if checker is not self))

    def definer(self, name: str) -> tuple[ModuleChecker, str] | None:
        """Whose function is called so from outside, and its name there; `layers.W$init` is one of a file imported."""
        if name in self.names.functions or name in self.names.hidden:
            return self, name
        for other in self.imported():
            local = name.removeprefix(f"{other.name}.")
            if local != name and local in other.names.hidden:
                return other, local
        return None

    def structs(self) -> tuple[StructDecl, ...]:
        """Every struct that this module can see, its own first, the library's last: names of files hide those."""
        seen = sorted(self.imported(), key=lambda checker: checker.name.startswith("stdlib."))
        found = [checker._struct(name) for checker in seen for name in checker.names.structs]
        return tuple(decl for decl in found if decl is not None)

# Note [Checking on demand]
# A function is checked when it is defined and when a call needs an instance that does not exist yet; both go through
# one table, keyed by the types of its parameters in its own symbols. A call needs the callee's instance first, for
# its guards and effects, so the order of definitions does not matter and recursion shows as an entry under way.

# Note [Guests]
# A module sees those that it imports, and the library beneath it. A program may give a function of its own to a
# function of such a module, `fixed_point(f, ...)`: the instance of that one calls what its module does not see. It is
# checked by a guest, which has the names of its module and sees what the program (its home) sees. A guest belongs to
# its home, so that the library, which outlives programs, never remembers an `f` that is gone.
