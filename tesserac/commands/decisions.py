"""What scheduling decided, in words.

Enters: a module of Schedule IR. Leaves: which functions are called, which loops are compiled as one, and per launch its
kind, how its space is walked, what is staged and kept, why.

    launch 1: rows over M x N
      loops    M in parallel, N folded in blocks of 512
      because  one row per program, in blocks of 512
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tesserac.ir.calls import CALLED, callee_of, is_called
from tesserac.ir.core import Module, Op
from tesserac.schedule.dialect import (
    CALL,
    ROWS,
    Loop,
    launch_keep,
    launch_kind,
    launch_lengths,
    launch_loops,
    launch_space,
    launch_stages,
    launch_units,
    memory,
)

_BETWEEN_REASONS = "; "
"""As `schedule/model/reason.py` joins them."""
_WALKS = {"parallel": "in parallel", "serial": "in order", "fold": "folded"}


def describe_schedule(module: Module) -> str:
    lines: list[str] = []
    lines += _calls(module)
    for op in (op for op in module.walk() if op.name == "schedule.buffer"):
        if op.attrs["role"] == "workspace":
            lines.append(f"workspace slot {op.attrs['slot']}: {memory(op.result)}")
        if op.attrs["role"] == "kept":
            lines.append(f"kept from call to call where its operand is frozen: {memory(op.result)}")
    for op in (op for op in module.walk() if "sequential" in op.attrs):
        lines.append(f"{_loop(op)} is compiled as one: {op.attrs['sequential']}")
    for op in (op for op in module.walk() if op.name == "schedule.loop" and ROWS in op.attrs):
        each = f"threads take some of {op.attrs[ROWS]} each through all iterations"
        lines.append(f"{_loop(op)} goes by {_apart(op)}: {each}")
    launches = (op for op in module.walk() if op.name == "schedule.launch")
    for number, launch in enumerate(launches, start=1):
        lines += _describe(launch, number)
    return "".join(f"{line}\n" for line in lines)


def _calls(module: Module) -> Iterator[str]:
    """Which functions stay functions, and why."""
    calls = Counter(callee_of(op) for op in module.walk() if op.name == CALL)
    for function in module.ops:
        if (number := calls[function.symbol]) or is_called(function):
            yield f"@{function.symbol} is called in {number} place{'s' * (number != 1)}: {function.attrs[CALLED]}"


def _loop(op: Op) -> str:
    counter = op.attrs.get("counter")
    return f"loop over {counter}" if counter else "while loop"


def _apart(loop: Op) -> str:
    """What goes through the loop apart from each other."""
    launch = next(op for op in loop.walk() if op.name == "schedule.launch")
    return "rows" if launch_loops(launch)[0].block == 1 else "blocks of columns"


def _describe(launch: Op, number: int) -> Iterator[str]:
    space = " x ".join(map(str, launch_space(launch))) or "one element"
    if lengths := launch_lengths(launch):
        space = f"{len(lengths)} tensors of {', '.join(map(str, dict.fromkeys(lengths)))} elements"
    yield f"launch {number}: {launch_kind(launch)} over {space}"
    for label, texts in _facts(launch):
        for position, text in enumerate(texts):
            yield f"  {'' if position else label:9}{text}"


def _facts(launch: Op) -> Iterator[tuple[str, list[str]]]:
    loops = launch_loops(launch)
    yield "loops", [", ".join(map(_walk, loops))] if loops else []
    yield "stages", [
        f"operand {s.operand} as {s.layout}" + (f", {s.depth} copies in flight" if s.depth > 1 else "")
        for s in launch_stages(launch)
    ]
    yield "keeps", [f"%{launch.body.ops[i].result.name or i} between passes" for i in launch_keep(launch)]
    units = launch_units(launch)
    yield "units", [f"{units.warps} warps, {units.roles.replace('_', ' and ')}"] if units.warps > 1 else []
    yield "because", str(launch.attrs["reason"]).split(_BETWEEN_REASONS)


def _walk(loop: Loop) -> str:
    blocks = f" in blocks of {loop.block}" if loop.block > 1 else ""
    return f"{loop.size} {_WALKS[loop.kind]}{blocks}"
