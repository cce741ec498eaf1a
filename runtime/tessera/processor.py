"""What this machine has: instructions, as the system names them (`avx2`, `asimddp`), cores and caches."""

from __future__ import annotations

import ctypes
import os
import platform
import re
from functools import cache
from math import ceil

_CPU_INFO = "/proc/cpuinfo"
_X86 = ("avx", "amx", "fma", "bmi", "f16c", "movbe", "abm", "sse4", "ssse3", "popcnt", "sha_ni", "vaes", "gfni")
_NOT_CODE = frozenset({"evtstrm", "cpuid", "dcpop", "dcpodp", "paca", "pacg", "ssbs", "sb", "dit", "bti", "rng", "ecv"})
"""Features of ARM processors that no compiler makes instructions of by itself."""
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
_CACHES = "/sys/devices/system/cpu/cpu0/cache"
_QUOTAS = (("/sys/fs/cgroup/cpu.max",), ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"))
"""Where control groups say how many microseconds of each period a process may run, on all cores together: in the
second version, and in the first."""


@cache
def instructions() -> frozenset[str] | None:
    """The sets of instructions that a compiler may use here; None where the system does not tell."""
    try:
        with open(_CPU_INFO, encoding="ascii", errors="replace") as file:
            lines = file.read().split("\n\n")[0].splitlines()
    except OSError:
        return None
    found = {name.strip(): value.split() for name, _, value in (line.partition(":") for line in lines)}
    if "flags" in found:
        refused = () if _may_use_tiles() else ("amx",)
        return frozenset(flag for flag in found["flags"] if flag.startswith(_X86) and not flag.startswith(refused))
    return frozenset(found["Features"]) - _NOT_CODE if "Features" in found else None


def _may_use_tiles() -> bool:
    """Whether Linux lets this process use the tiles of a matrix unit, whose state is larger than what it saves of every
    process: it must be asked, once."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    return int(ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)) == 0


@cache
def available_cores() -> int:
    """Cores that this process may use: those it is bound to, and no more than its control group pays for."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    granted = [cores for cores in map(_granted, _QUOTAS) if cores is not None]
    return max(1, min([bound, *granted]))


def _granted(files: tuple[str, ...]) -> int | None:
    """The cores of one quota, rounded up; None where there is none."""
    words = [word for path in files for word in _text(path).split()]
    if len(words) != 2 or not all(word.isdecimal() and int(word) for word in words):
        return None
    return ceil(int(words[0]) / int(words[1]))


@cache
def caches() -> tuple[int, int, int]:
    """Bytes of the first data cache and of the second one of a core, and of the last one that cores share; 0 where the
    system does not tell."""
    found = {"1": 0, "2": 0, "3": 0}
    for index in range(8):
        level, kind, size = (_text(f"{_CACHES}/index{index}/{name}").strip() for name in ("level", "type", "size"))
        number = re.fullmatch(r"(\d+)([KM]?)", size)
        if kind in ("Data", "Unified") and level in found and number is not None:
            found[level] = int(number[1]) << {"": 0, "K": 10, "M": 20}[number[2]]
    return found["1"], found["2"], found["3"]


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
