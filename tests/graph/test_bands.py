"""Systems of banded operators: elimination within the bands gives what the whole matrix gives; so do derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import tessera

N, LOWER, UPPER = 7, 2, 1
BANDED, DENSE = f"op.banded(b, {LOWER}, {UPPER})", f"op.dense(to_dense(op.banded(b, {LOWER}, {UPPER})))"
TEXT = "".join(
    f"""
def solved_{name}(b: Tensor[4, {N}, f64], y: Tensor[{N}, f64], z: Tensor[{N}, 2, f64]):
    return solve({of}, y), solve(({of}).H, y), solve({of}, z)

def slopes_{name}(b: Tensor[4, {N}, f64], y: Tensor[{N}, f64], w: Tensor[{N}, f64]):
    f = lambda b, y: sum(w * solve({of}, y) + w * w * solve(({of}).H, y))
    return grad(f, wrt=(0, 1))(b, y), jvp(f, (b, y), (b * b, w))[1]
"""
    for name, of in (("banded", BANDED), ("dense", DENSE))
)


def leaves(found: object) -> list[np.ndarray]:
    return [leaf for part in found for leaf in leaves(part)] if isinstance(found, tuple) else [np.asarray(found)]


@pytest.mark.one_in(6)
def test_systems_of_bands_are_those_of_their_matrix() -> None:
    module = tessera.compile(TEXT)
    rng = np.random.default_rng(0)
    b, y, z, w = (rng.standard_normal(shape) for shape in ((4, N), N, (N, 2), N))
    b[UPPER, 2] = 0.0  # a pivot that has to be exchanged
    for kind, args in (("solved", (b, y, z)), ("slopes", (b, y, w))):
        own, whole = (leaves(getattr(module, f"{kind}_{name}")(*args)) for name in ("banded", "dense"))
        for found, expected in zip(own, whole, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    with pytest.raises(tessera.TesseraError, match="singular"):
        module.solved_banded(b * 0.0, y, z)
