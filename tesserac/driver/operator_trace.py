"""Runs a graph operator by operator, and tells of each: what it took, what it gave, and where it stands in the program.

Enters: Graph IR as it is built, nothing inlined or rewritten, and the arrays of one call. Leaves: a `Step` for every
operator in the order in which they run, also in loops and callees. Each operator is lowered alone, with the sizes of
the run as numbers, and evaluated by the oracle: values have the bits of compiled code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.graph.assert_attribution import library_name
from tesserac.graph.dialect import CALL, PREFIX, alternatives_of, is_operator
from tesserac.graph.interp import Frame, bind_sizes, check_guards, run_function
from tesserac.graph.passes.choose_forms import choose_forms
from tesserac.graph.passes.choose_rewrites import choose_rewrites
from tesserac.graph.passes.generalize import generalize
from tesserac.graph.passes.hoist import hoist
from tesserac.graph.passes.inline import inline
from tesserac.graph.passes.mean_kernels import kernels_as_meant
from tesserac.graph.passes.split_complex import split_complex
from tesserac.graph.passes.transforms import TRANSFORMED, transforms
from tesserac.graph.substitute import copy_op, substitute_type
from tesserac.ir.builder import Builder
from tesserac.ir.calls import INVOKE, call_dims
from tesserac.ir.core import OPDEFS, Block, Module, Op, Region, Value
from tesserac.ir.effects import STANDARD_OUTPUT
from tesserac.ir.forms import tensor_type
from tesserac.ir.passes import chosen, run_passes
from tesserac.numerics.exact import Array
from tesserac.pipeline import CALL_PASSES, GRAPH_PASSES
from tesserac.types.dims import Dim
from tesserac.types.dtype import DType


@dataclass(frozen=True)
class Step:
    """One operator that ran. `function` is that of the library which the program called, at `span`, if it is part of
    one; a call that has ended is a step too, without an operator."""

    operator: str
    function: str
    span: Span
    operands: tuple[tuple[DType, Array], ...]
    results: tuple[tuple[DType, Array], ...]


Observe = Callable[[Step], None]


def without_transforms(module: Module) -> Module:
    """The module with derivatives and mapped functions written out, and with kernels that have other bits than what
    they implement. There are no calls left then, so that what belongs to the library stands under its own places; a
    module without such things stays as it is."""
    has_some = any(op.name in TRANSFORMED for op in module.walk())
    if not has_some and not any(way.rewrite for function in module.ops for way in alternatives_of(function)):
        return module
    passes = chosen(CALL_PASSES, choose_forms, choose_rewrites, hoist, transforms)
    return run_passes(module, [inline, *passes, kernels_as_meant], verify=False)


def run_traced(
    module: Module, name: str, args: Sequence[Array], observe: Observe, printed: Callable[[], object]
) -> None:
    """Calls function `name`. Raises what the oracle raises where the program cannot go on."""
    function = module.lookup(name)
    sizes = bind_sizes([tensor_type(v).dims for v in function.body.args], [a.shape for a in args])
    check_guards(function, sizes)
    _TracingFrame(sizes, module, _Audience(observe, printed), None).run(function.body, list(args))


@dataclass(frozen=True, eq=False)
class _Audience:
    """Who is told of steps, and of prints."""

    observe: Observe
    printed: Callable[[], object]


@dataclass(frozen=True)
class _Call:
    """The call of the library that everything inside belongs to."""

    function: str
    span: Span


class _TracingFrame(Frame):
    def __init__(self, sizes: dict[str, int], module: Module, audience: _Audience, call: _Call | None) -> None:
        super().__init__(sizes, module)
        self._audience = audience
        self._inside = call

    def _run_op(self, op: Op) -> None:
        if op.name in (CALL, INVOKE):
            results = self._callee(op)
        elif is_operator(op) or op.name == "graph.size":
            results = self._operator(op)
        elif op.name == "form.print":
            self._print(op)
            return
        else:
            super()._run_op(op)
            return
        self._values.update(zip(op.results, results, strict=True))

    def _print(self, op: Op) -> None:
        if op.attrs["to"] == STANDARD_OUTPUT:
            self._audience.printed()

    def _operator(self, op: Op) -> Sequence[Array]:
        operands = [self._values[v] for v in op.operands]
        results = run_function(_alone(op, self._sizes), "step", operands)
        if op.name != "graph.size":
            self._tell(op, op.name.removeprefix(PREFIX), results)
        return results

    def _callee(self, op: Op) -> Sequence[Array]:
        callee = self._module.lookup(str(op.attrs["callee"]))
        sizes = {name: dim.evaluate(self._sizes) for name, dim in call_dims(op).items()}
        name = library_name(callee.symbol, callee.span)
        inside = self._inside or (_Call(name, op.span) if name is not None else None)
        frame = _TracingFrame(sizes, self._module, self._audience, inside)
        results = frame.run(callee.body, [self._values[v] for v in op.operands])
        if inside is not None and self._inside is None:
            self._tell(op, "", results, inside.function)
        return results

    def _tell(self, op: Op, operator: str, results: Sequence[Array], function: str = "") -> None:
        span = op.span if self._inside is None else self._inside.span
        self._audience.observe(
            Step(
                operator,
                function if self._inside is None else self._inside.function,
                span,
                tuple((tensor_type(v).dtype, self._values[v]) for v in op.operands),
                tuple((tensor_type(v).dtype, array) for v, array in zip(op.results, results, strict=True)),
            )
        )


def _alone(op: Op, sizes: dict[str, int]) -> Module:
    """A module of one function that is this operator, for these sizes, as forms."""
    dims = {name: Dim.const(size) for name, size in sizes.items()}
    block = Block([substitute_type(v.type, dims) for v in op.operands])
    values: dict[Value, Value] = {}
    for place, operand in enumerate(op.operands):
        values[operand] = block.args[place]
    copy = block.append(copy_op(op, values, dims))
    Builder(block).op("graph.return", copy.results)
    attrs = {"sym_name": "step", "params": ("x",) * len(op.operands), "guards": (), "entry": True}
    function = Op(OPDEFS["graph.func"], (), (), attrs, [Region(block)])
    return run_passes(Module([function]), chosen(GRAPH_PASSES, generalize, split_complex), verify=False)
