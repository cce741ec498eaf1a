"""The programs of `compile_time.py` as text, for any number of layers."""

from __future__ import annotations

PROGRAMS = {
    "transformer": "transformer, step of AdamW",
    "donating": "the same, weights given away",
    "mlp": "perceptron, step of AdamW",
    "forward": "transformer, forward",
}

_TRANSFORMER = """
struct Block[D]:
    norm1: Tensor[D, f32] = ones(D)
    qkv: Tensor[D, 3*D, f32] = normal(D, 3 * D) * 0.08
    out: Tensor[D, D, f32] = normal(D, D) * 0.08
    norm2: Tensor[D, f32] = ones(D)
    up: Tensor[D, 4*D, f32] = normal(D, 4 * D) * 0.08
    down: Tensor[4*D, D, f32] = normal(4 * D, D) * 0.04

    def apply(self, x: Tensor[B, S, D, f32]) -> Tensor[B, S, D, f32] where D % 4 == 0:
        q, k, v = split_qkv(rmsnorm(x) * self.norm1 @ self.qkv, heads=4)
        x = x + merge_heads(attention(q, k, v, causal=True)) @ self.out
        return x + gelu(rmsnorm(x) * self.norm2 @ self.up) @ self.down

struct Model[V, T, D]:
    tokens: Tensor[V, D, f32] = normal(V, D) * 0.3
    places: Tensor[T, D, f32] = normal(T, D) * 0.3
{fields}
    head: Tensor[D, V, f32] = normal(D, V) * 0.1

    def apply(self, ids: Tensor[B, S, i32]) -> Tensor[B, S, V, f32] where S <= T, D % 4 == 0:
        x = embedding(self.tokens, ids) + self.places[:S]
{calls}
        return rmsnorm(x) @ self.head

def loss(
    m: Model[V, T, D], ids: Tensor[B, S, i32], after: Tensor[B, S, i32]
) -> Tensor[f32] where S <= T, D % 4 == 0:
    return mean(cross_entropy(m(ids), after))
"""

_PERCEPTRON = """
struct Block[D]:
    w: Tensor[D, D, f32] = normal(D, D) * 0.1
    b: Tensor[D, f32] = zeros(D)

    def apply(self, x: Tensor[B, D, f32]) -> Tensor[B, D, f32]:
        return tanh(x @ self.w + self.b)

struct Model[D]:
{fields}

    def apply(self, x: Tensor[B, D, f32]) -> Tensor[B, D, f32]:
{calls}
        return x

def loss(m: Model[D], x: Tensor[B, D, f32], y: Tensor[B, D, f32]) -> Tensor[f32]:
    error = m(x) - y
    return mean(error * error)
"""

_STEP = """
@export
def start(m: {model}) -> OptimizerState[{model}]:
    return adam_init(m)

@export{donate}
def step(
    m: {model}, s: OptimizerState[{model}], x: {data}, y: {data}
) -> ({model}, OptimizerState[{model}], Tensor[f32]):
    value, g = value_and_grad(loss)(m, x, y)
    m, s = adamw(m, g, s, lr=0.001)
    return m, s, value
"""

_FORWARD = """
@export
def step(m: Model[64, 32, 64], ids: Tensor[8, 32, i32]) -> Tensor[8, 32, 64, f32]:
    return m(ids)
"""


def text(program: str, layers: int) -> str:
    """A program whose function `step` is what is compiled."""
    fields = "\n".join(f"    block{i}: Block[D]" for i in range(layers))
    calls = "\n".join(f"        x = self.block{i}(x)" for i in range(layers))
    if program == "mlp":
        step = _STEP.format(model="Model[64]", data="Tensor[8, 64, f32]", donate="")
        return _PERCEPTRON.format(fields=fields, calls=calls) + step
    model = _TRANSFORMER.format(fields=fields, calls=calls)
    donate = "(donate=(m, s))" if program == "donating" else ""
    step = _STEP.format(model="Model[64, 32, 64]", data="Tensor[8, 32, i32]", donate=donate)
    return model + (_FORWARD if program == "forward" else step)
