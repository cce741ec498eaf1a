"""Choices of tokens, boxes, moved convolutions and the loss of sequences, against NumPy in f64, in the plainest way.
`tests/tools/peer_options.py` compares losses and norms with PyTorch, gradients as well."""

from __future__ import annotations

from functools import cache
from itertools import groupby, product
from typing import Any

import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tests.support.source_support import compile_to_forms

Array = np.ndarray
RNG = np.random.default_rng(8)
LOGITS = RNG.normal(size=(3, 8)) * 2
BOXES = np.sort(RNG.uniform(0, 10, (9, 2, 2)), 1).reshape(9, 4)
IMAGE = RNG.normal(size=(2, 4, 6, 5))

PROGRAM = """
def kept(x: Tensor[3, 8, f64]):
    few = top_k_logits(x, 3), top_p_logits(x, 0.7), min_p_logits(x, 0.2), top_p_logits(x, 0.0)
    return few, top_k_logits(x, 8), top_k_logits(x, 50)
def drawn(x: Tensor[3, 8, f64], k: Key):
    few = [sample_tokens(x, 1.5, top_k=2, key=fold_in(k, i)) for i in range(12)]
    return stack(few), sample_tokens(x, 0.0, key=k), sample_tokens(x, 0.01, top_p=0.9, min_p=0.1, key=k)
def beams(s: Tensor[2, 3, f64], x: Tensor[2, 3, 8, f64], e: Tensor[2, 3, bool]):
    return beam_search_step(s, x), beam_search_step(s, x, e, 5)
def averages(x: Tensor[3, 8, f64]):
    return ema(x, x * 2.0, 0.9), ema(x, x * 2.0, 0.9, step=cast(2, i64))
def boxed(b: Tensor[9, 4, f64], s: Tensor[9, f64]):
    return box_iou(b, b), nms(b, s, 0.2), nms(b, s, 0.2, size=4, score_threshold=0.3), nms(b, s, 0.2, size=12)
def aligned(x: Tensor[2, 4, 6, 5, f64], b: Tensor[3, 5, f64]):
    return roi_align(x, b, (3, 2), 0.5, 2), roi_align(x, b, 2, 1.0, 3, aligned=True)
def moved(x: Tensor[2, 4, 6, 5, f64], w: Tensor[4, 2, 3, 3, f64], o: Tensor[2, 36, 5, 4, f64],
          m: Tensor[2, 18, 5, 4, f64]):
    plain = conv2d(x, w, padding=(1, 1), groups=2)[:, :, :5, :4]
    still = deform_conv2d(x, o * 0.0, w, padding=1, groups=2)
    return plain, still, deform_conv2d(x, o, w, stride=1, padding=1, mask=m, groups=2)
def sequences(x: Tensor[4, 2, 3, f64], t: Tensor[2, 2, i64], n: Tensor[2, i64], m: Tensor[2, i64]):
    return ctc_loss(x, t, n, m, 0, "none")
"""


@cache
def program() -> Any:
    return compile_to_forms(PROGRAM)


def run(name: str, *args: Array) -> list[Array]:
    return run_function(program(), f"m.{name}", list(args))


@pytest.mark.one_in(16)
def test_what_is_left_to_choose_from() -> None:
    top, nucleus, near, one, whole, more = run("kept", LOGITS)
    p = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
    ranks = np.argsort(np.argsort(-LOGITS, -1), -1)
    before = np.take_along_axis(np.cumsum(-np.sort(-p, -1), -1) - -np.sort(-p, -1), ranks, -1)
    for found, kept in (
        (top, ranks < 3),
        (nucleus, before < 0.7),
        (near, p >= 0.2 * p.max(-1, keepdims=True)),
        (one, ranks < 1),
        (whole, ranks < 8),
        (more, ranks < 8),
    ):
        np.testing.assert_array_equal(found, np.where(kept, LOGITS, -np.inf))


@pytest.mark.one_in(24)
def test_samples_come_from_what_is_left() -> None:
    few, best, cold = run("drawn", LOGITS, np.uint64(7))
    ranks = np.argsort(np.argsort(-LOGITS, -1), -1)
    chosen = np.take_along_axis(ranks, few.T, -1)
    assert (chosen < 2).all() and {0, 1} == {*chosen.ravel()}
    np.testing.assert_array_equal(best, LOGITS.argmax(-1))
    np.testing.assert_array_equal(cold, best)


@pytest.mark.one_in(6)
def test_a_step_of_beam_search() -> None:
    scores, x = np.array([[0.0, -1.0, -np.inf], [-1.0, -2.0, -3.0]]), RNG.normal(size=(2, 3, 8))
    ended = np.array([[False, True, False], [False, False, True]])
    found = run("beams", scores, x, ended)
    logs = x - np.log(np.exp(x).sum(-1, keepdims=True))
    only = np.where(np.arange(8) == 5, 0.0, -np.inf)
    for got, rises in ((found[:3], logs), (found[3:], np.where(ended[..., None], only, logs))):
        total = (scores[..., None] + rises).reshape(2, -1)
        places = np.argsort(-total, -1, kind="stable")[:, :3]
        np.testing.assert_allclose(got[0], np.take_along_axis(total, places, -1), atol=1e-14)
        np.testing.assert_array_equal(got[1], places // 8)
        np.testing.assert_array_equal(got[2], places % 8)


@pytest.mark.one_in(16)
def test_moving_averages() -> None:
    plain, first = run("averages", LOGITS)
    np.testing.assert_allclose(plain, LOGITS * 1.1)
    np.testing.assert_allclose(first, LOGITS * (0.25 + 0.75 * 2))


def overlap(a: Array, b: Array) -> float:
    sides = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0)
    areas = [float(np.prod(box[2:] - box[:2])) for box in (a, b)]
    return float(sides.prod() / (sum(areas) - sides.prod()))


def suppressed(scores: Array, least: float) -> list[int]:
    left: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        if scores[i] > least and all(overlap(BOXES[i], BOXES[j]) <= 0.2 for j in left):
            left.append(int(i))
    return left


def test_boxes() -> None:
    scores = RNG.random(9)
    iou, *found = run("boxed", BOXES, scores)
    np.testing.assert_allclose(iou, [[overlap(a, b) for b in BOXES] for a in BOXES], atol=1e-15)
    for (places, count), least, size in zip(
        zip(found[::2], found[1::2], strict=True), (-1, 0.3, -1), (9, 4, 12), strict=True
    ):
        wanted = suppressed(scores, least)[:size]
        assert int(count) == len(wanted) and places.tolist() == wanted + [-1] * (size - len(wanted))


def sampled(image: Array, y: float, x: float) -> Array:
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros(len(image))
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    i, j = min(int(y), height - 1), min(int(x), width - 1)
    k, m, a, b = min(i + 1, height - 1), min(j + 1, width - 1), y - i, x - j
    rows = (image[:, r, j] * (1 - b) + image[:, r, m] * b for r in (i, k))
    return next(rows) * (1 - a) + next(rows) * a


@pytest.mark.one_in(4)
def test_what_is_in_boxes() -> None:
    boxes = np.array([[1, 0.5, 1.0, 7.0, 9.5], [0, -3.0, 2.0, 3.0, 3.0], [1, 4.0, 4.0, 4.2, 4.1]])
    found = run("aligned", IMAGE, boxes)
    for got, size, scale, samples, half in zip(found, ((3, 2), (2, 2)), (0.5, 1.0), (2, 3), (0.0, 0.5), strict=True):
        wanted = np.zeros((3, 4, *size))
        for b, (which, *corners) in enumerate(boxes):
            x1, y1, x2, y2 = (c * scale - half for c in corners)
            w, h = (x2 - x1, y2 - y1) if half else (max(x2 - x1, 1), max(y2 - y1, 1))
            for i, j, s, t in product(range(size[0]), range(size[1]), range(samples), range(samples)):
                y, x = y1 + h / size[0] * (i + (s + 0.5) / samples), x1 + w / size[1] * (j + (t + 0.5) / samples)
                wanted[b, :, i, j] += sampled(IMAGE[int(which)], y, x) / samples**2
        np.testing.assert_allclose(got, wanted, atol=1e-13)


@pytest.mark.one_in(6)
def test_taps_that_are_moved() -> None:
    w, offset, mask = RNG.normal(size=(4, 2, 3, 3)), RNG.normal(size=(2, 36, 5, 4)), RNG.random((2, 18, 5, 4))
    plain, still, found = run("moved", IMAGE, w, offset, mask)
    np.testing.assert_allclose(still, plain, atol=1e-13)
    padded, wanted = np.pad(IMAGE, ((0, 0), (0, 0), (3, 3), (3, 3))), np.zeros((2, 4, 5, 4))
    for n, o, c, k, i, j in product(range(2), range(4), range(2), range(9), range(5), range(4)):
        part = (o // 2 * 2 + c) // 2
        y, x = (offset[n, (part * 9 + k) * 2 + a, i, j] for a in range(2))
        at = np.array([i - 1 + k // 3 + y, j - 1 + k % 3 + x])
        corner = np.floor(at).astype(int)
        a, b = at - corner
        inside = np.all((corner >= -2) & (corner < (6, 5)))
        r, s = corner + 3
        image = padded[n, o // 2 * 2 + c]
        taken = image[r, s] * (1 - a) * (1 - b) + image[r, s + 1] * (1 - a) * b if inside else 0.0
        taken += image[r + 1, s] * a * (1 - b) + image[r + 1, s + 1] * a * b if inside else 0.0
        wanted[n, o, i, j] += w[o, c, k // 3, k % 3] * taken * mask[n, part * 9 + k, i, j]
    np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.one_in(4)
def test_all_ways_to_say_a_sequence() -> None:
    x = RNG.normal(size=(4, 2, 3))
    x -= np.log(np.exp(x).sum(-1, keepdims=True))
    targets, frames, lengths = np.array([[1, 2], [2, 2]]), np.array([4, 3]), np.array([2, 2])
    (found,) = run("sequences", x, targets, frames, lengths)
    for b in range(2):
        total = 0.0
        for path in product(range(3), repeat=int(frames[b])):
            if [k for k, _ in groupby(path) if k] == targets[b].tolist():
                total += np.exp(sum(x[t, b, k] for t, k in enumerate(path)))
        np.testing.assert_allclose(found[b], -np.log(total), rtol=1e-13)
    (short,) = run("sequences", x, targets, np.array([1, 2]), lengths)
    assert np.isposinf(short).all()
