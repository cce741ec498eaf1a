"""Code is the same in every process, whatever Python's hashes are there: a bundle built twice has the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys

PARTS = """
from tesserac.target.magnitudes import parts
from tesserac.types.dims import parse_dim
print(*parts(parse_dim("ceil_div(N, 3)*floor_div(M, 5) + min(K, L) + max(A, B) + floor_div(C, D)")), sep="\\n")
"""


def test_sizes_are_guarded_in_the_same_order() -> None:
    """Their parts are atoms of a set; checks of `solve` stood in an order of their own in each process."""
    said = set[str]()
    for seed in "1234":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PARTS]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        said.add(done.stdout)
    assert len(said) == 1, "one order"
