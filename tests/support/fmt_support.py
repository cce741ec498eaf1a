"""What formatting must keep, found without the formatter's help, and ways to write a program badly."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import strategies as st

from tesserac.base.recursion import deep_recursion
from tesserac.base.source import SourceFile, Span
from tesserac.diag.sink import Sink
from tesserac.syntax import ast
from tesserac.syntax.fmt import format_source
from tesserac.syntax.lexer import Token, tokenize
from tesserac.syntax.parse import parse_module
from tesserac.syntax.split import split_items
from tesserac.syntax.walk import descendants, field_names
from tesserac.types.dtype import lookup

ARGUMENT_NAMES = {"dim": "axis", "keepdim": "keep", "keepdims": "keep"}
_COMMENT_OR_STRING = re.compile(
    r'''(?P<comment>\#[^\n]*)|"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*\'''',
    re.DOTALL,
)


def items_of(text: str) -> list[str]:
    """The items of a sound program, each a program of its own."""
    return [text[start:end] for start, end in split_items(text)]


def formatted(text: str) -> str:
    return format_source(SourceFile("t.tess", text)).text


def assert_well_formatted(text: str) -> str:
    """Format a sound program, with everything that must hold for any."""
    result = formatted(text)
    with deep_recursion():
        assert meaning(result) == meaning(text)
    assert comments(result) == comments(text)
    assert formatted(result) == result
    assert not re.search(r"[ \t]$", strings_blanked(result), re.MULTILINE)
    assert not result or (result.endswith("\n") and not result.endswith("\n\n"))
    return result


# --------------------------------------------------------------------------------------------- what must be kept


def meaning(text: str) -> object:
    """The tree without places, spellings that mean the same made equal."""
    result = parse_module(SourceFile("t.tess", text))
    assert not result.diagnostics, [d.title for d in result.diagnostics]
    with deep_recursion():
        return plain(result.module)


def plain(value: object) -> object:
    match value:
        case ast.Name():
            dtype = lookup(value.id)
            return ("Name", dtype.name if dtype else value.id)
        case ast.Call(function=ast.Name(id=head), arguments=(ast.Argument(value=ast.Name(id=form)),)) if lookup(
            f"{head}({form})"
        ):
            return plain(ast.Name(value.span, f"{head}({form})"))
        case ast.FloatLiteral():
            return ("FloatLiteral", value.text.lower())
        case ast.Subscript():
            return ("Subscript", plain(value.value), tuple(_entry(argument) for argument in value.arguments))
        case ast.Argument():
            return ("Argument", ARGUMENT_NAMES.get(value.name or "", value.name), plain(value.value))
        case ast.FunctionDef() | ast.StructDef() | ast.Module():
            fields = [getattr(value, name) for name in field_names(type(value)) if name != "doc"]
            return (type(value).__name__, re.sub(r"[ \t]+\n", "\n", value.doc or ""), *map(plain, fields))
        case ast.Node():
            return (type(value).__name__, *(plain(getattr(value, name)) for name in field_names(type(value))))
        case Span():
            return None
        case tuple():
            return tuple(plain(item) for item in value)
    return value


def _entry(argument: ast.Argument) -> object:
    """Quotes around a size change nothing."""
    if isinstance(argument.value, ast.StringLiteral):
        quoted = parse_module(SourceFile("t.tess", f"size = {argument.value.value}"))
        if not quoted.diagnostics and isinstance(size := quoted.module.items[0], ast.ConstDef):
            return ("Argument", argument.name, plain(size.value))
    return plain(argument)


def comments(text: str) -> list[str]:
    """All comments in order."""
    return [found["comment"].rstrip() for found in _COMMENT_OR_STRING.finditer(text) if found["comment"]]


def strings_blanked(text: str) -> str:
    return _COMMENT_OR_STRING.sub(lambda found: found[0] if found["comment"] else "''", text)


# -------------------------------------------------------------------------------------------- writing it badly

_WORD = re.compile(r"\w")


@st.composite
def badly_written(draw: st.DrawFn, text: str) -> str:
    """The same item with other line breaks, spaces, comments, blank lines and brackets."""
    source = SourceFile("t.tess", _with_brackets(draw, text))
    tokens = tokenize(source, Sink(), 0, len(source.text)).tokens
    written = [token for token in tokens if token.start < token.end or token.kind == "_NEWLINE"]
    pieces: list[str] = [draw(st.sampled_from(["", "# top\n", "\n\n", "# top\n\n# more\n"]))]
    depth = 0
    for left, right in pairwise(written):
        gap = source.text[left.end : right.start]
        depth += (left.kind in "([{") - (left.kind in ")]}")
        pieces.append(source.text[left.start : left.end])
        if left.kind == "_NEWLINE":
            pieces.append(_line_end(draw, gap, len(pieces)))
        elif right.kind != "_NEWLINE":
            pieces.append(gap if "#" in gap else _gap(draw, depth, left, right, gap, len(pieces)))
    return "".join([*pieces, source.text[written[-1].start :]])


def _gap(draw: st.DrawFn, depth: int, left: Token, right: Token, gap: str, number: int) -> str:
    glued = _WORD.match(left.text[-1:]) and _WORD.match(right.text[:1])
    space = " " if gap or glued else ""
    if draw(st.integers(0, 9)):
        return space
    if not depth:
        return draw(st.sampled_from([space, "   ", " \\\n  "]))
    return draw(st.sampled_from(["  ", "\n", f"# c{number}\n", f"\n   # o{number}\n# p{number}\n\n "]))


def _line_end(draw: st.DrawFn, gap: str, number: int) -> str:
    if draw(st.integers(0, 5)):
        return gap
    kind = draw(st.integers(0, 3))
    first, newline, rest = gap.partition("\n")
    if not newline:
        return gap
    margin = " " * draw(st.integers(0, 9))
    if kind == 0 and not first.strip():
        return f"# e{number}\n{rest}"
    if kind == 1:
        return f"{first}\n{margin}# l{number}\n{rest}"
    if kind == 2:
        return f"{first}\n\n\n{rest}"
    return f"{first}\n\n{margin}# m{number}\n \n# n{number}\n\n{rest}"


def _with_brackets(draw: st.DrawFn, text: str) -> str:
    """Round brackets around a few values, where they change nothing."""
    items = parse_module(SourceFile("t.tess", text)).module.items
    values = [node for item in items for node in descendants(item) if isinstance(node, ast.Expr)]
    for _ in range(draw(st.integers(0, 3)) if values else 0):
        span = draw(st.sampled_from(values)).span
        tried = f"{text[: span.start]}({text[span.start : span.end]}){text[span.end :]}"
        if not parse_module(SourceFile("t.tess", tried)).diagnostics and meaning(tried) == meaning(text):
            return tried
    return text


# --------------------------------------------------------------------------------------------- random programs

_NAMES = ("x", "w", "total", "a_rather_long_name_of_a_tensor", "head", "where", "param", "é", "F32")
_ATOMS = (
    *_NAMES, "1", "0XaF", "1E-5", "2.", "1_000", "None", "True", "...", "'it'", '"a \\" b"', "f'{x!r:>8}'", "()", "[]",
    "{}", "'a' \"b\"", "'say \"hi\"'", "x.dtype", "fp8(e4m3)", "r'\\d'", "'''a\n b'''", "'it\\'s'", "(x)", "1 .T",
)  # fmt: skip
_OPERATORS = (
    "+", "-", "*", "/", "//", "%", "@", "∘", "**", "<<", "&", "|", "^", "and", "or", "<", "==", "is", "not in",
)  # fmt: skip
_FORMS = (
    "({}) % ({})", "({}).f({}, axis={})", "x({})", "total({}, {}, {})", "x.sum({}, dim={}).max(keepdim=True)", "x[{}]",
    "Tensor['B', '3 * D', {}, F32 @accum(FP32)]", "w[{}:({}), ::2, None]", "[{} , {},{}]", "({},)", "({}, {})",
    "{{{}: {}, x: {}}}", "[{} for x, y in w if ({}) for z in x]", "f({} for x in w)", "(({}) if ({}) else ({}))",
    "(lambda x, y=1: {})", "(- {})", "(not {})", "block({}).k({}).warps({}).stages(3)", "({})", "(fn({}) -> {})",
    "f([{}, {}])", "f({},)", "(bf16 @accum({}) @saturate)",
)  # fmt: skip
_SIMPLE = (
    "x = {}", "x[{}], total = head.y = {}, {}", "x: {} = {}", "x **= {}", "return {}, {}", "return {},",
    "assert {}, {}", "print({}); pass", "return ({})", "{}", "(x,) = {}",
)  # fmt: skip
_HEADERS = (
    "if {}:", "while ({}):", "for (x, y) in {}, x:", "for x, in {}:", "with {}, {}:", "with ({}, {}):", "with ({}):",
    "def inner(x, y: {} = 1, *, z=2) -> {} where N % 2 == 0 uses io, random:",
)  # fmt: skip


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A function of random statements, in no particular style."""

    def expression(depth: int) -> str:
        if depth <= 0 or not draw(st.integers(0, 3)):
            return draw(st.sampled_from(_ATOMS))
        if not draw(st.integers(0, 2)):
            sides = [draw(st.sampled_from(_ATOMS)), draw(st.sampled_from(_OPERATORS)), draw(st.sampled_from(_ATOMS))]
            return f"({' '.join(sides)})"
        return filled(draw(st.sampled_from(_FORMS)), depth - 1)

    def filled(form: str, depth: int) -> str:
        return form.format(*[expression(depth) for _ in range(form.count("{}"))])

    def block(depth: int, margin: str) -> list[str]:
        lines: list[str] = []
        for _ in range(draw(st.integers(1, 3))):
            if depth and draw(st.booleans()):
                lines += [margin + filled(draw(st.sampled_from(_HEADERS)), 2), *block(depth - 1, margin + "   ")]
            else:
                lines.append(margin + filled(draw(st.sampled_from(_SIMPLE)), 4))
        return lines

    return "\n".join(["@jit @ export", "def f(x):", *block(2, "  "), ""])
