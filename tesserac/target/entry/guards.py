"""What must hold before a call does anything, as a function of its own.

    i32 tessera.guards(ptr args, ptr status)         as the entry, but reads only the sizes

Three things are tested, each before what depends on it: that no size, number of bytes or side of a guard is too large
for 64 bits; the guards of the program; that every size used in it has a value (a division leaves no rest and is not by
zero). Of sizes that are used on a branch or in a loop it is tested there whether they have one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial

from tessera.signature import STATUS_GUARD, STATUS_TOO_LARGE
from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.ir.core import Attr, Op
from tesserac.ir.forms import Guard
from tesserac.ir.types import MemRefType
from tesserac.schedule.dialect import KEPT, Predicate
from tesserac.target.emit import Function, Module
from tesserac.target.entry.checks import emit_guard, negated
from tesserac.target.entry.extents import loop_bounds
from tesserac.target.entry.fits import Double, FloatCode, emit_all_below, emit_exceeds, magnitude
from tesserac.target.entry.status import Sites, return_status
from tesserac.target.entry.system import HOST_ATTRIBUTES
from tesserac.target.flow import if_return, if_then
from tesserac.target.llvm_types import I32, PTR, Value, const_int
from tesserac.target.magnitudes import (
    bounded_symbols,
    harmless_bits,
    named_size,
    possible_parts,
    telling,
    with_counters,
)
from tesserac.target.sizes import implied_guards
from tesserac.tile.dialect import grid
from tesserac.types.dims import Dim, product

FITS = -1
"""No site."""
TOO_LARGE = "the sizes of the call are too large for this machine"


@dataclass(frozen=True)
class Needed:
    """A size that a call computes; `what` names it in a message."""

    size: Dim
    what: str
    span: Span


class GuardWriter:
    """Starts the function in `module`, as `name`; `emit` writes it."""

    def __init__(self, module: Module, func: Op, sites: Sites, name: str) -> None:
        self.func = func
        self.sites = sites
        self.function = module.function(name, I32, [PTR, PTR], attributes=HOST_ATTRIBUTES)
        self.b = self.function.builder
        self._checked: set[tuple[str, Dim, Dim]] = set()

    def emit(
        self,
        symbols: dict[str, Value],
        kernels: Sequence[Op],
        sizes: Mapping[str, Sequence[Dim]],
        workspace: Sequence[Dim],
    ) -> Function:
        """`sizes` are those that each kernel uses, `workspace` the numbers of bytes that the call will take. Raises
        TooLargeError."""
        self._check_magnitudes(needed_sizes(self.func, kernels, sizes, workspace), symbols)
        for op in self.func.body.ops:
            guard = op.attrs.get("guard")
            if isinstance(guard, Guard):
                self._check(implied_guards([guard.left, guard.right]), self.func.span, symbols)
                self._check([guard], op.span, symbols)
        for op, guards in certain_guards(self.func, sizes, symbols.keys()):
            self._check(guards, op.span, symbols)
        self.b.ret(const_int(I32, 0))
        return self.function

    def _check(self, guards: Sequence[Guard], span: Span, symbols: dict[str, Value]) -> None:
        for guard in guards:
            if (guard.kind, guard.left, guard.right) in self._checked:
                continue
            self._checked.add((guard.kind, guard.left, guard.right))
            holds, left, right = emit_guard(self.b, guard, symbols)
            site = self.sites.add(guard.code or "guard", guard.text, span)
            leave = partial(return_status, self.b, self.function.args[1], STATUS_GUARD, site, [left, right])
            if_return(self.b, negated(self.b, holds), leave)

    def _check_magnitudes(self, needed: Iterable[Needed], symbols: dict[str, Value]) -> None:
        """Leaves where a size is too large; of one with a counter of a loop, where it may be in some iteration."""
        loops = loop_bounds(self.func)
        named: dict[Dim, Needed] = {}
        for need in needed:
            for part in possible_parts(need.size):
                named.setdefault(part, need)
        bounded = bounded_symbols(symbols, loops)
        doubtful = [dim for dim in telling(named) if dim.symbols() <= bounded]
        if not doubtful:
            return

        def look() -> None:
            known: dict[str, Double] = {name: magnitude(self.b, value) for name, value in symbols.items()}
            magnitudes = with_counters(known, loops, FloatCode(self.b))
            sites = [self.sites.add("size", named[dim].what, named[dim].span) for dim in doubtful]
            first = const_int(I32, FITS)
            for dim, site in reversed([*zip(doubtful, sites, strict=True)]):
                first = self.b.select(emit_exceeds(self.b, dim, magnitudes), const_int(I32, site), first)
            leave = partial(return_status, self.b, self.function.args[1], STATUS_TOO_LARGE, first, [])
            if_return(self.b, self.b.icmp("ne", first, const_int(I32, FITS)), leave)

        bits = harmless_bits(doubtful, symbols.keys(), loops)
        if_then(self.b, negated(self.b, emit_all_below(self.b, bits, symbols)), look)


def needed_sizes(
    func: Op, kernels: Sequence[Op], sizes: Mapping[str, Sequence[Dim]], workspace: Sequence[Dim]
) -> Iterator[Needed]:
    """What a call computes, named; `sizes` are those that each kernel uses."""
    for dim in dict.fromkeys(workspace):
        yield Needed(dim, f"`{dim}` bytes of workspace", func.span)
    for op in func.body.ops:
        guard = op.attrs.get("guard")
        if isinstance(guard, Guard):
            yield from (Needed(side, named_size(side), op.span) for side in (guard.left, guard.right))
    used = [dim for kernel in kernels for dim in sizes[kernel.symbol]]
    for dim in dict.fromkeys([*sizes_used([func]), *used, *(product(grid(kernel)) for kernel in kernels)]):
        yield Needed(dim, named_size(dim), func.span)


def certain_guards(
    func: Op, sizes: Mapping[str, Sequence[Dim]], known: Set[str]
) -> Iterator[tuple[Op, Sequence[Guard]]]:
    """Every operation that each call comes to, with what must hold for the sizes that it uses to have values; first
    what the function is called with. Memory of the call may be for what only some come to. `sizes` are those that each
    kernel uses, `known` the symbols that have values on entry."""

    def certain(dims: Iterable[Dim]) -> list[Guard]:
        return implied_guards(dim for dim in dims if dim.symbols() <= known)

    yield func, certain(_dims_of(func))
    some, kernels = ("workspace", "kept"), {name: certain(dims) for name, dims in sizes.items()}

    def guards_of(op: Op) -> list[Guard]:
        kernel = op.attrs.get("kernel")
        own = certain(_dims_of(op))
        return list(dict.fromkeys([*own, *kernels[kernel]])) if isinstance(kernel, str) else own

    yield from _certain_in([op for op in func.body.ops if op.attrs.get("role") not in some], guards_of)


def _certain_in(ops: Sequence[Op], guards_of: Callable[[Op], list[Guard]]) -> Iterator[tuple[Op, Sequence[Guard]]]:
    """A choice is certain of what holds in each of its ways: they may be variants, or branches of the program."""
    for op in ops:
        yield op, guards_of(op)
        if op.name in ("schedule.select", KEPT):
            ways = op.regions[1:] if op.name == KEPT else op.regions
            first, *others = [list(_certain_in(region.block.ops, guards_of)) for region in ways]
            common = set.intersection(*({guard for _, guards in way for guard in guards} for way in (first, *others)))
            yield from ((inner, [guard for guard in guards if guard in common]) for inner, guards in first)


def kernel_sizes(kernels: Mapping[str, Op]) -> dict[str, list[Dim]]:
    """The sizes that each kernel uses, each once: layers launch the same ones."""
    return {name: list(dict.fromkeys(sizes_used([kernel]))) for name, kernel in kernels.items()}


def sizes_at(op: Op, kernels: Mapping[str, Sequence[Dim]]) -> list[Dim]:
    """The sizes that one operation of a host program uses, with those of the kernel that it launches."""
    kernel = op.attrs.get("kernel")
    return [*_dims_of(op), *(kernels[kernel] if isinstance(kernel, str) else ())]


def sizes_used(functions: Sequence[Op]) -> Iterator[Dim]:
    """Every size expression that the code of some functions evaluates."""
    for function in functions:
        for op in function.walk():
            yield from _dims_of(op)


def _dims_in(attr: Attr) -> Iterator[Dim]:
    if isinstance(attr, Dim):
        yield attr
    elif isinstance(attr, Predicate | Guard):
        yield from (attr.left, attr.right)
    elif isinstance(attr, tuple):
        for item in attr:
            yield from _dims_in(item)


def _dims_of(op: Op) -> Iterator[Dim]:
    for attr in op.attrs.values():
        yield from _dims_in(attr)
    for value in (*op.results, *(arg for region in op.regions for arg in region.block.args)):
        if isinstance(value.type, MemRefType):
            yield from (*value.type.dims, *value.type.strides)
