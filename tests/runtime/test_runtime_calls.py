"""Calls from Python: results, every kind of wrong argument, threads, and calls without the stub."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessera
from tessera import TesseraError, set_num_threads
from tessera.artifact import read_artifact
from tessera.function import CompiledFunction
from tests.support.called_functions import add, f4, ways
from tests.support.native_support import BLOCK, add_artifact
from tests.support.sampling import examples

# --- results ---------------------------------------------------------------------------------------------------------


@examples(40)
@given(st.integers(0, 5 * BLOCK), st.integers(1, 4), st.integers(0, 1))
def test_sizes_and_strides(size: int, step: int, choice: int) -> None:
    x = np.arange(size * step, dtype=f4)[::step]
    y = np.linspace(-1, 1, size, dtype=f4)[::-1]
    result = ways(add())[choice](x, y)
    assert isinstance(result, np.ndarray) and result.dtype == f4
    np.testing.assert_array_equal(result, x + y)


def test_large_arrays_on_any_number_of_threads() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(700_001, dtype=f4) for _ in range(2))
    bits = []
    for threads in (1, 2, 3):
        set_num_threads(threads)
        bits.append(np.asarray(add().fast(x, y)).tobytes())
    set_num_threads(2)
    assert bits[0] == bits[1] == bits[2] == (x + y).tobytes()


def test_python_threads_call_at_once() -> None:
    x = np.arange(300_000, dtype=f4)
    wrong: list[int] = []

    def caller(number: int) -> None:
        y = np.full_like(x, number)
        for _ in range(50):
            if not np.array_equal(add().fast(x, y), x + f4(number)):
                wrong.append(number)

    callers = [threading.Thread(target=caller, args=(i,)) for i in range(4)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert not wrong


def test_misaligned_and_read_only_input(way: int) -> None:
    raw = np.zeros(4 * 10 + 1, np.uint8)
    x = raw[1:].view(f4)
    x[:] = np.arange(10)
    assert not x.flags.aligned
    y = np.ones(10, f4)
    y.flags.writeable = False
    np.testing.assert_array_equal(ways(add())[way](x, y), np.arange(1, 11, dtype=f4))


def test_results_are_fresh_and_inputs_untouched(way: int) -> None:
    x, y = np.arange(8, dtype=f4), np.ones(8, f4)
    first = ways(add())[way](x, y)
    second = ways(add())[way](x, y)
    assert isinstance(first, np.ndarray) and isinstance(second, np.ndarray)
    assert not np.shares_memory(first, second) and not np.shares_memory(first, x)
    assert first.flags.writeable and first.flags.owndata
    np.testing.assert_array_equal(x, np.arange(8, dtype=f4))


def test_keywords_in_any_order(way: int) -> None:
    x, y = np.arange(4, dtype=f4), np.ones(4, f4)
    np.testing.assert_array_equal(ways(add())[way](y=y, x=x), x + 1)
    np.testing.assert_array_equal(ways(add())[way](x, y=y), x + 1)


class _Tensor:
    """Speaks DLPack and nothing else, like a tensor of another library."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: object) -> object:
        return self._array.__dlpack__(**options)  # type: ignore[arg-type]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def test_dlpack_subclasses_and_memory_maps(way: int) -> None:
    class Sub(np.ndarray):
        pass

    x = np.arange(4, dtype=f4)
    np.testing.assert_array_equal(ways(add())[way](_Tensor(x), x.view(Sub)), 2 * x)


class _Elsewhere:
    """A tensor that NumPy cannot reach, such as one in the memory of a GPU."""

    def __dlpack__(self, **options: object) -> object:
        raise BufferError("the data is on another device")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


# --- wrong calls -----------------------------------------------------------------------------------------------------

X = np.arange(4, dtype=f4)

WRONG: list[tuple[tuple[object, ...], dict[str, object], str, str]] = [
    ((X,), {}, "E0920", "`add` takes 2 arguments; `y` is missing"),
    ((), {}, "E0920", "`x`, `y` are missing"),
    ((X, X, X), {}, "E0920", "`add` takes 2 arguments, but 3 were given"),
    ((X,), {"q": X}, "E0920", "`add` has no parameter `q`"),
    ((X, X), {"x": X}, "E0920", "`add` was given `x` twice"),
    ((X, None), {}, "E0921", "argument `y` of `add` is None, not an array"),
    ((X, [1.0, 2.0]), {}, "E0921", "is a list, not an array"),
    ((X, 3.0), {}, "E0921", "is a float, not an array"),
    ((X, _Elsewhere()), {}, "E0921", "gives no array that NumPy can read: the data is on another device"),
    ((X, X.astype(np.float64)), {}, "E0922", "argument `y` of `add` has dtype float64"),
    ((X, X.astype(np.float64)), {}, "E0922", r'converted: `y.astype\("float32"\)`'),
    ((X, [1.0, 2.0]), {}, "E0921", r'`numpy.array\(y, dtype="float32"\)`'),
    ((X, X.astype(">f4")), {}, "E0922", "dtype >f4"),
    ((X, X.reshape(2, 2)), {}, "E0923", r"has 2 dims \(2, 2\)"),
    ((X, f4(1)), {}, "E0923", "has 0 dims"),
    ((X, X[:3]), {}, "E0924", "`y` of `add` has size 3 in dim 0, but `N` is 4"),
    ((np.zeros(1_000_001, f4),) * 2, {}, "E0925", "needs N <= 1000000, but the sides are 1000000 and 1000001"),
]


@pytest.mark.parametrize(("args", "kwargs", "code", "text"), WRONG, ids=[w[3][:40] for w in WRONG])
def test_wrong_calls(way: int, args: tuple[object, ...], kwargs: dict[str, object], code: str, text: str) -> None:
    with pytest.raises(TesseraError, match=text) as caught:
        ways(add())[way](*args, **kwargs)
    assert caught.value.code == code
    assert str(caught.value).startswith(f"error[{code}]: ")


def test_an_error_says_where_a_size_came_from(way: int) -> None:
    with pytest.raises(TesseraError) as caught:
        ways(add())[way](X, X[:3])
    assert "`N` = 4 from dim 0 of `x`" in str(caught.value)
    assert "`y` is declared Tensor[N, f32]" in str(caught.value)


# --- without the stub ------------------------------------------------------------------------------------------------


def test_another_array_layout_takes_the_careful_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tessera.function.layout_holds", lambda: False)
    function = CompiledFunction(read_artifact(add_artifact().to_bytes(), "test")).fast
    assert type(function).__name__ == "method"
    np.testing.assert_array_equal(function(X, X[::-1]), [3, 3, 3, 3])
    with pytest.raises(TesseraError, match="E0925"):
        function(np.zeros(1_000_001, f4), np.zeros(1_000_001, f4))


def test_the_layout_check_sees_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    from tessera import numpy_abi

    assert numpy_abi.layout_holds.__wrapped__()
    for name in ("TYPE_OFFSET", "DATA_OFFSET", "RANK_OFFSET", "SHAPE_OFFSET", "DTYPE_OFFSET", "FLAGS_OFFSET"):
        with monkeypatch.context() as patch:
            patch.setattr(numpy_abi, name, 40)  # where the strides are
            assert not numpy_abi.layout_holds.__wrapped__(), name


def test_a_masked_array_is_refused_wherever_it_stands() -> None:
    m = tessera.compile("""
struct P[N]:
    w: Tensor[N, f32]

def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return x

def g(x, p: P[N]):
    return x, p.w

def h(x: Tensor[..., N]) -> Tensor[..., N, x.dtype]:
    return x
""")
    plain = np.ones(3, np.float32)
    masked = np.ma.array(plain, mask=[0, 1, 0])
    calls = [
        lambda: m.f(masked),
        lambda: m.f(x=masked),
        lambda: m.g(masked, m.P(w=plain)),
        lambda: m.g(plain, m.P(w=masked)),
        lambda: m.g(plain, {"w": masked}),
        lambda: m.h(masked),
        lambda: tessera.freeze(masked),
    ]
    for call in calls:
        with pytest.raises(tessera.TesseraError, match="masked array") as caught:
            call()
        assert caught.value.code == "E0921"
    assert m.f(masked.filled(0.0)).tolist() == [1, 0, 1]
