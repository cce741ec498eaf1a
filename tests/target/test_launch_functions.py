"""Host programs with many launches: those that are alike call one function, apart from the code of kernels."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tessera
from tesserac.target import parallel
from tesserac.target.compile import Machine
from tesserac.target.parallel import Effort, emit_apart
from tests.support.caches import new_cache
from tests.support.cpu_kernels import same_bits


def layers(count: int) -> str:
    body = "".join("    x = tanh(x @ w)\n    x = cumsum(x, axis=1)\n" for _ in range(count))
    return f"def f(x: Tensor[B, N, f32], w: Tensor[N, N, f32]) -> Tensor[B, N, f32]:\n{body}    return x\n"


@pytest.mark.one_in(8)
def test_many_launches_are_calls_of_a_few_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_CACHE_DIR", new_cache(tmp_path / "cache"))  # nothing is compiled already
    made: list[tuple[str, int]] = []

    def seen(text: str, machine: Machine, effort: Effort) -> bytes:
        made.append((text, machine.level))
        return emit_apart(text, machine, effort)

    monkeypatch.setattr(parallel, "emit_apart", seen)
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=(5, 24)).astype("f4"), rng.normal(size=(24, 24)).astype("f4")
    one, some, many = (tessera.compile(layers(count)).f for count in (1, 6, 12))
    value = x
    for _ in range(12):
        value = one(value, w)
    same_bits(some(some(x, w), w), value)
    same_bits(many(x, w), value)
    hosts = [(text, level) for text, level in made if re.search(r"define [^\n]*@tessera\.host\(", text)]
    assert ["tessera.launch." in text for text, _ in hosts] == [False, True, True]
    assert all(level == 0 and "define void @main" not in text for text, level in hosts[1:])
    functions = [len(re.findall(r"define internal void @tessera\.launch\.", text)) for text, _ in hosts[1:]]
    assert 0 < functions[0] == functions[1] < 10
