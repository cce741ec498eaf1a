"""The language, sentence by sentence: each claim of its description with a small program that shows it.

A file of `cases/language` has one claim after the other: `=== the claim`, a program, and what becomes of it:

    >>> f(floats(1, 2)) == [2, 4]               calling `f` gives this
    >>> f(floats(1, 2)) fails E0933 too small   calling `f` raises this code, with this text
    >>> check says E0201 did you mean           the program has these diagnostics (or `nothing`), with this text
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tests.support.checking import diagnose
from tests.support.folding import folded
from tests.support.paths import CASES

pytestmark = pytest.mark.slow

FOLDER = CASES / "language"
CLAIM = re.compile(r"^=== (?P<claim>.*)\n(?P<program>(?:.*\n)*?)>>> (?P<outcome>.*)$", re.MULTILINE)
OUTCOME = re.compile(r"(?P<call>f\(.*\)) (?:== (?P<value>.*)|fails (?P<code>E\d{4}) ?(?P<text>.*))")
SAYS = re.compile(r"check says (?:nothing|(?P<codes>(?:[EW]\d{4} ?)+)(?P<text>.*))")


@dataclass(frozen=True)
class Claim:
    program: str
    outcome: str


def claims(called: bool) -> Iterator[object]:
    """Those that call their program, or those that check it."""
    for path in sorted(FOLDER.glob("*.txt")):
        for found in CLAIM.finditer(path.read_text(encoding="utf-8")):
            if called == found["outcome"].startswith("f("):
                yield pytest.param(Claim(found["program"], found["outcome"]), id=f"{path.stem}: {found['claim']}")


@pytest.mark.one_in(6)
@folded("claim", lambda: claims(called=False))
def test_what_is_checked(claim: Claim) -> None:
    said = SAYS.fullmatch(claim.outcome)
    assert said is not None, f"no outcome: {claim.outcome}"
    check_says(claim.program, (said["codes"] or "").split(), said["text"] or "")


@pytest.mark.one_in(4)
@folded("claim", lambda: claims(called=True), one_in=48)
def test_what_is_called(claim: Claim) -> None:
    outcome = OUTCOME.fullmatch(claim.outcome)
    assert outcome is not None, f"no outcome: {claim.outcome}"
    if outcome["code"] is None:
        same(call(claim.program, outcome["call"]), eval(outcome["value"]))
        return
    with pytest.raises(tessera.TesseraError) as caught:
        call(claim.program, outcome["call"])
    assert caught.value.code == outcome["code"], caught.value.text
    assert outcome["text"] in caught.value.text


def check_says(program: str, codes: list[str], text: str) -> None:
    found = diagnose(SourceFile("claim.tess", program))
    said = "\n".join(f"{d.title} {d.primary.text} {d.notes} {d.fixes}" for d in found)
    assert [d.code for d in found] == codes, said
    assert text in said


def call(program: str, text: str) -> object:
    """The call as written, in Python; `floats` and `ints` are arrays of f32 and i32, `np` is NumPy."""
    names = {"f": tessera.compile(program).f, "floats": floats, "ints": ints, "np": np}
    result: object = eval(text, names)
    return result


def floats(*values: object) -> np.ndarray:
    return np.array(values, "f4")


def ints(*values: object) -> np.ndarray:
    return np.array(values, "i4")


def same(result: object, expected: object) -> None:
    if isinstance(expected, tuple):
        assert isinstance(result, tuple) and len(result) == len(expected)
        for one, other in zip(result, expected, strict=True):
            same(one, other)
    else:
        np.testing.assert_array_equal(np.asarray(result), np.asarray(expected))


def test_every_claim_is_read() -> None:
    for path in FOLDER.glob("*.txt"):
        text = path.read_text(encoding="utf-8")
        assert len(CLAIM.findall(text)) == text.count("\n=== ") == text.count("\n>>> "), path
