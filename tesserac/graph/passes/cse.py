"""Computes equal expressions once: an operation equal to an earlier one that is visible here gives way to it.

Equal means the same definition, operands, attributes and types, and bodies that do the same with the same values around
them, whatever their counters are called: a decomposition that two functions of the library make of one matrix is one.

Before:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %a = graph.exp(%x) : tensor<[N], f32>
        %b = graph.exp(%x) : tensor<[N], f32>
        %c = graph.add(%a, %b) : tensor<[N], f32>
        graph.return(%c)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %a = graph.exp(%x) : tensor<[N], f32>
        %c = graph.add(%a, %a) : tensor<[N], f32>
        graph.return(%c)
    }
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Hashable, Sequence
from functools import cached_property

from tesserac.graph.autodiff.dialect import CHECKPOINT
from tesserac.ir.core import Block, Module, Op, Value
from tesserac.ir.effects import asserting_symbols
from tesserac.ir.kernels import KERNEL
from tesserac.ir.meaning import part_meaning
from tesserac.ir.ordering import IO
from tesserac.ir.passes import FORMS, GRAPH, pass_
from tesserac.ir.printer import print_attr
from tesserac.ir.rewrite import is_pure

COUNTER = "counter"
"""The attribute of a loop that names the size that its iterations count."""
APART = (CHECKPOINT, KERNEL)
"""Whose bodies are theirs alone."""
MAX_NESTED = 64
"""Operations that lead to a matrix: longer expressions are what they are."""
Seen = ChainMap[Hashable, tuple[Op, ...]]
BodyKeys = dict[Op, tuple[tuple[Value, ...], str]]


@pass_(GRAPH, GRAPH, "cse")
def cse(module: Module) -> Module:
    merge_equal(module)
    return module


@pass_(FORMS, FORMS, "cse_forms")
def cse_forms(module: Module) -> Module:
    """Forms of operators that differed by views alone, such as the maximum of rows that keeps their axis and that which
    does not."""
    merge_equal(module)
    return module


def merge_equal(module: Module) -> None:
    merger = _Merger(module)
    for function in module.ops:
        for region in function.regions:
            merger.merge(region.block, ChainMap())


class _Merger:
    def __init__(self, module: Module) -> None:
        self._module = module
        self._keys: BodyKeys = {}

    @cached_property
    def _asserting(self) -> frozenset[str]:
        return asserting_symbols(self._module)

    def merge(self, block: Block, seen: Seen) -> None:
        """`seen` has one map per block around: what is computed in one branch is not visible in the other, and what is
        to be computed again is not taken from where it is kept."""
        for op in list(block.ops):
            for region in op.regions:
                self.merge(region.block, ChainMap() if op.name in APART else seen.new_child())
            if not op.opdef.pure or op.opdef.terminator or op.name in APART:
                continue
            earlier = _earlier(op, self._key(op), seen, self._keys)
            if earlier is not None:
                for old, new in zip(op.results, earlier.results, strict=True):
                    old.replace_all_uses(new)
                op.erase()

    def _key(self, op: Op) -> Hashable:
        """Without the place of what only asserts: of the same operands that holds once and for all."""
        only_asserts = IO in op.attrs and op.attrs.get("callee") in self._asserting
        return expression_key(op, op.operands, (COUNTER, IO) if only_asserts else (COUNTER,))


def _earlier(op: Op, key: Hashable, seen: Seen, keys: BodyKeys) -> Op | None:
    """An equal operation that is visible; where there is none, this one is from here on."""
    alike = seen.get(key, ())
    for other in alike:
        if not op.regions or (_length(op) == _length(other) and is_pure(op) and _same_body(op, other, keys)):
            return other
    seen[key] = (*alike, op)
    return None


def _length(op: Op) -> list[int]:
    return [len(region.block.ops) for region in op.regions]


def _same_body(op: Op, other: Op, keys: BodyKeys) -> bool:
    """All before an operation is merged when it is come to, and what its bodies do does not change from then on."""
    for one in (op, other):
        if one not in keys:
            keys[one] = _body_key(one)
    return keys[op] == keys[other]


def merge_first_operands(ops: Sequence[Op]) -> None:
    """Gives operations, in the order of the program, the same value where their first operands are computed alike, in
    one block: what is computed of one matrix then shows, before the rest of the program is merged."""
    known: dict[Value, int] = {}
    seen: dict[Hashable, int] = {}
    first: dict[int, Value] = {}
    for op in ops:
        value = op.operands[0]
        earlier = first.setdefault(_number(value, known, seen, MAX_NESTED), value)
        if earlier is not value and _block_of(earlier) is _block_of(value):
            op.set_operand(0, earlier)


def _number(value: Value, known: dict[Value, int], seen: dict[Hashable, int], depth: int) -> int:
    """The same for values that are computed alike of the same values."""
    op = value.defining_op
    if value not in known:
        key: Hashable = value
        if op is not None and depth and len(op.results) == 1 and not op.regions and is_pure(op):
            operands = tuple([_number(operand, known, seen, depth - 1) for operand in op.operands])
            key = expression_key(op, (op.parent, *operands))
        known[value] = seen.setdefault(key, len(seen))
    return known[value]


def _block_of(value: Value) -> Block | None:
    return value.defining_op.parent if value.defining_op is not None else None


def expression_key(op: Op, operands: Hashable, without: tuple[str, ...] = (COUNTER,)) -> Hashable:
    """What an operation does with operands. Attributes by their text: `1`, `1.0` and `true` are equal in Python, `0.0`
    and `-0.0` too."""
    attrs = tuple(sorted((name, print_attr(value)) for name, value in op.attrs.items() if name not in without))
    return op.opdef.name, operands, attrs, tuple(v.type for v in op.results)


def _body_key(op: Op) -> tuple[tuple[Value, ...], str]:
    """What bodies read of the values around them, and what they do; a counter, which is also a size, by its number."""
    inside = {value for inner in op.walk() for value in (*inner.results, *_arguments(inner))}
    outside = tuple(dict.fromkeys(v for inner in op.walk() for v in inner.operands if v not in inside))
    counters = [str(inner.attrs[COUNTER]) for inner in op.walk() if COUNTER in inner.attrs]
    numbers = {name: f"counter {number}" for number, name in enumerate(counters)}
    return outside, re.sub(r"\w+", lambda word: numbers.get(word[0], word[0]), part_meaning(op, outside))


def _arguments(op: Op) -> list[Value]:
    return [value for region in op.regions for value in region.block.args]
