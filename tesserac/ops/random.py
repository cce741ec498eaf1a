"""Random bits: pure functions of keys. What distributions make of them is the library's, in `stdlib/random/`.

Enters: keys, which are u64. Leaves: bits of Philox4x32-10, or further keys. The high half of the counter says what the
bits are for, so that a key that is drawn from and folded gives unrelated results.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import tensor_type
from tesserac.numerics.philox import BUMPS, MULTIPLIERS, ROUNDS
from tesserac.ops.lowering import Scalars, map_form
from tesserac.ops.registry import Array, Operator, register
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import I64, U64
from tesserac.types.ty import TensorType

DRAW, FOLD = 0, 1
"""High halves of the counter."""


@register
class FoldIn(Operator):
    """Another key, made of a key and a number; equal arguments give equal keys.

    def f(k: Key) -> Tensor[3, f32]:
        return normal(3, key=fold_in(k, 1)) - normal(3, key=fold_in(k, 2))
    """

    name = "fold_in"
    batching = "aligned"
    signatures = ("(key: u64[s...], data: u64[s...]) -> u64[s...]",)

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        return [(cls(), ("u64[]", "u64[4]")), (cls(), ("u64[3, 1]", "i32[1, 2]"))]

    def reference(self, *operands: Array) -> Array:
        key, data = np.broadcast_arrays(*(x.astype(np.uint64) for x in operands))
        return _joined(philox_words(key, data, FOLD), 0)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        def body(s: Scalars, args: list[Value]) -> Value:
            key, data = (s.cast(a, U64) for a in args)
            return s.primitive("philox", key, data, s.constant(FOLD, U64))

        return map_form(builder, operands, result, body)


@register
@dataclass(frozen=True)
class RandomBits(Operator):
    """64 random bits for each element of a shape: words 0 and 1 of Philox(key, i), or 2 and 3 where `high`, for the
    element with index i in row-major order. Of a tensor of keys, such a shape for each.

    def f(k: Key) -> Tensor[5, u64]:
        return random_bits(k, 5)
    """

    name = "random_bits"
    batching = "leading"
    signatures = ("(key: u64[*s], shape: dims, high: bool = False) -> u64[{dims}]",)

    shape: tuple[Dim, ...]
    high: bool = False

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        shapes = ((), (5,), (2, 3, 4), (0, 3))
        dims = [tuple(map(Dim.const, shape)) for shape in shapes]
        one_key = [(cls(shape, high), ("u64[]",)) for shape in dims for high in (False, True)]
        return [*one_key, (cls(dims[1]), ("u64[2, 3]",))]

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        return (*operands[0].dims, *self.shape)

    def reference(self, *operands: Array) -> Array:
        sizes = [dim.evaluate({}) for dim in self.shape]
        counter = np.arange(int(np.prod(sizes)), dtype=np.uint64).reshape(sizes)
        keys = operands[0].astype(np.uint64).reshape(operands[0].shape + (1,) * len(sizes))
        each, counters = np.broadcast_arrays(keys, counter)
        return _joined(philox_words(each, counters, DRAW), 2 if self.high else 0)

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        return self.lower_part(builder, operands, result, (ZERO,) * len(self.shape))

    def lower_part(
        self, builder: Builder, operands: Sequence[Value], result: TensorType, starts: Sequence[Dim]
    ) -> Value:
        """Those elements of the draw that the result has room for, from `starts` on."""
        keys = tensor_type(operands[0]).rank

        def body(s: Scalars, args: list[Value]) -> Value:
            counter = s.cast(self._position(s, keys, starts), U64)
            return s.primitive(
                "philox_high" if self.high else "philox", s.cast(args[0], U64), counter, s.constant(DRAW, U64)
            )

        return map_form(builder, operands, result, body, [tuple(range(keys))])

    def _position(self, s: Scalars, first: int, starts: Sequence[Dim]) -> Value:
        """The row-major index of an element; its dims begin at `first`."""
        position = s.constant(0, I64)
        for axis, (size, start) in enumerate(zip(self.shape, starts, strict=True)):
            before = s.primitive("mul", position, s.dim(size, I64)) if axis else position
            place = s.index(first + axis, I64)
            place = place if start == ZERO else s.primitive("add", s.dim(start, I64), place)
            position = s.primitive("add", before, place)
        return position


def philox_words(key: Array, low: Array, high: int) -> list[Array]:
    """The four words that Philox4x32-10 makes, for references."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    keys = [key & mask, key >> half]
    words = [low & mask, low >> half, np.full_like(low, high & 0xFFFFFFFF), np.full_like(low, high >> 32)]
    for _ in range(ROUNDS):
        first, second = (np.uint64(m) * words[place] for m, place in zip(MULTIPLIERS, (0, 2), strict=True))
        words = [second >> half ^ words[1] ^ keys[0], second & mask, first >> half ^ words[3] ^ keys[1], first & mask]
        keys = [k + np.uint64(bump) & mask for k, bump in zip(keys, BUMPS, strict=True)]
    return words


def _joined(words: list[Array], start: int) -> Array:
    return np.asarray(words[start] | words[start + 1] << np.uint64(32))
