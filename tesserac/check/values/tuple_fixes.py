"""Fixes for a list or several values where one tensor is wanted: `f([1.0, 2.0])` is `f(array([1.0, 2.0]))`, and of what
a function gives beside a residual, an index or the like, one part is meant.

Enters: a value of another kind than a tensor. Leaves: a fix on the draft, where it is evident.
"""

from __future__ import annotations

from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.model.specs import BareTensorSpec, Storage, TensorSpec, TypeSpec
from tesserac.check.state.body import Body
from tesserac.diag.sink import Draft
from tesserac.types.dtype import BOOL, F32, I64, DType
from tesserac.types.ty import BoolType, FloatType, IntType, RunIntType, TensorType, TupleType, Type


def suggest_tensor(body: Body, draft: Draft, value: typed.Expr, spec: TypeSpec) -> None:
    """For a value that is declared a tensor."""
    suggest_array(body, draft, value, spec)
    _suggest_part(body, draft, value, spec)


def _suggest_part(body: Body, draft: Draft, value: typed.Expr, spec: TypeSpec) -> None:
    """The first of several results with as many dims as are declared; what is written as a tuple is meant as one."""
    text = body.rules.text(value.span)
    if not isinstance(spec, TensorSpec) or not isinstance(value.type, TupleType) or text[:1] in ("", "(", "["):
        return
    ranks = [item.rank if isinstance(item, TensorType) else -1 for item in value.type.items]
    if len(spec.dims) in ranks and (text.isidentifier() or text.endswith(")")):
        place = ranks.index(len(spec.dims))
        draft.replace(f"it is {len(ranks)} values: take one", value.span, f"{text}[{place}]")


def suggest_operand(body: Body, draft: Draft, value: typed.Expr, folds: bool) -> None:
    """For the operand of an operator. What `folds` takes all of several tensors together: each element of them by
    itself; of a function's results one is meant."""
    text = body.rules.text(value.span)
    if not isinstance(value.type, TupleType) or not text:
        return
    tensors = [place for place, item in enumerate(value.type.items) if isinstance(item, TensorType)]
    if folds and len(tensors) == len(value.type.items):
        listed = text if text[:1] in "([" else f"[{text}]"
        draft.replace("fold them one by one", value.span, f"stack({listed}), axis=0")
    binding = body.origins.get(value) if isinstance(value, typed.Local) else None
    given = binding is not None and binding.value is None  # what a function is called with is its caller's to say
    if not folds and not given and tensors and (text.isidentifier() or text.endswith(")")) and text[:1] not in "([":
        draft.replace(f"it is {len(value.type.items)} values: take one", value.span, f"{text}[{tensors[0]}]")


def suggest_result(body: Body, draft: Draft, value: typed.Expr, spec: TypeSpec) -> None:
    """Several values where the signature says one: the signature lacks some."""
    if not isinstance(spec, TensorSpec) or not isinstance(value.type, TupleType) or len(value.type.items) < 2:
        return
    if all(isinstance(item, TensorType) for item in value.type.items):
        draft.replace("declare it as what it is", spec.span, type_text(value.type).strip("`"))


def suggest_array(body: Body, draft: Draft, value: typed.Expr, spec: TypeSpec | None = None) -> None:
    """`spec` is what the value is declared to be; None where only a tensor will do."""
    dtype = _dtype_of(value.type) if isinstance(value.type, TupleType) else None
    text = body.rules.text(value.span)
    if dtype is None or not text or not isinstance(spec, TensorSpec | BareTensorSpec | None):
        return
    wanted = spec.element.dtype if isinstance(spec, TensorSpec) and isinstance(spec.element, Storage) else dtype
    said = "" if wanted == dtype else f", dtype={wanted}"
    draft.replace("a list is made a tensor by `array`", value.span, f"array({text}{said})")


def _dtype_of(type_: Type) -> DType | None:
    """What `array` makes of numbers, or of lists that are alike; None where it makes nothing."""
    match type_:
        case BoolType():
            return BOOL
        case IntType() | RunIntType():
            return I64
        case FloatType():
            return F32
        case TensorType():
            return type_.dtype
        case TupleType() if type_.items:
            found = [_dtype_of(item) for item in type_.items]
            return None if None in found else _common(found, type_.items)
    return None


def _common(found: list[DType | None], items: tuple[Type, ...]) -> DType | None:
    shapes = {_shape(item) for item in items}
    floats = [dtype for dtype in found if dtype is not None and dtype.is_float]
    return (floats or found)[0] if len(shapes) == 1 else None


def _shape(type_: Type) -> tuple[object, ...]:
    if isinstance(type_, TupleType):
        return (len(type_.items), *(_shape(type_.items[0]) if type_.items else ()))
    return type_.dims if isinstance(type_, TensorType) else ()
