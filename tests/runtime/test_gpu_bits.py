"""Modules on a GPU whose kernels compute: the bits of the CPU, through every part of the way there.

The kernels are those that PTX is made of; they run thread by thread behind the table of a driver in the memory of the
host. What a device alone can show is in `benchmarks/gpu_host.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tessera
from tessera import TesseraError
from tessera.device_array import DeviceArray
from tests.support.fake_cuda import FakeCuda, emulated_cuda

PROGRAM = """
struct Layer[I, O]:
    w: Tensor[I, O, f32] = normal(I, O) * 0.5
    b: Tensor[O, f32] = zeros(O)

param scale: Tensor[3, f32] = normal(3)

def double(x: Tensor[N, f32]): return x + x
def weighted(x: Tensor[B, 3, f32]): return x * scale
def loss(m: Layer[I, O], x: Tensor[B, I, f32], y: Tensor[B, O, f32]): return mean((tanh(x @ m.w + m.b) - y) ** 2)

@export(donate=(m,))
def step(m: Layer[I, O], x: Tensor[B, I, f32], y: Tensor[B, O, f32]):
    g = grad(loss)(m, x, y)
    return Layer(w=m.w - 0.1 * g.w, b=m.b - 0.1 * g.b), loss(m, x, y)

@export(donate=(x,))
def turned(x: Tensor[N, N, f32]) -> Tensor[N, N, f32]: return x.T + x

def in_turn(x: Tensor[N, f32]):
    for i in range(N):
        x = x.at[i].set(x[i] * 2.0 + x[0])
    return x

def triangle(x: Tensor[N, f32]):
    s = zeros(N)
    for i in range(1, N):
        s = s + sum(x[:i]) * x
    return s

def until(x: Tensor[N, f32]):
    while sum(x) > 1.0:
        x = x * 0.5
    return x

def by_sign(x: Tensor[N, f32]):
    if sum(x) > 0.0:
        y = x + 1.0
    else:
        y = x - 1.0
    return y

def picked(x: Tensor[N, f32], i: Tensor[K, i32]): return softmax(x[i]) * sum(x)
def noisy(x: Tensor[N, f32]): return x + normal(N)
def beside(a: Tensor[M, f32], b: Tensor[N, f32]): return a * 0.5 + 1.0, b * 0.5 + 1.0
def kronecker(a: Tensor[2, 2, f32], x: Tensor[2, 5, 4, f32]): return op.kronecker(op.dense(a), op.dense(a)) @ x

def scaled(x: Tensor[3, f32], by: Tensor[3, f32] = ones(3)): return x * by
def stepped(steps: i32 = 3): return steps + 1

def checked(x: Tensor[N, f32]):
    print("the sum is", sum(x))
    assert sum(x) > 0.0, "the sum must be positive"
    return x * 2.0
"""
rng = np.random.default_rng(3)
X = rng.standard_normal(10).astype(np.float32)
SQUARE = rng.standard_normal((5, 5)).astype(np.float32)


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeCuda]:
    with emulated_cuda(tmp_path_factory.mktemp("code")) as made:
        yield made


@pytest.fixture(scope="module")
def modules(fake: FakeCuda):  # type: ignore[no-untyped-def]
    return tessera.compile(PROGRAM), tessera.compile(PROGRAM, device="cuda")


def same(left: object, right: object) -> bool:
    ours, theirs = (np.asarray(tessera.to_host(value)) for value in (left, right))
    return (ours.dtype, ours.shape, ours.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())


CALLS = {
    "double": (X,),
    "weighted": (SQUARE[:, :3].copy(),),
    "in_turn": (X,),
    "triangle": (X,),
    "until": (np.abs(X),),
    "by_sign": (X,),
    "picked": (X, np.array([3, 3, 9, 0], np.int32)),
    "kronecker": (SQUARE[:2, :2].copy(), rng.standard_normal((2, 5, 4)).astype(np.float32)),
}


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", CALLS)
def test_results_have_the_bits_of_the_cpu(modules, name: str) -> None:  # type: ignore[no-untyped-def]
    cpu, gpu = modules
    expected, placed = cpu[name](*CALLS[name]), tessera.to_device(CALLS[name])
    assert same(gpu[name](*CALLS[name]), expected)
    for _ in range(4):  # launched, recorded, replayed
        found = gpu[name](*placed)
        assert isinstance(found, DeviceArray) and same(found, expected)
    assert same(placed[0], CALLS[name][0]), "arguments stay as they are"


@pytest.mark.one_in(6)
def test_arguments_that_a_call_leaves_out(modules) -> None:  # type: ignore[no-untyped-def]
    """Also of functions whose arguments are arrays alone, which reach their code on a short way."""
    cpu, gpu = modules
    placed = tessera.to_device(X[:3].copy())
    for by in ((), (X[3:6].copy(),), ()):
        assert same(gpu.scaled(placed, *by), cpu.scaled(X[:3].copy(), *by))
    assert same(gpu.stepped(), np.int32(4)) and same(gpu.stepped(7), np.int32(8))


@pytest.mark.one_in(6)
def test_tensors_of_one_launch(modules, fake: FakeCuda) -> None:  # type: ignore[no-untyped-def]
    launched = len(fake.launched)
    cpu, gpu = (module.beside(X, SQUARE.ravel()) for module in modules)
    assert len(fake.launched) == launched + 1
    assert same(cpu[0], gpu[0]) and same(cpu[1], gpu[1])


@pytest.mark.one_in(48)
def test_training_stays_on_the_device(modules, fake: FakeCuda) -> None:  # type: ignore[no-untyped-def]
    cpu, gpu = modules
    x, y = rng.standard_normal((6, 4)).astype(np.float32), rng.standard_normal((6, 2)).astype(np.float32)
    here, there = cpu.Layer(4, 2, seed=5), gpu.Layer(4, 2, seed=5)
    assert same(here.w, there.w)
    there, data = tessera.to_device(there), tessera.to_device((x, y))
    for count in range(8):
        if count == 2:
            before, replays = tessera.device_memory(), fake.calls["cuGraphLaunch"]
        here, loss = cpu.step(here, x, y)
        there, other = gpu.step(there, *data)
    after = tessera.device_memory()
    assert (before.copied_in, before.copied_out, before.in_use) == (after.copied_in, after.copied_out, after.in_use)
    assert fake.calls["cuGraphLaunch"] > replays
    assert same(loss, other) and same(here.w, there.w) and same(here.b, there.b)


ROWS = """
def short(x: Tensor[16, 70, f32]): return sum(x * x, axis=-1)
def two(x: Tensor[2, 768, f32]): return softmax(x)
def three(x: Tensor[2, 1501, f32]): return sum(x, axis=-1) - max(x, axis=-1)
"""


@pytest.mark.one_in(12)
def test_short_rows_have_a_warp_for_each_block(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    from tesserac.target.nvptx import blocks

    monkeypatch.setattr(blocks, "ENOUGH_BLOCKS", 1)
    cpu, gpu = tessera.compile(ROWS), tessera.compile(ROWS, device="cuda")
    for name, shape in (("short", (16, 70)), ("two", (2, 768)), ("three", (2, 1501))):
        x = rng.standard_normal(shape).astype(np.float32)
        assert same(gpu[name](x), cpu[name](x)), name


@pytest.mark.one_in(3)
def test_a_donated_array_is_read_while_its_result_is_written(modules) -> None:  # type: ignore[no-untyped-def]
    cpu, gpu = modules
    placed = tessera.to_device(SQUARE)
    assert gpu.turned(placed) is placed and same(placed, cpu.turned(SQUARE.copy()))


@pytest.mark.one_in(24)
def test_random_numbers_follow_the_stream_of_the_module(modules) -> None:  # type: ignore[no-untyped-def]
    cpu, gpu = modules
    for module in modules:
        module.seed(11)
    assert same(gpu.noisy(X), cpu.noisy(X)) and same(gpu.noisy(tessera.to_device(X)), cpu.noisy(X))


@pytest.mark.one_in(12)
def test_what_a_program_says_is_what_it_says_on_the_cpu(modules, capsys) -> None:  # type: ignore[no-untyped-def]
    said = []
    for module in modules:
        with pytest.raises(TesseraError) as error:
            module.checked(-np.abs(X))
        said.append((error.value.text, capsys.readouterr().out))
        with pytest.raises(TesseraError) as error:
            module.picked(X, np.array([0, 10], np.int32))
        said[-1] += (error.value.text,)
        said[-1] += (np.asarray(module.checked(np.abs(X))).tobytes(), capsys.readouterr().out)
    assert said[0] == said[1] and "the sum is" in said[0][1]


@pytest.mark.one_in(12)
def test_training_by_a_command(modules, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    from tesserac.commands.training import Wanted, train

    path = tmp_path / "t.tess"
    path.write_text(
        "def init() -> Tensor[3, f32]: return ones(3)\n"
        "def step(w: Tensor[3, f32]): return w * 0.5 + 0.25, sum(w)\n"
        "def evaluate(w: Tensor[3, f32]): return sum(w)\n"
    )
    told: dict[str, list[str]] = {"cpu": [], "cuda": []}
    for device, lines in told.items():
        kept = str(tmp_path / f"{device}.checkpoint")
        for steps, resume in ((3, False), (6, True)):
            wanted = Wanted(str(path), steps, kept, resume, None, 100, None, None, device)
            assert train(wanted, lambda text: None, lines.append) == 0, lines
    assert (tmp_path / "cpu.checkpoint").read_bytes() == (tmp_path / "cuda.checkpoint").read_bytes()
