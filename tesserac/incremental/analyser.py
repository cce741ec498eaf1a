"""A file that is being edited: what is known of its text now, kept between edits.

In: the text after each edit. Out: an `Analysis`, with every item as it was last checked and all diagnostics. Items
whose own text is new are checked at once. Those that only use something new are read as before until `step` gets
to them, so that the line under the cursor never waits for the rest of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.base.source import NO_SPAN, SourceFile, Span
from tesserac.check.infer import CheckResult, Imported, check_module
from tesserac.check.names.cascades import all_said
from tesserac.check.names.lint import Piece, lint
from tesserac.check.names.resolve import ImportPath
from tesserac.diag.diagnostic import Diagnostic, Severity
from tesserac.incremental.findings import Finding, Key, key_of
from tesserac.incremental.outline import Outline, OutlineItem, defined_names, usage
from tesserac.syntax import ast
from tesserac.syntax.parse import ParsedItem, moved_item, stray_docs, too_large
from tesserac.types.ty import Type

BATCH = 24
"""Items that one step of `step` takes."""

AT_ONCE = 4
"""More new items than this, as when a file is opened, wait for `step` too."""

KEPT_FINDINGS = 128
"""Findings kept beyond those in use, so that undoing an edit finds them again."""

Reads = tuple[tuple[str, str], ...]
ImportsOf = Callable[[ast.Module, str], tuple[Mapping[ImportPath, Imported], Reads]]
"""What the imports of a module mean, by the module and its path, and the files read for that with their digests."""


@dataclass(frozen=True, eq=False)
class ItemView:
    """An item as it was last checked. Its nodes may stand `shift` characters before where the item is now."""

    span: Span
    nodes: tuple[ast.Item, ...]
    shift: int
    result: CheckResult | None

    def type_of(self, node: ast.Expr) -> Type | None:
        return self.result.types.get(node) if self.result is not None else None

    def now(self, span: Span) -> Span:
        """A place in a node, as a place in the text as it is."""
        return Span(span.file, span.start + self.shift, span.end + self.shift)


@dataclass(frozen=True, eq=False)
class Analysis:
    """`pending` counts the items that are shown as they were before something they use has changed."""

    source: SourceFile
    outline: Outline
    items: tuple[ItemView, ...]
    diagnostics: tuple[Diagnostic, ...]
    pending: int

    def item_at(self, offset: int) -> ItemView | None:
        index = self.outline.index_at(offset)
        return None if index is None else self.items[index]


class Analyser:
    """One file, through its edits."""

    def __init__(self, module: str, library: Sequence[CheckResult], imports_of: ImportsOf) -> None:
        self._module = module
        self._library = library
        self._imports_of = imports_of
        self._reads: dict[str, str] = {}
        self._findings: dict[Key, Finding] = {}
        self._latest: dict[ParsedItem, Finding] = {}
        self._wrong: set[tuple[str, ...]] = set()  # items, by what they define, that had diagnostics the last time
        self._state: _State | None = None
        self._has_failed = False

    @property
    def reads(self) -> Reads:
        """The other files that what is known depends on."""
        return tuple(self._reads.items())

    def update(self, source: SourceFile) -> Analysis:
        """What is known of this text after checking the items that are new in it."""
        if self._state is None or self._state.source.text != source.text:
            self._state = self._read(source)
            self._check_new(self._state)
        return self._state.analysis(self._latest)

    def focus(self, offset: int) -> Analysis:
        """The same with the item at an offset checked, whatever waits before it."""
        state = self._state
        assert state is not None, "nothing was read yet"
        index = state.outline.index_at(offset)
        if index is not None and index not in state.found:
            self._check_alone(state, index)
        return state.analysis(self._latest)

    def step(self) -> Analysis:
        """Checks the next few items that wait. The text is the one of the last `update`."""
        state = self._state
        assert state is not None, "nothing was read yet"
        batch = state.missing[:BATCH]
        suspects = self._check_together(state, batch) if len(batch) > 1 else batch
        for index in suspects:
            self._check_alone(state, index)
        return state.analysis(self._latest)

    def whole(self, source: SourceFile) -> Analysis | None:
        """What is known of this text with nothing pending; None where the checker failed."""
        self._has_failed = False
        analysis = self.update(source)
        while analysis.pending:
            analysis = self.step()
        return None if self._has_failed else analysis

    # ------------------------------------------------------------------------------------------- between runs

    def learn(self, source: SourceFile, diagnostics: Sequence[Diagnostic]) -> None:
        """Takes in that the whole file was checked, with these diagnostics: items with clean contexts are known. One
        message may stand for several calls: then what they call is shown in it."""
        state = self._state = _State(source)
        shown = [label.span for d in diagnostics for label in (d.primary, *d.secondary)]
        wrong = {state.outline.index_at(span.start) for span in shown if span.file == source.path}
        for index, context in enumerate(state.contexts):
            if wrong.isdisjoint(context):
                self._keep(state, index, None, ())

    def settle(self, source: SourceFile) -> Analysis | None:
        """What is to be said of a file, after checking all that is new together; None where the checker failed, or so
        much is wrong that checking the whole file is cheaper than finding out which items are to blame."""
        state = self._state = self._read(source)
        suspects = self._check_together(state, state.missing) if state.missing else []
        if len(suspects) > BATCH:
            return None
        for index in suspects:
            self._check_alone(state, index)
        return None if self._has_failed else state.analysis(self._latest)

    def items(self) -> tuple[OutlineItem, ...]:
        """The items of the last text."""
        return self._state.outline.items if self._state is not None else ()

    def known(self) -> dict[Key, Finding]:
        """The findings about the last text, without what a later run cannot use."""
        state = self._state
        assert state is not None, "nothing was read yet"
        found = state.found.items()
        return {state.keys[index]: replace(finding, nodes=(), result=None) for index, finding in found}

    def adopt(self, findings: Mapping[Key, Finding]) -> None:
        """Takes in what `known` gave in an earlier run, with the same imports."""
        self._findings.update(findings)

    def _read(self, source: SourceFile) -> _State:
        state = _State(source)
        for index in range(len(state.outline.items)):
            finding = self._findings.get(state.keys[index])
            if finding is not None and state.upholds(index, finding):
                state.found[index] = finding
        if len(self._findings) > len(state.found) + KEPT_FINDINGS:
            self._findings = {state.keys[index]: finding for index, finding in state.found.items()}
            self._latest = {finding.item.parsed: finding for finding in state.found.values()}
        return state

    def _check_new(self, state: _State) -> None:
        new = [index for index in state.missing if state.outline.items[index].parsed not in self._latest]
        if len(new) <= AT_ONCE:
            for index in new:
                self._check_alone(state, index)

    # ---------------------------------------------------------------------------------------------- checking

    def _check_alone(self, state: _State, index: int) -> None:
        """Checks an item in its context; names outside it matter only once there is something to say."""
        context = state.contexts[index]
        item = defined_names(state.outline.items[index].parsed)
        names = state.outline.names if item in self._wrong else frozenset()
        result = self._check(state, context, names)
        if result is not None and result.diagnostics and not names:
            result = self._check(state, context, state.outline.names)
        self._wrong.discard(item)
        if result is not None and result.diagnostics:
            self._wrong.add(item)
        self._keep(state, index, result, result.diagnostics if result is not None else ())

    def _check_together(self, state: _State, indices: Sequence[int]) -> list[int]:
        """Checks several items at once. Those whose context has anything wrong with it are left over."""
        union = sorted({used for index in indices for used in state.contexts[index]})
        result = self._check(state, union)
        if result is None:
            return list(indices)
        wrong = {state.outline.index_at(diagnostic.primary.span.start) for diagnostic in result.diagnostics}
        suspects = [index for index in indices if not wrong.isdisjoint(state.contexts[index])]
        for index in set(indices) - set(suspects):
            self._keep(state, index, result, ())
        return suspects

    def _check(
        self, state: _State, indices: Sequence[int], names: frozenset[str] = frozenset()
    ) -> CheckResult | None:
        """Checks some items of the file as a module; `names` are only there to be offered for misspelt ones."""
        own = {name for index in indices for name in defined_names(state.outline.items[index].parsed)}
        nodes = [node for index in indices for node in state.nodes(index)]
        nodes += [_stand_in(name) for name in sorted(names - own) if name.isidentifier()]
        module = ast.Module(state.source.span(0, len(state.source.text)), None, tuple(nodes))
        try:
            imports, reads = self._imports_of(module, state.source.path)
            self._reads.update(reads)
            return check_module(module, state.source, self._module, self._library, imports)
        except Exception:  # a fault of the checker spoils the item, not the editor
            _tell_log()
            self._has_failed = True
            return None

    def _keep(
        self, state: _State, index: int, result: CheckResult | None, diagnostics: tuple[Diagnostic, ...]
    ) -> None:
        items = state.outline.items
        context = tuple(items[used] for used in state.contexts[index])
        lines = state.lines_of(index) if diagnostics else ()
        finding = Finding(
            items[index], state.nodes(index), context, lines, state.outline.names, diagnostics, result
        )
        state.find(index, finding)
        self._findings[state.keys[index]] = finding
        self._latest[items[index].parsed] = finding


def _stand_in(name: str) -> ast.Item:
    """An item of that name, which nothing mentions: it stands for a type, since these are read only where used."""
    return ast.ConstDef(NO_SPAN, (ast.Name(NO_SPAN, name),), None, ast.Name(NO_SPAN, "int"))


class _State:
    """One text: its items, what checking each can read, and the findings so far."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.refusal = too_large(source)
        self.outline = Outline(source if self.refusal is None else SourceFile(source.path, ""))
        self.contexts = [self.outline.context(index) for index in range(len(self.outline.items))]
        self.keys = [key_of(self.outline, index, context) for index, context in enumerate(self.contexts)]
        self.found: dict[int, Finding] = {}
        self._analysis: Analysis | None = None

    def find(self, index: int, finding: Finding) -> None:
        self.found[index] = finding
        self._analysis = None

    @property
    def missing(self) -> list[int]:
        return [index for index in range(len(self.keys)) if index not in self.found]

    def upholds(self, index: int, finding: Finding) -> bool:
        return not finding.diagnostics or finding.holds(self.lines_of(index), self.outline.names)

    def lines_of(self, index: int) -> tuple[int, ...]:
        items = self.outline.items
        return tuple(self.source.position(items[used].span.start)[0] for used in self.contexts[index])

    def nodes(self, index: int) -> tuple[ast.Item, ...]:
        return _piece(self.outline.items[index]).items

    # ------------------------------------------------------------------------------------------- what is known

    def analysis(self, latest: Mapping[ParsedItem, Finding]) -> Analysis:
        if self._analysis is None:
            found = {**self._before(latest), **self.found}
            views = tuple(_view(item, found.get(index)) for index, item in enumerate(self.outline.items))
            every = all_said(self.source, self._syntax(), self._checked(found))
            said = {(d.code, d.primary.span): d for d in every}
            if not any(d.severity is Severity.ERROR for d in said.values()):
                said |= {(d.code, d.primary.span): d for d in self._lint()}
            ordered = sorted(said.values(), key=lambda d: d.primary.span.start)
            self._analysis = Analysis(self.source, self.outline, views, tuple(ordered), len(self.missing))
        return self._analysis

    def _before(self, latest: Mapping[ParsedItem, Finding]) -> dict[int, Finding]:
        """For items that wait: the last finding about the same text, if its context has not grown or shrunk."""
        known = ((index, latest.get(self.outline.items[index].parsed)) for index in self.missing)
        return {
            index: finding
            for index, finding in known
            if finding is not None and len(finding.context) == len(self.contexts[index])
        }

    def _syntax(self) -> list[Diagnostic]:
        if self.refusal is not None:
            return [self.refusal]
        pieces = [_piece(item) if _has_more(item.parsed) else item.parsed for item in self.outline.items]
        return [diagnostic for piece in pieces for diagnostic in piece.diagnostics] + stray_docs(pieces)

    def _lint(self) -> tuple[Diagnostic, ...]:
        pieces = [Piece(item.parsed.items, usage(item.parsed), item.by) for item in self.outline.items]
        return lint(pieces, self.source)

    def _checked(self, found: Mapping[int, Finding]) -> list[Diagnostic]:
        said: list[Diagnostic] = []
        for index, finding in sorted(found.items()):
            if finding.diagnostics:
                placed = finding.placed([self.outline.items[used] for used in self.contexts[index]])
                said += placed if index in self.found else self._own(index, placed)
        return said

    def _own(self, index: int, diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
        """Those that stand in the item itself: what was said of others may be mended by now."""
        _, start, end = self.outline.items[index].span
        return [diagnostic for diagnostic in diagnostics if start <= diagnostic.primary.span.start <= end]


def _has_more(item: ParsedItem) -> bool:
    """Whether an item has anything but nodes."""
    return bool(item.diagnostics) or item.doc is not None


def _piece(item: OutlineItem) -> ParsedItem:
    return moved_item(item.parsed, item.by) if item.by else item.parsed


def _view(item: OutlineItem, finding: Finding | None) -> ItemView:
    if finding is None:
        return ItemView(item.span, item.parsed.items, item.by, None)
    return ItemView(item.span, finding.nodes, item.span.start - finding.item.span.start, finding.result)


def _tell_log() -> None:
    """Writes the exception that is being handled to the log; where nobody listens, nothing comes to the terminal."""
    import logging  # here: nothing else of the compiler needs it

    log = logging.getLogger(__name__)
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    log.exception("checking failed")
