"""Making structs: `MLP[8, 16, 4](seed=0)`, `MLP(w1=a, b1=b, w2=c)`.

Enters: a struct, its sizes if they are written, and fields given by name. Leaves: the struct as a value. Sizes that are
not written follow from the fields, as those of a call follow from its arguments; a field that is not given is made by
its initialiser, or, where it is a struct itself, by that struct's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesserac.base.source import NO_SPAN, Span
from tesserac.check import typed
from tesserac.check.arguments import Arg, Callee, Slot, sort_arguments
from tesserac.check.binding import CallBinding
from tesserac.check.body import Body
from tesserac.check.call_errors import explain_conflict, explain_misfit
from tesserac.check.calls import call_function, meet_spec
from tesserac.check.conform import conform
from tesserac.check.resolve import FunctionRef
from tesserac.check.specs import (
    AnySpec,
    DimSpec,
    FieldSpec,
    ListSpec,
    ParameterSpec,
    ScalarSpec,
    Signature,
    StructDecl,
    StructSpec,
    field_specs,
)
from tesserac.check.struct_items import initialiser_name
from tesserac.check.tuples import make_tuple, make_value
from tesserac.diag.codes.names import E0205, E0210
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.ty import ErrorType, IntType, StructType

SEED = "seed"
"""What every struct takes beside its fields: where the random numbers of its initialisers start."""


def construct(
    body: Body, decl: StructDecl, sizes: Sequence[Dim] | None, args: Sequence[Arg], callee: Callee
) -> typed.Expr:
    """A struct of these sizes, or, where they are None, of those that its fields have."""
    slots = [Slot(field.name, False, True, field.span) for field in decl.fields] + [Slot(SEED, False, True)]
    given = sort_arguments(body, callee, args, slots)
    if given is None or any(isinstance(value.type, ErrorType) for value in given.values()):
        return body.error(callee.span)
    if SEED in given and not isinstance(given[SEED].type, IntType):
        body.sink.error(E0210, at=given[SEED].span, expected="an int", found=f"`{given[SEED].type.show()}`")
        return body.error(callee.span)
    known = _sizes_of_fields(body, decl, given, callee) if sizes is None else tuple(sizes)
    if known is None:
        return body.error(callee.span)
    spec = StructSpec(callee.span, decl, tuple(DimSpec(size, callee.span) for size in known))
    values = [_field_value(body, decl, known, field, given, callee) for field in field_specs(spec)]
    if any(isinstance(value.type, ErrorType) for value in values):
        return body.error(callee.span)
    fields = tuple((field.name, value.type) for field, value in zip(decl.fields, values, strict=True))
    return make_value(StructType(decl.owner, decl.name, known, fields), values, callee.span)


def _sizes_of_fields(
    body: Body, decl: StructDecl, given: dict[str, typed.Expr], callee: Callee
) -> tuple[Dim, ...] | None:
    """The struct's sizes, solved as those of a function whose parameters are the fields that are given."""
    fields = [field for field in decl.fields if field.name in given]
    values = [meet_spec(body, field.spec, given[field.name]) for field in fields]
    signature = fields_signature(decl, fields)
    binding = CallBinding(signature, body.facts)
    solver = binding.bind([value.type for value in values])
    unsolved = solver.finish()
    if binding.misfits:
        explain_misfit(body, signature, binding.misfits[0], values, callee)
    elif solver.conflicts:
        explain_conflict(body, signature, solver.conflicts[0], values, callee)
    elif unsolved:
        sizes = ", ".join(decl.parameters)
        problem = f"the fields given do not tell the size `{min(unsolved)}` of `{decl.name}`"
        body.sink.error(E0205, at=callee.at, problem=problem).remark(f"write the sizes: `{decl.name}[{sizes}](...)`")
    else:
        return tuple(solver.values()[name] for name in decl.parameters)
    return None


def fields_signature(decl: StructDecl, fields: Sequence[FieldSpec]) -> Signature:
    """A function whose parameters are fields of the struct, and whose sizes are the struct's."""
    parameters = tuple(ParameterSpec(field.name, field.spec, None, True, field.span) for field in fields)
    node = ast.FunctionDef(decl.span, (), decl.name, decl.span, (), None, (), None, None, ())
    ints = tuple(f.name for f in fields if isinstance(f.spec, ScalarSpec) and f.spec.kind == "int")
    return Signature(node, parameters, AnySpec(decl.span), (*decl.parameters, *ints), ())


def _field_value(
    body: Body,
    decl: StructDecl,
    sizes: tuple[Dim, ...],
    field: FieldSpec,
    given: dict[str, typed.Expr],
    callee: Callee,
) -> typed.Expr:
    if field.name in given:
        return conform(body, field.spec, given[field.name])
    value = _initial(body, decl, sizes, field, given, callee)
    if value is None:
        problem = f"`{decl.name}` also needs the field `{field.name}`"
        draft = body.sink.error(E0205, at=callee.at, problem=problem)
        draft.note(field.span, "declared here, without an initial value")
        return body.error(callee.span)
    return replace(value, span=callee.span)


def _initial(
    body: Body,
    decl: StructDecl,
    sizes: tuple[Dim, ...],
    field: FieldSpec,
    given: dict[str, typed.Expr],
    callee: Callee,
) -> typed.Expr | None:
    """What a field is where it is not given; None where nothing says."""
    if field.init is not None:
        ref = FunctionRef(decl.owner, initialiser_name(decl.name, field.name))
        args = [Arg(None, NO_SPAN, typed.Static(IntType(size), callee.span)) for size in sizes]
        return call_function(body, ref, args, Callee(f"{decl.name}.{field.name}", callee.at, callee.span))
    if isinstance(field.spec, StructSpec):
        return _inner(body, field.spec, given, callee)
    count = field.spec.count.dim if isinstance(field.spec, ListSpec) else None
    if isinstance(field.spec, ListSpec) and isinstance(field.spec.item, StructSpec) and count is not None:
        item = field.spec.item
        if count.constant is None:
            return body.unknown_count(count, callee.span)
        return make_tuple([_inner(body, item, given, callee) for _ in range(count.constant)], callee.span)
    return None


def _inner(body: Body, spec: StructSpec, given: dict[str, typed.Expr], callee: Callee) -> typed.Expr:
    """A struct within a struct, of its own initialisers."""
    seeds = [Arg(SEED, NO_SPAN, given[SEED])] if SEED in given else []
    sizes = [arg.dim for arg in spec.args or ()]
    return construct(body, spec.decl, sizes, seeds, Callee(spec.decl.name, callee.at, callee.span))


def read_sizes(body: Body, decl: StructDecl, node: ast.Subscript) -> list[Dim] | None:
    """The sizes in `MLP[8, N, 4]` where it is a value; None after a diagnostic."""
    sizes: list[Dim] = []
    for argument in node.arguments:
        value = body.expression(argument.value)
        if isinstance(value.type, IntType):
            sizes.append(value.type.value)
        elif not isinstance(value.type, ErrorType):
            body.sink.error(E0210, at=argument.span, expected="a size (an int)", found=f"`{value.type.show()}`")
    if len(node.arguments) != len(decl.parameters):
        _wrong_count(body, decl, node.span)
        return None
    return sizes if len(sizes) == len(decl.parameters) else None


def _wrong_count(body: Body, decl: StructDecl, span: Span) -> None:
    count = len(decl.parameters)
    problem = f"`{decl.name}` takes {count or 'no'} size{'' if count == 1 else 's'}"
    body.sink.error(E0205, at=span, problem=problem).note(decl.span, "declared here")
