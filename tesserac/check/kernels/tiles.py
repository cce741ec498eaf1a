"""Calls of `tile.*` that are more than functions of the library: they read blocks, or mind where the valid part ends.

Enters: checked arguments, in the body of a kernel. Leaves: typed expressions over tensors whose dims are the kernel's
blocks. A loaded tile is in the accumulation type; the part of it beyond the length of a cache is 0, and reductions take
the identity there. What functions of the library take there, they say themselves (`model/library_annotations.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.check.declarations.schedules import BLOCK_NAMES, check_hints
from tesserac.check.guards.guarding import require_guard
from tesserac.check.kernels.extents import indices, loaded, within
from tesserac.check.kernels.whole_dims import suggest_block_range, tell_of_counter
from tesserac.check.model import typed
from tesserac.check.model.kernel_state import TILE_RANK, CutDim, Kernel
from tesserac.check.model.message_text import dim_text, type_text
from tesserac.check.operators.apply import apply_operator, meet_storage
from tesserac.check.operators.calls import call_operator
from tesserac.check.state.arguments import Arg, Callee, Slot
from tesserac.check.state.body import Body
from tesserac.check.values.tuples import item_of
from tesserac.diag.codes.kernels import E0501, E0502, E0503, E0520, E0521
from tesserac.diag.codes.names import E0210
from tesserac.ops.contract import MatMul
from tesserac.ops.convert import Wide
from tesserac.ops.elementwise import Add, Sub
from tesserac.ops.index import Gather
from tesserac.ops.registry import OPERATORS
from tesserac.ops.shape import Slice
from tesserac.types.dims import ZERO, Dim
from tesserac.types.dtype import F32
from tesserac.types.policy import NO_POLICY
from tesserac.types.ty import ErrorType, IntType, NoneType, RunIntType, StructType, TensorType, TupleType, Type

Given = dict[str, typed.Expr]
Rule = Callable[[Body, Callee, Given], typed.Expr]

CACHE = "KVCache"
LENGTH = "len"


@dataclass(frozen=True)
class Range:
    """What a block is of one dim."""

    start: Dim
    size: Dim


def kernel_of(body: Body, callee: Callee) -> Kernel | None:
    if body.kernel is None:
        draft = body.sink.error(E0501, at=callee.at, name=f"tile.{callee.name}")
        draft.remark("mark the function that it stands in with `@kernel`")
    return body.kernel


# --------------------------------------------------------------------------------------------------- load and store


def _context(body: Body, callee: Callee, given: Given) -> typed.Expr:
    kernel = kernel_of(body, callee)
    return body.error(callee.span) if kernel is None else typed.Static(kernel.context(), callee.span)


def _load(body: Body, callee: Callee, given: Given) -> typed.Expr:
    kernel, x = kernel_of(body, callee), given["x"]
    if kernel is None or any(isinstance(value.type, ErrorType) for value in given.values()):
        return body.error(callee.span)
    if not isinstance(x.type, TensorType) or not 1 <= x.type.rank <= 2:
        draft = body.sink.error(E0210, at=x.span, expected="a tensor with rows and columns", found=type_text(x.type))
        if isinstance(x.type, TensorType) and x.type.rank > TILE_RANK:
            draft.remark("a matrix of it is `x[i]`; of a parameter `KTile[...]` each program has one of its own")
        return body.error(callee.span)
    ranges = _ranges(body, kernel, x.type, given, callee)
    if ranges is None or not check_hints(body, given):
        return body.error(callee.span)
    starts, sizes = tuple(r.start for r in ranges), tuple(r.size for r in ranges)
    type_ = TensorType(sizes, x.type.dtype, x.type.policy)
    tile: typed.Expr = typed.Apply(type_, callee.span, Slice(starts, sizes, (1,) * len(ranges)), (x,))
    kernel.reads.add(tile)
    if _are_places(rows := given.get("i")):
        assert rows is not None
        tile = apply_operator(body, Gather(0), [tile, rows], callee.at, callee.span)
    elif (length := length_of(body, x)) is not None:
        kernel.limits[sizes[0]] = length
    tile = loaded(body, _wide(body, kernel, tile, callee), callee)
    kernel.filled.add(tile)
    return tile


def _wide(body: Body, kernel: Kernel, tile: typed.Expr, callee: Callee) -> typed.Expr:
    """A tile in the accumulation type of its policy; one without takes that of the first parameter of its dtype."""
    if isinstance(tile.type, TensorType):
        policy = kernel.policies.get(tile.type.dtype, NO_POLICY)
        tile = meet_storage(body, tile, tile.type.dtype, policy) or tile
    return apply_operator(body, Wide(), [tile], callee.at, callee.span)


def _ranges(body: Body, kernel: Kernel, type_: TensorType, given: Given, callee: Callee) -> list[Range] | None:
    """The block of each dim; None after a diagnostic."""
    if type_.rank == 1:
        found = [_range(body, kernel, type_.dims[0], given.get("i"), given.get("rows", given.get("cols")), "m", callee)]
    else:
        rows, cols = type_.dims
        found = [
            _range(body, kernel, rows, given.get("i"), given.get("rows"), "m", callee),
            _range(body, kernel, cols, given.get("j"), given.get("cols"), "n", callee),
        ]
    ranges = [r for r in found if r is not None]
    if len(ranges) < len(found):
        return None
    whole = kernel.blocks["d"]
    if kernel.whole_is_first and type_.rank == TILE_RANK and whole not in kernel.cuts and ranges[-1].size == cols:
        bind_block(body, kernel, whole, cols, callee.at)
    return ranges


def _range(
    body: Body,
    kernel: Kernel,
    size: Dim,
    number: typed.Expr | None,
    extent: typed.Expr | None,
    usual: str,
    callee: Callee,
) -> Range | None:
    """A block by its number, this program's by its size (`None` as a number means it too), or the whole dim."""
    own = number is not None and isinstance(number.type, NoneType)
    if usual == "m" and extent is None and _are_places(number):
        return Range(ZERO, size)
    if number is not None and not own:
        return _numbered(body, kernel, size, number, extent)
    if extent is None and not own:
        return Range(ZERO, size)
    block = kernel.blocks[usual] if extent is None else _extent(body, kernel, size, extent)
    if block is None or block not in kernel.blocks.values():
        return None if block is None else Range(ZERO, block)
    place = callee.at if extent is None else extent.span
    if block != kernel.blocks["d"]:
        kernel.own.setdefault(block, place)
    whole = f"{'rows' if usual == 'm' else 'cols'}={size}" if extent is None else ""
    return Range(kernel.own_start(block), block) if bind_block(body, kernel, block, size, place, whole) else None


def _are_places(number: typed.Expr | None) -> bool:
    """Whether these are the rows that a load takes, and not the number of a block."""
    return number is not None and isinstance(number.type, TensorType) and number.type.dtype.is_integer


def _extent(body: Body, kernel: Kernel, size: Dim, extent: typed.Expr) -> Dim | None:
    found = extent.type.value if isinstance(extent.type, IntType) else None
    if found is not None and (found in kernel.blocks.values() or body.facts.same(found, size)):
        return found
    label = f"neither a block nor {dim_text(size)}"
    draft = body.sink.error(E0502, at=extent.span, label=label, of=f"a dim of size {dim_text(size)}")
    if found is not None and (found.symbol or "") in kernel.counters:
        draft.remark("this is the number of a block: it stands behind the tensor, as in `tile.load(x, None, j)`")
    else:
        draft.remark("a block is `T.m`, `T.n`, `T.k` or `T.d` of `T = tile.context()`, or the whole dim")
    return None


def _numbered(
    body: Body, kernel: Kernel, size: Dim, number: typed.Expr, extent: typed.Expr | None
) -> Range | None:
    counter = number.type.value.symbol if isinstance(number.type, IntType) else None
    block = kernel.counters.get(counter or "")
    if counter is None or block is None:
        if not tell_of_counter(body, number):
            return None
        draft = body.sink.error(E0520, at=number.span)
        suggest_block_range(body, draft, number)
        draft.remark("blocks are counted by `for i in tile.range_n(shape, T.n)` and `tile.range_k(x, T.k)`")
        draft.remark("rows by a tile of integers are `tile.load(x, rows)`, without a size of blocks for them")
        return None
    if extent is not None and extent.type != IntType(block):
        draft = body.sink.error(E0521, at=number.span, block=kernel.block_name(block))
        draft.note(extent.span, "another size is given here")
        return None
    if not bind_block(body, kernel, block, size, number.span):
        return None
    return Range(kernel.counted_start(counter), block)


def bind_block(body: Body, kernel: Kernel, block: Dim, size: Dim, at: Span, whole: str = "") -> bool:
    """Notes that a block cuts a dim; False after a diagnostic. All dims that one block cuts are equal. `whole` says how
    a load takes all of the dim, where it is this program's block for want of another word."""
    known = kernel.cuts.setdefault(block, CutDim(size, at))
    if block == kernel.blocks["d"]:
        body.facts.state("equal", block, size)
    if body.facts.same(known.size, size):
        return True
    if body.may_agree(known.size, size):
        require_guard(body, "equal", known.size, size, at)
        return True
    name = kernel.block_name(block)
    first, second = dim_text(known.size), dim_text(size)
    draft = body.sink.error(E0503, at=at, label=f"here it would cut {second}", block=name, first=first, second=second)
    draft.note(known.span, f"here it cuts {first}")
    free = [f"T.{other}" for other, own in kernel.blocks.items() if own not in kernel.cuts and other != "d"]
    other_block = f"cut {second} by a block of its own, {' or '.join(free)}" if free else f"load {second} whole"
    if size in kernel.leading:
        draft.remark(f"{second} counts programs: what each has of its own is declared as [{second}, 1, ...]")
        return False
    if whole:
        other_block = f"`{whole}` loads all of {second}: `None` alone is this program's block, {name}"
    draft.remark(f"if the two are one size, give them one name in the signature; else {other_block}")
    return False


def length_of(body: Body, x: typed.Expr) -> typed.Expr | None:
    """How many rows of a tensor are valid, where it is part of a cache."""
    x = _traced(body, x)
    return cache_length(x.value) if isinstance(x, typed.Item) else None


def _traced(body: Body, x: typed.Expr) -> typed.Expr:
    """What a name stands for."""
    while isinstance(x, typed.Local) and (binding := body.origins.get(x)) is not None and binding.is_value:
        assert binding.value is not None
        x = binding.value
    return x


def cache_length(value: typed.Expr) -> typed.Expr | None:
    type_ = value.type
    if not isinstance(type_, StructType) or type_.name != CACHE:
        return None
    position = type_.position(LENGTH)
    return None if position is None else item_of(value, position, value.span)


# ------------------------------------------------------------------------------------------------ indices and edges


def _row_index(body: Body, callee: Callee, given: Given) -> typed.Expr:
    """The rows of this program; the queries of a cache are the last of its rows."""
    kernel = kernel_of(body, callee)
    if kernel is None:
        return body.error(callee.span)
    block = kernel.blocks["m"]
    rows = indices(kernel, block, kernel.own_start(block), callee.span)
    if kernel.cache is None or block not in kernel.cuts:
        return rows
    size = typed.Static(IntType(kernel.cuts[block].size), callee.span)
    first = apply_operator(body, Sub(), [kernel.cache, size], callee.at, callee.span)
    return apply_operator(body, Add(), [rows, first], callee.at, callee.span)


def _col_index(body: Body, callee: Callee, given: Given) -> typed.Expr:
    kernel, number = kernel_of(body, callee), given.get("i")
    if kernel is None:
        return body.error(callee.span)
    if number is None or isinstance(number.type, NoneType):
        return indices(kernel, kernel.blocks["n"], kernel.own_start(kernel.blocks["n"]), callee.span)
    counter = number.type.value.symbol if isinstance(number.type, IntType) else None
    block = kernel.counters.get(counter or "")
    if counter is None or block is None:
        body.sink.error(E0520, at=number.span)
        return body.error(callee.span)
    return indices(kernel, block, kernel.counted_start(counter), callee.span)


# ------------------------------------------------------------------------------------------- products and reductions


def _dot(body: Body, callee: Callee, given: Given) -> typed.Expr:
    factors = (_as_loaded(body, callee, given[name]) for name in ("a", "b"))
    terms = _present_terms(body, callee, *factors)
    product = apply_operator(body, MatMul(), terms, callee.at, callee.span)
    if "acc" not in given:
        return product
    return apply_operator(body, Add(), [given["acc"], product], callee.at, callee.span)


def _as_loaded(body: Body, callee: Callee, factor: typed.Expr) -> typed.Expr:
    """A factor that the program rounded, in the type that loads give such numbers in, and that sums have."""
    type_ = factor.type
    rounded = isinstance(type_, TensorType) and type_.dtype.is_float and type_.dtype.bits < F32.bits
    return _wide(body, body.kernel, factor, callee) if rounded and body.kernel is not None else factor


def _present_terms(body: Body, callee: Callee, left: typed.Expr, right: typed.Expr) -> list[typed.Expr]:
    """The operands of a product, with 0 for terms that a cache has not, or that the loop does not go over. What was
    read beyond a cache's length is 0 as it is."""
    if body.kernel is None or not isinstance(left.type, TensorType) or not isinstance(right.type, TensorType):
        return [left, right]
    if left.type.rank:
        left = within(body, left, 0.0, (left.type.rank - 1,), callee)
    if right.type.rank == TILE_RANK and _traced(body, right) not in body.kernel.filled:
        right = loaded(body, right, callee)
    return [left, right]


def _reduction(operator: str, identity: float) -> Rule:
    def rule(body: Body, callee: Callee, given: Given) -> typed.Expr:
        x = given["x"]
        if isinstance(x.type, TensorType):
            x = within(body, x, identity, tuple(range(x.type.rank)), callee)
        args = [Arg(name, value.span, x if name == "x" else value) for name, value in given.items()]
        return call_operator(body, OPERATORS[operator], args, callee)

    return rule


# --------------------------------------------------------------------------------------------------- loops of blocks


def block_range(body: Body, callee: Callee, given: Given) -> Dim | None:
    """The block that a loop over `tile.range_n` or `tile.range_k` counts; None after a diagnostic."""
    kernel, over, extent = kernel_of(body, callee), given["x"], given["extent"]
    if kernel is None or isinstance(over.type, ErrorType) or isinstance(extent.type, ErrorType):
        return None
    if not check_hints(body, given) or not all(_is_position(body, kernel, given[b]) for b in BOUNDS if b in given):
        return None
    size = _counted_dim(over.type, last=callee.name == "range_k")
    if size is None:
        body.sink.error(E0210, at=over.span, expected="a tensor or its shape", found=type_text(over.type))
        return None
    block = extent.type.value if isinstance(extent.type, IntType) else None
    if block is None or block not in kernel.blocks.values():
        draft = body.sink.error(E0502, at=extent.span, of="a kernel")
        draft.remark(f"`tile.{callee.name}` counts blocks of `T.n` or `T.k`, of `T = tile.context()`")
        if block is not None and block.constant is not None:
            name = callee.name.removeprefix("range_")
            pinned = f"@kernel.schedule(Schedule({BLOCK_NAMES[name]}={block}))"
            draft.remark(f"blocks of one size are `T.{name}`, pinned by `{pinned}`")
        return None
    return block if bind_block(body, kernel, block, size, extent.span) else None


def _is_position(body: Body, kernel: Kernel, bound: typed.Expr) -> bool:
    """Whether a bound of a loop is one, for all rows of the program or for each; reported if not."""
    type_ = bound.type
    if isinstance(type_, TensorType):
        fits = type_.dtype.is_integer and type_.dims in ((), (kernel.blocks["m"],))
    else:
        fits = isinstance(type_, IntType | RunIntType)
    if not fits and not isinstance(type_, ErrorType):
        expected = f"a position, or one for each row ([{kernel.block_name(kernel.blocks['m'])}] of an integer type)"
        body.sink.error(E0210, at=bound.span, expected=expected, found=type_text(type_))
    return fits


def _counted_dim(type_: Type, *, last: bool) -> Dim | None:
    """`range_n` counts along the rows of a tensor, `range_k` along its columns."""
    dims: tuple[Dim, ...] = type_.dims if isinstance(type_, TensorType) else ()
    if isinstance(type_, TupleType):
        dims = tuple(item.value for item in type_.items if isinstance(item, IntType))
    if not dims:
        return None
    return dims[-1] if last or len(dims) == 1 else dims[-2]



_X = Slot("x", True, False)
_NUMBER = Slot("i", False, False)
_HINTS = (Slot("vector", False, True), Slot("prefetch", False, True))
_REDUCED = (_X, Slot("axis", False, False), Slot("keep", False, False))
_FACTORS = (Slot("a", True, False), Slot("b", True, False), Slot("acc", False, False))
BOUNDS = ("start", "stop")
"""What of its dim a loop over blocks goes over."""
RANGE_SLOTS = (_X, Slot("extent", True, False), *(Slot(b, False, True) for b in BOUNDS), Slot("prefetch", False, True))
RULES: dict[str, tuple[tuple[Slot, ...], Rule]] = {
    "context": ((), _context),
    "load": (
        (_X, _NUMBER, Slot("j", False, False), Slot("rows", False, True), Slot("cols", False, True), *_HINTS),
        _load,
    ),
    "dot": (_FACTORS, _dot),
    "mma": (_FACTORS, _dot),
    "row_index": ((), _row_index),
    "col_index": ((_NUMBER,), _col_index),
    "reduce_sum": (_REDUCED, _reduction("sum", 0.0)),
    "reduce_max": (_REDUCED, _reduction("max", -float("inf"))),
    "reduce_min": (_REDUCED, _reduction("min", float("inf"))),
}
"""Functions of `tile` with rules of their own; every other name is the library's function of that name."""
RANGES = ("range_n", "range_k")
"""What only a `for` can go over."""
