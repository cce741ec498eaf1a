"""Derivatives of functions that are called: one function for each, called where the function is.

    y = f(x)      has the tangent      dy = f.jvp(x, dx)      and the cotangent      cx = f.vjp(x, cy)

Enters: a function that stays one (`graph/calling.py`). Leaves: the function of its derivative. The way back computes
the function once more, since what it would keep of each of its calls is more than what is called saves: a function that
is called is a checkpoint. It goes on with the cotangents that arguments have by then, `cx = f.vjp(x, cy, cx)`, so that
sums have the order that they have where the function is written out.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.graph.autodiff.dialect import ABSENT, BEGUN, JVP, VJP, smooth
from tesserac.graph.autodiff.writing import writer
from tesserac.graph.dialect import CUSTOM, EXPECTED
from tesserac.graph.substitute import copy_block, substitute_type
from tesserac.ir.builder import Builder
from tesserac.ir.calls import CALLED, named_dims, own_symbols
from tesserac.ir.core import OPDEFS, Attr, Block, Op, Region, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.types import Type
from tesserac.types.dims import Dim


@dataclass(frozen=True)
class Pull:
    """Which results have cotangents, and which arguments have some already; counted among those that can have one."""

    given: tuple[int, ...]
    begun: tuple[int, ...]

    def symbol(self, callee: str) -> str:
        return ".".join([callee, "vjp", _numbers(self.given), _numbers(self.begun)])


def forward_of(callee: Op, symbol: str) -> Op:
    """Arguments and their tangents to the tangents of the results."""
    args, outputs = callee.body.args, callee.body.terminator.operands
    block = Block([*(v.type for v in args), *_types(args)], [v.name for v in args])
    builder = Builder(block, callee.span)
    found = [*(v.type for v in outputs), *_types(outputs)]
    made = builder.op(JVP, block.args, found, {"wrt": _places(args)}, (_region(callee),))
    builder.op("graph.return", made.results[len(outputs) :])
    return _function(symbol, block, callee, {CALLED: f"it is the derivative of @{callee.symbol}"})


def rule_of(callee: Op, derived: Op, symbol: str) -> Op:
    """The rule of forward mode: it takes arguments, results and tangents, and calls the derivative."""
    args, outputs = callee.body.args, callee.body.terminator.operands
    block = Block([*(v.type for v in (*args, *outputs)), *_types(args)])
    builder = Builder(block, callee.span)
    given = [*block.args[: len(args)], *block.args[len(args) + len(outputs) :]]
    builder.op("graph.return", call(builder, derived, given, identity(callee)).results)
    return _function(symbol, block, callee, {})


def reverse_of(callee: Op, pull: Pull) -> Op:
    """Arguments, cotangents of results and cotangents of arguments so far to all cotangents of arguments."""
    args, outputs = callee.body.args, callee.body.terminator.operands
    back, own = _types(outputs), _types(args)
    given = [back[place] for place in pull.given]
    block = Block(
        [*(v.type for v in args), *given, *(own[place] for place in pull.begun)], [v.name for v in args]
    )
    builder = Builder(block, callee.span)
    write, known = writer(builder, {}), iter(block.args[len(args) :])
    zeros = {place: write.zeros(tensor_type(v)) for place, v in enumerate(smooth(outputs)) if place not in pull.given}
    cotangents = [zeros[place] if place in zeros else next(known) for place in range(len(back))]
    attrs: dict[str, Attr] = {"wrt": _places(args), ABSENT: tuple(zeros), BEGUN: pull.begun}
    operands = [*block.args[: len(args)], *cotangents, *known]
    made = builder.op(VJP, operands, [*(v.type for v in outputs), *own], attrs, (_region(callee),))
    builder.op("graph.return", made.results[len(outputs) :])
    return _function(pull.symbol(callee.symbol), block, callee, {CALLED: f"it is the derivative of @{callee.symbol}"})


def call(builder: Builder, function: Op, operands: Sequence[Value], dims: Attr) -> Op:
    """A call of a function of a derivative, with the sizes that its own function has."""
    types = [substitute_type(v.type, named_dims(dims)) for v in function.body.terminator.operands]
    attrs: dict[str, Attr] = {"callee": function.symbol, "dims": dims, CALLED: True}
    return builder.op(CUSTOM, operands, types, attrs)


def identity(function: Op) -> Attr:
    return tuple((name, Dim.sym(name)) for name in own_symbols(function))


def _region(callee: Op) -> Block:
    region = copy_block(callee.body, {}, {})
    end = region.terminator
    yielded = Op(OPDEFS["form.yield"], end.operands, span=end.span)
    end.erase()
    region.append(yielded)
    return region


def _places(args: Sequence[Value]) -> tuple[int, ...]:
    return tuple(place for place, v in enumerate(args) if smooth([v]))


def _types(values: Sequence[Value]) -> list[Type]:
    return [value.type for value in smooth(values)]


def _numbers(places: tuple[int, ...]) -> str:
    return "_".join(map(str, places)) or "none"


def _function(symbol: str, block: Block, callee: Op, more: dict[str, Attr]) -> Op:
    params = tuple(arg.name or f"x{place}" for place, arg in enumerate(block.args))
    attrs: dict[str, Attr] = {"sym_name": symbol, "params": params, "guards": (), "entry": False, **more}
    if EXPECTED in callee.attrs:
        attrs[EXPECTED] = callee.attrs[EXPECTED]
    return Op(OPDEFS["graph.func"], (), (), attrs, [Region(block)], callee.span)
