"""Decorators of functions: what each takes, and which are still to come.

Enters: a function as written. Leaves: diagnostics, and what its decorators say: a schedule, bounds of its results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tesserac.base.dataclass import dataclass
from tesserac.base.resources import of_library
from tesserac.base.source import Span
from tesserac.check.declarations.donation import DONATE, check_names, donated_names
from tesserac.check.declarations.expected_sizes import SIZES, ExpectedSize, expected_sizes
from tesserac.check.declarations.schedules import (
    SCHEDULE,
    check_space,
    is_schedule,
    pinned_blocks,
    space_entries,
    space_options,
    value_text,
)
from tesserac.check.model import typed
from tesserac.check.model.library_annotations import ALSO, FORM_OF, STRUCTURES, TAKES, WORDS
from tesserac.check.model.message_text import type_text
from tesserac.check.names.decorating import NOTHING_NEW, TRANSFORMING
from tesserac.check.names.foreign_tiles import DECORATORS
from tesserac.check.names.refs import DERIVATIVE_RULES, FunctionRef
from tesserac.check.state.body import Body
from tesserac.check.state.requests import NOT_SCHEDULED, ask
from tesserac.check.values.rewriting import whole_lines
from tesserac.diag.codes.differentiation import E0705
from tesserac.diag.codes.kernels import E0508
from tesserac.diag.codes.names import E0201, E0299
from tesserac.diag.sink import Draft
from tesserac.syntax import ast
from tesserac.syntax.describe import dotted_name
from tesserac.types.ty import (
    BoolType,
    ErrorType,
    FloatType,
    FunctionType,
    IntType,
    RecordType,
    StrType,
    TupleType,
    Type,
)

UPDATE = "update"
"""Marks a function whose call, as a statement, binds the name that it is given first to its result."""
ACCEPTED = ("export", *NOTHING_NEW, UPDATE, "kernel", "kernel.auto")
"""What may stand alone. `@export` marks what a bundle shows. Transforms are not among them: what they make of a
function has no such decorators any more, see `names/decorating.py`."""
WITHIN, EFFECT = "within", "effect"
LAW = "law"
OF_LIBRARY = (WITHIN, EFFECT, FORM_OF, ALSO, TAKES, LAW, *WORDS)
"""What only the library may say."""
METRICS = ("latency_ms", "throughput")
"""What tuning looks for. For given sizes the two have one winner, so that either may be said."""


@dataclass(frozen=True)
class Bounds:
    """What `@verify.numerics` promises of every element of a result: that it is finite, or within bounds."""

    low: float = -float("inf")
    high: float = float("inf")


@dataclass(frozen=True)
class Decorations:
    """What the decorators of a function say."""

    schedule: RecordType | None = None
    said_at: Span | None = None
    """Where the schedule, or the space of it, stands."""
    pins: frozenset[str] = frozenset()
    space: tuple[tuple[str, tuple[int | str, ...]], ...] = ()
    """What tuning tries of each setting; the schedule has the first values."""
    budget_ms: int | None = None
    cache: str = ""
    """Where what tuning finds is kept, beside the user's cache."""
    bounds: Bounds | None = None
    within: tuple[float, float] | None = None
    donated: tuple[ast.Name, ...] = ()
    implements: ast.Expr | None = None
    """The function whose body stays the meaning of a kernel."""
    law: ast.Expr | None = None
    """The function with which something is written that a law computes in another way."""
    target: str = ""
    """Where a kernel may stand for what it implements; everywhere if nothing is said."""
    tolerance: float | None = None
    """How far a kernel may be from what it implements; None where it has the same bits."""
    effects: tuple[str, ...] = ()
    """What the library says a function does, besides what its body shows."""
    graph: str = ""
    """What `@graph.module` calls the function."""
    requests: tuple[typed.Request, ...] = ()
    sizes: tuple[ExpectedSize, ...] = ()
    """What `@sizes` tells to expect."""
    is_known: bool = True


def is_update(node: ast.FunctionDef) -> bool:
    return any(dotted_name(decorator.expression) == UPDATE for decorator in node.decorators)


def is_kernel(node: ast.FunctionDef) -> bool:
    """Whether a function is written for one tile of its result."""
    return any(dotted_name(decorator.expression).partition(".")[0] == "kernel" for decorator in node.decorators)


def read_decorators(body: Body, node: ast.FunctionDef) -> Decorations:
    """What they say, from top to bottom; a later one adds to an earlier one."""
    found = Decorations()
    for decorator in node.decorators:
        found = _read(body, decorator, found)
    return replace(found, donated=check_names(body, node, found.donated), requests=tuple(body.requests))


def _read(body: Body, decorator: ast.Decorator, found: Decorations) -> Decorations:
    node = decorator.expression
    name = dotted_name(node)
    if name in (*DERIVATIVE_RULES, SIZES) and not isinstance(node, ast.Call):
        node = ast.Call(node.span, node, ())
    if not isinstance(node, ast.Call):
        return found if name in ACCEPTED else _unknown(body, decorator, found)
    reader = _READERS.get(name)
    return _unknown(body, decorator, found) if reader is None else reader(body, node, found)


def _unknown(body: Body, decorator: ast.Decorator, found: Decorations) -> Decorations:
    node = decorator.expression
    name, known = dotted_name(node), _known_names()
    if name in TRANSFORMING:
        body.sink.error(E0299, at=decorator.span, feature=f"the decorator `{name}` of a method")
    elif name in known:
        wanted = "takes no arguments" if isinstance(node, ast.Call) else f"takes arguments: `@{name}(...)`"
        body.sink.error(E0508, at=decorator.span, problem=f"`@{name}` {wanted}")
    else:
        at = node.function.span if isinstance(node, ast.Call) else node.span
        draft = body.sink.error(E0201, at=at, name=f"@{name}")
        if name in DECORATORS:
            _replace_foreign(body, draft, decorator, at, DECORATORS[name])
            return replace(found, is_known=False)
        draft.did_you_mean(name, known, at)
        draft.remark(f"decorators are {', '.join(f'`@{each}`' for each in known)}")
    return replace(found, is_known=False)


def _replace_foreign(body: Body, draft: Draft, decorator: ast.Decorator, at: Span, here: str) -> None:
    """Another decorator for one of other libraries; none for what needs no saying here."""
    if here:
        draft.replace(f"here it is `@{here}`", at, here, advice=f"here it is `@{here}`")
    else:
        draft.replace("nothing has to be said here: leave it out", whole_lines(body, decorator.span), "")


def _known_names() -> list[str]:
    return [each for each in dict.fromkeys([*ACCEPTED, *_READERS, *TRANSFORMING]) if each not in OF_LIBRARY]


def _given(body: Body, node: ast.Call, names: Sequence[str]) -> dict[str, ast.Expr]:
    """Arguments by name; one that the decorator does not have, or a positional one, is reported."""
    given: dict[str, ast.Expr] = {}
    for argument in node.arguments:
        if argument.name in names and argument.name is not None:
            given[argument.name] = argument.value
            continue
        shown = dotted_name(node)
        what = "no argument by position" if argument.name is None else f"no `{argument.name}`"
        draft = body.sink.error(E0508, at=argument.span, problem=f"`@{shown}` takes {what}")
        draft.remark(f"it takes {', '.join(f'`{name}=`' for name in names)}")
        if argument.name == "when":
            draft.remark("what it asks of sizes stands behind its parameters: `where M % 8 == 0`")
    return given


def _wrong(body: Body, at: ast.Expr, name: str, takes: str, found: Type) -> None:
    body.sink.error(E0508, at=at.span, problem=f"`{name}` takes {takes}, not {value_text(found)}")


# ---------------------------------------------------------------------------------------------------------- kernels


def _schedule(body: Body, node: ast.Call, found: Decorations) -> Decorations:
    """`@kernel.schedule(s)`."""
    values = [body.expression(argument.value).type for argument in node.arguments]
    if len(values) == 1 and isinstance(values[0], RecordType) and is_schedule(values[0]):
        ask(body, node.span, NOT_SCHEDULED, "@")
        at = node.arguments[0].span
        return replace(found, schedule=values[0], said_at=at, pins=pinned_blocks(values[0]))
    if not body.sink.has_errors:
        problem = "`@kernel.schedule` takes one `Schedule`, with one value per setting"
        body.sink.error(E0508, at=node.span, problem=problem)
    return found


def _autotune(body: Body, node: ast.Call, found: Decorations) -> Decorations:
    """`@kernel.autotune(space=dict(BM=[64, 128]), metric="latency_ms", budget_ms=180, cache="~/.sched")`."""
    given = _given(body, node, ("space", "metric", "budget_ms", "cache"))
    _check_word(body, given.get("metric"), "metric", METRICS)
    for name, fits, takes in _TUNING:
        value = body.expression(given[name]).type if name in given else None
        if value is not None and not isinstance(value, ErrorType) and not fits(value):
            _wrong(body, given[name], name, takes, value)
    space = given.get("space")
    entries = _entries(body, space) if space is not None else []
    first = None if entries is None else check_space(body, entries)
    options = () if entries is None or first is None else space_options(entries)
    budget = body.expression(given["budget_ms"]).type if "budget_ms" in given else None
    ms = budget.value.constant if isinstance(budget, IntType) else None
    kept = body.expression(given["cache"]).type if "cache" in given else None
    path = kept.value or "" if isinstance(kept, StrType) else ""
    at = node.span if space is None else space.span
    return replace(found, schedule=first, said_at=at, space=options, budget_ms=ms, cache=path)


def _is_budget(type_: Type) -> bool:
    number = type_.value.constant if isinstance(type_, IntType) else None
    return number is not None and number > 0


def _is_path(type_: Type) -> bool:
    return isinstance(type_, StrType) and bool(type_.value)


_TUNING = (("budget_ms", _is_budget, "a positive number of milliseconds"), ("cache", _is_path, "a path"))


def _check_word(body: Body, node: ast.Expr | None, name: str, words: Sequence[str]) -> str:
    """The word that is given, or none."""
    value = body.expression(node).type if node is not None else None
    if isinstance(value, StrType) and value.value in words:
        return value.value or ""
    if node is not None:
        takes = " or ".join(f'"{word}"' for word in words)
        body.sink.error(E0508, at=node.span, problem=f"`{name}` takes {takes}")
    return ""


def _entries(body: Body, node: ast.Expr) -> list[tuple[str, Span, typed.Expr]] | None:
    """The settings of a space: `dict(warps=[4, 8])`, `{"warps": [4, 8]}`, or a schedule with lists."""
    match node:
        case ast.Call(function=ast.Name(id="dict"), arguments=arguments) if all(a.name for a in arguments):
            return [(a.name or "", a.name_span, body.expression(a.value)) for a in arguments]
        case ast.DictExpr(entries=entries):
            named = [(e.key, e.value) for e in entries if isinstance(e.key, ast.StringLiteral)]
            if len(named) == len(entries):
                return [(key.value, key.span, body.expression(value)) for key, value in named]
        case ast.Call() | ast.Name():
            value = body.expression(node).type
            if isinstance(value, ErrorType):
                return None
            if isinstance(value, RecordType) and value.kind == SCHEDULE:
                return space_entries(value, node.span)
    body.sink.error(E0508, at=node.span, problem="a space is `dict(BM=[64, 128], warps=[4, 8])`")
    return None


def _implements(body: Body, node: ast.Call, found: Decorations) -> Decorations:
    """`@kernel(implements=f, target="cpu", within=2e-6)`: the function's body stays its meaning."""
    given = _given(body, node, ("implements", "target", WITHIN))
    if "implements" in given:
        function = body.expression(given["implements"]).type
        if not isinstance(function, FunctionType):
            _wrong(body, given["implements"], "implements", "a function", function)
            return found
    else:
        for name, says in _OF_IMPLEMENTERS.items():
            if name in given:
                problem = f"`{name}=` says {says}, and this kernel implements none"
                body.sink.error(E0508, at=given[name].span, problem=problem)
    if "target" in given and WITHIN in given:
        problem = "a kernel with `within=` stands for its function on every target: results do not depend on one"
        body.sink.error(E0508, at=given["target"].span, problem=problem)
    target = _check_word(body, given.get("target"), "target", ("cpu", "cuda"))
    tolerance = _tolerance(body, given[WITHIN]) if WITHIN in given else None
    return replace(found, implements=given.get("implements"), target=target, tolerance=tolerance)


_OF_IMPLEMENTERS = {
    "target": "where a kernel may stand for a function",
    WITHIN: "how far a kernel may be from a function",
}


def _tolerance(body: Body, node: ast.Expr) -> float | None:
    type_ = body.expression(node).type
    number = _number(type_)
    if number is not None and 0 < number < 1:
        return number
    if not isinstance(type_, ErrorType):
        said = type_text(type_) if number is None else f"{number:g}"
        body.sink.error(E0508, at=node.span, problem=f"`{WITHIN}` takes a number between 0 and 1, not {said}")
    return None


# ------------------------------------------------------------------------------------------------- names and checks


def _export(body: Body, node: ast.Call, found: Decorations) -> Decorations:
    """`@export(donate=(m, state))`."""
    given = _given(body, node, (DONATE,))
    return replace(found, donated=donated_names(body, given[DONATE])) if DONATE in given else found


def _module(body: Body, node: ast.Call, found: Decorations) -> Decorations:
    """`@graph.module("attention")`."""
    values = [body.expression(argument.value).type for argument in node.arguments]
    if len(values) == 1 and isinstance(values[0], StrType) and values[0].value:
        return replace(found, graph=values[0].value)
    body.sink.error(E0508, at=node.span, problem="`@graph.module` takes the name of the graph")
    return found


def _sizes(body: Body, node: ast.Call, found: Decorations) -> Decorations:
    """`@sizes(N=1024, K=8)`."""
    return replace(found, sizes=expected_sizes(body, node, found.sizes))


def _rule(body: Body, node: ast.Call, found: Decorations) -> Decorations:
    """`@vjp_of(f)`: a derivative of a function of the same file, which finds it by its name."""
    given = node.arguments[0].value if len(node.arguments) == 1 and node.arguments[0].name is None else None
    meaning = body.rules.resolve(given.id) if isinstance(given, ast.Name) else None
    if isinstance(meaning, FunctionRef) and given is not None and body.rules.is_own(meaning):
        return found
    draft = body.sink.error(E0705, at=node.span, problem=f"`@{dotted_name(node)}` takes a function of the same file")
    if isinstance(given, ast.Name) and meaning is None:
        draft.did_you_mean(given.id, body.rules.suggestions(), given.span)
    draft.remark("the derivative of an operator or of a function of another file is its own")
    return replace(found, is_known=False)


def _numerics(body: Body, node: ast.Call, found: Decorations) -> Decorations:
    """`@verify.numerics(stable=True, bounded=[-100, 100])`."""
    given = _given(body, node, ("stable", "bounded"))
    stable = body.expression(given["stable"]).type if "stable" in given else BoolType(True)
    if not isinstance(stable, BoolType):
        _wrong(body, given["stable"], "stable", "True or False", stable)
        return found
    if "bounded" not in given:
        return replace(found, bounds=Bounds() if stable.value else None)
    value = body.expression(given["bounded"]).type
    ends = _ends(value.items) if isinstance(value, TupleType) else None
    if ends is None:
        _wrong(body, given["bounded"], "bounded", "two numbers, the lower one first", value)
        return found
    return replace(found, bounds=Bounds(*ends))


def _within(body: Body, node: ast.Call, found: Decorations) -> Decorations:
    """`@within(0, 1)`: what the library says of every element that a function returns for finite arguments. It is
    believed, so that a program cannot say it: `@verify.numerics` is checked."""
    ends = _ends([body.expression(argument.value).type for argument in node.arguments])
    if ends is None or not of_library(node.span.file):
        body.sink.error(E0508, at=node.span, problem="`@within` is what the library says of its results")
        return replace(found, is_known=False)
    return replace(found, within=ends)


def _effect(body: Body, node: ast.Call, found: Decorations) -> Decorations:
    """`@effect(state)`: a functional update of what outlives a call, such as a cache."""
    names = [argument.value.id for argument in node.arguments if isinstance(argument.value, ast.Name)]
    if len(names) != len(node.arguments) or not of_library(node.span.file):
        body.sink.error(E0508, at=node.span, problem="`@effect` is what the library says of its functions")
        return replace(found, is_known=False)
    return replace(found, effects=tuple(names))


def _word(body: Body, node: ast.Call, found: Decorations) -> Decorations:
    """`@along_axis("weights")`: what the library says of a function, for rules that then need not know its name."""
    name = dotted_name(node)
    values = [argument.value for argument in node.arguments]
    fits = len(values) == 1 and isinstance(values[0], ast.StringLiteral) and values[0].value in WORDS[name]
    if fits and of_library(node.span.file):
        return found
    body.sink.error(E0508, at=node.span, problem=f"`@{name}` is what the library says of its functions")
    return replace(found, is_known=False)


def _form(body: Body, node: ast.Call, found: Decorations) -> Decorations:
    """`@form_of(solve, "diagonal")`: what the library computes where a matrix has a structure."""
    match [argument.value for argument in node.arguments]:
        case [ast.Name(id=of), ast.StringLiteral(value=word)] if of_library(node.span.file) and word in STRUCTURES:
            if isinstance(body.rules.resolve(of), FunctionRef):
                return found
    body.sink.error(E0508, at=node.span, problem=f"`@{FORM_OF}` is what the library says of its functions")
    return replace(found, is_known=False)


def _also(body: Body, node: ast.Call, found: Decorations) -> Decorations:
    """`@also(kernel_size="size")`: what other libraries call a parameter."""
    if of_library(node.span.file) and all(a.name and isinstance(a.value, ast.StringLiteral) for a in node.arguments):
        return found
    body.sink.error(E0508, at=node.span, problem=f"`@{ALSO}` is what the library says of its functions")
    return replace(found, is_known=False)


def _law(body: Body, node: ast.Call, found: Decorations) -> Decorations:
    """`@law(of=softmax, within=2e-6)`: what is written with a function is computed in another way."""
    given = _given(body, node, ("of", WITHIN))
    if of_library(node.span.file) and given.keys() == {"of", WITHIN}:
        return replace(found, law=given["of"], tolerance=_tolerance(body, given[WITHIN]))
    body.sink.error(E0508, at=node.span, problem=f"`@{LAW}` is what the library says of its functions")
    return replace(found, is_known=False)


def _ends(types: Sequence[Type]) -> tuple[float, float] | None:
    """Two numbers, the lower one first."""
    numbers = [end for end in map(_number, types) if end is not None]
    ordered = len(types) == len(numbers) == 2 and numbers[0] <= numbers[1]
    return (numbers[0], numbers[1]) if ordered else None


def _number(type_: Type) -> float | None:
    if isinstance(type_, IntType) and type_.value.constant is not None:
        return float(type_.value.constant)
    return type_.value if isinstance(type_, FloatType) else None


_READERS: dict[str, Callable[[Body, ast.Call, Decorations], Decorations]] = {
    "export": _export,
    "kernel": _implements,
    "kernel.schedule": _schedule,
    "kernel.autotune": _autotune,
    "graph.module": _module,
    "verify.numerics": _numerics,
    SIZES: _sizes,
    WITHIN: _within,
    EFFECT: _effect,
    "vjp_of": _rule,
    "jvp_of": _rule,
    FORM_OF: _form,
    ALSO: _also,
    TAKES: _also,
    LAW: _law,
    **dict.fromkeys(WORDS, _word),
}
