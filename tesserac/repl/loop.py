"""The session at the prompt: reads, runs, shows, and goes on whatever happens.

Enters: a person's lines, or those of a pipe. Leaves: text; and a status, which for a pipe says whether all inputs were
right. Results go to standard output, mistakes to standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import tessera
from tessera.errors import TesseraError, failure
from tesserac.commands.outcome import MISTAKES, OK, UsageMistake
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.render import Palette, render
from tesserac.driver.faults import INTERNAL_FAULT, fault_report
from tesserac.driver.refusals import ProgramError
from tesserac.repl.apart import Died
from tesserac.repl.completion import complete
from tesserac.repl.console import Console
from tesserac.repl.engine import Engine
from tesserac.repl.lines import COMMAND, LineReader
from tesserac.repl.meta import Quit, run_command
from tesserac.repl.show import show

GREETING = f"Tessera {tessera.__version__}. `:help` shows what can be typed; Ctrl-D leaves.\n"


def start(threads: int | None, palette: Palette, device: str = "cpu") -> int:
    """Runs a session on standard input; the exit status."""
    if threads is not None:
        tessera.set_num_threads(threads)
    repl = Repl(palette)
    try:
        repl.engine.choose_device(device)
    except TesseraError as problem:
        sys.stderr.write(f"{problem.text}\n")
        return MISTAKES
    if sys.stdin.isatty():
        repl.talk()
        return OK
    repl.read_all()
    return MISTAKES if repl.failures else OK


class Repl:
    """`failures` counts the inputs that were not carried out."""

    def __init__(self, palette: Palette) -> None:
        self.engine = Engine()
        self.failures = 0
        self._palette = palette

    # ------------------------------------------------------------------------------------------------- reading

    def talk(self) -> None:
        """With a person, until Ctrl-D or `:quit`."""
        self._say(GREETING)
        console = Console(lambda before, word: complete(self.engine, before, word))
        reader = LineReader(by_hand=True)
        with console.opened():
            while self._exchange(console, reader):
                pass

    def _exchange(self, console: Console, reader: LineReader) -> bool:
        """One line; whether the session goes on."""
        try:
            line = console.read(continued=reader.waiting, indentation=reader.indentation)
            return all([self.run(text) for text in reader.feed(line)])
        except EOFError:
            self._say("\n")
            return self.run(reader.finish()) if reader.waiting else False
        except KeyboardInterrupt:
            reader.drop()
            self._complain("\n")
            return True

    def read_all(self) -> None:
        """From a pipe, to its end."""
        reader = LineReader(by_hand=False)
        for line in sys.stdin:
            if not all([self.run(text) for text in reader.feed(line.rstrip("\r\n"))]):
                return
        if reader.waiting:
            self.run(reader.finish())

    # ------------------------------------------------------------------------------------------------- running

    def run(self, text: str) -> bool:
        """Carries out one input, and says what came of it; whether the session goes on."""
        try:
            self._say(self._result(text))
            self._complain(self._diagnostics([replace(warning, fixes=()) for warning in self.engine.warnings]))
        except Quit:
            return False
        except KeyboardInterrupt:
            self._fail("interrupted\n")
            self._renew()
        except ProgramError as problem:
            self._fail(self._diagnostics(problem.diagnostics))
        except TesseraError as problem:
            self._fail(f"{problem.text}\n")
        except UsageMistake as problem:
            self._fail(f"error: {problem}\n")
        except Died as problem:
            self._fail(f"{failure(INTERNAL_FAULT, f'the computation ended by itself ({problem})')}\n")
        except Exception as problem:  # a fault of ours ends the input, not the session
            report = fault_report(problem, self.engine.transcript.source.text)
            self._fail(f"{failure(INTERNAL_FAULT, *report)}\n")
        return True

    def _result(self, text: str) -> str:
        if text.startswith(COMMAND):
            return run_command(self.engine, text)
        return "".join(map(show, self.engine.submit(text)))

    def _renew(self) -> None:
        """The session goes on, even if a loaded file was changed meanwhile and has a mistake now."""
        try:
            self.engine.renew()
        except ProgramError as problem:
            self._complain(self._diagnostics(problem.diagnostics))

    def _fail(self, text: str) -> None:
        self.failures += 1
        self._complain(text)

    def _diagnostics(self, diagnostics: Sequence[Diagnostic]) -> str:
        sources = self.engine.sources()
        return "".join(f"{render(diagnostic, sources, self._palette)}\n" for diagnostic in diagnostics)

    def _say(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def _complain(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
