"""A file that is being edited: what is known of its text now, kept between edits.

In: the text after each edit. Out: an `Analysis`, with every item as it was last checked and all diagnostics. Items
whose own text is new are checked at once. Those that only use something new are read as before until `step` gets
to them, so that the line under the cursor never waits for the rest of the file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from tesserac.base.dataclass import dataclass
from tesserac.base.source import NO_SPAN, SourceFile, Span
from tesserac.check.infer import CheckResult, Imported, check_module
from tesserac.check.names.cascades import all_said
from tesserac.check.names.lint import Piece, lint
from tesserac.check.names.resolve import ImportPath
from tesserac.diag.diagnostic import Diagnostic, Severity
from tesserac.incremental.findings import Finding, Key, key_of
from tesserac.incremental.grounds import Contexts, Ground, Layout, ground_of, laid_out, nodes_of
from tesserac.incremental.outline import Named, Outline, OutlineItem, defined_names, usage
from tesserac.syntax import ast
from tesserac.syntax.parse import ParsedItem, moved_item, stray_docs, too_large
from tesserac.types.ty import Type

BATCH = 24
"""Items that one step of `step` takes."""

AT_ONCE = 4
"""More new items than this, as when a file is opened, wait for `step` too."""

KEPT_FINDINGS = 128
"""Findings kept beyond those in use, so that undoing an edit finds them again."""

KEPT_GROUNDS = 6
"""Checks that later ones may build on, beyond those of which findings are in use."""

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
        self._grounds: deque[Ground] = deque(maxlen=KEPT_GROUNDS)  # the last used first
        self._state: _State | None = None
        self._has_failed = False

    @property
    def reads(self) -> Reads:
        """The other files that what is known depends on."""
        return tuple(self._reads.items())

    @property
    def source(self) -> SourceFile | None:
        """The last text."""
        return self._state.source if self._state is not None else None

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
        for index in self._suspects(state, batch):
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
        suspects = self._suspects(state, state.missing)
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
        return {state.keys[index]: replace(finding, nodes=(), ground=None) for index, finding in found}

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
            for index in state.callees_first(new):
                self._check_alone(state, index)

    # ---------------------------------------------------------------------------------------------- checking

    def _check_alone(self, state: _State, index: int) -> None:
        """Checks an item in its context; names outside it matter only once there is something to say."""
        context = state.contexts[index]
        item = defined_names(state.outline.items[index].parsed)
        is_wrong = item in self._wrong or state.reads_wrong(index)
        names = state.outline.names if is_wrong else frozenset()
        checked = self._check(state, context, names)
        if checked is not None and checked.said_of(state, index) and not names:
            checked = self._check(state, context, state.outline.names)
        said = checked.said_of(state, index) if checked is not None else ()
        self._wrong.discard(item)
        if said:
            self._wrong.add(item)
        self._keep(state, index, checked, said)

    def _suspects(self, state: _State, indices: Sequence[int]) -> list[int]:
        """Those that have to be checked alone, after checking together what is likely right."""
        clear = [index for index in indices if not state.reads_wrong(index)]
        wrong = set(indices).difference(clear)
        wrong.update(self._check_together(state, clear) if len(clear) > 1 else clear)
        return state.callees_first(wrong)

    def _check_together(self, state: _State, indices: Sequence[int]) -> list[int]:
        """Checks several items at once. Those whose context has anything wrong with it are left over."""
        union = sorted({used for index in indices for used in state.contexts[index]})
        checked = self._check(state, union)
        if checked is None:
            return list(indices)
        suspects = [index for index in indices if state.outline.items[index].parsed not in checked.ground.clean]
        for index in set(indices) - set(suspects):
            self._keep(state, index, checked, ())
        return suspects

    def _check(self, state: _State, indices: Sequence[int], names: frozenset[Named] = frozenset()) -> _Checked | None:
        """Checks some items of the file as a module; `names` are only there to be offered for misspelt ones."""
        wanted = {state.outline.items[index].parsed for index in indices}
        found = state.to_check(indices)
        items, contexts = [state.outline.items[index] for index in found], state.contexts_of(found)
        grounds = self._known_grounds(state, indices) if state.is_distinct else ()
        layout = laid_out(state.source, items, contexts, wanted, names, grounds)
        try:
            result = self._result(layout)
            if not all(map(layout.can_tell, result.diagnostics)):
                layout = laid_out(state.source, items, contexts, wanted, names, ())
                result = self._result(layout)
        except Exception:  # a fault of the checker spoils the item, not the editor
            _tell_log()
            self._has_failed = True
            return None
        ground = ground_of(layout, result)
        self._use(layout.ground)
        self._use(ground)
        return _Checked(layout, ground)

    def _result(self, layout: Layout) -> CheckResult:
        own = {name for item in layout.items for name in defined_names(item.parsed)}
        others = (named for named in sorted(layout.names) if named.name not in own)
        offered = [_stand_in(named) for named in others if named.name.isidentifier()]
        nodes = [node for item in layout.items for node in nodes_of(item)]
        source = layout.source
        module = ast.Module(source.span(0, len(source.text)), None, (*nodes, *offered))
        imports, reads = self._imports_of(module, source.path)
        self._reads.update(reads)
        return check_module(module, source, self._module, self._library, imports, earlier=layout.earlier())

    def _known_grounds(self, state: _State, indices: Sequence[int]) -> Iterator[Ground]:
        yield from self._grounds
        findings = (state.found[index] for index in indices if index in state.found)
        yield from (finding.ground for finding in findings if finding.ground is not None)

    def _use(self, ground: Ground | None) -> None:
        if ground is not None:
            if ground in self._grounds:
                self._grounds.remove(ground)
            self._grounds.appendleft(ground)

    def _keep(
        self, state: _State, index: int, checked: _Checked | None, diagnostics: tuple[Diagnostic, ...]
    ) -> None:
        places = checked.layout.places if checked is not None and checked.layout.ground is not None else {}
        indices = (index, *state.contexts[index])
        item, *context = (places.get(i.parsed, i) for i in (state.outline.items[each] for each in indices))
        lines = state.lines_of(index) if diagnostics else ()
        ground = checked.ground if checked is not None else None
        finding = Finding(item, nodes_of(item), tuple(context), lines, state.outline.names, diagnostics, ground)
        state.find(index, finding)
        self._findings[state.keys[index]] = finding
        self._latest[item.parsed] = finding


@dataclass(frozen=True, eq=False)
class _Checked:
    layout: Layout
    ground: Ground

    def said_of(self, state: _State, index: int) -> tuple[Diagnostic, ...]:
        """What is wrong with the context of an item."""
        others = self.layout.contexts.keys() - state.keys[index][1]
        found = ((d, self.layout.item_at(d.primary.span)) for d in self.ground.result.diagnostics)
        return tuple(d for d, item in found if item is None or item.parsed not in others)


def _stand_in(named: Named) -> ast.Item:
    """An item of that name and kind, which nothing mentions. There is nothing in it to check: a function waits for its
    argument, and a value stands for a type, which is read where it is used."""
    name, kind = named
    if kind == "function":
        argument = ast.Parameter(NO_SPAN, "x", NO_SPAN, None, None, keyword_only=False)
        return ast.FunctionDef(NO_SPAN, (), name, NO_SPAN, (argument,), None, (), None, None, ())
    if kind == "struct":
        return ast.StructDef(NO_SPAN, name, NO_SPAN, (), None, (), ())
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

    def callees_first(self, indices: Iterable[int]) -> list[int]:
        """What an item can read has a smaller context."""
        return sorted(indices, key=lambda index: (len(self.contexts[index]), index))

    def reads_wrong(self, index: int) -> bool:
        """Whether something is known to be wrong with what an item can read."""
        return any(used in self.found and self.found[used].diagnostics for used in self.contexts[index])

    @property
    def missing(self) -> list[int]:
        return [index for index in range(len(self.keys)) if index not in self.found]

    def upholds(self, index: int, finding: Finding) -> bool:
        return not finding.diagnostics or finding.holds(self.lines_of(index), self.outline.names)

    def lines_of(self, index: int) -> tuple[int, ...]:
        items = self.outline.items
        return tuple(self.source.position(items[used].span.start)[0] for used in self.contexts[index])

    def contexts_of(self, indices: Sequence[int]) -> Contexts:
        return {self.outline.items[index].parsed: self.keys[index][1] for index in indices}

    @cached_property
    def is_distinct(self) -> bool:
        """Whether no two items are the same text."""
        return len({item.parsed for item in self.outline.items}) == len(self.outline.items)

    def to_check(self, indices: Sequence[int]) -> list[int]:
        """These and what those can read that still wait: later checks build on this one."""
        if not self.is_distinct:
            return list(indices)
        return sorted({*indices, *(used for index in self.missing for used in self.contexts[index])})

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
        """What the findings say, each thing once: an item tells what is wrong with its context too."""
        said: dict[tuple[str, Span], Diagnostic] = {}
        for index, finding in sorted(found.items()):
            if finding.diagnostics:
                placed = finding.placed([self.outline.items[used] for used in self.contexts[index]])
                told = placed if index in self.found else self._own(index, placed)
                said |= {(diagnostic.code, diagnostic.primary.span): diagnostic for diagnostic in told}
        return list(said.values())

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
