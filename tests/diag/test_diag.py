"""Diagnostics as data: made through a sink, moved, printed for programs."""

from __future__ import annotations

import json

import pytest

from tesserac.base.source import NO_SPAN, SourceFile, Span
from tesserac.diag.diagnostic import Applicability, Code, Edit, Severity
from tesserac.diag.formats import render_json, render_short
from tesserac.diag.move import moved_diagnostic
from tesserac.diag.sink import Sink

E9998 = Code("E9998", "cannot contract {left} with {right}")
W9999 = Code("W9999", "careful")
SOURCE = SourceFile("m.tess", "x = q @ wo\ny = x\n")


def _sample() -> Sink:
    sink = Sink()
    draft = sink.error(E9998, at=Span("m.tess", 6, 7), label="here", left='"H"', right='"F"')
    draft.note(Span("m.tess", 4, 5), "q").because("q is new", Span("m.tess", 11, 12)).because("so it is")
    draft.remark("a fact").replace("use r", Span("m.tess", 8, 10), "r", applicability=Applicability.SAFE)
    return sink


def test_one_line_states_the_mistake() -> None:
    (diagnostic,) = _sample().diagnostics
    assert diagnostic.title == 'cannot contract "H" with "F"'
    assert diagnostic.severity is Severity.ERROR
    assert diagnostic.primary.text == "here"
    assert [label.text for label in diagnostic.secondary] == ["q"]
    assert [step.span.known for step in diagnostic.because] == [True, False]
    assert diagnostic.fixes[0].edits == (Edit(Span("m.tess", 8, 10), "r"),)


def test_the_same_report_twice_is_one() -> None:
    sink = _sample()
    sink.error(E9998, at=Span("m.tess", 6, 7), left=1, right=2).remark("lost with its draft")
    sink.error(E9998, at=Span("m.tess", 7, 8), left=1, right=2)
    assert [d.title for d in sink.diagnostics] == ['cannot contract "H" with "F"', "cannot contract 1 with 2"]


def test_a_title_is_one_line_that_can_be_shown() -> None:
    sink = Sink()
    sink.error(E9998, at=NO_SPAN, left="a\nb", right="\ud800\x1b")
    assert sink.diagnostics[0].title == "cannot contract a\ufffdb with \ufffd\ufffd"


def test_warnings_are_not_errors() -> None:
    sink = Sink()
    sink.warning(W9999, at=NO_SPAN)
    assert not sink.has_errors
    assert sink.diagnostics[0].severity is Severity.WARNING
    with pytest.raises(AssertionError):
        sink.error(W9999, at=NO_SPAN)
    sink.error(E9998, at=NO_SPAN, left=1, right=2)
    assert sink.has_errors


def test_moving_moves_every_known_span() -> None:
    (diagnostic,) = _sample().diagnostics
    moved = moved_diagnostic(diagnostic, 100)
    assert moved.primary.span == Span("m.tess", 106, 107)
    assert moved.secondary[0].span.start == 104
    assert [step.span.start for step in moved.because] == [111, -1]
    assert moved.fixes[0].edits[0].span == Span("m.tess", 108, 110)
    assert moved_diagnostic(moved, -100) == diagnostic


def test_the_short_form_is_one_line() -> None:
    (diagnostic,) = _sample().diagnostics
    expected = 'm.tess:1:7: error[E9998]: cannot contract "H" with "F"'
    assert render_short(diagnostic, {"m.tess": SOURCE}) == expected


def test_json_has_exactly_the_documented_fields() -> None:
    (entry,) = json.loads(render_json(_sample().diagnostics, {"m.tess": SOURCE}))
    fields = "code severity message file line column end_line end_column labels because notes fixes"
    assert list(entry) == fields.split()
    place = [entry[k] for k in ("file", "line", "column", "end_line", "end_column")]
    assert place == ["m.tess", 1, 7, 1, 8]
    assert (entry["code"], entry["severity"]) == ("E9998", "error")
    assert [(label["column"], label["text"]) for label in entry["labels"]] == [(7, "here"), (5, "q")]
    assert (entry["because"][0]["line"], entry["because"][0]["column"]) == (2, 1)
    assert entry["notes"] == ["a fact"]
    assert entry["fixes"][0]["applicability"] == "safe"
    assert entry["fixes"][0]["edits"][0]["replacement"] == "r"


def test_an_unknown_file_still_prints() -> None:
    (diagnostic,) = _sample().diagnostics
    assert render_short(diagnostic, {}).startswith("m.tess:1:1: error")
