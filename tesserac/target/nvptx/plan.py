"""The host program of a function as data for `tessera.cuda`.

Enters: a `schedule.func` and the `gpu.kernel`s it launches. Leaves: the buffers, kernels, checks and steps of a
`GpuProgram`. The checks are those of the CPU's entry: the guards of the program, each behind what its sizes need to
have a value, then what all other sizes need, and that all fit into the integers of a kernel. The host computes in
integers without end, so that this one comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from tessera.gpu_program import (
    Argument,
    Buffer,
    Check,
    Cond,
    Condition,
    Kernel,
    Launch,
    Loop,
    Parameter,
    Require,
    Select,
    Step,
    Steps,
    Swap,
    TensorMap,
    While,
    Workspace,
)
from tessera.sizes import Size, Tree
from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.ir.core import Block, Op, Value, attr_tuple
from tesserac.ir.forms import Guard, indices
from tesserac.ir.types import MemRefType
from tesserac.schedule.dialect import Predicate, memory
from tesserac.target.cpu.guards import certain_sizes, sizes_used
from tesserac.target.cpu.status import HostSite
from tesserac.target.magnitudes import LARGEST, named_size, possible_parts, telling
from tesserac.target.nvptx.kernel import emit_kernel, programs
from tesserac.target.nvptx.ptx import emit_ptx
from tesserac.target.sizes import implied_guards, size_of
from tesserac.tile.gpu.dialect import integer, kernel_conditions, kernel_parameters, text
from tesserac.tile.gpu.errors import LoweringError
from tesserac.tile.gpu.types import TensorMapType
from tesserac.types.dims import Dim, product


@dataclass(frozen=True)
class Plan:
    """All of a `GpuProgram` but its signature, whose sites are here."""

    buffers: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    checks: tuple[Check, ...]
    steps: Steps
    sites: tuple[HostSite, ...]


def plan(func: Op, kernels: Sequence[Op], arch: str) -> Plan:
    """`kernels` are the variants of all neutral kernels, those of one next to each other, best first."""
    compiled = tuple(compile_kernel(op, arch) for op in kernels)
    variants: dict[str, tuple[int, ...]] = {}
    for position, op in enumerate(kernels):
        name = text(op, "variant_of")
        variants[name] = (*variants.get(name, ()), position)
    checks, sites = _checks(func, {text(op, "variant_of"): op for op in kernels})
    host = _Host(variants, list(sites))
    for position, value in enumerate(func.body.args):
        host.add(value, "input", position)
    steps = host.steps(func.body)
    return Plan(tuple(host.buffers), compiled, checks, steps, tuple(host.sites))


# --- kernels --------------------------------------------------------------------------------------------------------


def compile_kernel(kernel: Op, arch: str) -> Kernel:
    """One variant. Its LLVM text is written now, so that what has no rule shows; PTX is made from it on demand."""
    written = emit_kernel(kernel)

    @cache
    def code() -> str:
        return emit_ptx(written.llvm, arch)

    return Kernel(
        name=written.name,
        code=code,
        threads=written.threads,
        programs=size_of(programs(kernel)),
        shared=size_of(written.shared),
        parameters=tuple(_parameters(kernel)),
        symbols=written.symbols,
        conditions=tuple(condition(g.kind, g.left, g.right) for g in kernel_conditions(kernel)),
    )


def _parameters(kernel: Op) -> Iterator[Parameter]:
    sources, passed = iter(indices(kernel, "mapped")), integer(kernel, "takes")
    for position, parameter in enumerate(kernel_parameters(kernel)):
        ty = parameter.type
        if isinstance(ty, TensorMapType):
            rows, columns = (size_of(d) for d in ty.dims)
            yield TensorMap(next(sources), rows, columns, ty.dtype.numpy_name, ty.box)
        elif position < passed:
            yield Argument(position)
        else:
            assert isinstance(ty, MemRefType)
            yield Workspace(size_of(product(ty.dims) * (ty.dtype.bits // 8)))


def condition(kind: str, left: Dim, right: Dim) -> Condition:
    if kind not in ("at_least", "divides", "equal", "in_range", "fits"):
        raise LoweringError(f"a condition of kind {kind}")
    return Condition(kind, size_of(left), size_of(right))


_LIMIT = Dim.const(int(LARGEST))

# --- checks ---------------------------------------------------------------------------------------------------------


def _checks(func: Op, kernels: Mapping[str, Op]) -> tuple[tuple[Check, ...], tuple[HostSite, ...]]:
    known = frozenset(name for arg in func.body.args for dim in memory(arg).dims for name in dim.symbols())
    found: dict[tuple[str, Dim, Dim], HostSite] = {}

    def add(guards: Sequence[Guard], span: Span) -> None:
        for guard in guards:
            found.setdefault((guard.kind, guard.left, guard.right), HostSite(guard.code or "guard", guard.text, span))

    for op in func.body.ops:
        guard = op.attrs.get("guard")
        if isinstance(guard, Guard):
            add(implied_guards([guard.left, guard.right]), func.span)
            add([guard], op.span)
    for op, dims in certain_sizes(func, kernels):
        add(implied_guards(dim for dim in dims if dim.symbols() <= known), op.span)
    used = [dim for dim in sizes_used([func, *kernels.values()]) if dim.symbols() <= known]
    for size in telling(part for dim in [*used, *map(programs, kernels.values())] for part in possible_parts(dim)):
        found.setdefault(("fits", size, _LIMIT), HostSite("size", named_size(size), func.span))
    checks = tuple(Check(condition(*key), site) for site, key in enumerate(found))
    return checks, tuple(found.values())


# --- steps ----------------------------------------------------------------------------------------------------------


class _Host:
    """Operations of the host program, one after another, as steps; buffers are numbered as they come."""

    def __init__(self, variants: Mapping[str, tuple[int, ...]], sites: list[HostSite]) -> None:
        self.variants = variants
        self.sites = sites
        self.buffers: list[Buffer] = []
        self.places: dict[Value, int] = {}
        self.indices: dict[Value, Size] = {}

    def add(self, value: Value, role: str, slot: int) -> None:
        ty = memory(value)
        if ty.layout != "strided":
            raise LoweringError(f"memory in the layout {ty.layout} on a GPU")
        self.places[value] = len(self.buffers)
        self.buffers.append(Buffer(role, slot, tuple(map(size_of, ty.dims)), ty.dtype.numpy_name))

    def steps(self, block: Block) -> Steps:
        found: list[Step] = []
        for op in block.ops[:-1]:
            if op.opdef.dialect == "index":
                self.indices[op.result] = self._index(op)
            elif op.name == "schedule.buffer" and op.attrs["role"] == "constant":
                raise LoweringError("tables of constants on a GPU")
            elif op.name == "schedule.buffer":
                self.add(op.result, text(op, "role"), integer(op, "slot"))
            elif op.name in _STEPS:
                found.append(_STEPS[op.name](self, op))
            elif op.name != "schedule.guard":
                raise LoweringError(f"no rule for {op.name} in a host program for a GPU")
        return tuple(found)

    def _index(self, op: Op) -> Size:
        dim = op.attrs.get("dim")
        if isinstance(dim, Dim):
            return size_of(dim)
        left, right = (self.indices[v].tree for v in op.operands)
        tree: Tree = ("+", left, ("*", -1, right)) if op.name == "index.sub" else (_OPERATORS[op.name], left, right)
        return Size(op.name, tree)

    def require(self, op: Op) -> Require:
        guard, shown = op.attrs["guard"], op.attrs.get("shown")
        assert isinstance(guard, Guard)
        self.sites.append(HostSite(text(op, "operator"), guard.text, op.span))
        index = size_of(shown) if isinstance(shown, Dim) else None
        return Require(condition(guard.kind, guard.left, guard.right), len(self.sites) - 1, index)

    def launch(self, op: Op) -> Launch:
        return Launch(self.variants[text(op, "kernel")], tuple(self.places[v] for v in op.operands))

    def select(self, op: Op) -> Select:
        tests = tuple(condition(p.kind, p.left, p.right) for p in attr_tuple(op, "predicates", Predicate))
        return Select(tests, tuple(self.steps(r.block) for r in op.regions))

    def loop(self, op: Op) -> Loop:
        counter, (low, high) = text(op, "counter"), (self.indices[v] for v in op.operands)
        self.indices[op.body.args[0]] = Size(counter, counter)
        return Loop(counter, low, high, self.steps(op.body))

    def repeat(self, op: Op) -> While:
        test, body = (region.block for region in op.regions)
        steps = self.steps(test)
        return While(steps, self.places[test.terminator.operands[0]], self.steps(body))

    def swap(self, op: Op) -> Swap:
        left, right = (self.places[v] for v in op.operands)
        return Swap(left, right)

    def choose(self, op: Op) -> Cond:
        yes, no = (self.steps(region.block) for region in op.regions)
        return Cond(self.places[op.operands[0]], yes, no)


_STEPS: dict[str, Callable[[_Host, Op], Step]] = {
    "tile.launch": _Host.launch,
    "schedule.select": _Host.select,
    "schedule.loop": _Host.loop,
    "schedule.while": _Host.repeat,
    "schedule.cond": _Host.choose,
    "schedule.swap": _Host.swap,
    "schedule.require": _Host.require,
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
