"""The softmax family and its derivatives on rows of any magnitude, held to exact values and to the oracle's bits."""

import ml_dtypes
import mpmath
import numpy as np
import pytest

from tests.support.native_runs import compiled_equals_oracle

PROGRAM = """
def values(x: Tensor[M, N, T]) where N >= 1:
    p, m, l = softmax_online(x)
    online, slope = cast(p / l[:, None], T), grad(lambda z: sum(logsumexp(z, axis=-1)))(x)
    sums, safe, losses = logsumexp(x, axis=-1), logsumexp_safe(x, axis=-1), cross_entropy(x, zeros(M, dtype=i32))
    return softmax(x), softmax_safe(x), online, slope, log_softmax(x), sums, safe, losses

def attended(x: Tensor[M, N, T]) -> Tensor[M, N, T]:
    return attention(x, eye(N, dtype=T), eye(N, dtype=T), scale=1.0)

def gradients(x: Tensor[M, N, T]) where N >= 1:
    loss = grad(lambda z: sum(cross_entropy(z, zeros(M, dtype=i32))))(x)
    return loss, grad(lambda z: sum(log_softmax(z)[:, 0]))(x), grad(lambda z: sum(softmax(z)[:, 0]))(x)
"""
KINDS = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
LARGEST = {"f32": 3.4028235e38, "f64": 1.7976931348623157e308, "f16": 65504.0, "bf16": 3.38953e38}


def rows(dtype: str) -> np.ndarray:
    """Equal numbers, neighbours and far ones at every magnitude that the type has, in both signs."""
    kind, largest, found = KINDS[dtype], LARGEST[dtype], []
    for top in (
        1.0,
        6e4,
        2.0**20,
        2.0**22,
        1e9,
        2.0**30,
        3e9,
        2.0**51,
        2.0**63,
        1e17,
        2.0**100,
        2.6e38,
        2.0**967,
        largest,
    ):
        if top <= largest:
            x = kind(top)
            below = np.nextafter(x, kind(0))
            found += [[x, x, x], [x, below, x], [below, x, 0], [x, kind(0.9) * x, 1], [-x, -below, -x], [-x, -x, -x]]
            found += [[-x, x, 0], [0, -x, 1]]
    return np.array(found).astype(kind)


def exact(row: np.ndarray) -> dict[str, tuple[np.ndarray, ...]]:
    """What the functions of the program give for one row."""
    with mpmath.workprec(2200):
        x = [mpmath.mpf(float(v)) for v in row]
        top = max(x)
        terms = [mpmath.exp(v - top) for v in x]
        mass = mpmath.fsum(terms)
        log_mass = mpmath.log(mass)
        weights = np.array([float(t / mass) for t in terms])
        logs = np.array([float(v - top - log_mass) for v in x])
        one, total = np.array([1.0, 0.0, 0.0]), np.array(float(top + log_mass))
        slopes = weights - one, one - weights, weights[0] * (one - weights)
        return {"values": (*[weights] * 4, logs, total, total, -logs[0]), "attended": (weights,), "gradients": slopes}


@pytest.mark.one_in(24)
@pytest.mark.parametrize("dtype", KINDS)
def test_rows_of_any_magnitude(dtype: str) -> None:
    run, x = compiled_equals_oracle(f"T = {dtype}\n{PROGRAM}"), rows(dtype)
    expected = [exact(row) for row in x]
    unit = float(ml_dtypes.finfo(KINDS[dtype]).eps)
    for name in expected[0] if dtype in ("f32", "f64") else ("values",):
        results = run(name, x)
        columns = zip(*(row[name] for row in expected), strict=True)
        for found, wanted in zip(results if isinstance(results, tuple) else (results,), columns, strict=True):
            with np.errstate(over="ignore"):
                rounded = np.array(wanted).astype(KINDS[dtype]).astype(np.float64)
            np.testing.assert_allclose(found.astype(np.float64), rounded, rtol=8 * unit, atol=8 * unit, err_msg=name)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_masks_beside_huge_numbers(dtype: str) -> None:
    inf, nan, big = np.inf, np.nan, LARGEST[dtype]
    x = np.array([[-inf, -big, -inf], [big, -inf, 0], [-1e9, -inf, -1e9], [inf, big, 0], [nan, -big, -big]])
    *weights, _, sums, safe, _ = compiled_equals_oracle(f"T = {dtype}\n{PROGRAM}")("values", x.astype(KINDS[dtype]))
    for found in weights:
        np.testing.assert_array_equal(found, [[0, 1, 0], [1, 0, 0], [0.5, 0, 0.5], [nan] * 3, [nan] * 3])
    np.testing.assert_allclose(sums, [-big, big, -1e9, nan, nan], rtol=1e-6)
    np.testing.assert_array_equal(safe[3:], [inf, nan])
