"""The kernels of a program that stand for functions it reaches.

Enters: what an entry of a program reaches. Leaves: the same, where functions that kernels implement have these as their
alternatives, and all that the kernels reach. Every kernel that the program can see counts, the library's among them: so
a call that the library makes takes a kernel of the program too.
"""

from __future__ import annotations

from collections.abc import Iterator

from tesserac.check.analysis.reach import reachable
from tesserac.check.model import typed
from tesserac.check.module.alternatives import Implementer, is_instance, with_alternatives
from tesserac.check.module.checker import ModuleChecker
from tesserac.check.names.refs import FunctionRef


def with_implementers(
    reached: dict[str, typed.TypedFunction], checker: ModuleChecker
) -> dict[str, typed.TypedFunction]:
    kernels: dict[FunctionRef, list[Implementer]] = {}
    for ref, kernel in implementers(checker):
        kernels.setdefault(ref, []).append(kernel)
    names = {ref.name for ref in kernels}
    waiting = [function for function in reached.values() if function.name in names]
    while waiting:
        function, made = _with_kernels(waiting.pop(), kernels, checker)
        if not function.alternatives:
            continue
        new = reachable(made, checker.find)
        waiting += [other for symbol, other in new.items() if symbol not in reached and other.name in names]
        reached = {**new, **reached, function.symbol: function}
    return reached


def implementers(checker: ModuleChecker) -> Iterator[tuple[FunctionRef, Implementer]]:
    """The kernels that a program can see, each with the function that it implements."""
    for module in checker.imported():
        for ref, kernel in module.implementing:
            said = module.decorations(kernel)
            if said.is_known:
                yield ref, Implementer(module, FunctionRef(module.name, kernel), said.target, said.tolerance)


def _with_kernels(
    function: typed.TypedFunction, kernels: dict[FunctionRef, list[Implementer]], checker: ModuleChecker
) -> tuple[typed.TypedFunction, list[typed.TypedFunction]]:
    for ref, ways in kernels.items():
        if ref.name == function.name:
            signature = checker.signature(ref.owner, ref.name)
            if is_instance(function, ref.owner, signature):
                return with_alternatives(function, signature, ways)
    return function, []
