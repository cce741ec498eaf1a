"""A loop whose iterations do not wait for each other becomes its body on whole tensors.

    %y = form.loop(%0, %n, %y0) { ^(%i, %a): %v = exp(cut(%x, i)); form.yield(insert(%a, %v, i)) }
becomes
    %y = insert(%y0, exp(cut(%x, 0:n)), 0:n)

Enters: the plan of a loop (`independent.py`). Leaves: values for its results, computed before it. Iterations are a dim
that is mapped, as in `vmap`; a place that moves with them is a box of all of them. What is folded over iterations is a
sum, a maximum or a minimum over that dim; a sum of products is a contraction.
"""

from __future__ import annotations

from string import ascii_lowercase

from tesserac.graph.autodiff.custom import Functions
from tesserac.graph.batching.rules import Mapping
from tesserac.graph.loops.independent import SIZE, Own, Plan, Term, contracts, product_of
from tesserac.graph.loops.narrow import CUT, INSERT
from tesserac.graph.loops.places import Place, movement, moving_axis, place_of
from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value, attr
from tesserac.ir.forms import tensor_type
from tesserac.ops.calculus import Writer
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.dtype import I64
from tesserac.types.policy import NO_POLICY
from tesserac.types.ty import TensorType


def map_loop(plan: Plan, functions: Functions) -> list[Value]:
    """The results of the loop."""
    loop = plan.loop
    builder = Builder.before(loop)
    values = dict(zip(loop.body.args[1:], loop.operands[2:], strict=True))
    mapping = _Iterations(builder, plan, values, set(), functions, {})
    mapping.block(loop.body)
    return [mapping.result(number) for number in range(len(loop.results))]


class _Iterations(Mapping):
    """`written` are the elements at the places that iterations have for themselves, as they are so far."""

    def __init__(
        self,
        builder: Builder,
        plan: Plan,
        values: dict[Value, Value],
        mapped: set[Value],
        functions: Functions,
        written: dict[tuple[int, Own], Value],
        active: Value | None = None,
    ) -> None:
        super().__init__(builder, plan.trips, values, mapped, functions, active)
        self.plan = plan
        self.written = written
        self.carrier = {value: number for number, chain in plan.chains.items() for value in chain.versions}
        self.steps = {term.step for terms in plan.folds.values() for term in terms} | plan.views

    def beside(self, builder: Builder, active: Value | None) -> Mapping:
        return _Iterations(builder, self.plan, self.values, self.mapped, self.functions, self.written, active)

    def operation(self, op: Op) -> None:
        if op in self.steps:
            return  # folds are written behind the body
        number = self.carrier.get(op.operands[0]) if op.operands else None
        if op.name == INSERT and number is not None:
            self._insert(number, op)
        elif op.name == CUT and (number is not None or self._moves(op)):
            self._cut(number, op)
        elif op.name == SIZE and self.plan.counter in attr(op, "dim", Dim).symbols():
            self._count(op)
        elif op.name == "graph.matmul" and self._is_of_vectors(op):
            self._contract(op)
        else:
            super().operation(op)

    # ------------------------------------------------------------------------------------------ places

    def _moves(self, op: Op) -> bool:
        place = place_of(op)
        return place is not None and place.mentions(self.plan.counter)

    def _insert(self, number: int, op: Op) -> None:
        own = self._own(number, op)
        assert own is not None
        self.written.pop((number, own), None)
        self.written[number, own] = self.whole(self.values.get(op.operands[1], op.operands[1]))

    def _own(self, number: int, op: Op) -> Own | None:
        place = place_of(op)
        return next((own for own in self.plan.owned[number] if own.place == place), None)

    def _cut(self, number: int | None, op: Op) -> None:
        """What the iteration has written itself, or what was there before the loop."""
        own = None if number is None else self._own(number, op)
        if number is not None and own is not None and (number, own) in self.written:
            self.values[op.result] = self.written[number, own]
            return
        place = place_of(op)
        source = op.operands[0] if number is None else self.plan.loop.operands[2 + number]
        assert place is not None
        source = self.values.get(source, source)
        moving = moving_axis(place, self.plan.counter)
        if moving is None:
            steps = (1,) * len(place.starts)
            self.values[op.result] = self.writer()("cut", source, starts=place.starts, sizes=place.sizes, steps=steps)
            return
        self.values[op.result] = taken = self._taken(source, place, *moving)
        self.mapped.add(taken)

    def _taken(self, source: Value, place: Place, axis: int, by: int) -> Value:
        """The elements at a place that moves, those of all iterations in front."""
        write, rank = self.writer(), len(place.starts)
        starts, sizes = self._spread(place, axis, self.plan.low)
        steps = tuple(by if at == axis else 1 for at in range(rank))
        box = source
        if set(starts) != {ZERO} or sizes != tensor_type(source).dims or by != 1:
            box = write("cut", source, starts=starts, sizes=sizes, steps=steps)
        if any(size != ONE for size in place.sizes[:axis]):
            box = write.permute(box, [axis, *(at for at in range(rank) if at != axis)])
        return write.reshape(box, (self.size, *place.sizes))

    def _spread(self, place: Place, axis: int, first: Dim) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
        """A place as the box of all iterations, which begins with that of one of them."""
        starts = tuple(start.substitute({self.plan.counter: first}) for start in place.starts)
        return starts, tuple(self.size if at == axis else size for at, size in enumerate(place.sizes))

    def _put(self, whole: Value, new: Value, own: Own) -> Value:
        """The opposite of `_taken`: the tensor with the elements in it."""
        write, place, rank = self.writer(), own.place, len(own.place.starts)
        first = self.plan.low if own.by > 0 else self.plan.low + self.size - 1
        starts, sizes = self._spread(place, own.axis, first)
        if all(size == ONE for size in place.sizes[: own.axis]):
            box = write.reshape(new, sizes)
        else:
            others = [at for at in range(rank) if at != own.axis]
            box = write.reshape(new, (self.size, *(sizes[at] for at in others)))
            box = write.permute(box, [1 + others.index(at) if at != own.axis else 0 for at in range(rank)])
        box = write("flip", box, axes=(own.axis,)) if own.by < 0 else box
        if sizes == tensor_type(whole).dims and set(starts) == {ZERO}:  # in steps of one: others do not reach the end
            return box
        steps = tuple(abs(own.by) if at == own.axis else 1 for at in range(rank))
        return write("insert", whole, box, starts=starts, steps=steps)

    def _count(self, op: Op) -> None:
        """A size that counts with the loop, exact as a whole number before it is of any type."""
        write, dim, like = self.writer(), attr(op, "dim", Dim), tensor_type(op.result)
        by = movement(dim, self.plan.counter)
        assert by is not None
        whole = TensorType((), I64, NO_POLICY)
        places = write("arange", start=self.size)
        if by != 1:
            places = write("mul", places, write.full(by, whole))
        counted = write("add", places, write.size(dim.substitute({self.plan.counter: self.plan.low}), whole))
        self.values[op.result] = counted = write.stored(counted, like)
        self.mapped.add(counted)

    # ------------------------------------------------------------------------------------------ contractions

    def _is_of_vectors(self, op: Op) -> bool:
        return all(tensor_type(v).rank == 1 for v in op.operands) and not self.mapped.isdisjoint(
            self.values.get(v, v) for v in op.operands
        )

    def _contract(self, op: Op) -> None:
        """Two vectors, of which one may be the same for all iterations: then it is a matrix times a vector."""
        operands = [self.values.get(v, v) for v in op.operands]
        terms = ["z" * (v in self.mapped) + "k" for v in operands]
        self.values[op.result] = made = self.writer(op)("einsum", *operands, equation=f"{terms[0]},{terms[1]}->z")
        self.mapped.add(made)

    # ------------------------------------------------------------------------------------------ results

    def result(self, number: int) -> Value:
        value = self.plan.loop.operands[2 + number]
        if number in self.plan.folds:
            for term in self.plan.folds[number]:
                value = self._folded(value, term)
        for (carrier, own), new in self.written.items():
            if carrier == number:
                value = self._put(value, new, own)
        return value

    def _folded(self, total: Value, term: Term) -> Value:
        write, like = self.writer(term.step), tensor_type(term.step.result)
        if contracts(term):
            folded = self._sum_of_products(write, term.value)
        else:
            folded = write(term.fold, self._all_terms(term.value, like), axes=(0,))
        folded = write.expand(write.stored(folded, like), like.dims)  # a term may lack dims of what it is added to
        folded = write.reshape(folded, tensor_type(total).dims)
        name = {"sum": "sub" if term.negative else "add", "max": "maximum", "min": "minimum"}[term.fold]
        return write(name, total, folded)

    def _all_terms(self, value: Value, like: TensorType) -> Value:
        """A term of every iteration, of the size of the total."""
        whole = self.whole(self.values.get(value, value))
        write, dims = self.writer(), tensor_type(whole).dims[1:]
        ones = [ONE] * (like.rank - len(dims))
        return write.expand(write.reshape(whole, (self.size, *ones, *dims)), (self.size, *like.dims))

    def _sum_of_products(self, write: Writer, value: Value) -> Value:
        """The sum over iterations of a product: what is the same in all of them is a factor of the sum, and of the
        others, where one has dims that the other has not, it is a contraction."""
        found = product_of(value, lambda v: self.values.get(v, v) in self.mapped)
        moving, fixed = ([self.values.get(v, v) for v in factors] for factors in (found.moving, found.fixed))
        if not self.mapped.issuperset(moving):
            return write("sum", self.whole(self.values.get(value, value)), axes=(0,))
        total = self._contracted(write, *moving, dims=tensor_type(value).dims)
        for factor in fixed:
            total = write("mul", factor, total)
        return total

    def _contracted(self, write: Writer, first: Value, second: Value | None = None, *, dims: tuple[Dim, ...]) -> Value:
        """The sum over iterations of one factor, or of a product of two."""
        if second is None:
            return write("sum", first, axes=(0,))
        (left, a), (right, b) = (self._letters(v, dims) for v in (first, second))
        if a == b == "z":
            return write("matmul", left, right)
        letters = [letter for letter in ascii_lowercase[: len(dims)] if letter in a + b]
        if set(a) == set(b):
            total = write("sum", write("mul", left, right), axes=(0,))
        else:
            total = write("einsum", left, right, equation=f"{a},{b}->{''.join(letters)}")
        kept = zip(ascii_lowercase, dims, strict=False)
        return write.reshape(total, [dim if letter in letters else ONE for letter, dim in kept])

    def _letters(self, value: Value, dims: tuple[Dim, ...]) -> tuple[Value, str]:
        """A factor without the dims that stretch, and a letter for each of the others."""
        own = tensor_type(value).dims[1:] if value in self.mapped else tensor_type(value).dims
        letters = ascii_lowercase[len(dims) - len(own) : len(dims)]
        kept = [(letter, dim) for letter, dim in zip(letters, own, strict=True) if dim != ONE]
        front = (self.size,) if value in self.mapped else ()
        squeezed = self.writer().reshape(value, (*front, *(dim for _, dim in kept)))
        return squeezed, "z" * bool(front) + "".join(letter for letter, _ in kept)
