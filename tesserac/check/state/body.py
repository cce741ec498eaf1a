"""The state of checking one body, shared by the rules for expressions, statements and calls.

Enters: the checker of the module, and what the function's signature says. Leaves: guards, effects and diagnostics
as the rules add them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.kernel_state import Kernel
from tesserac.check.model.scope import Binding, Scope
from tesserac.check.model.specs import DimSpec, FunctionSpec, Signature, Storage, StructDecl, TypeSpec
from tesserac.check.names.resolve import FunctionRef, Resolved, StructRef
from tesserac.check.sizes.facts import Facts
from tesserac.check.state.evaluation import REPEATABLE, Frame
from tesserac.diag.codes.names import E0215
from tesserac.diag.codes.shapes import E0315
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.sink import Sink
from tesserac.syntax import ast
from tesserac.types.dims import LARGEST_SIZE, Dim
from tesserac.types.dtype import U64, DType
from tesserac.types.ty import (
    ErrorType,
    FloatType,
    ListType,
    RecordType,
    RunIntType,
    StructType,
    TensorType,
    Type,
    parts,
)


class Rules(Protocol):
    """The mutually recursive rules; the module's checker ties the knot."""

    def expression(self, body: Body, node: ast.Expr) -> typed.Expr: ...
    def block(self, body: Body, statements: Sequence[ast.Stmt]) -> typed.Block: ...
    def constant(self, body: Body, owner: str, name: str, span: Span) -> typed.Expr: ...
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
    def library(self, name: str) -> Resolved | None: ...
    def resolve(self, name: str) -> Resolved | None: ...
    def struct(self, node: ast.Expr) -> StructDecl | None: ...
    def module_sizes(self) -> Mapping[str, Dim]: ...
    def teller(self, size: str) -> typed.Param | None: ...
    def param(self, owner: str, name: str) -> typed.Param: ...
    def own_struct(self, ref: StructRef) -> StructDecl | None: ...
    def methods(self, type_: StructType) -> frozenset[str]: ...
    def meaning(self, node: ast.Expr) -> Resolved | None: ...
    def member(self, container: Resolved | None, name: str) -> Resolved | None: ...
    def members(self, container: Resolved) -> Sequence[str]: ...
    def private(self, container: Resolved, name: str) -> Span | None: ...
    def suggestions(self) -> Sequence[str]: ...
    def text(self, span: Span) -> str: ...
    def line(self, span: Span) -> int: ...
    def alias(self, name: str) -> ast.Expr | None: ...
    def is_reported(self, name: str) -> bool: ...
    def type_names(self, module: str = "") -> Sequence[str]: ...


@dataclass(frozen=True)
class Communication:
    """How many devices an axis has across which a body communicates, and where it does."""

    devices: Dim
    span: Span


@dataclass(frozen=True)
class Meeting:
    """A place to which all devices along an axis have to come, and what is called there."""

    axis: str
    name: str
    span: Span


@dataclass(frozen=True)
class WherePlace:
    """Where a `where` fact can be added to the signature; `text` is what to insert, around `{fact}`."""

    span: Span
    text: str


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


class Rises:
    """What loops were found to need: the types that names start with, by the way that leads to the loop, the loop and
    the name; and the loops that have to be checked again. Kept when a trial is taken back."""

    def __init__(self) -> None:
        self.starts: dict[tuple[tuple[int, ...], Span, str], Type] = {}
        self.again: set[Span] = set()


class Body:
    """One function body, constant or test under check."""

    def __init__(self, rules: Rules, sink: Sink, name: str) -> None:
        self.rules = rules
        self.sink = sink
        self.name = name
        self.facts = Facts()
        self.scope = Scope()
        self.symbols: dict[str, Dim] = {}
        self.dim_spans: dict[str, list[Span]] = {}
        self.parameter_dims: dict[str, tuple[DimSpec, ...]] = {}
        self.parameter_elements: dict[str, Span] = {}
        self.element_spans: list[Span] = []
        self.where_at: WherePlace | None = None
        self.result_spec: TypeSpec | None = None
        self.result_storage: Storage | None = None
        self.leading: tuple[Dim, ...] = ()
        self.returns: list[typed.Expr] = []
        self.guards: dict[tuple[str, Dim, Dim], typed.Guard] = {}
        self.effects: dict[str, Span] = {}
        self.reads: dict[str, typed.Param] = {}
        self.own_symbols: frozenset[str] = frozenset()
        self.has_open = False
        self.origins: dict[typed.Local, Binding] = {}
        self.told: set[frozenset[Dim | DType]] = set()
        self.at_definition = False
        self.at_call = False
        self.is_broken = False
        self.loops = 0
        self.flags: list[str] = []
        self.path: tuple[int, ...] = ()
        self.rises = Rises()
        self.function_specs: dict[str, FunctionSpec] = {}
        self.dead = 0
        self.branches = 0
        self.checked = 0
        self.static_symbols: frozenset[str] = frozenset()
        self.untold_symbols: frozenset[str] = frozenset()
        self.numerics = ""
        self.memory: typed.LoopMemory | None = None
        self.kernel: Kernel | None = None
        self.functions: list[typed.TypedFunction] = []
        self.asked: list[typed.Derivative] = []
        self.needs_value = False
        self.forks = False
        self.judged: set[Span] = set()
        self.waits = False
        self.axes: dict[str, Dim] = {}
        self.mesh: RecordType | None = None
        self.collectives: dict[str, Communication] = {}
        self.meetings: list[Meeting] = []
        self.uniform: dict[str, dict[str, bool]] = {}
        self.frame = Frame()
        self.named = 0
        self.acts = False
        self.draws = False
        self.requests: list[typed.Request] = []

    def expression(self, node: ast.Expr) -> typed.Expr:
        return self.rules.expression(self, node)

    def local(self, name: str, span: Span) -> typed.Expr:
        """Reads a bound name: a static value is itself, anything else remembers what bound it."""
        binding = self.scope.bindings[name]
        if is_static(binding.type):
            return typed.Static(binding.type, span)
        node = typed.Local(binding.type, span, name)
        self.origins[node] = binding
        return node

    def error(self, span: Span) -> typed.Expr:
        """The expression that stands where a diagnostic was given, here or where what it uses is defined."""
        self.is_broken = self.is_broken or self.dead == 0
        return typed.Static(ErrorType(), span)

    @property
    def has_failed(self) -> bool:
        """Whether something is wrong with this body, or with what it uses: then it is no program."""
        return self.sink.has_errors or self.is_broken

    def wants_value(self, dim: Dim) -> bool:
        """Notes that an int parameter's value is needed here: the definition alone cannot be checked further."""
        missing = not dim.symbols().isdisjoint(self.static_symbols)
        self.needs_value = self.needs_value or missing
        return missing

    def unknown_count(self, count: Dim, span: Span) -> typed.Expr:
        """Stands where the number of items of a list is needed and only a call can give it."""
        if not self.wants_value(count):
            self.sink.error(E0215, at=span, what=f"the number of items (`{count}`)")
        return self.error(span)

    def may_agree(self, left: Dim, right: Dim) -> bool:
        """Whether one of two sizes is that of an argument without dims of its own: such are compared on entry. Of one
        that is a number nobody knows whose it is."""
        known = self.own_symbols | frozenset(self.rules.module_sizes())
        number = left.constant is not None or right.constant is not None
        return not (left - right).symbols() <= known or (number and self.has_open)

    def first_telling(self, left: Dim | DType, right: Dim | DType) -> bool:
        """Whether these two sizes or dtypes are reported as different for the first time: one misnamed dim, or one
        wrong dtype, is one message."""
        pair = frozenset((left, right))
        first = pair not in self.told
        self.told.add(pair)
        return first

    def add_guard(
        self,
        kind: typed.GuardKind,
        left: Dim,
        right: Dim,
        span: Span,
        reason: str,
        origin: typed.Guard | None = None,
        code: str = "",
    ) -> None:
        """An entry check, once however often it is needed; `N - 3 >= 0` is kept as `N >= 3`."""
        for side in (left, right):
            if side.magnitude() > LARGEST_SIZE:
                self.refuse_size(side, span)
                return
        if kind == "at_least":
            left, right = typed.balanced(left, right)
            self._drop_weaker(left - right)
        self.guards.setdefault((kind, left, right), typed.Guard(kind, left, right, span, reason, origin, code))

    def add_check(self, check: typed.Require) -> None:
        """A check of sizes, before the statement or in the branch of an expression that is being checked."""
        for side in (check.left, check.right):
            if side.magnitude() > LARGEST_SIZE:
                self.refuse_size(side, check.span)
                return
        self.frame.statements.append(check)
        self.checked += 1

    def refuse_size(self, size: Dim, span: Span) -> None:
        """A number that does not fit into what sizes are computed in."""
        self.sink.error(E0315, at=span, problem=f"sizes have 63 bits; `{size}` has more")

    def _drop_weaker(self, gap: Dim) -> None:
        """A bound makes the same one with a lower number needless."""
        for key, guard in list(self.guards.items()):
            if guard.kind != "at_least" or guard.left.symbols() | guard.right.symbols() != gap.symbols():
                continue
            more = (guard.left - guard.right - gap).constant
            if more is not None and more > 0:
                del self.guards[key]

    def mention(self, name: str) -> None:
        """Notes the use of a size: one of the module is told by a param, which must be at hand at run time."""
        teller = None if name in self.own_symbols else self.rules.teller(name)
        if teller is not None:
            self.reads.setdefault(teller.name, teller)

    def draw(self, at: Span) -> None:
        """Notes that the function takes random numbers from its stream."""
        self.add_effect("random", at)
        self.reads.setdefault(typed.STREAM, typed.Param(typed.STREAM, TensorType((), U64), at))

    def add_effect(self, effect: str, span: Span) -> None:
        if self.dead == 0:
            self.effects.setdefault(effect, span)
            self.acts = self.acts or effect not in REPEATABLE
            self.draws = True


def is_static(type_: Type) -> bool:
    """Whether the type carries the value."""
    inner = parts(type_)
    if inner is not None:
        return all(map(is_static, inner))
    of_run = isinstance(type_, TensorType | ListType | RunIntType)
    return not of_run and not (isinstance(type_, FloatType) and type_.value is None)
