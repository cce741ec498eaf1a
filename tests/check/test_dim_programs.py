"""Programs whose sizes are proved, and programs that leave a check to the entry, written beside the line."""

from __future__ import annotations

import pytest

from tesserac.base.source import SourceFile
from tesserac.check.guards.undecided import STATED
from tesserac.check.model import typed
from tests.support.checking import check_text
from tests.support.paths import CASES as PROGRAMS

CASES = PROGRAMS / "dims"
MARK = "# guard: "


def functions(name: str) -> tuple[SourceFile, tuple[typed.TypedFunction, ...]]:
    text = (CASES / name).read_text(encoding="utf-8")
    result = check_text(text, name)
    assert [diagnostic.title for diagnostic in result.diagnostics] == []
    return SourceFile(name, text), result.module.functions


def left_to_entry(function: typed.TypedFunction) -> list[typed.Guard]:
    return [guard for guard in function.guards if guard.reason != STATED]


@pytest.mark.one_in(2)
def test_what_follows_from_facts_is_proved() -> None:
    _, found = functions("proved.tess")
    assert len(found) > 45
    assert {f.name: [guard.text for guard in left_to_entry(f)] for f in found if left_to_entry(f)} == {}


def test_guards_are_made_once_where_they_are_needed() -> None:
    source, found = functions("guarded.tess")
    made = [(source.position(g.span.start)[0], g.text) for function in found for g in left_to_entry(function)]
    lines = enumerate(source.text.splitlines(), 1)
    marked = [(number, text) for number, line in lines if MARK in line for text in line.split(MARK)[1].split("; ")]
    assert made == marked


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("prefix", "`x[:M]` needs it; no fact bounds `M` and `N`; `where N >= M` settles it while compiling"),
        ("split", "`D/h` needs it; no fact says that `h` divides `D`; `where D % h == 0` settles it while compiling"),
        ("in_every_turn", "`x[i + 2]` needs it; it depends on `i`, so it is checked for the ends of that range"),
        ("of_a_call", "`once` needs it; no fact bounds `K`; `where K >= 3` settles it while compiling"),
    ],
)
def test_a_guard_says_why_it_is_one(name: str, reason: str) -> None:
    _, found = functions("guarded.tess")
    [guard] = left_to_entry(next(f for f in found if f.name == name))
    assert guard.reason == reason


@pytest.mark.one_in(3)
def test_the_clause_that_a_reason_names_settles_it() -> None:
    """Every `where` that a guard suggests, added to the signature, leaves nothing to check but itself."""
    source, found = functions("guarded.tess")
    suggested = 0
    for function in found:
        clauses = [g.reason.split("`where ")[1].split("`")[0] for g in left_to_entry(function) if "`where" in g.reason]
        if not clauses:
            continue
        suggested += 1
        start = source.text.index(f"def {function.name}(")
        colon = source.text.index(":\n", start)
        text = f"{source.text[:colon]} where {', '.join(clauses)}{source.text[colon:]}"
        again = next(f for f in check_text(text).module.functions if f.name == function.name)
        assert left_to_entry(again) == []
    assert suggested >= 6
