"""What PyTorch and JAX call the kernels of the library, for `benchmarks.library_kernels`: forward functions of the
tensors of a case, by the name of the case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Forward = Callable[..., Any]


def torch_functions() -> dict[str, Forward]:
    import torch
    import torch.nn.functional as F

    def loss(x: Any, y: Any) -> Any:
        with torch.enable_grad():
            z = x.detach().requires_grad_()
            losses = F.cross_entropy(z, y.long(), reduction="none")
            return torch.autograd.grad(losses.sum(), z)[0], losses

    def rotary(x: Any, c: Any, s: Any) -> Any:
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * c - b * s, b * c + a * s], dim=-1)

    def decode(q: Any, k: Any, v: Any, n: Any) -> Any:
        return F.scaled_dot_product_attention(q[:, :, None], k, v, enable_gqa=True)[:, :, 0]

    def adam(*tensors: Any) -> Any:
        """Of lists of weights, slopes, means and squares, in place."""
        lists = [list(pair) for pair in zip(tensors[:4], tensors[4:], strict=True)]
        steps = [torch.tensor(10.0, device=tensors[0].device) for _ in lists[0]]
        torch._fused_adam_(
            *lists, [], steps, lr=1e-3, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8, amsgrad=False,
            maximize=False,
        )  # fmt: skip

    def causal(q: Any, k: Any, v: Any, n: Any = None) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    return {
        "softmax": lambda x: torch.softmax(x, -1),
        "softmax of long rows": lambda x: torch.softmax(x, -1),
        "layernorm": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
        "rmsnorm": lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-5),
        "cross entropy with its gradient": loss,
        "rotary embedding": rotary,
        "matmul, gelu": lambda x, w, b: F.gelu(torch.addmm(b, x, w)),
        "matmul, swiglu": lambda x, g, u: F.silu(x @ g) * (x @ u),
        "transpose": lambda x: x.T.contiguous(),
        "attention": causal,
        "decode": decode,
        "attention of the seeds, beside the library's": causal,
        "adam of two tensors, beside one by one": adam,
    }


def jax_functions() -> dict[str, Forward]:
    import jax
    import jax.numpy as jnp

    def layernorm(x: Any, w: Any, b: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * w + b

    def losses(x: Any, y: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], -1)[:, 0]

    def loss(x: Any, y: Any) -> Any:
        return jax.grad(lambda x: losses(x, y).sum())(x), losses(x, y)

    def rotary(x: Any, c: Any, s: Any) -> Any:
        a, b = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([a * c - b * s, b * c + a * s], axis=-1)

    def attention(q: Any, k: Any, v: Any, n: Any = None) -> Any:
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
        return jax.nn.dot_product_attention(q, k, v, is_causal=True).swapaxes(1, 2)

    def moved(w: Any, g: Any, m: Any, v: Any) -> Any:
        m, v = m * 0.9 + g * 0.1, v * 0.999 + g * g * 0.001
        return w - 1e-3 * (m / (1 - 0.9**10)) / (jnp.sqrt(v / (1 - 0.999**10)) + 1e-8), m, v

    def decode(q: Any, k: Any, v: Any, n: Any) -> Any:
        return jax.nn.dot_product_attention(q[:, None], k.swapaxes(1, 2), v.swapaxes(1, 2))[:, 0]

    return {
        "softmax": lambda x: jax.nn.softmax(x),
        "softmax of long rows": lambda x: jax.nn.softmax(x),
        "layernorm": layernorm,
        "rmsnorm": lambda x, w: x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w,
        "cross entropy with its gradient": loss,
        "rotary embedding": rotary,
        "matmul, gelu": lambda x, w, b: jax.nn.gelu(x @ w + b, approximate=False),
        "matmul, swiglu": lambda x, g, u: jax.nn.silu(x @ g) * (x @ u),
        "transpose": lambda x: x.T + 0,
        "attention": attention,
        "decode": decode,
        "attention of the seeds, beside the library's": attention,
        "adam of two tensors, beside one by one": lambda *tensors: (moved(*tensors[:4]), moved(*tensors[4:])),
    }
