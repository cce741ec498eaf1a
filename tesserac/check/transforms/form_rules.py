"""Functions of a matrix that the library computes otherwise where that has a structure: `@form_of(f, "diagonal")`.

Enters: a call of such a function f with a square matrix first. Leaves: the call, with the instances that it may be
replaced by once the structure is known. A form takes the parts of the matrix and then the other arguments of f:

    diagonal    d[N], of diag(d)
    lower       the matrix, of which only the lower triangle is read; likewise upper
    kronecker   a[M, M] and b[P, P], of kron(a, b)
    update      d[N], u[N, K] and v[K, N], of diag(d) + u @ v
    rank one    d[N], u[N] and v[N], of diag(d) + outer(u, v)
    outer       u[N] and v[N], of outer(u, v)
    product     a[N, N] and b[N, N], of a @ b
    factors     u[N, K] and v[K, N], of u @ v
    gram        u[N, K], of u @ u.H
    inverse     a[N, N], of the inverse of a; that is what a function gives which has this form and gives a matrix
    unitary     the matrix, whose inverse is its adjoint
    positive    the matrix, which is self-adjoint and has no negative eigenvalue
    beside      the matrix and b[N, R], the right side of a system of this matrix that the program solves, too
    together    the matrix and b[N, R], the right sides of several systems of it; only the solutions are given
    applied     the matrix and x[M, R]: what f of the matrix, which is some y[N, M], is times x
    turned      the matrix and x[N, R]: what the transpose of that is times x
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tesserac.base.resources import of_library
from tesserac.check.instances.binding import CallBinding, substitute_type
from tesserac.check.instances.checking import instance_symbol
from tesserac.check.model import typed
from tesserac.check.model.library_annotations import (
    APPLIED,
    BESIDE,
    DIAGONAL,
    FACTORS,
    GRAM,
    INVERSE,
    KRONECKER,
    LOWER,
    ORTHONORMAL,
    OUTER,
    POSITIVE,
    PRODUCT,
    RANK_ONE,
    TOGETHER,
    TURNED,
    UPDATE,
    UPPER,
)
from tesserac.check.names.refs import FunctionRef
from tesserac.check.state.body import Body
from tesserac.diag.codes.kernels import E0508
from tesserac.diag.sink import Sink
from tesserac.types.dims import Dim
from tesserac.types.ty import TensorType, TupleType, Type

COLUMNS, RANK, ROWS_OF_FIRST, ROWS_OF_SECOND = "form.R", "form.K", "form.M", "form.P"
"""Sizes of parts, until the structure is known."""


def with_forms(body: Body, call: typed.Call, ref: FunctionRef) -> typed.Call:
    """The call with the forms that fit it."""
    rules = body.rules.form_rules(ref.owner, ref.name) if _may_have_forms(body, call) else {}
    matrix = call.args[0].type if call.args else None
    if not rules or not isinstance(matrix, TensorType) or matrix.rank != 2 or matrix.dims[0] != matrix.dims[1]:
        return call
    bound = [_bind(body, call, matrix, structure, rule) for structure, rule in sorted(rules.items())]
    return replace(call, forms=tuple(form for form in bound if form is not None))


def _may_have_forms(body: Body, call: typed.Call) -> bool:
    """Calls inside the library have none, but those of forms that lead to another matrix of the same size: another form
    that called what has forms would have one of each structure again, for ever larger types."""
    if not of_library(call.span.file):
        return True
    return any(body.rules.has_form(structure, body.name) for structure in (APPLIED, TURNED, PRODUCT, INVERSE))


def _bind(body: Body, call: typed.Call, matrix: TensorType, structure: str, ref: FunctionRef) -> typed.Form | None:
    if structure in (APPLIED, TURNED) and not _gives_matrix(call):
        return None
    parts = [matrix, _applied_to(call, structure)] if structure in (APPLIED, TURNED) else _PARTS[structure](matrix)
    others = [] if structure == TOGETHER else call.args[1:]
    given = [*parts, *(_resized(arg.type, matrix, structure) for arg in others)]
    signature = body.rules.signature(ref.owner, ref.name)
    if len(signature.parameters) != len(given):
        return None
    binding = CallBinding(signature, body.facts, body.devices.axes)
    solver = binding.bind(given)
    if binding.misfits or solver.finish() or solver.conflicts:
        return None
    sizes, own = solver.values(), tuple(binding.types)
    wanted = _wanted(call, matrix, structure)

    def check_result(sink: Sink) -> None:
        function = body.rules.instance(ref.owner, ref.name, own).function
        if function is None or substitute_type(function.result, sizes) != wanted:
            problem = f"`{ref.name}` does not give what its function gives"
            sink.error(E0508, at=signature.node.name_span, problem=problem)

    body.rules.when_free(ref.owner, own, body.sink, check_result)
    return typed.Form(structure, instance_symbol(ref.owner, signature, own), tuple(sorted(sizes.items())))


def _gives_matrix(call: typed.Call) -> bool:
    return isinstance(call.type, TensorType) and call.type.rank == 2


def _applied_to(call: typed.Call, structure: str) -> Type:
    """What the matrix that a call gives, or its transpose, is multiplied with: some columns."""
    assert isinstance(call.type, TensorType)
    rows, columns = call.type.dims
    return replace(call.type, dims=(rows if structure == TURNED else columns, Dim.sym(COLUMNS)))


def _wanted(call: typed.Call, matrix: TensorType, structure: str) -> Type:
    if structure in (APPLIED, TURNED):
        assert isinstance(call.type, TensorType)
        rows, columns = call.type.dims
        return replace(call.type, dims=(rows if structure == APPLIED else columns, Dim.sym(COLUMNS)))
    if structure == TOGETHER:
        return _like(matrix, matrix.dims[0], Dim.sym(COLUMNS))
    return _resized(call.type, matrix, structure)


def _resized(type_: Type, matrix: TensorType, structure: str) -> Type:
    """An argument or a result: the size of a Kronecker product is that of its factors multiplied."""
    if structure != KRONECKER:
        return type_
    if isinstance(type_, TupleType):
        return TupleType(tuple(_resized(item, matrix, structure) for item in type_.items))
    if not isinstance(type_, TensorType):
        return type_
    whole = Dim.sym(ROWS_OF_FIRST) * Dim.sym(ROWS_OF_SECOND)
    return replace(type_, dims=tuple(whole if dim == matrix.dims[0] else dim for dim in type_.dims))


def _like(matrix: TensorType, *dims: Dim) -> TensorType:
    return replace(matrix, dims=dims)


def _whole(matrix: TensorType) -> list[Type]:
    return [matrix]


_PARTS: dict[str, Callable[[TensorType], list[Type]]] = {
    DIAGONAL: lambda a: [_like(a, a.dims[0])],
    LOWER: _whole,
    UPPER: _whole,
    ORTHONORMAL: _whole,
    POSITIVE: _whole,
    PRODUCT: lambda a: [a, a],
    FACTORS: lambda a: [_like(a, a.dims[0], Dim.sym(RANK)), _like(a, Dim.sym(RANK), a.dims[0])],
    GRAM: lambda a: [_like(a, a.dims[0], Dim.sym(RANK))],
    INVERSE: _whole,
    RANK_ONE: lambda a: [_like(a, a.dims[0])] * 3,
    OUTER: lambda a: [_like(a, a.dims[0])] * 2,
    KRONECKER: lambda a: [_like(a, *(Dim.sym(name),) * 2) for name in (ROWS_OF_FIRST, ROWS_OF_SECOND)],
    UPDATE: lambda a: [_like(a, a.dims[0]), _like(a, a.dims[0], Dim.sym(RANK)), _like(a, Dim.sym(RANK), a.dims[0])],
    **dict.fromkeys((BESIDE, TOGETHER), lambda a: [a, _like(a, a.dims[0], Dim.sym(COLUMNS))]),
}
"""The types of the parts of a structure."""
