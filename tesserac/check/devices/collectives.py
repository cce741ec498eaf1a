"""Collectives: `all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, and the axes across which they go.

Enters: checked arguments, and the axes that are known where a call stands. Leaves: operators across an axis of so many
devices, the effect `collective`, or a diagnostic. See Note [Whose axis a collective means].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from tesserac.base.source import Span
from tesserac.check.devices.distribution import MESH, axis_names, axis_sizes
from tesserac.check.devices.mapped_axes import NoAxis
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, type_text
from tesserac.check.operators.apply import apply_operator
from tesserac.check.operators.statics import read_axis
from tesserac.check.sizes.facts import Why
from tesserac.check.state.arguments import Callee, Slot
from tesserac.check.state.body import Body
from tesserac.check.state.parts import Communication, Meeting
from tesserac.check.values.tuples import rebuilt, tuple_items
from tesserac.diag.codes.effects import E0604
from tesserac.diag.codes.names import E0299
from tesserac.diag.sink import Draft
from tesserac.ir.ordering import COLLECTIVE
from tesserac.ops.collective import (
    AllGather,
    AllReduce,
    AllReduceAll,
    AllReduceAny,
    AllReduceMax,
    AllReduceMean,
    AllReduceMin,
    AllReduceSum,
    AllToAll,
    ReduceScatter,
    free_size,
)
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.ty import Aggregate, IntType, RecordType, StrType, TensorType, Type

FOLDS: dict[str, type[AllReduce]] = {
    "sum": AllReduceSum,
    "mean": AllReduceMean,
    "max": AllReduceMax,
    "min": AllReduceMin,
    "any": AllReduceAny,
    "all": AllReduceAll,
}
Given = dict[str, typed.Expr]
Rule = Callable[[Body, Callee, Given], typed.Expr]


class _Refused(Exception):
    """There is a diagnostic."""


def _all_reduce(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`all_reduce(x, "dp", op="mean")`: of a struct or tuple every tensor."""
    asked = given["op"].type if "op" in given else StrType("sum")
    fold = FOLDS.get(asked.value) if isinstance(asked, StrType) else None
    if fold is None:
        draft = _problem(body, given["op"].span, f"`op` is one of {', '.join(map(repr, FOLDS))}")
        if isinstance(asked, StrType):
            draft.did_you_mean(asked.value, list(FOLDS), given["op"].span, written='"{}"')
        raise _Refused
    return _each(body, fold(*_axis(body, callee, given)), given["x"], callee)


def _each(body: Body, operator: AllReduce, value: typed.Expr, callee: Callee) -> typed.Expr:
    if isinstance(value.type, Aggregate):
        items = tuple_items(value, value.span)
        return rebuilt(value, [_each(body, operator, item, callee) for item in items])
    return apply_operator(body, operator, [value], callee.at, callee.span)


def _all_gather(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`all_gather(x, "dp", axis=0)`: the dim has as many times its size afterwards as there are devices."""
    operator = AllGather(*_axis(body, callee, given), _place(body, callee, given, "axis"))
    return apply_operator(body, operator, [given["x"]], callee.at, callee.span)


def _reduce_scatter(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`reduce_scatter(x, "dp", axis=0)`: the sum, of which each device keeps its part of a dim."""
    operator = ReduceScatter(*_axis(body, callee, given), _place(body, callee, given, "axis"))
    return apply_operator(body, operator, [given["x"]], callee.at, callee.span)


def _all_to_all(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`all_to_all(x, "dp", split_axis=0, concat_axis=1)`."""
    places = [_place(body, callee, given, name) for name in ("split_axis", "concat_axis")]
    return apply_operator(body, AllToAll(*_axis(body, callee, given), *places), [given["x"]], callee.at, callee.span)


def _place(body: Body, callee: Callee, given: Given, name: str) -> int:
    """The dim of the tensor that an argument names; the first unless it says otherwise."""
    value, x = given.get(name), given["x"]
    if isinstance(x.type, TensorType) and not x.type.dims:
        draft = _problem(body, x.span, f"`{callee.name}` works along a dim, and this has none")
        draft.remark("`x[None]` has one, of size 1")
        raise _Refused
    place = read_axis(body, IntType(ZERO) if value is None else value.type, (value or x).span, x)
    if place is None:
        raise _Refused
    return place


def _checked(rule: Rule) -> Rule:
    """The rule, after what holds of all collectives; what it refuses is an error."""

    def run(body: Body, callee: Callee, given: Given) -> typed.Expr:
        if body.kernel is not None:
            body.sink.error(E0299, at=callee.at, feature=f"`{callee.name}` in a kernel")
            return body.error(callee.span)
        try:
            return rule(body, callee, given)
        except _Refused:
            return body.error(callee.span)

    return run


_X, _NAME, _MESH = Slot("x", True, False), Slot("axis_name", True, False), Slot("mesh", False, True)
_AXIS = Slot("axis", False, False)
RULES: dict[str, tuple[tuple[Slot, ...], Rule]] = {
    "all_reduce": ((_X, _NAME, Slot("op", False, False), _MESH), _checked(_all_reduce)),
    "all_gather": ((_X, _NAME, _AXIS, _MESH), _checked(_all_gather)),
    "reduce_scatter": ((_X, _NAME, _AXIS, _MESH), _checked(_reduce_scatter)),
    "all_to_all": (
        (_X, _NAME, Slot("split_axis", False, False), Slot("concat_axis", False, False), _MESH),
        _checked(_all_to_all),
    ),
}
"""The functions with the arguments that they take."""


# ------------------------------------------------------------------------------------------------------------- axes


def _axis(body: Body, callee: Callee, given: Given) -> tuple[str, Dim]:
    """The axis that a call names and the number of its devices; the body communicates across it from here on."""
    value, mesh = given["axis_name"], given.get("mesh")
    if not isinstance(value.type, StrType):
        _problem(body, value.span, f'`axis_name` takes a name such as "dp", not {type_text(value.type)}')
        raise _Refused
    axis = value.type.value
    if not axis.isidentifier():
        _problem(body, value.span, f'"{axis}" is no name, so not the name of an axis')
        raise _Refused
    if mesh is not None and not _is_mesh(mesh.type):
        _problem(body, mesh.span, f"`mesh` takes a `dist.Mesh`, not {type_text(mesh.type)}")
        raise _Refused
    size = _size(body, axis, value.span) if mesh is None else _size_on(body, mesh.type, axis, value.span)
    if not _communicate(body, axis, size, callee):
        raise _Refused
    return axis, size


def _is_mesh(type_: Type) -> bool:
    return isinstance(type_, RecordType) and type_.kind == MESH


def _size(body: Body, axis: str, at: Span) -> Dim:
    """How many devices the axis has here. Raises _Refused."""
    if axis in body.devices.axes:
        return body.devices.axes[axis]
    if body.devices.mesh is not None:
        return _size_on(body, body.devices.mesh, axis, at)
    devices = Dim.sym(free_size(axis))
    if free_size(axis) not in body.sizes.own_symbols:
        body.sizes.own_symbols |= {free_size(axis)}
        body.facts.state("at_least", devices, ONE, Why(f'"{axis}" has a device', None))
    return devices


def _size_on(body: Body, mesh: Type, axis: str, at: Span) -> Dim:
    """The same on a mesh. Raises _Refused."""
    assert isinstance(mesh, RecordType)
    names, sizes = axis_names(mesh), axis_sizes(mesh)
    if axis not in names:
        draft = _problem(body, at, f'the mesh has no axis "{axis}"').remark(f"it has {', '.join(map(repr, names))}")
        draft.did_you_mean(axis, names, at, written='"{}"')
        raise _Refused
    if sizes is None:
        _problem(body, at, "the mesh does not say how its devices are shared out").remark("give it `shape=`")
        raise _Refused
    return Dim.const(sizes[names.index(axis)])


def _communicate(body: Body, axis: str, devices: Dim, callee: Callee) -> bool:
    """Notes that the body communicates; False after a diagnostic, where an axis would have two sizes."""
    known = body.devices.collectives.get(axis)
    if known is not None and not body.facts.same(known.devices, devices):
        problem, label = f'"{axis}" has another number of devices here', f"{dim_text(devices)} devices"
        draft = body.sink.error(E0604, at=callee.at, label=label, problem=problem)
        draft.note(known.span, f"{dim_text(known.devices)} devices")
        return False
    body.add_effect(COLLECTIVE, callee.at)
    if body.flow.dead == 0:
        body.devices.collectives.setdefault(axis, Communication(devices, callee.at))
        body.devices.meetings.append(Meeting(axis, callee.name, callee.at))
    return True


def axes_of_call(body: Body, function: typed.TypedFunction, callee: Callee) -> Mapping[str, Dim] | None:
    """The sizes of the axes that a function leaves open, as they are where it is called; None after a diagnostic."""
    sizes: dict[str, Dim] = {}
    for own in function.collectives:
        devices = own.devices
        if devices == Dim.sym(free_size(own.axis)):
            try:
                devices = sizes[free_size(own.axis)] = _size(body, own.axis, callee.at)
            except _Refused:
                return None
        if not _communicate(body, own.axis, devices, callee):
            return None
        body.devices.uniform.setdefault(function.symbol, {})[own.axis] = own.agreed
    return sizes


@contextmanager
def devices_along(body: Body, axis: str, size: Dim, at: Span) -> Iterator[None]:
    """Inside, the axis is that of a dim which `pmap` maps, and collectives across it stay inside. Raises NoAxis after a
    diagnostic."""
    if not axis:
        yield
        return
    devices, effects = body.devices, frozenset(body.doing.effects)
    axes, collectives, first = devices.axes, devices.collectives, len(devices.meetings)
    devices.axes, devices.collectives = {**axes, axis: size}, {}
    try:
        yield
    finally:
        own = devices.collectives
        devices.axes, devices.collectives = axes, {**own, **collectives}
    devices.meetings[first:] = [meeting for meeting in devices.meetings[first:] if meeting.axis != axis]
    found = own.get(axis)
    if axis not in collectives:
        devices.collectives.pop(axis, None)
    if not own.keys() - {axis} and COLLECTIVE not in effects:
        body.doing.effects.pop(COLLECTIVE, None)
    if found is not None and not body.facts.same(found.devices, size):
        problem = f'the collectives inside have another number of devices along "{axis}"'
        label = f"{dim_text(size)} devices here, {dim_text(found.devices)} inside"
        body.sink.error(E0604, at=at, label=label, problem=problem)
        raise NoAxis


def _problem(body: Body, at: Span, problem: str) -> Draft:
    return body.sink.error(E0604, at=at, problem=problem)


# Note [Whose axis a collective means]
# A name is looked for as names are: `mesh=` of the call, the `pmap` around it that has this `axis_name`, the `with
# mesh():` around it. A function may leave its axes open, as one that `pmap` is given does: then the number of devices
# is a size of its own, which each call of it says: that of the `pmap` around the call, or the caller's own open one. A
# program that is run as it is has one device, so an axis that is still open there has size 1.
