"""How a function looks from outside the language: its interface, and the types that a call from Python chooses.

Enters: a checked module. Leaves: the runtime's `ModuleInterface`, and the argument types that pick an instance.
"""

from __future__ import annotations

from tessera.interface import (
    MISSING,
    ArrayKind,
    Choice,
    FunctionInterface,
    Missing,
    ModuleInterface,
    Parameter,
    Specialization,
    Static,
)
from tesserac.check.infer import CheckResult
from tesserac.check.specs import ParameterSpec, ScalarSpec, Storage, TensorSpec
from tesserac.syntax import ast
from tesserac.types import dtype as dtypes
from tesserac.types.dims import Dim
from tesserac.types.ty import BoolType, FloatType, IntType, NoneType, StrType, TensorType, Type

__all__ = ["ModuleInterface", "Specialization", "argument_types", "interface_of"]


def interface_of(result: CheckResult) -> ModuleInterface:
    """Every function that a caller may name, private ones left out."""
    names = [name for name in result.checker.names.functions if not name.startswith("_")]
    return ModuleInterface(tuple(_function(result, name) for name in names))


def _function(result: CheckResult, name: str) -> FunctionInterface:
    signature = result.checker.own_signature(name)
    parameters = tuple(_parameter(p) for p in signature.parameters)
    return FunctionInterface(name, parameters, signature.node.doc or "")


def _parameter(parameter: ParameterSpec) -> Parameter:
    return Parameter(parameter.name, _kind(parameter), parameter.keyword_only, _default(parameter.default))


def _kind(parameter: ParameterSpec) -> str:
    spec = parameter.spec
    if isinstance(spec, ScalarSpec):
        return "tensor" if spec.kind == "float" else "static"
    fixed = isinstance(spec, TensorSpec) and not spec.leading and isinstance(spec.element, Storage)
    return "tensor" if fixed else "generic"


def _default(node: ast.Expr | None) -> Static | Missing:
    match node:
        case ast.IntLiteral() | ast.FloatLiteral() | ast.BoolLiteral() | ast.StringLiteral():
            return node.value
        case ast.UnaryOp(op="-", operand=ast.IntLiteral() | ast.FloatLiteral() as number):
            return -number.value
        case ast.NoneLiteral():
            return None
    return MISSING


def argument_types(result: CheckResult, name: str, chosen: Specialization) -> list[Type]:
    """One type per parameter: as declared, or as the call's compile-time arguments say."""
    choices = dict(chosen)
    return [_argument_type(p, choices) for p in result.checker.own_signature(name).parameters]


def _argument_type(parameter: ParameterSpec, choices: dict[str, Choice]) -> Type:
    if parameter.name in choices:
        return _chosen_type(parameter.name, choices[parameter.name])
    spec = parameter.spec
    if isinstance(spec, TensorSpec) and isinstance(spec.element, Storage):
        return TensorType(tuple(d.dim for d in spec.dims), spec.element.dtype, spec.element.policy)
    return FloatType()


def _chosen_type(name: str, choice: Choice) -> Type:
    match choice:
        case ArrayKind(dtype=dtype, rank=rank):
            dims = tuple(Dim.sym(f"{name.capitalize()}{axis}") for axis in range(rank))
            return TensorType(dims, _dtype_of(dtype))
        case bool():
            return BoolType(choice)
        case int():
            return IntType(Dim.const(choice))
        case float():
            return FloatType(choice)
        case str():
            return StrType(choice)
    return NoneType()


def _dtype_of(numpy_name: str) -> dtypes.DType:
    found = next((d for d in dtypes.ALL if d.numpy_name == numpy_name), None)
    if found is None:
        raise KeyError(f"no dtype is stored as {numpy_name}")
    return found
