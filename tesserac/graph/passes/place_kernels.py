"""Calls of kernels become tile programs, or what they mean.

Enters: a module in which calls of kernels stand under their names, sizes fixed, derivatives taken. Leaves: a
`form.kernel` for each that the target can run as tiles, its region in forms over blocks; for any other the body of its
meaning. Where the two differ in bits the kernel is wrong: no result depends on the sizes of blocks. A call of what
kernels implement becomes a call of one of them first, or its body: `choose_kernels.py`.

Before:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %y = graph.kernel(%x) {callee = "twice", dims = [["M", `N`]]} : tensor<[N], f32>
        graph.return(%y)
    }
    graph.func @twice {entry = false, guards = [], params = ["v"]} {
      ^(%v: tensor<[M], f32>):
        %0 = graph.add(%v, %v) : tensor<[M], f32>
        graph.return(%0)
    }
After, where the target runs no tiles:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[N], f32>):
        %0 = graph.add(%x, %x) : tensor<[N], f32>
        graph.return(%0)
    }
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from tesserac.base.dataclass import dataclass
from tesserac.base.targets import setting_on, taken_on
from tesserac.graph.applying import apply_operator
from tesserac.graph.block_draws import draw_in_place, program_streams, stream_place
from tesserac.graph.dialect import (
    DIGEST,
    KERNEL_CALL,
    NUMERICS,
    SCHEDULE,
    Program,
    is_operator,
    program_of,
    runs,
    set_numerics,
)
from tesserac.graph.passes.inline import erase_unreached, written_symbol
from tesserac.graph.passes.mean_kernels import kernel_calls, kernels_as_meant, mean, meaning_cost
from tesserac.graph.passes.unroll_unit_loops import unroll_short_loops
from tesserac.graph.substitute import copy_block, substitute_attr
from tesserac.ir.builder import Builder
from tesserac.ir.calls import call_dims
from tesserac.ir.core import OPDEFS, Attr, Block, Module, Op, Region, Value, clone_op, tuple_of
from tesserac.ir.forms import SIZED, tensor_type
from tesserac.ir.index import dim_value
from tesserac.ir.kernels import (
    FOUND,
    KERNEL,
    MOST,
    MOST_WHOLE,
    PINNED,
    REPEATS,
    SPACE,
    block_loop,
    kernel_pinned,
    kernel_schedule,
    setting_name,
    spanning,
)
from tesserac.ir.passes import GRAPH, Pass, run_passes
from tesserac.ir.types import TensorType
from tesserac.ops.compare import BitAnd, LessEqual
from tesserac.ops.convert import Cast
from tesserac.ops.create import Full
from tesserac.ops.shape import Expand, Reshape
from tesserac.types.dims import ONE, Dim, product
from tesserac.types.dtype import I64
from tesserac.types.policy import NO_POLICY
from tesserac.types.stretching import stretches

PLACED = "kernels"
"""The attribute of a function that tells of its kernels: the name of each, and why it does not run as tiles, if so."""

FAR = 2
"""How many times as much as its meaning a kernel must cost as tiles to run as its meaning: who calls one by its name
means tiles, and the model is no judge of less."""
WITHIN = "kernels_within"
"""The attribute of a function that tells of kernels which run as tiles up to some sizes alone: name, size and limit."""


@dataclass(frozen=True)
class Placement:
    """Why a target does not run a tile program as such; nothing if it does, where none of the sizes in `limits` is
    larger than what stands with it. `cost` is what running it takes, and `loses` says that much of it is lost by tiles.
    """

    why: str
    limits: tuple[tuple[Dim, int], ...] = ()
    cost: int = 0
    loses: bool = False


Tuned = Callable[[str, Mapping[str, Dim]], Mapping[str, int]]
"""What tuning has found for a kernel, by the digest of its program and the sizes of a call."""


def untuned(digest: str, dims: Mapping[str, Dim]) -> Mapping[str, int]:
    return {}


@dataclass(frozen=True)
class Tiles:
    """A machine as this pass sees it: `target` is what `--target` calls it, `passes` take the body of a program to
    forms, `run` says how it runs a tile program, `cost` what forms take that run without tiles, `tuned` what was found
    for kernels, and `rooms` how large its tiles are along dims that only a run knows, the largest last."""

    target: str
    passes: Sequence[Pass]
    run: Callable[[Op], Placement]
    cost: Callable[[Module], int]
    tuned: Tuned = untuned
    rooms: tuple[int, ...] = MOST_WHOLE[-1:]


def placed_kernels(function: Op) -> list[tuple[str, str]]:
    """The kernels of a function by their symbols, each with why it does not run as tiles, or nothing."""
    told = function.attrs.get(PLACED, ())
    assert isinstance(told, tuple)
    return [(str(symbol), str(why)) for symbol, why in told]


def kernel_limits(function: Op) -> list[tuple[str, Dim, int]]:
    """Sizes up to which kernels of a function run as tiles, by their symbols; beyond they run as their meaning."""
    return [(str(symbol), size, limit) for symbol, size, limit in tuple_of(function.attrs.get(WITHIN, ()), tuple)]


def place_kernels(tiles: Tiles) -> Pass:
    """The pass for a target."""

    def run(module: Module) -> Module:
        for function in [f for f in module.ops if runs(f)]:
            told = [_place(module, function, op, tiles) for op in kernel_calls(function)]
            if told:
                function.attrs[PLACED] = tuple(told)
        erase_unreached(module)
        return module

    return Pass("place_kernels", GRAPH, GRAPH, run)


def try_kernel(module: Module, call: Op, tiles: Tiles) -> Placement:
    """How a target runs the kernel of a call, which stays as it is."""
    program = program_of(module.lookup(str(call.attrs["callee"])))
    if program is None:
        return Placement("it is mapped over a dim")
    kernel = _kernel(module, call, program, tiles)
    placement = tiles.run(kernel)
    kernel.erase()
    return placement


def _place(module: Module, function: Op, call: Op, tiles: Tiles) -> tuple[Attr, ...]:
    callee = module.lookup(str(call.attrs["callee"]))
    if NUMERICS in call.attrs:
        function.attrs[NUMERICS] = call.attrs[NUMERICS]
    program, placement = program_of(callee), Placement("it is mapped over a dim")
    if program is not None:
        kernel = _kernel(module, call, program, tiles)
        placement = _where_it_pays(module, call, kernel, tiles)
        if placement.limits:
            within = tuple((written_symbol(callee.symbol), *limit) for limit in placement.limits)
            function.attrs[WITHIN] = (*tuple_of(function.attrs.get(WITHIN, ()), tuple), *within)
            call = _place_smaller(module, call, program, tiles)
            call, larger = _split(call, _all_within(Builder.before(call), placement.limits))
            mean(module, function, larger)
        if not placement.why:
            _replace(call, kernel)
            return written_symbol(callee.symbol), ""
        kernel.erase()
    mean(module, function, call)
    return written_symbol(callee.symbol), placement.why


def _where_it_pays(module: Module, call: Op, kernel: Op, tiles: Tiles) -> Placement:
    """How a target runs a program. One that nobody has scheduled, and of which the target knows that it loses much by
    tiles, runs as its meaning where that costs far less."""
    placement = tiles.run(kernel)
    if not placement.loses or kernel_schedule(kernel) or kernel_pinned(kernel):
        return placement
    plain = max(1, meaning_cost(module, call, [kernels_as_meant, *tiles.passes], tiles.cost))
    if placement.cost <= FAR * plain:
        return placement
    return Placement(f"as tiles it would cost {placement.cost / plain:.1f} of it; a schedule of its own keeps it tiles")


def _place_smaller(module: Module, call: Op, program: Program, tiles: Tiles) -> Op:
    """Kernels whose tiles have room for fewer elements than others, for sizes that are so small: the call where none
    is."""
    for most in tiles.rooms[:-1]:
        kernel = _kernel(module, call, program, tiles)
        kernel.attrs[MOST] = most
        placement = tiles.run(kernel)
        if placement.why or not placement.limits:
            kernel.erase()
            continue
        small, call = _split(call, _all_within(Builder.before(call), placement.limits))
        _replace(small, kernel)
    return call


def keep_both(module: Module, function: Op, call: Op, flag: Value) -> Op:
    """The call where a flag that sizes decide holds, which is given back; elsewhere what it means."""
    taken, other = _split(call, flag)
    mean(module, function, other)
    return taken


def _split(call: Op, flag: Value) -> tuple[Op, Op]:
    """A call twice: where a flag that sizes decide holds, and where it does not."""
    builder, wanted = Builder.before(call), _wanted(call)
    blocks, calls = [Block(), Block()], list[Op]()
    types, names = [v.type for v in call.results], [v.name for v in call.results]
    for block in blocks:
        inside = Builder(block, call.span)
        calls.append(inside.op(KERNEL_CALL, call.operands, types, call.attrs, (), names))
        inside.op("form.yield", [calls[-1].results[position] for position in wanted])
    kept, called = [types[position] for position in wanted], [names[position] for position in wanted]
    cond = builder.op("form.cond", (flag,), kept, {SIZED: True}, blocks, called)
    for position, new in zip(wanted, cond.results, strict=True):
        call.results[position].replace_all_uses(new)
    call.erase()
    return calls[0], calls[1]


def _all_within(builder: Builder, limits: Sequence[tuple[Dim, int]]) -> Value:
    """Whether no size is larger than its limit."""
    flags = []
    for dim, limit in limits:
        size = builder.value("graph.size", (), TensorType((), I64), {"dim": dim})
        most = apply_operator(builder, Full((), I64, NO_POLICY, limit))
        flags.append(apply_operator(builder, LessEqual(), size, most))
    return reduce(lambda left, right: apply_operator(builder, BitAnd(), left, right), flags)


def _replace(call: Op, kernel: Op) -> None:
    builder = Builder.before(call)
    builder.add(kernel)
    for made, position in zip(kernel.results, _wanted(call), strict=True):
        wanted = call.results[position]
        wanted.replace_all_uses(_stored(builder, made, tensor_type(wanted)))
    call.erase()


# -------------------------------------------------------------------------------------------------------- the program


def _kernel(module: Module, call: Op, program: Program, tiles: Tiles) -> Op:
    """The tile program of a call, which stands nowhere yet."""
    dims = call_dims(call)
    leading = tuple(dim.substitute(dims) for dim in program.leading)
    wanted = {position: tensor_type(call.results[position]) for position in _wanted(call)}
    given = _given(module, call, program, leading)
    known = [_constant(value) for value in given]
    body = _program_body(module, program, dims, tiles.passes, wanted, known, call.attrs.get(NUMERICS))
    digest = str(module.lookup(str(call.attrs["callee"])).attrs.get(DIGEST, ""))
    said, found = _settings(program, call, tiles), tiles.tuned(digest, dims)
    programs = product(leading) if leading else ONE
    ranks = [tensor_type(arg).rank for arg in module.lookup(program.symbol).body.args]
    flat = Builder.before(call)
    parts = [
        _flat(flat, value, leading, rank)
        for value, rank, constant in zip(given, ranks, known, strict=True)
        if constant is None
    ]
    attrs: dict[str, Attr] = {
        "name": str(call.attrs["callee"]),
        "programs": programs,
        "split": tuple(part.is_split for part in parts),
        "blocks": substitute_attr(program.blocks, dims),
        "own": program.own,
        "digest": digest,
        "numbers": program.numbers,
        "schedule": tuple(sorted({**found, **said}.items())),
    }
    if tuned := tuple(sorted(found.keys() - said.keys())):
        attrs[FOUND] = tuned
    if program.tuned:
        attrs[SPACE] = program.tuned
    if program.pinned:
        attrs[PINNED] = program.pinned
    if any(part.is_repeated for part in parts):
        attrs[REPEATS] = tuple(part.repeats for part in parts)
    sizes = spanning(Op(OPDEFS[KERNEL], (), (), attrs))
    types = [_whole(tensor_type(v), programs, sizes) for v in body.terminator.operands]
    operands = [part.value for part in parts]
    names = [call.results[position].name for position in wanted]
    return Op(OPDEFS[KERNEL], operands, types, attrs, [Region(body)], call.span, names)


def _given(module: Module, call: Op, program: Program, leading: tuple[Dim, ...]) -> list[Value]:
    """What the programs of a call are given: of the stream that they draw from, one of its own for each."""
    given, place = list(call.operands), stream_place(module.lookup(program.symbol))
    if place is not None:
        given[place] = program_streams(Builder.before(call), given[place], leading, product(leading))
    return given


def _constant(value: Value) -> list[Op] | None:
    """The operations that make a value one number that is known, the last one last: a program has it in itself rather
    than in memory. None for any other value."""
    op = value.defining_op
    if op is None or tensor_type(value).rank != 0 or not (op.name == "graph.full" or (op.operands and is_operator(op))):
        return None
    parts = [_constant(operand) for operand in op.operands]
    known = [part for part in parts if part is not None]
    return [*(inner for part in known for inner in part), op] if len(known) == len(parts) else None


def _wanted(call: Op) -> list[int]:
    """The results that somebody reads: what nobody does, no program computes. The first says what the grid is."""
    return [position for position, value in enumerate(call.results) if value.uses or not position]


def _settings(program: Program, call: Op, tiles: Tiles) -> dict[str, Attr]:
    """What the call says for this machine goes before what the kernel says itself; blocks that the kernel means are
    what it says. What was said for this machine alone is there under that name too."""
    said = call.attrs.get(SCHEDULE, ())
    assert isinstance(said, tuple)
    tuned = {name for name, _ in program.tuned}
    own = taken_on((pair for pair in program.schedule if pair[0] not in tuned), tiles.target)
    taken = own | taken_on(said, tiles.target)
    values = {name: value for name, (value, _) in taken.items()}
    narrow = {setting_on(name, target): value for name, (value, target) in taken.items()}
    meant = {setting_name(block): size for block, size in program.pinned}
    return {**narrow, **values, **meant}


def _whole(tile: TensorType, programs: Dim, sizes: dict[str, Dim]) -> TensorType:
    return TensorType((programs, *(dim.substitute(sizes) for dim in tile.dims)), tile.dtype, tile.policy)


@dataclass(frozen=True)
class _Part:
    """An operand as programs see it: its leading dims are one, or are not there (not `is_split`), and `repeats`
    neighbouring programs share an index of it."""

    value: Value
    is_split: bool
    repeats: Dim
    is_repeated: bool


def _flat(builder: Builder, value: Value, leading: tuple[Dim, ...], rank: int) -> _Part:
    """An operand with the dims before those of one program as one. They are those of the grid, or 1 in the place of
    some."""
    ty = tensor_type(value)
    if ty.rank <= rank:
        return _Part(value, False, ONE, False)
    own, tile = ty.dims[: ty.rank - rank], ty.dims[ty.rank - rank :]
    if product(own) == product(leading) or not stretches(own, leading):
        return _Part(_shaped(builder, value, (product(leading), *tile)), True, ONE, False)
    aligned = (ONE,) * (len(leading) - len(own)) + own
    there = [place for place, dim in enumerate(aligned) if dim != ONE]
    if not there:
        return _Part(_shaped(builder, value, tile), False, ONE, False)
    first, end = there[0], there[-1] + 1
    if aligned[first:end] != leading[first:end]:  # dims that are not neighbours: a copy has all
        whole = apply_operator(builder, Expand((*leading, *tile)), value)
        return _Part(_shaped(builder, whole, (product(leading), *tile)), True, ONE, False)
    return _Part(_shaped(builder, value, (product(own), *tile)), True, product(leading[end:]), True)


def _shaped(builder: Builder, value: Value, dims: tuple[Dim, ...]) -> Value:
    return value if dims == tensor_type(value).dims else apply_operator(builder, Reshape(dims), value)


def _stored(builder: Builder, value: Value, wanted: TensorType) -> Value:
    """A result as the signature says: its leading dims apart."""
    if tensor_type(value).dims == wanted.dims:
        return value
    return apply_operator(builder, Reshape(wanted.dims), value)


def _rounded(builder: Builder, value: Value, wanted: TensorType) -> Value:
    """What a program stores, in the dtype that the signature says: nothing wider is ever in memory."""
    ty = tensor_type(value)
    if (ty.dtype, ty.policy) == (wanted.dtype, wanted.policy):
        return value
    return apply_operator(builder, Cast(wanted.dtype, wanted.policy), value)


def _program_body(
    module: Module,
    program: Program,
    dims: dict[str, Dim],
    passes: Sequence[Pass],
    wanted: Mapping[int, TensorType],
    known: Sequence[list[Op] | None],
    mode: Attr | None,
) -> Block:
    """The program with the sizes of the call and its mode of numerics, in forms; its sizes of blocks stay symbols. It
    gives the results that are wanted, and has no arguments for numbers that are known."""
    function = module.lookup(program.symbol)
    for op in kernel_calls(function):
        mean(module, function, op)
    fixed = {name: dim.substitute(dims) for name, dim in program.fixed}
    block = _with_constants(copy_block(function.body, {}, {**dims, **fixed}), known)
    for op in block.ops:
        set_numerics(op, mode)
    draw_in_place(block, program, dims)
    unroll_short_loops(block)
    end = block.terminator
    rounded = [_rounded(Builder.before(end), end.operands[position], ty) for position, ty in wanted.items()]
    block.append(Op(end.opdef, rounded, (), end.attrs, span=end.span))
    end.erase()
    for loop in [op for outer in block.ops for op in outer.walk()]:
        cut = block_loop(loop)
        if cut is not None:
            loop.set_operand(1, dim_value(Builder.before(loop), cut.over.ceil_div(cut.block)))
    params = tuple(f"x{i}" for i in range(len(block.args)))
    attrs: dict[str, Attr] = {"sym_name": program.symbol, "params": params, "guards": (), "entry": True}
    alone = Module([Op(OPDEFS["graph.func"], (), (), attrs, [Region(block)], function.span)])
    (made,) = run_passes(alone, passes, verify=False).ops
    body = made.body
    end = body.terminator
    yielded = Op(OPDEFS["form.yield"], end.operands, span=end.span)
    end.erase()
    body.append(yielded)
    made.regions.clear()
    return body


def _with_constants(block: Block, known: Sequence[list[Op] | None]) -> Block:
    """The body of a program in which parameters that are known are constants."""
    places = dict(zip(block.args, known, strict=True))
    for arg, constant in places.items():
        copies: dict[Value, Value] = {}
        for position, op in enumerate(dict.fromkeys(constant or ())):
            block.insert(position, clone_op(op, copies))
        if constant is not None:
            arg.replace_all_uses(copies[constant[-1].result])
    block.args = [arg for arg in block.args if places[arg] is None]
    for index, arg in enumerate(block.args):
        arg.index = index
    return block
