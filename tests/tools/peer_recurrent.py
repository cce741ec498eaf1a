"""Recurrent layers over products of their options, beside those of PyTorch: outputs and last states, and gradients by
inputs, states and weights."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from tests.tools.peer_cases import Case

T, B, INPUTS, HIDDEN = 4, 3, 3, 2
GATES = {"lstm": 4, "gru": 3, "rnn": 1, "relu": 1}
LENGTHS = np.array([4, 2, 3])
"""In no order: a sequence may end before one that follows it."""


def recurrent_cases(torch: Any) -> Iterator[Case]:
    flags = (False, True)
    for kind, layers, *options in product(GATES, (1, 2), flags, flags, flags, flags, flags):
        yield _case(torch, kind, layers, *options)
    for layers, both, biased, first, given in product((1, 2), flags, flags, flags, flags):
        yield _projected(torch, layers, both, biased, first, given)
    for kind, both, backwards, given in product(("lstm", "gru", "rnn"), flags, flags, flags):
        yield _alone(torch, kind, both, backwards, given)


P = 1
"""What h is projected to."""


def _weights(rng: Any, kind: str, layers: int, both: bool, biased: bool, out: int) -> tuple[dict[str, Any], str]:
    """Those of all layers, and how they are listed; `out` is what a step gives, fewer than HIDDEN where projected."""
    operands, shown, sides, rows = dict[str, Any](), list[str](), 1 + both, GATES[kind] * HIDDEN
    for run in range(layers * sides):
        size = INPUTS if run < sides else out * sides
        shapes = [(rows, size), (rows, out), *(((rows,), (rows,)) if biased else ())]
        shapes += [(out, HIDDEN)] if out != HIDDEN else []
        names = [f"w{run}{letter}" for letter in "abcde"[: len(shapes)]]
        operands |= {name: rng.normal(size=shape) for name, shape in zip(names, shapes, strict=True)}
        shown.append(f"({', '.join(names)})")
    return operands, f"[{', '.join(shown)}]"


def _projected(torch: Any, layers: int, both: bool, biased: bool, first: bool, given: bool) -> Case:
    """An LSTM whose h is projected."""
    rng, count = np.random.default_rng(7), layers * (1 + both)
    weights, shown = _weights(rng, "lstm", layers, both, biased, P)
    state = {"h": rng.normal(size=(count, B, P)), "c": rng.normal(size=(count, B, HIDDEN))} if given else {}
    operands = {"x": rng.normal(size=(B, T, INPUTS) if first else (T, B, INPUTS)), **weights, **state}
    call = f"lstm(x, {shown}, {'(h, c)' if given else 'None'}, batch_first={first}, bidirectional={both})"
    names = list(operands)

    def peer(*values: Any) -> Any:
        have = dict(zip(names, values, strict=True))
        held = [value for name, value in have.items() if name.startswith("w")]
        none = {name: torch.zeros(count, B, size, dtype=have["x"].dtype) for name, size in (("h", P), ("c", HIDDEN))}
        start = [have.get(name, none[name]) for name in ("h", "c")]
        found = torch._VF.lstm(have["x"], start, held, biased, layers, 0.0, False, both, first)
        return torch.cat([v.reshape(-1) for v in found])

    return Case(f"concat([ravel(v) for v in ({call}[0], {call}[1][0], {call}[1][1])])", operands, peer)


def _alone(torch: Any, kind: str, both: bool, backwards: bool, given: bool) -> Case:
    """One sequence without a batch, forwards or from its end."""
    rng, count = np.random.default_rng(8), 1 + both
    weights, shown = _weights(rng, kind, 1, both, True, HIDDEN)
    states = ["h", "c"][: 1 + (kind == "lstm")] if given else []
    operands = {"x": rng.normal(size=(T, INPUTS)), **weights}
    operands |= {name: rng.normal(size=(count, HIDDEN)) for name in states}
    state = "None" if not given else "(h, c)" if kind == "lstm" else "h"
    backwards = backwards and not both
    call = f"{kind}(x, {shown}, {state}, bidirectional={both}, reverse={backwards})"
    names = list(operands)

    def peer(*values: Any) -> Any:
        have = dict(zip(names, values, strict=True))
        held = [value for name, value in have.items() if name.startswith("w")]
        x = have["x"].flip(0) if backwards else have["x"]
        none = torch.zeros(count, HIDDEN, dtype=x.dtype)
        start = [have.get(name, none)[:, None] for name in ("h", "c")[: 1 + (kind == "lstm")]]
        layer = getattr(torch._VF, {"rnn": "rnn_tanh"}.get(kind, kind))
        y, *_ = layer(x[:, None], start if kind == "lstm" else start[0], held, True, 1, 0.0, False, both, False)
        return y.flip(0)[:, 0] if backwards else y[:, 0]

    return Case(f"{call}[0]", operands, peer)


def _case(
    torch: Any, kind: str, layers: int, both: bool, biased: bool, cut: bool, first: bool, given: bool
) -> Case:
    rng, sides = np.random.default_rng(5), 1 + both
    rows, shown = GATES[kind] * HIDDEN, list[str]()
    operands = {"x": rng.normal(size=(B, T, INPUTS) if first else (T, B, INPUTS))}
    for run in range(layers * sides):
        size = INPUTS if run < sides else HIDDEN * sides
        shapes = [(rows, size), (rows, HIDDEN), *(((rows,), (rows,)) if biased else ())]
        names = [f"w{run}{letter}" for letter in "abcd"[: len(shapes)]]
        operands |= {name: rng.normal(size=shape) for name, shape in zip(names, shapes, strict=True)}
        shown.append(f"({', '.join(names)})")
    states = ["h", "c"][: 1 + (kind == "lstm")] if given else []
    operands |= {name: rng.normal(size=(layers * sides, B, HIDDEN)) for name in states}
    operands |= {"n": LENGTHS} if cut else {}
    state = "None" if not given else "(h, c)" if kind == "lstm" else "h"
    name = "rnn" if kind == "relu" else kind
    more = ', nonlinearity="relu"' if kind == "relu" else ""
    call = (
        f"{name}(x, [{', '.join(shown)}], {state}, batch_first={first}, bidirectional={both}"
        f"{', lengths=n' if cut else ''}{more})"
    )
    last = f"{call}[1][0], {call}[1][1]" if kind == "lstm" else f"{call}[1]"
    whole = f"concat([ravel(v) for v in ({call}[0], {last})])"
    made = (kind, layers, both, biased, first, given, list(operands))
    return Case(whole, operands, lambda *values, m=made: _by_torch(torch, values, m))


def _by_torch(torch: Any, values: tuple[Any, ...], made: tuple[Any, ...]) -> Any:
    kind, layers, both, biased, first, given, names = made
    have = dict(zip(names, values, strict=True))
    weights = [value for name, value in have.items() if name.startswith("w")]
    x, shape = have["x"], (layers * (1 + both), B, HIDDEN)
    zeros = torch.zeros(shape, dtype=x.dtype)
    states = tuple(have[name] if given else zeros for name in ("h", "c")[: 1 + (kind == "lstm")])
    layer = getattr(torch._VF, {"rnn": "rnn_tanh", "relu": "rnn_relu"}.get(kind, kind))
    state = states if kind == "lstm" else states[0]
    if "n" not in have:
        y, *last = layer(x, state, weights, biased, layers, 0.0, False, both, first)
        return torch.cat([v.reshape(-1) for v in (y, *last)])
    pack, unpack = torch.nn.utils.rnn.pack_padded_sequence, torch.nn.utils.rnn.pad_packed_sequence
    packed = pack(x, have["n"], batch_first=first, enforce_sorted=False)
    order, back = packed.sorted_indices, packed.unsorted_indices
    state = tuple(s[:, order] for s in states)
    held = state if kind == "lstm" else state[0]
    y, *last = layer(packed.data, packed.batch_sizes, held, weights, biased, layers, 0.0, False, both)
    put = torch.nn.utils.rnn.PackedSequence(y, packed.batch_sizes, order, back)
    y, _ = unpack(put, batch_first=first, total_length=T)
    return torch.cat([v.reshape(-1) for v in (y, *(s[:, back] for s in last))])
