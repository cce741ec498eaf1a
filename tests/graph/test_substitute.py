"""Copies of operations under other sizes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tesserac.graph.substitute import copy_op
from tesserac.ir.parser import parse_module
from tesserac.ir.printer import print_op
from tesserac.types.dims import Dim

PROGRAM = """graph.func @f {entry = true, guards = [], params = ["a"]} {
  ^(%a: tensor<[min(N, M), 2*N], f32>):
    %b = graph.neg(%a) : tensor<[min(N, M), 2*N], f32>
    %c = graph.neg(%b) : tensor<[min(N, M), 2*N], f32>
    %d = graph.neg(%c) : tensor<[min(N, M), 2*N], f32>
    graph.return(%d)
}"""


def test_each_size_of_a_body_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    substitute = Dim.substitute

    def counted(size: Dim, dims: Mapping[str, Dim]) -> Dim:
        asked.append(str(size))
        return substitute(size, dims)

    [function] = parse_module(PROGRAM).ops
    with monkeypatch.context() as patch:
        patch.setattr(Dim, "substitute", counted)
        copied = print_op(copy_op(function, {}, {"N": Dim.sym("K") * 3}))
    assert copied.count("tensor<[min(3*K, M), 6*K], f32>") == 4
    assert [asked.count(size) for size in ("min(M, N)", "min(N, M)", "2*N")] in ([1, 0, 1], [0, 1, 1])
