"""Loops whose iterations do not wait for each other are computed for all iterations at once, and those that only add
up are sums: of products, contractions. So a program that spells a matrix product as three loops runs one.

Enters: functions without calls. Leaves: the same, where loops of the program itself (those of the library are written
as they are to run) are mapped from the inside out. A loop that folds numbers over a part of a row stays where the loop
around it does: so few iterations are not worth a launch. Sums over iterations have the order of sums.

`inline_with_maps` looks at the loops of a function before its body is copied to where it is called: what becomes of
them depends on the sizes that the function itself speaks of. So it has the same bits wherever it is called or mapped,
also where the caller knows those sizes.

Before:
    graph.func @f {entry = true, guards = [], params = ["x", "y"]} {
      ^(%x: tensor<[N], f32>, %y: tensor<[N], f32>):
        %0 = index.dim() {dim = `0`} : index
        %1 = index.dim() {dim = `N`} : index
        %z = form.loop(%0, %1, %y) {counter = "i"} : tensor<[N], f32> {
          ^(%i: index, %a: tensor<[N], f32>):
            %2 = graph.cut(%x) {sizes = [`1`], starts = [`i`], steps = [1]} : tensor<[1], f32>
            %3 = graph.exp(%2) : tensor<[1], f32>
            %b = graph.insert(%a, %3) {starts = [`i`], steps = [1]} : tensor<[N], f32>
            form.yield(%b)
        }
        graph.return(%z)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["x", "y"]} {
      ^(%x: tensor<[N], f32>, %y: tensor<[N], f32>):
        %0 = index.dim() {dim = `0`} : index
        %1 = index.dim() {dim = `N`} : index
        %2 = graph.reshape(%x) {shape = [`N`, `1`]} : tensor<[N, 1], f32>
        %3 = graph.exp(%2) : tensor<[N, 1], f32>
        %z = graph.reshape(%3) {shape = [`N`]} : tensor<[N], f32>
        graph.return(%z)
    }
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tesserac.graph.autodiff.custom import Functions
from tesserac.graph.autodiff.linear import replace_results
from tesserac.graph.dialect import program_of, runs
from tesserac.graph.passes.inline import inlined
from tesserac.graph.substitute import copy_op, counters
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Module, Op
from tesserac.ir.forms import tensor_type
from tesserac.ir.kernels import block_loop
from tesserac.ir.passes import GRAPH, pass_
from tesserac.ir.rewrite import is_pure

if TYPE_CHECKING:
    from tesserac.graph.loops.places import Bounds

LOOP = "form.loop"
LARGEST = 400
"""Operations in loops within each other that are looked at: more are seldom maps, and each is looked at often."""
SEEN = "seen"
"""Says of a loop that it stays one, whoever calls the function that it is of."""


@pass_(GRAPH, GRAPH, "inline_with_maps")
def inline_with_maps(module: Module) -> Module:
    """Raises TooManyOperators."""
    inlined(module, _map_function)
    for op in module.walk():
        op.attrs.pop(SEEN, None)
    return module


def _map_function(module: Module, function: Op) -> None:
    if not runs(function) or program_of(function) is not None:
        return
    sizes = frozenset(name for arg in function.body.args for dim in tensor_type(arg).dims for name in dim.symbols())
    names = Functions(module, counters(function))
    for loop in list(_outermost(function)):
        _map_nest(loop, sizes, names)
    for op in function.walk():
        op.attrs |= {SEEN: True} if op.name == LOOP else {}


def _outermost(op: Op) -> Iterator[Op]:
    """The loops inside an operation that have no other counted loop around them there."""
    for region in op.regions:
        for inner in list(region.block.ops):
            if inner.name == LOOP:
                yield inner
            else:
                yield from _outermost(inner)


def _map_nest(loop: Op, sizes: frozenset[str], functions: Functions) -> None:
    """Maps what can be, on a copy: which loops stay is known in the end, and then what is not worth it inside them."""
    from tesserac.graph.loops.places import Bounds  # with nine modules, for functions with loops

    if SEEN in loop.attrs or loop.span.file.startswith("stdlib/"):
        return
    inside = list(loop.walk())
    if len(inside) > LARGEST or any(block_loop(op) for op in inside):
        return
    left, around = set[int](), Bounds({}, sizes)
    while True:
        nest = _Nest(loop, functions, left)
        if nest.convert(nest.copy, around):
            nest.not_worth_it.add(0)
        if not nest.changed or not nest.not_worth_it:
            break
        left |= nest.not_worth_it
        nest.forget()
    nest.take_place(loop) if nest.changed else nest.forget()


class _Nest:
    """A copy of loops within each other, which are known by their numbers in program order. Those in `left` are not
    mapped, and `not_worth_it` are those that were mapped and should not have been."""

    def __init__(self, loop: Op, functions: Functions, left: set[int]) -> None:
        self._functions, self._left = functions, left
        self.changed = False
        self.not_worth_it: set[int] = set()
        self.copy = copy_op(loop, {}, {})
        self._numbers = {op: number for number, op in enumerate(op for op in self.copy.walk() if op.name == LOOP)}
        self._block = Block()
        self._block.append(self.copy)
        read = [new for old, new in zip(loop.results, self.copy.results, strict=True) if old.uses]
        Builder(self._block, loop.span).op("form.yield", read)

    def convert(self, loop: Op, around: Bounds) -> bool:
        """Maps a loop and those inside it. Says whether it was only worth it if the one around it is mapped too."""
        from tesserac.graph.loops.independent import plan_of
        from tesserac.graph.loops.mapped import map_loop
        from tesserac.graph.loops.narrow import narrow_branches, narrow_carried

        number, inside = self._numbers[loop], around.inside(loop)
        short = [self._numbers[inner] for inner in list(_outermost(loop)) if self.convert(inner, inside)]
        narrow_branches(loop.body, inside)  # alone no reason to change a loop: what stays one has them in place
        narrow = narrow_carried(loop, around)
        plan = plan_of(narrow, around) if number not in self._left and SEEN not in loop.attrs else None
        self.changed |= narrow is not loop or plan is not None
        if plan is None:
            self.not_worth_it.update(short)
            return False
        block = narrow.parent
        assert block is not None
        replace_results(narrow, map_loop(plan, self._functions))
        _sweep(block)
        return plan.is_short

    def take_place(self, loop: Op) -> None:
        """Puts what became of the copy where the original stands."""
        block, end = loop.parent, self._block.terminator
        assert block is not None
        for op in self._block.ops[:-1]:
            op.detach()
            block.insert(block.place(loop), op)
        read = (result for result in loop.results if result.uses)
        for old, new in zip(list(read), end.operands, strict=True):
            new.name = new.name or old.name
            old.replace_all_uses(new)
        loop.erase()
        end.erase()

    def forget(self) -> None:
        self._block.drop_all_uses()


def _sweep(block: Block) -> None:
    """Drops what was computed for a loop and is not read any more."""
    for op in reversed(list(block.ops)):
        if not op.opdef.terminator and not any(v.uses for v in op.results) and is_pure(op):
            op.erase()
