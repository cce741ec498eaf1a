"""A `gpu.kernel` as LLVM text.

Enters: the operation. Leaves: text with one `ptx_kernel`, and what the host must know to launch it. Parameters are all
eight bytes wide, in this order: memory and workspaces (pointers), tensor maps (pointers to them in global memory),
the values of the dim symbols in sorted order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tessera.gpu_program import table_firsts
from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Block, Op
from tesserac.ir.core import Value as IRValue
from tesserac.ir.types import MemRefType
from tesserac.schedule.machine import NVPTX
from tesserac.target import flow
from tesserac.target.emit import Function, Module
from tesserac.target.llvm_types import I8, I32, I64, PTR, VOID, LType, Value, array, const_i64, const_int, pointer
from tesserac.target.nvptx import positions
from tesserac.target.nvptx.blocks import (
    NEWEST,
    allocation_bytes,
    allocations,
    block_threads,
    blocks_resident,
    programs,
    programs_beside,
    shared_bytes,
)
from tesserac.target.nvptx.context import GLOBAL, SHARED, Context, Memory, Ring
from tesserac.target.nvptx.memory import (
    gathers,  # fmt: skip
    parts,  # fmt: skip
    words,  # fmt: skip
)
from tesserac.target.nvptx.products import (
    clusters,  # fmt: skip
    copies,  # fmt: skip
    row_copies,  # fmt: skip
    stages,  # fmt: skip
    turned,  # fmt: skip
)
from tesserac.target.nvptx.products import dots as products  # fmt: skip
from tesserac.target.nvptx.registers import (
    control,  # fmt: skip
    fragments,  # fmt: skip
    trees,  # fmt: skip
)
from tesserac.target.nvptx.rows import (
    exchange,  # fmt: skip
    radix,  # fmt: skip
    scans,  # fmt: skip
    sorts,  # fmt: skip
    wide_scans,  # fmt: skip
)
from tesserac.tile.dialect import RESIDENT, kernel_tensors
from tesserac.tile.gpu.layouts.pairs import is_paired
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.shared import ATOM_BYTES
from tesserac.tile.gpu.model.touched import written_memory
from tesserac.tile.gpu.model.types import VARIES, WORK, BarriersType, StagesType, TensorMapType
from tesserac.tile.gpu.model.values import is_persistent, kernel_grid, kernel_parameters, kernel_threads, text
from tesserac.types.dims import Dim

DATA_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"

Emit = Callable[[Context, Op], None]


@dataclass(frozen=True)
class KernelText:
    """`shared` is the dynamic shared memory in bytes, `symbols` the dims passed as values."""

    name: str
    llvm: str
    threads: int
    shared: Dim
    symbols: tuple[str, ...]


EARLY = "griddepcontrol.wait;\ngriddepcontrol.launch_dependents;"


def emit_kernel(kernel: Op, early: bool = False, arch: str = NEWEST[0]) -> KernelText:
    """`early`: the launch may begin before the one before it has ended, for which the kernel waits itself: see
    `blocks.may_begin_early`."""
    name = entry_name(kernel.symbol)
    module = Module(name, NVPTX, DATA_LAYOUT)
    parameters, symbols = kernel_parameters(kernel), kernel_symbols(kernel)
    threads, tensors = block_threads(kernel), kernel_tensors(kernel)
    types = [pointer(GLOBAL) if isinstance(p.type, MemRefType) else PTR for p in parameters]
    types += [I64] * len(symbols)
    words = table_firsts(tensors) + tensors * len(types) if tensors else 0
    resident = kernel.attrs.get(RESIDENT) or blocks_resident(kernel, arch)
    function = module.function(
        name,
        VOID,
        [PTR] if tensors else types,
        attributes=[
            f'"nvvm.maxntid"="{threads},1,1"',
            f'"nvvm.minctasm"="{resident}"',
            *clusters.attributes(kernel),
            "nounwind",
        ],
        parameter_attributes=[f"byval({array(I64, words)}) align 8"] if tensors else (),
        convention="ptx_kernel",
    )
    if early:  # nothing is read or written before; then the next launch may get ready
        function.builder.asm(VOID, EARLY, "~{memory}", [])
    given, own = _row(function, tensors, types) if tensors else (function.args, None)
    ctx = Context(module, function, kernel, dict(zip(symbols, given[len(parameters) :], strict=True)))
    _bind_parameters(ctx, parameters, given, early)
    if not is_persistent(kernel):
        positions.Grid(ctx).bind(_first_program(ctx) if own is None else own)
    shared = _place_shared(ctx)
    if programs_beside(kernel) > 1 and programs(kernel).constant is None:
        some = ctx.b.icmp("ult", ctx.program, ctx.dim(programs(kernel)))
        flow.if_then(ctx.b, some, lambda: control.ignore(_emit_block(ctx, kernel.body)))
    else:
        _emit_block(ctx, kernel.body)
    ctx.b.ret()
    return KernelText(name, str(module), threads, shared * programs_beside(kernel), symbols)


def _row(function: Function, tensors: int, types: Sequence[LType]) -> tuple[list[Value], Value]:
    """What a program is given of the table of several tensors, which is the parameter, and its number in its tensor."""
    b, (table,) = function.builder, function.args
    number = b.cast("zext", b.intrinsic("llvm.nvvm.read.ptx.sreg.ctaid.x", I32, []), I64)
    found, half = const_i64(0), table_firsts(tensors) // 2
    while half:
        behind = b.add(found, const_i64(half))
        first = b.load(I64, b.gep(I64, table, behind), 8)
        found, half = b.select(b.icmp("sle", first, number), behind, found), half // 2
    start = b.add(b.mul(found, const_i64(len(types))), const_i64(table_firsts(tensors)))
    row = b.gep(I64, table, start)
    given = [b.load(type_, b.gep(I64, row, place), 8) for place, type_ in enumerate(types)]
    return given, b.sub(number, b.load(I64, b.gep(I64, table, found), 8))


def entry_name(symbol: str) -> str:
    """A symbol as PTX can spell it; each kernel has a text of its own, so nothing can clash."""
    return symbol.replace(".", "_")


def kernel_symbols(kernel: Op) -> tuple[str, ...]:
    """The dim symbols that the kernel's code or its memory mentions."""
    dims: list[Dim] = list(kernel_grid(kernel))
    for op in kernel.walk():
        dims += [v for v in op.attrs.values() if isinstance(v, Dim)]
        for value in (*op.results, *(a for r in op.regions for a in r.block.args)):
            if isinstance(value.type, MemRefType):
                dims += [*value.type.dims, *value.type.strides]
    return tuple(sorted(frozenset().union(*(d.symbols() for d in dims))))


def _bind_parameters(ctx: Context, parameters: Sequence[IRValue], args: Sequence[Value], early: bool) -> None:
    """Of a kernel that begins early no memory is constant: the one before writes it meanwhile, and the assembler moves
    loads of what is constant before the wait."""
    written = {value for op in ctx.kernel.walk() for value in written_memory(op)}
    for parameter, arg in zip(parameters, args, strict=False):
        if isinstance(parameter.type, TensorMapType):
            ctx.maps[parameter] = arg
        else:
            assert isinstance(parameter.type, MemRefType)
            held = _memory(ctx, parameter.type, arg, not early and parameter not in written)
            ctx.memories[parameter] = replace(held, paired=is_paired(ctx.kernel, parameter))


def _memory(ctx: Context, ty: MemRefType, base: Value, constant: bool) -> Memory:
    if ty.layout != "strided":
        raise LoweringError(f"memory in the layout {ty.layout} on a GPU")
    return Memory(base, ty, tuple(ctx.dim(s) for s in ty.strides), constant)


def _first_program(ctx: Context) -> Value:
    number = ctx.b.cast("zext", ctx.sreg("ctaid.x"), I64)
    if (together := clusters.size(ctx.kernel)) > 1:
        return ctx.b.binary("udiv", number, const_i64(together))
    if (beside := programs_beside(ctx.kernel)) > 1:
        threads, thread = kernel_threads(ctx.kernel), ctx.sreg("tid.x")
        ctx.beside = ctx.b.binary("lshr", thread, const_int(I32, threads.bit_length() - 1))
        number = ctx.b.add(ctx.b.mul(number, const_i64(beside)), ctx.b.cast("zext", ctx.beside, I64))
        ctx.thread = ctx.b.binary("and", thread, const_int(I32, threads - 1))
        ctx.count = beside
    if ctx.kernel.attrs.get(WORK) != VARIES:
        return number
    return positions.last_first(ctx, number)


def _place_shared(ctx: Context) -> Dim:
    """Places what the block shares: stages first, since they must be aligned, memory of run-time size last. Gives the
    bytes of all of it."""
    base = ctx.module.variable(
        "shared_memory", array(I8, 0), "", space=SHARED, align=ATOM_BYTES, linkage="external"
    )
    total = Dim.const(0)
    if ctx.beside is not None and (own := shared_bytes(ctx.kernel).constant):
        base = ctx.b.gep(I8, base, ctx.b.mul(ctx.b.cast("zext", ctx.beside, I64), const_i64(own)))
    for op in allocations(ctx.kernel):
        ctx.shared[op.result] = ctx.b.gep(I8, base, ctx.dim(total))
        total = total + allocation_bytes(op)
    return total


def _emit_alloc(ctx: Context, op: Op) -> None:
    address, ty = ctx.shared[op.result], op.result.type
    if isinstance(ty, StagesType):
        ctx.rings[op.result] = Ring(address, ty)
    elif isinstance(ty, BarriersType):
        ctx.barriers[op.result] = address
        copies.initialize_barriers(ctx, op.result, ty)
    else:
        assert isinstance(ty, MemRefType)
        ctx.memories[op.result] = _memory(ctx, ty, address, False)


def _emit_view(ctx: Context, op: Op) -> None:
    (source,), ty = op.operands, op.result.type
    if isinstance(ty, StagesType):
        ctx.rings[op.result] = Ring(ctx.rings[source].pointer, ty)
        return
    assert isinstance(ty, MemRefType)
    ctx.memories[op.result] = _memory(ctx, ty, ctx.memories[source].pointer, False)


def _emit_role(ctx: Context, op: Op, emit_block: control.EmitBlock) -> None:
    """What warps of a role do, for one program or for one after the other."""
    if not is_persistent(ctx.kernel):
        control.emit_role(ctx, op, lambda: control.ignore(emit_block(ctx, op.body)))
        return
    prepared = text(op, "name") != "producer"
    run = lambda: control.ignore(emit_block(ctx, op.body))  # noqa: E731
    control.emit_role(ctx, op, lambda: positions.run_programs(ctx, prepared, run))


def _emit_block(ctx: Context, block: Block) -> Sequence[IRValue]:
    for op in block.ops[:-1]:
        _emit_op(ctx, op)
    ctx.arrive()
    return block.ops[-1].operands


def _emit_op(ctx: Context, op: Op) -> None:
    if op.opdef.dialect != "index" and op.name not in _ASKING:
        ctx.arrive()
    if op.opdef.dialect == "index":
        control.emit_index(ctx, op)
    elif op.name in _STRUCTURED:
        _STRUCTURED[op.name](ctx, op, _emit_block)
    elif op.name in _EMIT:
        _EMIT[op.name](ctx, op)
    else:
        raise LoweringError(f"no rule for {op.name}")


_STRUCTURED: dict[str, Callable[[Context, Op, control.EmitBlock], None]] = {
    "gpu.for": turned.emit_for,
    "gpu.tree": trees.emit_tree,
    "gpu.running": trees.emit_running,
    "gpu.unless": control.emit_unless,
    "gpu.role": _emit_role,
}

_ASKING = ("gpu.axis", "gpu.load")
"""What reads no fragment."""
_EMIT: dict[str, Emit] = {
    "gpu.alloc": _emit_alloc,
    "gpu.view": _emit_view,
    "gpu.axis": words.emit_axis,
    "gpu.team": control.emit_team,
    "gpu.program": control.emit_program,
    "gpu.rank": clusters.emit_rank,
    "gpu.exchange": clusters.emit_exchange,
    "gpu.gather": gathers.emit_gather,
    "gpu.scatter": gathers.emit_scatter,
    "gpu.index": gathers.emit_index,
    "gpu.scan_rows": scans.emit_scan_rows,
    "gpu.subtrees": scans.emit_subtrees,
    "gpu.scan_once": wide_scans.emit_once,
    "gpu.sort": sorts.emit_sort,
    "gpu.digit_counts": radix.emit_counts,
    "gpu.digit_offsets": radix.emit_offsets,
    "gpu.digit_places": radix.emit_places,
    "gpu.load": parts.emit_load,
    "gpu.store": parts.emit_store,
    "gpu.publish": exchange.emit_publish,
    "gpu.collect": exchange.emit_collect,
    "gpu.full": fragments.emit_full,
    "gpu.iota": fragments.emit_iota,
    "gpu.map": fragments.emit_map,
    "gpu.cast": fragments.emit_cast,
    "gpu.round": fragments.emit_round,
    "gpu.mask": fragments.emit_mask,
    "gpu.fold": fragments.emit_fold,
    "gpu.butterfly": fragments.emit_butterfly,
    "gpu.halve": fragments.emit_halve,
    "gpu.shuffle": fragments.emit_shuffle,
    "gpu.spread": fragments.emit_spread,
    "gpu.less": fragments.emit_less,
    "gpu.choose": fragments.emit_choose,
    "gpu.copy": copies.emit_copy,
    "gpu.copy_rows": row_copies.emit_copy_rows,
    "gpu.commit": copies.emit_commit,
    "gpu.wait": copies.emit_wait,
    "gpu.barrier": copies.emit_barrier,
    "gpu.warp_barrier": copies.emit_warp_barrier,
    "gpu.put": stages.emit_put,
    "gpu.multiply_held": products.emit_multiply_held,
    "gpu.sum_rows": products.emit_sum_rows,
    "gpu.column": fragments.emit_column,
    "gpu.relabel": fragments.emit_relabel,
    "gpu.fill_ones": copies.emit_fill_ones,
    "gpu.give_registers": control.emit_give_registers,
    "gpu.zero_behind": copies.emit_zero_behind,
    "gpu.take_turn": control.emit_take_turn,
    "gpu.pass_turn": control.emit_pass_turn,
    "gpu.expect": copies.emit_expect,
    "gpu.arrive": copies.emit_arrive,
    "gpu.arrive_copied": copies.emit_arrive_copied,
    "gpu.see_copies": copies.emit_see_copies,
    "gpu.next": copies.emit_next,
    "gpu.await": copies.emit_await,
    "gpu.tensor_copy": copies.emit_tensor_copy,
    "gpu.multiply": turned.emit_multiply,
    "gpu.no_product": lambda ctx, op: None,
    "gpu.add_columns": products.emit_add_columns,
    "gpu.wait_mma": products.emit_wait_mma,
}
