"""Runs checked functions on marks instead of numbers: what an analysis wants to know of every value.

Enters: a typed function, and the marks of its arguments. Leaves: those of its result. An analysis says what an operator
and a call make of the marks they are given; names, branches, loops and calls of functions whose text is known are
followed here. Where two ways meet the higher mark counts, and a loop is tried until no mark grows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model import typed
from tesserac.types.ty import Type, parts

MAX_DEPTH = 16
"""Calls within calls that are followed."""
Find = Callable[[str], typed.TypedFunction | None]


@dataclass(frozen=True)
class Problem:
    """What an analysis looks for: where, in words, and through which calls it was come by, the outermost first."""

    at: Span
    what: str
    why: str
    calls: tuple[tuple[Span, str], ...] = ()
    declared: Span | None = None
    kind: str = ""


@dataclass(frozen=True)
class Mark:
    """Of a value that depends on what the analysis follows; with a problem if it comes from one."""

    problem: Problem | None = None


Marks = Mark | None | tuple["Marks", ...]
"""Those of a value, part by part; None is one that does not depend."""
Names = dict[str, Marks]


def leaves(marks: Marks) -> list[Mark]:
    """All marks in a value."""
    if isinstance(marks, tuple):
        return [mark for item in marks for mark in leaves(item)]
    return [] if marks is None else [marks]


def first_problem(marks: Iterable[Marks]) -> Problem | None:
    return next((mark.problem for value in marks for mark in leaves(value) if mark.problem is not None), None)


def joined(left: Marks, right: Marks) -> Marks:
    """Of a value that is one or the other."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return tuple(joined(a, b) for a, b in zip(left, right, strict=True))
    if left is None or (isinstance(right, Mark) and right.problem is not None and not first_problem([left])):
        return right
    return left


def marked(type_: Type, mark: Mark, fits: Callable[[Type], bool]) -> Marks:
    """A value whose parts are marked where their type `fits`."""
    inner = parts(type_)
    if inner is not None:
        return tuple(marked(part, mark, fits) for part in inner)
    return mark if fits(type_) else None


class Walk(ABC):
    """One analysis. `find` gives functions whose text may be looked into."""

    def __init__(self, find: Find) -> None:
        self.find = find
        self._depth = 0
        self._known: dict[object, Marks] = {}

    @abstractmethod
    def applied(self, expression: typed.Apply, operands: Sequence[Marks]) -> Marks:
        """An operator, at least one of whose operands is marked."""

    @abstractmethod
    def called(self, call: typed.Call, args: Sequence[Marks]) -> Marks:
        """A call, one of whose arguments is marked; `follow` goes into the function."""

    @abstractmethod
    def derived(self, expression: typed.Derivative, names: Names) -> Marks:
        """A derivative inside what is looked at."""

    def body(self, function: typed.TypedFunction, names: Names) -> Marks:
        """What a function returns, given marks for its parameters."""
        return self._statements(function.body, names)

    def follow(self, call: typed.Call, args: Sequence[Marks]) -> Marks:
        """What the body of a function makes of its arguments; nothing where it is not known."""
        function, key = self.find(call.function), (call.function, tuple(args))
        if function is None or self._depth >= MAX_DEPTH:
            return None
        if key not in self._known:
            self._depth += 1
            names: Names = {param.name: marks for param, marks in zip(function.params, args, strict=True)}
            self._known[key] = self._statements(function.body, names)
            self._depth -= 1
        return self._known[key]

    # ------------------------------------------------------------------------------------------- statements

    def _statements(self, block: typed.Block, names: Names) -> Marks:
        """What it returns; None also where it goes on, which nobody asks for."""
        for statement in block:
            match statement:
                case typed.Bind(name=name, value=value):
                    names[name] = self.value(value, names)
                case typed.BindTuple():
                    marks = self.value(statement.value, names)
                    items = marks if isinstance(marks, tuple) else (None,) * len(statement.names)
                    names.update(zip(statement.names, items, strict=True))
                case typed.Return(value=value):
                    return self.value(value, names)
                case typed.For() | typed.While():
                    self._loop(statement, names)
                case typed.If():
                    returned = self._if(statement, names)
                    if statement is block[-1]:
                        return returned
        return None

    def _if(self, statement: typed.If, names: Names) -> Marks:
        then, otherwise = dict(names), dict(names)
        left, right = self._statements(statement.then, then), self._statements(statement.otherwise, otherwise)
        names.update((c.name, joined(then.get(c.name), otherwise.get(c.name))) for c in statement.results)
        return joined(left, right)

    def _loop(self, loop: typed.For | typed.While, names: Names) -> None:
        while True:
            inner = dict(names)
            self._statements(loop.body, inner)
            grown = {c.name: joined(names.get(c.name), inner.get(c.name)) for c in loop.carried}
            if all(_same(names.get(name), marks) for name, marks in grown.items()):
                return
            names.update(grown)

    # ------------------------------------------------------------------------------------------ expressions

    def value(self, expression: typed.Expr, names: Names) -> Marks:
        match expression:
            case typed.Local(name=name):
                return names.get(name)
            case typed.Coerce(value=value) | typed.Checkpoint(value=value):
                return self.value(value, names)
            case typed.Apply():
                operands = [self.value(operand, names) for operand in expression.operands]
                return self.applied(expression, operands) if any(map(leaves, operands)) else None
            case typed.Call():
                args = [self.value(arg, names) for arg in expression.args]
                return self.called(expression, args) if any(map(leaves, args)) else None
            case typed.TupleOf():
                return tuple(self.value(item, names) for item in expression.items)
            case typed.Item():
                marks = self.value(expression.value, names)
                return marks[expression.index] if isinstance(marks, tuple) else None
            case _:
                return self._scoped(expression, names)

    def _scoped(self, expression: typed.Expr, names: Mapping[str, Marks]) -> Marks:
        inner = dict(names)
        match expression:
            case typed.Conditional(then=then, otherwise=otherwise):
                return joined(self.value(then, inner), self.value(otherwise, inner))
            case typed.Let():
                self._statements(expression.bindings, inner)
                return self.value(expression.value, inner)
            case typed.Mapped():
                args = [self.value(arg, inner) for arg in expression.args]
                inner.update((param.name, marks) for param, marks in zip(expression.params, args, strict=True))
                return self.value(expression.value, inner)
            case typed.Derivative():
                return self.derived(expression, inner)
        return None


def _same(left: Marks, right: Marks) -> bool:
    """Whether nothing has grown: which problem it is does not matter."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return all(_same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, Mark) and isinstance(right, Mark):
        return (left.problem is None) == (right.problem is None)
    return (left is None and not leaves(right)) or left == right
