"""Control flow on the host: what a loop carries lives in buffers that its body overwrites.

    form.loop(%lo, %hi, %init) { ^(%i, %x): %y = ...; form.yield(%y) } : tensor<[N], f32>
becomes
    schedule.launch(%init, %carried) {copy}
    schedule.loop(%lo, %hi) { ^(%i): schedule.launch(%carried, %next) ...; schedule.swap(%carried, %next) }

What is copied and what changes hands is decided in `carry.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from tesserac.ir import calls
from tesserac.ir.core import Block, Op, Value, clone_op
from tesserac.ir.forms import tensor_type
from tesserac.ir.types import INDEX
from tesserac.schedule.costs.tiles import few_rows
from tesserac.schedule.dialect import CALL, memory
from tesserac.schedule.forms.dense_terms import lay_terms_out
from tesserac.schedule.forms.updates import Updates, plan_updates
from tesserac.schedule.fusion.fuse import fuse_maps
from tesserac.schedule.fusion.group import Group
from tesserac.schedule.fusion.launches import plan
from tesserac.schedule.fusion.recompute import compute_again
from tesserac.schedule.host.carry import (
    carry_on,
    compute_views,
    first_buffers,
    give,
    handed_over,
    idle_branch,
    place_branch,
    place_carried,
)
from tesserac.schedule.host.frozen_operands import READ_AS_IT_LIES
from tesserac.schedule.host.program import HostProgram, memory_of
from tesserac.schedule.host.size_branches import SIZES, decide_by_sizes
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.access import has_strides, view_source
from tesserac.schedule.primitives.stage import stage_before_grid
from tesserac.schedule.products.contract import operand_layout, product_types
from tesserac.schedule.products.direct import read_directly
from tesserac.types.extents import constant_bound

FLAG = "the host reads it"
ARGUMENT = "a function is called with it, which reads whole tensors"


def run_block(
    program: HostProgram, block: Block, owned: Collection[Value] = (), place: Callable[[], None] = lambda: None
) -> None:
    """Launches and control flow of a block, in order. It may overwrite the memory of the values that it owns. `place`
    says, once it is known what is computed, where something of it is written."""
    decide_by_sizes(block)
    if program.machine.packs_operands:
        read_directly(block, program.machine)
        _lay_out_operands(program, block)
    if program.machine.multiplies_bytes:
        lay_terms_out(block)
    reasons = fuse_maps(block, program.machine)
    if program.machine.warps:  # before it is decided what changes in place, since more is read later then
        compute_again(plan(block, {}, Updates(), program.machine), program.machine)
    plan_updates(block, owned, program.updates)
    place()
    for op in block.ops:
        if op.opdef.dialect == "index":
            program.builder.block.append(clone_op(op, program.memory))
    for step in plan(block, reasons, program.updates, program.machine):
        if isinstance(step, Group):
            program.launch(step)
        else:
            _lower_control(program, step, owned)


def _lay_out_operands(program: HostProgram, block: Block) -> None:
    """Right operands that every program of a product reads become panels before the grid, and those that may be frozen:
    they are packed once for all calls."""
    for op in list(block.ops):
        matrix = op.name == "form.contract" and tensor_type(op.operands[1]).rank == 2
        if matrix and has_strides(op.operands[1]) and (_has_many_rows(op, program.machine) or _is_kept(program, op)):
            stage_before_grid(op, operand_layout(program.machine, *product_types(op)))


def _has_many_rows(contract: Op, machine: Machine) -> bool:
    rows = constant_bound(tensor_type(contract.result).dims[-2])
    return rows is None or rows > few_rows(machine)


def _is_kept(program: HostProgram, contract: Op) -> bool:
    """Whether the right operand of a product of few rows may be frozen, and packing it is worth it then."""
    source, rows = view_source(contract.operands[1])[0], tensor_type(contract.result).dims[-2].constant
    if source not in program.memory or rows is None or rows <= READ_AS_IT_LIES:
        return False
    return program.may_be_frozen(program.memory[source], tensor_type(contract.operands[1]).dims)


def _lower_control(program: HostProgram, op: Op, owned: Collection[Value]) -> None:
    match op.name:
        case "form.loop":
            _lower_loop(program, op, owned)
        case "form.while":
            _lower_while(program, op, owned)
        case "form.cond":
            _lower_cond(program, op, owned)
        case calls.INVOKE:
            _lower_call(program, op)
        case "form.assert" | "form.require" | "form.print":
            _lower_effect(program, op)
        case _:
            raise AssertionError(f"{op.name} is not control flow")


def _lower_loop(program: HostProgram, op: Op, owned: Collection[Value]) -> None:
    low, high = (program.memory[v] for v in op.operands[:2])
    carried = first_buffers(program, op, op.operands[2:], owned)
    block = Block([INDEX], [op.body.args[0].name])
    program.memory[op.body.args[0]] = block.args[0]
    program.memory.update(zip(op.body.args[1:], carried, strict=True))
    with program.builder.spanned(op.span):
        program.builder.op("schedule.loop", (low, high), (), {"counter": op.attrs["counter"]}, (block,))
    idle = idle_branch(op) if program.machine.leaves_idle_loops else None
    with program.builder.at(block):
        if idle is not None:
            program.ends.add(idle)
        run_block(program, op.body, op.body.args[1:], lambda: place_carried(program, op.body))
        carry_on(program, op.body, carried)
    program.memory.update(zip(op.results, carried, strict=True))


def _lower_while(program: HostProgram, op: Op, owned: Collection[Value]) -> None:
    carried = first_buffers(program, op, op.operands, owned)
    test, body = Block(), Block()
    with program.builder.spanned(op.span):
        program.builder.op("schedule.while", (), (), {}, (test, body))
    for region, block in zip(op.regions, (test, body), strict=True):
        program.memory.update(zip(region.block.args, carried, strict=True))
        with program.builder.at(block):
            if block is body:
                run_block(program, region.block, region.block.args, partial(place_carried, program, region.block))
            else:
                run_block(program, region.block)
            if block is test:
                flag = _in_memory(program, region.block.terminator.operands[0], region.block.terminator)
                program.builder.op("schedule.test", (flag,))
            else:
                carry_on(program, region.block, carried)
    program.memory.update(zip(op.results, carried, strict=True))


def _lower_cond(program: HostProgram, op: Op, owned: Collection[Value]) -> None:
    flags = [_in_memory(program, value, op) for value in op.operands]
    compute_views(op)
    wanted = dict(program.wanted.get(op, []))
    kept = [
        None if result in wanted else handed_over(program, op, position, owned)
        for position, result in enumerate(op.results)
    ]
    kept = [None if value in kept[:position] else value for position, value in enumerate(kept)]
    given = [
        (wanted.get(result) or program.workspace(tensor_type(result), result.name))
        if value is None
        else program.memory[value]
        for result, value in zip(op.results, kept, strict=True)
    ]
    blocks = (Block(), Block())
    if SIZES in op.attrs:
        program.builder.op("schedule.select", (), (), {"predicates": (op.attrs[SIZES],)}, blocks)
    else:
        program.builder.op("schedule.cond", flags, (), {}, blocks)
    for region, block in zip(op.regions, blocks, strict=True):
        with program.builder.at(block):
            if region.block in program.ends:
                program.builder.op("schedule.last")
            fresh = [mem if value is None else None for value, mem in zip(kept, given, strict=True)]
            place = partial(place_branch, program, region.block, fresh)
            run_block(program, region.block, [value for value in kept if value is not None], place)
            give(program, region.block, given)
    program.memory.update(zip(op.results, given, strict=True))


def _lower_effect(program: HostProgram, op: Op) -> None:
    """What the host does itself, with values that are in memory by then."""
    values = [_in_memory(program, value, op) for value in op.operands]
    with program.builder.spanned(op.span):
        program.builder.op(op.name.replace("form.", "schedule."), values, (), dict(op.attrs))


def _lower_call(program: HostProgram, op: Op) -> None:
    """Arguments lie in memory as the callee reads it; results in memory of their own."""
    ins = [_whole_in_memory(program, value, op) for value in op.operands]
    outs = [program.workspace(tensor_type(result), result.name) for result in op.results]
    with program.builder.spanned(op.span):
        program.builder.op(CALL, (*ins, *outs), (), {**op.attrs, "outs": len(outs)})
    program.memory.update(zip(op.results, outs, strict=True))


def _whole_in_memory(program: HostProgram, value: Value, before: Op) -> Value:
    mem = program.memory.get(value)
    if mem is not None and memory(mem) == memory_of(tensor_type(value)):
        return mem
    aside = program.workspace(tensor_type(value), value.name)
    program.copy(value, aside, before, ARGUMENT)
    return aside


def _in_memory(program: HostProgram, value: Value, before: Op) -> Value:
    """The memory of a flag; one seen through a view is copied."""
    if value in program.memory:
        return program.memory[value]
    mem = program.workspace(tensor_type(value), value.name)
    program.copy(value, mem, before, FLAG)
    return mem
