"""A claim of the language: one sentence, one small program, and what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Runs:
    """The program's `f`, called with these arguments, gives this."""

    claim: str
    program: str
    args: tuple[object, ...]
    expected: object


@dataclass(frozen=True)
class Refused:
    """The program has exactly these diagnostics, and the first one's text contains `says`."""

    claim: str
    program: str
    codes: str
    says: str = ""


@dataclass(frozen=True)
class Checks:
    """The program has no diagnostics."""

    claim: str
    program: str


@dataclass(frozen=True)
class Fails:
    """Calling the program's `f` with these arguments raises a TesseraError of this code."""

    claim: str
    program: str
    args: tuple[object, ...]
    code: str
    says: str = ""


Claim = Runs | Refused | Checks | Fails


def floats(*values: object) -> np.ndarray:
    return np.array(values, "f4")


def ints(*values: object) -> np.ndarray:
    return np.array(values, "i4")


def body(*lines: str, given: str = "x: Tensor[N, f32]", head: str = "") -> str:
    """A module with one function `f` of these statements."""
    return f"{head}def f({given}):\n" + "".join(f"    {line}\n" for line in lines)
