"""What is one launch on a GPU and what is not, in a piece of a model: counts of launches by kind, of one program."""

from __future__ import annotations

from functools import cache
from math import prod

import pytest

from tesserac.base.source import SourceFile
from tesserac.ir.core import Op
from tesserac.schedule.costs.approximate_functions import NEAR
from tesserac.schedule.dialect import launch_kind, launch_loops, launch_portion, launch_space, launch_units, memory
from tesserac.schedule.machine import MACHINES
from tesserac.schedule.maps.blocks import _even_run
from tests.support.gpu_kernels import SESSION

TEXT = """half = bf16 @accum(f32)

def loss(x: Tensor[8, 1024, 768, half], w: Tensor[768, 9216, half], y: Tensor[8, 1024, i32]) -> Tensor[f32]:
    return mean(cross_entropy(cast(x @ w, f32), y))

def learn(x: Tensor[8, 1024, 768, half], w: Tensor[768, 9216, half], y: Tensor[8, 1024, i32]):
    return grad(loss)(x, w, y)

def block(x: Tensor[8, 1024, 768, half], w: Tensor[768, 3072, half], u: Tensor[768, 768, half], g: Tensor[768, half]):
    h = layernorm(x + x @ u, g, g)
    return gelu(h @ w, approximate="tanh"), sum(cast(h, f32), axis=(0, 1))

def much(x: Tensor[M, N, f32], b: Tensor[N, f32]):
    return gelu(x + b)

def little(x: Tensor[M, N, half], b: Tensor[N, f32]):
    return x + cast(b, half)
"""


@cache
def launches(name: str, arch: str = "sm_90a") -> list[Op]:
    file = SourceFile("company.tess", TEXT)
    host = SESSION.levels(file, SESSION.function(file, name), MACHINES[arch]).schedule
    return [op for op in host.walk() if op.name == "schedule.launch"]


def of_kind(name: str, kind: str, arch: str = "sm_90a") -> list[Op]:
    return [op for op in launches(name, arch) if launch_kind(op) == kind]


def test_a_norm_behind_a_product_is_one_launch_though_the_product_is_of_merged_rows() -> None:
    norm = next(op for op in of_kind("block", "rows") if len(op.body.ops) > 3)
    assert [dim.constant for dim in launch_space(norm)] == [8192, 768]
    assert sum(op.name == "form.reduce" for op in norm.body.ops) == 2
    assert launch_units(norm).warps == 1  # which holds a row of 768


def test_much_work_is_apart_from_a_product_unless_there_is_time_beside_the_next() -> None:
    def gelu(kind: str, arch: str) -> bool:
        return any(NEAR in op.attrs for launch in of_kind("block", kind, arch) for op in launch.walk())

    assert gelu("map", "sm_80") and not gelu("contract", "sm_80")
    assert gelu("contract", "sm_90a") and not gelu("map", "sm_90a"), "by the hardware's functions it is little work"


def test_long_sums_of_few_columns_are_cut() -> None:
    assert [launch_portion(op) for op in of_kind("block", "rows") if launch_portion(op) is not None] == [1]


@pytest.mark.one_in(2)
def test_losses_and_their_gradients_keep_nothing_as_large_as_logits_but_logits() -> None:
    """The one place of a label is found by comparing, terms of the softmax are computed again, and a label's logit is
    read as it is stored."""
    assert not of_kind("learn", "scatter") and not of_kind("learn", "sort")
    values = {value for launch in launches("learn") for value in launch.operands}
    large = [memory(value) for value in values if [dim.constant for dim in memory(value).dims] == [8192, 9216]]
    assert {mem.dtype.name for mem in large} == {"bf16"}


@pytest.mark.parametrize(("name", "elements", "warps"), [("much", 512, 2), ("little", 2048, 4)])
def test_maps_that_compute_much_have_few_elements_of_a_long_row(name: str, elements: int, warps: int) -> None:
    long = launches(name)[0]
    assert prod(loop.block for loop in launch_loops(long)) == elements
    assert launch_units(long).warps == warps


def test_blocks_of_a_map_go_hardly_beyond_a_run() -> None:
    """Places beyond it would take registers and time: rows of 3072 are three blocks of 1024, not three quarters of one
    of 4096."""
    assert [_even_run(size, 4096) for size in (3072, 768, 4096, 1000, 50304, 3000, 100)] == [
        1024, 256, 4096, 1024, 4096, 1024, 4096,
    ]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("body", "arch", "behind"),
    [
        ("cast(gelu(wide_product(x, w) + wide(b)), half)", "sm_90a", True),
        ("exp(wide_product(x, w) + wide(b))", "sm_90a", False),  # it would spill
        ("cast(silu(wide_product(x, w) + wide(b)), half)", "sm_90a", False),  # a quotient of any numbers
        ("cast(tanh(wide_product(x, w)) * sqrt(wide_product(x, w)), half)", "sm_90a", False),
        ("cast(gelu(wide_product(x, w) + wide(b)), half)", "sm_80", False),
    ],
)
def test_functions_behind_unrounded_sums(body: str, arch: str, behind: bool) -> None:
    """A launch of their own costs the way of f32 sums to memory and back."""
    given = "x: Tensor[M, K, half], w: Tensor[K, N, half], b: Tensor[N, half]"
    file = SourceFile("f.tess", f"half = bf16 @accum(f32)\ndef f({given}):\n    return {body}\n")
    host = SESSION.levels(file, SESSION.function(file, "f"), MACHINES[arch]).schedule
    products = [op for op in host.walk() if op.name == "schedule.launch" and launch_kind(op) == "contract"]
    assert products and all(any(op.name == "form.map" for op in launch.walk()) == behind for launch in products)
