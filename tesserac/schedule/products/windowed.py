"""Products with windows of an image: which they are, and what writes the image.

Enters: the launch of a contraction. Leaves: `Windows`, where its right operand is written out by a launch of its own
that only copies, as all windows of an image [leads, channels, sizes] that begin at each pixel.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.ir.core import Block, Op, Value
from tesserac.ir.forms import Reshape, operand_maps, tensor_type
from tesserac.ir.types import row_major
from tesserac.schedule.dialect import launch_ins, launch_kind, launch_outs, launch_places, launch_space, memory
from tesserac.schedule.forms.views import is_copy
from tesserac.schedule.model.access import access_through, reshape_runs, view_source
from tesserac.schedule.model.space import computing
from tesserac.types.dims import ONE, ZERO, Dim, product
from tesserac.types.dtype import BF16, F16, F32

TERMS = {F32: 16, BF16: 64, F16: 64}
"""Terms of a row of a window that are worth a block, by themselves or several times over."""
MOST_DILATION = 32
LARGE = 1 << 12
"""A size beside which the width of a frame is small: by it the frame is found in an offset."""

Digit = tuple[Dim, Dim]


@dataclass(frozen=True)
class Windows:
    """A product with windows, and the launch that writes them out. `image` is what that reads: `leads`, channels, then
    `sizes`. Along each axis of these, windows have `windows` elements, `dilations` apart, and begin at `counts`
    places."""

    product: Op
    copy: Op
    number: int
    image: Value
    leads: tuple[Dim, ...]
    channels: Dim
    sizes: tuple[Dim, ...]
    counts: tuple[Dim, ...]
    windows: tuple[Dim, ...]
    dilations: tuple[int, ...]

    @property
    def run(self) -> Dim:
        """Terms of a row of a window that are neighbours in memory where channels are."""
        return self.channels * (self.windows[-1] if self.dilations[-1] == 1 else ONE)

    @property
    def rest(self) -> Dim:
        """0 where blocks of terms end with a row of a window."""
        terms = TERMS[memory(self.image).dtype]
        return self.run.ceil_div(terms) * terms - self.run

    @property
    def whole_terms(self) -> int:
        """Where nothing is left at the end of a row of a window: a number of terms that divides it for certain."""
        return self.run.constant or TERMS[memory(self.image).dtype]


def windows_of(launch: Op) -> Windows | None:
    contract, *others = computing(launch)
    base, views = view_source(contract.operands[1])
    if base.owner is not launch.body or tensor_type(base).dtype not in TERMS or len(launch_outs(launch)) != 1:
        return None
    if not all(isinstance(view.attrs["view"], Reshape) for view in views) or not _may_have_more_columns(launch, others):
        return None
    copy = _written_by(launch, base.index)
    if copy is None or not memory(launch_outs(launch)[0]).contiguous:
        return None
    digits = _digits(copy, tensor_type(contract.operands[1]).dims)
    return None if digits is None else _matched(launch, copy, base.index, *digits)


def _may_have_more_columns(launch: Op, others: Sequence[Op]) -> bool:
    """Whether what follows the product reads nothing else along its columns."""
    column = len(launch_space(launch)) - 2
    for op in others:
        if op.name != "form.map":
            return False
        place = launch_places(launch)[launch.body.place(op)]
        for value, dims in zip(op.operands, operand_maps(op), strict=True):
            read = view_source(value)[0].owner is launch.body
            if column not in place or (read and place.index(column) in dims):
                return False
        if any(inner.name == "scalar.index" for inner in op.body.ops):
            return False
    return True


def _written_by(launch: Op, number: int) -> Op | None:
    """The launch that copies what an operand is, for this launch alone."""
    mem = launch.operands[number]
    made, users = mem.defining_op, [user for user, _ in mem.uses]
    if made is None or made.name != "schedule.buffer" or made.attrs["role"] != "workspace" or len(users) != 2:
        return None
    copy = next((user for user in users if user is not launch), None)
    if copy is None or copy.name != "schedule.launch" or launch_kind(copy) != "map" or copy.parent is not launch.parent:
        return None
    forms = computing(copy)
    alone = len(forms) == 1 and is_copy(forms[0]) and launch_outs(copy) == (mem,)
    return copy if alone and copy.body.terminator.operands[0] is forms[0].result else None


def _digits(copy: Op, dims: tuple[Dim, ...]) -> tuple[list[Digit], list[Digit], list[Digit]] | None:
    """Sizes and strides in the image of what leads, of terms and of columns."""
    (form,) = computing(copy)
    base, views = view_source(form.operands[0])
    access, space = access_through(views, base), tensor_type(form.result).dims
    runs = reshape_runs(space, dims)
    if access is None or access.offset != ZERO or runs is None or any(len(given) != 1 for _, given in runs):
        return None
    strides = {i: s for i, s in zip(operand_maps(form)[0], access.strides, strict=True) if i is not None}
    if any(i not in strides for taken, _ in runs for i in taken):
        return None
    groups = {given[0]: [(space[i], strides[i]) for i in taken] for taken, given in runs}
    last = len(dims) - 1
    leads = [groups.get(place, []) for place in range(last - 1)]
    if last not in groups or last - 1 not in groups or any(len(lead) != 1 for lead in leads):
        return None
    return [lead[0] for lead in leads], groups[last - 1], groups[last]


def _matched(
    launch: Op, copy: Op, number: int, leads: list[Digit], terms: list[Digit], columns: list[Digit]
) -> Windows | None:
    """The product as one with windows, where the image is [leads, channels, sizes] and windows begin at each pixel."""
    image = launch_ins(copy)[0]
    dims = tuple(dim for dim in memory(image).dims if dim != ONE)
    count = len(columns)
    sizes, channels = dims[len(dims) - count :], terms[-1][0]
    lead_sizes = tuple(size for size, _ in leads)
    if len(launch_ins(copy)) != 1 or not memory(image).contiguous or dims != (*lead_sizes, channels, *sizes):
        return None
    strides = row_major(dims)
    inside = strides[len(dims) - count :]
    expected = [*strides[: len(leads)], strides[len(leads)], *inside]
    if [stride for _, stride in (*leads, terms[-1], *columns)] != expected:
        return None
    found = _dilated(terms[:-1], inside)
    if found is None or len(terms) == 1:
        return None
    counts = tuple(size for size, _ in columns)
    return Windows(launch, copy, number, image, lead_sizes, channels, sizes, counts, *found)


def _dilated(terms: list[Digit], strides: Sequence[Dim]) -> tuple[tuple[Dim, ...], tuple[int, ...]] | None:
    """How many elements windows have along each axis, and how far apart; one where there are no terms of it."""
    windows, dilations, left = list[Dim](), list[int](), list(terms)
    for stride in strides:
        apart = (d for d in range(1, MOST_DILATION + 1) if left and left[0][1] == stride * d)
        dilation = next(apart, None)
        windows.append(ONE if dilation is None else left.pop(0)[0])
        dilations.append(dilation or 1)
    return (tuple(windows), tuple(dilations)) if not left else None


# --- what writes an image ---------------------------------------------------------------------------------------------


def writers_of(found: Windows) -> list[Op]:
    """The launches that write the image, and nothing else, and its parts, in order, if they may as well stand right
    before the product; else none."""
    made, block = found.image.defining_op, found.product.parent
    if made is None or made.name != "schedule.buffer" or made.attrs["role"] != "workspace" or block is None:
        return []
    boxes = [user for user, _ in found.image.uses if user.name == "schedule.box"]
    parts = [found.image, *(box.result for box in boxes)]
    launches = [user for part in parts for user, _ in part.uses if user not in boxes and user is not found.copy]
    if not all(op.parent is block for op in (*boxes, *launches)):
        return []
    if not all(_only_writes(op, parts) for op in launches) or not all(_is_movable(box, found) for box in boxes):
        return []
    ops = sorted({*boxes, *launches}, key=block.place)
    return ops if ops and not _disturbed(ops, found, block) else []


def _only_writes(op: Op, parts: Sequence[Value]) -> bool:
    """Whether a launch writes one of the parts by a map and reads none. What fills all of it must be the same for
    every element."""
    if op.name != "schedule.launch" or launch_kind(op) != "map" or len(launch_outs(op)) != 1:
        return False
    if any(value in parts for value in launch_ins(op)) or launch_outs(op)[0] not in parts:
        return False
    whole, forms = launch_outs(op)[0] is parts[0], computing(op)
    return not whole or (not launch_ins(op) and len(forms) == 1 and not forms[0].operands)


def _is_movable(box: Op, found: Windows) -> bool:
    """Whether a part is a box of pixels."""
    dims = (*found.leads, found.channels, *found.sizes)
    strides = row_major(dims)
    known = len(set(strides)) == len(strides) and all(stride in strides for stride in memory(box.result).strides)
    return known and _moved_offset_or_none(box, found, dict(zip(strides, strides, strict=True))) is not None


def moved_offset(box: Op, found: Windows, moved: dict[Dim, Dim]) -> Dim:
    offset = _moved_offset_or_none(box, found, moved)
    assert offset is not None
    return offset


def _moved_offset_or_none(box: Op, found: Windows, moved: dict[Dim, Dim]) -> Dim | None:
    """Where a part begins, once strides are others: its offset as that of a pixel in the frame of the image."""
    dims = (*found.leads, found.channels, *found.sizes)
    inside = row_major(dims)[len(dims) - len(found.sizes) :]
    offset = box.attrs["offset"]
    assert isinstance(offset, Dim)
    numbers = {name: LARGE + place for place, name in enumerate(sorted(product((*dims, offset)).symbols()))}
    left, starts = offset.evaluate(numbers), list[int]()
    for stride in inside:
        starts.append(left // stride.evaluate(numbers))
        left -= starts[-1] * stride.evaluate(numbers)
    if sum((stride * start for stride, start in zip(inside, starts, strict=True)), ZERO) != offset:
        return None
    return sum((moved[stride] * start for stride, start in zip(inside, starts, strict=True)), ZERO)


def _disturbed(ops: Sequence[Op], found: Windows, block: Block) -> bool:
    """Whether something between writes what the launches read."""
    read = {_whole(value) for op in ops if op.name == "schedule.launch" for value in launch_ins(op)}
    between = block.ops[block.place(ops[0]) : block.place(found.product)]
    others = [op for op in between if op not in ops and op is not found.copy]
    if any(op.name not in ("schedule.launch", "schedule.box") for op in others):
        return True
    return any(_whole(value) in read for op in others if op.name == "schedule.launch" for value in launch_outs(op))


def _whole(value: Value) -> Value:
    while (made := value.defining_op) is not None and made.name in ("schedule.box", "schedule.parts"):
        value = made.operands[0]
    return value
