"""The rules of precision: one dtype and one policy per operator, and nothing accumulates in a narrow type unsaid.

Enters: a use of an operator. Leaves: E04xx and W04xx diagnostics that name the cast or the policy.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.message_text import SYMBOLS, dim_text, kinds_text, storage_text, written
from tesserac.check.model.operator_use import Use
from tesserac.check.provenance.creations import complex_edits, suggest_dtype
from tesserac.check.provenance.declared import declared_element, show_dtypes
from tesserac.check.provenance.in_use import in_use
from tesserac.check.state.arguments import Callee
from tesserac.check.state.body import Body
from tesserac.check.state.rules import Instance
from tesserac.diag.codes.precision import E0401, E0402, E0404, E0405, E0415, E0416, W0401, W0402, W0403
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.ops.contract import MatMul
from tesserac.ops.convert import Cast
from tesserac.ops.cumulative import Cumulative
from tesserac.ops.einsum import Einsum
from tesserac.ops.reduce import Reduction
from tesserac.ops.registry import Operator
from tesserac.types.dtype import BOOL, C128, F32, F64, DType, component, lookup
from tesserac.types.policy import NO_POLICY, compute_dtype
from tesserac.types.ty import TensorType


def explain_two_dtypes(body: Body, use: Use, left: typed.Expr, right: typed.Expr) -> None:
    """Two dtypes in one operator: the program decides which one, by a cast."""
    left_type, right_type = _tensor(left), _tensor(right)
    if not body.sizes.first_telling(left_type.dtype, right_type.dtype):
        return
    operation = SYMBOLS.get(use.op.name, "and")
    draft = body.sink.error(
        E0402,
        at=use.at,
        label="one dtype is needed here",
        left=left_type.dtype,
        operation=operation,
        right=right_type.dtype,
    )
    for operand, ty in ((left, left_type), (right, right_type)):
        draft.note(operand.span, storage_text(ty))
    show_dtypes(body, draft, left, right)
    wide, narrow = _by_width(left, right)
    wide_type, narrow_type = _tensor(wide), _tensor(narrow)
    if wide_type.dtype.is_complex != narrow_type.dtype.is_complex:
        real, numbers = (narrow, wide_type) if wide_type.dtype.is_complex else (wide, narrow_type)
        made = complex_edits(body, left if real is right else right)
        if made and _tensor(real).dtype == F64:
            draft.fix(f"make it {C128} where it is made", *made)
        _suggest_cast(body, draft, real, storage_text(numbers), "a real number is a complex one without imaginary part")
        return
    if wide_type.dtype.is_float != narrow_type.dtype.is_float:
        _suggest_kind(body, draft, use, *((wide, narrow) if wide_type.dtype.is_float else (narrow, wide)))
        return
    casts = [
        (wide, narrow_type, f"narrow to {narrow_type.dtype}"),
        (narrow, wide_type, f"widen to {wide_type.dtype}"),
    ]
    said = narrow_type.policy.accum
    if body.kernel is not None and wide_type.dtype == F32 and narrow_type.dtype.is_float and not said:
        edits = policy_edits(body, narrow_type.dtype, f"@accum({F32})")  # tiles are f32 then, as sums of them are
        if edits:
            draft.fix(wider_sum(narrow_type.dtype), *edits)
    if _adds_up(use.op) and not narrow_type.policy.accum:
        casts.reverse()  # sums in the narrow dtype would be the next thing to be said
    _suggest_casts(body, draft, casts)


def _suggest_casts(body: Body, draft: Draft, casts: Sequence[tuple[typed.Expr, TensorType, str]]) -> None:
    """Another dtype where it was only the default, or a cast: of which operand, to what, and what that is called."""
    for operand, wanted, _ in casts:
        suggest_dtype(body, draft, operand, wanted)
    for operand, wanted, title in casts:
        _suggest_cast(body, draft, operand, storage_text(wanted), title)


def _adds_up(op: Operator) -> bool:
    """Whether an operator sums products of its operands."""
    return isinstance(op, MatMul | Einsum)


def _suggest_kind(body: Body, draft: Draft, use: Use, floats: typed.Expr, whole: typed.Expr) -> None:
    """An integer and a float: which is to become the other, and what that costs. `x += y` keeps the dtype of x."""
    dtype, kept = _tensor(floats).dtype, is_update(body, use)
    draft.remark(f"{dtype} holds every whole number up to 2**{dtype.significand}, and not all above")
    if dtype.significand < F32.significand and not kept:
        texts = [(operand.span, body.rules.text(operand.span)) for operand in use.operands]
        edits = [Edit(span, f"cast({text}, {F32})") for span, text in texts if text]
        draft.fix(f"compute in {F32}, which loses less", *edits)
    suggest_dtype(body, draft, floats, _tensor(whole))
    to_float = (whole, storage_text(_tensor(floats)), f"compute in {dtype}")
    to_whole = (floats, storage_text(_tensor(whole)), f"drop the fraction, to {_tensor(whole).dtype}")
    for operand, storage, title in (to_float, to_whole):
        if not (kept and operand is use.operands[0]):
            _suggest_cast(body, draft, operand, storage, title)


_UPDATES = frozenset({"+=", "-=", "*=", "/=", "//=", "%=", "@="})


def is_update(body: Body, use: Use) -> bool:
    """Whether a use is written `x += y`: it keeps the dtype of x."""
    return body.rules.text(use.at) in _UPDATES


def explain_policies(body: Body, use: Use, left: typed.Expr, right: typed.Expr) -> None:
    """Two policies in one operator. Of two parameters it is the signature that says so, and is to be changed."""
    left_type, right_type = _tensor(left), _tensor(right)
    operation = f"`{written(use.op.name)}`"
    ours, theirs = declared_element(body, left), declared_element(body, right)
    values = {"operation": operation, "left": storage_text(left_type), "right": storage_text(right_type)}
    if ours is not None and theirs is not None:
        draft = body.sink.error(E0401, at=theirs, label="another policy", **values)
        draft.note(ours, "one policy").note(use.at, "here they meet")
        draft.replace("give both one policy", theirs, storage_text(left_type))
        _suggest_cast(body, draft, right, storage_text(left_type), "or cast one where they meet")
        return
    draft = body.sink.error(E0401, at=use.at, label="one policy is needed here", **values)
    draft.note(left.span, storage_text(left_type)).note(right.span, storage_text(right_type))
    show_dtypes(body, draft, left, right)
    _suggest_cast(body, draft, right, storage_text(left_type), "use the policy of the left operand")


_OF_BOOLS = {"max": "any", "min": "all", "maximum": "logical_or", "minimum": "logical_and"}


def explain_kind(body: Body, use: Use, operand: typed.Expr, kinds: str) -> None:
    dtype = _tensor(operand).dtype
    operation = f"`{written(use.op.name)}`"
    if not body.sizes.first_telling(dtype, dtype):
        return
    draft = body.sink.error(E0405, at=use.at, operation=operation, dtype=dtype)
    draft.note(operand.span, f"this is {dtype}").remark(f"{operation} works on {kinds_text(kinds)}")
    show_dtypes(body, draft, operand)
    if use.op.name == "div" and dtype.is_integer:
        _suggest_float(body, draft, use, dtype)
        draft.replace("round down", use.at, "//")
    elif use.op.name in ("bitwise_and", "bitwise_or") and dtype.is_float:
        _suggest_brackets(body, draft, use.at)
    elif operation == "`^`" and dtype.is_float:
        draft.replace("a power is `**`", use.at, "**")
    elif kinds == "b" and dtype.is_integer and (text := body.rules.text(operand.span)):
        asked = text if re.fullmatch(r"[\w.]+", text) else f"({text})"
        draft.replace("where it is not 0", operand.span, f"{asked} != 0")
    elif dtype.is_complex:
        draft.remark("a complex number has no order and is no float; `real`, `imag` and `abs` give floats")
    elif dtype == BOOL and use.op.name in _OF_BOOLS:
        draft.replace(f"of bools it is `{_OF_BOOLS[use.op.name]}`", use.at, _OF_BOOLS[use.op.name])
    elif "f" in kinds:
        _suggest_float(body, draft, use, dtype, kinds)


_COMPARED = r"[\w.]+(?:\[[^\]]*\])?\s*(?:<=|>=|==|!=|<|>)\s*-?[\w.]+"


def _suggest_brackets(body: Body, draft: Draft, at: Span) -> None:
    """`x > 0 & x < 1`, where `&` takes its operands before the comparisons do."""
    before, after = body.rules.text(Span(at.file, 0, at.start)), body.rules.text(Span(at.file, at.end, sys.maxsize))
    left, right = re.search(rf"({_COMPARED})\s*$", before), re.match(rf"\s*({_COMPARED})", after)
    if left is None or right is None:
        return
    draft.remark("it binds tighter than comparisons do")
    whole = Span(at.file, left.start(1), at.end + right.end(1))
    draft.replace("compare first", whole, f"({left[1]}) {body.rules.text(at)} ({right[1]})")


def _suggest_float(body: Body, draft: Draft, use: Use, dtype: DType, kinds: str = "f") -> None:
    """As a float, or as what the other operand is, where that will do."""
    tensors = [o for o in use.operands if isinstance(o.type, TensorType)]
    others = {_tensor(o).dtype for o in tensors if _tensor(o).dtype != dtype and _tensor(o).dtype.kind in kinds}
    wanted = others.pop() if len(others) == 1 else in_use(body, "f", F32)
    edits = [Edit(o.span, f"cast({body.rules.text(o.span)}, {wanted})") for o in tensors if _tensor(o).dtype == dtype]
    draft.fix("cast to a float first" if wanted.is_float else f"cast to {wanted}", *edits)


def explain_lost_part(body: Body, use: Use, operand: typed.Expr, dtype: DType) -> None:
    """A cast that would forget the imaginary part."""
    found, text = _tensor(operand).dtype, body.rules.text(operand.span)
    draft = body.sink.error(E0415, at=use.at, source=found, target=dtype).note(operand.span, f"this is {found}")
    part = f"real({text})"
    kept = part if component(found) == dtype else f"cast({part}, {dtype})"
    draft.replace("take the real part, if that is meant", use.span, kept)


def explain_bits(body: Body, use: Use, operand: typed.Expr, dtype: DType) -> None:
    """Bits read as a dtype that has another number of them."""
    found = _tensor(operand).dtype
    draft = body.sink.error(E0416, at=use.at, source=found, target=dtype, had=str(found.bits), wanted=str(dtype.bits))
    draft.note(operand.span, f"this is {found}")


def check_precision(body: Body, use: Use) -> None:
    """Warns of, or forbids, a contraction or reduction whose running sum would be narrow."""
    if not use.op.accumulates:
        return
    contraction = use.op.mixes_fp8
    operand = next((o for o in use.operands if _needs_accumulator(_tensor(o).dtype)), None)
    if operand is None:
        return
    ty = _tensor(operand)
    operation = "a contraction" if contraction else f"`{use.op.name}`"
    is_unsaid = ty.dtype.is_fp8 and ty.policy.accum is None  # whatever its other policies compute in
    if is_unsaid or compute_dtype(ty.dtype, ty.policy) == ty.dtype:
        _report_narrow(body, use, operand, operation)
    elif ty.dtype.is_fp8 and not ty.policy.saturate and ty.policy.scale_axis is None:
        draft = body.sink.warning(W0402, at=use.at, operation="contraction" if contraction else f"`{use.op.name}`")
        draft.note(operand.span, f"{storage_text(ty)}: values above {ty.dtype.largest:g} do not fit")
        draft.remark("say `@saturate`, which clamps them, or scale the operands")


def _needs_accumulator(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits < 32


def _report_narrow(body: Body, use: Use, operand: typed.Expr, operation: str) -> None:
    ty = _tensor(operand)
    if ty.dtype.is_fp8:
        is_narrow = compute_dtype(ty.dtype, ty.policy) == ty.dtype
        label = "every partial sum would be rounded to fp8" if is_narrow else "nothing says what the sum runs in"
        draft = body.sink.error(E0404, at=use.at, label=label, operation=operation, dtype=ty.dtype)
        draft.because(f"{ty.dtype} has {ty.dtype.significand} significant bits and ends at {ty.dtype.largest:g}")
        draft.remark("PyTorch clamps what does not fit without a word; the result is fp8 too")
    else:
        label = f"{ty.dtype.significand} significant bits, {_terms(use, ty)} terms"
        draft = body.sink.warning(W0401, at=use.at, label=label, operation=operation, dtype=ty.dtype)
        limit = 2**ty.dtype.significand
        draft.remark(f"a running {ty.dtype} sum of ones stops at {limit}; the same sum in f32 stays exact to 2**24")
    policy = "@accum(f32) @saturate" if ty.dtype.is_fp8 else "@accum(f32)"
    declared = _declared_element(body, operand)
    if declared is None:
        draft.note(operand.span, f"{storage_text(ty)} has no @accum policy")
        edits = _cast_edits(body, use, policy) or policy_edits(body, ty.dtype, policy)
    else:
        is_narrow = compute_dtype(ty.dtype, ty.policy) == ty.dtype
        draft.note(declared, f"no @accum policy here{f', so the sum runs in {ty.dtype}' if is_narrow else ''}")
        edits = policy_edits(body, ty.dtype, policy)
    if edits:
        draft.fix(wider_sum(ty.dtype), *edits)


def pass_on_warnings(body: Body, instance: Instance, callee: Callee, values: Sequence[typed.Expr]) -> None:
    """What these dtypes bring about inside the callee is a matter of the call, and so is the policy that mends it."""
    for warning in instance.diagnostics:
        if warning.code == W0403.id:
            body.sink.warning(W0403, at=callee.at, name=callee.name, label=warning.primary.text)
        elif warning.code in (W0401.id, W0402.id):
            draft = body.sink.warning(W0403, at=callee.at, name=callee.name, label=warning.title)
            draft.note(warning.primary.span, "here")
            for dtype in dict.fromkeys(v.type.dtype for v in values if isinstance(v.type, TensorType)):
                edits = policy_edits(body, dtype, "@accum(f32)") if warning.code == W0401.id else []
                if edits:
                    draft.fix(wider_sum(dtype), *edits)


def wider_sum(dtype: DType) -> str:
    """What a fix does that adds a policy."""
    return f"keep {dtype} storage, make only the running sum f32"


def policy_edits(body: Body, dtype: DType, policy: str) -> list[Edit]:
    """The policy where the signature writes the dtype; what is said there already is not said again."""
    edits: list[Edit] = []
    for place in body.declared.element_spans:
        text = body.rules.text(place)
        if lookup(text.partition("@")[0].strip()) == dtype and "@accum" not in text:
            more = [part for part in policy.split() if part not in text]
            edits.append(Edit(place, " ".join((text, *more))))
    return edits


def _cast_edits(body: Body, use: Use, policy: str) -> list[Edit]:
    """Where operands are casts on the spot, their dtype can take the policy."""
    edits: list[Edit] = []
    for operand in use.operands:
        if isinstance(operand, typed.Apply) and isinstance(operand.op, Cast) and _tensor(operand).policy == NO_POLICY:
            inner = body.rules.text(operand.operands[0].span)
            edits.append(Edit(operand.span, f"cast({inner}, {operand.op.dtype} {policy})"))
    return edits


def _terms(use: Use, ty: TensorType) -> str:
    if isinstance(use.op, Reduction):
        return " * ".join(dim_text(ty.dims[axis]) for axis in use.op.axes) or "1"
    if isinstance(use.op, Einsum):
        sizes = {label: dim for term, o in zip(use.op.terms, use.operands, strict=True)
                 for label, dim in zip(term, _tensor(o).dims, strict=True)}  # fmt: skip
        return " * ".join(dim_text(dim) for label, dim in sizes.items() if label not in use.op.output) or "1"
    return dim_text(ty.dims[use.op.axis if isinstance(use.op, Cumulative) else -1])


def _declared_element(body: Body, operand: typed.Expr) -> Span | None:
    """Where the dtype of a parameter is written."""
    return body.declared.parameter_elements.get(operand.name) if isinstance(operand, typed.Local) else None


def _suggest_cast(body: Body, draft: Draft, operand: typed.Expr, storage: str, title: str) -> None:
    text = body.rules.text(operand.span)
    if text:
        draft.replace(title, operand.span, f"cast({text}, {storage})")


def _by_width(left: typed.Expr, right: typed.Expr) -> tuple[typed.Expr, typed.Expr]:
    return (left, right) if _tensor(left).dtype.bits >= _tensor(right).dtype.bits else (right, left)


def _tensor(operand: typed.Expr) -> TensorType:
    assert isinstance(operand.type, TensorType)
    return operand.type
