"""The functions that launches of a host program call: how their programs are divided among threads.

    void tessera.launch(ptr kernel, ptr context, i64 programs, i64 touched, i64 threads, ptr status)
        runs them; in a call that was stopped it does nothing
    void tessera.several(ptr table, i64 begin, i64 end, i64 worker)
        as a kernel: the programs of one for several tensors, one tensor behind the other. The table has the kernel, the
        number of tensors, of each its first program, how many programs all have, and of each what the kernel is given
    {i64, i64} tessera.blocks(i64 leads, ...)
        how large the blocks of a product are (`schedule/model/cuts.py`)

One of each for all launches: a step of training has hundreds, and what is written for each of them LLVM translates for
each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tesserac.ir.core import Op
from tesserac.schedule.model.cuts import COLUMNS, FULL_UNITS, PARAMETERS, ROWS, block_rule, cut_of
from tesserac.target.dims import ceil_div, emit_dim
from tesserac.target.emit import Function, Module
from tesserac.target.entry.interrupts import is_stopped
from tesserac.target.entry.system import HOST_ATTRIBUTES, call_imported
from tesserac.target.flow import for_loop, if_return, if_then
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I1, I64, PTR, VOID, Value, const_i64, structure, undefined

LAUNCH, SEVERAL, BLOCKS = "tessera.launch", "tessera.several", "tessera.blocks"
INLINE_ELEMENTS = 1 << 15
"""A launch that touches fewer elements than this runs on the calling thread: waking others would take longer."""
CHUNKS_PER_THREAD = 4
"""Enough to even out threads of different speed, few enough that a kernel keeps what it packed."""
CHUNK_BITS = 21
"""A chunk touches no more than 2 million elements, if programs are that small: a call is stopped between two chunks."""


def launcher(module: Module) -> Function:
    """The function of a module that runs the `programs` of a kernel, if there are any; made with the first launch."""
    return module.find_function(LAUNCH) or _launcher(module)


def _launcher(module: Module) -> Function:
    parameters = [PTR, PTR, I64, I64, I64, PTR]
    function = module.function(LAUNCH, VOID, parameters, attributes=HOST_ATTRIBUTES, linkage="internal")
    b = function.builder
    kernel, context, programs, touched, most, status = function.args

    def run_here() -> None:
        b.call(kernel, [context, const_i64(0), programs, const_i64(0)])
        b.ret()

    if_return(b, is_stopped(b, status), lambda: b.ret())
    if_return(b, b.icmp("sle", programs, const_i64(0)), lambda: b.ret())
    if_return(b, b.icmp("ult", touched, const_i64(INLINE_ELEMENTS)), run_here)
    # Of two programs others take over one at most: as many elements as are worth waking them are to be in those.
    theirs = b.sub(touched, b.binary("udiv", touched, programs))
    if_return(b, b.icmp("ult", theirs, const_i64(INLINE_ELEMENTS)), run_here)
    few, many = b.mul(most, const_i64(CHUNKS_PER_THREAD)), b.binary("lshr", touched, const_i64(CHUNK_BITS))
    chunk = ceil_div(b, programs, b.maximum_int(few, many))
    call_imported(b, "pool.pool_run", [kernel, context, programs, chunk, most, status])
    call_imported(b, "pool.pool_poll", [status], I1)
    b.ret()
    return function


def small_or(b: Builder, touched: Value, threads: Value) -> Value:
    """How many threads a launch runs on: one, where it is small."""
    return b.select(b.icmp("ult", touched, const_i64(INLINE_ELEMENTS)), const_i64(1), threads)


def several(module: Module) -> Function:
    """The kernel of a module that runs another for several tensors; made when it is first needed."""
    return module.find_function(SEVERAL) or _several(module)


def _several(module: Module) -> Function:
    function = module.function(SEVERAL, VOID, [PTR, I64, I64, I64], attributes=HOST_ATTRIBUTES, linkage="internal")
    b = function.builder
    table, begin, end, worker = function.args
    kernel, many = b.load(PTR, table, 8), b.load(I64, b.gep(I64, table, 1), 8)
    firsts = b.gep(I64, table, 2)
    contexts = b.gep(I64, firsts, b.add(many, const_i64(1)))

    def tensor(number: Value, _: list[Value]) -> Sequence[Value]:
        places = [b.gep(I64, firsts, number), b.gep(I64, firsts, b.add(number, const_i64(1)))]
        first, behind = (b.load(I64, place, 8) for place in places)
        low, high = b.maximum_int(begin, first), b.minimum_int(end, behind)
        context = b.load(PTR, b.gep(I64, contexts, number), 8)

        def run() -> None:
            b.call(kernel, [context, b.sub(low, first), b.sub(high, first), worker])

        if_then(b, b.icmp("slt", low, high), run)
        return ()

    for_loop(b, const_i64(0), many, const_i64(1), [], tensor)
    b.ret()
    return function


def emit_blocks(b: Builder, launch: Op, symbols: Mapping[str, Value], threads: Value) -> dict[str, Value]:
    """The symbols that a launch gives its kernel: rows and columns of a block, where it cuts a product."""
    cut = cut_of(launch)
    if cut is None:
        return {}
    first, second = (
        (emit_dim(b, size, symbols), const_i64(most), emit_dim(b, unit, symbols)) for size, most, unit in cut.sides()
    )
    leads = emit_dim(b, cut.leads, symbols)
    units = b.mul(leads, ceil_div(b, first[0], first[2]))
    wanted = in_turns(b, threads, cut.turns, cut.turns_from, units, laid_out=cut.rows_first)
    blocks = find_blocks(b, leads, first, second, wanted, square=cut.square)
    return dict(zip((ROWS, COLUMNS) if cut.rows_first else (COLUMNS, ROWS), blocks, strict=True))


Side = tuple[Value, Value, Value]
"""Its size, its largest block and its unit."""


def in_turns(b: Builder, threads: Value, turns: int, turns_from: int, units: Value, *, laid_out: bool) -> Value:
    """How many blocks there are to be at least: `turns` for each of so many threads and more. Where panels are
    `laid_out` for all, which have so many `units` of rows, no block has fewer than `FULL_UNITS` for its turn."""
    if turns == 1:
        return threads
    several = b.mul(threads, const_i64(turns))
    if laid_out:
        several = b.maximum_int(threads, b.minimum_int(several, ceil_div(b, units, const_i64(FULL_UNITS))))
    return b.select(b.icmp("sge", threads, const_i64(turns_from)), several, threads)


def find_blocks(
    b: Builder, leads: Value, first: Side, second: Side, threads: Value, *, square: bool = False
) -> list[Value]:
    """How large the blocks are of the side that is cut first, and of the other."""
    pairs = [value for pair in zip(first, second, strict=True) for value in pair]
    both = b.call(b.module.find_function(BLOCKS) or _blocks(b.module), [leads, *pairs, threads, const_i64(int(square))])
    return [b.extract_value(both, place, I64) for place in range(2)]


def _blocks(module: Module) -> Function:
    pair = structure(I64, I64)
    parameters = [I64] * len(PARAMETERS)
    function = module.function(BLOCKS, pair, parameters, attributes=HOST_ATTRIBUTES, linkage="internal")
    b, made = function.builder, undefined(pair)
    given = dict(zip(PARAMETERS, function.args, strict=True))
    fits = [b.icmp("sle", given[side], given[f"most_{side}"]) for side in ("first", "second")]
    alone = b.icmp("sle", given["threads"], const_i64(1))

    def largest() -> None:
        """One thread, and no side to be cut: the largest blocks do, and nothing is to be divided."""
        whole = b.insert_value(undefined(pair), given["most_first"], 0)
        b.ret(b.insert_value(whole, given["most_second"], 1))

    if_return(b, b.binary("and", alone, b.binary("and", *fits)), largest)
    for place, rule in enumerate(block_rule()):
        made = b.insert_value(made, emit_dim(b, rule, given), place)
    b.ret(made)
    return function
