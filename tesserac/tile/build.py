"""Schedule to neutral Tile: every launch becomes a kernel, and its place in the host program a `tile.launch`.

Enters: a module of `schedule.func` with decided launches. Leaves: the kernels, then the host programs, which now
contain only guards, buffers, tile launches, checks of what kernels tell, and host control flow. A kernel's argument is
the memory of the launch operand at the same base address, under the shape and strides that its loops want
(`frame.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tesserac.base.dataclass import dataclass
from tesserac.ir.builder import Builder
from tesserac.ir.core import Attr, Module, Op, attr_tuple
from tesserac.ir.meaning import Meanings
from tesserac.ir.passes import SCHEDULE, TILE, Pass
from tesserac.schedule.dialect import (
    FOLLOWS,
    LENGTH,
    LENGTHS,
    MOVES,
    STEPS,
    TOGETHER,
    launch_kind,
    launch_lengths,
    launch_portion,
    memory,
    memory_of_each,
)
from tesserac.schedule.machine import Machine
from tesserac.schedule.maps.horizontal import one_tensor
from tesserac.schedule.model.cuts import CUT, cut_of
from tesserac.schedule.rows.one_pass import ONE_PASS
from tesserac.schedule.rows.row_lengths import row_parts
from tesserac.tile import independent_loops as independent_loops  # what it defines stands in texts
from tesserac.tile.dialect import TENSORS
from tesserac.tile.launches.contract import build_contract
from tesserac.tile.launches.frame import Frame
from tesserac.tile.launches.maps import build_map
from tesserac.tile.launches.rows import build_rows
from tesserac.tile.merge import merge_maps
from tesserac.tile.share import share_kernels
from tesserac.tile.status import add_status, add_workspace, check_attrs, checked_forms
from tesserac.types.dims import ZERO, Dim, product

if TYPE_CHECKING:
    from tesserac.tile.programs.build import Program

Build = Callable[[Frame], None]

BUILDERS: dict[str, Build] = {"map": build_map, "pack": build_map, "rows": build_rows, "contract": build_contract}
"""Of the kinds of launches that most programs have; `_rare_builder` imports the others."""


Holds = Callable[[str], bool]
"""Whether the code of a kernel that many programs have is there already."""


def holds_nothing(name: str) -> bool:
    return False


def tile_pass(machine: Machine, holds: Holds = holds_nothing) -> Pass:
    """SCHEDULE to TILE. What the machine wants stands in the schedule already; its name is part of the pass's. Kernels
    whose code is there are not built."""

    def run(module: Module) -> Module:
        built, meanings = dict[str, _Built](), Meanings()
        sized: dict[str, Op] = {}
        hosts = list(module.ops)
        for host in hosts:
            launches = [op for op in host.walk() if op.name == "schedule.launch"]
            for number, launch in enumerate(launches):
                name = f"{host.symbol}${number}"
                if launch_lengths(launch):
                    _launch_tensors(launch, built, meanings, name)
                elif machine.packs_operands and launch_kind(launch) == "lines" and not _in_loop(launch):
                    said = f"sized {meanings.of(launch)}"  # one in a loop that says the same has code of its own
                    _launch(host, launch, _once(built, said, partial(_sized, launch, name, sized, holds)))
                elif launch_kind(launch) == "sort" and cut_of(launch) is not None:
                    _launch_runs(host, launch, built, meanings, name)
                elif launch_portion(launch) is None:
                    _launch(host, launch, _once(built, meanings.of(launch), partial(_build, launch, name)))
                else:
                    _launch_portions(host, launch, built, meanings, name)
            host.detach()
        longest_first = sorted(sized.values(), key=_length, reverse=True)  # so that nothing waits for it at the end
        return Module([*longest_first, *share_kernels([made.kernel for made in built.values()], hosts), *hosts])

    return Pass(f"tile for {machine.arch}", SCHEDULE, TILE, run)


def _length(kernel: Op) -> int:
    return sum(1 for _ in kernel.walk())


@dataclass(frozen=True, eq=False)
class _Built:
    """A kernel, with the operands of its launch in the order of its arguments, and how many elements it touches."""

    kernel: Op
    operands: tuple[int, ...]
    touched: Dim


def build_kernel(launch: Op, name: str) -> tuple[Op, Frame | Program]:
    """The kernel of a launch, and what it was made with."""
    frame = _made(launch)
    kernel = frame.finish(name)
    merge_maps(kernel)
    return kernel, frame


def _made(launch: Op) -> Frame | Program:
    if launch_kind(launch) == "program":
        from tesserac.tile.programs.build import Program  # ten modules, of no use to launches of the compiler's own

        program = Program(launch)
        program.build()
        return program
    if STEPS in launch.attrs:
        from tesserac.tile.launches.steps import StepFrame, build_steps

        return build_steps(StepFrame(launch))
    frame = Frame(launch)
    _builder(launch)(frame)
    return frame


def _builder(launch: Op) -> Build:
    if row_parts(launch):
        from tesserac.tile.launches.held_rows import build_held_rows

        return build_held_rows
    if ONE_PASS in launch.attrs:
        from tesserac.tile.launches.one_pass import build_one_pass

        return build_one_pass
    kind = launch_kind(launch)
    return BUILDERS[kind] if kind in BUILDERS else _rare_builder(kind)


def _rare_builder(kind: str) -> Build:
    match kind:
        case "lines":
            from tesserac.tile.launches.lines import build_lines

            return build_lines
        case "scatter":
            from tesserac.tile.launches.scatter import build_scatter

            return build_scatter
        case "scan":
            from tesserac.tile.launches.scan import build_scan

            return build_scan
        case "sort":
            from tesserac.tile.launches.sort import build_sort

            return build_sort
        case "folds":
            from tesserac.tile.launches.folds import build_folds

            return build_folds
        case "runs":
            from tesserac.tile.launches.runs import build_runs

            return build_runs
    raise AssertionError(f"no launch is of the kind {kind}")


def _build(launch: Op, name: str) -> _Built:
    kernel, frame = build_kernel(launch, name)
    return _Built(kernel, frame.operands(), frame.touched())


def _in_loop(launch: Op) -> bool:
    """Whether it is part of a loop that is compiled as one, with its kernels inside."""
    op: Op | None = launch
    while op is not None and "sequential" not in op.attrs:
        op = op.parent.parent_op if op.parent is not None else None
    return op is not None


def _sized(launch: Op, name: str, sized: dict[str, Op], holds: Holds) -> _Built:
    """A kernel whose code is that of one without sizes, which is built once, if nobody has it."""
    from tesserac.tile.launches.sized_lines import SizedFrame

    frame = SizedFrame(launch)
    if frame.name in sized or holds(frame.name):
        frame.enter_grid()
    else:
        sized[frame.name] = frame.kernel()
    return _Built(frame.head(name), frame.operands(), frame.touched())


def _once(built: dict[str, _Built], said: str, build: Callable[[], _Built]) -> _Built:
    """Launches that say the same have one kernel."""
    if said not in built:
        built[said] = build()
    return built[said]


def _build_with(builder: Callable[[Frame], None], launch: Op, name: str) -> _Built:
    frame = Frame(launch)
    builder(frame)
    kernel = frame.finish(name)
    merge_maps(kernel)
    return _Built(kernel, frame.operands(), frame.touched())


def _launch_portions(host: Op, launch: Op, built: dict[str, _Built], meanings: Meanings, name: str) -> None:
    """Parts of rows, and what joins them."""
    from tesserac.tile.launches.long_rows import build_joined, build_parts, partial_types

    said, builder = meanings.of(launch), Builder.before(launch)
    held = [add_workspace(host, type_) for type_ in partial_types(launch)]
    parts = _once(built, f"parts {said}", partial(_build_with, build_parts, launch, f"{name}.parts"))
    joined = _once(built, f"joined {said}", partial(_build_with, build_joined, launch, f"{name}.joined"))
    few = sum((product(memory(value).dims) for value in held), ZERO)
    for made, touched in ((parts, parts.touched), (joined, few)):
        operands = [launch.operands[place] for place in made.operands]
        builder.op("tile.launch", [*operands, *held], (), {"kernel": made.kernel.symbol, "touched": touched})
    launch.erase()


def _launch_runs(host: Op, launch: Op, built: dict[str, _Built], meanings: Meanings, name: str) -> None:
    """Parts of rows that are sorted, and what merges them."""
    from tesserac.tile.launches.sort import build_merged, build_runs, run_types

    said, builder = meanings.of(launch), Builder.before(launch)
    held = [add_workspace(host, type_) for type_ in run_types(launch)]
    for build in (build_runs, build_merged):
        kind = build.__name__.removeprefix("build_")
        made = _once(built, f"{kind} {said}", partial(_build_with, build, launch, f"{name}.{kind}"))
        operands = [launch.operands[place] for place in made.operands]
        attrs: dict[str, Attr] = {"kernel": made.kernel.symbol, "touched": made.touched, CUT: cut_of(launch)}
        builder.op("tile.launch", [*operands, *held], (), attrs)
    launch.erase()


def _launch_tensors(launch: Op, built: dict[str, _Built], meanings: Meanings, name: str) -> None:
    """One kernel, for each tensor with its own memory and length."""
    lengths, single = launch_lengths(launch), one_tensor(launch)
    made = _once(built, f"{len(lengths)} tensors {meanings.of(single)}", partial(_build, single, name))
    made.kernel.attrs[TENSORS] = len(lengths)
    operands = [given[place] for given in memory_of_each(launch) for place in made.operands]
    touched = sum((made.touched.substitute({LENGTH: length}) for length in lengths), ZERO)
    attrs: dict[str, Attr] = {"kernel": made.kernel.symbol, "touched": touched, LENGTHS: lengths}
    Builder.before(launch).op("tile.launch", operands, (), attrs)
    launch.erase()


def _launch(host: Op, launch: Op, made: _Built) -> None:
    """What launches a kernel stands where the launch stood, and behind it what looks at what the kernel tells."""
    builder, checks = Builder.before(launch), checked_forms(launch)
    told = [add_status(host, check) for check in checks]
    operands = [launch.operands[place] for place in made.operands]
    whole = sum((product(memory(v).dims) for v in operands), ZERO)
    attrs: dict[str, Attr] = {"kernel": made.kernel.symbol}
    if made.touched != whole:
        attrs["touched"] = made.touched
    if (cut := cut_of(launch)) is not None:
        attrs[CUT] = cut
    attrs |= {name: launch.attrs[name] for name in (FOLLOWS, TOGETHER) if name in launch.attrs}
    if MOVES in launch.attrs:
        moves = attr_tuple(launch, MOVES, tuple)
        attrs[MOVES] = tuple(moves[place] for place in made.operands)
    builder.op("tile.launch", [*operands, *told], (), attrs)
    for check, status in zip(checks, told, strict=True):
        with builder.spanned(check.span):
            builder.op("schedule.check", (status,), (), check_attrs(check))
    launch.erase()
