"""Launches whose programs run in turn: a row of the data goes through all steps of a chain while it is in the cache.

    void tessera.in_turn(ptr table, i64 begin, i64 end, i64 worker)
        as a kernel: some programs of each kernel of the chain, then the next ones of each, and so on

    table:   words, kernels, together, programs of a row, then for each kernel:
             code, slots, context ..., moved, (slot, bytes to the next row, to the next program, of a program) ...

Enters: launches of which all but the first have `follows` (`schedule/chains/row_chains.py`, `column_chains.py`).
Leaves: one kernel for all of them, and the table that it is given. Memory between two kernels is moved back before
each turn by what the programs before have, so that all programs of a call use the part of the first of them, and no
thread that of another:

    begin = 4    programs  4, 5   6, 7   8, 9    rows of %w in memory   0 1 2 3 [4 5] 6 7 8 9
    together 2   moved by    0     -2     -4     all use                        rows 4, 5
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tesserac.ir.core import Op, attr, attr_tuple, tuple_of
from tesserac.schedule.dialect import FOLLOWS, MOVES, TOGETHER, memory
from tesserac.target.dims import emit_dim
from tesserac.target.emit import Function, Module
from tesserac.target.entry.system import HOST_ATTRIBUTES
from tesserac.target.flow import for_loop
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I64, PTR, VOID, Value, array, const_i64
from tesserac.types.dims import ZERO, Dim

Symbols = Mapping[str, Value]
IN_TURN = "tessera.in_turn"
MOST_WORDS = 512
"""Those of a table, of which each thread has a copy on its stack."""
HEAD, MOVE = 4, 4
"""Words."""


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


def chain_table(
    b: Builder, chain: Sequence[Op], codes: Sequence[Value], contexts: Sequence[Sequence[Value]], symbols: Symbols
) -> list[Value] | None:
    """The words of the table; none where there are too many."""
    together = attr(chain[1], TOGETHER, int)
    words: list[Value] = []
    for launch, code, context in zip(chain, codes, contexts, strict=True):
        moves = [(slot, move) for slot, move in enumerate(_moved_bytes(launch)) if any(step != ZERO for step in move)]
        numbers = [emit_dim(b, number, symbols) for slot, move in moves for number in (Dim.const(slot), *move)]
        words += [code, const_i64(len(context)), *context, const_i64(len(moves)), *numbers]
    head = map(const_i64, (HEAD + len(words), len(chain), together))
    whole = [*head, emit_dim(b, attr(chain[1], FOLLOWS, Dim), symbols), *words]
    return whole if len(whole) <= MOST_WORDS else None


def _moved_bytes(launch: Op) -> list[tuple[Dim, ...]]:
    """How far the part of each operand moves, from row to row and from program to program."""
    moves = zip(attr_tuple(launch, MOVES, tuple), launch.operands, strict=True)
    return [tuple(step * memory(v).dtype.bytes for step in tuple_of(move, Dim)) for move, v in moves]


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
        row, of_its = (b.binary(rule, number, of_row) for rule in ("udiv", "urem"))

        def kernel(_: Value, at: list[Value]) -> Sequence[Value]:
            _move(b, table, own, at[0], (row, of_its, begin))
            return [_run(b, own, at[0], (number, behind), worker)]

        for_loop(b, const_i64(0), many, const_i64(1), [const_i64(HEAD)], kernel)
        return ()

    for_loop(b, const_i64(0), b.load(I64, table, 8), const_i64(1), [], copy)
    many, together, of_row = (b.load(I64, b.gep(I64, own, place), 8) for place in (1, 2, 3))
    for_loop(b, begin, end, together, [], turn)
    b.ret()
    return function


def _move(b: Builder, table: Value, own: Value, at: Value, moved: Sequence[Value]) -> None:
    """Sets where memory is for the kernel whose part of the tables begins at a word, so many rows and programs back, so
    many parts of a program forward."""
    given, here = (b.gep(I64, words, at) for words in (table, own))
    slots = b.load(I64, b.gep(I64, given, 1), 8)
    moves = b.gep(I64, given, b.add(slots, const_i64(2)))

    def move(place: Value, _: list[Value]) -> Sequence[Value]:
        words = b.gep(I64, b.gep(I64, moves, 1), b.mul(place, const_i64(MOVE)))
        slot, row, program, part = (b.load(I64, b.gep(I64, words, word), 8) for word in range(MOVE))
        slot = b.add(slot, const_i64(2))
        steps = [b.mul(step, many) for step, many in zip((row, program, part), moved, strict=True)]
        there = b.load(I64, b.gep(I64, given, slot), 8)
        b.store(b.add(b.sub(b.sub(there, steps[0]), steps[1]), steps[2]), b.gep(I64, here, slot), 8)
        return ()

    for_loop(b, const_i64(0), b.load(I64, moves, 8), const_i64(1), [], move)


def _run(b: Builder, table: Value, at: Value, programs: tuple[Value, Value], worker: Value) -> Value:
    """Programs of the kernel whose part of the table begins at a word; gives where the next one's does."""
    entry = b.gep(I64, table, at)
    kernel, slots = b.load(PTR, entry, 8), b.load(I64, b.gep(I64, entry, 1), 8)
    context = b.gep(I64, entry, 2)
    b.call(kernel, [context, *programs, worker])
    moves = b.load(I64, b.gep(I64, context, slots), 8)
    return b.add(b.add(at, b.add(slots, const_i64(3))), b.mul(moves, const_i64(MOVE)))
