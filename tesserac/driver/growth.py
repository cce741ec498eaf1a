"""Programs that become too large when their calls are written out, told before anything is compiled.

Enters: a file without mistakes. Leaves: E0317 for the first function that is too large, as a compilation tells it. Few
files have functions of functions of functions: only of those is the graph built, and its operators counted.
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


def growth_mistakes(source: SourceFile) -> tuple[Diagnostic, ...]:
    if _bodies(parse_module(source).module) < MANY:
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
    from tesserac.graph.expansion import TooManyOperators, limit_calls
    from tesserac.graph.rules import apply_rules
    from tesserac.ir.passes import run_passes

    graph = build_module(list(result.reach(function).values()), {function.symbol})
    try:
        limit_calls(run_passes(graph, [apply_rules], verify=False))
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
    draft.remark("calls are written out here: what is done many times belongs into a loop, whose body is there once")
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


def _called(function: ast.FunctionDef) -> Iterator[str]:
    """Names that a function mentions: those of functions are called, or given to what calls them."""
    waiting: list[ast.Node] = [function]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            yield node.id
        waiting += children(node)
