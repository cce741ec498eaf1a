"""Inverses and solutions that are only multiplied: a system for each product, and none of their columns.

    g = inv(a); g @ v; w @ g.T         is   solve(a, v); solve(a, w)

Enters: a call that gives a matrix. Leaves: the products that alone need it, whether they may have systems of their own,
and what these cost. What one matrix then has several of is one elimination again: see `systems.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.check.model.library_annotations import APPLIED, TURNED
from tesserac.graph.algebra.costs import counted, total
from tesserac.graph.dialect import CALL, PREFIX
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.ordering import has_place
from tesserac.types.dims import ONE, ZERO, Dim

MATMUL, PERMUTE = PREFIX + "matmul", PREFIX + "permute"


@dataclass(frozen=True, eq=False)
class Use:
    """A product with the matrix that a call gives, or with its transpose."""

    product: Op
    is_turned: bool
    on_left: bool

    @property
    def other(self) -> Value:
        return self.product.operands[1 if self.on_left else 0]

    @property
    def structure(self) -> str:
        return APPLIED if self.on_left != self.is_turned else TURNED

    @property
    def columns(self) -> Dim:
        """How many vectors the matrix meets."""
        ty = tensor_type(self.other)
        return ONE if ty.rank == 1 else ty.dims[1 if self.on_left else 0]


def uses_of(made: Op) -> Sequence[Use]:
    """The products that need what a call gives, in the order of the program; none where anything else does."""
    if len(made.results) != 1 or tensor_type(made.result).rank != 2:
        return ()
    found: list[Use] = []
    for user, place in made.result.uses:
        if _turns(user):
            found += [Use(product, True, at == 0) for product, at in user.result.uses]
        else:
            found.append(Use(user, False, place == 0))
    products = {use.product for use in found}
    if len(products) < len(found) or not all(_is_plain(use, made) for use in found):
        return ()
    assert made.parent is not None
    return sorted(found, key=lambda use: made.parent.place(use.product))  # type: ignore[union-attr]


def transposes(made: Op) -> list[Op]:
    """Those that are gone with the products."""
    return [user for user, _ in made.result.uses if _turns(user)]


def _turns(op: Op) -> bool:
    return op.name == PERMUTE and op.attrs["order"] == (1, 0)


def _is_plain(use: Use, made: Op) -> bool:
    product = use.product
    if product.name != MATMUL or product.parent is not made.parent:
        return False
    return max(tensor_type(value).rank for value in product.operands) <= 2


def may_move(op: Op, user: Op, asserting: Collection[str]) -> bool:
    """Whether nothing that is seen lies between, and the matrix is not one of a loop around: there it is made once, and
    applied in every iteration. Of calls that only assert, which one is told of where both would be is no matter."""
    if any(_symbol(inner) not in asserting for inner in passed(op, user)):
        return False
    block = op.parent
    assert block is not None
    is_repeated = block.parent_op is not None and block.parent_op.name in ("form.loop", "form.while")
    return not is_repeated or any(_is_inside(value, block) for value in op.operands)


def passed(op: Op, user: Op) -> list[Op]:
    """What has a place among effects between a call and where it is needed."""
    block = op.parent
    assert block is not None
    between = block.ops[block.place(op) + 1 : block.place(user)]
    return [inner for outer in between for inner in outer.walk() if has_place(inner)]


def _symbol(op: Op) -> str:
    return str(op.attrs["callee"]) if op.name == CALL else ""


def _is_inside(value: Value, block: Block) -> bool:
    owner = value.owner
    return (owner.parent if isinstance(owner, Op) else owner) is block


def costs(op: Op, uses: Sequence[Use]) -> tuple[Dim, Dim]:
    """Three times those of the systems, where what a call gives is not made, and of the products and the one system
    where it is. Each may need an elimination of its own, a third of the size's third power; an inverse has a column for
    each row; what is beside the matrix is multiplied either way."""
    rows, made = map(counted, tensor_type(op.result).dims)
    one, systems, products = rows * rows * rows, ZERO, ZERO
    for use in uses:
        columns = counted(use.columns)
        product = rows * made * columns
        systems += 3 * rows * rows * columns + (3 * product if len(op.operands) > 1 else ZERO)
        products += 3 * product
    return total([one] * len(uses)) + systems, one + 3 * rows * rows * made + products
