"""Contractions as matrix products, reductions over one axis.

    contract(x[b, s, d], w[d, h, e]) -> [b, s, h, e]
becomes
    x' = reshape(x) [b*s, d];  w' = reshape(w) [d, h*e]
    y' = contract(x', w') {lhs = [0, 2], rhs = [2, 1], out = [0, 1]};  y = reshape(y') [b, s, h, e]

Indices of both operands and the result lead, one grid axis each; a batch index that one operand only repeats belongs to
the other. Those of the right operand that come first in the result lead too, as the images of a convolution: the left
operand serves each of them, the right one and the result stay as they lie. Indices of size 1 belong nowhere. The last
index of the result that is longer is one of the right operand's, which may be the first one: the columns of the product
are then neighbours in memory, and a matrix times one column is a product of one row. The contracted indices keep the
order of the operand that was the left one, and the folded axes that of the reduced one: the sequence that is summed,
hence every bit, is the same.
"""

from __future__ import annotations

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import Broadcast, Permute, Reshape, contract_dims, contracted, indices, tensor_type
from tesserac.ir.types import TensorType
from tesserac.schedule.model.access import Dims, is_view
from tesserac.schedule.model.legality import IllegalSchedule
from tesserac.types.dims import ONE, Dim, product

Labels = tuple[int, ...]

FEWEST_COLUMNS = 32
"""Of a product that is one of many with the same left operand: with fewer, all of them are one product."""


def single_fold(op: Op) -> list[Op]:
    """Makes a reduction fold one axis: the last, where neighbours in memory are folded, so that they stay neighbours.
    Returns the views it made, to be normalised."""
    axes, ty = indices(op, "axes"), tensor_type(op.operands[0])
    if len(axes) == 1:
        return []
    kept = tuple(i for i in range(ty.rank) if i not in axes)
    groups: list[Labels] = [(i,) for i in kept]
    place = len(kept) if ty.rank - 1 in axes else min(axes, default=len(kept))
    groups.insert(place, tuple(sorted(axes)))
    view, made = _arranged(Builder.before(op), op.operands[0], tuple(range(ty.rank)), groups)
    op.set_operand(0, view)
    op.attrs["axes"] = (place,)
    return made


def _exchange_blocks(op: Op) -> None:
    """What the program says of rows is said of columns then."""
    names = {"m": "n", "n": "m"}
    settings = op.attrs.get("schedule")
    if isinstance(settings, tuple):
        pairs = (pair for pair in settings if isinstance(pair, tuple))
        op.attrs["schedule"] = tuple((names.get(str(name), name), value) for name, value in pairs)


def matrix_product(op: Op) -> list[Op]:
    """Makes a contraction a product of matrices with leading indices. Returns the views it made, to be normalised."""
    sizes, out, summed = contract_dims(op), indices(op, "out"), contracted(op)
    (left, lhs), (right, rhs) = _operands(op, set(out), set(summed))
    lead = tuple(i for i in out if i in lhs and i in rhs)
    if _last_alone(out, lead, sizes) in lhs:
        left, lhs, right, rhs = right, rhs, left, lhs  # a product of numbers is that of the same two exchanged
        _exchange_blocks(op)
    real = tuple(i for i in out if sizes[i] != ONE)
    first = _first_of_right(real, lhs, rhs, sizes)
    lead = tuple(i for i in real if i in lead or i in first)
    rows = tuple(i for i in real if i in lhs and i not in lead)
    columns = tuple(i for i in real if i in rhs and i not in lead)
    builder = Builder.before(op)
    left_units, right_units = (_units(labels, out, sizes) for labels in (lhs, rhs))
    a, made_a = _arranged(builder, left, lhs, [*((i,) for i in lead if i in lhs), (*left_units, *rows), summed])
    b, made_b = _arranged(builder, right, rhs, [*((i,) for i in lead), summed, (*right_units, *columns)])
    op.set_operands((a, b))
    places = tuple(range(len(lead)))
    shared = tuple(place for place, i in enumerate(lead) if i in lhs)
    m, n, k = len(lead), len(lead) + 1, len(lead) + 2
    op.attrs.update({"lhs": (*shared, m, k), "rhs": (*places, k, n), "out": (*places, m, n)})
    dims = (*(sizes[i] for i in lead), _size(sizes, rows), _size(sizes, columns))
    return made_a + made_b + _give_result(op, dims, _with_units((*lead, *rows, *columns), out, real), out)


def _last_alone(out: Labels, lead: Labels, sizes: dict[int, Dim]) -> int | None:
    """The last index of the result that is one operand's alone: of a matrix with one column that of its rows, since
    they are the neighbours in memory."""
    alone = [i for i in out if i not in lead]
    longer = [i for i in alone if sizes[i] != ONE]
    return next(reversed(longer or alone), None)


def _units(labels: Labels, out: Labels, sizes: dict[int, Dim]) -> Labels:
    """Indices of size 1 that an operand has of the result."""
    return tuple(i for i in labels if i in out and sizes[i] == ONE)


def _with_units(labels: Labels, out: Labels, real: Labels) -> Labels:
    """The indices of the product with those of size 1 among them: as in the result, where that is the order."""
    return out if labels == real else (*(i for i in out if i not in real), *labels)


def _first_of_right(real: Labels, lhs: Labels, rhs: Labels, sizes: dict[int, Dim]) -> Labels:
    """Indices of the right operand alone that the result has before all of the left one's, if enough columns are
    left. Where the left one has none alone, those before an index of both."""
    shared = [place for place, i in enumerate(real) if i in lhs and i in rhs]
    own = [i for i in real if not (i in lhs and i in rhs)]
    before = len([i for i in own if shared and real.index(i) < shared[-1]])
    count = next((place for place, i in enumerate(own) if i in lhs), before)
    left = _size(sizes, tuple(i for i in own[count:] if i in rhs)).constant
    return tuple(own[:count]) if left is None or left >= FEWEST_COLUMNS else ()


def _operands(op: Op, out: set[int], summed: set[int]) -> list[tuple[Value, Labels]]:
    """Each operand with the index of each of its dims, seen below broadcasts that only repeat it."""
    found: list[tuple[Value, Labels]] = []
    for value, name in zip(op.operands, ("lhs", "rhs"), strict=True):
        labels = indices(op, name)
        if set(labels) - out - summed or len(set(labels)) != len(labels):
            raise IllegalSchedule("contract", f"{name} = {labels} sums or repeats an index of its own", op)
        found.append((value, labels))
    bare = [_below_broadcasts(value, labels, summed) for value, labels in found]
    ways = ((bare[0], bare[1]), (found[0], bare[1]), (bare[0], found[1]), (found[0], found[1]))
    return list(next((a, b) for a, b in ways if out <= {*a[1], *b[1]}))


def _below_broadcasts(value: Value, labels: Labels, summed: set[int]) -> tuple[Value, Labels]:
    while (op := value.defining_op) is not None and is_view(op):
        view = op.attrs["view"]
        if isinstance(view, Permute):
            order = view.order
            labels = tuple(labels[order.index(i)] for i in range(len(order)))
        elif isinstance(view, Broadcast) and None not in view.dims:
            reached = tuple(labels[place] for place in view.dims if place is not None)
            if summed & set(labels) - set(reached):
                break
            labels = reached
        else:
            break
        value = op.operands[0]
    return value, labels


def _size(sizes: dict[int, Dim], labels: Labels) -> Dim:
    return product([sizes[i] for i in labels])


def _arranged(
    builder: Builder, value: Value, labels: Labels, groups: list[Labels]
) -> tuple[Value, list[Op]]:
    """`value`, whose dims carry `labels`, permuted into the order of the groups and merged group by group."""
    ty = tensor_type(value)
    sizes = dict(zip(labels, ty.dims, strict=True))
    order = tuple(labels.index(label) for group in groups for label in group)
    made: list[Op] = []
    if order != tuple(range(len(order))):
        permuted = TensorType(tuple(ty.dims[i] for i in order), ty.dtype, ty.policy)
        made.append(builder.op("form.view", (value,), (permuted,), {"view": Permute(order)}, (), (value.name,)))
    dims = tuple(_size(sizes, group) for group in groups)
    source = made[-1].result if made else value
    if dims != tensor_type(source).dims:
        shaped = TensorType(dims, ty.dtype, ty.policy)
        made.append(builder.op("form.view", (source,), (shaped,), {"view": Reshape()}, (), (value.name,)))
    return (made[-1].result if made else value), made


def _give_result(op: Op, dims: Dims, labels: Labels, out: Labels) -> list[Op]:
    """Gives the matrix product its own dims, and its readers views with the dims they had."""
    assert op.parent is not None
    old = tensor_type(op.result)
    uses = list(op.result.uses)
    op.result.type = TensorType(dims, old.dtype, old.policy)
    order = tuple(labels.index(i) for i in out)
    natural = tuple(old.dims[order.index(i)] for i in range(len(order)))
    behind = Builder.before(op.parent.ops[op.parent.place(op) + 1])
    made: list[Op] = []
    value = op.result
    if natural != dims:
        shaped = TensorType(natural, old.dtype, old.policy)
        made.append(behind.op("form.view", (value,), (shaped,), {"view": Reshape()}, (), (value.name,)))
        value = made[-1].result
    if order != tuple(range(len(order))):
        made.append(behind.op("form.view", (value,), (old,), {"view": Permute(order)}, (), (value.name,)))
        value = made[-1].result
    for user, position in uses if made else ():
        user.set_operand(position, value)
    return made

