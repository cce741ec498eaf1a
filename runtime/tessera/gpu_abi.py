"""How the runtime and the compiled host program of a GPU function talk to each other.

    i32 tessera.entry(ptr args, ptr call)        starts everything; waits only where the program has to look
    i32 tessera.replay(ptr call, ptr graph, ptr stream)     starts what was recorded

`args` are words of 8 bytes: the stream, the workspace, addresses of the inputs, of the outputs, values of the symbols
(sorted). `call` is a block of words, numbered here. It begins with the status, as that of the CPU's entries does. The
code calls the driver through import slots (`driver.cuLaunchKernelEx`), and the runtime (`call.load`) where something
has to be made first.
"""

from __future__ import annotations

from tessera.cuda_driver import COPY, LAUNCH, POP, PUSH, READ, REPLAY, WAIT
from tessera.signature import STATUS_INTERRUPTED, STATUS_SIZE

DRIVER_FAILED, CALLBACK_RAISED, TOO_MANY_PROGRAMS, LEFT_TO_LOOK = (STATUS_INTERRUPTED + i for i in range(1, 5))
"""What an entry returns beside the codes of a status: a function of the driver failed, something that the runtime was
called for did, a launch is too large for any GPU; or all is well, and the words of bad indices are to be looked at
behind it (`gpu_checks.py`)."""

DRIVER_CALLS = (PUSH, POP, LAUNCH, READ, COPY, WAIT, REPLAY)
"""The driver's functions that compiled code calls; `FAILED_AT` is the place of one of them."""

ARGS_STREAM, ARGS_WORKSPACE, ARGS_FIRST = 0, 1, 2
"""In `args`."""

_FIRST = STATUS_SIZE // 8
(
    STREAM, CONTEXT, TEMPLATE, FUNCTIONS, ALLOWED, MULTIPROCESSORS, SCRATCH, SCRATCH_BYTES, CLEAR,
    LAUNCHES, LOOKS, FETCHED, FAILED, FAILED_AT, FAILED_VALUE, FLAG, BAD_WORDS, TOLD, TAIL,
) = range(_FIRST, _FIRST + 19)  # fmt: skip
"""Of the running call its stream. Given by the runtime: the context; the template, which has for each buffer its
address, or its distance from the start of the workspace; tables of functions and of the shared memory that they may
use, which is -1 before they are loaded; how many multiprocessors there are; memory that each launch has for itself, and
its bytes; words to clear the words of bad indices with, if a call is to clear them.

Told to the runtime: numbers of launches and of waits, bytes that were read; what failed, where, and a value; a flag
that was read; where the words of bad indices lie, and how many places are still to be looked at."""

MOST_INDICES = 16
"""Of one place that reads or writes at computed indices."""


ORDER = TAIL
"""Of so many words as there are places: those to look at, in the order in which they were come to."""


def pending_at(checks: int) -> int:
    """Which places are among them."""
    return ORDER + checks


def sizes_at(checks: int) -> int:
    """What their indices have to be below."""
    return TAIL + 2 * checks


def words_at(checks: int) -> int:
    """What the kernels have told."""
    return TAIL + (2 + MOST_INDICES) * checks


def block_words(checks: int, words: int) -> int:
    """How long a block is, for so many places, whose kernels have so many words in all."""
    return words_at(checks) + words
