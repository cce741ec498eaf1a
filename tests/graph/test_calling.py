"""Functions that are called and not written out: no bit changes, whatever is done with them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

import tessera
from tesserac.graph import calling
from tesserac.graph.build import build_module
from tesserac.graph.interp import run_function
from tesserac.ir.calls import INVOKE
from tesserac.ir.core import Module
from tesserac.ir.passes import run_passes
from tesserac.pipeline import CALL_PASSES, GRAPH_PASSES
from tests.support.checking import library
from tests.support.cpu_kernels import same_bits
from tests.support.source_support import check_text, compile_to_forms, normal

ROW = "(x: Tensor[N, f32]) -> Tensor[N, f32]:"
PROGRAM = f"""
def twice(x: Tensor[K, f32]) -> Tensor[K, f32]:
    return cumsum(sin(x)) / float(K) + x

def inner{ROW}
    return twice(twice(x)) - 0.5

def mixed(x: Tensor[N, f32], n: Tensor[i32]) -> (Tensor[N, f32], Tensor[i32]):
    return x * 2.0, n + cast(1, i32)

def turned(z: Tensor[N, c64]) -> Tensor[N, c64]:
    return z * complex(0.5, 1.0) + conj(z)

def layer(x: Tensor[B, D, f32], w: Tensor[D, D, f32]) -> Tensor[B, D, f32]:
    return softmax(layernorm(x) @ w) + x

def first{ROW}
    x[0] = sum(x)
    return x

def noisy{ROW}
    return x + normal(N, seed=3)

def scaled(x: Tensor[N, f32], w: Tensor[N, f32]) -> Tensor[N, f32]:
    return tanh(x * w) + sum(x)

def nested{ROW}
    return inner(inner(x)) + twice(x)

def sizes(x: Tensor[N, f32]) -> Tensor[2*N, f32]:
    return twice(concat([twice(x), twice(x[::-1])], axis=0))

def loops{ROW}
    for i in range(1, N):
        x[:i] = twice(x[:i]) + twice(x[N-i:])
    while sum(x * x) > 1.0:
        x = 0.25 * twice(x)
    return x

def branches{ROW}
    if sum(x) > 0.0:
        y = twice(x)
    else:
        y = twice(-x)
    return twice(y)

def several(x: Tensor[N, f32]) -> (Tensor[N, f32], Tensor[i32]):
    y, n = mixed(x, cast(0, i32))
    return mixed(y, n)

def complexes(z: Tensor[N, c64]) -> Tensor[N, c64]:
    return turned(turned(z)) * turned(z)

def layers(x: Tensor[B, D, f32], w: Tensor[D, D, f32]) -> Tensor[B, D, f32]:
    return layer(layer(layer(x, w), w.T), w)

def updates{ROW}
    y = first(x)
    y[1] = 3.0
    z = first(y)
    z[2] = y[1] + z[0]
    return z + x

def draws{ROW}
    return noisy(noisy(x))

def gradient(x: Tensor[N, f32], w: Tensor[N, f32]):
    by_w = grad(lambda b: sum(scaled(scaled(x, b), x)))(w)
    return grad(lambda a, b: sum(scaled(scaled(a, b), b) * b))(x, w), by_w

def gradient_of_loop(x: Tensor[N, f32], w: Tensor[N, f32]):
    def loss(w: Tensor[N, f32]) -> Tensor[f32]:
        y = x
        for i in range(4):
            y = scaled(scaled(y, w), w)
        return sum(y)
    return grad(loss)(w)

def forward(x: Tensor[N, f32], w: Tensor[N, f32]):
    return jvp(grad(lambda v: sum(scaled(scaled(v, w), v))), (x,), (w,))

def mapped(x: Tensor[B, N, f32], w: Tensor[N, f32]):
    back = grad(lambda w: sum(vmap(lambda v: scaled(scaled(v, w), w))(x)))(w)
    return vmap(grad(lambda v: sum(scaled(scaled(v, w), w))))(x), back
"""
X, W = normal(1, 7), normal(2, 7)
CALLS: dict[str, tuple[np.ndarray, ...]] = {
    **{name: (X,) for name in ("nested", "sizes", "loops", "branches", "several", "updates", "draws")},
    **{name: (X, W) for name in ("gradient", "gradient_of_loop", "forward")},
    "complexes": ((X + 1j * W).astype(np.complex64),),
    "layers": (normal(3, 5, 8), normal(4, 8, 8)),
    "mapped": (normal(5, 3, 7), W),
}


@pytest.fixture(autouse=True)
def everything_is_called(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, number in (("LARGE", 0), ("SMALL", 1), ("COPIES", 2)):
        monkeypatch.setattr(calling, name, number)
    yield


def with_calls(text: str, name: str) -> Module:
    checked = check_text(text, "m", library())
    graph = build_module(list(checked.functions.values()), {f"m.{name}"})
    return run_passes(graph, [*CALL_PASSES, *GRAPH_PASSES], verify=True)


@cache
def compiled() -> tessera.Module:
    return tessera.compile(PROGRAM)


def flat(value: object) -> list[np.ndarray]:
    return [leaf for one in value for leaf in flat(one)] if isinstance(value, tuple) else [np.asarray(value)]


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", CALLS)
def test_bits_are_those_of_what_is_written_out(name: str) -> None:
    expected = run_function(compile_to_forms(PROGRAM), f"m.{name}", CALLS[name])
    module = with_calls(PROGRAM, name)
    assert any(op.name == INVOKE for op in module.walk())
    for found in (run_function(module, f"m.{name}", CALLS[name]), flat(getattr(compiled(), name)(*CALLS[name]))):
        for one, other in zip(found, expected, strict=True):
            same_bits(np.asarray(one), other)


TOLD = f"""
def small{ROW}
    assert sum(x) < 10.0, "small"
    print(f"{{sum(x):.1f}}")
    return x * 2.0

def told{ROW}
    y = small(x)
    print("between")
    return small(small(y))

def taken(x: Tensor[N, f32], i: Tensor[K, i32]) -> Tensor[K, f32]:
    return x[i] * 2.0

def takes(x: Tensor[N, f32], i: Tensor[K, i32]) -> Tensor[K, f32]:
    return taken(x, i) + taken(x, i + cast(1, i32))

def halves{ROW}
    return reshape(reshape(x, (N / 2, 2)) * 2.0, (N,))

def halved{ROW}
    return halves(halves(x))

def large{ROW}
    return x + sum(sort(outer(x, x)), axis=0)

def largest{ROW}
    return large(large(x))

def double{ROW}
    return x * 2.0 + sum(x)

@export(donate=(x,))
def given(x: Tensor[N, f32], y: Tensor[N, f32]) -> Tensor[N, f32]:
    return double(x) + double(y) * x
"""


@pytest.mark.one_in(3)
def test_effects_and_failures_of_what_is_called(capfd: pytest.CaptureFixture[str]) -> None:
    module = tessera.compile(TOLD)
    module.told(np.full(3, 0.5, "f4"))
    assert capfd.readouterr().out == "1.5\nbetween\n3.0\n6.0\n"
    with pytest.raises(tessera.TesseraError, match="small"):
        module.told(np.full(3, 1.5, "f4"))
    assert capfd.readouterr().out == "4.5\nbetween\n9.0\n"
    with pytest.raises(tessera.TesseraError, match="index 5 is out of range for a dim of size 5") as bad:
        module.takes(X[:5], np.array([0, 4], "i4"))
    assert bad.value.code == "E0927"
    with pytest.raises(tessera.TesseraError, match="N % 2 == 0"):
        module.halved(X)
    with pytest.raises(tessera.TesseraError) as large:
        module.largest(np.zeros(2**22, "f4"))
    assert large.value.code.startswith("E09")


def test_an_argument_that_is_given_away_is_read_first() -> None:
    x, y = X.copy(), W.copy()
    double = lambda v: v * np.float32(2) + np.sum(v, dtype=np.float32)  # noqa: E731
    np.testing.assert_allclose(tessera.compile(TOLD).given(x, y), double(X) + double(W) * X, rtol=1e-5)


@pytest.mark.one_in(24)
def test_small_programs_call_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert not any(op.name == INVOKE for name in CALLS for op in with_calls(PROGRAM, name).walk())
