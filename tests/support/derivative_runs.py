"""Functions in the Graph differentiated and run by the interpreter, without a program around them.

Enters: what builds a function, and the types of its arguments. Leaves: a `Derivatives`, whose methods take arrays: the
values, Jw, J*v and the second derivative along two directions in three ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from tesserac.graph.autodiff.dialect import JVP, VJP
from tesserac.graph.dialect import PREFIX, operator_attrs
from tesserac.graph.interp import run_function
from tesserac.graph.passes.cse import cse
from tesserac.graph.passes.dce import dce
from tesserac.graph.passes.generalize import generalize
from tesserac.graph.passes.mean_kernels import kernels_as_meant
from tesserac.graph.passes.split_complex import split_complex
from tesserac.graph.passes.transforms import transforms
from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Block, Module, Op, Region, Value, clone_op
from tesserac.ir.forms import tensor_type
from tesserac.ir.ordering import order_effects
from tesserac.ir.passes import run_passes
from tesserac.ops.calculus import is_smooth
from tesserac.ops.registry import Operator
from tesserac.types.ty import TensorType

Arrays = Sequence[np.ndarray]
Body = Callable[[Builder, Sequence[Value]], Sequence[Value]]


class Derivatives:
    """Of a function by the arguments at `wrt`, all that can have tangents unless said. Its results that cannot have
    tangents are left out. `beside` are the functions that it calls by name."""

    def __init__(
        self,
        body: Body,
        types: Sequence[TensorType],
        wrt: Sequence[int] | None = None,
        *,
        beside: Sequence[Op] = (),
        verify: bool = True,
    ) -> None:
        self._body = body
        self._verify = verify
        self._beside = beside
        self.types = list(types)
        self.wrt = [i for i, ty in enumerate(types) if is_smooth(ty)] if wrt is None else list(wrt)
        self.moving = [self.types[i] for i in self.wrt]
        scratch = Block(self.types)
        self.results = [tensor_type(v) for v in self.smooth(Builder(scratch), scratch.args)]

    def value(self, x: Arrays) -> Arrays:
        return _run(self._value_module, x)

    def first(self, x: Arrays, w: Arrays, v: Arrays) -> tuple[Arrays, Arrays]:
        """Jw and J*v."""
        found = _run(self.first_module, [*x, *w, *v])
        return found[: len(v)], found[len(v) :]

    def second(self, x: Arrays, w: Arrays, u: Arrays, v: Arrays) -> tuple[Arrays, Arrays, Arrays]:
        """The second derivative along w and u; the cotangents of x where Jw has v; the change of J*v along u."""
        found = _run(self.second_module, [*x, *w, *u, *v])
        return found[: len(v)], found[len(v) : len(v) + len(u)], found[len(v) + len(u) :]

    def change(self, x: Arrays, u: Arrays, v: Arrays) -> Arrays:
        """The change of J*v along u."""
        return _run(self._change_module, [*x, *u, *v])

    # ------------------------------------------------------------------------------------------------ programs

    @cached_property
    def _value_module(self) -> Module:
        return self._lowered(self.types, self.smooth)

    @cached_property
    def first_module(self) -> Module:
        return self._lowered([*self.types, *self.moving, *self.results], self.both)

    def both(self, builder: Builder, args: Sequence[Value]) -> list[Value]:
        """Jw and J*v, of the arguments, w and v."""
        n, m = len(self.types), len(self.moving)
        x, w, v = args[:n], args[n : n + m], args[n + m :]
        return [*self._jvp(builder, x, w), *self._vjp(builder, x, v)]

    @cached_property
    def second_module(self) -> Module:
        n, m = len(self.types), len(self.moving)

        def body(builder: Builder, args: Sequence[Value]) -> list[Value]:
            x, w, u, v = args[:n], args[n : n + m], args[n + m : n + 2 * m], args[n + 2 * m :]
            forward: Body = lambda b, a: self._jvp(b, a, w)  # noqa: E731
            reverse: Body = lambda b, a: self._vjp(b, a, v)  # noqa: E731
            return [
                *self._derivative(builder, JVP, forward, x, u),
                *self._derivative(builder, VJP, forward, x, v),
                *self._derivative(builder, JVP, reverse, x, u),
            ]

        return self._lowered([*self.types, *self.moving, *self.moving, *self.results], body)

    @cached_property
    def _change_module(self) -> Module:
        n, m = len(self.types), len(self.moving)

        def body(builder: Builder, args: Sequence[Value]) -> Sequence[Value]:
            reverse: Body = lambda b, a: self._vjp(b, a, args[n + m :])  # noqa: E731
            return self._derivative(builder, JVP, reverse, args[:n], args[n : n + m])

        return self._lowered([*self.types, *self.moving, *self.results], body)

    def _lowered(self, types: Sequence[TensorType], body: Body) -> Module:
        return _lowered(types, body, self._beside, verify=self._verify)

    def smooth(self, builder: Builder, args: Sequence[Value]) -> list[Value]:
        return [v for v in self._body(builder, args) if is_smooth(tensor_type(v))]

    def _jvp(self, builder: Builder, x: Sequence[Value], w: Sequence[Value]) -> Sequence[Value]:
        return self._derivative(builder, JVP, self.smooth, x, w)

    def _vjp(self, builder: Builder, x: Sequence[Value], v: Sequence[Value]) -> Sequence[Value]:
        return self._derivative(builder, VJP, self.smooth, x, v)

    def _derivative(
        self, builder: Builder, name: str, body: Body, x: Sequence[Value], given: Sequence[Value]
    ) -> Sequence[Value]:
        block = Block(self.types)
        outputs = body(Builder(block), block.args)
        Builder(block).op("form.yield", outputs)
        found = outputs if name == JVP else [block.args[i] for i in self.wrt]
        results = [v.type for v in (*outputs, *found)]
        made = builder.op(name, (*x, *given), results, {"wrt": tuple(self.wrt)}, (block,))
        return made.results[len(outputs) :]


def applied(operator: Operator, types: Sequence[TensorType]) -> Body:
    """An operator as a function."""
    result = operator.infer(types)

    def body(builder: Builder, args: Sequence[Value]) -> list[Value]:
        return [builder.value(PREFIX + operator.name, args, result, operator_attrs(operator))]

    return body


def _lowered(types: Sequence[TensorType], body: Body, beside: Sequence[Op] = (), *, verify: bool = True) -> Module:
    block = Block(types)
    Builder(block).op("graph.return", body(Builder(block), block.args))
    attrs = {"sym_name": "f", "params": ("x",) * len(types), "guards": (), "entry": True}
    function = Op(OPDEFS["graph.func"], (), (), attrs, [Region(block)])
    module = Module([function, *(clone_op(other, {}) for other in beside)])
    order_effects(module)
    return run_passes(module, [transforms, kernels_as_meant, cse, dce, generalize, split_complex], verify=verify)


def run_body(body: Body, types: Sequence[TensorType], args: Arrays) -> Arrays:
    """What a function gives."""
    return _run(_lowered(types, body), args)


def _run(module: Module, args: Arrays) -> Arrays:
    with np.errstate(all="ignore"):
        return run_function(module, "f", list(args))


# ------------------------------------------------------------------------------------------------------ comparing


def moved(of: Derivatives, x: Arrays, w: Arrays, step: float) -> list[np.ndarray]:
    """The arguments a step further along w."""
    args = list(x)
    for place, direction in zip(of.wrt, w, strict=True):
        args[place] = (args[place] + step * direction).astype(args[place].dtype)
    return args


def paired(left: Arrays, right: Arrays) -> float:
    """The real pairing of tangents with cotangents, without conjugation."""
    pairs = zip(left, right, strict=True)
    return float(sum(np.sum(a.astype(np.complex128) * b.astype(np.complex128)).real for a, b in pairs))


def agree(pairs: Sequence[tuple[Arrays, Arrays]], bound: float) -> None:
    """All these pairings are one number, but for rounding: the bound is relative to how large they could be."""
    found = [paired(left, right) for left, right in pairs]
    largest = sum(_norm(left) * _norm(right) for left, right in pairs)
    assert max(found) - min(found) <= bound * largest, (found, largest)


def _norm(arrays: Arrays) -> float:
    return float(np.sqrt(sum(float(np.sum(np.abs(a.astype(np.complex128)) ** 2)) for a in arrays)))


def like_differences(found: Arrays, ends: tuple[Arrays, Arrays], step: float, bound: float) -> None:
    """Central differences agree; equal infinities do not differ."""
    for one, above, below in zip(found, *ends, strict=True):
        with np.errstate(invalid="ignore"):
            slope = np.where(above == below, 0.0, (above - below) / (2 * step))
        np.testing.assert_allclose(one, slope, rtol=bound, atol=bound * float(np.max(np.abs(one), initial=1.0)))
