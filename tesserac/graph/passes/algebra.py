"""Linear algebra by its laws: products in their cheapest order, matrices of known structure applied without being made.

Structure is read off the operators (`where(i == j, d, 0)` is a diagonal), laws and costs are tables: `graph/algebra/`.
It is decided from the program alone, never from the sizes of a call, so that all targets and the interpreter compute
the same. Kernels stay as they are written: what they do block by block has their order.

Before:
    graph.func @f {entry = true, guards = [], params = ["a", "b", "v"]} {
      ^(%a: tensor<[N, N], f32>, %b: tensor<[N, N], f32>, %v: tensor<[N], f32>):
        %0 = graph.matmul(%a, %b) : tensor<[N, N], f32>
        %1 = graph.matmul(%0, %v) : tensor<[N], f32>
        graph.return(%1)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["a", "b", "v"]} {
      ^(%a: tensor<[N, N], f32>, %b: tensor<[N, N], f32>, %v: tensor<[N], f32>):
        %0 = graph.matmul(%b, %v) : tensor<[N], f32>
        %1 = graph.matmul(%a, %0) : tensor<[N], f32>
        graph.return(%1)
    }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.graph.algebra.applications import Spared, by_applications
from tesserac.graph.algebra.costs import Facts, facts_of
from tesserac.graph.algebra.engine import Choice, Engine, Step
from tesserac.graph.algebra.reading import Reader, is_root
from tesserac.graph.algebra.terms import Term
from tesserac.graph.algebra.writing import TermWriter
from tesserac.graph.autodiff.writing import writer
from tesserac.graph.dialect import NUMERICS, alternatives_of, expected_sizes, program_of
from tesserac.graph.passes.fold import SHAPED, is_as_it_is
from tesserac.ir.builder import Builder
from tesserac.ir.core import Module, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.func import guards
from tesserac.ir.passes import GRAPH, pass_
from tesserac.ir.rewrite import is_pure


@dataclass(frozen=True, eq=False)
class Rewrite:
    """What the laws made of one expression."""

    function: str
    op: Op
    before: Term
    after: Term
    steps: Sequence[Step]
    choices: Sequence[Choice]
    facts: Facts


Observe = Callable[[Rewrite | Spared], None]


@pass_(GRAPH, GRAPH, "algebra")
def algebra(module: Module) -> Module:
    return by_laws(module, None)


def by_laws(module: Module, observe: Observe | None) -> Module:
    """The pass; `observe` is told of every expression that a law changed, or would change for some sizes."""
    kernels = kernels_of(module)
    for function in module.ops:
        if function.symbol not in kernels:
            rewrite_function(function, observe)
    return module


def kernels_of(module: Module) -> set[str]:
    """Kernels, what they do block by block, and functions that kernels implement to the bit."""
    found: set[str] = set()
    for function in module.ops:
        program, ways = program_of(function), alternatives_of(function)
        found |= {function.symbol} if program is not None or ways else set()
        found |= {way.symbol for way in ways} | ({program.symbol} if program is not None else set())
    return found


def rewrite_function(function: Op, observe: Observe | None) -> None:
    _forget_same_shapes(function)
    by_applications(function, observe)
    roots = [op for op in function.walk() if is_root(op)]
    if not roots:
        return
    facts = facts_of(guards(function), expected_sizes(function))
    engine = Engine(facts)
    done: set[Op] = set()
    for op in reversed(roots):  # what is part of a larger expression is looked at with it
        if op in done or op.parent is None or not op.result.uses:
            continue
        before, after = _simplified(op, engine)
        done.update(_inside(before, op))
        if observe is not None and (after != before or engine.choices):
            observe(Rewrite(function.symbol, op, before, after, tuple(engine.steps), tuple(engine.choices), facts))
        if after != before:
            done.update(_replace(op, after))


def _forget_same_shapes(function: Op) -> None:
    """A shape that is said again, as a fact makes a call do, hides nothing from the laws: mapped functions have none of
    these, and have the bits of each call alone. Roundings stay: by them the bodies that kernels implement are known."""
    for op in list(function.walk()):
        if op.name in SHAPED and is_as_it_is(op):
            op.result.replace_all_uses(op.operands[0])
            op.erase()


def _simplified(op: Op, engine: Engine) -> tuple[Term, Term]:
    """An expression and its cheapest form. A product that others need too is taken apart only where what undoes it
    costs less than what is beside it alone."""
    reader = Reader(op, undone=True)
    before = reader.read()
    after = engine.simplify(before)
    if reader.has_shared:
        alone = Reader(op).read()
        if after == before or not engine.is_gain(after, alone):
            return alone, engine.simplify(alone)
    return before, after


def _inside(term: Term, root: Op) -> list[Op]:
    """The operations between the leaves of an expression and its root."""
    if not term.head:
        return []
    leaves = {part.leaf for part in term.parts() if part.leaf is not None}
    found: list[Op] = []
    waiting = [root]
    while waiting:
        op = waiting.pop()
        for value in op.operands:
            inner = value.defining_op
            if value not in leaves and inner is not None and len(value.uses) == 1:
                found.append(inner)
                waiting.append(inner)
    return found


def _replace(op: Op, term: Term) -> list[Op]:
    """Writes the expression where its old form stood; what was needed for that alone is gone. The operations erased."""
    mode = op.attrs.get(NUMERICS)
    write = writer(Builder.before(op), {} if mode is None else {NUMERICS: mode})
    value = TermWriter(write, tensor_type(op.result)).value(term)
    assert value.type == op.result.type, f"{op.name} gives {op.result.type}, rewritten {value.type}"
    if value.defining_op is not None:
        value.name = value.name or op.result.name
    op.result.replace_all_uses(value)
    return erase_unused(op)


def erase_unused(op: Op) -> list[Op]:
    erased: list[Op] = []
    waiting = [op]
    while waiting:
        unused = waiting.pop()
        if unused.parent is None or any(v.uses for v in unused.results) or not is_pure(unused):
            continue
        needed: list[Value] = list(unused.operands)
        unused.erase()
        erased.append(unused)
        waiting += [v.defining_op for v in needed if v.defining_op is not None]
    return erased
