"""Launches whose programs run in turn: a row of the data goes through all steps of a chain while it is in the cache.

    void tessera.in_turn(ptr table, i64 begin, i64 end, i64 worker)
        as a kernel: some programs of each kernel of the chain, then the next ones of each, and so on

    table:   words, kernels, together, then for each kernel:   code, slots, context ..., moved, (slot, bytes) ...

Enters: launches of which all but the first have `follows` (`schedule/row_chains.py`). Leaves: one kernel for all of
them, and the table that it is given. Memory between two kernels is moved back by the part of those programs after each
turn, so that all programs of a call use the part of the first of them, and no thread that of another:

    begin = 4    programs  4, 5   6, 7   8, 9    rows of %w in memory   0 1 2 3 [4 5] 6 7 8 9
    together 2   moved by    0     -2     -4     all use                        rows 4, 5
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.ir.core import Op, attr
from tesserac.ir.core import Value as IRValue
from tesserac.schedule.dialect import FOLLOWS, TOGETHER, memory
from tesserac.target.cpu.system import HOST_ATTRIBUTES
from tesserac.target.emit import Function, Module
from tesserac.target.flow import for_loop
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I64, PTR, VOID, Value, array, const_i64
from tesserac.types.dims import Dim

IN_TURN = "tessera.in_turn"
MOST_WORDS = 256
"""Those of a table, of which each thread has a copy on its stack."""
HEAD = 3


def chain_from(launch: Op) -> list[Op]:
    """A launch with those behind it whose programs may run in turn with its own."""
    block = launch.parent
    assert block is not None
    found = [launch]
    for op in block.ops[block.place(launch) + 1 :]:
        if FOLLOWS not in op.attrs:
            break
        found.append(op)
    return found


def chain_table(chain: Sequence[Op], codes: Sequence[Value], contexts: Sequence[Sequence[Value]]) -> list[Value] | None:
    """The words of the table; none where there are too many."""
    together = attr(chain[1], TOGETHER, int)
    step = attr(chain[1], FOLLOWS, Dim).evaluate({}) * together
    words: list[Value] = []
    for launch, code, context in zip(chain, codes, contexts, strict=True):
        moved = [(slot, memory(v)) for slot, v in enumerate(launch.operands) if _is_between(v, chain)]
        moves = [const_i64(n) for slot, mem in moved for n in (slot, step * mem.dtype.bytes)]
        words += [code, const_i64(len(context)), *context, const_i64(len(moved)), *moves]
    whole = [const_i64(HEAD + len(words)), const_i64(len(chain)), const_i64(together), *words]
    return whole if len(whole) <= MOST_WORDS else None


def _is_between(value: IRValue, chain: Sequence[Op]) -> bool:
    """Whether memory is only there for launches of a chain, some that write it and some that read it."""
    made = value.defining_op
    while made is not None and made.name == "schedule.box":
        value = made.operands[0]
        made = value.defining_op
    workspace = made is not None and made.name == "schedule.buffer" and made.attrs["role"] == "workspace"
    users = _users(value)
    return workspace and len(users) > 1 and users <= set(chain)


def _users(buffer: IRValue) -> set[Op]:
    """Who reads or writes memory, or a part of it."""
    direct = {user for user, _ in buffer.uses}
    named = {user for user in direct if user.name == "schedule.box"}
    return (direct - named).union(*(_users(user.result) for user in named))


def in_turn(b: Builder) -> Value:
    """The kernel of a module that runs a chain of others; made when it is first needed."""
    return (b.module.find_function(IN_TURN) or _in_turn(b.module)).pointer


def _in_turn(module: Module) -> Function:
    function = module.function(IN_TURN, VOID, [PTR, I64, I64, I64], attributes=HOST_ATTRIBUTES, linkage="internal")
    b = function.builder
    table, begin, end, worker = function.args
    own = b.alloca(array(I64, MOST_WORDS), 8)

    def copy(place: Value, _: list[Value]) -> Sequence[Value]:
        b.store(b.load(I64, b.gep(I64, table, place), 8), b.gep(I64, own, place), 8)
        return ()

    def turn(number: Value, _: list[Value]) -> Sequence[Value]:
        behind = b.minimum_int(b.add(number, together), end)

        def kernel(_: Value, at: list[Value]) -> Sequence[Value]:
            return [_run_and_move(b, own, at[0], (number, behind), worker)]

        for_loop(b, const_i64(0), many, const_i64(1), [const_i64(HEAD)], kernel)
        return ()

    for_loop(b, const_i64(0), b.load(I64, table, 8), const_i64(1), [], copy)
    many, together = (b.load(I64, b.gep(I64, own, place), 8) for place in (1, 2))
    for_loop(b, begin, end, together, [], turn)
    b.ret()
    return function


def _run_and_move(b: Builder, table: Value, at: Value, programs: tuple[Value, Value], worker: Value) -> Value:
    """Programs of the kernel whose part of the table begins at a word; gives where the next one's does."""
    entry = b.gep(I64, table, at)
    kernel, slots = b.load(PTR, entry, 8), b.load(I64, b.gep(I64, entry, 1), 8)
    context = b.gep(I64, entry, 2)
    b.call(kernel, [context, *programs, worker])
    moved = b.gep(I64, context, slots)
    many = b.load(I64, moved, 8)

    def move(place: Value, _: list[Value]) -> Sequence[Value]:
        pair = b.gep(I64, b.gep(I64, moved, 1), b.mul(place, const_i64(2)))
        slot = b.gep(I64, context, b.load(I64, pair, 8))
        b.store(b.sub(b.load(I64, slot, 8), b.load(I64, b.gep(I64, pair, 1), 8)), slot, 8)
        return ()

    for_loop(b, const_i64(0), many, const_i64(1), [], move)
    return b.add(b.add(at, b.add(slots, const_i64(3))), b.mul(many, const_i64(2)))
