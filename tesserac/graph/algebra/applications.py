"""Laws of operators that have no matrix, where they are applied.

    A.H @ (c * (A @ x))      c * x              of a unitary A; of an inverse beside its operator, too
    a * (A @ x) + A @ y      A @ (a * x + y)    whatever A is

Enters: a function whose applications are marked at both ends (`ops/carried.py`). Leaves: fewer of them. Numbers in
front go along. What others need of an application stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tesserac.base.dataclass import dataclass
from tesserac.graph.algebra.terms import name_of
from tesserac.graph.autodiff.linear import used_values
from tesserac.graph.dialect import NUMERICS, PREFIX, operator_of
from tesserac.graph.substitute import copy_op
from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.rewrite import is_pure
from tesserac.ops.carried import OperatorIn, OperatorOut, Side
from tesserac.ops.held import SELF_ADJOINT, UNITARY
from tesserac.types.dims import ONE

IN, OUT = PREFIX + OperatorIn.name, PREFIX + OperatorOut.name
_SUMS = (PREFIX + "add", PREFIX + "sub")
_MUL, _DIV, _NEG, _POWER = (PREFIX + name for name in ("mul", "div", "neg", "power"))
MOST_OPS = 256
"""Operations that the application of one operator has at most; what has more is left as it is."""


@dataclass(frozen=True, eq=False)
class Spared:
    """A law that spared applications, in words."""

    function: str
    op: Op
    called: str
    law: str


@dataclass(frozen=True, eq=False)
class Applied:
    """One application: its two ends, and what stands between them in the order of the program."""

    into: Op
    out: Op
    between: Sequence[Op]

    @property
    def operator(self) -> Side:
        found = operator_of(self.out)
        assert isinstance(found, Side)
        return found

    @property
    def parts(self) -> Sequence[Value]:
        return self.out.operands[1:]

    @property
    def given(self) -> Value:
        return self.into.operands[0]

    def __str__(self) -> str:
        operator = self.operator
        name = operator.kind.partition("(")[0] + (".H" if operator.turned else "")
        return f"inverse({name})" if operator.inverse else name


def by_applications(function: Op, observe: Callable[[Spared], None] | None) -> None:
    """The laws on one function, until none applies."""
    while any(op.name == OUT for op in function.walk()):
        roots = [op for op in function.walk() if op.name == OUT or op.name in _SUMS]
        if not any([_change(op, function, observe) for op in roots if op.parent is not None]):
            return


def _change(op: Op, function: Op, observe: Callable[[Spared], None] | None) -> bool:
    told = _undone(op) if op.name == OUT else _merged(op) if op.name in _SUMS else None
    if told is not None and observe is not None:
        observe(Spared(function.symbol, op, *told))
    return told is not None


# ------------------------------------------------------------------------------------------------------- two in a row


def _undone(op: Op) -> tuple[str, str] | None:
    """An operator after the one that it undoes: what both were applied to is left, and the numbers between them."""
    outer = application(op)
    if outer is None:
        return None
    value, numbers = _peeled(outer.given)
    inner = None if value.defining_op is None else application(value.defining_op)
    if inner is None or inner.given.type != op.result.type or not _undoes(outer, inner):
        return None
    law = "inverse" if outer.operator.inverse != inner.operator.inverse else "unitary operator"
    written = f"{outer} @ ({inner} @ {name_of(inner.given)})"
    told = written, f"{law}: {written} = {name_of(inner.given)}"
    _replace(op, _with_numbers(Builder.before(op), inner.given, value, numbers))
    return told


def _undoes(outer: Applied, inner: Applied) -> bool:
    one, two = outer.operator, inner.operator
    if not _is_same(outer, inner):
        return False
    if one.inverse != two.inverse:
        return one.turned == two.turned
    if UNITARY not in one.flags:
        return False
    return one.turned != two.turned or SELF_ADJOINT in one.flags


def _is_same(one: Applied, two: Applied) -> bool:
    """Whether both are of one operator, maybe turned or inverted."""
    first, second = one.operator, two.operator
    modes = [applied.out.attrs.get(NUMERICS) for applied in (one, two)]
    same = (first.kind, first.sizes, modes[0]) == (second.kind, second.sizes, modes[1])
    return same and len(one.parts) == len(two.parts) and all(map(same_value, one.parts, two.parts))


# ------------------------------------------------------------------------------------------------------------- sums


def _merged(op: Op) -> tuple[str, str] | None:
    """A sum of what one operator gives is what it gives of a sum."""
    sides = [side for value in op.operands if (side := _only_use(value)) is not None]
    if len(sides) < 2 or op.operands[0] is op.operands[1]:
        return None
    left, right = (application(made) for made, _ in sides)
    if left is None or right is None or not _may_merge(op, left, right):
        return None
    build = Builder.before(op)
    terms = [_with_numbers(build, left.given, left.out.result, sides[0][1])]
    terms += [_with_numbers(build, right.given, right.out.result, sides[1][1])]
    added = build.op(op.name, terms, [left.given.type], op.attrs)
    found = _again(build, left, added.result)
    written = f"{left} @ {name_of(left.given)} {'+' if op.name == _SUMS[0] else '-'} {right} @ {name_of(right.given)}"
    _replace(op, found)
    return written, f"one operator for a sum: {written}"


def _may_merge(op: Op, left: Applied, right: Applied) -> bool:
    one, two = left.operator, right.operator
    alike = (one.turned, one.inverse, left.given.type) == (two.turned, two.inverse, right.given.type)
    moves = all(not inner.regions and inner.parent is op.parent and is_pure(inner) for inner in left.between)
    return alike and moves and left.out.result.type == op.result.type and _is_same(left, right)


def _only_use(value: Value) -> tuple[Op, Sequence[Op]] | None:
    """What an application gives, behind numbers, where nobody else needs it."""
    found, numbers = _peeled(value)
    made = found.defining_op
    used_once = all(len(v.uses) == 1 for v in (value, found, *(op.result for op in numbers)))
    return (made, numbers) if made is not None and made.name == OUT and used_once else None


def _again(build: Builder, applied: Applied, given: Value) -> Value:
    """The same operator on something else."""
    values: dict[Value, Value] = {}
    for op in (applied.into, *applied.between, applied.out):
        copy = copy_op(op, values, {})
        if op is applied.into:
            copy.set_operand(0, given)
        build.add(copy)
    return values[applied.out.result]


# -------------------------------------------------------------------------------------------------------- one of them


def application(op: Op) -> Applied | None:
    """The application that an operation is the end of; None where its beginning is not found, or not alone."""
    if op.name != OUT:
        return None
    found: dict[Op, None] = {}
    begun: set[Op] = set()
    waiting = [op.operands[0]]
    while waiting and len(found) <= MOST_OPS:
        made = waiting.pop().defining_op
        if made is None or made in found or made in begun:
            continue
        if _begins(made, op):
            begun.add(made)
            continue
        found[made] = None
        waiting += used_values(made)
    if len(begun) != 1 or len(found) > MOST_OPS:
        return None
    [into] = begun
    return Applied(into, op, _depending(into, list(found)))


def _begins(made: Op, out: Op) -> bool:
    return made.name == IN and made.attrs == out.attrs and made.operands[1:] == out.operands[1:]


def _depending(into: Op, ops: Sequence[Op]) -> list[Op]:
    """Those that need what goes in, in order."""
    needed = {into.result}
    order = sorted((op for op in ops if op.parent is into.parent), key=lambda op: _place(op))
    between = []
    for op in order:
        if not needed.isdisjoint(used_values(op)):
            needed.update(op.results)
            between.append(op)
    return between


def _place(op: Op) -> int:
    assert op.parent is not None
    return op.parent.place(op)


def _peeled(value: Value) -> tuple[Value, list[Op]]:
    """What stands behind multiples, and the operations that multiply, the last one first."""
    numbers: list[Op] = []
    while (op := value.defining_op) is not None and (inner := _multiplied(op)) is not None:
        numbers.append(op)
        value = inner
    return value, numbers


def _multiplied(op: Op) -> Value | None:
    """What is multiplied by a number; None where nothing is."""
    if op.name == _NEG or (op.name == _POWER and op.attrs["exponent"] == 1):
        return op.operands[0]
    if op.name not in (_MUL, _DIV):
        return None
    for value, other in (op.operands, op.operands[::-1]) if op.name == _MUL else (op.operands,):
        if value.type == op.result.type and _is_number(other):
            return value
    return None


def _is_number(value: Value) -> bool:
    """Whether a tensor has one number everywhere."""
    op = value.defining_op
    while op is not None and op.name in (PREFIX + "reshape", PREFIX + "expand"):
        value = op.operands[0]
        op = value.defining_op
    is_one = all(dim == ONE for dim in tensor_type(value).dims)
    return is_one or (op is not None and op.name == PREFIX + "full")


def _with_numbers(build: Builder, value: Value, old: Value, numbers: Sequence[Op]) -> Value:
    """What was multiplied, multiplied anew: `old` is what `value` stands for now."""
    for op in reversed(numbers):
        operands = [value if operand is old else _resized(build, operand, value) for operand in op.operands]
        old = op.result
        value = build.op(op.name, operands, [value.type], op.attrs).result
    return value


def _resized(build: Builder, number: Value, like: Value) -> Value:
    """A number that was repeated as often as another vector has entries."""
    if tensor_type(number).rank == 0 or tensor_type(number).dims == tensor_type(like).dims:
        return number
    op = number.defining_op
    assert op is not None
    if op.name == PREFIX + "full":
        return build.op(op.name, (), [like.type], {**op.attrs, "shape": tensor_type(like).dims}).result
    inner = op.operands[0]
    if all(dim == ONE for dim in tensor_type(inner).dims):
        attrs = {"shape": tensor_type(like).dims}
        return build.op(PREFIX + "expand", (inner,), [like.type], attrs).result
    return _resized(build, inner, like)


def same_value(one: Value, two: Value, depth: int = 8) -> bool:
    """Whether two values are certainly equal: they are computed alike."""
    left, right = one.defining_op, two.defining_op
    if one is two:
        return True
    if left is None or right is None or not depth or left.name != right.name or left.regions or not is_pure(left):
        return False
    alike = left.attrs == right.attrs and one.type == two.type and len(left.operands) == len(right.operands)
    return alike and all(same_value(a, b, depth - 1) for a, b in zip(left.operands, right.operands, strict=True))


def _replace(op: Op, value: Value) -> None:
    value.name = value.name or op.result.name
    op.result.replace_all_uses(value)
    waiting = [op]
    while waiting:
        unused = waiting.pop()
        if unused.parent is None or any(v.uses for v in unused.results) or not is_pure(unused):
            continue
        needed = list(unused.operands)
        unused.erase()
        waiting += [v.defining_op for v in needed if v.defining_op is not None]
