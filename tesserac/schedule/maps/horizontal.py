"""Horizontal fusion: launches that do the same to tensors of different lengths become one launch over all of them.

    schedule.launch(%g1, %w1, %new1) {space = [`M`, `N`], ...} {same body}
    schedule.launch(%g2, %w2, %new2) {space = [`N`], ...} {same body}
becomes
    schedule.launch(%g1, %w1, %g2, %w2, %new1, %new2) {space = [`tensor.length`], lengths = [`M*N`, `N`], ...} {body}

Enters: a host program with decided launches. Leaves: the same, with such launches joined where the last of them stood.
A step of an optimiser over all weights of a model is one launch. Only maps of whole tensors are joined: how long its
tensor is and where it lies is all that a program needs to know. Bits do not change: an element is computed as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Attr, Block, Op, Value, attr, clone_region
from tesserac.ir.meaning import meaning
from tesserac.ir.passes import SCHEDULE, Pass, function_pass
from tesserac.ir.types import MemRefType, TensorType
from tesserac.schedule.dialect import (
    LENGTH,
    LENGTHS,
    ROWS,
    Loop,
    launch_loops,
    launch_outs,
    launch_space,
    memory,
    memory_of_each,
)
from tesserac.schedule.machine import Machine
from tesserac.schedule.maps.flat import FlatLaunch, Walked, is_flat
from tesserac.schedule.model.reason import because
from tesserac.types.dims import Dim, product

WORD = 8
"""Bytes of an address or a length."""
WORDS_BESIDE = 3
"""A tensor's length, its first program and what rounds their number up, beside its addresses."""
LOOKED_AT = 32
"""A launch may be one more of so many kinds, the latest ones: what joining costs does not grow with their number."""
_NO_WORK = ("schedule.box", "schedule.parts", "index.dim")


def join_pass(machine: Machine) -> Pass:
    """For a machine on which a launch is given so much."""

    @function_pass(SCHEDULE, SCHEDULE, "horizontal")
    def join_launches(host: Op) -> None:
        for block in list(_blocks(host)):
            _Joining(machine.parameter_bytes // WORD).run(block)

    return join_launches


def _blocks(op: Op) -> Iterator[Block]:
    """The blocks of a host program, but not of loops that are compiled as one, or go by rows."""
    if op.name == "schedule.launch" or "sequential" in op.attrs or ROWS in op.attrs:
        return
    for region in op.regions:
        yield region.block
        for inner in region.block.ops:
            yield from _blocks(inner)


@dataclass
class _Set:
    """Launches of one kind, and the memory that they read and write. `said` is what they do, once there are two to
    compare; `seen` counts the operations that have been looked at whether the launches may be moved over them."""

    launches: list[FlatLaunch]
    walked: Walked
    reads: set[Value]
    writes: set[Value]
    seen: int
    said: str = ""

    def conflicts(self, op: Op) -> bool:
        """Whether one of the launches and another operation touch what one of the two writes."""
        reads, writes = _touched(op)
        return bool(self.writes & (reads | writes) or writes & self.reads)

    def add(self, launch: FlatLaunch) -> None:
        reads, writes = _touched(launch.op)
        self.launches.append(launch)
        self.reads |= reads
        self.writes |= writes


@dataclass
class _Joining:
    """One block, of a machine on which a launch is given so many `words`. `passed` are the operations since the last
    one that nothing is moved over; `open` the sets among them."""

    words: int
    passed: list[Op] = field(default_factory=list)
    open: list[_Set] = field(default_factory=list)

    def run(self, block: Block) -> None:
        for op in [*block.ops]:
            if is_flat(op):
                self.passed.append(op)
                self._take(FlatLaunch(op))
            elif op.name in _NO_WORK or _is_one_element(op):
                self.passed.append(op)
            else:
                self._close()
        self._close()

    def _take(self, launch: FlatLaunch) -> None:
        said: dict[Walked, str] = {}
        for candidate in self.open[: -LOOKED_AT - 1 : -1]:
            if self._joins(candidate, launch, said):
                return
        self.open.append(_Set([launch], launch.walked(), *_touched(launch.op), seen=len(self.passed)))

    def _joins(self, candidate: _Set, launch: FlatLaunch, said: dict[Walked, str]) -> bool:
        """Whether a launch is one more of a kind, and is taken; `said` is what it does, as far as it has been asked."""
        walked, first = _both(candidate.walked, launch.walked()), candidate.launches[0]
        words = (len(launch.op.operands) + WORDS_BESIDE) * (1 + len(candidate.launches))
        if walked is None or words > self.words or not _looks_like(first, launch):
            return False
        if not candidate.said or walked != candidate.walked:
            candidate.said, candidate.walked = meaning(first.over_one(walked)), walked
        if walked not in said:
            said[walked] = meaning(launch.over_one(walked))
        if said[walked] != candidate.said:
            return False
        if any(map(candidate.conflicts, self.passed[candidate.seen :])):
            return False  # the launch itself is the last of those
        candidate.add(launch)
        candidate.seen = len(self.passed)
        return True

    def _close(self) -> None:
        for found in self.open:
            if len(found.launches) > 1 and any(launch_space(launch.op) for launch in found.launches):
                _join(found)
        self.open, self.passed = [], []


def _both(left: Walked, right: Walked) -> Walked | None:
    """What fits both; None where nothing does."""
    if len(left) != len(right):
        return None
    pairs = list(zip(left, right, strict=True))
    if any(None not in pair and pair[0] != pair[1] for pair in pairs):
        return None
    return tuple(b if a is None else a for a, b in pairs)


def _looks_like(left: FlatLaunch, right: FlatLaunch) -> bool:
    """What is seen at once; their meaning is longer to read."""
    same = [memory(v).dtype for v in left.operands()] == [memory(v).dtype for v in right.operands()]
    ops = (left.op, right.op)
    return same and len({len(op.body.ops) for op in ops}) == 1 and left.op.attrs["units"] == right.op.attrs["units"]


def _is_one_element(op: Op) -> bool:
    return op.name == "schedule.launch" and product(launch_space(op)).constant == 1


def _touched(op: Op) -> tuple[set[Value], set[Value]]:
    outs = launch_outs(op) if op.name == "schedule.launch" else ()
    return {_root(v) for v in op.operands[: len(op.operands) - len(outs)]}, {_root(v) for v in outs}


def _root(value: Value) -> Value:
    """The memory that a name stands for: other names for parts of it, and for what a result takes from an argument."""
    made = value.defining_op
    if made is not None and made.name in ("schedule.box", "schedule.parts"):
        return _root(made.operands[0])
    if made is not None and isinstance(of := made.attrs.get("of"), int) and made.parent is not None:
        return made.parent.args[of]
    return value


def _join(found: _Set) -> None:
    launches, last = [launch.op for launch in found.launches], found.launches[-1].op
    flat = found.launches[0].over_one(found.walked)
    operands = [v for launch in found.launches for v in launch.ins()]
    operands += [v for launch in launches for v in launch_outs(launch)]
    lengths = tuple(product(launch_space(launch)) for launch in launches)
    block = max(loop.block for launch in launches for loop in launch_loops(launch))
    attrs: dict[str, Attr] = {**flat.attrs, LENGTHS: lengths, "outs": len(lengths) * attr(flat, "outs", int)}
    attrs["loops"] = (Loop((0,), Dim.sym(LENGTH), block, "parallel"),)
    attrs["reason"] = launches[0].attrs["reason"]
    joined = Op(flat.opdef, operands, (), attrs, [clone_region(flat.regions[0], {})], last.span)
    because(joined, f"the same for {len(lengths)} tensors: one launch")
    assert last.parent is not None
    last.parent.insert(last.parent.place(last), joined)
    for launch in launches:
        launch.erase()


def one_tensor(op: Op) -> Op:
    """A launch over several tensors as one over a single one, of memory that is not there."""
    values = memory_of_each(op)[0]
    tensors = [v.type for v in (*op.body.args, *op.body.terminator.operands)]
    room = Block([_flat_memory(t, memory(v)) for t, v in zip(tensors, values, strict=True)], [v.name for v in values])
    attrs: dict[str, Attr] = {name: value for name, value in op.attrs.items() if name != LENGTHS}
    attrs["outs"] = len(op.body.terminator.operands)
    return Op(op.opdef, room.args, (), attrs, [clone_region(op.regions[0], {})], op.span)


def _flat_memory(tensor: object, held: MemRefType) -> MemRefType:
    assert isinstance(tensor, TensorType)
    return MemRefType(tensor.dims, held.dtype, held.policy)
