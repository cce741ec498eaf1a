"""Tensors that are known while compiling, by a rule rather than element by element.

    form.table() {table = #roots<order=64, exponents="product", parts=["cos", "-sin"], axis=0>} : tensor<[4, 16], c64>
        Roots of unity, exp(2 pi i e / order) or a part of it. The exponent e of element [i, j] is the product i * j, of
        element [i] the square i * i. A complex table has the parts (real, imaginary); a real one has one part, or four
        in a square of two dims at `axis`.
    form.table() {table = #number<value=0.001>} : tensor<[1], f32>
        One number, the nearest of its type: what code that many programs share is given.

A target keeps them as constants beside the code.
"""

from __future__ import annotations

from functools import lru_cache

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir.attributes import register_attribute
from tesserac.ir.core import Op, attr, define_op
from tesserac.ir.forms import tensor_type
from tesserac.ir.types import TensorType
from tesserac.ir.verify import require
from tesserac.numerics.exact import Array
from tesserac.numerics.narrow import convert, storage
from tesserac.numerics.roots import root_products, roots
from tesserac.types.dims import ONE
from tesserac.types.dtype import F32, F64, DType

PARTS = ("cos", "sin", "-cos", "-sin")


@dataclass(frozen=True)
class Roots:
    order: int
    exponents: str
    parts: tuple[str, ...]
    axis: int = 0

    def values(self, ty: TensorType) -> Array:
        """The elements of a real table."""
        shape = [dim.evaluate({}) for dim in ty.dims]
        own = shape if len(self.parts) == 1 else [*shape[: self.axis], *shape[self.axis + 2 :]]
        cos, sin = _roots(self.order, tuple(own), ty.dtype if ty.dtype is F32 else F64)
        columns = [_named(part, cos, sin, ty.dtype) for part in self.parts]
        return columns[0].reshape(shape) if len(columns) == 1 else np.stack(columns, self.axis).reshape(shape)


@dataclass(frozen=True)
class Number:
    value: float

    def values(self, ty: TensorType) -> Array:
        return convert(np.array([self.value], np.float64), ty.dtype)


def _named(part: str, cos: Array, sin: Array, dtype: DType) -> Array:
    found = cos if part.endswith("cos") else sin
    rounded = found if dtype in (F32, F64) else convert(found, dtype)
    return -rounded if part.startswith("-") else rounded


@lru_cache(1)
def _roots(order: int, shape: tuple[int, ...], dtype: DType) -> tuple[Array, Array]:
    """None of them is too large for a type: NumPy rounds them to the nearest. Kept for a while, since the real and the
    imaginary part of a complex table are two tables."""
    if len(shape) == 2:
        return root_products(order, *shape, storage(dtype))
    places = np.arange(shape[0])
    cos, sin = roots(order, places * places)
    return cos.astype(storage(dtype)), sin.astype(storage(dtype))


register_attribute("roots", Roots)
register_attribute("number", Number)


def table_of(op: Op) -> Roots | Number:
    table = op.attrs["table"]
    assert isinstance(table, Roots | Number)
    return table


def roots_of(op: Op) -> Roots:
    """Those that a table holds."""
    return attr(op, "table", Roots)


def _verify_table(op: Op) -> None:
    table, ty = op.attrs.get("table"), tensor_type(op.result)
    if isinstance(table, Number):
        require(ty.dims == (ONE,) and ty.dtype.is_float and not op.operands, "has one number", op)
        return
    require(isinstance(table, Roots) and not op.operands, "says what it holds", op)
    assert isinstance(table, Roots)
    require(all(part in PARTS for part in table.parts) and table.order > 0, "has known parts", op)
    require(len(table.parts) in ((2,) if ty.dtype.is_complex else (1, 4)), "has as many parts as its numbers", op)
    rank = {"product": 2, "square": 1}[table.exponents] + 2 * (len(table.parts) == 4)
    require(ty.rank == rank and all(dim.constant is not None for dim in ty.dims), "has known dims", op)


define_op("form.table", pure=True, verify=_verify_table)
