"""What is known of an operator, in words: how it is made, and the flags that are proven of every such operator.

Enters: the type of an operator. Leaves: text for editors and `tesserac inspect`: `kronecker(dense, diag); normal`.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

from tesserac.base.source import NO_SPAN
from tesserac.check.algebra.base import Kind
from tesserac.check.algebra.flags import flags_of
from tesserac.check.algebra.pool import Pool
from tesserac.check.model import typed
from tesserac.check.state.body import Body
from tesserac.types.algebra import outline
from tesserac.types.dims import Dim
from tesserac.types.ty import OperatorType


def known_text(type_: OperatorType) -> str:
    """How an operator is made, and what is proven of it from that alone."""
    assert isinstance(type_.tree, Kind)
    pool = Pool(cast(Body, _NoBody()))
    pool.values = [typed.Static(leaf, NO_SPAN) for leaf in type_.leaves]
    made, flags = outline(type_.tree), ", ".join(flags_of(pool, type_.tree))
    return f"{made}; {flags}" if flags else made


class _NoBody(SimpleNamespace):
    """Of what a body knows, laws ask which sizes are equal and what names were assigned; a type alone knows neither."""

    def __init__(self) -> None:
        super().__init__(facts=SimpleNamespace(same=_same), origins={})


def _same(left: Dim, right: Dim) -> bool:
    return left == right


def operators_in(block: typed.Block) -> Iterator[tuple[str, OperatorType]]:
    """The operators that a function gives names, in order."""
    for statement in block:
        match statement:
            case typed.Bind(name=name, value=value) if isinstance(value.type, OperatorType):
                yield name, value.type
            case typed.If(then=then, otherwise=otherwise):
                yield from operators_in(then)
                yield from operators_in(otherwise)
            case typed.For(body=body) | typed.While(body=body):
                yield from operators_in(body)
