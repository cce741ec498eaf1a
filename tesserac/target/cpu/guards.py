"""What must hold before a call does anything, as a function of its own.

    i32 tessera.guards(ptr args, ptr status)         as the entry, but reads only the sizes

Three things are tested, each before what depends on it: the guards of the program; that every size used in it has a
value (a division leaves no rest and is not by zero); that no number of bytes or programs is too large for 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from tessera.signature import STATUS_GUARD, STATUS_OUT_OF_MEMORY
from tesserac.base.source import Span
from tesserac.ir.core import Op
from tesserac.ir.forms import Guard
from tesserac.ir.types import MemRefType
from tesserac.schedule.dialect import Predicate
from tesserac.target.cpu.checks import emit_guard, negated
from tesserac.target.cpu.estimate import LARGEST, emit_estimate
from tesserac.target.cpu.status import Sites, return_status
from tesserac.target.cpu.system import HOST_ATTRIBUTES
from tesserac.target.emit import Function, Module
from tesserac.target.flow import if_return
from tesserac.target.llvm_types import F64, I32, I64, PTR, Value, const_float, const_int
from tesserac.target.sizes import implied_guards
from tesserac.types.dims import Dim

TOO_LARGE = "the sizes of the call are too large for this machine"


class GuardWriter:
    """Starts the function in `module`; `emit` writes it."""

    def __init__(self, module: Module, func: Op, sites: Sites) -> None:
        self.func = func
        self.sites = sites
        self.function = module.function("tessera.guards", I32, [PTR, PTR], attributes=HOST_ATTRIBUTES)
        self.b = self.function.builder
        self._checked: set[tuple[str, Dim, Dim]] = set()

    def emit(self, symbols: dict[str, Value], kernels: Sequence[Op], extents: Iterable[Dim]) -> Function:
        """`extents` are the numbers of bytes and programs that the call will rely on."""
        for op in self.func.body.ops:
            guard = op.attrs.get("guard")
            if isinstance(guard, Guard):
                self._check(implied_guards([guard.left, guard.right]), self.func.span, symbols)
                self._check([guard], op.span, symbols)
        known = [extent for extent in dict.fromkeys(extents) if extent.symbols() <= symbols.keys()]
        used = [dim for dim in sizes_used([self.func, *kernels]) if dim.symbols() <= symbols.keys()]
        self._check(implied_guards([*used, *known]), self.func.span, symbols)
        for extent in known:
            if extent.constant is None:
                self._check_extent(emit_estimate(self.b, extent, symbols))
        self.b.ret(const_int(I32, 0))
        return self.function

    def _check(self, guards: Sequence[Guard], span: Span, symbols: dict[str, Value]) -> None:
        for guard in guards:
            if (guard.kind, guard.left, guard.right) in self._checked:
                continue
            self._checked.add((guard.kind, guard.left, guard.right))
            holds, left, right = emit_guard(self.b, guard, symbols)
            site = self.sites.add("guard", guard.text, span)
            leave = partial(return_status, self.b, self.function.args[1], STATUS_GUARD, site, [left, right])
            if_return(self.b, negated(self.b, holds), leave)

    def _check_extent(self, estimate: Value) -> None:
        too_large = self.b.fcmp("uge", estimate, const_float(F64, LARGEST))
        site = self.sites.add("workspace", TOO_LARGE, self.func.span)

        def leave() -> None:
            number = self.b.intrinsic("llvm.fptosi.sat", I64, [estimate], [I64, F64])
            return_status(self.b, self.function.args[1], STATUS_OUT_OF_MEMORY, site, [number])

        if_return(self.b, too_large, leave)


def sizes_used(functions: Sequence[Op]) -> Iterator[Dim]:
    """Every size expression that the code of some functions evaluates."""
    for function in functions:
        for op in function.walk():
            yield from _dims_of(op)


def _dims_of(op: Op) -> Iterator[Dim]:
    for attr in op.attrs.values():
        for item in attr if isinstance(attr, tuple) else (attr,):
            if isinstance(item, Dim):
                yield item
            elif isinstance(item, Predicate):
                yield from (item.left, item.right)
    for value in (*op.results, *(arg for region in op.regions for arg in region.block.args)):
        if isinstance(value.type, MemRefType):
            yield from (*value.type.dims, *value.type.strides)
