"""The LALR(1) machine: tokens in, what the actions made of them out.

An error does not end the parse. The machine goes back to where the spoiled line began, takes the line (with the
block it opened) for an `_ERROR` token, and goes on; only when no statement may stand there is the item given up. All
errors of an item come out of one pass, and a function with a half-typed line still has its signature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tesserac.base.dataclass import dataclass
from tesserac.syntax.lexer import Token
from tesserac.syntax.tables import END, Rule, Tables

_EMPTY_LINE: tuple[str, ...] = ("_ERROR", "_NEWLINE")
_EMPTY_BLOCK: tuple[str, ...] = ("_INDENT", "_ERROR", "_NEWLINE", "_DEDENT")

MAX_ERRORS = 20
"""Of one item; more of them say that it is not a program."""

Make = Callable[[str, int, int, list[object]], object]
"""Makes a value: of an action's name, the offsets where the rule's text starts and ends, and its children."""


@dataclass(frozen=True, slots=True)
class SyntaxFailure:
    """`tokens[at]` cannot follow what is before it; `expected` could. `first` is where its line begins."""

    tokens: Sequence[Token]
    first: int
    at: int
    expected: frozenset[str]


class Stack(NamedTuple):
    """States, and beside each the value that led to it with the offsets of its text."""

    states: list[int]
    values: list[object]
    starts: list[int]
    ends: list[int]

    def copy(self) -> Stack:
        return Stack(self.states[:], self.values[:], self.starts[:], self.ends[:])

    def push(self, state: int, value: object, start: int, end: int) -> None:
        self.states.append(state)
        self.values.append(value)
        self.starts.append(start)
        self.ends.append(end)


class Machine:
    """The tables made ready to run, any number of times."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._passes = [not r.action and not r.splices and r.size == 1 for r in tables.rules]
        self._jumps: dict[tuple[int, int, str], int] = {}

    def run(self, start: str, tokens: list[Token], make: Make, report: Callable[[SyntaxFailure], None]) -> object:
        """Parse all of `tokens`, whose last ends a line; None if they were given up.

        The list is changed where errors are passed over, so `report` must not keep it.
        """
        tokens.append(Token(END, "", tokens[-1].end, tokens[-1].end))
        stack = Stack([self._tables.starts[start]], [None], [tokens[0].start], [tokens[0].start])
        saved, first, at, failures = stack.copy(), 0, 0, 0
        while True:
            if at == first:
                saved = stack.copy()
            kind = tokens[at].kind
            if self._step(stack, tokens[at], make):
                if kind == END:
                    return stack.values[-2]
                at += 1
                first = at if kind in ("_NEWLINE", "_INDENT", "_DEDENT") else first
                continue
            report(SyntaxFailure(tokens, first, at, self._expected(saved, tokens[first:at])))
            failures += 1
            stack = saved.copy()
            if failures == MAX_ERRORS or not self._recover(stack, tokens, first, at):
                return None
            at = first

    def _step(self, stack: Stack, token: Token, make: Make) -> bool:
        """Reduce as long as the token asks for it, then shift it; False if it cannot follow."""
        states, kind, actions = stack.states, token.kind, self._tables.actions
        while True:
            action = actions[states[-1]].get(kind)
            if action is None:
                return False
            if action >= 0:
                stack.push(action, token, token.start, token.end)
                return True
            if self._passes[~action]:
                states[-1] = self._pass_through(states[-2], states[-1], kind)
            else:
                self._reduce(stack, self._tables.rules[~action], token, make)

    def _pass_through(self, below: int, state: int, kind: str) -> int:
        """The state after all the `?rule: child` reductions in a row that `kind` asks for.

        They change nothing but the state, and an operand goes through fifteen of them, so the end is remembered.
        """
        key = (below, state, kind)
        if key not in self._jumps:
            goto, rules = self._tables.gotos[below], self._tables.rules
            while (action := self._tables.actions[state].get(kind, 0)) < 0 and self._passes[~action]:
                state = goto[rules[~action].left]
            self._jumps[key] = state
        return self._jumps[key]

    def _reduce(self, stack: Stack, rule: Rule, lookahead: Token, make: Make) -> None:
        states, values, starts, ends = stack
        count = len(values) - rule.size
        taken = values[count:]
        start = starts[count] if rule.size else lookahead.start
        end = ends[-1]
        del states[count:], values[count:], starts[count:], ends[count:]
        value: object
        if rule.action:
            value = make(rule.action, start, end, _children(rule.kept, taken))
        else:
            value = _chain(rule, taken) if rule.splices else taken[rule.kept[0]]
        stack.push(self._tables.gotos[states[-1]][rule.left], value, start, end)

    # ---------------------------------------------------------------------------------------------- recovery

    def _recover(self, stack: Stack, tokens: list[Token], first: int, at: int) -> bool:
        """Replace the spoiled tokens, from `first` on, by ones that can follow; False if there are none."""
        kinds: tuple[str, ...]
        if tokens[first].text == "@" and tokens[_statement_end(tokens, first)].text in ("@", "def"):
            end, kinds = _statement_end(tokens, first), ()  # what is decorated stands behind
        elif tokens[at].kind == "_INDENT":  # a block that nothing opens, which begins its line
            end, kinds = _block_end(tokens, at), _EMPTY_LINE if self._accepts(stack, _EMPTY_LINE) else ()
        elif self._accepts(stack, _EMPTY_BLOCK):
            end, kinds = first, _EMPTY_BLOCK
        elif self._accepts(stack, _EMPTY_LINE) and tokens[first].kind not in ("_DEDENT", END):
            end, kinds = _statement_end(tokens, first), _EMPTY_LINE
        else:
            return False
        start = tokens[first].start
        stop = max(tokens[end - 1].end, start)
        tokens[first:end] = [Token(kind, "", start, stop) for kind in kinds]
        return True

    def _after(self, states: list[int], kinds: Iterable[str]) -> list[int] | None:
        """The states after these tokens, which nothing is made of; None if they cannot follow."""
        states = states[:]
        for kind in kinds:
            while (action := self._tables.actions[states[-1]].get(kind)) is not None and action < 0:
                rule = self._tables.rules[~action]
                del states[len(states) - rule.size :]
                states.append(self._tables.gotos[states[-1]][rule.left])
            if action is None:
                return None
            states.append(action)
        return states

    def _accepts(self, stack: Stack, kinds: Sequence[str]) -> bool:
        return self._after(stack.states, kinds) is not None

    def _expected(self, line_start: Stack, line: Sequence[Token]) -> frozenset[str]:
        """What could follow the line so far. The stack at the error does not tell: an LALR machine may have
        reduced on a token that is wrong."""
        states = self._after(line_start.states, (token.kind for token in line))
        assert states is not None  # these tokens were taken
        return frozenset(k for k in self._tables.actions[states[-1]] if self._after(states, (k,)))


class _Chain(NamedTuple):
    """The children of a `_rule`, those of a shorter one first: lists grow at their end in constant time."""

    before: _Chain | None
    items: list[object]

    def all(self) -> list[object]:
        links: list[list[object]] = []
        link: _Chain | None = self
        while link is not None:
            links.append(link.items)
            link = link.before
        return [item for items in reversed(links) for item in items]


def _chain(rule: Rule, values: list[object]) -> _Chain:
    first = values[0] if rule.kept[:1] == (0,) else None
    if isinstance(first, _Chain):
        return _Chain(first, _children(rule.kept[1:], values))
    return _Chain(None, _children(rule.kept, values))


def _children(kept: Sequence[int], values: list[object]) -> list[object]:
    children: list[object] = []
    for position in kept:
        value = values[position] if position >= 0 else None
        if isinstance(value, _Chain):
            children += value.all()
        else:
            children.append(value)
    return children


def _block_end(tokens: Sequence[Token], index: int) -> int:
    """The index after the `_DEDENT` that matches the `_INDENT` at `index`."""
    depth = 0
    while tokens[index].kind != END:
        depth += (tokens[index].kind == "_INDENT") - (tokens[index].kind == "_DEDENT")
        index += 1
        if depth == 0:
            break
    return index


def _statement_end(tokens: Sequence[Token], index: int) -> int:
    """The index after the line at `index`, the block it opens, and the `elif` and `else` that go with it."""
    while True:
        while tokens[index].kind not in ("_NEWLINE", END):
            index += 1
        index += tokens[index].kind == "_NEWLINE"
        if tokens[index].kind == "_INDENT":
            index = _block_end(tokens, index)
        if tokens[index].kind not in ("elif", "else"):
            return index
