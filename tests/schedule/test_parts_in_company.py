"""A part that is written in place goes with what reads the memory as it was only where the two are apart."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schedule.test_horizontal import launches
from tests.support.native_runs import compiled_equals_oracle

PROGRAM = """
def apart(z: Tensor[P, R, f64], s: Tensor[P, f64]) -> Tensor[P, R, f64]:
    held = zeros_like(z[0])
    for j in range(P - 4):
        k = P - 5 - j
        row = z[k] * s[k]
        kept = row - held
        z[k + 4] = row + held
        held = kept
    return z

def near(z: Tensor[P, R, f64], s: Tensor[P, f64]) -> Tensor[P, R, f64]:
    held = zeros_like(z[0])
    for j in range(P - 4):
        k = P - 5 - j
        row = z[k] * s[k] + z[k + 3] * z[P - 1]
        kept = row - held
        z[k + 3] = row + held
        held = kept
    return z
"""


@pytest.mark.parametrize("arch", ["aarch64", "x86-64-v4", "sm_90a"])
def test_rows_that_never_meet_are_one_launch(arch: str) -> None:
    def of_an_iteration(name: str) -> int:
        around = [op.parent.parent_op for op in launches(PROGRAM, name, arch) if op.parent is not None]
        return sum(op is not None and op.name == "schedule.loop" for op in around)

    assert of_an_iteration("apart") == 1
    assert of_an_iteration("near") == 2  # z[P - 1] may be the row that is written


def test_rows_have_the_bits_of_one_after_the_other() -> None:
    run = compiled_equals_oracle(PROGRAM)
    random = np.random.default_rng(0)
    z, s = random.standard_normal((9, 5)), random.standard_normal(9)
    for name in ("apart", "near"):
        run(name, z, s)


PRODUCTS = """
def apart(d: Tensor[P, P, f64], z: Tensor[P, R, f64]) -> Tensor[P, R, f64]:
    for c in range(P):
        z[c : c + 1, :] -= d[c : c + 1, :c] @ z[:c, :]
    return z

def all_rows(d: Tensor[P, P, f64], z: Tensor[P, R, f64]) -> Tensor[P, R, f64]:
    for c in range(P):
        z[c : c + 1, :] -= d[c : c + 1, :] @ z
    return z

def own_row(d: Tensor[R, R, f64], z: Tensor[P, R, f64]) -> Tensor[P, R, f64]:
    for c in range(P):
        z[c : c + 1, :] -= z[c : c + 1, :] @ d
    return z
"""


@pytest.mark.parametrize("arch", ["aarch64", "x86-64-v4"])
def test_a_row_less_a_product_of_others_is_one_launch(arch: str) -> None:
    def of_an_iteration(name: str) -> int:
        around = [op.parent.parent_op for op in launches(PRODUCTS, name, arch) if op.parent is not None]
        return sum(op is not None and op.name == "schedule.loop" for op in around)

    assert of_an_iteration("apart") == 1
    assert of_an_iteration("all_rows") == 2  # the product reads the row that is written


def test_a_row_less_a_product_has_the_bits_of_one_after_the_other() -> None:
    run = compiled_equals_oracle(PRODUCTS)
    random = np.random.default_rng(0)
    z = random.standard_normal((9, 200))
    run("apart", random.standard_normal((9, 9)), z)
    run("all_rows", random.standard_normal((9, 9)), z)
    run("own_row", random.standard_normal((200, 200)), z)
