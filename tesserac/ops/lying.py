"""Where the dim that a transform goes over lies in memory.

    %v = form.view(%x) {view = #permute<order=[1, 0]>} : tensor<[N, B]>  ->  tensor<[B, N]>
    fft(%v)                 goes over dim 0 of %x, and is permuted as %v is

Enters: an operand whose last dim is transformed. Leaves: the tensor that it is a permuted view of, if its last dim is
another one there. See Note [Transforms side by side] in `fourier.py`.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import Permute, permuted, tensor_type
from tesserac.ops.lowering import view_form
from tesserac.types.dims import Dim
from tesserac.types.ty import TensorType


@dataclass(frozen=True)
class Lying:
    """A tensor in the order of memory; dim i of who sees it is its dim `order[i]`."""

    value: Value
    order: tuple[int, ...]

    @property
    def beside(self) -> tuple[Dim, ...]:
        """What lies behind the last dim."""
        return tensor_type(self.value).dims[self.order[-1] + 1 :]

    def type_of(self, seen: TensorType) -> TensorType:
        """Of what is seen as a tensor of that type."""
        dims = list(seen.dims)
        for place, dim in zip(self.order, seen.dims, strict=True):
            dims[place] = dim
        return TensorType(tuple(dims), seen.dtype, seen.policy)

    def seen(self, builder: Builder, found: Value, result: TensorType) -> Value:
        """What is found there, as the operand is seen."""
        return view_form(builder, found, result, Permute(self.order)) if self.beside else found


def lying(x: Value) -> Lying:
    """Looks through permuted views; the operand itself where its last dim is the last in memory too."""
    value, order = permuted(x)
    return as_seen(x) if not order or order[-1] == len(order) - 1 else Lying(value, order)


def as_seen(x: Value) -> Lying:
    """The operand itself, over whose last dim a transform goes."""
    return Lying(x, tuple(range(tensor_type(x).rank)))
