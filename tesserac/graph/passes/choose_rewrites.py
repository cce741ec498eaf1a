"""Calls of functions take the kernels that implement them with other bits: those that say `within=`.

Enters: a module in which such calls have their names still, and their sizes are as the program says them. Leaves: the
kernel in the place of the call wherever what it asks of sizes is known to hold. Nothing else decides: not the target,
nor the sizes of a call, so that a program has the same bits everywhere.

Before:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %y = graph.custom(%x) {callee = "twice", dims = [["M", `N`]]} : tensor<[N], f32>
        graph.return(%y)
    }
    graph.func @twice {
          alternatives = [#alternative<kernel="k", symbol="by_k", target="", rewrite=true, guards=[], why="">],
          entry = false, guards = [], params = ["v"]} {
      ^(%v: tensor<[M], f32>):
        %0 = graph.add(%v, %v) : tensor<[M], f32>
        graph.return(%0)
    }
    graph.func @by_k {entry = false, guards = [], params = ["v"]} {
      ^(%v: tensor<[M], f32>):
        %0 = graph.exp(%v) : tensor<[M], f32>
        graph.return(%0)
    }
After:
    graph.func @f {
          chosen = [["twice", "k", true, "it is within its tolerance"]], entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %0 = graph.exp(%x) : tensor<[N], f32>
        graph.return(%0)
    }
"""

from __future__ import annotations

from tesserac.graph.dialect import (
    CUSTOM,
    FORWARD_RULE,
    MEANS,
    MEANT,
    REVERSE_RULE,
    Alternative,
    alternatives_of,
)
from tesserac.graph.passes.inline import MEANING, erase_unreached, inline_call
from tesserac.ir.calls import call_dims
from tesserac.ir.core import Module, Op
from tesserac.ir.forms import Guard
from tesserac.ir.ordering import order_effects
from tesserac.ir.passes import GRAPH, pass_
from tesserac.types.dims import ZERO, Dim

CHOSEN = "chosen"
"""The attribute of a function that tells of its calls: what is called, a kernel that implements it, whether that is
taken, and why."""


def chosen_kernels(function: Op) -> list[tuple[str, str, bool, str]]:
    """What is told of a function, see CHOSEN."""
    told = function.attrs.get(CHOSEN, ())
    assert isinstance(told, tuple)
    entries = [entry for entry in told if isinstance(entry, tuple)]
    return [(str(callee), str(kernel), taken is True, str(why)) for callee, kernel, taken, why in entries]


@pass_(GRAPH, GRAPH, "choose_rewrites")
def choose_rewrites(module: Module) -> Module:
    if not any(way.rewrite for function in module.ops for way in alternatives_of(function)):
        return module
    for function in list(module.ops):
        for op in [op for op in function.walk() if op.name == CUSTOM and MEANT not in op.attrs]:
            _choose(module, function, op)
    erase_unreached(module)
    order_effects(module)  # a kernel asserts that it is what it implements
    return module


def _choose(module: Module, function: Op, call: Op) -> None:
    callee = module.lookup(str(call.attrs["callee"]))
    for way in alternatives_of(callee):
        why = refusal(way, call) if way.rewrite else ""
        if way.rewrite and why:
            tell(function, callee, way, False, why)
        elif way.rewrite:
            tell(function, callee, way, True, "it is within its tolerance")
            _take(module, function, call, way)
            return


def _take(module: Module, function: Op, call: Op, way: Alternative) -> None:
    """A call that has derivatives of its own keeps them, and only its value is that of the kernel."""
    if FORWARD_RULE in call.attrs or REVERSE_RULE in call.attrs:
        call.attrs["callee"] = way.symbol
    else:
        inline_call(call, module.lookup(way.symbol), function)


def refusal(way: Alternative, call: Op) -> str:
    """Why a kernel does not stand for a call, as far as the types of the call show it; nothing if it may."""
    if not way.symbol:
        return way.why
    open_ = undecided(way, call)
    return "" if open_ is not None and not open_ else f"it asks for {_asked(way, call)}"


def undecided(way: Alternative, call: Op) -> tuple[Guard, ...] | None:
    """What a kernel asks of the sizes of a call that only a run knows; None where it does not hold."""
    found = [(guard, _holds(guard, call_dims(call))) for guard in way.guards]
    if any(holds is False for _, holds in found):
        return None
    return tuple(guard for guard, holds in found if holds is None)


def _asked(way: Alternative, call: Op) -> str:
    wanted = [guard for guard in way.guards if _holds(guard, call_dims(call)) is not True]
    return " and ".join(guard.text for guard in wanted)


def _holds(guard: Guard, dims: dict[str, Dim]) -> bool | None:
    """Whether it holds for all sizes; None where that depends on them."""
    left, right = guard.left.substitute(dims), guard.right.substitute(dims)
    if left.constant is not None and right.constant is not None:
        return guard.holds(left.constant, right.constant)
    if guard.kind == "equal":
        return True if left == right else None
    if guard.kind == "divides" and left.constant is not None and left.constant > 0:
        return True if right.mod(left) == ZERO else None
    return None


def tell(function: Op, callee: Op, way: Alternative, taken: bool, why: str) -> None:
    """Notes what became of an alternative, each once."""
    told = function.attrs.get(CHOSEN, ())
    assert isinstance(told, tuple)
    entry = (callee.attrs.get(MEANS, callee.symbol.removesuffix(MEANING)), way.kernel, taken, why)
    if entry not in told:
        function.attrs[CHOSEN] = (*told, entry)
