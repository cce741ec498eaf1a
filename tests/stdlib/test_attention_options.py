"""Options of attention and of rotary embeddings, each as its definition says, in f64: by turns all the cases that
`tests/tools/peer_options.py` compares with PyTorch; then what no option may do at the ends of a dtype."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.graph.interp import run_function
from tests.support.cpu_kernels import same_bits
from tests.support.folding import folded
from tests.support.source_support import compile_to_forms, normal
from tests.support.source_support import run_both as run
from tests.tools.peer_attention import attention_cases, log_sum_cases, rotary_cases
from tests.tools.peer_cases import Case, program

CASES = [*attention_cases(np), *log_sum_cases(np), *rotary_cases(np)]
INF, NAN = np.inf, np.nan


@folded("case", CASES, one_in=1152)
def test_options(case: Case) -> None:
    """Values, and the slope of the sum of their squares along one direction."""
    args = list(case.operands.values())
    found, *slopes = run_function(compile_to_forms(program([case])), "m.f0", args)
    np.testing.assert_allclose(found, case.peer(*args), atol=1e-13)
    rng, ends = np.random.default_rng(1), [list(args), list(args)]
    slope = 0.0
    for place, given in zip(case.wrt, slopes, strict=True):
        along = rng.normal(size=args[place].shape)
        slope += float(np.sum(along * given))
        for end, side in zip(ends, (1e-6, -1e-6), strict=True):
            end[place] = args[place] + side * along
    rise = np.subtract(*(np.sum(np.square(case.peer(*end))) for end in ends)) / 2e-6
    np.testing.assert_allclose(slope, rise, rtol=1e-7, atol=1e-7)


HEAD = """def f(q: Tensor[B, H, S, D, f32], k: Tensor[B, H, T, D, f32], v: Tensor[B, H, T, E, f32], n: Tensor[B, i32],
      t: Tensor[H, f32]) -> Tensor[B, H, S, E, f32]:
"""


def operands() -> list[np.ndarray]:
    return [normal(0, 2, 3, 4, 8), normal(1, 2, 3, 6, 8), normal(2, 2, 3, 6, 5), np.int32([6, 4]), normal(3, 3)]


@pytest.mark.one_in(12)
def test_what_is_stored_behind_a_row_is_not_seen() -> None:
    """Values and gradients alike: not even NaN shows."""
    q, k, v, n, t = operands()
    call = "attention(q, k, v, lengths=n, causal=True)"
    head = HEAD.partition(" ->")[0] + ":\n"
    slopes = tessera.compile(f"{head}    return grad(lambda q, k, v: sum(square({call})), wrt=(0, 1, 2))(q, k, v)\n").f
    filled = [x.copy() for x in (k, v)]
    for x in filled:
        x[1, :, 4:] = NAN
    clean, spoilt = (run(f"{HEAD}    return {call}\n", q, *pair, n, t) for pair in ((k, v), filled))
    assert np.isfinite(clean).all() and clean.tobytes() == spoilt.tobytes()
    for one, other in zip(slopes(q, k, v, n, t), slopes(q, *filled, n, t), strict=True):
        assert np.isfinite(one).all() and one.tobytes() == other.tobytes()


@pytest.mark.one_in(48)
def test_sinks_at_the_ends_of_the_range() -> None:
    """A sink as large as the scores has its share, one far below none, one far above all; without keys there is 0."""
    q, k, v, n, t = operands()
    call = f"{HEAD}    return attention(q * 0.0 + 1.0, k * 0.0 + 1e9, v, scale=0.125, sinks=t{{}})\n"
    plain = v.mean(2, keepdims=True)
    for sink, share in ((1e9, 6 / 7), (-3e38, 1.0), (3e38, 0.0), (-INF, 1.0)):
        found = run(call.format(""), q, k, v, n, np.full(3, sink, np.float32))
        np.testing.assert_allclose(found, np.broadcast_to(plain * share, found.shape), rtol=2e-6, atol=1e-6)
    none = run(call.format(", lengths=n"), q, k, v, np.int32([0, 0]), t)
    assert (none == 0).all()


@pytest.mark.one_in(24)
def test_a_softcap_holds_infinite_scores() -> None:
    q, k, v, n, t = operands()
    found = run(f"{HEAD}    return attention(q * q * 1e30, k * k * 1e30, v, softcap=20.0)\n", q, k, v, n, t)
    np.testing.assert_allclose(found, np.broadcast_to(v.mean(2, keepdims=True), found.shape), rtol=1e-5, atol=1e-6)


LSE = """def f(q: Tensor[B, S, D, f32], k: Tensor[B, T, D, f32], v: Tensor[B, T, E, f32]):
    return attention_with_lse(q, k, v, {})

def parts(q: Tensor[B, S, D, f32], k: Tensor[B, T, D, f32], v: Tensor[B, T, E, f32]):
    y, lse = attention_with_lse(q, k[:, :3], v[:, :3])
    more, more_lse = attention_with_lse(q, k[:, 3:], v[:, 3:])
    return merged_attention(y, lse, more, more_lse)

def slopes(q: Tensor[B, S, D, f64], k: Tensor[B, T, D, f64], v: Tensor[B, T, E, f64]):
    (y, lse), back = vjp(lambda q, k, v: attention_with_lse(q, k, v, causal=True), q, k, v)
    return back((y, lse))
"""


def log_sums(q: np.ndarray, k: np.ndarray, seen: np.ndarray) -> np.ndarray:
    s = np.where(seen, q.astype(np.float64) @ k.mT / np.sqrt(q.shape[-1]), -INF)
    return np.logaddexp.reduce(s, -1)


@pytest.mark.one_in(12)
def test_the_logarithm_of_the_sum_of_a_row() -> None:
    """It has the interpreter's bits, is -inf for a query without keys, puts parts together, and has a slope."""
    q, k, v = normal(0, 2, 5, 8), normal(1, 2, 4, 8), normal(2, 2, 4, 3)
    text = LSE.format("causal=True")
    y, lse = tessera.compile(text).f(q, k, v)
    for one, other in zip(run_function(compile_to_forms(text), "m.f", [q, k, v]), (y, lse), strict=True):
        same_bits(one, other)
    seen = np.tril(np.ones((5, 4)), -1) > 0
    np.testing.assert_allclose(lse, log_sums(q, k, seen), rtol=2e-6, atol=1e-6)
    assert (lse[:, 0] == -INF).all() and (y[:, 0] == 0).all()
    module = tessera.compile(LSE.format(""))
    for one, other in zip(module.f(q, k, v), module.parts(q, k, v), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6)
    args = [x.astype(np.float64) for x in (q, k, v)]
    module, rng = tessera.compile(text.replace("f32", "f64")), np.random.default_rng(3)
    for place, slope in enumerate(module.slopes(*args)):
        ends, along = [list(args), list(args)], rng.normal(size=args[place].shape)
        for end, side in zip(ends, (1e-6, -1e-6), strict=True):
            end[place] = args[place] + side * along
        rise = [sum(np.sum(np.square(np.where(x == -INF, 0.0, x))) for x in module.f(*end)) for end in ends]
        np.testing.assert_allclose(np.sum(along * slope), (rise[0] - rise[1]) / 4e-6, rtol=1e-6, atol=1e-6)
