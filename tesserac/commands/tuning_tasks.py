"""What is tuned: the kernels, contractions and reductions of a function, each with the settings to try.

Enters: a function in forms for a machine. Leaves: one task for each kind of work in it that has something to choose.
The cost model leaves out what it thinks little of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import log2, prod

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile
from tesserac.check.model import typed
from tesserac.graph.dialect import SCHEDULE
from tesserac.graph.passes.inline import MEANING
from tesserac.graph.passes.tune_forms import form_digest, form_sizes, tunable_forms
from tesserac.ir.core import Module, Op
from tesserac.ir.forms import indices, tensor_type
from tesserac.ir.kernels import KERNEL, SPACE, kernel_blocks, kernel_pinned, setting_name
from tesserac.schedule.costs.tiles import Block, Problem, time
from tesserac.schedule.costs.tiles import candidates as product_blocks
from tesserac.schedule.machine import Machine
from tesserac.tune.schedules import Entry
from tesserac.tune.space import (
    COLUMNS_SPACE,
    PRODUCT_SPACE,
    STAGES,
    WARPS_SPACE,
    Settings,
    all_of,
    block_names,
    candidates,
    default_space,
)
from tesserac.types.policy import compute_dtype

MOST_CANDIDATES = 12


@dataclass(frozen=True)
class Task:
    """One kind of work of a function: what it is called, the digest and sizes it is known by, and what is tried, best
    guess first, of `every` that there are. `useless` are the settings of its space that this machine does not take,
    `cache` is where its kernel keeps what is found."""

    source: SourceFile
    function: typed.TypedFunction
    title: str
    digest: str
    sizes: Mapping[str, int]
    tried: Sequence[Settings]
    every: int
    machine: Machine
    useless: Sequence[str] = ()
    cache: str = ""

    def entry(self, settings: Settings, ms: float = 0.0, default_ms: float = 0.0) -> Entry:
        machine, name = self.machine, self.function.name
        return Entry(name, self.digest, machine.arch, machine.cores, self.sizes, settings, ms, default_ms)


def find_tasks(
    source: SourceFile,
    function: typed.TypedFunction,
    forms: Module,
    machine: Machine,
    sizes: Mapping[str, int],
    reached: Iterable[typed.TypedFunction] = (),
) -> Iterator[Task]:
    """The work of a function, each kind once; none where nothing can be chosen. It is done by `reached`."""
    caches = {f.symbol: f.program.cache for f in reached if f.program is not None}
    seen: set[str] = set()
    for op in [op for op in forms.walk() if op.name == KERNEL] + list(tunable_forms(forms)):
        task = None
        if op.name == KERNEL:
            cache = caches.get(_symbol(op), "")
            task = replace(_kernel(source, function, op, machine, sizes), cache=cache)
        if op.name != KERNEL and SCHEDULE not in op.attrs:
            task = _form(source, function, op, machine, sizes)
        if task is not None and task.tried and task.digest not in seen:
            seen.add(task.digest)
            yield task


def _kernel(
    source: SourceFile, function: typed.TypedFunction, op: Op, machine: Machine, sizes: Mapping[str, int]
) -> Task:
    cuts = block_names(kernel_blocks(op))
    meant = {setting_name(block) for block in kernel_pinned(op)}
    free = [name for name in cuts if name not in meant]
    listed = _listed(op)
    taken = (*free, *(("warps", "stages") if machine.warps else ()))
    space = {name: options for name, options in listed.items() if name in taken} or default_space(free, machine)
    useless = [name for name in listed if name not in taken]
    tried = candidates(space, op, sizes, machine, MOST_CANDIDATES)
    named = {name: size for name, size in sizes.items() if name in function.symbols}
    count = prod(map(len, space.values())) if space else 0
    title = _symbol(op).rpartition(".")[2]
    digest = str(op.attrs["digest"])
    return Task(source, function, f"kernel `{title}`", digest, named, tried, count, machine, useless)


def _symbol(kernel: Op) -> str:
    """Of the function that a kernel is, also where it is what is compiled and no one calls it."""
    return str(kernel.attrs["name"]).removesuffix(MEANING)


def _listed(kernel: Op) -> dict[str, Sequence[int]]:
    """The space that a kernel names, whoever calls it. Settings that are words are taken by no machine."""
    listed = kernel.attrs.get(SPACE, ())
    assert isinstance(listed, tuple)
    return {str(name): [o for o in options if isinstance(o, int)] for name, options in listed}


def _form(
    source: SourceFile, function: typed.TypedFunction, op: Op, machine: Machine, sizes: Mapping[str, int]
) -> Task:
    numbers = {name: dim.evaluate(dict(sizes)) for name, dim in form_sizes(op).items()}
    every = _product_settings(op, numbers, machine) if op.name == "form.contract" else _row_settings(op, machine)
    shape = " x ".join(str(numbers[name]) for name in ("m", "n", "k") if name in numbers)
    what = "product" if op.name == "form.contract" else f"{op.attrs['kind']} over rows"
    title = f"{what} of {tensor_type(op.operands[0]).dtype}, {shape}"
    return Task(source, function, title, form_digest(op), numbers, every[:MOST_CANDIDATES], len(every), machine)


def _product_settings(op: Op, numbers: Mapping[str, int], machine: Machine) -> list[Settings]:
    """Whole blocks of registers on a CPU; on a GPU the shapes that its units take, with copies in flight."""
    ty = tensor_type(op.operands[0])
    accum = compute_dtype(ty.dtype, ty.policy)
    problem = Problem(1, numbers["m"], numbers["n"], numbers["k"], ty.dtype, accum, laid_out=True)
    if machine.packs_operands:
        every = all_of(PRODUCT_SPACE)
        return sorted(every, key=lambda s: time(problem, Block(s["m"], s["n"], s["k"]), machine))
    blocks = sorted(product_blocks(problem, machine), key=lambda block: time(problem, block, machine))
    return [{"m": b.rows, "n": b.columns, "k": b.depth, "stages": depth} for b in blocks for depth in STAGES]


def _row_settings(op: Op, machine: Machine) -> list[Settings]:
    """Columns that are walked side by side where neighbours belong to different sums, and warps of a program; what is
    like the compiler's choice first."""
    last = tensor_type(op.operands[0]).rank - 1
    space: dict[str, Sequence[int]] = {} if last in indices(op, "axes") else {"n": COLUMNS_SPACE}
    chosen = {"n": machine.columns, "warps": machine.column_warps if space else machine.warps}
    every = all_of(space | ({"warps": WARPS_SPACE} if machine.warps else {}))
    return sorted(every, key=lambda settings: sum(abs(log2(value / chosen[name])) for name, value in settings.items()))
