"""One program in a process of its own, so that one that ends badly ends alone."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run_apart(command: Sequence[str], time_limit: int) -> tuple[str, str]:
    """What a command says, and how it ended where that was not well; after so many seconds it is stopped."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    try:
        output, _ = process.communicate(timeout=time_limit)
        return output, "" if process.returncode == 0 else f"the process ended with {process.returncode}"
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0], f"no end after {time_limit} s"
