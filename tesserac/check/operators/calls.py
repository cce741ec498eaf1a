"""Calls of operators by name: `sum(x, axis=N)`, `x.reshape(B, S)`, `zeros(N, 4)`.

Enters: an operator's class and checked arguments. Leaves: the operator with its static attributes, applied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tesserac.check.declarations.schedules import check_tile_shape, tile_settings
from tesserac.check.model import typed
from tesserac.check.model.library_annotations import ORDERED
from tesserac.check.model.message_text import dims_text, type_text
from tesserac.check.operators.apply import apply_operator, fits_dtype, meet_storage
from tesserac.check.operators.fills import fill, is_fill
from tesserac.check.operators.join_errors import check_join, is_unlisted, refuse_unlisted, suggest_rows
from tesserac.check.operators.keys import KEY, fold_key, keyed
from tesserac.check.operators.pattern_calls import call_pattern, has_pattern
from tesserac.check.operators.ported_meaning import refuse_size_of_parts, tell_of_parts, tell_of_repeats
from tesserac.check.operators.reshape import check_expand, check_reshape, refuse_dtype
from tesserac.check.operators.scaled import refuse_scaled
from tesserac.check.operators.statics import (
    read_axes,
    read_axis,
    read_bool,
    read_dims,
    read_dtype,
    read_int,
    read_number,
    read_order,
    read_size,
    read_unit_axes,
)
from tesserac.check.operators.unusual import check_axis
from tesserac.check.state.arguments import Arg, Callee, Slot, sort_arguments, with_operand_names
from tesserac.check.state.body import Body
from tesserac.check.values.tuples import make_tuple, tuple_items
from tesserac.diag.codes.names import E0205, E0210
from tesserac.diag.codes.precision import E0406
from tesserac.diag.codes.shapes import E0314
from tesserac.ops.complex import Complex
from tesserac.ops.contract import MatMul
from tesserac.ops.convert import Cast
from tesserac.ops.create import Arange
from tesserac.ops.cumulative import Cumulative
from tesserac.ops.einsum import Einsum
from tesserac.ops.index import TakeAlongAxis
from tesserac.ops.join import Concat, Stack
from tesserac.ops.random import FoldIn
from tesserac.ops.rearrange import Repeat, Split
from tesserac.ops.reduce import Reduction
from tesserac.ops.registry import Operator
from tesserac.ops.shape import Expand, Permute, Reshape
from tesserac.ops.signature import Signature, StaticParameter
from tesserac.types.dims import ONE, Dim, product
from tesserac.types.dtype import BOOL, F32, F64, I64, U64
from tesserac.types.policy import NO_POLICY
from tesserac.types.ty import (
    BoolType,
    DTypeType,
    ErrorType,
    FloatType,
    IntType,
    RunIntType,
    TensorType,
    TupleType,
)

Fields = dict[str, object]


def call_operator(body: Body, operator: type[Operator], args: Sequence[Arg], callee: Callee) -> typed.Expr:
    """A call of an operator with arguments as a program writes them."""
    if operator is Repeat:
        return _call_repeat(body, args, callee)
    if operator is Einsum:
        from tesserac.check.operators.einsum import call_einsum

        return call_einsum(body, args, callee)
    if operator is Reshape and refuse_dtype(body, args, callee):
        return body.error(callee.span)
    if operator in (Concat, Stack) and is_unlisted(args):
        refuse_unlisted(body, args)
        return body.error(callee.span)
    if operator is FoldIn:
        args = [replace(arg, value=keyed(body, arg.value)) for arg in args]
    if operator is MatMul and not all(check_tile_shape(body, arg.value) for arg in _tile_shapes(args)):
        return body.error(callee.span)
    if operator is MatMul and _tile_shapes(args):
        shape = _tile_shapes(args)[0].value.type
        called = call_operator(body, operator, [arg for arg in args if arg.name != "tile_shape"], callee)
        return replace(called, schedule=tile_settings(shape)) if isinstance(called, typed.Apply) else called
    return _call_sorted(body, operator, args, callee)


def _call_repeat(body: Body, args: Sequence[Arg], callee: Callee) -> typed.Expr:
    """By a pattern, along an axis, or without one: of all elements, row by row, as NumPy has it."""
    if has_pattern(args):
        return call_pattern(body, args, callee)
    tell_of_repeats(body, callee, args)
    first, named = args[0].value if args else None, (None, "times", *Repeat.others["times"])
    if len(args) != 2 or first is None or not isinstance(first.type, TensorType) or args[1].name not in named:
        return _call_sorted(body, Repeat, args, callee)
    times = read_size(body, args[1].value)
    if times is None:
        return body.error(callee.span)
    flat = first if first.type.rank == 1 else _apply(body, Reshape((product(first.type.dims),)), [first], callee)
    return _apply(body, Repeat(times, 0), [flat], callee)


def _call_sorted(body: Body, operator: type[Operator], args: Sequence[Arg], callee: Callee) -> typed.Expr:
    signature = operator.parsed[0]
    many = _many(signature)
    grouped, rest = _take_many(operator, many, args) if many else ((), args)
    given = sort_arguments(body, callee, rest, with_operand_names(_slots(operator, many), rest))
    if given is None:
        return body.error(callee.span)
    operands = _operands(body, operator, given, callee)
    if operands is None:
        return body.error(callee.span)
    if any(isinstance(value.type, ErrorType) for value in (*given.values(), *grouped)):
        return body.error(callee.span)
    if many is not None and not grouped:
        body.sink.error(E0205, at=callee.at, problem=f"`{callee.name}` also needs `{many.name}`")
        return body.error(callee.span)
    if is_fill(operator, given):
        return fill(body, operator, given, grouped, callee)
    if operator is Split:
        if refuse_size_of_parts(body, args, given):
            return body.error(callee.span)
        tell_of_parts(body, callee, args, given)
    return _call_along(body, operator, given, grouped, operands, callee)


def _slots(operator: type[Operator], many: StaticParameter | None) -> list[Slot]:
    signature, others = operator.parsed[0], operator.others
    operands = [Slot(o.name, True, False, others=others.get(o.name, ())) for o in signature.operands]
    statics = [s for s in signature.statics if s is not many]
    return operands + [Slot(s.name, s.default is None, False, others=others.get(s.name, ())) for s in statics]


def _call_along(
    body: Body,
    operator: type[Operator],
    given: Mapping[str, typed.Expr],
    grouped: tuple[typed.Expr, ...],
    operands: Sequence[typed.Expr],
    callee: Callee,
) -> typed.Expr:
    """The call, once its arguments are sorted."""
    signature = operator.parsed[0]
    if operator is Split and operands[0].type == KEY:
        return _split_key(body, given, operands[0], callee)
    if operator is Split and "parts" in given and isinstance(given["parts"].type, TupleType):
        return _refuse_list_of_parts(body, given["parts"], callee)
    fields = _fields(body, operator, given, grouped, operands) if _has_axis(body, signature, given, operands) else None
    if fields is None or not _numbers_fit(body, operator(**fields), given, operands):
        return body.error(callee.span)
    return _build_along(body, operator(**fields), operands, given.get("axis"), callee)


def _refuse_list_of_parts(body: Body, parts: typed.Expr, callee: Callee) -> typed.Expr:
    """`split(x, [2, 4])` is parts of these sizes in PyTorch, and in NumPy parts that begin at these places."""
    expected = "how many equal parts there are (an int)"
    draft = body.sink.error(E0210, at=parts.span, expected=expected, found=type_text(parts.type))
    draft.remark("parts of these sizes, as of PyTorch, are `split_with_sizes(x, (2, 4), axis=1)`")
    draft.remark("parts that begin at these places, as of NumPy, are `tensor_split(x, (2, 4), axis=1)`")
    return body.error(callee.span)


def _split_key(body: Body, given: Mapping[str, typed.Expr], key: typed.Expr, callee: Callee) -> typed.Expr:
    """`split(key, n)`: as many keys, and no axis. They are a tuple where the program says how many, itself or by a name
    for it, and a tensor where a size or an argument does, whatever its value."""
    count = given["parts"].type.value if isinstance(given["parts"].type, IntType) else None
    known = None if count is None or _rests_on_a_call(body, given["parts"], callee) else count.constant
    if count is None or (known is not None and known < 1) or "axis" in given:
        body.sink.error(E0205, at=callee.at, problem="`split` of a key takes how many keys to make, and nothing else")
        return body.error(callee.span)
    if known is not None:
        return make_tuple([fold_key(key, part) for part in range(known)], callee.span)
    places = _apply(body, Arange(count, dtype=U64), [], callee)
    return _apply(body, FoldIn(), [key, places], callee)


def _rests_on_a_call(body: Body, value: typed.Expr, callee: Callee, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a number is that of an argument, a size or a loop, whatever is known of it here: a call of another
    library, which is read as the call that is written here, has one place for all its parts. What the program itself
    gives a name to is followed to what it gave."""
    text = "" if value.span == callee.span else body.rules.text(value.span)
    names = {name for name in re.findall(r"[^\W\d]\w*", text) if body.binds(name)}
    return any(name in seen or _is_given(body, name, callee, seen | {name}) for name in names)


def _is_given(body: Body, name: str, callee: Callee, seen: frozenset[str]) -> bool:
    binding = body.scope.bindings.get(name)
    if binding is None or binding.value is None or not binding.is_value:
        return True
    return not binding.value.span.known or _rests_on_a_call(body, binding.value, callee, seen)


def _tile_shapes(args: Sequence[Arg]) -> list[Arg]:
    return [arg for arg in args if arg.name == "tile_shape"]


def _build_along(
    body: Body, op: Operator, operands: Sequence[typed.Expr], axis: typed.Expr | None, callee: Callee
) -> typed.Expr:
    """`_build`, after what there is to say about the axis that the program gives."""
    if isinstance(op, Concat | Stack) and not _has_dtype(body, operands, callee):
        return body.error(callee.span)
    if isinstance(op, Concat | Stack) and not check_join(body, op, operands, axis, callee):
        return body.error(callee.span)
    axes = op.axes if isinstance(op, Reduction) else (op.axis,) if isinstance(op, Cumulative) else ()
    if axis is not None and len(axes) == 1:
        check_axis(body, op.name, ORDERED if op.ordered else None, operands[0], axes[0], axis.span)
    return _build(body, op, operands, callee)


def _has_dtype(body: Body, operands: Sequence[typed.Expr], callee: Callee) -> bool:
    """Whether among the parts of a tensor there is one that tells its dtype."""
    if not all(isinstance(operand.type, IntType | RunIntType | FloatType | BoolType) for operand in operands):
        return True
    draft = body.sink.error(E0406, at=callee.at, operation=f"`{callee.name}`")
    draft.remark("`array([...], dtype=f32)` makes a tensor of plain numbers")
    return False


def _numbers_fit(
    body: Body, op: Operator, given: Mapping[str, typed.Expr], operands: Sequence[typed.Expr]
) -> bool:
    """Whether the elements of the result hold the numbers that the call gives, as in `full(N, 2, dtype=u8)`."""
    signature = op.parsed[0]
    numbers = [given[static.name] for static in signature.statics if static.kind == "number" and static.name in given]
    if signature.result.element.variable == "{dtype}":
        dtype, _ = op.storage()
    elif operands and isinstance(operands[0].type, TensorType):
        dtype = operands[0].type.dtype
    else:
        return True
    return all(fits_dtype(body, number, dtype) for number in numbers)


def _operands(
    body: Body, operator: type[Operator], given: Mapping[str, typed.Expr], callee: Callee
) -> list[typed.Expr] | None:
    """The operands in order; those of a list each on its own."""
    operands: list[typed.Expr] = []
    for operand in operator.parsed[0].operands:
        value = given[operand.name]
        if not operand.many or isinstance(value.type, ErrorType):
            operands.append(value)
        elif isinstance(value.type, TupleType) and value.type.items:
            operands.extend(tuple_items(value, value.span))
        else:
            draft = body.sink.error(E0210, at=value.span, expected="a list of tensors", found=type_text(value.type))
            suggest_rows(body, draft, operator, value, given.get("axis"), callee)
            return None
    return operands


def _many(signature: Signature) -> StaticParameter | None:
    """The parameter that takes several positional arguments, or one tuple: a shape or an order."""
    return next((s for s in signature.statics if s.kind in ("dims", "order")), None)


def _take_many(
    operator: type[Operator], many: StaticParameter, args: Sequence[Arg]
) -> tuple[tuple[typed.Expr, ...], Sequence[Arg]]:
    """Splits off the arguments of a shape: `zeros(N, 4)`, `zeros((N, 4), f32)`, `full((N,), 0.5)`."""
    signature = operator.parsed[0]
    named = [arg for arg in args if arg.name in (many.name, *operator.others.get(many.name, ()))]
    if named:
        return (named[0].value,), [arg for arg in args if arg is not named[0]]
    positional = [arg for arg in args if arg.name is None and not isinstance(arg.value.type, DTypeType)]
    before = len(signature.operands)
    after = sum(s.default is None for s in signature.statics if s is not many)
    named_after = sum(arg.name in {s.name for s in signature.statics if s.default is None} for arg in args)
    taken = positional[before : len(positional) - max(after - named_after, 0)]
    return tuple(arg.value for arg in taken), [arg for arg in args if arg not in taken]


def _fields(
    body: Body,
    operator: type[Operator],
    given: Mapping[str, typed.Expr],
    grouped: tuple[typed.Expr, ...],
    operands: Sequence[typed.Expr],
) -> Fields | None:
    fields: Fields = {}
    for static in operator.parsed[0].statics:
        arg = given.get(static.name)
        if static.kind == "axes":
            value: Fields | None = _field("axes", read_axes(body, arg, operands[0]))
        elif static.kind == "unit_axes":
            value = _field("axes", read_unit_axes(body, arg, operands[0]))
        elif static.kind in ("dims", "order"):
            value = _grouped_field(body, static, grouped, operands)
        elif arg is None:
            continue
        elif static.kind == "axis":
            counted = _reference(operator, operands)
            value = _field(static.name, read_axis(body, arg.type, arg.span, counted, operator.name))
        else:
            value = _one_field(body, static, arg)
        if value is None:
            return None
        fields.update(value)
    return fields


def _reference(operator: type[Operator], operands: Sequence[typed.Expr]) -> typed.Expr:
    """The operand whose axes are counted: of those that are joined the one with the most, the others lack some."""
    ranks = [operand.type.rank if isinstance(operand.type, TensorType) else 0 for operand in operands]
    return operands[ranks.index(max(ranks))] if operator is Concat else operands[0]


def _has_axis(
    body: Body, signature: Signature, given: Mapping[str, typed.Expr], operands: Sequence[typed.Expr]
) -> bool:
    """Whether there is an axis to work along where the call names none: a number has not."""
    unsaid = [static for static in signature.statics if static.kind == "axis" and static.name not in given]
    first = operands[0].type if operands else None
    if not unsaid or not isinstance(first, TensorType) or first.rank:
        return True
    body.sink.error(E0314, at=operands[0].span, problem=f"axis {unsaid[0].default} is out of range for []")
    return False


def _field(name: str, value: object) -> Fields | None:
    return None if value is None else {name: value}


def _grouped_field(
    body: Body, static: StaticParameter, grouped: tuple[typed.Expr, ...], operands: Sequence[typed.Expr]
) -> Fields | None:
    if static.kind == "dims":
        return _field("shape", read_dims(body, grouped))
    types = grouped[0].type if len(grouped) == 1 else TupleType(tuple(arg.type for arg in grouped))
    return _field("order", read_order(body, types, grouped[0].span.to(grouped[-1].span), operands[0]))


def _one_field(body: Body, static: StaticParameter, arg: typed.Expr) -> Fields | None:
    if static.kind == "dtype":
        found: DTypeType | None = read_dtype(body, arg)
        return None if found is None else {"dtype": found.dtype, "policy": found.policy}
    readers = {"bool": read_bool, "int": read_int, "size": read_size, "number": read_number}
    return _field(static.name, readers[static.kind](body, arg))


def _build(body: Body, op: Operator, operands: Sequence[typed.Expr], callee: Callee) -> typed.Expr:
    operand_type = operands[0].type if operands else None
    if isinstance(op, Cast) and not isinstance(operand_type, TensorType):
        return _cast_number(body, op, operands[0], callee)
    if isinstance(op, Complex) and not any(isinstance(o.type, TensorType) for o in operands):
        operands = [meet_storage(body, o, F32, NO_POLICY) or body.error(o.span) for o in operands]
    if isinstance(op, Reshape) and isinstance(operand_type, TensorType):
        shape = check_reshape(body, operands[0], op.shape, callee)
        return body.error(callee.span) if shape is None else _apply(body, Reshape(shape), operands, callee)
    if isinstance(op, Expand) and isinstance(operand_type, TensorType):
        op = Expand(_with_kept(op.shape, operand_type.dims))
        if not check_expand(body, operands[0], op.shape, callee):
            return body.error(callee.span)
    if isinstance(op, TakeAlongAxis):
        operands = _spread_along(body, op.axis, operands, callee)
    if isinstance(op, Split):
        parts = [_apply(body, replace(op, part=part), operands, callee) for part in range(op.parts)]
        return make_tuple(parts, callee.span)
    if isinstance(op, Permute) and isinstance(operand_type, TensorType) and len(op.order) != operand_type.rank:
        problem = f"`permute` needs every axis of {dims_text(operand_type.dims)} once"
        body.sink.error(E0314, at=callee.at, problem=problem).note(operands[0].span, dims_text(operand_type.dims))
        return body.error(callee.span)
    return _apply(body, op, operands, callee)


def _with_kept(shape: tuple[Dim, ...], dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape with the operand's own size for each -1, as PyTorch has it."""
    before = len(shape) - len(dims)
    return tuple(
        dims[place - before] if size == Dim.const(-1) and place >= before else size for place, size in enumerate(shape)
    )


def _spread_along(
    body: Body, axis: int, operands: Sequence[typed.Expr], callee: Callee
) -> Sequence[typed.Expr]:
    """The two with their dims of size 1 stretched to those of the other, but for the axis."""
    types = [operand.type for operand in operands]
    if not all(isinstance(ty, TensorType) for ty in types):
        return operands
    x, index = (ty.dims for ty in types if isinstance(ty, TensorType))
    if len(x) != len(index):
        return operands
    spread: list[typed.Expr] = []
    for operand, own, other in ((operands[0], x, index), (operands[1], index, x)):
        pairs = enumerate(zip(own, other, strict=True))
        wanted = tuple(b if a == ONE and place != axis else a for place, (a, b) in pairs)
        spread.append(operand if wanted == own else _apply(body, Expand(wanted), [operand], callee))
    return spread


def _cast_number(body: Body, op: Cast, number: typed.Expr, callee: Callee) -> typed.Expr:
    if op.policy.scale_axis is not None:
        return refuse_scaled(body, None, "`cast` of one number", callee.span)
    if not isinstance(number.type, IntType | RunIntType | FloatType | BoolType):
        draft = body.sink.error(E0210, at=number.span, expected="a tensor or a number", found=type_text(number.type))
        if isinstance(number.type, TupleType):
            draft.remark("`array` makes a tensor of a list of numbers")
        return body.error(callee.span)
    if op.dtype == BOOL and not isinstance(number.type, BoolType):
        wide = TensorType((), F64 if isinstance(number.type, FloatType) else I64)
        return typed.Apply(TensorType((), BOOL), callee.span, op, (typed.Coerce(wide, callee.span, number),))
    return typed.Coerce(TensorType((), op.dtype, op.policy), callee.span, number)


def _apply(body: Body, op: Operator, operands: Sequence[typed.Expr], callee: Callee) -> typed.Expr:
    return apply_operator(body, op, operands, callee.at, callee.span)
