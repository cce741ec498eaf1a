"""Random linear algebra in tensor code has the numbers that NumPy has of it, alone, mapped and differentiated."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tessera
from tests.support.random_algebra import KINDS, PARAMETERS, expression, in_numpy, values

DIFFERENCE = 1e-6


@pytest.mark.one_in(96)
@pytest.mark.parametrize("seed", range(48))
def test_random_algebra(seed: int) -> None:
    draw, given = random.Random(seed), values(seed)
    texts = [expression(draw, kind, draw.choice((1, 2, 2))) for kind in KINDS]
    size = draw.choice(("N", "3"))
    params = ", ".join(f"{name}: Tensor[{dims}, f64]" for name, dims in PARAMETERS.items()).replace("N", size)
    both = ", ".join(texts).replace("N", size)
    slope = f"grad(lambda v: sum({texts[1]}))(v)".replace("N", size)
    program: Any = tessera.compile(
        f"def alone({params}): return {both}\n"
        f"def mapped({params}): return vmap(lambda v: ({both}))(stack([v, 2.0 * v]))\n"
        f"def slope({params}): return {slope}\n"
    )
    turned = given | {"v": 2.0 * given["v"]}
    alone, mapped = program.alone(*given.values()), program.mapped(*given.values())
    for text, found, pair in zip(texts, alone, mapped, strict=True):
        expected = [in_numpy(text, one) for one in (given, turned)]
        np.testing.assert_allclose(found, expected[0], rtol=1e-8, atol=1e-8, err_msg=text)
        np.testing.assert_allclose(pair, np.stack(expected), rtol=1e-8, atol=1e-8, err_msg=text)
    steps = [given["v"] + sign * DIFFERENCE * row for row in np.eye(3) for sign in (1, -1)]
    ends = [np.sum(in_numpy(texts[1], given | {"v": v})) for v in steps]
    slopes = [(up - down) / (2 * DIFFERENCE) for up, down in zip(ends[::2], ends[1::2], strict=True)]
    np.testing.assert_allclose(program.slope(*given.values()), slopes, rtol=1e-5, atol=1e-5, err_msg=texts[1])
