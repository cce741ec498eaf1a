"""What a schedule says for some targets only: `Schedule(block=(64, 64)).on("cuda:sm_90a", block=(128, 128), warps=8)`.

Enters: a schedule and checked arguments. Leaves: a copy that has another schedule as a field of the target's name. A
machine takes of each setting what is said for the narrowest target that it is: `cuda:sm_90a` before `cuda` before all.
"""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.source import Span
from tesserac.base.targets import TARGETS
from tesserac.check.state.arguments import Arg
from tesserac.check.state.body import Body
from tesserac.diag.codes.kernels import E0507, E0517
from tesserac.types.ty import ErrorType, RecordType, StrType

ON = "on"


def target_of(body: Body, args: Sequence[Arg], at: Span) -> str | None:
    """The target that `on` is given first; None after a diagnostic."""
    given = args[0].value if args and args[0].name is None else None
    if given is not None and isinstance(given.type, ErrorType):
        return None
    if given is None or not isinstance(given.type, StrType) or given.type.value is None:
        body.sink.error(E0507, at=at, problem='`on` takes a target and what holds there: `on("cuda", warps=4)`')
        return None
    name = given.type.value
    if name in TARGETS:
        return name
    draft = body.sink.error(E0517, at=given.span, name=name)
    meant = "cuda" if name == "gpu" else next((target for target in TARGETS if target.endswith(f":{name}")), name)
    whole = [target for target in TARGETS if target == meant] or [t for t in TARGETS if t.startswith(meant)]
    draft.did_you_mean(meant, whole or TARGETS, given.span, written='"{}"')
    draft.remark(f"targets are {', '.join(f'`{target}`' for target in TARGETS)}")
    return None


def said_for_targets(schedule: RecordType) -> dict[str, RecordType]:
    """What it says for each target that it names."""
    return {name: value for name, value in schedule.fields if isinstance(value, RecordType)}


def with_target(schedule: RecordType, target: str, said: RecordType) -> RecordType:
    """A copy that says this for a target, and nothing else for it."""
    others = tuple(field for field in schedule.fields if field[0] != target)
    return RecordType(schedule.kind, (*others, (target, said)))
