"""The environment of processes that measure compiling: that of an installed package, whose modules have bytecode.

A room that few programs need is imported where one comes to it. In a checkout the first to come reads its text, which
takes longer than what is measured: a first `fft` has 20 of them.
"""

from __future__ import annotations

import compileall
import os
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def as_installed(**more: str) -> dict[str, str]:
    """The environment for `subprocess.run`, with some variables more."""
    _make_bytecode()
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **more}


@cache
def _make_bytecode() -> None:
    for package in ("tesserac", "runtime/tessera"):
        compileall.compile_dir(ROOT / package, quiet=1, workers=0)
