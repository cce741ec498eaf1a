"""Says why operands do not fit an operator.

Enters: a use of an operator and a `Mismatch` from the unifier. Leaves: one diagnostic, with the operands' types as
labels, the declarations the sizes came from, the steps between, and fixes. Dtypes are explained in `precision.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import permutations

from tesserac.check.model import typed
from tesserac.check.model.message_text import SYMBOLS, axis_text, dim_text, dims_text, noun, verb
from tesserac.check.model.operator_use import Use
from tesserac.check.operators.lining_up import (
    suggest_axis,
    suggest_cut,
    suggest_first,
    suggest_joined_dim,
    suggest_other_unit,
    suggest_other_units,
    suggest_pairs,
    type_dims,
)
from tesserac.check.operators.meant_axes import suggest_other_axes
from tesserac.check.operators.meant_windows import border_place
from tesserac.check.operators.precision import (
    explain_bits,
    explain_kind,
    explain_lost_part,
    explain_policies,
    explain_two_dtypes,
)
from tesserac.check.provenance.declared import show_declared
from tesserac.check.provenance.sides import Side, is_used_once, show_origin, show_steps
from tesserac.check.state.body import Body
from tesserac.check.values.rewriting import indentation, whole_lines
from tesserac.diag.codes.shapes import E0301, E0302, E0303, E0311
from tesserac.diag.diagnostic import Edit
from tesserac.diag.sink import Draft
from tesserac.ops.index import TakeAlongAxis
from tesserac.ops.shape import Permute
from tesserac.ops.unify import (
    BroadcastMismatch,
    DimMismatch,
    DTypeMismatch,
    KindMismatch,
    LostPart,
    Mismatch,
    OtherBits,
    OuterProduct,
    PolicyMismatch,
    RankMismatch,
)
from tesserac.types.dims import ONE, Dim
from tesserac.types.ty import TensorType

_MOST_AXES = 5
_FLAT = re.compile(r"(.+)\.(?:(?:flatten|ravel)\(\)|(?:view|reshape)\(-1\))")
"""A value of which all dims are made one."""
_MOST_DIVISOR = 64
"""Six halvings of an image: what a size must be a multiple of is not looked for beyond."""


def explain(body: Body, use: Use, mismatch: Mismatch) -> None:
    """One diagnostic for one mismatch."""
    match mismatch:
        case DimMismatch(left, right) | BroadcastMismatch(left, right):
            _explain_dims(body, use, mismatch, Side.of(body, use, left), Side.of(body, use, right))
        case OuterProduct(unit, extended):
            _explain_outer(body, use, Side.of(body, use, unit), Side.of(body, use, extended))
        case RankMismatch(operand):
            _explain_rank(body, use, operand)
        case DTypeMismatch(left_operand, right_operand):
            explain_two_dtypes(body, use, use.operands[left_operand], use.operands[right_operand])
        case PolicyMismatch(left_operand, right_operand):
            explain_policies(body, use, use.operands[left_operand], use.operands[right_operand])
        case LostPart(operand, dtype):
            explain_lost_part(body, use, use.operands[operand], dtype)
        case OtherBits(operand, dtype):
            explain_bits(body, use, use.operands[operand], dtype)
        case KindMismatch(operand, kinds):
            explain_kind(body, use, use.operands[operand], kinds)


def _explain_dims(body: Body, use: Use, mismatch: Mismatch, left: Side, right: Side) -> None:
    if not body.sizes.first_telling(left.dim, right.dim):
        return
    if isinstance(mismatch, DimMismatch):
        _explain_contraction(body, use, left, right)
    else:
        _explain_broadcast(body, use, left, right)


def _explain_contraction(body: Body, use: Use, left: Side, right: Side) -> None:
    draft = body.sink.error(
        E0301,
        at=use.at,
        label="these two dims must be the same",
        left=dim_text(left.dim),
        right=dim_text(right.dim),
    )
    draft.note(left.operand.span, left.label).note(right.operand.span, right.label)
    show_origin(body, draft, left)
    show_origin(body, draft, right)
    show_steps(body, draft, left, right)
    _suggest_batch(draft, left)
    _suggest_swap(body, draft, use, left, right)
    _suggest_axes(body, draft, use, right)
    _suggest_transpose(body, draft, use, left, right)
    suggest_renaming(body, draft, left, right)
    _suggest_fact(body, draft, left, right)


def _suggest_batch(draft: Draft, left: Side) -> None:
    """`x.flatten() @ w` of images: all but the batch is one dim."""
    flat = _FLAT.fullmatch(left.text)
    if flat is not None:
        draft.replace("keep its first dim", left.operand.span, f"{flat[1]}.flatten(1)")


def _suggest_swap(body: Body, draft: Draft, use: Use, left: Side, right: Side) -> None:
    """`w @ x` of `[D, H]` and `[B, D]` fits the other way round, and so does `x @ w` of `[D]` and `[H, D]`."""
    if use.op.name != "matmul" or not (left.text and right.text):
        return
    between_matrices = len(left.dims) > 1 and len(right.dims) > 1
    is_transposed = between_matrices and body.facts.same(left.dims[-1], right.dims[-1])
    if body.facts.same(right.dims[-1], left.dims[-2:][0]) and not is_transposed:
        edits = Edit(left.operand.span, right.text), Edit(right.operand.span, left.text)
        draft.fix(f"swap them: `{right.text} @ {left.text}` contracts {dim_text(right.dims[-1])}", *edits)


def _suggest_transpose(body: Body, draft: Draft, use: Use, left: Side, right: Side) -> None:
    """`x @ y` of `[B, D]` and `[S, D]` fits once one of them is transposed."""
    if use.op.name != "matmul" or len(left.dims) < 2 or len(right.dims) < 2:
        return
    if body.facts.same(left.dims[-1], right.dims[-1]):
        side = right
    elif body.facts.same(left.dims[-2], right.dims[-2]):
        side = left
    else:
        return
    if not side.text.endswith((".T", ".mT")):  # of one that is transposed the matrix itself is offered below
        _propose_transpose(draft, side, side.text, side.dims)


def _propose_transpose(draft: Draft, side: Side, matrix: str, dims: tuple[Dim, ...]) -> None:
    """The transpose of a matrix, or of matrices, of these dims in place of a side."""
    simple = matrix.replace("_", "").replace(".", "").isalnum()
    text = f"{matrix}.T" if simple else f"({matrix}).T"
    draft.replace(f"transpose it: `{text}` is {dims_text(_transposed(dims))}", side.operand.span, text)


def _suggest_axes(body: Body, draft: Draft, use: Use, side: Side) -> None:
    """Axes that `permute` moved to the wrong places: another order of them that fits, if there is one."""
    moved = side.operand
    if not isinstance(moved, typed.Apply) or not isinstance(moved.op, Permute) or len(side.dims) > _MOST_AXES:
        return
    base, text = moved.operands[0], body.rules.text(moved.operands[0].span)
    others = [operand.type for operand in use.operands]
    place = list(use.operands).index(moved)
    if not isinstance(base.type, TensorType) or not text or not all(isinstance(ty, TensorType) for ty in others):
        return
    for order in permutations(range(base.type.rank)):
        dims = tuple(base.type.dims[axis] for axis in order)
        types = [ty for ty in others if isinstance(ty, TensorType)]
        types[place] = TensorType(dims, base.type.dtype, base.type.policy)
        if not _fits(body, use, types):
            continue
        if order == tuple(range(base.type.rank)):
            draft.replace(f"leave its axes as they are: `{text}` is {dims_text(dims)}", side.operand.span, text)
        elif dims == _transposed(base.type.dims):
            _propose_transpose(draft, side, text, base.type.dims)
        else:
            permuted = f"permute({text}, ({', '.join(map(str, order))}))"
            draft.replace(f"move its axes to {dims_text(dims)}", side.operand.span, permuted)
        return


def _fits(body: Body, use: Use, types: list[TensorType]) -> bool:
    try:
        use.op.infer(types, body.facts.same)
    except Mismatch:
        return False
    return True


def _transposed(dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    return (*dims[:-2], dims[-1], dims[-2])


def suggest_renaming(body: Body, draft: Draft, left: Side, right: Side) -> None:
    """A number, or a dim that is declared once and only here meets another, is most likely the wrong one."""
    for wrong, other in ((right, left), (left, right)):
        declared = wrong.trail.declared
        doubtful = is_used_once(body, wrong.dim) or wrong.dim.constant is not None
        if declared is not None and not wrong.trail.steps and doubtful:
            old = body.rules.text(declared)
            new = f'"{other.dim}"' if old.startswith('"') else str(other.dim)
            place = axis_text(wrong.axis, len(wrong.dims))
            named = "make" if other.dim.constant is not None else "name"
            draft.replace(f"if `{wrong.trail.parameter}` is to fit, {named} its {place} dim {new}", declared, new)
            return


def _suggest_fact(body: Body, draft: Draft, left: Side, right: Side) -> None:
    both_symbols = left.dim.symbol is not None and right.dim.symbol is not None
    misplaced = left.dim in right.dims or right.dim in left.dims
    if not both_symbols or misplaced or body.declared.where_at is None:
        return
    insertion = body.declared.where_at.text.format(fact=f"{right.dim} == {left.dim}")
    title = f"if {dim_text(right.dim)} and {dim_text(left.dim)} are equal by design, say so once"
    draft.fix(title, Edit(body.declared.where_at.span, insertion))


def suggest_divisors(body: Body, draft: Draft, pairs: Iterable[tuple[Dim, Dim]]) -> None:
    """`H` meets `2*(H // 2)`: they are equal where 2 divides H. For all pairs that differ, or for none."""
    found = [_divisor(body, *pair) for pair in pairs if not body.facts.same(*pair)]
    facts = [fact for fact in dict.fromkeys(found) if fact]
    where = body.declared.where_at
    if where is None or not all(found):
        return
    if any("." in fact for fact in facts):  # a field has no name in the signature
        _assert_before(body, draft, facts)
        return
    stated = ", ".join(facts)
    draft.fix(f"if they are equal by design, say `where {stated}`", Edit(where.span, where.text.format(fact=stated)))


def _assert_before(body: Body, draft: Draft, facts: Sequence[str]) -> None:
    begin = whole_lines(body, draft.at)
    indent, stated = indentation(body, draft.at), " and ".join(facts)
    line = Edit(begin._replace(end=begin.start), f"{indent}assert {stated}\n")
    draft.fix(f"if they are equal by design, say `assert {stated}`", line)


def _divisor(body: Body, left: Dim, right: Dim) -> str | None:
    """The least number, or else the size, that a size must be a multiple of for both dims to be equal, as a fact."""
    shared = sorted(left.symbols() & right.symbols())
    sizes = sorted(left.symbols() ^ right.symbols())
    for name in shared:
        for divisor in (*map(Dim.const, range(2, _MOST_DIVISOR + 1)), *map(Dim.sym, sizes)):
            multiple = {name: Dim.sym(name) * divisor}
            if body.facts.same(left.substitute(multiple), right.substitute(multiple)):
                return f"{name} % {divisor} == 0"
    return None


def _explain_broadcast(body: Body, use: Use, first: Side, second: Side) -> None:
    short, long = (first, second) if len(first.dims) <= len(second.dims) else (second, first)
    draft = body.sink.error(
        E0302,
        at=use.at,
        label="dims are lined up from the right",
        left=dim_text(short.dim),
        verb=verb(use.op.name),
        right=dim_text(long.dim),
    )
    draft.note(long.operand.span, f"{long.name}{dims_text(long.dims)}")
    draft.note(short.operand.span, f"{short.name}{dims_text(short.dims)}")
    show_origin(body, draft, short)
    show_origin(body, draft, long)
    show_steps(body, draft, short, long)
    draft.remark(_alignment(short, long))
    suggest_divisors(body, draft, zip(short.dims, long.dims[-len(short.dims) :], strict=True))
    if len(short.dims) == len(long.dims):
        _suggest_padding(draft, short, long)
        suggest_cut(body, draft, short, long)
        if use.op.batching == "aligned":
            suggest_pairs(draft, first, second)
        suggest_other_units(draft, first, second)
        suggest_other_axes(body, draft, first.operand, second.operand)
        suggest_renaming(body, draft, short, long)
    else:
        suggest_axis(draft, short, long)
    suggest_other_unit(draft, short, long)
    suggest_other_unit(draft, long, short)
    suggest_first(draft, short, long)


def _suggest_padding(draft: Draft, first: Side, second: Side) -> None:
    """A result that is smaller than what it meets by what its windows take from the border."""
    for cut, whole in ((first, second), (second, first)):
        lost = {big - small for big, small in zip(whole.dims, cut.dims, strict=True) if big != small}
        width = lost.pop().constant if len(lost) == 1 else None
        end = border_place(cut.text, cut.operand.span)
        if width and width > 0 and width % 2 == 0 and end is not None:
            draft.replace("keep its border, as much as a window takes from it", end, f", padding={width // 2}")


def _alignment(short: Side, long: Side) -> str:
    """The two shapes under one another, right-aligned, with the pair that does not fit."""
    above, below = dims_text(long.dims), dims_text(short.dims)
    pad = " " * (len(above) - len(below))
    coincide = f"; PyTorch accepts this whenever {short.dim} == {long.dim} at run time"
    symbolic = (short.dim - long.dim).constant is None  # sizes that differ by a number never agree
    meeting = f"{pad}{below}   {dim_text(short.dim)} meets {dim_text(long.dim)}"
    return f"{above}\n{meeting}{coincide if symbolic and len(meeting + coincide) < 85 else ''}"


def _explain_outer(body: Body, use: Use, unit: Side, extended: Side) -> None:
    beside = [dim for dim in reversed(unit.dims[: unit.axis]) if dim != ONE]
    partner = beside[0] if beside else extended.dim
    itself = "itself" if partner == extended.dim else dim_text(extended.dim)
    draft = body.sink.error(
        E0303,
        at=use.at,
        label=f"every {dim_text(partner)} of one would meet every {dim_text(extended.dim)} of the other",
        noun=noun(use.op.name).strip("`"),
        unit=dim_text(partner),
        extended=itself,
    )
    draft.note(unit.operand.span, f"{unit.name}{dims_text(unit.dims)}")
    draft.note(extended.operand.span, f"{extended.name}{dims_text(extended.dims)}")
    stretched = unit.text if unit.text.isidentifier() else "one operand"
    added = f"`{extended.text}`" if extended.text.isidentifier() else "the other"
    draft.because(
        f"the 1 in {f'`{stretched}`' if stretched == unit.text else stretched} would stretch to "
        f"{dim_text(extended.dim)} while {added} gets a new leading dim"
    )
    draft.remark("PyTorch, JAX and NumPy broadcast this without a word")
    if partner == extended.dim:
        _suggest_no_outer(draft, unit, extended)
    if extended.text:  # of two sizes that differ every pair can be meant
        text = extended.text if extended.text.isidentifier() else f"({extended.text})"
        rest = ":" if len(extended.dims) == 1 else "..."
        new = "None, " * (len(unit.dims) - len(extended.dims))
        draft.replace("each with every other: say so", extended.operand.span, f"{text}[{new}{rest}]")


def _suggest_no_outer(draft: Draft, unit: Side, extended: Side) -> None:
    if unit.axis == len(unit.dims) - 1 and unit.text.isidentifier():
        index = "[" + ", ".join([":"] * unit.axis + ["0"]) + "]"
        draft.replace("drop the unit dim", unit.operand.span, unit.text + index)
    if extended.text.isidentifier() and len(extended.dims) == 1 and len(unit.dims) == 2:
        draft.replace("give both a unit dim", extended.operand.span, f"{extended.text}[:, None]")
    elif len(extended.dims) > 1:
        suggest_axis(draft, extended, unit)


def _explain_rank(body: Body, use: Use, position: int) -> None:
    operand = use.operands[position]
    assert isinstance(operand.type, TensorType)
    operation = SYMBOLS.get(use.op.name, use.op.name)
    others = [other for other in use.operands if other is not operand and isinstance(other.type, TensorType)]
    problem = f"`{operation}` does not work on a tensor with {_dims_count(operand.type.rank)}"
    if operation == "concat" and others:
        problem = "`concat` joins tensors with equally many dims"
    draft = body.sink.error(E0311, at=use.at, problem=problem)
    draft.note(operand.span, f"this is {dims_text(operand.type.dims)}")
    for other in others:
        draft.note(other.span, f"this is {type_dims(other.type)}")
    show_declared(body, draft, operand)
    if operation == "concat" and others:
        suggest_joined_dim(body, draft, operand, others[0], use.op)
    if isinstance(use.op, TakeAlongAxis) and position == 1 and len(others) == 1:
        _suggest_one_of_each_row(draft, body, use.op, others[0], operand)
    if operation == "diagonal" and operand.type.rank == 1:
        draft.remark("a vector is put on the diagonal of a matrix by `diag(x)`, on that of an operator by `op.diag(x)`")


def _suggest_one_of_each_row(
    draft: Draft, body: Body, op: TakeAlongAxis, x: typed.Expr, index: typed.Expr
) -> None:
    """Of places that lack the dim along which they are: one element of each row is meant."""
    assert isinstance(x.type, TensorType) and isinstance(index.type, TensorType)
    if index.type.rank == x.type.rank - 1:
        text = body.rules.text(index.span)
        text = text if text.isidentifier() else f"({text})"
        draft.replace("one element of each row", index.span, f"{text}[{':, ' * op.axis}None]")


def _dims_count(rank: int) -> str:
    return "no dims" if rank == 0 else "1 dim" if rank == 1 else f"{rank} dims"
