"""Lists whose length only a call knows: what is wrong is told at the definition, what a call decides is not."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tests.support.checking import diagnose

pytestmark = pytest.mark.slow

STRUCTS = """
struct Block[D]:
    w: Tensor[D, D, f32]
    b: Tensor[D, f32]

struct Tower[N, D]:
    blocks: List[N, Block[D]]

struct Net[N, D]:
    blocks: List[N, Block[D]]
    head: Tensor[D, f32]

def run(blocks: List[N, Block[D]], x: Tensor[B, D, f32]) -> Tensor[B, D, f32]:
    for block in blocks:
        x = tanh(x @ block.w + block.b)
    return x

def loss(net: Net[N, D], x: Tensor[B, D, f32]) -> Tensor[f32]:
    return sum(run(net.blocks, x) @ net.head)

"""
TAKES = "(net: Net[N, D], others: List[N, Tensor[D, f32]], x: Tensor[B, D, f32], q: int)"


def codes(body: str, takes: str = TAKES) -> list[str]:
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    said = diagnose(SourceFile("example.tess", f"{STRUCTS}def f{takes}:\n{lines}\n"))
    return [d.code for d in said if d.severity == "error"]


BEFORE = {
    "loop": "for block in net.blocks:\n    x = x @ block.w",
    "zip": "for block, o in zip(net.blocks, others):\n    x = x @ block.w + o",
    "enumerate": "for i, block in enumerate(net.blocks):\n    x = x @ block.w",
    "comprehension": "many = [x @ block.w for block in net.blocks]\nx = many[0]",
    "item": "x = x @ net.blocks[q].w",
    "call": "x = run(net.blocks, x)",
    "branch in a loop": "for block in net.blocks:\n    if sum(block.b) > 0.0:\n        x = x @ block.w",
    "break": "for block in net.blocks:\n    if sum(block.b) > 0.0:\n        break\n    x = x @ block.w",
    "gradient": "v, g = value_and_grad(loss)(net, x)\nx = x @ g.blocks[0].w",
    "step": "g = grad(loss)(net, x)\nnet = net - 0.1 * g\nx = x @ net.blocks[0].w",
    "tree": "net = tree_map(lambda t: t + t, net)\nx = x @ net.blocks[0].w",
    "unpacked": "one, two = net.blocks\nx = x @ one.w @ two.w",
    "joined": "for block in net.blocks + [net.blocks[0]]:\n    x = x @ block.w",
    "many gradients": "g = vmap(grad(loss), in_axes=(None, 0))(net, stack([x, x]))\nx = x @ g.blocks[0].w[0]",
    "power": "n = 3 ** q",
    "step of a range": "for i in range(0, 8, q):\n    y = 2.0",
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
def test_what_follows_is_checked(before: str) -> None:
    assert codes(f"{before}\nreturn x @ x.T") == []
    assert codes(f"{before}\nreturn x @ x") == ["E0301"]


@pytest.mark.parametrize(
    "text",
    [
        "for block in net.blocks:\n    x = x @ block.w @ x\nreturn x",
        "for block, o in zip(net.blocks, others):\n    y = o @ block.w @ x\nreturn y",
        "for i, block in enumerate(net.blocks):\n    y = block.w @ x\nreturn x",
        "return [block.w @ x for block in net.blocks]",
        "return tree_map(lambda t: t @ ones(3), net.blocks[0].w @ x)",
    ],
)
def test_a_turn_is_checked(text: str) -> None:
    assert codes(text) == ["E0301"]


@pytest.mark.parametrize(
    "text",
    [
        "all = []\nfor block in net.blocks:\n    all = all + [x @ block.w]\nreturn all",
        "y = x[0]\nfor block in net.blocks:\n    y = concat([y, block.b], axis=0)\nreturn y",
        "n = 0\nfor block in net.blocks:\n    n += 1\nreturn reshape(x, (n, B, D))",
        "for i, b in enumerate(net.blocks):\n    if i == 0:\n        y = b.b\n    else:\n        y = y @ b.w\nreturn y",
        "for i, block in enumerate(net.blocks):\n    y = block.b if i == 0 else y + block.b\nreturn y",
        "for block in net.blocks:\n    last = block.b\nreturn x + last",
        "for block in net.blocks[1:]:\n    x = x @ block.w\nreturn x",
        "for block in net.blocks:\n    if sum(block.b) > 0.0:\n        return x @ block.w\nreturn x",
        "for block, o in zip(net.blocks, (x, x)):\n    x = o @ block.w\nreturn x",
        "return jacrev(loss)(net, x), jacfwd(loss)(net, x), hessian(loss)(net, x)",
        "both = net.blocks + others\nreturn both[0].w @ x.T, leaves(net)[1] @ x.T",
        "s = 0.0\nfor i in range(q):\n    for block in net.blocks:\n        s += sum(block.b)\nreturn s",
        "return stack([x @ block.w for block in net.blocks])",
        "return [x for block in net.blocks if len(net.blocks) > 1]",
        "if q == 0:\n    y = sum(x)\nelse:\n    y = x\nreturn y * float(3 ** q)",
    ],
)
def test_what_a_call_decides_is_no_mistake(text: str) -> None:
    assert codes(text) == []


def test_the_items_of_a_list_are_checked_too() -> None:
    takes = "(blocks: List[N, Block[D]])"
    assert codes("return blocks", f"{takes} -> List[N, Block[D]]") == []
    assert codes("return blocks", f"{takes} -> List[N, Tensor[D, f32]]") == ["E0210"]
    assert codes("return [block.b for block in blocks]", f"{takes} -> List[N, Tensor[D, f32]]") == []
    assert codes("return [block.w for block in blocks]", f"{takes} -> List[N, Tensor[D, f32]]") == ["E0308"]
    assert codes("return run([block.b for block in blocks], ones(2, D))", takes) == ["E0210"]


RUNS = """
def of_net(net: Net[N, D], x: Tensor[B, D, f32]) -> Net[N, D]:
    return grad(loss)(net, x)

def of_tower(tower: Tower[N, D], x: Tensor[B, D, f32]) -> Tower[N, D]:
    return grad(lambda t: sum(run(t.blocks, x)))(tower)

def of_head(net: Net[N, D], x: Tensor[B, D, f32]) -> Net[N, D]:
    return grad(lambda n: sum(x @ n.head))(net)

def of_list(net: Net[N, D], x: Tensor[B, D, f32]) -> List[N, Block[D]]:
    return grad(lambda blocks: sum(run(blocks, x)))(net.blocks)

def total(net: Net[N, D], n: int) -> Tensor[f32]:
    s = 0.0
    for i in range(n):
        for block in net.blocks:
            s += sum(block.b)
    return s

def last(net: Net[N, D]) -> Tensor[D, f32]:
    return net.blocks[len(net.blocks) - 1].b
"""


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("f4")


def gradient(blocks: list[dict[str, np.ndarray]], x: np.ndarray, seed: np.ndarray) -> list[dict[str, np.ndarray]]:
    """Of the sum of what `run` gives times `seed`, by hand."""
    values = [x]
    for block in blocks:
        values.append(np.tanh(values[-1] @ block["w"] + block["b"]))
    found, back = [], np.broadcast_to(seed, values[-1].shape)
    for block, taken, made in zip(reversed(blocks), values[-2::-1], values[:0:-1], strict=True):
        inner = back * (1 - made**2)
        found.append({"w": taken.T @ inner, "b": inner.sum(0)})
        back = inner @ block["w"].T
    return found[::-1]


@pytest.mark.one_in(24)
@pytest.mark.parametrize("count", [1, 3])
def test_a_gradient_by_a_struct_with_a_list_is_whole(count: int) -> None:
    m = tessera.compile(STRUCTS + RUNS)
    blocks = [{"w": normal(3, 3) + i, "b": normal(3) - i} for i in range(count)]
    net, x = {"blocks": blocks, "head": normal(3)}, normal(2, 3)
    by_head = gradient(blocks, x, net["head"])
    by_one = gradient(blocks, x, np.ones(3, "f4"))
    of_net, of_head = m.of_net(net, x), m.of_head(net, x)
    found = [(of_net.blocks, by_head), (m.of_tower({"blocks": blocks}, x).blocks, by_one), (m.of_list(net, x), by_one)]
    for got, wanted in found:
        assert len(got) == count
        for one, want in zip(got, wanted, strict=True):
            assert np.allclose(one.w, want["w"], rtol=1e-4, atol=1e-5)
            assert np.allclose(one.b, want["b"], rtol=1e-4, atol=1e-5)
    assert of_net.head.shape == (3,)
    assert np.allclose(of_head.head, x.sum(0), rtol=1e-5)
    assert [not block.w.any() and block.w.shape == (3, 3) for block in of_head.blocks] == [True] * count
    assert np.allclose(m.total(net, 2), 2 * sum(block["b"].sum() for block in blocks), rtol=1e-5)
    assert np.array_equal(m.last(net), blocks[-1]["b"])
