"""Attention and rotary embeddings over products of their options, all written out for NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from tests.tools.peer_cases import Case

B, H, G, S, T, D, E = 2, 4, 2, 3, 5, 6, 4
RNG = np.random.default_rng(3)
Q, K, V = (RNG.normal(size=shape) * 1.5 for shape in ((B, H, S, D), (B, H, T, D), (B, H, T, E)))
FEW_K, FEW_V = K[:, :G].copy(), V[:, :G].copy()
LENGTHS, SINKS = np.array([4, 5]), RNG.normal(size=H)
BIAS = RNG.normal(size=(H, S, T))
SEEN = RNG.random((B, 1, S, T)) < 0.6
SEEN[..., 1] = True
MASKS: dict[str, np.ndarray | None] = {
    "": None,
    "m": SEEN,
    "m ": RNG.random((B, 1, 1, T)) < 0.7,
    "m  ": RNG.normal(size=(S, T)),
}
WINDOWS = (None, 1, (2, 0), (1, None), (None, 2))


def attended(xp: Any, q: Any, k: Any, v: Any, options: dict[str, Any]) -> Any:
    """Attention written out, with each option as its definition says, in the words that NumPy and PyTorch share."""
    s, v = scored(xp, q, k, v, options)
    top = xp.amax(s, -1, keepdims=True)
    p = xp.exp(s - xp.where(top == -np.inf, 0.0, top))
    return p @ v / xp.where(top == -np.inf, 1.0, p.sum(-1)[..., None])


def log_sums(xp: Any, q: Any, k: Any, v: Any, options: dict[str, Any]) -> Any:
    """The logarithms of the sums of the exponentials of scores, where each query sees a key."""
    s, _ = scored(xp, q, k, v, options)
    top = xp.amax(s, -1)
    return top + xp.log(xp.exp(s - top[..., None]).sum(-1))


def scored(xp: Any, q: Any, k: Any, v: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """Scores of all heads, and values beside them."""
    shared = xp.arange(H) // (H // k.shape[1])
    k, v = k[:, shared], v[:, shared]
    s, cap = q @ k.mT / np.sqrt(D), options["softcap"]
    s = s if cap is None else cap * xp.tanh(s / cap)
    s = s if options["b"] is None else s + options["b"]
    mask, seen = options["m"], seen_keys(xp, options)
    if mask is not None:
        s, seen = (s, seen & mask) if mask.dtype == xp.bool else (s + mask, seen)
    s = xp.where(seen, s, -np.inf)
    if options["t"] is not None:
        s = xp.concat([s, xp.broadcast_to(options["t"][:, None, None], (B, H, S, 1))], -1)
        v = xp.concat([v, xp.zeros_like(v[:, :, :1])], 2)
    return s, v


def seen_keys(xp: Any, options: dict[str, Any]) -> Any:
    keys, ends = xp.arange(T), T if options["n"] is None else options["n"][:, None, None, None]
    places = xp.arange(S)[:, None] + (ends - S if options["align"] == "bottom-right" else 0)
    seen = xp.broadcast_to(keys < ends, (B, 1, S, T))
    seen = seen & (keys <= places) if options["causal"] else seen
    window = options["window"]
    before, after = window if isinstance(window, tuple) else (window, window)
    seen = seen if before is None else seen & (keys >= places - before)
    return seen if after is None else seen & (keys <= places + after)


def attention_cases(xp: Any) -> Iterator[Case]:
    names = ("attention_safe", "grouped_attention_safe", "attention", "grouped_attention")
    aligned = product((False, True), ("bottom-right", "top-left"), WINDOWS, (False, True))
    turns = list(product(MASKS, (False, True), (None, 2.0), (False, True)))
    pairs = [(*a, *b) for a in aligned for b in turns]
    for i, (causal, align, window, lengths, mask, bias, cap, sinks) in enumerate(pairs):
        name = names[i % 2 + (2 if sinks else 0)]
        operands = _operands(name, lengths, mask, bias, sinks)
        statics = {"causal": causal, "align": align, "window": window, "softcap": cap}
        yield Case(_call(name, statics, mask, lengths, bias, sinks), operands, _peer(xp, operands, statics))


def log_sum_cases(xp: Any) -> Iterator[Case]:
    names = ("attention_with_lse", "grouped_attention_with_lse")
    for i, (causal, window, (lengths, mask, bias, cap, sinks)) in enumerate(
        product((False, True), (None, (2, 0)), [(False, "", False, None, False), (True, "m  ", True, 2.0, True)])
    ):
        operands = _operands(names[i % 2], lengths, mask, bias, sinks)
        statics = {"causal": causal, "align": "bottom-right", "window": window, "softcap": cap}
        call = _call(names[i % 2], statics, mask, lengths, bias, sinks)
        yield Case(f"{call}[1]", operands, _peer(xp, operands, statics, log_sums))


def _operands(name: str, lengths: bool, mask: str, bias: bool, sinks: bool) -> dict[str, np.ndarray]:
    grouped = name.startswith("grouped")
    found = {"q": Q, "k": FEW_K if grouped else K, "v": FEW_V if grouped else V}
    given = {
        "n": LENGTHS if lengths else None,
        "m": MASKS[mask],
        "b": BIAS if bias else None,
        "t": SINKS if sinks else None,
    }
    return found | {key: array for key, array in given.items() if array is not None}


def _call(name: str, statics: dict[str, Any], mask: str, lengths: bool, bias: bool, sinks: bool) -> str:
    words = [f'{key}="{value}"' if isinstance(value, str) else f"{key}={value}" for key, value in statics.items()]
    tensors = {"mask=m": mask, "lengths=n": lengths, "bias=b": bias, "sinks=t": sinks}
    words += [word for word, there in tensors.items() if there]
    return f"{name}(q, k, v, {', '.join(words)})"


def _peer(xp: Any, operands: dict[str, np.ndarray], statics: dict[str, Any], of: Callable[..., Any] = attended) -> Any:
    names, absent = list(operands)[3:], dict.fromkeys("nmbt")

    def run(q: Any, k: Any, v: Any, *rest: Any) -> Any:
        return of(xp, q, k, v, absent | statics | dict(zip(names, rest, strict=True)))

    return run


def rotary_cases(xp: Any) -> Iterator[Case]:
    x, places = RNG.normal(size=(B, H, S, 8)), np.array([[0, 3, 1], [9, 2, 7]])
    kinds = {"": None, "places": places, "row": places[0], "first": np.array(2)}
    for interleaved, size, kind in product((False, True), (8, 4), kinds):
        given = kinds[kind]
        text = f"rotary_embedding(x, {'None' if given is None else 'p'}, 500.0, interleaved={interleaved}, size={size})"
        operands = {"x": x} | ({} if given is None else {"p": given})
        yield Case(text, operands, lambda x, p=None, i=interleaved, r=size: _turned(xp, x, _angles(xp, p, r), i, r))
    tables = np.cos(RNG.normal(size=(12, 2))), np.sin(RNG.normal(size=(12, 2)))
    for interleaved in (False, True):
        text = f"rotary_embedding(x, p, interleaved={interleaved}, size=4, cos=c, sin=s)"
        operands = {"x": x, "p": places, "c": tables[0], "s": tables[1]}
        yield Case(text, operands, lambda x, p, c, s, i=interleaved: _turned(xp, x, (c[p], s[p]), i, 4))


def _angles(xp: Any, p: Any, size: int) -> tuple[Any, Any]:
    places = xp.arange(S) if p is None else p if p.ndim else p + xp.arange(S)
    angle = places[..., None] * 500.0 ** (-xp.arange(0, size, 2, dtype=xp.float64) / size)
    return xp.cos(angle), xp.sin(angle)


def _turned(xp: Any, x: Any, turn: tuple[Any, Any], interleaved: bool, size: int) -> Any:
    c, s = (t[:, None] if t.ndim == 3 else t for t in turn)
    w, rest = x[..., :size], x[..., size:]
    a, b = (w[..., ::2], w[..., 1::2]) if interleaved else (w[..., : size // 2], w[..., size // 2 :])
    pair = a * c - b * s, b * c + a * s
    y = xp.stack(pair, -1).reshape(w.shape) if interleaved else xp.concat(pair, -1)
    return xp.concat([y, rest], -1)
