"""What targets are called, by commands and by programs, and which settings hold on one of them. Plain data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

CPU_ARCHES = ("x86-64-v3", "x86-64-v4", "x86-64-v4-amx", "aarch64", "aarch64-sve", "apple")
GPU_ARCHES = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a")
CPU, CUDA = "cpu", "cuda"
TARGETS = (CPU, *(f"{CPU}:{arch}" for arch in CPU_ARCHES), CUDA, *(f"{CUDA}:{arch}" for arch in GPU_ARCHES))
"""To a command, `cpu` is this machine and `cuda` is `cuda:sm_90a`; to a schedule, either is all of its kind."""

_ON = "@"
Value = TypeVar("Value")


def setting_on(name: str, target: str) -> str:
    """What a setting is called that holds on one target only; on all where none is said."""
    return f"{name}{_ON}{target}" if target else name


def setting_and_target(name: str) -> tuple[str, str]:
    """The setting, and the target that it holds on; none where it holds on all."""
    setting, _, target = name.partition(_ON)
    return setting, target


def covers(wide: str, target: str) -> bool:
    """Whether a machine that is `target` is also `wide`."""
    return wide in ("", target, target.partition(":")[0])


def laid_over(
    earlier: Iterable[tuple[str, Value]], later: Iterable[tuple[str, Value]]
) -> tuple[tuple[str, Value], ...]:
    """Settings of two schedules, of which the later one goes first wherever it says something."""
    new = dict(later)
    said = [setting_and_target(name) for name in new]

    def stays(name: str) -> bool:
        setting, target = setting_and_target(name)
        return not any(setting == other and covers(wide, target) for other, wide in said)

    return (*(pair for pair in earlier if stays(pair[0])), *new.items())


def taken_on(settings: Iterable[tuple[str, Value]], target: str) -> dict[str, tuple[Value, str]]:
    """Of each setting what holds on a machine, and what it was said for: the narrowest target goes first."""
    taken: dict[str, tuple[Value, str]] = {}
    fitting = [(*setting_and_target(name), value) for name, value in settings]
    for setting, said, value in sorted(fitting, key=lambda one: len(one[1])):
        if covers(said, target):
            taken[setting] = value, said
    return taken
