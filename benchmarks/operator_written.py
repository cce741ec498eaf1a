"""What PyTorch has no function of, as its users write it with those that there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import scipy.fft
import scipy.integrate
import scipy.special
import scipy.stats
import torch

TRIANGLE = torch.ones(256, 256).tril() > 0.0
_BEHIND = torch.arange(256)[:, None] - torch.arange(256)[None, :]
WINDOW = (_BEHIND >= 0) & (_BEHIND <= 64)


def moe(x: Any, router: Any, experts: Any) -> Any:
    """The two best of the experts for each token, expert by expert."""
    found, route = (x @ router).topk(2)
    weights, y = found.softmax(-1), torch.zeros(len(x), experts.shape[2])
    for number, expert in enumerate(experts):
        tokens, choice = (route == number).nonzero(as_tuple=True)
        y.index_add_(0, tokens, (x[tokens] @ expert) * weights[tokens, choice, None])
    return y


def top_p(logits: Any) -> Any:
    likely, order = logits.sort(-1, descending=True)
    p = likely.softmax(-1)
    left_out = (p.cumsum(-1) - p >= 0.9).scatter(-1, order, p.cumsum(-1) - p >= 0.9)
    return logits.masked_fill(left_out, -torch.inf)


def sampled(logits: Any) -> Any:
    """A token of each row with a temperature of 0.8, of the 50 most likely those of nine tenths."""
    w = logits / 0.8
    w = w.masked_fill(w < w.topk(50).values[:, -1:], -torch.inf)
    return torch.multinomial(top_p(w).softmax(-1), 1)


def beam_step(scores: Any, logits: Any) -> Any:
    total = (scores[:, :, None] + logits.log_softmax(-1)).flatten(1)
    found, places = total.topk(scores.shape[1])
    return found, places // logits.shape[2], places % logits.shape[2]


def dynamic(x: Any) -> Any:
    """u8 with the scale and the zero point that hold all of a tensor."""
    low, high = x.amin().clamp(max=0.0), x.amax().clamp(min=0.0)
    scale = (high - low) / 255.0
    return ((x / scale).round() + (-low / scale).round()).clamp(0, 255).to(torch.uint8)


def solved(x: Any, o: Any) -> Any:
    return torch.linalg.solve_triangular(x[:512, :512] + 99.0 * torch.eye(512), o, upper=False)


def roi_align(x: Any, boxes: Any) -> Any:
    """Seven by seven points of two by two samples each, by the library's own sampling."""
    height, width = x.shape[2:]
    at = (torch.arange(14) + 0.5) / 14.0
    low, size = boxes[:, 1:3] - 0.5, boxes[:, 3:] - boxes[:, 1:3]
    columns, rows = (low[:, d : d + 1] + size[:, d : d + 1] * at for d in (0, 1))
    columns, rows = columns.clamp(0, width - 1) * 2 / (width - 1) - 1, rows.clamp(0, height - 1) * 2 / (height - 1) - 1
    grid = torch.stack(torch.broadcast_tensors(columns[:, None, :], rows[:, :, None]), -1)
    return torch.nn.functional.avg_pool2d(
        torch.nn.functional.grid_sample(x[boxes[:, 0].long()], grid, align_corners=True), 2
    )


def nms(boxes: Any, scores: Any) -> Any:
    """The best that is left removes those that share more than half with it."""
    low, high, left, kept = boxes[:, :2], boxes[:, 2:], scores.argsort(descending=True), []
    area = (high - low).prod(1)
    while len(left):
        first, left = left[0], left[1:]
        kept.append(first)
        shared = (torch.minimum(high[first], high[left]) - torch.maximum(low[first], low[left])).clamp(min=0).prod(1)
        left = left[shared / (area[first] + area[left] - shared) <= 0.5]
    return torch.stack(kept)


def deform_conv2d(x: Any, offset: Any, w: Any) -> Any:
    """Each of nine taps is a sampling at its own places."""
    n, _, height, width = x.shape
    rows, columns = torch.arange(height)[:, None], torch.arange(width)[None, :]
    y = torch.zeros(n, len(w), height, width)
    for tap in range(9):
        row, column = rows + offset[:, 2 * tap] + tap // 3 - 1, columns + offset[:, 2 * tap + 1] + tap % 3 - 1
        grid = torch.stack([column * 2 / (width - 1) - 1, row * 2 / (height - 1) - 1], -1)
        taken = torch.nn.functional.grid_sample(x, grid, align_corners=True)
        y += torch.einsum("nchw,oc->nohw", taken, w[:, :, tap // 3, tap % 3])
    return y


_COLUMNS = torch.arange(64) % 16


def bsmm(x: Any, y: Any) -> Any:
    """Rows of four blocks each: the pieces of x that they take, one product for each row."""
    taken = x.reshape(1024, 16, 64)[:, _COLUMNS].reshape(1024, 16, 256).transpose(0, 1)
    return torch.bmm(taken, y[:256].reshape(16, 4, 64, 64).transpose(2, 3).reshape(16, 256, 64)).transpose(0, 1)


def _rounded(x: Any) -> Any:
    """To fp8 with a power of two for each 32 numbers, and back."""
    parts = x.reshape(len(x), -1, 32)
    scale = torch.exp2(parts.abs().amax(-1, keepdim=True).log2().floor() - 8.0)
    return ((parts / scale).to(torch.float8_e4m3fn).float() * scale).reshape(x.shape)


def mx_matmul(x: Any, y: Any) -> Any:
    return _rounded(x) @ _rounded(y).T


def reverse_sequence(x: Any, lengths: Any) -> Any:
    t, n = torch.arange(x.shape[1])[None], lengths[:, None]
    return x.gather(1, torch.where(t < n, n - 1 - t, t)[..., None].expand(x.shape))


def mel_filters(count: int, mels: int, rate: float) -> Any:
    top = 2595.0 * torch.log10(torch.tensor(1.0 + rate / 2.0 / 700.0))
    at = 700.0 * (10.0 ** (torch.linspace(0.0, float(top), mels + 2) / 2595.0) - 1.0)
    f = torch.linspace(0.0, rate / 2.0, count)[:, None]
    rise, fall = (f - at[:-2]) / (at[1:-1] - at[:-2]), (at[2:] - f) / (at[2:] - at[1:-1])
    return torch.minimum(rise, fall).clamp(min=0.0)


def interp(x: Any, values: Any) -> Any:
    at = torch.linspace(-3.0, 3.0, len(values))
    i = (torch.searchsorted(at, x) - 1).clamp(0, len(at) - 2)
    share = ((x - at[i]) / (at[i + 1] - at[i])).clamp(0.0, 1.0)
    return torch.lerp(values[i], values[i + 1], share)


def betainc(p: Any, q: Any) -> Any:
    """SciPy's, in f32 as here."""
    return scipy.special.betainc(p.numpy(), q.numpy(), (p / (p + q)).numpy())


def iv(p: Any, q: Any) -> Any:
    return scipy.special.iv(p.numpy(), q.numpy())


def beta(p: Any, q: Any) -> Any:
    return scipy.special.beta(p.numpy(), q.numpy())


def kv(p: Any, q: Any) -> Any:
    return scipy.special.kv(p.numpy(), q.numpy())


def simpson(x: Any) -> Any:
    return scipy.integrate.simpson(x.numpy())


def kurtosis(x: Any) -> Any:
    return scipy.stats.kurtosis(x.numpy(), axis=1)


def grouped_mm(x: Any, g: Any, ends: Sequence[int]) -> Any:
    """As a loop, which CPUs have for f32."""
    starts = (0, *ends[:-1])
    return torch.cat([x[a:b] @ w for w, a, b in zip(g, starts, ends, strict=True)])


def hyp2f1(p: Any, q: Any) -> Any:
    return scipy.special.hyp2f1(p.numpy(), 1.5, 2.5, -q.numpy())


def dct(x: Any) -> Any:
    return scipy.fft.dct(x.numpy())
