"""Calls of functions written in the language.

Enters: a function and checked arguments. Leaves: a typed `Call` with the caller's size of every symbol, the guards of
the callee discharged or passed on, its effects counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from tesserac.base.resources import of_library
from tesserac.check.analysis.demanded import require_numbers_inside
from tesserac.check.calls.applied_twice import tell_of_twice
from tesserac.check.calls.batches import in_a_batch, items, out_of_batch
from tesserac.check.calls.errors import explain_conflict, explain_misfit
from tesserac.check.calls.reasons import explain_demand, record_call
from tesserac.check.declarations.decorators import is_kernel
from tesserac.check.devices.collectives import axes_of_call
from tesserac.check.guards.guarding import require_guard
from tesserac.check.instances.binding import CallBinding, Reason, substitute_type
from tesserac.check.kernels.extents import within
from tesserac.check.model import typed
from tesserac.check.model.kernel_state import TILE_RANK
from tesserac.check.model.library_annotations import (
    ALONG_AXIS,
    BEHIND_TEXT,
    BEYOND,
    IN_KERNELS,
    OF_BLOCKS,
    annotation_of,
    other_names,
)
from tesserac.check.model.specs import (
    FunctionSpec,
    OptionalSpec,
    ParameterSpec,
    ScalarSpec,
    Signature,
    Storage,
    TensorSpec,
    TupleSpec,
    TypeSpec,
)
from tesserac.check.names.refs import FunctionRef
from tesserac.check.operators.apply import meet_storage
from tesserac.check.operators.ported_meaning import tell_of_norm, tell_of_statistics, tell_of_windows
from tesserac.check.operators.precision import pass_on_warnings
from tesserac.check.operators.statics import read_order
from tesserac.check.operators.unusual import axis_position, check_axis
from tesserac.check.state.arguments import Arg, Callee, Slot, sort_arguments, with_operand_names
from tesserac.check.state.body import Body, is_static
from tesserac.check.transforms.custom_rules import with_rules
from tesserac.check.transforms.form_rules import with_forms
from tesserac.check.values.common_types import agree, converted
from tesserac.check.values.methods import as_function
from tesserac.check.values.scalars import to_float
from tesserac.check.values.tuples import make_tuple, rebuilt, tuple_items
from tesserac.diag.codes.names import E0206, E0215, E0299
from tesserac.diag.codes.shapes import E0315
from tesserac.ops.shape import Reshape
from tesserac.types.dims import ONE, ZERO, Dim, DimError, product
from tesserac.types.ty import (
    BoolType,
    DTypeType,
    ErrorType,
    FloatType,
    IntType,
    NoneType,
    RunIntType,
    StrType,
    TensorType,
    TupleType,
    Type,
    parts,
    sizes_in,
)
from tesserac.types.unify import Conflict, DimSolver


def call_function(
    body: Body, ref: FunctionRef, args: Sequence[Arg], callee: Callee, key: typed.Expr | None = None
) -> typed.Expr:
    """A call of a function of this module or of the library. With a `key` its random numbers come from there."""
    signature = body.rules.signature(ref.owner, ref.name)
    others = other_names(signature.node)
    slots = [
        Slot(p.name, p.default is None, p.keyword_only, p.span, others.get(p.name, ())) for p in signature.parameters
    ]
    own = of_library(signature.node.span.file)
    named = with_operand_names(slots, args) if own else slots
    placed = _gather_shape(signature, others, _behind_text(signature, args), callee)
    given = sort_arguments(body, callee, placed, named)
    if given is None:
        return body.error(callee.span)
    if own:
        tell_of_statistics(body, ref.name, callee, args)
        tell_of_norm(body, ref.name, callee, args)
        tell_of_windows(body, ref.name, callee, args)
    values = _fill_in(body, ref, signature, {**_stored(body, signature, callee), **given})
    if is_kernel(signature.node):
        values = [_merge_leading(p.spec, value) for p, value in zip(signature.parameters, values, strict=True)]
    values = [meet_spec(body, p.spec, value) for p, value in zip(signature.parameters, values, strict=True)]
    one = items(signature, values)
    values = in_a_batch(values, one) if one else values
    values = _resolve_axes(body, signature, values, given, callee)
    if any(isinstance(value.type, ErrorType) for value in values):
        return body.error(callee.span)
    tell_of_twice(body, signature, values, callee)
    _check_axes(body, ref, signature, values, given)
    values = _valid(body, signature, values, callee)
    call = _call(body, ref, signature, values, callee, key)
    if isinstance(call, typed.Call):
        call = with_rules(body, call, ref, callee)
        call = with_forms(body, call, ref) if isinstance(call, typed.Call) else call
    word = annotation_of(signature.node, OF_BLOCKS)
    if body.kernel is not None and word is not None:
        body.kernel.said[call] = word
    return out_of_batch(body, call, callee) if one else call


def _stored(body: Body, signature: Signature, callee: Callee) -> dict[str, typed.Expr]:
    """In a kernel, the dtype that a function takes for what it makes, where the call says none."""
    stored = None if body.kernel is None else body.kernel.narrow
    if body.kernel is None or stored is None or annotation_of(signature.node, IN_KERNELS) is None:
        return {}
    return {"dtype": typed.Static(DTypeType(stored, body.kernel.policies[stored]), callee.span)}


def _valid(body: Body, signature: Signature, values: list[typed.Expr], callee: Callee) -> list[typed.Expr]:
    """In a kernel, the first argument with what the function says in place of what is beyond the tile's extent."""
    beyond, first = annotation_of(signature.node, BEYOND), values[0] if values else None
    if beyond is None or first is None or not isinstance(first.type, TensorType) or not first.type.rank:
        return values
    return [within(body, first, float(beyond), (first.type.rank - 1,), callee), *values[1:]]


def _behind_text(signature: Signature, args: Sequence[Arg]) -> Sequence[Arg]:
    """`pad(x, 1, "constant", 0.5)`: what stands behind a text is for the parameter that the function says."""
    name = annotation_of(signature.node, BEHIND_TEXT)
    text = next((i for i, (arg, after) in enumerate(pairwise(args)) if _is_text(arg) and after.name is None), None)
    if name is None or text is None:
        return args
    return [*args[: text + 1], replace(args[text + 1], name=name), *args[text + 2 :]]


def _is_text(arg: Arg) -> bool:
    return arg.name is None and isinstance(arg.value.type, StrType)


def _gather_shape(
    signature: Signature, others: Mapping[str, tuple[str, ...]], args: Sequence[Arg], callee: Callee
) -> Sequence[Arg]:
    """`normal(D, H)` as `normal((D, H))`: positional arguments from a `Shape` on are its sizes."""
    place = next((i for i, p in enumerate(signature.parameters) if _is_kind(p, "Shape")), None)
    if place is None:
        return args
    called = (signature.parameters[place].name, *others.get(signature.parameters[place].name, ()))
    if any(arg.name in called for arg in args):
        return [_as_shape(arg) if arg.name in called else arg for arg in args]
    positional = [arg for arg in args if arg.name is None]
    sizes = [arg.value for arg in positional[place:]]
    if len(positional) < place or (len(sizes) == 1 and not isinstance(sizes[0].type, IntType)):
        return args
    shape = Arg(None, callee.at, make_tuple(sizes, callee.span))
    return [*positional[:place], shape, *(arg for arg in args if arg.name is not None)]


def _as_shape(arg: Arg) -> Arg:
    """`shape=3` is `shape=(3,)`."""
    whole = isinstance(arg.value.type, IntType)
    return Arg(arg.name, arg.span, make_tuple([arg.value], arg.value.span)) if whole else arg


def _call(
    body: Body,
    ref: FunctionRef,
    signature: Signature,
    values: list[typed.Expr],
    callee: Callee,
    key: typed.Expr | None,
) -> typed.Expr:
    binding = CallBinding(signature, body.facts, body.devices.axes)
    solver = binding.bind([value.type for value in values])
    if binding.misfits:
        explain_misfit(body, signature, binding.misfits[0], values, callee)
        return body.error(callee.span)
    unsolved = solver.finish()
    if any([not _guarded(body, conflict, callee) for conflict in solver.conflicts]):
        explain_conflict(body, signature, solver.conflicts[0], values, callee)
        return body.error(callee.span)
    if unsolved:
        feature = f'a call that leaves "{min(unsolved)}" of `{callee.name}` open'
        body.sink.error(E0299, at=callee.at, feature=feature)
        return body.error(callee.span)
    for divisor, dividend, reason in solver.divisions:
        guard = typed.Guard("divides", divisor, dividend, values[reason.parameter].span, "")
        _require(body, guard, {}, callee)
    record_call(body, signature, solver, values, callee)
    if not _are_sizes(body, signature, solver, callee):
        return body.error(callee.span)
    instance = body.rules.instance(ref.owner, ref.name, tuple(binding.types))
    if instance.function is None:
        if instance.recursive:
            _report_recursion(body, signature, callee)
        elif instance.needs_value and _waits(body, values, callee) and instance.outline is not None:
            return _finish(body, instance.outline, values, solver.values(), callee, key, signature)
        elif instance.needs_value:
            pass
        else:
            types = _in_caller_terms(signature, binding, solver.values())
            from tesserac.check.instances.errors import report_instance

            report_instance(body, ref, instance, types, values, callee)
        return body.error(callee.span)
    pass_on_warnings(body, instance, callee, values)
    return _finish(body, instance.function, values, solver.values(), callee, key, signature)


def _are_sizes(body: Body, signature: Signature, solver: DimSolver[Reason], callee: Callee) -> bool:
    """Whether what was solved for is a size, as `N` in `Tensor[N + 3, f32]` may not be; an int may be anything."""
    ints = {p.name for p in signature.parameters if isinstance(p.spec, ScalarSpec)}
    sizes = {name: bound for name, bound in solver.bound.items() if name not in ints and name in signature.symbols}
    guards = (typed.Guard("at_least", Dim.sym(name), ZERO, bound.reason.declared, "") for name, bound in sizes.items())
    return all([_require(body, guard, solver.values(), callee) for guard in guards])


def _guarded(body: Body, conflict: Conflict[Reason], callee: Callee) -> bool:
    """Sizes of params of another file, and of arguments without dims of their own, are data to this function: whether
    they are as the call needs them is checked on entry. False where the sizes are its own, or can never be so."""
    sizes = conflict.bound.symbols() | conflict.found.symbols()
    own = {name for size in body.rules.module_sizes().values() for name in size.symbols()}
    foreign = [name for name in sorted(sizes) if "." in name and name not in own]
    computed = conflict.bound.symbol is None or conflict.found.symbol is None  # two names that are equal are one name
    is_data = bool(foreign) or (body.sizes.has_open and computed) or body.may_agree(conflict.bound, conflict.found)
    if not is_data or (conflict.bound - conflict.found).constant is not None:
        return False
    for name in foreign:
        body.mention(name)
    require_guard(body, "equal", conflict.bound, conflict.found, callee.at)
    return True


def _finish(
    body: Body,
    function: typed.TypedFunction,
    values: list[typed.Expr],
    sizes: dict[str, Dim],
    callee: Callee,
    key: typed.Expr | None,
    signature: Signature,
) -> typed.Expr:
    axes = axes_of_call(body, function, callee)
    if axes is None or not require_numbers_inside(body, function, sizes, callee.name, callee.at):
        return body.error(callee.span)
    sizes = {**sizes, **axes}
    try:
        if not all([_require(body, guard, sizes, callee, values, signature) for guard in function.guards]):
            return body.error(callee.span)
        result = substitute_type(function.result, sizes)
        taken = [substitute_type(param.type, sizes) for param in function.params]
    except DimError as error:
        body.sink.error(E0315, at=callee.at, problem=str(error))
        return body.error(callee.span)
    body.doing.asserts |= any(isinstance(statement, typed.Assert) for statement in function.body)
    for effect in sorted(function.effects):
        if effect != "random" or key is None:
            body.add_effect(effect, callee.at)
    for param in function.reads:
        if param.name != typed.STREAM or key is None:
            body.read(param)
    args = tuple(_pass(body, type_, value) for type_, value in zip(taken, values, strict=True))
    dims = tuple((name, sizes[name]) for name in dict.fromkeys((*function.symbols, *axes)) if name in sizes)
    reads = tuple(param.name for param in function.reads)
    implied = ((True, function.forward), (False, function.backward))
    rules = tuple(typed.Rule(forward, symbol, dims) for forward, symbol in implied if symbol)
    closed = function.closed and not rules
    call = typed.Call(result, callee.span, function.symbol, args, dims, reads, key, rules, closed)
    if not is_static(result):
        return call
    if body.flow.dead == 0 and any(not isinstance(statement, typed.Return) for statement in function.body):
        body.flow.frame.statements.append(typed.Evaluate(callee.span, call))  # it may print or assert
    return typed.Static(result, callee.span)


def _fill_in(
    body: Body, ref: FunctionRef, signature: Signature, given: dict[str, typed.Expr]
) -> list[typed.Expr]:
    """One value per parameter, with defaults, which are compile-time values of the callee's module."""
    values: list[typed.Expr] = []
    for parameter in signature.parameters:
        if parameter.name in given:
            values.append(given[parameter.name])
        else:
            assert parameter.default is not None
            values.append(body.rules.default(ref.owner, parameter.default))
    return values


def meet_spec(body: Body, spec: TypeSpec, value: typed.Expr) -> typed.Expr:
    """A plain number passed where a 0-d tensor or a float is declared becomes one, a struct that can be called a
    function where one is declared."""
    if isinstance(spec, OptionalSpec):
        return value if isinstance(value.type, NoneType) else meet_spec(body, spec.inner, value)
    if isinstance(spec, FunctionSpec):
        return as_function(body, value)
    if isinstance(spec, TupleSpec) and isinstance(value.type, TupleType) and len(spec.items) == len(value.type.items):
        pairs = zip(spec.items, tuple_items(value, value.span), strict=True)
        return make_tuple([meet_spec(body, own, item) for own, item in pairs], value.span)
    scalar = isinstance(value.type, IntType | RunIntType | FloatType | BoolType)
    if isinstance(spec, TensorSpec) and scalar and isinstance(spec.element, Storage) and not spec.dims:
        met = meet_storage(body, value, spec.element.dtype, spec.element.policy)
        return body.error(value.span) if met is None else met
    if isinstance(spec, ScalarSpec) and spec.kind == "float":
        return to_float(value)
    return value


def _merge_leading(spec: TypeSpec, value: typed.Expr) -> typed.Expr:
    """A tensor `[B, H, S, D]` where a kernel says `[B*H, S, D]`."""
    type_ = value.type
    if not isinstance(spec, TensorSpec) or spec.leading or not isinstance(type_, TensorType):
        return value
    extra = type_.rank - len(spec.dims)
    if extra <= 0 or len(spec.dims) <= TILE_RANK:
        return value
    dims = (product(type_.dims[: extra + 1]), *type_.dims[extra + 1 :])
    return typed.Apply(TensorType(dims, type_.dtype, type_.policy), value.span, Reshape(dims), (value,))


def _resolve_axes(
    body: Body, signature: Signature, values: list[typed.Expr], given: Mapping[str, typed.Expr], callee: Callee
) -> list[typed.Expr]:
    """An `Axis` is a position in the first tensor argument, or several, however they were written."""
    operand = next((value for value in values if isinstance(value.type, TensorType)), None)
    resolved: list[typed.Expr] = []
    for parameter, value in zip(signature.parameters, values, strict=True):
        if operand is not None and _is_kind(parameter, "Axis") and not isinstance(value.type, ErrorType | NoneType):
            at = value.span if parameter.name in given else callee.at  # a default stands in the library
            axes = read_order(body, value.type, at, operand)
            known = ErrorType() if axes is None else _positions(axes, isinstance(value.type, TupleType))
            value = typed.Static(known, value.span)
        resolved.append(value)
    return resolved


def _check_axes(
    body: Body, ref: FunctionRef, signature: Signature, values: list[typed.Expr], given: dict[str, typed.Expr]
) -> None:
    """A library function along an axis that the program gives is along one that is usual."""
    if body.rules.library(ref.name) != ref:
        return
    for parameter, value in zip(signature.parameters, values, strict=True):
        place = axis_position(value) if _is_kind(parameter, "Axis") else None
        if place is not None and parameter.name in given:
            along = annotation_of(signature.node, ALONG_AXIS)
            check_axis(body, ref.name, along, values[0], place, given[parameter.name].span)


def _positions(axes: tuple[int, ...], several: bool) -> Type:
    types = tuple(IntType(Dim.const(axis)) for axis in axes)
    return TupleType(types) if several else types[0]


def _is_kind(parameter: ParameterSpec, kind: str) -> bool:
    spec = parameter.spec.inner if isinstance(parameter.spec, OptionalSpec) else parameter.spec
    return isinstance(spec, ScalarSpec) and spec.kind == kind


def _pass(body: Body, wanted: Type, value: typed.Expr) -> typed.Expr:
    """The argument as the callee takes it: a tensor without a policy takes the parameter's, and its names for sizes
    that are equal; a known float is one that only a run knows."""
    if isinstance(wanted, TensorType) and isinstance(value.type, TensorType):
        met = meet_storage(body, value, wanted.dtype, wanted.policy) or value
        named = agree(wanted, met.type, body.facts.same)
        return met if named is None else converted(body, met, named)
    if wanted == FloatType() and value.type != wanted:
        return typed.Coerce(wanted, value.span, value)
    inner = parts(wanted)
    if inner is None or is_static(wanted):
        return value
    items = tuple_items(value, value.span)
    return rebuilt(value, [_pass(body, own, item) for own, item in zip(inner, items, strict=True)])


def _require(
    body: Body, guard: typed.Guard, sizes: dict[str, Dim], callee: Callee,
    values: Sequence[typed.Expr] = (), signature: Signature | None = None,
) -> bool:  # fmt: skip
    """What the callee demands of sizes: proved here, refuted here (then False), or checked on this function's entry."""
    facts = body.facts
    left, right = guard.left.substitute(sizes), guard.right.substitute(sizes)
    if guard.kind == "equal":
        holds: bool | None = facts.same(left, right) or (None if body.may_agree(left, right) else False)
    elif guard.kind == "divides":
        holds = facts.at_least(left, ONE) is not False and facts.divides(left, right)
    else:
        holds = facts.at_least(left, right)
    if holds is False:
        explain_demand(body, guard, sizes, callee, values, signature)
    elif holds is None:
        require_guard(body, guard.kind, left, right, callee.at, guard)
    return holds is not False


def _waits(body: Body, values: Sequence[typed.Expr], callee: Callee) -> bool:
    """Whether the int, the string or the length of a list whose value the callee asks for is one of the caller's own:
    then only a call of that can tell. False after a diagnostic."""
    if any([body.wants_value(size) for value in values for size in sizes_in(value.type)]):
        return True
    if any([body.wants_text(value) for value in values]):
        return True
    ints = [v for v in values if isinstance(v.type, IntType) and v.type.value.constant is None]
    what = f"`{body.rules.text(ints[0].span)}`, an argument of `{callee.name}`," if len(ints) == 1 else ""
    draft = body.sink.error(E0215, at=callee.at, what=what or f"an argument of `{callee.name}`")
    draft.remark("a size is known when the program runs; an `int` parameter, or a number, is while compiling")
    return False


def _report_recursion(body: Body, signature: Signature, callee: Callee) -> None:
    """Recursion ends only on static arguments; of an int parameter the definition does not know the value yet."""
    if any(isinstance(p.spec, ScalarSpec) and p.spec.kind == "int" for p in signature.parameters):
        body.needs_value = body.needs_value or bool(body.sizes.static_symbols)
    if body.flow.dead == 0 and not body.needs_value:
        draft = body.sink.error(E0206, at=callee.at, name=callee.name)
        draft.remark("recursion is allowed on compile-time arguments that an `if` can end; otherwise use a loop")
        if signature.symbols:
            draft.remark("a size ends nothing, for a function is compiled once for all sizes: take how deep it goes, "
                         "`levels: int`, ask `if levels == 0` and hand on `levels - 1`")  # fmt: skip


def _in_caller_terms(signature: Signature, binding: CallBinding, sizes: dict[str, Dim]) -> tuple[Type, ...]:
    """The instance's types with the caller's names of sizes, where the signature has none of its own."""
    new = {name: size for name, size in sizes.items() if name not in signature.symbols}
    clash = any(not size.symbols().isdisjoint(signature.symbols) for size in new.values())
    return tuple(binding.types) if clash else tuple(substitute_type(type_, new) for type_ in binding.types)
