"""The nodes of the syntax tree that are expressions, types among them; read as `ast.Name` and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span

if TYPE_CHECKING:
    from tesserac.syntax.ast import Parameter

UnaryOperator = Literal["-", "+", "~", "not"]
BinaryOperator = Literal["+", "-", "*", "/", "//", "%", "@", "∘", "**", "<<", ">>", "&", "|", "^"]
ComparisonOperator = Literal["<", "<=", ">", ">=", "==", "!=", "in", "not in", "is", "is not"]


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    span: Span


# ----------------------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True, eq=False)
class Name(Node):
    id: str


@dataclass(frozen=True, slots=True, eq=False)
class IntLiteral(Node):
    value: int


@dataclass(frozen=True, slots=True, eq=False)
class FloatLiteral(Node):
    """`text` is kept: a literal is rounded once, to the dtype it meets, which need not be f64."""

    value: float
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class BoolLiteral(Node):
    value: bool


@dataclass(frozen=True, slots=True, eq=False)
class NoneLiteral(Node):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class EllipsisLiteral(Node):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class StringLiteral(Node):
    """One string, or several adjacent ones joined."""

    value: str


@dataclass(frozen=True, slots=True, eq=False)
class Interpolation(Node):
    """`{value!conversion:format}` in an f-string; `{value=}` puts its own text before it (`label`)."""

    value: Expr
    label: str
    conversion: Literal["", "r", "s", "a"]
    format: str


@dataclass(frozen=True, slots=True, eq=False)
class FString(Node):
    parts: tuple[StringLiteral | Interpolation, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TupleExpr(Node):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListExpr(Node):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DictEntry(Node):
    key: Expr
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class DictExpr(Node):
    entries: tuple[DictEntry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ComprehensionClause(Node):
    """`for target in iterable if c1 if c2`."""

    target: Expr
    iterable: Expr
    conditions: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListComprehension(Node):
    element: Expr
    clauses: tuple[ComprehensionClause, ...]


@dataclass(frozen=True, slots=True, eq=False)
class DictComprehension(Node):
    entry: DictEntry
    clauses: tuple[ComprehensionClause, ...]


@dataclass(frozen=True, slots=True, eq=False)
class UnaryOp(Node):
    op: UnaryOperator
    op_span: Span
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False)
class BinaryOp(Node):
    """Arithmetic, `@` and `∘`, and in types: policies (`bf16 @accum(f32)`) and options (`T | None`)."""

    left: Expr
    op: BinaryOperator
    op_span: Span
    right: Expr


@dataclass(frozen=True, slots=True, eq=False)
class LogicalOp(Node):
    left: Expr
    op: Literal["and", "or"]
    op_span: Span
    right: Expr


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonLink(Node):
    """`op operand`, what follows the first operand of a comparison."""

    op: ComparisonOperator
    op_span: Span
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Node):
    """`first op a op b ...`: every neighbouring pair must hold."""

    first: Expr
    links: tuple[ComparisonLink, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Conditional(Node):
    """`then if test else otherwise`."""

    then: Expr
    test: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Lambda(Node):
    parameters: tuple[Parameter, ...]
    body: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Argument(Node):
    """An argument of a call or subscript; `name` is None for a positional one, `name_span` then is `span`."""

    name: str | None
    name_span: Span
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Call(Node):
    function: Expr
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Attribute(Node):
    value: Expr
    name: str
    name_span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Subscript(Node):
    """`value[...]`: indexing, or a type applied to arguments (`Operator[Din, Dout, T = f32]`)."""

    value: Expr
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Slice(Node):
    """`start:stop:step`, only as the value of a subscript's argument."""

    start: Expr | None
    stop: Expr | None
    step: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class FunctionType(Node):
    """`fn(A, B) -> R`."""

    parameters: tuple[Expr, ...]
    result: Expr


Expr = (
    Name
    | IntLiteral
    | FloatLiteral
    | BoolLiteral
    | NoneLiteral
    | EllipsisLiteral
    | StringLiteral
    | FString
    | TupleExpr
    | ListExpr
    | DictExpr
    | ListComprehension
    | DictComprehension
    | UnaryOp
    | BinaryOp
    | LogicalOp
    | Comparison
    | Conditional
    | Lambda
    | Call
    | Attribute
    | Subscript
    | Slice
    | FunctionType
)
