"""The rules that need one another, in parts: who needs a part asks for no more than that. The module's checker has all.

Enters: nothing. Leaves: `Rules`, which a `Body` carries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.specs import Signature, StructDecl
from tesserac.check.names.refs import FunctionRef, Resolved, StructRef
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.sink import Sink
from tesserac.syntax import ast
from tesserac.types.dims import Dim
from tesserac.types.ty import StructType, Type

if TYPE_CHECKING:
    from tesserac.check.state.body import Body


@dataclass(frozen=True)
class Instance:
    """A checked instance. `function` is None where there were errors, or where the check is not possible: it is
    still under way (`recursive`), or the value of an int is needed that only a call gives (`needs_value`).

    Of one that waits for a value the `outline` says what is known of it all the same: its result, its effects.
    `diagnostics` are those that no definition has shown: what only these argument types bring about.
    """

    function: typed.TypedFunction | None
    diagnostics: tuple[Diagnostic, ...] = ()
    outline: typed.TypedFunction | None = None
    recursive: bool = False
    needs_value: bool = False


class Checking(Protocol):
    """Expressions and blocks of a body."""

    def expression(self, body: Body, node: ast.Expr) -> typed.Expr: ...
    def block(self, body: Body, statements: Sequence[ast.Stmt]) -> typed.Block: ...
    def constant(self, body: Body, owner: str, name: str, span: Span) -> typed.Expr: ...


class Functions(Protocol):
    """Functions by their definitions: signatures, instances, rules of derivatives."""

    def signature(self, owner: str, name: str) -> Signature: ...
    def default(self, owner: str, node: ast.Expr) -> typed.Expr: ...
    def derivative_rules(self, owner: str, name: str) -> Mapping[str, str]: ...
    def when_free(
        self, owner: str, types: tuple[Type, ...], sink: Sink, check: Callable[[Sink], None]
    ) -> None: ...
    def instance(self, owner: str, name: str, types: tuple[Type, ...]) -> Instance: ...
    def recheck(self, owner: str, name: str, types: tuple[Type, ...]) -> tuple[Diagnostic, ...]: ...
    def known(self, symbol: str) -> typed.TypedFunction | None: ...
    def define_inner(self, node: ast.FunctionDef) -> FunctionRef: ...
    def is_own(self, ref: FunctionRef) -> bool: ...


class Structs(Protocol):
    def struct(self, node: ast.Expr) -> StructDecl | None: ...
    def own_struct(self, ref: StructRef) -> StructDecl | None: ...
    def methods(self, type_: StructType) -> frozenset[str]: ...


class ModuleSizes(Protocol):
    """Sizes and params of the module."""

    def module_sizes(self) -> Mapping[str, Dim]: ...
    def teller(self, size: str) -> typed.Param | None: ...
    def param(self, owner: str, name: str) -> typed.Param: ...


class Names(Protocol):
    """What names mean here, and which are near."""

    def library(self, name: str) -> Resolved | None: ...
    def resolve(self, name: str) -> Resolved | None: ...
    def before_dot(self, name: str) -> Resolved | None: ...
    def meaning(self, node: ast.Expr) -> Resolved | None: ...
    def member(self, container: Resolved | None, name: str) -> Resolved | None: ...
    def members(self, container: Resolved) -> Sequence[str]: ...
    def private(self, container: Resolved, name: str) -> Span | None: ...
    def suggestions(self) -> Sequence[str]: ...
    def alias(self, name: str) -> ast.Expr | None: ...
    def is_reported(self, name: str) -> bool: ...
    def type_names(self, module: str = "") -> Sequence[str]: ...


class Texts(Protocol):
    """The source that spans point into."""

    def text(self, span: Span) -> str: ...
    def line(self, span: Span) -> int: ...


class Rules(Checking, Functions, Structs, ModuleSizes, Names, Texts, Protocol):
    """The mutually recursive rules; the module's checker ties the knot."""
