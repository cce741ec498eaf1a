"""The bugs that the checker exists for.

`cases/check/bug_*.tess` are eleven shape bugs and four precision bugs that other tools miss, find only at run time, or
report without a cause. `cases/public` has programs with the mistakes of public bug reports, linked at the top of each,
beside the program mended. Every one is told in one message, kept word for word, with a fix that mends it where there is
one to offer; nothing is said of what is right.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from checking import diagnose
from message_rules import assert_reads_well, source_files

from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Diagnostic, Severity
from tesserac.diag.render import apply_edits, render
from tests.conftest import Golden

CASES = Path(__file__).parent / "cases"
PUBLIC = sorted(path for path in (CASES / "public").glob("*.tess") if not path.stem.endswith(".fixed"))
SHAPES = ("b01", "b02", "b03", "b04", "b05", "b06", "b07", "b08", "b10", "b11", "b12")
PRECISION = ("p01", "p02", "p04")
CONTROLS = ("b09",)
SOURCE = re.compile(r"# Source: (https://(?:github\.com/[\w.-]+/[\w.-]+/(?:issues|pull)/\d+|stackoverflow\.com/\S+))\n")


def load(path: Path) -> SourceFile:
    return SourceFile(path.name, path.read_text(encoding="utf-8"))


def bug(number: str) -> SourceFile:
    (path,) = (CASES / "check").glob(f"bug_{number}_*.tess")
    return load(path)


def is_mended(source: SourceFile, diagnostic: Diagnostic) -> bool:
    """Whether the first fix that can be applied leaves nothing to say."""
    fixes = [fix for fix in diagnostic.fixes if fix.edits]
    return bool(fixes) and diagnose(SourceFile(source.path, apply_edits(source.text, list(fixes[0].edits)))) == ()


def test_the_score() -> None:
    found = {number: diagnose(bug(number)) for number in (*SHAPES, *PRECISION, *CONTROLS)}
    shapes = [number for number in SHAPES if len(found[number]) == 1]
    precision = [number for number in PRECISION if len(found[number]) == 1]
    mended = [number for number in (*SHAPES, *PRECISION) if is_mended(bug(number), found[number][0])]
    print(f"shape bugs {len(shapes)} of {len(SHAPES)}, precision bugs {len(precision)} of {len(PRECISION)},")
    print(f"mended by the first fix {len(mended)} of {len(SHAPES) + len(PRECISION)}")
    assert tuple(shapes) == SHAPES
    assert tuple(precision) == PRECISION
    assert all(found[number] == () for number in CONTROLS)
    assert len(mended) == len(SHAPES) + len(PRECISION)


def test_there_are_forty_public_reports() -> None:
    sources = [SOURCE.match(path.read_text(encoding="utf-8")) for path in PUBLIC]
    assert all(sources), [path.name for path, match in zip(PUBLIC, sources, strict=True) if not match]
    assert len({match[1] for match in sources if match}) == len(PUBLIC) >= 40


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.stem)
def test_a_public_report(path: Path, golden: Golden) -> None:
    source = load(path)
    (diagnostic,) = diagnose(source)
    shown = render(diagnostic, source_files(source))
    golden.check(path.parent / "messages" / f"{path.stem}.txt", shown + "\n")
    assert_reads_well(diagnostic, shown)
    mended = load(path.with_suffix(".fixed.tess"))
    assert mended.text.splitlines()[0] == source.text.splitlines()[0]
    assert diagnose(mended) == ()


def test_most_first_fixes_mend_a_public_report() -> None:
    """A fix is one reading of the mistake; it may leave a warning, never an error."""
    offered = mending = 0
    for path in PUBLIC:
        source = load(path)
        (diagnostic,) = diagnose(source)
        for fix in [fix for fix in diagnostic.fixes if fix.edits][:1]:
            left = diagnose(SourceFile(source.path, apply_edits(source.text, list(fix.edits))))
            offered += 1
            mending += not any(d.severity is Severity.ERROR for d in left)
    print(f"fixes offered for {offered} of {len(PUBLIC)} reports, {mending} leave no error")
    assert mending == offered >= 0.8 * len(PUBLIC)
