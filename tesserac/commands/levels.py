"""One function at every level for one target, each level made when it is first asked for."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from tesserac.base.source import SourceFile, Span
from tesserac.check.model.typed import TypedFunction
from tesserac.commands import names
from tesserac.commands.outcome import UsageMistake
from tesserac.commands.targets import Target
from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import NO_SIZES, Session, Sizes
from tesserac.graph.dialect import NUMERICS
from tesserac.graph.passes.apply_laws import as_written
from tesserac.graph.passes.choose_rewrites import chosen_kernels
from tesserac.graph.passes.place_kernels import kernel_limits, placed_kernels
from tesserac.ir.core import Module
from tesserac.ir.printer import print_module
from tesserac.numerics.approximate import SUFFIX
from tesserac.pipeline import Levels
from tesserac.schedule.products.contract import ASKED
from tesserac.syntax import ast
from tesserac.syntax.dump import dump
from tesserac.syntax.parse import parse_module


class FunctionLevels:
    """Raises ProgramError where the function is not supported on the target."""

    def __init__(
        self, session: Session, source: SourceFile, function: TypedFunction, target: Target, sizes: Sizes = NO_SIZES
    ) -> None:
        self.session = session
        self.source = source
        self.function = function
        self.target = target
        self.sizes = sizes

    @cached_property
    def shared(self) -> Levels:
        return self.session.levels(self.source, self.function, self.target.machine, self.sizes)

    @cached_property
    def lowered(self) -> Module:
        with self.session.target_gaps(self.function, self.target.machine.arch):
            return self.target.lower(self.shared.tile, verify=self.session.verify)

    def kernels(self) -> list[tuple[str, str]]:
        """The kernels that the function runs, each with the reason why it does not run as tiles, if there is one."""
        told = [pair for function in self.shared.forms.ops for pair in placed_kernels(function)]
        return list(dict.fromkeys(told))

    def limits(self, symbol: str) -> str:
        """Up to which sizes a kernel runs as tiles, where it does so for some alone."""
        told = [limit for function in self.shared.forms.ops for limit in kernel_limits(function)]
        return " and ".join(dict.fromkeys(f"{size} <= {limit}" for name, size, limit in told if name == symbol))

    def numerics(self) -> str:
        """The mode of numerics that some of the function has, and what became shorter for it; empty for the usual."""
        modes = [str(function.attrs[NUMERICS]) for function in self.shared.forms.ops if NUMERICS in function.attrs]
        short = Counter(op.name.removeprefix("scalar.") for op in self.shared.forms.walk() if op.name.endswith(SUFFIX))
        shown = "; ".join(f"{name} {count}" for name, count in sorted(short.items()))
        return f"{modes[0]} ({shown or 'no elementary function is shorter for it'})" if modes else ""

    def choices(self) -> list[tuple[str, str, bool, str]]:
        """The functions that kernels implement: each with a kernel, whether a call takes it, and why."""
        told = [entry for function in self.shared.forms.ops for entry in chosen_kernels(function)]
        return list(dict.fromkeys(told))

    def module(self, level: names.LevelName) -> Module | None:
        """The level as IR; None for those that are text of another kind."""
        match level:
            case names.GRAPH:
                return as_written(self.shared.graph)
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
        with self.session.target_gaps(self.function, self.target.machine.arch):
            text = self.target.llvm(self.lowered) if level == names.LLVM else self.target.code(self.lowered)
        return text.rstrip() + "\n"


def asked_places(levels: Levels) -> list[Span]:
    """The places of products whose launches have the blocks that the program says."""
    launches = [op for op in levels.schedule.walk() if op.attrs.get(ASKED) is True]
    return [inner.span for launch in launches for inner in launch.walk() if inner.name == "form.contract"]


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
