"""Which loops are a map: no iteration reads what another one writes, but for sums over all of them.

Enters: a loop without others in it, and what is known around it. Leaves: what each carried value is; None where an
iteration waits for another one, or where all iterations at once would take more memory than the program has anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tesserac.base.dataclass import dataclass
from tesserac.graph.autodiff.linear import loop_bounds
from tesserac.graph.dialect import is_operator, operator_of
from tesserac.graph.loops.narrow import CUT, INSERT, Chain, chain_to
from tesserac.graph.loops.places import Bounds, Place, moving_axis, place_of
from tesserac.ir.core import Op, Value, attr, attr_tuple
from tesserac.ir.forms import SIZED, tensor_type
from tesserac.ir.rewrite import is_pure
from tesserac.types.dims import ONE, ZERO, Dim
from tesserac.types.policy import NO_POLICY

SIZE = "graph.size"
FEW = 16
"""Iterations, if their number is known, that are as well done in turn, where that does not change the order of sums."""
SUMMED = ("f32", "f64", "c64", "c128", "i32", "i64", "u32", "u64")
"""Types in which a sum over iterations is that of the loop but for its order: narrower ones round each step."""
_PLAIN = {
    *("cut", "insert", "reshape", "permute", "expand", "flip", "squeeze", "unsqueeze", "where", "cast"),
    *("full", "zeros", "ones", "zeros_like", "arange", "complex", "real", "imag", "conj"),
    *("sum", "mean", "max", "min", "prod", "matmul", "einsum"),
}
"""Operators besides those of single elements that a map may have in it: cheap ones, or contractions."""
_FOLDS = {"add": "sum", "sub": "sum", "maximum": "max", "minimum": "min"}


@dataclass(frozen=True)
class Term:
    """What an iteration adds to a value that is folded over all of them."""

    step: Op
    value: Value
    fold: str
    negative: bool


@dataclass(frozen=True)
class Own:
    """A place that each iteration has for itself: which dim the iterations go along, and by how much."""

    place: Place
    axis: int
    by: int


@dataclass(frozen=True)
class Plan:
    """A loop as a map. Of each carried value: the terms of its fold, or the places that iterations write, in order."""

    loop: Op
    counter: str
    low: Dim
    trips: Dim
    folds: dict[int, list[Term]]
    owned: dict[int, list[Own]]
    chains: dict[int, Chain]
    around: frozenset[str]
    """The counters of the loops around."""
    views: set[Op]
    """Views of what is folded, between one fold and the next."""

    @property
    def is_short(self) -> bool:
        """Whether it is as well done in turn, unless the loop around it is mapped too: a few iterations only write, or
        all that comes out of it are single numbers, folded over more and more iterations, or fewer and fewer, for
        each of which a launch costs more."""
        if not self.folds and (self.trips.constant or FEW) < FEW:
            return True
        numbers = all(set(tensor_type(self.loop.results[number]).dims) <= {ONE} for number in self.folds)
        return numbers and not any(self.owned.values()) and not self.trips.symbols().isdisjoint(self.around)


def plan_of(loop: Op, around: Bounds) -> Plan | None:
    bounds = [value.defining_op for value in loop.operands[:2]]
    if any(made is None or "dim" not in made.attrs for made in bounds):
        return None
    low, high = loop_bounds(loop)
    if not _is_straight(loop):
        return None
    trips = high - low if around.never_negative(high - low) else ZERO.max(high - low)
    plan = Plan(loop, str(loop.attrs["counter"]), low, trips, {}, {}, {}, frozenset(around.loops), set())
    finder = _Finder(plan, around, around.inside(loop))
    return plan if finder.succeeds() else None


def _is_straight(loop: Op) -> bool:
    """Whether a body has only what can be computed for all iterations at once."""
    body = loop.body
    for op in loop.walk():
        if op is loop or op is body.terminator or op.name in ("form.yield", SIZE):
            continue
        if op.name == "form.cond" and SIZED not in op.attrs:
            continue
        if not is_operator(op) or not is_pure(op) or "numerics" in op.attrs:
            return False
        operator = operator_of(op)
        if operator.name not in _PLAIN and operator.batching != "aligned":
            return False
    return True


class _Finder:
    def __init__(self, plan: Plan, around: Bounds, inside: Bounds) -> None:
        self.plan, self.around, self.here = plan, around, inside
        self.loop, self.counter = plan.loop, plan.counter
        self.body = plan.loop.body
        self.varying = self._varying()

    def succeeds(self) -> bool:
        carried = zip(self.body.args[1:], self.body.terminator.operands, strict=True)
        kinds = all(self._carried(number, arg, end) for number, (arg, end) in enumerate(carried))
        return kinds and (bool(self.plan.folds) or any(self.plan.owned.values())) and self._reads() and self._fits()

    # ------------------------------------------------------------------------------------------ carried values

    def _carried(self, number: int, arg: Value, end: Value) -> bool:
        if arg is end or (not arg.uses and is_forgotten(self.loop.results[number])):
            return True
        terms = self._terms(number)
        if terms is not None:
            self.plan.folds[number] = terms
            return True
        chain = chain_to(end, arg)
        if chain is None or not chain.is_private(self.body.terminator):
            return False
        owned = [self._own(made) for made in chain.inserts]
        if any(own is None for own in owned):
            return False
        self.plan.chains[number] = chain
        self.plan.owned[number] = [own for own in owned if own is not None]
        return self._never_meet(number)

    def _terms(self, number: int) -> list[Term] | None:
        """What is folded into a value, first to last, if nothing else is done with it."""
        value = self.body.args[1 + number]
        ty = tensor_type(value)
        if ty.dtype.name not in SUMMED or ty.policy != NO_POLICY:
            return None
        found, views = list[Term](), set[Op]()
        while len(value.uses) == 1:
            [(op, position)] = value.uses
            name = op.name.removeprefix("graph.")
            if op is self.body.terminator:
                good = position == number and len({term.fold for term in found}) == 1
                self.plan.views.update(views if good else ())
                return found if good else None
            if op.parent is self.body and is_same_row(op):
                views.add(op)
            elif (
                op.parent is self.body
                and name in _FOLDS
                and (name, position) != ("sub", 1)
                and op.result.type == value.type
            ):
                found.append(Term(op, op.operands[1 - position], _FOLDS[name], name == "sub"))
            else:
                return None
            value = op.result
        return None

    def _own(self, made: Op) -> Own | None:
        place = place_of(made) if made.parent is self.body else None
        moving = moving_axis(place, self.counter) if place is not None else None
        return Own(place, *moving) if place is not None and moving is not None else None

    def _never_meet(self, number: int) -> bool:
        """Whether what iterations write is each other's only where one iteration writes it twice."""
        owned = self.plan.owned[number]
        places = list(dict.fromkeys(owned))
        return all(self._meets(one, other) != "another" for at, one in enumerate(places) for other in places[at + 1 :])

    def _meets(self, one: Own, other: Own) -> str:
        """Which iterations have an element of both places: none, only one and the same, or perhaps another."""
        if self._are_apart(one.place, other.place):
            return ""
        if one.axis == other.axis and one.by == other.by:
            return "same" if one.place.starts[one.axis] == other.place.starts[one.axis] else "another"
        here = Dim.sym(self.counter)
        first, second = (one, other) if one.axis != other.axis else (one, one)
        if first is second:
            return "another"
        a, b = first.axis, second.axis
        ones = all(place.sizes[axis] == ONE for place in (one.place, other.place) for axis in (a, b))
        # the first counts along a, the second stays there, and the other way round along b
        left = second.place.starts[a] - (first.place.starts[a] - here * first.by)
        right = first.place.starts[b] - (second.place.starts[b] - here * second.by)
        return "same" if ones and first.by == second.by and left == right else "another"

    def _are_apart(self, one: Place, other: Place) -> bool:
        """Whether two places have nothing in common, whichever iterations they are of."""
        moved = "another " + self.counter
        here = Bounds({**self.here.loops, moved: self.here.loops[self.counter]}, self.here.sizes)
        there = {self.counter: Dim.sym(moved)}
        starts = tuple(start.substitute(there) for start in other.starts)
        sizes = tuple(size.substitute(there) for size in other.sizes)
        return here.apart(one, Place(starts, sizes))

    # ------------------------------------------------------------------------------------------ reads

    def _varying(self) -> set[Value]:
        """What may differ from one iteration to the next."""
        pairs = zip(self.body.args[1:], self.body.terminator.operands, strict=True)
        found = {arg for arg, end in pairs if arg is not end}
        for op in self.loop.walk():
            if op is not self.loop and self._differs(op, found):
                found.update(op.results)
        return found

    def _differs(self, op: Op, found: set[Value]) -> bool:
        dims = (d for key in ("starts", "sizes", "dim") for d in _dims(op.attrs.get(key)))
        own = any(self.counter in dim.symbols() for dim in dims)
        return own or any(v in found for inner in op.walk() for v in inner.operands)

    def _reads(self) -> bool:
        return all(self._reads_well(op) for op in self.loop.walk() if op is not self.loop)

    def _reads_well(self, op: Op) -> bool:
        if any(self.counter in dim.symbols() for v in op.results for dim in tensor_type(v).dims):
            return False
        if op.name == SIZE:
            by = attr(op, "dim", Dim)
            return (by.substitute({self.counter: Dim.sym(self.counter) + 1}) - by).constant is not None
        if op.name == INSERT:
            number = self._carrier(op.operands[0])
            return number is not None or not _mentions(op, self.counter)
        if op.name == CUT:
            return self._cut_is_good(op)
        counted = any(self.counter in dim.symbols() for value in op.attrs.values() for dim in _dims(value))
        return not counted and not self._whole_is_read(op)

    def _whole_is_read(self, op: Op) -> bool:
        """Whether something that iterations write, or fold into, is read as a whole."""
        if op is self.body.terminator:
            return False
        steps = {term.step for terms in self.plan.folds.values() for term in terms}
        folded = {self.body.args[1 + number] for number in self.plan.folds}
        return any(
            (v in folded and op not in steps and op not in self.plan.views) or self._carrier(v) is not None
            for v in op.operands
        )

    def _carrier(self, value: Value) -> int | None:
        return next((n for n, chain in self.plan.chains.items() if value in chain.versions), None)

    def _cut_is_good(self, op: Op) -> bool:
        place, source = place_of(op), op.operands[0]
        number = self._carrier(source)
        whole = tensor_type(source).dims
        if place is None:
            return number is None and not _mentions(op, self.counter)
        if place.mentions(self.counter):
            moving = moving_axis(place, self.counter)
            if moving is None or (number is None and source in self.varying):
                return False
            if op.parent is not self.body and not self.here.holds(place, whole):
                return False
        elif source not in self.varying and not (op.parent is self.body and self.around.holds(place, whole)):
            return op.parent is self.body and place.sizes == whole
        return number is None or self._reads_own(number, source, place)

    def _reads_own(self, number: int, version: Value, place: Place) -> bool:
        """Whether a place is that of the iteration itself, or one that no iteration has written by then."""
        chain, owned = self.plan.chains[number], self.plan.owned[number]
        at = chain.versions.index(version)
        same = [own for own in owned if own.place == place]
        others = [own for own in owned[:at] if own.place != place]
        if same:
            return all(self._meets(same[0], own) == "" for own in others)
        return all(self._is_untouched(own, place) for own in owned)

    def _is_untouched(self, own: Own, place: Place) -> bool:
        """Whether no iteration up to this one writes something of what is read."""
        if self._are_apart(place, own.place):
            return True
        moving = moving_axis(place, self.counter)
        ahead = place.starts[own.axis] - own.place.starts[own.axis]
        return moving == (own.axis, own.by) and (ahead.constant or 0) * own.by > 0

    # ------------------------------------------------------------------------------------------ memory

    def _fits(self) -> bool:
        """Whether everything that all iterations compute is as large as something that there is anyway."""
        inside = {v for op in self.loop.walk() if op is not self.loop for v in op.results}
        outside = [v for op in self.loop.walk() for v in op.operands if v not in inside and v not in self.body.args]
        there = [self.here.bulk(tensor_type(v).dims) for v in outside if _is_tensor(v)]
        trips = self.here.bulk([self.plan.trips])
        return all(
            any(_within((*self.here.bulk(tensor_type(v).dims), *trips), whole) for whole in there)
            for op in self.loop.walk()
            if op is not self.loop and op.name not in (CUT, INSERT, SIZE) and not self._is_never_made(op)
            for v in op.results
            if v in self.varying and self.here.bulk(tensor_type(v).dims)
        )

    def _is_never_made(self, op: Op) -> bool:
        """Whether this folds, gives the products that a contraction adds up, or is another view of memory."""
        if any(op is term.step for terms in self.plan.folds.values() for term in terms):
            return True
        terms = [term for terms in self.plan.folds.values() for term in terms if contracts(term)]
        products = {v for term in terms for v in product_of(term.value, self.varying.__contains__).steps}
        return op.name in ("graph.reshape", "graph.permute", "graph.expand") or any(v in products for v in op.results)


def contracts(term: Term) -> bool:
    """Whether a term is a product, so that its sum is a contraction."""
    smooth = tensor_type(term.value).dtype.kind in "fc"
    return smooth and term.fold == "sum" and _is_product(term.value)


@dataclass(frozen=True)
class Product:
    """One or two factors that differ from one iteration to the next, and those that do not, which are factors of the
    sum. `steps` are the products that need not be computed then."""

    moving: list[Value]
    fixed: list[Value]
    steps: list[Value]


def product_of(value: Value, moves: Callable[[Value], bool]) -> Product:
    """What a term is a product of: `c * (a * b)` and `(c * a) * b` alike."""
    fixed, steps = list[Value](), list[Value]()
    core = _without_fixed(value, moves, fixed, steps)
    made = core.defining_op
    if made is None or not _is_product(core):
        return Product([core], fixed, steps)
    steps.append(core)
    return Product([_without_fixed(v, moves, fixed, steps) for v in made.operands], fixed, steps)


def _without_fixed(value: Value, moves: Callable[[Value], bool], fixed: list[Value], steps: list[Value]) -> Value:
    while (made := value.defining_op) is not None and _is_product(value):
        left, right = made.operands
        if moves(left) == moves(right):
            break
        steps.append(value)
        fixed.append(right if moves(left) else left)
        value = left if moves(left) else right
    return value


def _is_product(value: Value) -> bool:
    """Whether a value is only there to be read once, as a product."""
    made = value.defining_op
    return made is not None and made.name == "graph.mul" and len(value.uses) == 1


def is_forgotten(value: Value) -> bool:
    """Whether nobody reads what a loop leaves: it only goes round in the loops around, none of which reads it."""
    if not value.uses:
        return True
    [(end, position), *others] = value.uses
    outer = end.parent.parent_op if end.parent is not None else None
    if others or end.name != "form.yield" or outer is None or outer.name != "form.loop":
        return False
    arg = outer.body.args[1 + position]
    loop = value.defining_op
    only_here = all(
        op is loop and i - 2 == value.index and not loop.body.args[1 + value.index].uses for op, i in arg.uses
    )
    return loop is not None and only_here and is_forgotten(outer.results[position])


def is_same_row(op: Op) -> bool:
    """Whether this is a view that only adds or drops dims of one element."""
    if op.name not in ("graph.reshape", "graph.permute"):
        return False
    old, new = (tensor_type(v).dims for v in (op.operands[0], op.result))
    long = [axis for axis in attr_tuple(op, "order", int) if old[axis] != ONE] if op.name == "graph.permute" else []
    return long == sorted(long) and [d for d in old if d != ONE] == [d for d in new if d != ONE]


def _within(dims: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    left = list(whole)
    for dim in dims:
        if dim not in left:
            return False
        left.remove(dim)
    return True


def _mentions(op: Op, counter: str) -> bool:
    return any(counter in dim.symbols() for key in ("starts", "sizes") for dim in _dims(op.attrs.get(key)))


def _dims(value: object) -> Iterator[Dim]:
    if isinstance(value, Dim):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _dims(item)


def _is_tensor(value: Value) -> bool:
    return hasattr(value.type, "dims")
