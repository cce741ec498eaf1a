"""The compiler as `import tessera` sees it: sources in, artifacts out, and every mistake a `TesseraError`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tessera.artifact import CPU_TARGET
from tessera.errors import NO_SUCH_FUNCTION, Place, TesseraError, failure
from tessera.interface import Content, ModuleInterface, Source, Specialization, chosen_sizes
from tessera.toolchain import materialize_limit
from tessera.tracing import Wanted
from tesserac.base.collecting import collection_paused
from tesserac.base.interrupts import interrupts_kept
from tesserac.base.recursion import deep_recursion
from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Diagnostic
from tesserac.driver.faults import INTERNAL_FAULT, fault_report
from tesserac.driver.refusals import NoSuchFunction, ProgramError
from tesserac.driver.session import Session

if TYPE_CHECKING:
    from tessera.arguments import Array
    from tessera.gpu_artifact import AnyArtifact


class EmbeddedCompiler:
    """Implements the runtime's `Compiler` over one session."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[bool, bool, int], Session] = {}

    def _session(self, source: Source) -> Session:
        """One for programs with their assertions, one for those without, one for debug builds; each by its limit on
        matrices."""
        kind = (source.release, source.debug, materialize_limit())
        return self._sessions.setdefault(kind, Session(release=source.release, debug=source.debug))

    def interface(self, source: Source) -> ModuleInterface:
        with self._mistakes(source):
            return self._session(source).interface(SourceFile(source.path, source.text))

    def content(self, source: Source, name: str, specialization: Specialization, target: str) -> Content:
        with self._mistakes(source):
            file, session = SourceFile(source.path, source.text), self._session(source)
            function = session.function(file, name, specialization)
            return session.content(file, function, chosen_sizes(specialization))

    def compile_function(
        self, source: Source, name: str, specialization: Specialization, target: str
    ) -> AnyArtifact:
        with self._mistakes(source):
            file = SourceFile(source.path, source.text)
            session, sizes = self._session(source), chosen_sizes(specialization)
            function = session.function(file, name, specialization)
            if target == CPU_TARGET:
                from tesserac.driver.cpu_functions import artifact_of_each_size
                from tesserac.target.cpu.build import host_platform

                return artifact_of_each_size(session, file, function, host_platform(), sizes)
            from tesserac.driver.gpu_functions import artifact_for_gpu_of_each_size
            from tesserac.target.nvptx.build import PLATFORMS

            platform = PLATFORMS[target.partition(":")[2]]
            return artifact_for_gpu_of_each_size(session, file, function, platform, sizes)

    def trace(
        self, source: Source, name: str, specialization: Specialization, args: Sequence[Array], wanted: Wanted
    ) -> None:
        from tesserac.embed.tracing import observers

        with self._mistakes(source):
            file, session = SourceFile(source.path, source.text), self._session(source)
            function = session.function(file, name, specialization)
            watching = observers(wanted.modes, name, wanted.say, session.locate)
            session.trace(file, function, args, watching, wanted.printed)

    @contextmanager
    def _mistakes(self, source: Source) -> Iterator[None]:
        try:
            with interrupts_kept(), collection_paused(), deep_recursion():
                yield
        except ProgramError as error:
            raise _program_error(self._session(source), error.diagnostics) from None
        except NoSuchFunction as error:
            raise failure(NO_SUCH_FUNCTION, f"`{source.path}` has no function `{error}`") from None
        except TesseraError:
            raise
        except Exception as error:  # a fault of the compiler must reach the user as such, with what to report
            raise failure(INTERNAL_FAULT, *fault_report(error, source.text)) from error


def _program_error(session: Session, diagnostics: tuple[Diagnostic, ...]) -> TesseraError:
    from tesserac.diag.render import render

    sources = session.sources()
    text = "\n".join(render(d, sources) for d in diagnostics)
    places = (session.locate(d.primary.span) for d in diagnostics)
    return TesseraError(diagnostics[0].code, text, tuple(Place(*place) for place in places))


def runtime_compiler() -> EmbeddedCompiler:
    """Asked for by the first program whose code is not there: what all of them share is begun beside the library."""
    from tesserac.target.compile import host_machine
    from tesserac.target.cpu.artifact import begun_pool

    begun_pool(host_machine())
    return EmbeddedCompiler()
