"""`tesserac tune`: schedules of kernels, found by measuring them on this machine.

Enters: a file, a kernel, sizes. Leaves: a report, and an entry of the schedule cache where something was faster than
what the compiler chooses. The cost model leaves out what it thinks little of, workers compile the rest, one after the
other is measured. A candidate whose results differ in a bit is none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile
from tesserac.check.model import typed
from tesserac.commands.outcome import Outcome, UsageMistake
from tesserac.commands.select import read, select_all, select_one
from tesserac.driver.session import Session
from tesserac.graph.passes.tune_products import product_digest, products
from tesserac.ir.core import Op
from tesserac.ir.forms import indices, tensor_type
from tesserac.ir.kernels import KERNEL, Cut, kernel_blocks, kernel_own, kernel_pinned, setting_name
from tesserac.schedule.machine import Machine
from tesserac.tune.measure import Measured, measure
from tesserac.tune.schedules import DamagedSchedules, Entry, Schedules, default_path, read_schedules
from tesserac.tune.space import PRODUCT_SPACE, block_name, block_names, candidates, default_space
from tesserac.types.dims import Dim, product
from tesserac.types.ty import TensorType

if TYPE_CHECKING:
    import numpy as np

MOST_CANDIDATES, DEFAULT_BUDGET = 12, 1000
Settings = Mapping[str, int]


@dataclass(frozen=True)
class Wanted:
    """What is to be tuned and how: sizes by name, milliseconds of measuring, and files to take in or write."""

    place: str
    sizes: Mapping[str, int]
    budget_ms: int | None
    imported: str | None
    exported: str | None


@dataclass(frozen=True)
class _Task:
    """One kernel or product of a function: its digest, the dims that its blocks cut, those that the grid does, and what
    to try where the program does not say it."""

    source: SourceFile
    function: typed.TypedFunction
    digest: str
    cuts: Mapping[str, Cut]
    own: Sequence[str]
    space: Mapping[str, Sequence[int]]
    arch: str

    def entry(self, settings: Settings, sizes: Mapping[str, int], ms: float, default_ms: float) -> Entry:
        named = {name: sizes[name] for name in self.function.symbols if name in sizes}
        return Entry(self.function.name, self.digest, self.arch, named, dict(settings), ms, default_ms)


Bar = Callable[[int, int], None]
"""Told how many candidates are done, of how many."""


def tune_with_bar(
    session: Session,
    place: str,
    sizes: Sequence[str],
    target: str | None,
    budget_ms: int | None,
    imported: str | None,
    exported: str | None,
) -> Outcome:
    """The command. Raises ProgramError, UsageMistake."""
    from tesserac.commands.tuning_bar import TuningBar

    if target not in (None, "cpu"):
        elsewhere = "tune on a machine of that kind, --export there and --import here"
        raise UsageMistake(f"only the CPU of this machine is measured, not `{target}`: {elsewhere}")
    if not (place or imported or exported):
        raise UsageMistake("there is nothing to tune, import or export")
    wanted = Wanted(place, read_tuning_sizes(sizes), budget_ms, imported, exported)
    with TuningBar() as bar:
        return tune(session, wanted, bar.show)


def tune(session: Session, wanted: Wanted, bar: Bar) -> Outcome:
    """Raises ProgramError, UsageMistake."""
    path, known = default_path(), _known(default_path())
    text = ""
    if wanted.imported is not None:
        new = _known(Path(wanted.imported), must_exist=True)
        known = known.with_entries(new.entries)
        known.write(path)
        text += f"{len(new.entries)} schedules taken from {wanted.imported}\n"
    for task in _tasks(session, wanted.place) if wanted.place else ():
        report, entry = _tune_kernel(session, task, wanted, bar)
        text += report
        if entry is not None:
            known = known.with_entries([entry])
            known.write(path)
    if wanted.exported is not None:
        known.write(Path(wanted.exported))
        text += f"{len(known.entries)} schedules written to {wanted.exported}\n"
    return Outcome(text)


def _known(path: Path, *, must_exist: bool = False) -> Schedules:
    if must_exist and not path.exists():
        raise UsageMistake(f"there is no file `{path}`")
    try:
        return read_schedules(path)
    except DamagedSchedules as problem:
        raise UsageMistake(f"the schedule cache `{problem.path}` is damaged: {problem.problem}") from None


def _tasks(session: Session, place: str) -> Iterator[_Task]:
    """The kernels of a place: of one function, or all of a file that name a space."""
    from tesserac.target.cpu.build import host_platform

    path, colon, name = place.rpartition(":")
    source = read(session, path if colon else place)
    if colon:
        functions = [select_one(session, source, name).function]
    else:
        every = [selected.function for selected in select_all(session, source).functions]
        functions = [f for f in every if f.program is not None and f.program.space]
        if not functions:
            raise UsageMistake(f"no kernel of `{place}` names a space: say which to tune, `{place}:KERNEL`")
    machine = host_platform().schedule
    for function in functions:
        forms = session.levels(source, function, machine).forms
        found = [op for op in forms.walk() if op.name == KERNEL] or list(products(forms))
        if len(found) != 1:
            raise UsageMistake(f"`{function.name}` has {len(found)} kernels or products; tune a function that has one")
        yield _task(source, function, found[0], machine)


def _task(source: SourceFile, function: typed.TypedFunction, op: Op, machine: Machine) -> _Task:
    if op.name == KERNEL:
        cuts = block_names(kernel_blocks(op))
        own = [block_name(block) for block in kernel_own(op)]
        meant = {setting_name(block) for block in kernel_pinned(op)}
        space = default_space([name for name in cuts if name not in meant], machine)
        if not space:
            raise UsageMistake(f"`{function.name}` means all of its blocks, so that there is nothing to tune")
        return _Task(source, function, str(op.attrs["digest"]), cuts, own, space, machine.arch)
    cuts = {name: Cut(Dim.sym(f"T_{name}"), size) for name, size in _sizes_of(op).items()}
    return _Task(source, function, product_digest(op), cuts, ["m", "n"], PRODUCT_SPACE, machine.arch)


def _sizes_of(contract: Op) -> dict[str, Dim]:
    """Rows, columns and terms of a product."""
    left, right = (tensor_type(v).dims for v in contract.operands)
    lhs, rhs, out = (indices(contract, name) for name in ("lhs", "rhs", "out"))
    rows = [dim for axis, dim in zip(lhs, left, strict=True) if axis in out and axis not in rhs]
    columns = [dim for axis, dim in zip(rhs, right, strict=True) if axis in out and axis not in lhs]
    terms = [dim for axis, dim in zip(lhs, left, strict=True) if axis not in out]
    return {"m": product(rows), "n": product(columns), "k": product(terms)}


# -------------------------------------------------------------------------------------------------------- one kernel


def _tune_kernel(session: Session, task: _Task, wanted: Wanted, bar: Bar) -> tuple[str, Entry | None]:
    from tesserac.target.cpu.build import host_platform

    machine, cuts = host_platform().schedule, task.cuts
    args = _arguments(task.function, wanted.sizes)
    program = task.function.program
    listed = {name: options for name, options in program.space if name in cuts} if program is not None else {}
    numbers = {name: [o for o in options if isinstance(o, int)] for name, options in listed.items()}
    space = numbers or task.space
    tried = candidates(space, cuts, task.own, wanted.sizes, machine, MOST_CANDIDATES)
    every = 1
    for options in space.values():
        every *= len(options)
    said = session.check(task.source).result.checker.decorations(task.function.name).budget_ms
    budget = (wanted.budget_ms or said or DEFAULT_BUDGET) / (len(tried) + 1)
    times = list(_measured(task, [{}, *tried], args, budget, bar))
    return _decide(task, wanted.sizes, times, every)


def _decide(
    task: _Task, sizes: Mapping[str, int], times: Sequence[tuple[Settings, Measured | str]], every: int
) -> tuple[str, Entry | None]:
    """The report, and what is kept: the fastest, if it is faster than what the compiler chooses beyond noise."""
    default = times[0][1]
    assert isinstance(default, Measured), default
    at = ", ".join(f"{name}={sizes[name]}" for name in task.function.symbols if name in sizes)
    lines = [f"`{task.function.name}` at {at} on {task.arch}: {len(times) - 1} of {every} schedules measured"]
    for settings, found in times:
        lines.append(f"  {_text(settings):32} {_time(found)}")
    good = [(settings, found) for settings, found in times[1:] if isinstance(found, Measured)]
    best, measured = min(good, key=lambda pair: pair[1].ms, default=({}, default))
    if not measured.is_faster(default):
        lines.append("  the compiler's choice stays: nothing is faster beyond noise")
        return "\n".join(lines) + "\n", None
    lines.append(f"  taken: {_text(best)}, {default.ms / measured.ms:.2f} times as fast as the compiler's choice")
    return "\n".join(lines) + "\n", task.entry(best, sizes, measured.ms, default.ms)


def _time(found: Measured | str) -> str:
    if isinstance(found, str):
        return f"left out: {found}"
    return f"{found.ms:10.4f} ms, half of {found.runs} runs between {found.low:.4f} and {found.high:.4f}"


def _text(settings: Settings) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items()) or "the compiler's choice"


def _measured(
    task: _Task, tried: Sequence[Settings], args: Sequence[np.ndarray], budget: float, bar: Bar
) -> Iterator[tuple[Settings, Measured | str]]:
    """Candidates are compiled by workers, and measured here, one at a time."""
    workers = max(1, min(len(tried), (os.cpu_count() or 2) // 2))
    wanted: object = None
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(compile_candidate, task.source, task.function.name, _entries(task, s)) for s in tried]
        codes = [job.result() for job in jobs]  # measuring begins when nothing else runs
    for done, (settings, code) in enumerate(zip(tried, codes, strict=True), 1):
        ran = code if isinstance(code, str) else _run(code, args, wanted, budget)
        bar(done, len(tried))
        if isinstance(ran, str):
            yield settings, ran
        else:
            wanted = ran[1] if wanted is None else wanted
            yield settings, ran[0]


def _entries(task: _Task, settings: Settings) -> tuple[Entry, ...]:
    return (Entry(task.function.name, task.digest, task.arch, {}, dict(settings), 0.0, 0.0),) if settings else ()


def _run(code: bytes, args: Sequence[np.ndarray], wanted: object, budget: float) -> tuple[Measured, object] | str:
    """How long the code takes, and what it gives; why it is no candidate where that differs from what is wanted."""
    from tessera.artifact import read_artifact
    from tessera.function import CompiledFunction

    function = CompiledFunction(read_artifact(code, "candidate"))
    given = function(*args)
    if wanted is not None and not _same(given, wanted):
        return "its results differ"
    return measure(lambda: function.fast(*args), budget), given


def _same(left: object, right: object) -> bool:
    import numpy as np

    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(_same, left, right))
    return np.asarray(left).tobytes() == np.asarray(right).tobytes()


def compile_candidate(source: SourceFile, function: str, entries: tuple[Entry, ...]) -> bytes | str:
    """In a worker: the code of a function with these schedules, or why there is none."""
    from tesserac.driver.session import ProgramError
    from tesserac.target.cpu.build import host_platform

    session = Session(release=True, schedules=Schedules(entries))
    try:
        found = select_one(session, source, function).function
        return session.artifact(source, found, host_platform()).to_bytes()
    except ProgramError as problem:
        return str(problem)


def _arguments(function: typed.TypedFunction, sizes: Mapping[str, int]) -> list[np.ndarray]:
    """Normal numbers of the sizes that are said. Raises UsageMistake."""
    import numpy as np

    from tessera.dtypes import numpy_dtype

    missing = [name for name in function.symbols if name not in sizes]
    if missing:
        shown = ",".join(f"{name}=1024" for name in missing)
        raise UsageMistake(f"say the sizes to measure `{function.name}` at: --sizes {shown}")
    rng, args = np.random.default_rng(0), []
    for param in function.params:
        if not isinstance(param.type, TensorType) or not param.type.dtype.is_float:
            raise UsageMistake(f"`{param.name}` of `{function.name}` is no tensor of floats, to fill with numbers")
        shape = [dim.evaluate(dict(sizes)) for dim in param.type.dims]
        args.append(rng.standard_normal(shape).astype(numpy_dtype(param.type.dtype.numpy_name)))
    return args


def read_tuning_sizes(given: Sequence[str]) -> dict[str, int]:
    """`S=4096,D=64` as sizes and their values. Raises UsageMistake."""
    sizes: dict[str, int] = {}
    for text in (part for one in given for part in one.split(",")):
        name, _, value = text.partition("=")
        if not name.isidentifier() or not value.isdecimal() or not int(value):
            raise UsageMistake(f"--sizes takes sizes and their values, such as S=4096,D=64, not `{text}`")
        sizes[name] = int(value)
    return sizes
