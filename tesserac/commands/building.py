"""`tesserac build`: a bundle that runs without the compiler, or one level of a program as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tessera.bundle import Bundle
from tessera.files import write_file
from tesserac.base.source import SourceFile
from tesserac.commands import names
from tesserac.commands.levels import FunctionLevels, module_tree, wanted_levels
from tesserac.commands.outcome import Outcome, UsageMistake
from tesserac.commands.select import Selection, default_makers, read, select_all, select_one, waits_for
from tesserac.commands.targets import CpuTarget, GpuTarget, find_target
from tesserac.session import Session, Sizes

BUNDLE_SUFFIX = ".tessb"


def build_bundle(
    session: Session, path: str, out: str | None, target: str, function: str | None, sizes: Sizes
) -> Outcome:
    """Writes FILE.tessb, or `out`. Raises ProgramError, UsageMistake."""
    chosen = find_target(target)
    if not isinstance(chosen, CpuTarget):
        raise UsageMistake("bundles are made for CPUs; --emit ptx prints the code of a GPU")
    source = read(session, path)
    selection = _selection(session, source, function)
    if not selection.functions:
        raise UsageMistake(f"`{path}` has no function that can be compiled before it is called")
    offers, makers = session.interface(source), default_makers(session, source, selection.functions)
    bundle = Bundle(
        Path(path).stem,
        offers._replace(
            functions=tuple(dict.fromkeys(s.interface for s in selection.functions)),
            reads=(),
            hidden=tuple(s.interface for s in makers),
        ),
        {
            (s.interface.name, s.chosen): session.artifact(source, s.function, chosen.platform, sizes)
            for s in (*selection.functions, *makers)
        },
    )
    place = Path(out) if out else Path(path).with_suffix(BUNDLE_SUFFIX)
    data = bundle.to_bytes()
    write(place, data)
    listed = ", ".join(dict.fromkeys(s.interface.name for s in selection.functions))
    left_out = [f"left out `{name}`: {waits_for(missing)}\n" for name, missing in selection.waiting]
    return Outcome(remarks=f"{place}: {listed} ({len(data) / 1024:.0f} KB)\n" + "".join(left_out))


def emit_level(
    session: Session, path: str, out: str | None, target: str, level: str, function: str | None, sizes: Sizes
) -> Outcome:
    """Prints a level, or writes it to `out`. Raises ProgramError, UsageMistake."""
    source = read(session, path)
    text = _level_text(session, source, find_target(target), level, function, sizes)
    if out is None:
        return Outcome(text)
    write(Path(out), text.encode())
    return Outcome()


def _level_text(
    session: Session, source: SourceFile, target: CpuTarget | GpuTarget, level: str, function: str | None, sizes: Sizes
) -> str:
    (view,) = wanted_levels(target.levels, level)
    if view == names.AST and function is None:
        return module_tree(source)
    selected = _selection(session, source, function).functions
    parts = [
        (s.interface.name, FunctionLevels(session, source, s.function, target, sizes).text(view)) for s in selected
    ]
    if len(parts) == 1:
        return parts[0][1]
    return "\n".join(f"{view.comment} {name}\n{text}" for name, text in parts)


def _selection(session: Session, source: SourceFile, function: str | None) -> Selection:
    if function is None:
        return select_all(session, source)
    return Selection((select_one(session, source, function),), ())


def write(path: Path, data: bytes) -> None:
    if not path.parent.is_dir():
        raise UsageMistake(f"cannot write `{path}`: there is no folder `{path.parent}`")
    try:
        write_file(path, data)
    except OSError as problem:
        raise UsageMistake(f"cannot write `{path}`: {(problem.strerror or str(problem)).lower()}") from None


def read_sizes(given: Sequence[str]) -> dict[str, int]:
    """`N=1024` as a size and its value. Raises UsageMistake."""
    sizes: dict[str, int] = {}
    for text in given:
        name, _, value = text.partition("=")
        if not name.isidentifier() or not value.isdecimal():
            raise UsageMistake(f"--specialize takes a size and its value, such as N=1024, not `{text}`")
        sizes[name] = int(value)
    return sizes
