"""`tesserac build`: a bundle that runs without the compiler, or one level of a program as text.

A bundle has each function once for each target: one CPU at most, and any number of GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tessera.artifact import CPU_TARGET, Artifact
from tessera.bundle import Bundle
from tessera.errors import TesseraError
from tessera.files import write_file
from tessera.gpu_artifact import MACHINES, AnyArtifact
from tessera.signing import signed
from tesserac.base.source import SourceFile
from tesserac.commands import names
from tesserac.commands.levels import FunctionLevels, module_tree, wanted_levels
from tesserac.commands.outcome import Outcome, UsageMistake
from tesserac.commands.select import Selected, Selection, default_makers, read, select_all, select_one, waits_for
from tesserac.commands.targets import CpuTarget, GpuTarget, find_target
from tesserac.driver.gpu_functions import artifact_for_gpu
from tesserac.driver.refusals import OF_FUNCTIONS, ProgramError, SizesMissing, StaysInside, stays_inside
from tesserac.driver.session import Session, Sizes
from tesserac.entry.interface import holds_function
from tesserac.tune.schedules import Schedules

BUNDLE_SUFFIX = ".tessb"


def build_bundle(
    session: Session,
    path: str,
    out: str | None,
    target: str,
    function: str | None,
    sizes: Sizes,
    key: str | None = None,
    assembles: bool = False,
) -> Outcome:
    """Writes FILE.tessb, or `out`, signed if there is a `key`; `target` are targets with commas between them. Where it
    `assembles`, machine code lies beside the PTX. Raises ProgramError, UsageMistake."""
    chosen = _targets(target.split(","))
    if assembles:
        _refuse_assembling(chosen)
    source = read(session, path)
    selection = _selection(session, source, function, sizes)
    (first, made_first), *others = chosen.items()
    built, left_out = _built(session, source, selection, made_first, sizes)
    offers, makers = session.interface(source), default_makers(session, source, built)
    functions = {(s.interface.name, s.chosen, first): artifact for s, artifact in built.items()}
    wanted = [(makers, first, made_first), *(([*built, *makers], name, other) for name, other in others)]
    for group, name, other in wanted:
        for s in group:
            functions[s.interface.name, s.chosen, name] = _compiled(session, source, s, other, sizes)
    if assembles:
        functions = {name: _assembled(artifact) for name, artifact in functions.items()}
    bundle = Bundle(
        Path(path).stem,
        offers._replace(
            functions=tuple(dict.fromkeys(s.interface for s in built)),
            reads=(),
            hidden=tuple(s.interface for s in makers),
        ),
        functions,
        tuple(chosen),
        next((one.instructions for one in chosen.values() if isinstance(one, CpuTarget)), ()),
        Schedules().with_entries(session.taken).to_text() if session.taken else "",
    )
    place = Path(out) if out else Path(path).with_suffix(BUNDLE_SUFFIX)
    data = bundle.to_bytes() if key is None else _signed(bundle, key)
    write(place, data)
    listed = ", ".join(dict.fromkeys(s.interface.name for s in built))
    return Outcome(remarks=f"{place}: {listed} ({len(data) / 1024:.0f} KB)\n" + _told(left_out))


def _targets(names: Sequence[str]) -> dict[str, CpuTarget | GpuTarget]:
    """The targets of a bundle, by the names that a runtime looks for. Raises UsageMistake."""
    found: dict[str, CpuTarget | GpuTarget] = {}
    for target in map(find_target, names):
        name = CPU_TARGET if isinstance(target, CpuTarget) else f"cuda:{target.platform.schedule.arch}"
        if name in found:
            what = "one CPU" if name == CPU_TARGET else f"{name} once"
            raise UsageMistake(f"a bundle is made for {what} at most: --target {','.join(names)}")
        found[name] = target
    return found


def _compiled(
    session: Session, source: SourceFile, one: Selected, target: CpuTarget | GpuTarget, sizes: Sizes
) -> AnyArtifact:
    if holds_function(session.returned(one.function, sizes)):
        raise stays_inside(one.function, OF_FUNCTIONS)
    if isinstance(target, CpuTarget):
        return session.artifact(source, one.function, target.platform, sizes)
    from tesserac.commands.counting_bar import CountingBar

    made = artifact_for_gpu(session, source, one.function, target.platform, sizes)
    with CountingBar(f"kernels of {one.interface.name}") as bar:
        made.make_code(bar.show)
    return made._replace(machines=MACHINES)


def _refuse_assembling(targets: Mapping[str, CpuTarget | GpuTarget]) -> None:
    """Raises UsageMistake where there is nothing to assemble, or nothing to do it."""
    if not any(isinstance(target, GpuTarget) for target in targets.values()):
        raise UsageMistake("--cubin is for GPUs; say one by --target, such as cuda:sm_90a")
    from tesserac.target.nvptx.ptx import find_ptxas

    if find_ptxas() is None:
        raise UsageMistake("--cubin needs NVIDIA's assembler: pip install nvidia-cuda-nvcc")


def _assembled(artifact: AnyArtifact) -> AnyArtifact:
    if isinstance(artifact, Artifact):
        return artifact
    from tesserac.target.nvptx.ptx import assemble

    arch = artifact.program.arch
    return artifact.assembled(lambda ptx: assemble(ptx, arch).cubin)


def _signed(bundle: Bundle, key: str) -> bytes:
    try:
        return signed(bundle.to_bytes(), key)
    except TesseraError as problem:
        raise UsageMistake(str(problem).removeprefix("error")) from None


def _built(
    session: Session, source: SourceFile, selection: Selection, target: CpuTarget | GpuTarget, sizes: Sizes
) -> tuple[dict[Selected, AnyArtifact], dict[str, str]]:
    """What can be built, and why the rest is left out. What others call only, and cannot be called from outside, is no
    mistake where the program does not export it. Raises ProgramError, UsageMistake."""
    built: dict[Selected, AnyArtifact] = {}
    left_out = {name: waits_for(missing) for name, missing in selection.waiting}
    refused: ProgramError | None = None
    for one in selection.functions:
        try:
            built[one] = _compiled(session, source, one, target, sizes)
        except (SizesMissing, StaysInside) as problem:
            if selection.exported:
                raise
            refused = refused or problem
            left_out[one.interface.name] = _why_not(problem)
    if refused is not None and not built:
        raise refused
    if not built:
        raise _nothing(source, left_out)
    return built, left_out


def _why_not(problem: ProgramError) -> str:
    if not isinstance(problem, SizesMissing):
        return "its result stays inside the language"
    sizes = ", ".join(f"`{name}`" for name in problem.demanded.symbols)
    return f"there is code of its own for each {sizes}; say it by --specialize"


def _told(left_out: Mapping[str, str]) -> str:
    return "".join(f"left out `{name}`: {why}\n" for name, why in left_out.items())


def _nothing(source: SourceFile, left_out: Mapping[str, str]) -> UsageMistake:
    waiting = "".join(f"\n  `{name}`: {why}" for name, why in left_out.items())
    return UsageMistake(f"`{source.path}` has no function that can be compiled before it is called{waiting}")


def emit_level(
    session: Session, path: str, out: str | None, target: str, level: str, function: str | None, sizes: Sizes
) -> Outcome:
    """Prints a level, or writes it to `out`. Raises ProgramError, UsageMistake."""
    source = read(session, path)
    text, left_out = _level_text(session, source, find_target(target), level, function, sizes)
    if out is None:
        return Outcome(text, _told(left_out))
    write(Path(out), text.encode())
    return Outcome(remarks=_told(left_out))


def _level_text(
    session: Session, source: SourceFile, target: CpuTarget | GpuTarget, level: str, function: str | None, sizes: Sizes
) -> tuple[str, dict[str, str]]:
    (view,) = wanted_levels(target.levels, level)
    if view == names.AST and function is None:
        return module_tree(source), {}
    selection = _selection(session, source, function, sizes)
    left_out = {name: waits_for(missing) for name, missing in selection.waiting}
    if not selection.functions:
        raise _nothing(source, left_out)
    parts = [
        (s.interface.name, FunctionLevels(session, source, s.function, target, sizes).text(view))
        for s in selection.functions
    ]
    if len(parts) == 1:
        return parts[0][1], left_out
    return "\n".join(f"{view.comment} {name}\n{text}" for name, text in parts), left_out


def _selection(session: Session, source: SourceFile, function: str | None, sizes: Sizes) -> Selection:
    if function is None:
        selection = select_all(session, source, sizes)
    else:
        selection = Selection((select_one(session, source, function, sizes),), ())
    _refuse_unknown(selection, sizes)
    return selection


def _refuse_unknown(selection: Selection, sizes: Sizes) -> None:
    """Raises UsageMistake for a number that no function takes."""
    known = {symbol for one in selection.functions for symbol in one.function.symbols}
    known |= {p.name for one in selection.functions for p in one.interface.parameters if p.kind == "int"}
    for name in sizes:
        if name not in known:
            offered = ", ".join(f"`{size}`" for size in sorted(known)) or "no sizes or ints"
            raise UsageMistake(f"--specialize {name}=...: these functions have {offered}")


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
