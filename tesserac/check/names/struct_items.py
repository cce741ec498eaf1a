"""The functions that a struct is made of: its methods, the values of its fields, and its construction from outside.

Enters: a struct of the syntax tree. Leaves: definitions of functions, which are checked and called like any other.

    struct Linear[D, H]:                  def `Linear.apply`(self: Linear[D, H], x: Tensor[B, D, f32]): ...
        w: Tensor[D, H, f32] = ones(D, H) def `Linear.w$init`(D: int, H: int) -> Tensor[D, H, f32]: return ones(D, H)
        def apply(self, x: ...): ...      def `Linear$new`(D: int, H: int, seed: u64): return Linear[D, H](seed=seed)

A field without a value of its own may be a struct that has one: `Net.head$new` makes it, where other fields are given.
An initialiser may read ints, bools and strings that are fields before it; it takes them behind the sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tessera.interface import TEST_PREFIX
from tesserac.base.source import Span
from tesserac.syntax import ast
from tesserac.syntax.walk import descendants

SELF = "self"
"""The first parameter of a method."""
COMPILE_TIME = ("int", "bool", "str")
"""Kinds of fields that compiling knows."""
NUMBERS = (*COMPILE_TIME, "float")
"""Kinds of fields that the initial values of those behind them may read."""
SEED = "seed"
"""What every struct takes beside its fields: where the random numbers of its initialisers start."""
_INIT, _NEW, _DEFAULT = "$init", "$new", "$default"
"""A `$` is in no name that a program can write."""
_LITERALS = (ast.IntLiteral, ast.FloatLiteral, ast.BoolLiteral, ast.NoneLiteral, ast.StringLiteral)


def method_name(struct: str, method: str) -> str:
    return f"{struct}.{method}"


def initialiser_name(struct: str, field: str) -> str:
    return f"{struct}.{field}{_INIT}"


def constructor_name(struct: str) -> str:
    return f"{struct}{_NEW}"


def is_constructor(name: str) -> bool:
    """Whether this is a function that only puts initialisers together, which are checked themselves."""
    return name.endswith(_NEW)


def test_name(title: str) -> str:
    """The name of a test block as a function; a space is in no name that a program can write."""
    return f"{TEST_PREFIX}{title}"


def test_function(block: ast.TestBlock) -> ast.FunctionDef:
    """A test block is a function without parameters that returns nothing."""
    name, span = test_name(block.name.value), block.name.span
    return ast.FunctionDef(block.span, (), name, span, (), ast.NoneLiteral(span), (), None, None, block.body)


def is_test(name: str) -> bool:
    return name.startswith(TEST_PREFIX)


def initial_of_param(param: ast.ParamDecl, init: ast.Expr) -> ast.FunctionDef:
    """The initial value of a param of the module, as a function without parameters."""
    body = (ast.Return(init.span, init),)
    name, span = f"{param.name}{_INIT}", param.name_span
    return ast.FunctionDef(param.span, (), name, span, (), param.annotation, (), None, None, body)


def default_name(function: str, parameter: str) -> str:
    return f"{function}.{parameter}{_DEFAULT}"


def tensor_defaults(function: ast.FunctionDef) -> Iterator[ast.FunctionDef]:
    """The defaults of parameters that are tensors and are not numbers: for calls from outside, which have no place
    where such a value could be written."""
    for parameter in function.parameters:
        if parameter.default is not None and _is_tensor(parameter.annotation) and _is_computed(parameter.default):
            name, value = default_name(function.name, parameter.name), parameter.default
            body = (ast.Return(value.span, value),)
            yield ast.FunctionDef(value.span, (), name, parameter.name_span, (), None, (), None, None, body)


def _is_tensor(annotation: ast.Expr | None) -> bool:
    head = annotation.value if isinstance(annotation, ast.Subscript) else None
    return isinstance(head, ast.Name) and head.id == "Tensor"


def _is_computed(value: ast.Expr) -> bool:
    return not isinstance(value.operand if isinstance(value, ast.UnaryOp) else value, _LITERALS)


def functions_of(struct: ast.StructDef) -> Iterator[ast.FunctionDef]:
    for method in struct.methods:
        yield _method(struct, method)
    for field in struct.fields:
        if field.init is not None:
            name = initialiser_name(struct.name, field.name)
            made = _of_sizes(struct, name, field.name_span, field.annotation, field.init)
            before = [other for other in struct.fields[: struct.fields.index(field)] if is_read(other.name, field.init)]
            taken = (_taken(other) for other in before if is_compile_time(other.annotation))
            yield replace(made, parameters=(*made.parameters, *taken))
        else:
            yield _constructor(struct, f"{struct.name}.{field.name}", _made_of(field.annotation))
    yield _constructor(struct, struct.name, _constructed(_applied(struct, struct.name_span)))


def is_read(name: str, initial: ast.Expr) -> bool:
    """Whether the initial value of a field names another."""
    return any(isinstance(part, ast.Name) and part.id == name for part in (initial, *descendants(initial)))


def is_compile_time(annotation: ast.Expr) -> bool:
    """Whether a field is a number that compiling knows, as the count of heads is."""
    return isinstance(annotation, ast.Name) and annotation.id in NUMBERS


def _taken(field: ast.FieldDef) -> ast.Parameter:
    return ast.Parameter(field.span, field.name, field.name_span, field.annotation, None, False)


def _constructor(struct: ast.StructDef, what: str, construction: ast.Expr) -> ast.FunctionDef:
    span = struct.name_span
    made = _of_sizes(struct, constructor_name(what), span, None, construction)
    taken = ast.Parameter(span, SEED, span, ast.Name(span, "u64"), None, False)
    return replace(made, parameters=(*made.parameters, taken))


def _constructed(type_: ast.Expr, seed: ast.Expr | None = None) -> ast.Expr:
    span = type_.span
    return ast.Call(span, type_, (ast.Argument(span, SEED, span, seed or ast.Name(span, SEED)),))


def _made_of(annotation: ast.Expr) -> ast.Expr:
    """`Block[D](seed=seed)`; of a `List[N, Block[D]]` each item with a seed of its own, as in a whole struct."""
    span = annotation.span
    match annotation:
        case ast.Subscript(value=ast.Name(id="List"), arguments=(count, item)):
            place, folder = ast.Name(span, "_"), ast.Attribute(span, ast.Name(span, "op"), "fold_in", span)
            parts = (ast.Argument(span, None, span, part) for part in (ast.Name(span, SEED), place))
            each = ast.Call(span, ast.Name(span, "range"), (count,))
            element = _constructed(item.value, ast.Call(span, folder, tuple(parts)))
            return ast.ListComprehension(span, element, (ast.ComprehensionClause(span, place, each, ()),))
    return _constructed(annotation)


def forgotten_self(method: ast.FunctionDef) -> ast.Name | None:
    """Where a method first reads `self`, if it has no such parameter."""
    if any(parameter.name == SELF for parameter in method.parameters):
        return None
    return next((n for s in method.body for n in descendants(s) if isinstance(n, ast.Name) and n.id == SELF), None)


def _method(struct: ast.StructDef, method: ast.FunctionDef) -> ast.FunctionDef:
    """The method as a function whose first parameter is of the struct's type, if nothing else is said."""
    name = method_name(struct.name, method.name)
    if forgotten_self(method) is not None:  # told with the struct
        own = ast.Parameter(method.name_span, SELF, method.name_span, None, None, keyword_only=False)
        method = replace(method, parameters=(own, *method.parameters))
    if not method.parameters or method.parameters[0].annotation is not None:
        return replace(method, name=name)
    first, *rest = method.parameters
    typed = replace(first, annotation=_applied(struct, first.name_span))
    return replace(method, name=name, parameters=(typed, *rest))


def _of_sizes(
    struct: ast.StructDef, name: str, span: Span, returns: ast.Expr | None, value: ast.Expr
) -> ast.FunctionDef:
    parameters = tuple(
        ast.Parameter(size.span, size.id, size.span, ast.Name(size.span, "int"), None, False)
        for size in struct.parameters
    )
    body = (ast.Return(value.span, value),)
    return ast.FunctionDef(struct.span, (), name, span, parameters, returns, (), None, None, body)


def _applied(struct: ast.StructDef, span: Span) -> ast.Expr:
    """`MLP[D, H, C]`, the struct with its own sizes."""
    name = ast.Name(span, struct.name)
    if not struct.parameters:
        return name
    sizes = tuple(ast.Argument(span, None, span, ast.Name(span, size.id)) for size in struct.parameters)
    return ast.Subscript(span, name, sizes)
