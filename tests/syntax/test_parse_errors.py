"""Programs that are wrong: each mistake is reported once, where it is, and the rest of the file survives."""

from __future__ import annotations

import time

import pytest

from tesserac.base.source import SourceFile
from tesserac.diag.diagnostic import Diagnostic
from tesserac.diag.render import apply_edits
from tesserac.syntax import ast
from tesserac.syntax.lalr import MAX_ERRORS
from tesserac.syntax.parse import MAX_SOURCE, parse_module
from tesserac.syntax.reserved import RESERVED
from tesserac.syntax.split import split_items


def diagnose(text: str) -> tuple[Diagnostic, ...]:
    return parse_module(SourceFile("t.tess", text)).diagnostics


def found(text: str) -> list[tuple[str, str]]:
    """Code and underlined text of each diagnostic."""
    source = SourceFile("t.tess", text)
    return [(d.code, source.slice(d.primary.span)) for d in parse_module(source).diagnostics]


def names(text: str) -> list[str]:
    items = parse_module(SourceFile("t.tess", text)).module.items
    return [item.name for item in items if isinstance(item, ast.FunctionDef | ast.StructDef)]


# ---------------------------------------------------------------------------------------- one mistake, one report


@pytest.mark.parametrize(
    ("text", "code", "underlined"),
    [
        # keywords and names: what a lexer that follows the parser gets wrong
        ("x = a is_b", "E0101", "is_b"),
        ("x = def", "E0116", "def"),
        ("x = a notin b", "E0101", "notin"),
        ("x = 1if_y", "E0109", "1if_y"),
        ("if = 3", "E0101", "="),
        ("def lambda(x): pass", "E0116", "lambda"),
        ("x = y.in", "E0116", "in"),
        ("x = struct MLP", "E0101", "MLP"),
        # brackets and strings
        ("x = (1, 2", "E0102", "("),
        ("x = f(a]", "E0103", "]"),
        ("x = a)", "E0103", ")"),
        ("x = 'abc", "E0104", "'"),
        ('x = """abc\ny = 1', "E0104", '"""'),
        # layout
        ("  x = 1", "E0105", "  "),
        ("def f():\nx = 1", "E0105", "\n"),
        ("def f(x):\n    if x:\n    return x", "E0105", "return"),
        ("def f(x):\n        y = x\n    return y", "E0105", "    "),
        ("def f(x):\n    y = x\n\treturn y", "E0106", "\t"),
        # characters, numbers, escapes
        ("x = a ? b", "E0108", "?"),
        ("x = 1 \0", "E0108", "\0"),
        ("x = “a”", "E0108", "“"),
        ("x\u00a0= 1", "E0108", "\u00a0"),
        ("x = a² ", "E0108", "²"),
        ("x = 1__0", "E0109", "1__0"),
        ("x = 012", "E0109", "012"),
        ("x = 0b12", "E0109", "0b12"),
        ("x = 12abc", "E0109", "12abc"),
        (r'x = "\q"', "E0118", r"\q"),
        (r'x = "\u12"', "E0118", r"\u"),
        (r'x = "\ud800"', "E0118", r"\ud800"),
        # places
        ("f(x)", "E0110", "f(x)"),
        ("for i in r: pass", "E0110", "for i"),
        ("x += 1", "E0110", "x"),
        ("x: int", "E0110", "x"),
        ("return 1", "E0110", "return 1"),
        ("def f():\n    break", "E0110", "break"),
        ("def f():\n    for i in r:\n        def g(): continue", "E0110", "continue"),
        ("def f():\n    import a", "E0110", "import a"),
        ("def f():\n    struct A: pass", "E0110", "struct A: pass"),
        ("def f():\n    param w: T", "E0110", "param w: T"),
        ("def f():\n    buffer w: T", "E0110", "buffer w: T"),
        ("buffer w: T = 1", "E0110", "buffer w: T = 1"),
        ("test 'a':\n    return 1", "E0110", "return 1"),
        ("struct A:\n    x = 1", "E0110", "x = 1"),
        ("x = 1\n'stray'", "E0110", "'stray'"),
        # targets and order
        ("f(x) = 1", "E0111", "f(x)"),
        ("x[0] = 1", "E0111", "x[0]"),
        ("def f(x):\n    (x, 1) = y", "E0111", "1"),
        ("def f(x):\n    x, y += 1", "E0111", "x, y"),
        ("def f(x):\n    x.a: T = 1", "E0111", "x.a"),
        ("def f(x):\n    for f(x) in y: pass", "E0111", "f(x)"),
        ("x = [a for 1 in b]", "E0111", "1"),
        ("x = f(a=1, b)", "E0112", "b"),
        ("x = T[a=1, b]", "E0112", "b"),
        ("def f(a=1, b): pass", "E0112", "b"),
        ("def f(a, *): pass", "E0112", "*"),
        ("def f(*, a, *, b): pass", "E0112", "*"),
        ("def f() uses none, io: pass", "E0112", "uses none, io"),
        # decorators
        ("@jit def f(): pass", "E0113", "def"),
        ("@jit\nx = 1", "E0113", "\n"),
        ("@jit", "E0113", ""),
        # f-strings
        ('x = f"{a"', "E0115", "{"),
        ('x = f"a}"', "E0115", "}"),
        ('x = f"{}"', "E0115", "{"),
        ('x = f"{a!q}"', "E0115", "!"),
        ('x = f"{a:{w}}"', "E0115", ":"),
        ('x = f"{a b}"', "E0101", "b"),
        ("def f(g: A -> B): pass", "E0117", "A"),
        ("def f(g: fn(a=A) -> B): pass", "E0117", "fn(a=A)"),
        # what Python has and Tessera has not
        ("def f(*args): pass", "E0107", "args"),
        ("def f(**kw): pass", "E0107", "**"),
        ("def f(a, /): pass", "E0107", "/"),
        ("x = f(*a)", "E0107", "*"),
        ("x = f(**a)", "E0107", "**"),
        ("x = [*a]", "E0107", "*"),
        ("x = {**a}", "E0107", "**"),
        ("x = {a, b}", "E0107", ","),
        ("x = {a}", "E0107", "}"),
        ("x = {a for a in b}", "E0107", "for"),
        ("x = (y := 1)", "E0107", ":"),
        ("x = 3j", "E0107", "3j"),
        ("x = b'abc'", "E0107", "b"),
        ("x = u'abc'", "E0107", "u"),
        ("def f():\n    with a as b: pass", "E0107", "as"),
        ("def f():\n    for i in r:\n        pass\n    else:\n        pass", "E0107", "else"),
        ("def f():\n    while a: pass\n    else: pass", "E0107", "else"),
        ("from a import *", "E0107", "*"),
        # the rest
        ("x = 1 +", "E0101", ""),
        ("x = f(a b)", "E0101", "b"),
        ("def f(x)\n    return x", "E0101", "\n"),
        ("def f(x):\n    if x = 1: pass", "E0101", "="),
        ("else: pass", "E0101", "else"),
        ("def f(x: T -> U:\n    pass", "E0102", "("),
        ("def f(x):\n    f(x) = y z", "E0101", "z"),
        ("def f(x):\n    retrun x", "E0101", "retrun"),
        ("param W Tensor[D]", "E0101", "W"),
        ("struct S:\n    buffer W Tensor[D]", "E0101", "W"),
        ("test loss: pass", "E0101", "loss"),
        ("def f(x):\n    for i range(3): pass", "E0101", "range"),
        ("x = 1 if y", "E0101", ""),
        ("x = {1: 2, 3}", "E0101", "}"),
        ("x = = 1", "E0101", "="),
        ("def (x): pass", "E0101", "("),
        ("x = [a if b]", "E0101", "]"),
        ("import", "E0101", ""),
        ("struct A B: pass", "E0101", "A"),
    ],
)
def test_mistake(text: str, code: str, underlined: str) -> None:
    source = SourceFile("t.tess", text)
    diagnostics = parse_module(source).diagnostics
    assert [(d.code, source.slice(d.primary.span)) for d in diagnostics] == [(code, underlined)]


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_reserved_words_say_what_to_use_instead(word: str) -> None:
    (diagnostic,) = diagnose(f"def f(x):\n    {word} x\n    return x")
    assert diagnostic.code == "E0107"
    assert diagnostic.notes == (RESERVED[word],)


@pytest.mark.parametrize("text", ["x = {}", "{} = 1", "{}, y = 1, 2", "def f({}: f32):\n    return 1"])
@pytest.mark.parametrize("word", sorted(RESERVED.keys() - {"yield", "await", "async"}))
def test_a_reserved_word_as_a_name_is_given_another(word: str, text: str) -> None:
    (diagnostic,) = diagnose(text.format(word))
    assert diagnostic.code == "E0107"
    assert diagnostic.notes == ("the word is reserved",)
    assert [edit.replacement for fix in diagnostic.fixes for edit in fix.edits] == [f"{word}_"]


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("def f(x):\n    if x = 1: pass\n", "def f(x):\n    if x == 1: pass\n"),
        ("def f(x)\n    return x\n", "def f(x):\n    return x\n"),
        ("@jit def f(): pass\n", "@jit\ndef f(): pass\n"),
        ("x = 3j\n", "x = complex(0, 3)\n"),
        ("x = a − b\n", "x = a - b\n"),
        ("x\u00a0= 1\n", "x = 1\n"),
    ],
)
def test_a_fix_mends_it(text: str, fixed: str) -> None:
    (diagnostic,) = diagnose(text)
    assert apply_edits(text, list(diagnostic.fixes[0].edits)) == fixed
    assert diagnose(fixed) == ()


# ------------------------------------------------------------------------------------------------------ recovery

THREE = """\
def first(x):
    return x +

def good(x):
    return x

y = 1 2

struct Bad[D:
    w: T

def last(x):
    return good(x)
"""


def test_three_errors_give_three_diagnostics_and_the_rest_is_there() -> None:
    assert found(THREE) == [("E0101", "\n"), ("E0101", "2"), ("E0102", "[")]
    assert names(THREE) == ["first", "good", "last"]


def test_several_errors_in_one_function_are_all_found() -> None:
    block = "    if x y:\n        d = = 3\n    else:\n        e = 4\n"
    text = f"def f(x):\n    a = 1 +\n    b = 2\n    c = )\n{block}    return b\n"
    assert [code for code, _ in found(text)] == ["E0101", "E0103", "E0101"]
    (function,) = parse_module(SourceFile("t.tess", text)).module.items
    assert isinstance(function, ast.FunctionDef)
    kinds = [type(statement).__name__ for statement in function.body]
    assert kinds == ["ErrorStatement", "Assignment", "ErrorStatement", "ErrorStatement", "Return"]


def test_a_missing_block_leaves_the_function() -> None:
    text = "def f(x):\n    if x:\n    for i in x:\n    return x\ny = 1\n"
    assert [code for code, _ in found(text)] == ["E0105", "E0105"]
    assert names(text) == ["f"]


def test_too_many_errors_give_the_item_up() -> None:
    text = "def f(x):\n" + "    a = = 1\n" * 50 + "\ny = 1\n"
    result = parse_module(SourceFile("t.tess", text))
    assert len(result.diagnostics) == MAX_ERRORS
    assert [type(item).__name__ for item in result.module.items] == ["ConstDef"]


def test_an_unclosed_item_ends_at_the_next_declaration() -> None:
    for start in (
        "def g(): pass",
        "struct S: pass",
        "param w: T",
        'test "t": pass',
        "from a import b",
        "import a",
        "@jit\ndef g(): pass",
    ):
        result = parse_module(SourceFile("t.tess", f"x = f(1,\ny = 2\n{start}\n"))
        assert [(d.code, d.primary.span.start) for d in result.diagnostics] == [("E0102", 5)]
        assert len(result.module.items) == 1


def test_an_unclosed_docstring_costs_one_function() -> None:
    text = 'def f(x):\n    """Doc\n    return x\n\ndef g(x):\n    return x\n'
    assert found(text) == [("E0104", '"""')]
    assert names(text) == ["f", "g"]


def test_an_error_statement_stands_for_the_line_and_its_block() -> None:
    text = "def f(x):\n    if x y:\n        z = 1\n    return x\n"
    source = SourceFile("t.tess", text)
    (function,) = parse_module(source).module.items
    assert isinstance(function, ast.FunctionDef)
    assert source.slice(function.body[0].span) == "if x y:\n        z = 1"


# ------------------------------------------------------------------------------------------------------- cutting


def pieces(text: str) -> list[str]:
    return [text[start:end].strip() for start, end in split_items(text)]


def test_items_are_cut_at_column_one() -> None:
    decorated = "@jit\n# and more\n@b(1,\n2)\ndef f(x,\ny\n):\n    '''\ndoc\n'''\n    if x: y\nelse: z"
    text = f"import a\n\n# about f\n{decorated}\n\nx = [\n1,\n]\ny = a \\\n+ b\n"
    assert pieces(text) == [
        "import a\n\n# about f",
        decorated,
        "x = [\n1,\n]",
        "y = a \\\n+ b",
    ]


def test_brackets_in_strings_and_comments_do_not_count() -> None:
    assert pieces('x = \'(\' # [\ny = """{"""\nz = \'\\\'(\'\n') == ["x = '(' # [", 'y = """{"""', "z = '\\'('"]


def test_a_decorator_without_function_does_not_take_the_next_item() -> None:
    assert pieces("@jit\nx = 1\n@a\n@b\ndef f(): pass\n") == ["@jit", "x = 1", "@a\n@b\ndef f(): pass"]


# -------------------------------------------------------------------------------------------------------- limits


def test_nesting_is_counted_before_parsing() -> None:
    for text in ("x = " + "(" * 513 + ")" * 513, "x = " + "[" * 100_000, "x = " + "f(" * 5_000):
        assert [code for code, _ in found(text)] == ["E0114"]
    deep = "".join("    " * i + "if x:\n" for i in range(1, 102))
    assert [code for code, _ in found(f"def f(x):\n{deep}")] == ["E0114"]
    assert diagnose("x = " + "(" * 512 + "1" + ")" * 512) == ()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "text",
    ["a" + " + a" * 5_000, "-" * 5_000 + "a", "a" + ".b" * 5_000, "not " * 5_000 + "a", "lambda: " * 5_000 + "a"],
)
def test_chains_without_brackets_nest_too(text: str) -> None:
    assert [code for code, _ in found(f"x = {text}\ny = 1\n")] == ["E0114"]


def test_the_size_of_a_file_is_limited() -> None:
    assert [d.code for d in diagnose("#" * MAX_SOURCE)] == ["E0903"]
    assert [d.code for d in diagnose("# " + "∘" * (MAX_SOURCE // 3))] == ["E0903"]


@pytest.mark.one_in(24)
@pytest.mark.parametrize(
    "text",
    [
        "def f(\n" * 20_000,
        "(" * 400_000,
        ")" * 20_000,
        "'" * 100_001,
        '"""\n' * 40_001,
        "x = 1 2\n" * 2_000,
        "@a\n" * 8_000,
        "def f():\n" + "  a b\n" * 20_000,
        "{" * 150 + "\n" * 300_000,
        "\\\n" * 100_000,
        "f'{" * 5_000,
        "x = " + "1" * 10_000,
    ],
    ids=lambda text: repr(text[:8]),
)
def test_nonsense_of_any_size_is_refused_quickly(text: str) -> None:
    start = time.process_time()
    assert diagnose(text)
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("fn f(x):\n    return x\n", "def f(x):\n    return x\n"),
        ("def f(x):\n    let y = x\n    return y\n", "def f(x):\n    y = x\n    return y\n"),
        ("def f(a, b):\n    return a && b\n", "def f(a, b):\n    return a and b\n"),
        ("def f(a, b):\n    return a || b\n", "def f(a, b):\n    return a or b\n"),
        ("def f(a):\n    return !a\n", "def f(a):\n    return not a\n"),
        ("def f(a):\n    a++\n    return a\n", "def f(a):\n    a += 1\n    return a\n"),
        ("def f(a):\n    // why\n    return a\n", "def f(a):\n    # why\n    return a\n"),
    ],
)
def test_words_of_other_languages_have_a_fix(written: str, meant: str) -> None:
    (said,) = parse_module(SourceFile("example.tess", written)).diagnostics
    fixed = apply_edits(written, list(said.fixes[0].edits))
    assert fixed == meant
    assert not parse_module(SourceFile("example.tess", fixed)).diagnostics
