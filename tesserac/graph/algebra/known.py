"""What is known of a matrix beside its numbers: that it is unitary, self-adjoint, without a negative eigenvalue.

Enters: a term. Leaves: its flags: what operators carry into the graph (`graph.operator`), and what follows from how a
matrix is written (`A.T @ A` has no negative eigenvalue).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from tesserac.graph.algebra.terms import Term
from tesserac.graph.dialect import PREFIX
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.rewrite import is_pure
from tesserac.ops.held import ISOMETRY, PSD, SELF_ADJOINT, UNITARY, Held

HELD = PREFIX + Held.name
Flags = frozenset[str]
MOST_MOVED = 32
"""Operations that one value may need."""
_NONE: Flags = frozenset()
_IDENTITY: Flags = frozenset((UNITARY, ISOMETRY, SELF_ADJOINT, PSD))


@lru_cache(maxsize=4096)
def flags_of(term: Term) -> Flags:
    """What is known of a matrix; of a vector nothing is."""
    if not term.head:
        return held_flags(term.leaf)
    match term.head:
        case "eye":
            return _IDENTITY
        case "diag":
            return frozenset((SELF_ADJOINT,)) if is_real(term) else _NONE
        case "t" | "conj":
            return _turned(term)
        case "neg" | "scale":
            return _scaled(term)
        case "add":
            return _common(term) & {SELF_ADJOINT, PSD}
        case "sub":
            return _common(term) & {SELF_ADJOINT}
        case "kron":
            return _common(term)
        case "mm":
            return _product(term)
    return _NONE


def held_flags(value: Value | None) -> Flags:
    """What operators say of a value of the graph."""
    op = None if value is None else value.defining_op
    found: set[str] = set()
    while op is not None and op.name == HELD:
        flags = op.attrs["flags"]
        assert isinstance(flags, tuple)
        found.update(map(str, flags))
        op = op.operands[0].defining_op
    if UNITARY in found:
        found.add(ISOMETRY)
    if PSD in found:
        found.add(SELF_ADJOINT)
    return frozenset(found)


@lru_cache(maxsize=4096)
def is_real(term: Term) -> bool:
    """Whether no number of an expression is complex."""
    return not any(part.leaf is not None and tensor_type(part.leaf).dtype.is_complex for part in term.distinct)


def _turned(term: Term) -> Flags:
    """Of a transpose or a conjugate: orthonormal columns become rows."""
    found = flags_of(term.args[0])
    return found if term.head == "conj" or UNITARY in found else found - {ISOMETRY}


def _scaled(term: Term) -> Flags:
    found = flags_of(term.args[-1])
    if term.head == "neg":
        return found - {PSD}
    return found & {SELF_ADJOINT} if is_real(term) else _NONE


def _common(term: Term) -> Flags:
    return flags_of(term.args[0]) & flags_of(term.args[1])


def _product(term: Term) -> Flags:
    """Of unitary matrices, or of a matrix and its adjoint, maybe with one between them that has no negative
    eigenvalue."""
    left, right = term.args
    if left.rank != 2 or right.rank != 2:
        return _NONE
    both = _common(term) & {UNITARY, ISOMETRY}
    if right.head == "mm" and is_adjoint(left, right.args[1]):
        return both | (flags_of(right.args[0]) & {SELF_ADJOINT, PSD})
    return both | {SELF_ADJOINT, PSD} if is_adjoint(left, right) else both


def is_adjoint(left: Term, right: Term) -> bool:
    """Whether one matrix is written as the adjoint of the other."""
    (one, turned, conjugated), (two, again, also) = _peeled(left), _peeled(right)
    return one == two and turned != again and (conjugated != also or is_real(one))


def _peeled(term: Term) -> tuple[Term, bool, bool]:
    """What is turned and conjugated, and whether it is."""
    turned = conjugated = False
    while term.head in ("t", "conj"):
        turned, conjugated = turned != (term.head == "t"), conjugated != (term.head == "conj")
        term = term.args[0]
    return term, turned, conjugated


def undoes(left: Term, right: Term) -> bool:
    """Whether a product of two matrices is the identity, since it is known of them."""
    if "made" in (left.head, left.args and left.args[0].head, right.head, right.args and right.args[0].head):
        return is_inverse(left, right) or is_inverse(right, left)
    if UNITARY in flags_of(left) and left == right and SELF_ADJOINT in flags_of(left):
        return True
    return ISOMETRY in flags_of(right) and is_adjoint(left, right)


def is_inverse(one: Term, other: Term) -> bool:
    """Whether one matrix is written as the inverse of the other, or both are turned."""
    if one.head == other.head == "t":
        one, other = one.args[0], other.args[0]
    made = one.args[0].leaf if one.head == "made" else None
    op = None if made is None else made.defining_op
    if op is None or len(op.operands) != 1 or other.leaf is None:
        return False
    return _named(op.operands[0]) is _named(other.leaf)


# ---------------------------------------------------------------------------------------------------- in the graph


def _named(value: Value) -> Value:
    """A value without what operators say of it."""
    while value.defining_op is not None and value.defining_op.name == HELD:
        value = value.defining_op.operands[0]
    return value


def best_known(value: Value, root: Op) -> Value:
    """The same numbers under the name of which most is known where they are needed: what is promised of `op.dense(M)`
    holds of M beside it, too."""
    value = _named(value)
    names = [value, *(name for name in _names(value) if stands_before(name, root))]
    found = max(names, key=lambda name: len(held_flags(name)))
    found.name = found.name or value.name
    return found


def _names(value: Value) -> Iterator[Value]:
    for user, _ in value.uses:
        if user.name == HELD:
            yield user.result
            yield from _names(user.result)


def stands_before(value: Value, root: Op) -> bool:
    """Whether a value is there where an operation stands."""
    op = value.defining_op
    block = op.parent if op is not None else value.owner
    inner: Op | None = root
    while inner is not None and inner.parent is not None:
        if inner.parent is block:
            return op is None or inner.parent.place(op) < inner.parent.place(inner)
        inner = inner.parent.parent_op
    return False


def needed_before(value: Value, root: Op) -> list[Op] | None:
    """The operations that have to stand before another, in their order, so that a value does; None where one of them
    may not: it has effects, or needs what that operation gives."""
    found: dict[Op, None] = {}

    def moves(part: Value) -> bool:
        op = part.defining_op
        if stands_before(part, root) or op in found:
            return True
        may = op is not None and op.parent is root.parent and is_pure(op) and not op.regions
        if op is None or not may or len(found) > MOST_MOVED or not all(map(moves, op.operands)):
            return False
        found[op] = None
        return True

    return list(found) if moves(value) else None


def move_before(ops: Sequence[Op], root: Op) -> None:
    block = root.parent
    assert block is not None
    for op in ops:
        op.detach()
        block.insert(block.place(root), op)
