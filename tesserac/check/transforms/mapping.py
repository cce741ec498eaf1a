"""Functions mapped over a dim: `vmap(f, in_axes, out_axes)`, `pmap`, `map(f, xs)`.

Enters: a function, and the arguments of a call. Leaves: a `Mapped` call of the function for one element, or a
diagnostic. What is known while compiling is passed on as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tesserac.check.devices.collectives import devices_along
from tesserac.check.devices.distribution import MESH, axis_names, axis_sizes
from tesserac.check.devices.mapped_axes import (
    FRONT,
    IN_AXES,
    OUT_AXES,
    MappedAxes,
    NoAxis,
    Places,
    axes_per_argument,
    whole_type,
)
from tesserac.check.guards.guarding import require_guard
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, type_text
from tesserac.check.state.arguments import Arg, Callee, Slot, sort_arguments
from tesserac.check.state.body import Body, is_static
from tesserac.check.state.evaluation import framed
from tesserac.check.state.requests import ONE_DEVICE, ask
from tesserac.check.state.settings import setting_span
from tesserac.check.transforms.derivatives import Call, require_function
from tesserac.check.transforms.errors import report_printing
from tesserac.check.transforms.wrt import function_name
from tesserac.check.values.tuples import make_value, tuple_items
from tesserac.diag.codes.differentiation import E0720, E0722
from tesserac.diag.codes.effects import E0604
from tesserac.diag.codes.names import E0205, E0215
from tesserac.types.dims import Dim
from tesserac.types.ty import (
    ErrorType,
    IntType,
    NoneType,
    RecordType,
    StrType,
    TransformType,
    TupleType,
    Type,
    holds_operator,
)

_AXES = (IN_AXES, OUT_AXES)
_SLOTS = (Slot("f", True, False), *(Slot(axes, False, False) for axes in _AXES))
_MESH_SLOTS = (Slot("axis_name", False, True), Slot("mesh", False, True))


def make_vmap(body: Body, name: str, args: Sequence[Arg], callee: Callee) -> typed.Expr:
    """`vmap(f, ...)` is a function; `pmap` also takes the axis of a mesh that its dim lies along."""
    given = sort_arguments(body, callee, args, _SLOTS if name == "vmap" else (*_SLOTS, *_MESH_SLOTS))
    if given is None or not require_function(body, given["f"], callee) or not _lies_on_mesh(body, given):
        return body.error(callee.span)
    settings: list[tuple[str, Type]] = []
    for setting in _AXES:
        value = given.get(setting)
        if value is not None and not is_static(value.type):
            body.sink.error(E0215, at=value.span, what=f"`{setting}`")
            return body.error(callee.span)
        settings.append((setting, FRONT if value is None else value.type))
    axis = given.get("axis_name")
    settings += [("axis_name", axis.type)] if axis is not None else []
    if "mesh" in given:
        ask(body, given["mesh"].span, ONE_DEVICE, "mesh=")
    devices = _devices(given)
    settings += [("devices", IntType(devices))] if devices is not None else []
    return make_value(TransformType(name, (given["f"].type,), tuple(settings)), [given["f"]], callee.span)


def _lies_on_mesh(body: Body, given: dict[str, typed.Expr]) -> bool:
    """One device takes all elements, so a mesh changes nothing; but it must have the axis."""
    axis, mesh = given.get("axis_name"), given.get("mesh")
    if axis is not None and not isinstance(axis.type, StrType):
        body.sink.error(E0604, at=axis.span, problem=f"`axis_name` takes a name, not {type_text(axis.type)}")
        return False
    if mesh is None:
        return True
    if not isinstance(mesh.type, RecordType) or mesh.type.kind != MESH:
        body.sink.error(E0604, at=mesh.span, problem=f"`mesh` takes a `dist.Mesh`, not {type_text(mesh.type)}")
        return False
    names = axis_names(mesh.type)
    if axis is None or not isinstance(axis.type, StrType) or axis.type.value in names:
        return True
    draft = body.sink.error(E0604, at=axis.span, problem=f'the mesh has no axis "{axis.type.value}"')
    draft.remark(f"it has {', '.join(map(repr, names))}")
    draft.did_you_mean(axis.type.value, names, axis.span, written='"{}"')
    return False


def _devices(given: dict[str, typed.Expr]) -> Dim | None:
    """How many devices the axis has that a mapped dim lies along, or the whole mesh, where it says."""
    mesh, axis = given["mesh"].type if "mesh" in given else None, given.get("axis_name")
    if not isinstance(mesh, RecordType):
        return None
    names, sizes = axis_names(mesh), axis_sizes(mesh)
    if sizes is None:
        return None
    if axis is not None and isinstance(axis.type, StrType):
        return Dim.const(sizes[names.index(axis.type.value)])
    return Dim.const(prod(sizes))


def _spread_over(body: Body, size: Dim, devices: Type | None, callee: Callee) -> None:
    """Every device along an axis of a mesh takes as many elements of a mapped dim. Raises NoAxis after a diagnostic."""
    if not isinstance(devices, IntType):
        return
    whole = body.facts.divides(devices.value, size)
    if whole is None:
        require_guard(body, "divides", devices.value, size, callee.at)
    if whole is not False:
        return
    problem = f"{devices.value} devices cannot share the {dim_text(size)} elements of the mapped dim equally"
    draft = body.sink.error(E0604, at=callee.at, problem=problem)
    draft.remark("`pmap` gives every device of the mesh as many elements; `vmap` maps any number of them on one device")
    raise NoAxis


def map_elements(body: Body, args: Sequence[Arg], callee: Callee, call: Call) -> typed.Expr:
    """`map(f, xs, ys, in_axes=, out_axes=)` is `vmap(f, in_axes, out_axes)(xs, ys)`."""
    values, named = [arg for arg in args if not arg.name], [arg for arg in args if arg.name]
    if len(values) < 2 or any(arg.name not in _AXES for arg in named):
        problem = "`map` takes a function and the tensors whose first dim it goes over, by position"
        draft = body.sink.error(E0205, at=callee.at, problem=problem)
        draft.remark("`in_axes=` and `out_axes=` say other dims, as for `vmap`")
        return body.error(callee.span)
    made = make_vmap(body, "vmap", [values[0], *named], callee)
    return made if isinstance(made.type, ErrorType) else call_vmap(body, made, values[1:], callee, call)


def call_vmap(body: Body, value: typed.Expr, args: Sequence[Arg], callee: Callee, call: Call) -> typed.Expr:
    """A call of a function that `vmap` made."""
    type_ = value.type
    assert isinstance(type_, TransformType)
    in_axes, out_axes = type_.setting("in_axes"), type_.setting("out_axes")
    assert in_axes is not None and out_axes is not None
    function, *_ = tuple_items(value, callee.span)
    name = type_.setting("axis_name")
    axis = name.value if isinstance(name, StrType) else ""
    return call_mapped(body, function, in_axes, out_axes, args, callee, call, axis, type_.setting("devices"))


def call_mapped(
    body: Body,
    function: typed.Expr,
    in_axes: Type,
    out_axes: Type,
    args: Sequence[Arg],
    callee: Callee,
    call: Call,
    axis_name: str = "",
    devices: Type | None = None,
) -> typed.Expr:
    """The call of a function for every element of a mapped dim; `axis_name` is the axis that collectives in it mean,
    and `devices` how many there are along it."""
    by_name = sum(arg.name is not None for arg in args)
    axes = axes_per_argument(in_axes, len(args) - by_name, by_name)
    if axes is None:
        assert isinstance(in_axes, TupleType)
        problem = f"`in_axes` has an axis for each argument: {len(in_axes.items)} axes, {len(args)} arguments"
        body.sink.error(E0720, at=callee.at, problem=problem).fix("give one axis for all, or one for each argument")
        return body.error(callee.span)
    mapped = MappedAxes(body, callee, () if by_name else [arg.value for arg in args])
    params, values, places, named = list[typed.Param](), list[typed.Expr](), list[Places](), list[Arg]()
    try:
        for position, (arg, axis) in enumerate(zip(args, axes, strict=True)):
            if is_static(arg.value.type):
                named.append(arg)
                continue
            element, own = mapped.element(arg.value, axis)
            params.append(typed.Param(f"element {position + 1} of {callee.span.start}", element, arg.value.span))
            values.append(arg.value)
            places.append(own)
            named.append(Arg(arg.name, arg.span, typed.Local(element, arg.value.span, params[-1].name)))
        if mapped.size is None:
            _report_unmapped(body, in_axes, callee)
            raise NoAxis
        _spread_over(body, mapped.size, devices, callee)
        with devices_along(body, axis_name, mapped.size, callee.at):
            value = _call_pure(body, function, named, callee, call)
        type_, out = whole_type(body, callee, value.type, out_axes, mapped.size)
    except NoAxis:
        return body.error(callee.span)
    if is_static(value.type):
        return value
    return typed.Mapped(
        type_, callee.span, tuple(params), tuple(values), tuple(places), value, out, mapped.size, axis_name
    )


def _call_pure(body: Body, function: typed.Expr, args: Sequence[Arg], callee: Callee, call: Call) -> typed.Expr:
    """The call for one element. Raises NoAxis after a diagnostic, also where it prints."""
    before, body.doing.effects = body.doing.effects, {}
    with framed(body):
        value = call(body, function, args, Callee(function_name(function.type).strip("`"), callee.at, callee.span))
    own, body.doing.effects = body.doing.effects, {**body.doing.effects, **before}
    if isinstance(value.type, ErrorType):
        raise NoAxis
    if holds_operator(value.type):
        problem = "a mapped function gives tensors, not an operator"
        body.sink.error(E0720, at=callee.at, problem=problem).fix("apply the operator in the function that is mapped")
        raise NoAxis
    if "io" in own:
        report_printing(body, E0722, function.type, value, callee, "take the `print` out, or write a loop")
        raise NoAxis
    return value


def _report_unmapped(body: Body, in_axes: Type, callee: Callee) -> None:
    at = setting_span(body, callee, IN_AXES, in_axes if not isinstance(in_axes, TupleType) else NoneType())
    draft = body.sink.error(E0720, at=at or callee.at, problem="no argument has a mapped dim")
    title = "map the first dim of an argument"
    draft.fix(title) if at is None else draft.replace(title, at, "0")
