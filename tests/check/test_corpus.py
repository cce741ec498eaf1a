"""The bugs that the checker exists for.

`cases/check/bug_*.tess` are eleven shape bugs and four precision bugs that other tools miss, find only at run time, or
report without a cause. `cases/public` has programs with the mistakes of public bug reports, linked at the top of each,
beside the program mended. Every one is told in one message, kept word for word, with a fix that mends it where there is
one to offer; nothing is said of what is right.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.formats import render_json
from tesserac.diag.render import apply_edits, render
from tests.conftest import Golden
from tests.support.checking import diagnose
from tests.support.message_rules import assert_reads_well, source_files
from tests.support.paths import CASES, ROOT

EXAMPLES = ROOT / "examples"
PUBLIC = sorted(path for path in (CASES / "public").glob("*.tess") if not path.stem.endswith(".fixed"))
SHAPES = ("b01", "b02", "b03", "b04", "b05", "b06", "b07", "b08", "b10", "b11", "b12")
PRECISION = ("p01", "p02", "p03", "p04")
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


@pytest.mark.one_in(3)
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


@pytest.mark.one_in(3)
@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.stem)
def test_the_first_fix_mends_a_public_report(path: Path) -> None:
    """A fix is one reading of the mistake, and leaves nothing to say."""
    source = load(path)
    (diagnostic,) = diagnose(source)
    assert is_mended(source, diagnostic)


def test_a_message_as_json(golden: Golden) -> None:
    source = bug("b01")
    shown = render_json(diagnose(source), {source.path: source})
    golden.check(CASES / "check" / "messages" / "bug_b01_contract.json", shown + "\n")


def test_every_message_as_json_has_the_documented_fields() -> None:
    place = ["file", "line", "column", "end_line", "end_column"]
    fields = ["code", "severity", "message", *place, "labels", "because", "notes", "fixes"]
    for path in PUBLIC:
        source = load(path)
        (entry,) = json.loads(render_json(diagnose(source), source_files(source)))
        assert list(entry) == fields
        assert all(list(part) == [*place, "text"] for part in (*entry["labels"], *entry["because"]))
        assert all(list(fix) == ["title", "applicability", "edits"] for fix in entry["fixes"])
        assert all(list(edit) == [*place, "replacement"] for fix in entry["fixes"] for edit in fix["edits"])
        assert {fix["applicability"] for fix in entry["fixes"]} <= {"safe", "maybe"}
        assert entry["labels"][0]["line"] == entry["line"] > 2


def test_most_shape_errors_say_where_sizes_came_from() -> None:
    """A reason, or a label at a declaration, beside the place of the mistake."""
    told = []
    for path in PUBLIC:
        source = load(path)
        (diagnostic,) = diagnose(source)
        elsewhere = [label for label in diagnostic.secondary if label.text]
        told.append(bool(diagnostic.because or elsewhere))
    print(f"{sum(told)} of {len(told)} messages give a reason or a second place")
    assert sum(told) >= 0.9 * len(told)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.tess")), ids=lambda path: path.stem)
def test_no_axis_of_an_example_is_unusual(path: Path) -> None:
    assert not [d.code for d in diagnose(load(path)) if d.code in ("W0301", "W0302")]
