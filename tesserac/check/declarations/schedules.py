"""Schedules as values: `Schedule(block=(128, 128), warps=8)`, copies with one setting changed, and their spaces.

Enters: checked arguments. Leaves: a compile-time record of kind `Schedule`, or a diagnostic. What a schedule says never
changes a bit; a target that has no use for a setting checks it all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.base.targets import laid_over, setting_and_target, setting_on
from tesserac.check.declarations.target_schedules import ON, said_for_targets, target_of, with_target
from tesserac.check.model import typed
from tesserac.check.model.message_text import type_text
from tesserac.check.state.arguments import Arg, Callee
from tesserac.check.state.body import Body
from tesserac.check.state.requests import NOT_FETCHED, NOT_RESCHEDULED, NOT_TILED, NOT_VECTORIZED, ask
from tesserac.check.values.tuples import make_value
from tesserac.diag.codes.kernels import E0507, E0516
from tesserac.types.ty import (
    BoolType,
    ErrorType,
    IntType,
    RecordType,
    StrType,
    TransformType,
    TupleType,
    Type,
    sizes_in,
)

SCHEDULE = "Schedule"
WITH_SCHEDULE = "with_schedule"
Rule = Callable[[Type], bool]
Fields = tuple[tuple[str, Type], ...]


@dataclass(frozen=True)
class Setting:
    """What one setting of a schedule takes, in a rule and in words."""

    fits: Rule
    takes: str


def _int(low: int, high: int) -> Rule:
    def fits(type_: Type) -> bool:
        number = type_.value.constant if isinstance(type_, IntType) else None
        return number is not None and low <= number <= high

    return fits


def _power(high: int) -> Rule:
    in_range = _int(1, high)

    def fits(type_: Type) -> bool:
        number = type_.value.constant if isinstance(type_, IntType) else None
        return in_range(type_) and number is not None and number & (number - 1) == 0

    return fits


def _tuple(item: Rule, lengths: range) -> Rule:
    return lambda type_: isinstance(type_, TupleType) and len(type_.items) in lengths and all(map(item, type_.items))


def _word(*words: str) -> Rule:
    return lambda type_: isinstance(type_, StrType) and type_.value in words


_SIZE = Setting(_int(1, 4096), "a number from 1 to 4096")
SETTINGS: dict[str, Setting] = {
    "block": Setting(_tuple(_int(1, 4096), range(1, 4)), "one to three numbers from 1 to 4096: rows, columns, k"),
    "BM": _SIZE,
    "BN": _SIZE,
    "k": _SIZE,
    "d": _SIZE,
    "warps": Setting(_power(32), "1, 2, 4, 8, 16 or 32"),
    "stages": Setting(_int(1, 8), "a number from 1 to 8"),
    "vector": Setting(_power(16), "1, 2, 4, 8 or 16"),
    "swizzle": Setting(_word("none", "xor"), '"none" or "xor"'),
    "persistent": Setting(lambda type_: isinstance(type_, BoolType), "True or False"),
    "cluster": Setting(_tuple(_int(1, 16), range(1, 4)), "one to three numbers from 1 to 16"),
    "raster": Setting(_word("rows", "columns"), '"rows" or "columns"'),
    "roles": Setting(_tuple(_int(1, 32), range(2, 3)), "two numbers of warps: producers and consumers"),
    "skew": Setting(lambda type_: isinstance(type_, StrType), "the label of a statement"),
    "regs": Setting(_int(16, 256), "a number from 16 to 256"),
}
IN_SPACES = {"BK": "k", "BD": "d"}
"""What a space calls the sizes of blocks."""
BLOCK_NAMES = {"m": "BM", "n": "BN", "k": "k", "d": "d"}
"""What `block` calls them."""
BLOCKS = {setting: name for name, setting in BLOCK_NAMES.items()}
"""What a context calls them."""
_SIZES = [BLOCK_NAMES[name] for name in "mnk"]
"""Those of `block=(m, n, k)`, in this order."""


def make_schedule(body: Body, args: Sequence[Arg], callee: Callee) -> typed.Expr:
    """`Schedule(block=(128, 128, 64), warps=8)`."""
    made = RecordType(SCHEDULE)
    if not _said_once(body, [(arg.name or "", arg.span) for arg in args if arg.name is not None]):
        return body.error(callee.span)
    for arg in args:
        if arg.name is None:
            body.sink.error(E0507, at=arg.value.span, problem="settings of a schedule are given by name")
            return body.error(callee.span)
        changed = with_setting(body, made, arg.name, arg.span, arg.value.type, arg.value.span)
        if changed is None:
            return body.error(callee.span)
        made = changed
    return typed.Static(made, callee.span)


def _said_once(body: Body, settings: Sequence[tuple[str, Span]]) -> bool:
    """Whether no setting is said twice in one place: which of the two is meant, no one can tell."""
    first: dict[str, Span] = {}
    for name, at in settings:
        if first.setdefault(name, at) is not at:
            draft = body.sink.error(E0507, at=at, problem=f"`{name}` is said twice")
            draft.note(first[name], "it is said here before")
            return False
    return True


def call_schedule_method(
    body: Body, schedule: RecordType, name: str, at: Span, args: Sequence[Arg], span: Span
) -> typed.Expr:
    """`s.warps(4)`, `s.with_block(64, 64)`: a copy that differs in one setting."""
    if name == ON:
        return _on(body, schedule, at, args, span)
    values = [arg.value for arg in args]
    if values and name.removeprefix("with_") == "block" and all(arg.name in BLOCK_NAMES for arg in args):
        return _with_blocks(body, schedule, args, span)
    if not values or any(arg.name is not None for arg in args):
        body.sink.error(E0507, at=at, problem=f"`{name}` takes the value of the setting, by position")
        return body.error(span)
    several = len(values) > 1 or (name.removeprefix("with_") in ("block", "cluster") and _is_number(values[0].type))
    value = TupleType(tuple(v.type for v in values)) if several else values[0].type
    made = with_setting(body, schedule, name.removeprefix("with_"), at, value, values[0].span.to(values[-1].span))
    return body.error(span) if made is None else typed.Static(made, span)


def _with_blocks(body: Body, schedule: RecordType, args: Sequence[Arg], span: Span) -> typed.Expr:
    """`s.block(m=[64, 128], n=64)`: sizes of blocks by name, where several may be tried."""
    made: RecordType | None = schedule
    for arg in args:
        setting = BLOCK_NAMES[arg.name or ""]
        made = made and with_setting(body, made, setting, arg.span, arg.value.type, arg.value.span)
    return body.error(span) if made is None else typed.Static(made, span)


def _on(body: Body, schedule: RecordType, at: Span, args: Sequence[Arg], span: Span) -> typed.Expr:
    """`s.on("cuda", warps=4)`, `s.on("cuda", other)`: a copy that says this for machines of one kind only."""
    target = target_of(body, args, at)
    if target is None:
        return body.error(span)
    made: RecordType | None = said_for_targets(schedule).get(target, RecordType(SCHEDULE))
    for arg in args[1:]:
        given = arg.value.type
        fields = given.fields if arg.name is None and isinstance(given, RecordType) else ((arg.name or "", given),)
        for name, value in fields:
            made = made and _on_one(body, made, name, arg, value)
    if len(args) == 1:
        body.sink.error(E0507, at=at, problem=f"nothing is said for `{target}`: `on` takes settings, or a `Schedule`")
        return body.error(span)
    return body.error(span) if made is None else typed.Static(with_target(schedule, target, made), span)


def _on_one(body: Body, made: RecordType, name: str, arg: Arg, value: Type) -> RecordType | None:
    if isinstance(value, RecordType):
        body.sink.error(E0507, at=arg.span, problem="what is said for one target has no other targets in it")
        return None
    if not name and not isinstance(value, ErrorType):
        body.sink.error(E0507, at=arg.span, problem="`on` takes settings by name, or a `Schedule`")
        return None
    return with_setting(body, made, name, arg.span, value, arg.value.span)


def with_schedule(body: Body, function: typed.Expr, args: Sequence[Arg], span: Span) -> typed.Expr:
    """`f.with_schedule(s)`: the same function, whose kernels take `s` before what they say themselves."""
    given = args[0].value.type if len(args) == 1 else None
    if isinstance(given, ErrorType):
        return body.error(span)
    if not is_schedule(given):
        body.sink.error(E0507, at=span, problem="`with_schedule` takes one `Schedule`, with one value per setting")
        return body.error(span)
    assert isinstance(given, RecordType)
    return make_value(TransformType(WITH_SCHEDULE, (function.type,), (("schedule", given),)), [function], span)


def scheduled(body: Body, type_: TransformType, called: typed.Expr) -> typed.Expr:
    """A call of a function that has a schedule."""
    given = type_.setting("schedule")
    assert isinstance(given, RecordType)
    if isinstance(called, typed.Call):
        own = settings_of(given)
        _check_meant(body, called, own)
        return replace(called, schedule=laid_over(called.schedule, own))
    if not isinstance(called.type, ErrorType):
        ask(body, called.span, NOT_RESCHEDULED)
    return called


def _check_meant(body: Body, called: typed.Call, settings: typed.Settings) -> None:
    """A schedule may not change what a kernel means."""
    function = body.rules.known(called.function)
    if function is not None and function.program is not None:
        check_pinned(body, function.name, function.program.pinned, settings, called.span)


def check_pinned(body: Body, kernel: str, pinned: typed.Settings, settings: typed.Settings, at: Span) -> bool:
    """Whether settings leave the blocks that a kernel means as they are, on every target."""
    sizes = {block.removeprefix("T_").rstrip("_"): size for block, size in pinned}
    for name, given in settings:
        setting, target = setting_and_target(name)
        size = sizes.get(setting, given)
        if given != size:
            where = f" on {target}" if target else ""
            said = {"block": f"T.{setting}", "given": f"{given}{where}", "kernel": kernel, "size": str(size)}
            body.sink.error(E0516, at=at, **said).remark("its result depends on them")
            return False
    return True


def _is_number(type_: Type) -> bool:
    return isinstance(type_, IntType)


OF_TRITON = {
    "BLOCK_M": "BM", "BLOCK_N": "BN", "BLOCK_K": "k", "BLOCK_SIZE_M": "BM", "BLOCK_SIZE_N": "BN", "BLOCK_SIZE_K": "k",
    "BLOCK": "BM", "BLOCK_SIZE": "BM", "num_warps": "warps", "num_stages": "stages",
}  # fmt: skip
"""What Triton's kernels call the settings of a schedule."""


def with_setting(
    body: Body, schedule: RecordType, name: str, at: Span, value: Type, value_at: Span
) -> RecordType | None:
    """A copy with one setting changed; None after a diagnostic."""
    if isinstance(value, ErrorType):
        return None
    if name not in SETTINGS:
        draft = body.sink.error(E0507, at=at, problem=f"a schedule has no setting `{name}`")
        if name in OF_TRITON:
            draft.replace(f"here it is `{OF_TRITON[name]}`", at, OF_TRITON[name])
        else:
            draft.did_you_mean(name, SETTINGS, at)
        draft.remark(f"settings are {', '.join(f'`{setting}`' for setting in SETTINGS)}")
        return None
    if any(body.wants_value(size) for size in sizes_in(value)):
        return None
    if not SETTINGS[name].fits(value) and not _are_options(SETTINGS[name], value):
        _no_fit(body, name, value, value_at)
        return None
    return RecordType(SCHEDULE, _with(schedule.fields, name, value))


def _with(fields: Fields, name: str, value: Type) -> Fields:
    """Settings of which one is new. The sizes of a block are settings of their own: `s.with_block(64, 64)` has the k of
    `s`, and of a block and a size the later one holds."""
    given = {name: value}
    if name == "block" and isinstance(value, TupleType) and SETTINGS[name].fits(value):
        given = dict(zip(_SIZES, value.items, strict=False))
    return (*(field for field in fields if field[0] not in (*given, name)), *given.items())


def _are_options(setting: Setting, value: Type) -> bool:
    return isinstance(value, TupleType) and bool(value.items) and all(map(setting.fits, value.items))


def is_schedule(type_: Type | None) -> bool:
    """Whether this is a schedule with one value for each setting, and not a space of them."""
    if not isinstance(type_, RecordType) or type_.kind != SCHEDULE:
        return False
    return all(is_schedule(value) or (name in SETTINGS and SETTINGS[name].fits(value)) for name, value in type_.fields)


def space_entries(space: RecordType, at: Span) -> list[tuple[str, Span, typed.Expr]]:
    """The settings of a schedule with lists, as those of a space."""
    return [(name, at, typed.Static(value, at)) for name, value in space.fields]


def _no_fit(body: Body, name: str, value: Type, at: Span) -> None:
    problem = f"`{name}` takes {SETTINGS[name].takes}, not {value_text(value)}"
    body.sink.error(E0507, at=at, problem=problem)


def value_text(value: Type) -> str:
    """What was given for a setting, as one would write it."""
    match value:
        case IntType(value=size):
            return str(size)
        case StrType(value=text):
            return repr(text)
        case TupleType(items=items):
            return f"({', '.join(map(value_text, items))})"
    return type_text(value)


# ------------------------------------------------------------------------------------------------------------ spaces


def check_space(body: Body, entries: Sequence[tuple[str, Span, typed.Expr]]) -> RecordType | None:
    """A schedule of the first values of a space: `dict(BM=[64, 128], warps=[4, 8])`; None after a diagnostic."""
    first = RecordType(SCHEDULE)
    if not _said_once(body, [(name, at) for name, at, _ in entries]):
        return None
    for name, at, value in entries:
        if isinstance(value.type, RecordType):
            problem = f"a space says nothing for `{name}` alone: each machine is tuned by itself"
            body.sink.error(E0507, at=at, problem=problem)
            return None
        setting = IN_SPACES.get(name, name)
        options = _options(setting, value.type)
        if not options:
            body.sink.error(E0507, at=value.span, problem=f"there is no value to choose for `{name}`")
            return None
        if any(with_setting(body, first, setting, at, option, value.span) is None for option in options):
            return None
        first = RecordType(SCHEDULE, _with(first.fields, setting, options[0]))
    return first


def space_options(entries: Sequence[tuple[str, Span, typed.Expr]]) -> tuple[tuple[str, tuple[int | str, ...]], ...]:
    """What a space lists of each setting, under the names that a context gives them."""
    found: dict[str, tuple[int | str, ...]] = {}
    for name, _, value in entries:
        setting = IN_SPACES.get(name, name)
        options = _options(setting, value.type)
        schedules = [settings_of(RecordType(SCHEDULE, _with((), setting, option))) for option in options]
        for own in dict.fromkeys(key for schedule in schedules for key, _ in schedule):
            listed = [value for schedule in schedules for key, value in schedule if key == own]
            found[own] = tuple(dict.fromkeys(listed))
    return tuple(found.items())


def _options(setting: str, type_: Type) -> tuple[Type, ...]:
    """What a space lists; one value stands for itself."""
    whole = setting in SETTINGS and SETTINGS[setting].fits(type_)
    return type_.items if isinstance(type_, TupleType) and not whole else (type_,)


def check_tile_shape(body: Body, value: typed.Expr) -> bool:
    """`op.matmul(a, b, tile_shape=(128, 128, 64))` is a schedule for one operator."""
    if isinstance(value.type, ErrorType):
        return False
    if SETTINGS["block"].fits(value.type):
        ask(body, value.span, NOT_TILED, "tile_shape=")  # unless the product has launches of its own
        return True
    problem = f"`tile_shape` takes {SETTINGS['block'].takes}, not {value_text(value.type)}"
    body.sink.error(E0507, at=value.span, problem=problem)
    return False


def tile_settings(shape: Type) -> typed.Settings:
    """What a `tile_shape` that fits says, as the settings of a schedule."""
    return settings_of(RecordType(SCHEDULE, _with((), "block", shape)))


def check_hints(body: Body, given: Mapping[str, typed.Expr]) -> bool:
    """`tile.load(x, vector=8, prefetch=2)`: the width of loads, and how many blocks ahead they are fetched; False after
    a diagnostic."""
    for name, setting, why in _HINTS:
        if name not in given:
            continue
        value = given[name]
        if not setting.fits(value.type):
            problem = f"`{name}` takes {setting.takes}, not {value_text(value.type)}"
            body.sink.error(E0507, at=value.span, problem=problem)
            return False
        ask(body, value.span, why, f"{name}=")
    return True


_HINTS = (
    ("vector", SETTINGS["vector"], NOT_VECTORIZED),
    ("prefetch", Setting(_int(0, 8), "a number from 0 to 8"), NOT_FETCHED),
)


def pinned_blocks(schedule: RecordType) -> frozenset[str]:
    """The blocks that a schedule says the size of: `T.m`, `T.n`, `T.k`."""
    given = dict(schedule.fields)
    return frozenset(f"T.{name}" for name in "mnk" if BLOCK_NAMES[name] in given)


def int_settings(schedule: RecordType | None) -> dict[str, int]:
    """The settings that are one number, those of blocks under the names that a context gives them."""
    said = _own_settings(schedule) if schedule is not None else {}
    return {name: value for name, value in said.items() if isinstance(value, int)}


def settings_of(schedule: RecordType) -> typed.Settings:
    """All settings, those of blocks under the names that a context gives them, those for a target with its name."""
    said = {"": schedule} | said_for_targets(schedule)
    return tuple(
        sorted((setting_on(name, on), value) for on, own in said.items() for name, value in _own_settings(own).items())
    )


def _own_settings(schedule: RecordType) -> dict[str, int | str]:
    """Those that hold on every target."""
    own = ((name, value) for name, value in schedule.fields if not isinstance(value, RecordType))
    return {BLOCKS.get(name, name): _plain(value) for name, value in own}


def _plain(value: Type) -> int | str:
    number = value.value.constant if isinstance(value, IntType) else None
    return number if number is not None else value_text(value)
