"""The one stateful object: files, the library, and what is known of both, each computed once.

Used by the commands, the REPL, the editor's server and the runtime alike. Programs with mistakes give diagnostics;
asking for compiled code of such a program raises `ProgramError`, which carries them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tessera.returned import VALUE, Returned
from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile, Span
from tesserac.check.infer import CheckResult, Earlier, check_module
from tesserac.check.model import typed
from tesserac.check.module.findings import RuleMisfit
from tesserac.check.names.cascades import all_said
from tesserac.check.names.lint import lint_module
from tesserac.diag.check_record import Reads
from tesserac.diag.codes.differentiation import E0702, E0705, E0720
from tesserac.diag.codes.kernels import E0514, E0580
from tesserac.diag.codes.names import E0299
from tesserac.diag.codes.runtime import E0949
from tesserac.diag.codes.shapes import E0316
from tesserac.diag.diagnostic import Diagnostic, Severity
from tesserac.diag.sink import Sink
from tesserac.driver.content import beside, content_of, places_in
from tesserac.driver.programs import Programs
from tesserac.driver.refusals import (
    NoSuchFunction,
    ProgramError,
    SizesMissing,
    check_requests,
    devices_missing,
    impossible_schedule,
    no_fit,
    one_error,
    sizes_missing,
    sizes_refused,
    stays_inside,
)
from tesserac.entry.interface import ModuleInterface, NotReturnable, Specialization, interface_of, returned_of
from tesserac.entry.specialize import argument_types
from tesserac.graph.autodiff.errors import NotDifferentiable
from tesserac.graph.batching.dialect import MappedResult
from tesserac.graph.build import build_module
from tesserac.graph.built import Unsupported
from tesserac.graph.devices import DevicesMissing, alone
from tesserac.graph.expansion import TooManyOperators
from tesserac.graph.passes.fix_sizes import SizesDemanded, SizesRefused, with_sizes
from tesserac.ir.passes import run_passes
from tesserac.modules.imports import Importer
from tesserac.modules.library import Library, library_sources, load_library
from tesserac.numerics.exact import Array
from tesserac.pipeline import Levels, lower, target_passes
from tesserac.project.layout import Project
from tesserac.schedule.model.legality import ImpossibleSchedule
from tesserac.syntax import ast
from tesserac.syntax.files import read_source
from tesserac.syntax.parse import parse_module
from tesserac.tile.build import Holds, holds_nothing
from tesserac.tune.schedules import DamagedSchedules, Entry, Schedules, asking, cache_reads, known_schedules
from tesserac.types.dims import Dim, DimError, TooComplex
from tesserac.types.ty import map_dims

if TYPE_CHECKING:
    from tessera.artifact import Artifact
    from tessera.gpu_program import GpuProgram
    from tessera.interface import Content
    from tesserac.driver.operator_trace import Observe
    from tesserac.incremental.analyser import Analyser, Analysis
    from tesserac.schedule.machine import Machine
    from tesserac.target.cpu.build import CpuPlatform
    from tesserac.target.nvptx.build import GpuPlatform

Sizes = Mapping[str, int]
NO_SIZES: Sizes = {}

PROGRAM = "main"
"""What symbols of the program being compiled start with."""


@dataclass(frozen=True)
class Checked:
    """A parsed and checked program, with all that is to be said about it in the order of the text."""

    source: SourceFile
    result: CheckResult
    diagnostics: tuple[Diagnostic, ...]
    reads: Reads = ()

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self.diagnostics if d.severity is Severity.ERROR)


class Session:
    """`verify` checks the IR after every pass; a `release` leaves out the run-time checks that `assert` makes; a
    `debug` build has others, for inf and NaN. `schedules` stand for those of the user's cache."""

    def __init__(
        self,
        *,
        verify: bool = False,
        release: bool = False,
        debug: bool = False,
        schedules: Schedules | None = None,
    ) -> None:
        self.verify = verify
        self._schedules = schedules
        self.taken: list[Entry] = []
        """What compilations took of what tuning has found."""
        self.release, self.debug = release, debug
        self._checked: dict[str, Checked] = {}
        self._analysers: dict[str, Analyser] = {}
        self._supposed: dict[str, Analyser] = {}

    # ------------------------------------------------------------------------------------------------- sources

    @cached_property
    def library(self) -> Library:
        """The standard library, each module in the scope of those before it; the prelude is first."""
        return load_library()

    @cached_property
    def _programs(self) -> Programs:
        return Programs(self.library)

    @cached_property
    def _importer(self) -> Importer:
        return Importer(self.library, frozenset({PROGRAM}))

    def sources(self) -> Mapping[str, SourceFile]:
        """Every file that a diagnostic may speak of, by path."""
        programs = {path: checked.source for path, checked in self._checked.items()}
        return self._library_sources | self._importer.sources() | self._programs.sources() | programs

    @cached_property
    def _library_sources(self) -> dict[str, SourceFile]:
        return dict(library_sources(self.library))

    def locate(self, span: Span) -> tuple[str, int, int]:
        """File, line and column of a place, for messages at run time; nothing where it is unknown."""
        return places_in(self.sources())(span)

    def read(self, path: str | Path) -> SourceFile | Diagnostic:
        return read_source(path)

    def project_of(self, path: str) -> Project | None:
        """The project that a file or folder belongs to, as its project file says now."""
        return self._importer.places.project_of(path)

    # ------------------------------------------------------------------------------------------------ programs

    def check(self, source: SourceFile) -> Checked:
        """Parses and checks a program; unchanged text is not looked at again."""
        known = self._checked.get(source.path)
        if known is not None and known.source.text == source.text and self._importer.fresh(known.reads):
            return known
        self._checked[source.path] = self._checked_anew(source)
        return self._checked[source.path]

    def _checked_anew(self, source: SourceFile) -> Checked:
        parsed = parse_module(source)
        imports, reads = self._importer.imports_of(parsed.module, source.path)
        result = check_module(parsed.module, source, PROGRAM, self.library, imports)
        said = all_said(source, parsed.diagnostics, result.diagnostics)
        if not any(d.severity is Severity.ERROR for d in said):
            said += lint_module(parsed.module, source)
        said.sort(key=lambda d: d.primary.span.start)
        return Checked(source, result, tuple(said), reads)

    def adopt(
        self, source: SourceFile, module: ast.Module, name: str, scope: Library, earlier: Earlier | None = None
    ) -> Checked:
        """Checks a program whose tree the caller has put together from pieces of `source`, in a scope of its own."""
        result = check_module(module, source, name, scope, earlier=earlier)
        self._checked[source.path] = Checked(source, result, result.diagnostics)
        return self._checked[source.path]

    def check_visible(self, source: SourceFile) -> Analysis:
        """What is known of a file being edited: items whose text is new are checked, others may be `pending`."""
        return self._analyser(self._analysers, source.path).update(source)

    def suppose(self, source: SourceFile) -> tuple[Diagnostic, ...] | None:
        """What `analyse` would say if this were the text: what is known of the text being edited stays as it is. None
        where the checker fails on it."""
        analysis = self._analyser(self._supposed, source.path).whole(source)
        return None if analysis is None else analysis.diagnostics

    def to_show(self, checked: Checked) -> tuple[Diagnostic, ...]:
        """What is said of a program, to whoever wrote it: with the fixes that mend."""
        from tesserac.driver.mending import with_mending_fixes

        return with_mending_fixes(checked.diagnostics, checked.source, self.suppose)

    def _analyser(self, known: dict[str, Analyser], path: str) -> Analyser:
        analyser = known.get(path)
        if analyser is None or not self._importer.fresh(analyser.reads):
            from tesserac.incremental.analyser import Analyser

            analyser = known[path] = Analyser(PROGRAM, self.library, self._importer.imports_of)
        return analyser

    def check_at(self, source: SourceFile, offset: int) -> Analysis:
        """The same with the item at an offset checked in any case."""
        self.check_visible(source)
        return self._analysers[source.path].focus(offset)

    def check_step(self, source: SourceFile) -> Analysis:
        """The same after checking some of the items that are pending."""
        analysis = self.check_visible(source)
        return self._analysers[source.path].step() if analysis.pending else analysis

    def analyse(self, source: SourceFile) -> Analysis:
        """The same with nothing pending: what `check` says, at the cost of what the last edits can have changed."""
        analysis = self.check_visible(source)
        while analysis.pending:
            analysis = self.check_step(source)
        return analysis

    def edited_text(self, path: str) -> SourceFile | None:
        """A file as it is being edited; None where it is not."""
        analyser = self._analysers.get(path)
        return analyser.source if analyser is not None else None

    def show_importers(self, source: SourceFile) -> None:
        """From now on files that import this one see this text, whatever the disk has."""
        self._importer.edited[source.path] = source

    def show_saved(self, path: str) -> None:
        """From now on files that import this one see what the disk has."""
        self._importer.edited.pop(path, None)

    def is_stale(self, path: str) -> bool:
        """Whether a file that a file being edited imports has changed."""
        analyser = self._analysers.get(path)
        return analyser is not None and not self._importer.fresh(analyser.reads)

    def forget(self, path: str) -> None:
        """Lets go of a file that is no longer edited."""
        self.show_saved(path)
        self._analysers.pop(path, None)
        self._supposed.pop(path, None)
        self._checked.pop(path, None)

    def interface(self, source: SourceFile) -> ModuleInterface:
        """What a program offers to callers. Raises ProgramError."""
        checked = self._sound(source)
        said = cache_reads(f.program.cache for f in checked.result.module.functions if f.program is not None)
        return interface_of(checked.result)._replace(reads=(*checked.reads, *said))

    def function(self, source: SourceFile, name: str, chosen: Specialization = ()) -> typed.TypedFunction:
        """A function, for the compile-time arguments chosen. Raises ProgramError or NoSuchFunction."""
        checked = self._sound(source)
        found = checked.result.checker.definer(name)
        if found is None:
            raise NoSuchFunction(name)
        result, module = self._programs.beside(source, checked.result, chosen, self._importer.imports_of)
        types, sizes = argument_types(result, name, chosen, module)
        instance = result.instantiate(name, types, sizes)
        if instance.function is not None:
            if result is not checked.result:
                self._programs.made(source, instance.function, result)
            return instance.function

        def check(text: SourceFile) -> Sequence[Diagnostic] | None:
            anew = self._checked_anew(text).result
            if anew.checker.definer(name) is None:
                return None
            tried, module = self._programs.beside(text, anew, chosen, self._importer.imports_of)
            return anew.diagnostics + tried.instantiate(name, *argument_types(tried, name, chosen, module)).diagnostics

        from tesserac.driver.mending import with_mending_fixes

        said = with_mending_fixes(instance.diagnostics, source, check)
        raise ProgramError(said or no_fit(found[0].own_signature(found[1]), types))

    def _sound(self, source: SourceFile) -> Checked:
        checked = self.check(source)
        if checked.errors:
            raise ProgramError(tuple(d for d in self.to_show(checked) if d.severity is Severity.ERROR))
        return checked

    # -------------------------------------------------------------------------------------------------- levels

    def reached(self, source: SourceFile, function: typed.TypedFunction) -> Mapping[str, typed.TypedFunction]:
        """A function and all that compiling it needs, by symbol. Raises ProgramError."""
        try:
            result = self._programs.result_of(source, function) or self.check(source).result
            return result.reach(function)
        except RuleMisfit as problem:
            raise one_error(E0705, function.span, problem=str(problem)) from None

    def levels(
        self,
        source: SourceFile,
        function: typed.TypedFunction,
        machine: Machine,
        sizes: Sizes = NO_SIZES,
        holds: Holds = holds_nothing,
    ) -> Levels:
        """A function at every level that all targets share; `sizes` are numbers for this compilation, and what `holds`
        knows is not built. Raises ProgramError; where a size has to be said, SizesMissing."""
        reached = self.reached(source, function)
        check_requests(reached.values(), function.name, machine)
        with self._refusals(function):
            checks = {"asserts": not self.release, "debug": self.debug, "verify": self.verify}
            tuned = asking(self.schedules(function, reached.values()), machine, self.taken.append)
            try:
                return lower(reached, function.symbol, machine, sizes, tuned=tuned, holds=holds, **checks)
            except ImpossibleSchedule as problem:
                raise ProgramError(impossible_schedule(problem, reached, machine)) from None

    def content(self, source: SourceFile, function: typed.TypedFunction, sizes: Sizes) -> Content:
        """What a function is compiled from. Raises ProgramError."""
        reached = self.reached(source, function)
        with self._refusals(function):
            module = build_module(list(reached.values()), {function.symbol}, asserts=not self.release)
            said = [*beside(function, reached.values()), repr(sorted(sizes.items()))]
        return content_of(module, said, places_in(self.sources()))

    @contextmanager
    def _refusals(self, function: typed.TypedFunction) -> Iterator[None]:
        """Inside, what cannot be compiled ends as a ProgramError at its place."""
        try:
            yield
        except Unsupported as problem:
            raise one_error(E0299, problem.span, feature=str(problem)) from None
        except NotDifferentiable as problem:
            raise one_error(E0702, problem.span, what=problem.what, why=problem.why) from None
        except TooManyOperators as problem:
            from tesserac.driver.growth import too_many_operators

            raise ProgramError(too_many_operators(function, problem)) from None
        except TooComplex as problem:
            raise one_error(E0316, function.span, label=str(problem)) from None
        except DevicesMissing as problem:
            raise ProgramError(devices_missing(function, problem)) from None
        except MappedResult as problem:
            raise one_error(E0720, problem.span, problem=str(problem)) from None
        except SizesRefused as problem:
            raise ProgramError(sizes_refused(function, problem.guard)) from None
        except SizesDemanded as problem:
            raise SizesMissing(sizes_missing(function, problem), problem) from None

    def schedules(self, function: typed.TypedFunction, reached: Iterable[typed.TypedFunction]) -> Schedules:
        """What tuning has found, in the user's cache and where kernels say that it is kept. Raises ProgramError where
        that is damaged."""
        if self._schedules is not None:
            return self._schedules
        try:
            return known_schedules(f.program.cache for f in reached if f.program is not None)
        except DamagedSchedules as problem:
            named = {"path": str(problem.path), "problem": problem.problem}
            raise one_error(E0514, function.span, **named) from None

    def trace(
        self,
        source: SourceFile,
        function: typed.TypedFunction,
        args: Sequence[Array],
        observe: Observe,
        printed: Callable[[], object],
    ) -> None:
        """Runs a function operator by operator; it ends where the program cannot go on, which a call then explains.
        `printed` is told where the program would print."""
        from tesserac.driver.operator_trace import run_traced, without_transforms
        from tesserac.graph.interp import AssertionFailed, InterpreterError

        reached = self.reached(source, function)
        module = build_module(list(reached.values()), {function.symbol}, asserts=not self.release)
        with suppress(AssertionFailed, InterpreterError, DimError, TooManyOperators):
            whole = with_sizes(without_transforms(module), alone(function))
            run_traced(whole, function.symbol, args, observe, printed)

    @contextmanager
    def target_gaps(self, function: typed.TypedFunction, arch: str) -> Iterator[None]:
        """Inside, what a target does not have yet ends as a ProgramError at the function."""
        from tesserac.target.cpu.elements.registers import UnsupportedError
        from tesserac.target.magnitudes import TooLargeError
        from tesserac.target.sizes import UnboundSymbolError
        from tesserac.tile.gpu.model.errors import LoweringError, NotSelectableError

        try:
            yield
        except NotSelectableError as problem:
            sink = Sink()
            sink.error(E0580, at=function.span, function=function.name, arch=arch).remark(str(problem))
            raise ProgramError(sink.diagnostics) from None
        except (UnsupportedError, LoweringError, UnboundSymbolError, NotImplementedError) as problem:
            sink = Sink()
            sink.error(E0299, at=function.span, feature=f"`{function.name}` on {arch}").remark(str(problem))
            raise ProgramError(sink.diagnostics) from None
        except TooLargeError as problem:
            sink = Sink()
            sink.error(E0949, at=function.span, function=function.name, what=problem.what)
            raise ProgramError(sink.diagnostics) from None

    def artifact(
        self, source: SourceFile, function: typed.TypedFunction, cpu: CpuPlatform, sizes: Sizes = NO_SIZES
    ) -> Artifact:
        from tesserac.target.cpu.build import holds_code

        levels = self.levels(source, function, cpu.schedule, sizes, holds_code(cpu))
        return self.artifact_of(levels, function, cpu, sizes)

    def artifact_of(
        self, levels: Levels, function: typed.TypedFunction, cpu: CpuPlatform, sizes: Sizes = NO_SIZES
    ) -> Artifact:
        """The same for who has looked at the levels of the function."""
        from tesserac.target.cpu.build import artifact

        returned = self.returned(function, sizes)
        with self.target_gaps(function, cpu.schedule.arch):
            tiles = run_passes(levels.tile, target_passes(cpu), verify=self.verify)
            several = returned != VALUE
            made = artifact(tiles, function.symbol, cpu, self.locate, name=function.name, returns_tuple=several)
            return made._replace(returned=returned, params=tuple(param.name for param in function.reads))

    def returned(self, function: typed.TypedFunction, sizes: Sizes = NO_SIZES) -> Returned:
        """The shape of a function's result. Raises ProgramError for one that cannot leave the language."""
        try:
            numbers = {name: Dim.const(size) for name, size in {**alone(function), **sizes}.items()}
            return returned_of(map_dims(function.result, lambda dim: dim.substitute(numbers)), PROGRAM)
        except NotReturnable as problem:
            raise stays_inside(function, str(problem)) from None

    def gpu_program(
        self, source: SourceFile, function: typed.TypedFunction, gpu: GpuPlatform, sizes: Sizes = NO_SIZES
    ) -> GpuProgram:
        """A function for one kind of GPU, without the code of its kernels, which is made when it is first needed."""
        from tesserac.target.nvptx.build import gpu_program

        levels = self.levels(source, function, gpu.schedule, sizes)
        several = self.returned(function, sizes) != VALUE
        with self.target_gaps(function, gpu.schedule.arch):
            tiles = run_passes(levels.tile, target_passes(gpu), verify=self.verify)
            return gpu_program(tiles, function.symbol, gpu, self.locate, name=function.name, returns_tuple=several)
