"""Passes and the runner. A pass is a function Module -> Module that says which level it reads and which it leaves.

    @pass_(GRAPH, GRAPH, "cse")
    def cse(module: Module) -> Module: ...

The runner hands the first pass a clone, so a pass edits freely and the caller's module stays as it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.interrupts import raise_kept
from tesserac.ir.calls import is_called, verify_calls
from tesserac.ir.core import Module, Op, VerifyError
from tesserac.ir.printer import print_module
from tesserac.ir.types import MemRefType, TensorType, Type
from tesserac.ir.verify import verify_module


@dataclass(frozen=True)
class Level:
    """One of the IR levels and the dialects that may occur in it."""

    name: str
    dialects: frozenset[str]


GRAPH = Level("graph", frozenset({"graph", "form", "scalar", "index"}))
FORMS = Level("forms", frozenset({"func", "form", "scalar", "index"}))
SCHEDULE = Level("schedule", frozenset({"schedule", "form", "scalar", "index"}))
TILE = Level("tile", frozenset({"schedule", "tile", "scalar", "index", "form"}))

Interface = tuple[tuple[str, ...], tuple[str, ...]]
"""Element types with policies of what a function takes, and of what it gives."""

ModuleFunction = Callable[[Module], Module]


@dataclass(frozen=True)
class Pass:
    name: str
    source: Level
    target: Level
    run: ModuleFunction


def pass_(source: Level, target: Level, name: str) -> Callable[[ModuleFunction], Pass]:
    """Makes a function a pass."""

    def wrap(function: ModuleFunction) -> Pass:
        return Pass(name, source, target, function)

    return wrap


def function_pass(source: Level, target: Level, name: str) -> Callable[[Callable[[Op], None]], Pass]:
    """Makes a function that changes one function of a module in place a pass."""

    def wrap(change: Callable[[Op], None]) -> Pass:
        def run(module: Module) -> Module:
            for func in module.ops:
                change(func)
            return module

        return Pass(name, source, target, run)

    return wrap


def chosen(passes: Sequence[Pass], *wanted: Pass) -> list[Pass]:
    """Some passes of a list, in its order."""
    assert all(step in passes for step in wanted), "a pass that the list does not have"
    return [step for step in passes if step in wanted]


def before(passes: Sequence[Pass], end: Pass) -> Sequence[Pass]:
    """The passes of a list up to one, which stays out."""
    return passes[: passes.index(end)]


class PassFault(Exception):
    """A pass left invalid IR: a compiler fault. The dump is what it left."""

    def __init__(self, name: str, error: VerifyError, dump: str) -> None:
        super().__init__(f"IR invalid after pass `{name}`: {error}\n{dump}")


def run_passes(module: Module, passes: Sequence[Pass], *, verify: bool) -> Module:
    """Runs the passes in order; `verify` checks what each of them left."""
    module = module.clone() if passes else module
    for step in passes:
        raise_kept()
        earlier = interfaces(module) if verify else {}
        module = step.run(module)
        if verify:
            check_pass(step, earlier, module)
    return module


def check_pass(step: Pass, before: Mapping[str, Interface], after: Module) -> None:
    try:
        verify_module(after)
        verify_calls(after)
        verify_level(after, step.target)
        verify_interfaces(before, after)
    except VerifyError as error:
        raise PassFault(step.name, error, print_module(after)) from error


def verify_level(module: Module, level: Level) -> None:
    for op in module.walk():
        if op.opdef.dialect not in level.dialects:
            raise VerifyError(f"does not belong to level {level.name}", op)


def interfaces(module: Module) -> dict[str, Interface]:
    """Of every function of a module but those that only the module calls: of these each call is verified."""
    return {op.symbol: interface(op) for op in module.ops if op.name.endswith(".func") and not is_called(op)}


def verify_interfaces(before: Mapping[str, Interface], after: Module) -> None:
    """A function keeps the element types and precision policies of what it takes and gives, through every level."""
    for symbol, now in interfaces(after).items():
        if (earlier := before.get(symbol, now)) != now:
            raise VerifyError(f"@{symbol} had the interface {earlier}, now {now}", after.lookup(symbol))


def interface(func: Op) -> Interface:
    """Element types with policies of the arguments and results of a function at any level."""
    takes = tuple(element_of(arg.type) for arg in func.body.args)
    gives = tuple(element_of(value.type) for value in func.body.terminator.operands)
    return takes, gives


def element_of(type_: Type) -> str:
    if isinstance(type_, TensorType | MemRefType):
        return f"{type_.dtype.name}{type_.policy}"
    return str(type_)


def content_hash(module: Module) -> str:
    """A stable hash of what the module means and where it came from; equal text, equal hash, in any process."""
    return hashlib.sha256(print_module(module, locations=True).encode()).hexdigest()
