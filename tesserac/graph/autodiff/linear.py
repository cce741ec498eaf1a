"""Which operations are linear in tangents, and the control flow that is only in part.

Enters: operations in order, and the tangents they start from. Leaves: those that depend on them. `separate` makes two
of each loop or branch that carries both values and tangents: one that computes values, and keeps what the other needs
of every turn, and one that is linear. See Note [What a loop keeps].
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tesserac.graph.autodiff.forward import TANGENTS, NotDifferentiable
from tesserac.graph.autodiff.writing import writer
from tesserac.graph.dialect import PREFIX
from tesserac.graph.substitute import copy_op
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.rewrite import is_pure
from tesserac.ops.calculus import Writer
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.dtype import BOOL
from tesserac.types.ty import TensorType


def used_values(op: Op) -> Iterator[Value]:
    """Operands of an operation and of all inside it."""
    for inner in op.walk():
        yield from inner.operands


def linear_ops(ops: Iterable[Op], tangents: set[Value]) -> list[Op]:
    """The operations that depend on `tangents`, to which their results are added. Control flow is either linear in
    all its results, or `separate` has not seen it yet and its attribute says how many are."""
    found = []
    for op in ops:
        if not tangents.isdisjoint(used_values(op)):
            found.append(op)
            count = op.attrs.get(TANGENTS)
            tangents.update(op.results[-count:] if isinstance(count, int) else op.results)
    return found


def separate(ops: Sequence[Op], tangents: set[Value]) -> None:
    """Control flow that mixes values and tangents becomes two, in place; `tangents` are those to start from."""
    known = set(tangents)
    for op in ops:
        if known.isdisjoint(used_values(op)):
            continue
        if TANGENTS in op.attrs:
            known.update(_separate(op, known))
        else:
            known.update(op.results)


def _separate(op: Op, tangents: set[Value]) -> Sequence[Value]:
    if op.name == "form.while":
        raise NotDifferentiable(op.span, "a `while` loop", "has no known number of turns to go back through")
    count = op.attrs[TANGENTS]
    assert isinstance(count, int)
    for region in op.regions:
        block = region.block
        inner = tangents | (set(block.args[-count:]) if op.name == "form.loop" else set())
        separate(list(block.ops[:-1]), inner)
    return _separate_loop(op, count, tangents) if op.name == "form.loop" else _separate_cond(op, count)


# ------------------------------------------------------------------------------------------------- branches


def _separate_cond(op: Op, count: int) -> Sequence[Value]:
    """Values once more in the linear branch: only what the tangents need of them stays there."""
    builder = Builder.before(op)
    values = [_branches(op, slice(None, -count)), _branches(op, slice(-count, None), pure=True)]
    types = [[v.type for v in op.results[:-count]], [v.type for v in op.results[-count:]]]
    made = [builder.op("form.cond", op.operands, t, None, blocks) for t, blocks in zip(types, values, strict=True)]
    for old, new in zip(op.results, (*made[0].results, *made[1].results), strict=True):
        new.name = old.name
        old.replace_all_uses(new)
    op.erase()
    return made[1].results


def _branches(op: Op, kept: slice, *, pure: bool = False) -> list[Block]:
    blocks = []
    for region in op.regions:
        block, values = Block(), dict[Value, Value]()
        for inner in region.block.ops[:-1]:
            if not pure or is_pure(inner):
                block.append(copy_op(inner, values, {}))
        outcome = [values.get(v, v) for v in region.block.terminator.operands[kept]]
        Builder(block, op.span).op("form.yield", outcome)
        erase_unused(block)
        blocks.append(block)
    return blocks


def erase_unused(block: Block) -> None:
    """Drops pure operations whose results nobody uses."""
    for op in reversed(list(block.ops)):
        if not op.opdef.terminator and is_pure(op) and not any(v.uses for v in op.results):
            op.erase()


# ---------------------------------------------------------------------------------------------------- loops


def loop_bounds(op: Op) -> tuple[Dim, Dim]:
    """Where a loop starts and stops."""
    bounds = []
    for value in op.operands[:2]:
        made = value.defining_op
        dim = made.attrs.get("dim") if made is not None else None
        assert isinstance(dim, Dim), "a loop over indices that no size gives"
        bounds.append(dim)
    return bounds[0], bounds[1]


def _separate_loop(op: Op, count: int, tangents: set[Value]) -> Sequence[Value]:
    body = op.body
    own = set(body.args[-count:])
    linear = linear_ops(body.ops[:-1], own | tangents)
    kept = _Kept(op, linear)
    primal = _primal_loop(op, count, set(linear), kept)
    stacks = primal.results[len(op.results) - count :]
    new = _linear_loop(op, count, linear, kept, stacks)
    for old, value in zip(op.results, (*primal.results[: len(op.results) - count], *new.results), strict=True):
        value.name = old.name
        old.replace_all_uses(value)
    op.erase()
    return new.results


class _Kept:
    """What the linear part of a loop's body needs of the values in it: `stored` for every turn, `again` computed there
    once more. See Note [What a loop keeps]."""

    def __init__(self, loop: Op, linear: Sequence[Op]) -> None:
        self._loop = loop
        self._counter = str(loop.attrs["counter"])
        self._inside = {v for inner in loop.body.ops for v in inner.results} | set(loop.body.args)
        self._linear = {v for inner in linear for v in inner.results} | set(loop.body.args[-_count(loop) :])
        self.stored: list[Value] = []
        self.again: list[Op] = []
        for inner in linear:
            for value in used_values(inner):
                self._need(value)
        position = {inner: i for i, inner in enumerate(loop.body.ops)}
        self.again.sort(key=lambda made: position[made])

    def _need(self, value: Value) -> None:
        if value not in self._inside or value in self._linear or value in self.stored:
            return
        made = value.defining_op
        if made is None or not self._is_repeated(made, value):
            self.stored.append(value)
        elif made not in self.again:
            self.again.append(made)
            for operand in used_values(made):
                self._need(operand)

    def _is_repeated(self, made: Op, value: Value) -> bool:
        changes_shape = any(self._counter in dim.symbols() for dim in tensor_type(value).dims)
        return changes_shape or (made.name in _CHEAP and self._is_outside(made))

    def _is_outside(self, made: Op) -> bool:
        """Whether an operation is cheap, and so is all inside the loop that it needs."""
        makers = [v.defining_op for v in made.operands if v in self._inside]
        return all(m is not None and m.name in _CHEAP and self._is_outside(m) for m in makers)


_CHEAP = frozenset(
    PREFIX + name
    for name in (
        "full", "zeros", "ones", "arange", "eye", "size",
        "cut", "reshape", "permute", "expand", "squeeze", "unsqueeze", "flip", "split",
    )
)
"""Operations that only say where elements lie, or need none."""


def _count(loop: Op) -> int:
    count = loop.attrs[TANGENTS]
    assert isinstance(count, int)
    return count


def _primal_loop(op: Op, count: int, linear: set[Op], kept: _Kept) -> Op:
    """The loop without its tangents; after what it carried it gives a stack for each value that is kept."""
    builder, body = Builder.before(op), op.body
    low, high = loop_bounds(op)
    counter = Dim.sym(str(op.attrs["counter"]))
    trips = (high - low).max(ZERO)
    write = writer(builder, {})
    stacks = [_empty(write, _stack_type(value, trips)) for value in kept.stored]
    args = body.args[:-count]
    block = Block([a.type for a in args], [a.name for a in args])
    values = dict(zip(args, block.args, strict=True))
    tops = [block.add_arg(stack.type) for stack in stacks]
    for inner in body.ops[:-1]:
        if inner not in linear:
            block.append(copy_op(inner, values, {}))
    inside = Builder(block, op.span)
    pushed = [
        _push(writer(inside, {}), top, values[value], counter - low)
        for top, value in zip(tops, kept.stored, strict=True)
    ]
    carried = [values.get(v, v) for v in body.terminator.operands[:-count]]
    inside.op("form.yield", (*carried, *pushed))
    erase_unused(block)
    operands = (*op.operands[: len(op.operands) - count], *stacks)
    return builder.op(op.name, operands, [v.type for v in operands[2:]], _without_count(op), (block,))


def _linear_loop(op: Op, count: int, linear: Sequence[Op], kept: _Kept, stacks: Sequence[Value]) -> Op:
    builder, body = Builder.before(op), op.body
    low, _ = loop_bounds(op)
    counter = Dim.sym(str(op.attrs["counter"]))
    args = (body.args[0], *body.args[-count:])
    block = Block([a.type for a in args], [a.name for a in args])
    values = dict(zip(args, block.args, strict=True))
    write = writer(Builder(block, op.span), {})
    for value, stack in zip(kept.stored, stacks, strict=True):
        values[value] = _read(write, stack, tensor_type(value), counter - low)
    for inner in (*kept.again, *linear):
        block.append(copy_op(inner, values, {}))
    outcome = [values.get(v, v) for v in body.terminator.operands[-count:]]
    Builder(block, op.span).op("form.yield", outcome)
    inits = op.operands[-count:]
    return builder.op(op.name, (*op.operands[:2], *inits), [v.type for v in inits], _without_count(op), (block,))


def _without_count(op: Op) -> dict[str, object]:
    return {name: attr for name, attr in op.attrs.items() if name != TANGENTS}


def _stack_type(value: Value, trips: Dim) -> TensorType:
    ty = tensor_type(value)
    return TensorType((trips, *ty.dims), ty.dtype, ty.policy)


def _empty(write: Writer, ty: TensorType) -> Value:
    number = False if ty.dtype == BOOL else 0.0 if ty.dtype.kind in "fc" else 0
    return write.full(number, ty)


def _push(write: Writer, stack: Value, value: Value, turn: Dim) -> Value:
    ty = tensor_type(value)
    row = write.reshape(value, (ONE, *ty.dims))
    starts = (turn, *(ZERO for _ in ty.dims))
    return write("insert", stack, row, starts=starts, steps=(1,) * (ty.rank + 1))


def _read(write: Writer, stack: Value, ty: TensorType, turn: Dim) -> Value:
    starts = (turn, *(ZERO for _ in ty.dims))
    row = write("cut", stack, starts=starts, sizes=(ONE, *ty.dims), steps=(1,) * (ty.rank + 1))
    return write.reshape(row, ty.dims)


# Note [What a loop keeps]
# Going back through a loop needs what its turns computed: the factor of a tangent in `cos(x) * dx`. Such values are
# kept in stacks, one row per turn, so that memory grows with the number of turns (a checkpoint trades it for time). Not
# kept is what costs nothing to have again: constants, and views of what lies outside the loop, such as row i of its
# input. Nor can a value be kept whose shape changes from turn to turn: it is computed again, from what can.
