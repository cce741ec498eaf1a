"""`python -m benchmarks.pinn_jax`: the residual of `examples/kovasznay.tess` and the gradient of its loss, against JAX.

Both are f64, and agree to 1e-10 of the largest element. Needs `pip install '.[peers]'`.
Writes `benchmarks/results/pinn.md`.
"""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
from jax import numpy as jnp

import tessera
from benchmarks.__main__ import RESULTS, machine
from benchmarks.report import Row, table

BOUND = 1e-10
REYNOLDS = 40.0
LAYERS = ("l1", "l2", "l3", "l4", "l5")
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)


def network(net, x):
    for layer in net[:-1]:
        x = jnp.tanh(x @ layer[0] + layer[1])
    return x @ net[-1][0] + net[-1][1]


def residual(net, points):
    """By Jacobians and Hessians of single points, which is another way than the example's."""

    def at(point):
        value = network(net, point)
        first = jax.jacfwd(lambda p: network(net, p))(point)
        second = jax.hessian(lambda p: network(net, p))(point)
        spread = (second[:, 0, 0] + second[:, 1, 1]) / REYNOLDS
        moved = value[0] * first[:, 0] + value[1] * first[:, 1] - spread
        return jnp.stack([moved[0] + first[2, 0], moved[1] + first[2, 1], first[0, 0] + first[1, 1]])

    return jax.vmap(at)(points)


def exact(x):
    k = REYNOLDS / 2 - np.sqrt(REYNOLDS**2 / 4 + 4 * np.pi**2)
    e = np.exp(k * x[:, 0])
    u, v = 1 - e * np.cos(2 * np.pi * x[:, 1]), k / (2 * np.pi) * e * np.sin(2 * np.pi * x[:, 1])
    return np.stack([u, v, (1 - e * e) / 2], axis=1)


def loss(net, inside, edge):
    missed = network(net, edge) - exact(edge)
    return (residual(net, inside) ** 2).mean() + 10 * (missed**2).mean()


def off(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.abs(ours - np.asarray(theirs)).max() / np.abs(theirs).max())


def main() -> None:
    module = tessera.load(Path(__file__).parent.parent / "examples" / "kovasznay.tess")
    net, (inside, edge) = module.init(0).net, module.data()
    arrays = [(getattr(net, name).w, getattr(net, name).b) for name in LAYERS]
    value, slope = module.slope(net, inside, edge)
    their_value, their_slope = jax.value_and_grad(loss)(arrays, inside, edge)
    gradients = []
    for name, theirs in zip(LAYERS, their_slope, strict=True):
        layer = getattr(slope, name)
        gradients += [off(layer.w, theirs[0]), off(layer.b, theirs[1])]
    found = {
        "residual": off(module.residual(net, inside), residual(arrays, inside)),
        "loss": off(value, their_value),
        "gradient by all weights": max(gradients),
    }
    rows = [Row(what, f"{far:.1e}", f"<= {BOUND:g}", far <= BOUND) for what, far in found.items()]
    for row in rows:
        print(row.line())
    head = f"# Kovasznay flow against JAX {jax.__version__}\n\n`python -m benchmarks.pinn_jax`, {machine()}.\n"
    told = "The largest difference over the largest element.\n"
    (RESULTS / "pinn.md").write_text(f"{head}{told}\n{table(rows)}", encoding="utf-8")


if __name__ == "__main__":
    main()
