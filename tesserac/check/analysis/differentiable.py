"""Which derivatives that a program asks for do not exist: said while checking, where that is sure.

Enters: the derivatives of a definition, as they were asked for, and functions by their symbols. Leaves: E0702 at the
call or operator without one, with the way there. What is followed is what changes with the arguments that count, as far
as the text of functions is known; the rest is for the compiler to say, which meets every operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesserac.base.source import Span
from tesserac.check.analysis.walking import Find, Mark, Marks, Names, Problem, Walk, first_problem, leaves, marked
from tesserac.check.model import typed
from tesserac.check.model.message_text import SYMBOLS
from tesserac.check.state.body import Body
from tesserac.check.values.tangents import is_smooth, tangent_type
from tesserac.diag.codes.differentiation import E0702
from tesserac.diag.sink import Draft

KERNEL, REVERSE_ONLY, OPERATOR = "kernel", "reverse only", "operator"
MAX_STEPS = 3
"""Calls on the way that a message names."""


def check_derivatives(body: Body, asked: Sequence[typed.Derivative], find: Find) -> None:
    """Reports what surely has no derivative in the mode that is asked for."""
    for derivative in asked:
        walk = _Changes(find, derivative.reverse)
        counted = {derivative.params[place]: derivative.args[place].type for place in derivative.wrt}
        names: Names = {name: marked(tangent_type(type_), Mark(), is_smooth) for name, type_ in counted.items()}
        problem = first_problem([walk.value(derivative.value, names)])
        if problem is not None:
            _report(body, derivative, problem)


class _Changes(Walk):
    """Marks what changes with the arguments that count."""

    def __init__(self, find: Find, reverse: bool) -> None:
        super().__init__(find)
        self._reverse = reverse

    def applied(self, expression: typed.Apply, operands: Sequence[Marks]) -> Marks:
        operator, problem = expression.op, first_problem(operands)
        if operator.differential == "0" or not is_smooth(expression.type):
            return None
        if problem is None and operator.not_differentiable:
            name = SYMBOLS.get(operator.name, operator.name)
            problem = Problem(expression.span, f"`{name}`", operator.not_differentiable, kind=OPERATOR)
        return Mark(problem)

    def called(self, call: typed.Call, args: Sequence[Marks]) -> Marks:
        known = first_problem(args)
        if not call.rules and not call.closed:
            return self._through(call, self.follow(call, args), known)
        is_open = self._reverse or any(rule.forward for rule in call.rules)
        problem = known if known is not None or (is_open and not call.closed) else self._of_function(call)
        return marked(call.type, Mark(problem), is_smooth)

    def _of_function(self, call: typed.Call) -> Problem:
        function = self.find(call.function)
        name = "this call" if function is None else f"`{function.name}`"
        declared = None if function is None else function.span
        if call.closed:
            why = "it is a kernel without `implements=` and without a rule"
            return Problem(call.span, name, why, (), declared, KERNEL)
        why = "its `@vjp_of` rule is for reverse mode only"
        return Problem(call.span, name, why, (), declared, REVERSE_ONLY)

    def _through(self, call: typed.Call, marks: Marks, known: Problem | None) -> Marks:
        """What comes out of a call; a problem that is met inside has come through it."""
        function = self.find(call.function)
        if function is None or not any(mark.problem not in (None, known) for mark in leaves(marks)):
            return marks
        return _renamed(marks, known, (call.span, function.name))

    def derived(self, expression: typed.Derivative, names: Names) -> Marks:
        return None  # it is looked at by itself; of which order its own changes are nobody knows here


def _renamed(marks: Marks, known: Problem | None, step: tuple[Span, str]) -> Marks:
    if isinstance(marks, tuple):
        return tuple(_renamed(item, known, step) for item in marks)
    if marks is None or marks.problem is None or marks.problem == known:
        return marks
    return Mark(replace(marks.problem, calls=(step, *marks.problem.calls)))


# ---------------------------------------------------------------------------------------------------- messages


def _report(body: Body, derivative: typed.Derivative, problem: Problem) -> None:
    """At the call or operator, or the call that leads there out of this file."""
    own = derivative.span.file
    inside = [span for span, _ in problem.calls if span.file == own]
    at = problem.at if problem.at.file == own else (inside or [derivative.span])[-1]
    draft = body.sink.error(E0702, at=at, what=problem.what, why=problem.why)
    if not derivative.reverse:
        draft.note(derivative.span, "the derivative that is asked for here is in forward mode")
    elif not _within(at, derivative.span):
        draft.note(derivative.span, "its derivative is needed here")
    if problem.declared is not None and problem.declared.file == own:
        draft.note(problem.declared, "the kernel" if problem.kind == KERNEL else "a function with a rule")
    for step in _steps(problem)[-MAX_STEPS:]:
        draft.because(*step)
    _advise(draft, problem)


def _steps(problem: Problem) -> list[tuple[str, Span]]:
    """Who calls whom on the way from the function that is differentiated; a lambda stands where it is called."""
    names = [name for _, name in problem.calls] + ([problem.what.strip("`")] if problem.kind != OPERATOR else [])
    spans = [span for span, _ in problem.calls[1:]] + [problem.at]
    pairs = zip(names, names[1:], spans, strict=False)
    return [(f"`{caller}` calls `{name}`", span) for caller, name, span in pairs if "$" not in caller + name]


def _within(inner: Span, outer: Span) -> bool:
    return inner.file == outer.file and outer.start <= inner.start and inner.end <= outer.end


def _advise(draft: Draft, problem: Problem) -> None:
    name = problem.what.strip("`")
    if problem.kind == KERNEL:
        draft.fix("name the function that it computes, whose derivative it has: `@kernel(implements=f)`")
        draft.fix(f"or write the derivative: `@jvp_of({name})`, for both modes")
    elif problem.kind == REVERSE_ONLY:
        draft.fix(f"write a `@jvp_of({name})` rule, which serves both modes")
        draft.fix("or go in reverse: `grad`, `vjp` and `jacrev` do")
    else:
        draft.fix("where a gradient must not flow, say so: `stop_gradient(x)`")
