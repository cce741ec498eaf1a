"""Sizes have one normal form: what is equal as a polynomial is equal, and text reads back."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tesserac.types.dims import ONE, ZERO, Dim, DimError, parse_dim, product
from tesserac.types.polynomial import _number
from tesserac.types.unify import linear_in

NAMES = ("A", "B", "C", "N")
VALUES = st.fixed_dictionaries({name: st.integers(1, 30) for name in NAMES})

_LEAVES = st.one_of(st.integers(-6, 6).map(Dim.const), st.sampled_from(NAMES).map(Dim.sym))
POLYNOMIALS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] - pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] * pair[1]),
    ),
    max_leaves=8,
)
_DIVISORS = st.one_of(st.integers(1, 8).map(Dim.const), st.sampled_from(NAMES).map(Dim.sym))


def _floored(parts: tuple[Dim, Dim, str]) -> Dim:
    dividend, divisor, name = parts
    exact = {"/": Dim.exact_div, "//": Dim.floor_div, "%": Dim.mod, "ceil": Dim.ceil_div}
    apply = {**exact, "min": Dim.min, "max": Dim.max}
    return apply[name](dividend, divisor)


SIZES = st.recursive(
    POLYNOMIALS,
    lambda inner: st.one_of(
        st.tuples(inner, _DIVISORS, st.sampled_from(("//", "%", "ceil", "/", "min", "max"))).map(_floored),
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] * pair[1]),
    ),
    max_leaves=5,
)


@given(POLYNOMIALS, POLYNOMIALS, POLYNOMIALS)
def test_the_laws_of_a_ring_are_equality(a: Dim, b: Dim, c: Dim) -> None:
    assert a + b == b + a
    assert a * b == b * a
    assert (a + b) + c == a + (b + c)
    assert a * (b + c) == a * b + a * c
    assert a - a == ZERO
    assert a * ONE == a


@given(POLYNOMIALS, POLYNOMIALS, VALUES)
def test_polynomials_that_differ_are_not_equal(a: Dim, b: Dim, values: dict[str, int]) -> None:
    if a.evaluate(values) != b.evaluate(values):
        assert a != b


@given(POLYNOMIALS, POLYNOMIALS)
def test_equal_everywhere_is_equal(a: Dim, b: Dim) -> None:
    """Two polynomials of low degree that agree on a grid are one polynomial, hence one normal form."""
    degree = max((sum(e for _, e in monomial) for d in (a, b) for monomial, _ in d.terms), default=0)
    assume(degree <= 3)
    grid = [{"A": i, "B": j, "C": k, "N": m} for i in range(4) for j in range(4) for k in range(4) for m in range(4)]
    assert (a == b) == all(a.evaluate(point) == b.evaluate(point) for point in grid)


@given(SIZES)
def test_text_reads_back(size: Dim) -> None:
    assert parse_dim(str(size)) == size
    assert str(parse_dim(str(size))) == str(size)


@given(SIZES, VALUES)
def test_evaluation_agrees_with_substitution(size: Dim, values: dict[str, int]) -> None:
    constants = {name: Dim.const(value) for name, value in values.items()}
    try:
        number = size.evaluate(values)
    except DimError:
        return
    assert size.substitute(constants).constant == number


@given(SIZES, st.fixed_dictionaries({name: st.integers(-3, 9) for name in NAMES}))
def test_numbers_alone_say_what_the_laws_say(size: Dim, values: dict[str, int]) -> None:
    """Also of symbols that are no sizes: a difference within one may be 0, or less."""
    number = _number(size, values)
    constants = {name: Dim.const(value) for name, value in values.items()}
    assert number is None or size.substitute(constants).constant == number


@given(POLYNOMIALS, POLYNOMIALS, POLYNOMIALS, VALUES)
def test_substitution_is_composition(a: Dim, b: Dim, c: Dim, values: dict[str, int]) -> None:
    inner = {**values, "A": b.evaluate(values), "B": c.evaluate(values)}
    assert a.substitute({"A": b, "B": c}).evaluate(values) == a.evaluate(inner)


@given(POLYNOMIALS, POLYNOMIALS)
def test_exact_division_undoes_multiplication(a: Dim, b: Dim) -> None:
    assume(b != ZERO)
    assert (a * b).exact_div(b) == a


@given(POLYNOMIALS, _DIVISORS, VALUES)
def test_floor_and_rest_are_python_s(a: Dim, b: Dim, values: dict[str, int]) -> None:
    dividend, divisor = a.evaluate(values), b.evaluate(values)
    assert a.floor_div(b).evaluate(values) == dividend // divisor
    assert a.mod(b).evaluate(values) == dividend % divisor
    assert a.ceil_div(b).evaluate(values) == -(-dividend // divisor)


@given(POLYNOMIALS, POLYNOMIALS, VALUES)
def test_extremes(a: Dim, b: Dim, values: dict[str, int]) -> None:
    assert a.min(b).evaluate(values) == min(a.evaluate(values), b.evaluate(values))
    assert a.max(b).evaluate(values) == max(a.evaluate(values), b.evaluate(values))
    assert a.min(b) == b.min(a)
    assert a.min(a) == a


@given(POLYNOMIALS, st.sampled_from(NAMES))
def test_linear_in_splits_exactly(a: Dim, name: str) -> None:
    linear = linear_in(a, name)
    if linear is not None:
        factor, rest = linear
        assert factor * Dim.sym(name) + rest == a
        assert name not in factor.symbols() | rest.symbols()


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("2*M*K + 1", "2*K*M + 1"),
        ("D/heads*heads", "D"),
        ("(N + 64)//64", "(N // 64) + 1"),
        ("(D*D - 1)/(D + 1)", "D - 1"),
        ("(2*D)/(2*h + 2)", "D / (h + 1)"),
        ("min(N, 4, N + 1)", "min(4, N)"),
        ("ceil_div(N, 64)*64", "64*ceil_div(N, 64)"),
        ("3*N/4 - N/4", "N/2"),
        ("7 // 2", "3"),
    ],
)
def test_normal_forms(written: str, normal: str) -> None:
    assert str(parse_dim(written)) == normal


@pytest.mark.parametrize("text", ["", "N +", "(N", "N N", "N / 0", "f(N)", "N $ 2", "N // 0"])
def test_what_is_not_a_size(text: str) -> None:
    with pytest.raises(DimError):
        parse_dim(text)


def test_sizes_that_have_no_value() -> None:
    with pytest.raises(DimError):
        parse_dim("N/2").evaluate({"N": 3})
    with pytest.raises(DimError):
        parse_dim("D/h").evaluate({"D": 4, "h": 0})
    with pytest.raises(DimError):
        parse_dim("N").evaluate({})


def test_constants_and_symbols() -> None:
    assert Dim.const(3).constant == 3
    assert Dim.const(Fraction(1, 2)).constant is None
    assert Dim.const(Fraction(1, 2)).fraction == Fraction(1, 2)
    assert Dim.sym("N").symbol == "N"
    assert (Dim.sym("N") * 2).symbol is None
    assert product([Dim.sym("A"), Dim.const(2)]) == parse_dim("2*A")
    assert parse_dim("A//B + C").symbols() == {"A", "B", "C"}
