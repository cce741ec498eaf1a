"""Checks random programs of operators beside NumPy: `python -m tests.tools.random_operators --first 0 --count 500`.

A program is that of its seed (`tests/support/random_operators.py`); `--seconds` ends before all have run. The exit
status is 1 if any is wrong; each of these is printed, and each that is refused with its code.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter

from tests.support.random_operators import judged, program


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=3600.0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of NumPy, about matrices without an inverse
    end, found = time.monotonic() + options.seconds, Counter[str]()
    for seed in range(options.first, options.first + options.count):
        if time.monotonic() > end:
            break
        drawn = program(seed)
        outcome, told = judged(drawn)
        found[outcome] += 1
        if outcome != "right":
            print(f"{seed}: {outcome}\n{drawn.text}{told}\n", flush=True)
    print(f"{found.total()} programs from {options.first} on: {dict(found)}")
    return 1 if set(found) - {"right", "refused"} else 0


if __name__ == "__main__":
    sys.exit(main())
