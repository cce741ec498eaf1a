"""Applies a tier-1 operator to checked operands.

Enters: an operator and typed operands, tensors and scalars mixed. Leaves: a typed `Apply` in which scalars have
met their dtype and policies agree, or a diagnostic.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from tesserac.base.resources import of_library
from tesserac.base.source import Span
from tesserac.check.guards.demanded import require_numbers
from tesserac.check.guards.guarding import require_guard
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, noun, type_text
from tesserac.check.model.operator_use import Use
from tesserac.check.names.foreign_operators import ITS_MATRIX, for_operators
from tesserac.check.operators.complex_operands import with_complex
from tesserac.check.operators.precision import check_precision
from tesserac.check.operators.scaled import apply_to_scaled, meets_scale
from tesserac.check.operators.unusual import check_weights
from tesserac.check.provenance.declared import show_declared, show_dtypes
from tesserac.check.provenance.in_use import in_use, storage_in_use
from tesserac.check.state.body import Body
from tesserac.check.values.scalars import apply_to_scalars
from tesserac.check.values.tuple_fixes import suggest_operand
from tesserac.diag.codes.names import E0210
from tesserac.diag.codes.precision import E0403, E0406
from tesserac.diag.codes.shapes import E0311, E0315
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.ops.convert import Cast
from tesserac.ops.reduce import Reduction
from tesserac.ops.registry import Operator
from tesserac.ops.rounding import rounds
from tesserac.ops.signature import Operand, takes_integers_alone
from tesserac.ops.unify import Mismatch, Storage, match_elements
from tesserac.types.dims import LARGEST_SIZE, MAX_DIMS, ZERO, TooComplex
from tesserac.types.dtype import F32, I64, DType
from tesserac.types.policy import NO_POLICY, Policy
from tesserac.types.ty import BoolType, ErrorType, FloatType, IntType, OperatorType, RunIntType, TensorType, Type

_SCALARS = (IntType, RunIntType, FloatType, BoolType)


def apply_operator(
    body: Body, op: Operator, operands: Sequence[typed.Expr], at: Span, span: Span
) -> typed.Expr:
    """`op` on `operands`; `at` is where a message points, `span` the whole expression."""
    if any(isinstance(operand.type, ErrorType) for operand in operands):
        return body.error(span)
    for operand in operands:
        if not isinstance(operand.type, (TensorType, *_SCALARS)):
            draft = body.sink.error(E0210, at=operand.span, expected="a tensor", found=type_text(operand.type))
            draft.note(at, f"needed by {noun(op.name)}")
            suggest_operand(body, draft, operand, isinstance(op, Reduction))
            if isinstance(operand.type, OperatorType):
                draft.remark(for_operators(op.name) or ITS_MATRIX)
            return body.error(span)
    if not any(isinstance(operand.type, TensorType) for operand in operands) and operands:
        return apply_to_scalars(body, op, operands, at, span)
    return _apply_to_tensors(body, op, operands, at, span)


def _apply_to_tensors(
    body: Body, op: Operator, operands: Sequence[typed.Expr], at: Span, span: Span
) -> typed.Expr:
    use = Use(op, tuple(operands), at, span)
    if meets_scale(use):
        return apply_to_scaled(body, use)
    patterns = op.parsed[0].for_count(len(operands)).operands
    use = with_complex(body, use, patterns)
    types = [operand.type if isinstance(operand.type, TensorType) else None for operand in use.operands]
    try:
        elements = match_elements(patterns, types, op.mixes_fp8)
    except Mismatch as mismatch:
        return _explained(body, use, mismatch, span)
    met = _meet_elements(body, use, patterns, elements)
    if met is None:
        return body.error(span)
    try:
        result = op.infer([_tensor_type(operand) for operand in met], body.facts.same)
    except Mismatch as mismatch:
        return _explained(body, Use(op, met, at, span), mismatch, span)
    check_precision(body, Use(op, met, at, span))
    check_weights(body, Use(op, met, at, span))
    if not _meets_needs(body, op, met, at) or not _has_sizes(body, result, met, at):
        return body.error(span)
    if not _fits(body, result, span):
        return body.error(span)
    if result.policy.stochastic_round and rounds(op, [_tensor_type(operand) for operand in met], result):
        body.draw(at)
    return typed.Apply(result, span, op, met)


def _explained(body: Body, use: Use, mismatch: Mismatch, span: Span) -> typed.Expr:
    from tesserac.check.operators.mismatch import explain  # six modules, for who has made a mistake

    explain(body, use, mismatch)
    return body.error(span)


def _meets_needs(body: Body, op: Operator, operands: Sequence[typed.Expr], at: Span) -> bool:
    """What the operator demands of sizes is so, or is checked on entry; False where it can never be."""
    for need in op.needs(tuple(map(_tensor_type, operands))):
        known = {"equal": body.facts.same, "divides": body.facts.divides, "at_least": body.facts.at_least}
        holds = known[need.kind](need.left, need.right)
        if holds is False:
            draft = body.sink.error(E0311, at=at, problem=need.problem)
            show_declared(body, draft, *operands)
            from tesserac.check.operators.meant_axes import suggest_unit_axis

            suggest_unit_axis(body, draft, op, operands, at)
            return False
        if holds is None:
            require_guard(body, need.kind, need.left, need.right, at)
    return require_numbers(body, op.demands(tuple(map(_tensor_type, operands))), op.name, at)


def _has_sizes(body: Body, result: TensorType, operands: Sequence[typed.Expr], at: Span) -> bool:
    """Whether what is made has dims of 0 or more: known, or checked on entry; False where one never has."""
    given = {dim for operand in operands for dim in _tensor_type(operand).dims}
    for dim in result.dims:
        holds = dim in given or body.facts.at_least(dim, ZERO)
        if holds is False:
            body.sink.error(E0311, at=at, problem=f"a tensor cannot have a dim of size {dim_text(dim)}")
            return False
        if holds is None:
            require_guard(body, "at_least", dim, ZERO, at)
    return True


def _fits(body: Body, result: TensorType, span: Span) -> bool:
    """Whether sizes and bytes fit into the integers of a run, as far as numbers alone tell. Raises TooComplex."""
    if result.rank > MAX_DIMS:
        raise TooComplex(f"a tensor has at most {MAX_DIMS} dims, not {result.rank}")
    if beyond := [dim for dim in result.dims if dim.magnitude() > LARGEST_SIZE]:
        body.refuse_size(beyond[0], span)
        return False
    numbers = math.prod(dim.constant for dim in result.dims if dim.constant is not None)
    size = numbers * result.dtype.bits // 8
    if size > LARGEST_SIZE:
        body.sink.error(E0315, at=span, problem=f"sizes have 63 bits; `{result.show()}` has at least {size} bytes")
    return size <= LARGEST_SIZE


def _tensor_type(operand: typed.Expr) -> TensorType:
    assert isinstance(operand.type, TensorType)
    return operand.type


def _meet_elements(
    body: Body, use: Use, patterns: tuple[Operand, ...], elements: dict[str, Storage]
) -> tuple[typed.Expr, ...] | None:
    """The operands with every scalar as a tensor of its variable's dtype, and policies filled in."""
    met: list[typed.Expr] = []
    for pattern, operand in zip(patterns, use.operands, strict=True):
        variable = pattern.pattern.element.variable
        storage = elements.get(variable)
        if storage is None and isinstance(operand.type, IntType | RunIntType) and takes_integers_alone(variable):
            storage = elements[variable] = (I64, NO_POLICY)
        if storage is None:
            draft = body.sink.error(E0406, at=use.at, operation=noun(use.op.name))
            draft.remark("a plain number takes the dtype of the tensor it meets; here there is none")
            text = body.rules.text(operand.span)
            kinds = ("iu", "f") if isinstance(operand.type, IntType) else ("f",)
            wanted = storage_in_use(body, kinds, F32, use.operands)
            if of_library(operand.span.file):  # a constant, such as NAN: its line is not the program's to change
                draft.remark(f"`cast(v, {wanted})` has one, where v is a number or the name of one")
            else:
                draft.replace("give it a dtype", operand.span, f"cast({text}, {wanted})")
            return None
        operand_met = meet_storage(body, operand, *storage, beside=use.operands)
        if operand_met is None:
            return None
        met.append(operand_met)
    return tuple(met)


def meet_storage(
    body: Body, operand: typed.Expr, dtype: DType, policy: Policy, *, beside: Sequence[typed.Expr] = ()
) -> typed.Expr | None:
    """`operand` as a value of that dtype and policy: a scalar is coerced, a tensor without a policy takes it. Those
    `beside` it have the dtype, which is said where it does not fit."""
    ty = operand.type
    if isinstance(ty, TensorType):
        takes = ty.policy == NO_POLICY and policy != NO_POLICY and policy.scale_axis is None
        if takes and ty.dtype == dtype:
            return typed.Apply(TensorType(ty.dims, dtype, policy), operand.span, Cast(dtype, policy), (operand,))
        return operand
    if not fits_dtype(body, operand, dtype, beside):
        return None
    return typed.Coerce(TensorType((), dtype, policy), operand.span, operand)


def fits_dtype(body: Body, operand: typed.Expr, dtype: DType, beside: Sequence[typed.Expr] = ()) -> bool:
    """Whether a scalar may take a dtype. Says so where it may not."""
    ty = operand.type
    fits = scalar_fits(ty, dtype)
    if not fits and body.sizes.first_telling(dtype, dtype):
        kind = "a bool" if isinstance(ty, BoolType) else type_text(ty)
        article = "an" if dtype.name[0] in "fi" else "a"
        draft = body.sink.error(
            E0403, at=operand.span, label=kind, literal=_literal_text(body, operand), article=article, dtype=dtype
        )
        if isinstance(ty, FloatType) and dtype.is_integer:
            draft.remark(f"a float meets {dtype} here; cast the tensor to a float dtype, or use a whole number")
            _suggest_floats(body, draft, dtype, beside, operand)
        if dtype.kind == "b" and isinstance(ty, IntType) and ty.value.constant in (0, 1):
            meant = str(bool(ty.value.constant))
            draft.replace(f"write `{meant}`", operand.span, meant, advice=f"write `{meant}`; `~mask` is the other way")
        show_dtypes(body, draft, *beside)
    return fits


def scalar_fits(ty: Type, dtype: DType) -> bool:
    """An int fits any dtype that holds it, a float any float dtype, a bool only bool."""
    if isinstance(ty, IntType):
        value = ty.value.constant
        return dtype.kind != "b" and (value is None or dtype.holds(value))
    if isinstance(ty, RunIntType):
        return dtype.kind != "b"
    return dtype.kind in "fcs" if isinstance(ty, FloatType) else dtype.kind == "b"


_UPDATE = re.compile(r"\s*(\*\*|//|[-+*/%])=\s*")


def _suggest_floats(
    body: Body, draft: Draft, dtype: DType, beside: Sequence[typed.Expr], operand: typed.Expr
) -> None:
    """The integer tensors that a float meets, as floats; `x += 0.5` is an assignment then."""
    whole = [o for o in beside if isinstance(o.type, TensorType) and o.type.dtype == dtype and body.rules.text(o.span)]
    kept = body.declared.result_storage is not None and body.declared.result_storage.dtype == dtype
    if whole and not kept:
        wanted = in_use(body, "f", F32)
        between = Span(operand.span.file, whole[0].span.end, operand.span.start)
        update = _UPDATE.fullmatch(body.rules.text(between))
        if update is not None:
            name = body.rules.text(whole[0].span)
            draft.replace(f"compute in {wanted}", between, f" = cast({name}, {wanted}) {update[1]} ")
            return
        edits = [Edit(one.span, f"cast({body.rules.text(one.span)}, {wanted})") for one in whole]
        draft.fix(f"compute in {wanted}", *edits)


def _literal_text(body: Body, operand: typed.Expr) -> str:
    text = body.rules.text(operand.span)
    return f"`{text}`" if text else type_text(operand.type)


