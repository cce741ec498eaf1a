"""The language, sentence by sentence: each claim of its description with a program that shows it."""

from __future__ import annotations

import numpy as np
import pytest
from checking import diagnose
from claims_programs import PROGRAMS
from claims_support import Checks, Claim, Fails, Refused, Runs
from claims_types import TYPES

import tessera
from tesserac.base.source import SourceFile

CLAIMS = [
    pytest.param(claim, id=f"{group}: {claim.claim}")
    for group, claims in {**PROGRAMS, **TYPES}.items()
    for claim in claims
]


def found(program: str) -> tuple[str, str]:
    """The codes of a program's diagnostics, and all that they say."""
    said = diagnose(SourceFile("claim.tess", program))
    texts = [f"{d.title} {d.primary.text} {d.notes} {d.fixes}" for d in said]
    return " ".join(d.code for d in said), "\n".join(texts)


@pytest.mark.parametrize("claim", CLAIMS)
def test_claim(claim: Claim) -> None:
    match claim:
        case Checks():
            assert found(claim.program) == ("", "")
        case Refused():
            codes, said = found(claim.program)
            assert codes == claim.codes, said
            assert claim.says in said
        case Runs():
            same(tessera.compile(claim.program).f(*claim.args), claim.expected)
        case Fails():
            with pytest.raises(tessera.TesseraError) as caught:
                tessera.compile(claim.program).f(*claim.args)
            assert caught.value.code == claim.code, caught.value.text
            assert claim.says in caught.value.text


def same(result: object, expected: object) -> None:
    if isinstance(expected, tuple):
        assert isinstance(result, tuple) and len(result) == len(expected)
        for one, other in zip(result, expected, strict=True):
            same(one, other)
    else:
        np.testing.assert_array_equal(np.asarray(result), np.asarray(expected))
