"""From text to tokens.

In: a part of a file, and the patterns of the grammar. Out: tokens with offsets into the file, with
`_NEWLINE`, `_INDENT` and `_DEDENT` by Python's rules. What cannot be a token is reported and passed over, so there
is always a list. Layout tokens have no width and stand at the end of the line before them, so that the span of a
block ends with its last statement.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import field
from functools import cache
from typing import NamedTuple

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile
from tesserac.diag.codes.syntax import E0102, E0103, E0104, E0105, E0106, E0107, E0108, E0109, E0114
from tesserac.diag.diagnostic import Code
from tesserac.diag.sink import Draft, Sink
from tesserac.syntax.reserved import RESERVED
from tesserac.syntax.tables import load_tables

MAX_NESTING = 512
"""Brackets and blocks together; also the depth of a tree, so that later rooms may recurse."""
MAX_BLOCKS = 100
"""Blocks alone, as in Python."""

_CLOSES = {"(": ")", "[": "]", "{": "}"}
_CLOSERS = frozenset(_CLOSES.values())
_LAYOUT = frozenset(("_NEWLINE", "_INDENT", "_DEDENT"))
_ENDS_OPERAND = frozenset(("NAME", "INT", "FLOAT", "STRING", ")", "]", "}", "None", "True", "False", "..."))
_STATEMENT_WORDS = {
    "struct": ("_STRUCT", re.compile(r"[ \t]+([^\W\d]\w*)[ \t]*[\[:]")),
    "param": ("_PARAM", re.compile(r"[ \t]+([^\W\d]\w*)[ \t]*:")),
    "buffer": ("_BUFFER", re.compile(r"[ \t]+([^\W\d]\w*)[ \t]*:")),
    "test": ("_TEST", re.compile(r"[ \t]*()[rR]?[\"']")),
}
_HEADER_WORDS = {"where": "_WHERE", "uses": "_USES"}
_LOOKALIKES = {
    "!": "not ",
    **dict.fromkeys("“”„", '"'),
    **dict.fromkeys("‘’‚", "'"),
    **dict.fromkeys("–—−", "-"),
    **dict(zip("×÷≤≥≠·…", ("*", "/", "<=", ">=", "!=", "*", "..."), strict=True)),
}
_INDENTATION = re.compile(r"[ \t\f]+(?=[^\s#])")
_WORD = re.compile(r"\w+")


class Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Vocabulary:
    """What the grammar's terminals look like: one pattern for all, and the words that are not names."""

    pattern: re.Pattern[str]
    keywords: frozenset[str]


@cache
def vocabulary() -> Vocabulary:
    tables = load_tables()
    texts = sorted(tables.texts, key=len, reverse=True)
    keywords = frozenset(text for text in texts if text.isidentifier())
    named = [f"(?P<{name}>{pattern})" for name, pattern in tables.patterns]
    symbols = "|".join(re.escape(text) for text in texts if text not in keywords)
    pattern = f"(?:{'|'.join(tables.ignored)})*(?:{'|'.join(named)}|(?P<symbol>{symbols}))?"
    return Vocabulary(re.compile(pattern), keywords)


class Lexed(NamedTuple):
    """`faults` are offsets where something was reported: the parser keeps quiet about lines with one."""

    tokens: list[Token]
    faults: list[int]


def tokenize(source: SourceFile, sink: Sink, begin: int, end: int, *, in_brackets: bool = False) -> Lexed:
    """The tokens from `begin` to `end`; `in_brackets` for text in which line ends mean nothing."""
    lexer = _Lexer(source, sink, end, in_brackets)
    lexer.run(begin)
    return Lexed(lexer.tokens, lexer.faults)


@dataclass
class _Lexer:
    source: SourceFile
    sink: Sink
    end: int
    in_brackets: bool
    tokens: list[Token] = field(default_factory=list)
    faults: list[int] = field(default_factory=list)
    brackets: list[Token] = field(default_factory=list)
    indents: list[str] = field(default_factory=lambda: [""])
    quiet_until: int = 0
    header: bool = False  # between `def` and its `:`, where `where` and `uses` are words of the language

    def run(self, position: int) -> None:
        match, text = vocabulary().pattern.match, self.source.text
        handlers = {
            "NAME": self.word,
            "symbol": self.symbol,
            "_NEWLINE": self.line_end,
            "STRING": self.string,
            "INT": self.number,
            "FLOAT": self.number,
        }
        self.check_first_line(position)
        while position < self.end:
            found = match(text, position, self.end)
            assert found is not None  # the pattern matches the empty text
            kind, position = found.lastgroup, found.end()
            if kind is None:
                position = self.unknown(position) if position < self.end else position
                continue
            word = found[kind]
            token = Token(word if kind == "symbol" else kind, word, found.start(kind), position)
            if handler := handlers.get(kind):
                position = handler(token)
            else:
                self.tokens.append(token)
        self.close()

    def report(self, code: Code, start: int, end: int, label: str = "", **values: object) -> Draft:
        self.faults += (start, end)
        return self.sink.error(code, at=self.source.span(start, end), label=label, **values)

    # ------------------------------------------------------------------------------------------------- words

    def word(self, token: Token) -> int:
        """A keyword, a reserved word, a name, or a word that the language owns in this place only."""
        word = token.text
        if word in vocabulary().keywords:
            self.header = self.header or word == "def"
            token = Token(word, word, token.start, token.end)
        elif word in RESERVED:
            token = token._replace(kind="RESERVED")
        elif not word.isascii():
            token = self.unicode_name(token)
        elif word in _STATEMENT_WORDS and self.starts_declaration(token):
            token = token._replace(kind=_STATEMENT_WORDS[word][0])
        elif word in _HEADER_WORDS and self.continues_header():
            token = token._replace(kind=_HEADER_WORDS[word])
        self.tokens.append(token)
        return token.end

    def unicode_name(self, token: Token) -> Token:
        """Names are compared as Python compares them, in Unicode's normal form KC."""
        if not token.text.isidentifier():
            characters = range(token.start, token.end)
            self.bad_character(
                next((i for i in characters if not f"a{self.source.text[i]}".isidentifier()), token.start)
            )
        return token._replace(text=unicodedata.normalize("NFKC", token.text))

    def starts_declaration(self, token: Token) -> bool:
        first = not self.tokens or self.tokens[-1].kind in _LAYOUT or self.tokens[-1].kind in (";", ":")
        found = _STATEMENT_WORDS[token.text][1].match(self.source.text, token.end, self.end)
        return first and not self.brackets and found is not None and found[1] not in vocabulary().keywords

    def continues_header(self) -> bool:
        return self.header and not self.brackets and self.tokens[-1].kind in _ENDS_OPERAND

    # ---------------------------------------------------------------------------------------------- brackets

    def symbol(self, token: Token) -> int:
        self.tokens.append(token)
        if token.kind in _CLOSES:
            self.brackets.append(token)
            self.check_depth()
        elif token.kind in _CLOSERS:
            self.close_bracket(token)
        elif token.kind == ":":
            self.header = self.header and bool(self.brackets)
        return token.end

    def close_bracket(self, closer: Token) -> None:
        if not self.brackets:
            self.report(E0103, closer.start, closer.end, closer=closer.text, problem="closes nothing")
            self.tokens.pop()
            return
        opener = self.brackets.pop()
        expected = _CLOSES[opener.text]
        if closer.text != expected:
            problem = f"does not close `{opener.text}`"
            label = f"`{expected}` is expected here"
            draft = self.report(E0103, closer.start, closer.end, label, closer=closer.text, problem=problem)
            draft.note(self.source.span(opener.start, opener.end), "opened here")
            self.tokens[-1] = closer._replace(kind=expected)

    def check_depth(self) -> None:
        """Too deep an item is given up: parser and later rooms take stack in proportion to depth."""
        blocks = len(self.indents) - 1
        if blocks > MAX_BLOCKS or len(self.brackets) + blocks > MAX_NESTING:
            last, limit = self.tokens[-1], MAX_BLOCKS if blocks > MAX_BLOCKS else MAX_NESTING
            self.report(E0114, last.start, max(last.end, last.start + 1), limit=limit)
            self.tokens.clear()
            self.brackets.clear()
            self.end = 0

    # ------------------------------------------------------------------------------------------------ layout

    def check_first_line(self, begin: int) -> None:
        """An item starts at column 0."""
        found = _INDENTATION.match(self.source.text, begin, self.end)
        if found and not self.in_brackets:
            self.report(E0105, begin, found.end(), problem="this line is indented, but it is in no block")

    def line_end(self, token: Token) -> int:
        if self.brackets or self.in_brackets or not self.tokens or self.tokens[-1].kind in _LAYOUT:
            return token.end
        self.header = False
        self.tokens.append(Token("_NEWLINE", "", token.start, token.start))
        if token.end < self.end:
            indent = token.text[token.text.rindex("\n") + 1 :]
            self.indent_to(indent, token)
        return token.end

    def indent_to(self, indent: str, newline: Token) -> None:
        current, end = self.indents[-1], newline.end
        if indent == current:
            return
        if indent.startswith(current):
            self.indents.append(indent)
            self.tokens.append(Token("_INDENT", "", end, end))
            self.check_depth()
            return
        if not current.startswith(indent):  # the line is taken to belong to the block it stands in
            self.report(E0106, end - len(indent), end, _describe(indent))
            return
        while len(self.indents[-1]) > len(indent):
            if len(self.indents[-2]) < len(indent):
                problem = "this indentation matches no block around it"
                self.report(E0105, end - len(indent), end, _describe(indent), problem=problem)
                self.indents[-1] = indent
                return
            self.indents.pop()
            self.tokens.append(Token("_DEDENT", "", newline.start, newline.start))

    def close(self) -> None:
        if self.brackets:
            opener = self.brackets[-1]
            draft = self.report(E0102, opener.start, opener.end, opener=opener.text)
            self.suggest_closing(draft, opener)
        if not self.tokens:
            return
        end = self.tokens[-1].end
        if self.tokens[-1].kind not in _LAYOUT:
            self.tokens.append(Token("_NEWLINE", "", end, end))
        self.tokens += [Token("_DEDENT", "", end, end)] * (len(self.indents) - 1)

    def suggest_closing(self, draft: Draft, opener: Token) -> None:
        """At the end of the line, before the colon of one that opens a block."""
        line_end = self.source.text.find("\n", opener.end)
        line = self.source.text[opener.start : line_end if line_end >= 0 else None]
        code = line.partition("#")[0].rstrip()
        code = code[:-1] if code.endswith(":") else code
        at = opener.start + len(code)
        if code[-1:] not in ",=+-*/%@.":
            draft.replace("close it on its line", self.source.span(at, at), _CLOSES[opener.text])

    # ---------------------------------------------------------------------------------- literals, the unknown

    def string(self, token: Token) -> int:
        before = self.tokens[-1] if self.tokens else token
        if before.kind == "NAME" and before.end == token.start:
            self.tokens.pop()
            bytes_ = "b" in before.text.lower()
            feature = "a bytes literal" if bytes_ else f"the string prefix `{before.text}`"
            draft = self.report(E0107, before.start, before.end, feature=feature)
            draft.remark("strings are text; the prefixes are `r` (raw) and `f` (with values in it)")
        self.tokens.append(token)
        return token.end

    def number(self, token: Token) -> int:
        """A number may not touch letters: `10L`, `2x`, `1j`."""
        self.tokens.append(token)
        tail = _WORD.match(self.source.text, token.end, self.end)
        if tail is None:
            return token.end
        if tail[0] in "jJ":
            draft = self.report(E0107, token.start, tail.end(), feature="an imaginary literal")
            at = self.source.span(token.start, tail.end())
            draft.replace("write it with `complex`", at, f"complex(0, {token.text})")
        else:
            self.report(E0109, token.start, tail.end(), text=token.text + tail[0])
        return tail.end()

    def unknown(self, position: int) -> int:
        """Report what no pattern matches at `position`, and return where to go on."""
        if self.source.text[position] in "\"'":
            return self.unclosed_string(position)
        self.bad_character(position)
        return position + 1

    def unclosed_string(self, position: int) -> int:
        quote = self.source.text[position]
        triple = self.source.text.startswith(quote * 3, position)
        newline = self.source.text.find("\n", position, self.end)
        end = self.end if triple or newline < 0 else newline
        draft = self.report(E0104, position, position + (3 if triple else 1), "opened here")
        if not triple:
            draft.remark("a string ends on its line; use three quotes for several lines")
        self.tokens.append(Token("STRING", '""', position, end))
        return end

    def bad_character(self, position: int) -> None:
        """One report per line: text copied from elsewhere tends to be full of them."""
        if position < self.quiet_until:
            return
        newline = self.source.text.find("\n", position, self.end)
        self.quiet_until = newline if newline >= 0 else self.end
        character = self.source.text[position]
        draft = self.report(E0108, position, position + 1, character=_character_name(character))
        meant = " " if character.isspace() else _LOOKALIKES.get(character)
        if meant:
            what = "a space" if meant == " " else f"`{meant.rstrip()}`"
            draft.replace(f"write {what}", self.source.span(position, position + 1), meant)


def _describe(indent: str) -> str:
    names = {" ": "space", "\t": "tab", "\f": "form feed"}
    runs = re.findall(r"((.)\2*)", indent, re.DOTALL)
    return "indented by " + ", ".join(f"{len(run)} {names[c]}{'s' * (len(run) > 1)}" for run, c in runs)


def _character_name(character: str) -> str:
    if character == "\0":
        return "a NUL byte"
    if character.isprintable() and not character.isspace():
        return f"`{character}`"
    return f"the character U+{ord(character):04X} ({unicodedata.name(character, 'unnamed')})"
