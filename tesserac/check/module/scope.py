"""What a module declares, and what names mean in it: structs, params, signatures, members of other modules.

Enters: the names of a module. Leaves: declarations, each read once, with diagnostics for what is wrong in them. The
checker of the module is one of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from tesserac.base.source import SourceFile, Span
from tesserac.check.declarations.params import ModuleParams, read_params
from tesserac.check.declarations.signatures import SignatureNames, read_signature
from tesserac.check.declarations.struct_decl import read_struct
from tesserac.check.model import typed
from tesserac.check.model.specs import Signature, StructDecl
from tesserac.check.module.namespaces import namespace_member, namespace_names
from tesserac.check.names.refs import FunctionRef, LibraryRef, ModuleRef, NamespaceRef, Resolved, StructRef
from tesserac.check.names.resolve import ModuleNames
from tesserac.check.state.body import Body
from tesserac.check.values.common_types import SameSize
from tesserac.diag.codes.names import E0204
from tesserac.diag.sink import Sink
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.ty import OperatorType, StructType

if TYPE_CHECKING:
    from tesserac.check.module.checker import ModuleChecker


@lru_cache(maxsize=8)
def in_sight_of(libraries: tuple[ModuleScope, ...]) -> tuple[dict[str, ModuleChecker], dict[str, SourceFile]]:
    """All modules that these can see, each of which sees those before it, and their texts."""
    modules, sources = dict[str, "ModuleChecker"](), dict[str, SourceFile]()
    for library in libraries:
        modules.update(library._modules)
        sources.update(library._sources)
    return modules, sources


class ModuleScope:
    """`_modules` are those that this one can see, by name, and `_sources` their texts."""

    _modules: dict[str, ModuleChecker]
    _sources: dict[str, SourceFile]

    def __init__(self, name: str, names: ModuleNames, sink: Sink, qualifier: str) -> None:
        self.name = name
        self.names = names
        self.sink = sink
        self._qualifier = qualifier
        self._structs: dict[str, StructDecl | None] = {}
        self._params: ModuleParams | None = None
        self._signatures: dict[str, Signature] = {}
        self.offered = ""
        """What structs of a file of the library are made of, as the interface of every program has it, in a text."""

    def _constant_size(self, name: str) -> Dim | None:
        """The value of a module constant that is an int, as a size."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------ declarations

    def own_signature(self, name: str) -> Signature:
        if name not in self._signatures:
            node = self.names.function(name)
            struct = self.names.structs.get(name.partition(".")[0]) if name in self.names.hidden else None
            hidden = {parameter.id for parameter in struct.parameters} if struct is not None else set()
            sizes = {size: dim for size, dim in self.module_sizes().items() if size not in hidden}
            found = read_signature(node, self._constant_size, self.names, self.struct, self.sink, sizes)
            self._signatures[name] = found
        return self._signatures[name]

    def _struct(self, name: str) -> StructDecl | None:
        """A struct of this module; None for one that would contain itself, after a diagnostic."""
        if name not in self._structs:
            self._structs[name] = None
            node = self.names.structs[name]
            parameters = frozenset(parameter.id for parameter in node.parameters)
            names = SignatureNames(parameters, self._constant_size, self.names, self.struct, self.sink)
            self._structs[name] = read_struct(node, self.name, names, self.sink)
        elif self._structs[name] is None:
            span = self.names.structs[name].name_span
            self.sink.error(E0204, at=span, problem=f"`{name}` would contain itself")
        return self._structs[name]

    def params(self) -> ModuleParams:
        if self._params is None:
            self._params = ModuleParams()  # while they are read: a type of one may not depend on another's size
            names = SignatureNames(frozenset(), self._constant_size, self.names, self.struct, self.sink)
            self._params = read_params(self.names.params, names, self._qualifier, self.sink)
        return self._params

    def module_sizes(self) -> Mapping[str, Dim]:
        return self.params().sizes

    def teller(self, size: str) -> typed.Param | None:
        """The param that tells a size of this module, or of one that it imports; None for any other size."""
        found = (checker.params().tellers.get(size) for checker in (self, *self._modules.values()))
        return next((param for param in found if param is not None), None)

    def param(self, owner: str, name: str) -> typed.Param:
        return self._modules[owner].params().params[name]

    # ------------------------------------------------------------------------------------------------ names

    def is_own(self, ref: FunctionRef) -> bool:
        return ref.owner == self.name

    def resolve(self, name: str) -> Resolved | None:
        return self.names.lookup(name)

    def before_dot(self, name: str) -> Resolved | None:
        return self.names.before_dot(name)

    def struct(self, node: ast.Expr) -> StructDecl | None:
        """The struct that a name, or a name of another module, stands for."""
        meaning = self.meaning(node)
        return self.own_struct(meaning) if isinstance(meaning, StructRef) else None

    def own_struct(self, ref: StructRef) -> StructDecl | None:
        return self._modules[ref.owner]._struct(ref.name)

    def methods(self, type_: StructType) -> frozenset[str]:
        decl = self.own_struct(StructRef(type_.module, type_.name))
        return frozenset() if decl is None else decl.methods

    def common_operator(self, same: SameSize, left: OperatorType, right: OperatorType) -> OperatorType | None:
        from tesserac.check.algebra.joining import common_operator

        return common_operator(same, left, right)

    def operator_as(self, body: Body, value: typed.Expr, type_: OperatorType) -> typed.Expr:
        from tesserac.check.algebra.joining import operator_as

        return operator_as(body, value, type_)

    def meaning(self, node: ast.Expr) -> Resolved | None:
        """What `name` or `module.name` means outside of functions."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return self.member(self.before_dot(node.value.id), node.name)
        return self.names.lookup(node.id) if isinstance(node, ast.Name) else None

    def member(self, container: Resolved | None, name: str) -> Resolved | None:
        """What `name` means in the library or in another module."""
        if isinstance(container, NamespaceRef):
            return namespace_member(container.name, name, self.names.library)
        if isinstance(container, ModuleRef):
            return self._modules[container.owner].names.public.get(name)
        return self.names.library(name) if isinstance(container, LibraryRef) else None

    def members(self, container: Resolved) -> Sequence[str]:
        """Names to suggest for a misspelt one after a dot."""
        if isinstance(container, NamespaceRef) and container.name != "op":
            return namespace_names(container.name, self.suggestions())
        if isinstance(container, ModuleRef):
            return list(self._modules[container.owner].names.public)
        return self.suggestions() if isinstance(container, LibraryRef | NamespaceRef) else ()

    def private(self, container: Resolved, name: str) -> Span | None:
        """Where another module defines a name that it keeps to itself."""
        own = self._modules[container.owner].names.private() if isinstance(container, ModuleRef) else {}
        return own.get(name)

    def define_inner(self, node: ast.FunctionDef) -> FunctionRef:
        """Takes in a function that was written inside another one."""
        self.names.inner.setdefault(node.name, node)
        return FunctionRef(self.name, node.name)

    def library(self, name: str) -> Resolved | None:
        return self.names.library(name)

    def suggestions(self) -> Sequence[str]:
        return self.names.names()

    def alias(self, name: str) -> ast.Expr | None:
        return self.names.alias(name)

    def is_reported(self, name: str) -> bool:
        return self.names.is_reported(name)

    def type_names(self, module: str = "") -> Sequence[str]:
        return self.names.type_names(module)

    def sources(self) -> Mapping[str, SourceFile]:
        """The texts of the modules that this one can see, by path."""
        return self._sources

    def text(self, span: Span) -> str:
        source = self._sources.get(span.file)
        return source.slice(span) if source is not None and span.known else ""

    def line(self, span: Span) -> int:
        source = self._sources.get(span.file)
        return source.position(span.start)[0] if source is not None else 0

    # ------------------------------------------------------------------------------ rules of functions

    def derivative_rules(self, owner: str, name: str) -> Mapping[str, str]:
        """The functions that are derivatives of this one, by the decorator that says so."""
        return self._modules[owner].names.derivative_rules.get(name, {})

    def form_rules(self, owner: str, name: str) -> Mapping[str, FunctionRef]:
        """The functions of the library that compute this one for matrices of a structure, by that structure."""
        ref, found = FunctionRef(owner, name), dict[str, FunctionRef]()
        for checker in self._modules.values():
            if name in checker.names.form_rules and checker.names.lookup(name) == ref:
                rows = checker.names.form_rules[name]
                found |= {word: FunctionRef(checker.name, rule) for word, rule in rows.items()}
        return found

    def has_form(self, structure: str, name: str) -> bool:
        """Whether a function of this module is a form for this structure."""
        return any(rows.get(structure) == name for rows in self.names.form_rules.values())
