"""Functions of functions become operators: derivatives, and functions mapped over a dim.

Innermost first, so that each meets only operators and control flow in its region, and what comes out of it is that too:
derivatives of mapped functions and mapped derivatives compose to any depth.

Before:
    graph.func @f {entry = true, guards = [], params = ["x", "w"]} {
      ^(%x: tensor<[B, N], f32>, %w: tensor<[N], f32>):
        %g = graph.vmap(%x, %w) {in_axes = [0, none], out_axes = [0], size = `B`} : tensor<[B, N], f32> {
          ^(%a: tensor<[N], f32>, %b: tensor<[N], f32>):
            %s, %c = graph.vjp(%a, %b) {wrt = [0]} : tensor<[N], f32>, tensor<[N], f32> {
              ^(%v: tensor<[N], f32>):
                %0 = graph.sin(%v) : tensor<[N], f32>
                form.yield(%0)
            }
            form.yield(%c)
        }
        graph.return(%g)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["x", "w"]} {
      ^(%x: tensor<[B, N], f32>, %w: tensor<[N], f32>):
        %0 = graph.cos(%x) : tensor<[B, N], f32>
        %1 = graph.reshape(%w) {shape = [`1`, `N`]} : tensor<[1, N], f32>
        %c = graph.mul(%1, %0) : tensor<[B, N], f32>
        graph.return(%c)
    }
"""

from __future__ import annotations

from tesserac.graph.autodiff.checkpoints import open_checkpoints
from tesserac.graph.autodiff.custom import Functions, Observe, dissolve
from tesserac.graph.autodiff.dialect import CHECKPOINT, JVP, VJP
from tesserac.graph.autodiff.linear import erase_unused, replace_results
from tesserac.graph.batching.dialect import VMAP
from tesserac.graph.dialect import CUSTOM, KERNEL_CALL, PATTERN, alternatives_of, program_of
from tesserac.graph.expansion import limit_body
from tesserac.graph.passes.cse import merge_equal
from tesserac.graph.passes.inline import custom_symbols, erase_unreached
from tesserac.graph.substitute import counters
from tesserac.ir.calls import INVOKE, callee_of
from tesserac.ir.core import Module, Op, Value
from tesserac.ir.ordering import order_effects
from tesserac.ir.passes import GRAPH, pass_
from tesserac.ir.rewrite import erase_dead

TRANSFORMED = (JVP, VJP, VMAP, CUSTOM, CHECKPOINT)
"""Operations that this pass leaves none of."""


@pass_(GRAPH, GRAPH, "transforms")
def transforms(module: Module) -> Module:
    return expand_transforms(module, None)


def expand_transforms(module: Module, observe: Observe | None) -> Module:
    """The pass; `observe` is told of every loop what the way back keeps of it."""
    is_new = any(op.name in TRANSFORMED for op in module.walk())
    if is_new:
        merge_equal(module)  # a value that is computed twice would have two cotangents, and all before it too
    expanded: set[Op] = set()
    for function in list(module.ops):
        _expand(module, function, expanded, observe)
    waiting = [function for function in module.ops if function.attrs["entry"] is True or PATTERN in function.attrs]
    waiting += [module.lookup(way.symbol) for function in waiting for way in alternatives_of(function) if way.symbol]
    for function in waiting:
        dissolve(function, Functions(module, counters(function)))
        open_checkpoints(function)
        erase_unused(function.body)
        waiting += [other for other in _needed_by(module, function) if other not in waiting]
    erase_unreached(module)
    while erase_dead(module):
        pass
    if is_new:
        order_effects(module)  # what a rule asserts has its place in this program, not in that of the rule
    return module


def derivative_depth(module: Module) -> int:
    """How many derivatives stand within each other, at most, in the functions of a module that calls connect."""
    known: dict[str, int] = {}

    def of(op: Op) -> int:
        inside = [of(inner) for region in op.regions for inner in region.block.ops]
        called = [of_function(str(op.attrs["callee"]))] if "callee" in op.attrs else []
        return max([*inside, *called], default=0) + (op.name in (JVP, VJP))

    def of_function(symbol: str) -> int:
        if symbol not in known:
            known[symbol] = 0  # of one that calls itself, which inlining refuses
            known[symbol] = of(module.lookup(symbol))
        return known[symbol]

    return max((of_function(function.symbol) for function in module.ops), default=0)


def _needed_by(module: Module, function: Op) -> list[Op]:
    """What a function calls, and what its calls of kernels may become."""
    called = [module.lookup(callee_of(op)) for op in function.walk() if op.name == INVOKE]
    callees = [module.lookup(str(op.attrs["callee"])) for op in function.walk() if op.name == KERNEL_CALL]
    symbols = [way.symbol for callee in callees for way in alternatives_of(callee) if way.symbol]
    programs = [program.symbol for callee in callees if (program := program_of(callee)) is not None]
    return list(dict.fromkeys([*called, *callees, *map(module.lookup, [*symbols, *programs])]))


def _expand(module: Module, function: Op, expanded: set[Op], observe: Observe | None) -> None:
    """Functions that this one may be given the bodies of come first."""
    if function in expanded:
        return
    expanded.add(function)
    for op in list(function.walk()):
        for symbol in custom_symbols(op) if op.name == CUSTOM else ():
            _expand(module, module.lookup(symbol), expanded, observe)
    functions = Functions(module, counters(function), observe, lambda made: _expand(module, made, expanded, observe))
    for op in reversed(list(function.walk())):  # what stands inside another comes first
        if op.name in (JVP, VJP, VMAP):
            limit_body(op)
            replace_results(op, _expanded(op, functions))


def _expanded(op: Op, functions: Functions) -> list[Value]:
    """Derivatives and mapping are twenty modules, of no use to a program without them."""
    if op.name == VMAP:
        from tesserac.graph.batching.expand import expand_vmap

        return expand_vmap(op, functions)
    from tesserac.graph.autodiff.expand import expand_jvp, expand_vjp

    return (expand_jvp if op.name == JVP else expand_vjp)(op, functions)
