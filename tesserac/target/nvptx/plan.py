"""The host program of a function as data for `tessera.cuda`.

Enters: a module of neutral kernels, with a `schedule.func` that launches them or with none. Leaves: a `GpuProgram`.
Without a host program a kernel is launched by itself: what it writes are the results, all else the parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tessera.gpu_program import (
    Argument,
    Buffer,
    Check,
    Condition,
    GpuProgram,
    Kernel,
    Launch,
    Parameter,
    Select,
    Step,
    TensorMap,
    Workspace,
)
from tessera.signature import Binding, Signature, TensorSpec
from tesserac.ir.core import Block, Module, Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.forms import Guard, indices
from tesserac.ir.types import MemRefType, element
from tesserac.schedule.dialect import Predicate
from tesserac.target.nvptx.kernel import emit_kernel, programs
from tesserac.target.nvptx.ptx import emit_ptx
from tesserac.target.sizes import size_of, solve_symbols
from tesserac.tile.gpu.dialect import kernel_conditions, kernel_grid, kernel_parameters, memory
from tesserac.tile.gpu.errors import LoweringError
from tesserac.tile.gpu.lower import lower_module
from tesserac.tile.gpu.types import TensorMapType
from tesserac.tile.gpu.variants import Arch
from tesserac.types.dims import product


def build_program(module: Module, arch: Arch, signature: Signature | None = None) -> GpuProgram:
    """Compiles a module of neutral Tile IR. `signature` belongs to its host program, if it has one."""
    lowered = lower_module(module, arch)
    hosts = [op for op in lowered.ops if op.name == "schedule.func"]
    compiled = _Kernels(module, lowered, arch)
    if hosts:
        return _Host(hosts[0], compiled).program(signature)
    (neutral,) = [op for op in module.ops if op.name == "tile.kernel"]
    return _alone(neutral, compiled)


class _Kernels:
    """All variants of all kernels, compiled."""

    def __init__(self, module: Module, lowered: Module, arch: Arch) -> None:
        self.arch = arch.name
        neutral = {op.symbol: op for op in module.ops if op.name == "tile.kernel"}
        self.variants: dict[str, list[int]] = {name: [] for name in neutral}
        self.compiled: list[Kernel] = []
        for op in lowered.ops:
            if op.name == "gpu.kernel":
                source = op.attrs["variant_of"]
                assert isinstance(source, str)
                operands = len(neutral[source].body.args) - len(kernel_grid(op))
                self.variants[source].append(len(self.compiled))
                self.compiled.append(compile_kernel(op, operands, arch.name))

    def launch(self, name: str, operands: Sequence[int]) -> Launch:
        return Launch(tuple(self.variants[name]), tuple(operands))


def compile_kernel(kernel: Op, operands: int, arch: str) -> Kernel:
    """One variant. The first `operands` parameters are what a launch passes."""
    text = emit_kernel(kernel)
    return Kernel(
        name=text.name,
        code=emit_ptx(text.llvm, arch),
        threads=text.threads,
        programs=size_of(programs(kernel)),
        shared=size_of(text.shared),
        parameters=tuple(_parameters(kernel, operands)),
        symbols=text.symbols,
        conditions=tuple(condition(g) for g in kernel_conditions(kernel)),
    )


def _parameters(kernel: Op, operands: int) -> Iterator[Parameter]:
    sources = iter(indices(kernel, "mapped"))
    for position, parameter in enumerate(kernel_parameters(kernel)):
        ty = parameter.type
        if isinstance(ty, TensorMapType):
            rows, columns = (size_of(d) for d in ty.dims)
            yield TensorMap(next(sources), rows, columns, ty.dtype.numpy_name, ty.box)
        elif position < operands:
            yield Argument(position)
        else:
            assert isinstance(ty, MemRefType)
            yield Workspace(size_of(product(ty.dims) * (ty.dtype.bits // 8)))


def condition(guard: Guard) -> Condition:
    if guard.kind not in ("at_least", "divides", "equal"):
        raise LoweringError(f"a condition of kind {guard.kind}")
    return Condition(guard.kind, size_of(guard.left), size_of(guard.right), guard.text)


def _alone(kernel: Op, kernels: _Kernels) -> GpuProgram:
    memrefs = kernel.body.args[len(kernel_grid(kernel)) :]
    written = {op.operands[1] for op in kernel.walk() if op.name == "tile.store"}
    inputs = [v for v in memrefs if v not in written]
    outputs = [v for v in memrefs if v in written]
    buffers = [buffer("input", i, memory(v)) for i, v in enumerate(inputs)]
    buffers += [buffer("output", i, memory(v)) for i, v in enumerate(outputs)]
    order = [*inputs, *outputs]
    launch = kernels.launch(kernel.symbol, [order.index(v) for v in memrefs])
    signature = kernel_signature(kernel.symbol, inputs, outputs)
    return GpuProgram(signature, kernels.arch, tuple(buffers), tuple(kernels.compiled), (launch,))


def buffer(role: str, slot: int, ty: MemRefType) -> Buffer:
    return Buffer(role, slot, tuple(size_of(d) for d in ty.dims), ty.dtype.numpy_name)


def kernel_signature(name: str, inputs: Sequence[IRValue], outputs: Sequence[IRValue]) -> Signature:
    equations = solve_symbols([memory(v).dims for v in inputs])
    bindings = [
        Binding(e.symbol, e.parameter, e.axis, size_of(e.factor), size_of(e.scale), size_of(e.offset))
        for e in equations
    ]
    specs = [[_spec(v) for v in values] for values in (inputs, outputs)]
    symbols = tuple(sorted(e.symbol for e in equations))
    return Signature(name, tuple(specs[0]), tuple(specs[1]), len(outputs) != 1, symbols, tuple(bindings), ())


def _spec(value: IRValue) -> TensorSpec:
    ty = memory(value)
    sizes = tuple(size_of(d) for d in ty.dims)
    return TensorSpec(value.name, sizes, ty.dtype.numpy_name, element(ty.dtype, ty.policy))


class _Host:
    """A `schedule.func` step by step."""

    def __init__(self, func: Op, kernels: _Kernels) -> None:
        self.func = func
        self.kernels = kernels
        self.buffers: list[Buffer] = []
        self.places: dict[IRValue, int] = {}
        for position, value in enumerate(func.body.args):
            self.add(value, buffer("input", position, memory(value)))

    def add(self, value: IRValue, made: Buffer) -> None:
        self.places[value] = len(self.buffers)
        self.buffers.append(made)

    def program(self, signature: Signature | None) -> GpuProgram:
        steps = self.steps(self.func.body)
        own = signature or kernel_signature(
            self.func.symbol, self.func.body.args, self.func.body.terminator.operands
        )
        return GpuProgram(own, self.kernels.arch, tuple(self.buffers), tuple(self.kernels.compiled), steps)

    def steps(self, block: Block) -> tuple[Step, ...]:
        found = [self.step(op) for op in block.ops[:-1]]
        return tuple(step for step in found if step is not None)

    def step(self, op: Op) -> Step | None:
        match op.name:
            case "schedule.guard":
                guard = op.attrs["guard"]
                assert isinstance(guard, Guard)
                return Check(condition(guard))
            case "schedule.buffer":
                role, slot = op.attrs["role"], op.attrs["slot"]
                assert isinstance(role, str) and isinstance(slot, int)
                self.add(op.result, buffer(role, slot, memory(op.result)))
                return None
            case "tile.launch":
                name = op.attrs["kernel"]
                assert isinstance(name, str)
                return self.kernels.launch(name, [self.places[v] for v in op.operands])
            case "schedule.select":
                return self.select(op)
        raise LoweringError(f"no rule for {op.name} in a host program for a GPU")

    def select(self, op: Op) -> Select:
        predicates = op.attrs["predicates"]
        assert isinstance(predicates, tuple)
        tests = [_predicate(p) for p in predicates if isinstance(p, Predicate)]
        return Select(tuple(tests), tuple(self.steps(r.block) for r in op.regions))


def _predicate(predicate: Predicate) -> Condition:
    left, right = predicate.left, predicate.right
    return Condition(predicate.kind, size_of(left), size_of(right), f"{left} {predicate.kind} {right}")


