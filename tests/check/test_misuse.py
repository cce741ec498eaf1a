"""Whatever is passed from Python, a call gives a result or a `TesseraError` with the code of the mistake."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tessera

PROGRAM = """
struct P[D]:
    w: Tensor[D, f32]
    n: int = 2

    def apply(self, x: Tensor[D, f32]) -> Tensor[D, f32]:
        return x * self.w

struct Grid[M, N]:
    a: Tensor[M, f32]
    b: Tensor[M, N, f32] = ones(M, N)

param W: Tensor[E, f32]
param V: Tensor[F, f32] = ones(F)

def v(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return x * 2.0

def two(x: Tensor[N, f32], y: Tensor[N, f32]) -> (Tensor[N, f32], Tensor[f32]):
    return x + y, sum(x)

def matrix(x: Tensor[M, N, f32]) -> Tensor[N, f32]:
    return sum(x, axis=0)

def real(x: f32) -> f32:
    return x

def whole(x: i32) -> i32:
    return x

def flag(x: Tensor[bool]) -> Tensor[bool]:
    return x

def imaginary(z: c64) -> c64:
    return z

def static(x: Tensor[N, f32], k: int, reverse: bool = False, mode: str = "a") -> Tensor[k, f32]:
    return x[:k]

def scaled(x: Tensor[N, f32], p: float) -> Tensor[N, f32]:
    return x * p

def moved(p: P[D], x: Tensor[D, f32]) -> P[D]:
    return P(w=p.w + x, n=p.n)

def pair(t: (Tensor[N, f32], Tensor[N, f32])):
    return t[0] + t[1]

def first(t: List[2, Tensor[N, f32]]):
    return t[0]

def masked(x: Tensor[N, f32], m: Tensor[N, bool] | None = None):
    return x if m is None else where(m, x, 0.0)

def narrow_(x: Tensor[N, bf16]):
    return x

def nibbles(x: Tensor[N, i4]):
    return x

def any_(x):
    return x * 2

def weighted(x: Tensor[E, f32]):
    return x * W

def offset(x: Tensor[F, f32]):
    return x + V
"""

A = np.ones(4, "f4")
LONG = np.arange(16, dtype="f4")
READ_ONLY = np.ones(4, "f4")
READ_ONLY.flags.writeable = False
HALF = A.astype(ml_dtypes.bfloat16)


class Own(np.ndarray):
    """A subclass of arrays."""


class NoExport:
    """Speaks DLPack, but gives nothing."""

    def __dlpack__(self, **_: object) -> object:
        raise BufferError("not now")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.fixture(scope="module")
def m() -> Any:
    return tessera.compile(PROGRAM)


TAKEN: list[tuple[str, object]] = [
    ("m.v(LONG[::-1])", LONG[::-1] * 2),
    ("m.v(LONG[::4])", LONG[::4] * 2),
    ("m.v(A.view(Own))", A * 2),
    ("m.v(np.broadcast_to(np.float32(3), (4,)))", A * 6),
    ("m.v(np.ones(0, 'f4'))", np.ones(0, "f4")),
    ("m.v(np.frombuffer(bytes(17), 'u1')[1:].view('f4'))", A * 0),
    ("m.v(READ_ONLY)", A * 2),
    ("m.v(A, out=None)", A * 2),
    ("m.v(A, out=np.empty(4, 'f4').view(Own))", A * 2),
    ("m.matrix(np.arange(6, dtype='f4').reshape(2, 3).T)", np.array([3, 12], "f4")),
    ("m.matrix(np.asfortranarray(np.ones((2, 3), 'f4')))", np.array([2, 2, 2], "f4")),
    ("m.real(1)", np.float32(1)),
    ("m.real(1e300)", np.float32(np.inf)),
    ("m.real(np.array(1, 'f4'))", np.float32(1)),
    ("m.whole(np.int32(3))", np.int32(3)),
    ("m.flag(np.bool_(True))", np.bool_(True)),
    ("m.imaginary(2j)", np.complex64(2j)),
    ("m.imaginary(2)", np.complex64(2)),
    ("m.static(A, np.int64(2), np.bool_(True))", A[:2]),
    ("m.static(A, np.array(2))", A[:2]),
    ("m.static(A, 2, mode=np.str_('b'))", A[:2]),
    ("m.scaled(A, 2)", A * 2),
    ("m.pair([A, A])", A * 2),
    ("m.first((A, A))", A),
    ("m.masked(A, None)", A),
    ("m.moved(m.P(w=A), A).w", A * 2),
    ("m.moved({'w': A, 'n': 3}, A).n", 3),
    ("m.P(w=A)(A)", A),
    ("m.moved(tessera.freeze(m.P(w=A)), A).w", A * 2),
    ("m.narrow_(HALF[::2])", HALF[::2]),
    ("m.nibbles(A.astype(ml_dtypes.int4))", A.astype(ml_dtypes.int4)),
    ("m.any_(np.float32(2))", np.float32(4)),
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("call", "expected"), TAKEN, ids=[call for call, _ in TAKEN])
def test_what_is_taken(m: Any, call: str, expected: object) -> None:
    result = eval(call, {**globals(), "m": m})
    np.testing.assert_array_equal(np.asarray(result), np.asarray(expected))
    assert np.asarray(result).dtype == np.asarray(expected).dtype


MISTAKES = """
E0920 m.v()                                         `x` is missing
E0920 m.v(A, A)                                     takes 1 argument, but 2
E0920 m.v(y=A)                                      no parameter `y`
E0920 m.v(A, x=A)                                   given `x` twice
E0921 m.v(None)                                     is None, not an array
E0921 m.v([1.0, 2.0])                               is a list
E0921 m.v(1.0)                                      is a float
E0921 m.v("a")                                      is a str
E0921 m.v({})                                       is a dict
E0921 m.v(b"1234")                                  is a bytes
E0921 m.v(memoryview(A))                            is a memoryview
E0921 m.v(object())                                 is an object
E0921 m.v(m.v)                                      is a Function
E0921 m.v(NoExport())                               not now
E0922 m.v(np.ones(4))                               float64
E0922 m.v(A.astype(">f4"))                          >f4
E0922 m.v(np.ones(4, object))                       object
E0922 m.v(np.array(["a"]))                          <U1
E0922 m.v(np.ones(4, "M8[s]"))                      datetime64
E0922 m.v(np.zeros(3, [("a", "f4")]))               'a'
E0923 m.v(np.float32(1))                            0 dims
E0923 m.v(np.ones((4, 1), "f4"))                    2 dims
E0924 m.two(A, np.ones(5, "f4"))                    `N` is 4
E0921 m.v(A, out=READ_ONLY)                         writable
E0921 m.v(A, out=np.ones(8, "f4")[::2])             contiguous
E0921 m.v(A, out=[1])                               is a list
E0921 m.v(A, out=5)                                 is an int
E0920 m.v(A, out=A)                                 overlaps
E0920 m.v(LONG[:4], out=LONG[2:6])                  overlaps
E0922 m.v(A, out=np.ones(4))                        float64
E0922 m.v(A, out=np.ones(4, ">f4"))                 >f4
E0924 m.v(A, out=np.ones(3, "f4"))                  (3,)
E0924 m.v(A, out=np.ones((4, 1), "f4"))             (4, 1)
E0921 m.two(A, A, out=A)                            a tuple of 2
E0921 m.two(A, A, out=(A * 1, np.float32(1)))       is a float32
E0920 m.two(A, A, out=(LONG[:4], LONG[:1].reshape(())))   overlaps another part
E0923 m.matrix(A)                                   1 dims
E0921 m.real("a")                                   is a str, not a number
E0921 m.real(None)                                  is None, not a number
E0921 m.real(True)                                  is a bool, not a number
E0921 m.real(1j)                                    is a complex
E0921 m.real(Fraction(1, 2))                        is a Fraction
E0921 m.real(Decimal(1))                            is a Decimal
E0922 m.real(10**400)                               an int of 1329 bits
E0922 m.real(np.float64(1))                         float64
E0923 m.real(np.ones(1, "f4"))                      1 dims
E0922 m.whole(2**31)                                2147483648, which i32
E0922 m.whole(-(2**31) - 1)                         which i32
E0922 m.whole(10**5000)                             an int of 16610 bits
E0921 m.whole(1.0)                                  is a float, not an integer
E0921 m.whole(True)                                 is a bool
E0922 m.whole(np.int64(3))                          int64
E0921 m.flag(1)                                     is an int, not a bool
E0922 m.imaginary(np.complex128(1))                 complex128
E0921 m.static(A, 2.0)                              must be an int, not a float
E0921 m.static(A, "a")                              must be an int, not a str
E0921 m.static(A, None)                             must be an int, not None
E0921 m.static(A, True)                             must be an int, not a bool
E0921 m.static(A, [2])                              must be an int, not a list
E0921 m.static(A, np.ones(1, int))                  must be an int, not a ndarray
E0922 m.static(A, 10**5000)                         64 bits
E0921 m.static(A, 2, 1)                             must be a bool, not an int
E0921 m.static(A, 2, mode=1)                        must be a str, not an int
E0921 m.static(A, 2, mode=b"a")                     must be a str, not a bytes
E0925 m.static(A, 5)                                needs N >= 5
E0921 m.scaled(A, "a")                              is a str, not a number
E0921 m.scaled(A, None)                             is None
E0922 m.scaled(A, 10**5000)                         an int of
E0921 m.moved(None, A)                              has no `w`
E0921 m.moved(A, A)                                 has no `w`
E0921 m.moved({"w": A}, A)                          has no `n`
E0921 m.moved({1: 2}, A)                            has no `w`
E0921 m.moved({"w": A, "n": 2, "q": 3}, A)          no field `q`
E0921 m.moved({"w": A, "n": "x"}, A)                must be an int
E0922 m.moved({"w": np.ones(4), "n": 2}, A)         float64
E0924 m.moved(m.P(w=A), np.ones(3, "f4"))           is 4
E0920 m.P()                                         also needs `w`
E0920 m.P(w=3)                                      needs its sizes
E0920 m.P(w=A, zz=1)                                no field `zz`
E0920 m.Grid(a=A)                                   needs its sizes
E0920 m.Grid(1, 2, 3, a=A)                          takes 2 sizes
E0921 m.Grid(4, "a", a=A)                           must be an int
E0920 setattr(m.P(w=A), "ww", A)                    no field `ww`
E0934 setattr(tessera.freeze(m.P(w=A)), "w", A)     cannot be assigned
E0921 tessera.freeze(m)                             not a Module
E0921 m.pair(A)                                     must be a tuple
E0921 m.pair((A,))                                  2 items, not 1
E0921 m.pair((A, None))                             `t.1`
E0921 m.first([A])                                  2 items, not 1
E0921 m.first({0: A})                               not a dict
E0922 m.masked(A, A)                                float32
E0924 m.masked(A, np.ones(3, bool))                 `N` is 4
E0922 m.narrow_(A)                                  float32
E0922 m.narrow_(A.astype("u2"))                     uint16
E0922 m.nibbles(A.astype("i1"))                     int8
E0922 m.any_(A.astype("O"))                         object
E0922 m.any_(A.astype("g"))                         no dtype of the language
E0922 m.any_(A.astype(">f4"))                       >f4
E0922 m.any_(np.array(["a"]))                       <U1
E0921 m.any_({})                                    not a dict
E0210 m.any_(None)                                  expected a tensor
E0928 m.weighted(A)                                 `W` has no value
E0928 m.offset(A)                                   its initialiser needs sizes
E0920 setattr(m, "params", 3)                       not by an int
E0920 setattr(m, "params", {"Q": A})                no param `Q`
E0920 setattr(m, "param", {"W": A})                 cannot be set
E0920 setattr(m, "v", 3)                            cannot be set
E0920 m.load(3)                                     not an int
E0901 m.load("/nowhere/w.safetensors")              cannot read
E0920 m.seed("a")                                   a seed is an int
E0913 m.vv                                          did you mean
E0913 m[3]                                          no function
E0920 tessera.load(None)                            not None
E0901 tessera.load("/nowhere/m.tess")               cannot read
E0920 tessera.compile(3)                            not an int
E0920 tessera.compile(b"def")                       not a bytes
E0914 tessera.set_num_threads(0)                    positive
E0921 tessera.pack_i4(3)                            not an int
E0922 tessera.pack_i4(A)                            not of float32
E0921 tessera.unpack_i4(None, 1)                    not None
E0920 tessera.unpack_i4(np.ones(0, "u1"), -1)       from 0
E0923 tessera.unpack_i4(np.ones(2, "u1"), 9)        5 bytes
"""
LINES = [line.split(maxsplit=1) for line in MISTAKES.strip().splitlines()]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("code", "line"), LINES, ids=[line.split("   ")[0] for _, line in LINES])
def test_mistakes(m: Any, code: str, line: str) -> None:
    call, _, text = line.partition("   ")
    with pytest.raises(tessera.TesseraError) as caught:
        eval(call, {**globals(), "m": m, "Decimal": Decimal, "Fraction": Fraction})
    assert caught.value.code == code, caught.value.text
    assert text.strip() in caught.value.text
