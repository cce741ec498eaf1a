"""Nodes of ONNX as calls of the library: what `python -m tests.tools.onnx` runs on all its cases, on a few of ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tools.onnx.__main__ import ROOMS, report, tried
from tests.tools.onnx.node import FORMS, Node

X = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)


def node(op: str, inputs: tuple[Any, ...], result: Any, **attributes: Any) -> Node:
    return Node(f"test_{op.lower()}", op, inputs, attributes, ("y",), (result,))


POOLED = X[:, :, :2, :2].copy()
POOLED[...] = X[:, :, 1:3, 1:3]
CASES = [
    node("Pad", (X[0, 0], np.array([0, 1, 0, 1])), np.pad(X[0, 0], ((0, 0), (1, 1)), mode="reflect"), mode=b"reflect"),
    node("Slice", (X, np.array([-1]), np.array([-9]), np.array([3]), np.array([-2])), X[..., ::-2]),
    node("ReduceL2", (X, np.array([1, 3])), np.sqrt((X * X).sum((1, 3), keepdims=True))),
    node("MaxPool", (X[..., :3],), POOLED, kernel_shape=[2, 2]),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_a_node_has_the_result_it_ships(case: Node) -> None:
    assert tried(case, 1e-5, 1e-6) == ("equal", "")


def test_another_result_is_told() -> None:
    case = node("Neg", (X,), X)
    kind, why = tried(case, 1e-5, 1e-6)
    assert (kind, why) == ("different", "differs by 4.6e+01")
    assert "| Neg | 1 | 0 | **neg**: differs by 4.6e+01 |" in report({"Neg": [(case.name, kind, why)]})


def test_what_the_language_lacks_has_a_reason() -> None:
    assert tried(node("ImageDecoder", (X,), X), 0.0, 0.0) == ("not in the language", "files of images")
    assert tried(node("Frobnicate", (X,), X), 0.0, 0.0) == ("not in the language", "no form of Frobnicate is written")
    assert len(ROOMS) == 6 and len(FORMS) > 180
