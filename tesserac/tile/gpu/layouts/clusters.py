"""Pass `clusters`: segments of a long product are blocks of threads that run side by side and share their sums out.

    gpu.kernel @f {cluster = 2} {
        %sum = gpu.tree(2, zero) { ^(s): ...; yield part } {+};  ... %sum : [128, 192] ...; store }
  becomes
    gpu.kernel @f {cluster = 2} { %s = gpu.rank(); ...; %0, %1 = gpu.exchange(%part);  %sum = %0 + %1
        ... %sum : [128, 96], its columns from %s * 96 on ...; store }

    gpu.rank() : index                          the number of this block of threads among those of its cluster
    gpu.exchange(part) : fragment...            as many columns of the parts of all of them, in order of their numbers:
                                                those columns whose turn it is by its own, zeros
                                                behind the last

A cluster is so many blocks of threads at once, which reach each other's shared memory. So parts need no way through
memory, and no second launch; each block finishes its columns. The order of the sums is that of the aligned tree, as
where one program walks all segments (`split_terms.py` has the other way, and says when it is taken).
"""

from __future__ import annotations

from dataclasses import replace

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value, attr, clone_op, define_op
from tesserac.ir.index import dim_value, index_op
from tesserac.ir.types import INDEX, AxisType, TileType, Type
from tesserac.schedule.costs.tiles import SPLIT_TERMS, TOGETHER
from tesserac.schedule.machine import Machine
from tesserac.tile.dialect import tile_type
from tesserac.tile.gpu.layouts.variants import variants, works_by_rows
from tesserac.tile.gpu.model.matrix import WGMMA, accumulator_layout
from tesserac.tile.gpu.model.types import FragmentType
from tesserac.tile.gpu.model.values import fragment, integer, matrix_unit_of

CLUSTER = "cluster"
"""The attribute of a kernel each of whose programs is so many blocks of threads."""
WORDS = 16
"""Columns of a part are a multiple of it: two pieces, which lanes exchange where they write them."""
BEHIND = ("tile.map", "tile.cast", "tile.full", "tile.load", "tile.store", "tile.return")


def may_join(kernel: Op, machine: Machine) -> bool:
    """Whether a neutral kernel has one tree, of segments of a product by groups of warps, and all behind it is made
    element by element."""
    (tree,) = (op for op in kernel.body.ops if op.name == "tile.tree")
    if len(tree.results) != 1 or works_by_rows(kernel) or attr(kernel, SPLIT_TERMS, int) > TOGETHER:
        return False
    if {variant.unit for variant in variants(kernel, machine)} != {WGMMA}:
        return False
    tops, shape = kernel.body.ops, tile_type(tree.result).shape
    behind = [op for op in tops[tops.index(tree) + 1 :] if op.opdef.dialect == "tile"]
    stores = [op for op in behind if op.name == "tile.store"]
    places = {tuple(_axes(op)) for op in stores}
    if len(places) != 1 or len(next(iter(places))) != 2:
        return False
    (axes,) = places
    return all(op.name in BEHIND and _is_by_element(op, shape, axes) for op in behind)


def _axes(move: Op) -> list[Value]:
    return [v for v in move.operands if isinstance(v.type, AxisType)]


def _is_by_element(op: Op, shape: tuple[int, ...], axes: tuple[Value, ...]) -> bool:
    if op.name == "tile.load":
        own = _axes(op)
        return all(v in axes for v in own) and own == sorted(own, key=axes.index)
    return all(not isinstance(v.type, TileType) or v.type.shape == shape for v in op.results)


def join_in_clusters(kernel: Op) -> None:
    """Changes a kernel that is one in place."""
    if CLUSTER in kernel.attrs:
        _Join(kernel).build()


class _Join:
    def __init__(self, kernel: Op) -> None:
        self.count = integer(kernel, CLUSTER)
        (self.tree,) = (op for op in kernel.body.ops if op.name == "gpu.tree")
        self.b = Builder.before(self.tree)
        self.rank = self.b.value("gpu.rank", (), INDEX, hint="segment")
        ops = kernel.body.ops
        self.later = ops[ops.index(self.tree) + 1 : -1]
        (dot,) = (op for op in self.tree.walk() if op.name == "gpu.dot")
        whole = fragment(self.tree.result)
        self.width = whole.shape[1]
        self.shape = whole.shape[0], -(-self.width // (self.count * WORDS)) * WORDS
        self.part = replace(whole, shape=self.shape, layout=accumulator_layout(matrix_unit_of(dot), self.shape))

    def build(self) -> None:
        body, known = self.tree.regions[0].block, dict[Value, Value]()
        known[body.args[0]] = self.rank
        for op in body.ops[:-1]:
            self.b.add(clone_op(op, known))
        part = known[body.terminator.operands[0]]
        names = [f"part{i}" for i in range(self.count)]
        parts = self.b.op("gpu.exchange", (part,), [self.part] * self.count, names=names).results
        known[self.tree.result] = self.subtree(list(parts))
        store = next(op for op in self.later if op.name == "gpu.store")
        self.rows, self.columns = _axes(store)
        made = self.columns.defining_op
        assert made is not None
        for op in self.later if made in self.later else (made, *self.later):
            if op is made:
                known[self.columns] = self.own_columns(op, known)
            else:
                self.add_narrowed(op, known)
        for op in reversed(self.later):
            op.erase()
        self.tree.erase()

    def subtree(self, parts: list[Value]) -> Value:
        """The parts of an aligned subtree, joined."""
        if len(parts) == 1:
            return parts[0]
        half = 1 << ((len(parts) - 1).bit_length() - 1)
        combine = self.tree.regions[1].block
        known = dict(zip(combine.args, (self.subtree(parts[:half]), self.subtree(parts[half:])), strict=True))
        for op in combine.ops[:-1]:
            self.add_narrowed(op, known)
        return known[combine.terminator.operands[0]]

    def add_narrowed(self, op: Op, known: dict[Value, Value]) -> None:
        for result in self.b.add(clone_op(op, known)).results:
            result.type = self.narrowed(op, result)

    def own_columns(self, axis: Op, known: dict[Value, Value]) -> Value:
        start, stop = (known.get(v, v) for v in axis.operands)
        first = index_op(self.b, "mul", self.rank, dim_value(self.b, self.shape[1]))
        if self.shape[1] * self.count != self.width:
            end = index_op(self.b, "add", start, dim_value(self.b, self.width))
            stop = index_op(self.b, "min", stop, end)
        return self.b.value("gpu.axis", (index_op(self.b, "add", start, first), stop), AxisType(self.shape[1]))

    def narrowed(self, op: Op, result: Value) -> Type:
        """The type of a result that has the columns of this block of threads alone."""
        ty = result.type
        if not isinstance(ty, FragmentType):
            return ty
        if op.name != "gpu.load":
            return replace(ty, shape=self.shape, layout=self.part.layout)
        axes = (self.rows, self.columns)
        dims = [axes.index(v) for v in op.operands[1:] if v in axes]
        return replace(ty, shape=tuple(self.shape[d] for d in dims), layout=self.part.layout.project(dims))


define_op("gpu.rank", pure=True)
define_op("gpu.exchange", pure=False)
