"""What instructions this processor has, as the system names them: `avx2`, `asimddp`."""

from __future__ import annotations

from functools import cache

_CPU_INFO = "/proc/cpuinfo"
_X86 = ("avx", "amx", "fma", "bmi", "f16c", "movbe", "abm", "sse4", "ssse3", "popcnt", "sha_ni", "vaes", "gfni")
_NOT_CODE = frozenset({"evtstrm", "cpuid", "dcpop", "dcpodp", "paca", "pacg", "ssbs", "sb", "dit", "bti", "rng", "ecv"})
"""Features of ARM processors that no compiler makes instructions of by itself."""
LEAST = {"x86_64": ("avx2", "bmi2", "f16c", "fma"), "aarch64": ("asimd", "fp")}
"""What the families have at least that code is made for."""


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
        return frozenset(flag for flag in found["flags"] if flag.startswith(_X86))
    return frozenset(found["Features"]) - _NOT_CODE if "Features" in found else None
