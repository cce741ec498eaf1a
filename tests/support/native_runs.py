"""Programs from text, compiled and called as a user would, each result compared with the oracle to the bit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

import tessera
from tesserac.graph.interp import run_function
from tests.support.cpu_kernels import same_bits
from tests.support.source_support import compile_to_forms

Run = Callable[..., np.ndarray]


@cache
def compiled_equals_oracle(program: str) -> Run:
    """Calls a function of the program: `run("name", array, ...)`."""
    module, forms = tessera.compile(program), compile_to_forms(program)

    def run(name: str, *args: np.ndarray) -> np.ndarray:
        expected = run_function(forms, f"m.{name}", args)
        got = getattr(module, name)(*args)
        for one, other in zip(got if isinstance(got, tuple) else (got,), expected, strict=True):
            same_bits(np.asarray(one), other)
        return got

    return run
