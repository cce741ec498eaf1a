"""Operators differentiated in the Graph and run by the interpreter, without a program around them.

Enters: an operator and the types of its operands. Leaves: a `Derivatives`, whose methods take arrays: the value, Jw,
J*v and the second derivative along two directions in three ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from tesserac.graph.autodiff.dialect import JVP, VJP
from tesserac.graph.dialect import PREFIX, operator_attrs
from tesserac.graph.interp import run_function
from tesserac.graph.passes.autodiff import autodiff
from tesserac.graph.passes.generalize import generalize
from tesserac.graph.passes.split_complex import split_complex
from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Block, Module, Op, Region, Value
from tesserac.ir.passes import run_passes
from tesserac.ops.calculus import is_smooth
from tesserac.ops.registry import Operator
from tesserac.types.ty import TensorType

Arrays = Sequence[np.ndarray]
Body = Callable[[Builder, Sequence[Value]], Sequence[Value]]


class Derivatives:
    """Of one operator by the operands at `wrt`, all that can have tangents unless said."""

    def __init__(self, operator: Operator, types: Sequence[TensorType], wrt: Sequence[int] | None = None) -> None:
        self.operator = operator
        self.types = list(types)
        self.wrt = [i for i, ty in enumerate(types) if is_smooth(ty)] if wrt is None else list(wrt)
        self.moving = [self.types[i] for i in self.wrt]
        self.result = operator.infer(self.types)

    def value(self, x: Arrays) -> np.ndarray:
        return _run(self._value_module, x)[0]

    def first(self, x: Arrays, w: Arrays, v: np.ndarray) -> tuple[np.ndarray, Arrays]:
        """Jw and J*v."""
        jw, *back = _run(self.first_module, [*x, *w, v])
        return jw, back

    def second(self, x: Arrays, w: Arrays, u: Arrays, v: np.ndarray) -> tuple[np.ndarray, Arrays, Arrays]:
        """The second derivative along w and u; the cotangents of x where Jw has v; the change of J*v along u."""
        along, *rest = _run(self.second_module, [*x, *w, *u, v])
        return along, rest[: len(u)], rest[len(u) :]

    # ------------------------------------------------------------------------------------------------ programs

    @cached_property
    def _value_module(self) -> Module:
        return _lowered(self.types, self._apply)

    @cached_property
    def first_module(self) -> Module:
        def body(builder: Builder, args: Sequence[Value]) -> list[Value]:
            x, (*w, v) = args[: len(self.types)], args[len(self.types) :]
            return [*self._jvp(builder, x, w), *self._vjp(builder, x, v)]

        return _lowered([*self.types, *self.moving, self.result], body)

    @cached_property
    def second_module(self) -> Module:
        n, m = len(self.types), len(self.moving)

        def body(builder: Builder, args: Sequence[Value]) -> list[Value]:
            x, w, u, v = args[:n], args[n : n + m], args[n + m : n + 2 * m], args[-1]
            forward = lambda b, a: self._jvp(b, a, w)  # noqa: E731
            reverse = lambda b, a: self._vjp(b, a, v)  # noqa: E731
            return [
                *_derivative(builder, JVP, self.types, forward, x, u, self.wrt)[1:],
                *_derivative(builder, VJP, self.types, forward, x, [v], self.wrt)[1:],
                *_derivative(builder, JVP, self.types, reverse, x, u, self.wrt)[m:],
            ]

        return _lowered([*self.types, *self.moving, *self.moving, self.result], body)

    def _apply(self, builder: Builder, args: Sequence[Value]) -> list[Value]:
        attrs = operator_attrs(self.operator)
        return [builder.value(PREFIX + self.operator.name, args, self.result, attrs)]

    def _jvp(self, builder: Builder, x: Sequence[Value], w: Sequence[Value]) -> Sequence[Value]:
        return _derivative(builder, JVP, self.types, self._apply, x, w, self.wrt)[1:]

    def _vjp(self, builder: Builder, x: Sequence[Value], v: Value) -> Sequence[Value]:
        return _derivative(builder, VJP, self.types, self._apply, x, [v], self.wrt)[1:]


def _derivative(
    builder: Builder,
    name: str,
    types: Sequence[TensorType],
    body: Body,
    x: Sequence[Value],
    given: Sequence[Value],
    wrt: Sequence[int],
) -> Sequence[Value]:
    """What the function gives, then its derivative."""
    block = Block(types)
    outputs = body(Builder(block), block.args)
    Builder(block).op("form.yield", outputs)
    found = outputs if name == JVP else [block.args[i] for i in wrt]
    results = [v.type for v in (*outputs, *found)]
    return builder.op(name, (*x, *given), results, {"wrt": tuple(wrt)}, (block,)).results


def _lowered(types: Sequence[TensorType], body: Body) -> Module:
    block = Block(types)
    Builder(block).op("graph.return", body(Builder(block), block.args))
    attrs = {"sym_name": "f", "params": ("x",) * len(types), "guards": (), "entry": True}
    module = Module([Op(OPDEFS["graph.func"], (), (), attrs, [Region(block)])])
    return run_passes(module, [autodiff, generalize, split_complex], verify=True)


def _run(module: Module, args: Arrays) -> tuple[np.ndarray, ...]:
    with np.errstate(all="ignore"):
        return run_function(module, "f", list(args))


def paired(left: Arrays, right: Arrays) -> float:
    """The real pairing of tangents with cotangents, without conjugation."""
    pairs = zip(left, right, strict=True)
    return float(sum(np.sum(a.astype(np.complex128) * b.astype(np.complex128)).real for a, b in pairs))
