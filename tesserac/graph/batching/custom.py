"""Functions with derivatives of their own, mapped: the function and its rules become functions of whole tensors.

Enters: a `graph.custom` with mapped operands. Leaves: one of a new function, whose rules are new functions too, so that
a derivative taken later goes by what the program says. An argument that is not mapped counts for all elements: its
cotangent is the sum over them. Where only some elements come to the call, a function that asserts or goes on by numbers
of an element reads which ones, behind its own arguments; rules are asked for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tesserac.graph.autodiff.dialect import smooth
from tesserac.graph.block_draws import stream_place
from tesserac.graph.dialect import (
    ALTERNATIVES,
    FORWARD_RULE,
    PROGRAM,
    READS,
    REVERSE_RULE,
    Program,
    alternatives_of,
    own_arguments,
    program_of,
)
from tesserac.ir.builder import Builder
from tesserac.ir.calls import CALLED, call_dims, callee_of, symbols_in
from tesserac.ir.core import OPDEFS, Attr, Block, Op, Region, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.kernels import Cut
from tesserac.types.dims import Dim

if TYPE_CHECKING:
    from tesserac.graph.batching.rules import Mapping


def mapped_custom(mapping: Mapping, op: Op, operands: Sequence[Value]) -> Op:
    """The call of the mapped function; all its results are mapped."""
    flags = [v in mapping.mapped for v in operands]
    if CALLED in op.attrs:
        return _mapped_call(mapping, op, operands, flags)
    attrs: dict[str, Attr] = dict(op.attrs)
    body = (op.attrs["callee"], op.attrs["dims"])
    functions = mapping.functions
    symbol, dims = _mapped_function(mapping, functions.whole, body, op.operands, flags, mapping.active)
    attrs["callee"], attrs["dims"] = symbol, dims
    own, asked = own_arguments(op), _asked_for(mapping, symbol, operands)
    if asked:
        attrs[READS] = len(op.operands) - len(own) + len(asked)
    else:
        _keep_kernels(mapping, op, flags, functions.lookup(symbol))
    flags = flags[: len(own)]
    tangents = [flag for flag, v in zip(flags, own, strict=True) if smooth([v])]
    given, outputs = (*own, *op.results), [True] * len(op.results)
    if (rule := op.attrs.get(FORWARD_RULE)) is not None:
        args = (*given, *smooth(own))
        attrs[FORWARD_RULE] = _mapped_function(mapping, functions.rule, rule, args, [*flags, *outputs, *tangents])
    if (rule := op.attrs.get(REVERSE_RULE)) is not None:
        args = (*given, *smooth(op.results))
        cotangents = [True] * len(smooth(op.results))
        given_flags = [*flags, *outputs, *cotangents]
        attrs[REVERSE_RULE] = _mapped_function(mapping, functions.rule, rule, args, given_flags, kept=tangents)
    types = [mapping.mapped_type(v.type) for v in op.results]
    return mapping.builder.op(op.name, (*operands, *asked), types, attrs, (), [v.name for v in op.results])


def _asked_for(mapping: Mapping, symbol: str, operands: Sequence[Value]) -> list[Value]:
    """Which elements come here, where the mapped function reads it."""
    reads = len(mapping.functions.lookup(symbol).body.args) - len(operands)
    return [] if mapping.active is None or not reads else [mapping.active]


def _keep_kernels(mapping: Mapping, op: Op, flags: Sequence[bool], mapped: Op) -> None:
    """A kernel that is mapped has one more dim of programs, and what kernels implement has mapped kernels."""
    functions, dims = mapping.functions, call_dims(op)
    callee = functions.lookup(str(op.attrs["callee"]))
    program = program_of(callee)
    if program is not None and PROGRAM not in mapped.attrs and _has_programs(mapping, op, flags, program):
        mapped.attrs[PROGRAM] = replace(
            program,
            leading=(mapping.size, *(dim.substitute(dims) for dim in program.leading)),
            blocks=tuple(Cut(cut.block, cut.over.substitute(dims)) for cut in program.blocks),
            fixed=(*dims.items(), *((name, dim.substitute(dims)) for name, dim in program.fixed)),
        )
    ways = []
    for way in alternatives_of(callee) if ALTERNATIVES not in mapped.attrs else ():
        symbol = way.symbol
        if symbol:
            called = (symbol, op.attrs["dims"])
            symbol, _ = _mapped_function(mapping, functions.whole, called, op.operands, flags)
        guards = tuple(replace(g, left=g.left.substitute(dims), right=g.right.substitute(dims)) for g in way.guards)
        ways.append(replace(way, symbol=symbol, guards=guards))
    if ways:
        mapped.attrs[ALTERNATIVES] = tuple(ways)


def _has_programs(mapping: Mapping, op: Op, flags: Sequence[bool], program: Program) -> bool:
    """Whether every operand has a part for each program, or is the same for all of them."""
    function = mapping.functions.lookup(program.symbol)
    if stream_place(function) is not None:  # each element of the mapped dim numbers its programs by itself
        return False
    tiles = [tensor_type(arg).rank for arg in function.body.args]
    leads = [tensor_type(value).rank - rank for value, rank in zip(op.operands, tiles, strict=True)]
    own = len(program.leading)
    each = zip(flags, leads, tiles, strict=True)
    return all(lead == own and rank > 0 if flag else lead == 0 for flag, lead, rank in each)


def _mapped_call(mapping: Mapping, op: Op, operands: Sequence[Value], flags: Sequence[bool]) -> Op:
    """The same of a function that is called: what is made of it is called too, and its rules are made where they are
    needed."""
    body = (op.attrs["callee"], op.attrs["dims"])
    symbol, dims = _mapped_function(mapping, mapping.functions.whole, body, op.operands, flags, mapping.active)
    operands = (*operands, *_asked_for(mapping, symbol, operands))
    mapping.functions.lookup(symbol).attrs[CALLED] = f"it is @{callee_of(op)}, mapped over a dim"
    types = [mapping.mapped_type(v.type) for v in op.results]
    attrs: dict[str, Attr] = {"callee": symbol, "dims": dims, CALLED: True}
    return mapping.builder.op(op.name, operands, types, attrs, (), [v.name for v in op.results])


def _mapped_function(
    mapping: Mapping,
    paste: Callable[[Builder, Attr, Sequence[Value]], list[Value]],
    function: Attr,
    args: Sequence[Value],
    flags: Sequence[bool],
    active: Value | None = None,
    kept: Sequence[bool] | None = None,
) -> tuple[str, Attr]:
    """The symbol of this function for arguments like these, of which some are mapped: a new one, or the one that it has
    by now, as a rule that calls its own function needs, written by `paste`. Where only the elements that are `active`
    come to it, it has one argument more if it asks which. Results that are not `kept` are summed over the mapped dim.
    Its sizes come with it: they have the names of this place until the call is pasted into another."""
    assert isinstance(function, tuple)
    types = tuple(mapping.mapped_type(v.type) if flag else v.type for v, flag in zip(args, flags, strict=True))
    key = (function, types, tuple(flags), None if kept is None else tuple(kept), mapping.size, active is not None)
    known = mapping.functions.mapped.get(key)
    sizes = tuple((name, Dim.sym(name)) for name in symbols_in(types))
    if known is not None:
        return known, sizes
    symbol = mapping.functions.mapped[key] = mapping.functions.fresh_symbol(f"{function[0]}$mapped")
    single = Block([v.type for v in args])
    inside = Builder(single, mapping.builder.span)
    inside.op("form.yield", paste(inside, function, single.args))
    block = Block(types)
    own = mapping.inside(block)
    own.values.update(zip(single.args, block.args, strict=True))
    own.mapped.update(v for v, flag in zip(block.args, flags, strict=True) if flag)
    own.active = None if active is None else block.add_arg(active.type)
    own.mapped.update(() if own.active is None else [own.active])
    results = [own.whole(value) for value in own.block(single)]
    single.drop_all_uses()
    if kept is not None:
        results = [v if flag else own.writer().sum(v, [0]) for v, flag in zip(results, kept, strict=True)]
    own.builder.op("graph.return", results)
    if own.active is not None and not own.active.uses:
        block.args.pop()
    names = tuple(f"x{i}" for i in range(len(block.args)))
    attrs: dict[str, Attr] = {"sym_name": symbol, "params": names, "guards": (), "entry": False}
    mapping.functions.add(Op(OPDEFS["graph.func"], (), (), attrs, [Region(block)], mapping.builder.span))
    return symbol, sizes
