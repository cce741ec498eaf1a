"""How a value of a graph is what a pattern writes, and what the parameters of the pattern are there.

Enters: a function that computes one value of its parameters by operators alone, and a value of a graph. Leaves: sizes
and values for the parameters, and the operations that are covered. Two operators are the same where they generalise to
the same forms, and sums and products where their operands are exchanged.

The pattern of a law also is what is spelt in another way. Operations that show a value as the pattern has it are made
for that, before the operation at which is looked; those that nobody reads are erased again.

    pattern         is found                            what is made
    x @ y           einsum, leading dims broadcast      views of the operands: `products.py`
    permute(p)      any value                           its inverse
    x * c           x, x / d, x * a * b                 1, 1 / d, a * b
    x + p           p with fewer dims, dims of size 1   expand(p)
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.graph.applying import apply_operator
from tesserac.graph.dialect import MEANT, NUMERICS, PREFIX, SCHEDULE, is_operator, operator_of
from tesserac.graph.passes.generalize import generalize
from tesserac.graph.products import as_product, permuted
from tesserac.graph.substitute import substitute_attr, substitute_type
from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Attr, Block, Module, Op, Region, Value
from tesserac.ir.forms import tensor_type
from tesserac.ir.printer import print_module
from tesserac.ops.contract import MatMul
from tesserac.ops.create import Full
from tesserac.ops.elementwise import Add, Div, Mul, Where
from tesserac.ops.shape import Expand, Permute, Reshape
from tesserac.types.dims import ONE, Dim
from tesserac.types.ty import TensorType

COMMUTES = {f"{PREFIX}{operator.name}" for operator in (Add, Mul)}
"""Operators whose operands may be exchanged."""
STRETCHES = {*COMMUTES, f"{PREFIX}{Where.name}"}
"""Operators that broadcast a parameter of a law."""
APART = (NUMERICS, SCHEDULE, MEANT)
"""Attributes of an operation that is computed as it stands."""
SIZE = "graph.size"


def is_part(op: Op) -> bool:
    """Whether an operation may be part of a pattern: an operator, or a number that is a size."""
    return is_operator(op) or op.name == SIZE


class Match:
    """What the parameters and sizes of a pattern are in a graph, and the operations that it covers, the root last."""

    def __init__(self) -> None:
        self.dims: dict[str, Dim] = {}
        self.ops: list[Op] = []
        self._values: dict[Value, Value] = {}

    def arguments(self, pattern: Op) -> list[Value]:
        return [self._values[arg] for arg in pattern.body.args]

    def is_whole(self, pattern: Op) -> bool:
        """Whether it is known what all parameters and sizes of the pattern are."""
        sizes = {name for arg in pattern.body.args for dim in tensor_type(arg).dims for name in dim.symbols()}
        return sizes <= self.dims.keys() and all(arg in self._values for arg in pattern.body.args)

    def is_read_elsewhere(self, root: Op) -> bool:
        """Whether anything but the pattern reads what is inside of it."""
        inside = set(self.ops)
        return any(user not in inside for op in self.ops if op is not root for user, _ in op.result.uses)

    def value(self, wanted: Value, found: Value) -> bool:
        if wanted in self._values:
            return self._values[wanted] is found
        maker = wanted.defining_op
        given = self.parameter(wanted, found) if maker is None else self.made(maker, found)
        if given is None:
            return False
        self._values[wanted] = given
        return True

    def parameter(self, wanted: Value, found: Value) -> Value | None:
        """What a parameter is."""
        own, given = tensor_type(wanted), tensor_type(found)
        if (own.dtype, own.policy, own.rank) != (given.dtype, given.policy, given.rank):
            return None
        for dim, size in zip(own.dims, given.dims, strict=True):
            if dim.symbol is not None:
                self.dims.setdefault(dim.symbol, size)
        return found

    def made(self, maker: Op, found: Value) -> Value | None:
        """What the result of an operator of the pattern is."""
        return found if found.defining_op is not None and self.op(maker, found.defining_op) else None

    def op(self, wanted: Op, found: Op) -> bool:
        if not is_part(found) or len(found.operands) != len(wanted.operands) or len(found.results) != 1:
            return False
        if any(name in found.attrs for name in APART) or not _is_like(wanted, found):
            return False
        if not self._operands(wanted, found) or not self._fits(wanted):
            return False
        if substitute_type(wanted.result.type, self.dims) != found.result.type:
            return False
        attrs = {name: substitute_attr(attr, self.dims) for name, attr in wanted.attrs.items()}
        if (wanted.name, attrs) != (found.name, found.attrs) and not self._has_forms(wanted, found):
            return False
        if found not in self.ops:
            self.ops.append(found)
        return True

    def _operands(self, wanted: Op, found: Op) -> bool:
        """Whether the operands are those of a pattern: in their order, or in the other one where that gives the same
        bits. What is made of parameters comes first, and tells sizes to the rest."""
        orders = [found.operands, found.operands[::-1]] if found.name in COMMUTES else [found.operands]
        for given in orders:
            before = self.state()
            pairs = sorted(zip(wanted.operands, given, strict=True), key=lambda pair: _turn(pair[0]))
            if all(self.value(*pair) for pair in pairs):
                return True
            self.restore(before)
        return False

    def state(self) -> tuple[dict[str, Dim], list[Op], dict[Value, Value]]:
        return dict(self.dims), list(self.ops), dict(self._values)

    def restore(self, state: tuple[dict[str, Dim], list[Op], dict[Value, Value]]) -> None:
        self.dims, self.ops, self._values = state

    def _fits(self, wanted: Op) -> bool:
        """Whether operands have the sizes that the pattern says, now that its symbols are known."""
        return all(substitute_type(own.type, self.dims) == self._values[own].type for own in wanted.operands)

    def _has_forms(self, wanted: Op, found: Op) -> bool:
        return is_operator(wanted) and is_operator(found) and self._forms(wanted) == self._forms(found)

    def _forms(self, op: Op) -> str:
        """The forms that an operator is, in the sizes of the graph."""
        block = Block([substitute_type(v.type, self.dims) for v in op.operands])
        builder = Builder(block, op.span)
        attrs = {name: substitute_attr(attr, self.dims) for name, attr in op.attrs.items()}
        made = builder.op(op.name, block.args, [substitute_type(op.result.type, self.dims)], attrs)
        builder.op("graph.return", made.results)
        params = tuple(f"x{place}" for place in range(len(block.args)))
        said: dict[str, Attr] = {"sym_name": "f", "params": params, "guards": (), "entry": True}
        alone = Module([Op(OPDEFS["graph.func"], (), (), said, [Region(block)], op.span)])
        return print_module(generalize.run(alone))


def _turn(wanted: Value) -> int:
    """When an operand of a pattern is looked at: what is made of parameters, parameters, what is made of none."""
    if wanted.defining_op is None:
        return 1
    return 0 if _has_parameter(wanted) else 2


def _has_parameter(value: Value) -> bool:
    return value.defining_op is None or any(map(_has_parameter, value.defining_op.operands))


def _is_like(wanted: Op, found: Op) -> bool:
    """Whether two operators may have the same forms: elementwise ones under one name have, others are looked at."""
    return wanted.name == found.name or not ({wanted.name, found.name} & COMMUTES)


def matched(pattern: Op, value: Value) -> Match | None:
    """How a value is the pattern's; None where it is not."""
    match = Match()
    found = match.value(pattern.body.terminator.operands[0], value) and match.is_whole(pattern)
    return match if found else None


# --------------------------------------------------------------------------------------------------- patterns of laws


class Spelling(Match):
    """The same for what a program may spell in other ways, at an operation before which views are made."""

    def __init__(self, root: Op) -> None:
        super().__init__()
        self._builder = Builder.before(root)

    def made(self, maker: Op, found: Value) -> Value | None:
        if maker.name == f"{PREFIX}{Permute.name}" and maker.operands[0].defining_op is None:
            return found if self._seen_through(maker, found) else None
        before = self.state()
        if super().made(maker, found) is not None:
            return found
        self.restore(before)
        if maker.name == f"{PREFIX}{MatMul.name}" and self._product(maker, found):
            return found
        self.restore(before)
        return found if self._size(maker, found) or self._scaled(maker, found) else None

    def _size(self, maker: Op, found: Value) -> bool:
        """A size that the program knows is a number there."""
        op, size = found.defining_op, substitute_attr(maker.attrs.get("dim"), self.dims)
        known = size.constant if isinstance(size, Dim) and maker.name == SIZE else None
        if op is None or known is None or found.type != maker.result.type:
            return False
        return op.name == f"{PREFIX}{Full.name}" and op.attrs["value"] == known

    def _seen_through(self, maker: Op, found: Value) -> bool:
        """A parameter that the pattern permutes is found permuted back."""
        operator = operator_of(maker)
        assert isinstance(operator, Permute)
        if len(operator.order) != tensor_type(found).rank:
            return False
        inverse = [operator.order.index(axis) for axis in range(len(operator.order))]
        return self.value(maker.operands[0], permuted(self._builder, found, inverse))

    def _product(self, maker: Op, found: Value) -> bool:
        op = found.defining_op
        product = None if op is None or _is_apart(op) else as_product(self._builder, op, in_place=True)
        if op is None or product is None or product.order != tuple(range(len(product.order))):
            return False
        assert product.value.defining_op is not None
        if not self.op(maker, product.value.defining_op):
            return False
        self.ops.append(op)
        return True

    def _scaled(self, maker: Op, found: Value) -> bool:
        """A factor of one number: all factors and divisors that stand there, 1 if none does."""
        own = [v for v in maker.operands if v.defining_op is None and tensor_type(v).rank == 0]
        if maker.name != f"{PREFIX}{Mul.name}" or len(own) != 1:
            return False
        [inner] = [v for v in maker.operands if v is not own[0]]
        factors: list[tuple[Op, Value]] = []
        core = found
        while (step := _factor(core)) is not None:
            factors.append((step[0], step[1]))
            core = step[2]
        if not self.value(inner, core) or tensor_type(core) != tensor_type(found):
            return False
        self.ops += [op for op, _ in reversed(factors)]
        self._values[own[0]] = self._number(tensor_type(own[0]), factors)
        return True

    def _number(self, ty: TensorType, factors: Sequence[tuple[Op, Value]]) -> Value:
        """All factors in one, in the order of the program."""
        total: Value | None = None
        for op, number in reversed(factors):
            if total is None and op.name == f"{PREFIX}{Mul.name}":
                total = number
                continue
            if total is None:
                total = apply_operator(self._builder, Full((), ty.dtype, ty.policy, 1.0))
            total = apply_operator(self._builder, Mul() if op.name == f"{PREFIX}{Mul.name}" else Div(), total, number)
        return apply_operator(self._builder, Full((), ty.dtype, ty.policy, 1.0)) if total is None else total

    def parameter(self, wanted: Value, found: Value) -> Value | None:
        before = self.state()
        own = tensor_type(wanted)
        given = super().parameter(wanted, found)
        if given is not None and substitute_type(own, self.dims) == given.type:
            return given
        self.restore(before)
        is_stretched = any(user.name in STRETCHES for user, _ in wanted.uses)
        return self._stretched(own, found) if is_stretched else given

    def _stretched(self, own: TensorType, found: Value) -> Value | None:
        """A value that broadcasts to what a parameter is, as that; dims of size 1 in front of it do not show."""
        given = tensor_type(found)
        if own.rank == 0 or {name for dim in own.dims for name in dim.symbols()} - self.dims.keys():
            return None
        wanted = substitute_type(own, self.dims)
        assert isinstance(wanted, TensorType)
        if (wanted.dtype, wanted.policy) != (given.dtype, given.policy):
            return None
        surplus = max(0, given.rank - wanted.rank)
        dims = given.dims[surplus:]
        pairs = zip(reversed(dims), reversed(wanted.dims), strict=False)
        if any(dim != ONE for dim in given.dims[:surplus]) or any(dim not in (ONE, size) for dim, size in pairs):
            return None
        shown = found if not surplus else apply_operator(self._builder, Reshape(dims), found)
        return shown if dims == wanted.dims else apply_operator(self._builder, Expand(wanted.dims), shown)


def _is_apart(op: Op) -> bool:
    return any(name in op.attrs for name in APART)


def _factor(value: Value) -> tuple[Op, Value, Value] | None:
    """A product with, or quotient by, one number: the operation, the number, and the rest."""
    op = value.defining_op
    if op is None or _is_apart(op) or op.name not in (f"{PREFIX}{Mul.name}", f"{PREFIX}{Div.name}"):
        return None
    left, right = op.operands
    if tensor_type(right).rank == 0 and tensor_type(left).rank:
        return op, right, left
    return (op, left, right) if op.name == f"{PREFIX}{Mul.name}" and tensor_type(left).rank == 0 else None


def spelt(pattern: Op, root: Op, value: Value) -> Match | None:
    """How a value is what a law writes, in this or another spelling."""
    match = Spelling(root)
    found = match.value(pattern.body.terminator.operands[0], value) and match.is_whole(pattern)
    return match if found else None
