"""Maps of rows that end inside vectors: lanes hold pairs of neighbours, and all is where it belongs."""

from __future__ import annotations

import numpy as np
import pytest

from tesserac.base.source import SourceFile
from tesserac.ir.passes import run_passes
from tesserac.target.nvptx.build import PLATFORMS, gpu_pass, gpu_program, kernels_of
from tesserac.tile.gpu.model.values import fragment
from tests.support.cpu_kernels import same_bits
from tests.support.gpu_emulator import Emulated
from tests.support.gpu_kernels import SESSION, tile_of

ROWS = """def cut(x: Tensor[M, 16, f32]):
    return x[:, :{n}]
"""


@pytest.mark.parametrize("columns", [14, 7])
def test_lanes_hold_pairs_of_rows_that_end_inside_a_vector(columns: int) -> None:
    file, gpu = SourceFile("rows.tess", ROWS.format(n=columns)), PLATFORMS["sm_90a"]
    module = run_passes(tile_of(file, "cut", "sm_90a"), [gpu_pass(gpu.schedule)], verify=True)
    (load,) = (op for kernel in kernels_of(module) for op in kernel.walk() if op.name == "gpu.load")
    places = {offset.get(1, 0) for offset in fragment(load.result).layout.offsets}
    assert places == {0, 1}
    x = np.random.default_rng(0).normal(size=(37, 16)).astype(np.float32)
    symbol = SESSION.function(file, "cut").symbol
    program = gpu_program(module, symbol, gpu, SESSION.locate, name="cut", returns_tuple=True)
    (cut,) = Emulated(program, kernels_of(module))(x)
    same_bits(cut, np.ascontiguousarray(x[:, :columns]))
