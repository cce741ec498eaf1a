"""What a name in the text means: where it is defined, and what defines it.

In: a word at a place. Out: a `Meaning`, for hover and for going to the definition. Names of the module and the library
are resolved by the checker; local ones by the text (see `scopes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tessera_lsp.features.places import Place, Word
from tessera_lsp.features.scopes import Binding, binding_of
from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile, Span
from tesserac.check.infer import CheckResult
from tesserac.check.model.typed import TypedFunction
from tesserac.check.names.refs import BuiltinRef, ConstantRef, DTypeRef, FunctionRef, OperatorRef, Resolved, StructRef
from tesserac.driver.session import Session
from tesserac.incremental.analyser import Analysis
from tesserac.incremental.outline import defined_names
from tesserac.ops.registry import Operator
from tesserac.syntax import ast
from tesserac.types.dtype import DType
from tesserac.types.ty import Type


@dataclass(frozen=True)
class LocalMeaning:
    """A parameter, a local name or a size. `span` is where it is bound in the text as it is."""

    binding: Binding
    span: Span
    type: Type | None


@dataclass(frozen=True)
class ItemMeaning:
    """An item of this file or of the library. `span` is where its name stands in `source`, and `shift` how far that
    is from where its nodes say."""

    node: ast.Item
    span: Span
    source: SourceFile
    result: CheckResult | None
    shift: int = 0

    def now(self, span: Span) -> Span:
        return Span(span.file, span.start + self.shift, span.end + self.shift)


@dataclass(frozen=True)
class OperatorMeaning:
    op: type[Operator]


@dataclass(frozen=True)
class DTypeMeaning:
    dtype: DType


@dataclass(frozen=True)
class BuiltinMeaning:
    name: str


GlobalMeaning = ItemMeaning | OperatorMeaning | DTypeMeaning | BuiltinMeaning
Meaning = LocalMeaning | GlobalMeaning


def meaning_of(session: Session, analysis: Analysis, place: Place, word: Word) -> Meaning | None:
    if isinstance(word.node, ast.Attribute):  # a method is the function of that name
        return global_meaning(session, analysis, word.text, place.view.result)
    if isinstance(word.node, ast.Argument):
        return _argument(session, analysis, place, word)
    function = place.function
    binding = binding_of(function, word.text, word.span.start) if function is not None else None
    if binding is not None and function is not None and word.node is not function:
        return LocalMeaning(binding, place.view.now(binding.span), _type_of(place, binding))
    return global_meaning(session, analysis, word.text, place.view.result)


def _argument(session: Session, analysis: Analysis, place: Place, word: Word) -> Meaning | None:
    """`name=` in a call is the parameter of that name."""
    calls = [node for node in place.path if isinstance(node, ast.Call)]
    function = calls[-1].function if calls else None
    if isinstance(function, ast.Name | ast.Attribute):
        name = function.id if isinstance(function, ast.Name) else function.name
        callee = global_meaning(session, analysis, name, place.view.result)
        if isinstance(callee, ItemMeaning) and isinstance(callee.node, ast.FunctionDef):
            binding = binding_of(callee.node, word.text, callee.node.span.start)
            if binding is not None and binding.kind == "parameter":
                return LocalMeaning(binding, callee.now(binding.span), None)
    return None


def _type_of(place: Place, binding: Binding) -> Type | None:
    """The type of the word under the cursor as a value; failing that, of what binds it."""
    here = place.view.type_of(place.node) if isinstance(place.node, ast.Name) else None
    if here is not None:
        return here
    if binding.value is not None:
        return place.view.type_of(binding.value)
    return _parameter_type(place, binding.name) if binding.kind == "parameter" else None


def _parameter_type(place: Place, name: str) -> Type | None:
    """As the checked function has it, in the sizes of its signature."""
    function = place.function
    checked = checked_function(function, place.view.result) if isinstance(function, ast.FunctionDef) else None
    params = checked.params if checked is not None else ()
    return next((param.type for param in params if param.name == name), None)


def checked_function(node: ast.FunctionDef, result: CheckResult | None) -> TypedFunction | None:
    """What the checker made of a definition; None where only calls complete it, or something is wrong with it."""
    functions = result.module.functions if result is not None else ()
    return next((function for function in functions if function.span == node.name_span), None)


def global_meaning(
    session: Session, analysis: Analysis, name: str, result: CheckResult | None = None
) -> GlobalMeaning | None:
    """What a name means outside functions, as the checker has it (`result`); else as the file or the library does."""
    own = own_item(analysis, name)
    if own is not None and not isinstance(own.node, ast.FromImport):
        return own
    names = result.checker.names if result is not None else session.library[-1].checker.names
    return _resolved(session, names.lookup(name), result) or own


def _resolved(session: Session, resolved: Resolved | None, result: CheckResult | None) -> GlobalMeaning | None:
    match resolved:
        case FunctionRef(owner, name) | ConstantRef(owner, name) | StructRef(owner, name):
            return _library_item(session, owner, name) or _imported_function(session, resolved, result)
        case OperatorRef(op):
            return OperatorMeaning(op)
        case DTypeRef(dtype):
            return DTypeMeaning(dtype)
        case BuiltinRef(name):
            return BuiltinMeaning(name)
    return None


def _imported_function(session: Session, resolved: Resolved, result: CheckResult | None) -> ItemMeaning | None:
    """A function of another file."""
    if result is None or not isinstance(resolved, FunctionRef):
        return None
    node = result.checker.signature(resolved.owner, resolved.name).node
    source = session.sources().get(node.span.file)
    return ItemMeaning(node, node.name_span, source, None) if source is not None else None


def own_item(analysis: Analysis, name: str) -> ItemMeaning | None:
    """The first item of the file that defines a name."""
    for item, view in zip(analysis.outline.items, analysis.items, strict=True):
        if name in defined_names(item.parsed):
            for node, span in named_nodes(view.nodes):
                if analysis.source.slice(view.now(span)) == name:
                    return ItemMeaning(node, view.now(span), analysis.source, view.result, view.shift)
    return None


def _library_item(session: Session, owner: str, name: str) -> ItemMeaning | None:
    modules = [result for result in session.library if result.checker.names.name == owner]
    items = (item for result in modules for item in library_items(session, result))
    return next((item for item in items if item.source.slice(item.span) == name), None)


def library_items(session: Session, result: CheckResult) -> Iterator[ItemMeaning]:
    """What a module of the library defines for everybody."""
    names = result.checker.names
    public = names.public
    nodes: list[ast.Item] = [*names.functions.values(), *names.constants.values(), *names.structs.values()]
    for node, span in named_nodes(nodes):
        source = session.sources()[span.file]
        if source.slice(span) in public:
            yield ItemMeaning(node, span, source, result)


def named_nodes(nodes: Sequence[ast.Item]) -> Iterator[tuple[ast.Item, Span]]:
    """Items with the places of the names they define."""
    for node in nodes:
        match node:
            case ast.FunctionDef() | ast.StructDef() | ast.ParamDecl():
                yield node, node.name_span
            case ast.ConstDef(targets=targets):
                yield from ((node, target.span) for target in targets)
            case ast.FromImport(names=names):
                yield from ((node, (name.alias or name.name).span) for name in names)
            case ast.Import(modules=modules):
                yield from ((node, (module.alias or module.path).span) for module in modules)
