"""The parser's tables: built from `grammar/tessera.lark` by Lark, kept as plain JSON.

Lark generates (0.6 s, strictly: a conflict is an error), this module writes down what it found: patterns of the
terminals, rules with the shape of their children, and the LALR(1) actions. At run time the tables are loaded, from
the package if packaging shipped them, else from the user's cache, and Lark is not even imported. Tables are valid
for exactly one text of the grammar.

Terminals written as quoted text in the grammar are known by that text (`"def"`, `"<="`), others by name (`NAME`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, cast

from tessera.cache import default_directory, read_entry, write_entry
from tesserac.base.dataclass import dataclass
from tesserac.base.resources import grammar_text, shipped_tables_text

if TYPE_CHECKING:
    from lark.grammar import Rule as LarkRule
    from lark.lexer import TerminalDef
    from lark.parsers.lalr_analysis import IntParseTable

FORMAT = 3
"""Raised when the meaning of the JSON changes."""

STARTS = ("item_input", "expression_input")
END = "$END"


@dataclass(frozen=True, slots=True)
class Rule:
    """`left: <size symbols>`. `kept` lists the children in order: a position, or -1 for an absent `[...]`.

    `action` names what is made of the children. It is empty for a rule that makes nothing: a `_rule`, which
    `splices` its children into its parent's, or a `?rule`, which stands for its only child.
    """

    left: str
    size: int
    action: str
    kept: tuple[int, ...]
    splices: bool


Row = dict[str, int]


class Rows(dict[int, Row]):
    """By state, a number for each symbol that may follow. A row is read when a text first comes to its state: a small
    program comes to a quarter of them."""

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__()
        self.texts = tuple(texts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self.texts == other.texts

    def __missing__(self, state: int) -> Row:
        words = self.texts[state].split()
        row = self[state] = dict(zip(words[::2], map(int, words[1::2]), strict=False))
        return row


def _row_text(row: Row) -> str:
    return " ".join([f"{symbol} {number}" for symbol, number in row.items()])  # no symbol of the grammar has a space


@dataclass(frozen=True, slots=True)
class Tables:
    """`actions[state][terminal]` is a state to shift to, or `~rule` to reduce by. Accepting is shifting `$END`."""

    key: str
    patterns: tuple[tuple[str, str], ...]
    ignored: tuple[str, ...]
    texts: tuple[str, ...]
    rules: tuple[Rule, ...]
    starts: Row
    actions: Rows
    gotos: Rows


@cache
def load_tables() -> Tables:
    """The tables of the installed grammar: shipped, cached, or built now and cached."""
    grammar = grammar_text()
    key = _key(grammar)
    entry = default_directory(), tables_name(key), f"grammar {key}"
    for text in (shipped_tables_text(), read_entry(*entry)):
        tables = decode(text) if text is not None else None
        if tables is not None and tables.key == key:
            return tables
    built = build(grammar)
    write_entry(*entry, encode(built).encode())
    return built


def tables_name(key: str) -> str:
    """What the file in the user's cache is called that keeps the tables of a grammar."""
    return f"grammar-{key}.json"


def _key(grammar: str) -> str:
    return hashlib.sha256(f"{FORMAT}\n{grammar}".encode()).hexdigest()[:32]


def encode(tables: Tables) -> str:
    data = {name: getattr(tables, name) for name in ("key", "patterns", "ignored", "texts", "starts")}
    data |= {"rules": [(r.left, r.size, r.action, r.kept, r.splices) for r in tables.rules]}
    data |= {"actions": tables.actions.texts, "gotos": tables.gotos.texts}
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def decode(text: str | bytes) -> Tables | None:
    """The tables that `encode` wrote, or None for anything else, such as a damaged file."""
    try:
        data = json.loads(text)
        return Tables(
            key=data["key"],
            patterns=tuple((name, pattern) for name, pattern in data["patterns"]),
            ignored=tuple(data["ignored"]),
            texts=tuple(data["texts"]),
            rules=tuple([Rule(left, size, action, tuple(kept), s) for left, size, action, kept, s in data["rules"]]),
            starts=data["starts"],
            actions=Rows(data["actions"]),
            gotos=Rows(data["gotos"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def build(grammar: str) -> Tables:
    """Run Lark's LALR analysis on a grammar. A grammar with a conflict raises `lark.GrammarError`."""
    from lark.common import ParserConf
    from lark.load_grammar import load_grammar
    from lark.parsers.lalr_analysis import LALR_Analyzer

    loaded, _ = load_grammar(grammar, "tessera.lark", [], False)  # type: ignore[no-untyped-call]
    terminals, rules, ignored = loaded.compile(list(STARTS), "*")
    analyzer = LALR_Analyzer(ParserConf(rules, {}, list(STARTS)), strict=True)
    analyzer.compute_lalr()  # type: ignore[no-untyped-call]
    table = cast("IntParseTable", analyzer.parse_table)
    starts, actions, gotos = _rows(table, terminals, rules)
    patterns = [t for t in terminals if t.pattern.type == "re" and t.name not in ignored]
    return Tables(
        key=_key(grammar),
        patterns=tuple((t.name, _regex(t)) for t in patterns),
        ignored=tuple(_regex(t) for t in terminals if t.name in ignored),
        texts=tuple(t.pattern.value for t in terminals if t.pattern.type == "str"),
        rules=tuple(_rule(rule) for rule in rules),
        starts=starts,
        actions=actions,
        gotos=gotos,
    )


def _rows(
    table: IntParseTable, terminals: Sequence[TerminalDef], rules: Sequence[LarkRule]
) -> tuple[Row, Rows, Rows]:
    """Lark's table as numbers: start states, and per state the actions on terminals and states after rules."""
    from lark.parsers.lalr_analysis import Shift

    ids = {terminal.name: _terminal_id(terminal) for terminal in terminals}
    rule_number = {rule: index for index, rule in enumerate(rules)}
    state_number = _numbering(table)
    nonterminals = {rule.origin.name for rule in rules}
    actions: list[Row] = []
    gotos: list[Row] = []
    for state in state_number:
        row = {
            symbol: state_number[to] if action is Shift else ~rule_number[to]
            for symbol, (action, to) in sorted(table.states[state].items())
        }
        actions.append({ids.get(s, s): to for s, to in row.items() if s not in nonterminals})
        gotos.append({s: to for s, to in row.items() if s in nonterminals})
    for end in table.end_states.values():
        actions[state_number[end]][END] = state_number[end]
    starts = {start: state_number[s] for start, s in table.start_states.items()}
    return starts, Rows([*map(_row_text, actions)]), Rows([*map(_row_text, gotos)])


def _numbering(table: IntParseTable) -> dict[int, int]:
    """The states in the order they are reached, so that one grammar always gives the same tables."""
    from lark.parsers.lalr_analysis import Shift

    reached = [table.start_states[start] for start in STARTS]
    for state in reached:  # grows as it goes
        targets = [to for _, (action, to) in sorted(table.states[state].items()) if action is Shift]
        reached += [to for to in dict.fromkeys(targets) if to not in set(reached)]
    return {state: number for number, state in enumerate(reached)}


def _terminal_id(terminal: TerminalDef) -> str:
    return terminal.pattern.value if terminal.pattern.type == "str" else terminal.name


def _regex(terminal: TerminalDef) -> str:
    flags = "".join(sorted(terminal.pattern.flags))
    return f"(?{flags}:{terminal.pattern.value})"


def _rule(rule: LarkRule) -> Rule:
    """What Lark's tree builder would do with this rule's children, written down."""
    name = str(rule.origin.name)
    absent = rule.options.empty_indices or (False,) * len(rule.expansion)
    symbols = iter(enumerate(rule.expansion))
    kept: list[int] = []
    for is_absent in absent:
        position, symbol = (-1, None) if is_absent else next(symbols)
        if symbol is None or rule.options.keep_all_tokens or not getattr(symbol, "filter_out", False):
            kept.append(position)
    makes_node = bool(rule.alias) or not (name.startswith("_") or rule.options.expand1)
    return Rule(
        left=name,
        size=len(rule.expansion),
        action=str(rule.alias or name) if makes_node else "",
        kept=tuple(kept),
        splices=name.startswith("_"),
    )
