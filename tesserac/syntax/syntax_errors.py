"""What to say when a token cannot follow what is before it.

In: where the parser stopped and what it could have taken. Out: one diagnostic. The functions of `_CASES` are asked in
order; the first that recognises the mistake reports it, and the last one always does.
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.base.source import SourceFile, Span
from tesserac.base.spelling import closest, is_evident
from tesserac.diag.codes.syntax import E0101, E0105, E0107, E0113, E0116
from tesserac.diag.diagnostic import Applicability, Edit
from tesserac.diag.sink import Draft, Sink
from tesserac.syntax.describe import describe_kind, describe_token
from tesserac.syntax.lalr import SyntaxFailure
from tesserac.syntax.left_out import (
    Written,
    closed,
    is_handler,
    without_line,
    without_match,
    without_raise,
    without_try,
    without_walrus,
)
from tesserac.syntax.lexer import Token, vocabulary
from tesserac.syntax.reserved import RESERVED
from tesserac.syntax.starred import one_tuple

MAX_EXPECTED = 4
"""More alternatives than this are not listed: they would not help."""

_OPERAND_STARTS = frozenset(("NAME", "INT", "FLOAT", "STRING", "(", "[", "{"))
_CLOSERS = frozenset((")", "]", "}"))


class _Site:
    """The failure, with its neighbours at hand."""

    def __init__(self, failure: SyntaxFailure, source: SourceFile, sink: Sink) -> None:
        self.tokens = failure.tokens
        self.first = failure.first
        self.at = failure.at
        self.expected = failure.expected
        self.source = source
        self.sink = sink
        self.token = failure.tokens[failure.at]
        self.before = failure.tokens[failure.at - 1] if failure.at else self.token
        self.line = failure.tokens[failure.first]

    def after(self) -> Token:
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    @property
    def span(self) -> Span:
        """The token; a layout token, which has no width, is shown as the character after it."""
        return self.source.span(self.token.start, max(self.token.end, self.token.start + 1))

    def open_bracket(self) -> Token | None:
        """The innermost bracket of this line that is open here."""
        open_: list[Token] = []
        for token in self.tokens[self.first : self.at]:
            if token.kind in ("(", "[", "{"):
                open_.append(token)
            elif token.kind in _CLOSERS and open_:
                open_.pop()
        return open_[-1] if open_ else None


def report_failure(failure: SyntaxFailure, source: SourceFile, sink: Sink) -> None:
    site = _Site(failure, source, sink)
    next(case for case in _CASES if case(site))


def _reserved(site: _Site) -> bool:
    if site.token.kind != "RESERVED":
        return False
    word = site.token.text
    if _stands_as_name(site):
        draft = site.sink.error(E0107, at=site.span, feature=f"`{word}` as a name")
        draft.remark("the word is reserved").replace("give it another name", site.span, f"{word}_")
    elif word not in ("except", "finally") or not is_handler(site.source.text, site.token.start):
        draft = site.sink.error(E0107, at=site.span, feature=f"`{word}`").remark(RESERVED[word])
        if word == "class":
            _suggest_struct(draft, site)
        if word in _WRITTEN:
            _suggest(draft, site, *_WRITTEN[word])
    return True


_WRITTEN = {
    "try": ("what it does, without what is done where it fails", without_try),
    "raise": ("state what must hold", without_raise),
    "del": ("leave it out", without_line),
    "match": ("one after the other", without_match),
}
"""Statements that can be written without their word: what that is called, and how."""


def _suggest(draft: Draft, site: _Site, title: str, written: Callable[[str, int], list[Written] | None]) -> None:
    changes = written(site.source.text, site.token.start) or []
    if changes:
        draft.fix(title, *(Edit(site.source.span(one.start, one.end), one.text) for one in changes), advice=title)


def _suggest_struct(draft: Draft, site: _Site) -> None:
    """The class as a struct, or what of it has to be written by hand."""
    from tesserac.porting.files import obstacle, ported_file

    made = ported_file(site.source.text, site.token.start)
    if made is not None:
        edits = [Edit(site.source.span(one.start, one.end), one.text) for one in made.changes]
        title = "; ".join(("as a struct, whose `apply` is what calling it does", *made.remarks))
        draft.fix(title, *edits, advice=title)
    elif part := obstacle(site.source.text, site.token.start):
        shown = part if len(part) <= _LONGEST_PART else f"{part[: _LONGEST_PART - 3]}..."
        draft.remark(f"no fix writes it as a struct: what `{shown}` is here is not known")


_LONGEST_PART = 60
"""Of a class that is quoted."""


def _stands_as_name(site: _Site) -> bool:
    """Whether a reserved word is where a name would be: within a line, or before what assigns to it."""
    if site.token.text in _WITHIN_EXPRESSIONS:
        return False
    return site.at != site.first or site.after().kind in _ASSIGNING


_WITHIN_EXPRESSIONS = frozenset(("yield", "await", "async"))
"""Reserved words that Python has within a line too."""
_ASSIGNING = frozenset(("=", ",", "+=", "-=", "*=", "/="))

_UNPACKING = {
    "*": "write the elements one by one, or pass the list itself",
    "**": "write the entries one by one",
}


def _python_only(site: _Site) -> bool:
    """Python's syntax that Tessera leaves out."""
    opener = site.open_bracket()
    found = _left_out(site, opener)
    if found is None:
        return False
    draft = site.sink.error(E0107, at=site.span, feature=found[0]).remark(found[1])
    _suggest_ours(draft, site, opener)
    if site.token.kind == "*" and opener is not None and opener.kind == "(":
        made = one_tuple(site.source.text, opener.start)
        if made is not None:
            draft.replace("give one tuple", site.source.span(opener.end, made[0]), made[1])
    return True


def _suggest_ours(draft: Draft, site: _Site, opener: Token | None) -> None:
    if site.token.kind == ":":
        _suggest(draft, site, "bind it before", without_walrus)
    elif site.token.kind == "as" and site.after().kind == "NAME":
        draft.replace("leave the name out", site.source.span(site.before.end, site.after().end), "")
    elif opener is not None and opener.kind == "{" and (end := closed(site.source.text, opener.start)) is not None:
        edits = (Edit(site.source.span(at, at + 1), bracket) for at, bracket in ((opener.start, "["), (end, "]")))
        draft.fix("a list", *edits)


def _left_out(site: _Site, opener: Token | None) -> tuple[str, str] | None:
    """What that is, by a token and its neighbours, and what to do instead."""
    kind, before, after = site.token.kind, site.before.kind, site.after().kind
    in_def = site.line.kind in ("def", "@") and opener is not None
    found: tuple[str, str] | None = None
    if kind == ":" and after == "=":
        found = "`:=`", "assign on a line of its own"
    elif in_def and kind == "NAME" and before == "*":
        found = "a parameter that takes any number of arguments", "take a list instead"
    elif in_def and kind in ("**", "/"):
        found = f"`{kind}` in a signature", "only `*`, before the parameters that need a name, is"
    elif kind in ("*", "**") and before in ("(", "[", "{", ",", "=", "_NEWLINE", "_INDENT", "_DEDENT"):
        found = f"unpacking with `{kind}`", _UNPACKING[kind]
    elif kind == "as" and site.line.kind == "with":
        found = "`as` in `with`", "a context needs no name"
    elif kind == "else" and site.at == site.first and _follows_loop(site):
        found = "`else` on a loop", "set a flag in the loop and test it after"
    elif kind in (",", "}", "for") and ":" in site.expected and _in_set(site, opener):
        found = "a set literal", "use a list or a tuple"
    elif kind == "*" and before == "import":
        found = "`import *`", "list the names"
    return found


def _in_set(site: _Site, opener: Token | None) -> bool:
    """Whether these braces hold values without keys from the start."""
    if opener is None or opener.kind != "{":
        return False
    inside = site.tokens[site.tokens.index(opener, site.first) : site.at]
    return not any(token.kind == ":" for token in inside)


def _follows_loop(site: _Site) -> bool:
    """Whether the block that ends just before this `else` was opened by `for` or `while`."""
    depth = 0
    at = site.first - 1
    while at >= 0:
        kind = site.tokens[at].kind
        depth += (kind == "_DEDENT") - (kind == "_INDENT")
        starts_line = at == 0 or site.tokens[at - 1].kind in ("_NEWLINE", "_INDENT", "_DEDENT")
        if depth == 0 and starts_line and kind not in ("_NEWLINE", "_INDENT", "_DEDENT"):
            return kind in ("for", "while")
        at -= 1
    return False


def _decorator(site: _Site) -> bool:
    rule = ""
    if site.line.kind == "@" and site.token.kind == "def":
        rule = "cannot share the line of its `def`"
    elif site.at == site.first and "@" in site.expected and "def" in site.expected and "NAME" not in site.expected:
        rule = "needs a `def` on the next line"
    if not rule:
        return False
    draft = site.sink.error(E0113, at=site.span, rule=rule)
    if site.token.kind == "def":
        at = site.source.span(site.before.end, site.token.start)
        draft.replace("put `def` on its own line", at, "\n", applicability=Applicability.SAFE)
    return True


def _indentation(site: _Site) -> bool:
    if site.token.kind == "_INDENT":
        label = "nothing before it opens a block"
        site.sink.error(E0105, at=site.span, label=label, problem="this line is indented too far")
        return True
    if site.expected == {"_INDENT"}:
        draft = site.sink.error(E0105, at=site.span, problem="an indented block is missing here")
        colon = site.tokens[site.at - 2] if site.at >= 2 else site.before
        draft.note(site.source.span(colon.start, colon.end), "the block belongs to this line")
        return True
    return False


_OPENERS = ("if", "elif", "else", "for", "while", "with", "def", "@", "_STRUCT", "_TEST", "lambda")
"""What a line begins with that ends in `:`."""
_DOUBLED = {"&": "and", "|": "or"}
_STEPPED = {"+": " += 1", "-": " -= 1"}
"""What C writes with two of a token, and what there is here."""


def _line_comment(site: _Site) -> bool:
    """`// text`."""
    if site.token.kind != "//" or site.at != site.first:
        return False
    draft = site.sink.error(E0107, at=site.span, feature="a comment after `//`")
    draft.replace("a comment begins with `#`", site.span, "#", applicability=Applicability.SAFE)
    return True


def _braces(site: _Site) -> bool:
    """`if (a) {`."""
    if site.token.kind != "{" or ":" not in site.expected or site.line.kind not in _OPENERS:
        return False
    draft = site.sink.error(E0107, at=site.span, feature="a block in braces")
    at = site.source.span(site.before.end, site.token.end)
    draft.replace("a block is indented, after `:`", at, ":")
    return True


def _doubled(site: _Site) -> bool:
    """`a && b`, which fails at the second, and `n++`, which fails at the end of the line."""
    end = site.at + 1 if site.token.kind in _DOUBLED else site.at
    first, second = site.tokens[max(end - 2, 0)], site.tokens[end - 1]
    meant = (_DOUBLED if site.token.kind in _DOUBLED else _STEPPED).get(second.kind)
    if meant is None or first.kind != second.kind or first.end != second.start:
        return False
    if second.kind in _STEPPED and site.token.kind != "_NEWLINE":
        return False
    at = site.source.span(first.start, second.end)
    draft = site.sink.error(E0107, at=at, feature=f"`{second.text * 2}`")
    draft.replace(f"write `{meant.strip()}`", at, meant)
    return True


_DECLARATIONS = {
    "buffer": "`buffer` is followed by a name, `:` and a type",
    "param": "`param` is followed by a name, `:` and a type",
    "struct": "`struct` is followed by a name, its parameters in `[]` if it has any, and `:`",
    "test": "`test` is followed by its name in quotes and `:`",
}


_OTHER_KEYWORDS = {
    **dict.fromkeys(("fn", "fun", "func", "function", "proc"), ("a function begins with `def`", "def")),
    **dict.fromkeys(("auto", "const", "let", "mut", "val", "var"), ("a name needs no word before it", "")),
    **dict.fromkeys(("foreach", "loop"), ("a loop begins with `for`", "for")),
    **dict.fromkeys(("record", "type"), ("named values are a `struct`", "struct")),
}
"""Words that begin a line in other languages: what is said of each, and what stands in its place."""


def _other_keyword(site: _Site) -> bool:
    """`fn f(x)`, `let y = 1`."""
    word = site.before.text
    if site.at != site.first + 1 or site.token.kind != "NAME" or word not in _OTHER_KEYWORDS:
        return False
    form, meant = _OTHER_KEYWORDS[word]
    at = site.source.span(site.before.start, site.before.end if meant else site.token.start)
    draft = site.sink.error(E0107, at=site.source.span(site.before.start, site.before.end), feature=f"`{word}`")
    draft.replace(form, at, meant, applicability=Applicability.SAFE)
    return True


def _first_word(site: _Site) -> bool:
    """Two words that start a line and make no statement: the first is meant to be a keyword."""
    if site.at != site.first + 1 or site.before.kind != "NAME" or site.token.kind not in _OPERAND_STARTS:
        return False
    word = site.before.text
    if word in _DECLARATIONS:
        site.sink.error(E0101, at=site.span, problem=_DECLARATIONS[word])
        return True
    known = [*vocabulary().keywords, *_DECLARATIONS]
    meant = closest(word, known) if len(word) > 2 else None
    if meant is None:
        return False
    at = site.source.span(site.before.start, site.before.end)
    applicability = Applicability.SAFE if is_evident(word, meant, known) else Applicability.MAYBE
    draft = site.sink.error(E0101, at=at, problem=f"`{word}` starts no statement")
    draft.replace(f"write `{meant}`", at, meant, applicability=applicability)
    return True


def _half_of_a_pair(site: _Site) -> bool:
    """`else` without `if`, an `if` expression without `else`, `for` without `in`."""
    kind, problem = site.token.kind, ""
    if kind in ("else", "elif") and site.at == site.first:
        problem = f"`{kind}` has no `if` before it"
    elif "else" in site.expected and kind not in _OPERAND_STARTS:
        problem = "`if` in an expression needs `else`"
    elif "in" in site.expected and "==" not in site.expected:
        problem = f"expected `in` before {describe_token(site.token)}"
    elif kind in (",", "}") and ":" in site.expected and "==" in site.expected:
        opener = site.open_bracket()
        problem = "this entry of a dict has no value" if opener is not None and opener.kind == "{" else ""
    if not problem:
        return False
    site.sink.error(E0101, at=site.span, problem=problem)
    return True


def _keyword_as_name(site: _Site) -> bool:
    names_something = site.at > site.first or site.after().kind == "="
    if not names_something or "NAME" not in site.expected or site.token.kind not in vocabulary().keywords:
        return False
    word = site.token.text
    site.sink.error(E0116, at=site.span, word=word).replace("add an underscore", site.span, f"{word}_")
    return True


def _assignment_in_expression(site: _Site) -> bool:
    if site.token.kind != "=" or "==" not in site.expected:
        return False
    draft = site.sink.error(E0101, at=site.span, problem="`=` cannot stand inside an expression")
    draft.replace("compare with `==`", site.span, "==")
    return True


def _missing_colon(site: _Site) -> bool:
    if ":" not in site.expected or site.line.kind not in _OPENERS or site.open_bracket() is not None:
        return False
    at = site.source.span(site.before.end, site.before.end)
    draft = site.sink.error(E0101, at=site.span, problem=f"expected `:` before {describe_token(site.token)}")
    if (site.before.kind, site.token.kind) == ("else", "if"):
        draft.replace("it is one word", site.source.span(site.before.start, site.token.end), "elif")
        return True
    draft.replace("add `:`", at, ":")
    return True


def _operands_side_by_side(site: _Site) -> bool:
    """`f(a b)`, `x y`: something is missing between two values."""
    opener = site.open_bracket()
    if site.token.kind not in _OPERAND_STARTS or "+" not in site.expected:
        return False
    between = f"{describe_token(site.before)} and {describe_token(site.token)}"
    missing = "`,` or an operator" if opener is not None else "an operator"
    draft = site.sink.error(E0101, at=site.span, problem=f"expected {missing} between {between}")
    draft.note(site.source.span(site.before.start, site.before.end), "the value before it ends here")
    return True


def _anything(site: _Site) -> bool:
    site.sink.error(E0101, at=site.span, label=_expectation(site), problem=_unexpected(site))
    return True


def _unexpected(site: _Site) -> str:
    found = describe_token(site.token)
    if site.at == site.first:
        return f"a statement cannot begin with {found}"
    if site.token.kind in ("_NEWLINE", "_DEDENT", "$END"):
        return f"the line ends after {describe_token(site.before)}, but is not complete"
    return f"{found} cannot follow {describe_token(site.before)}"


def _expectation(site: _Site) -> str:
    if site.at == site.first:
        return ""
    if {"NAME", "INT"} <= site.expected:
        return "a value is expected here"
    words = sorted({describe_kind(kind) for kind in site.expected})
    if not words or len(words) > MAX_EXPECTED:
        return ""
    return "expected " + (" or ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} or {words[-1]}")


_CASES: tuple[Callable[[_Site], bool], ...] = (
    _reserved,
    _python_only,
    _decorator,
    _indentation,
    _line_comment,
    _braces,
    _doubled,
    _assignment_in_expression,
    _other_keyword,
    _first_word,
    _half_of_a_pair,
    _missing_colon,
    _keyword_as_name,
    _operands_side_by_side,
    _anything,
)
