"""Calls from outside the language: parameter types from the values at hand.

Enters: a signature and the types of actual arguments, with sizes as numbers. Leaves: parameter types in the
signature's own symbols. Sizes themselves are bound and checked at run time; only rank, dtype and static values
choose an instance. Where no dims are written, equal sizes become one symbol and a size of 1 stays 1.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from tesserac.check.instances.binding import CallBinding
from tesserac.check.model.specs import Signature, dims_of
from tesserac.check.sizes.facts import Facts
from tesserac.types.dims import ONE, Dim
from tesserac.types.ty import TensorType, Type, holds_operator, map_dims


class _AnySize(Facts):
    """Every size agrees with every other: the run-time guards will tell."""

    def same(self, left: Dim, right: Dim) -> bool:
        return True


def entry_types(signature: Signature, types: Sequence[Type]) -> tuple[Type, ...] | None:
    """The key of the instance for these arguments, one per parameter; None if one does not fit."""
    binding = CallBinding(signature, _AnySize())
    written = {dim.dim for parameter in signature.parameters for dim in dims_of(parameter.spec)}
    if not any(map(holds_operator, types)):  # with one, every size is known: that of an operator may be a product
        types = [_with_symbols(type_, written) for type_ in types]
    binding.bind(types)
    return None if binding.misfits else tuple(binding.types)


def any_size_binding(signature: Signature, types: Sequence[Type]) -> dict[str, Dim]:
    """What each size of a signature is for these arguments, as far as they say."""
    binding = CallBinding(signature, _AnySize())
    solver = binding.bind(types)
    solver.finish()
    return solver.values()


def _with_symbols(type_: Type, written: Set[Dim]) -> Type:
    """Sizes as symbols named after them, so that equal ones stay equal; a number that the signature has is one."""
    if not isinstance(type_, TensorType):
        return type_
    known = {ONE, *written}
    return map_dims(type_, lambda dim: dim if dim in known or dim.constant is None else Dim.sym(f"size{dim}"))
