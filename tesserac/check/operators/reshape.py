"""Reshapes and expansions: which are legal, and what is wrong with the others.

Enters: an operand and the shape asked for. Leaves: the shape with `-1` filled in, or None after a diagnostic. A
reshape splits and merges neighbouring dims; equal element counts alone would let `[S, heads]` be read as `[heads, S]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, permutations

from tesserac.base.dataclass import dataclass
from tesserac.check.guards.guarding import require_guard
from tesserac.check.model import typed
from tesserac.check.model.message_text import dim_text, dims_text, type_text
from tesserac.check.provenance.declared import show_declared
from tesserac.check.provenance.origins import trace
from tesserac.check.state.arguments import Arg, Callee
from tesserac.check.state.body import Body
from tesserac.diag.codes.names import E0210
from tesserac.diag.codes.shapes import E0304, E0305, E0308, E0315
from tesserac.diag.sink import Draft
from tesserac.types.dims import ONE, ZERO, Dim, product
from tesserac.types.polynomial import of_atom
from tesserac.types.ty import DTypeType, TensorType

_OPEN = Dim.const(-1)


def check_reshape(body: Body, operand: typed.Expr, shape: tuple[Dim, ...], callee: Callee) -> tuple[Dim, ...] | None:
    """The shape of a legal reshape."""
    assert isinstance(operand.type, TensorType)
    source = operand.type.dims
    filled = _fill(body, source, shape, callee)
    if filled is None:
        return None
    change = _Change.between(body, source, filled)
    if not body.facts.same(product(source), product(filled)):
        _explain_count(body, operand, change, callee)
        return None
    if not keeps_neighbours(body, source, filled):
        _explain_scramble(body, operand, change, callee)
        return None
    return filled


def refuse_dtype(body: Body, args: Sequence[Arg], callee: Callee) -> bool:
    """`x.view(i32)`, with which NumPy and PyTorch read the bits of a tensor as of another dtype."""
    if len(args) != 2 or args[1].name not in (None, "dtype") or not isinstance(args[1].value.type, DTypeType):
        return False
    operand, dtype = (arg.value for arg in args)
    draft = body.sink.error(E0210, at=dtype.span, expected="a shape", found=type_text(dtype.type))
    if operand.span.known and dtype.span.known:
        read = f"bitcast({body.rules.text(operand.span)}, {body.rules.text(dtype.span)})"
        draft.replace("the bits, read as of this dtype", callee.span, read)
    return True


def keeps_neighbours(body: Body, source: tuple[Dim, ...], shape: tuple[Dim, ...]) -> bool:
    """Whether a reshape only splits and merges neighbours.

    It does exactly if both shapes are merges of one finer shape: all boundaries of both, counted in elements from
    the right, then divide one another in a row.
    """
    ours, theirs = _boundaries(source), _boundaries(shape)
    if ZERO in ours:
        return True
    while ours and theirs:
        if body.facts.same(ours[0], theirs[0]):
            ours, theirs = ours[1:], theirs[1:]
        elif _comes_to(body, ours, theirs[0]):
            ours = ours[1:]
        elif _comes_to(body, theirs, ours[0]):
            theirs = theirs[1:]
        else:
            return False
    return True


def _comes_to(body: Body, boundaries: list[Dim], other: Dim) -> bool:
    """Whether the first boundary of a shape divides one of another: it divides all that follow it in its own."""
    if any(body.facts.same(boundary, other) for boundary in boundaries[1:]):
        return True
    return body.facts.divides(boundaries[0], other) is True


def _boundaries(dims: tuple[Dim, ...]) -> list[Dim]:
    """How many elements lie to the right of each dim's left edge."""
    return [product(dims[axis:]) for axis in range(len(dims) - 1, -1, -1)]


@dataclass(frozen=True)
class _Change:
    """A reshape without the dims that it leaves alone at either end."""

    whole: tuple[Dim, ...]
    kept: tuple[Dim, ...]
    source: tuple[Dim, ...]
    result: tuple[Dim, ...]
    shape: tuple[Dim, ...]

    @staticmethod
    def between(body: Body, source: tuple[Dim, ...], shape: tuple[Dim, ...]) -> _Change:
        left = 0
        while left < min(len(source), len(shape)) and body.facts.same(source[left], shape[left]):
            left += 1
        right = 0
        while right < min(len(source), len(shape)) - left and body.facts.same(source[~right], shape[~right]):
            right += 1
        kept = source[:left] + source[len(source) - right :]
        return _Change(source, kept, source[left : len(source) - right], shape[left : len(shape) - right], shape)


def _fill(body: Body, source: tuple[Dim, ...], shape: tuple[Dim, ...], callee: Callee) -> tuple[Dim, ...] | None:
    """`-1` stands for what is left."""
    if shape.count(_OPEN) == 0:
        return shape
    change = _Change.between(body, source, shape)  # what stays may be 0, and tells nothing of the rest
    known, total = product(dim for dim in change.result if dim != _OPEN), product(change.source)
    if shape.count(_OPEN) > 1 or body.facts.divides(known, total) is False:
        _explain_rest(body, source, shape, callee)
        return None
    if body.facts.divides(known, total) is None:
        require_guard(body, "divides", known, total, callee.at)
    return tuple(total.exact_div(known) if dim == _OPEN else dim for dim in shape)


def _explain_rest(body: Body, source: tuple[Dim, ...], shape: tuple[Dim, ...], callee: Callee) -> None:
    """`-1` has no whole number to stand for, or stands twice."""
    if shape.count(_OPEN) > 1:
        body.sink.error(E0315, at=callee.at, problem="a shape has one `-1` at most")
        return
    change = _Change.between(body, source, shape)
    given = tuple(dim for dim in change.result if dim != _OPEN)
    left, known = product(change.source), product(given)
    problem = f"{dims_text(change.source)} cannot become {dims_text(change.result)}: no whole number is left for -1"
    label = f"{dim_text(known)} does not divide {dim_text(left)}"
    draft = body.sink.error(E0315, at=callee.at, label=label, problem=problem)
    if change.kept:
        draft.because(f"{' and '.join(map(dim_text, change.kept))} stay as they are")
    _suggest_number(body, draft, source, shape, callee)


def _suggest_number(
    body: Body, draft: Draft, source: tuple[Dim, ...], shape: tuple[Dim, ...], callee: Callee
) -> None:
    """The last number of a shape as the nearest one with which a whole number is left for `-1`."""
    places = [place for place, dim in enumerate(shape) if dim != _OPEN and (dim.constant or 0) > 1]
    text = body.rules.text(callee.span)
    if not places or text.count(str(shape[places[-1]])) == 0:
        return
    number = shape[places[-1]].constant or 0
    others = product(dim for place, dim in enumerate(shape) if dim != _OPEN and place != places[-1])
    near = sorted(range(2, 2 * number + 1), key=lambda other: (abs(other - number), -other))
    for other in near:
        if body.facts.divides(others * other, product(source)):
            head, _, tail = text.rpartition(str(number))
            draft.replace(f"with {other} in place of {number} it divides", callee.span, f"{head}{other}{tail}")
            return


def _explain_count(body: Body, operand: typed.Expr, change: _Change, callee: Callee) -> None:
    left, right = product(change.source), product(change.result)
    written = " * ".join(map(dim_text, change.result)) or "1"
    label = f"{written} = {dim_text(right)}" if written != dim_text(right) else f"asked for {written}"
    draft = body.sink.error(
        E0304, at=callee.at, label=label, source=dim_text(left), result=written
    )
    draft.note(operand.span, _shape_label(body, operand, change.whole))
    if change.kept:
        verb = "cancels" if len(change.kept) == 1 else "cancel"
        same = " and ".join(map(dim_text, change.kept))
        draft.because(f"{same} {verb} on both sides; what is left is {dim_text(left)} = {dim_text(right)}")
    if len(change.source) == 1:
        _show_source(body, draft, operand, change.whole.index(change.source[0]), right)
    else:
        show_declared(body, draft, operand)
    _suggest_factors(draft, left, len(change.result))
    from tesserac.check.operators.mismatch import suggest_divisors

    suggest_divisors(body, draft, [(left, right)])
    _suggest_dim(body, draft, operand, change, callee)


def _suggest_dim(body: Body, draft: Draft, operand: typed.Expr, change: _Change, callee: Callee) -> None:
    """One dim of the shape as another of the operand's own, if that comes out even."""
    text, total = body.rules.text(operand.span), product(change.whole)
    if not text.isidentifier() or change.shape == change.whole:
        return
    for place in reversed(range(len(change.shape))):
        others = change.shape[:place] + change.shape[place + 1 :]
        for own in change.whole:
            shape = (*change.shape[:place], own, *change.shape[place + 1 :])
            fits = body.facts.same(product(others) * own, total) and keeps_neighbours(body, change.whole, shape)
            if fits and own.constant is None and own not in others:
                dims = ", ".join(map(str, shape))
                draft.replace(f"make it {dim_text(own)} there", callee.span, f"reshape({text}, ({dims}))")
                return


def _show_source(body: Body, draft: Draft, operand: typed.Expr, axis: int, wanted: Dim) -> None:
    """Where the size that does not come out even is written, or made."""
    trail = trace(body, operand, axis)
    if trail.declared is not None:
        draft.note(trail.declared, f"`{trail.parameter}` is declared with {body.rules.text(trail.declared)} here")
        if not trail.steps and wanted.constant is not None:
            title = f"if `{trail.parameter}` is to fit, make this size {wanted}"
            draft.replace(title, trail.declared, str(wanted))
    for step in trail.steps[-1:]:
        draft.because(f"{body.rules.text(step.span)} : {step.shapes}", step.span)


def _suggest_factors(draft: Draft, left: Dim, count: int) -> None:
    """For a number split in two: the factorisations nearest to a square."""
    total = left.constant
    if total is None or count != 2 or total < 4:
        return
    pairs = [(a, total // a) for a in range(2, int(total**0.5) + 1) if total % a == 0]
    if pairs:
        shown = ", ".join(f"({a}, {b})" for a, b in reversed(pairs[-3:]))
        draft.remark(f"shapes that fit {total}: {shown}")


def _explain_scramble(body: Body, operand: typed.Expr, change: _Change, callee: Callee) -> None:
    draft = body.sink.error(
        E0305,
        at=callee.at,
        label="this order mixes dims",
        source=dims_text(change.source),
        result=dims_text(change.result),
    )
    draft.note(operand.span, _shape_label(body, operand, change.whole))
    draft.remark("`reinterpret` reads the elements in this shape all the same")
    if sorted(map(str, change.whole)) == sorted(map(str, change.shape)):
        draft.because("the same dims in another order: reshape would leave the data in place and rename it")
        order = ", ".join(str(_place(change.whole, change.shape, axis)) for axis in range(len(change.shape)))
        draft.replace("move the axes", callee.span, f"permute({body.rules.text(operand.span)}, ({order}))")
        return
    draft.because("a reshape splits and merges neighbouring dims only, in order")
    draft.remark("element counts agree, so PyTorch and JAX accept this and train on noise")
    _suggest_permutation(body, draft, operand, change, callee)


def _suggest_permutation(body: Body, draft: Draft, operand: typed.Expr, change: _Change, callee: Callee) -> None:
    """An order of the same dims that is a legal reshape, after which `permute` moves the axes."""
    title, text = "split a dim where it stands, then move the new axis", body.rules.text(operand.span)
    count = len(change.shape)
    for places in islice(permutations(range(count)), 1, 720):
        shape = tuple(change.shape[place] for place in places)
        if text and keeps_neighbours(body, change.whole, shape):
            order = ", ".join(str(places.index(axis)) for axis in range(count))
            dims = ", ".join(map(str, shape))
            draft.replace(title, callee.span, f"permute(reshape({text}, ({dims})), ({order}))")
            return
    if not _suggest_order(body, draft, text, change, callee) and not _suggest_merge(body, draft, text, change, callee):
        draft.fix(f"{title} with `permute`")


def _suggest_merge(body: Body, draft: Draft, text: str, change: _Change, callee: Callee) -> bool:
    """Split, move, merge: the factors of the shape, in the order in which the operand has them, then as asked for."""
    factors = [factor for dim in change.shape for factor in _factors(dim)]
    for places in islice(permutations(range(len(factors))), 1, 720):
        shape = tuple(factors[place] for place in places)
        if text.isidentifier() and keeps_neighbours(body, change.whole, shape):
            order = ", ".join(str(places.index(axis)) for axis in range(len(factors)))
            split, dims = ", ".join(map(str, shape)), ", ".join(map(str, change.shape))
            moved = f"permute(reshape({text}, ({split})), ({order})).reshape({dims})"
            draft.replace("split, move the axis, then merge neighbours", callee.span, moved)
            return True
    return False


def _factors(dim: Dim) -> list[Dim]:
    """`B*8` as `B` and `8`: names first, as batches are written."""
    if len(dim.terms) != 1 or any(exponent != 1 for _, exponent in dim.terms[0][0]):
        return [dim]
    [(monomial, coefficient)] = dim.terms
    number = [Dim.const(coefficient.numerator)] if coefficient != 1 or not monomial else []
    return [of_atom(atom) for atom, _ in monomial] + number


def _suggest_order(body: Body, draft: Draft, text: str, change: _Change, callee: Callee) -> bool:
    """An order of the operand's own dims from which the shape is a legal reshape: `permute`, then merge."""
    simple = text.isidentifier()
    for places in islice(permutations(range(len(change.whole))), 1, 720):
        if simple and keeps_neighbours(body, tuple(change.whole[place] for place in places), change.shape):
            order, dims = ", ".join(map(str, places)), ", ".join(map(str, change.shape))
            draft.replace(
                "move the axes first, then merge neighbours", callee.span, f"permute({text}, ({order})).reshape({dims})"
            )
            return True
    return False


def _place(source: tuple[Dim, ...], shape: tuple[Dim, ...], axis: int) -> int:
    """The source axis of a result axis, taking equal dims in order."""
    earlier = shape[:axis].count(shape[axis])
    places = [own for own, dim in enumerate(source) if dim == shape[axis]]
    return places[earlier]


def _shape_label(body: Body, operand: typed.Expr, dims: tuple[Dim, ...]) -> str:
    text = body.rules.text(operand.span)
    return f"{text}: {dims_text(dims)}" if text.isidentifier() else dims_text(dims)


def check_expand(body: Body, operand: typed.Expr, shape: tuple[Dim, ...], callee: Callee) -> bool:
    """Whether a tensor broadcasts to a shape: from the right each dim is equal, or 1."""
    if not isinstance(operand.type, TensorType):
        return True
    dims, offset = operand.type.dims, len(shape) - operand.type.rank
    fits = offset >= 0 and all(
        dim == ONE or body.facts.same(dim, wanted) for dim, wanted in zip(dims, shape[offset:], strict=True)
    )
    if not fits:
        expected, found = f"a tensor that broadcasts to {dims_text(shape)}", dims_text(dims)
        draft = body.sink.error(E0308, at=operand.span, label=f"this is {found}", expected=expected, found=found)
        draft.because(f"from the right each dim must be 1 or that of {dims_text(shape)}", callee.at)
        if offset >= 0:
            from tesserac.check.operators.mismatch import suggest_divisors

            suggest_divisors(body, draft, ((d, w) for d, w in zip(dims, shape[offset:], strict=True) if d != ONE))
    return fits
