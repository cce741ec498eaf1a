"""Checks random programs of linear algebra beside NumPy: `python -m tests.tools.random_linear --first 0 --count 500`.

A program is that of its seed (`tests/support/random_linear.py`); `--seconds` ends before all have run, `--interpreted`
takes the interpreter, which knows all laws, instead of machine code. The exit status is 1 if any is not right; each of
these is printed.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter

from tests.support.random_linear import judged, program


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--interpreted", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of NumPy, about numbers that are too large
    end, found = time.monotonic() + options.seconds, Counter[str]()
    for seed in range(options.first, options.first + options.count):
        if time.monotonic() > end:
            break
        drawn = program(seed)
        outcome, told = judged(drawn, compiled=not options.interpreted)
        found[outcome] += 1
        if outcome != "right":
            print(f"{seed}: {outcome}\n{drawn.text}{told}\n", flush=True)
    print(f"{found.total()} programs from {options.first} on: {dict(found)}")
    return 1 if set(found) - {"right"} else 0


if __name__ == "__main__":
    sys.exit(main())
