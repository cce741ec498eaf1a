"""The way of a function through the levels, to be read from top to bottom: this is the list of passes.

Enters: typed functions. Leaves: every level that was made, for whoever wants to look. Who needs only some of the passes
takes them out of these lists (`chosen`, `before`). Under tests every pass is verified and has a picture, before and
after: those over the Graph in the docstrings of their modules, the others in `tests/cases/passes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tesserac.base.dataclass import dataclass
from tesserac.check.model.typed import TypedFunction
from tesserac.graph.build import build_module
from tesserac.graph.devices import alone
from tesserac.graph.passes.algebra import algebra
from tesserac.graph.passes.apply_laws import apply_laws
from tesserac.graph.passes.choose_forms import choose_forms
from tesserac.graph.passes.choose_kernels import choose_kernels
from tesserac.graph.passes.choose_rewrites import choose_rewrites
from tesserac.graph.passes.contract_sums import contract_sums
from tesserac.graph.passes.cse import cse, cse_forms
from tesserac.graph.passes.dce import dce
from tesserac.graph.passes.digest_programs import digest_programs
from tesserac.graph.passes.fix_sizes import fix_sizes
from tesserac.graph.passes.fold import fold
from tesserac.graph.passes.fold_views import fold_views
from tesserac.graph.passes.forget_operators import forget_operators
from tesserac.graph.passes.forget_stops import forget_stops
from tesserac.graph.passes.generalize import generalize
from tesserac.graph.passes.hoist import hoist
from tesserac.graph.passes.known_places import known_places
from tesserac.graph.passes.map_loops import inline_with_maps
from tesserac.graph.passes.match_kernels import match_kernels
from tesserac.graph.passes.mean_kernels import kernels_as_meant
from tesserac.graph.passes.narrow_operands import narrow_operands
from tesserac.graph.passes.narrow_terms import narrow_terms
from tesserac.graph.passes.place_kernels import Tuned, place_kernels, untuned
from tesserac.graph.passes.relax import relax
from tesserac.graph.passes.sink_weight_gradients import sink_weight_gradients
from tesserac.graph.passes.split_complex import split_complex
from tesserac.graph.passes.transforms import transforms
from tesserac.graph.passes.tune_forms import tune_forms
from tesserac.graph.passes.unroll_unit_loops import unroll_unit_loops
from tesserac.graph.passes.watch import watch
from tesserac.graph.rules import apply_rules
from tesserac.ir.core import Module
from tesserac.ir.passes import Pass, run_passes
from tesserac.schedule.auto import launch_pass
from tesserac.schedule.build import host_pass
from tesserac.schedule.costs.approximate_functions import approximate_functions
from tesserac.schedule.forms.branch_maps import branch_maps
from tesserac.schedule.forms.normal import normal_pass
from tesserac.schedule.forms.place_folds import sort_folds
from tesserac.schedule.forms.short_folds import short_folds_pass
from tesserac.schedule.forms.short_products import short_products_pass
from tesserac.schedule.forms.sink import sink_views
from tesserac.schedule.forms.sorted_elements import sorted_elements
from tesserac.schedule.forms.write_out_calls import write_out_calls
from tesserac.schedule.host.copies_before_loops import hold_parts
from tesserac.schedule.host.memory import assign_slots
from tesserac.schedule.loops.column_loops import column_loops
from tesserac.schedule.loops.invariant_packs import invariant_packs
from tesserac.schedule.loops.iterations import sum_iterations
from tesserac.schedule.loops.lookahead import ahead
from tesserac.schedule.loops.row_loops import row_loops
from tesserac.schedule.loops.sequential import sequential
from tesserac.schedule.loops.stepped import stepped
from tesserac.schedule.machine import Machine
from tesserac.schedule.maps.horizontal import join_pass
from tesserac.schedule.maps.pairs import pairs
from tesserac.tile.build import Holds, holds_nothing, tile_pass
from tesserac.tile.trial import tiles_of

CALL_PASSES: tuple[Pass, ...] = (
    apply_rules,  # algebra first, while library calls still have their names
    inline_with_maps,  # calls become bodies, loops that are maps or sums no loops; from here on a function is whole
    choose_forms,  # functions of a matrix whose structure is known, before its parts are all that is left of it
    choose_rewrites,  # kernels with other bits than what they implement, before any target has a say
    apply_laws,  # what the library computes in another way than a program writes it, so that derivatives are of that
    hoist,  # what is the same in every iteration leaves its loop, so that derivatives do not keep it per iteration
    contract_sums,  # sums of products, before maps would make them look like others
    algebra,  # linear algebra in its cheapest form, so that derivatives are of that
    transforms,  # derivatives and mapped functions become operators, which have no other names in them by now
    dce,  # what only a derivative was needed of, which laws would take to be needed beside it
    algebra,  # products that derivatives brought; before sizes are fixed, since a call's sizes decide nothing
    digest_programs,  # of kernels, while their sizes are symbols
    match_kernels,  # what kernels implement, wherever it stands by now, in derivatives too
)
PROGRAM_PASSES: tuple[Pass, ...] = (
    forget_operators,  # what the laws were told of them; equal parts of two applications are one from here on
    unroll_unit_loops,  # loops over blocks that span their dim; constants and sizes in their bodies become known
    apply_rules,  # what inlining brought side by side
    fold,  # constants that inlining made known
    forget_stops,  # behind rules and folding, which need not know that values are the same
    cse,  # after folding, since equal constants make equal operators
    dce,  # what the steps before left unused
    relax,  # what `numerics(fast)` allows, while operators say that they are in it
    generalize,  # names stop here: every operator becomes structural forms
    split_complex,  # complex tensors become pairs of real ones: what follows knows only those
    fold_views,  # views and constants go into the forms that read them
    cse_forms,  # behind views, which made operators differ whose forms do not
    narrow_operands,  # products read narrow numbers as they are stored
    narrow_terms,  # of softmaxes, which the hardware's instructions then do for
    known_places,  # gathers that need no check, once views and constants are where they are read
)
GRAPH_PASSES: tuple[Pass, ...] = (
    kernels_as_meant,  # those that no target has placed
    *PROGRAM_PASSES,
    sink_weight_gradients,  # sums that no iteration of a gradient's loop waits for, once their products are plain
)


def schedule_passes(machine: Machine) -> tuple[Pass, ...]:
    """Forms become a host program with launches."""
    return (
        *(() if machine.calls else (write_out_calls,)),  # for whoever has one host program per function
        *((approximate_functions,) if machine.kind == "gpu" else ()),  # while every function has a map of its own
        *((sum_iterations,) if machine.carries_sums else ()),  # a loop that only adds products is one launch
        *(() if machine.folds_places else (sort_folds, fold_views)),  # folds into places by a sort, and its views
        sorted_elements,  # what is only put in order needs no places
        short_folds_pass(machine),  # reductions over a few elements are maps, which fusion then takes
        short_products_pass(machine),  # so are products over a few terms that share nothing
        branch_maps,  # what branches share with their conditions need not be in memory
        sink_views,  # views of what a loop carries go behind its updates, so that these happen in place
        hold_parts,  # of what a loop changes, where they are read in it or behind it: no copy of the whole is needed
        normal_pass(machine),  # the form in which fusion decides
        host_pass(machine),  # groups become launches, values between them buffers
        launch_pass(machine),  # how each launch walks its space, and why
        *((invariant_packs,) if machine.packs_operands else ()),  # once for all iterations, where none changes them
        *((sequential,) if machine.compiles_loops else ()),  # loops of small launches are compiled as one
        *((stepped,) if machine.compiles_loops else ()),  # and those of one map, whose columns hold what they carry
        *((row_loops, column_loops) if machine.compiles_loops else ()),  # of others threads take rows that never meet
        *((ahead,) if machine.compiles_loops else ()),  # and one of them those that others do not wait for
        join_pass(machine),  # the same for several tensors is one launch; none of those loops has any
        *((pairs,) if machine.kind == "cpu" else ()),  # memory of complex numbers, of final launches
        assign_slots,  # buffers whose lives do not overlap share memory
    )


def tile_passes(machine: Machine, holds: Holds = holds_nothing) -> tuple[Pass, ...]:
    """Every launch becomes a kernel over blocks, which knows no target yet."""
    return (tile_pass(machine, holds),)


class Platform(Protocol):
    """A target: the last pass is its own."""

    @property
    def lowering(self) -> Pass: ...


def target_passes(platform: Platform) -> tuple[Pass, ...]:
    """Neutral tiles become those of one target: register blocks and vectors, or layouts, copies and barriers. From here
    on it is text: LLVM, and for a GPU PTX."""
    return (platform.lowering,)


@dataclass(frozen=True)
class Levels:
    """One program at each level that all targets share."""

    graph: Module
    forms: Module
    schedule: Module
    tile: Module


def lower(
    functions: Mapping[str, TypedFunction],
    entry: str,
    machine: Machine,
    sizes: Mapping[str, int],
    *,
    verify: bool,
    asserts: bool = True,
    debug: bool = False,
    tuned: Tuned = untuned,
    holds: Holds = holds_nothing,
) -> Levels:
    """An entry function and what it calls, down to neutral tiles; `sizes` are numbers in this compilation, and without
    `asserts` only those of the library stay; `debug` adds some, for inf and NaN; `tuned` says what tuning has found for
    kernels, `holds` whose code is there without being built. Raises SizesDemanded where an operator needs more sizes,
    SizesRefused where a guard forbids them, DevicesMissing where the program is one of many devices, ImpossibleSchedule
    where what it says of kernels does not fit the machine."""
    graph = build_module(list(functions.values()), {entry}, asserts=asserts)
    sized = fix_sizes({**alone(functions[entry]), **sizes})  # before folding, which makes use of the numbers
    tiles = tiles_of(machine, PROGRAM_PASSES, schedule_passes(machine), tuned)
    calls = (*CALL_PASSES, watch) if debug else CALL_PASSES
    kernels = (choose_kernels(tiles), place_kernels(tiles))  # which are taken, then which run as tiles
    forms = run_passes(graph, [*calls, sized, *kernels, *GRAPH_PASSES, tune_forms(tuned)], verify=verify)
    schedule = run_passes(forms, schedule_passes(machine), verify=verify)
    tile = run_passes(schedule, tile_passes(machine, holds), verify=verify)
    return Levels(graph, forms, schedule, tile)
