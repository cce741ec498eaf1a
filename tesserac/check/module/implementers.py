"""The kernels of a program that stand for functions it reaches.

Enters: an entry of a program. Leaves: what it reaches, where functions that kernels implement have these as their
alternatives, and all that the kernels reach. Every kernel that the program can see counts, the library's among them: so
a call that the library makes takes a kernel of the program too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from tesserac.base.resources import of_library
from tesserac.check.analysis.feeding import feeds
from tesserac.check.analysis.reach import reachable, uses
from tesserac.check.expressions.operations import BINARY
from tesserac.check.kernels.implementing import BY, MEANT
from tesserac.check.kernels.laws import contracts, law_types
from tesserac.check.model import typed
from tesserac.check.module.alternatives import Implementer, is_instance, with_alternatives
from tesserac.check.module.checker import ModuleChecker
from tesserac.check.names.refs import FunctionRef
from tesserac.ops.contract import MatMul
from tesserac.ops.elementwise import Mul
from tesserac.ops.registry import OPERATORS
from tesserac.ops.shape import Permute
from tesserac.syntax import ast
from tesserac.syntax.walk import descendants

Kernels = dict[FunctionRef, list[tuple[ModuleChecker, str]]]
"""The kernels that a program can see, each with its module, by the function that it implements."""


Reached = dict[str, typed.TypedFunction]
Closure = Callable[[Iterable[typed.TypedFunction], Callable[[str], typed.TypedFunction]], Reached]
"""What functions need: all that is reachable, or what they compute with."""


def with_implementers(function: typed.TypedFunction, checker: ModuleChecker, closure: Closure) -> Reached:
    reached = closure([function], checker.find)
    kernels: Kernels = {}
    for module in checker.imported():
        for ref, kernel in module.implementing:
            kernels.setdefault(ref, []).append((module, kernel))
    names = {ref.name for ref in kernels}
    waiting = [function for function in reached.values() if function.name in names]
    while waiting:
        function, made = _with_kernels(waiting.pop(), kernels, checker)
        if not function.alternatives:
            continue
        new = closure(made, checker.find)
        waiting += [other for symbol, other in new.items() if symbol not in reached and other.name in names]
        reached = {**new, **reached, function.symbol: function}
    patterns = [pattern for module in checker.imported() for pattern in _patterns(module)]
    if _has_products(reached):  # all laws are of what goes into one
        patterns += [pattern for module in checker.imported() for pattern in _laws(module, reached, checker)]
    made = [checker.find(way.symbol) for pattern in patterns for way in pattern.alternatives]
    return {**closure([*patterns, *made], checker.find), **reached} if patterns else reached


def _with_kernels(
    function: typed.TypedFunction, kernels: Kernels, checker: ModuleChecker
) -> tuple[typed.TypedFunction, list[typed.TypedFunction]]:
    for ref, found in kernels.items():
        if ref.name == function.name:
            signature = checker.signature(ref.owner, ref.name)
            if is_instance(function, ref.owner, signature):
                ways = [way for module, name in found if (way := _implementer(module, name)) is not None]
                return with_alternatives(function, signature, ways)
    return function, []


def _implementer(module: ModuleChecker, name: str) -> Implementer | None:
    said = module.decorations(name)
    return Implementer(module, FunctionRef(module.name, name), said.target, said.tolerance) if said.is_known else None


def _patterns(module: ModuleChecker) -> Iterator[typed.TypedFunction]:
    """What kernels of a module implement, each with the kernel as its alternative: operators, and in a program
    functions, whose bodies may stand written out."""
    for name, meaning in module.names.implemented.items():
        of_function = isinstance(module.meaning(meaning), FunctionRef)
        if of_function and of_library(meaning.span.file):
            continue
        said = module.decorations(name)
        if of_function and said.tolerance is not None:
            continue
        function = module.own_instance(name, module.representatives(name)[0]).function
        pattern = None if function is None else module.known(f"{function.symbol}{MEANT}")
        if pattern is not None and function is not None and said.is_known:
            way = typed.Alternative(name, f"{function.symbol}{BY}", said.target, said.tolerance, "")
            yield replace(pattern, alternatives=(way,))


def _laws(
    module: ModuleChecker, reached: dict[str, typed.TypedFunction], checker: ModuleChecker
) -> Iterator[typed.TypedFunction]:
    """What laws of a module say of the types with which a program calls the functions that they are of, if what these
    give goes where the laws say at all."""
    for name, of in module.names.laws.items():
        ref = module.meaning(of)
        if not isinstance(ref, FunctionRef):
            continue
        anchor = checker.signature(ref.owner, ref.name)
        calls = {s: f for s, f in reached.items() if f.name == ref.name and is_instance(f, ref.owner, anchor)}
        law = module.names.functions[name]
        if not calls or not _needed(law) <= _operators(reached, reachable(calls.values(), checker.find)):
            continue
        if not feeds(reached, calls, contracts):
            continue
        for types in dict.fromkeys(law_types(module.own_signature(name), call) for call in calls.values()):
            function = None if types is None else module.own_instance(name, types).function
            pattern = None if function is None else module.known(f"{function.symbol}{MEANT}")
            if pattern is not None:
                yield pattern


def _has_products(reached: dict[str, typed.TypedFunction]) -> bool:
    return any(contracts(part.op) for function in reached.values() for part in uses(function).operators)


def _operators(reached: dict[str, typed.TypedFunction], less: Collection[str]) -> set[str]:
    """The operators of a program, less those of some functions."""
    others = (function for symbol, function in reached.items() if symbol not in less)
    return {part.op.name for function in others for part in uses(function).operators}


def _needed(law: ast.FunctionDef) -> set[str]:
    """The operators without which a program writes nothing that a law is of: its own, but products and factors, which
    have other spellings, and what is computed of sizes."""
    (returned,) = (part for part in descendants(law) if isinstance(part, ast.Return))
    assert isinstance(returned.value, ast.TupleExpr), "a law gives two values"
    found = set()
    for part in descendants(returned.value.items[0]):
        match part:
            case ast.BinaryOp(op=sign) if any(isinstance(inner, ast.Call) for inner in descendants(part)):
                found.add(BINARY[sign].name)
            case ast.Call(function=ast.Name(id=name)) if name in OPERATORS:
                found.add(name)
    return found - {MatMul.name, Mul.name, Permute.name}
