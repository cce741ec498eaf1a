"""The GPU dialect: what the threads of one block do. Layouts, copies, stages, roles and barriers are explicit.

Kernel
    gpu.kernel @name {grid, warps, when, variant_of, takes, mapped} { ^(pid..., memref..., tensor_map...): ... }
        `when` are the conditions on sizes under which this variant of the neutral kernel `variant_of` may run. A launch
        passes `takes` memories; others are workspace. `mapped` names for each tensor map the memory it reads. The
        roles of a `persistent` kernel run for one program after the other. `work` says which programs have most to do
        and come first: the last along the last dim of the grid (`rises`), the first (`falls`), or the last (`varies`).
    gpu.program() : index                       the program's number in the grid
    gpu.alloc() : memref | stages | barriers    memory of the block, shared by its threads
Registers
    gpu.axis(start, stop) {words} : axis        as tile.axis; rows along one with `words` may be held turned by a place
    gpu.load(mem, at...) {ahead} : fragment     each thread its elements, in vectors where they are aligned and inside;
                                                the second cache is asked for those of the program `ahead` places later
    gpu.store(fragment, mem, at...) {team}      elements outside the axes are not written; of copies, one is, in the
                                                block or, where `team` says so, in each team of threads
    gpu.gather(mem, at..., status?, axis...) {maps, bounds, bounded}
                                                as tile.gather; the axes end the dims `bounded` of the result
    gpu.scatter(fragment, mem, at..., there?, status?) {bounds, kind}, gpu.index(fragment)
                                                as in neutral Tile IR
    gpu.full / iota / map / cast                as in neutral Tile IR, on fragments of one layout; a map with `narrow`
                                                gives numbers that only a `gpu.round` to that type reads
    gpu.round(x) : fragment                     what a map with `narrow` gave, rounded to that type
    gpu.mask(x, axis) {dim, value}              elements outside the axis become `value`
    gpu.fold(x) {dim, kind, width}              element i: x[i], x[i + width], ... of one thread, folded ascending
    gpu.butterfly(x) {dim, kind, lane}          element i with the one that the lane `lane` away holds; halves `dim`
    gpu.halve(x) {dim, kind, lane, step}        the same, but each of the two lanes has one side of `step` of the result
    gpu.relabel(x) : fragment                   the same registers, with other positions along a dim that is folded
    gpu.shuffle(x) {lane}                       what the lane `lane` away (exclusive or) holds
    gpu.spread(x) : fragment                    numbers that one lane of a warp has, in all lanes that want them
    gpu.less(i, n) : scalar<bool>, gpu.choose(flag, x, y)
    gpu.unless(flags, x) { ... gpu.yield }      x where all flags of a warp hold, elsewhere what the region gives
Several blocks at once
    gpu.team() {size} : index                   the number of the team of `size` threads that this thread is in
    gpu.publish(x, mem), gpu.collect(mem)       each warp's value through shared memory: one result per warp
    gpu.scan_rows(room, totals, axis) {dim, kind}
                                                running folds of a block in shared memory along a dim, in place, each
                                                row by one thread; the last of each row goes to `totals`
    gpu.sort(mem, at..., out, at..., pairs) {dims, descending, elements}
                                                as tile.sort; all threads of the block, with room for a pair of key and
                                                place per element
Loops
    gpu.for(low, high, init...) {step}          as tile.for
    gpu.tree(n, empty...) { block } { combine } as tile.tree: a binary counter in the memory of a thread, `levels` deep;
                                                what there is room for of its first level is in shared memory, `waiting`
    gpu.running(n, empty...) { block } { combine } {levels}
                                                as tile.running, with such a counter
    gpu.yield(...)
Copies in flight
    gpu.copy(mem, at..., stages, slot)          starts a copy into a stage; zeros where the axes end. Gives a token.
    gpu.copy_rows(stages, slot, mem, at..., status?, axis...) {maps, bounds, bounded}
                                                the same of rows at computed places, as of gpu.gather
    gpu.commit(copy...), gpu.wait(group) {pending}
                                                a group of copies; wait until at most `pending` later groups are left
    gpu.tensor_copy(map, at..., stages, slot, barriers)       `at` in the order of the map's dims:
                                                one thread starts it; the bytes arrive at the barrier of the slot
    gpu.expect(barriers, slot) {bytes}          announces bytes, and arrives
    gpu.next(barriers) : slot, parity           the slot of a ring whose turn it is for this thread, and the parity of
                                                its phase; each time the next one
    gpu.await(barriers, slot, parity)           until the phase of that parity is complete
    gpu.arrive(barriers, slot) {late}           one arrival per warp; a late one only where there is a slot
    gpu.arrive_copied(barriers, slot)           of each thread one arrival, when all copies that it started are complete
    gpu.see_copies()                            what those brought is seen by the units that multiply
    gpu.barrier()                               all threads of the block
    gpu.warp_barrier()                          all threads of each warp
    gpu.role() {name, first, warps, registers} { ... gpu.end }
                                                what only some warps do, and how many registers each of their threads
                                                has (0: as it was); of a `producer` one thread runs it, a `finisher`
                                                does what follows a product
    gpu.give_registers() {first, warps, registers}  a whole group of warps keeps so many for each thread
Products
    gpu.multiply(a, slot, b, slot, acc) {unit, first} : fragment, token<matrix>      by the columns of b from `first` on
    gpu.add_columns(x, part) {first} : fragment x with a block added to its columns from `first` on
    gpu.put(fragment, stages)                   a computed operand into the one slot of its stage
    gpu.multiply_held(a, b, slot, acc, sums..., axis) {unit} : fragment..., token<matrix>
                                                a product whose left operand is a fragment
                                                (and the sums of its rows, where stages of b have ones);
                                                of terms along an axis, where that is said, none if it is empty
    gpu.sum_rows(a, acc) {unit} : fragment      the product of what was put into a stage, or of a fragment, with ones;
    gpu.column(sums) : fragment                 one of the 8 equal columns that it has of a fragment
    gpu.fill_ones(stages)                       the ones behind each stage
    gpu.zero_behind(stages, slot, axis)         rows of a stage behind the end of the axis become zeros, for this warp
    gpu.take_turn(), gpu.pass_turn()            warp groups start products one after the other: each waits for the one
                                                before it, and lets the next one in
    gpu.wait_mma(token, acc...) {pending} : fragment... accumulators once at most `pending` later products are under way
    gpu.no_product() {unit} : token<matrix>     stands for one that a loop has left under way
Gone when lowering is done
    gpu.stage(mem, at...) {depth, layout, ring} : tile  a block wanted in shared memory; those of one ring take turns;
                                                with `maps` it is read as by gpu.gather  (pipeline, roles)
    gpu.turned(stage) {layout} : tile           the same block with its dims exchanged, in one stage  (roles)
    gpu.dot(a, b, acc) {unit}                   a product of such blocks, of stages, and until
                                                `operands` of fragments              (pipeline, roles)
    gpu.reduce(x, axis...) {kind, axes, order}  as tile.reduce                       (reduce)
    gpu.scan(x, axis, room, totals) {kind, dim} as tile.scan                         (scans)
    gpu.scratch() : memref<..., local>          as tile.alloc                        (scratch)
    gpu.view(mem) : memref | stages             the same memory under other dims and strides
    gpu.convert(x) : fragment                   the same block in another layout     (convert)
"""

from __future__ import annotations

from collections.abc import Callable

from tesserac.ir.core import Op, define_op
from tesserac.ir.passes import Level
from tesserac.tile.gpu.model import verifiers as rules

GPU = Level("gpu", frozenset({"schedule", "tile", "gpu", "scalar", "index", "form"}))
"""`tile` is here for the host's `tile.launch` only."""

WITHOUT_EFFECT = "program axis full iota fold less team reduce add_columns column"
WITH_EFFECT = """alloc scratch scatter scan publish collect fill_ones zero_behind no_product expect await arrive
    arrive_copied see_copies barrier warp_barrier take_turn pass_turn give_registers"""
"""Operations without a rule of their own."""

PURE: dict[str, Callable[[Op], None]] = {
    "gpu.cast": rules.verify_cast,
    "gpu.choose": rules.verify_choose,
    "gpu.convert": rules.verify_convert,
    "gpu.dot": rules.verify_dot,
    "gpu.index": rules.verify_index,
    "gpu.map": rules.verify_map,
    "gpu.mask": rules.verify_same_type,
    "gpu.relabel": rules.verify_relabel,
    "gpu.round": rules.verify_round,
    "gpu.turned": rules.verify_stage,
    "gpu.unless": rules.verify_unless,
    "gpu.view": rules.verify_view,
}
"""Operations without effects, and what each must be like."""

ACTING: dict[str, Callable[[Op], None]] = {
    "gpu.butterfly": rules.verify_butterfly,
    "gpu.halve": rules.verify_halve,
    "gpu.commit": rules.verify_commit,
    "gpu.copy": rules.verify_copy,
    "gpu.copy_rows": rules.verify_copy_rows,
    "gpu.for": rules.verify_for,
    "gpu.gather": rules.verify_gather,
    "gpu.kernel": rules.verify_kernel,
    "gpu.load": rules.verify_load,
    "gpu.multiply": rules.verify_multiply,
    "gpu.multiply_held": rules.verify_multiply_held,
    "gpu.next": rules.verify_next,
    "gpu.put": rules.verify_put,
    "gpu.role": rules.verify_role,
    "gpu.running": rules.verify_running,
    "gpu.scan_rows": rules.verify_scan_rows,
    "gpu.shuffle": rules.verify_same_type,
    "gpu.spread": rules.verify_convert,
    "gpu.sort": rules.verify_sort,
    "gpu.stage": rules.verify_stage,
    "gpu.store": rules.verify_store,
    "gpu.sum_rows": rules.verify_sum_rows,
    "gpu.tensor_copy": rules.verify_tensor_copy,
    "gpu.tree": rules.verify_tree,
    "gpu.wait": rules.verify_wait,
    "gpu.wait_mma": rules.verify_wait_mma,
}
"""Those that read or write memory, wait, or hold regions that do."""

for _name in (*WITHOUT_EFFECT.split(), *WITH_EFFECT.split()):
    define_op(f"gpu.{_name}", pure=_name in WITHOUT_EFFECT.split())
for _name, _verify in (*PURE.items(), *ACTING.items()):
    define_op(_name, pure=_name in PURE, verify=_verify)
for _name in ("gpu.return", "gpu.yield", "gpu.end"):
    define_op(_name, pure=False, terminator=True)
