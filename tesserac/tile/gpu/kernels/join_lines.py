"""Pass `join_lines`: kernels of which one program alone reads what one of the other wrote are one kernel.

    tile.kernel @a {grid = [`B`]} { ^(b, x, w): t = load x[b, 0:64, ...]; ...; store w[b, 0:64, ...] }
    tile.kernel @b {grid = [`B`]} { ^(b, w, y): t = load w[b, ..., 0:64]; ...; store y[b, ...] }
    tile.launch(x, w) @a;  tile.launch(w, y) @b
  becomes
    tile.kernel @a.b {grid = [`B`]} { ^(b, x, y): room = alloc(); ... store room; ... load room; ...; store y }
    tile.launch(x, y) @a.b

Enters: neutral kernels that load, compute and store blocks, and a host program. The memory between is scratch of the
program: shared memory on a GPU, whose barriers `barriers` puts in. Programs must agree on who takes what
(`line_rooms.py`); where they do not, both kernels are left as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Attr, Block, Module, Op, Region, Value, attr, clone_op
from tesserac.ir.types import INDEX
from tesserac.schedule.costs.cost import body_work
from tesserac.schedule.machine import Machine
from tesserac.tile.dialect import RESIDENT, Config, grid, kernel_memrefs, memref_type
from tesserac.tile.gpu.kernels.line_rooms import Access, NotJoined, accesses, place_between
from tesserac.tile.gpu.layouts.convert import STATIC_BYTES
from tesserac.types.dims import ONE, Dim

STRAIGHT = ("axis", "load", "map", "store", "full", "iota", "cast", "return", "alloc", "view")
"""What kernels may hold: each does it once."""

WARP, NARROW_BYTES, SHORT_BODY = 32, 4, 8
"""Threads that hold 32 numbers of at most so many bytes do with 64 registers each where maps are a few operations for a
number, as those of a transform are."""
THREADS, BESIDE = 1024, 2
"""Threads of so many registers that a multiprocessor holds, and the programs that should be there at least: while one
waits for its threads, or for memory, the other computes."""


def join_lines(module: Module, machine: Machine) -> Module:
    """The module with joined kernels; what it was given stays as it is."""
    if not any(_pairs(op) for op in module.ops if op.name != "tile.kernel"):
        return module
    ops = [clone_op(op, {}) for op in module.ops]
    kernels = {op.symbol: op for op in ops if op.name == "tile.kernel"}
    hosts = [op for op in ops if op.name != "tile.kernel"]
    for host in hosts:
        while any(_join(first, second, kernels, machine) for first, second in _pairs(host)):
            pass
    used = {op.attrs.get("kernel") for host in hosts for op in host.walk()}
    return Module([*(kernel for name, kernel in kernels.items() if name in used), *hosts])


def _pairs(host: Op) -> list[tuple[Op, Op]]:
    """Launches of which the second follows the first and alone reads what that writes."""
    found = []
    for launch in host.walk():
        block = launch.parent
        if launch.name == "tile.launch" and block is not None:
            behind = block.ops[block.place(launch) + 1]
            if behind.name == "tile.launch" and _between(launch, behind):
                found.append((launch, behind))
    return found


def _between(first: Op, second: Op) -> Value | None:
    """The workspace that only these two touch."""
    plain = all(set(op.attrs) <= {"kernel", "touched"} for op in (first, second))
    for value in dict.fromkeys(first.operands) if plain else ():
        made = value.defining_op
        if made is not None and _is_workspace(made) and {user for user, _ in value.uses} == {first, second}:
            return value
    return None


def _join(first: Op, second: Op, kernels: dict[str, Op], machine: Machine) -> bool:
    held = _between(first, second)
    one, two = (kernels[attr(op, "kernel", str)] for op in (first, second))
    if held is None or not (_is_straight(one) and _is_straight(two)) or one.attrs["config"] != two.attrs["config"]:
        return False
    try:
        joined = _Joined(one, two, first, second, held, machine.near_bytes - STATIC_BYTES)
    except NotJoined:
        return False
    kernels.setdefault(joined.kernel.symbol, joined.kernel)
    b = Builder.before(first)
    b.op("tile.launch", joined.operands, (), {"kernel": joined.kernel.symbol})
    buffer = held.defining_op
    for op in (first, second, buffer):
        assert op is not None
        op.erase()
    _keep_apart(joined.operands)
    return True


def _keep_apart(operands: Sequence[Value]) -> None:
    """Buffers that were no longer needed when others were written may share memory with those, which the kernel now
    writes while other programs still read them: they have slots of their own, then."""
    buffers = dict.fromkeys(made for v in operands if (made := v.defining_op) is not None and _is_workspace(made))
    slots = [attr(buffer, "slot", int) for buffer in buffers]
    for place, buffer in enumerate(buffers):
        if slots[place] in slots[:place]:
            assert buffer.parent is not None
            taken = [attr(op, "slot", int) for op in buffer.parent.ops if _is_workspace(op)]
            buffer.attrs["slot"] = slots[place] = 1 + max(taken)


def _is_workspace(op: Op) -> bool:
    return op.name == "schedule.buffer" and op.attrs["role"] == "workspace"


def _is_straight(kernel: Op) -> bool:
    return all(op.opdef.dialect != "tile" or op.name.removeprefix("tile.") in STRAIGHT for op in kernel.body.ops)


class _Joined:
    """The two kernels, one behind the other."""

    def __init__(self, one: Op, two: Op, first: Op, second: Op, held: Value, room_bytes: int) -> None:
        between = [_arguments(kernel, launch, held) for kernel, launch in ((one, first), (two, second))]
        writes, reads = (accesses(kernel, args) for kernel, args in zip((one, two), between, strict=True))
        if any(access.is_load for access in writes) or not all(access.is_load for access in reads):
            raise NotJoined
        self.room, same = place_between(writes, reads, memref_type(held))
        self.one, self.two = one, two
        self.block = Block()
        self.b = Builder(self.block, one.span)
        self.values: dict[Value, Value] = {}
        self.operands: list[Value] = []
        sizes = self._positions(same)
        self._take(one, first, between[0])
        self._take(two, second, between[1])
        self._clone(one, {access.op: access for access in writes})
        self._clone(two, {access.op: access for access in reads})
        self.b.op("tile.return")
        if self._scratch_bytes() > room_bytes:
            raise NotJoined
        name, config = f"{one.symbol}.{two.symbol.rpartition('$')[2]}", attr(one, "config", Config)
        attrs: dict[str, Attr] = {"sym_name": name, "grid": sizes, "config": config}
        threads = WARP * config.warps
        short = all(body_work(op) <= SHORT_BODY for op in self.block.ops if op.name == "tile.map")
        if memref_type(held).dtype.bytes <= NARROW_BYTES and threads * BESIDE <= THREADS and short:
            attrs[RESIDENT] = BESIDE
        self.kernel = Op(OPDEFS["tile.kernel"], (), (), attrs, [Region(self.block)], one.span)

    def _positions(self, same: dict[Value, Value]) -> tuple[Dim, ...]:
        """Programs are those of the first kernel; what has one place only is at 0."""
        zero: list[Value] = []
        sizes: list[Dim] = []
        kept: list[Value] = []
        for kernel in (self.one, self.two):
            for position, size in zip(kernel.body.args, grid(kernel), strict=False):
                if size == ONE:
                    zero.append(position)
                elif kernel is self.one:
                    self.values[position] = self.block.add_arg(INDEX, position.name)
                    sizes.append(size)
                else:
                    kept.append(position)
        if not sizes:
            self.block.add_arg(INDEX, "p0")
            sizes.append(ONE)
        self.zero = zero
        for position in kept:
            if position not in same:
                raise NotJoined
            self.values[position] = self.values[same[position]]
        return tuple(sizes)

    def _take(self, kernel: Op, launch: Op, between: list[Value]) -> None:
        for value, operand in zip(kernel_memrefs(kernel), launch.operands, strict=True):
            if value not in between:
                self.values[value] = self.block.add_arg(value.type, value.name)
                self.operands.append(operand)

    def _clone(self, kernel: Op, moved: dict[Op, Access]) -> None:
        for position in self.zero:
            if position in kernel.body.args:
                self.values[position] = self.b.value("index.dim", (), INDEX, {"dim": Dim.const(0)})
        for op in _writes_last(kernel, moved):
            access = moved.get(op)
            if access is not None:
                self.room.access(self.b, access, self.values, self.block)
            elif op.name == "index.mul" and any(v in self.zero for v in op.operands):
                self.values[op.result] = self.b.value("index.dim", (), INDEX, {"dim": Dim.const(0)})
            else:
                self.b.add(clone_op(op, self.values))

    def _scratch_bytes(self) -> int:
        rooms = [memref_type(op.result) for op in self.block.ops if op.name == "tile.alloc"]
        return sum(room.dims[0].evaluate({}) * room.dtype.bytes for room in rooms)


def _writes_last(kernel: Op, moved: dict[Op, Access]) -> list[Op]:
    """What a kernel does, but for its end: what goes into scratch behind all that is read from there, so that both may
    have the same memory."""
    ops = kernel.body.ops[:-1]
    loads = [op for op in ops if op.name == "tile.load" and memref_type(op.operands[0]).space == "local"]
    last = max(map(ops.index, loads), default=-1) + 1
    early = [op for op in ops[:last] if op in moved and not moved[op].is_load]
    return [*(op for op in ops[:last] if op not in early), *early, *ops[last:]]


def _arguments(kernel: Op, launch: Op, held: Value) -> list[Value]:
    """Those of a kernel that stand for one memory."""
    return [v for v, operand in zip(kernel_memrefs(kernel), launch.operands, strict=True) if operand is held]
