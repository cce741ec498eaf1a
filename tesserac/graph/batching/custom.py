"""Functions with derivatives of their own, mapped: the function and its rules become functions of whole tensors.

Enters: a `graph.custom` with mapped operands. Leaves: one of a new function, whose rules are new functions too, so that
a derivative taken later goes by what the program says. An argument that is not mapped counts for all elements: its
cotangent is the sum over them. Where only some elements come to the call, a function that asserts or goes on by numbers
of an element reads which ones, behind its own arguments; rules are asked for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from tesserac.graph.autodiff.dialect import smooth
from tesserac.graph.batching.columns import side_by_side
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
from tesserac.ir.calls import CALLED, callee_of, named_dims, own_symbols
from tesserac.ir.core import OPDEFS, Attr, Block, Op, Region, Value
from tesserac.ir.forms import tensor_type
from tesserac.types.dims import Dim

if TYPE_CHECKING:
    from tesserac.graph.batching.rules import Mapping


def mapped_custom(mapping: Mapping, op: Op, operands: Sequence[Value]) -> Sequence[Value]:
    """The results of the call of the mapped function, all of them mapped."""
    flags = [v in mapping.mapped for v in operands]
    if (whole := side_by_side(mapping, op, operands, flags)) is not None:
        return whole
    if CALLED in op.attrs:
        return _mapped_call(mapping, op, operands, flags).results
    attrs: dict[str, Attr] = dict(op.attrs)
    body = (op.attrs["callee"], op.attrs["dims"])
    functions = mapping.functions
    symbol, dims = _mapped_function(mapping, functions.whole, body, flags, mapping.active)
    attrs["callee"], attrs["dims"] = symbol, dims
    own, asked = own_arguments(op), _asked_for(mapping, symbol, operands)
    if asked:
        attrs[READS] = len(op.operands) - len(own) + len(asked)
    else:
        _keep_kernels(mapping, op, flags, functions.lookup(symbol))
    flags = flags[: len(own)]
    tangents = [flag for flag, v in zip(flags, own, strict=True) if smooth([v])]
    given = [*flags, *([True] * len(op.results))]
    if (rule := op.attrs.get(FORWARD_RULE)) is not None:
        attrs[FORWARD_RULE] = _mapped_function(mapping, functions.rule, rule, [*given, *tangents])
    if (rule := op.attrs.get(REVERSE_RULE)) is not None:
        cotangents = [True] * len(smooth(op.results))
        attrs[REVERSE_RULE] = _mapped_function(mapping, functions.rule, rule, [*given, *cotangents], kept=tangents)
    types = [mapping.mapped_type(v.type) for v in op.results]
    return mapping.builder.op(op.name, (*operands, *asked), types, attrs, (), [v.name for v in op.results]).results


def _asked_for(mapping: Mapping, symbol: str, operands: Sequence[Value]) -> list[Value]:
    """Which elements come here, where the mapped function reads it."""
    reads = len(mapping.functions.lookup(symbol).body.args) - len(operands)
    return [] if mapping.active is None or not reads else [mapping.active]


def _keep_kernels(mapping: Mapping, op: Op, flags: Sequence[bool], mapped: Op) -> None:
    """A kernel that is mapped has one more dim of programs, and what kernels implement has mapped kernels."""
    functions = mapping.functions
    callee = functions.lookup(str(op.attrs["callee"]))
    program = program_of(callee)
    if program is not None and PROGRAM not in mapped.attrs and _has_programs(mapping, op, flags, program):
        mapped.attrs[PROGRAM] = replace(program, leading=(_size_in(mapping, callee), *program.leading))
    ways = []
    for way in alternatives_of(callee) if ALTERNATIVES not in mapped.attrs else ():
        symbol = way.symbol
        if symbol:
            symbol, _ = _mapped_function(mapping, functions.whole, (symbol, op.attrs["dims"]), flags)
        ways.append(replace(way, symbol=symbol))
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
    symbol, dims = _mapped_function(mapping, mapping.functions.whole, body, flags, mapping.active)
    operands = (*operands, *_asked_for(mapping, symbol, operands))
    mapping.functions.lookup(symbol).attrs[CALLED] = f"it is @{callee_of(op)}, mapped over a dim"
    types = [mapping.mapped_type(v.type) for v in op.results]
    attrs: dict[str, Attr] = {"callee": symbol, "dims": dims, CALLED: True}
    return mapping.builder.op(op.name, operands, types, attrs, (), [v.name for v in op.results])


def _mapped_function(
    mapping: Mapping,
    paste: Callable[[Builder, Attr, Sequence[Value]], list[Value]],
    function: Attr,
    flags: Sequence[bool],
    active: Value | None = None,
    kept: Sequence[bool] | None = None,
) -> tuple[str, Attr]:
    """The symbol of this function for arguments of which some are mapped, and what its sizes are here: a new one, or
    the one that it has by now, as a rule that calls its own function needs, written by `paste`. Where only the elements
    that are `active` come to it, it has one argument more if it asks which. Results that are not `kept` are summed over
    the mapped dim. See Note [Sizes of a mapped function]."""
    assert isinstance(function, tuple) and isinstance(function[1], tuple)
    functions, name, dims = mapping.functions, str(function[0]), function[1]
    size = _size_in(mapping, functions.lookup(name))
    sizes = dims if size.symbol is None else (*dims, (size.symbol, mapping.size))
    key = (name, tuple(flags), None if kept is None else tuple(kept), size, active is not None)
    if key not in functions.mapped:
        symbol = functions.mapped[key] = functions.fresh_symbol(f"{name}$mapped")
        single = _single(mapping, paste, name, named_dims(dims))
        block = _mapped_body(mapping.of_size(size), single, flags, active, kept)
        names = tuple(f"x{i}" for i in range(len(block.args)))
        attrs: dict[str, Attr] = {"sym_name": symbol, "params": names, "guards": (), "entry": False}
        functions.add(Op(OPDEFS["graph.func"], (), (), attrs, [Region(block)], mapping.builder.span))
    return functions.mapped[key], sizes


# Note [Sizes of a mapped function]
#
# A mapped function has the sizes of the one that it is made of, under the same names, and that of the mapped dim; a
# call says what they are. So there is one for all calls with the same arguments mapped, whatever their sizes are. It
# must be so: the rule of `expm` calls `expm` of a matrix of twice the size, and rules are mapped with their functions.


def _size_in(mapping: Mapping, callee: Op) -> Dim:
    """The mapped dim inside of a mapped function: what it is, if that is a number, or a name that no size has."""
    if mapping.size.constant is not None:
        return mapping.size
    taken = own_symbols(callee)
    name = next(name for i in count(1) if (name := f"Mapped{i}") not in taken)
    mapping.functions.taken.add(name)
    return Dim.sym(name)


def _single(
    mapping: Mapping, paste: Callable[[Builder, Attr, Sequence[Value]], list[Value]], name: str, dims: Iterable[str]
) -> Block:
    """What a function computes for one element, under its own names."""
    single = Block([arg.type for arg in mapping.functions.lookup(name).body.args])
    inside = Builder(single, mapping.builder.span)
    own = tuple((symbol, Dim.sym(symbol)) for symbol in dims)
    inside.op("form.yield", paste(inside, (name, own), single.args))
    return single


def _mapped_body(
    mapping: Mapping, single: Block, flags: Sequence[bool], active: Value | None, kept: Sequence[bool] | None
) -> Block:
    """The same for all elements."""
    given = [(arg.type, flag) for arg, flag in zip(single.args, flags, strict=True)]
    block = Block([mapping.mapped_type(ty) if flag else ty for ty, flag in given])
    own = mapping.inside(block)
    own.values.update(zip(single.args, block.args, strict=True))
    own.mapped.update(v for v, flag in zip(block.args, flags, strict=True) if flag)
    own.active = None if active is None else block.add_arg(replace(tensor_type(active), dims=(mapping.size,)))
    own.mapped.update(() if own.active is None else [own.active])
    results = [own.whole(value) for value in own.block(single)]
    single.drop_all_uses()
    if kept is not None:
        results = [v if flag else own.writer().sum(v, [0]) for v, flag in zip(results, kept, strict=True)]
    own.builder.op("graph.return", results)
    if own.active is not None and not own.active.uses:
        block.args.pop()
    return block
