"""`tessera run FILE`: calls `main`, with the arguments of the command line, and shows what it returns."""

from __future__ import annotations

from collections.abc import Sequence

import tessera
from tessera.errors import NO_SUCH_FUNCTION, WRONG_ARGUMENTS, failure
from tessera.module import Function
from tessera.tracing import NUMERICS, SHAPES
from tesserac.commands.main_arguments import MainSignature, main_arguments
from tesserac.commands.outcome import BAD_USAGE, FAULT, MISTAKES, Outcome
from tesserac.commands.saving import refuse_ending, save_value
from tesserac.commands.showing import show_value
from tesserac.driver.faults import INTERNAL_FAULT

_STATUS = {INTERNAL_FAULT: FAULT, WRONG_ARGUMENTS: BAD_USAGE}


def show_calls(*, shapes: bool, numerics: bool) -> None:
    """What the options ask for; without one the environment decides."""
    modes = [mode for mode, wanted in ((SHAPES, shapes), (NUMERICS, numerics)) if wanted]
    if modes:
        tessera.trace(*modes)


def run_main(
    path: str,
    threads: int | None,
    words: Sequence[str] = (),
    *,
    release: bool = False,
    debug: bool = False,
    save: str | None = None,
    device: str = "cpu",
) -> Outcome:
    """Loads a source or a bundle, and runs its `main` on a device. Raises UsageMistake for arguments that it does not
    take."""
    if save is not None:
        refuse_ending(save)
    try:
        if threads is not None:
            tessera.set_num_threads(threads)
        main = tessera.load(path, release=release, debug=debug, device=device).main
        if not isinstance(main, Function):
            raise failure(NO_SUCH_FUNCTION, f"`main` of `{path}` is not a function")
        arguments = main_arguments(MainSignature(path, main.interface), words)
        result = main(**arguments)
        return Outcome(show_value(result) if save is None else save_value(result, save))
    except tessera.TesseraError as error:
        return Outcome(remarks=f"{error.text}\n", status=_STATUS.get(error.code, MISTAKES))
