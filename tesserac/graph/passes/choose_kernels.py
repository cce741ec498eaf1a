"""Calls of functions take kernels that implement them, where a target runs these as tiles and they cost less.

Enters: a module in which calls of functions that have alternatives stand under their names, sizes fixed, derivatives
taken. Leaves: each as a call of the kernel that costs least, or as the body of the function. Both have the same bits.
What a kernel asks of sizes that only a run knows is asked there, and both are kept.

Before:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %y = graph.kernel(%x) {callee = "twice", dims = [["M", `N`]]} : tensor<[N], f32>
        graph.return(%y)
    }
    graph.func @twice {
          alternatives = [#alternative<kernel="k", symbol="", target="", rewrite=false, guards=[], why="no">],
          entry = false, guards = [], params = ["v"]} {
      ^(%v: tensor<[M], f32>):
        %0 = graph.add(%v, %v) : tensor<[M], f32>
        graph.return(%0)
    }
After:
    graph.func @f {chosen = [["twice", "k", false, "no"]], entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %0 = graph.add(%x, %x) : tensor<[N], f32>
        graph.return(%0)
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tesserac.base.dataclass import dataclass
from tesserac.base.targets import covers
from tesserac.graph.applying import apply_operator
from tesserac.graph.dialect import KERNEL_CALL, Alternative, alternatives_of, program_of, runs
from tesserac.graph.passes.choose_rewrites import refusal, tell, undecided
from tesserac.graph.passes.inline import erase_unreached, inline_call
from tesserac.graph.passes.mean_kernels import kernel_calls, kernels_as_meant, mean, meaning_cost, rest_cost
from tesserac.graph.passes.place_kernels import Tiles, keep_both, place_kernels, try_kernel
from tesserac.graph.substitute import copy_block
from tesserac.ir.builder import Builder
from tesserac.ir.calls import call_dims
from tesserac.ir.core import Module, Op, Value
from tesserac.ir.forms import Guard
from tesserac.ir.ordering import order_effects
from tesserac.ir.passes import GRAPH, Pass
from tesserac.ir.types import TensorType
from tesserac.ops.compare import BitAnd, Equal, LessEqual
from tesserac.ops.create import Full
from tesserac.ops.elementwise import Mod
from tesserac.types.dims import Dim
from tesserac.types.dtype import I64
from tesserac.types.policy import NO_POLICY

TIE = 1.1
"""Costs that differ by less are equal to the model; then who wrote the kernel knows more than it does."""


@dataclass(frozen=True)
class _Choice:
    """An alternative that a target can take, and what it costs there; `open` are guards that only a run decides."""

    way: Alternative
    cost: int
    open: tuple[Guard, ...]


def choose_kernels(tiles: Tiles) -> Pass:
    """The pass for a target."""

    def run(module: Module) -> Module:
        if not any(map(alternatives_of, module.ops)):
            return module
        for function in [f for f in module.ops if runs(f)]:
            for op in kernel_calls(function):
                if alternatives_of(module.lookup(str(op.attrs["callee"]))):
                    _choose(module, function, op, tiles)
        erase_unreached(module)
        order_effects(module)  # a kernel asserts that it is what it implements
        return module

    return Pass("choose_kernels", GRAPH, GRAPH, run)


def _ways(module: Module, call: Op) -> list[Alternative]:
    """The kernels with the bits of what is called."""
    return [way for way in alternatives_of(module.lookup(str(call.attrs["callee"]))) if not way.rewrite]


def _choose(module: Module, function: Op, call: Op, tiles: Tiles) -> None:
    callee = module.lookup(str(call.attrs["callee"]))
    choices = []
    for way in _ways(module, call):
        found = _try(module, call, way, tiles)
        if isinstance(found, str):
            tell(function, callee, way, False, found)
        else:
            choices.append(found)
    best = min(choices, key=lambda choice: choice.cost, default=None)
    plain, beside = _meaning_cost(module, call, tiles) if best is not None else (0, "")
    for choice in choices:
        if choice is not best:
            tell(function, callee, choice.way, False, f"`{best.way.kernel}` costs less" if best else "")
    if best is None or best.cost > TIE * plain:
        if best is not None:
            tell(function, callee, best.way, False, f"it would cost {_compared(best.cost, plain)}{beside}")
        if program_of(callee) is None:
            mean(module, function, call)
        return
    tell(function, callee, best.way, True, f"it costs {_compared(best.cost, plain)}{_asking(best.open)}")
    taken = _branch(module, function, call, best.open) if best.open else call
    inline_call(taken, module.lookup(best.way.symbol), function)


def _compared(cost: int, plain: int) -> str:
    return f"{cost / max(1, plain):.2f} of what the function costs"


def _asking(guards: Sequence[Guard]) -> str:
    return f", where {' and '.join(guard.text for guard in guards)}" if guards else ""


def _try(module: Module, call: Op, way: Alternative, tiles: Tiles) -> _Choice | str:
    """What a target makes of an alternative, or why it does not take it."""
    if not covers(way.target, tiles.target):
        return f"it is for {way.target}"
    open_ = undecided(way, call) if way.symbol else None
    if open_ is None:
        return refusal(way, call)
    block = copy_block(module.lookup(way.symbol).body, {}, call_dims(call))
    calls = [op for outer in block.ops for op in outer.walk() if op.name == KERNEL_CALL]
    placed = [try_kernel(module, op, tiles) for op in calls]
    block.drop_all_uses()
    why = next((placement.why for placement in placed if placement.why), "" if placed else "it is no tile program")
    return why or _Choice(way, sum(placement.cost for placement in placed), open_)


def _meaning_cost(module: Module, call: Op, tiles: Tiles) -> tuple[int, str]:
    """What the body of a function costs on the target, kernels that it calls itself among it; and what to tell of that
    where the caller computes parts of it anyhow."""
    passes = [place_kernels(tiles), kernels_as_meant, *tiles.passes]
    whole = meaning_cost(module, call, passes, tiles.cost)
    rest = rest_cost(module, call, passes, tiles.cost)
    if rest is None or rest >= whole:
        return whole, ""
    return rest, " beside what the caller computes of it anyhow"


# ------------------------------------------------------------------------------------------------ sizes of the run


def _branch(module: Module, function: Op, call: Op, guards: Sequence[Guard]) -> Op:
    """The call where the guards hold; elsewhere the body of the function."""
    builder, dims = Builder.before(call), call_dims(call)
    flags = [_flag(builder, guard, dims) for guard in guards]
    flag = reduce(lambda left, right: apply_operator(builder, BitAnd(), left, right), flags)
    return keep_both(module, function, call, flag)


def _flag(builder: Builder, guard: Guard, dims: dict[str, Dim]) -> Value:
    """Whether a guard holds, as a value of the run."""

    def size(dim: Dim) -> Value:
        return builder.value("graph.size", (), TensorType((), I64), {"dim": dim.substitute(dims)})

    left, right = size(guard.left), size(guard.right)
    if guard.kind == "equal":
        return apply_operator(builder, Equal(), left, right)
    if guard.kind == "divides":
        zero = apply_operator(builder, Full((), I64, NO_POLICY, 0))
        return apply_operator(builder, Equal(), apply_operator(builder, Mod(), right, left), zero)
    return apply_operator(builder, LessEqual(), right, left)
