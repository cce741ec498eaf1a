"""Parts of a kernel as functions of their own, which all kernels with the same part call.

    define void @layer1(...) {              define void @layer1(...) { ... call void @part1(...)  epilogue of layer1 }
      sums of products                      define void @layer2(...) { ... call void @part1(...)  epilogue of layer2 }
      epilogue of layer1 }                  define internal void @part1(...) { sums of products }
    define void @layer2(...) {
      sums of products                      The gradient of a model has a hundred products, which differ in what is
      epilogue of layer2 }                  done with their results, and LLVM takes most of the time of a compilation.

Enters: an operation with regions, outside of loops over elements, and how its code is written. Leaves: a call. What the
part reads from around it becomes an argument, and so do the sizes of its memory, which differ from kernel to kernel
where the code does not; other constants stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.target.cpu.frame import Frame, Memory
from tesserac.target.emit import Function
from tesserac.target.llvm_types import VOID, Value
from tesserac.types.dims import Dim

SUMS = "cpu.tree"
"""The one part that has shared parts in it: products that read other operands still put sums together in one way."""

_LOOPS = frozenset({"cpu.loop", "cpu.vector_loop"})


_CONTROL = frozenset({"cpu.scratch", "cpu.loop", "cpu.when", SUMS, "cpu.row_product", "scalar.constant"})


def computes(op: Op) -> bool:
    """Whether an operation works on elements, outside of its regions; others say how often and on which of them. The
    code of a row product is a function of its own."""
    return op.name not in _CONTROL and op.opdef.dialect != "index"


def has_sums(kernel: Op) -> bool:
    """Whether a kernel has parts that others are likely to have too: sums of products, or of blocks, in scratch."""
    return any(op.name in (SUMS, "cpu.micro_kernel") and not op.results for op in kernel.walk())


def is_shared(op: Op) -> bool:
    """Sums in scratch, the packing of operands, and loops over elements: how sums are put together, and what is done
    with them, which is the same in each of the ways to compute one product."""
    if op.results:
        return False
    return op.name in (SUMS, "cpu.pack") or (op.name == "cpu.loop" and _only_elements(op))


def _only_elements(op: Op) -> bool:
    return all(inner.name in _LOOPS for inner in op.walk() if inner.regions)


def emit_shared(frame: Frame, op: Op, emit: Callable[[Frame, Op], None]) -> None:
    """Writes an operation as a call of the function that does it."""
    outside = _outside(op)
    memories = {value: frame.memories[value] for value in outside if value in frame.memories}
    entries = {value: frame.value(value) for value in outside if value not in memories}
    dims = {dim: frame.dim(dim) for dim in _dims(op)}
    sizes = [size for memory in memories.values() for size in (*memory.dims, *memory.strides)]
    given = _arguments([*(memory.start for memory in memories.values()), *sizes, *entries.values(), *dims.values()])
    numbers = {(value, place): size for value, memory in memories.items() for place, size in _numbers(memory)}
    taken = [*given, *numbers.values()]
    function = Function(frame.module, "", VOID, [value.type for value in taken], linkage="internal")
    inside = dict(zip((value.text for value in given), function.args, strict=False))
    sized = dict(zip(numbers, function.args[len(given) :], strict=True))

    def moved(value: Value) -> Value:
        return inside.get(value.text, value)

    inner = frame.within(function.builder, {dim: moved(value) for dim, value in dims.items()})
    inner.shares = op.name == SUMS
    for value, memory in memories.items():
        own = {place: arg for (of, place), arg in sized.items() if of is value}
        inner.memories[value] = _moved_memory(memory, moved, own)
    inner.entries.update({value: moved(entry) for value, entry in entries.items()})
    function.computes = computes(op) and not frame.is_rare
    emit(inner, op)
    function.builder.ret()
    shared = frame.module.share(function, "part")
    shared.computes |= function.computes
    frame.b.call(shared, taken)


def _outside(op: Op) -> list[IRValue]:
    """The values that an operation reads and does not make itself, in the order of its text."""
    made = {value for inner in op.walk() for value in inner.results}
    made |= {arg for inner in op.walk() for region in inner.regions for arg in region.block.args}
    read = (value for inner in op.walk() for value in inner.operands)
    return list(dict.fromkeys(value for value in read if value not in made))


def _dims(op: Op) -> Iterator[Dim]:
    for inner in op.walk():
        dim = inner.attrs.get("dim")
        if isinstance(dim, Dim):
            yield dim


def _arguments(values: Iterable[Value]) -> list[Value]:
    """Each once, in the order in which they come; constants and globals are the same everywhere."""
    return list({value.text: value for value in values if value.text.startswith("%")}.values())


def _numbers(memory: Memory) -> Iterator[tuple[int, Value]]:
    """Sizes that are numbers, by their place among dims and strides: each dim, and strides that are no dim further in.
    Two that happen to be equal are two arguments, since they are not equal in the next kernel. Neighbours, and a dim of
    one element, are what the code itself depends on."""
    places = _places(memory)
    for place, size in enumerate((*memory.dims, *memory.strides)):
        if places[place] == place and size.number not in (None, 0, 1):
            yield place, size


def _places(memory: Memory) -> list[int]:
    """For each dim and stride the place whose number it is: a stride that is the next dim has that one's."""
    rank = len(memory.dims)
    nexts = [*(dim.text for dim in memory.dims[1:]), None][:rank]
    strides = zip(memory.strides, nexts, strict=True)
    return [*range(rank), *(place + (1 if s.text == dim else rank) for place, (s, dim) in enumerate(strides))]


def _moved_memory(memory: Memory, moved: Callable[[Value], Value], numbers: Mapping[int, Value]) -> Memory:
    """The memory as a part sees it: `numbers` by their places, everything else by its name."""
    rank, sizes = len(memory.dims), (*memory.dims, *memory.strides)
    found = tuple(numbers.get(place, moved(size)) for place, size in zip(_places(memory), sizes, strict=True))
    return replace(memory, start=moved(memory.start), dims=found[:rank], strides=found[rank:])
