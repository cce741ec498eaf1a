"""Kernels: a function for one tile of its result becomes a program, and a function that runs it for every tile.

Enters: the signature of a `@kernel` and the types of its parameters. Leaves: two typed functions. The *program* has the
body, over tensors of at most two dims, and is polymorphic in the blocks `T.m`, `T.n`, ... as in any other size. The
*grid* has the kernel's name: it says what the blocks are, and calls the program once per index of the leading dims.

    q: [BH, S, D]                       out = zeros(BH, S, D)
    return tile.cast(acc, bf16)         for program in range(BH): out[program] = body(q[program], T.m = S, T.d = D)

See Note [One block spans its dim].
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tesserac.check.analysis.block_free import block_dependences
from tesserac.check.analysis.reach import children
from tesserac.check.analysis.walking import Find
from tesserac.check.declarations.schedules import BLOCK_NAMES, int_settings, settings_of
from tesserac.check.guards.guarding import require_guard
from tesserac.check.guards.undecided import code_at
from tesserac.check.instances.checking import check_end, enter, symbols_of, typed_function, where_guards
from tesserac.check.instances.returned import result_type
from tesserac.check.kernels.grid import declared, grid, whole_parameters
from tesserac.check.kernels.tiles import cache_length
from tesserac.check.kernels.whole_dims import suggest_whole
from tesserac.check.model import typed
from tesserac.check.model.kernel_state import TILE_RANK, CutDim, Kernel, new_kernel
from tesserac.check.model.message_text import dims_text
from tesserac.check.model.scope import Binding
from tesserac.check.model.specs import BareTileSpec, Signature, TensorSpec, TupleSpec, TypeSpec
from tesserac.check.operators.apply import apply_operator
from tesserac.check.state.body import Body
from tesserac.check.state.effects import RANDOM, check_effects
from tesserac.check.values.tuples import make_tuple
from tesserac.diag.codes.kernels import E0504, E0505, E0506, E0511, E0515, E0523
from tesserac.ops.convert import Wide
from tesserac.syntax import ast
from tesserac.syntax.walk import descendants
from tesserac.types.dims import ONE, Dim, product
from tesserac.types.policy import NO_POLICY
from tesserac.types.stretching import stretches
from tesserac.types.ty import Aggregate, RecordType, TensorType, TupleType, Type, parts, sizes_in, with_parts


def check_kernel(
    body: Body,
    signature: Signature,
    types: tuple[Type, ...],
    symbol: str,
    schedule: RecordType | None,
    space: tuple[tuple[str, tuple[int | str, ...]], ...] = (),
    meant: Collection[str] = (),
) -> typed.TypedFunction | None:
    """Checks a kernel for these types, of which some blocks are `meant`. None after errors. The program is left among
    the functions of the body."""
    inner = _seen_by_one(signature, types)
    enter(body, signature, types)
    names = tuple(dict.fromkeys((*signature.symbols, *symbols_of(types))))
    spec, body.declared.result_spec = body.declared.result_spec, None
    body.kernel = kernel = new_kernel(names, int_settings(schedule))
    kernel.said_schedule = settings_of(schedule) if schedule is not None else ()
    kernel.space = space
    kernel.whole_is_first = _whole_is_first(signature)
    kernel.meant = {kernel.blocks[name]: kernel.settings[name] for name in meant}
    kernel.leading = leading = _leading(body, signature, types)
    entered = _enter_tiles(body, signature, inner, kernel)
    given = dict(body.scope.bindings)
    block = (*entered, *body.rules.block(body, signature.node.body))
    block = _return_stored(kernel, block, body, given)
    if not kernel.stored:
        check_end(body, signature)
    check_effects(body, signature.node)
    result = result_type(body)
    _cut_result(body, kernel, spec, result)
    _check_blocks(body, kernel, result)
    _check_meant(body, kernel, block)
    if body.has_failed:
        return None
    sizes = (*names, *_block_names(kernel))
    program = typed_function(body, signature, inner, f"{symbol}.program", block, result, sizes, ())
    program = replace(program, pinned=_pinned(kernel))
    body.functions.append(program)
    value = grid(types, signature, kernel, program, leading)
    block, whole = value.block, declared(body, spec, value.result)
    if body.has_failed:
        return None
    block = (*block, typed.Return(program.span, whole))
    guards = _guards(body, signature, kernel)
    function = typed_function(body, signature, types, symbol, block, whole.type, names, guards)
    apart = _apart(kernel, program, _loaded(body, types))
    return replace(function, closed=True, apart=apart, program=None if apart else _program(kernel, program, leading))


def _whole_is_first(signature: Signature) -> bool:
    """Whether a program asks for `T.d`, and loads nothing with it."""
    nodes = list(descendants(signature.node))
    extents = {node.value for node in nodes if isinstance(node, ast.Argument) and node.name in ("rows", "cols")}
    asked = [node for node in nodes if isinstance(node, ast.Attribute) and node.name == "d"]
    return bool(asked) and extents.isdisjoint(asked)


def _loaded(body: Body, types: tuple[Type, ...]) -> list[str]:
    """The params that a program loads from. One that only tells sizes, which the kernel's own arguments have too, is
    compared with them where the kernel is called."""
    own = {dim.symbol for type_ in types for dim in sizes_in(type_)}
    told = body.doing.told
    return [name for name in body.doing.reads if name != typed.STREAM and not (name in told and told[name] <= own)]


def _apart(kernel: Kernel, program: typed.TypedFunction, params: Sequence[str]) -> str:
    """Why a kernel is no tile program: its programs do what has an order, or load from `params`, of which each would
    have its own. Empty for one that is. Each program has its own stream of random numbers, unless it has parts of a
    loop."""
    if RANDOM in program.effects and kernel.meant:
        return "it draws random numbers block by block; those of a `key=` belong to elements"
    ordered = program.effects - {RANDOM}
    if ordered:
        return f"its programs have the effect {min(ordered)}, which has an order"
    return f"it reads the param `{params[0]}`; as an argument it would be loaded by blocks" if params else ""


def _program(kernel: Kernel, program: typed.TypedFunction, leading: tuple[Dim, ...]) -> typed.Program:
    """What the kernel does block by block."""
    cuts = [(block, cut) for block, cut in kernel.cuts.items() if block != kernel.blocks["d"]]
    blocks = tuple(typed.Cut(block, cut.size) for block, cut in cuts)
    own = tuple(block for block, _ in cuts if block in kernel.own)
    numbers = tuple(kernel.number(block) for block, _ in cuts)
    chosen = {*(block.symbol for block, _ in cuts), *numbers}
    fixed = tuple((name, size) for name, size in kernel.sizes().items() if name not in chosen)
    schedule, space = kernel.said_schedule, kernel.space
    return typed.Program(program.symbol, leading, blocks, own, numbers, fixed, schedule, space, _pinned(kernel))


def _pinned(kernel: Kernel) -> tuple[tuple[str, int], ...]:
    """The blocks that the kernel means, and their sizes."""
    return tuple((block.symbol or "", size) for block, size in kernel.meant.items() if block in kernel.cuts)


WHOLE = "load the whole dim, or go over its blocks: `for i in tile.range_k(x, T.k)`, and add what they give"
ONLINE = "a loop goes on by sums, maxima and what joins parts of blocks: `tesserac explain E0511` has them all"
"""What to do instead, of a loop that goes on from what it has so far and of all else."""


def meant_blocks(body: Body, find: Find, pins: frozenset[str]) -> tuple[str, ...] | None:
    """The blocks that a kernel's result depends on, all of which its own schedule must pin; None after a diagnostic. A
    schedule chooses any other."""
    kernel, program = body.kernel, body.functions[-1]
    found = [] if kernel is None else block_dependences(kernel, program, find)
    free = next((one for one in found if one.block not in pins), None)
    if free is None:
        return tuple(dict.fromkeys(one.block.removeprefix("T.") for one in found))
    shown = code_at(body, free.at)
    draft = body.sink.error(E0511, at=free.at, block=free.block, expression=shown, how=free.how)
    draft.remark("a schedule chooses blocks, and no schedule changes a result")
    draft.remark(ONLINE if free.carried else WHOLE)
    for block, span in kernel.own.items() if kernel is not None else ():
        if kernel is not None and kernel.block_name(block) == free.block:
            suggest_whole(body, draft, span)
    pinned = f"Schedule({BLOCK_NAMES[free.block.removeprefix('T.')]}=64)"
    draft.remark(f"or pin {free.block} where the kernel means blocks of one size: `@kernel.schedule({pinned})`")
    return None


def _seen_by_one(signature: Signature, types: Sequence[Type]) -> tuple[Type, ...]:
    """The parameters as one program sees them."""
    whole, given = whole_parameters(signature), zip(signature.parameters, types, strict=True)
    return tuple(type_ if parameter.name in whole else _of_one_program(type_) for parameter, type_ in given)


def _of_one_program(type_: Type) -> Type:
    """What one program sees of an argument."""
    if isinstance(type_, TensorType):
        return TensorType(type_.dims[-TILE_RANK:], type_.dtype, type_.policy)
    return with_parts(type_, map(_of_one_program, parts(type_) or ())) if isinstance(type_, Aggregate) else type_


def _leading(body: Body, signature: Signature, types: Sequence[Type]) -> tuple[Dim, ...]:
    """The leading dims of the grid: those of the first parameter that has some. All have as many programs, or 1 in the
    place of dims of which every index sees the same."""
    first: tuple[Dim, ...] = ()
    whole = whole_parameters(signature)
    for parameter, type_ in zip(signature.parameters, types, strict=True):
        for own in _leading_dims(type_) if parameter.name not in whole else ():
            first = first or own
            left, right = product(first), product(own)
            if body.facts.same(left, right) or stretches(own, first):
                continue
            if body.may_agree(left, right):
                require_guard(body, "equal", left, right, parameter.span)
                continue
            dims = {"own": dims_text(own), "other": dims_text(first)}
            draft = body.sink.error(E0506, at=parameter.span, name=parameter.name, **dims)
            draft.remark(_as_rows(own, type_))
    return first


def _as_rows(own: tuple[Dim, ...], type_: Type) -> str:
    """What to do of leading dims that are no programs."""
    said = "each index of a dim before the last two is a program"
    if not isinstance(type_, TensorType):
        return said
    *_, rows, columns = type_.dims
    every = ", ".join(map(str, (*own, rows, columns)))
    return f"{said}; a program reads any of the matrices of `Tensor[{every}, ...]`: `tile.load(x[i], rows=T.m)`"


def _leading_dims(type_: Type) -> list[tuple[Dim, ...]]:
    if isinstance(type_, TensorType):
        return [type_.dims[:-TILE_RANK]] if type_.rank > TILE_RANK else []
    return [dims for part in parts(type_) or () for dims in _leading_dims(part)]


def _enter_tiles(
    body: Body, signature: Signature, types: Sequence[Type], kernel: Kernel
) -> list[typed.Stmt]:
    """Parameters as one program sees them: one that is a tile itself is in its accumulation type, and a cache tells how
    much of it is valid."""
    statements: list[typed.Stmt] = []
    dims, whole = body.declared.parameter_dims, whole_parameters(signature)
    for parameter, type_ in zip(signature.parameters, types, strict=True):
        body.scope.bind(Binding(parameter.name, type_, parameter.span, None))
        if parameter.name not in whole:
            dims[parameter.name] = dims.get(parameter.name, ())[-TILE_RANK:]
        if isinstance(type_, TensorType) and type_.policy != NO_POLICY:
            kernel.policies.setdefault(type_.dtype, type_.policy)
        value = body.local(parameter.name, parameter.span)
        kernel.cache = kernel.cache or cache_length(value)
        if isinstance(parameter.spec, BareTileSpec) and isinstance(value.type, TensorType):
            wide = apply_operator(body, Wide(), [value], parameter.span, parameter.span)
            body.scope.bind(Binding(parameter.name, wide.type, parameter.span, wide))
            statements.append(typed.Bind(parameter.span, parameter.name, wide))
    return statements


def _return_stored(kernel: Kernel, block: typed.Block, body: Body, given: Mapping[str, Binding]) -> typed.Block:
    """A kernel that stores returns what it stored, in the order of the first stores. `given` is what it began with: a
    parameter that is still that was stored in a branch that is not taken."""
    if not kernel.stored or body.flow.returns:
        return block
    lost = [name for name in kernel.stored if body.scope.bindings.get(name) in (None, given.get(name))]
    if lost:
        body.sink.error(E0523, at=kernel.stored[lost[0]].span, name=lost[0])
        return block
    span = block[-1].span
    stored = [body.local(name, span) for name in kernel.stored]
    value = stored[0] if len(stored) == 1 else make_tuple(stored, span)
    body.flow.returns.append(value)
    return (*block, typed.Return(span, value))


def _cut_result(body: Body, kernel: Kernel, spec: TypeSpec | None, result: Type) -> None:
    """A block with which nothing is loaded, since all is read at computed places, cuts the dim of the result that the
    signature says where the block stands."""
    if isinstance(spec, TupleSpec) and isinstance(result, TupleType) and len(spec.items) == len(result.items):
        for own, type_ in zip(spec.items, result.items, strict=True):
            _cut_result(body, kernel, own, type_)
    if not isinstance(spec, TensorSpec) or not isinstance(result, TensorType):
        return
    for said, dim in zip(reversed(spec.dims), reversed(result.dims), strict=False):
        free = dim in kernel.blocks.values() and dim not in kernel.cuts and dim != kernel.blocks["d"]
        if free and said.dim.symbols() <= body.sizes.symbols.keys() - body.sizes.untold_symbols:
            kernel.cuts[dim] = CutDim(said.dim.substitute(body.sizes.symbols), said.span)
            kernel.own.setdefault(dim, said.span)


def _check_blocks(body: Body, kernel: Kernel, result: Type) -> None:
    """A block of this program's own is one of the result; every block that is used cuts something."""
    if body.has_failed:
        return
    in_result = sizes_in(result)
    for block, span in kernel.own.items():
        if block not in in_result:
            draft = body.sink.error(E0504, at=span, block=kernel.block_name(block))
            draft.remark("load the whole dim, or go over its blocks: `for i in tile.range_k(x, T.k)`")
            suggest_whole(body, draft, span)
    for block, span in kernel.used.items():
        if block in kernel.blocks.values() and block not in kernel.cuts:
            draft = body.sink.error(E0505, at=span, block=kernel.block_name(block))
            if block == kernel.blocks["d"]:
                draft.remark("say what it is where that is loaded, `tile.load(x, rows=T.m, cols=T.d)`")


def _check_meant(body: Body, kernel: Kernel, block: typed.Block) -> None:
    """A block that is meant, and of which no program has its own, has a size only inside a loop over its blocks: the
    last of them may be smaller than the others."""
    for meant in kernel.meant.keys() - kernel.own.keys():
        found = None if body.has_failed else _outside(block, meant)
        if found is not None:
            name = kernel.block_name(meant)
            body.sink.error(E0515, at=found.span, block=name).remark(f"make it inside the loop over blocks of {name}")


def _outside(block: typed.Block, meant: Dim) -> typed.Expr | None:
    """The first expression outside all loops over blocks of a size whose type has that size."""
    waiting: list[object] = [block]
    while waiting:
        part = waiting.pop()
        if isinstance(part, typed.For) and part.cut is not None and part.cut.block == meant:
            waiting.append(tuple(typed.Local(c.type, part.span, c.name) for c in part.carried))
        elif isinstance(part, typed.Node) and isinstance(part.type, TensorType) and meant in part.type.dims:
            return part  # type: ignore[return-value]
        else:
            waiting += reversed(children(part))
    return None


def _guards(body: Body, signature: Signature, kernel: Kernel) -> tuple[typed.Guard, ...]:
    """What the program asks of sizes; of blocks that are meant it is asked of whole ones, and of the last."""
    ends = [kernel.sizes() | {block.symbol or "": last for block, (_, last) in _ends(kernel).items()}]
    if kernel.meant:
        ends.append(kernel.sizes() | {block.symbol or "": whole for block, (whole, _) in _ends(kernel).items()})
    found = where_guards(body, signature)
    asked = (replace(g, left=g.left.substitute(end), right=g.right.substitute(end)) for end in ends for g in found)
    return tuple(dict.fromkeys(asked))


def _ends(kernel: Kernel) -> dict[Dim, tuple[Dim, Dim]]:
    """The sizes of the blocks that are meant: of a whole one, and of the last."""
    sizes: dict[Dim, tuple[Dim, Dim]] = {}
    for block, size in kernel.meant.items():
        if block in kernel.cuts:
            over = kernel.cuts[block].size
            sizes[block] = Dim.const(size), over - (over.ceil_div(size) - ONE) * size
    return sizes


def _block_names(kernel: Kernel) -> list[str]:
    """The sizes of blocks, and which of them are this program's."""
    return list(kernel.sizes())


# Note [One block spans its dim]
# Bits never depend on the sizes of blocks, so any schedule may stand for all. Here every block is as large as the dim
# it cuts: `T.m` is the number of rows of the problem, and a loop over blocks has one iteration, whose sums are
# contractions of the whole dim, cut at segments and joined by the tree as everywhere. What tiles of another size make
# of the same body is for the tile room to say; the program is what it starts from, since its sizes of blocks are still
# symbols.
