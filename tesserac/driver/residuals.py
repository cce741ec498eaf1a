"""What the loops of a function keep when derivatives go back through them, for people to read.

Enters: typed functions. Leaves: `LoopResiduals` for each loop that reverse mode made two of, in the order in which they
were met: inner loops first. What an inner loop keeps of all its iterations is one value of an iteration of the loop
around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.model.typed import TypedFunction
from tesserac.graph.autodiff.dialect import ROWS
from tesserac.graph.build import build_module
from tesserac.graph.passes.transforms import expand_transforms, transforms
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.passes import before, run_passes
from tesserac.pipeline import CALL_PASSES
from tesserac.types.dims import ZERO, Dim, product
from tesserac.types.ty import TensorType


@dataclass(frozen=True)
class Residual:
    """One value of every iteration: what the program calls it, if anything, and where it is computed."""

    name: str
    type: TensorType
    span: Span

    @property
    def bytes(self) -> Dim:
        return product(self.type.dims) * self.type.dtype.bytes


@dataclass(frozen=True)
class LoopResiduals:
    """`rows` is how many iterations have a row, `state` the bytes of what an iteration begins with. A loop of
    `segments` was made of the one that the program has, where that says so or where its iterations may be many; sizes
    tell how often a `counted` one iterates."""

    span: Span
    rows: Dim
    segments: bool
    counted: bool
    values: tuple[Residual, ...]
    state: Dim

    @property
    def row(self) -> Dim:
        """The bytes of one iteration."""
        return sum((value.bytes for value in self.values), ZERO)


def loop_residuals(functions: Mapping[str, TypedFunction], entry: str) -> list[LoopResiduals]:
    """Those of one function and of all that it calls. Raises NotDifferentiable or TooManyOperators."""
    found: list[LoopResiduals] = []

    def observe(op: Op, rows: Dim, stored: Sequence[Value], carried: Sequence[Value]) -> None:
        state = sum((_bytes(value) for value in carried), ZERO)
        values = tuple(_kept(value, op) for value in stored)
        found.append(LoopResiduals(op.span, rows, ROWS in op.attrs, op.name == "form.loop", values, state))

    module = build_module(list(functions.values()), {entry}, asserts=False)
    expand_transforms(run_passes(module, before(CALL_PASSES, transforms), verify=False), observe)
    return found


def _bytes(value: Value) -> Dim:
    ty = tensor_type(value)
    return product(ty.dims) * ty.dtype.bytes


def _kept(value: Value, loop: Op) -> Residual:
    made = value.defining_op
    return Residual(value.name or "", tensor_type(value), loop.span if made is None else made.span)
