"""What a name in the text means: where it is defined, and what defines it.

In: a word at a place. Out: a `Meaning`, for hover and for going to the definition. Names of the module and the library
are resolved by the checker; local ones by the text (see `scopes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tessera_lsp.features.places import Place, Word
from tessera_lsp.features.scopes import Binding, Function, binding_of, first_binding, struct_sizes, visible
from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile, Span
from tesserac.check.infer import CheckResult
from tesserac.check.model.typed import TypedFunction
from tesserac.check.names.builtin_docs import BUILTIN_DOCS
from tesserac.check.names.refs import (
    ALGEBRA,
    BuiltinRef,
    ConstantRef,
    DTypeRef,
    FunctionRef,
    ModuleRef,
    NamespaceRef,
    OperatorRef,
    Resolved,
    StructRef,
)
from tesserac.driver.session import Session
from tesserac.incremental.analyser import Analysis
from tesserac.incremental.outline import defined_names
from tesserac.ops.registry import Operator
from tesserac.syntax import ast
from tesserac.types.dtype import DType
from tesserac.types.ty import StructType, Type


@dataclass(frozen=True)
class LocalMeaning:
    """A parameter, a local name or a size. `span` is where it is bound in the text as it is, and `first` where it is
    bound first: the name's own place."""

    binding: Binding
    span: Span
    type: Type | None
    first: Span


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
class MemberMeaning:
    """A field or a method of a struct, and its type where it is used."""

    owner: ItemMeaning
    node: ast.FieldDef | ast.FunctionDef
    type: Type | None

    @property
    def span(self) -> Span:
        return self.owner.now(self.node.name_span)


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
Meaning = LocalMeaning | MemberMeaning | GlobalMeaning

SELF = "self"


def meaning_of(session: Session, analysis: Analysis, place: Place, word: Word) -> Meaning | None:
    if isinstance(word.node, ast.Attribute):
        return _attribute(session, analysis, place, word.node)
    if isinstance(word.node, ast.Argument):
        return _argument(session, analysis, place, word)
    declared = _declared_member(analysis, place, word.node)
    if declared is not None:
        return declared
    return _local(place, word) or global_meaning(session, analysis, _imported_name(place, word), place.view.result)


def _local(place: Place, word: Word) -> LocalMeaning | None:
    """In the functions around a word, the innermost first; a size is that of the outermost that has it."""
    found = [(f, b) for f in place.functions if f is not word.node and (b := binding_of(f, word.text, word.span.start))]
    if not found or found[0][1].kind == "size":
        return _size(place, word, found)
    function, binding = found[0]
    return _as_local(place, binding, first_binding(function, binding))


def _size(place: Place, word: Word, found: Sequence[tuple[Function, Binding]]) -> LocalMeaning | None:
    if _is_constant(place, word.text):
        return None
    of_struct = struct_sizes(place.struct).get(word.text) if place.struct is not None else None
    outermost = of_struct or next((b for _, b in reversed(found) if b.kind == "size"), None)
    return _as_local(place, outermost, outermost) if outermost is not None else None


def _as_local(place: Place, binding: Binding, first: Binding) -> LocalMeaning:
    return LocalMeaning(binding, place.view.now(binding.span), _type_of(place, binding), place.view.now(first.span))


def _imported_name(place: Place, word: Word) -> str:
    """`f` of `from a import f as g` is called g here."""
    imported = next((node for node in place.path if isinstance(node, ast.ImportedName)), None)
    if imported is not None and imported.alias is not None and imported.name is word.node:
        return imported.alias.id
    return word.text


def _is_constant(place: Place, name: str) -> bool:
    """Whether a size in a signature is a constant of the module: `Tensor[N, WIDTH]`."""
    result = place.view.result
    return result is not None and isinstance(result.checker.names.lookup(name), ConstantRef)


def _attribute(session: Session, analysis: Analysis, place: Place, node: ast.Attribute) -> Meaning | None:
    """`op.name`, a field or a method of a struct; else a method of tensors, which is the function of that name."""
    result = place.view.result
    owner = node.value.id if isinstance(node.value, ast.Name) else ""
    member = _member(session, analysis, place, node)
    return member or qualified_meaning(session, analysis, owner, node.name, result)


def qualified_meaning(
    session: Session, analysis: Analysis, owner: str, name: str, result: CheckResult | None
) -> GlobalMeaning | None:
    """`owner.name` where the owner is no struct: a file or a part of the language, or a value with methods."""
    names = result.checker.names if result is not None else session.library[-1].checker.names
    match names.before_dot(owner):
        case NamespaceRef("op") if f"{ALGEBRA}{name}" in BUILTIN_DOCS:
            return BuiltinMeaning(f"{ALGEBRA}{name}")
        case ModuleRef(module):
            return _imported_item(session, module, name, result)
    return global_meaning(session, analysis, name, result)


def _member(session: Session, analysis: Analysis, place: Place, node: ast.Attribute) -> MemberMeaning | None:
    type_ = place.view.type_of(node.value)
    if isinstance(type_, StructType):
        owner = _named(session, analysis, place, type_.name)
    else:
        owner = struct_of(session, analysis, place, node.value.id) if isinstance(node.value, ast.Name) else None
    return _member_of(owner, node.name, place.view.type_of(node))


def _member_of(owner: Meaning | None, name: str, type_: Type | None) -> MemberMeaning | None:
    if not (isinstance(owner, ItemMeaning) and isinstance(owner.node, ast.StructDef)):
        return None
    members: list[ast.FieldDef | ast.FunctionDef] = [*owner.node.fields, *owner.node.methods]
    found = next((member for member in members if member.name == name), None)
    return MemberMeaning(owner, found, type_) if found is not None else None


def _declared_member(analysis: Analysis, place: Place, node: ast.Node) -> MemberMeaning | None:
    """A field or a method where it is declared."""
    struct = next((outer for outer in place.path if isinstance(outer, ast.StructDef)), None)
    if struct is None or not isinstance(node, ast.FieldDef | ast.FunctionDef):
        return None
    if node not in (*struct.fields, *struct.methods):
        return None
    owner = ItemMeaning(struct, place.view.now(struct.name_span), analysis.source, place.view.result, place.view.shift)
    return MemberMeaning(owner, node, None)


def struct_of(session: Session, analysis: Analysis, place: Place | None, name: str) -> ItemMeaning | None:
    """The struct that a local name is one of."""
    if place is None or place.function is None:
        return None
    around = [node for node in place.path if isinstance(node, ast.StructDef)]
    binding = visible(place.function, place.offset).get(name)
    if binding is None:
        return None
    if name == SELF and around:
        return ItemMeaning(around[-1], place.view.now(around[-1].name_span), analysis.source, None, place.view.shift)
    return _struct(session, analysis, place, binding)


def _struct(session: Session, analysis: Analysis, place: Place, binding: Binding) -> ItemMeaning | None:
    """The struct that a local is one of: as its parameter says, as its value was found to be, or as it is made."""
    annotation = binding.parameter.annotation if binding.parameter is not None and binding.kind != "size" else None
    if binding.value is not None:
        found = place.view.type_of(binding.value)
        if isinstance(found, StructType):
            return _named(session, analysis, place, found.name)
        annotation = binding.value.function if isinstance(binding.value, ast.Call) else None
    head = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return _named(session, analysis, place, head.id) if isinstance(head, ast.Name) else None


def _named(session: Session, analysis: Analysis, place: Place, name: str) -> ItemMeaning | None:
    meaning = global_meaning(session, analysis, name, place.view.result)
    return meaning if isinstance(meaning, ItemMeaning) else None


def _argument(session: Session, analysis: Analysis, place: Place, word: Word) -> Meaning | None:
    """`name=` in a call is the parameter or the field of that name, in a decorator a size of the function."""
    if any(isinstance(node, ast.Decorator) for node in place.path):
        return _local(place, word)
    outer = next((node for node in reversed(place.path) if isinstance(node, ast.Call | ast.Subscript)), None)
    named = outer.function if isinstance(outer, ast.Call) else outer.value if outer is not None else None
    callee: Meaning | None = None
    if isinstance(named, ast.Name):
        callee = global_meaning(session, analysis, named.id, place.view.result)
    elif isinstance(named, ast.Attribute):
        callee = _attribute(session, analysis, place, named)
    if isinstance(outer, ast.Subscript) and isinstance(callee, ItemMeaning) and isinstance(callee.node, ast.StructDef):
        size = struct_sizes(callee.node).get(word.text)
        return _of_callee(callee, size) if size is not None else None
    return _parameter(callee, word.text) or _member_of(callee, word.text, None)


def _parameter(callee: Meaning | None, name: str) -> LocalMeaning | None:
    owner = callee.owner if isinstance(callee, MemberMeaning) else callee
    if not (isinstance(callee, ItemMeaning | MemberMeaning) and isinstance(callee.node, ast.FunctionDef)):
        return None
    assert isinstance(owner, ItemMeaning)
    binding = binding_of(callee.node, name, callee.node.span.start)
    return _of_callee(owner, binding) if binding is not None and binding.kind == "parameter" else None


def _of_callee(owner: ItemMeaning, binding: Binding) -> LocalMeaning:
    span = owner.now(binding.span)
    return LocalMeaning(binding, span, None, span)


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
            return _library_item(session, owner, name) or _imported_item(session, owner, name, result)
        case OperatorRef(op):
            return OperatorMeaning(op)
        case DTypeRef(dtype):
            return DTypeMeaning(dtype)
        case BuiltinRef(name):
            return BuiltinMeaning(name)
    return None


def _imported_item(session: Session, owner: str, name: str, result: CheckResult | None) -> ItemMeaning | None:
    """An item of another file."""
    node = result.checker.item(owner, name) if result is not None else None
    named = ((found, span) for found, span in named_nodes([node] if node is not None else []))
    for found, span in named:
        source = session.sources().get(span.file)
        if source is not None and source.slice(span) == name:
            return ItemMeaning(found, span, source, None)
    return None


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
