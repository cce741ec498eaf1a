"""Sums of products that the iterations of a gradient's loop do not wait for are taken after it.

A loop that goes back through iterations adds a product to the cotangent of every weight in each of them. The next
iteration reads none of these sums: so the loop keeps what is new in the products, one row per iteration, and a loop of
its own takes the sum. The order of additions, hence every bit, is the same. See Note [Sums behind the loop].

Before:
    func.func @f {guards = [], params = ["x", "h", "w"]} {
      ^(%x: tensor<[T, B, K], f32>, %h: tensor<[B, N], f32>, %w: tensor<[K, N], f32>):
        %low = index.dim() {dim = `0`} : index
        %high = index.dim() {dim = `T`} : index
        %y, %s = form.loop(%low, %high, %h, %w)
          {backward = true, counter = "t"} : tensor<[B, N], f32>, tensor<[K, N], f32> {
          ^(%t: index, %a: tensor<[B, N], f32>, %b: tensor<[K, N], f32>):
            %0 = form.map(%a) {maps = [[0, 1]]} : tensor<[B, N], f32> {
              ^(%1: scalar<f32>):
                %2 = scalar.tanh(%1) : scalar<f32>
                form.yield(%2)
            }
            %3 = form.view(%x) {view = #slice<starts=[`T - t - 1`, `0`, `0`], steps=[1, 1, 1]>} : tensor<[1, B, K], f32>
            %4 = form.view(%3) {view = #reshape<>} : tensor<[B, K], f32>
            %5 = form.contract(%4, %0)
              {accum = dtype<f32>, lhs = [2, 0], order = #chain<length=4096>, out = [0, 1], rhs = [2, 1]}
              : tensor<[K, N], f32>
            %6 = form.map(%b, %5) {maps = [[0, 1], [0, 1]]} : tensor<[K, N], f32> {
              ^(%7: scalar<f32>, %8: scalar<f32>):
                %9 = scalar.add(%7, %8) : scalar<f32>
                form.yield(%9)
            }
            form.yield(%0, %6)
        }
        func.return(%y, %s)
    }
After:
    func.func @f {guards = [], params = ["x", "h", "w"]} {
      ^(%x: tensor<[T, B, K], f32>, %h: tensor<[B, N], f32>, %w: tensor<[K, N], f32>):
        %low = index.dim() {dim = `0`} : index
        %high = index.dim() {dim = `T`} : index
        %rows = form.empty() : tensor<[max(0, T), B, N], f32>
        %y, %kept = form.loop(%low, %high, %h, %rows)
          {backward = true, counter = "t"} : tensor<[B, N], f32>, tensor<[max(0, T), B, N], f32> {
          ^(%t: index, %a: tensor<[B, N], f32>, %r: tensor<[max(0, T), B, N], f32>):
            %0 = form.map(%a) {maps = [[0, 1]]} : tensor<[B, N], f32> {
              ^(%1: scalar<f32>):
                %2 = scalar.tanh(%1) : scalar<f32>
                form.yield(%2)
            }
            %3 = form.view(%0) {view = #reshape<>} : tensor<[1, B, N], f32>
            %4 = form.assemble(%r, %3)
              {boxes = [#slice<starts=[`0`, `0`, `0`], steps=[1, 1, 1]>,
                #slice<starts=[`T - t - 1`, `0`, `0`], steps=[1, 1, 1]>]}
              : tensor<[max(0, T), B, N], f32>
            form.yield(%0, %4)
        }
        %s = form.loop(%low, %high, %w) {counter = "t_1"} : tensor<[K, N], f32> {
          ^(%t_1: index, %b: tensor<[K, N], f32>):
            %5 = form.view(%x) {view = #slice<starts=[`T - t_1 - 1`, `0`, `0`], steps=[1, 1, 1]>}
              : tensor<[1, B, K], f32>
            %6 = form.view(%5) {view = #reshape<>} : tensor<[B, K], f32>
            %7 = form.view(%kept) {view = #slice<starts=[`T - t_1 - 1`, `0`, `0`], steps=[1, 1, 1]>}
              : tensor<[1, B, N], f32>
            %8 = form.view(%7) {view = #reshape<>} : tensor<[B, N], f32>
            %9 = form.contract(%6, %8)
              {accum = dtype<f32>, lhs = [2, 0], order = #chain<length=4096>, out = [0, 1], rhs = [2, 1]}
              : tensor<[K, N], f32>
            %10 = form.map(%b, %9) {maps = [[0, 1], [0, 1]]} : tensor<[K, N], f32> {
              ^(%11: scalar<f32>, %12: scalar<f32>):
                %13 = scalar.add(%11, %12) : scalar<f32>
                form.yield(%13)
            }
            form.yield(%10)
        }
        func.return(%y, %s)
    }
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from tesserac.base.dataclass import dataclass
from tesserac.graph.autodiff.dialect import BACKWARD, ROWS
from tesserac.graph.autodiff.linear import loop_bounds
from tesserac.graph.substitute import copy_op, counters
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Module, Op, Value
from tesserac.ir.forms import Reshape, Slice, tensor_type
from tesserac.ir.indexed import assembled_boxes
from tesserac.ir.passes import FORMS, pass_
from tesserac.ir.rewrite import erase_dead
from tesserac.ir.rows import Row, added_product, row_of
from tesserac.ir.types import INDEX, TensorType
from tesserac.ops.lowering import assemble_form, view_form
from tesserac.types.dims import ONE, ZERO, Dim


@pass_(FORMS, FORMS, "sink_weight_gradients")
def sink_weight_gradients(module: Module) -> Module:
    for function in module.ops:
        names = counters(function)
        for op in [inner for inner in function.walk() if inner.name == "form.loop" and BACKWARD in inner.attrs]:
            _Loop(op, names).defer_sums()
    while erase_dead(module):
        pass
    return module


@dataclass(frozen=True)
class _Sum:
    """A carried sum: at which position, the product that an iteration adds, and the map that adds it."""

    position: int
    product: Op
    add: Op


class _Loop:
    def __init__(self, op: Op, names: set[str]) -> None:
        self.op, self.body = op, op.body
        self.counter = str(op.attrs["counter"])
        self.inside = {*op.body.args, *(v for inner in op.walk() for v in inner.results if inner is not op)}
        self._names = names
        self.down = True
        """Whether the rows that the products read go down as the iterations go on."""

    def defer_sums(self) -> None:
        sums = self._sums()
        if not sums:
            return
        products = [found.product for found in sums]
        wanted = dict.fromkeys(v for product in products for v in product.operands if self._row(v) is None)
        for found in sums:
            self.body.terminator.set_operand(found.position, self.body.args[1 + found.position])
        stacks = {value: self._push(value, products) for value in wanted}
        new = self._rebuilt([found.position for found in sums], list(stacks.values()))
        kept = new.results[len(new.results) - len(stacks) :]
        after = Builder.before(self._next(new))
        for found in sums:
            total = self._sum_loop(after, found, dict(zip(stacks, kept, strict=True)))
            self.op.results[found.position].replace_all_uses(total)
        for found in sums:
            found.add.erase()
            found.product.erase()
        self.op.erase()

    # ------------------------------------------------------------------------------------------ what can be deferred

    def _sums(self) -> list[_Sum]:
        found: list[_Sum] = []
        for position in range(len(self.op.results)):
            product = added_product(self.body, position)
            if product is not None and all(self._is_kept(v) for v in product.operands):
                add = self.body.terminator.operands[position].defining_op
                assert add is not None
                found.append(_Sum(position, product, add))
        rows = [row for one in found for v in one.product.operands if (row := self._row(v)) is not None]
        self.down = bool(rows) and rows[0].down
        return found if all(row.down == self.down for row in rows) else []

    def _row(self, value: Value) -> Row | None:
        row = row_of(value, self.counter)
        return None if row is None or row.source in self.inside else row

    def _is_kept(self, value: Value) -> bool:
        """Whether every iteration has a row of its own, or one that can be kept."""
        if self._row(value) is not None:
            return True
        base = value
        while base.defining_op is not None and base.defining_op.name == "form.view":
            base = base.defining_op.operands[0]
        same_shape = all(self.counter not in dim.symbols() for dim in tensor_type(value).dims)
        return same_shape and base in self.inside and value in self._own_values()

    def _own_values(self) -> set[Value]:
        """Values of an iteration, not of control flow inside it."""
        return {*self.body.args, *(v for op in self.body.ops for v in op.results)}

    # --------------------------------------------------------------------------------------------------- the rows

    @property
    def _rows(self) -> Dim:
        low, high = loop_bounds(self.op)
        rows = self.op.attrs.get(ROWS, (high - low).max(ZERO))
        assert isinstance(rows, Dim)
        return rows

    def _iteration(self, counter: str) -> Dim:
        low, high = loop_bounds(self.op)
        return high - 1 - Dim.sym(counter) if self.down else Dim.sym(counter) - low

    def _push(self, value: Value, products: Sequence[Op]) -> tuple[Value, Value]:
        """A row of what an iteration keeps: the first stack, and the stack of the iteration that has the row."""
        ty, made = tensor_type(value), value.defining_op
        stacked = TensorType((self._rows, *ty.dims), ty.dtype, ty.policy)
        stack = self.body.add_arg(stacked)
        assembled = made is not None and made.name == "form.assemble"
        builder = Builder.before(self._next(made) if assembled and made is not None else self.body.terminator)
        boxes, parts = [Slice((ZERO,) * (ty.rank + 1), (1,) * (ty.rank + 1))], [stack]
        for part, box in self._parts(value):
            own = tensor_type(part)
            parts.append(view_form(builder, part, TensorType((ONE, *own.dims), own.dtype, own.policy), Reshape()))
            boxes.append(Slice((self._iteration(self.counter), *box.starts), (1, *box.steps)))
        pushed = assemble_form(builder, parts, stacked, boxes)
        if assembled:
            self._read_back(builder, value, pushed, products)
        return stack, pushed

    def _parts(self, value: Value) -> list[tuple[Value, Slice]]:
        made, rank = value.defining_op, tensor_type(value).rank
        if made is not None and made.name == "form.assemble":
            return list(zip(made.operands, assembled_boxes(made), strict=True))
        return [(value, Slice((ZERO,) * rank, (1,) * rank))]

    def _read_back(self, builder: Builder, value: Value, pushed: Value, products: Sequence[Op]) -> None:
        """What is put together of parts is put together in its row alone, and read there."""
        row = self._read(builder, pushed, self.counter)
        for user, position in list(value.uses):
            if user not in products:
                user.set_operand(position, row)

    def _read(self, builder: Builder, stack: Value, counter: str) -> Value:
        ty = tensor_type(stack)
        at = Slice((self._iteration(counter), *(ZERO for _ in ty.dims[1:])), (1,) * ty.rank)
        row = view_form(builder, stack, TensorType((ONE, *ty.dims[1:]), ty.dtype, ty.policy), at)
        return view_form(builder, row, TensorType(ty.dims[1:], ty.dtype, ty.policy), Reshape())

    # --------------------------------------------------------------------------------------------------- the loops

    def _rebuilt(self, gone: Sequence[int], stacks: Sequence[tuple[Value, Value]]) -> Op:
        """The loop without its sums, and with a stack for each value that is kept."""
        op, body = self.op, self.body
        kept = [place for place in range(len(op.results)) if place not in gone]
        builder = Builder.before(op)
        empty = [builder.value("form.empty", (), stack.type) for stack, _ in stacks]
        inits = [*(op.operands[2 + place] for place in kept), *empty]
        yielded = [body.terminator.operands[place] for place in kept]
        body.terminator.set_operands([*yielded, *(pushed for _, pushed in stacks)])
        body.args = [body.args[0], *(body.args[1 + place] for place in kept), *(stack for stack, _ in stacks)]
        for index, arg in enumerate(body.args):
            arg.index = index
        op.regions.clear()
        names = [op.results[place].name for place in kept]
        new = builder.op(op.name, (*op.operands[:2], *inits), [v.type for v in inits], op.attrs, (body,), names)
        for place, result in zip(kept, new.results, strict=False):
            op.results[place].replace_all_uses(result)
        return new

    def _sum_loop(self, builder: Builder, found: _Sum, stacks: dict[Value, Value]) -> Value:
        op, counter = self.op, self._fresh()
        init = op.operands[2 + found.position]
        block = Block([INDEX, init.type], [counter])
        inside = Builder(block, found.product.span)
        values = {v: block.args[1] for v in found.add.operands if v is not found.product.result}
        for value in found.product.operands:
            if value in stacks:
                values[value] = self._read(inside, stacks[value], counter)
            else:
                self._copy_views(block, value, values, counter)
        for inner in (found.product, found.add):
            block.append(copy_op(inner, values, {}))
        inside.op("form.yield", (values[found.add.result],))
        name = (op.results[found.position].name,)
        operands, attrs = (*op.operands[:2], init), {"counter": counter}
        return builder.op("form.loop", operands, [init.type], attrs, (block,), name).result

    def _copy_views(self, block: Block, value: Value, values: dict[Value, Value], counter: str) -> None:
        made = value.defining_op
        if made is not None and value in self.inside and value not in values:
            self._copy_views(block, made.operands[0], values, counter)
            block.append(copy_op(made, values, {self.counter: Dim.sym(counter)}))

    def _fresh(self) -> str:
        name = next(f"{self.counter}_{n}" for n in count(1) if f"{self.counter}_{n}" not in self._names)
        self._names.add(name)
        return name

    @staticmethod
    def _next(op: Op) -> Op:
        assert op.parent is not None
        return op.parent.ops[op.parent.place(op) + 1]


# Note [Sums behind the loop]
# The gradient of a weight that every iteration of a loop uses is a sum over iterations of products x[t]^T dy[t]. Inside
# the loop each of them reads and writes all of the sum, for a few rows of x and dy; behind it the sum is taken block by
# block, each staying near a core while the iterations pass (`schedule/loops/iterations.py`). That costs the rows of
# dy: as many as the stacks that the loop reads have already. So only loops of gradients are changed, and those of a
# checkpoint keep the rows of their own iterations only. The sum grows iteration by iteration as it did: a checkpoint
# still changes no bit.
