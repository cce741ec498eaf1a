"""Training steps built ahead of time, with weights and state as structs: a loop in Python has the bits of one in the
language. States without declared sizes, beside weights whose sizes are numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessera
from tesserac.commands.building import build_bundle
from tesserac.commands.inspection import inspect
from tesserac.commands.outcome import UsageMistake
from tesserac.driver.session import Session
from tests.support.paths import ROOT

EXAMPLE = ROOT / "examples" / "train_step.tess"


def build(path: Path, text: str) -> tuple[Any, str]:
    """The bundle of a program, and what building it said."""
    source, bundle = path / "program.tess", path / "program.tessb"
    source.write_text(text)
    said = build_bundle(Session(), str(source), str(bundle), "cpu", None, {}).remarks
    return tessera.load(bundle), said


def arrays(value: object) -> list[bytes]:
    if isinstance(value, tuple):
        return [part for item in value for part in arrays(item)]
    if hasattr(value, "_interface"):
        return arrays(tuple(getattr(value, name) for name, _ in value._interface.fields))
    return [] if value is None else [np.asarray(value).tobytes()]


@pytest.mark.one_in(6)
def test_a_loop_in_python_has_the_bits_of_one_in_the_language(tmp_path: Path) -> None:
    bundle, _ = build(tmp_path, EXAMPLE.read_text())
    source: Any = tessera.load(EXAMPLE)
    page = (ROOT / "docs" / "embedding.md").read_text()
    (shown,) = re.findall(r"^```python\n([^`]*train_step[^`]*)^```$", page, re.MULTILINE)
    names: dict[str, Any] = {}
    exec(shown.replace("examples/train_step.tessb", str(tmp_path / "program.tessb")), names)
    assert arrays(source.loss(names["model"], names["x"], names["y"])) == arrays(source.main())
    with pytest.raises(tessera.TesseraError, match="no initial values for `MLP`"):
        bundle.MLP(2, 16, seed=0)


STEP = """
struct Net[D]:
    w: Tensor[D, 3, f32]
    parts: (Tensor[3, f32], Tensor[D, f32])

struct Trainer[D]:
    m: Net[D]
    state: OptimizerState[Net[D]]

def step(t: Trainer[D], g: Net[D]) -> Trainer[D]:
    m, state = momentum(t.m, g, t.state, lr=0.1)
    return Trainer(m=m, state=state)
"""
START = "\ndef start(m: Net[D]) -> Trainer[D]:\n    return Trainer(m=m, state=momentum_init(m))\n"


@pytest.mark.one_in(8)
def test_without_a_function_that_returns_one_every_state_that_works_is_built(tmp_path: Path) -> None:
    bundle, said = build(tmp_path, STEP)
    source: Any = tessera.compile(STEP + START)
    net = source.Net(w=np.ones((4, 3), "f4"), parts=(np.ones(3, "f4"), np.full(4, 2.0, "f4")))
    assert said.startswith(str(tmp_path)) and "left out" not in said
    assert arrays(bundle.step(source.start(net), net)) == arrays(source.step(source.start(net), net))


def test_an_exported_function_that_is_not_built_is_told(tmp_path: Path) -> None:
    text = "@export\ndef f(x: Tensor[N, f32]): return x\n\n@export\ndef g(x, s: OptimizerState): return x\n"
    _, said = build(tmp_path, text)
    assert said.endswith("left out `g`: it waits for `x`, `s`\n")


@pytest.mark.one_in(2)
def test_inspect_shows_a_step(tmp_path: Path) -> None:
    path = tmp_path / "program.tess"
    path.write_text(STEP + START + "\ndef open(s: OptimizerState): return s.step\n")
    shown = inspect(Session(), f"{path}:step", "schedule", None).output
    assert shown.count("schedule.launch") >= 1
    with pytest.raises(UsageMistake, match="it waits for `s`"):
        inspect(Session(), f"{path}:open", "schedule", None)


LITERAL = """
struct Layer:
    w: Tensor[4, 3, f64]
    b: Tensor[3, f64]

def start(w: Tensor[4, 3, f64], rest: List[2, Layer]): return {name}_init((w, rest))

def step(w: Tensor[4, 3, f64], rest: List[2, Layer], state: {state}):
    return {name}((w, rest), (w, rest), state)

def at_once(w: Tensor[4, 3, f64], rest: List[2, Layer]):
    return {name}((w, rest), (w, rest), {name}_init((w, rest)))
"""


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", ["adam", "adafactor"])
def test_states_beside_weights_whose_sizes_are_numbers(name: str) -> None:
    state = "AdafactorState" if name == "adafactor" else "OptimizerState"
    module: Any = tessera.compile(LITERAL.format(name=name, state=state))
    rng = np.random.default_rng(0)
    layers = [module.Layer(w=rng.normal(size=(4, 3)), b=rng.normal(size=3)) for _ in range(2)]
    w = rng.normal(size=(4, 3))
    found = module.step(w, layers, module.start(w, layers))
    assert arrays(found) == arrays(module.at_once(w, layers))
