"""Random functions: what is scheduled and lowered computes what the oracle computes, to the bit, on every machine."""

from __future__ import annotations

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import tesserac.ir.func
import tesserac.ops.scalar
import tesserac.schedule.dialect
import tesserac.tile.dialect  # noqa: F401  (register the operations)
from tesserac.graph.interp import run_function
from tesserac.ir.core import Module
from tesserac.ir.forms import tensor_type
from tesserac.ir.printer import print_module
from tesserac.ir.verify import verify_module
from tesserac.schedule.machine import AARCH64, SM_90A
from tests.support.form_gen import SYMBOLS, modules
from tests.support.sampling import examples
from tests.support.tile_eval import run_host
from tests.tile.test_tile_build import lower, same_bits, values

SIZES = st.sampled_from([0, 1, 2, 3, 4, 7, 11])


@pytest.mark.one_in(12)
@given(modules(), st.tuples(SIZES, SIZES, SIZES), st.sampled_from([AARCH64, SM_90A]))
@examples(150)
def test_random_functions_keep_their_bits(module: Module, sizes: tuple[int, int, int], machine) -> None:
    verify_module(module)
    note(print_module(module))
    known = dict(zip(SYMBOLS, sizes, strict=True))
    args = []
    for number, value in enumerate(module.lookup("f").body.args):
        ty = tensor_type(value)
        args.append(values(ty.dtype, tuple(d.evaluate(known) for d in ty.dims), number))
    expected = run_function(module, "f", args)
    lowered = lower(module, machine)
    for got, wanted in zip(run_host(lowered, "f", args), expected, strict=True):
        same_bits(got, wanted)
