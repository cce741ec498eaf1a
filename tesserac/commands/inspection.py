"""`tesserac inspect`: one function at every level, with its source beside it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from tesserac.base.source import SourceFile, Span
from tesserac.check.algebra.telling import known_text, operators_in
from tesserac.check.analysis.reach import called, parts_of
from tesserac.check.model.typed import Call, Request, TypedFunction
from tesserac.check.state.requests import NOT_SCHEDULED, NOT_TILED
from tesserac.commands import names
from tesserac.commands.beside import print_beside
from tesserac.commands.costs import describe_costs
from tesserac.commands.decisions import describe_schedule
from tesserac.commands.levels import FunctionLevels, asked_places, wanted_levels
from tesserac.commands.outcome import Outcome, UsageMistake
from tesserac.commands.rewriting import show_rewrites
from tesserac.commands.select import read, select_one
from tesserac.commands.targets import find_target
from tesserac.driver.session import NO_SIZES, Session, Sizes
from tesserac.graph.passes.inline import ALONE
from tesserac.ir.effects import COMPARES
from tesserac.syntax import ast
from tesserac.syntax.parse import parse_module
from tesserac.tune.schedules import said_path

RULE_WIDTH = 100
DIFFERENTIATED = "every call is differentiated or mapped, by the body of the function or its rule"
BESIDE = "launches beside a kernel compute what it implements, and compare the two: a release has none of them\n"


def inspect(
    session: Session, place: str, level: str | None, target: str | None, sizes: Sizes = NO_SIZES
) -> Outcome:
    """`place` is FILE:FUNCTION. All levels of the target, or one; costs are those at `sizes`. Raises ProgramError,
    UsageMistake."""
    levels = _levels_of(session, place, target or names.default_target(level or ""))
    shown = wanted_levels((*levels.target.levels, names.COSTS), level)
    head = [] if level else [_section("source", levels.source.path, _about(levels))]
    texts = [describe_costs(levels, sizes) if v == names.COSTS else level_text(levels, v) for v in shown]
    return Outcome("\n".join([*head, *(_section(v.name, v.title, t) for v, t in zip(shown, texts, strict=True))]))


def about(session: Session, place: str, target: str) -> str:
    """What `inspect` says before the levels, for which no code is made."""
    return _about(_levels_of(session, place, target))


def _levels_of(session: Session, place: str, target: str) -> FunctionLevels:
    path, function = _parts(place)
    source = read(session, path)
    return FunctionLevels(session, source, select_one(session, source, function).function, find_target(target))


def rewrites(session: Session, place: str) -> Outcome:
    """The laws that a function's linear algebra went by. Raises ProgramError, UsageMistake."""
    path, name = _parts(place)
    source = read(session, path)
    function = select_one(session, source, name).function
    reached = session.check(source).result.reach(function)
    return show_rewrites(session, list(reached.values()), function.symbol)


def _parts(place: str) -> tuple[str, str]:
    path, colon, function = place.rpartition(":")
    if not (colon and path and function):
        raise UsageMistake(f"`{place}` is not FILE:FUNCTION")
    return path, function


def _about(levels: FunctionLevels) -> str:
    """The function as it is written and typed, what of it is not taken, and how its kernels run."""
    session, function, told = levels.session, levels.function, levels.kernels()
    reached = list(session.check(levels.source).result.reach(function).values())
    tiled = {symbol for symbol, why in told if not why}
    about = source_lines(levels.source, function.name) + signature(function)
    about += f"numerics: {levels.numerics()}\n" if levels.numerics() else ""
    about += not_taken(session, reached, tiled, asked_places(levels.shared))
    known = {other.symbol: other for other in reached}
    about += without_kernels(session, known) + without_entries(known.values())
    functions = called([function], known.__getitem__).values()
    about += kernel_choices(levels.choices(), functions)
    about += BESIDE if _is_compared(levels) else ""
    runs = [(symbol, _runs(why, levels.limits(symbol))) for symbol, why in [*told, *apart(told, functions)]]
    return about + "".join(f"kernel `{symbol}`: {how}\n" for symbol, how in runs)


def _is_compared(levels: FunctionLevels) -> bool:
    """Whether the function runs a kernel and what it implements, to compare them."""
    return any(COMPARES in op.attrs for op in levels.shared.forms.walk())


def apart(told: list[tuple[str, str]], functions: Iterable[TypedFunction]) -> list[tuple[str, str]]:
    """Kernels that are computed as what they mean before a target is asked, each with the reason."""
    known = {symbol.partition("$")[0] for symbol, _ in told}  # what is mapped goes by the same name
    kernels = [f for f in functions if (f.program is not None or f.apart) and f.symbol.removesuffix(ALONE) not in known]
    return [(kernel.symbol, kernel.apart or DIFFERENTIATED) for kernel in kernels]


def _runs(why: str, within: str) -> str:
    if why:
        return f"runs as its meaning: {why}"
    return f"runs as tiles where {within}, else as its meaning" if within else "runs as tiles"


def kernel_choices(told: list[tuple[str, str, bool, str]], functions: Iterable[TypedFunction]) -> str:
    """Which kernels calls take of those that implement what is called, and why not the others. `functions` are all that
    the program calls."""
    written, known = {}, {callee for callee, *_ in told}
    told = list(told)
    for function in functions:
        written[function.symbol] = _as_written(function)
        if function.symbol not in known and not function.pattern:
            told += [(function.symbol, way.kernel, False, DIFFERENTIATED) for way in function.alternatives]
    words = {True: "takes", False: "does not take"}
    lines = [f"`{written.get(of, of)}` {words[taken]} kernel `{name}`: {why}\n" for of, name, taken, why in told]
    return "".join(dict.fromkeys(lines))


def _as_written(function: TypedFunction) -> str:
    """The module and the name of a function, without the types that one of its instances is for."""
    module, _, _ = function.symbol.partition(f".{function.name}")
    return f"{module}.{function.name}"


def level_text(levels: FunctionLevels, level: names.LevelName) -> str:
    """A level for a person: IR with its source beside it, a schedule with its reasons before it."""
    module = levels.module(level)
    if module is None:
        return levels.text(level)
    text = print_beside(module, levels.session.sources(), levels.source.path)
    return f"{describe_schedule(module)}\n{text}" if level == names.SCHEDULE else text


def source_lines(source: SourceFile, function: str) -> str:
    """The lines of a function with their numbers."""
    items = parse_module(source).module.items
    node = next(i for i in items if isinstance(i, ast.FunctionDef) and i.name == function)
    first, last = source.position(node.span.start)[0], source.position(node.span.end)[0]
    return "".join(f"{n:>{len(str(last))}}  {source.line_text(n)}\n" for n in range(first, last + 1))


def signature(function: TypedFunction) -> str:
    """What the checker found: types, sizes, guards, effects."""
    params = ", ".join(f"{p.name}: {p.type.show()}" for p in function.params)
    lines = ["", f"{function.name}({params}) -> {function.result.show()}"]
    lines += [f"for all {', '.join(function.symbols)}"] if function.symbols else []
    operators = dict.fromkeys(operators_in(function.body))
    lines += [f"{name}: {type_.show()}, {known_text(type_)}" for name, type_ in operators]
    lines += [f"guard on entry: {guard.text}" for guard in function.guards]
    lines += [f"{'proven' if p.is_proven else 'checked at run time'}: {p.text}" for p in function.promises]
    lines += [f"graph: {function.graph}"] if function.graph else []
    lines += [f"effects: {', '.join(sorted(function.effects))}"] if function.effects else []
    return "".join(f"{line}\n" for line in lines)


def requests_not_taken(
    functions: Iterable[TypedFunction], tiled: Container[str], asked: Sequence[Span]
) -> list[Request]:
    """What functions ask for and nothing follows from, each once. Kernels that run as tiles take their schedules, and
    `asked` are the places of launches that have the blocks that were asked for."""
    all_of = ((function.symbol in tiled, request) for function in functions for request in function.requests)
    left = (request for is_tiled, request in all_of if request.why and not (is_tiled and request.why == NOT_SCHEDULED))
    return [r for r in dict.fromkeys(left) if r.why != NOT_TILED or not any(place.holds(r.span) for place in asked)]


def not_taken(
    session: Session, functions: Iterable[TypedFunction], tiled: Container[str], asked: Sequence[Span]
) -> str:
    """The same in words, with their places and reasons."""
    lines = []
    for request in requests_not_taken(functions, tiled, asked):
        file, line, _ = session.locate(request.span)
        lines.append(f"not taken: `{request.text}` ({file}:{line}): {request.why}\n")
    return "".join(lines)


def without_kernels(session: Session, known: Mapping[str, TypedFunction]) -> str:
    """Schedules that calls pass on, and no kernel takes."""
    lines = []
    for call in (part for function in known.values() for part in parts_of(function.body) if isinstance(part, Call)):
        if call.schedule and not any(f.program or f.apart for f in _called(call, known)):
            (file, line, _), name = session.locate(call.span), known[call.function].name
            lines.append(f"not taken: the schedule of `{name}` ({file}:{line}): it calls no kernel\n")
    return "".join(lines)


def _called(call: Call, known: Mapping[str, TypedFunction]) -> Iterable[TypedFunction]:
    return called([known[call.function]], known.__getitem__).values()


def without_entries(functions: Iterable[TypedFunction]) -> str:
    """Files that kernels name for what tuning finds, and that are not there."""
    said = dict.fromkeys(f.program.cache for f in functions if f.program is not None and f.program.cache)
    missing = (text for text in said if not said_path(text).exists())
    return "".join(f'not taken: cache="{text}": there is no such file; `tesserac tune` writes it\n' for text in missing)


def _section(name: str, title: str, body: str) -> str:
    head = f"== {name} == {title} "
    return f"{head:=<{RULE_WIDTH}}\n\n{body}"
