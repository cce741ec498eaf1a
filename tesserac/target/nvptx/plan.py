"""The host program of a function as data for the runtime.

Enters: a `schedule.func` and the `gpu.kernel`s it launches. Leaves: the buffers, kernels, checks and steps of a
`GpuProgram`. The checks are those of the CPU's entry: the guards of the program, each behind what its sizes need to
have a value, then what all other sizes need, and that all fit into the integers of a kernel. The host computes in
integers without end, so that this one comes last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from threading import Lock

from tessera.errors import NO_CODE, failure
from tessera.gpu_program import (
    Argument,
    Buffer,
    Check,
    Kernel,
    Parameter,
    Steps,
    TensorMap,
    Workspace,
)
from tesserac.base.dataclass import dataclass
from tesserac.base.recursion import deep_recursion
from tesserac.base.source import Span
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import Guard, indices
from tesserac.ir.types import MemRefType
from tesserac.schedule.dialect import memory
from tesserac.target.compile import CodegenError
from tesserac.target.entry.extents import loop_bounds
from tesserac.target.entry.guards import certain_guards, kernel_sizes, sizes_used
from tesserac.target.entry.status import HostSite
from tesserac.target.magnitudes import LARGEST, named_size, possible_parts, telling
from tesserac.target.nvptx.alike import Alike, alike
from tesserac.target.nvptx.blocks import block_bytes, block_count, block_threads, may_begin_early, programs
from tesserac.target.nvptx.host.steps import HostSteps, condition
from tesserac.target.nvptx.kernel import emit_kernel, entry_name, kernel_symbols
from tesserac.target.nvptx.selection import check_selectable
from tesserac.target.sizes import implied_guards, size_of
from tesserac.tile.dialect import kernel_tensors
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.types import TensorMapType
from tesserac.tile.gpu.model.values import (
    integer,
    is_persistent,
    kernel_conditions,
    kernel_parameters,
    text,
)
from tesserac.types.dims import Dim, product
from tesserac.types.extents import largest


@dataclass(frozen=True)
class Plan:
    """All of a `GpuProgram` but its signature, whose sites are here."""

    buffers: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    checks: tuple[Check, ...]
    steps: Steps
    sites: tuple[HostSite, ...]
    tables: tuple[bytes, ...]


def plan(func: Op, kernels: Sequence[Op], arch: str) -> Plan:
    """`kernels` are the variants of all neutral kernels, those of one next to each other, best first."""
    shown = _shown(kernels)
    compiled = tuple(compile_kernel(op, arch, op in shown) for op in kernels)
    variants: dict[str, tuple[Op, tuple[int, ...]]] = {}
    for position, op in enumerate(kernels):
        first, others = variants.get(text(op, "variant_of"), (op, ()))
        variants[text(op, "variant_of")] = (first, (*others, position))
    checks, sites = _checks(func, {text(op, "variant_of"): op for op in kernels})
    host = HostSteps(func, variants, list(sites))
    for position, value in enumerate(func.body.args):
        host.add(value, "input", position)
    steps = host.steps(func.body)
    return Plan(tuple(host.buffers), compiled, checks, steps, tuple(host.sites), tuple(host.tables))


# --- kernels --------------------------------------------------------------------------------------------------------


def _shown(kernels: Sequence[Op]) -> set[Op]:
    """Those that are written at once, so that what has no rule shows: of what runs where no condition holds, as many as
    have all operations of all, which are few if those with the most come first. A product has ten of them, which differ
    in their blocks."""
    always = {kernel: _forms(kernel) for kernel in reversed(kernels) if not kernel_conditions(kernel)}
    chosen, known = set[Op](), set[tuple[object, ...]]()
    for kernel, forms in sorted(always.items(), key=lambda found: -len(found[1])):
        if not forms <= known:
            chosen.add(kernel)
            known |= forms
    return chosen


def _forms(kernel: Op) -> set[tuple[object, ...]]:
    """What rules are chosen by: operations with the elements that they take and give, and what else they say in words;
    not how many elements there are, nor how many operands of one kind follow one another."""
    found = set[tuple[object, ...]]()
    for op in kernel.walk():
        said = (value for key, value in op.attrs.items() if isinstance(value, str) and key not in _NAMES)
        found.add((op.name, *said, _kinds(op.operands), _kinds(op.results)))
    return found


def _kinds(values: Sequence[Value]) -> tuple[object, ...]:
    kinds = ((getattr(value.type, "dtype", None), getattr(value.type, "policy", None)) for value in values)
    return tuple(kind for kind, _ in groupby(kinds))


_NAMES = frozenset(("sym_name", "variant_of"))


def compile_kernel(kernel: Op, arch: str, at_once: bool) -> Kernel:
    """One variant. Its text is written `at_once` or on demand, as PTX is."""
    name = entry_name(kernel.symbol)

    @cache
    def llvm() -> str:
        return emit_kernel(kernel, may_begin_early(kernel, arch), arch).llvm

    @cache
    def shared() -> Alike:
        with deep_recursion():
            return alike(llvm(), arch)

    turn = Lock()

    def code() -> str:
        try:
            with turn:  # a call and what keeps the code may ask at the same time
                return shared().ptx()
        except (CodegenError, LoweringError) as problem:  # what LLVM is not known to take is one
            raise failure(NO_CODE, f"no code of kernel `{name}` for {arch}: {problem}") from None

    if at_once:
        check_selectable(llvm())  # of the others it is who makes PTX of them that looks
    return Kernel(
        name=name,
        code=code,
        threads=block_threads(kernel),
        programs=size_of(block_count(kernel)),
        shared=size_of(block_bytes(kernel)),
        parameters=tuple(_parameters(kernel)),
        symbols=kernel_symbols(kernel),
        conditions=tuple(condition(g.kind, g.left, g.right) for g in kernel_conditions(kernel)),
        persistent=is_persistent(kernel),
        early=may_begin_early(kernel, arch),
        tensors=kernel_tensors(kernel),
    )


def _parameters(kernel: Op) -> Iterator[Parameter]:
    sources, passed = iter(indices(kernel, "mapped")), integer(kernel, "takes")
    for position, parameter in enumerate(kernel_parameters(kernel)):
        ty = parameter.type
        if isinstance(ty, TensorMapType):
            dims, strides = (tuple(map(size_of, sizes)) for sizes in (ty.dims, ty.strides[:-1]))
            yield TensorMap(next(sources), dims, strides, ty.dtype.numpy_name, ty.box)
        elif position < passed:
            yield Argument(position)
        else:
            assert isinstance(ty, MemRefType)
            yield Workspace(size_of(product(ty.dims) * (ty.dtype.bits // 8)))


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
    for op, guards in certain_guards(func, kernel_sizes(kernels), known):
        add(guards, op.span)
    loops = loop_bounds(func)
    sizes = dict.fromkeys((*sizes_used([func, *kernels.values()]), *map(programs, kernels.values())))
    # Of one with a counter of a loop, what it is at most; where that is not known, each launch is looked at.
    most = [dim for dim in (largest(dim, loops) for dim in sizes) if dim is not None and dim.symbols() <= known]
    for size in telling(part for dim in most for part in possible_parts(dim)):
        found.setdefault(("fits", size, _LIMIT), HostSite("size", named_size(size), func.span))
    checks = tuple(Check(condition(*key), site) for site, key in enumerate(found))
    return checks, tuple(found.values())
