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

struct Tower[N, D]:
    layers: List[N, Layer[D, D]]
    scale: float

param W: Tensor[2, f32] = ones(2)
param START: Layer[2, 2] = Layer[2, 2](w=ones(2, 2), rate=2.0)

def tower(t: Tower[N, D], x: Tensor[D, f32]) -> Tensor[D, f32]:
    for layer in t.layers:
        x = (x @ layer.w) * layer.rate
    return x * t.scale

def options(x: Tensor[D, f32], k: int = 2, b: Tensor[D, f32] | None = None, *, double: bool = False, how: str = "add"):
    y = x * float(k) if b is None else x * float(k) + b
    if how == "negate":
        y = -y
    return y + y if double else y

def untyped(x, y):
    return x + y

def pairs(p: (Tensor[D, f32], Tensor[D, f32]), s: Tensor) -> Tensor:
    return (p[0] - p[1]) * s

def weighted(x: Tensor[2, f32], by: float = 1.0) -> Tensor[2, f32]:
    return ((x * W) @ START.w) * by

def spectrum(x: Tensor[N, f32]) -> Tensor[N // 2 + 1, c64]:
    return rfft(x)

def both(x: Tensor[M, N, f32], s: f32) -> (Tensor[M, N, f32], Tensor[N, f32]):
    return x * s, sum(x, axis=0)

def total(x: Tensor[N, f32]) -> f32:
    return sum(x)
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
    return bits(result)


def bits(result: object) -> object:
    if isinstance(result, tuple):
        return tuple(map(bits, result))
    assert isinstance(result, np.ndarray | np.generic), result
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


@pytest.mark.one_in(2)
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


@pytest.mark.one_in(2)
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


# --- arguments of every kind -----------------------------------------------------------------------------------------


def layer(size: int = 2, rate: object = 0.5) -> dict[str, object]:
    return {"w": np.arange(size * size, dtype=np.float32).reshape(size, size), "rate": rate}


def layer_object() -> object:
    return module().Layer(**layer())


F64 = np.arange(4.0).reshape(2, 2)
CALLS: dict[str, tuple[str, tuple[object, ...], dict[str, object]]] = {
    "a dict with a list": ("tower", ({"layers": [layer(), layer()], "scale": 2.0}, X), {}),
    "a tuple of objects": ("tower", ({"layers": (layer_object(),), "scale": 2}, X), {}),
    "another length": ("tower", ({"layers": [layer()] * 3, "scale": 2.0}, X), {}),
    "one of another size": ("tower", ({"layers": [layer(), layer(3)], "scale": 2.0}, X), {}),
    "a dict that lacks a field": ("tower", ({"layers": [layer()]}, X), {}),
    "a dict with one more": ("tower", ({"layers": [], "scale": 1.0, "bias": 1.0}, X), {}),
    "a dict with another": ("tower", ({"layers": [layer()], "bias": 1.0}, X), {}),
    "no list": ("tower", ({"layers": layer(), "scale": 1.0}, X), {}),
    "a default": ("options", (X,), {}),
    "an int": ("options", (X, 3), {}),
    "by name": ("options", (), {"k": 5, "x": X}),
    "a bool for an int": ("options", (X, True), {}),
    "a number of NumPy's": ("options", (X, np.int64(3)), {}),
    "an optional": ("options", (X, 3, X), {"double": True}),
    "none": ("options", (X, 3, None), {"how": "negate"}),
    "by position what has a name": ("options", (X, 3, None, True), {}),
    "an unknown name": ("options", (X,), {"triple": True}),
    "one name twice": ("options", (X, 3), {"k": 3}),
    "nothing": ("options", (), {}),
    "untyped": ("untyped", (X, X), {}),
    "untyped matrices": ("untyped", (F64, F64), {}),
    "untyped with a row": ("untyped", (F64, F64[0].copy()), {}),
    "untyped with one": ("untyped", (F64, F64[:1].copy()), {}),
    "untyped numbers": ("untyped", (X, 1.5), {}),
    "untyped ints": ("untyped", (X, 2), {}),
    "untyped bool": ("untyped", (X, True), {}),
    "untyped sizes that differ": ("untyped", (X, np.ones(3, np.float32)), {}),
    "untyped text": ("untyped", (X, "a"), {}),
    "a tuple": ("pairs", ((X, X[::-1].copy()), np.array(2.0, np.float32)), {}),
    "a list for a tuple": ("pairs", ([X, X], np.ones(2, np.float32)), {}),
    "a tuple of three": ("pairs", ((X, X, X), np.ones(2, np.float32)), {}),
    "params": ("weighted", (X,), {}),
    "params and a number": ("weighted", (X,), {"by": 3.0}),
    "a length": ("spectrum", (np.arange(6, dtype=np.float32),), {}),
    "another transform": ("spectrum", (np.arange(8, dtype=np.float32),), {}),
    "a matrix for a vector": ("spectrum", (np.ones((2, 2), np.float32),), {}),
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", CALLS)
def test_calls_are_those_of_the_long_way(name: str) -> None:
    function, args, kwargs = CALLS[name]
    expected = outcome(lambda: long_way(function)(*args, **kwargs))
    for _ in range(3):
        assert outcome(lambda: getattr(module(), function)(*args, **kwargs)) == expected


@pytest.mark.one_in(6)
def test_a_call_that_is_known_takes_no_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CALLS:
        outcome_of(name)  # from the first call on, code that is made for each size is known by sizes
    usual = [name for name in CALLS if isinstance(outcome_of(name), tuple) and "NumPy" not in name]
    assert len(usual) >= 20

    def refuse(self: Function, *args: object, **kwargs: object) -> object:
        raise AssertionError("the long way")

    monkeypatch.setattr(Function, "_run", refuse)
    for name in usual:
        outcome_of(name)


def outcome_of(name: str) -> object:
    function, args, kwargs = CALLS[name]
    return outcome(lambda: getattr(module(), function)(*args, **kwargs))


def test_params_are_read_anew() -> None:
    m = tessera.compile("param W: Tensor[2, f32] = ones(2)\ndef f(x: Tensor[2, f32]): return x * W")
    assert m.f(X).tolist() == X.tolist() == m.f(X).tolist()
    m.params = {"W": np.full(2, 3.0, np.float32)}
    assert m.f(X).tolist() == (3 * X).tolist() == m.f(X).tolist()


@pytest.mark.one_in(2)
def test_random_numbers_go_on() -> None:
    m = tessera.compile("def f(x: Tensor[2, f32]) uses random: return x + normal(2)")
    short = [m.f(X).tolist() for _ in range(3)]
    m.seed(0)
    assert short == [m.f._dispatch(X).tolist() for _ in range(3)]


# --- out= ------------------------------------------------------------------------------------------------------------

A = np.arange(6, dtype=np.float32).reshape(2, 3)
ROOM = np.zeros(24, np.float32)


class Own(np.ndarray):  # type: ignore[type-arg]
    """An array of another class."""


OUTS: dict[str, tuple[str, tuple[object, ...], Callable[[], object]]] = {
    "a vector": ("float_", (np.ones(3), 2.0), lambda: np.empty(3)),
    "by name": ("float_", (np.ones(3),), lambda: np.empty(3)),
    "none": ("float_", (np.ones(3), 2.0), lambda: None),
    "empty": ("float_", (np.ones(0), 2.0), lambda: np.empty(0)),
    "a scalar": ("total", (X,), lambda: np.empty((), np.float32)),
    "a number": ("total", (X,), lambda: np.float32(1.0)),
    "a vector of one": ("total", (X,), lambda: np.empty(1, np.float32)),
    "wrong size": ("float_", (np.ones(3), 2.0), lambda: np.empty(4)),
    "wrong rank": ("float_", (np.ones(3), 2.0), lambda: np.empty((3, 1))),
    "wrong dtype": ("float_", (np.ones(3), 2.0), lambda: np.empty(3, np.float32)),
    "strided": ("float_", (np.ones(3), 2.0), lambda: np.empty(6)[::2]),
    "read-only": ("float_", (np.ones(3), 2.0), lambda: np.broadcast_to(np.float64(1.0), 3)),
    "of another class": ("float_", (np.ones(3), 2.0), lambda: np.empty(3).view(Own)),
    "a list": ("float_", (np.ones(3), 2.0), lambda: [0.0, 0.0, 0.0]),
    "the argument": ("float_", (ROOM[:6].view(np.float64), 2.0), lambda: ROOM[:6].view(np.float64)),
    "a part of the argument": ("float_", (ROOM[:6].view(np.float64), 2.0), lambda: ROOM[4:10].view(np.float64)),
    "before the argument": ("float_", (ROOM[6:12].view(np.float64), 2.0), lambda: ROOM[:6].view(np.float64)),
    "behind the argument": ("float_", (ROOM[6:12].view(np.float64), 2.0), lambda: ROOM[12:18].view(np.float64)),
    "two": ("both", (A, 2.0), lambda: (np.empty((2, 3), np.float32), np.empty(3, np.float32))),
    "a list of two": ("both", (A, 2.0), lambda: [np.empty((2, 3), np.float32), np.empty(3, np.float32)]),
    "one of two": ("both", (A, 2.0), lambda: (np.empty((2, 3), np.float32),)),
    "two that overlap": ("both", (A, 2.0), lambda: (ROOM[:6].reshape(2, 3), ROOM[5:8])),
    "two side by side": ("both", (A, 2.0), lambda: (ROOM[:6].reshape(2, 3), ROOM[6:9])),
    "two of which one is read": ("both", (ROOM[:6].reshape(2, 3), 2.0), lambda: (A.copy(), ROOM[3:6])),
    "of a struct": ("layer", (layer(2), X), lambda: np.empty(2, np.float32)),
    "of a list": ("tower", ({"layers": [layer()], "scale": 2.0}, X), lambda: np.empty(2, np.float32)),
    "of params": ("weighted", (X,), lambda: np.empty(2, np.float32)),
}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", OUTS)
def test_out_is_taken_as_the_long_way_takes_it(name: str) -> None:
    function, args, make = OUTS[name]
    given = {"s": 2.0} if name == "by name" else {}
    ROOM[:] = np.arange(24)
    expected = outcome_into(long_way(function), args, given, make())
    for _ in range(3):
        ROOM[:] = np.arange(24)
        assert outcome_into(getattr(module(), function), args, given, make()) == expected
    assert ROOM[18:].tolist() == list(range(18, 24))


def outcome_into(
    call: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object], out: object
) -> object:
    """What stands in `out`, which is returned, or the error."""
    try:
        result = call(*args, out=out, **kwargs)
    except TesseraError as error:
        return str(error)
    assert out is None or result is out
    return bits(tuple(result) if isinstance(result, list) else result)


def test_out_goes_straight_into_compiled_code() -> None:
    def refuse(*_: object, **__: object) -> object:
        raise AssertionError("Python's way")

    for name in ("a vector", "a scalar", "two", "two side by side"):
        function, args, make = OUTS[name]
        getattr(module(), function)(*args)
        compiled = next(iter(getattr(module(), function)._compiled.values()))
        out = make()
        assert compiled.before(refuse)(*args, out=out) is out


def test_a_struct_is_written_into() -> None:
    m, given = module(), given_struct()
    as_dict = {"first": layer_of_zeros(), "b": np.zeros(2, np.float32)}
    for target in (given_struct(rate=np.zeros((), np.float32)), as_dict):
        for _ in range(2):
            assert m.next(given, 2.0, out=target) is target
        found = target if isinstance(target, dict) else {"first": vars(target.first), "b": target.b}  # type: ignore[attr-defined]
        assert found["first"]["w"].tolist() == (2 * given.first.w).tolist()  # type: ignore[attr-defined]
    flat = (np.zeros((2, 3), np.float32), np.zeros((), np.float32), np.zeros(2, np.float32))
    with pytest.raises(TesseraError, match="must be a `"):
        m.next(given, 2.0, out=flat)


def layer_of_zeros() -> dict[str, object]:
    return {"w": np.zeros((2, 3), np.float32), "rate": np.zeros((), np.float32)}
