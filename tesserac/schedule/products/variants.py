"""Products of sizes that only a run knows: variants, chosen by predicates on the sizes. All give the same bits.

    schedule.launch(%b, %panels) {kind = "pack"};  schedule.launch(%a, %panels, %c) {kind = "contract"}
becomes, on a CPU,
    schedule.select() {predicates = [M >= 193]} { both } { schedule.launch(%a, %b, %c) {kind = "contract"} }

With few rows each element of the right operand is used a few times only: laying it out first would be most of the work,
so each program lays out its own block. With fewer still (M <= 8) nothing is laid out at all: a third region has a
launch that reads the right operand as it lies. Beside these is one for a right operand that is frozen
(`host/frozen_operands.py`), where the number of rows is known too. On a GPU further variants have smaller blocks, for
sizes at which the larger ones would leave multiprocessors idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesserac.ir.builder import Builder
from tesserac.ir.core import Op, clone_op
from tesserac.ir.forms import operand_maps, tensor_type
from tesserac.schedule.costs.tiles import (
    EACH,
    FEW_ROWS_COLUMNS,
    FEWEST_ROWS,
    FEWEST_TILED_BLOCK,
    LONG_RUN,
    MOST_ROWS,
    PASSING_ROWS,
    SMALL_IN_A_ROUND,
    SMALL_WORD_BLOCK,
    VERY_FEW_ROWS,
    WIDE,
    WORD_BLOCKS,
    Block,
    Problem,
    candidates,
    enough_programs,
    few_rows,
    packs_long_runs,
    words_at_once,
)
from tesserac.schedule.dialect import (
    Predicate,
    launch_ins,
    launch_kind,
    launch_loops,
    launch_outs,
    launch_places,
    launch_space,
)
from tesserac.schedule.forms.views import is_copy, permuted
from tesserac.schedule.host.frozen_operands import can_be_kept, keep_pack
from tesserac.schedule.machine import Machine
from tesserac.schedule.model.access import view_source
from tesserac.schedule.model.reason import because
from tesserac.schedule.model.select import select
from tesserac.schedule.model.space import computing
from tesserac.schedule.products.contract import (
    ASKED,
    can_read_rows,
    problem_of,
    product_types,
    reads_windows,
    schedule_contract,
    schedule_fewest_rows,
    schedule_windows,
)
from tesserac.schedule.products.shifted import WHOLE_DIGITS
from tesserac.types.dims import Dim, product

LOW_BLOCK = Block(64, 256, 64)
MANY = 1 << 20
"""Columns that are enough for any number of threads; times a number of rows they are no more than 64 bits have."""
SMALL_OPERAND = 4096
"""Elements of a right operand that are laid out in less time than choosing between variants is worth."""


def schedule_product(launch: Op, machine: Machine) -> None:
    """Schedules a contraction, with a variant for small sizes where that pays."""
    rows = launch_space(launch)[-3].constant
    if machine.packs_operands and rows is not None and rows <= FEWEST_ROWS and can_read_rows(launch, machine):
        schedule_fewest_rows(launch)
        return
    if machine.packs_operands and reads_windows(launch, machine):
        schedule_windows(launch)
        return
    plain = clone_op(launch, {})
    schedule_contract(launch, problem_of(launch, machine), machine)
    if machine.packs_operands:
        _variants_of_rows(launch, plain, machine)
    else:
        _variants_for_few_programs(launch, plain, machine)
    if plain.parent is None:
        plain.erase()


def _variants_for_few_programs(launch: Op, plain: Op, machine: Machine) -> None:
    """Of blocks smaller than the best one the largest that leaves few multiprocessors idle; else the smallest."""
    problem, loops = problem_of(launch, machine), launch_loops(launch)
    size = loops[-3].block * loops[-2].block
    smaller = [b for b in candidates(problem, machine) if b.rows * b.columns < size]
    if WHOLE_DIGITS in launch.attrs and machine.has_async_matrix_unit and problem.narrow:
        _variant_for_few_channels(launch, plain, problem, machine)
    if not smaller or _programs(launch).constant is not None or ASKED in launch.attrs:
        return
    choices, block_launch = _very_few_rows(plain, problem, machine), launch
    for block in smaller:
        useful = _useful_programs(block_launch, smaller, problem, machine)
        enough = Predicate("at_least", useful, Dim.const(enough_programs(machine)))
        choices.append((enough, [block_launch]))
        block_launch = plain if block is smaller[-1] else clone_op(plain, {})
        few = replace(problem, leads=1, rows=block.rows, columns=block.columns)
        schedule_contract(block_launch, few, machine, block)
        because(block_launch, f"fewer than {enough_programs(machine)} larger blocks")
    select(choices, [block_launch], launch)


def _very_few_rows(plain: Op, problem: Problem, machine: Machine) -> list[tuple[Predicate, list[Op]]]:
    """A variant whose blocks have few rows of what copies would else fill with zeros; none where rows are known."""
    rows = launch_space(plain)[-3]
    if rows.constant is not None or problem.by_bytes or not (machine.has_async_matrix_unit and problem.narrow):
        return []
    few = clone_op(plain, {})
    block = candidates(problem, machine)[-1]
    schedule_contract(few, replace(problem, leads=1, rows=1, columns=block.columns), machine, block)
    few.attrs[MOST_ROWS] = VERY_FEW_ROWS
    because(few, f"at most {VERY_FEW_ROWS} rows")
    return [(Predicate("at_least", Dim.const(VERY_FEW_ROWS), rows), [few])]


def _variant_for_few_channels(launch: Op, plain: Op, problem: Problem, machine: Machine) -> None:
    """Of windows, which are many columns, and weights of few channels: blocks of half the height."""
    low = clone_op(plain, {})
    rows = launch_space(launch)[-3]
    schedule_contract(low, replace(problem, rows=LOW_BLOCK.rows), machine, LOW_BLOCK)
    because(low, f"at most {LOW_BLOCK.rows} rows")
    enough = _programs(low).floor_div(enough_programs(machine)).min(1)
    select([(Predicate("at_least", enough * LOW_BLOCK.rows, rows), [low])], [launch], launch)


def _useful_programs(launch: Op, able: Sequence[Block], problem: Problem, machine: Machine) -> Dim:
    """The programs of a launch; none where others do the same sooner: blocks of half the height and twice the width, if
    there would be fewer, since rows end in the first half of a block, and of words what `_is_soon_in_words` says."""
    rows, columns, terms = launch_loops(launch)[-3:]
    blocks, count = [(b.rows, b.columns) for b in able], _programs(launch)
    if problem.in_words and (rows.block, columns.block, terms.block) in WORD_BLOCKS:
        return count * _is_soon_in_words(launch, Block(rows.block, columns.block, terms.block), machine)
    if (rows.block // 2, 2 * columns.block) not in blocks:
        return count
    halves = rows.size.ceil_div(rows.block // 2)
    return count * (halves - 2 * rows.size.ceil_div(rows.block) + 1)


def _is_soon_in_words(launch: Op, block: Block, machine: Machine) -> Dim:
    """One, or less where other blocks of words take fewer rounds: see Note [Rounds of words] of `tiles`. In a round a
    multiprocessor has a block of the widest, or the halves of one, and takes as long as for seven small ones."""
    widest, half, small = (Block(*shape) for shape in (*WORD_BLOCKS, SMALL_WORD_BLOCK))
    wide, halves = (
        _programs(launch, chosen).ceil_div(machine.cores * words_at_once(chosen)) for chosen in (widest, half)
    )
    mine = wide if block == widest else halves
    smaller = _programs(launch, small).ceil_div(machine.cores)
    soon = (smaller - SMALL_IN_A_ROUND * mine + 2).min(1)
    return soon.min(halves - wide + 1) if block == widest else soon


def _programs(launch: Op, block: Block | None = None) -> Dim:
    """Those of its blocks, or of others."""
    *leads, rows, columns, _ = launch_loops(launch)
    high, wide = (rows.block, columns.block) if block is None else (block.rows, block.columns)
    blocks = [*((loop, loop.block) for loop in leads), (rows, high)]
    parallel = [loop.size.ceil_div(size) for loop, size in blocks if loop.kind == "parallel"]
    return product([*parallel, columns.size.ceil_div(wide)])


def _variants_of_rows(launch: Op, plain: Op, machine: Machine) -> None:
    """Variants by the number of rows, as far as it is not known, and one that reads a pack which is kept."""
    pack = _packing(launch, plain)
    if pack is None or _is_small(launch):
        return
    variants, lies = _by_rows(pack, launch, plain, machine)
    if can_be_kept(pack):
        keep_pack(pack, launch, variants, few_rows(machine), lies=lies)
    if variants == [plain]:
        _forget(pack, launch)


def _by_rows(pack: Op, launch: Op, plain: Op, machine: Machine) -> tuple[list[Op], bool]:
    """What stands where the product stood, which reads `pack` if there are many rows, and whether fewest read the right
    operand as it lies."""
    rows, most = launch_space(launch)[-3], few_rows(machine)
    known = rows.constant
    before_grid = known is not None and known > most and not _is_wide(plain, machine)
    if before_grid or not _read_directly(plain, launch, pack):
        return [pack, launch], False
    lies = can_read_rows(plain, machine)
    if known is not None:
        assert launch.parent is not None
        launch.parent.insert(launch.parent.place(launch), plain)
        if lies and known <= FEWEST_ROWS:
            schedule_fewest_rows(plain)
        else:
            _schedule_few_rows(plain, known, machine)
        return [plain], lies
    if problem_of(plain, machine).left_stays:
        return _by_columns(pack, launch, plain, machine), lies
    choices, last = [(Predicate("at_least", rows, Dim.const(most + 1)), [pack, launch])], plain
    if lies:
        last = clone_op(plain, {})
        choices.append((Predicate("at_least", rows, Dim.const(FEWEST_ROWS + 1)), [plain]))
        schedule_fewest_rows(last)
    elif packs_long_runs(machine, *product_types(computing(plain)[0])):
        choices.append(_in_long_runs(clone_op(plain, {}), machine))
    made = select(choices, [last], launch)
    _schedule_few_rows(plain, most, machine, FEW_ROWS_COLUMNS)
    because(plain, f"at most {most} rows: the right operand is laid out block by block")
    return [made], lies


def _is_wide(launch: Op, machine: Machine) -> bool:
    """Whether columns of a product of which left panels stay are known to be enough for each thread of all cores."""
    columns = launch_space(launch)[-2].constant
    wide = columns is not None and columns >= max(WIDE, EACH * machine.cores)
    return wide and problem_of(launch, machine).left_stays


def _by_columns(pack: Op, launch: Op, plain: Op, machine: Machine) -> list[Op]:
    """The same where panels of the left operand stay: where there are enough columns, threads pack those of their
    blocks, whatever the number of rows."""
    *_, rows, columns, _ = launch_space(launch)
    few = (Dim.const(few_rows(machine) + 1) - rows).max(0).min(1)
    wide = columns.floor_div(WIDE).min(1)
    choices = [(Predicate("each_thread", columns * wide + few * MANY, Dim.const(EACH)), [plain])]
    if can_read_rows(plain, machine):
        fewest = clone_op(plain, {})
        schedule_fewest_rows(fewest)
        choices.insert(0, (Predicate("at_least", Dim.const(FEWEST_ROWS), rows), [fewest]))
    made = select(choices, [pack, launch], launch)
    _schedule_few_rows(plain, PASSING_ROWS, machine, FEW_ROWS_COLUMNS)
    wanted = f"at most {few_rows(machine)} rows, or {WIDE} columns, {EACH} of each thread"
    because(plain, f"{wanted}: each lays out those it has")
    return [made]


def _in_long_runs(fewest: Op, machine: Machine) -> tuple[Predicate, list[Op]]:
    """The variant of few rows whose threads have so many columns each that they are worth long runs."""
    problem, block = problem_of(fewest, machine), FEWEST_TILED_BLOCK
    schedule_contract(fewest, replace(problem, rows=block.rows), machine, block)
    because(fewest, f"at most {block.rows} rows: the right operand is packed in long runs")
    *_, rows, columns, _ = launch_space(fewest)
    few = (Dim.const(block.rows + 1) - rows).max(0).min(1)
    return Predicate("each_thread", few * columns, Dim.const(LONG_RUN)), [fewest]


def _schedule_few_rows(plain: Op, rows: int, machine: Machine, columns: int | None = None) -> None:
    problem = problem_of(plain, machine)
    schedule_contract(plain, replace(problem, rows=rows, columns=columns or problem.columns), machine)


def _forget(pack: Op, launch: Op) -> None:
    """Takes away what only a pack that is kept was made for."""
    (panels,) = launch_outs(pack)
    launch.erase()
    pack.erase()
    if not panels.uses and panels.defining_op is not None:
        panels.defining_op.erase()


def _is_small(launch: Op) -> bool:
    """Whether the right operand is known to be so small that laying it out never shows."""
    elements = product(launch_space(launch)[-2:]).constant
    return elements is not None and elements <= SMALL_OPERAND


def _packing(launch: Op, plain: Op) -> Op | None:
    """The launch that lays out the right operand, if it only copies and nobody else reads what it writes."""
    for value in launch_ins(launch):
        for user, _ in value.uses:
            if user.name == "schedule.launch" and launch_kind(user) == "pack" and value in launch_outs(user):
                alone = {reader for reader, _ in value.uses} == {user, launch, plain}
                return user if alone and is_copy(computing(user)[0]) else None
    return None


def _read_directly(plain: Op, launch: Op, pack: Op) -> bool:
    """Makes the contraction `plain` read what the packing reads; False if views cannot say how."""
    copy, (panels,), (source,) = computing(pack)[0], launch_outs(pack), launch_ins(pack)
    order = tuple(i for i in operand_maps(copy)[0] if i is not None)
    ranks = {len(order), tensor_type(copy.operands[0]).rank, tensor_type(copy.result).rank}
    if len(ranks) > 1:
        return False
    position, size = launch.operands.index(panels), len(plain.body.ops)
    argument = plain.body.args[position]
    readers = list(argument.uses)
    argument.type = pack.body.args[0].type
    builder, value = Builder.before(plain.body.ops[0]), argument
    for view in view_source(copy.operands[0])[1]:
        value = builder.value("form.view", (value,), view.result.type, view.attrs)
    value = permuted(builder, value, order)
    for user, place in readers:
        user.set_operand(place, value)
    plain.set_operand(position, source)
    plain.attrs["places"] = ((),) * (len(plain.body.ops) - size) + launch_places(plain)
    return True
