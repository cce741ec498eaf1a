"""Inputs are checked, compiled and run; names of the session change.

Enters: the text of an input. Leaves: the value of an expression, and diagnostics. An input with a mistake changes
nothing and raises ProgramError; a failed run raises TesseraError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from tessera.random_stream import Stream
from tesserac.base.dataclass import dataclass
from tesserac.base.recursion import deep_recursion
from tesserac.base.source import NO_SPAN, SourceFile, Span
from tesserac.check.infer import CheckResult, Earlier
from tesserac.check.model.typed import TypedFunction
from tesserac.check.module.checker import ModuleChecker
from tesserac.check.names.cascades import all_said
from tesserac.check.names.refs import BuiltinRef
from tesserac.diag.codes.names import E0201
from tesserac.diag.diagnostic import Diagnostic, Severity
from tesserac.driver.mending import with_mending_fixes
from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import Checked, Session
from tesserac.repl.transcript import Transcript
from tesserac.repl.values import Value, count_leaves, split
from tesserac.repl.workspace import INPUT, Workspace, assigned_names, input_function
from tesserac.syntax import ast
from tesserac.syntax.parse import parse_input, parse_module
from tesserac.types.ty import DTypeType, ErrorType, FunctionType, OperatorType, Type, parts

if TYPE_CHECKING:
    from tessera.devices import Gpu
    from tessera.dispatch import Compiled

MODULE = "repl"
LAST = "_"
"""The name of the last value shown."""

Statement = ast.Stmt | ast.Item


@dataclass(frozen=True)
class Prepared:
    """An input that checks: a function, and the values that it is to be called with."""

    span: Span
    source: SourceFile
    function: TypedFunction
    arguments: dict[str, Value]

    @property
    def type(self) -> Type:
        return self.function.result


@dataclass(frozen=True)
class _Known:
    """What was checked last: names of the session, beside these files."""

    workspace: Workspace
    files: tuple[CheckResult, ...]
    checked: Checked


class Engine:
    """One session. `warnings` are what the last input gave beside its result."""

    def __init__(self) -> None:
        self.session = Session()
        self.transcript = Transcript()
        self.workspace = Workspace()
        self.loaded: dict[str, Checked] = {}
        self.warnings: list[Diagnostic] = []
        self.stream = Stream()
        self.gpu: Gpu | None = None
        """Where inputs run; on the CPU without one."""
        self._known: _Known | None = None
        self._runs = True
        """Whether inputs that check are run."""

    def choose_device(self, name: str) -> None:
        """Has inputs run on a device from now on. Raises TesseraError where there is none of that name."""
        from tessera.devices import find_device

        self.gpu = find_device(name)

    def renew(self) -> None:
        """Starts over with what checking remembers, after it was interrupted half-way. Names stay."""
        self.session, self._known = Session(), None
        self.reload()

    def sources(self) -> Mapping[str, SourceFile]:
        """Every text that a diagnostic may speak of, by path."""
        return {**self.session.sources(), self.transcript.source.path: self.transcript.source}

    # ------------------------------------------------------------------------------------------------- inputs

    def submit(self, text: str) -> list[Value]:
        """Runs an input; the values of its expressions."""
        span = self.transcript.add(text)
        self.warnings = []
        values: list[Value | None] = []
        try:
            for statement in self._parse(span):
                values.append(self._execute(statement))
        except ProgramError as problem:
            said, number = problem.diagnostics, len(values)
            tried = with_mending_fixes(said, self.transcript.source, lambda s: self._suppose(s, span.start, number))
            raise ProgramError(tried) from None
        return [value for value in values if value is not None]

    def _suppose(self, source: SourceFile, start: int, number: int) -> Sequence[Diagnostic]:
        """What would be said of a statement of the input at `start` if this were the text. Those before it have run;
        this one is not run."""
        trial = copy(self)
        trial.transcript, trial.warnings, trial._runs = Transcript(), [], False
        trial.transcript.source = source
        try:
            statements = trial._parse(source.span(start, len(source.text) - 1))
            if number < len(statements):
                trial._execute(statements[number])
        except ProgramError as problem:
            return problem.diagnostics
        except _NotRunError:
            pass
        return trial.warnings

    def prepare(self, line: str, text: str) -> Prepared:
        """Checks an expression that stands at the end of, or inside, a line, without running it."""
        span = self.transcript.add_part(line, text)
        self.warnings = []
        statements = self._parse(span)
        last = statements[-1] if statements else None
        if len(statements) != 1 or not isinstance(last, ast.ExpressionStatement):
            raise NotAnExpression(text)
        return self._prepare((ast.Return(last.span, last.value),))

    def _parse(self, span: Span) -> Sequence[Statement]:
        statements, diagnostics = parse_input(self.transcript.source, span.start, span.end)
        if diagnostics:
            raise ProgramError(tuple(diagnostics))
        return statements

    def _execute(self, statement: Statement) -> Value | None:
        if isinstance(statement, ast.ExpressionStatement) and not self._is_print(statement.value):
            return self._show(statement)
        if isinstance(statement, ast.TestBlock):
            self._evaluate(statement.body)
        elif isinstance(statement, ast.Assignment):
            self._assign(statement)
        elif isinstance(statement, ast.Item):
            self._define(statement)
        else:
            self._update((statement,))
        return None

    def _is_print(self, node: ast.Expr) -> bool:
        """Whether it is a statement only, and no expression."""
        called = node.function if isinstance(node, ast.Call) else None
        return isinstance(called, ast.Name) and self.checker().resolve(called.id) == BuiltinRef("print")

    # -------------------------------------------------------------------------------------------- definitions

    def _define(self, item: ast.Item) -> None:
        """Accepts an item that is right in itself; what it breaks elsewhere is said as a warning would be."""
        workspace = self.workspace.define(item)
        self._check(self.workspace, NO_SPAN)
        known, checked = self._known, self._check(workspace, item.span)
        own = [d for d in checked.diagnostics if _within(d, item.span)]
        if any(d.severity is Severity.ERROR for d in own):
            self._known = known
            raise ProgramError(tuple(map(self._explained, own)))
        before = set() if known is None else {(d.code, d.primary.span) for d in known.checked.diagnostics}
        self.warnings += [d for d in checked.diagnostics if (d.code, d.primary.span) not in before]
        self.workspace = workspace

    def _explained(self, diagnostic: Diagnostic) -> Diagnostic:
        """Says why a name that is there at the prompt is not there in a function."""
        name = self.transcript.source.slice(diagnostic.primary.span)
        if diagnostic.code != E0201.id or name not in self.workspace.values:
            return diagnostic
        note = f"`{name}` is a value of the session, which functions do not see: give it a parameter"
        return replace(diagnostic, notes=(*diagnostic.notes, note))

    def _check(self, workspace: Workspace, span: Span, *more: ast.Item) -> Checked:
        files = tuple(file.result for file in self.loaded.values())
        known = self._known if self._known is not None and self._known.files == files else None
        if known is not None and known.workspace is workspace and not more:
            return known.checked
        source, earlier = self.transcript.source, None
        changed = None if known is None else workspace.changed_since(known.workspace, more, source)
        if known is not None and changed is not None:
            earlier = Earlier(known.checked.result, changed)
        checked = self.session.adopt(
            source, workspace.module(span, *more), MODULE, (*self.session.library, *files), earlier
        )
        if not more:
            self._known = _Known(workspace, files, checked)
        return checked

    def checker(self) -> ModuleChecker:
        """What the names mean now."""
        return self._check(self.workspace, NO_SPAN).result.checker

    def names(self) -> list[str]:
        """Every name that an input may use."""
        return list(dict.fromkeys([*self.workspace.names(), *self.checker().names.names()]))

    # ----------------------------------------------------------------------------------------------- evaluation

    def _show(self, statement: ast.ExpressionStatement) -> Value | None:
        prepared = self._prepare((ast.Return(statement.span, statement.value),))
        value = self._run(prepared)
        self.workspace = self.workspace.bind(LAST, value) if _can_be_bound(value.type) else self.workspace
        return value

    def _assign(self, statement: ast.Assignment) -> None:
        """A type, a dtype or a function gets a name as in a module; any other value is computed now."""
        constant = ast.ConstDef(statement.span, statement.targets, None, statement.value)
        if all(isinstance(target, ast.Name) for target in statement.targets) and self._is_type(constant):
            self._define(constant)
        else:
            self._update((statement,))

    def _is_type(self, constant: ast.ConstDef) -> bool:
        known = self._known
        names = self._check(self.workspace.define(constant), constant.span).result.checker.names
        self._known, target = known, constant.targets[0]
        return isinstance(target, ast.Name) and names.constant_is_type(target.id)

    def _update(self, statements: tuple[ast.Stmt, ...]) -> None:
        """Runs statements and binds what they assign."""
        names = assigned_names(statements)
        if not names:
            self._evaluate(statements)
            return
        span = statements[-1].span
        returned = ast.Return(span, ast.TupleExpr(span, tuple(ast.Name(span, name) for name in names)))
        prepared = self._prepare((*statements, returned))
        value = self._run(prepared)
        for name, item in zip(names, split(value.type, value.leaves, span), strict=True):
            self._bind(name, item, statements[0])

    def _bind(self, name: str, value: Value, statement: ast.Stmt) -> None:
        if _can_be_bound(value.type):
            self.workspace = self.workspace.bind(name, value)
        elif isinstance(statement, ast.Assignment):
            self._define(ast.ConstDef(statement.span, (ast.Name(statement.span, name),), None, statement.value))

    def _evaluate(self, statements: tuple[ast.Stmt, ...]) -> None:
        self._run(self._prepare(statements))

    def _prepare(self, body: tuple[ast.Stmt, ...]) -> Prepared:
        """Raises ProgramError."""
        span = body[0].span.to(body[-1].span)
        arguments = self.workspace.arguments(body)
        function = input_function(span, arguments, body)
        checked = self._check(self.workspace, span, function)
        with deep_recursion():
            types = tuple(value.type for value in arguments.values())
            instance = checked.result.checker.own_instance(INPUT, types)
        said = _once((*checked.diagnostics, *instance.diagnostics))
        own = [d for d in said if _within(d, span)]
        if instance.function is None or not _is_whole(checked, instance.function):
            raise ProgramError(tuple(own or said))
        self.warnings += [d for d in own if d.severity is Severity.WARNING]
        return Prepared(span, checked.source, instance.function, arguments)

    def _run(self, prepared: Prepared) -> Value:
        """Raises TesseraError, KeyboardInterrupt."""
        if is_known(prepared):
            return Value(prepared.type, (), prepared.span)
        if not self._runs:
            raise _NotRunError
        from tesserac.repl.running import run

        results = run(self.function(prepared), prepared.arguments.values(), self.stream)
        return Value(prepared.type, results, prepared.span)

    def function(self, prepared: Prepared) -> Compiled:
        """An input, compiled for where it runs."""
        from tesserac.repl.running import on_cpu, on_gpu

        if self.gpu is not None:
            return on_gpu(self.session, prepared.source, prepared.function, self.gpu)
        return on_cpu(self.session, prepared.source, prepared.function)

    # ---------------------------------------------------------------------------------------------------- files

    def load(self, path: str) -> None:
        """Brings the names of a file into scope, over those of the session. Raises ProgramError."""
        self.loaded[path] = checked = self._checked_file(path)
        self.workspace = self.workspace.without(set(checked.result.checker.names.public))

    def reload(self) -> None:
        """Reads all loaded files again. Raises ProgramError; those before the mistake are new then."""
        for path in list(self.loaded):
            self.loaded[path] = self._checked_file(path)

    def _checked_file(self, path: str) -> Checked:
        source = self.session.read(path)
        if isinstance(source, Diagnostic):
            raise ProgramError((source,))
        parsed = parse_module(source)
        others = tuple(file.result for known, file in self.loaded.items() if known != path)
        checked = self.session.adopt(source, parsed.module, f"file {path}", (*self.session.library, *others))
        said = all_said(source, parsed.diagnostics, checked.diagnostics)
        if any(d.severity is Severity.ERROR for d in said):
            raise ProgramError(tuple(said))
        self.warnings += said
        return checked


class _NotRunError(Exception):
    """An input checks; it was not to be run."""


class NotAnExpression(Exception):
    """A command was given something else."""


def is_known(prepared: Prepared) -> bool:
    """Whether checking alone has told the value, and running would do nothing more."""
    statement = prepared.function.body
    return count_leaves(prepared.type) == 0 and len(statement) <= 1 and not prepared.function.effects


def _is_whole(checked: Checked, function: TypedFunction) -> bool:
    """Whether all that an input calls is right: a definition may have been broken by a later one."""
    if _has_error(function.result):
        return False
    try:
        checked.result.reach(function)
    except KeyError:
        return False
    return True


def _has_error(type_: Type) -> bool:
    return isinstance(type_, ErrorType) or any(map(_has_error, parts(type_) or ()))


def _can_be_bound(type_: Type) -> bool:
    """Whether a value may be passed on as an argument; dtypes, functions and operators only have names."""
    return not isinstance(type_, DTypeType | FunctionType | OperatorType)


def _within(diagnostic: Diagnostic, span: Span) -> bool:
    at = diagnostic.primary.span
    return at.file == span.file and span.start <= at.start <= span.end


def _once(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    return list({(d.code, d.primary.span): d for d in diagnostics}.values())
