"""Sums of products over named indices.

Enters: an equation such as `bsd,de->bse` and one tensor per term. Leaves: the tensor of the output's indices. An index
that one operand repeats is its diagonal, an index of one operand alone is summed first, and more than two operands
contract from left to right, each product rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

from tesserac.base.dataclass import dataclass
from tesserac.base.lazy import np
from tesserac.ir.builder import Builder
from tesserac.ir.core import Value
from tesserac.ir.forms import Permute, tensor_type
from tesserac.ops.batching import mapped_whole
from tesserac.ops.calculus import Writer
from tesserac.ops.lowering import (
    contract_form,
    convert_form,
    map_form,
    reduce_form,
    sum_of_products,
    view_form,
    without_axes,
)
from tesserac.ops.registry import Array, Operator, register
from tesserac.ops.unify import DimMismatch, Mismatch, Place, RankMismatch, SameSize
from tesserac.types.dims import ONE, Dim
from tesserac.types.policy import NO_POLICY
from tesserac.types.ty import TensorType


@register
@dataclass(frozen=True)
class Einsum(Operator):
    """Products summed over the indices that the output lacks.

    def f(x: Tensor[B, S, D, f32], w: Tensor[D, H, f32]) -> Tensor[B, S, H, f32]:
        return einsum("bsd,dh->bsh", x, w)
    """

    name = "einsum"
    linear = "each"
    mixes_fp8 = True
    accumulates = True
    signatures = ("(*x: N[{dims}]) -> dot(N)[{dims}]",)

    equation: str

    @classmethod
    def cases(cls) -> Sequence[tuple[Operator, tuple[str, ...]]]:
        rows = (
            ("bsd,de->bse", "f32[2, 3, 4]", "f32[4, 5]"),
            ("bij,bjk->bki", "f32[2, 3, 4]", "f32[2, 4, 5]"),
            ("i,j->ij", "f32[3]", "f32[4]"),
            ("bi,bi->b", "f32[3, 4]", "f32[3, 4]"),
            ("i,i->", "i32[5]", "i32[5]"),
            ("ii->", "f32[4, 4]"),
            ("iij->ji", "f32[4, 4, 3]"),
            ("ijk,k->i", "f32[2, 3, 4]", "f32[4]"),
            ("ij,jk,kl->il", "f32[2, 3]", "f32[3, 4]", "f32[4, 5]"),
            ("abc,cd,b->da", "f32[2, 3, 4]", "f32[4, 5]", "f32[3]"),
            ("ij,ij->ij", "f32[2, 3]", "f32[2, 3]"),
            ("bij,bkj->bik", "c64[2, 3, 4]", "c64[2, 5, 4]"),
            ("iij,j->", "c128[4, 4, 3]", "c128[3]"),
            ("bhqd,bhkd->bhqk", "f32[2, 2, 3, 4]", "f32[2, 2, 5, 4]"),
        )
        return [(cls(equation), tuple(operands)) for equation, *operands in rows]

    @property
    def terms(self) -> list[str]:
        return self.equation.split("->")[0].split(",")

    @property
    def output(self) -> str:
        return self.equation.split("->")[1]

    def mismatch(self, operands: Sequence[TensorType], same: SameSize) -> Mismatch | None:
        first: dict[str, tuple[Dim, Place]] = {}
        for position, (term, ty) in enumerate(zip(self.terms, operands, strict=True)):
            if len(term) != ty.rank:
                return RankMismatch(position)
            for axis, (index, dim) in enumerate(zip(term, ty.dims, strict=True)):
                known, where = first.setdefault(index, (dim, Place(position, axis)))
                if not same(known, dim):
                    return DimMismatch(where, Place(position, axis))
        return None

    def dims(self, operands: tuple[TensorType, ...]) -> tuple[Dim, ...]:
        pairs = zip("".join(self.terms), (dim for ty in operands for dim in ty.dims), strict=True)
        sizes = {index: dim for index, dim in reversed(list(pairs))}
        return tuple(sizes[index] for index in self.output)

    def transpose(
        self, write: Writer, cotangent: Value, operands: Sequence[Value], position: int
    ) -> Value | None:
        """The cotangent and the other operands contracted to the indices they share with this one; an index that is its
        alone was summed, so it is spread; one that it repeats stands on the diagonal."""
        own, term = tensor_type(operands[position]), self.terms[position]
        others = [place for place in range(len(operands)) if place != position]
        known = self.output + "".join(self.terms[place] for place in others)
        kept = "".join(dict.fromkeys(letter for letter in term if letter in known))
        equation = ",".join([self.output, *(self.terms[place] for place in others)]) + "->" + kept
        back = write("einsum", cotangent, *(operands[place] for place in others), equation=equation)
        first = [term.index(letter) == axis for axis, letter in enumerate(term)]
        ones = [d if new and x in kept else ONE for x, d, new in zip(term, own.dims, first, strict=True)]
        spread = write.expand(write.reshape(back, ones), own.dims)
        for axis, letter in enumerate(term):
            if not first[axis]:
                spread = write.on_diagonal(spread, (term.index(letter), axis))
        return write.stored(spread, own)

    def batched(self, write: Writer, operands: Sequence[Value], mapped: Sequence[bool]) -> Value:
        """One more letter. Where a product is a sum over all that its operands have, both need it to stay one."""
        letter = next(x for x in ascii_letters if x not in self.equation)
        if self._folds_products():
            operands, mapped = mapped_whole(write, operands, mapped), [True] * len(mapped)
        terms = [letter * has_dim + term for has_dim, term in zip(mapped, self.terms, strict=True)]
        return write("einsum", *operands, equation=f"{','.join(terms)}->{letter}{self.output}")

    def _folds_products(self) -> bool:
        """Whether two operands, from left to right, have the same letters and some are summed: see `_Indexed.times`."""
        terms = ["".join(dict.fromkeys(term)) for term in self.terms]
        kept = [_needed(term, _all_but(terms, i) + self.output) for i, term in enumerate(terms)]
        total, *rest = kept
        for number, term in enumerate(rest):
            needed = _needed(total + term, self.output + "".join(rest[number + 1 :]))
            if set(total) == set(term) and set(needed) < set(term):
                return True
            total = needed
        return False

    def reference(self, *operands: Array) -> Array:
        return np.asarray(np.einsum(self.equation, *operands))

    def lower(self, builder: Builder, operands: Sequence[Value], result: TensorType) -> Value:
        parts = [_Indexed(v, term).diagonal(builder) for v, term in zip(operands, self.terms, strict=True)]
        parts = [
            part.summed(builder, _others(parts, i) + self.output, result) for i, part in enumerate(parts)
        ]
        total, *rest = parts
        for number, part in enumerate(rest):
            needed = self.output + "".join(p.indices for p in rest[number + 1 :])
            total = total.times(builder, part, needed, result)
        value = total.ordered(builder, self.output)
        return convert_form(builder, value, result)


def _needed(letters: str, by: str) -> str:
    return "".join(dict.fromkeys(letter for letter in letters if letter in by))


def _all_but(terms: Sequence[str], position: int) -> str:
    return "".join(term for i, term in enumerate(terms) if i != position)


def _others(parts: Sequence[_Indexed], position: int) -> str:
    return _all_but([part.indices for part in parts], position)


@dataclass(frozen=True)
class _Indexed:
    """A tensor with a letter for each of its dims."""

    value: Value
    indices: str

    def diagonal(self, builder: Builder) -> _Indexed:
        """Each letter once: a repeated one is the diagonal."""
        letters = "".join(dict.fromkeys(self.indices))
        if letters == self.indices:
            return self
        ty = tensor_type(self.value)
        dims = tuple(ty.dims[self.indices.index(letter)] for letter in letters)
        places = tuple(letters.index(letter) for letter in self.indices)
        result = TensorType(dims, ty.dtype, ty.policy)
        return _Indexed(map_form(builder, (self.value,), result, lambda s, args: args[0], [places]), letters)

    def summed(self, builder: Builder, needed: str, result: TensorType) -> _Indexed:
        """Without the letters that nobody else has."""
        axes = tuple(axis for axis, letter in enumerate(self.indices) if letter not in needed)
        if not axes:
            return self
        ty = tensor_type(self.value)
        dtype = ty.dtype if ty.dtype.kind in "fc" else result.dtype
        kept = "".join(letter for letter in self.indices if letter in needed)
        total = reduce_form(
            builder, self.value, TensorType(without_axes(ty.dims, axes), dtype, ty.policy), "sum", axes
        )
        return _Indexed(total, kept)

    def times(self, builder: Builder, other: _Indexed, needed: str, result: TensorType) -> _Indexed:
        """The product, summed over the letters that both have and nobody needs."""
        letters = "".join(dict.fromkeys(self.indices + other.indices))
        kept = "".join(letter for letter in letters if letter in needed)
        sizes = {**self._sizes(), **other._sizes()}
        dims = tuple(sizes[letter] for letter in kept)
        policy = tensor_type(self.value).policy
        policy = tensor_type(other.value).policy if policy == NO_POLICY else policy
        product = TensorType(dims, result.dtype, policy)
        shared = set(self.indices) & set(other.indices)
        if len(kept) < len(letters) and shared == set(letters):
            right = other.ordered(builder, self.indices)
            axes = tuple(axis for axis, letter in enumerate(self.indices) if letter not in needed)
            return _Indexed(sum_of_products(builder, self.value, right, product, axes), kept)
        number = {letter: i for i, letter in enumerate(kept + "".join(x for x in letters if x not in kept))}
        lhs, rhs = ([number[letter] for letter in part.indices] for part in (self, other))
        return _Indexed(contract_form(builder, self.value, other.value, product, lhs, rhs), kept)

    def ordered(self, builder: Builder, indices: str) -> Value:
        """The tensor with its dims in this order."""
        if indices == self.indices:
            return self.value
        ty, order = tensor_type(self.value), tuple(self.indices.index(letter) for letter in indices)
        result = TensorType(tuple(ty.dims[axis] for axis in order), ty.dtype, ty.policy)
        return view_form(builder, self.value, result, Permute(order))

    def _sizes(self) -> dict[str, Dim]:
        return dict(zip(self.indices, tensor_type(self.value).dims, strict=True))
