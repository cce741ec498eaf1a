"""Making structs: `MLP[8, 16, 4](seed=0)`, `MLP(w1=a, b1=b, w2=c)`.

Enters: a struct, its sizes if they are written, and fields given by name. Leaves: the struct as a value. Sizes that are
not written follow from the fields, as those of a call follow from its arguments; a field that is not given is made by
its initialiser, or, where it is a struct itself, by that struct's. Under a seed each field has a random stream of its
own, whichever others are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.base.source import NO_SPAN, Span
from tesserac.check.calls.errors import explain_conflict, explain_misfit
from tesserac.check.calls.functions import call_function, meet_spec
from tesserac.check.instances.binding import CallBinding
from tesserac.check.instances.conform import conform
from tesserac.check.model import typed
from tesserac.check.model.specs import (
    AnySpec,
    DimSpec,
    FieldSpec,
    ListSpec,
    ParameterSpec,
    ScalarSpec,
    Signature,
    Storage,
    StructDecl,
    StructSpec,
    TensorSpec,
    TypeSpec,
)
from tesserac.check.model.struct_uses import field_specs, leaves_dtype_open
from tesserac.check.names.refs import FunctionRef
from tesserac.check.names.struct_items import NUMBERS, SEED, initialiser_name, is_read
from tesserac.check.operators.keys import fold_key, key_of
from tesserac.check.state.arguments import Arg, Callee, Slot, sort_arguments
from tesserac.check.state.body import Body
from tesserac.check.values.tuples import make_tuple, make_value
from tesserac.diag.codes.names import E0205, E0210
from tesserac.diag.diagnostic import Edit
from tesserac.ops.convert import Cast
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.ty import DTypeType, ErrorType, IntType, StructType, TensorType


def construct(
    body: Body,
    decl: StructDecl,
    sizes: Sequence[Dim] | None,
    args: Sequence[Arg],
    callee: Callee,
    storage: Storage | None = None,
) -> typed.Expr:
    """A struct of these sizes, or, where they are None, of those that its fields have. What its declaration leaves
    without a dtype has that of `storage`, or what the fields have."""
    slots = [Slot(field.name, False, True, field.span) for field in decl.fields] + [Slot(SEED, False, True)]
    if sizes is None and _are_sizes(decl, args):
        _report_sizes(body, decl, args, callee)
        return body.error(callee.span)
    if any(arg.name is None for arg in args) and len(args) <= len(decl.fields):
        _report_unnamed(body, decl, args, callee)
        return body.error(callee.span)
    given = sort_arguments(body, callee, args, slots)
    if given is None or any(isinstance(value.type, ErrorType) for value in given.values()):
        return body.error(callee.span)
    seed = given.pop(SEED, None)
    key = None if seed is None else key_of(body, seed)
    if seed is not None and key is None:
        return body.error(callee.span)
    known = _sizes_of_fields(body, decl, given, callee) if sizes is None else tuple(sizes)
    if known is None:
        return body.error(callee.span)
    spec = StructSpec(callee.span, decl, tuple(DimSpec(size, callee.span) for size in known), storage)
    making = _Making(body, decl, known, key, callee)
    values = list[typed.Expr]()
    for place, field in enumerate(field_specs(spec)):
        values.append(making.value(place, field, given, values))
    if any(isinstance(value.type, ErrorType) for value in values):
        return body.error(callee.span)
    fields = tuple((field.name, value.type) for field, value in zip(decl.fields, values, strict=True))
    return make_value(StructType(decl.owner, decl.name, known, fields, decl.buffers), values, callee.span)


def _are_sizes(decl: StructDecl, args: Sequence[Arg]) -> bool:
    """Whether as many ints without names are given as the struct has sizes."""
    ints = [arg for arg in args if arg.name is None and isinstance(arg.value.type, IntType)]
    return bool(ints) and len(ints) == len(decl.parameters) and all(arg in ints or arg.name == SEED for arg in args)


def _report_sizes(body: Body, decl: StructDecl, args: Sequence[Arg], callee: Callee) -> None:
    problem = f"the sizes of `{decl.name}` stand in brackets"
    sizes = ", ".join(body.rules.text(arg.value.span) for arg in args if arg.name is None)
    rest = "".join(f"{arg.name}={body.rules.text(arg.value.span)}" for arg in args if arg.name is not None)
    draft = body.sink.error(E0205, at=callee.at, problem=problem)
    draft.replace("its fields may follow them", callee.span, f"{decl.name}[{sizes}]({rest})")


def _report_unnamed(body: Body, decl: StructDecl, args: Sequence[Arg], callee: Callee) -> None:
    """Fields without their names, which are taken in the order of the declaration."""
    said = {arg.name for arg in args}
    ordered = [arg.value.span for arg in args if arg.name is None]
    names = [field.name for field in decl.fields if field.name not in said]
    draft = body.sink.error(E0205, at=ordered[0], problem=f"the fields of `{decl.name}` are given by name")
    edits = [Edit(span._replace(end=span.start), f"{name}=") for span, name in zip(ordered, names, strict=False)]
    draft.fix("name them, in the order of the declaration", *edits)


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


@dataclass(frozen=True)
class _Making:
    """What the initialisers of one struct need. `key` is where its random numbers start, None for the module's stream;
    fields and items, by their place, go on from keys of their own."""

    body: Body
    decl: StructDecl
    sizes: tuple[Dim, ...]
    key: typed.Expr | None
    callee: Callee

    def value(
        self, place: int, field: FieldSpec, given: dict[str, typed.Expr], before: Sequence[typed.Expr]
    ) -> typed.Expr:
        """One field, after those before it."""
        if field.name in given:
            return conform(self.body, field.spec, given[field.name])
        value = self._initial(field, _folded(self.key, place), before)
        if value is None:
            problem = f"`{self.decl.name}` also needs the field `{field.name}`"
            draft = self.body.sink.error(E0205, at=self.callee.at, problem=problem)
            draft.note(field.span, "declared here, without an initial value")
            return self.body.error(self.callee.span)
        return _in_storage(replace(value, span=self.callee.span), field.spec)

    def _initial(
        self, field: FieldSpec, key: typed.Expr | None, before: Sequence[typed.Expr]
    ) -> typed.Expr | None:
        """What a field is where it is not given; None where nothing says."""
        callee = self.callee
        if field.init is not None:
            ref = FunctionRef(self.decl.owner, initialiser_name(self.decl.name, field.name))
            args = [Arg(None, NO_SPAN, typed.Static(IntType(size), callee.span)) for size in self.sizes]
            for other, value in zip(self.decl.fields, before, strict=False):
                is_known = isinstance(other.spec, ScalarSpec) and other.spec.kind in NUMBERS
                if is_known and is_read(other.name, field.init):
                    args.append(Arg(None, NO_SPAN, value))
            named = Callee(f"{self.decl.name}.{field.name}", callee.at, callee.span)
            return call_function(self.body, ref, args, named, key)
        if isinstance(field.spec, StructSpec):
            return self._inner(field.spec, key)
        count = field.spec.count.dim if isinstance(field.spec, ListSpec) else None
        if isinstance(field.spec, ListSpec) and isinstance(field.spec.item, StructSpec) and count is not None:
            item = field.spec.item
            if count.constant is None:
                return self.body.unknown_count(count, callee.span)
            items = [self._inner(item, _folded(key, place)) for place in range(count.constant)]
            return make_tuple(items, callee.span)
        return None

    def _inner(self, spec: StructSpec, key: typed.Expr | None) -> typed.Expr:
        """A struct within a struct, of its own initialisers."""
        seeds = [] if key is None else [Arg(SEED, NO_SPAN, key)]
        sizes = [arg.dim for arg in spec.args or ()]
        callee = Callee(spec.decl.name, self.callee.at, self.callee.span)
        return construct(self.body, spec.decl, sizes, seeds, callee, spec.storage)


def _in_storage(value: typed.Expr, spec: TypeSpec) -> typed.Expr:
    """What an initialiser made, in the dtype that is written beside the sizes."""
    stored = spec.element if isinstance(spec, TensorSpec) and isinstance(spec.element, Storage) else None
    if stored is None or not isinstance(value.type, TensorType):
        return value
    type_ = TensorType(value.type.dims, stored.dtype, stored.policy)
    return value if value.type == type_ else typed.Apply(type_, value.span, Cast(stored.dtype, stored.policy), (value,))


def _folded(key: typed.Expr | None, place: int) -> typed.Expr | None:
    return None if key is None else fold_key(key, place)


def read_sizes(body: Body, decl: StructDecl, node: ast.Subscript) -> tuple[list[Dim], Storage | None] | None:
    """The sizes in `MLP[8, N, 4]` where it is a value, and the dtype behind them, if there is one; None after a
    diagnostic."""
    sizes: list[Dim] = []
    storage: Storage | None = None
    for argument in node.arguments:
        value = body.expression(argument.value)
        if isinstance(value.type, IntType):
            sizes.append(value.type.value)
        elif isinstance(value.type, DTypeType) and _takes_dtype(decl, argument is node.arguments[-1]):
            storage = Storage(value.type.dtype, value.type.policy)
        elif not isinstance(value.type, ErrorType):
            body.sink.error(E0210, at=argument.span, expected="a size (an int)", found=f"`{value.type.show()}`")
    if len(node.arguments) - (storage is not None) != len(decl.parameters):
        _wrong_count(body, decl, node.span)
        return None
    return (sizes, storage) if len(sizes) == len(decl.parameters) else None


def _takes_dtype(decl: StructDecl, is_last: bool) -> bool:
    return is_last and any(leaves_dtype_open(field.spec) for field in decl.fields)


def _wrong_count(body: Body, decl: StructDecl, span: Span) -> None:
    count = len(decl.parameters)
    problem = f"`{decl.name}` takes {count or 'no'} size{'' if count == 1 else 's'}"
    body.sink.error(E0205, at=span, problem=problem).note(decl.span, "declared here")
