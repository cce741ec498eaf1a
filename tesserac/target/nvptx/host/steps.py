"""Operations of a host program as steps of a `GpuProgram`.

Enters: the blocks of a `schedule.func`. Leaves: steps, and with them the buffers, tables and sites that they name by
number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tessera.gpu_program import (
    Assert,
    Box,
    Buffer,
    CheckIndices,
    Cond,
    Condition,
    Last,
    Launch,
    Loop,
    Print,
    Require,
    Select,
    Step,
    Steps,
    Swap,
    While,
)
from tessera.sizes import Size, Tree
from tesserac.ir.core import Block, Op, Value, attr, attr_tuple
from tesserac.ir.forms import Guard
from tesserac.ir.table import table_of
from tesserac.ir.types import TensorType
from tesserac.schedule.dialect import LENGTHS, Predicate, memory
from tesserac.target.cpu.host.program import DECLARATIONS
from tesserac.target.entry.extents import largest_in, loop_bounds
from tesserac.target.entry.guards import certain_guards, kernel_sizes, sizes_at
from tesserac.target.entry.printing import describe_print
from tesserac.target.entry.status import HostSite
from tesserac.target.sizes import implied_guards, size_of
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.values import integer, text
from tesserac.types.dims import ZERO, Dim
from tesserac.types.extents import Bounds


def condition(kind: str, left: Dim, right: Dim) -> Condition:
    if kind not in ("at_least", "divides", "equal", "in_range", "fits"):
        raise LoweringError(f"a condition of kind {kind}")
    return Condition(kind, size_of(left), size_of(right))


class HostSteps:
    """Operations one after another; buffers, tables and sites are numbered as they come. `kernels` has the variants of
    each neutral kernel, and one of them as an operation."""

    def __init__(self, func: Op, kernels: Mapping[str, tuple[Op, tuple[int, ...]]], sites: list[HostSite]) -> None:
        self.variants = {name: positions for name, (_, positions) in kernels.items()}
        self.sites = sites
        self.bounds: Bounds = loop_bounds(func)
        """Of the loops: memory whose size changes with their iterations is as large as it gets."""
        operations = {name: op for name, (op, _) in kernels.items()}
        self.sizes = kernel_sizes(operations)
        self.known = {name for arg in func.body.args for dim in memory(arg).dims for name in dim.symbols()}
        certain = certain_guards(func, self.sizes, self.known)
        self.defined = frozenset(guard for _, guards in certain for guard in guards)
        """What has been tested by now for sizes to have values."""
        self.buffers: list[Buffer] = []
        self.tables: list[bytes] = []
        self.places: dict[Value, int] = {}
        self.indices: dict[Value, Size] = {}

    def add(self, value: Value, role: str, slot: int) -> None:
        ty = memory(value)
        if ty.layout != "strided":
            raise LoweringError(f"memory in the layout {ty.layout} on a GPU")
        self.places[value] = len(self.buffers)
        self.buffers.append(Buffer(role, slot, tuple(map(self._extent, ty.dims)), ty.dtype.numpy_name))

    def _extent(self, dim: Dim) -> Size:
        return size_of(largest_in(dim, self.bounds) if dim.symbols() & self.bounds.keys() else dim)

    def steps(self, block: Block) -> Steps:
        found: list[Step] = []
        before = self.defined
        for op in block.ops[:-1]:
            found += self._define(op) if op.name not in DECLARATIONS else ()
            if op.opdef.dialect == "index":
                self.indices[op.result] = self._index(op)
            elif op.name == "schedule.buffer":
                self._buffer(op)
            elif op.name in _STEPS:
                found.append(_STEPS[op.name](self, op))
            elif op.name != "schedule.guard":
                raise LoweringError(f"no rule for {op.name} in a host program for a GPU")
        self.defined = before
        return tuple(found)

    def _define(self, op: Op) -> list[Step]:
        """Ends the call where a size that an operation uses has no value here; the entry has tested those of every
        call."""
        found: list[Step] = []
        for guard in implied_guards(dim for dim in sizes_at(op, self.sizes) if dim.symbols() <= self.known):
            if guard not in self.defined:
                self.defined |= {guard}
                site = self._site("guard", guard.text, op)
                found.append(Require(condition(guard.kind, guard.left, guard.right), site, None))
        return found

    def _buffer(self, op: Op) -> None:
        role, slot = text(op, "role"), integer(op, "slot")
        if role == "constant":
            ty = memory(op.result)
            slot = len(self.tables)
            self.tables.append(table_of(op).values(TensorType(ty.dims, ty.dtype, ty.policy)).tobytes())
        self.add(op.result, role, slot)

    def _index(self, op: Op) -> Size:
        dim = op.attrs.get("dim")
        if isinstance(dim, Dim):
            return size_of(dim)
        left, right = (self.indices[v].tree for v in op.operands)
        tree: Tree = ("+", left, ("*", -1, right)) if op.name == "index.sub" else (_OPERATORS[op.name], left, right)
        return Size(op.name, tree)

    # --- memory -------------------------------------------------------------------------------------------------------

    def box(self, op: Op) -> Box:
        return self._part(op, attr(op, "offset", Dim))

    def parts(self, op: Op) -> Box:
        return self._part(op, ZERO)

    def _part(self, op: Op, offset: Dim) -> Box:
        self.add(op.result, "box", 0)
        size = memory(op.result).dtype.bytes
        return Box(self.places[op.result], self.places[op.operands[0]], size_of(offset * size))

    def swap(self, op: Op) -> Swap:
        left, right = (self.places[v] for v in op.operands)
        return Swap(left, right)

    # --- what ends a call, or shows -----------------------------------------------------------------------------------

    def _site(self, operator: str, what: str, op: Op) -> int:
        self.sites.append(HostSite(operator, what, op.span))
        return len(self.sites) - 1

    def require(self, op: Op) -> Require:
        guard, shown = attr(op, "guard", Guard), op.attrs.get("shown")
        site = self._site(text(op, "operator"), guard.text, op)
        index = size_of(shown) if isinstance(shown, Dim) else None
        return Require(condition(guard.kind, guard.left, guard.right), site, index)

    def check(self, op: Op) -> CheckIndices:
        site = self._site(text(op, "operator"), "every index is in range", op)
        return CheckIndices(self.places[op.operands[0]], tuple(map(size_of, attr_tuple(op, "sizes", Dim))), site)

    def assertion(self, op: Op) -> Assert:
        site = self._site(str(op.attrs.get("operator", "assert")), text(op, "text"), op)
        return Assert(self.places[op.operands[0]], site)

    def show(self, op: Op) -> Print:
        shown = [memory(value) for value in op.operands]
        site = self._site(text(op, "to"), describe_print(op.attrs["pieces"], shown), op)
        sizes = tuple(size_of(dim) for mem in shown for dim in mem.dims)
        return Print(site, tuple(self.places[v] for v in op.operands), sizes)

    # --- launches and the control flow around them --------------------------------------------------------------------

    def launch(self, op: Op) -> Launch:
        lengths = attr_tuple(op, LENGTHS, Dim) if LENGTHS in op.attrs else ()
        operands = tuple(self.places[v] for v in op.operands)
        return Launch(self.variants[text(op, "kernel")], operands, tuple(map(size_of, lengths)))

    def select(self, op: Op) -> Select:
        tests = tuple(condition(p.kind, p.left, p.right) for p in attr_tuple(op, "predicates", Predicate))
        return Select(tests, tuple(self.steps(r.block) for r in op.regions))

    def loop(self, op: Op) -> Loop:
        counter, (low, high) = text(op, "counter"), (self.indices[v] for v in op.operands)
        self.indices[op.body.args[0]] = Size(counter, counter)
        self.known.add(counter)
        body = self.steps(op.body)
        self.known.discard(counter)
        return Loop(counter, low, high, body)

    def last(self, op: Op) -> Last:
        return Last()

    def repeat(self, op: Op) -> While:
        test, body = (region.block for region in op.regions)
        steps = self.steps(test)
        return While(steps, self.places[test.terminator.operands[0]], self.steps(body))

    def choose(self, op: Op) -> Cond:
        yes, no = (self.steps(region.block) for region in op.regions)
        return Cond(self.places[op.operands[0]], yes, no)


_STEPS: dict[str, Callable[[HostSteps, Op], Step]] = {
    "tile.launch": HostSteps.launch,
    "schedule.box": HostSteps.box,
    "schedule.parts": HostSteps.parts,
    "schedule.select": HostSteps.select,
    "schedule.loop": HostSteps.loop,
    "schedule.last": HostSteps.last,
    "schedule.while": HostSteps.repeat,
    "schedule.cond": HostSteps.choose,
    "schedule.swap": HostSteps.swap,
    "schedule.require": HostSteps.require,
    "schedule.check": HostSteps.check,
    "schedule.assert": HostSteps.assertion,
    "schedule.print": HostSteps.show,
}

_OPERATORS = {
    "index.add": "+",
    "index.mul": "*",
    "index.floor_div": "//",
    "index.ceil_div": "ceil_div",
    "index.rem": "%",
    "index.min": "min",
    "index.max": "max",
}
