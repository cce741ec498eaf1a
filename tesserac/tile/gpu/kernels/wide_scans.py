"""Running folds of long rows whose elements are folded as they are: a program takes many blocks, a thread each.

    tile.running(n, empty) { ^(b, before): s, t = scan(load x[b]); store before + s; yield t } {+}
  as
    gpu.scan_once(number, room, nodes, told..., r..., x, at..., out, at...) {kind, dims, rows, ahead}
        brings `chains` blocks into `room`, folds each in place, joins their totals to the subtrees that they complete,
        tells of those that programs behind it need, waits for those that it needs of programs before it, and writes;
        the second cache is asked for the blocks of the program that is `ahead` programs behind it

Enters: the kernels that `split_running` begins. A thread alone in a warp would leave most of a multiprocessor waiting
for one addition after another; here the threads of a warp walk as many blocks side by side.

Note [Programs that wait for others]: a GPU begins programs in the order of their numbers, and goes on with all that it
has begun. So a program may wait for those before it. What it waits for are whole subtrees, one for each bit of its
number, however many of them are ready when it looks: the order of additions is that of the tree, not of time.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Block, Op, Value, clone_op, define_op
from tesserac.ir.types import AxisType, IndexType, MemRefType
from tesserac.tile.dialect import memref_type, tile_type
from tesserac.types.dims import Dim
from tesserac.types.dtype import F32, F64, I32, I64, U32, U64, DType

ONCE = "gpu.scan_once"
define_op(ONCE, pure=False)

LENGTH = 512
"""Elements of a block."""
WARPS = 4
WORD_BITS = 32
"""Of a number that is told in one word, beside that it is."""
TOLD_LEVELS = 32
"""More than subtrees of programs have levels, of which there are fewer than 2**31."""
_DTYPES = (F32, F64, I32, I64, U32, U64)


def chains(dtype: DType) -> int:
    """Blocks of one program."""
    return 32 if dtype.bits == 32 else 16


def room_row(dtype: DType) -> int:
    """Where the next block stands in a room: lanes that walk one each, 16 bytes at a time, read from different
    banks."""
    return LENGTH + 16 // dtype.bytes


@dataclass(frozen=True)
class Moves:
    """What a block reads and writes: the memory, where, and along which dims of each."""

    source: Value
    target: Value
    taken: tuple[Value, ...]
    put: tuple[Value, ...]
    dims: tuple[int, int]


def moves(running: Op) -> Moves | None:
    """Those of a running fold that does nothing else with its elements."""
    body = running.regions[0].block
    loads, stores = ([op for op in body.ops if op.name == name] for name in ("tile.load", "tile.store"))
    if len(loads) != 1 or len(stores) != 1 or tile_type(loads[0].result).shape != (LENGTH,):
        return None
    (load,), (store,) = loads, stores
    source, target = load.operands[0], store.operands[1]
    dtype = memref_type(source).dtype
    same = {dtype, memref_type(target).dtype, tile_type(running.operands[1]).dtype}
    taken, put = load.operands[1:], store.operands[2:]
    plain = all(_is_known(v, body) for v in (*taken, *put) if not isinstance(v.type, AxisType))
    if len(same) != 1 or dtype not in _DTYPES or not plain or "groups" in load.attrs:
        return None
    dims = tuple(next(i for i, v in enumerate(at) if isinstance(v.type, AxisType)) for at in (taken, put))
    return Moves(source, target, taken, put, (dims[0], dims[1]))


def _is_known(value: Value, body: Block) -> bool:
    """Whether an index is the same for all blocks."""
    made = value.defining_op
    if not isinstance(value.type, IndexType) or value.owner is body:
        return False
    return made is None or made.parent is not body or made.name == "index.dim"


def places(b: Builder, at: tuple[Value, ...], values: dict[Value, Value]) -> list[Value]:
    """Where a row begins."""
    found = []
    for value in at:
        made = value.defining_op
        if isinstance(value.type, AxisType):
            found.append(b.value("index.dim", (), IndexType(), {"dim": Dim.const(0)}))
        elif value in values:
            found.append(values[value])
        else:
            assert made is not None
            found.append(b.add(clone_op(made, {})).result)
    return found


def rooms(b: Builder, dtype: DType) -> list[Value]:
    """For the blocks, and for subtrees: what stands before each block, those of the program, those before it."""
    sizes = chains(dtype) * room_row(dtype), 3 * chains(dtype) + TOLD_LEVELS
    types = (MemRefType((Dim.const(size),), dtype, space="local") for size in sizes)
    return [b.value("tile.alloc", (), ty, hint="room") for ty in types]


def told(rows: tuple[Dim, ...], programs: Dim, dtype: DType) -> tuple[MemRefType, ...]:
    """By what programs tell each other: words, which hold a number of 32 bits, and numbers that are longer."""
    shape = (*rows, programs * 2)
    words = MemRefType(shape, I64)
    return (words,) if dtype.bits == WORD_BITS else (words, MemRefType(shape, dtype))
