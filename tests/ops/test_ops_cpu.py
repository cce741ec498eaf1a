"""Every operator of the registry as machine code: the oracle's bits, for the shapes that its class names."""

from __future__ import annotations

import numpy as np
import pytest

import tesserac.schedule.dialect
import tesserac.tile.dialect  # noqa: F401  (register the operations)
from tesserac.graph.interp import run_function
from tesserac.graph.passes.fold_views import fold_views
from tesserac.graph.passes.generalize import generalize
from tesserac.graph.passes.split_complex import split_complex
from tesserac.ir.passes import run_passes
from tesserac.ops.registry import Operator
from tesserac.pipeline import schedule_passes
from tesserac.schedule.machine import AARCH64
from tesserac.tile.build import tile_pass
from tests.ops.test_graph_lower import CASES, module_of, parse_type, sample
from tests.support.cpu_kernels import HOST, same_bits
from tests.support.sampling import of_each_operator
from tests.tile.test_tile_cpu_random import run_native


@pytest.mark.one_in(48)
@pytest.mark.parametrize(("operator", "types"), of_each_operator(CASES, 2))
def test_machine_code_gives_the_bits_of_the_forms(operator: Operator, types: tuple[str, ...]) -> None:
    tensors = [parse_type(t) for t in types]
    rng = np.random.default_rng(0)
    args = [sample(ty, rng) for ty in tensors]
    forms = run_passes(module_of(operator, tensors), [generalize, split_complex, fold_views], verify=True)
    (expected,) = run_function(forms, "f", args)
    lowered = run_passes(forms, [*schedule_passes(AARCH64), tile_pass(AARCH64)], verify=True)
    (result,) = run_native(lowered, "f", args, HOST)
    same_bits(result, expected)
