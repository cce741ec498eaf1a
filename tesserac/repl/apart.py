"""Running compiled code so that it can be stopped.

Enters: an action that fills shared memory and returns a few bytes. Leaves: those bytes. The action runs in a forked
process: Ctrl-C ends it at any point, deep inside a kernel too, and a crash of generated code does not end the session.
See Note [A process per computation].
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tessera.dtypes import numpy_dtype
from tessera.errors import OUT_OF_MEMORY, Place, TesseraError, failure
from tessera.signature import TensorSpec
from tesserac.driver.faults import INTERNAL_FAULT, fault_report

if TYPE_CHECKING:
    from tessera.arguments import Array

Action = Callable[[], bytes]
_BLOCK = 1 << 16
_OK, _FAILED = b"+", b"-"


class Died(Exception):
    """The process that ran the action ended without an answer."""


def shared_arrays(specs: Sequence[TensorSpec]) -> tuple[Array, ...]:
    """Arrays for results of known sizes, in memory that a forked process shares with this one."""
    import numpy as np

    arrays = []
    for spec in specs:
        shape = tuple(size.evaluate({}) for size in spec.sizes)
        dtype = numpy_dtype(spec.dtype)
        count = int(np.prod(shape, dtype=np.int64))
        arrays.append(np.frombuffer(_shared(count * dtype.itemsize), dtype, count).reshape(shape))
    return tuple(arrays)


def _shared(size: int) -> mmap.mmap:
    try:
        return mmap.mmap(-1, max(size, 1))
    except (OSError, OverflowError):
        raise failure(OUT_OF_MEMORY, f"no memory for a result of {size} bytes") from None


def run_apart(action: Action) -> bytes:
    """What the action returns. Raises TesseraError as the action does, Died, and KeyboardInterrupt after Ctrl-C."""
    if not hasattr(os, "fork"):
        return action()
    sys.stdout.flush()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # idle threads of NumPy's libraries are no danger here
        child = os.fork()
    if child == 0:
        _be_the_child(action, writing)
    os.close(writing)
    try:
        answer = _read_all(reading)
    except BaseException:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.close(reading)
        status = os.waitpid(child, 0)[1]
    return _result(answer, status)


def _be_the_child(action: Action, writing: int) -> None:
    """Never returns: this process has no business with the rest of the session."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        answer = _answer(action)
        sys.stdout.flush()
        _write_all(writing, answer)
        code = 0
    finally:
        os._exit(code)


def _answer(action: Action) -> bytes:
    try:
        return _OK + action()
    except TesseraError as error:
        problem = error
    except Exception as error:  # a fault of ours must reach the session as such
        problem = failure(INTERNAL_FAULT, *fault_report(error, ""))
    return _FAILED + json.dumps([problem.code, problem.text, problem.spans]).encode()


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _read_all(handle: int) -> bytes:
    parts = []
    while part := os.read(handle, _BLOCK):
        parts.append(part)
    return b"".join(parts)


def _result(answer: bytes, status: int) -> bytes:
    kind, content = answer[:1], answer[1:]
    if kind == _OK:
        return content
    if kind == _FAILED:
        code, text, places = json.loads(content)
        raise TesseraError(code, text, tuple(Place(*place) for place in places))
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT:
        _let_own_signal_arrive()
        raise KeyboardInterrupt
    if os.WIFSIGNALED(status):
        raise Died(signal.Signals(os.WTERMSIG(status)).name)
    raise Died(f"exit status {os.waitstatus_to_exitcode(status)}")


def _let_own_signal_arrive() -> None:
    """Ctrl-C goes to both processes, in any order: where the child's end is seen first, ours is still to come."""
    with suppress(KeyboardInterrupt):
        time.sleep(0.1)


# Note [A process per computation]
# Machine code cannot be asked to stop between two of its instructions, only its process can be ended. A fork costs
# about as much as a page of Python, the pool of threads starts anew in the child, and the sizes of the results are
# known before, so that they are written straight into memory which both processes see. Compiling happens in the
# session's own process, where Ctrl-C is an exception at the next line of Python.
