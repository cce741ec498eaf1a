"""Checks modules: what other rooms call.

Enters: a module of the syntax tree, its source, and the library modules that were checked before. Leaves: a
`CheckResult`. Nothing is raised for what a user wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from tesserac.base.dataclass import dataclass
from tesserac.base.late import Late
from tesserac.base.recursion import deep_recursion
from tesserac.base.source import SourceFile, Span
from tesserac.check.analysis.reach import computed, reachable, transforms
from tesserac.check.instances.binding import substitute_type
from tesserac.check.instances.entry import entry_types
from tesserac.check.model import typed
from tesserac.check.module.checker import ModuleChecker
from tesserac.check.module.implementers import with_implementers
from tesserac.check.names.resolve import ImportPath, ImportProblem
from tesserac.check.state.rules import Instance
from tesserac.diag.diagnostic import Diagnostic
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.ty import Type


@dataclass(frozen=True)
class CheckResult(Late):
    """A checked module.

    `types` gives the type of each expression: as the definition has it, or in the first call that completes it.
    """

    module: typed.TypedModule
    types: Mapping[ast.Expr, Type]
    diagnostics: tuple[Diagnostic, ...]
    checker: ModuleChecker

    @cached_property
    def functions(self) -> Mapping[str, typed.TypedFunction]:
        """Every instance that the module's own functions and tests reach, by symbol, the library's among them."""
        return reachable([*self.module.functions, *self.module.tests], self.checker.find)

    @property
    def has_errors(self) -> bool:
        return any(diagnostic.severity == "error" for diagnostic in self.diagnostics)

    def instantiate(self, name: str, types: Sequence[Type], equal: Mapping[str, Dim] | None = None) -> Instance:
        """The instance of a function for a call from outside, by the types of its arguments.

        Dims of tensors are their sizes; only rank and, for parameters without dims, equality of sizes count. `equal`
        says which declared sizes are another one in this call.
        """
        checker, local = self.checker.definer(name) or (self.checker, name)
        with deep_recursion():
            own = entry_types(checker.own_signature(local), types)
            if own is None:
                return Instance(None)
            return checker.own_instance(local, tuple(substitute_type(type_, dict(equal or {})) for type_ in own))

    def reach(self, function: typed.TypedFunction) -> Mapping[str, typed.TypedFunction]:
        """A function and all that it calls, by symbol, and what stands for any of these where a target prefers it.
        Rules of derivatives are there if any of them takes derivatives of functions or maps them."""
        with deep_recursion():
            found = with_implementers(function, self.checker, computed)
            return with_implementers(function, self.checker, reachable) if transforms(found.values()) else found


Imported = CheckResult | ImportProblem


@dataclass(frozen=True)
class Earlier:
    """The same module with fewer items, checked, and the names that have a new meaning since: none of them is mentioned
    in those items."""

    result: CheckResult
    changed: frozenset[str]


@dataclass(frozen=True)
class EarlierPart:
    """A module with some of the same items, checked: `kept` are their places in both. They mention each other only, and
    what is wrong with them is `said`."""

    result: CheckResult
    kept: tuple[Span, ...]
    said: tuple[Diagnostic, ...]


def check_module(
    module: ast.Module,
    source: SourceFile,
    name: str,
    libraries: Sequence[CheckResult] = (),
    imports: Mapping[ImportPath, Imported] | None = None,
    qualifier: str = "",
    earlier: Earlier | EarlierPart | None = None,
) -> CheckResult:
    """Checks one module. `name` is what its functions' symbols start with; `libraries` are in scope everywhere.
    `imports` has every other file that it imports; None where nobody looks for files. `qualifier` stands before the
    names of its params where another module imports it. Of what is `earlier` only the rest is checked."""
    with deep_recursion():
        checker = _checker(module, source, name, libraries, imports, qualifier)
        if isinstance(earlier, Earlier):
            checker.inherit(earlier.result.checker, earlier.changed)
        elif earlier is not None:
            checker.inherit_part(earlier.result.checker, earlier.kept, earlier.said)
        found, diagnostics = checker.run()
        return CheckResult(found, checker.types, diagnostics, checker)


def unchecked_module(
    module: ast.Module,
    source: SourceFile,
    name: str,
    libraries: Sequence[CheckResult],
    imports: Mapping[ImportPath, Imported],
    qualifier: str,
) -> CheckResult:
    """A module that is known to be right, as others see it: nothing in it is checked before it is asked for."""
    checker = _checker(module, source, name, libraries, imports, qualifier)
    return CheckResult(typed.TypedModule(name, (), ()), checker.types, (), checker)


def _checker(
    module: ast.Module,
    source: SourceFile,
    name: str,
    libraries: Sequence[CheckResult],
    imports: Mapping[ImportPath, Imported] | None,
    qualifier: str,
) -> ModuleChecker:
    files = {path: f.checker if isinstance(f, CheckResult) else f for path, f in (imports or {}).items()}
    beneath = [library.checker for library in libraries]
    return ModuleChecker(module, source, name, beneath, None if imports is None else files, qualifier)
