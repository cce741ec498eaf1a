"""Programs that become too large when their calls are written out, told before anything is compiled.

Enters: a file without mistakes. Leaves: E0317 for the first function that is too large, as a compilation tells it. Few
files have functions of functions of functions, or derivatives of derivatives: only of those is the graph built, and its
operators counted. Derivatives are counted by making them, and only where they are nested so deep that they might be too
many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tesserac.base.source import SourceFile
from tesserac.diag.codes.shapes import E0317
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.sink import Sink
from tesserac.syntax import ast
from tesserac.syntax.parse import parse_module
from tesserac.syntax.walk import children

if TYPE_CHECKING:
    from tesserac.check.infer import CheckResult
    from tesserac.check.model.typed import TypedFunction
    from tesserac.graph.expansion import TooManyOperators

MANY = 500
"""Bodies that a function of the program becomes, each with what it does itself: a step of training has some dozens."""


DEEP = 6
"""Derivatives within each other: each makes about three operators of one."""
_TIMES = 4
"""By so much a derivative makes a body larger, at most, in what is known of it."""
_WRITTEN_OUT = "calls are written out here: what is done many times belongs into a loop, whose body is there once"
_DERIVED = "a derivative or a mapped function is made of a copy, so that one of another is some times as large"
_DERIVING = ("grad", "value_and_grad", "jvp", "vjp", "jacfwd", "jacrev", "hessian", "hvp")


def growth_mistakes(source: SourceFile) -> tuple[Diagnostic, ...]:
    module = parse_module(source).module
    if _bodies(module) < MANY and _mentioned_derivatives(module) < DEEP:
        return ()
    from tesserac.driver.session import Session

    checked = Session().check(source)
    for function in checked.result.module.functions:
        if found := _mistakes_of(function, checked.result):
            return found
    return ()


def _mistakes_of(function: TypedFunction, result: CheckResult) -> tuple[Diagnostic, ...]:
    """What calls tell of it, while the library's functions still have their names."""
    from tesserac.graph.build import build_module
    from tesserac.graph.expansion import MAX_OPERATORS, TooManyOperators, limit_calls
    from tesserac.graph.passes.inline import inline
    from tesserac.graph.passes.transforms import derivative_depth, transforms
    from tesserac.graph.rules import apply_rules
    from tesserac.ir.passes import run_passes

    graph = build_module(list(result.reach(function).values()), {function.symbol})
    try:
        graph = run_passes(graph, [apply_rules], verify=False)
        limit_calls(graph)
        if derivative_depth(graph) >= DEEP:
            graph = run_passes(graph, [inline], verify=False)
            if sum(1 for _ in graph.walk()) * _TIMES ** derivative_depth(graph) > MAX_OPERATORS:
                run_passes(graph, [transforms], verify=False)
    except TooManyOperators as problem:
        return too_many_operators(function, problem)
    return ()


def too_many_operators(function: TypedFunction, problem: TooManyOperators) -> tuple[Diagnostic, ...]:
    from tesserac.graph.expansion import MAX_OPERATORS

    sink = Sink()
    counts = {"count": f"{problem.count:,}", "limit": f"{MAX_OPERATORS:,}"}
    draft = sink.error(E0317, at=function.span, function=function.name, **counts)
    if problem.times > 1:
        draft.note(problem.part, f"written out {problem.times:,} times")
    draft.remark(_WRITTEN_OUT if problem.is_of_calls else _DERIVED)
    return sink.diagnostics


def _bodies(module: ast.Module) -> int:
    """The most bodies that a function of the module becomes when all calls of its own functions are written out."""
    functions = {node.name: node for node in module.items if isinstance(node, ast.FunctionDef)}
    calls = {name: Counter(_called(node)) for name, node in functions.items()}
    known: dict[str, int] = {}
    waiting = list(functions)
    under_way: set[str] = set()
    while waiting:
        name = waiting[-1]
        missing = [other for other in calls[name] if other in calls and other not in known and other not in under_way]
        if name not in known and missing:
            under_way.add(name)
            waiting += missing
            continue
        waiting.pop()
        under_way.discard(name)
        known[name] = 1 + sum(times * known.get(other, 1) for other, times in calls[name].items() if other in calls)
    return max(known.values(), default=0)


def _mentioned_derivatives(module: ast.Module) -> int:
    """How many derivatives the functions of a module may nest: those that it writes down, and as many as it takes where
    one is taken in a loop, or by a function that calls itself."""
    count = 0
    for function in module.items:
        if isinstance(function, ast.FunctionDef):
            names = Counter(_called(function))
            own = sum(names[name] for name in _DERIVING)
            repeats = names[function.name] or any(isinstance(node, ast.For) for node in function.body)
            count += DEEP if own and repeats else own
    return count


def _called(function: ast.FunctionDef) -> Iterator[str]:
    """Names that a function mentions: those of functions are called, or given to what calls them."""
    waiting: list[ast.Node] = [function]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            yield node.id
        waiting += children(node)
