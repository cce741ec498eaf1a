"""Pass `teams`: loops over reduction blocks are dealt to teams of 16 or 32 threads, each with a block of its own.

    %m = gpu.for(%zero, %n, %lowest) {step = 512} { ^(%j, %best): ... max(%best, %b) ... }
  becomes, for four warps, that is eight teams of 16
    %part = gpu.for(%zero, %n, %lowest) {step = 4096} { ^(%base, %best): %j = %base + %team * 512 ... }
    %other = gpu.shuffle(%part) {lane = 16}, a max of both, then each warp's through shared memory

All teams make the same number of rounds; a block behind the end has an empty axis. A loop is dealt when its iterations
share nothing but maxima or minima, which do not depend on the order. A tree is always dealt: eight neighbouring blocks
combine by the aligned tree, and the counter behind it takes subtrees; maxima and minima beside a sum are each team's
own until the last round is over. Other loops are run by every team alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, clone_op
from tesserac.ir.index import dim_value, index_op
from tesserac.ir.types import INDEX, MemRefType
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.layout import WHOLE_WARP
from tesserac.tile.gpu.model.types import FLAG, FragmentType
from tesserac.tile.gpu.model.values import fragment, integer
from tesserac.tile.gpu.rows.held_rows import makes_one_round
from tesserac.tile.gpu.rows.reduce import identity
from tesserac.types.dims import ZERO, Dim

ORDER_FREE = ("scalar.max", "scalar.min")
_DEALT = "dealt"
"""Marks a loop whose rounds have no order, within this pass."""


def deal_to_teams(kernel: Op, team: int, blocks: int | None) -> None:
    """Changes a kernel of row reductions in place. `blocks` are those that a row has at most, where a run knows it."""
    dealer = _Dealer(kernel, team, blocks)
    for op in list(kernel.body.ops):
        if op.name == "gpu.tree":
            dealer.tree(op)
        elif op.name == "gpu.for":
            folds = [_order_free_fold(op, i) for i in range(len(op.results))]
            if _independent(op):
                op.attrs[_DEALT] = True
                dealer.loop(op, [f for f in folds if f is not None])


def turn_round(kernel: Op) -> None:
    """Has loops that were dealt, and are not gone since, begin with the last round where what they read is read again:
    see Note [Rows that are read again]."""
    for loop in [op for op in kernel.body.ops if op.attrs.pop(_DEALT, False) and _is_read_again(op)]:
        base, outer, step = loop.body.args[0], Builder.before(loop), integer(loop, "step")
        rounds = index_op(outer, "ceil_div", loop.operands[1], dim_value(outer, step))
        last = index_op(outer, "mul", index_op(outer, "sub", rounds, dim_value(outer, 1)), dim_value(outer, step))
        start = index_op(Builder.before(loop.body.ops[0]), "sub", last, base, "start")
        _replace_uses(base, start)


class _Dealer:
    def __init__(self, kernel: Op, size: int, blocks: int | None) -> None:
        self.kernel, self.size, self.blocks = kernel, size, blocks
        self.warps = integer(kernel, "warps")
        self.of_warp = WHOLE_WARP // size
        self.teams = self.warps * self.of_warp
        first = Builder.before(kernel.body.ops[0])
        self.team = first.value("gpu.team", (), INDEX, {"size": size}, hint="team")

    def loop(self, op: Op, folds: list[Op]) -> None:
        step = integer(op, "step")
        op.attrs["step"] = step * self.teams
        base = op.body.args[0]
        b = Builder.before(op.body.ops[0])
        mine = index_op(b, "add", base, index_op(b, "mul", self.team, dim_value(b, step)), "mine")
        _replace_uses(base, mine)
        self.own_stores(op.body)
        end = op.body.terminator
        last = Builder.before(end)
        present = last.value("gpu.less", (mine, op.operands[1]), FLAG, hint="present")
        for position, value in enumerate(end.operands):
            kept = last.value("gpu.choose", (present, value, op.body.args[1 + position]), value.type)
            end.set_operand(position, kept)
        for position, fold in enumerate(folds):
            self.join(op, op.results[position], fold)

    def own_stores(self, block: Block) -> None:
        """Teams hold different blocks now, so each of them writes."""
        for op in (inner for top in block.ops for inner in top.walk()):
            if op.name == "gpu.store":
                op.attrs["team"] = self.size

    def join(self, loop: Op, part: Value, fold: Op) -> None:
        """Folds the parts of all teams behind the loop."""
        users = list(part.uses)
        b = _after(loop)
        if self.of_warp > 1:
            other = b.value("gpu.shuffle", (part,), part.type, {"lane": self.size}, hint="other")
            part = self.apply(b, fold, part, other)
        [(first, *others)] = self.gather(b, [part])
        for value in others:
            first = self.apply(b, fold, first, value)
        for user, position in users:
            user.set_operand(position, first)

    def apply(self, b: Builder, fold: Op, left: Value, right: Value) -> Value:
        mapping = {fold.operands[0]: left, fold.operands[1]: right}
        return b.add(clone_op(fold, mapping)).result

    def gather(self, b: Builder, values: Sequence[Value]) -> list[list[Value]]:
        """What each warp holds of each, as values of every thread. All are told before the first is heard: threads
        wait for each other once."""
        types = [fragment(value) for value in values]
        if any(ty.shape != () for ty in types):
            raise LoweringError("teams exchange single numbers only")
        if self.warps == 1:
            return [[value] for value in values]
        rooms = [self._room(ty) for ty in types]
        for value, room in zip(values, rooms, strict=True):
            b.op("gpu.publish", (value, room))
        told = zip(rooms, types, strict=True)
        return [b.op("gpu.collect", (room,), [ty] * self.warps).results for room, ty in told]

    def _room(self, ty: FragmentType) -> Value:
        mem = MemRefType((Dim.const(self.warps),), ty.dtype, ty.policy, space="shared")
        return Builder.before(self.kernel.body.ops[0]).value("gpu.alloc", (), mem, hint="exchange")

    def tree(self, op: Op) -> None:
        count = op.operands[0]
        outer = Builder.before(op)
        rounds = index_op(outer, "ceil_div", count, dim_value(outer, self.teams), "rounds")
        op.set_operand(0, rounds)
        block, combine = (r.block for r in op.regions)
        number = block.args[0]
        b = Builder.before(block.ops[0])
        first = index_op(b, "mul", number, dim_value(b, self.teams), "first")
        mine = index_op(b, "add", first, self.team, "mine")
        _replace_uses(number, mine)
        self.own_stores(block)
        end = block.terminator
        last, values = Builder.before(end), list(end.operands)
        apart = {} if makes_one_round(op, self.teams, self.blocks) else _order_free_parts(op)
        rest = [i for i in range(len(values)) if i not in apart]
        joined = _Subtree(self, last, _without(combine, apart), count).join(first, [values[i] for i in rest])
        for i, value in zip(rest, joined, strict=True):
            values[i] = value
        present = last.value("gpu.less", (mine, count), FLAG, hint="present")
        for i, fold in apart.items():
            values[i] = last.value("gpu.choose", (present, values[i], op.operands[1 + i]), values[i].type)
            self.join(op, op.results[i], fold)
        end.set_operands(values)


class _Subtree:
    """The aligned tree over the values of all teams in one round, of which the last may be absent."""

    def __init__(self, dealer: _Dealer, b: Builder, combine: Block, count: Value) -> None:
        self.dealer = dealer
        self.b = b
        self.combine = combine
        self.count = count

    def join(self, first: Value, values: list[Value]) -> list[Value]:
        of_warp = self.within_warp(first, values) if self.dealer.of_warp > 1 else values
        gathered = self.dealer.gather(self.b, of_warp)
        level = [list(told) for told in zip(*gathered, strict=True)]
        width = self.dealer.of_warp
        while len(level) > 1:
            pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
            level = [
                self.pair(left, right[0], self.offset(first, (2 * i + 1) * width)) if right else left
                for i, (left, *right) in enumerate(pairs)
            ]
            width *= 2
        return level[0]

    def within_warp(self, first: Value, values: list[Value]) -> list[Value]:
        """The two teams of a warp: the even one holds the left value."""
        b = self.b
        odd = index_op(b, "rem", self.dealer.team, dim_value(b, 2))
        even = b.value("gpu.less", (odd, dim_value(b, 1)), FLAG, hint="even")
        others = [b.value("gpu.shuffle", (v,), v.type, {"lane": self.dealer.size}) for v in values]
        left = [b.value("gpu.choose", (even, v, o), v.type) for v, o in zip(values, others, strict=True)]
        right = [b.value("gpu.choose", (even, o, v), v.type) for v, o in zip(values, others, strict=True)]
        own = index_op(b, "sub", self.dealer.team, odd)
        place = index_op(b, "add", index_op(b, "add", first, own), dim_value(b, 1))
        return self.pair(left, right, place)

    def offset(self, first: Value, distance: int) -> Value:
        return index_op(self.b, "add", first, dim_value(self.b, distance))

    def pair(self, left: Sequence[Value], right: Sequence[Value], place: Value) -> list[Value]:
        """Left and right combined; left alone where there is no block at `place`, the first of the right ones."""
        mapping = dict(zip(self.combine.args, [*left, *right], strict=True))
        for op in self.combine.ops[:-1]:
            self.b.add(clone_op(op, mapping))
        both = [mapping.get(v, v) for v in self.combine.terminator.operands]
        present = self.b.value("gpu.less", (place, self.count), FLAG, hint="present")
        return [
            self.b.value("gpu.choose", (present, c, v), v.type) for c, v in zip(both, left, strict=True)
        ]


def _order_free_fold(loop: Op, position: int) -> Op | None:
    """The map that folds a new value into carried value number `position`, if it is a plain maximum or minimum."""
    carried = loop.body.args[1 + position]
    fold = loop.body.terminator.operands[position].defining_op
    if fold is None or fold.parent is not loop.body or len(carried.uses) != 1 or not _is_order_free(fold):
        return None
    return fold if carried in fold.operands else None


def _order_free_parts(tree: Op) -> dict[int, Op]:
    """The plain maxima and minima of what a tree combines beside other things, by their places. A team without a block
    has what the tree begins with, which must leave others as they are."""
    combine, count = tree.regions[1].block, len(tree.results)
    found = dict[int, Op]()
    for place, value in enumerate(combine.terminator.operands):
        fold, pair = value.defining_op, [combine.args[place], combine.args[count + place]]
        plain = fold is not None and _is_order_free(fold) and list(fold.operands) == pair and len(value.uses) == 1
        if fold is not None and plain and _is_alone(fold) and _is_neutral(tree.operands[1 + place], fold):
            found[place] = fold
    return found if len(found) < count else {}


def _is_neutral(value: Value, fold: Op) -> bool:
    made, kind = value.defining_op, fold.body.ops[0].name.removeprefix("scalar.")
    neutral = identity(kind, fragment(value).dtype)
    return made is not None and made.name == "gpu.full" and made.attrs["value"] == neutral


def _is_alone(fold: Op) -> bool:
    """Whether nothing else reads what a map reads."""
    return all(len(value.uses) == 1 for value in fold.operands)


def _is_order_free(fold: Op) -> bool:
    if fold.name != "gpu.map":
        return False
    first, *more = fold.body.ops
    return len(more) == 1 and first.name in ORDER_FREE and list(first.operands) == fold.body.args


def _without(combine: Block, apart: dict[int, Op]) -> Block:
    """What a tree combines but for these parts."""
    if not apart:
        return combine
    count = len(combine.args) // 2
    kept = [i for i in range(count) if i not in apart]
    args = [combine.args[i] for i in (*kept, *(count + i for i in kept))]
    block = Block([arg.type for arg in args], [arg.name for arg in args])
    b, mapping = Builder(block, combine.terminator.span), dict(zip(args, block.args, strict=True))
    for op in (op for op in combine.ops[:-1] if op not in apart.values()):
        b.add(clone_op(op, mapping))
    b.op("gpu.yield", [mapping.get(v, v) for v in (combine.terminator.operands[i] for i in kept)])
    return block


def _independent(loop: Op) -> bool:
    """Whether the iterations may run in any order."""
    if any(_order_free_fold(loop, i) is None for i in range(len(loop.results))):
        return False
    inner = [op for op in loop.body.ops for op in op.walk()]
    if any(op.name in ("gpu.dot", "gpu.for", "gpu.tree") for op in inner):
        return False
    stored = [op.operands[1] for op in inner if op.name == "gpu.store"]
    loaded = [op.operands[0] for op in inner if op.name == "gpu.load"]
    own = all(_depends(at, loop) for op in inner if op.name == "gpu.store" for at in op.operands[2:][-1:])
    return own and not set(stored) & set(loaded)


def _is_read_again(loop: Op) -> bool:
    """Whether what a loop over a whole row loads from memory is loaded by another one behind it."""
    block, first = loop.parent, loop.operands[0].defining_op
    assert block is not None
    if first is None or first.attrs.get("dim") != ZERO:
        return False
    behind = block.ops[block.place(loop) + 1 :]
    loaded, again = ({_memory(op) for op in ops if op.name == "gpu.load"} for ops in (_inside([loop]), _inside(behind)))
    return bool(loaded & again)


def _inside(ops: Sequence[Op]) -> list[Op]:
    return [inner for op in ops if op.name in ("gpu.for", "gpu.tree") for inner in op.walk()]


def _memory(load: Op) -> Value:
    return load.operands[0]


def _depends(value: Value, loop: Op) -> bool:
    if value is loop.body.args[0]:
        return True
    made = value.defining_op
    return made is not None and any(_depends(v, loop) for v in made.operands)


def _replace_uses(old: Value, new: Value) -> None:
    """Every use of `old` but those that `new` is made from."""
    source = new.defining_op
    making = set() if source is None else {source, *(v.defining_op for v in source.operands)}
    for user, position in list(old.uses):
        if user not in making:
            user.set_operand(position, new)


def _after(op: Op) -> Builder:
    assert op.parent is not None
    return Builder.before(op.parent.ops[op.parent.place(op) + 1])


# Note [Rows that are read again]
# A row of a softmax that no shared memory holds is read twice, for its maximum and for its sum. What was read last is
# still in the second cache: a maximum, which has no order, goes from the end to the start, and the sum begins there.
