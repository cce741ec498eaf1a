"""Functions for CPUs of which a caller may still have to say sizes.

Enters: a function of a session, a platform, sizes that are numbers. Leaves: an `Artifact`, or a `ProgramError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tesserac.base.source import SourceFile
from tesserac.check.model.typed import TypedFunction
from tesserac.driver.refusals import SizesMissing
from tesserac.driver.session import Session, Sizes

if TYPE_CHECKING:
    from tessera.artifact import Artifact
    from tesserac.target.cpu.build import CpuPlatform


def artifact_of_each_size(
    session: Session, source: SourceFile, function: TypedFunction, cpu: CpuPlatform, sizes: Sizes
) -> Artifact:
    """Its code; where a size has to be said, what a caller needs to find it."""
    from tesserac.target.cpu.artifact import unsized_artifact

    try:
        return session.artifact(source, function, cpu, sizes)
    except SizesMissing as problem:
        made = unsized_artifact(problem.demanded.function, problem.demanded.symbols, name=function.name)
        return made._replace(params=tuple(param.name for param in function.reads))
