"""Schedule IR: the host program of a function, and for each of its launches what was decided about it.

Outside the launches there is only memory: inputs, buffers, and operations that read and write them in program order.
Inside a launch there are forms over tensors, as in the Graph, and the schedule stands in the launch's attributes.

    schedule.func @softmax {params = ["x"]} {
      ^(%x: memref<[M, N], f32, global>):
        schedule.guard() {guard = #guard<kind="at_least", left=`N`, right=`1`, text="N >= 1">}
        %y = schedule.buffer() {role = "output", slot = 0} : memref<[M, N], f32, global>
        schedule.launch(%x, %y) {kind = "rows", outs = 1, space = [`M`, `N`], places = [[0, 1], [0], ...],
            loops = [#loop<axes=[0], size=`M`, block=1, kind="parallel">,
                     #loop<axes=[1], size=`N`, block=512, kind="fold">],
            keep = [2], stages = [], units = #units<warps=1, roles="uniform">, reason = "..."} {
          ^(%t: tensor<[M, N], f32>):
            %r = form.map(%t) ...
            form.yield(%r)
        }
        schedule.return(%y)
    }

schedule.func @name {params, donated, called} { ^(memref...): ... schedule.return(memref...) }
    One memref per input, contiguous, in the order of the signature; the results are buffers of role `output`.
    `donated`, where there is one, has for each result the argument whose memory the caller gives to it, or -1. One that
    is `called` is only called by others of the module.
schedule.guard() {guard}
    Ends the call with a status unless the guard holds. All guards stand first.
schedule.buffer() {role, slot, of} : memref
    Memory of the call. `output`: slot is the position of the result, whose memory the caller gives; where there is an
    `of`, it is the memory of that argument (`donate.py`). `workspace`: buffers of one slot share memory, since their
    lives do not overlap; a slot is as large as the largest of them, by the target's byte count of the memref. `status`:
    words in which kernels tell of bad indices, see schedule.check. `constant`: what the attribute `table` says, kept
    beside the code and never written. `register`: a few elements whose memory shares nothing and never changes hands: a
    swap exchanges what they hold. `kept`: see schedule.kept. All buffers stand before the first launch.
schedule.box(mem) {offset} : memref
    A part of other memory: it begins `offset` elements into it and has strides of its own.
schedule.parts(mem) : memref
    The memory of complex numbers as that of their parts, which lie there in a row.
schedule.launch(in..., out...) {kind, outs, space, places, loops, keep, stages, units, reason} { ^(tensor...): ... }
    Computes the forms of its body from the `in` memory into the last `outs` operands, one per value yielded. After
    tile/build it is a `tile.launch`.
    kind      map       every yielded value is one map over the space
              rows      maps and reductions that share the folded axes of the space
              contract  one contraction and the maps that follow it; the space is its iteration space
              pack      lays an operand of a later contraction out as `panels`
              scan      running folds along the folded axis
              sort      the order of the elements along the folded axis
              folds     rows along the folded axis are folded into memory written before, at places that integers say
              runs      folds of runs; the first axis numbers them
              program   one form.kernel; the space is its programs and the dims that it cuts into blocks
              scatter   replaces elements of memory that was written before; the space is that of the new elements, and
                        its place the axes that the memory follows
    space     the iteration space: sizes of its axes
    places    per operation of the body, the axis of the space that each dim of its result follows
    loops     how the space is walked, outermost first; the axes of a loop are neighbours walked as one
    keep      positions in the body of results kept in scratch between the passes over folded axes
    stages    operands of the contraction, or of the program's products, that are copied nearer to the computing unit
    units     what runs one program
    reason    why it was decided so, for people
    portion   of rows that are long and few: so many blocks of a row are one program; a second kernel joins them
    steps     of a map that stands for a loop (`stepped.py`)
    copied    where it copies what could have been changed in place: why it was not
    lengths   of a map that several tensors have in common: how long each is. The body is that of one tensor, whose
              length is the symbol `tensor.length`; the inputs are those of the first tensor, then those of the second,
              and so are the outputs
schedule.call(in..., out...) {callee, dims, outs, io}
    Runs another function of the module from the `in` memory into the last `outs` operands, all contiguous. `dims` pairs
    each of its sizes with what it is here. Its workspace is a part of the caller's.
schedule.check(status) {operator, sizes}
    Ends the call with a status if a kernel has put a bad index into one of the words; `sizes[i]` is the size that
    index i of `operator` has to be below.
schedule.select() {predicates} { ^(): ... schedule.end } ... { ^(): ... schedule.end }
    The region of the first predicate that holds of the sizes; the last region if none does.
schedule.kept(source, packed) {where, layout, sizes} { ^(): ... schedule.end } { ^(): ... } { ^(): ... }
    If the predicate `where` holds and nothing writes `source` any more, `packed`, a buffer of role `kept`, lives as
    long, and the second region runs, which reads it; before it the first, if no call has filled it yet. Else the third
    runs. What is in `packed` follows from the source, the `layout` and the values of the `sizes`.
schedule.loop(low, high) {counter, sequential, rows} { ^(i: index): ... schedule.end }
    Counts up. Inside, dims may mention the symbol `counter`, whose value is the count. What the loop carries lives in
    buffers that its body overwrites, or exchanges for others. Where it is `sequential`, all that it launches is a few
    elements, and the loop with all inside it is compiled as one; the attribute says how much that is, for people. Where
    it has `rows`, so many, or blocks of columns, go through all iterations apart: a launch has programs for each.
schedule.beside() { ^(): ... schedule.end } { ^(): ... schedule.end }
    Both, the first by one thread, in this order or at once: neither touches memory that the other writes (`ahead.py`).
schedule.last()
    This iteration of the loop around it is the last: all others would leave what it carries as it is.
schedule.swap(mem, mem)
    Two buffers of one type change hands: each name stands for the memory that was the other's.
schedule.while() {sequential} { ^(): ... schedule.test(flag) } { ^(): ... schedule.end }
    The second region runs as long as the first leaves true in `flag`, a memref<[], bool>.
schedule.cond(flag) { ^(): ... schedule.end } { ^(): ... schedule.end }
    The first region if the memref<[], bool> holds true, else the second.
schedule.assert(flag) {io, text}
    Ends the call with a status unless the memref<[], bool> holds true.
schedule.require() {guard, io, operator, shown}
    Ends the call with a status unless the guard holds of sizes and counters; see form.require.
schedule.print(mem...) {io, pieces}
    Hands text and values to the runtime, which writes them; a value stands in `pieces` as a list of its format.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.attributes import register_attribute
from tesserac.ir.core import Op, Value, attr, attr_tuple, define_op, tuple_of
from tesserac.ir.forms import Guard
from tesserac.ir.kernels import KERNEL
from tesserac.ir.lines import LINES, lines_space
from tesserac.ir.ordering import IO
from tesserac.ir.types import IndexType, MemRefType, TensorType
from tesserac.ir.verify import require
from tesserac.types.dims import Dim, product
from tesserac.types.dtype import BOOL, component

LAUNCH_KINDS = ("map", "rows", "contract", "pack", "scatter", "scan", "sort", "folds", "runs", "lines", "program")
LOOP_KINDS = ("parallel", "serial", "fold")
BUFFER_ROLES = ("output", "workspace", "register", "status", "constant", "kept")
CALL, KEPT, BESIDE = "schedule.call", "schedule.kept", "schedule.beside"
BRANCHES = ("schedule.cond", "schedule.select")  # take one of their regions: a flag decides it, or sizes
LENGTH, LENGTHS = "tensor.length", "lengths"  # the symbol of a launch over several tensors, and where its values are
FOLLOWS, TOGETHER, MOVES, PACKS = "follows", "together", "moves", "packs"  # programs in turn: `row_chains.py`
ROWS, STEPS = "rows", "steps"  # of a loop: `row_loops.py`, `column_loops.py`; of a launch that was one: `stepped.py`
FOLDS_MOST = "folds_most"  # of a launch: how many elements a row has at most, which the host has asked
SMALL_LAUNCH = 128  # the most points of a space that a loop which is compiled as one walks for one of its launches


@dataclass(frozen=True)
class Loop:
    """Walks neighbouring axes of the space as one index of `size`, in blocks. `parallel`: a grid axis, one block per
    program; `serial`: in order inside a program; `fold`: the blocks of a reduction, combined in its order."""

    axes: tuple[int, ...]
    size: Dim
    block: int
    kind: str


@dataclass(frozen=True)
class Staging:
    """Operand 0 or 1 of a contraction, or any of a program, is copied block by block: `layout` as the matrix product
    wants it, `depth` copies in flight."""

    operand: int
    layout: str
    depth: int


@dataclass(frozen=True)
class Units:
    """What runs one program: warps (1 where there are none), and whether some of them only move data."""

    warps: int
    roles: str


@dataclass(frozen=True)
class Predicate:
    """Picks a variant: `at_least` (left >= right), `divides` (right), `each_thread` (right for each of a call's)."""

    kind: str
    left: Dim
    right: Dim


register_attribute("loop", Loop)
register_attribute("staging", Staging)
register_attribute("units", Units)
register_attribute("predicate", Predicate)


def memory(value: Value) -> MemRefType:
    assert isinstance(value.type, MemRefType), f"expected memory, not {value.type}"
    return value.type


def launch_ins(op: Op) -> tuple[Value, ...]:
    return op.operands[: len(op.operands) - _outs(op)]


def launch_outs(op: Op) -> tuple[Value, ...]:
    return op.operands[len(op.operands) - _outs(op) :]


def written(op: Op) -> tuple[Value, ...]:
    """The memory that an operation of a host program writes, as far as it is one that computes."""
    return launch_outs(op) if op.name in ("schedule.launch", CALL) else ()


def launch_kind(op: Op) -> str:
    return attr(op, "kind", str)


def launch_space(op: Op) -> tuple[Dim, ...]:
    return attr_tuple(op, "space", Dim)


def launch_places(op: Op) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple_of(place, int) for place in attr(op, "places", tuple))


def launch_place(op: Op, form: Op) -> tuple[int, ...]:
    """That of one form; a launch may hold many."""
    return tuple_of(attr(op, "places", tuple)[op.body.place(form)], int)


def launch_loops(op: Op) -> tuple[Loop, ...]:
    return attr_tuple(op, "loops", Loop)


def launch_stages(op: Op) -> tuple[Staging, ...]:
    return attr_tuple(op, "stages", Staging)


def launch_keep(op: Op) -> tuple[int, ...]:
    return attr_tuple(op, "keep", int)


def launch_units(op: Op) -> Units:
    return attr(op, "units", Units)


def folded_most(launch: Op, loop: Loop) -> int | None:
    """How many elements a loop walks at most, where it is known or the host has asked."""
    asked = launch.attrs.get(FOLDS_MOST) if loop.kind == "fold" else None
    assert asked is None or isinstance(asked, int)
    return asked if loop.size.constant is None else loop.size.constant


def launch_portion(op: Op) -> int | None:
    """Blocks of a long row that are one program; none where a row always is one."""
    portion = op.attrs.get("portion")
    assert portion is None or isinstance(portion, int)
    return portion


def launch_lengths(op: Op) -> tuple[Dim, ...]:
    """How long each of several tensors is that a launch is over; none of any other launch."""
    return tuple_of(op.attrs.get(LENGTHS, ()), Dim)


def memory_of_each(op: Op) -> list[tuple[Value, ...]]:
    """The operands of a launch over several tensors for each of them, as `one_tensor` has them."""
    number, ins, outs = len(launch_lengths(op)), launch_ins(op), launch_outs(op)
    many, few = len(ins) // number, len(outs) // number
    return [(*ins[i * many : (i + 1) * many], *outs[i * few : (i + 1) * few]) for i in range(number)]


def _outs(op: Op) -> int:
    return attr(op, "outs", int)


def _is_flag(value: Value) -> bool:
    return isinstance(value.type, MemRefType) and value.type.dims == () and value.type.dtype == BOOL


def _verify_func(op: Op) -> None:
    require(all(isinstance(a.type, MemRefType) for a in op.body.args), "takes memory", op)
    require(op.body.terminator.name == "schedule.return", "ends in schedule.return", op)
    names = op.attrs.get("params")
    require(isinstance(names, tuple) and len(names) == len(op.body.args), "needs one name per argument", op)


def _verify_return(op: Op) -> None:
    for position, value in enumerate(op.operands):
        made = value.defining_op
        ours = made is not None and made.name == "schedule.buffer" and made.attrs["role"] == "output"
        require(ours and made is not None and made.attrs["slot"] == position, "returns its output buffers", op)


def _verify_guard(op: Op) -> None:
    require(isinstance(op.attrs.get("guard"), Guard), "needs a guard", op)


def _verify_buffer(op: Op) -> None:
    require(op.attrs.get("role") in BUFFER_ROLES, "has one of the roles {}", op, BUFFER_ROLES)
    require(isinstance(op.attrs.get("slot"), int), "needs a slot", op)
    require(isinstance(op.result.type, MemRefType), "gives memory", op)


def _verify_check(op: Op) -> None:
    sizes = op.attrs.get("sizes")
    require(isinstance(sizes, tuple) and all(isinstance(s, Dim) for s in sizes), "needs the sizes", op)
    require(isinstance(op.attrs.get("operator"), str), "names the operator", op)
    assert isinstance(sizes, tuple)
    require(memory(op.operands[0]).dims == (Dim.const(len(sizes)),), "has one size per word", op)


def _verify_box(op: Op) -> None:
    require(isinstance(op.attrs.get("offset"), Dim) and len(op.operands) == 1, "needs memory and an offset", op)
    whole, part = op.operands[0].type, op.result.type
    require(isinstance(whole, MemRefType) and isinstance(part, MemRefType), "is memory inside memory", op)
    assert isinstance(whole, MemRefType) and isinstance(part, MemRefType)
    require((whole.dtype, whole.policy) == (part.dtype, part.policy), "changes the element type", op)


def _verify_parts(op: Op) -> None:
    whole, parts = memory(op.operands[0]), memory(op.result)
    require(whole.dtype.is_complex and parts.dtype == component(whole.dtype), "takes complex numbers apart", op)
    require(parts.dims == (*whole.dims, Dim.const(2)), "has two parts per number", op)


def _verify_launch(op: Op) -> None:
    require(op.attrs.get("kind") in LAUNCH_KINDS, "has one of the kinds {}", op, LAUNCH_KINDS)
    require(isinstance(op.attrs.get("reason"), str) and isinstance(op.attrs.get("units"), Units), "is bare", op)
    require(all(isinstance(v.type, MemRefType) for v in op.operands), "works on memory", op)
    if launch_lengths(op):
        _verify_lengths(op)
    else:
        _same_elements(op, launch_ins(op), op.body.args)
        _same_elements(op, launch_outs(op), op.body.terminator.operands)
    _verify_places(op)
    _verify_loops(op)


def _verify_lengths(op: Op) -> None:
    number, tensors = len(launch_lengths(op)), (*op.body.args, *op.body.terminator.operands)
    require(launch_kind(op) == "map" and launch_space(op) == (Dim.sym(LENGTH),), "is a map of one tensor", op)
    require(len(op.operands) == number * len(tensors), "needs the memory of each tensor", op)
    for length, given in zip(launch_lengths(op), memory_of_each(op), strict=True):
        for mem, tensor in zip(map(memory, given), tensors, strict=True):
            assert isinstance(tensor.type, TensorType)
            one = (mem.dtype, mem.policy) == (tensor.type.dtype, tensor.type.policy) and mem.contiguous
            whole = product(mem.dims) == (length if tensor.type.dims else Dim.const(1))
            require(one and whole, "{} is no tensor of {} elements", op, mem, length)


def _same_elements(op: Op, memories: tuple[Value, ...], tensors: list[Value] | tuple[Value, ...]) -> None:
    require(len(memories) == len(tensors), "needs one tensor per memory", op)
    for mem, tensor in zip(memories, tensors, strict=True):
        here, there = memory(mem), tensor.type
        require(isinstance(there, TensorType), "computes tensors", op)
        assert isinstance(there, TensorType)
        same = (here.dims, here.dtype, here.policy) == (there.dims, there.dtype, there.policy)
        require(same, "{} does not fit {}", op, there, here)


def _verify_places(op: Op) -> None:
    space, places, ops = launch_space(op), launch_places(op), op.body.ops[:-1]
    require(len(places) == len(ops), "needs one place per operation", op)
    for inner, place in zip(ops, places, strict=True):
        if inner.name in ("form.view", "form.scatter", KERNEL):
            continue
        ty = inner.result.type
        assert isinstance(ty, TensorType)
        dims = lines_space(inner) if inner.name == LINES else ty.dims
        require(tuple(space[i] for i in place) == dims, "{} has dims that are not its place", op, inner.name)


def _verify_loops(op: Op) -> None:
    space, walked = launch_space(op), [a for loop in launch_loops(op) for a in loop.axes]
    require(sorted(walked) == list(range(len(space))), "its loops do not walk each axis once", op)
    for loop in launch_loops(op):
        require(loop.kind in LOOP_KINDS and loop.block > 0, "bad loop {}", op, loop)
    cut = op.attrs.get("portion")
    power = isinstance(cut, int) and cut > 0 and cut & (cut - 1) == 0
    require(cut is None or (power and launch_kind(op) == "rows"), "cuts rows at powers of two of blocks", op)


def _verify_call(op: Op) -> None:
    require(all(isinstance(v.type, MemRefType) and v.type.contiguous for v in op.operands), "works on whole memory", op)
    require(isinstance(op.attrs.get("callee"), str) and isinstance(op.attrs.get("dims"), tuple), "needs a callee", op)
    require(0 < _outs(op) <= len(op.operands), "says what it writes", op)


def _verify_swap(op: Op) -> None:
    makers = [value.defining_op for value in op.operands]
    roles = {m.attrs["role"] if m is not None and m.name == "schedule.buffer" else None for m in makers}
    require(len(makers) == 2 and roles in ({"workspace"}, {"register"}), "exchanges two buffers of the workspace", op)
    require(op.operands[0].type == op.operands[1].type, "exchanges buffers of one type", op)


def _verify_select(op: Op) -> None:
    predicates = op.attrs.get("predicates")
    require(isinstance(predicates, tuple) and all(isinstance(p, Predicate) for p in predicates), "selects", op)
    assert isinstance(predicates, tuple)
    require(len(op.regions) == len(predicates) + 1, "needs one region per predicate and one more", op)


def _verify_kept(op: Op) -> None:
    shape = len(op.operands) == 2 and len(op.regions) == 3 and isinstance(op.attrs.get("where"), Predicate)
    require(shape, "has a source, what is kept, three regions and a predicate", op)


def _verify_loop(op: Op) -> None:
    require(len(op.operands) == 2 and isinstance(op.attrs.get("counter"), str), "counts from low to high", op)
    require(all(isinstance(v.type, IndexType) for v in (*op.operands, *op.body.args)), "counts with indices", op)
    _verify_sequential(op)
    each = [launch_loops(launch) for launch in op.walk() if launch.name == "schedule.launch" and ROWS in op.attrs]
    apart = all(own[0].block == 1 or op.attrs[ROWS] in [by.size.ceil_div(by.block) for by in own] for own in each)
    require(apart, "has programs of several rows", op)


def _verify_sequential(op: Op) -> None:
    if "sequential" not in op.attrs:
        return
    require(isinstance(op.attrs["sequential"], str), "says how much an iteration is", op)
    for inner in op.walk():
        require(inner.name not in ("schedule.print", CALL), "prints or calls in a loop that is compiled as one", op)
        if inner.name == "schedule.launch":
            size = product(launch_space(inner)).constant
            require(size is not None and size <= SMALL_LAUNCH, "launches more than a few elements", op)


def _verify_last(op: Op) -> None:
    around = op.parent.parent_op if op.parent is not None else None
    loop = around.parent.parent_op if around is not None and around.parent is not None else None
    inside = around is not None and around.name in BRANCHES and loop is not None
    require(inside and loop is not None and loop.name == "schedule.loop", "stands in a branch of a loop", op)


def _verify_while(op: Op) -> None:
    require(len(op.regions) == 2 and not op.operands, "has a test and a body", op)
    require(op.regions[0].block.terminator.name == "schedule.test", "its first region ends in a test", op)
    _verify_sequential(op)


def _verify_cond(op: Op) -> None:
    require(len(op.operands) == 1 and _is_flag(op.operands[0]), "reads one bool", op)
    require(len(op.regions) == 2, "has two regions", op)


def _verify_test(op: Op) -> None:
    require(len(op.operands) == 1 and _is_flag(op.operands[0]), "reads one bool", op)


define_op("schedule.func", pure=False, verify=_verify_func)
define_op("schedule.return", pure=False, verify=_verify_return, terminator=True)
define_op("schedule.guard", pure=False, verify=_verify_guard)
define_op("schedule.buffer", pure=False, verify=_verify_buffer)
define_op("schedule.check", pure=False, verify=_verify_check)
define_op("schedule.box", pure=True, verify=_verify_box)
define_op("schedule.parts", pure=True, verify=_verify_parts)
define_op("schedule.launch", pure=False, verify=_verify_launch)
define_op(CALL, pure=False, verify=_verify_call)
define_op("schedule.swap", pure=False, verify=_verify_swap)
define_op("schedule.select", pure=False, verify=_verify_select)
define_op(KEPT, pure=False, verify=_verify_kept)
define_op(BESIDE, pure=False)
define_op("schedule.loop", pure=False, verify=_verify_loop)
define_op("schedule.last", pure=False, verify=_verify_last)
define_op("schedule.while", pure=False, verify=_verify_while)
define_op("schedule.cond", pure=False, verify=_verify_cond)
define_op("schedule.assert", pure=False, verify=_verify_test, effect=IO)
define_op("schedule.require", pure=False, verify=_verify_guard, effect=IO)
define_op("schedule.print", pure=False, effect=IO)
define_op("schedule.test", pure=False, verify=_verify_test, terminator=True)
define_op("schedule.end", pure=False, terminator=True)
