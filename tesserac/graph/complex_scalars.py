"""Arithmetic of complex scalars, written in terms of their parts.

Enters: the body of a map, in which scalars may be complex. Leaves: the same body over real scalars; each complex one is
a `Pair`. The sequences below are the bits of complex arithmetic:

    a + b, a - b    part by part
    a * b           (ar*br - ai*bi, ar*bi + ai*br), every operation rounded: z * conj(z) is real, a * b = b * a
    a / b           Smith's method: by the larger part of b first, so that nothing overflows but the quotient
A number whose imaginary part is zero by construction (a literal, a size, a real tensor cast) is kept without one, and
arithmetic with it is part by part: 2.0 * z and z / n are what they look like, also where a part is infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Attr, Block, Op, Value
from tesserac.ir.types import ScalarType
from tesserac.ops.lowering import Scalars, scalar_dtype
from tesserac.types.dtype import DType, component


@dataclass(frozen=True)
class Pair:
    """A complex value as two real ones; without an imaginary part where that is zero by construction."""

    real: Value
    imag: Value | None


Scalar = Value | Pair


def is_complex(value: Value) -> bool:
    return isinstance(value.type, ScalarType) and value.type.dtype.is_complex


class PartsWriter:
    """Copies the operations of a body into `block`, complex ones as operations on parts."""

    def __init__(self, block: Block, values: Mapping[Value, Scalar]) -> None:
        self._builder = Builder(block)
        self.s = Scalars(self._builder)
        self._values = dict(values)

    def copy(self, op: Op) -> None:
        operands = [self._values[v] for v in op.operands]
        name = op.name.removeprefix("scalar.")
        if is_complex(op.result) or any(isinstance(v, Pair) for v in operands):
            self._values[op.result] = _RULES[name](self, op, *operands)
        else:
            real = [v for v in operands if isinstance(v, Value)]
            self._values[op.result] = self._builder.value(op.name, real, op.result.type, op.attrs)

    def __getitem__(self, value: Value) -> Scalar:
        return self._values[value]

    def zero_like(self, value: Value) -> Value:
        return self.s.constant(0, scalar_dtype(value))

    def whole(self, number: Pair) -> tuple[Value, Value]:
        """Both parts."""
        return number.real, number.imag if number.imag is not None else self.zero_like(number.real)

    def both(self, value: Value) -> tuple[Value, Value]:
        """Both parts of a number that was copied."""
        copied = self._values[value]
        return self.whole(copied if isinstance(copied, Pair) else Pair(copied, None))

    # ------------------------------------------------------------------------------------------------- sources

    def source(self, op: Op) -> Pair:
        """A constant, a size or a position: a real number."""
        dtype = component(_dtype(op.result))
        return Pair(self._builder.value(op.name, (), ScalarType(dtype), op.attrs), None)

    def cast(self, op: Op, x: Scalar) -> Pair:
        dtype = component(_dtype(op.result))
        assert _dtype(op.result).is_complex, "the checker lets no complex number become a real one"
        return self._each(lambda part: self.s.cast(part, dtype), x if isinstance(x, Pair) else Pair(x, None))

    def round(self, op: Op, x: Pair) -> Pair:
        dtype, policy = op.attrs["dtype"], op.attrs["policy"]
        assert isinstance(dtype, DType)
        attrs: dict[str, Attr] = {"dtype": component(dtype), "policy": policy}
        return self._each(lambda part: self._builder.value(op.name, (part,), part.type, attrs), x)

    def _each(self, function: Callable[[Value], Value], x: Pair) -> Pair:
        return Pair(function(x.real), None if x.imag is None else function(x.imag))

    def make(self, op: Op, real: Value, imag: Value) -> Pair:
        return Pair(real, imag)

    def real(self, op: Op, x: Pair) -> Value:
        return x.real

    def imag(self, op: Op, x: Pair) -> Value:
        return self.whole(x)[1]

    # ---------------------------------------------------------------------------------------------- arithmetic

    def neg(self, op: Op, x: Pair) -> Pair:
        return self._each(lambda part: self.s.primitive("neg", part), x)

    def add(self, op: Op, a: Pair, b: Pair) -> Pair:
        imag = a.imag if b.imag is None else b.imag if a.imag is None else self.s.primitive("add", a.imag, b.imag)
        return Pair(self.s.primitive("add", a.real, b.real), imag)

    def sub(self, op: Op, a: Pair, b: Pair) -> Pair:
        real = self.s.primitive("sub", a.real, b.real)
        if b.imag is None:
            return Pair(real, a.imag)
        return Pair(real, self.s.primitive("sub", self.whole(a)[1], b.imag))

    def mul(self, op: Op, a: Pair, b: Pair) -> Pair:
        if a.imag is None or b.imag is None:
            number, factor = (a, b.real) if b.imag is None else (b, a.real)
            return self._each(lambda part: self.s.primitive("mul", part, factor), number)
        products = [self.s.primitive("mul", x, y) for x in (a.real, a.imag) for y in (b.real, b.imag)]
        real = self.s.primitive("sub", products[0], products[3])
        return Pair(real, self.s.primitive("add", products[1], products[2]))

    def div(self, op: Op, a: Pair, b: Pair) -> Pair:
        s, divisor = self.s, b.real
        if b.imag is None:
            return self._each(lambda part: s.primitive("div", part, divisor), a)
        real, imag = self.whole(a)
        wide = s.primitive("le", s.primitive("abs", b.imag), s.primitive("abs", b.real))
        larger, smaller = s.select(wide, b.real, b.imag), s.select(wide, b.imag, b.real)
        by_zero = s.primitive("eq", larger, self.zero_like(larger))
        ratio = s.select(by_zero, self.zero_like(larger), s.primitive("div", smaller, larger))
        length = s.select(by_zero, s.primitive("abs", larger), s.primitive("fma", smaller, ratio, larger))
        minus = s.primitive("neg", real)
        top = s.primitive("fma", s.select(wide, imag, real), ratio, s.select(wide, real, imag))
        side = s.primitive("fma", s.select(wide, minus, imag), ratio, s.select(wide, imag, minus))
        return Pair(s.primitive("div", top, length), s.primitive("div", side, length))

    def eq(self, op: Op, a: Pair, b: Pair) -> Value:
        real = self.s.primitive("eq", a.real, b.real)
        if a.imag is None and b.imag is None:
            return real
        return self.s.primitive("and", real, self.s.primitive("eq", self.whole(a)[1], self.whole(b)[1]))

    def select(self, op: Op, condition: Value, yes: Pair, no: Pair) -> Pair:
        real = self.s.select(condition, yes.real, no.real)
        if yes.imag is None and no.imag is None:
            return Pair(real, None)
        return Pair(real, self.s.select(condition, self.whole(yes)[1], self.whole(no)[1]))


def _dtype(value: Value) -> DType:
    return scalar_dtype(value)


_RULES: dict[str, Callable[..., Scalar]] = {
    "constant": PartsWriter.source,
    "dim": PartsWriter.source,
    "index": PartsWriter.source,
    "cast": PartsWriter.cast,
    "round": PartsWriter.round,
    "complex": PartsWriter.make,
    "real": PartsWriter.real,
    "imag": PartsWriter.imag,
    "neg": PartsWriter.neg,
    "add": PartsWriter.add,
    "sub": PartsWriter.sub,
    "mul": PartsWriter.mul,
    "div": PartsWriter.div,
    "eq": PartsWriter.eq,
    "select": PartsWriter.select,
}
"""Every scalar operation that takes or gives complex numbers."""
