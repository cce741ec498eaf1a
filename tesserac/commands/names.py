"""The words of the command line: levels. Plain data, so that `--help` imports nothing heavy."""

from __future__ import annotations

from tesserac.base.dataclass import dataclass

BUNDLE = "bundle"


@dataclass(frozen=True)
class LevelName:
    """A level of the compiler: what it shows, and what starts a comment in its text."""

    name: str
    title: str
    comment: str = "//"


AST = LevelName("ast", "syntax tree", "#")
GRAPH = LevelName("graph", "Graph IR: operators by name, calls")
FORMS = LevelName("forms", "Graph IR after all passes: structural forms over scalar primitives")
SCHEDULE = LevelName("schedule", "Schedule IR: the host program, and how each launch is cut")
TILE = LevelName("tile", "Tile IR: one program per block, for any target")
CPU = LevelName("cpu", "CPU tiles: vectors, folds, packed panels, micro-kernels")
GPU = LevelName("gpu", "GPU tiles: who holds what, copies, roles, barriers")
LLVM = LevelName("llvm", "LLVM IR of the kernels", ";")
ASM = LevelName("asm", "assembly of the kernels", "#")
PTX = LevelName("ptx", "PTX of the kernels")

COSTS = LevelName("costs", "what it costs: bytes, operations, bounds; of GPU kernels what the assembler says")

CPU_LEVELS = (AST, GRAPH, FORMS, SCHEDULE, TILE, CPU, LLVM, ASM)
GPU_LEVELS = (AST, GRAPH, FORMS, SCHEDULE, TILE, GPU, LLVM, PTX)
LEVELS = tuple(dict.fromkeys((*CPU_LEVELS, *GPU_LEVELS)))
INSPECTED = (*LEVELS, COSTS)
"""What `tesserac inspect` shows besides."""


def default_target(level: str) -> str:
    """The target that a level is shown for unless another is asked for."""
    return "cuda" if level in (GPU.name, PTX.name) else "cpu"
