"""Functions for GPUs as artifacts, beside what a session makes for CPUs.

Enters: a function of a session, a platform, sizes that are numbers. Leaves: a `GpuArtifact`, or a `ProgramError`. The
PTX of a kernel is made when it is first asked for: a call needs one variant of several.
"""

from __future__ import annotations

from tessera.gpu_artifact import GpuArtifact
from tesserac.base.source import SourceFile
from tesserac.check.model.typed import TypedFunction
from tesserac.driver.refusals import SizesMissing
from tesserac.driver.session import NO_SIZES, Session, Sizes
from tesserac.target.cpu.artifact import unsized_artifact
from tesserac.target.nvptx.build import GpuPlatform, gpu_artifact, unsized_gpu_artifact
from tesserac.target.nvptx.worker import start_worker


def artifact_for_gpu(
    session: Session, source: SourceFile, function: TypedFunction, gpu: GpuPlatform, sizes: Sizes = NO_SIZES
) -> GpuArtifact:
    """Raises ProgramError; where a size has to be said, SizesMissing."""
    start_worker()  # it gets ready beside what comes first
    program = session.gpu_program(source, function, gpu, sizes)
    reads = tuple(param.name for param in function.reads)
    return gpu_artifact(program, session.returned(function, sizes), reads, _places(session, source, function))


def artifact_for_gpu_of_each_size(
    session: Session, source: SourceFile, function: TypedFunction, gpu: GpuPlatform, sizes: Sizes
) -> GpuArtifact:
    """The same; where a size has to be said, what a caller needs to find it."""
    try:
        return artifact_for_gpu(session, source, function, gpu, sizes)
    except SizesMissing as problem:
        made = unsized_artifact(problem.demanded.function, problem.demanded.symbols, name=function.name)
        return unsized_gpu_artifact(made, gpu, tuple(param.name for param in function.reads))


def _places(session: Session, source: SourceFile, function: TypedFunction) -> tuple[int, ...]:
    """The numbers of the GPUs that a function and what it calls name."""
    reached = session.reached(source, function).values()
    numbers = {request.number for one in reached for request in one.requests}
    return tuple(sorted(number for number in numbers if number is not None))
