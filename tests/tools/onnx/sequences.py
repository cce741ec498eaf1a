"""Sequences, which are tuples here, values that may be missing, which are None, and ensembles of trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tools.onnx.node import Node, NotInTheLanguage, form


@form("Identity")
def identity(n: Node) -> str:
    return "x0" if isinstance(n.inputs[0], list) else "copy(x0)"


@form("OptionalGetElement")
def optional_get_element(n: Node) -> str:
    return "x0"


@form("OptionalHasElement")
def optional_has_element(n: Node) -> str:
    return "array(x0 is not None)" if n.inputs else "array(None is not None)"


@form("SequenceInsert")
def sequence_insert(n: Node) -> str:
    at = n.value(2, [len(n.inputs[0])])[0]
    return f"x0[:{at}] + (x1,) + x0[{at}:]"


@form("SequenceMap")
def sequence_map(n: Node) -> str:
    """What a graph of one node does with each item; tensors beside sequences are the same for all."""
    ops = [node.op_type for node in n.attr("body").node]
    several = [isinstance(value, list) for value in n.inputs]
    if set(ops) == {"Identity"}:
        parts = [f"[v for v in x{i}]" if many else f"[x{i} for v in x0]" for i, many in enumerate(several)]
        return ", ".join(parts) if len(parts) > 1 else parts[0]
    if ops == ["Shape"]:
        return "[array(v.shape) for v in x0]"
    if ops == ["Add"]:
        return "[a + b for a, b in zip(x0, x1)]" if several[1] else "[a + x1 for a in x0]"
    raise NotInTheLanguage(f"no form of a map of {ops} is written")


LEQ, MEMBER = 0, 6
"""Modes of nodes: not larger than a number, one of several."""


@form("TreeEnsemble")
def tree_ensemble(n: Node) -> str:
    """A tree is nested choices: where a row goes left, what the left one gives, else what the right one does."""
    tree = _Tree(n)
    roots = [tree.node(root) for root in np.asarray(n.attr("tree_roots")).tolist()]
    return " + ".join(roots)


class _Tree:
    def __init__(self, n: Node) -> None:
        self._n, self._dtype = n, n.dtype()
        self._of = {name: np.asarray(value).tolist() for name, value in n.attributes.items()}
        values, self._members = self._of.get("membership_values", []), list[list[float]]()
        member: list[float] = []
        for value in values:  # NaN ends the numbers of one node
            if np.isnan(value):
                self._members.append(member)
                member = []
            else:
                member.append(value)

    def node(self, place: int) -> str:
        x = f"x0[:, {self._of['nodes_featureids'][place]}]"
        mode = self._of["nodes_modes"][place]
        if mode == MEMBER:
            before = sum(other == MEMBER for other in self._of["nodes_modes"][:place])
            test = f"isin({x}, array({self._members[before]}, dtype={self._dtype}))"
        elif mode == LEQ:
            test = f"({x} <= {self._of['nodes_splits'][place]!r})"
        else:
            raise NotInTheLanguage(f"no form of nodes of mode {mode} is written")
        sides = [self._side(word, place) for word in ("true", "false")]
        return f"where({test}[:, None], {sides[0]}, {sides[1]})"

    def _side(self, word: str, place: int) -> str:
        at = self._of[f"nodes_{word}nodeids"][place]
        if not self._of[f"nodes_{word}leafs"][place]:
            return self.node(at)
        row: list[Any] = [0.0] * self._of["n_targets"]
        row[self._of["leaf_targetids"][at]] = self._of["leaf_weights"][at]
        return f"array([{row}], dtype={self._dtype})"


@form("MelWeightMatrix")
def mel_weight_matrix(n: Node) -> str:
    """Bands whose ends are whole bins; `mel_filters` of the library has triangles between frequencies."""
    bands, length, rate, low, high = (n.value(i) for i in range(5))
    mel = "2595.0 * log10(1.0 + {} / 700.0)"
    return "\n".join([
        f"    low, high = {mel.format(repr(low))}, {mel.format(repr(high))}",
        f"    at = cast(arange({bands + 2}), f32) * ((high - low) / {bands + 2}.0) + low",
        f"    ends = floor({length + 1}.0 * (700.0 * (10.0 ** (at / 2595.0) - 1.0)) / {rate}.0)",
        "    a, b, c = ends[None, :-2], ends[None, 1:-1], ends[None, 2:]",
        f"    j = cast(arange({length // 2 + 1}), f32)[:, None]",
        "    up = where((j >= a) & (j <= b), where(b > a, (j - a) / maximum(b - a, 1.0), 1.0), 0.0)",
        "    return where((j >= b) & (j < c) & (c > b), (c - j) / maximum(c - b, 1.0), up)",
    ])  # fmt: skip
