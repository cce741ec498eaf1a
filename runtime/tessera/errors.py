"""The one exception that a user of compiled code sees, and the codes of what can go wrong in a call."""

from __future__ import annotations

import os
from typing import NamedTuple

UNREADABLE_FILE = "E0901"
NOT_TEXT = "E0902"
UNREADABLE_ARTIFACT = "E0910"
WRONG_MACHINE = "E0911"
NO_MEMORY_FOR_CODE = "E0912"
NO_SUCH_FUNCTION = "E0913"
BAD_SETTING = "E0914"
NO_COMPILER = "E0915"
WRONG_ARGUMENTS = "E0920"
WRONG_KIND = "E0921"
WRONG_DTYPE = "E0922"
WRONG_RANK = "E0923"
SIZE_CONFLICT = "E0924"
GUARD_FAILED = "E0925"
OUT_OF_MEMORY = "E0926"
BAD_INDEX = "E0927"
UNSET_PARAM = "E0928"
UNREADABLE_WEIGHTS = "E0929"
ASSERTION_FAILED = "E0933"
FROZEN = "E0934"
NOT_DONATED = "E0935"
CONSUMED = "E0936"
BAD_CHECKPOINT = "E0937"
TOO_LARGE = "E0949"
NO_GPU = "E0930"
WRONG_GPU = "E0931"
GPU_FAILED = "E0932"
NO_CODE = "E0581"
NO_SUCH_DEVICE = "E0560"
NO_SUCH_GPU = "E0561"
OLD_GPU = "E0562"
WRONG_DEVICE = "E0563"
GPU_OUT_OF_MEMORY = "E0564"
BROKEN_GPU = "E0565"
ON_DEVICE = "E0566"
NOT_BUILT_FOR = "E0568"
PLACED_ELSEWHERE = "E0569"
NO_STREAM = "E0570"
NOT_RECORDED = "E0571"

NOT_SIGNED = "E0953"
UNTRUSTED_CACHE = "W0902"


class Place(NamedTuple):
    """A point of source text; line and column count from 1."""

    file: str
    line: int
    column: int


class TesseraError(Exception):
    """A user's mistake or a failed run. `str()` is the rendered text; `spans` are the places it speaks of."""

    def __init__(self, code: str, text: str, spans: tuple[Place, ...] = ()) -> None:
        super().__init__(code, text, spans)
        self.code = code
        self.text = text
        self.spans = spans

    def __str__(self) -> str:
        return self.text


class TesseraWarning(UserWarning):
    """Something works, but not as its author would want it."""


def path_of(path: object) -> str:
    """The path as text. Raises TesseraError for what is no path."""
    if not isinstance(path, str | os.PathLike):
        raise failure(WRONG_ARGUMENTS, f"a path is text, not {kind_of(path)}")
    return os.fsdecode(path)


def reason_of(error: OSError | ValueError) -> str:
    """Why a file cannot be read or written, as the system says it."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def kind_of(value: object) -> str:
    """What a value is, for a message."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def shown_number(value: complex) -> str:
    """A number, for a message; one of very many digits by their count."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an int of {value.bit_length()} bits"
    return str(value)


class MissingFunctionError(TesseraError, AttributeError):
    """A module has no such function. An AttributeError too, so that `hasattr` and `getattr` work as everywhere."""


def failure(code: str, message: str, notes: tuple[str, ...] = (), spans: tuple[Place, ...] = ()) -> TesseraError:
    """The error with its text laid out as the compiler lays out its own."""
    return TesseraError(code, render(code, message, notes, spans), spans)


def not_pickled(what: str) -> TesseraError:
    note = "the other process loads it itself: `tessera.load(path)`"
    return failure(WRONG_KIND, f"{what} is compiled for this process and cannot be pickled", (note,))


def render(code: str, message: str, notes: tuple[str, ...] = (), spans: tuple[Place, ...] = ()) -> str:
    places = [f"  --> {p.file}:{p.line}:{p.column}" for p in spans]
    return "\n".join([f"error[{code}]: {message}", *places, *(f"  = note: {note}" for note in notes)])
