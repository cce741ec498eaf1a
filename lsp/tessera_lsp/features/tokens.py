"""What each name in the text is, for its colour: a size, a parameter, a field, a weight, a kernel, an operator.

In: a part of a file. Out: `Token`s in the order of the text. Local names are told by the text (see `scopes`), others by
the checker, so that a name has its colour while the line around it is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tessera_lsp.features.scopes import Function, bindings, struct_sizes
from tessera_lsp.legend import Kind, Mark
from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile, Span
from tesserac.check.declarations.decorators import is_kernel
from tesserac.check.infer import CheckResult
from tesserac.check.names.refs import (
    BuiltinRef,
    ConstantRef,
    DTypeRef,
    FunctionRef,
    LibraryRef,
    ModuleRef,
    NamespaceRef,
    OperatorRef,
    ParamRef,
    Resolved,
    StructRef,
)
from tesserac.driver.session import Session
from tesserac.incremental.analyser import Analysis, ItemView
from tesserac.syntax import ast
from tesserac.syntax.walk import children
from tesserac.types.ty import OperatorType, StructType

_TYPES = frozenset(("Tensor", "Tile", "KTile", "List", "Operator", "SpectralOperator", "Shape", "Axis", "DType"))
Locals = Mapping[str, Kind]
Meant = tuple[Kind, tuple[Mark, ...]]


@dataclass(frozen=True)
class Token:
    span: Span
    kind: Kind
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, eq=False)
class Piece:
    """The names of one item, where they stood when it was read; `codes` are theirs in an encoding, once asked for."""

    tokens: tuple[Token, ...]
    result: CheckResult | None
    codes: dict[str, list[int]]


KEPT = 4096
"""Items whose names are not told anew while nothing in them, or of what they can use, has changed."""
_kept: dict[object, Piece] = {}


def pieces(session: Session, source: SourceFile, start: int, end: int) -> list[tuple[ItemView, Piece]]:
    """The items that a part of a file touches. Nothing waits for it."""
    analysis = session.check_visible(source)
    names = _Names(session, analysis)
    views = (view for view in analysis.items if view.span.start <= end and start <= view.span.end)
    return [(view, _piece(view, names)) for view in views]


def tokens(session: Session, source: SourceFile, start: int, end: int) -> list[Token]:
    """Of the same, where they stand now."""
    found = pieces(session, source, start, end)
    return [Token(view.now(one.span), one.kind, one.marks) for view, piece in found for one in piece.tokens]


def _piece(view: ItemView, names: _Names) -> Piece:
    key = (view.nodes, names.declared)
    known = _kept.get(key)
    if known is None or known.result is not view.result:
        reader = _Reader(view, names)
        for node in view.nodes:
            reader.read(node, {})
        if len(_kept) >= KEPT:
            _kept.clear()
        known = _kept[key] = Piece(tuple(sorted(reader.found, key=lambda token: token.span.start)), view.result, {})
    return known


class _Names:
    """What names outside of functions are; each is asked for once."""

    def __init__(self, session: Session, analysis: Analysis) -> None:
        self._session = session
        nodes = [node for view in analysis.items for node in view.nodes]
        self._own = {token[0]: token[1:] for node in nodes for token in _declared(node)}
        self.declared = hash(frozenset(self._own.items()))
        self._known: dict[str, Meant | None] = {}

    def of(self, name: str, view: ItemView) -> Meant | None:
        if name in self._own:
            return self._own[name]
        if name not in self._known:
            result = view.result or self._session.library[-1]
            self._known[name] = self._resolved(name, result.checker.names.lookup(name))
        return self._known[name]

    def before_dot(self, name: str, view: ItemView) -> Meant | None:
        """`tile` is a function, and in `tile.load` what holds those of kernels."""
        result = view.result or self._session.library[-1]
        held = isinstance(result.checker.names.before_dot(name), NamespaceRef)
        return ("namespace", ()) if held else self.of(name, view)

    def _resolved(self, name: str, resolved: Resolved | None) -> Meant | None:
        match resolved:
            case FunctionRef(owner, name):
                return "function", self._marks(owner, name)
            case OperatorRef():
                return "function", ("defaultLibrary",)
            case BuiltinRef():
                return "type" if name in _TYPES else "function", ("defaultLibrary",)
            case StructRef():
                return "struct", ()
            case ParamRef():
                return "weight", ()
            case ConstantRef():
                return "variable", ("readonly",)
            case DTypeRef():
                return "type", ("defaultLibrary",)
            case NamespaceRef() | ModuleRef() | LibraryRef():
                return "namespace", ()
        return ("type", ("defaultLibrary",)) if name in _TYPES else None

    def _marks(self, owner: str, name: str) -> tuple[Mark, ...]:
        module = next((one.checker.names for one in self._session.library if one.checker.names.name == owner), None)
        node = module.functions.get(name) if module is not None else None
        marks = list[Mark](["defaultLibrary"] if module is not None else [])
        return (*marks, "kernel") if node is not None and is_kernel(node) else tuple(marks)


def _declared(node: ast.Item) -> Iterator[tuple[str, Kind, tuple[Mark, ...]]]:
    match node:
        case ast.FunctionDef(name=name):
            yield name, "function", ("kernel",) if is_kernel(node) else ()
        case ast.StructDef(name=name):
            yield name, "struct", ()
        case ast.ParamDecl(name=name):
            yield name, "weight", ()
        case ast.ConstDef(targets=targets):
            for target in targets:
                if isinstance(target, ast.Name):
                    yield target.id, "variable", ("readonly",)


class _Reader:
    """Walks one item, with the local names of the functions around."""

    def __init__(self, view: ItemView, names: _Names) -> None:
        self.view, self.names = view, names
        self.found: list[Token] = []

    def read(self, node: ast.Node, local: Locals, is_method: bool = False) -> None:
        if isinstance(node, ast.Name):  # most nodes are, and have nothing below
            kind = local.get(node.id)
            self._name(node, (kind, ()) if kind is not None else self.names.of(node.id, self.view))
            return
        match node:
            case ast.FunctionDef():
                self._add(node.name_span, "method" if is_method else "function", _marks_of(node))
                local = {**local, **_locals(node)}
            case ast.TestBlock():
                local = {**local, **_locals(node)}
            case ast.StructDef():
                self._add(node.name_span, "struct", ("declaration",))
                local = {**local, **dict.fromkeys(struct_sizes(node), "typeParameter")}
            case ast.Parameter() | ast.FieldDef() | ast.ParamDecl():
                self._add(node.name_span, _DECLARES[type(node)], ("declaration",))
            case ast.Argument(name=str(), name_span=span) if span is not None:
                self._add(span, "parameter")
            case ast.Attribute():
                self._attribute(node)
                if isinstance(node.value, ast.Name) and node.value.id not in local:
                    self._name(node.value, self.names.before_dot(node.value.id, self.view))
                    return
        for child in children(node):
            self.read(child, local, is_method=isinstance(node, ast.StructDef))

    def _name(self, node: ast.Name, known: Meant | None) -> None:
        if known is not None:
            linear: tuple[Mark, ...] = ("linearOperator",) if self._is_operator(node) else ()
            self._add(node.span, known[0], (*known[1], *linear))

    def _attribute(self, node: ast.Attribute) -> None:
        """A field of a struct; else a method, which is a function of that name, or what is known of a tensor."""
        if isinstance(self.view.type_of(node.value), StructType):
            self._add(node.name_span, "property")
            return
        known = self.names.of(node.name, self.view)
        kind: Kind = "method" if known is not None and known[0] == "function" else "property"
        self._add(node.name_span, kind, known[1] if known is not None and kind == "method" else ())

    def _is_operator(self, node: ast.Expr) -> bool:
        return isinstance(self.view.type_of(node), OperatorType)

    def _add(self, span: Span, kind: Kind, marks: tuple[Mark, ...] = ()) -> None:
        self.found.append(Token(span, kind, marks))


_DECLARES: Mapping[type[ast.Node], Kind] = {
    ast.Parameter: "parameter", ast.FieldDef: "property", ast.ParamDecl: "weight",
}  # fmt: skip
_OF_BINDINGS: Mapping[str, Kind] = {"parameter": "parameter", "local": "variable", "size": "typeParameter"}


def _marks_of(node: ast.FunctionDef) -> tuple[Mark, ...]:
    return ("declaration", "kernel") if is_kernel(node) else ("declaration",)


def _locals(function: Function) -> dict[str, Kind]:
    """By name; what a name is bound as first, it is."""
    found: dict[str, Kind] = {}
    for binding in bindings(function):
        found.setdefault(binding.name, _OF_BINDINGS[binding.kind])
    return found
