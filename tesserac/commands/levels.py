"""One function at every level for one target, each level made when it is first asked for."""

from __future__ import annotations

from functools import cached_property

from tesserac.base.source import SourceFile
from tesserac.check.typed import TypedFunction
from tesserac.commands import names
from tesserac.commands.outcome import UsageMistake
from tesserac.commands.targets import Target
from tesserac.diag.codes.names import E0299
from tesserac.diag.sink import Sink
from tesserac.ir.core import Module
from tesserac.ir.printer import print_module
from tesserac.pipeline import Levels
from tesserac.session import ProgramError, Session
from tesserac.syntax import ast
from tesserac.syntax.dump import dump
from tesserac.syntax.parse import parse_module
from tesserac.tile.gpu.errors import LoweringError


class FunctionLevels:
    """Raises ProgramError where the function is not supported on the target."""

    def __init__(self, session: Session, source: SourceFile, function: TypedFunction, target: Target) -> None:
        self.session = session
        self.source = source
        self.function = function
        self.target = target

    @cached_property
    def shared(self) -> Levels:
        return self.session.levels(self.source, self.function, self.target.machine)

    @cached_property
    def lowered(self) -> Module:
        try:
            return self.target.lower(self.shared.tile, verify=self.session.verify)
        except LoweringError as problem:
            raise self._unsupported(problem) from None

    @cached_property
    def texts(self) -> list[str]:
        try:
            return self.target.texts(self.lowered)
        except LoweringError as problem:
            raise self._unsupported(problem) from None

    def _unsupported(self, problem: LoweringError) -> ProgramError:
        sink = Sink()
        feature = f"`{self.function.name}` on {self.target.machine.arch}"
        sink.error(E0299, at=self.function.span, feature=feature).remark(str(problem))
        return ProgramError(sink.diagnostics)

    def module(self, level: names.LevelName) -> Module | None:
        """The level as IR; None for those that are text of another kind."""
        match level:
            case names.GRAPH:
                return self.shared.graph
            case names.FORMS:
                return self.shared.forms
            case names.SCHEDULE:
                return self.shared.schedule
            case names.TILE:
                return self.shared.tile
            case names.CPU | names.GPU:
                return self.lowered
        return None

    def text(self, level: names.LevelName) -> str:
        """The level as it is; it parses back where it is IR."""
        module = self.module(level)
        if module is not None:
            return print_module(module)
        if level == names.AST:
            return function_tree(self.source, self.function.name)
        texts = self.texts if level == names.LLVM else [self.target.code(text) for text in self.texts]
        return "\n".join(text.rstrip() + "\n" for text in texts)


def wanted_levels(offered: tuple[names.LevelName, ...], level: str | None) -> tuple[names.LevelName, ...]:
    """The levels to show: all that the target has, or the one named."""
    found = tuple(v for v in offered if level in (None, v.name))
    if not found:
        known = ", ".join(v.name for v in offered)
        raise UsageMistake(f"this target has no level `{level}`; it has {known}")
    return found


def function_tree(source: SourceFile, name: str) -> str:
    """The syntax tree of one function."""
    items = parse_module(source).module.items
    node = next(i for i in items if isinstance(i, ast.FunctionDef) and i.name == name)
    return dump(node, source) + "\n"


def module_tree(source: SourceFile) -> str:
    """The syntax tree of a whole file, whether or not it checks. Raises ProgramError where it does not parse."""
    parsed = parse_module(source)
    if parsed.diagnostics:
        raise ProgramError(parsed.diagnostics)
    return dump(parsed.module, source) + "\n"
