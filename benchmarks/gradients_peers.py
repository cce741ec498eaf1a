"""The functions of `gradients.tess` for JAX and PyTorch, on the same inputs.

Enters: arrays by name. Leaves: for each library a primal and a gradient call that wait for their results; a library
that is not installed is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

Call = Callable[[], float]
Pair = tuple[Call, Call]
HEADS = 4


def jax_pair(name: str, params: Mapping[str, np.ndarray], data: tuple[np.ndarray, ...]) -> Pair | None:
    try:
        import jax
    except ImportError:
        return None
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    function = _jax_functions()[name]
    weights = {key: jax.numpy.asarray(value) for key, value in params.items()}
    inputs = tuple(jax.numpy.asarray(item) for item in data)
    primal, both = jax.jit(function), jax.jit(jax.value_and_grad(function))
    return (
        lambda: float(jax.block_until_ready(primal(weights, *inputs))),
        lambda: float(jax.block_until_ready(both(weights, *inputs))[0]),
    )


def _jax_functions() -> dict[str, Callable]:
    import jax
    from jax import numpy as jnp

    def mlp(m, x, y):
        h = jnp.tanh(x @ m["w1"] + m["b1"])
        h = jnp.tanh(h @ m["w2"] + m["b2"])
        logits = jax.nn.log_softmax(h @ m["w3"] + m["b3"])
        return -jnp.take_along_axis(logits, y[:, None], axis=1).mean()

    def attend(m, x):
        centred = x - x.mean(-1, keepdims=True)
        h = centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * m["scale"] + m["shift"]
        count, length, width = x.shape
        parts = jnp.split(h @ m["qkv"], 3, axis=-1)
        q, k, v = (p.reshape(count, length, HEADS, width // HEADS).swapaxes(1, 2) for p in parts)
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(width // HEADS)
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
        mixed = (jax.nn.softmax(scores) @ v).swapaxes(1, 2).reshape(x.shape)
        return ((x + mixed @ m["out"]) ** 2).mean()

    def lstm(m, xs):
        def turn(carry, x):
            h, c = carry
            i, f, g, o = jnp.split(x @ m["w"] + h @ m["u"] + m["b"], 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        start = jnp.zeros((xs.shape[1], m["u"].shape[0]), xs.dtype)
        (h, _), _ = jax.lax.scan(turn, (start, start), xs)
        return (h * h).mean()

    def mixture(m, x):
        strict = jnp.tril(m["lower"], -1)
        centred = x[:, None, :] - m["means"]
        turned = jnp.exp(m["logs"]) * centred + jnp.einsum("kij,nkj->nki", strict, centred)
        terms = m["alphas"] + m["logs"].sum(-1) - 0.5 * (turned**2).sum(-1)
        prior = 0.5 * (jnp.exp(2 * m["logs"]).sum() + (strict**2).sum()) - m["logs"].sum()
        likely = jax.scipy.special.logsumexp(terms, axis=-1).sum()
        return likely - len(x) * jax.scipy.special.logsumexp(m["alphas"]) - prior

    def convolve(m, x):
        y = jnp.tanh(jax.lax.conv(x, m["first"], (1, 1), "SAME"))
        return (jax.lax.conv(y, m["second"], (1, 1), "SAME") ** 2).mean()

    return {"mlp": mlp, "attend": attend, "lstm": lstm, "mixture": mixture, "convolve": convolve}


def torch_pair(name: str, params: Mapping[str, np.ndarray], data: tuple[np.ndarray, ...]) -> Pair | None:
    try:
        import torch
    except ImportError:
        return None
    function = _torch_functions()[name]
    weights = {key: torch.tensor(value, requires_grad=True) for key, value in params.items()}
    inputs = tuple(torch.tensor(item) for item in data)

    def primal() -> float:
        with torch.no_grad():
            return float(function(weights, *inputs))

    def both() -> float:
        value = function(weights, *inputs)
        torch.autograd.grad(value, list(weights.values()))
        return float(value.detach())

    return primal, both


def _torch_functions() -> dict[str, Callable]:
    import torch
    from torch.nn import functional

    def mlp(m, x, y):
        h = torch.tanh(x @ m["w1"] + m["b1"])
        h = torch.tanh(h @ m["w2"] + m["b2"])
        return functional.cross_entropy(h @ m["w3"] + m["b3"], y.long())

    def attend(m, x):
        count, length, width = x.shape
        h = functional.layer_norm(x, (width,), m["scale"], m["shift"])
        parts = (h @ m["qkv"]).chunk(3, dim=-1)
        q, k, v = (p.reshape(count, length, HEADS, width // HEADS).transpose(1, 2) for p in parts)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return ((x + mixed.transpose(1, 2).reshape(x.shape) @ m["out"]) ** 2).mean()

    def lstm(m, xs):
        h = c = torch.zeros(xs.shape[1], m["u"].shape[0], dtype=xs.dtype)
        for x in xs:
            i, f, g, o = (x @ m["w"] + h @ m["u"] + m["b"]).chunk(4, dim=-1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return (h * h).mean()

    def mixture(m, x):
        strict = torch.tril(m["lower"], -1)
        centred = x[:, None, :] - m["means"]
        turned = torch.exp(m["logs"]) * centred + torch.einsum("kij,nkj->nki", strict, centred)
        terms = m["alphas"] + m["logs"].sum(-1) - 0.5 * (turned**2).sum(-1)
        prior = 0.5 * (torch.exp(2 * m["logs"]).sum() + (strict**2).sum()) - m["logs"].sum()
        return torch.logsumexp(terms, -1).sum() - len(x) * torch.logsumexp(m["alphas"], 0) - prior

    def convolve(m, x):
        y = torch.tanh(functional.conv2d(x, m["first"], padding=1))
        return (functional.conv2d(y, m["second"], padding=1) ** 2).mean()

    return {"mlp": mlp, "attend": attend, "lstm": lstm, "mixture": mixture, "convolve": convolve}
