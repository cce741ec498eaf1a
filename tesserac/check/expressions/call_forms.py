"""Calls as they are written: `f(x)`, `x.f()`, `op.f(x)`.

Enters: a call of the syntax tree. Leaves: what it means, applied. A method is the function of that name
with the value as its first argument.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.resources import of_library
from tesserac.base.source import Span
from tesserac.check.algebra import rules as algebra
from tesserac.check.calls.builtins import call_builtin
from tesserac.check.calls.construct import construct, read_sizes
from tesserac.check.calls.function_values import call_closure, call_declared
from tesserac.check.calls.functions import call_function
from tesserac.check.declarations.schedules import call_schedule_method, make_schedule, with_schedule
from tesserac.check.expressions.attributes import (
    container_of,
    field_of,
    no_member,
    unknown_attribute,
)
from tesserac.check.expressions.operations import raised
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.model.specs import StructDecl
from tesserac.check.names.foreign_methods import module_method_here, words_on_module
from tesserac.check.names.refs import (
    ALGEBRA,
    TRANSFORMS,
    BuiltinRef,
    ConstantRef,
    DTypeRef,
    FunctionRef,
    LibraryRef,
    ModuleRef,
    NamespaceRef,
    OperatorRef,
    ParamRef,
    ReportedRef,
    Resolved,
    StructRef,
)
from tesserac.check.names.struct_items import method_name
from tesserac.check.operators.calls import call_operator
from tesserac.check.operators.extremes import EXTREMES, are_numbers, extreme
from tesserac.check.operators.ported_meaning import refuses_order
from tesserac.check.places.iteration import numbers_alone
from tesserac.check.places.updates import call_update, is_update
from tesserac.check.state.arguments import Arg, Callee, check_arguments
from tesserac.check.state.body import Body
from tesserac.check.values.dicts import METHODS, call_dict_method
from tesserac.check.values.globals import BUILT_IN, global_value
from tesserac.check.values.kinds import QUESTION, infer_isinstance
from tesserac.check.values.methods import CALLED, CALLED_ELSEWHERE, TOLD, method_of_struct
from tesserac.check.values.rewriting import is_statement, whole_lines
from tesserac.check.values.tuples import make_tuple, tuple_items
from tesserac.check.values.type_values import dtype_call
from tesserac.check.values.unknown_names import tell_of_no_function, tell_of_other_module, unknown_name
from tesserac.diag.codes.names import E0205, E0207, E0208, E0210
from tesserac.diag.sink import Draft
from tesserac.ops.elementwise import Power
from tesserac.ops.rearrange import Diagonal
from tesserac.ops.registry import Operator
from tesserac.syntax import ast
from tesserac.types.dtype import BOOL
from tesserac.types.ty import (
    Aggregate,
    DictType,
    ErrorType,
    FloatType,
    FunctionType,
    ListType,
    OperatorType,
    RecordType,
    StructType,
    TensorType,
    TransformType,
    TupleType,
    Type,
)


def infer_call(body: Body, node: ast.Call) -> typed.Expr:
    function = node.function
    if is_update(node):
        return call_update(body, node)
    if isinstance(function, ast.Attribute):
        return _call_attribute(body, node, function)
    dtype = dtype_call(node)
    if dtype is not None:
        return typed.Static(dtype, node.span)
    if isinstance(function, ast.Name) and not _is_local(body, function.id):
        return _call_global(body, node, function)
    if isinstance(function, ast.Subscript):
        decl = body.rules.struct(function.value)
        if decl is not None:
            return _construct_applied(body, decl, node, function)
    return call_value(body, body.expression(function), node)


def _is_local(body: Body, name: str) -> bool:
    return name in body.scope.bindings or name in body.scope.half_bound or name in body.sizes.symbols


def _call_global(body: Body, node: ast.Call, function: ast.Name) -> typed.Expr:
    """A call of a name that means something outside the function."""
    meaning = body.rules.resolve(function.id)
    if meaning == BuiltinRef(QUESTION):
        return infer_isinstance(body, node)
    if meaning is None:
        told = unknown_name(body, function, node)
        return body.error(node.span) if told.instead is None else body.expression(told.instead)
    if meaning == BuiltinRef("range"):
        items = numbers_alone(body, node)
        return body.error(node.span) if items is None else make_tuple(items, node.span)
    return _call_meant(body, node, meaning, Callee(function.id, function.span, node.span))


def _call_meant(body: Body, node: ast.Call, meaning: Resolved | None, callee: Callee) -> typed.Expr:
    if isinstance(meaning, ReportedRef):
        return body.error(node.function.span)
    if isinstance(meaning, ConstantRef | ParamRef):
        return call_value(body, body.expression(node.function), node)
    return call_meaning(body, meaning, check_arguments(body, node.arguments), callee)


def _construct_applied(body: Body, decl: StructDecl, node: ast.Call, applied: ast.Subscript) -> typed.Expr:
    """`MLP[8, 16, 4](...)`."""
    read = read_sizes(body, decl, applied)
    args, callee = check_arguments(body, node.arguments), Callee(decl.name, applied.span, node.span)
    if read is None:
        return body.error(node.span)
    sizes, storage = read
    return construct(body, decl, sizes, args, callee, storage)


def call_value(body: Body, value: typed.Expr, node: ast.Call) -> typed.Expr:
    """A call of a value: of a function, or of a struct, which is one of its `apply`."""
    at = node.function.span
    if isinstance(value.type, FunctionType):
        return call_function_value(body, value, node)
    if isinstance(value.type, TransformType):
        callee = Callee(value.type.transform, at, node.span)
        return _call_transform(body, value, check_arguments(body, node.arguments), callee)
    if isinstance(value.type, StructType):
        return _call_struct(body, value, value.type, node)
    if isinstance(value.type, OperatorType):
        args = [Arg(None, value.span, value), *check_arguments(body, node.arguments)]
        return algebra.call_rule(body, "apply", args, Callee("apply", at, node.span))
    if not isinstance(value.type, ErrorType):
        tell_of_no_function(body, node, value)
    return body.error(node.span)


def _call_struct(body: Body, value: typed.Expr, type_: StructType, node: ast.Call) -> typed.Expr:
    """`net(x)` is `net.apply(x)`; who names that method as another tool does is told so."""
    at, args = node.function.span, check_arguments(body, node.arguments)
    methods = body.rules.methods(type_)
    if CALLED in methods:
        return call_method(body, value, CALLED, args, at, node.span)
    if TOLD in methods:
        return body.error(node.span)
    draft = body.sink.error(E0208, at=at, what=f"`{type_.name}`", name=CALLED)
    draft.remark(f"calling a struct calls its method `{CALLED}`")
    for name in sorted(methods & CALLED_ELSEWHERE):
        draft.replace(f"rename `{name}` to `{CALLED}`, or call it by its name", at, f"{body.rules.text(at)}.{name}")
    return body.error(node.span)


def call_function_value(body: Body, value: typed.Expr, node: ast.Call) -> typed.Expr:
    """A call of a function that is a value; one declared `fn(A) -> B` is held to that."""
    assert isinstance(value.type, FunctionType)
    type_, args = value.type, check_arguments(body, node.arguments)
    callee = Callee(type_.name.partition("$")[0], node.function.span, node.span)

    def call(given: Sequence[Arg]) -> typed.Expr:
        return _call_value_of(body, value, given, callee)

    name = node.function.id if isinstance(node.function, ast.Name) else ""
    declared = body.declared.function_specs.get(name) if isinstance(value, typed.Local | typed.Static) else None
    if declared is None or body.scope.bindings[name].value is not None:
        return call(args)
    return call_declared(body, declared, args, Callee(name, node.function.span, node.span), call)


def call_method(body: Body, value: typed.Expr, name: str, args: list[Arg], at: Span, span: Span) -> typed.Expr:
    """`value.name(args)`, a method of a struct."""
    type_ = value.type
    assert isinstance(type_, StructType)
    if name not in body.rules.methods(type_):
        draft = body.sink.error(E0208, at=at, what=f"`{type_.name}`", name=name)
        if not _is_of_module(body, draft, name, value.span, span):
            draft.did_you_mean(name, sorted(body.rules.methods(type_)), at)
        return body.error(span)
    ref = FunctionRef(type_.module, method_name(type_.name, name))
    return call_function(body, ref, [Arg(None, value.span, value), *args], Callee(ref.name, at, span))


def _is_of_module(body: Body, draft: Draft, name: str, receiver: Span, call: Span) -> bool:
    """Whether a method that a struct has not is one of PyTorch's modules, which is told."""
    made, words = module_method_here(name), words_on_module(name)
    if made is not None and is_statement(body, call):
        draft.replace(made, whole_lines(body, call), "", advice=made)
    elif made is not None:
        draft.replace(made, Span(call.file, receiver.end, call.end), "", advice=made)
    elif words is not None:
        draft.remark(words)
    return made is not None or words is not None


def call_meaning(body: Body, meaning: Resolved | None, args: list[Arg], callee: Callee) -> typed.Expr:
    """A call of what a name outside the function means."""
    rule = _algebra_rule(meaning, args)
    return algebra.call_rule(body, rule, args, callee) if rule else _call_other(body, meaning, args, callee)


def _call_other(body: Body, meaning: Resolved | None, args: list[Arg], callee: Callee) -> typed.Expr:
    match meaning:
        case FunctionRef():
            return call_function(body, meaning, args, callee)
        case OperatorRef(op):
            return _call_op(body, op, args, callee)
        case BuiltinRef(name):
            return _call_known(body, name, args, callee)
        case StructRef():
            decl = body.rules.own_struct(meaning)
            sizes = None if decl is None or decl.parameters else ()
            return body.error(callee.span) if decl is None else construct(body, decl, sizes, args, callee)
        case ReportedRef():
            return body.error(callee.at)
        case DTypeRef() | LibraryRef() | ModuleRef() | NamespaceRef():
            draft = body.sink.error(E0207, at=callee.at, what=f"`{callee.name}`")
            if isinstance(meaning, DTypeRef) and len(args) == 1 and args[0].name is None:
                text = body.rules.text(args[0].span)
                cast = f"cast({text}, {callee.name})"
                draft.replace("a dtype is no function; cast to it", callee.span, cast, advice=f"here it is `{cast}`")
    return body.error(callee.span)


def _call_op(body: Body, op: type[Operator], args: list[Arg], callee: Callee) -> typed.Expr:
    """A call of a tensor operator, or of what stands for it with these arguments."""
    if op.name in EXTREMES and are_numbers(args):
        return extreme(body, op.name, args, callee)
    if op.name in EXTREMES and _are_values(args):
        return _of_two(body, op.name, args, callee)
    if op is Power and len(args) == 2 and all(arg.name is None for arg in args):
        return _raised(body, args[0].value, args[1].value, callee)
    if (fuller := _with_options(body, op, args, callee)) is not None:
        return call_function(body, fuller, args, callee)
    if op.of_trees and len(args) == 1 and isinstance(args[0].value.type, Aggregate | ListType):
        return _of_leaves(body, op, args[0], callee)
    return call_operator(body, op, args, callee)


def _raised(body: Body, left: typed.Expr, right: typed.Expr, callee: Callee) -> typed.Expr:
    """`power(x, y)` as NumPy has it, which is `x ** y`."""
    wrong = any(isinstance(value.type, ErrorType) for value in (left, right))
    return body.error(callee.span) if wrong else raised(body, left, right, callee.at, callee.span)


def _of_leaves(body: Body, op: type[Operator], tree: Arg, callee: Callee) -> typed.Expr:
    """The operator of every tensor of a tree."""
    from tesserac.check.calls.trees import map_leaves

    def apply(leaves: Sequence[typed.Expr]) -> typed.Expr:
        return call_operator(body, op, [Arg(tree.name, leaf.span, leaf) for leaf in leaves], callee)

    return map_leaves(body, [tree.value], callee, apply)


def _with_options(body: Body, op: type[Operator], args: Sequence[Arg], callee: Callee) -> FunctionRef | None:
    """The library's function around an operator, where an argument is an option that only that has, or has a dtype that
    only it takes: this in a program alone, for the library casts what it computes back to the dtype that it was."""
    found = next((op.more_options[arg.name] for arg in args if arg.name and arg.name in op.more_options), None)
    if found is None and op is Diagonal and sum(arg.name is None for arg in args) > 1:
        found = op.more_options["offset"]
    if found is None and op.of_integers is not None and not of_library(callee.at.file):
        found = op.of_integers if any(_is_whole(arg.value.type) for arg in args) else None
    meaning = None if found is None else body.rules.library(found)
    return meaning if isinstance(meaning, FunctionRef) else None


def _is_whole(type_: Type) -> bool:
    if not isinstance(type_, TensorType) or type_.policy.scale_axis is not None:
        return False
    return type_.dtype.is_integer or type_.dtype == BOOL


def _call_known(body: Body, name: str, args: list[Arg], callee: Callee) -> typed.Expr:
    """A call of a function that the checker itself knows."""
    if name == "Schedule":
        return make_schedule(body, args, callee)
    if name == "pipeline":
        return _pipeline(body, args, callee)
    if name == "tree_map":
        from tesserac.check.calls.trees import tree_map

        return tree_map(body, args, callee, _call_value_of)
    if name == "leaves":
        from tesserac.check.calls.trees import tree_leaves

        return tree_leaves(body, args, callee)
    if name in TRANSFORMS:
        from tesserac.check.transforms.dispatch import make_transform  # ten modules that most programs do not ask for

        return make_transform(body, name, args, callee, _call_value_of)
    return call_builtin(body, name, args, callee)


def _algebra_rule(meaning: Resolved | None, args: Sequence[Arg]) -> str:
    """The rule for operators that a call means: by its name, or since `norm` or `expm` is given one; empty if none."""
    match meaning:
        case BuiltinRef(name) if name.startswith(ALGEBRA):
            return name.removeprefix(ALGEBRA)
        case FunctionRef(owner=owner, name=name) if owner.startswith("stdlib.") and algebra.takes(name, args):
            return name
        case OperatorRef(op) if algebra.takes(op.name, args):
            return op.name
    return ""


def _pipeline(body: Body, args: list[Arg], callee: Callee) -> typed.Expr:
    """`op.pipeline([v, f, g])` is `g(f(v))`."""
    stages = args[0].value if len(args) == 1 and args[0].name is None else None
    if stages is None or not isinstance(stages.type, TupleType) or not stages.type.items:
        problem = "`pipeline` takes a list: a value, and functions to apply one after the other"
        body.sink.error(E0205, at=callee.at, problem=problem)
        return body.error(callee.span)
    value, *functions = tuple_items(stages, callee.span)
    for function in functions:
        if isinstance(function.type, OperatorType):
            value = algebra.call_rule(body, "apply", [Arg(None, v.span, v) for v in (function, value)], callee)
            continue
        if not isinstance(function.type, FunctionType):
            body.sink.error(E0207, at=stages.span, what=type_text(function.type))
            return body.error(callee.span)
        named = Callee(function.type.name.partition("$")[0], callee.at, callee.span)
        value = _call_value_of(body, function, [Arg(None, value.span, value)], named)
    return value


def _call_transform(body: Body, value: typed.Expr, args: Sequence[Arg], callee: Callee) -> typed.Expr:
    from tesserac.check.transforms.dispatch import call_transform

    return call_transform(body, value, args, callee, _call_value_of)


def _call_value_of(body: Body, function: typed.Expr, args: Sequence[Arg], callee: Callee) -> typed.Expr:
    """A call of a function that is a value: of the language itself, or of a module."""
    if isinstance(function.type, TransformType):
        return _call_transform(body, function, args, callee)
    assert isinstance(function.type, FunctionType)
    if function.type.module == BUILT_IN and function.type.name.startswith(ALGEBRA):
        return call_meaning(body, BuiltinRef(function.type.name), list(args), callee)
    if function.type.module == BUILT_IN:
        return call_meaning(body, body.rules.library(function.type.name), list(args), callee)
    return call_closure(body, function, args, callee)


def _are_values(args: Sequence[Arg]) -> bool:
    """Whether these are two values, the second of which is no axis: `max(a, b)`."""
    second = args[1].value.type if len(args) == 2 and args[1].name is None else None
    is_pair = isinstance(second, TensorType) and isinstance(args[0].value.type, TensorType)
    return is_pair or isinstance(second, FloatType)


def _of_two(body: Body, name: str, args: Sequence[Arg], callee: Callee) -> typed.Expr:
    """`max` is the largest element along axes; of two values, element by element, it is `maximum`."""
    found, own = type_text(args[1].value.type), EXTREMES[name].name
    expected = "an axis: a position or the name of a dim"
    draft = body.sink.error(E0210, at=args[1].value.span, expected=expected, found=found)
    draft.remark(f"`{name}(x)` is over the elements of one tensor; of two, element by element, it is `{own}(a, b)`")
    draft.replace(f"take the `{own}` of both", callee.at, own)
    return body.error(callee.span)


def _call_attribute(body: Body, node: ast.Call, function: ast.Attribute) -> typed.Expr:
    """`op.name(...)`, or a method: the function of that name with the value as its first argument."""
    callee = Callee(function.name, function.name_span, node.span)
    base = function.value
    if (told := tell_of_other_module(body, function, node)) is not None:
        return body.error(node.span) if told.instead is None else body.expression(told.instead)
    container = container_of(body, base)
    if container is not None:
        meaning = body.rules.member(container, function.name)
        if meaning is None:
            no_member(body, container, function)
        return _call_meant(body, node, meaning, callee)
    method = method_of_struct(body, function)
    if method is not None:
        return call_function(body, method, check_arguments(body, node.arguments), callee)
    receiver = body.expression(base)
    if isinstance(receiver.type, ErrorType):
        return receiver
    own = _own_method(body, receiver, node, function)
    if own is not None:
        return own
    meaning = body.rules.resolve(function.name)
    if isinstance(meaning, ReportedRef):
        return body.error(function.name_span)
    other = _other_name(body, meaning, function)
    of_numbers = isinstance(receiver.type, TensorType) and meaning in (BuiltinRef("float"), BuiltinRef("int"))
    if of_numbers or (other is None and not isinstance(meaning, FunctionRef | OperatorRef | BuiltinRef)):
        unknown_attribute(body, receiver.type, function, node)
        return body.error(node.span)
    args = [Arg(None, base.span, receiver), *check_arguments(body, node.arguments)]
    if refuses_order(body, callee, args):
        return body.error(node.span)
    return call_meaning(body, meaning, args, callee) if other is None else _call_value_of(body, other, args, callee)


def _other_name(body: Body, meaning: Resolved | None, function: ast.Attribute) -> typed.Expr | None:
    """The function that a constant is another name of: `clip = clamp`."""
    if not isinstance(meaning, ConstantRef):
        return None
    value = global_value(body, ast.Name(function.name_span, function.name), meaning)
    return value if isinstance(value.type, FunctionType) else None


def _is_function(body: Body, function: ast.Attribute) -> bool:
    """Whether a name that dicts do not have themselves is that of a function, which takes one first."""
    meaning = body.rules.resolve(function.name)
    named = isinstance(meaning, FunctionRef | ReportedRef) or _other_name(body, meaning, function) is not None
    return function.name not in METHODS and named


def _own_method(body: Body, receiver: typed.Expr, node: ast.Call, function: ast.Attribute) -> typed.Expr | None:
    """A method that values of this type have for themselves; None where it is a function of that name."""
    match receiver.type:
        case StructType() as struct if struct.position(function.name) is not None:
            return call_value(body, field_of(body, receiver, function), node)
        case StructType():
            args = check_arguments(body, node.arguments)
            return call_method(body, receiver, function.name, args, function.name_span, node.span)
        case DictType() if not _is_function(body, function):
            return call_dict_method(body, receiver, node, Callee(function.name, function.name_span, node.span))
        case RecordType(kind="Schedule") as schedule:
            args = check_arguments(body, node.arguments)
            return call_schedule_method(body, schedule, function.name, function.name_span, args, node.span)
        case FunctionType() | TransformType() if function.name == "with_schedule":
            return with_schedule(body, receiver, check_arguments(body, node.arguments), node.span)
    return None
