"""Results that the caller owns, and models that no longer change."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessera
from tesserac.commands.building import build_bundle
from tesserac.driver.session import Session

PROGRAM = """
struct Linear[D, H]:
    w: Tensor[D, H, f32] = full((D, H), 0.25)
    b: Tensor[H, f32] = ones(H)

    def apply(self, x: Tensor[B, D, f32]) -> Tensor[B, H, f32]:
        return x @ self.w + self.b

struct Pair[D]:
    first: Linear[D, D]
    second: Linear[D, D]

def double(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return x + x

def both(x: Tensor[N, f32]) -> (Tensor[N, f32], Tensor[f32]):
    return x + 1.0, sum(x)

def power(x: Tensor[N, f32], n: int) -> Tensor[N, f32]:
    return x ** n

def forward(m: Linear[D, H], x: Tensor[B, D, f32]) -> Tensor[B, H, f32]:
    return m(x)

def step(m: Linear[D, H], g: Linear[D, H]) -> (Linear[D, H], Tensor[f32]):
    return m - g, sum(m.b)

def chain(m: Pair[D], x: Tensor[B, D, f32]) -> Tensor[B, D, f32]:
    return m.second(m.first(x))

def named(out: Tensor[N, f32]) -> Tensor[N, f32]:
    return out * 3.0
"""


@pytest.fixture(scope="module")
def m() -> Any:
    return tessera.compile(PROGRAM)


def f4(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


# --- out= ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 5, 1000])
def test_a_result_is_written_where_the_caller_says(m: Any, size: int) -> None:
    x, y = f4(size), np.full(size, 7, np.float32)
    assert m.double(x, out=y) is y
    np.testing.assert_array_equal(y, x + x)
    assert m.power(x, 2, out=y) is y
    np.testing.assert_array_equal(y, x * x)


def test_strided_input_and_keywords_with_out(m: Any) -> None:
    x, y = f4(20)[::2], np.empty(10, np.float32)
    m.double(x=x, out=y)
    np.testing.assert_array_equal(y, x + x)


def test_several_results(m: Any) -> None:
    x = f4(5)
    out = (np.empty(5, np.float32), np.empty((), np.float32))
    assert m.both(x, out=out) is out
    plain = m.both(x)
    np.testing.assert_array_equal(out[0], plain[0])
    assert out[1] == plain[1]


def test_structs_as_results(m: Any) -> None:
    model, change = m.Linear(3, 4), m.Linear(3, 4)
    target = m.Linear(w=np.empty((3, 4), np.float32), b=np.empty(4, np.float32))
    m.step(model, change, out=(target, np.empty((), np.float32)))
    assert not target.w.any() and not target.b.any()
    given = {"w": np.ones((3, 4), np.float32), "b": np.ones(4, np.float32)}
    m.step(model, change, out=(given, np.empty((), np.float32)))
    assert not given["w"].any()


def test_a_parameter_called_out_has_the_name_for_itself(m: Any) -> None:
    x = f4(5)
    np.testing.assert_array_equal(m.named(out=x), x * np.float32(3))


X = f4(6)
LOCKED = np.empty(6, np.float32)
LOCKED.setflags(write=False)


@pytest.mark.parametrize(
    ("code", "text", "call"),
    [
        ("E0921", "is a list, not a NumPy array", lambda m: m.double(X, out=[1.0])),
        ("E0922", "has dtype float64", lambda m: m.double(X, out=np.empty(6))),
        ("E0924", r"has shape \(5,\), but the result has \(6,\)", lambda m: m.double(X, out=np.empty(5, "f4"))),
        ("E0921", "contiguous", lambda m: m.double(X, out=np.empty(12, "f4")[::2])),
        ("E0921", "writable", lambda m: m.double(X, out=LOCKED)),
        ("E0920", "overlaps argument `x`", lambda m: m.double(X, out=X)),
        ("E0921", "must be a tuple of 2", lambda m: m.both(X, out=X.copy())),
        ("E0920", "overlaps another part", lambda m: m.step(m.Linear(1, 1), m.Linear(1, 1), out=shared())),
        ("E0921", "it has no `b`", lambda m: m.step(m.Linear(1, 1), m.Linear(1, 1), out=({"w": X}, X))),
    ],
)
def test_wrong_outputs(m: Any, code: str, text: str, call: Callable[[Any], object]) -> None:
    with pytest.raises(tessera.TesseraError, match=text) as caught:
        call(m)
    assert caught.value.code == code


def shared() -> Any:
    array = np.empty(1, np.float32)
    return {"w": array.reshape(1, 1), "b": array}, np.empty((), np.float32)


# --- freeze ----------------------------------------------------------------------------------------------------------


@pytest.mark.one_in(4)
def test_a_frozen_struct_is_accepted_where_the_struct_is(m: Any) -> None:
    model, x = m.Linear(3, 4), f4(2, 3)
    model.w = np.asfortranarray(f4(3, 4))
    frozen = tessera.freeze(model)
    np.testing.assert_array_equal(m.forward(frozen, x), m.forward(model, x))
    np.testing.assert_array_equal(frozen(x), model(x))
    assert isinstance(frozen, m.Linear) and frozen.w.flags.c_contiguous and not frozen.w.flags.writeable
    assert repr(frozen).startswith("freeze(Linear(")
    assert tessera.freeze(frozen) is frozen


def test_a_frozen_struct_keeps_its_values(m: Any) -> None:
    model = m.Linear(3, 4)
    frozen = tessera.freeze(model)
    model.w[:] = 9.0
    assert (frozen.w == 0.25).all()
    with pytest.raises(tessera.TesseraError, match="E0934"):
        frozen.w = model.w
    with pytest.raises(tessera.TesseraError, match="E0934"):
        del frozen.w
    with pytest.raises(ValueError):
        frozen.w[0, 0] = 1.0


@pytest.mark.one_in(2)
def test_structs_within_structs_and_params(m: Any) -> None:
    x = f4(2, 3)
    pair = tessera.freeze(m.Pair(3))
    np.testing.assert_array_equal(m.chain(pair, x), m.chain(m.Pair(3), x))
    with pytest.raises(tessera.TesseraError, match="E0934"):
        pair.first.w = x
    w = tessera.compile("param W: Tensor[D, f32]\ndef scale(x: Tensor[D, f32]): return x * W")
    w.params = tessera.freeze({"W": np.full(3, 2.0, np.float32)})
    np.testing.assert_array_equal(w.scale(x[0]), x[0] * 2)


def test_what_cannot_be_frozen() -> None:
    with pytest.raises(tessera.TesseraError, match="not an object"):
        tessera.freeze(object())


def test_threads_share_a_frozen_model(m: Any) -> None:
    frozen = tessera.freeze(m.Pair(16))
    inputs = [f4(8, 16) + i for i in range(8)]
    expected = [m.chain(frozen, x) for x in inputs]
    found: list[Any] = [None] * len(inputs)

    def work(i: int) -> None:
        for _ in range(50):
            found[i] = m.chain(frozen, inputs[i], out=np.empty((8, 16), np.float32))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got, want)


DEFAULTS = """
ROW = cast(arange(3), f32)

@export
def shifted(x: Tensor[M, 3, f32], by: Tensor[3, f32] = ROW * 2.0, *, keep: Tensor[f32] = 1.0) -> Tensor[M, 3, f32]:
    return x * keep + by

@export
def scaled(x: Tensor[N, f32], by: float) -> Tensor[N, f32]:
    return x * by
"""


@pytest.mark.one_in(2)
def test_a_default_may_be_a_tensor(tmp_path: Path) -> None:
    (tmp_path / "m.tess").write_text(DEFAULTS)
    bundle = build_bundle(Session(), str(tmp_path / "m.tess"), None, "cpu", None, {})
    assert "shifted" in bundle.remarks
    x, row = np.ones((2, 3), "f4"), np.arange(3, dtype="f4")
    for m in (tessera.compile(DEFAULTS), tessera.load(tmp_path / "m.tessb")):
        np.testing.assert_array_equal(m.shifted(x), x + 2 * row)
        np.testing.assert_array_equal(m.shifted(x, keep=2.0), 2 * x + 2 * row)
        np.testing.assert_array_equal(m.shifted(x, row), x + row)
        with pytest.raises(tessera.TesseraError, match="E0923"):
            m.shifted(x, x)


@pytest.mark.parametrize("number", [2, 2.0, np.float32(2), np.float64(2), np.float16(2), np.int64(2), np.array(2.0)])
def test_a_float_takes_any_number(number: object) -> None:
    np.testing.assert_array_equal(tessera.compile(DEFAULTS).scaled(np.ones(3, "f4"), number), np.full(3, 2, "f4"))


@pytest.mark.parametrize("value", ["2", None, np.bool_(True), np.ones(1, "f4"), 2j])
def test_a_float_takes_nothing_else(value: object) -> None:
    with pytest.raises(tessera.TesseraError, match=r"E092[123].*`by`"):
        tessera.compile(DEFAULTS).scaled(np.ones(3, "f4"), value)
