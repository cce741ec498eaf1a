"""The syntax tree: one plain dataclass per kind of node, each with the span of its text.

The rules of `grammar/tessera.lark` are these names in snake case, and a rule's children are the fields in
order: the two files say the same thing. Types are expressions here (`bf16 @accum(f32)` is a `BinaryOp`);
telling them apart is the checker's work. Nodes compare and hash by identity, so that side tables may be keyed
by them.

Parentheses leave no node. A generator expression is a `ListComprehension`: without effects the two are one.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.base.late import Late
from tesserac.base.source import Span
from tesserac.syntax.ast_expressions import Argument as Argument
from tesserac.syntax.ast_expressions import Attribute as Attribute
from tesserac.syntax.ast_expressions import BinaryOp as BinaryOp
from tesserac.syntax.ast_expressions import BinaryOperator as BinaryOperator
from tesserac.syntax.ast_expressions import BoolLiteral as BoolLiteral
from tesserac.syntax.ast_expressions import Call as Call
from tesserac.syntax.ast_expressions import Comparison as Comparison
from tesserac.syntax.ast_expressions import ComparisonLink as ComparisonLink
from tesserac.syntax.ast_expressions import ComparisonOperator as ComparisonOperator
from tesserac.syntax.ast_expressions import ComprehensionClause as ComprehensionClause
from tesserac.syntax.ast_expressions import Conditional as Conditional
from tesserac.syntax.ast_expressions import DictComprehension as DictComprehension
from tesserac.syntax.ast_expressions import DictEntry as DictEntry
from tesserac.syntax.ast_expressions import DictExpr as DictExpr
from tesserac.syntax.ast_expressions import EllipsisLiteral as EllipsisLiteral
from tesserac.syntax.ast_expressions import Expr as Expr
from tesserac.syntax.ast_expressions import FloatLiteral as FloatLiteral
from tesserac.syntax.ast_expressions import FString as FString
from tesserac.syntax.ast_expressions import FunctionType as FunctionType
from tesserac.syntax.ast_expressions import Interpolation as Interpolation
from tesserac.syntax.ast_expressions import IntLiteral as IntLiteral
from tesserac.syntax.ast_expressions import Lambda as Lambda
from tesserac.syntax.ast_expressions import ListComprehension as ListComprehension
from tesserac.syntax.ast_expressions import ListExpr as ListExpr
from tesserac.syntax.ast_expressions import LogicalOp as LogicalOp
from tesserac.syntax.ast_expressions import Name as Name
from tesserac.syntax.ast_expressions import Node as Node
from tesserac.syntax.ast_expressions import NoneLiteral as NoneLiteral
from tesserac.syntax.ast_expressions import Slice as Slice
from tesserac.syntax.ast_expressions import StringLiteral as StringLiteral
from tesserac.syntax.ast_expressions import Subscript as Subscript
from tesserac.syntax.ast_expressions import TupleExpr as TupleExpr
from tesserac.syntax.ast_expressions import UnaryOp as UnaryOp
from tesserac.syntax.ast_expressions import UnaryOperator as UnaryOperator

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
class FunctionDef(Node, Late):
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


@dataclass(frozen=True, slots=True, eq=False)
class BufferDecl(Node):
    """`buffer name: annotation = init`, which a struct makes a field of."""

    name: str
    name_span: Span
    annotation: Expr
    init: Expr | None


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
    | BufferDecl
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
    is_buffer: bool


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
