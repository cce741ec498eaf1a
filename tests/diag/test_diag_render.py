"""The terminal form: what a person sees, to the character."""

from __future__ import annotations

import re

from tesserac.base.source import NO_SPAN, SourceFile, Span
from tesserac.diag.diagnostic import Code, Edit
from tesserac.diag.render import COLOURS, apply_edits, render
from tesserac.diag.sink import Draft, Sink

E9998 = Code("E9998", "{title}")

MODEL = SourceFile(
    "model.tess",
    """def attn(x: Tensor["B", "S", "D", bf16],
         wq: Tensor["D", "H", bf16],
         wo: Tensor["F", "D", bf16]):
    q = x @ wq
    y = q @ wo
    return y
""",
)


def _at(source: SourceFile, text: str, after: str = "") -> Span:
    start = source.text.index(text, source.text.index(after))
    return source.span(start, start + len(text))


def _report(at: Span, title: str, label: str = "") -> tuple[Sink, Draft]:
    sink = Sink()
    return sink, sink.error(E9998, at=at, label=label, title=title)


def _shown(sink: Sink, *sources: SourceFile) -> str:
    (diagnostic,) = sink.diagnostics
    return render(diagnostic, {source.path: source for source in sources})


def test_labels_far_and_near() -> None:
    """Declarations two lines up, three labels on one line: the layout that the project is measured by."""
    sink, draft = _report(_at(MODEL, "@", "y ="), 'cannot contract "H" with "F"', "these two dims must be the same")
    draft.note(_at(MODEL, '"H"'), '"H" enters `q` here, through `x @ wq`')
    draft.note(_at(MODEL, '"F"'), '"F" is declared here and used nowhere else')
    draft.note(_at(MODEL, "q", "y ="), 'q: ["B", "S", "H"] - last dim is "H"')
    draft.note(_at(MODEL, "wo", "y ="), 'wo: ["F", "D"] - first dim is "F"')
    draft.because('q = x @ wq : ["B","S","D"] @ ["D","H"] -> ["B","S","H"]')
    draft.replace('if `wo` maps heads back to the model dim, name its first dim "H"', _at(MODEL, '"F"'), '"H"')
    draft.fix('if "F" and "H" are equal by design, say so once')
    expected = """\
error[E9998]: cannot contract "H" with "F"
 --> model.tess:5:11
  |
2 |          wq: Tensor["D", "H", bf16],
  |                          --- "H" enters `q` here, through `x @ wq`
3 |          wo: Tensor["F", "D", bf16]):
  |                     --- "F" is declared here and used nowhere else
4 |     q = x @ wq
5 |     y = q @ wo
  |         - ^ -- wo: ["F", "D"] - first dim is "F"
  |         | |
  |         | these two dims must be the same
  |         q: ["B", "S", "H"] - last dim is "H"
  |
  = because: q = x @ wq : ["B","S","D"] @ ["D","H"] -> ["B","S","H"]
  = help: if `wo` maps heads back to the model dim, name its first dim "H"  [fix 1 of 2]
  |     3 |          wo: Tensor["H", "D", bf16]):
  = help: if "F" and "H" are equal by design, say so once  [fix 2 of 2]"""
    assert _shown(sink, MODEL) == expected


def test_two_labels_without_room_behind() -> None:
    source = SourceFile("m.tess", 's = einsum("bhqd,bhkd->bhqk", q, kt)\n')
    first, second = source.text.index("d,"), source.text.index("d->")
    sink, draft = _report(source.span(first, first + 1), "label `d` stands for two dims", 'here `d` is "D"')
    draft.note(source.span(second, second + 1), 'here `d` is "K"')
    draft.note(_at(source, "kt"), "operand 2")
    expected = """\
error[E9998]: label `d` stands for two dims
 --> m.tess:1:16
  |
1 | s = einsum("bhqd,bhkd->bhqk", q, kt)
  |                ^    -            -- operand 2
  |                |    |
  |                |    here `d` is "K"
  |                here `d` is "D"
  |"""
    assert _shown(sink, source) == expected


def test_gaps_are_elided_and_other_files_follow() -> None:
    source = SourceFile("a.tess", "".join(f"x{i} = {i}\n" for i in range(1, 13)))
    config = SourceFile("config.tess", "D = 700\n")
    sink, draft = _report(_at(source, "x12"), "sizes differ", "twelve")
    draft.note(_at(source, "x1"), "one").note(_at(source, "x3"), "three").note(_at(config, "700"), "from here")
    draft.because("the size is read there", _at(config, "D")).because("and used here", _at(source, "x9"))
    expected = """\
error[E9998]: sizes differ
  --> a.tess:12:1
   |
 1 | x1 = 1
   | -- one
 2 | x2 = 2
 3 | x3 = 3
   | -- three
...
12 | x12 = 12
   | ^^^ twelve
   |
  ::: config.tess:1:5
   |
 1 | D = 700
   |     --- from here
   |
   = because: the size is read there (config.tess:1)
   = because: and used here (line 9)"""
    assert _shown(sink, source, config) == expected


def test_tabs_and_wide_characters_keep_the_carets_in_place() -> None:
    source = SourceFile("w.tess", '\tx = f("漢字", a\u0301b)\n')
    sink, _ = _report(_at(source, "a\u0301b"), "wide", "this")
    lines = _shown(sink, source).splitlines()
    assert lines[3] == '1 |     x = f("漢字", a\u0301b)'
    assert lines[4] == "  |                   ^^ this"


def test_control_characters_are_not_sent_to_the_terminal() -> None:
    source = SourceFile("c.tess", "x = \x1b[31m\0 1\n")
    sink, _ = _report(_at(source, "\0"), "odd")
    assert not any(ord(c) < 32 for c in _shown(sink, source) if c != "\n")


def test_a_long_line_is_cut_around_its_label() -> None:
    source = SourceFile("l.tess", f"x = [{'1, ' * 200}oops{', 1' * 200}]\n")
    sink, _ = _report(_at(source, "oops"), "long", "this")
    lines = _shown(sink, source).splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[4].index("^^^^") == lines[3].index("oops")


def test_overlapping_labels_both_have_their_text() -> None:
    source = SourceFile("o.tess", "y = f(x)\n")
    sink, draft = _report(_at(source, "f(x)"), "over", "the call")
    draft.note(_at(source, "x"), "the argument")
    expected = """\
1 | y = f(x)
  |     ^^^^
  |     | |
  |     | the argument
  |     the call"""
    assert "\n".join(_shown(sink, source).splitlines()[3:8]) == expected


def test_a_place_beyond_the_line_and_over_several_lines() -> None:
    source = SourceFile("e.tess", "x = (\n1)\n")
    sink, _ = _report(source.span(4, 8), "several", "from here on")
    assert "1 | x = (\n  |     ^ from here on" in _shown(sink, source)
    sink, _ = _report(source.span(9, 9), "at the end", "here")
    assert "3 |\n  | ^ here" in _shown(sink, source)


def test_long_notes_wrap_under_themselves() -> None:
    sink, draft = _report(_at(MODEL, "q"), "notes")
    draft.remark("word " * 40)
    lines = _shown(sink, MODEL).splitlines()[-3:]
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("  = note: word")
    assert lines[1].startswith("          word")


def test_without_a_place_or_a_file_there_is_still_a_title() -> None:
    sink, _ = _report(NO_SPAN, "nowhere")
    assert _shown(sink) == "error[E9998]: nowhere"
    sink, _ = _report(Span("gone.tess", 0, 0), "no text")
    assert _shown(sink) == "error[E9998]: no text\n --> gone.tess"


def test_colour_only_when_asked_and_the_text_is_the_same() -> None:
    sink, draft = _report(_at(MODEL, "@", "y ="), "colour", "here")
    draft.remark("a note")
    (diagnostic,) = sink.diagnostics
    plain = render(diagnostic, {"model.tess": MODEL})
    coloured = render(diagnostic, {"model.tess": MODEL}, COLOURS)
    assert "\x1b" not in plain
    assert "\x1b[1;31m" in coloured
    assert _without_colour(coloured) == plain


def _without_colour(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_a_fix_shows_the_lines_it_changes() -> None:
    sink, draft = _report(_at(MODEL, "q", "y ="), "fix")
    at = _at(MODEL, "    y = ")
    draft.fix("split it", Edit(at, "    p = q\n    y = "), Edit(_at(MODEL, "q @ wo"), "p @ wo"))
    assert _shown(sink, MODEL).splitlines()[-2:] == ["  |     5 |     p = q", "  |     6 |     y = p @ wo"]


def test_edits_are_applied_from_the_end() -> None:
    edits = [Edit(Span("f", 0, 1), "AA"), Edit(Span("f", 2, 3), ""), Edit(Span("f", 3, 3), "!")]
    assert apply_edits("abc", edits) == "AAb!"
