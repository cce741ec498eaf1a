"""The syntax tree: one plain dataclass per kind of node, each with the span of its text.

The rules of `grammar/tessera.lark` are these names in snake case, and a rule's children are the fields in
order: the two files say the same thing. Types are expressions here (`bf16 @accum(f32)` is a `BinaryOp`);
telling them apart is the checker's work. Nodes compare and hash by identity, so that side tables may be keyed
by them.

Parentheses leave no node. A generator expression is a `ListComprehension`: without effects the two are one.
"""

from __future__ import annotations

from typing import Literal

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span

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


# ------------------------------------------------------------------------------------------------ statements


@dataclass(frozen=True, slots=True, eq=False)
class ExpressionStatement(Node):
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Assignment(Node):
    """`a = b = value` has two targets. A target is a Name, Attribute, Subscript, or a tuple of targets."""

    targets: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class AnnotatedAssignment(Node):
    """`name: annotation = value`."""

    target: Expr
    annotation: Expr
    value: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class AugmentedAssignment(Node):
    """`target op= value`; `op` is without its `=`."""

    target: Expr
    op: BinaryOperator
    op_span: Span
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Return(Node):
    value: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class Assert(Node):
    test: Expr
    message: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class Pass(Node):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Break(Node):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Continue(Node):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class If(Node):
    """An `elif` is an `If` alone in `otherwise`."""

    test: Expr
    body: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, eq=False)
class For(Node):
    target: Expr
    iterable: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, eq=False)
class While(Node):
    test: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, eq=False)
class With(Node):
    contexts: tuple[Expr, ...]
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ErrorStatement(Node):
    """A statement that did not parse. It has its diagnostic; the checker says no more about its function."""


# ------------------------------------------------------------------------------------------ functions, items


@dataclass(frozen=True, slots=True, eq=False)
class Parameter(Node):
    name: str
    name_span: Span
    annotation: Expr | None
    default: Expr | None
    keyword_only: bool


@dataclass(frozen=True, slots=True, eq=False)
class Decorator(Node):
    """`@expression`: a dotted name, possibly with calls."""

    expression: Expr


@dataclass(frozen=True, slots=True, eq=False)
class FunctionDef(Node):
    """`def name(parameters) -> returns where fact, ... uses effect, ...:`.

    `uses` is None when it is not written, and empty for `uses none`. The docstring is `doc`, not in `body`.
    """

    decorators: tuple[Decorator, ...]
    name: str
    name_span: Span
    parameters: tuple[Parameter, ...]
    returns: Expr | None
    where: tuple[Expr, ...]
    uses: tuple[Name, ...] | None
    doc: str | None
    body: tuple[Stmt, ...]


Stmt = (
    ExpressionStatement
    | Assignment
    | AnnotatedAssignment
    | AugmentedAssignment
    | Return
    | Assert
    | Pass
    | Break
    | Continue
    | If
    | For
    | While
    | With
    | FunctionDef
    | ErrorStatement
)


@dataclass(frozen=True, slots=True, eq=False)
class ModulePath(Node):
    """`a.b.c`, with the number of leading dots of a relative one."""

    dots: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ImportedModule(Node):
    """`path as alias` of an `import`."""

    path: ModulePath
    alias: Name | None


@dataclass(frozen=True, slots=True, eq=False)
class Import(Node):
    modules: tuple[ImportedModule, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ImportedName(Node):
    """`name as alias` of a `from ... import`."""

    name: Name
    alias: Name | None


@dataclass(frozen=True, slots=True, eq=False)
class FromImport(Node):
    path: ModulePath
    names: tuple[ImportedName, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ConstDef(Node):
    """A module-level assignment. Targets are names, or tuples of names."""

    targets: tuple[Expr, ...]
    annotation: Expr | None
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class ParamDecl(Node):
    """`param name: annotation = init`."""

    name: str
    name_span: Span
    annotation: Expr
    init: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class FieldDef(Node):
    name: str
    name_span: Span
    annotation: Expr
    init: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class StructDef(Node):
    """`struct name[parameters]:` with fields and methods."""

    name: str
    name_span: Span
    parameters: tuple[Name, ...]
    doc: str | None
    fields: tuple[FieldDef, ...]
    methods: tuple[FunctionDef, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TestBlock(Node):
    """`test "name":`."""

    name: StringLiteral
    body: tuple[Stmt, ...]


Item = Import | FromImport | ConstDef | ParamDecl | StructDef | FunctionDef | TestBlock


@dataclass(frozen=True, slots=True, eq=False)
class Module(Node):
    """A file. Items that did not parse are absent; `ParseResult` has their diagnostics."""

    doc: str | None
    items: tuple[Item, ...]
