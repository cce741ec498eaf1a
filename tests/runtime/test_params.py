"""Params of a module: set from Python, from a file, by initialisers; sizes that are one for the whole module."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessera

PROGRAM = """
struct Norm[D]:
    scale: Tensor[D, f32]

param W: Tensor["D", "3*D", f32]
param b: Tensor[D, f32] = ones(D)
param norm: Norm[D]
param rate: Tensor[f32] = cast(0.5, f32)

def project(x: Tensor[B, D, f32]) -> Tensor[B, 3*D, f32]:
    return x @ W

def shifted(x: Tensor[B, D, f32]):
    return project(x * norm.scale + b) * rate

def looped(x: Tensor[D, f32], steps: int):
    for i in range(steps):
        x = x + b * rate
    return x

def width():
    return D, float(D) * rate
"""


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("f4")


@pytest.fixture
def m() -> Any:
    return tessera.compile(PROGRAM)


@pytest.mark.one_in(4)
def test_values_set_from_python(m: Any) -> None:
    x, w, scale = normal(5, 4), normal(4, 12), normal(4)
    m.params = {"W": w, "norm": {"scale": scale}}
    assert np.allclose(m.project(x), x @ w, rtol=1e-4, atol=1e-5)
    assert np.allclose(m.shifted(x), (x * scale + 1) @ w * 0.5, rtol=1e-4, atol=1e-5)
    m.params = {"W": w, "norm": {"scale": scale}, "b": np.zeros(4, "f4"), "rate": 2.0}
    assert np.allclose(m.shifted(x), x * scale @ w * 2, rtol=1e-4, atol=1e-5)
    assert np.array_equal(m.looped(normal(4), 3), normal(4))
    assert m.width() == (4, 8.0)
    assert set(m.params) == {"W", "b", "norm", "rate"}


def test_sizes_are_those_of_the_module(m: Any) -> None:
    m.params = {"W": normal(4, 12)}
    with pytest.raises(tessera.TesseraError) as caught:
        m.project(normal(5, 3))
    assert caught.value.code == "E0924"


@pytest.mark.parametrize(
    ("code", "values"),
    [
        ("E0922", {"W": np.ones((4, 12))}),
        ("E0923", {"W": normal(4)}),
        ("E0921", {"W": [1.0]}),
        ("E0924", {"W": normal(4, 11)}),
        ("E0924", {"W": normal(4, 12), "b": normal(5)}),
        ("E0923", {"rate": normal(1)}),
    ],
)
def test_what_never_fits_is_said_when_it_is_set(m: Any, code: str, values: Any) -> None:
    m.params = {"W": normal(4, 12)}
    with pytest.raises(tessera.TesseraError, match="the param `") as caught:
        m.params = values
    assert caught.value.code == code
    assert m.params["W"].shape == (4, 12)


@pytest.mark.parametrize(
    ("code", "values"),
    [("E0928", {}), ("E0920", {"V": 1}), ("E0920", 3), ("E0922", {"W": np.ones((4, 12))}), ("E0921", {"W": [1.0]})],
)
def test_misuse_is_said(m: Any, code: str, values: Any) -> None:
    with pytest.raises(tessera.TesseraError) as caught:
        m.params = values
        m.project(normal(5, 4))
    assert caught.value.code == code
    assert code != "E0928" or "`W`" in str(caught.value)


def write_safetensors(path: Path, tensors: dict[str, np.ndarray], damage: int = 0) -> None:
    header, at = {}, 0
    for name, tensor in tensors.items():
        dtype = {"float32": "F32", "int8": "I8"}[tensor.dtype.name]
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    text = json.dumps({"__metadata__": {"format": "np"}, **header}).encode()
    data = len(text).to_bytes(8, "little") + text + b"".join(t.tobytes() for t in tensors.values())
    path.write_bytes(data[: len(data) - damage])


@pytest.mark.one_in(2)
def test_values_from_a_file(m: Any, tmp_path: Path) -> None:
    x, w, scale = normal(5, 4), normal(4, 12), normal(4)
    write_safetensors(tmp_path / "w.safetensors", {"W": w, "norm.scale": scale})
    m.load(tmp_path / "w.safetensors")
    assert np.allclose(m.shifted(x), (x * scale + 1) @ w * 0.5, rtol=1e-4, atol=1e-5)


OF_LAYERS = """
struct Layer[D]:
    w: Tensor[D, D, f32]
    b: Tensor[D, f32]
struct Head[D]:
    ends: List[2, Tensor[D, f32]]

param layers: List[2, Layer[D]]
param head: Head[D]
param scales: (Tensor[D, f32], float)

def f(x: Tensor[B, D, f32]) -> Tensor[B, D, f32]:
    for layer in layers:
        x = x @ layer.w + layer.b
    return x * head.ends[1] + head.ends[0] * scales[0] * scales[1]
"""


def test_params_that_are_lists(tmp_path: Path) -> None:
    """Set, and read from a file that names items by numbers."""
    m, x = tessera.compile(OF_LAYERS), normal(5, 4)
    w, b, s = [normal(4, 4), normal(4, 4)], [normal(4), normal(4)], [normal(4), normal(4), normal(4)]
    layers = [{"w": w[i], "b": b[i]} for i in range(2)]
    m.params = {"layers": layers, "head": {"ends": s[:2]}, "scales": (s[2], 0.5)}
    expected = ((x @ w[0] + b[0]) @ w[1] + b[1]) * s[1] + s[0] * s[2] * 0.5
    assert np.allclose(m.f(x), expected, rtol=1e-4, atol=1e-5)
    arrays = {f"layers.{i}.{k}": v for i, one in enumerate(layers) for k, v in one.items()}
    arrays |= {"head.ends.0": s[0], "head.ends.1": s[1], "scales.0": s[2], "scales.1": np.full((), 0.5, np.float32)}
    write_safetensors(tmp_path / "w.safetensors", arrays)
    m.load(tmp_path / "w.safetensors")
    assert np.allclose(m.f(x), expected, rtol=1e-4, atol=1e-5)
    for wrong, told in ({"layers.0.w": w[0], "layers.2.w": w[1]}, "no `layers.1`"), ({"a": s[0], "a.b": s[0]}, "`a.b`"):
        write_safetensors(tmp_path / "wrong.safetensors", wrong)
        with pytest.raises(tessera.TesseraError, match=told):
            m.load(tmp_path / "wrong.safetensors")


@pytest.mark.parametrize("damage", [1, 150, 400, 100000])
def test_a_damaged_file_is_refused(m: Any, tmp_path: Path, damage: int) -> None:
    write_safetensors(tmp_path / "w.safetensors", {"W": normal(4, 12)}, damage)
    with pytest.raises(tessera.TesseraError) as caught:
        m.load(tmp_path / "w.safetensors")
    assert caught.value.code == "E0929"


@pytest.mark.one_in(3)
def test_params_of_a_bundle(tmp_path: Path) -> None:
    from tesserac import cli

    (tmp_path / "m.tess").write_text(PROGRAM)
    assert cli.main(cli.compiler, "tesserac", ["build", str(tmp_path / "m.tess"), "-o", str(tmp_path / "m.tessb")]) == 0
    m = tessera.load(tmp_path / "m.tessb")
    m.params = {"W": normal(4, 12)}
    assert np.allclose(m.project(normal(5, 4)), normal(5, 4) @ normal(4, 12), rtol=1e-4, atol=1e-5)


TOWER = """
struct Block[D]:
    w: Tensor[D, D, f32] = normal(D, D)

struct Tower[N, D]:
    blocks: List[N, Block[D]]
    b: Tensor[D, f32] = zeros(D)

param net: Tower[{sizes}]{init}

def f(x: Tensor[B, 3, f32]) -> Tensor[B, 3, f32]:
    for block in net.blocks:
        x = x @ block.w
    return x + net.b
"""


@pytest.mark.one_in(6)
@pytest.mark.parametrize("sizes", ["2, 3", '2, "D"'])
def test_a_struct_with_a_list_is_a_param(sizes: str) -> None:
    m = tessera.compile(TOWER.format(sizes=sizes, init="").replace("[B, 3,", "[B, D," if "D" in sizes else "[B, 3,"))
    doubled = {"w": np.eye(3, dtype="f4") * 2}
    m.params = {"net": {"blocks": [doubled, doubled], "b": np.ones(3, "f4")}}
    assert m.f(np.ones((2, 3), "f4")).tolist() == [[5, 5, 5]] * 2
    m.params = {"net": {"blocks": [doubled] * 3, "b": np.ones(3, "f4")}}
    with pytest.raises(tessera.TesseraError, match="must have 2 items, not 3"):
        m.f(np.ones((2, 3), "f4"))


@pytest.mark.one_in(2)
def test_a_struct_with_a_list_has_an_initialiser() -> None:
    m = tessera.compile(TOWER.format(sizes="2, 3", init=" = Tower[2, 3](seed=0)"))
    assert np.isfinite(m.f(np.ones((2, 3), "f4"))).all()


def test_how_long_a_list_of_params_is_has_to_be_said() -> None:
    with pytest.raises(tessera.TesseraError, match="the number of items of a list, `L`") as error:
        tessera.compile(TOWER.format(sizes='"L", "D"', init=""))
    assert str(error.value).count("error[") == 1


@pytest.mark.parametrize(
    ("begin", "advice"),
    [(b"\x93NUMPY\x01", "numpy.load"), (b"PK\x03\x04", "save_file"), (b"\x80\x02", "save_file"), (b"\x89HDF", "file[")],
)
def test_weights_in_another_kind_of_file(tmp_path: Path, begin: bytes, advice: str) -> None:
    path = tmp_path / "weights"
    path.write_bytes(begin + b"\xff" * 60)
    with pytest.raises(tessera.TesseraError, match="E0929") as caught:
        tessera.compile("param w: Tensor[4, f32]\n\ndef f() -> Tensor[4, f32]:\n    return w\n").load(str(path))
    assert advice in str(caught.value)


OF_PARAMS = """
struct Grid[M, N]:
    a: Tensor[M, M, f32]
    d: Tensor[N, f32] = ones(N)

    def operator(self): return op.kronecker(op.dense(self.a), op.diag(self.d))

param W: Tensor[8, f32] = ones(8)
param grid: Grid[2, 4]

def scaled(): return 2.0 * op.diag(W)
def f(x: Tensor[8, f32]): return op.diag(W) @ x, scaled() @ x, grid.operator() @ x
"""


@pytest.mark.one_in(6)
def test_operators_are_made_of_params() -> None:
    """What the error of a param that is an operator says to write."""
    m, x, a, d = tessera.compile(OF_PARAMS), normal(8), normal(2, 2), normal(4)
    m.params = {"grid": {"a": a, "d": d}}
    assert all(map(np.allclose, m.f(x), (x, 2 * x, np.kron(a, np.diag(d)) @ x)))
    m.params = {"W": d.repeat(2), "grid": {"a": a, "d": d}}
    assert all(map(np.allclose, m.f(x)[:2], (d.repeat(2) * x, 2 * d.repeat(2) * x)))
