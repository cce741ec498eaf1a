"""Meshes of devices and tensors that lie on them: `dist.Mesh`, `dist.ShardSpec`, `dist.tensor`.

Enters: checked arguments. Leaves: compile-time records, and tensors. Devices of a mesh are logical: one real device may
take all of them, and here it does, so that a tensor on a mesh is a tensor. Layouts are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.operators.statics import read_dims, read_dtype
from tesserac.check.state.arguments import Callee, Slot
from tesserac.check.state.body import Body
from tesserac.check.state.requests import ONE_DEVICE, ask
from tesserac.diag.codes.effects import E0604
from tesserac.ops.create import Zeros
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32
from tesserac.types.ty import DictType, DTypeType, ErrorType, IntType, RecordType, StrType, TensorType, TupleType, Type

MESH, SHARDS = "Mesh", "ShardSpec"
PARTITIONS = ("replicate", "shard")
"""What a layout by name says of a dim, besides the axis that cuts it."""
Given = dict[str, typed.Expr]
Rule = Callable[[Body, Callee, Given], typed.Expr]


def _mesh(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`dist.Mesh(axes=["dp", "tp"], devices=range(8), shape=[2, 4])`."""
    axes = _words(body, given["axes"])
    devices = given["devices"].type if "devices" in given else None
    shape = _sizes(given["shape"].type) if "shape" in given else None
    if axes is None or any(isinstance(value.type, ErrorType) for value in given.values()):
        return body.error(callee.span)
    if len(set(axes)) != len(axes) or not axes:
        return _problem(body, callee, given["axes"], "the axes of a mesh have a name each, none twice")
    count = len(devices.items) if isinstance(devices, TupleType) else None
    if devices is not None and count is None:
        return _problem(body, callee, given["devices"], "`devices` takes `range(n)` or a list of numbers")
    if "shape" in given and (shape is None or len(shape) != len(axes)):
        return _problem(body, callee, given["shape"], f"`shape` takes {len(axes)} positive numbers, one per axis")
    if shape is not None and count is not None and _product(shape) != count:
        return _problem(body, callee, given["shape"], f"this is a shape of {_product(shape)} devices, not of {count}")
    if shape is None and count is not None and len(axes) == 1:
        shape = [count]
    fields: list[tuple[str, Type]] = [("axes", given["axes"].type)]
    fields += [("shape", TupleType(tuple(IntType(Dim.const(number)) for number in shape)))] if shape is not None else []
    return typed.Static(RecordType(MESH, tuple(fields)), callee.span)


def _shard_spec(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`dist.ShardSpec(partition=("row",), mesh_axes=("dp",))`."""
    partition, axes = _words(body, given["partition"]), _words(body, given["mesh_axes"])
    if partition is None or axes is None:
        return body.error(callee.span)
    if len(partition) != len(axes):
        return _problem(body, callee, given["mesh_axes"], "every dim that is cut has one axis of the mesh")
    fields = (("partition", given["partition"].type), ("mesh_axes", given["mesh_axes"].type))
    return typed.Static(RecordType(SHARDS, fields), callee.span)


def _tensor(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """`dist.tensor((1024, 1024), layout=..., mesh=..., dtype=f32)`: zeros that lie on a mesh."""
    dims = read_dims(body, [given["shape"]])
    dtype = read_dtype(body, given["dtype"]) if "dtype" in given else DTypeType(F32)
    if dims is None or dtype is None:
        return body.error(callee.span)
    for name, kind in (("layout", SHARDS), ("mesh", MESH)):
        found = given[name].type if name in given else None
        if isinstance(found, ErrorType):
            return body.error(callee.span)
        if found is not None and not (isinstance(found, RecordType) and found.kind == kind):
            return _problem(body, callee, given[name], f"`{name}` takes a `dist.{kind}`, not {type_text(found)}")
    if "layout" in given and not _lies_on(body, callee, given, len(dims)):
        return body.error(callee.span)
    if given.keys() & {"layout", "mesh"}:
        ask(body, callee.span, ONE_DEVICE)
    zeros = Zeros(dims, dtype.dtype, dtype.policy)
    return typed.Apply(TensorType(dims, dtype.dtype, dtype.policy), callee.span, zeros, ())


def _lies_on(body: Body, callee: Callee, given: Given, rank: int) -> bool:
    """Whether a layout cuts as many dims as there are, along axes that the mesh has."""
    layout, mesh = given["layout"].type, given["mesh"].type if "mesh" in given else None
    assert isinstance(layout, RecordType)
    axes = _texts(layout.field("mesh_axes"))
    if len(axes) > rank:
        _problem(body, callee, given["layout"], f"this layout cuts {len(axes)} dims, and the tensor has {rank}")
        return False
    known = _texts(mesh.field("axes")) if isinstance(mesh, RecordType) else axes
    return _has_axes(body, given["layout"], axes, known)


def _has_axes(body: Body, layout: typed.Expr, axes: Sequence[str], known: Sequence[str]) -> bool:
    """Whether the mesh has all axes along which a layout cuts."""
    unknown = [axis for axis in axes if axis not in known]
    if unknown:
        draft = body.sink.error(E0604, at=layout.span, problem=f'the mesh has no axis "{unknown[0]}"')
        draft.remark(f"it has {', '.join(map(repr, known))}")
    return not unknown


def check_layout(body: Body, layout: typed.Expr, mesh: RecordType) -> bool:
    """`mesh(layout=...)`: a spec along axes of the mesh, or a dict that says of each kind of dim whether it is cut;
    False after a diagnostic."""
    match layout.type:
        case ErrorType():
            return False
        case RecordType(kind="ShardSpec") as spec:
            return _has_axes(body, layout, _texts(spec.field("mesh_axes")), axis_names(mesh))
        case DictType(entries=entries):
            allowed = (*PARTITIONS, *axis_names(mesh))
            wrong = [(key, value) for key, value in entries if not _is_one_of(value, allowed)]
            if wrong:
                problem = f'{wrong[0][0]!r} is one of {", ".join(map(repr, allowed))}'
                body.sink.error(E0604, at=layout.span, problem=problem)
            return not wrong
    problem = f"a layout is a dict or a `dist.ShardSpec`, not {type_text(layout.type)}"
    body.sink.error(E0604, at=layout.span, problem=problem)
    return False


def _is_one_of(type_: Type, words: Sequence[str]) -> bool:
    return isinstance(type_, StrType) and type_.value in words


def _problem(body: Body, callee: Callee, at: typed.Expr, problem: str) -> typed.Expr:
    body.sink.error(E0604, at=at.span, problem=problem)
    return body.error(callee.span)


# ------------------------------------------------------------------------------------------------------- small values


def _words(body: Body, value: typed.Expr) -> list[str] | None:
    if isinstance(value.type, TupleType) and all(isinstance(item, StrType) for item in value.type.items):
        return _texts(value.type)
    if not isinstance(value.type, ErrorType):
        body.sink.error(E0604, at=value.span, problem=f"this takes a list of names, not {type_text(value.type)}")
    return None


def _texts(type_: Type | None) -> list[str]:
    items = type_.items if isinstance(type_, TupleType) else ()
    return [item.value for item in items if isinstance(item, StrType)]


def _sizes(type_: Type) -> list[int] | None:
    items: Sequence[Type] = type_.items if isinstance(type_, TupleType) else ()
    numbers = [item.value.constant for item in items if isinstance(item, IntType)]
    known = [number for number in numbers if number is not None and number > 0]
    return known if items and len(known) == len(items) else None


def axis_names(mesh: RecordType) -> list[str]:
    """The names of the axes of a mesh."""
    return _texts(mesh.field("axes"))


def axis_sizes(mesh: RecordType) -> list[int] | None:
    """How many devices each axis of a mesh has; None where it does not say."""
    shape = mesh.field("shape")
    return None if shape is None else _sizes(shape)


def _product(numbers: Sequence[int]) -> int:
    total = 1
    for number in numbers:
        total *= number
    return total


RULES: dict[str, tuple[tuple[Slot, ...], Rule]] = {
    "Mesh": ((Slot("axes", True, False), Slot("devices", False, False), Slot("shape", False, False)), _mesh),
    "ShardSpec": ((Slot("partition", True, False), Slot("mesh_axes", True, False)), _shard_spec),
    "tensor": (
        (Slot("shape", True, False), *(Slot(name, False, True) for name in ("layout", "mesh", "dtype"))),
        _tensor,
    ),
}
"""Functions of `dist` that the checker knows."""
