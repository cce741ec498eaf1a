"""What PyTorch has no function of, as its users write it with those that there are."""

from __future__ import annotations

from typing import Any

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
