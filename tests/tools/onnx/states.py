"""Attention that keeps a state, the convolution before it, and attention with graphs inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tools.onnx.node import Node, NotInTheLanguage, called, form


@form("LinearAttention")
def linear_attention(n: Node) -> str:
    heads, kv = n.attr("q_num_heads"), n.attr("kv_num_heads")
    q, k, v = (_heads(f"x{i}", n.shape(i), h) for i, h in ((0, heads), (1, kv), (2, kv)))
    whole = n.has(4) and n.shape(4)[-1] == kv
    decay = _of_heads("x4") if whole else None
    by_key = _heads("x4", n.shape(4), kv) if n.has(4) and not whole else None
    beta = None if not n.has(5) else _of_heads("x5" if n.shape(5)[-1] == kv else f"repeat(x5, {kv}, axis=2)")
    options = {"state": "x3" if n.has(3) else None, "decay": decay, "beta": beta, "key_decay": by_key}
    text = called("linear_attention", q, k, v, scale=n.attr("scale") or None, chunk=2, **options)
    return f"    y, state = {text}\n    return merge_heads(y), state"


def _heads(x: str, shape: tuple[int, ...], heads: int) -> str:
    b, s, d = shape
    return f"transpose(reshape({x}, ({b}, {s}, {heads}, {d // heads})), (0, 2, 1, 3))"


def _of_heads(x: str) -> str:
    return f"transpose({x}, (0, 2, 1))"


@form("CausalConvWithState")
def causal_conv(n: Node) -> str:
    bias, state = ("x2" if n.has(2) else None), ("x3" if n.has(3) else None)
    return called("causal_conv1d", "x0", "x1[:, 0]", bias=bias, state=state, activation=n.attr("activation"))


@form("FlexAttention")
def flex_attention(n: Node) -> str:
    score, weight = n.attr("score_mod"), n.attr("prob_mod")
    options = {
        "score": None if score is None else f"lambda s, b, h, i, j: {_inside(score, 's')}",
        "weight": None if weight is None else f"lambda p: {_inside(weight, 'p')}",
    }
    return called("flex_attention", "x0", "x1", "x2", scale=n.attr("scale"), **options)


def _inside(graph: Any, given: str) -> str:
    """The expression that a graph of one tensor is. Ranges over the last two dims of it are the places i and j."""
    from onnx import numpy_helper

    known = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    text = {name: _number(value) for name, value in known.items() if np.ndim(value) == 0}
    text[graph.input[0].name] = given
    for node in graph.node:
        if node.op_type == "Gather":
            text[node.output[0]] = {2: "i", 3: "j"}[int(known[node.input[1]])]
        else:
            text[node.output[0]] = _INSIDE[node.op_type].format(*(text.get(name, "") for name in node.input))
    return text[graph.output[0].name]


def _number(value: Any) -> str:
    return "-INF" if value == -np.inf else repr(value.item())


_INSIDE = {
    "Shape": "", "Range": "{1}", "Reshape": "{0}", "Cast": "cast({0}, f32)", "Tanh": "tanh({0})", "Add": "({0} + {1})",
    "Sub": "({0} - {1})", "Mul": "({0} * {1})", "Div": "({0} / {1})", "GreaterOrEqual": "({0} >= {1})",
    "Where": "where({0}, {1}, {2})",
}  # fmt: skip
"""What nodes of such graphs are: a range up to a size is the place along that dim."""


BY_HAND = {
    "test_if": "    y = array([5.0, 4.0, 3.0, 2.0, 1.0])\n    if x0:\n        y = flip(y)\n    return y",
    "test_loop11": "scan(lambda s, v: (s + v, s + v), x2, array([[1.0], [2.0], [3.0], [4.0], [5.0]]))",
    "test_scan_sum": "vmap(lambda s, x: scan(lambda s, v: (s + v, s + v), s, x))(x1, x2)",
    "test_scan9_sum": "scan(lambda s, v: (s + v, s + v), x0, x1)",
    "test_scan9_scalar": "scan(lambda s, v: (s + v, s + v), x0, x1)",
    "test_scan9_multi_state": (
        "    (s, p), y = scan(lambda c, v: ((c[0] + v, c[1] * v), c[0] + v), (x0, x1), x2)\n"
        "    return s, p, y"
    ),
    "test_if_seq": "    y = array([5.0, 4.0, 3.0, 2.0, 1.0])\n    if x0:\n        y = flip(y)\n    return (y,)",
    "test_if_opt": "None if {test} else (array([1.0, 2.0, 3.0, 4.0, 5.0]),)",
    "test_loop13_seq": "[array([1.0, 2.0, 3.0, 4.0, 5.0])[:k] for k in (1, 2, 3, 4, 5)]",
    "test_loop16_seq_none": "(x2[0],) + [array([1.0, 2.0, 3.0, 4.0, 5.0])[:k] for k in (1, 2, 3, 4, 5)]",
}
"""Cases whose nodes have a graph inside: the program that says the same."""


@form("If", "Loop", "Scan")
def graphs(n: Node) -> str:
    if n.name not in BY_HAND:
        raise NotInTheLanguage("no program of this graph is written")
    return BY_HAND[n.name].format(test=n.value(0)) if n.op == "If" else BY_HAND[n.name]


@form("SplitToSequence")
def split_to_sequence(n: Node) -> str:
    axis, sizes = n.axis(0), n.value(1, 1)
    if isinstance(sizes, int):
        sizes = [min(sizes, n.shape()[axis] - i) for i in range(0, n.shape()[axis], sizes)]
    parts = f"split_with_sizes(x0, {tuple(sizes)}, axis={axis})"
    return parts if n.attr("keepdims", 1) or n.has(1) else f"unbind(x0, {axis})"
