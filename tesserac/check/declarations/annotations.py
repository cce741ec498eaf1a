"""Types from annotations.

Enters: an annotation of the syntax tree, and what its names mean. Leaves: a `TypeSpec`; what is not a type has a
diagnostic and becomes an `ErrorSpec`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, Protocol

from tesserac.base.source import Span
from tesserac.check.declarations.foreign_types import (
    Foreign,
    foreign_entries,
    foreign_type,
    turned_list,
    unnumbered_list,
)
from tesserac.check.model.operator_types import HEADS, NOTHING_BOUND, read_operator
from tesserac.check.model.specs import (
    AnyDType,
    AnySpec,
    BareTensorSpec,
    BareTileSpec,
    DimSpec,
    DTypeOf,
    Element,
    ErrorElement,
    ErrorSpec,
    FunctionSpec,
    ListSpec,
    NoneSpec,
    OperatorSpec,
    OptionalSpec,
    RecordSpec,
    ScalarSpec,
    Storage,
    StructDecl,
    StructSpec,
    TensorSpec,
    TupleSpec,
    TypeSpec,
    has_trees,
)
from tesserac.check.model.struct_uses import MASTER, leaves_dtype_open
from tesserac.check.names.type_attributes import (
    FP32_MASTER,
    TYPE_ATTRIBUTES,
    attribute_name,
    check_attribute,
    report_attribute,
)
from tesserac.diag.codes.names import E0204, E0299
from tesserac.diag.codes.precision import E0408
from tesserac.diag.codes.shapes import E0316
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Sink
from tesserac.syntax import ast
from tesserac.types import dtype as dtypes
from tesserac.types.dims import MAX_DIMS, Dim, DimError, TooComplex, parse_dim
from tesserac.types.policy import NO_POLICY, Policy, PolicyError, fitting, placed_scale, with_attribute

LATER_TYPES = ("Dict",)
RECORDS = ("Mesh", "ShardSpec", "Schedule")
"""Kinds of compile-time values that the language itself has."""
TYPE_NAMES = ("Tensor", "List", "Tree", "KVCache", "Tile", "Key", "int", "bool", "str", "float")
ATTRIBUTE_NAMES = ("accum", "saturate", "stochastic_round", "loss_scale", "scale")
_ScalarKind = Literal["int", "bool", "str", "float", "Axis", "Shape"]
_SCALARS: dict[str, _ScalarKind] = {kind: kind for kind in ("int", "bool", "str", "float", "Axis", "Shape")}
_DIM_OPERATORS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "+": Dim.__add__,
    "-": Dim.__sub__,
    "*": Dim.__mul__,
    "/": Dim.exact_div,
    "//": Dim.floor_div,
    "%": Dim.mod,
}
_DIM_FUNCTIONS: dict[str, Callable[[Dim, Dim], Dim]] = {"ceil_div": Dim.ceil_div, "min": Dim.min, "max": Dim.max}
_OF_NAMES = "a dim is an integer expression over names: `B*H`, `D/heads`, `N + 1`, `ceil_div(N, 64)`"
_OF_FIELDS = "a size has a name of its own; that a field is as large is said in the body: `assert N == g.count`"


class Names(Protocol):
    """What the names in an annotation mean, where it stands."""

    def dim(self, name: str, span: Span) -> Dim | None:
        """The size that a name stands for; None after a diagnostic."""

    def is_size(self, name: str) -> bool:
        """Whether a name is a size already, without this annotation."""

    def alias(self, name: str) -> ast.Expr | None:
        """The expression that a module constant abbreviates, unless it is defined by itself."""

    def is_reported(self, name: str) -> bool:
        """Whether the item of this name has a diagnostic that says it all."""

    def struct(self, node: ast.Expr) -> StructDecl | None:
        """The struct that a name, or a name of another module, stands for."""

    def type_names(self, module: str = "") -> Sequence[str]:
        """The structs that there are here, or in another module."""


class AnnotationReader:
    """Reads annotations in one scope."""

    def __init__(self, names: Names, sink: Sink, declaring: Callable[[str], Edit] | None = None) -> None:
        self._names = names
        self._sink = sink
        self._declaring = declaring
        """Where sizes are declared before they are used: what declares one more."""
        self.attributes: list[ast.Expr] = []
        """What was read after the `@` of types, and does not change them."""

    def read(self, node: ast.Expr | None, span: Span) -> TypeSpec:
        """The type that an annotation stands for; `span` is that of what it annotates."""
        match node:
            case None:
                return AnySpec(span)
            case ast.NoneLiteral():
                return NoneSpec(node.span)
            case ast.TupleExpr():
                return TupleSpec(node.span, tuple(self.read(item, item.span) for item in node.items))
            case ast.FunctionType():
                taken = tuple(self.read(parameter, parameter.span) for parameter in node.parameters)
                return FunctionSpec(node.span, taken, self.read(node.result, node.result.span))
            case ast.BinaryOp(op="|"):
                return self._optional(node)
            case ast.BinaryOp(op="@") if attribute_name(node.right) in TYPE_ATTRIBUTES:
                return self._with_attribute(node, self.read(node.left, node.left.span))
            case ast.BinaryOp(op="@") if isinstance(_attributed(node), ast.Subscript):
                report_attribute(self._sink, node.right)
                return ErrorSpec(node.span)
            case ast.Subscript():
                return self._applied(node)
            case ast.Name():
                return self._named(node)
        return self._struct(node, node, None) or self._element_type(node)

    def _with_attribute(self, node: ast.BinaryOp, spec: TypeSpec) -> TypeSpec:
        """`OptimizerState[T] @fp32_master` has masters; other attributes ask where and how a value is kept."""
        if isinstance(spec, ErrorSpec) or not check_attribute(self._sink, node.right):
            return ErrorSpec(node.span)
        if attribute_name(node.right) != FP32_MASTER:
            self.attributes.append(node.right)
            return spec
        if isinstance(spec, StructSpec) and spec.tree is not None and any(f.name == MASTER for f in spec.decl.fields):
            return replace(spec, span=node.span, has_masters=True)
        problem = f"`@{FP32_MASTER}` is of an optimiser's state that names its weights: `OptimizerState[MLP[D, H]]`"
        self._sink.error(E0204, at=node.right.span, problem=problem)
        return ErrorSpec(node.span)

    def _tree(self, node: ast.Subscript) -> TypeSpec:
        """`Tree[-1]`, `Tree[-2]`, `Tree[...]`: how a field is like the weights."""
        match [argument.value for argument in node.arguments]:
            case [ast.EllipsisLiteral()]:
                return AnySpec(node.span, is_apart=True)
            case [ast.UnaryOp(op="-", operand=ast.IntLiteral(value=1 | 2 as axis))]:
                return AnySpec(node.span, unit=-axis)
        self._sink.error(E0204, at=node.span, problem="`Tree` takes -1, -2 or `...`: how a field is like the weights")
        return ErrorSpec(node.span)

    def _applied(self, node: ast.Subscript) -> TypeSpec:
        match node.value:
            case ast.Name(id="Tree") if self._names.alias("Tree") is None:
                return self._tree(node)
            case ast.Name(id="Tensor" | "Tile" | "KTile"):
                return self._tensor(node)
            case ast.Name(id="List"):
                return self._list(node)
            case ast.Name(id=head) if head in HEADS:
                return read_operator(self, self._sink, node, head) or ErrorSpec(node.span)
        return self._struct(node, node.value, node.arguments) or self._not_ours(node)

    def _list(self, node: ast.Subscript) -> TypeSpec:
        unnumbered = unnumbered_list(node, self._names.is_size)
        if unnumbered is not None:
            return self._foreign(node, unnumbered)
        if len(node.arguments) != 2:
            problem = "`List` takes a number and a type: `List[12, Block[D]]`"
            self._sink.error(E0204, at=node.span, problem=problem)
            return ErrorSpec(node.span)
        turned = turned_list(node)
        if turned is not None:
            return self._foreign(node, turned)
        number, type_ = (argument.value for argument in node.arguments)
        count, item = self.dim_spec(number), self.read(type_, type_.span)
        return ErrorSpec(node.span) if count is None else ListSpec(node.span, count, item)

    def _struct(
        self, node: ast.Expr, head: ast.Expr, arguments: tuple[ast.Argument, ...] | None
    ) -> TypeSpec | None:
        decl = self._names.struct(head)
        if decl is None:
            return None
        if arguments is None:
            return StructSpec(node.span, decl, None if decl.parameters else ())
        if len(arguments) == 1 and arguments[0].name is None and has_trees(StructSpec(node.span, decl, ())):
            return StructSpec(node.span, decl, (), tree=self.read(arguments[0].value, arguments[0].value.span))
        wanted, storage = len(decl.parameters), None
        if len(arguments) == wanted + 1 and any(leaves_dtype_open(field.spec) for field in decl.fields):
            element = self.element(arguments[-1].value)
            arguments, storage = (arguments[:-1], element) if isinstance(element, Storage) else (arguments, None)
        if len(arguments) != wanted or any(argument.name for argument in arguments):
            sizes = f"{wanted} size{'' if wanted == 1 else 's'}" if wanted else "no sizes"
            draft = self._sink.error(E0204, at=node.span, problem=f"`{decl.name}` takes {sizes}")
            draft.note(decl.span, "declared here")
            return ErrorSpec(node.span)
        args = [self.dim_spec(argument.value) for argument in arguments]
        known = tuple(arg for arg in args if arg is not None)
        return StructSpec(node.span, decl, known, storage) if len(known) == wanted else ErrorSpec(node.span)

    def _named(self, node: ast.Name) -> TypeSpec:
        if node.id == "Tensor":
            return BareTensorSpec(node.span)
        if node.id in HEADS:
            return OperatorSpec(node.span, (), None, node.id == "SpectralOperator")
        if node.id in RECORDS:
            return RecordSpec(node.span, node.id)
        if node.id in ("Tile", "KTile"):
            return BareTileSpec(node.span)
        if node.id in _SCALARS:
            return ScalarSpec(node.span, _SCALARS[node.id])
        struct = self._struct(node, node, None)
        if struct is not None:
            return struct
        alias = self._names.alias(node.id)
        if node.id == "Tree" and alias is None:
            return AnySpec(node.span)
        return self._element_type(node) if alias is None else self.read(alias, node.span)

    def _element_type(self, node: ast.Expr) -> TypeSpec:
        """A bare dtype is the type of a 0-d tensor."""
        element = self.element(node)
        if isinstance(element, ErrorElement):
            return ErrorSpec(node.span)
        if element is not None:
            return self._tensor_spec(node, False, (), element, node.span)
        return self._not_ours(node)

    def _not_ours(self, node: ast.Expr) -> TypeSpec:
        """A type as others write it is told and read as what is meant; all else is no type."""
        unnumbered = unnumbered_list(node, self._names.is_size) if isinstance(node, ast.Subscript) else None
        foreign = unnumbered or foreign_type(node)
        if foreign is None or self._names.is_reported(_first_name(_head(node))):
            return self._no_type(node)
        return self._foreign(node, foreign)

    def _foreign(self, node: ast.Expr, foreign: Foreign) -> TypeSpec:
        declaring = (self._declaring(foreign.size),) if self._declaring is not None and foreign.size else ()
        foreign.report(self._sink, *declaring)
        return ErrorSpec(node.span) if foreign.meant is None else self.read(foreign.meant, node.span)

    def _no_type(self, node: ast.Expr) -> ErrorSpec:
        head = _head(node)
        name = head.id if isinstance(head, ast.Name) else ""
        if self._names.is_reported(_first_name(head)):
            return ErrorSpec(node.span)
        if name in LATER_TYPES:
            self._sink.error(E0299, at=node.span, feature=f"the type `{name}`")
        elif isinstance(head, ast.Attribute) and isinstance(head.value, ast.Name):
            draft = self._sink.error(E0204, at=head.span, problem=f"`{head.value.id}.{head.name}` is not a type")
            draft.did_you_mean(head.name, self._names.type_names(head.value.id), head.name_span)
        elif name:
            known = [*self._names.type_names(), *TYPE_NAMES, *dtypes.spellings()]
            draft = self._sink.error(E0204, at=head.span, problem=f"`{name}` is not a type")
            draft.remark(
                "types are Tensor[dims, dtype], a dtype such as f32, int, bool, str, float, structs, tuples of types"
            ).did_you_mean(name, known, head.span)
        else:
            self._sink.error(E0204, at=node.span, problem="this is not a type")
        return ErrorSpec(node.span)

    def _optional(self, node: ast.BinaryOp) -> TypeSpec:
        sides = [side for side in (node.left, node.right) if not isinstance(side, ast.NoneLiteral)]
        if len(sides) != 1:
            self._sink.error(E0204, at=node.span, problem="`|` joins a type and None only")
            return ErrorSpec(node.span)
        return OptionalSpec(node.span, self.read(sides[0], sides[0].span))

    def _means_something(self, name: str) -> bool:
        return self._names.is_size(name) or self._names.alias(name) is not None

    def _tensor(self, node: ast.Subscript) -> TypeSpec:
        foreign = foreign_entries(node, self._means_something)
        if foreign is not None:
            return self._foreign(node, foreign)
        entries = [argument.value for argument in node.arguments]
        named = [argument for argument in node.arguments if argument.name is not None]
        if named:
            self._sink.error(E0204, at=named[0].span, problem="`Tensor` takes dims and a dtype, not named arguments")
            return ErrorSpec(node.span)
        element = self.element(entries[-1]) if entries else None
        element_span = entries[-1].span if element is not None else node.span
        if element is not None:
            entries.pop()
        leading = bool(entries) and isinstance(entries[0], ast.EllipsisLiteral)
        dims = [self.dim_spec(entry) for entry in entries[leading:]]
        if isinstance(element, ErrorElement) or any(dim is None for dim in dims):
            return ErrorSpec(node.span)
        found = tuple(dim for dim in dims if dim is not None)
        return self._tensor_spec(node, leading, found, element or AnyDType(), element_span)

    def _tensor_spec(
        self, node: ast.Expr, leading: bool, dims: tuple[DimSpec, ...], element: Element, element_span: Span
    ) -> TypeSpec:
        if len(dims) > MAX_DIMS:
            self._sink.error(E0316, at=node.span, label=f"a tensor has at most {MAX_DIMS} dims, not {len(dims)}")
            return ErrorSpec(node.span)
        try:
            if isinstance(element, Storage):
                element = Storage(element.dtype, placed_scale(element.dtype, element.policy, len(dims)))
        except PolicyError as error:
            self._sink.error(E0408, at=element_span, problem=str(error))
            return ErrorSpec(node.span)
        is_tile = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id != "Tensor"
        return TensorSpec(node.span, leading, dims, element, element_span, is_tile)

    def dim_spec(self, entry: ast.Expr) -> DimSpec | None:
        if isinstance(entry, ast.EllipsisLiteral):
            self._sink.error(E0204, at=entry.span, problem="`...` stands for leading dims, so it comes first")
            return None
        dim = self.dim(entry)
        return None if dim is None else DimSpec(dim, entry.span)

    def dim(self, node: ast.Expr) -> Dim | None:
        """The size an expression in a type stands for; None after a diagnostic."""
        try:
            return self._dim(node)
        except TooComplex as problem:
            self._sink.error(E0316, at=node.span, label=str(problem))
            return None
        except DimError as error:
            self._sink.error(E0204, at=node.span, problem=str(error))
            return None

    def _dim(self, node: ast.Expr) -> Dim | None:
        match node:
            case ast.IntLiteral(value=value):
                return Dim.const(value)
            case ast.Name(id=name):
                return self._names.dim(name, node.span)
            case ast.StringLiteral(value=text):
                return self._quoted_dim(text, node.span)
            case ast.UnaryOp(op="-", operand=operand):
                inner = self._dim(operand)
                return None if inner is None else -inner
            case ast.BinaryOp(op=op) if op in _DIM_OPERATORS:
                left, right = self._dim(node.left), self._dim(node.right)
                return None if left is None or right is None else _DIM_OPERATORS[op](left, right)
            case ast.Call(function=ast.Name(id=name)) if name in _DIM_FUNCTIONS and len(node.arguments) == 2:
                left, right = (self._dim(argument.value) for argument in node.arguments)
                return None if left is None or right is None else _DIM_FUNCTIONS[name](left, right)
        draft = self._sink.error(E0204, at=node.span, problem="this is not a size")
        draft.remark(_OF_FIELDS if isinstance(node, ast.Attribute) else _OF_NAMES)
        return None

    def _quoted_dim(self, text: str, span: Span) -> Dim | None:
        dim = parse_dim(text)
        values: dict[str, Dim] = {}
        for name in sorted(dim.symbols()):
            if "." in name:
                raise DimError(f"`{name}` is not a size")
            value = self._names.dim(name, span)
            if value is None:
                return None
            values[name] = value
        return dim.substitute(values)

    def element(self, node: ast.Expr, bound: Mapping[str, Element] = NOTHING_BOUND) -> Element | None:
        """The dtype, with its policy, that an expression names; None if it is not one. `bound` are names that the
        type itself gives to dtypes."""
        match node:
            case ast.Name(id=name) if name in bound:
                return bound[name]
            case ast.Name(id=name):
                dtype = dtypes.lookup(name)
                alias = self._names.alias(name) if dtype is None else None
                if alias is not None:
                    return self.element(alias)
                return Storage(dtype, NO_POLICY) if dtype else None
            case ast.StringLiteral(value=text):
                dtype = dtypes.lookup(text)
                return Storage(dtype, NO_POLICY) if dtype else None
            case ast.Call(function=ast.Name(id=head), arguments=(ast.Argument(value=ast.Name(id=form)),)):
                dtype = dtypes.lookup(f"{head}({form})")
                return Storage(dtype, NO_POLICY) if dtype else None
            case ast.Attribute(value=ast.Name(id=name), name="dtype"):
                return DTypeOf(name)
            case ast.BinaryOp(op="@"):
                base = self.element(node.left, bound)
                return self._with_policy(base, node.right) if isinstance(base, Storage) else base
        return None

    def _with_policy(self, base: Storage, attribute: ast.Expr) -> Element:
        try:
            return Storage(base.dtype, fitting(base.dtype, read_attribute(base.policy, attribute)))
        except PolicyError as error:
            draft = self._sink.error(E0408, at=attribute.span, problem=str(error))
            draft.remark("policies are @accum(dtype), @saturate, @stochastic_round, @loss_scale(n), @scale(axis=n)")
            name = attribute.function if isinstance(attribute, ast.Call) else attribute
            if isinstance(name, ast.Name) and name.id not in ATTRIBUTE_NAMES:
                draft.did_you_mean(name.id, ATTRIBUTE_NAMES, name.span)
            return ErrorElement()


def read_attribute(policy: Policy, node: ast.Expr) -> Policy:
    """`policy` with the attribute that stands after an `@`. Raises PolicyError."""
    match node:
        case ast.Name(id=name):
            return with_attribute(policy, name, None)
        case ast.Call(function=ast.Name(id=name), arguments=(ast.Argument() as argument,)):
            prefix = f"{argument.name}=" if argument.name else ""
            return with_attribute(policy, name, prefix + _attribute_text(argument.value))
    raise PolicyError("this is not a policy of a dtype")


def _head(node: ast.Expr) -> ast.Expr:
    return node.value if isinstance(node, ast.Subscript) else node


def _first_name(node: ast.Expr) -> str:
    """`torch` of `torch.Tensor`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _attribute_text(node: ast.Expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.IntLiteral(value=value):
            return str(value)
        case ast.UnaryOp(op="-", operand=ast.IntLiteral(value=value)):
            return str(-value)
        case ast.Call(function=ast.Name(id=head), arguments=(ast.Argument(value=ast.Name(id=form)),)):
            return f"{head}({form})"
    raise PolicyError("the argument of a policy is a dtype or a number")


def _attributed(node: ast.Expr) -> ast.Expr:
    """What stands before the first `@`."""
    while isinstance(node, ast.BinaryOp) and node.op == "@":
        node = node.left
    return node
