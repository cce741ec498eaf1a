"""Neutral Tile IR to the GPU dialect: the passes in order, for each variant of each kernel.

Enters: a module with `tile.kernel`s, and with a host program or without. Leaves: the same module, each kernel replaced
by its variants as `gpu.kernel`s. The host program is unchanged: a launch names the neutral kernel, and the first
variant whose conditions hold runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tesserac.ir.core import Module, Op, attr, clone_op
from tesserac.ir.rewrite import erase_dead
from tesserac.schedule.machine import Machine
from tesserac.schedule.rows.row_lengths import row_blocks
from tesserac.tile.dialect import Config
from tesserac.tile.gpu.barriers import insert_barriers
from tesserac.tile.gpu.kernels.interleave import interleave
from tesserac.tile.gpu.kernels.join_lines import join_lines
from tesserac.tile.gpu.kernels.join_parts import join_parts
from tesserac.tile.gpu.kernels.radix import split_sorts
from tesserac.tile.gpu.kernels.rooms import add_rooms
from tesserac.tile.gpu.kernels.scans import expand_scans
from tesserac.tile.gpu.kernels.scratch import place_scratch
from tesserac.tile.gpu.kernels.split_running import split_running
from tesserac.tile.gpu.kernels.split_terms import split_terms
from tesserac.tile.gpu.layouts.assign import assign_layouts
from tesserac.tile.gpu.layouts.clusters import CLUSTER, join_in_clusters
from tesserac.tile.gpu.layouts.convert import expand_conversions
from tesserac.tile.gpu.layouts.pad import pad_blocks
from tesserac.tile.gpu.layouts.pairs import mark_pairs
from tesserac.tile.gpu.layouts.row_copies import stage_rows
from tesserac.tile.gpu.layouts.variants import Variant, reduces_by_teams, variants
from tesserac.tile.gpu.model.errors import NoRolesError
from tesserac.tile.gpu.model.matrix import WGMMA
from tesserac.tile.gpu.model.values import text
from tesserac.tile.gpu.products.ahead import load_ahead
from tesserac.tile.gpu.products.early import start_early
from tesserac.tile.gpu.products.finish import finish_apart, planned_finish
from tesserac.tile.gpu.products.gathers import cut_gathers, row_places
from tesserac.tile.gpu.products.lifts import sink_lifts
from tesserac.tile.gpu.products.mask_early import mask_early
from tesserac.tile.gpu.products.operands import place_operands
from tesserac.tile.gpu.products.own_masks import own_masks
from tesserac.tile.gpu.products.pipeline import pipeline_copies
from tesserac.tile.gpu.products.promote import pair_products, promote_sums
from tesserac.tile.gpu.products.references import refer_terms
from tesserac.tile.gpu.products.roles import split_roles
from tesserac.tile.gpu.products.rotate import rotate_products
from tesserac.tile.gpu.products.row_sums import carry_sums
from tesserac.tile.gpu.products.shared_copies import share_copies
from tesserac.tile.gpu.products.split_maps import split_maps
from tesserac.tile.gpu.products.spread import spread_loads
from tesserac.tile.gpu.rows.held_rows import hold_rows
from tesserac.tile.gpu.rows.loads_first import load_first
from tesserac.tile.gpu.rows.prefetch import prefetch
from tesserac.tile.gpu.rows.reduce import expand_reductions
from tesserac.tile.gpu.rows.teams import deal_to_teams, turn_round
from tesserac.tile.gpu.rows.words import turn_rows


def lower_module(module: Module, machine: Machine) -> Module:
    ops: list[Op] = []
    whole = split_terms(Module([clone_op(op, {}) for op in module.ops]), machine)
    neutral = split_sorts(split_running(join_lines(whole, machine), machine))
    join_parts(neutral)
    interleave(neutral)
    mark_pairs(neutral)
    for op in neutral.ops:
        ops += lower_kernel(op, machine) if op.name == "tile.kernel" else [clone_op(op, {})]
    return Module(ops)


def lower_kernel(kernel: Op, machine: Machine) -> list[Op]:
    """All variants of one neutral kernel, best first. Where the warps of a role would have to wait for the others, all
    warps do the same."""
    padded = clone_op(kernel, {})
    stage_rows(padded)
    pad_blocks(padded, machine)
    prepared = add_rooms(padded)
    try:
        return list(_lowered(prepared, machine))
    except NoRolesError:
        alike = clone_op(kernel, {})
        alike.attrs["config"] = replace(attr(kernel, "config", Config), roles="uniform")
        return lower_kernel(alike, machine)


def _lowered(kernel: Op, machine: Machine) -> Iterator[Op]:
    """The variants in turn. Of those that differ in how deep a tree may be one is lowered, and the others are it with
    more levels: no pass looks at these."""
    made: dict[Variant, tuple[Variant, Op]] = {}
    for variant in variants(kernel, machine):
        bare = replace(variant, suffix="", when=(), levels=0)
        if bare in made:
            yield _retold(*made[bare], variant)
        else:
            made[bare] = (variant, lower_variant(kernel, variant, machine))
            yield made[bare][1]


def _retold(first: Variant, lowered: Op, variant: Variant) -> Op:
    again = clone_op(lowered, {})
    again.attrs.update(sym_name=text(lowered, "variant_of") + variant.suffix, when=variant.when)
    for op in again.walk():
        if op.attrs.get("levels") == first.levels:
            op.attrs["levels"] = variant.levels
    return again


def lower_variant(kernel: Op, variant: Variant, machine: Machine) -> Op:
    # Layouts come first: all that follows is about which thread has what.
    lowered = assign_layouts(clone_op(kernel, {}), variant)
    join_in_clusters(lowered)
    # Teams before reductions: a dealt loop joins the results of whole blocks.
    if reduces_by_teams(kernel):
        deal_to_teams(lowered, variant.team, row_blocks(kernel))
        hold_rows(lowered, variant.teams, row_blocks(kernel))
        turn_round(lowered)
    cut_gathers(lowered)
    expand_scans(lowered)
    expand_reductions(lowered)
    mask_early(lowered)
    expand_conversions(lowered, machine)
    place_scratch(lowered, variant.scratch)
    if variant.unit:
        promote_sums(lowered)
        place_operands(lowered)
        carry_sums(lowered)
        sink_lifts(lowered)
        if variant.unit == WGMMA:
            rotate_products(lowered)
            refer_terms(lowered)
            share_copies(lowered)
            own_masks(lowered)
            spread_loads(lowered)
            load_ahead(lowered)
            start_early(lowered)
            split_maps(lowered)
            pair_products(lowered)
            apart = CLUSTER not in lowered.attrs and not row_places(lowered)
            finish = planned_finish(lowered) if apart else None
            split_roles(lowered, machine.near_bytes - (finish.bytes if finish is not None else 0))
            finish_apart(lowered, finish)
        else:
            pipeline_copies(lowered, machine.near_bytes)
    # Last: only now is all traffic through shared memory visible.
    insert_barriers(lowered)
    load_first(lowered)
    prefetch(lowered, machine)
    turn_rows(lowered, machine)
    module = Module([lowered])
    while erase_dead(module):
        pass
    lowered.detach()
    return lowered
