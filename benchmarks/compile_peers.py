"""The programs of `compile_time.py` for JAX: the same layers, written one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

WIDTH, LENGTH, BATCH, TOKENS, HEADS = 64, 32, 8, 64, 4


def jax_step(program: str, layers: int) -> tuple[Callable, tuple, tuple[int, ...]]:
    """A function, its arguments, and the positions of those that it is given."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    if program == "forward":
        return transformer, (_transformer(layers), np.zeros((BATCH, LENGTH), np.int32)), ()
    model = _perceptron(layers) if program == "mlp" else _transformer(layers)
    loss = perceptron_loss if program == "mlp" else transformer_loss
    data = np.zeros((BATCH, WIDTH), np.float32) if program == "mlp" else np.zeros((BATCH, LENGTH), np.int32)
    zeros = jax.tree.map(np.zeros_like, model)
    state = (np.int32(0), zeros, jax.tree.map(np.zeros_like, model))
    return _adamw(loss), (model, state, data, data), (0, 1) if program == "donating" else ()


def _adamw(loss: Callable) -> Callable:
    import jax
    from jax import numpy as jnp

    def update(w, g, m, v, step):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        mean, square = m / (1 - 0.9**step), v / (1 - 0.999**step)
        return w - 0.001 * (mean / (jnp.sqrt(square) + 1e-8) + 0.01 * w), m, v

    def step(model, state, x, y):
        value, grads = jax.value_and_grad(loss)(model, x, y)
        count = state[0] + 1
        leaves, tree = jax.tree.flatten(model)
        parts = (jax.tree.leaves(t) for t in (grads, state[1], state[2]))
        new = [update(w, g, m, v, count) for w, g, m, v in zip(leaves, *parts, strict=True)]
        model, mean, square = (jax.tree.unflatten(tree, column) for column in zip(*new, strict=True))
        return model, (count, mean, square), value

    return step


def transformer(m, ids):
    import jax
    from jax import numpy as jnp

    def norm(x):
        return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)

    def heads(x):
        return x.reshape(BATCH, LENGTH, HEADS, WIDTH // HEADS).swapaxes(1, 2)

    x = m["tokens"][ids] + m["places"][:LENGTH]
    for block in m["blocks"]:
        q, k, v = map(heads, jnp.split(norm(x) * block["norm1"] @ block["qkv"], 3, axis=-1))
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(WIDTH // HEADS)
        scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -jnp.inf)
        x = x + (jax.nn.softmax(scores) @ v).swapaxes(1, 2).reshape(x.shape) @ block["out"]
        x = x + jax.nn.gelu(norm(x) * block["norm2"] @ block["up"], approximate=False) @ block["down"]
    return norm(x) @ m["head"]


def transformer_loss(m, ids, after):
    import jax
    from jax import numpy as jnp

    logits = jax.nn.log_softmax(transformer(m, ids))
    return -jnp.take_along_axis(logits, after[..., None], axis=-1).mean()


def perceptron_loss(m, x, y):
    from jax import numpy as jnp

    for block in m["blocks"]:
        x = jnp.tanh(x @ block["w"] + block["b"])
    return ((x - y) ** 2).mean()


def _transformer(layers: int) -> dict:
    d = WIDTH
    shapes = {"norm1": (d,), "qkv": (d, 3 * d), "out": (d, d), "norm2": (d,), "up": (d, 4 * d), "down": (4 * d, d)}
    ends = {"tokens": (TOKENS, d), "places": (LENGTH, d), "head": (d, TOKENS)}
    return {**_zeros(ends), "blocks": [_zeros(shapes) for _ in range(layers)]}


def _perceptron(layers: int) -> dict:
    return {"blocks": [_zeros({"w": (WIDTH, WIDTH), "b": (WIDTH,)}) for _ in range(layers)]}


def _zeros(shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
