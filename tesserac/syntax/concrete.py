"""The concrete tree: every token of an item, in order, under the rule of the grammar that took it.

In: a part of a file that parses. Out: a `Branch` per rule, whose parts are `Leaf` tokens and branches in the order of
the text. The AST says what a program means; this says how it is written, which is what the formatter needs. It comes
from the same machine and grammar, so there is no second parser.

Brackets that only group, which make no rule of their own, become branches of kind `group`: `(`, a value, `)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Literal, NamedTuple

from tesserac.base.dataclass import dataclass
from tesserac.base.source import SourceFile
from tesserac.diag.sink import Sink
from tesserac.syntax.lalr import Machine, SyntaxFailure
from tesserac.syntax.lexer import tokenize
from tesserac.syntax.tables import load_tables

GROUP = "group"
OPENERS = frozenset("([{")
CLOSERS = frozenset(")]}")
EXPRESSIONS = frozenset(
    (
        "name", "number", "string", "true", "false", "none_literal", "ellipsis_literal", "tuple_expr", "list_expr",
        "dict_expr", "list_comprehension", "dict_comprehension", "unary_op", "binary_op", "logical_op", "comparison",
        "conditional", "lambda", "call", "attribute", "subscript", "function_type", GROUP,
    )
)  # fmt: skip
"""The rules that stand for a value, and groups of them."""


class Leaf(NamedTuple):
    """A token as it is written. `number` counts the tokens of the item."""

    number: int
    kind: str
    text: str
    start: int
    end: int

    @property
    def first(self) -> int:
        return self.number

    @property
    def last(self) -> int:
        return self.number


@dataclass(frozen=True, slots=True)
class Branch:
    """What one rule took, never empty. `first` and `last` are the numbers of its outermost leaves."""

    kind: str
    parts: tuple[Leaf | Branch, ...]
    first: int
    last: int

    @property
    def branches(self) -> list[Branch]:
        return [part for part in self.parts if isinstance(part, Branch)]

    @property
    def leaves(self) -> list[Leaf]:
        """The tokens directly below."""
        return [part for part in self.parts if isinstance(part, Leaf)]


Part = Leaf | Branch


@dataclass(frozen=True, slots=True)
class Concrete:
    root: Branch
    leaves: tuple[Leaf, ...]


def parse_concrete(
    source: SourceFile, start: int, end: int, rule: Literal["item_input", "expression_input"] = "item_input"
) -> Concrete | None:
    """The tree of a part of a file; None if it has an error of syntax."""
    sink = Sink()
    tokens = tokenize(source, sink, start, end, in_brackets=rule == "expression_input").tokens
    written = [token for token in tokens if token.start < token.end]
    leaves = [Leaf(i, t.kind, source.text[t.start : t.end], t.start, t.end) for i, t in enumerate(written)]
    if sink.diagnostics or not leaves:
        return None
    failures: list[SyntaxFailure] = []
    root = _machine().run(rule, tokens, _reduced, failures.append)
    if failures or not isinstance(root, _Reduced):
        return None
    return Concrete(_Assembly(leaves).branch(root), tuple(leaves))


@cache
def _machine() -> Machine:
    return Machine(load_tables())


class _Reduced(NamedTuple):
    """A rule that was reduced: its place in the text, and the rules below it."""

    kind: str
    start: int
    end: int
    below: list[_Reduced]


def _reduced(kind: str, start: int, end: int, children: list[object]) -> _Reduced:
    """A rule that took no text has `end <= start`, and is left out."""
    return _Reduced(kind, start, end, [c for c in children if isinstance(c, _Reduced) and c.start < c.end])


class _Assembly:
    """Puts the tokens, dropped or kept by the grammar, back between the rules."""

    def __init__(self, leaves: Sequence[Leaf]) -> None:
        self._leaves = leaves
        self._next = 0

    def branch(self, reduced: _Reduced) -> Branch:
        first = self._next
        parts: list[Part] = []
        for below in reduced.below:
            self._take_until(below.start, parts)
            parts.append(self.branch(below))
        self._take_until(reduced.end, parts)
        grouped = parts if len(parts) < 3 else _with_groups(parts)
        return Branch(reduced.kind, tuple(grouped), first, self._next - 1)

    def _take_until(self, offset: int, parts: list[Part]) -> None:
        while self._next < len(self._leaves) and self._leaves[self._next].start < offset:
            parts.append(self._leaves[self._next])
            self._next += 1


def _with_groups(parts: list[Part]) -> list[Part]:
    """`(`, one value, `)` become a group. Other brackets hold a rule that is no value, or several parts."""
    result: list[Part] = []
    for part in parts:
        result.append(part)
        if len(result) >= 3 and _is_group(*result[-3:]):
            opener, closer = result[-3], result[-1]
            result[-3:] = [Branch(GROUP, tuple(result[-3:]), opener.first, closer.last)]
    return result


def _is_group(opener: Part, value: Part, closer: Part) -> bool:
    brackets = isinstance(opener, Leaf) and opener.kind == "(" and isinstance(closer, Leaf) and closer.kind == ")"
    return brackets and isinstance(value, Branch) and value.kind in EXPRESSIONS
