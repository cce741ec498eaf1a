"""Checks a value against an annotation of the body it stands in: a `return`, or `name: T = value`.

Enters: a type as written and a typed value. Leaves: the value as that type (numbers become tensors, a missing policy is
taken over), or an error expression after a diagnostic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import UnionType

from tesserac.base.source import NO_SPAN, Span
from tesserac.check.instances.rank_fixes import suggest_rank
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, dims_text, storage_text, type_text
from tesserac.check.model.operator_types import is_of, sized
from tesserac.check.model.specs import (
    DTypeOf,
    ListSpec,
    NoneSpec,
    OperatorSpec,
    OptionalSpec,
    RecordSpec,
    ScalarSpec,
    Storage,
    StructSpec,
    TensorSpec,
    TupleSpec,
    TypeSpec,
)
from tesserac.check.model.struct_uses import field_specs, says_more_than_sizes
from tesserac.check.names.foreign_operators import ITS_MATRIX
from tesserac.check.operators.apply import meet_storage
from tesserac.check.provenance.chains import Chain
from tesserac.check.provenance.creations import suggest_dtype
from tesserac.check.provenance.declared import dims_behind, is_cast, show_declared, show_dtypes
from tesserac.check.provenance.origins import trace
from tesserac.check.state.body import Body
from tesserac.check.values.generic_items import stand_in
from tesserac.check.values.scalars import to_float
from tesserac.check.values.tuple_fixes import suggest_result, suggest_tensor
from tesserac.check.values.tuples import make_tuple, rebuilt, tuple_items
from tesserac.diag.codes.names import E0210
from tesserac.diag.codes.precision import E0401, E0407
from tesserac.diag.codes.shapes import E0308
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.types.dims import Dim
from tesserac.types.dtype import BOOL, F64
from tesserac.types.ty import (
    BoolType,
    ErrorType,
    FloatType,
    IntType,
    ListType,
    NoneType,
    OperatorType,
    RecordType,
    RunIntType,
    StrType,
    StructType,
    TensorType,
    TupleType,
    Type,
)

_KINDS: dict[str, type | UnionType] = {
    "int": IntType | RunIntType,
    "bool": BoolType,
    "str": StrType,
    "float": FloatType,
    "Axis": IntType,
    "Shape": TupleType,
}


def conform(body: Body, spec: TypeSpec, value: typed.Expr) -> typed.Expr:
    """`value` as the annotated type."""
    if isinstance(value.type, ErrorType):
        return value
    match spec:
        case TensorSpec():
            return _conform_tensor(body, spec, value)
        case TupleSpec():
            return _conform_items(body, spec, spec.items, value)
        case ListSpec():
            return _conform_list(body, spec, value)
        case StructSpec():
            return _conform_struct(body, spec, value)
        case OperatorSpec():
            return _conform_operator(body, spec, value)
        case OptionalSpec():
            return value if isinstance(value.type, NoneType) else conform(body, spec.inner, value)
        case NoneSpec() | RecordSpec():
            return value if _is_known_value(spec, value.type) else _wrong_kind(body, spec, value)
        case ScalarSpec():
            return _conform_scalar(body, spec, value)
    return value


def _conform_scalar(body: Body, spec: ScalarSpec, value: typed.Expr) -> typed.Expr:
    """A value of a kind; where no value is needed while compiling, one of the run is of that kind too."""
    one = value.type if isinstance(value.type, TensorType) and not value.type.dims else None
    if spec.kind == "float":
        value = to_float(value)
    elif spec.kind == "int" and one is not None and one.dtype.is_integer and not one.is_scaled:
        value = typed.Coerce(RunIntType(), value.span, value)
    fits = isinstance(value.type, _KINDS[spec.kind]) or (spec.kind == "bool" and one is not None and one.dtype == BOOL)
    return value if fits else _wrong_kind(body, spec, value)


def _is_known_value(spec: NoneSpec | RecordSpec, found: Type) -> bool:
    if isinstance(spec, NoneSpec):
        return isinstance(found, NoneType)
    return isinstance(found, RecordType) and found.kind == spec.kind


def _wrong_kind(body: Body, spec: TypeSpec, value: typed.Expr) -> typed.Expr:
    expected = body.rules.text(spec.span)
    draft = body.sink.error(E0210, at=value.span, expected=f"`{expected}`", found=type_text(value.type))
    draft.note(spec.span, "declared here")
    suggest_tensor(body, draft, value, spec)
    if _is_result(body, spec.span):
        suggest_result(body, draft, value, spec)
    if isinstance(spec, TensorSpec) and isinstance(value.type, OperatorType):
        draft.remark(ITS_MATRIX)
    return body.error(value.span)


def _conform_items(
    body: Body, spec: TypeSpec, specs: Sequence[TypeSpec], value: typed.Expr
) -> typed.Expr:
    type_ = value.type
    if not isinstance(type_, TupleType) or len(type_.items) != len(specs):
        return _wrong_kind(body, spec, value)
    items = tuple_items(value, value.span)
    return make_tuple([conform(body, own, item) for own, item in zip(specs, items, strict=True)], value.span)


def _conform_list(body: Body, spec: ListSpec, value: typed.Expr) -> typed.Expr:
    count = spec.count.dim.substitute(body.sizes.symbols)
    found = value.type
    if isinstance(found, ListType):
        if not body.facts.same(found.count, count):
            return _wrong_kind(body, spec, value)
        body.judged.add(value.span)
        item = conform(body, spec.item, stand_in(found.item, value.span))
        return body.error(value.span) if isinstance(item.type, ErrorType) else value
    if count.constant is None and body.wants_value(count):
        return body.error(value.span)
    return _conform_items(body, spec, [spec.item] * (count.constant or 0), value)


def _conform_operator(body: Body, spec: OperatorSpec, value: typed.Expr) -> typed.Expr:
    found = value.type
    if not isinstance(found, OperatorType) or not is_of(spec, found):
        return _wrong_kind(body, spec, value)
    for arg, size in sized(spec, found):
        wanted = arg.dim.substitute(body.sizes.symbols)
        if not body.facts.same(wanted, size):
            expected = body.rules.text(spec.span)
            draft = body.sink.error(E0308, at=value.span, expected=expected, found=found.show())
            draft.note(arg.span, "declared here").because(f"{dim_text(size)} is not {dim_text(wanted)}")
            return body.error(value.span)
    return value


def _conform_struct(body: Body, spec: StructSpec, value: typed.Expr) -> typed.Expr:
    found = value.type
    if not isinstance(found, StructType) or (found.module, found.name) != (spec.decl.owner, spec.decl.name):
        return _wrong_kind(body, spec, value)
    symbols = body.sizes.symbols
    expected = tuple(arg.dim.substitute(symbols) for arg in spec.args) if spec.args is not None else found.dims
    for wanted, size, arg in zip(expected, found.dims, spec.args or (), strict=False):
        if not body.facts.same(wanted, size):
            shown = StructType(found.module, found.name, expected, (), frozenset()).show()
            draft = body.sink.error(E0308, at=value.span, expected=shown, found=found.show())
            draft.note(arg.span, "declared here").because(f"{dim_text(size)} is not {dim_text(wanted)}")
            return body.error(value.span)
    if spec.args is None or not says_more_than_sizes(spec):
        return value
    own = zip(field_specs(spec), tuple_items(value, value.span), strict=True)
    items = [conform(body, field.spec, item) for field, item in own]
    return body.error(value.span) if any(isinstance(i.type, ErrorType) for i in items) else rebuilt(value, items)


def expected_storage(body: Body, spec: TensorSpec) -> Storage | None:
    """The element an annotation means here; None where it leaves it open."""
    if isinstance(spec.element, Storage):
        return spec.element
    if isinstance(spec.element, DTypeOf):
        binding = body.scope.bindings.get(spec.element.parameter)
        if binding is not None and isinstance(binding.type, TensorType):
            return Storage(binding.type.dtype, binding.type.policy)
    return None


def _conform_tensor(body: Body, spec: TensorSpec, value: typed.Expr) -> typed.Expr:
    storage = expected_storage(body, spec)
    if storage is not None:
        met = _meet(body, spec, value, storage)
        if met is None:
            return body.error(value.span)
        value = met
    if not isinstance(value.type, TensorType):
        return _wrong_kind(body, spec, value)
    leading = body.declared.leading if spec.leading else ()
    expected = (*leading, *(dim.dim.substitute(body.sizes.symbols) for dim in spec.dims))
    return value if _same_dims(body, expected, spec, value, value.type) else body.error(value.span)


def _meet(body: Body, spec: TensorSpec, value: typed.Expr, storage: Storage) -> typed.Expr | None:
    """The value in the declared storage; a number may become one, a tensor of another dtype may not."""
    found = value.type
    if isinstance(found, IntType | RunIntType | FloatType | BoolType):
        return meet_storage(body, value, storage.dtype, storage.policy)
    if not isinstance(found, TensorType) or (found.dtype, found.policy) == (storage.dtype, storage.policy):
        return value
    if found.dtype != storage.dtype:
        _explain_dtype(body, spec, value, found, storage)
        return None
    met = meet_storage(body, value, storage.dtype, storage.policy)
    if met is value:
        draft = body.sink.error(
            E0401, at=value.span, operation="this result", left=storage_text(found), right=storage
        )
        draft.note(spec.element_span, "declared here")
        show_dtypes(body, draft, value)
        return None
    return met


def _explain_dtype(body: Body, spec: TensorSpec, value: typed.Expr, found: TensorType, storage: Storage) -> None:
    """Where nothing in the body chose the dtype, the signature contradicts itself, and the result's part is shown."""
    if not body.sizes.first_telling(found.dtype, storage.dtype):
        return
    contradicts = _is_result(body, spec.element_span) and not is_cast(body, value)
    shown = storage_text(found)
    if contradicts:
        draft = body.sink.error(
            E0407, at=spec.element_span, label="the result is declared here", expected=storage, found=shown
        )
        draft.note(value.span, f"this is {shown}")
    else:
        draft = body.sink.error(E0407, at=value.span, expected=storage, found=shown)
        draft.note(spec.element_span, "declared here")
    show_dtypes(body, draft, value)
    suggest_dtype(body, draft, value, replace(found, dtype=storage.dtype, policy=storage.policy))
    fixes = [("declare the result as " + shown, spec.element_span, shown)] if contradicts else []
    if not isinstance(value, typed.Item) or value.span != value.value.span:  # else it has no text of its own
        rounded = f"cast({body.rules.text(value.span)}, {storage})"
        fixes.insert(0 if _of_integers(body, found) else 1, (f"round it once, to {storage.dtype}", value.span, rounded))
    for title, span, text in fixes:
        draft.replace(title, span, text)


def _of_integers(body: Body, found: TensorType) -> bool:
    """Whether a float has a dtype that no float of the body has: a mean of whole numbers, or of bools, is f64."""
    types = (binding.type for binding in body.scope.bindings.values())
    return found.dtype == F64 and not any(isinstance(type_, TensorType) and type_.dtype == F64 for type_ in types)


def _is_result(body: Body, place: Span) -> bool:
    """Whether a place is in the declared result of this function."""
    whole = body.declared.result_spec.span if body.declared.result_spec is not None else NO_SPAN
    return place.known and whole.file == place.file and whole.start <= place.start and place.end <= whole.end


def _same_dims(
    body: Body, expected: tuple[Dim, ...], spec: TensorSpec, value: typed.Expr, found: TensorType
) -> bool:
    same = len(expected) == found.rank and all(map(body.facts.same, expected, found.dims))
    if same:
        return True
    wrong = _first_difference(body, expected, found)
    if wrong is not None and not body.sizes.first_telling(expected[wrong], found.dims[wrong]):
        return False
    place = _declared_place(spec, expected, wrong)
    draft = _draft_dims(body, place, value, (expected, found.dims))
    if wrong is not None:
        draft.because(f"{dim_text(found.dims[wrong])} is not {dim_text(expected[wrong])}")
        chain = Chain(body)
        chain.add_trail(trace(body, value, wrong))
        chain.show(draft)
    show_declared(body, draft, value)
    if len(expected) != found.rank:
        suggest_rank(body, draft, spec, value, (expected, found.dims))
    else:
        _suggest_several(body, draft, spec, (expected, found.dims))
    return False


def _suggest_several(
    body: Body, draft: Draft, spec: TensorSpec, sizes: tuple[tuple[Dim, ...], tuple[Dim, ...]]
) -> None:
    """Where more than one dim differs, as both sides of an image after a stride, the result declared with all that are
    found."""
    expected, found = sizes
    wrong = [axis for axis in range(len(expected)) if not body.facts.same(expected[axis], found[axis])]
    places = {axis: _declared_place(spec, expected, axis) for axis in wrong}
    written = all(body.rules.text(place) == str(expected[axis]) for axis, place in places.items())
    if len(wrong) > 1 and written and all(_is_result(body, place) for place in places.values()):
        edits = (Edit(place, str(found[axis])) for axis, place in places.items())
        draft.fix(f"if this is what is meant, declare the result as {dims_text(found)}", *edits)


def _declared_place(spec: TensorSpec, expected: tuple[Dim, ...], wrong: int | None) -> Span:
    """Where the dim that differs is written; the dims of `...` have no place of their own."""
    from_right = 0 if wrong is None else len(expected) - wrong
    return spec.dims[-from_right].span if 0 < from_right <= len(spec.dims) else spec.span


def _draft_dims(
    body: Body, place: Span, value: typed.Expr, sizes: tuple[tuple[Dim, ...], tuple[Dim, ...]]
) -> Draft:
    """A dim of the result that no tensor in the body has was misnamed where it is declared; one that the body had, and
    lost or moved, is a matter of the body."""
    expected, found = sizes
    shown, wanted = dims_text(found), dims_text(expected)
    differing = [(own, other) for own, other in zip(expected, found, strict=False) if not body.facts.same(own, other)]
    alone = len(expected) == len(found) and len(differing) == 1 and len(differing[0][0].terms) <= 1
    if alone and _is_result(body, place) and differing[0][0] not in dims_behind(body, value):
        own, other = differing[0]
        draft = body.sink.error(
            E0308, at=place, label=f"no tensor here has {dim_text(own)}", expected=wanted, found=shown
        )
        draft.note(value.span, f"this is {shown}")
        return draft.replace(f"declare the result with {dim_text(other)}", place, str(other))
    draft = body.sink.error(E0308, at=value.span, label=f"this is {shown}", expected=wanted, found=shown)
    from tesserac.check.instances.meant_fixes import suggest_meant

    suggest_meant(body, draft, value, expected, found)
    declared = _is_result(body, place) and body.rules.text(place) == str(differing[0][0] if differing else "")
    if len(expected) == len(found) and len(differing) == 1 and declared:
        other = differing[0][1]
        draft.replace(f"if this is what is meant, declare it with {dim_text(other)}", place, str(other))
    return draft.note(place, "declared here")


def _first_difference(body: Body, expected: tuple[Dim, ...], found: TensorType) -> int | None:
    if len(expected) != found.rank:
        return None
    pairs = enumerate(zip(expected, found.dims, strict=True))
    return next(axis for axis, (left, right) in pairs if not body.facts.same(left, right))
