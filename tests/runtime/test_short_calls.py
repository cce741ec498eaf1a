"""The short ways into compiled code: numbers and structs give the bits, and the errors, of the long way."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessera
from tessera import TesseraError
from tessera.dispatch import Function

PROGRAM = """
struct Layer[D, H]:
    w: Tensor[D, H, f32]
    rate: f32

struct Model[D, H]:
    first: Layer[D, H]
    b: Tensor[D, f32]

struct Other[D, H]:
    w: Tensor[D, H, f32]
    rate: f32

def f32_(x: f32) -> f32:
    return x

def f64_(x: f64) -> f64:
    return x

def i32_(x: i32) -> i32:
    return x

def i64_(x: i64) -> i64:
    return x

def float_(x: Tensor[N, f64], s: float) -> Tensor[N, f64]:
    return x * s

def layer(p: Layer[D, H], x: Tensor[D, f32]) -> Tensor[H, f32]:
    return (x @ p.w) * p.rate

def model(m: Model[D, H], x: Tensor[D, f32]) -> Tensor[H, f32]:
    return ((x + m.b) @ m.first.w) * m.first.rate

def next(m: Model[D, H], by: float) -> Model[D, H]:
    return Model[D, H](first=Layer[D, H](w=m.first.w * by, rate=m.first.rate), b=m.b)
"""


@cache
def module() -> tessera.Module:
    return tessera.compile(PROGRAM)


def long_way(name: str) -> Callable[..., object]:
    """A function that always goes through Python."""
    function = module()._home.function(name)
    assert isinstance(function, Function)
    return function._dispatch


def outcome(call: Callable[[], object]) -> object:
    """What a call gives, to the bit, or the text of its error."""
    try:
        result = call()
    except TesseraError as error:
        return str(error)
    assert isinstance(result, np.ndarray | np.generic)
    return result.dtype.name, result.shape, result.tobytes()


numbers = (
    st.integers(-(2**70), 2**70)
    | st.floats()
    | st.booleans()
    | st.sampled_from([2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, 2**63, -1, -1.0, 1e39, 10**400])
    | st.sampled_from([None, "1", 1j, math.nan, math.inf])
    | st.floats(width=32).map(np.float32)
    | st.floats().map(np.float64)
    | st.integers(-(2**31), 2**31 - 1).map(np.int32)
    | st.integers(-(2**63), 2**63 - 1).map(np.int64)
    | st.sampled_from([np.float16(1.5), np.int8(3), np.bool_(True), np.array(2.0), np.array(2, np.int32), np.ones(1)])
)


@given(numbers)
def test_a_number_is_taken_as_the_long_way_takes_it(value: object) -> None:
    for name in ("f32_", "f64_", "i32_", "i64_"):
        function, slow = getattr(module(), name), long_way(name)
        for _ in range(2):
            assert outcome(lambda f=function: f(value)) == outcome(lambda f=slow: f(value)), name


@given(st.integers(-(2**70), 2**70))
def test_an_int_is_rounded_to_a_float_as_numpy_rounds_it(value: int) -> None:
    assert module().f32_(value).tobytes() == np.array(value, np.float32).tobytes()
    assert module().f64_(value) == float(value)


@given(numbers)
def test_a_float_parameter(value: object) -> None:
    x = np.array([1.0, 3.0])
    assert outcome(lambda: module().float_(x, value)) == outcome(lambda: long_way("float_")(x, value))


def given_struct(rate: object = np.float32(2.0), w: object = None, b: object = None) -> object:
    m = module()
    layer = m.Layer(w=np.arange(6, dtype=np.float32).reshape(2, 3) if w is None else w, rate=rate)
    return m.Model(first=layer, b=np.ones(2, np.float32) if b is None else b)


X = np.array([1.0, -2.0], np.float32)
MODELS: dict[str, Callable[[], object]] = {
    "usual": given_struct,
    "frozen": lambda: tessera.freeze(given_struct()),
    "a number": lambda: given_struct(rate=0.5),
    "an int": lambda: given_struct(rate=3),
    "a dict": lambda: {"first": {"w": np.ones((2, 3), np.float32), "rate": 1.0}, "b": np.ones(2, np.float32)},
    "a dict inside": lambda: module().Model(first={"w": np.ones((2, 3), np.float32), "rate": 1.0}, b=X),
    "another struct": lambda: module().Other(w=np.ones((2, 3), np.float32), rate=1.0),
    "another struct inside": lambda: module().Model(first=module().Other(w=np.ones((2, 3), np.float32), rate=1.0), b=X),
    "a wrong dtype": lambda: given_struct(w=np.ones((2, 3))),
    "a wrong size": lambda: given_struct(b=np.ones(3, np.float32)),
    "a wrong rank": lambda: given_struct(b=np.ones((2, 1), np.float32)),
    "strided": lambda: given_struct(w=np.ones((2, 6), np.float32)[:, ::2]),
    "a masked array": lambda: given_struct(b=np.ma.array(X, mask=[0, 1])),
    "text": lambda: given_struct(rate="2"),
    "None": lambda: None,
    "an array": lambda: X,
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_structs_are_taken_as_the_long_way_takes_them(make: Callable[[], object]) -> None:
    value = make()
    for _ in range(2):
        assert outcome(lambda: module().model(value, X)) == outcome(lambda: long_way("model")(value, X))
    assert outcome(lambda: module().model(value)) == outcome(lambda: long_way("model")(value))
    assert outcome(lambda: module().model(x=X, m=value)) == outcome(lambda: long_way("model")(x=X, m=value))


def test_a_field_that_was_deleted_is_told() -> None:
    value = given_struct()
    module().model(value, X)
    del value.b  # type: ignore[attr-defined]
    assert outcome(lambda: module().model(value, X)) == outcome(lambda: long_way("model")(value, X))


def test_structs_come_back() -> None:
    value = module().next(given_struct(), 0.5)
    again = module().next(value, 2.0)
    assert again.first.w.tolist() == given_struct().first.w.tolist()  # type: ignore[attr-defined]
    assert math.isclose(float(again.first.rate), 2.0)
