"""Parts of a kernel as functions of their own, which all kernels with the same part call.

    define void @layer1(...) {              define void @layer1(...) { ... call void @part1(...)  epilogue of layer1 }
      sums of products                      define void @layer2(...) { ... call void @part1(...)  epilogue of layer2 }
      epilogue of layer1 }                  define internal void @part1(...) { sums of products }
    define void @layer2(...) {
      sums of products                      The gradient of a model has a hundred products, which differ in what is
      epilogue of layer2 }                  done with their results, and LLVM takes most of the time of a compilation.

Enters: an operation with regions, outside of loops over elements, and how its code is written. Leaves: a call. What the
part reads from around it becomes an argument, and so do the sizes of its memory, which differ from kernel to kernel
where the code does not; other constants stay what they are. Most parts are known by what they mean and read before
their code is written: the gradient of a small model has seven hundred, of which a hundred differ. Packing an operand as
it is says nothing of the program: other programs have its code from the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from tesserac.ir.core import Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.meaning import part_meaning
from tesserac.target.cpu.elements.frame import Frame, Memory
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
    outside, sizes = _read(op)
    around = _Around(frame, outside, sizes)
    said = [part_meaning(op, outside), frame.target.name, "rare" if frame.is_rare else "", *around.said()]
    part = frame.module.asked_for("\n".join(said), lambda: _written(frame, op, emit, around))
    frame.b.call(part, around.arguments)


def _written(frame: Frame, op: Op, emit: Callable[[Frame, Op], None], around: _Around) -> Function:
    """The function of a part, or one written before that came out the same: of a product with other symbols."""
    function = Function(frame.module, "", VOID, [value.type for value in around.arguments], linkage="internal")
    inner = around.seen_from(function)
    inner.shares = op.name == SUMS
    function.computes = computes(op) and not frame.is_rare
    emit(inner, op)
    function.builder.ret()
    widely = function.computes and _only_packs(op)
    shared = frame.module.share_widely(function, "pack") if widely else frame.module.share(function, "part")
    shared.computes |= function.computes
    return shared


def _only_packs(op: Op) -> bool:
    """Whether this is the packing of an operand as it is, which any product may have."""
    inside = op.body.ops if op.name == "cpu.pack" else []
    return bool(inside) and all(o.opdef.dialect == "index" or o.name in ("cpu.load", "cpu.yield") for o in inside)


class _Around:
    """What a part reads from around it: memory, values and sizes, and which of these are its arguments."""

    def __init__(self, frame: Frame, outside: Iterable[IRValue], sizes: Iterable[Dim]) -> None:
        self._frame = frame
        self._memories = {value: frame.memories[value] for value in outside if value in frame.memories}
        self._entries = {value: frame.value(value) for value in outside if value not in self._memories}
        self._dims = {dim: frame.dim(dim) for dim in sizes}
        each = self._memories.items()
        self._numbers = {(value, place): size for value, memory in each for place, size in _numbers(memory)}
        self._given = _arguments(self._values())

    def _values(self) -> Iterator[Value]:
        yield from (memory.start for memory in self._memories.values())
        yield from (size for memory in self._memories.values() for size in (*memory.dims, *memory.strides))
        yield from self._entries.values()
        yield from self._dims.values()

    @property
    def arguments(self) -> list[Value]:
        return [*self._given, *self._numbers.values()]

    def said(self) -> Iterator[str]:
        """All that the code of the part depends on: arguments by their places, everything else by what it is."""
        places = {value.text: f"#{place}" for place, value in enumerate(self._given)}
        for value, memory in self._memories.items():
            own = {place for of, place in self._numbers if of is value}
            sizes = zip(_places(memory), (*memory.dims, *memory.strides), strict=True)
            shape = [f"size {place}" if place in own else places.get(size.text, size.text) for place, size in sizes]
            yield f"{memory.dtype} {memory.element} {places.get(memory.start.text, memory.start.text)} {shape}"
        for known in (*self._entries.values(), *self._dims.values()):
            yield f"{known.type} {places.get(known.text, known.text)}"

    def seen_from(self, function: Function) -> Frame:
        """The frame in which the part is written, as the code of its function."""
        inside = dict(zip((value.text for value in self._given), function.args, strict=False))
        sized = dict(zip(self._numbers, function.args[len(self._given) :], strict=True))

        def moved(value: Value) -> Value:
            return inside.get(value.text, value)

        inner = self._frame.within(function.builder, {dim: moved(value) for dim, value in self._dims.items()})
        for value, memory in self._memories.items():
            own = {place: arg for (of, place), arg in sized.items() if of is value}
            inner.memories[value] = _moved_memory(memory, moved, own)
        inner.entries.update({value: moved(entry) for value, entry in self._entries.items()})
        return inner


def _read(op: Op) -> tuple[list[IRValue], list[Dim]]:
    """The values that an operation reads and does not make itself, and the sizes that it names, in the order of its
    text."""
    made, read, sizes = set[IRValue](), dict[IRValue, None](), list[Dim]()
    for inner in op.walk():
        made.update(inner.results)
        made.update(arg for region in inner.regions for arg in region.block.args)
        read.update(dict.fromkeys(inner.operands))
        dim = inner.attrs.get("dim")
        if isinstance(dim, Dim):
            sizes.append(dim)
    return [value for value in read if value not in made], sizes


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
