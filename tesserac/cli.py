"""The command line: `tesserac`, the compiler, and `tessera`, which runs programs. Wiring only.

What a command does is in `commands/`, imported when it is called, so that `--help` and `explain` start at once.
Whatever happens, nobody sees a Python traceback: mistakes are diagnostics, faults of the compiler say that they are.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from tessera.cache import unused_folder
from tessera.errors import TesseraError
from tessera.version import __version__
from tesserac.base.collecting import collect_seldom, keep_to_the_end
from tesserac.base.interrupts import interrupts_kept
from tesserac.base.long_work import telling
from tesserac.base.recursion import deep_recursion
from tesserac.base.targets import TARGETS
from tesserac.commands import names
from tesserac.commands.counting_bar import CountingBar
from tesserac.commands.fault_reports import report_fault
from tesserac.commands.options import Targets, device_option, materialize_option, target_option
from tesserac.commands.outcome import BAD_USAGE, INTERRUPTED, MISTAKES, OK, Outcome, UsageMistake

if TYPE_CHECKING:
    from typing import TextIO

    from tesserac.diag.render import Palette
    from tesserac.driver.session import Session

CLOSED_PIPE = 141
"""What a shell reports for a program that SIGPIPE ended."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a disk without room for more says."""

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
EMITTED = (names.BUNDLE, *(level.name for level in names.LEVELS))
LEVEL_HELP = "\n".join(f"{level.name:9} {level.title}" for level in names.LEVELS)
ONCE = "files of the library checked, once for this compiler"
RELEASE_HELP = "Leave out the checks at run time that `assert` makes."


# --------------------------------------------------------------------------------------------------- tesserac


@click.group(context_settings=CONTEXT)
@click.version_option(__version__, prog_name="tesserac", message="%(prog)s %(version)s")
def compiler() -> None:
    """The Tessera compiler: checks programs, builds them, shows and explains what it does."""


@compiler.command()
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--error-format",
    type=click.Choice(("human", "short", "json")),
    default="human",
    show_default=True,
    help="With the source underlined, one line each, or as data.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --error-format=json: one array of objects.")
@click.option("--explain-guards", is_flag=True, help="List the checks of sizes that calls make on entry.")
@click.option("--explain-memory", is_flag=True, help="List what derivatives keep of loops, and what loops copy.")
@click.option("--verify", is_flag=True, help="Lower every function, and verify the IR after every pass.")
@materialize_option
@click.option("--fix", is_flag=True, help="Make the safe fixes in the files, then report what is left.")
@click.option("--diff", is_flag=True, help="With --fix: write nothing, show what the fixes would change.")
def check(
    files: tuple[str, ...],
    error_format: str,
    as_json: bool,
    explain_guards: bool,
    explain_memory: bool,
    verify: bool,
    fix: bool,
    diff: bool,
) -> int:
    """Report the errors and warnings of programs. The exit status is 1 if there are errors.

    A folder stands for the programs in it. Without FILE, the project of the current folder is checked: see
    `tessera.toml` in docs/modules.md.
    """
    from tesserac.commands.checking import Wanted, check_deeply, check_files

    format_ = "json" if as_json else error_format
    if (explain_guards or explain_memory) and format_ == "json":
        option = "--explain-guards" if explain_guards else "--explain-memory"
        raise UsageMistake(f"these are no diagnostics: {option} goes with the formats human and short")
    if diff and not fix:
        raise UsageMistake("--diff shows what --fix would change: it goes with --fix")
    if fix:
        from tesserac.commands.fixing import fix_files
        from tesserac.driver.session import Session

        click.echo(fix_files(Session(), files, diff=diff), nl=False, err=not diff)
        if diff:
            return OK
    wanted = Wanted(format_, palette_of(sys.stdout), explain_guards, explain_memory)
    if not (explain_guards or explain_memory or verify):
        return finish(check_files(files, wanted))
    from tesserac.driver.session import Session

    return finish(check_deeply(Session(verify=verify), files, wanted))


@compiler.command(epilog=f"\b\nLevels:\n{LEVEL_HELP}")
@click.argument("file")
@click.option("-o", "--out", metavar="OUT", help="Where to write. [default: FILE.tessb; a level is printed]")
@click.option(
    "--target",
    type=Targets(),
    help="As for inspect; a bundle takes several: cuda:sm_90a,cpu:x86-64-v3. [default: cpu; cuda for gpu and ptx]",
)
@click.option("--emit", type=click.Choice(EMITTED), default=names.BUNDLE, show_default=True, help="What to make.")
@click.option("--function", metavar="NAME", help="Only this function. [default: all; those with @export, if any]")
@click.option("--release", is_flag=True, help=RELEASE_HELP)
@materialize_option
@click.option("--specialize", metavar="N=1024", multiple=True, help="Make code for this value of a size or int.")
@click.option("--sign", metavar="KEY", help="Sign the bundle with an Ed25519 key in a PEM file.")
@click.option("--cubin", is_flag=True, help="Assemble the PTX for GPUs now, by ptxas; a first call then need not.")
def build(
    file: str,
    out: str | None,
    target: tuple[str, ...] | None,
    emit: str,
    function: str | None,
    release: bool,
    specialize: tuple[str, ...],
    sign: str | None,
    cubin: bool,
) -> int:
    """Compile a program into a bundle that `tessera.load` runs without the compiler, or print a level of it."""
    from tesserac.commands.building import build_bundle, emit_level, read_sizes
    from tesserac.driver.session import Session

    session, sizes = Session(release=release), read_sizes(specialize)
    goals = target or (names.default_target(emit),)
    if emit == names.BUNDLE:
        return report(session, lambda: build_bundle(session, file, out, ",".join(goals), function, sizes, sign, cubin))
    if sign is not None or cubin:
        raise UsageMistake(f"{'--cubin' if cubin else '--sign'} is for bundles, not for a level")
    if len(goals) > 1:
        raise UsageMistake("a level is that of one target; several are for bundles")
    return report(session, lambda: emit_level(session, file, out, goals[0], emit, function, sizes))


@compiler.command(epilog=f"\b\nLevels:\n{LEVEL_HELP}\n{names.COSTS.name:9} {names.COSTS.title}")
@click.argument("place", metavar="FILE:FUNCTION")
@target_option
@click.option("--level", type=click.Choice([level.name for level in names.INSPECTED]), help="Only this level.")
@click.option("--sizes", metavar="N=4096,...", multiple=True, help="Costs at these sizes. [default: nominal ones]")
@click.option("--rewrites", is_flag=True, help="Only the laws that its linear algebra went by, with costs.")
@materialize_option
def inspect(place: str, target: str | None, level: str | None, sizes: tuple[str, ...], rewrites: bool) -> int:
    """Show a function at every level, its source lines beside it, and why it was scheduled as it was."""
    from tesserac.commands import inspection
    from tesserac.commands.tuning_sizes import read_tuning_sizes
    from tesserac.driver.session import Session

    session = Session()
    if rewrites and (target or level or sizes):
        raise UsageMistake("--rewrites are the same for all targets and stand before all levels")
    if rewrites:
        return report(session, lambda: inspection.rewrites(session, place))
    return report(session, lambda: inspection.inspect(session, place, level, target, read_tuning_sizes(sizes)))


@compiler.command()
@click.argument("place", metavar="[FILE[:KERNEL]]", default="")
@click.option("--sizes", metavar="S=4096,...", multiple=True, help="The sizes to measure at: all that the kernel has.")
@device_option
@click.option("--budget-ms", type=click.IntRange(1), help="Time to spend on runs. [default: the kernel's own, or 1000]")
@click.option("--import", "imported", metavar="PATH", help="Take in schedules that were exported, or are in a bundle.")
@click.option("--export", "exported", metavar="PATH", help="Write all schedules of the cache.")
@materialize_option
def tune(
    place: str, sizes: tuple[str, ...], device: str, budget_ms: int | None, imported: str | None, exported: str | None
) -> int:  # fmt: skip
    """Measure schedules of a function, or of all kernels that name a space; keep what beats the compiler's choice."""
    from tesserac.commands.tuning import Wanted, tune_with_bar
    from tesserac.commands.tuning_sizes import read_tuning_sizes
    from tesserac.driver.session import Session

    session = Session()
    wanted = Wanted(place, read_tuning_sizes(sizes), budget_ms, imported, exported, device)
    return report(session, lambda: tune_with_bar(session, wanted))


@compiler.command()
@click.option("--target", type=click.Choice(TARGETS), help="Only this one.")
def machine(target: str | None) -> int:
    """Show what the compiler knows of a target, or what it has found of this machine, and all targets."""
    from tesserac.commands.machines import list_machines

    return finish(list_machines(target))


@compiler.command()
@click.argument("place", metavar="FILE:LINE")
@click.argument("name")
def why(place: str, name: str) -> int:
    """Say where the dims of a name came from, or what is known of a dim, at a line of a program."""
    from tesserac.commands.tracing import trace_name
    from tesserac.driver.session import Session

    session = Session()
    return report(session, lambda: trace_name(session, place, name))


@compiler.command()
@click.argument("code", required=False)
def explain(code: str | None) -> int:
    """Explain a diagnostic code: why it is a mistake, a program that makes it, the program mended.

    Without a code, list all codes.
    """
    from tesserac.commands.explaining import explain_code, list_codes

    return finish(explain_code(code, palette_of(sys.stdout)) if code else Outcome(list_codes()))


@compiler.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("-k", "pattern", metavar="PATTERN", default="", help="Only tests whose titles contain this, in any case.")
@click.option("-x", "stop", is_flag=True, help="Stop at the first failure.")
@click.option("-v", "--verbose", is_flag=True, help="A line for every test, with its time.")
@materialize_option
@device_option
def test(files: tuple[str, ...], pattern: str, stop: bool, verbose: bool, device: str) -> int:
    """Run the test blocks of programs; a folder stands for the programs in it.

    The exit status is 1 if a test fails or a program has mistakes, and 5 if there is no test to run.
    """
    from tesserac.commands.testing import Wanted, run_tests

    def say(text: str) -> None:
        click.echo(text, nl=False)
        sys.stdout.flush()

    return run_tests(files, Wanted(pattern, stop, verbose, palette_of(sys.stdout), device), say)


@compiler.command()
def lsp() -> int:
    """Serve an editor: the language server, over standard input and output."""
    from tessera_lsp.server import main

    return main()


@compiler.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--check", "only_check", is_flag=True, help="Write nothing; name the files that would change, status 1.")
@click.option("--diff", is_flag=True, help="Write nothing; show what would change.")
def fmt(files: tuple[str, ...], only_check: bool, diff: bool) -> int:
    """Bring programs into the one style. `-` reads a program and prints it."""
    from tesserac.commands.formatting import Wanted, format_files

    return finish(format_files(files, Wanted(only_check, diff, palette_of(sys.stderr))))


# ---------------------------------------------------------------------------------------------------- tessera


@click.group(context_settings=CONTEXT)
@click.version_option(__version__, prog_name="tessera", message="%(prog)s %(version)s")
def runner() -> None:
    """Run Tessera programs."""


@runner.command(context_settings={"ignore_unknown_options": True})
@click.argument("file", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[--NAME VALUE]...")
@click.option("--threads", type=click.IntRange(min=1), help="How many threads a call may use. [default: all cores]")
@click.option("--release", is_flag=True, help=RELEASE_HELP)
@click.option("--debug", is_flag=True, help="End the run where an operator makes inf or NaN of finite numbers.")
@materialize_option
@click.option("--trace-shapes", is_flag=True, help="Show each operator with shapes, dtypes, bytes and source line.")
@click.option("--watch-numerics", is_flag=True, help="Name the first operator that makes an inf or NaN.")
@click.option("--save", metavar="PATH", help="Write what main returns to a .npy, .npz or .png file instead.")
@device_option
def run(
    file: str | None,
    arguments: tuple[str, ...],
    threads: int | None,
    release: bool,
    debug: bool,
    trace_shapes: bool,
    watch_numerics: bool,
    save: str | None,
    device: str,
) -> int:
    """Run the main() of a program or a bundle, and print what it returns. Code is compiled once and then cached.

    Parameters of main are given by name: numbers, true or false, text, and files *.npy for tensors. What follows `--`
    is all main's. Without FILE, start a session at a prompt."""
    if file is None:
        from tesserac.repl.loop import start

        return start(threads, palette_of(sys.stderr), device)
    from tesserac.commands.running import run_main, show_calls

    show_calls(shapes=trace_shapes, numerics=watch_numerics)
    return finish(run_main(file, threads, arguments, release=release, debug=debug, save=save, device=device))


@runner.command()
@click.argument("file")
@click.option("--steps", type=click.IntRange(min=0), required=True, help="How many in all, with those before --resume.")
@click.option("--checkpoint", metavar="PATH", help="Keep the state in this file.")
@click.option("--resume", is_flag=True, help="Go on from the checkpoint.")
@click.option("--save-every", type=click.IntRange(min=1), default=100, show_default=True, help="Steps between saves.")
@click.option("--plot", metavar="PATH", help="Draw the loss of all steps as an .svg file.")
@click.option("--seed", type=int, help="For init, and for the random numbers of steps. [default: 0]")
@materialize_option
@click.option("--threads", type=click.IntRange(min=1), help="How many threads a call may use. [default: all cores]")
@device_option
def train(
    file: str,
    steps: int,
    checkpoint: str | None,
    resume: bool,
    save_every: int,
    plot: str | None,
    seed: int | None,
    threads: int | None,
    device: str,
) -> int:
    """Train what a program makes: `init` gives the first state, `step` the next one and the loss.

    Ctrl-C stops after the step, keeps the state and says how to go on. A run that was stopped and resumed gives the
    bits of one that was not.
    """
    from tesserac.commands import training

    def say(text: str) -> None:
        click.echo(text, nl=False)

    def complain(text: str) -> None:
        click.echo(text, nl=False, err=True)

    wanted = training.Wanted(file, steps, checkpoint, resume, plot, save_every, seed, threads, device)
    return training.train(wanted, say, complain)


# -------------------------------------------------------------------------------------------- saying and ending


def report(session: Session, action: Callable[[], Outcome]) -> int:
    """Runs what a command does; the mistakes of the program that end it are shown on standard error."""
    from tesserac.commands.checking import show
    from tesserac.driver.refusals import ProgramError

    try:
        return finish(action())
    except ProgramError as problem:
        said = show(session, problem.diagnostics, "human", palette_of(sys.stderr))
        return finish(Outcome(remarks=said, status=MISTAKES))


def palette_of(stream: TextIO) -> Palette:
    """Colours for a terminal, unless NO_COLOR or a dumb terminal says otherwise."""
    from tesserac.diag.render import COLOURS, PLAIN

    wanted = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return COLOURS if wanted else PLAIN


def finish(outcome: Outcome) -> int:
    click.echo(outcome.output, nl=False)
    click.echo(outcome.remarks, nl=False, err=True)
    return outcome.status


def main(program: click.Group, name: str, arguments: Sequence[str]) -> int:
    """Runs a command line and gives its exit status, whatever goes wrong."""
    try:
        with interrupts_kept(), deep_recursion(), CountingBar(ONCE) as bar, telling(bar.show):
            status = _invoke(program, name, arguments)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _lose_output()
        return CLOSED_PIPE
    except OSError as problem:
        if problem.errno not in FULL:
            return report_fault(problem, arguments)
        _lose_output()
        click.echo(f"error: not everything could be written: {problem.strerror}", err=True)
        return MISTAKES
    except Exception as error:  # the last resort: a fault of ours
        return report_fault(error, arguments)


def _lose_output() -> None:
    """What is still buffered must not raise again when the interpreter flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _invoke(program: click.Group, name: str, arguments: Sequence[str]) -> int:
    if warning := unused_folder():
        click.echo(warning, err=True)
    try:
        with program.make_context(name, list(arguments)) as context:
            status = program.invoke(context)
            return status if isinstance(status, int) else 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as mistake:
        mistake.show()
        return mistake.exit_code
    except UsageMistake as mistake:
        click.echo(f"error: {mistake}", err=True)
        return BAD_USAGE
    except TesseraError as problem:  # of what a command asks of this machine: a setting, a processor
        click.echo(problem.text, err=True)
        return MISTAKES


def _start(program: click.Group, name: str) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a character that the terminal lacks is shown by its number
            stream.reconfigure(errors="backslashreplace")
    collect_seldom()
    status = main(program, name, sys.argv[1:])
    keep_to_the_end()
    return status


def tesserac() -> int:
    return _start(compiler, "tesserac")


def tessera() -> int:
    return _start(runner, "tessera")
