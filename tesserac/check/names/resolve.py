"""What a name can mean outside a function: the module's items, the library, operators, dtypes, builtins.

Enters: the items of a module, the files it imports, and the library modules beneath it. Leaves: `ModuleNames`, which
answers what a name means, and diagnostics for names defined twice, imports of nothing, and items whose checking is
still to come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property

from tesserac.base.dataclass import dataclass
from tesserac.base.resources import library_folder
from tesserac.base.source import Span
from tesserac.check.model.library_annotations import form_of
from tesserac.check.names.decorated import implemented, law_of, rule_of
from tesserac.check.names.decorating import is_transformed, plain_name, taken_apart
from tesserac.check.names.foreign_names import is_of_python
from tesserac.check.names.refs import (
    ALGEBRA,
    BUILTINS,
    NAMESPACES,
    OPERATIONS,
    BuiltinRef,
    ConstantRef,
    DTypeRef,
    FunctionRef,
    LibraryRef,
    ModuleRef,
    NamespaceRef,
    OperatorRef,
    ParamRef,
    ReportedRef,
    Resolved,
    StructRef,
)
from tesserac.check.names.struct_items import functions_of, initial_of_param, is_test, tensor_defaults, test_function
from tesserac.diag.codes.differentiation import E0705
from tesserac.diag.codes.names import E0202, E0209
from tesserac.diag.codes.projects import E0946
from tesserac.diag.diagnostic import Code, Step
from tesserac.diag.sink import Sink
from tesserac.ops.registry import OPERATORS
from tesserac.syntax import ast
from tesserac.types import dtype as dtypes

LIBRARY_PATHS = (("tessera",), ("tessera", "stdlib"))


@cache
def _built_in() -> Mapping[str, Resolved]:
    """What the language itself has."""
    names: dict[str, Resolved] = {name: BuiltinRef(name) for name in BUILTINS}
    names.update({name: BuiltinRef(f"{ALGEBRA}{name}") for name in OPERATIONS})
    names.update({name: NamespaceRef(name) for name in NAMESPACES})
    names.update({op.name: OperatorRef(op) for op in OPERATORS.values() if op.surface})
    return names


class Exports:
    """The public functions and constants of checked library modules, and the built-in names beneath them."""

    def __init__(self, libraries: Sequence[ModuleNames]) -> None:
        self._libraries = {library.name: library for library in libraries}

    @cached_property
    def _known(self) -> dict[str, Resolved | None]:
        """What has been asked for; a library on disk goes without."""
        return {}

    def _meaning(self, name: str) -> Resolved | None:
        """What the last module with such a public name means by it: found name by name, since a program has few."""
        if name not in self._known:
            modules = reversed(self._libraries.values())
            found = next((meaning for module in modules if (meaning := module.offered(name)) is not None), None)
            self._known[name] = found or _built_in().get(name)
        return self._known[name]

    def alias(self, name: str) -> ast.Expr | None:
        """The value of a constant of the library, for types named by one."""
        meaning = self._meaning(name)
        return self._libraries[meaning.owner].alias(meaning.name) if isinstance(meaning, ConstantRef) else None

    def lookup(self, name: str) -> Resolved | None:
        found = self._meaning(name)
        dtype = dtypes.lookup(name) if found is None else None
        return DTypeRef(dtype) if dtype else found

    def before_dot(self, name: str) -> Resolved | None:
        """A namespace stays one where the library has a function of its name: `tile(x, 2)`, `tile.load(x)`."""
        return NamespaceRef(name) if name in NAMESPACES else self.lookup(name)

    def beside(self, folder: str, name: str) -> Resolved | None:
        """What one file of a folder of the library keeps to itself: files of a folder share it."""
        files = (library for library in self._libraries.values() if library.name.rpartition(".")[0] == folder)
        found = [meaning for file in files if (meaning := file.own(name)) is not None] if folder else []
        return found[0] if len(found) == 1 else None

    def names(self) -> list[str]:
        """All of them. Who asks looks for the one that was meant, so that what each means is asked next."""
        public = {name: meaning for module in self._libraries.values() for name, meaning in module.public.items()}
        meanings, others = {**_built_in(), **public}, [dtype.name for dtype in dtypes.ALL]
        self._known.update({**dict.fromkeys(others), **meanings})
        return [*meanings, *others]


@dataclass(frozen=True)
class ImportProblem:
    """Why a file cannot be imported, and what is said at the place that is to blame, if there is one. `guess` is what
    the import may have meant, `remark` how it is done here, where nothing need be imported; `steps` are the imports
    that lead back to this one, and `cycle` the files they are in."""

    problem: str
    place: Span | None = None
    said: str = ""
    code: Code = E0209
    guess: str = ""
    remark: str = ""
    steps: tuple[Step, ...] = ()
    cycle: frozenset[str] = frozenset()

    def report(self, at: Span, sink: Sink, statement: Span | None = None) -> None:
        """`at` is where the import names the file, `statement` one that imports nothing else."""
        draft = sink.error(self.code, at=at, problem=self.problem)
        if self.place is not None:
            draft.note(self.place, self.said)
        for step in self.steps:
            draft.because(step.text, step.span)
        if self.remark:
            draft.remark(self.remark)
            if statement is not None:
                draft.replace("leave it out", statement, "")
        if self.guess:
            draft.replace(f"did you mean `{self.guess}`?", at, self.guess)


ImportPath = tuple[int, tuple[str, ...]]
"""The number of leading dots, and the names between dots."""


class ModuleNames:
    """The names of one module. `imports` has every file that it imports; None where nobody looks for files."""

    def __init__(
        self, name: str, module: ast.Module, exports: Exports, imports: Imports | None, sink: Sink
    ) -> None:
        self.name = name
        self._folder = library_folder(module.span.file)
        self._imports = imports
        self._imported: dict[str, ModuleNames] = {}
        self.functions: dict[str, ast.FunctionDef] = {}
        self.derivative_rules: dict[str, dict[str, str]] = {}
        self.form_rules: dict[str, dict[str, str]] = {}
        self.implemented: dict[str, ast.Expr] = {}
        """What kernels say that they implement, by their names."""
        self.laws: dict[str, ast.Expr] = {}
        """The functions that laws are of, by the laws' names."""
        self.hidden: dict[str, ast.FunctionDef] = {}
        self.inner: dict[str, ast.FunctionDef] = {}
        self.structs: dict[str, ast.StructDef] = {}
        self.params: dict[str, ast.ParamDecl] = {}
        self.constants: dict[str, ast.ConstDef] = {}
        self.unpackings: list[tuple[ast.Expr, ast.Expr]] = []
        self._exports = exports
        self._sink = sink
        self._names: dict[str, Resolved] = {}
        self._spans: dict[str, Span] = {}
        self._from_imports: set[str] = set()
        for item in module.items:
            self._importing = isinstance(item, ast.Import | ast.FromImport)
            self._collect(item)
        for name in [name for name in self.derivative_rules if plain_name(name) in self.hidden]:
            self.derivative_rules[plain_name(name)] = self.derivative_rules.pop(name)

    def lookup(self, name: str) -> Resolved | None:
        found = self._names.get(name) or self._exports.lookup(name)
        return found or (self._exports.beside(self._folder, name) if name.startswith("_") else None)

    def own(self, name: str) -> Resolved | None:
        """What this module itself calls so."""
        return self._names.get(name)

    def before_dot(self, name: str) -> Resolved | None:
        own = self._names.get(name)
        is_own = own is not None and own != self._exports.lookup(name)  # not the library's, imported
        return own if is_own else self._exports.before_dot(name)

    def library(self, name: str) -> Resolved | None:
        """The meaning of `op.name`."""
        return self._exports.lookup(name)

    def names(self) -> list[str]:
        return [*filter(_is_writable, self._names), *self._exports.names()]

    @cached_property
    def public(self) -> Mapping[str, Resolved]:
        """What other modules can name."""
        return {name: meaning for name in self._names if (meaning := self.offered(name)) is not None}

    def offered(self, name: str) -> Resolved | None:
        """What other modules mean by a name of this one."""
        meaning = self._names.get(name)
        own = isinstance(meaning, FunctionRef | ConstantRef | StructRef | ParamRef)
        return meaning if own and not name.startswith("_") and _is_writable(name) else None

    def private(self) -> dict[str, Span]:
        """Names that start with `_`, with where they are defined."""
        return {name: span for name, span in self._spans.items() if name.startswith("_")}

    def _note_rules(self, item: ast.FunctionDef) -> None:
        """`@vjp_of(f)` says that the function is a derivative of f."""
        for kind, of in rule_of(item).items():
            first = self.derivative_rules.setdefault(of, {}).setdefault(kind, item.name)
            if first != item.name and first in self.functions:
                draft = self._sink.error(E0705, at=item.name_span, problem=f"`{of}` has a `@{kind}` rule already")
                draft.note(self.functions[first].name_span, "this one")
                draft.fix("take one of them out: a function has one derivative")

    def function(self, name: str) -> ast.FunctionDef:
        """A function by name, or one without a name of its own: a method, an initialiser, a lambda."""
        return next(group[name] for group in (self.functions, self.hidden, self.inner) if name in group)

    def alias(self, name: str) -> ast.Expr | None:
        """The value of a module constant, for types named by one; None for one that leads back to itself."""
        meaning = self._names.get(name)
        if isinstance(meaning, ConstantRef) and meaning.owner in self._imported:
            return self._imported[meaning.owner].alias(meaning.name)
        if meaning is None:
            return self._exports.alias(name)
        constant = self.constants.get(name)
        if constant is None or name in _names_in(constant.value, self.constants, frozenset({name})):
            return None
        return constant.value

    def is_reported(self, name: str) -> bool:
        """Whether a name that is no type belongs to an item that has said why."""
        meaning = self._names.get(name)
        return meaning == ReportedRef() or isinstance(meaning, StructRef)

    def type_names(self, module: str = "") -> list[str]:
        """The structs that can be named here, or those of another module under the name that it has here."""
        meaning = self._names.get(module)
        if isinstance(meaning, ModuleRef):
            return [name for name in self._imported[meaning.owner].structs if not name.startswith("_")]
        return [] if module else [name for name, own in self._names.items() if isinstance(own, StructRef)]

    def constant_is_type(self, name: str) -> bool:
        """Whether a constant abbreviates a type, which is read where it is used."""
        value = self.alias(name)
        while isinstance(value, ast.BinaryOp) and value.op == "@":  # `OptimizerState[Net[8]] @fp32_master`
            value = value.left
        match value:
            case ast.FunctionType() | ast.BinaryOp(op="|"):
                return True
            case ast.Name(id=kind) | ast.Subscript(value=ast.Name(id=kind)):
                known = kind in ("Tensor", "List", "int", "bool", "str", "float")
                return known or isinstance(self.lookup(kind), StructRef)
        return False

    def _collect(self, item: ast.Item) -> None:
        match item:
            case ast.FunctionDef():
                self._collect_function(item)
                self._define(item.name, FunctionRef(self.name, item.name), item.name_span)
            case ast.ConstDef():
                self._collect_constant(item)
            case ast.TestBlock():
                test = test_function(item)
                self.hidden.setdefault(test.name, test)
                self._define(test.name, FunctionRef(self.name, test.name), item.name.span)
            case ast.Import():
                for imported in item.modules:
                    self._collect_import(imported, item)
            case ast.FromImport():
                self._collect_names(item)
            case ast.StructDef():
                self.structs.setdefault(item.name, item)
                self.hidden.update({function.name: function for function in functions_of(item)})
                self._define(item.name, StructRef(self.name, item.name), item.name_span)
            case ast.ParamDecl():
                self.params.setdefault(item.name, item)
                if item.init is not None:
                    initial = initial_of_param(item, item.init)
                    self.hidden[initial.name] = initial
                self._define(item.name, ParamRef(self.name, item.name), item.name_span)

    def _collect_function(self, item: ast.FunctionDef) -> None:
        """A function; one with transforms as decorators is two."""
        seen = item
        if is_transformed(item):
            seen, plain = taken_apart(item)
            self.hidden.setdefault(plain.name, plain)
            self._names[plain.name] = FunctionRef(self.name, plain.name)
        self.functions.setdefault(item.name, seen)
        self.hidden.update({function.name: function for function in tensor_defaults(item)})
        self._note_rules(item)
        if (form := form_of(item)) is not None:
            self.form_rules.setdefault(form[0], {})[form[1]] = item.name
        if (meaning := implemented(seen)) is not None:
            self.implemented.setdefault(item.name, meaning)
        if (of := law_of(seen)) is not None:
            self.laws.setdefault(item.name, of)

    def _define(self, name: str, meaning: Resolved, span: Span) -> None:
        if name in self._spans:
            again = "imported" if self._importing else "defined"
            first = "imported" if name in self._from_imports else "defined"
            self._sink.error(E0202, at=span, label=f"{again} again here", name=name).note(
                self._spans[name], f"first {first} here"
            )
            return
        if self._importing:
            self._from_imports.add(name)
        self._names[name], self._spans[name] = meaning, span

    def _collect_constant(self, item: ast.ConstDef) -> None:
        for target in item.targets:
            if not isinstance(target, ast.Name):
                self.unpackings.append((target, item.value))
            for name, value in _unpacked(target, item.value):
                self.constants.setdefault(name.id, replace(item, value=value))
                self._define(name.id, ConstantRef(self.name, name.id), name.span)

    # -------------------------------------------------------------------------------------------------- imports

    def _collect_import(self, imported: ast.ImportedModule, item: ast.Import) -> None:
        path = imported.path
        if _is_library(path):
            name = imported.alias.id if imported.alias else path.names[0]
            self._define(name, LibraryRef(), imported.span)
            return
        module = self._module(path, item.span if len(item.modules) == 1 else None)
        if module is None and is_of_python(path):
            return  # what is used of it is told at each place, with what it is here
        if imported.alias is None and len(path.names) != 1:
            problem = "a module in a folder needs a name here"
            named = f"{'.' * path.dots}{'.'.join(path.names)} as {path.names[-1]}" if path.names else "... as name"
            self._sink.error(E0209, at=path.span, problem=problem).replace(f"write `{named}`", path.span, named)
            if path.names and path.names[0] not in self._spans:
                self._define(path.names[0], ReportedRef(), imported.span)  # uses of it are no further mistakes
            return
        name = imported.alias.id if imported.alias else path.names[0]
        self._define(name, ReportedRef() if module is None else ModuleRef(module.name), imported.span)

    def _collect_names(self, item: ast.FromImport) -> None:
        if _is_library(item.path):
            known = self._exports.names()
            for imported in item.names:
                self._collect_name(imported, self._exports.lookup(imported.name.id), "the library", known)
            return
        files = {imported.name.id: self._file_below(item.path, imported.name.id) for imported in item.names}
        module = self._module(item.path, item.span) if None in files.values() else None
        if module is None and is_of_python(item.path):
            return
        public = list(module.public) if module is not None else []
        for imported in item.names:
            name, file = imported.name.id, files[imported.name.id]
            if file is not None:
                self._define((imported.alias or imported.name).id, self._reference(file, imported), imported.span)
            elif module is None:
                self._define((imported.alias or imported.name).id, ReportedRef(), imported.span)
            elif name in module.private():
                self._sink.error(E0946, at=imported.name.span, name=name, module=module.name).note(
                    module.private()[name], "the `_` it starts with makes it so"
                )
                self._define((imported.alias or imported.name).id, ReportedRef(), imported.span)
            else:
                self._collect_name(imported, module.public.get(name), f"`{module.name}`", public)

    def _file_below(self, path: ast.ModulePath, name: str) -> ModuleNames | ImportProblem | None:
        """The file that `from package import name` means, where it means one."""
        return (self._imports or {}).get((path.dots, (*path.names, name)))

    def _reference(self, file: ModuleNames | ImportProblem, imported: ast.ImportedName) -> Resolved:
        if isinstance(file, ImportProblem):
            file.report(imported.name.span, self._sink)
            return ReportedRef()
        self._imported[file.name] = file
        return ModuleRef(file.name)

    def _collect_name(
        self, imported: ast.ImportedName, meaning: Resolved | None, where: str, known: list[str]
    ) -> None:
        if meaning is None:
            self._unknown_import(imported.name, where, known)
            self._define((imported.alias or imported.name).id, ReportedRef(), imported.span)
        else:
            name = imported.alias or imported.name
            self._define(name.id, meaning, name.span)

    def _unknown_import(self, name: ast.Name, where: str, known: list[str]) -> None:
        draft = self._sink.error(E0209, at=name.span, problem=f"{where} has no `{name.id}`")
        draft.did_you_mean(name.id, known, name.span)

    def _module(self, path: ast.ModulePath, statement: Span | None) -> ModuleNames | None:
        """Another file; None after a diagnostic."""
        if self._imports is None:
            self._sink.error(E0209, at=path.span, problem="no other file can be imported here")
            return None
        found = self._imports[path.dots, path.names]
        if isinstance(found, ModuleNames):
            self._imported[found.name] = found
            return found
        found.report(path.span, self._sink, statement)
        return None


def _unpacked(target: ast.Expr, value: ast.Expr) -> Iterator[tuple[ast.Name, ast.Expr]]:
    """Each name of an assignment with its value: its place in a tuple that is written out, or an item of a value."""
    if isinstance(target, ast.Name):
        yield target, value
    elif isinstance(target, ast.TupleExpr | ast.ListExpr):
        written = value.items if isinstance(value, ast.TupleExpr | ast.ListExpr) else ()
        for place, item in enumerate(target.items):
            number = ast.Argument(value.span, None, value.span, ast.IntLiteral(value.span, place))
            taken = written[place] if place < len(written) else ast.Subscript(value.span, value, (number,))
            yield from _unpacked(item, taken)


Imports = Mapping[ImportPath, ModuleNames | ImportProblem]


def _is_library(path: ast.ModulePath) -> bool:
    return path.dots == 0 and path.names in LIBRARY_PATHS


def _names_in(node: ast.Expr, constants: dict[str, ast.ConstDef], seen: frozenset[str]) -> frozenset[str]:
    """Names of constants that the value of a constant reaches through types and policies."""
    found: frozenset[str] = frozenset()
    match node:
        case ast.Name(id=name):
            found = frozenset({name})
            if name in constants and name not in seen:
                found |= _names_in(constants[name].value, constants, seen | {name})
        case ast.BinaryOp(left=left, right=right):
            found = _names_in(left, constants, seen) | _names_in(right, constants, seen)
        case ast.Subscript(arguments=arguments):
            for argument in arguments:
                found |= _names_in(argument.value, constants, seen)
    return found


def _is_writable(name: str) -> bool:
    """Whether a program can write it: a test, and a function below its decorators, have names of their own."""
    return not is_test(name) and "$" not in name
