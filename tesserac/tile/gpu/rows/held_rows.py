"""Pass `held rows`: a row of which each team has one block at most stays in registers from the first pass to the last.

    %m = gpu.for(%zero, %n, %lowest) {step = 2048} { ^(%base, %best): %x = gpu.load(%mem, %p0, %mine) ... }
    %s = gpu.tree(%rounds, %empty) { ^(%round): %y = gpu.load(%mem, %p0, %mine) ... gpu.store(%t, %kept, %mine) ... }
    gpu.for(%zero, %n) {step = 2048} { ^(%base): %u = gpu.load(%kept, %mine) ... }
  becomes, where a row is known to have no more blocks than there are teams,
    %x = gpu.load(%mem, %p0, %mine) ... %m = ... %t = ... %s = ...

Enters: a kernel whose loops are dealt to teams. Leaves: the same without loops, if all of them make one round: what two
passes read is loaded once, and what was kept between them is a value. A row without elements makes no round: what
its loops would have begun with is chosen then.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.index import constant_index, dim_value
from tesserac.tile.gpu.model.touched import written_memory
from tesserac.tile.gpu.model.types import FLAG
from tesserac.tile.gpu.model.values import integer
from tesserac.types.dims import Dim

LOOPS = ("gpu.for", "gpu.tree")


def hold_rows(kernel: Op, teams: int, blocks: int | None) -> None:
    """Changes the kernel in place. `blocks` are those that a row has at most, where a run knows how many."""
    loops = [op for op in kernel.body.ops if op.name in LOOPS]
    once = all(makes_one_round(op, teams, blocks) for op in loops)
    if not loops or not once or any(op.name in LOOPS for loop in loops for op in _inside(loop)):
        return
    for op in loops:
        _write_out(op)
    _Merged(kernel).merge()


def _inside(loop: Op) -> list[Op]:
    return [op for region in loop.regions for top in region.block.ops for op in top.walk()]


def makes_one_round(loop: Op, teams: int, blocks: int | None) -> bool:
    """Whether a loop that is dealt has no more blocks than there are teams."""
    few = blocks is not None and blocks <= teams
    if loop.name == "gpu.tree":
        rounds = loop.operands[0].defining_op
        count = constant_index(rounds.operands[0]) if rounds is not None and rounds.name == "index.ceil_div" else None
        return few if count is None else count <= teams
    end = constant_index(loop.operands[1])
    return constant_index(loop.operands[0]) == 0 and (few if end is None else end <= integer(loop, "step"))


def _write_out(loop: Op) -> None:
    """The one round of a loop in the place of the loop."""
    b = Builder.before(loop)
    zero, body = dim_value(b, 0), loop.regions[0].block
    first = 2 if loop.name == "gpu.for" else 1
    end, inits = loop.operands[first - 1], loop.operands[first:]
    for old, new in zip(body.args, (zero, *inits), strict=False):
        old.replace_all_uses(new)
    results = list(body.terminator.operands)
    body.terminator.erase()
    _move(body, loop)
    some = b.value("gpu.less", (zero, end), FLAG, hint="some") if results and not constant_index(end) else None
    for old, value, init in zip(loop.results, results, inits, strict=True):
        old.replace_all_uses(value if some is None else b.value("gpu.choose", (some, value, init), value.type))
    loop.erase()


def _move(body: Block, loop: Op) -> None:
    b = Builder.before(loop)
    for op in list(body.ops):
        op.detach()
        b.add(op)


class _Merged:
    """What is known while the operations of a kernel are gone through in their order."""

    def __init__(self, kernel: Op) -> None:
        self.kernel = kernel
        self.written = {value for op in kernel.walk() for value in written_memory(op)}
        self.places: dict[Value, Dim] = {}
        self.values: dict[object, Value] = {}
        self.kept: dict[tuple[Value, ...], Value] = {}

    def merge(self) -> None:
        for op in list(self.kernel.body.ops):
            match op.name:
                case "gpu.team" | "gpu.program":
                    self.places[op.result] = Dim.sym(f"{op.name} {len(self.places)}")
                case "index.dim" | "index.add" | "index.mul":
                    self.index(op)
                case "gpu.axis":
                    self.once(op, tuple(self.places.get(value, value) for value in op.operands))
                case "gpu.load":
                    self.load(op)
                case "gpu.store":
                    self.kept[op.operands[1:]] = op.operands[0]
        for room in [op for op in self.kernel.body.ops if op.name == "gpu.scratch"]:
            _drop_unread(room)

    def index(self, op: Op) -> None:
        """Sums and products of numbers that are known by name are known as such."""
        known = [self.places.get(value) for value in op.operands]
        if op.name == "index.dim":
            dim = op.attrs["dim"]
            assert isinstance(dim, Dim)
            self.places[op.result] = dim
        elif known[0] is not None and known[1] is not None:
            self.places[op.result] = known[0] + known[1] if op.name == "index.add" else known[0] * known[1]

    def load(self, op: Op) -> None:
        stored = self.kept.get(op.operands)
        made = op.operands[0].defining_op
        if stored is not None and made is not None and made.name == "gpu.scratch" and stored.type == op.result.type:
            op.result.replace_all_uses(stored)
            op.erase()
        elif op.operands[0] not in self.written:
            self.once(op, op.operands)

    def once(self, op: Op, said: tuple[object, ...]) -> None:
        earlier = self.values.setdefault((op.name, said, op.result.type), op.result)
        if earlier is not op.result:
            op.result.replace_all_uses(earlier)
            op.erase()


def _drop_unread(room: Op) -> None:
    """Scratch into which is only written."""
    users = [user for user, _ in room.result.uses]
    if all(user.name == "gpu.store" for user in users):
        for user in users:
            user.erase()
        room.erase()
