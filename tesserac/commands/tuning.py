"""`tesserac tune`: schedules of kernels, products and reductions, found by measuring them on this machine.

Enters: a file, a function, sizes. Leaves: a report, and an entry of the schedule cache where something was faster than
what the compiler chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING

from tessera.errors import TesseraError, reason_of
from tesserac.base.dataclass import dataclass
from tesserac.base.source import NO_SPAN, SourceFile
from tesserac.check.model import typed
from tesserac.commands.outcome import INTERRUPTED, Outcome, UsageMistake
from tesserac.commands.select import read, select_all, select_one
from tesserac.commands.tuning_runs import Bar, Bench, Tried, find_bench, run_candidates, workers
from tesserac.commands.tuning_tasks import Task, find_tasks
from tesserac.diag.codes.kernels import E0514
from tesserac.driver.refusals import ProgramError, one_error
from tesserac.driver.session import Session
from tesserac.tune.measure import Measured
from tesserac.tune.schedules import (
    DamagedSchedules,
    Entry,
    Schedules,
    default_path,
    read_schedules,
    said_path,
    schedules_of,
)
from tesserac.tune.space import Settings
from tesserac.types.ty import TensorType

if TYPE_CHECKING:
    import numpy as np

Found = tuple[str, list[tuple[Entry, str]]]
"""Of one kind of work the report, and what was faster, if something was, with the cache that keeps it besides."""
DEFAULT_BUDGET = 1000
BUNDLE_SUFFIX = ".tessb"


@dataclass(frozen=True)
class Wanted:
    """What is to be tuned, how and where: sizes by name, milliseconds of measuring, and files to take in or write."""

    place: str
    sizes: Mapping[str, int]
    budget_ms: int | None
    imported: str | None
    exported: str | None
    device: str = "cpu"


def tune_with_bar(session: Session, wanted: Wanted) -> Outcome:
    """The command. Raises ProgramError, UsageMistake."""
    from tesserac.commands.counting_bar import CountingBar

    if not (wanted.place or wanted.imported or wanted.exported):
        raise UsageMistake("there is nothing to tune, import or export")
    with CountingBar("schedules") as bar:
        return tune(session, wanted, bar.show)


def tune(session: Session, wanted: Wanted, bar: Bar) -> Outcome:
    """Raises ProgramError, UsageMistake."""
    path, known = default_path(), _known(default_path())
    text = ""
    if wanted.imported is not None:
        new = _imported(Path(wanted.imported))
        known = known.with_entries(new.entries)
        known.write(path)
        text += f"{len(new.entries)} schedules taken from {wanted.imported}\n"
    try:
        for report, found in _tuned(session, wanted, bar) if wanted.place else ():
            text += report
            known = known.with_entries([entry for entry, _ in found])
            _keep(known, found)
    except KeyboardInterrupt:
        return Outcome(text, "interrupted: what was found before that is kept\n", INTERRUPTED)
    if wanted.exported is not None:
        _write(known, Path(wanted.exported))
        text += f"{len(known.entries)} schedules written to {wanted.exported}\n"
    return Outcome(text)


def _tuned(session: Session, wanted: Wanted, bar: Bar) -> Iterator[Found]:
    """The work of all functions, one after the other."""
    bench = _bench(wanted.device)
    functions = _functions(session, wanted.place)
    _check_sizes(wanted, [function for _, function in functions])
    with workers() as pool:
        for source, function in functions:
            yield from _tune_function(session, _Place(bench, pool), source, function, wanted, bar)


def _check_sizes(wanted: Wanted, functions: Sequence[typed.TypedFunction]) -> None:
    """Each size is one of a function that is tuned."""
    known = dict.fromkeys(name for function in functions for name in function.symbols)
    for name in wanted.sizes:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise UsageMistake(f"nothing that is tuned has a size `{name}`: `{wanted.place}` has {listed}")


def _keep(known: Schedules, found: Sequence[tuple[Entry, str]]) -> None:
    """In the user's cache, and where the kernel says."""
    if found:
        _write(known, default_path())
    for entry, cache in found:
        if cache:
            own = said_path(cache)
            _write(_known(own).with_entries([entry]), own)


def _write(known: Schedules, path: Path) -> None:
    try:
        known.write(path)
    except OSError as problem:
        raise UsageMistake(f"cannot write the schedule cache `{path}`: {reason_of(problem)}") from None


def _bench(device: str) -> Bench:
    try:
        return find_bench(device)
    except TesseraError as problem:
        raise UsageMistake(str(problem).removeprefix("error")) from None


def _known(path: Path) -> Schedules:
    try:
        return read_schedules(path)
    except DamagedSchedules as problem:
        raise _damaged(problem) from None


def _damaged(problem: DamagedSchedules) -> ProgramError:
    return one_error(E0514, NO_SPAN, path=str(problem.path), problem=problem.problem)


def _imported(path: Path) -> Schedules:
    """Those of a file that was exported, or that a bundle was built with."""
    if not path.exists():
        raise UsageMistake(f"there is no file `{path}`")
    if path.suffix != BUNDLE_SUFFIX:
        return _known(path)
    from tessera.bundle import BundleReader
    from tessera.signing import content

    try:
        text = BundleReader(content(path.read_bytes()), str(path)).schedules
        return schedules_of(text, path) if text else Schedules()
    except TesseraError as problem:
        raise UsageMistake(str(problem).removeprefix("error")) from None
    except DamagedSchedules as problem:
        raise _damaged(problem) from None


def _functions(session: Session, place: str) -> list[tuple[SourceFile, typed.TypedFunction]]:
    """Those of a place: one function, or all kernels of a file that name a space."""
    path, colon, name = place.rpartition(":")
    source = read(session, path if colon else place)
    if colon:
        return [(source, select_one(session, source, name).function)]
    every = [selected.function for selected in select_all(session, source).functions]
    functions = [(source, f) for f in every if f.program is not None and f.program.space]
    if not functions:
        raise UsageMistake(f"no kernel of `{place}` names a space: say which to tune, `{place}:KERNEL`")
    return functions


# ------------------------------------------------------------------------------------------------------ one function


@dataclass(frozen=True)
class _Place:
    """Where candidates run, and who compiles them."""

    bench: Bench
    pool: Executor


def _tune_function(
    session: Session, place: _Place, source: SourceFile, function: typed.TypedFunction, wanted: Wanted, bar: Bar
) -> Iterator[Found]:
    """One kind of work after the other, each beside what was found for those before it."""
    args, machine = arguments_for(function, wanted.sizes), place.bench.machine
    untuned = Session(schedules=Schedules())  # what was found at other sizes is not what is to be found here
    forms = untuned.levels(source, function, machine).forms
    reached = session.check(source).result.reach(function).values()
    tasks = list(find_tasks(source, function, forms, machine, wanted.sizes, reached))
    if not tasks:
        why = "it has no kernel, product or reduction of which a schedule could choose something"
        raise UsageMistake(f"there is nothing to tune in `{function.name}`: {why}")
    said = session.check(source).result.checker.decorations(function.name).budget_ms
    budget = (wanted.budget_ms or said or DEFAULT_BUDGET) / len(tasks)
    before: list[Entry] = []
    for task in tasks:
        run = run_candidates(place.bench, place.pool, task, before, args, budget, bar)
        report, entry = _decide(task, wanted.sizes, run.tried)
        before += [] if entry is None else [entry]
        yield report, [] if entry is None else [(entry, task.cache)]
        if run.interrupted:
            raise KeyboardInterrupt  # what it found is kept now


def _decide(task: Task, sizes: Mapping[str, int], times: Sequence[Tried]) -> tuple[str, Entry | None]:
    """The report, and what is kept: the fastest, if it is faster than what the compiler chooses beyond noise."""
    default = times[0][1]
    if isinstance(default, str):
        raise UsageMistake(f"`{task.function.name}` does not run as the compiler schedules it: {default}")
    at = ", ".join(f"{name}={sizes[name]}" for name in task.function.symbols if name in sizes)
    where = f"`{task.function.name}` at {at} on {task.machine.target}, {task.machine.cores} cores"
    lines = [f"{where}: {task.title}, {len(times) - 1} of {task.every} schedules measured"]
    if task.useless:
        lines.append(f"  of its space not taken by this machine: {', '.join(task.useless)}")
    lines += [f"  {_text(settings):32} {_time(found)}" for settings, found in times]
    good = [(settings, found) for settings, found in times[1:] if isinstance(found, Measured)]
    best, measured = min(good, key=lambda pair: pair[1].ms, default=({}, default))
    if not measured.is_faster(default):
        lines.append("  the compiler's choice stays: nothing is faster beyond noise")
        return "\n".join(lines) + "\n", None
    lines.append(f"  taken: {_text(best)}, {default.ms / measured.ms:.2f} times as fast as the compiler's choice")
    return "\n".join(lines) + "\n", task.entry(best, measured.ms, default.ms)


def _time(found: Measured | str) -> str:
    if isinstance(found, str):
        return f"left out: {found}"
    return f"{found.ms:10.4f} ms, half of {found.runs} runs between {found.low:.4f} and {found.high:.4f}"


def _text(settings: Settings) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items()) or "the compiler's choice"


def arguments_for(function: typed.TypedFunction, sizes: Mapping[str, int]) -> list[np.ndarray]:
    """Normal numbers of the sizes that are said, and zeros where a tensor has integers: they are in range wherever they
    are places. Raises UsageMistake."""
    import numpy as np

    from tessera.dtypes import numpy_dtype

    missing = [name for name in function.symbols if name not in sizes]
    if missing:
        shown = ",".join(f"{name}=1024" for name in missing)
        raise UsageMistake(f"say the sizes to measure `{function.name}` at: --sizes {shown}")
    rng, args = np.random.default_rng(0), []
    for param in function.params:
        if not isinstance(param.type, TensorType):
            why = "is no tensor, to fill with numbers: tune a function of tensors that calls it"
            raise UsageMistake(f"`{param.name}` of `{function.name}` {why}")
        shape, dtype = [dim.evaluate(dict(sizes)) for dim in param.type.dims], param.type.dtype
        try:
            numbers = rng.standard_normal(shape) if dtype.is_float or dtype.is_complex else np.zeros(shape)
            args.append(numbers.astype(numpy_dtype(dtype.numpy_name)))
        except (MemoryError, ValueError):
            shown = ", ".join(map(str, shape))
            why = f"is [{shown}] at these sizes, more than this machine has memory for"
            raise UsageMistake(f"`{param.name}` of `{function.name}` {why}") from None
    return args
