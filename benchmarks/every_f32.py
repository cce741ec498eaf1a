"""Elementary functions at all 2^32 numbers of f32, beside their own f64 forms.

    python -m benchmarks.every_f32 [--only exp gelu] [--out DIR]

The error is in units in the last place of the f64 result, which the tests hold to references of many digits; a result
that is not finite must be what that result is rounded to. Everything is computed by compiled programs on all threads:
a few seconds for each function on 16 cores of x86.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import numpy as np  # noqa: E402

import tessera  # noqa: E402
from tesserac.numerics import elementary  # noqa: E402

CHUNK = 1 << 24
TWO_ROUNDINGS = {"rsqrt": 1.5, "sqrt": 0.5}
PROGRAM = """
def errors(start: i64) -> Tensor[CHUNK, f64]:
    x = bitcast(cast(arange(CHUNK) + start, i32), f32)
    y, exact = cast(FUNCTION(x), f64), FUNCTION(cast(x, f64))
    power = (bitcast(abs(exact), i64) >> 52) - 1023
    unit = bitcast((minimum(maximum(power, -126), 127) + 1000) << 52, f64)
    rounded = cast(cast(exact, f32), f64)
    same = (y == rounded) | (isnan(y) & isnan(rounded))
    wrong = where(same, 0.0 * unit, INF)
    return where(isfinite(y) & isfinite(exact), abs(y - exact) / unit, wrong)

def worst(start: i64) -> Tensor[f64]:
    return max(errors(start))
"""


def stated_bounds() -> dict[str, float]:
    """Functions of one number and the units that `numerics/elementary.py` allows them."""
    found = dict(TWO_ROUNDINGS)
    for line in (elementary.__doc__ or "").splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 2 and cells[2].replace(".", "").isdigit():
            found.update((name.strip(), float(cells[2])) for name in cells[1].split(","))
    return {name: found[name] for name in sorted(found) if name not in ("pow", "atan2", "exp_frac")}


def worst(function: str, low: int = -(1 << 31), high: int = 1 << 31) -> tuple[float, float]:
    """The largest error over all numbers whose bits are in a range, and where."""
    program = tessera.compile(PROGRAM.replace("FUNCTION", function).replace("CHUNK", str(CHUNK)))
    found, place = max((float(program.worst(start)), start) for start in range(low, high, CHUNK))
    bits = np.int32(place + int(np.argmax(program.errors(place))))
    return found, float(bits.view(np.float32))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    bounds = stated_bounds()
    lines = ["| function | largest error (ulp) | at | stated bound |", "|---|---|---|---|"]
    for name in options.only or bounds:
        error, place = worst(name)
        lines.append(f"| `{name}` | {error:.3f} | {place!r} | {bounds.get(name, '')} |")
        print(lines[-1], flush=True)
    if options.out:
        where = f"{platform.machine()}, {os.cpu_count()} cores"
        title = f"# Every f32\n\n`python -m benchmarks.every_f32`, {where}: all 2^32 numbers, beside the f64 form.\n\n"
        (options.out / "every-f32.md").write_text(title + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
