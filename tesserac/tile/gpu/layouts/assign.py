"""Pass `layouts`: neutral tiles become fragments; every block gets a place in the registers of the threads.

    %a = tile.load(%x, %i) : tile<[512], f32>
    %s = tile.reduce(%a, %i) {axes = [0], kind = "max"} : tile<[], f32>
  becomes
    %a = gpu.load(%x, %i) : fragment<[512], f32, r[0:1 0:2 0:64 0:128 0:256] l[0:4 0:8 0:16 0:32 -] w[- -]>
    %s = gpu.reduce(%a, %i) {axes = [0], kind = "max"} : fragment<[], f32, r[] l[- - - - -] w[- -]>

Products and reductions say which layout they want; it spreads from there along maps, casts and carried values. What is
left has no wish, and is laid out for wide access to memory. An operand of a map that is wanted in a second layout is
converted. Loaded operands of products stay tiles: they live in stages, as `operands.py` has it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Attr, Block, Op, Region, Value, clone_op
from tesserac.ir.forms import ORDERED_KINDS, indices, operand_maps
from tesserac.ir.types import TileType, Type
from tesserac.schedule.costs.tiles import MOST_ROWS
from tesserac.schedule.rows.row_lengths import ROW_BLOCKS, ROW_PARTS
from tesserac.tile.dialect import (
    APART,
    BUFFERS,
    ENDS,
    EXCHANGED,
    RESIDENT,
    TENSORS,
    Stage,
    kernel_memrefs,
    kernel_tensors,
    memref_type,
    tile_type,
)
from tesserac.tile.gpu.layouts.across import cut_operand, cut_turned, only_maps
from tesserac.tile.gpu.layouts.asynchronous import sums_rows
from tesserac.tile.gpu.layouts.clusters import CLUSTER
from tesserac.tile.gpu.layouts.directions import dot_unit, lies_across, takes_every_second
from tesserac.tile.gpu.layouts.pairs import PAIRS
from tesserac.tile.gpu.layouts.row_copies import held_rows_layout, is_staged_gather, staged_places
from tesserac.tile.gpu.layouts.variants import SCALAR_LEVELS, Variant, fragments_are_scalar, reduces_by_teams
from tesserac.tile.gpu.model.errors import LoweringError
from tesserac.tile.gpu.model.layout import (
    LANE_BITS,
    REDUCE_LANES,
    VECTOR_BYTES,
    Layout,
    blocked,
    reduction,
    row_reduction,
    shared_reduction,
)
from tesserac.tile.gpu.model.matrix import (
    FMA,
    accumulator_layout,
    operand_layout,
)
from tesserac.tile.gpu.model.shared import SharedLayout
from tesserac.tile.gpu.model.types import FragmentType
from tesserac.types.dims import ONE

DimMap = tuple[int | None, ...]


@dataclass(frozen=True)
class Relation:
    """`part` has the layout of `whole`, seen through `dims`. `use` is the operand of a map that asks for it: there, and
    only there, a block may be converted."""

    whole: Value
    part: Value
    dims: DimMap
    use: tuple[Op, int] | None = None

    def lifted(self, layout: Layout) -> Layout | None:
        """The layout of the whole that a part with this layout has: where the part has all of its dims."""
        shape = tile_type(self.whole).shape
        if any(size > 1 and dim not in self.dims for dim, size in enumerate(shape)):
            return None
        return layout.project([self.dims.index(d) if d in self.dims else None for d in range(len(shape))])


class _Conflict(Exception):
    """An operand of a map is wanted in a layout that the block does not have."""

    def __init__(self, use: tuple[Op, int]) -> None:
        super().__init__()
        self.use = use


SHORT_ROW = 16
"""Elements of a row of a block up to which it may end inside a vector."""


def assign_layouts(kernel: Op, variant: Variant) -> Op:
    """The kernel in the GPU dialect."""
    split_constants(kernel)
    split_operands(kernel)
    converted = cut_across(kernel) or cut_turned(kernel) or cut_carried(kernel)
    while True:
        try:
            layouts = infer_layouts(kernel, variant, converted)
            return _Conversion(variant, layouts, converted).kernel(kernel)
        except _Conflict as conflict:
            converted.add(cut_operand(*conflict.use))


def cut_across(kernel: Op) -> set[Op]:
    """Casts between blocks that lie across in memory and the others, in kernels that only map: both sides then reach
    memory by neighbours."""
    ops = list(kernel.walk())
    moves = [op for op in ops if op.name in ("tile.load", "tile.store")]
    across = [op for op in moves if lies_across(op)]
    if len(across) == len(moves) or not only_maps(kernel):
        return set()
    casts: set[Op] = set()
    for op in across:
        if op.name == "tile.store":
            casts.add(cut_operand(op, 0))
            continue
        for user, position in list(op.result.uses):
            casts.add(cut_operand(user, position))
    return casts


def cut_carried(kernel: Op) -> set[Op]:
    """Casts around folds of what a loop carried, in kernels that multiply: it has the layout of the products that it
    was made of, and so has what it is added to; a fold wants another."""
    ops = list(kernel.walk())
    if not any(op.name == "tile.dot" for op in ops):
        return set()
    folds = [op for op in ops if op.name == "tile.reduce" and op.attrs["kind"] in ORDERED_KINDS]
    carried = [op for op in folds if (made := op.operands[0].defining_op) is not None and made.name == "tile.for"]
    uses = [use for op in carried for use in list(op.result.uses)]
    return {cut_operand(*use) for use in [*uses, *((op, 0) for op in carried)]}


def split_constants(kernel: Op) -> None:
    """One `tile.full` per use, so that each use may have a layout of its own."""
    for op in list(kernel.walk()):
        if op.name == "tile.full":
            for user, position in list(op.result.uses)[1:]:
                copy = clone_op(op, {})
                assert op.parent is not None
                op.parent.insert(op.parent.place(op), copy)
                user.set_operand(position, copy.result)


def split_operands(kernel: Op) -> None:
    """A load of its own for each product that reads it, so that each has a stage as it wants it."""
    for op in list(kernel.walk()):
        for position in (0, 1) if op.name == "tile.dot" else ():
            load = op.operands[position].defining_op
            if load is not None and load.name == "tile.load" and len(load.result.uses) > 1:
                op.set_operand(position, Builder.before(load).add(clone_op(load, {})).result)


def infer_layouts(kernel: Op, variant: Variant, converted: set[Op]) -> dict[Value, Layout]:
    """A layout for every tile that is not staged. The casts in `converted` have two."""
    tiles = [v for v in _values(kernel) if isinstance(v.type, TileType) and not _staged(v)]
    related = [op for op in kernel.walk() if op not in converted and not is_staged_gather(op)]
    relations = [r for op in related for r in _relations(op)]
    teams = reduces_by_teams(kernel)
    layouts: dict[Value, Layout] = {}
    for value, layout in _wishes(kernel, variant, teams):
        if layouts.setdefault(value, layout) != layout:
            raise LoweringError(f"a block is wanted in two layouts: {layouts[value]} and {layout}")
    _spread(relations, layouts, teams)
    for value in sorted(tiles, key=lambda v: (v.defining_op in converted, -_size(tile_type(v)))):
        if value not in layouts:
            free = held_rows_layout(value, variant.warps)
            layouts[value] = free or _free_layout(kernel, tile_type(value), variant, teams)
            if _reaches_across(value, converted):
                turned = TileType(tile_type(value).shape[::-1], tile_type(value).dtype, tile_type(value).policy)
                layouts[value] = _free_layout(kernel, turned, variant, teams).project((1, 0))
            _spread(relations, layouts, teams)
    return layouts


def _reaches_across(value: Value, converted: set[Op]) -> bool:
    """Whether a block is read from memory across, or written so."""
    made, users = value.defining_op, [user for user, _ in value.uses]
    if made in converted:
        return any(user.name == "tile.store" and lies_across(user) for user in users)
    loaded = made is not None and made.name == "tile.load" and lies_across(made)
    return loaded and any(user in converted for user in users)


def _values(kernel: Op) -> Iterator[Value]:
    for op in kernel.walk():
        yield from op.results
        for region in op.regions:
            yield from region.block.args


def _staged(value: Value) -> bool:
    made = value.defining_op
    loaded = made is not None and (made.name == "tile.load" or is_staged_gather(made))
    return loaded and any(op.name == "tile.dot" and position < 2 for op, position in value.uses)


def _size(ty: TileType) -> int:
    size = 1
    for n in ty.shape:
        size *= n
    return size


def _free_layout(kernel: Op, ty: TileType, variant: Variant, teams: bool) -> Layout:
    """A team of a row kernel has a block for itself; otherwise all threads share it, and along columns that are
    folded every block is laid out as what is folded."""
    narrowest = narrowest_bytes(kernel)
    if teams:
        widest = VECTOR_BYTES * variant.team // REDUCE_LANES  # no more side by side than where they are folded
        return blocked(ty.shape, max(widest, narrowest), variant.team.bit_length() - 1, 0, variant.warps)
    if len(ty.shape) > 1 and any(op.name == "tile.reduce" for op in kernel.walk()):
        if folds_neighbours(kernel):
            return row_reduction(ty.shape, narrowest, variant.warps)
        return shared_reduction(ty.shape, 0, variant.warps)
    piece = max(narrowest, VECTOR_BYTES // 2) if _has_short_rows(kernel, ty) else narrowest
    return blocked(ty.shape, piece, LANE_BITS, variant.warps.bit_length() - 1, variant.warps)


def _has_short_rows(kernel: Op, ty: TileType) -> bool:
    """Whether blocks have rows so short that few are whole vectors: lanes hold pairs of neighbours then, so that those
    of a warp are neighbours in memory where it is written number by number."""
    if len(ty.shape) < 2 or ty.shape[-1] > SHORT_ROW:
        return False
    written = (memref_type(op.operands[1]).dims for op in kernel.walk() if op.name == "tile.store")
    rows = [dims[-1].constant for dims in written if dims]
    return any(row is None or row % ty.shape[-1] for row in rows)


def narrowest_bytes(kernel: Op) -> int:
    moves = [op for op in kernel.walk() if op.name in ("tile.load", "tile.store")]
    return min((tile_type(op.result if op.results else op.operands[0]).dtype.bytes for op in moves), default=4)


def folds_neighbours(kernel: Op) -> bool:
    """Whether blocks of rows that lie in memory row by row are folded along these, and nothing is multiplied."""
    ops = list(kernel.walk())
    folded = {op.operands[1] for op in ops if op.name == "tile.reduce"}
    loads = [op for op in ops if op.name == "tile.load" and len(tile_type(op.result).shape) > 1]
    loads = [op for op in loads if tile_type(op.result).shape[-1] > 1]  # what a row has one of lies along none
    along = [op.operands[-1] in folded and memref_type(op.operands[0]).strides[-1] == ONE for op in loads]
    return bool(along) and all(along) and not any(op.name == "tile.dot" for op in ops)


def _wishes(kernel: Op, variant: Variant, teams: bool) -> Iterator[tuple[Value, Layout]]:
    for op in kernel.walk():
        if op.name == "tile.dot" and not sums_rows(op):
            shape, right = tile_type(op.result).shape, op.operands[1].defining_op
            across = right is not None and right.name in ("tile.load", "tile.gather") and lies_across(right)
            unit = dot_unit(op, variant)
            yield op.result, accumulator_layout(unit, (shape[0], shape[1]), across, variant.share)
        elif is_staged_gather(op):
            yield staged_places(op, variant.copying)
        elif takes_every_second(op) and only_maps(kernel):
            value = op.result if op.results else op.operands[0]
            warp_bits = variant.warps.bit_length() - 1
            yield value, blocked(tile_type(value).shape, VECTOR_BYTES, LANE_BITS, warp_bits, variant.warps)
        elif op.name == "tile.reduce" and (op.attrs["kind"] in ORDERED_KINDS or not variant.share):
            axes = indices(op, "axes")
            if len(axes) != 1:
                raise LoweringError("a reduction over several dims of a block")
            shape = tile_type(op.operands[0]).shape
            if teams:
                yield op.operands[0], reduction(shape, axes[0], variant.warps, variant.team)
            elif axes[0] == len(shape) - 1 and folds_neighbours(kernel):
                yield op.operands[0], row_reduction(shape, narrowest_bytes(kernel), variant.warps)
            else:
                yield op.operands[0], shared_reduction(shape, axes[0], variant.warps)


def _relations(op: Op) -> Iterator[Relation]:
    match op.name:
        case "tile.map" | "tile.gather":
            first = 1 if op.name == "tile.gather" else 0  # the memory
            for position, (value, dims) in enumerate(zip(op.operands[first:], operand_maps(op), strict=False), first):
                if isinstance(value.type, TileType):
                    yield Relation(op.result, value, dims, (op, position))
        case "tile.cast":
            yield _equal(op.result, op.operands[0])
        case "tile.dot":
            yield _equal(op.result, op.operands[2])
        case "tile.reduce":
            axes, rank = indices(op, "axes"), len(tile_type(op.operands[0]).shape)
            yield Relation(op.operands[0], op.result, tuple(i for i in range(rank) if i not in axes))
        case "tile.for":
            yield from _carried(op.operands[2:], op.results, op.body.args[1:], op.body.terminator.operands)
        case "tile.tree":
            block, combine = (r.block for r in op.regions)
            half = len(op.results)
            yield from _carried(op.operands[1:], op.results, combine.args[:half], combine.args[half:])
            yield from _carried(op.results, block.terminator.operands, combine.terminator.operands)
        case "tile.running":
            block, combine = (r.block for r in op.regions)
            yielded = (block.terminator.operands, combine.terminator.operands)
            half = len(op.operands) - 1
            yield from _carried(op.operands[1:], block.args[1:], combine.args[:half], combine.args[half:], *yielded)


def _carried(*groups: list[Value] | tuple[Value, ...]) -> Iterator[Relation]:
    first, *others = groups
    for group in others:
        for left, right in zip(first, group, strict=True):
            if isinstance(left.type, TileType):
                yield _equal(left, right)


def _equal(whole: Value, part: Value) -> Relation:
    return Relation(whole, part, tuple(range(len(tile_type(whole).shape))))


def _spread(relations: list[Relation], layouts: dict[Value, Layout], teams: bool) -> None:
    """Follows the relations until nothing new is known. Teams hold different blocks, so theirs are never converted.
    What no conversion may stand between comes first: what a loop carries has the layout of its product, not one that a
    map behind it would like."""
    firm, loose = ([r for r in relations if (r.use is None) == is_firm] for is_firm in (True, False))
    changed = True
    while changed:
        while any([_follow(relation, layouts, teams) for relation in firm]):
            pass
        changed = any([_follow(relation, layouts, teams) for relation in loose])


def _follow(relation: Relation, layouts: dict[Value, Layout], teams: bool) -> bool:
    """Whether one of the two has a layout by it that had none."""
    if relation.whole in layouts:
        wanted = layouts[relation.whole].project(relation.dims)
        if relation.part not in layouts:
            layouts[relation.part] = wanted
            return True
        if (have := layouts[relation.part]) != wanted:
            if relation.use is not None and not teams:
                raise _Conflict(relation.use)
            raise LoweringError(f"a block is wanted in two layouts: {have} and {wanted}")
    elif relation.part in layouts and (lifted := relation.lifted(layouts[relation.part])) is not None:
        layouts[relation.whole] = lifted
        return True
    return False


_RENAMED = {"tile.alloc": "gpu.scratch"}
_KERNEL_ATTRS = (PAIRS, RESIDENT, BUFFERS, ROW_BLOCKS, ROW_PARTS, MOST_ROWS, CLUSTER)
_SORTED = ("dims", "descending", "elements")
_KEPT_ATTRS = ("value", "maps", "kind", "axes", "order", "step", "bounds", "dim", *_SORTED, APART, EXCHANGED)


class _Conversion:
    """Clones a kernel operation by operation into the GPU dialect."""

    def __init__(self, variant: Variant, layouts: dict[Value, Layout], converted: set[Op]) -> None:
        self.variant = variant
        self.layouts = layouts
        self.converted = converted
        self.values: dict[Value, Value] = {}

    def kernel(self, kernel: Op) -> Op:
        attrs: dict[str, Attr] = {
            "sym_name": kernel.symbol + self.variant.suffix,
            "grid": kernel.attrs["grid"],
            "warps": self.variant.warps,
            "when": self.variant.when,
            "variant_of": kernel.symbol,
            "takes": len(kernel_memrefs(kernel)),
            "mapped": (),
            **({TENSORS: kernel_tensors(kernel)} if TENSORS in kernel.attrs else {}),
            **{name: kernel.attrs[name] for name in _KERNEL_ATTRS if name in kernel.attrs},
        }
        return Op(OPDEFS["gpu.kernel"], (), (), attrs, [self.region(kernel.regions[0])], kernel.span)

    def region(self, region: Region) -> Region:
        block = Block([self.type(v) for v in region.block.args], [v.name for v in region.block.args])
        self.values.update(zip(region.block.args, block.args, strict=True))
        for op in region.block.ops:
            block.append(self.op(op))
        return Region(block)

    def op(self, op: Op) -> Op:
        if op.opdef.dialect != "tile":
            return clone_op(op, self.values)
        name, attrs = self.name_and_attrs(op)
        types = [self.type(v) for v in op.results]
        names = [v.name for v in op.results]
        operands = [self.values[v] for v in op.operands]
        regions = [self.region(r) for r in op.regions]
        new = Op(OPDEFS[name], operands, types, attrs, regions, op.span, names)
        self.values.update(zip(op.results, new.results, strict=True))
        return new

    def name_and_attrs(self, op: Op) -> tuple[str, dict[str, Attr]]:
        attrs = {k: v for k, v in op.attrs.items() if k in _KEPT_ATTRS}
        match op.name:
            case "tile.dot":
                return "gpu.dot", {"unit": dot_unit(op, self.variant)}
            case "tile.load" | "tile.gather" if _staged(op.result):
                kept = {name: op.attrs[name] for name in (ENDS, "maps", "bounds") if name in op.attrs}
                return "gpu.stage", {"depth": _depth(op), "layout": self.staged_layout(op), **kept}
            case "tile.cast" if op in self.converted:
                return "gpu.convert", {}
            case "tile.tree" | "tile.running":
                scalar = fragments_are_scalar(op.operands[1:])
                return op.name.replace("tile.", "gpu."), {"levels": SCALAR_LEVELS if scalar else self.variant.levels}
        return _RENAMED.get(op.name, op.name.replace("tile.", "gpu.")), attrs

    def staged_layout(self, load: Op) -> SharedLayout:
        ((dot, position),) = load.result.uses
        ty, unit = tile_type(load.result), dot_unit(dot, self.variant)
        # Else a thread of the fma unit reads vectors of terms of the left operand, so those lie in rows.
        transposed = lies_across(load) and (position == 1 or unit.turned or unit.name != FMA)
        return operand_layout(unit, (ty.shape[0], ty.shape[1]), ty.dtype, position, transposed)

    def type(self, value: Value) -> Type:
        ty = value.type
        if not isinstance(ty, TileType) or value not in self.layouts:
            return ty
        return FragmentType(ty.shape, ty.dtype, ty.policy, self.layouts[value])


def _depth(load: Op) -> int:
    stage = load.attrs.get("stage")
    if not isinstance(stage, Stage):
        raise LoweringError("an operand of a product that is not staged")
    return stage.depth
