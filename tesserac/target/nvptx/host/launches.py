"""Launches of a compiled host program: which variant the sizes choose, and what it is given.

Enters: the variants of a kernel. Leaves: a function that launches one of them, with the sizes, conditions, memory and
tensor maps that it needs computed on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Protocol

from tessera import gpu_abi
from tessera.gpu_program import Argument, Condition, GpuProgram, Kernel, TensorMap, Workspace
from tessera.sizes import Size, Tree
from tesserac.target.dims import INDEX_FUNCTIONS
from tesserac.target.emit import Function, Module
from tesserac.target.entry.checks import all_hold, divides, negated
from tesserac.target.entry.system import call_imported
from tesserac.target.flow import if_else, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I32, I64, Value, array, const_i64, const_int
from tesserac.target.nvptx.host import calls as calls
from tesserac.tile.gpu.model.errors import LoweringError

ALIGNMENT = 256
"""Bytes, of what lies beside other things in a workspace."""

Symbols = Mapping[str, Value]

# --- sizes ------------------------------------------------------------------------------------------------------------


def emit_size(b: Builder, size: Size, symbols: Symbols) -> Value:
    """The value of a size; some number where it has none, which is found out before it is used."""
    return _tree(b, size.tree, symbols)


def _tree(b: Builder, tree: Tree, symbols: Symbols) -> Value:
    if isinstance(tree, int):
        return const_i64(tree)
    if isinstance(tree, str):
        return symbols[tree]
    operator, *operands = tree
    assert isinstance(operator, str)
    return reduce(partial(_OPERATORS[operator], b), [_tree(b, operand, symbols) for operand in operands])


_OPERATORS: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "+": Builder.add,
    "*": Builder.mul,
    "/": INDEX_FUNCTIONS["quotient"],
    "//": INDEX_FUNCTIONS["floor_div"],
    "%": INDEX_FUNCTIONS["mod"],
    "ceil_div": INDEX_FUNCTIONS["ceil_div"],
    "min": INDEX_FUNCTIONS["min"],
    "max": INDEX_FUNCTIONS["max"],
}


def emit_condition(b: Builder, condition: Condition, symbols: Symbols) -> Value:
    left, right = emit_size(b, condition.left, symbols), emit_size(b, condition.right, symbols)
    match condition.kind:
        case "divides":
            return b.binary("and", b.icmp("sgt", left, const_i64(0)), divides(b, left, right))
        case "in_range":
            return b.icmp("ult", left, b.maximum_int(right, const_i64(0)))
        case "at_least":
            return b.icmp("sge", left, right)
        case "equal":
            return b.icmp("eq", left, right)
        case "fits":
            return b.icmp("slt", b.maximum_int(left, b.sub(const_i64(0), left)), right)
        case _:
            raise LoweringError(f"a condition of kind {condition.kind} in a host program")


def symbols_of(kernels: Sequence[Kernel]) -> list[str]:
    """All that a launch of one of these variants needs to know."""
    found: set[str] = set()
    for kernel in kernels:
        sizes = [kernel.programs, kernel.shared, *(side for c in kernel.conditions for side in (c.left, c.right))]
        for parameter in kernel.parameters:
            match parameter:
                case Workspace(size):
                    sizes.append(size)
                case TensorMap(_, dims, strides, _, _):
                    sizes += [*dims, *strides]
        found |= {*kernel.symbols, *(name for size in sizes for name in size.symbols())}
    return sorted(found)


# --- launches ---------------------------------------------------------------------------------------------------------


class Host(Protocol):
    """What launches share."""

    module: Module
    program: GpuProgram
    start: Function
    scratch: Function
    maps: dict[tuple[tuple[int, ...], int, int], int]
    """The numbers of tensor maps."""


def start_kernel(
    b: Builder, host: Host, call: Value, number: int, sizes: Sequence[Value], values: Value, many: int
) -> None:
    """Starts a kernel by its number. `sizes` are its blocks of threads and the bytes of shared memory of each, `values`
    is where its `many` parameters lie."""
    kernel, (programs, shared) = host.program.kernels[number], sizes
    how = [const_int(I1, int(kernel.persistent)), const_int(I1, int(kernel.early))]
    given = [const_i64(number), programs, const_i64(kernel.threads), shared, *how]
    b.call(host.start, [call, *given, values, const_i64(many)])


class Launcher:
    """void tessera.launch.0(ptr call, ptr addresses, ptr operands, i64 symbols...)"""

    def __init__(self, host: Host, function: Function, symbols: Symbols, variants: tuple[int, ...]) -> None:
        self.host, self.b, self.symbols, self.variants = host, function.builder, symbols, variants
        self.call, self.addresses, self.operands = function.args[:3]

    def emit(self) -> None:
        self._choose(self.variants)
        self.b.ret()

    def _choose(self, variants: Sequence[int]) -> None:
        b, first = self.b, self.host.program.kernels[variants[0]]
        if len(variants) == 1:
            self._launch(variants[0])
            return
        holds = all_hold(b, [emit_condition(b, condition, self.symbols) for condition in first.conditions])
        if_else(b, holds, lambda: self._launch(variants[0]), lambda: self._choose(variants[1:]))

    def _launch(self, number: int) -> None:
        b, kernel = self.b, self.host.program.kernels[number]
        values = [*self._parameters(number, kernel), *(self.symbols[name] for name in kernel.symbols)]
        block = b.alloca(array(I64, max(len(values), 1)), 8)
        for place, value in enumerate(values):
            b.store(value, b.gep(I64, block, place), 8)
        sizes = [emit_size(b, size, self.symbols) for size in (kernel.programs, kernel.shared)]
        start_kernel(b, self.host, self.call, number, sizes, block, len(values))

    def _parameters(self, number: int, kernel: Kernel) -> Iterator[Value]:
        b, offset, room = self.b, const_i64(0), self._room(kernel)
        for position, parameter in enumerate(kernel.parameters):
            match parameter:
                case Argument(operand):
                    yield self._address(operand)
                case Workspace(size):
                    yield b.add(room, offset)
                    offset = b.add(offset, _aligned(b, emit_size(b, size, self.symbols)))
                case TensorMap():
                    yield self._map(parameter, self.host.maps[self.variants, number, position])

    def _room(self, kernel: Kernel) -> Value:
        """Memory for this launch alone."""
        b, total = self.b, const_i64(0)
        for parameter in kernel.parameters:
            if isinstance(parameter, Workspace):
                total = b.add(total, _aligned(b, emit_size(b, parameter.bytes, self.symbols)))
        return const_i64(0) if total.number == 0 else b.call(self.host.scratch, [self.call, total])

    def _address(self, operand: int) -> Value:
        b = self.b
        number = b.cast("sext", b.load(I32, b.gep(I32, self.operands, operand), 4), I64)
        return b.load(I64, b.gep(I64, self.addresses, number), 8)

    def _map(self, mapped: TensorMap, number: int) -> Value:
        """The tensor map of an operand. The last one is kept, with what it was made of."""
        b = self.b
        sizes = [emit_size(b, size, self.symbols) for size in (*mapped.dims, *mapped.strides)]
        words = [self._address(mapped.operand), calls.read(b, self.call, gpu_abi.STREAM), *sizes]
        kept = self.host.module.variable(f"tessera.map.{number}", array(I64, 1 + len(words)), align=8)
        same = all_hold(b, [b.icmp("eq", b.load(I64, b.gep(I64, kept, 1 + i), 8), w) for i, w in enumerate(words)])

        def make() -> None:
            for place, value in enumerate(words, 1):
                b.store(value, b.gep(I64, kept, place), 8)
            made = call_imported(b, "call.map", [const_i64(number), b.gep(I64, kept, 1)], I64)
            b.store(made, kept, 8)
            refused = b.icmp("eq", made, const_i64(0))
            if_then(b, refused, partial(calls.fail, b, self.call, gpu_abi.CALLBACK_RAISED, const_i64(0), made))

        is_made = b.icmp("ne", b.load(I64, kept, 8), const_i64(0))
        if_then(b, negated(b, b.binary("and", same, is_made)), make)
        return b.load(I64, kept, 8)


def _aligned(b: Builder, size: Value) -> Value:
    """As much, and at least something, so that what follows begins where vectors may."""
    more = b.add(b.maximum_int(size, const_i64(1)), const_i64(ALIGNMENT - 1))
    return b.binary("and", more, const_i64(-ALIGNMENT))
