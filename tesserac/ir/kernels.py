"""Tile programs among the forms: what a kernel does block by block.

    form.kernel(x...) {name, programs, split, blocks, own, numbers, schedule, digest} : tensor... { ^(x...): ... }
        Runs its region for every program of a grid. The region sees its arguments alone: those that are `split` lose
        their first dim, of size `programs`, which all results have; the others are the same for every program. Where
        `repeats` is given, it has a number for every operand: that many neighbouring programs share an index of the
        first dim of a `split` one, and go over that dim again when it ends: it is read at (program / number) % size.
        Besides,
        the grid has one program for every block of the dims that are `own`: a result that has a block of them as a dim
        is put together of what all programs give. `blocks` say which symbol is a block of which dim; `numbers[i]` is
        the symbol that says which of the blocks of `blocks[i]` is the program's. A `form.loop` with the attribute `cut`
        goes over the blocks of a dim. `schedule` has the settings that the program gives, as pairs; a target chooses
        the others, sizes of blocks among those that `space` has for them. `digest` is by which tuning knows the
        program; `most` for how many elements of a whole dim of unknown size its tiles have room.

A block at the end of its dim is cut there: its tiles have fewer elements, reductions and contractions fewer terms.
Results depend on the sizes of no blocks but those that are `pinned`: the meaning has these, and of any other dim one
block that spans it.
"""

from __future__ import annotations

from tesserac.base.dataclass import dataclass
from tesserac.base.targets import setting_and_target
from tesserac.ir.attributes import register_attribute
from tesserac.ir.core import Op, Value, attr_tuple, define_op
from tesserac.ir.forms import tensor_type
from tesserac.ir.types import TensorType
from tesserac.ir.verify import require
from tesserac.types.dims import ONE, Dim

KERNEL = "form.kernel"
CUT = "cut"
"""The attribute of a loop over the blocks of a dim."""
REPEATS, SPACE = "repeats", "space"
FOUND = "found"
"""The attribute of a kernel that names those of its settings that tuning found."""
MOST = "most"
"""The attribute of a kernel that says for how many elements tiles have room along a dim that a program takes whole and
whose size only a run knows."""
MOST_WHOLE = (32, 64, 128, 256)
"""What that may be: threads that hold a row for 256 elements have nothing to do for three quarters of one of 64."""
PINNED = "pinned"
"""Of such a loop the size of a whole block, where results depend on it; of a kernel the sizes of all such blocks."""


@dataclass(frozen=True)
class Cut:
    """A dim of size `over` in blocks of size `block`, which is a symbol."""

    block: Dim
    over: Dim


register_attribute("cut", Cut)


def kernel_blocks(op: Op) -> tuple[Cut, ...]:
    blocks = op.attrs["blocks"]
    assert isinstance(blocks, tuple) and all(isinstance(cut, Cut) for cut in blocks)
    return blocks  # type: ignore[return-value]


def kernel_own(op: Op) -> tuple[Dim, ...]:
    """The blocks of which each program has one."""
    own = op.attrs["own"]
    assert isinstance(own, tuple) and all(isinstance(block, Dim) for block in own)
    return own  # type: ignore[return-value]


def kernel_numbers(op: Op) -> tuple[str, ...]:
    numbers = op.attrs["numbers"]
    assert isinstance(numbers, tuple)
    return tuple(map(str, numbers))


def kernel_programs(op: Op) -> Dim:
    programs = op.attrs["programs"]
    assert isinstance(programs, Dim)
    return programs


def kernel_split(op: Op) -> tuple[bool, ...]:
    split = op.attrs["split"]
    assert isinstance(split, tuple) and all(isinstance(flag, bool) for flag in split)
    return split  # type: ignore[return-value]


def kernel_repeats(op: Op) -> tuple[Dim, ...]:
    """How many neighbouring programs see the same of each operand."""
    repeats = op.attrs.get(REPEATS, (ONE,) * len(op.operands))
    assert isinstance(repeats, tuple) and all(isinstance(number, Dim) for number in repeats)
    return tuple(repeats)


def kernel_schedule(op: Op) -> dict[str, int | str]:
    """The settings that the program gives a kernel, a contraction or a reduction, or that tuning found for it."""
    pairs = [pair for pair in op.attrs.get("schedule", ()) if isinstance(pair, tuple)]  # type: ignore[union-attr]
    plain = [pair for pair in pairs if not setting_and_target(str(pair[0]))[1]]
    return {str(name): value if isinstance(value, int) else str(value) for name, value in plain}


def said_for(op: Op) -> dict[str, str]:
    """The targets that settings of a kernel were said for, of those that were not said for all."""
    pairs = [pair for pair in op.attrs.get("schedule", ()) if isinstance(pair, tuple)]  # type: ignore[union-attr]
    both = [setting_and_target(str(name)) for name, _ in pairs]
    return {name: target for name, target in both if target}


def found_settings(op: Op) -> frozenset[str]:
    """The settings of a kernel that tuning found."""
    return frozenset(attr_tuple(op, FOUND, str)) if FOUND in op.attrs else frozenset()


def kernel_settings(op: Op) -> dict[str, int]:
    """Those of the settings that are numbers."""
    return {name: value for name, value in kernel_schedule(op).items() if isinstance(value, int)}


def kernel_space(op: Op) -> dict[str, tuple[int, ...]]:
    """The sizes of blocks that the program would have tried, by what a schedule calls them."""
    found = op.attrs.get(SPACE, ())
    assert isinstance(found, tuple)
    pairs = [pair for pair in found if isinstance(pair, tuple)]
    return {str(name): tuple(v for v in values if isinstance(v, int)) for name, values in pairs}


def most_whole(op: Op) -> int:
    """How many elements of a dim that only a run knows tiles of a kernel have room for."""
    most = op.attrs.get(MOST, MOST_WHOLE[-1])
    assert isinstance(most, int)
    return most


def setting_name(block: str) -> str:
    """What a schedule calls the size of a block: `m` of `T_m`."""
    return block.removeprefix("T_").rstrip("_")


def kernel_pinned(op: Op) -> dict[str, int]:
    """The sizes of blocks on which results depend, by their symbols."""
    pairs = [pair for pair in op.attrs.get(PINNED, ()) if isinstance(pair, tuple)]  # type: ignore[union-attr]
    return {str(block): size for block, size in pairs if isinstance(size, int)}


def program_space(kernel: Op) -> tuple[Dim, ...]:
    """The programs along leading dims, then the dims that are cut."""
    return (kernel_programs(kernel), *(cut.over for cut in kernel_blocks(kernel)))


def block_loop(op: Op) -> Cut | None:
    """What a loop goes over the blocks of."""
    cut = op.attrs.get(CUT) if op.name == "form.loop" else None
    assert cut is None or isinstance(cut, Cut)
    return cut


def spanning(op: Op) -> dict[str, Dim]:
    """Sizes and numbers of blocks where one block spans its dim."""
    sizes = {cut.block.symbol or "": cut.over for cut in kernel_blocks(op)}
    return sizes | {number: Dim.const(0) for number in kernel_numbers(op)}


def _verify_kernel(op: Op) -> None:
    programs, split, cuts = kernel_programs(op), kernel_split(op), kernel_blocks(op)
    require(len(split) == len(op.operands) == len(op.body.args), "needs one argument per operand", op)
    require(len(kernel_repeats(op)) == len(op.operands), "repeats all operands or none", op)
    for value, arg, apart in zip(op.operands, op.body.args, split, strict=True):
        ty = tensor_type(value)
        has_programs = ty.rank > 0 and (ty.dims[0] == programs or REPEATS in op.attrs)
        require(not apart or has_programs, "an operand has other programs", op)
        dims = ty.dims[1:] if apart else ty.dims
        require(arg.type == TensorType(dims, ty.dtype, ty.policy), "{} does not fit {}", op, arg, value)
    require(len(kernel_numbers(op)) == len(cuts) and kernel_schedule(op) is not None, "numbers its blocks", op)
    require(all(cut.block.symbol is not None for cut in cuts), "a block is a symbol", op)
    sizes = spanning(op)
    yielded = op.body.terminator.operands
    require(len(yielded) == len(op.results), "yields one value per result", op)
    for value, result in zip(yielded, op.results, strict=True):
        ty = tensor_type(value)
        whole = TensorType((programs, *(d.substitute(sizes) for d in ty.dims)), ty.dtype, ty.policy)
        require(result.type == whole, "gives {}", op, whole)
    _verify_isolated(op)


def _verify_isolated(op: Op) -> None:
    made: set[Value] = set()
    for inner in op.walk():
        made.update(inner.results, *(region.block.args for region in inner.regions))
    for inner in op.walk():
        require(inner is op or made.issuperset(inner.operands), "its region sees its arguments alone", op)


define_op(KERNEL, pure=True, verify=_verify_kernel)
