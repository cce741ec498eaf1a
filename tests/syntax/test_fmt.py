"""The formatter: what its style is, and what it leaves alone."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tesserac.base.source import SourceFile
from tesserac.diag.render import apply_edits
from tesserac.syntax.concrete import EXPRESSIONS, GROUP
from tesserac.syntax.fmt import format_diff, format_range, format_source
from tesserac.syntax.fmt_expressions import LAYOUTS
from tesserac.syntax.fmt_statements import HEADERS, SIMPLE
from tesserac.syntax.parse import MAX_SOURCE, parse_module
from tesserac.syntax.tables import load_tables
from tests.conftest import Golden
from tests.support.fmt_support import assert_well_formatted, formatted
from tests.support.paths import CASES, ROOT


@pytest.mark.parametrize("path", sorted((CASES / "fmt").glob("*.tess")), ids=lambda path: path.stem)
def test_golden(path: Path, golden: Golden) -> None:
    text = path.read_text(encoding="utf-8")
    is_sound = not parse_module(SourceFile(path.name, text)).diagnostics
    golden.check(path.with_suffix(".out"), assert_well_formatted(text) if is_sound else formatted(text))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("path", sorted((CASES / "seeds").glob("*.tess")), ids=lambda path: path.stem)
def test_seeds(path: Path, golden: Golden) -> None:
    golden.check(CASES / "fmt" / f"seed_{path.stem}.out", assert_well_formatted(path.read_text(encoding="utf-8")))


@pytest.mark.one_in(48)
@pytest.mark.parametrize(
    "path", sorted([*ROOT.glob("stdlib/**/*.tess"), *ROOT.glob("examples/**/*.tess")]), ids=lambda path: path.stem
)
def test_our_own_programs_keep_their_meaning(path: Path) -> None:
    assert_well_formatted(path.read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------------------ no rule, no layout


def test_every_rule_of_the_grammar_has_a_layout() -> None:
    """A new statement or expression of the grammar must be laid out here, too."""
    statements = {
        "expression_statement", "assignment", "annotated_assignment", "augmented_assignment", "return", "assert",
        "pass", "break", "continue", "import", "from_import", "param_decl", "buffer_decl", "if", "elif", "for", "while",
        "with", "struct_def", "test_block",
    }  # fmt: skip
    assert HEADERS.keys() | SIMPLE.keys() == statements
    assert LAYOUTS.keys() == EXPRESSIONS | {"dict_entry"}
    parts = {
        "item_input", "expression_input", "block", "contexts", "error_statement", "nothing", "imported_module",
        "imported_names", "imported_name", "module_path", "dots", "dotted_name", "struct_parameters", "function_def",
        "decorators", "decorator", "parameters", "parameter", "keyword_marker", "where", "uses", "tuple_items",
        "lambda_parameters", "lambda_parameter", "links", "comparison_link", "comparison_operator", "arguments",
        "argument", "named_argument", "generator", "subscript_arguments", "slice_argument", "slice", "list_items",
        "dict_entries", "clauses", "comprehension_clause", "conditions", "target_items",
    }  # fmt: skip
    rules = {rule.action for rule in load_tables().rules if rule.action}
    assert rules | {GROUP} == statements | LAYOUTS.keys() | parts


# ------------------------------------------------------------------------------------------------- what stays as it is


@pytest.mark.parametrize(
    "text",
    [
        'x = d["B"]\n',
        'x = Tensor["B # c"]\n',
        'x: Tensor["if", "a.b", "...", ""] = y\n',
        "struct F32[D]:\n    w: Tensor[D]\n\ndef f(x: F32) -> Tensor[N, f32]:\n    return x\n",
        "def f(x: Other[F32], y: Tensor[I8, f32]):\n    pass\n",
        "def sum(x, dim):\n    pass\n\ny = sum(x, dim=1)\n",
        "y = mine(x, dim=1, keepdim=True)\n",
        "y = sum(x, axis=1, dim=2)\n",
        "y = std(x, dim=1) + x.var(dim=0) + x.split(3, dim=1)[0]\n",
        'x = "it\'s"\n',
        "x = 'say \"hi\"'\n",
        "x = f'{d[\"k\"]}'\n",
        "x = (dA) @ y + A @ (dx)\n",
        "y = f((a + b))\n",
        "x = (a, b)\n",
        "with ((a, b),):\n    pass\n",
        "with ():\n    pass\n",
        "def f() -> (lambda: 1) where N > 0:\n    pass\n",
    ],
)
def test_unchanged(text: str) -> None:
    body = text if not text.startswith("with") else "def f():\n    " + text.replace("\n    ", "\n        ")
    assert formatted(body) == body


def test_an_item_with_an_error_stays_and_is_reported() -> None:
    broken = "def  g( x:\n    y   =  1\n\n\n\n"
    result = format_source(SourceFile("t.tess", f"x=1\n{broken}def  h( ):  pass"))
    assert result.text == f"x = 1\n{broken}def h():\n    pass\n"
    assert [d.code for d in result.diagnostics] == ["E0102"]


@pytest.mark.parametrize("text", ["", "\n\n\n", "# only\n", "\n\n# a\n\n\n# b", "\ufeffx=1", "x=1  ", "\f\nx = 1"])
def test_files_with_little_in_them(text: str) -> None:
    assert_well_formatted(text)


def test_line_ends_are_those_of_the_first_line() -> None:
    assert formatted('x=1\r\ny="""a\r\nb"""\r\n') == 'x = 1\r\ny = """a\r\nb"""\r\n'
    assert formatted("x=1\ny=2\r\n") == "x = 1\ny = 2\n"


# -------------------------------------------------------------------------------------------------- for the tools


def test_a_range_formats_the_items_it_touches() -> None:
    source = SourceFile("t.tess", "x=1\ny=2\ndef f():  return 1\nz=3\n")
    edits = format_range(source, source.text.index("y"), source.text.index("return"))
    assert apply_edits(source.text, list(edits)) == "x=1\ny = 2\n\ndef f():\n    return 1\n\nz=3\n"
    whole = format_range(source, 0, len(source.text))
    assert apply_edits(source.text, list(whole)) == formatted(source.text)
    assert format_range(SourceFile("t.tess", "x = 1\n"), 0, 5) == ()


def test_the_difference_is_a_unified_diff() -> None:
    source = SourceFile("t.tess", "x=1\ny = 2")
    diff = format_diff(source, formatted(source.text))
    assert diff.splitlines()[3:] == ["-x=1", "-y = 2", "\\ No newline at end of file", "+x = 1", "+y = 2"]
    assert format_diff(SourceFile("t.tess", "x = 1\n"), "x = 1\n") == ""


# ------------------------------------------------------------------------------------------------------------ limits


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "text",
    [
        "f(" * 254 + "1" + ")" * 254,
        "(" * 512 + "1" + ")" * 512,
        "[" * 509 + "1" + "]" * 509,
        "(f(" * 250 + "1" + "))" * 250,
        "-" * 500 + "1",
        "1 if 2 else " * 400 + "3",
        " + ".join("a" * 500),
    ],
    ids=lambda text: text[:6],
)
def test_what_the_parser_takes_can_be_laid_out(text: str) -> None:
    assert_well_formatted(f"x = {text}\n")


def test_a_file_that_is_too_long_stays() -> None:
    text = "x=1\n" * (MAX_SOURCE // 4)
    result = format_source(SourceFile("t.tess", text))
    assert result.text == text
    assert [d.code for d in result.diagnostics] == ["E0903"]


@pytest.mark.one_in(8)
def test_long_files_are_formatted_in_seconds() -> None:
    kernel = (CASES / "seeds" / "flash_attention.tess").read_text(encoding="utf-8")
    text = "\n".join(kernel.replace("def ", f"def f{i}_") for i in range(60))
    parse_module(SourceFile("t.tess", text))
    start = time.process_time()
    format_source(SourceFile("t.tess", text))
    assert time.process_time() - start < 2.5  # about 0.5 s here, for 960 long lines


BLANKS = "\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029\xa0\u3000\x00\x7f\r"
"""Characters that look empty, or that some call the end of a line."""


@pytest.mark.parametrize("blank", BLANKS, ids=[f"U+{ord(blank):04X}" for blank in BLANKS])
def test_characters_that_look_empty(blank: str) -> None:
    """A string, a comment and a docstring may hold them; anywhere else they are a mistake, and the file stays."""
    places = ("x = 1{}", "{}x = 1", "x = (1,{}2)", "x = 1\n{}\ny = 2", "def f():\n    # a{}\n    return 1{}", "{}")
    held = ('x = "a{}b"', "x = 1  # a{}b", '"""doc{}  more  \n  b"""')
    for place in (*places, *held):
        source = SourceFile("a.tess", place.format(*[blank] * place.count("{}")) + "\n")
        result = format_source(source)
        if result.diagnostics:
            assert result.text.strip() == source.text.strip()
        else:
            assert format_source(SourceFile("a.tess", result.text)).text == result.text
        if place in held and blank not in "\x00\r":
            assert not result.diagnostics and blank in result.text


AROUND = ["x = {}", "def f():\n    {}\n    return g({}, 1)", "{}", "struct A:\n    {}\n    b: int = 1"]


@pytest.mark.parametrize("around", AROUND)
def test_strings_of_several_lines_stay_as_they_are(around: str) -> None:
    text = '"""a   \n   b \t \n \n  c  """'
    source = around.replace("{}", text) + "\n"
    assert format_source(SourceFile("a.tess", source)).text.count(text) == around.count("{}")


def test_a_diff_counts_lines_as_the_language_does() -> None:
    source = SourceFile("a.tess", 'x = "a\x1cb"\ny=1\n')
    assert format_diff(source, format_source(source).text).splitlines(keepends=False)[-1] == "+y = 1"
    assert "No newline" not in format_diff(source, format_source(source).text)
