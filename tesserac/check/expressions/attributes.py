"""Attributes as they are written: `x.T`, `m.w`, `math.pi`, `tessera.nn`.

Enters: an attribute of the syntax tree. Leaves: what it means; one that nothing has is an error with the name most
likely meant.
"""

from __future__ import annotations

import math
import re
import sys

from tesserac.base.source import Span
from tesserac.check.algebra import rules as algebra
from tesserac.check.calls.builtins import transpose
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.names.foreign_calls import call_here, within
from tesserac.check.names.foreign_methods import in_place_here, method_here
from tesserac.check.names.foreign_names import LOADED, PLACES_OF, attribute_here, member_here, named_here
from tesserac.check.names.foreign_operators import constructor_here, operator_attribute_here
from tesserac.check.names.foreign_texts import from_format
from tesserac.check.names.foreign_tiles import tile_word
from tesserac.check.names.refs import (
    LibraryRef,
    ModuleRef,
    NamespaceRef,
)
from tesserac.check.operators.apply import apply_operator
from tesserac.check.operators.ported_meaning import picked_result, scattered
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.check.values.dicts import tell_of_attribute, what_has
from tesserac.check.values.globals import global_value
from tesserac.check.values.methods import bound_method, method_of_struct
from tesserac.check.values.rewriting import is_assigned, is_statement, stands_alone, whole_lines
from tesserac.check.values.tuples import item_of
from tesserac.check.values.unknown_names import tell_of_other_module, write_instead
from tesserac.diag.codes.names import E0208
from tesserac.diag.codes.projects import E0946
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.ops.complex import Conj, Imag, Real
from tesserac.syntax import ast
from tesserac.types.dims import ONE, Dim
from tesserac.types.ty import (
    SCALED_NAMES,
    DictType,
    DTypeType,
    ErrorType,
    FloatType,
    FunctionType,
    IntType,
    OperatorType,
    RecordType,
    StrType,
    StructType,
    TensorType,
    TupleType,
    Type,
    scaled_parts,
)


def container_of(body: Body, base: ast.Expr) -> LibraryRef | ModuleRef | NamespaceRef | None:
    """The library or the module that a name before a dot means, if it is one."""
    if not isinstance(base, ast.Name) or body.binds(base.id):
        return None
    meaning = body.rules.before_dot(base.id)
    return meaning if isinstance(meaning, LibraryRef | ModuleRef | NamespaceRef) else None


def no_member(body: Body, container: LibraryRef | ModuleRef | NamespaceRef, node: ast.Attribute) -> None:
    hidden = body.rules.private(container, node.name)
    if isinstance(container, ModuleRef) and hidden is not None:
        draft = body.sink.error(E0946, at=node.name_span, name=node.name, module=container.owner)
        draft.note(hidden, "the `_` it starts with makes it so")
        return
    names = {LibraryRef: "the library", ModuleRef: f"`{getattr(container, 'owner', '')}`"}
    what = names.get(type(container), f"`{getattr(container, 'name', '')}`")
    draft = body.sink.error(E0208, at=node.name_span, what=what, name=node.name)
    told = {"op": constructor_here, "tile": tile_word}
    space = container.name if isinstance(container, NamespaceRef) else ""
    here = told[space](node.name) if space in told else None
    if here is not None:
        draft.remark(here)
        return
    draft.did_you_mean(node.name, body.rules.members(container), node.name_span)


def infer_attribute(body: Body, node: ast.Attribute) -> typed.Expr:
    if (told := tell_of_other_module(body, node)) is not None:
        return body.error(node.span) if told.instead is None else body.expression(told.instead)
    container = container_of(body, node.value)
    if container is not None:
        return _member(body, container, node)
    method = method_of_struct(body, node)
    if method is not None:
        return typed.Static(FunctionType(method.owner, method.name), node.span)
    value = body.expression(node.value)
    type_ = value.type
    if isinstance(type_, StructType):
        return field_of(body, value, node)
    if isinstance(type_, OperatorType) and node.name in algebra.ATTRIBUTES:
        return algebra.attribute(body, value, node)
    known = type_.field(node.name) if isinstance(type_, RecordType) else None
    if known is not None:
        return _known_field(body, known, node)
    found = _dtype_attribute(type_, node)
    if isinstance(type_, TensorType):
        found = _tensor_attribute(body, value, type_, node)
    if found is not None:
        return found
    if not isinstance(type_, ErrorType):
        unknown_attribute(body, type_, node)
    return body.error(node.span)


def _member(
    body: Body, container: LibraryRef | ModuleRef | NamespaceRef, node: ast.Attribute
) -> typed.Expr:
    meaning = body.rules.member(container, node.name)
    if meaning is None:
        no_member(body, container, node)
        return body.error(node.span)
    return global_value(body, ast.Name(node.span, node.name), meaning)


DTYPE_ATTRIBUTES = ("kind", "itemsize", "bits", "max", "min", "eps", "tiny")
TENSOR_ATTRIBUTES = ("T", "H", "mT", "mH", "shape", "dtype", "rank", "ndim", "size", "real", "imag")


def _tensor_attribute(body: Body, value: typed.Expr, type_: TensorType, node: ast.Attribute) -> typed.Expr | None:
    callee = Callee(f".{node.name}", node.name_span, node.span)
    match node.name:
        case "T" | "mT":
            return transpose(body, value, callee)
        case "H" | "mH":
            return apply_operator(body, Conj(), [transpose(body, value, callee)], node.name_span, node.span)
        case "real" | "imag":
            part = Real() if node.name == "real" else Imag()
            return apply_operator(body, part, [value], node.name_span, node.span)
        case "shape":
            return typed.Static(TupleType(tuple(map(IntType, type_.dims))), node.span)
        case "dtype":
            return typed.Static(DTypeType(type_.dtype, type_.policy), node.span)
        case "rank" | "ndim":
            return typed.Static(IntType(Dim.const(type_.rank)), node.span)
        case "size":
            return typed.Static(IntType(math.prod(type_.dims, start=ONE)), node.span)
    if type_.is_scaled and node.name in SCALED_NAMES:
        place = SCALED_NAMES.index(node.name)
        return typed.Item(scaled_parts(type_).items[place], node.span, value, place)
    return None


def _dtype_attribute(type_: Type, node: ast.Attribute) -> typed.Expr | None:
    """What NumPy says of a dtype: the letter of its kind, the bytes of an element, and how far its numbers go."""
    if not isinstance(type_, DTypeType) or node.name not in DTYPE_ATTRIBUTES:
        return None
    dtype = type_.dtype
    if node.name == "kind":
        return typed.Static(StrType(dtype.kind), node.span)
    known = {"itemsize": dtype.bytes, "bits": dtype.bits, "max": dtype.largest, "min": dtype.lowest}
    if not dtype.is_integer and dtype.kind != "b":
        known |= {"eps": dtype.eps, "tiny": dtype.tiny}
    number = known.get(node.name)
    if number is None:
        return None
    is_int = isinstance(number, int)
    return typed.Static(IntType(Dim.const(int(number))) if is_int else FloatType(float(number)), node.span)


def _known_field(body: Body, known: Type, node: ast.Attribute) -> typed.Expr:
    """A field of a compile-time value; a kernel notes which of its blocks are asked for."""
    if body.kernel is not None and isinstance(known, IntType):
        body.kernel.used.setdefault(known.value, node.span)
    return typed.Static(known, node.span)


def field_of(body: Body, value: typed.Expr, node: ast.Attribute) -> typed.Expr:
    """`value.name`, a field of a struct, or a method as a value."""
    type_ = value.type
    assert isinstance(type_, StructType)
    position = type_.position(node.name)
    if position is not None:
        return item_of(value, position, node.span)
    method = bound_method(body, value, node.name, node.span)
    if method is not None:
        return method
    draft = body.sink.error(E0208, at=node.name_span, what=type_text(type_), name=node.name)
    known = [*(name for name, _ in type_.fields), *sorted(body.rules.methods(type_))]
    draft.did_you_mean(node.name, known, node.name_span)
    return body.error(node.span)


def unknown_attribute(body: Body, type_: Type, node: ast.Attribute, call: ast.Call | None = None) -> None:
    what = what_has(type_) if isinstance(type_, DictType) else type_text(type_)
    draft = body.sink.error(E0208, at=node.name_span, what=what, name=node.name)
    if isinstance(type_, DictType):
        tell_of_attribute(body, draft, type_, node)
        return
    if isinstance(type_, TensorType) and call is not None and _is_written(body, draft, type_, node, call):
        return
    if _is_of_python(body, draft, type_, node, call) or _is_of_two_results(body, draft, type_, node):
        return
    here = attribute_here(node.name) if isinstance(type_, TensorType | TupleType) else None
    here = operator_attribute_here(node.name) if isinstance(type_, OperatorType) else here
    if here is not None and isinstance(type_, TensorType) and (member := member_here(node.name)):
        called = Span(node.span.file, node.name_span.start, node.name_span.end + len("()"))
        without = body.rules.text(called) == f"{node.name}()"
        draft.replace(here, called if without else node.name_span, member, advice=here)
        return
    if here is not None and isinstance(type_, TensorType) and _is_kept_in_place(body, draft, node):
        return
    other = named_here(node.name) if here is not None and isinstance(type_, TensorType) else None
    if here is not None and other is not None and body.rules.resolve(other) is not None:
        draft.replace(here, node.name_span, other, advice=here)
        return
    if here is not None:
        draft.remark(here)
        return
    if isinstance(type_, TupleType):
        names = ", ".join("xyzuvw"[: len(type_.items)])
        draft.remark(f"a tuple is taken apart by place: `{names} = ...`, or `[0]` behind it")
        return
    if isinstance(type_, TensorType) and node.name.endswith("_"):
        draft.remark("nothing changes a tensor in place: bind the name again, `x = x + y` or `x += y`")
        _is_kept_in_place(body, draft, node)
        return
    known = [*TENSOR_ATTRIBUTES, *body.rules.suggestions()] if isinstance(type_, TensorType) else []
    known += [name for name, _ in type_.fields] if isinstance(type_, RecordType) else []
    known += DTYPE_ATTRIBUTES if isinstance(type_, DTypeType) else []
    known += algebra.ATTRIBUTES if isinstance(type_, OperatorType) else []
    draft.did_you_mean(node.name, known, node.name_span)


def _is_of_two_results(body: Body, draft: Draft, type_: Type, node: ast.Attribute) -> bool:
    """Whether it is `x.max(1).values`, of what gives only these, or `x.topk(3).indices`, of what gives a pair; or one
    of the factors of a matrix."""
    behind = node.span._replace(start=node.value.span.end)
    if isinstance(type_, TupleType) and _FACTORS.get(node.name, ("", 0))[1:] == (len(type_.items),):
        draft.replace("a tuple is taken apart by place", behind, _FACTORS[node.name][0])
        return True
    if isinstance(type_, TensorType) and node.name == "solution":
        draft.replace("the solution is all that is given", behind, "")
        return True
    if node.name not in _RESULTS or not isinstance(node.value, ast.Call):
        return False
    function = node.value.function
    at = function.name_span if isinstance(function, ast.Attribute) else function.span
    name = function.name if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if isinstance(type_, TupleType) and len(type_.items) == len(_RESULTS):
        draft.replace("a tuple is taken apart by place", behind, f"[{_RESULTS.index(node.name)}]")
        return True
    if isinstance(type_, TensorType) and name in ("quantile", "nanquantile") and node.name == "values":
        draft.replace(f"`{name}` gives nothing else", behind, "")
        return True
    if not isinstance(type_, TensorType) or name not in PLACES_OF or (name, node.name) == ("median", "indices"):
        return False
    if name == "median":
        lower = picked_result(body, node.value, 0)
        if lower is not None:
            draft.replace("all values, the lower of two", node.span, lower)
    elif node.name == "values":
        draft.replace(f"`{name}` gives nothing else", behind, "")
    else:
        draft.fix(f"the places are `{PLACES_OF[name]}`", Edit(at, PLACES_OF[name]), Edit(behind, ""))
    return True


_RESULTS = ("values", "indices")
"""What PyTorch calls the two results of functions that find elements."""
_GROUPS = (("sign", "logabsdet"), ("eigenvalues", "eigenvectors"), ("Q", "R"), ("LU", "pivots"), ("U", "S", "Vh"))
_FACTORS = {name: (f"[{place}]", len(group)) for group in _GROUPS for place, name in enumerate(group)}
"""What NumPy and PyTorch call the parts of what a matrix is taken apart into, and how many there are."""


def _is_kept_in_place(body: Body, draft: Draft, node: ast.Attribute) -> bool:
    """Whether a method that works in place is a function here without the `_`, which a fix says."""
    kept = node.name.rstrip("_")
    is_here = kept != node.name and body.rules.resolve(kept) is not None
    if is_here:
        draft.replace(f"`{kept}` gives a new tensor", node.name_span, kept)
    return is_here


def _is_written(body: Body, draft: Draft, type_: TensorType, node: ast.Attribute, call: ast.Call) -> bool:
    return _is_rewritten(body, draft, node, call) or _is_scattered(body, draft, type_, call, node.name)


def _is_scattered(body: Body, draft: Draft, type_: Type, call: ast.Call, name: str) -> bool:
    """Whether a call is PyTorch's `x.scatter(1, places, values)`, which a fix writes as a change of these places."""
    given = [argument.value for argument in call.arguments if argument.name is None]
    receiver = call.function.value if isinstance(call.function, ast.Attribute) else None
    if name.rstrip("_") != "scatter" or len(given) != 3 or len(call.arguments) != 3 or receiver is None:
        return False
    text = body.rules.text
    axis, tensor = re.fullmatch(r"-?\d+", text(given[0].span)), text(receiver.span)
    change = f"set({text(given[2].span)})"
    written = scattered(type_, within(tensor), int(axis[0]) if axis else None, text(given[1].span), change)
    if written:
        bound = f"{tensor} = " if is_statement(body, call.span) else ""
        draft.replace(f"here it is `{written}`", call.span, f"{bound}{written}", advice=f"here it is `{written}`")
    return bool(written)


def _is_of_python(body: Body, draft: Draft, type_: Type, node: ast.Attribute, call: ast.Call | None) -> bool:
    """Whether it is something that programs of Python do to what is outside of them, or to texts, which is told."""
    if isinstance(type_, TensorType) and node.name == "device" and is_assigned(body, node.span):
        draft.replace(LOADED, whole_lines(body, node.span), "", advice=LOADED)
    elif isinstance(type_, TensorType) and node.name == "backward" and call is not None:
        _suggest_gradient(body, draft, call)
    elif isinstance(type_, StrType) and node.name == "format" and call is not None:
        _suggest_f_string(body, draft, node, call)
    elif isinstance(type_, TupleType) and node.name in _GROWING and _is_of_module(body, node.value):
        draft.remark("a function changes nothing outside of it: return what is to be kept")
    else:
        return False
    return True


def _suggest_gradient(body: Body, draft: Draft, call: ast.Call) -> None:
    """`loss.backward()`: the loss is a function of what its derivative is taken by."""
    title = "nothing is recorded while a function runs: `grad(f)` is its derivative, where it is asked for"
    file = call.span.file
    from tesserac.porting.backward import ported_backward

    changes = ported_backward(body.rules.text(Span(file, 0, sys.maxsize)), call.span.start)
    if changes is None:
        draft.remark(title)
        return
    edits = [Edit(Span(file, change.start, change.end), change.text) for change in changes]
    draft.fix("the loss is a function of the weights, whose gradient is taken", *edits, advice=title)


_GROWING = ("append", "extend", "insert", "pop", "clear")


def _is_of_module(body: Body, node: ast.Expr) -> bool:
    return isinstance(node, ast.Name) and not body.binds(node.id)


def _suggest_f_string(body: Body, draft: Draft, node: ast.Attribute, call: ast.Call) -> None:
    draft.remark("a text with values in it is an f-string: `f\"{x:.3f}\"`")
    values = [body.rules.text(argument.value.span) for argument in call.arguments]
    text = from_format(body.rules.text(node.value.span), values)
    if text is not None and all(argument.name is None for argument in call.arguments):
        draft.replace("an f-string says the same", call.span, text)


def _is_rewritten(body: Body, draft: Draft, node: ast.Attribute, call: ast.Call) -> bool:
    """Whether a fix says what stands for a method of tensors of PyTorch, or that nothing need."""
    file, text = call.span.file, body.rules.text
    given = text(Span(file, node.span.end, call.span.end)).strip()[1:-1]
    receiver = within(text(node.value.span))
    made = method_here(node.name, receiver, given)
    if made is None and is_statement(body, call.span) and isinstance(node.value, ast.Name | ast.Attribute):
        made = in_place_here(node.name, receiver, given, body.rules.resolve(node.name.rstrip("_")) is not None)
        if made is not None:
            draft.replace(made.words, call.span, made.text, advice=made.words)
            return True
    if made is None:
        whole = call_here((node.name,), f"{node.name}({', '.join(filter(None, (text(node.value.span), given)))})")
        if whole is not None:
            write_instead(body, draft, whole, call.span)
        return whole is not None
    if not made.text and is_statement(body, call.span):  # the value alone would be no statement
        draft.replace(made.words, whole_lines(body, call.span), "", advice=made.words)
        return True
    written = made.text if not made.is_whole or stands_alone(body, call.span) else within(made.text)
    dot = node.value.span.end + text(Span(file, node.value.span.end, node.name_span.start)).rindex(".")
    at = call.span if made.is_whole else Span(file, dot, call.span.end)
    draft.replace(made.words, at, written, advice=made.words)
    return True
