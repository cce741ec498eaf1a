"""The state of checking one body, shared by the rules for expressions, statements and calls.

Enters: the checker of the module, and what the function's signature says. Leaves: guards, effects and diagnostics
as the rules add them.
"""

from __future__ import annotations

from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.check.model.kernel_state import Kernel
from tesserac.check.model.scope import Binding, Scope
from tesserac.check.sizes.facts import Facts
from tesserac.check.state.evaluation import REPEATABLE
from tesserac.check.state.parts import Declared, Devices, Doing, Flow, Sizes
from tesserac.check.state.rules import Rules
from tesserac.diag.codes.names import E0215
from tesserac.diag.codes.shapes import E0315
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Sink
from tesserac.syntax import ast
from tesserac.types.dims import LARGEST_SIZE, Dim
from tesserac.types.dtype import U64
from tesserac.types.ty import ErrorType, FloatType, ListType, RunIntType, StrType, TensorType, Type, parts

MAPPED = "a tensor may have any number of rows: map over their places"


class Body:
    """One function body, constant or test under check."""

    def __init__(self, rules: Rules, sink: Sink, name: str, *, at_call: bool = False) -> None:
        self.rules = rules
        self.sink = sink
        self.name = name
        self.facts = Facts()
        self.scope = Scope()
        self.declared = Declared()
        self.sizes = Sizes()
        self.devices = Devices()
        self.flow = Flow()
        self.doing = Doing()
        self.kernel: Kernel | None = None
        self.origins: dict[typed.Local, Binding] = {}
        self.at_definition = False
        self.at_call = at_call
        self.is_broken = False
        self.needs_value = False
        self.forks = False
        self.judged: set[Span] = set()
        self.waits = False
        self.functions: list[typed.TypedFunction] = []
        self.asked: list[typed.Derivative] = []
        self.requests: list[typed.Request] = []

    def restart(self) -> None:
        """Forgets all that was found in this body, which is checked once more."""
        fresh = Body(self.rules, Sink(), self.name)
        fresh.at_definition, fresh.at_call = self.at_definition, self.at_call
        vars(self).update(vars(fresh))

    @property
    def parts(self) -> tuple[object, ...]:
        """All that changes while a body is checked, beside itself."""
        own = (self.scope, self.facts, self.declared, self.sizes, self.devices, self.flow, self.flow.frame, self.doing)
        return own if self.kernel is None else (*own, self.kernel)

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

    def binds(self, name: str) -> bool:
        """Whether a name is a local one, or that of a size."""
        return name in self.scope.bindings or name in self.sizes.symbols

    def error(self, span: Span) -> typed.Expr:
        """The expression that stands where a diagnostic was given, here or where what it uses is defined."""
        self.is_broken = self.is_broken or self.flow.dead == 0
        return typed.Static(ErrorType(), span)

    @property
    def has_failed(self) -> bool:
        """Whether something is wrong with this body, or with what it uses: then it is no program."""
        return self.sink.has_errors or self.is_broken

    def wants_value(self, dim: Dim) -> bool:
        """Notes that an int parameter's value is needed here: the definition alone cannot be checked further."""
        missing = not dim.symbols().isdisjoint(self.sizes.static_symbols)
        self.needs_value = self.needs_value or missing
        return missing

    def wants_text(self, value: typed.Expr) -> bool:
        """The same for a string that a call gives: a definition has an empty one in its place."""
        is_untold = self.at_definition and value.type == StrType("") and self.rules.text(value.span)[-1:] not in "\"'"
        self.needs_value = self.needs_value or is_untold
        return is_untold

    def unknown_count(
        self, count: Dim, span: Span, mapped: Edit | None = None, title: str = MAPPED
    ) -> typed.Expr:
        """Stands where the number of items of a list is needed and only a call can give it; `mapped` writes the list as
        the rows of a tensor."""
        if not self.wants_value(count):
            draft = self.sink.error(E0215, at=span, what=f"the number of items (`{count}`)")
            if mapped is not None:
                draft.fix(title, mapped)
        return self.error(span)

    def may_agree(self, left: Dim, right: Dim) -> bool:
        """Whether one of two sizes is that of an argument without dims of its own: such are compared on entry. Of one
        that is a number nobody knows whose it is."""
        known = self.sizes.own_symbols | frozenset(self.rules.module_sizes())
        number = left.constant is not None or right.constant is not None
        return not (left - right).symbols() <= known or (number and self.sizes.has_open)

    def add_guard(
        self,
        kind: typed.GuardKind,
        left: Dim,
        right: Dim,
        span: Span,
        reason: str,
        origin: typed.Guard | None = None,
        code: str = "",
        said: str = "",
    ) -> None:
        """An entry check, once however often it is needed; `N - 3 >= 0` is kept as `N >= 3`."""
        for side in (left, right):
            if side.magnitude() > LARGEST_SIZE:
                self.refuse_size(side, span)
                return
        if kind == "at_least":
            left, right = typed.balanced(left, right)
            self.sizes.drop_weaker(left - right)
        guard = typed.Guard(kind, left, right, span, reason, origin, code, said)
        self.sizes.guards.setdefault((kind, left, right), guard)

    def add_check(self, check: typed.Require) -> None:
        """A check of sizes, before the statement or in the branch of an expression that is being checked."""
        for side in (check.left, check.right):
            if side.magnitude() > LARGEST_SIZE:
                self.refuse_size(side, check.span)
                return
        self.flow.frame.statements.append(check)
        self.sizes.checked += 1

    def refuse_size(self, size: Dim, span: Span) -> None:
        """A number that does not fit into what sizes are computed in."""
        self.sink.error(E0315, at=span, problem=f"sizes have 63 bits; `{size}` has more")

    def mention(self, name: str) -> None:
        """Notes the use of a size: one of the module is told by a param, which must be at hand at run time."""
        teller = None if name in self.sizes.own_symbols else self.rules.teller(name)
        if teller is None:
            return
        told, is_new = self.doing.told, teller.name not in self.doing.reads
        sizes = told.get(teller.name, set())
        self.read(teller)
        if is_new or sizes:
            told[teller.name] = {*sizes, name}

    def draw(self, at: Span) -> None:
        """Notes that the function takes random numbers from its stream."""
        self.add_effect("random", at)
        self.read(typed.Param(typed.STREAM, TensorType((), U64), at))

    def read(self, *params: typed.Param) -> None:
        """Notes that a run reads params; a branch that is never taken reads none."""
        for param in params if self.flow.dead == 0 else ():
            self.doing.told.pop(param.name, None)
            self.doing.reads.setdefault(param.name, param)

    def add_effect(self, effect: str, span: Span) -> None:
        if self.flow.dead == 0:
            self.doing.effects.setdefault(effect, span)
            self.doing.acts = self.doing.acts or effect not in REPEATABLE
            self.doing.draws = True


def is_static(type_: Type) -> bool:
    """Whether the type carries the value."""
    inner = parts(type_)
    if inner is not None:
        return all(map(is_static, inner))
    of_run = isinstance(type_, TensorType | ListType | RunIntType)
    return not of_run and not (isinstance(type_, FloatType) and type_.value is None)
