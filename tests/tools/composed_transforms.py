"""Checks random chains of transforms: `python -m tests.tools.composed_transforms --count 1000 --length 3`.

Each is held to the closed form, and its machine code to the bits of the interpreter. The exit status is 1 if any is
wrong; each of these is printed.
"""

from __future__ import annotations

import argparse
import random
import sys

from tests.support.composed import ALL_STEPS, FUNCTIONS, check_chains


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--length", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--interpreted", action="store_true", help="without machine code, which is five times as fast")
    options = parser.parse_args()
    rng, failures = random.Random(options.seed), 0
    for number in range(options.count):
        steps = [rng.choice(sorted(ALL_STEPS)) for _ in range(options.length)]
        function = rng.choice(sorted(FUNCTIONS))
        try:
            check_chains([(steps, function)], compiled=not options.interpreted)
        except Exception as fault:  # whatever it is, the others shall run
            failures += 1
            print(f"{number}: {steps} of {function}: {type(fault).__name__}: {str(fault)[:300]}", flush=True)
    print(f"{options.count} chains of {options.length} steps, {failures} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
