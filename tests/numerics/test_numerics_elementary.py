"""Elementary functions: corner cases, the softmax family's identities, coefficients and the form of programs."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from tesserac.numerics.approximate import APPROXIMATE
from tesserac.numerics.coefficients import TABLE
from tesserac.numerics.elementary import ELEMENTARY, program
from tesserac.numerics.formats import parts
from tesserac.numerics.program import PRIMITIVES, Draft, Program, Step, cut_of, evaluate
from tesserac.types.dtype import F32, F64, DType
from tests.tools.fit_elementary import (
    CONSTANTS,
    FITS,
    QUOTIENTS,
    Fit,
    Quotient,
    constant_parts,
    fit_rounded,
    quotient_rounded,
    two_over_pi_pieces,
)

INF, NAN = np.inf, np.nan
DTYPES = {"f32": F32, "f64": F64}


def run(name: str, x: object, *more: object, dtype: DType = F32) -> np.ndarray:
    arrays = (np.asarray(v, dtype.numpy_name) for v in (x, *more))
    return evaluate(program(name, dtype), *arrays)


def ulps(result: np.ndarray, exact: np.ndarray) -> float:
    """The largest error of f32 results against f64 references, in units of the last place of the reference."""
    finite = np.isfinite(exact.astype(np.float32))
    assert np.array_equal(np.isfinite(result), finite)
    unit = np.spacing(np.maximum(np.abs(exact[finite].astype(np.float32)), np.float32(2.0**-126)))
    return float(np.max(np.abs(result[finite].astype(np.float64) - exact[finite]) / unit))


def sample(low: float, high: float, count: int = 200_000) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([np.linspace(low, high, count), rng.uniform(low, high, count)]).astype(np.float32)


CORNERS = [
    ("exp", [NAN, INF, -INF, 0.0, -0.0, 89, -105, 1e30, -1e30], [NAN, INF, 0, 1, 1, INF, 0, INF, 0]),
    ("log", [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0], [NAN, INF, NAN, -INF, -INF, 0, NAN]),
    ("tanh", [NAN, INF, -INF, 0.0, -0.0, 100, -1e30, 1e-40], [NAN, 1, -1, 0.0, -0.0, 1, -1, 1e-40]),
    ("exp2", [NAN, INF, -INF, 0.0, -0.0, 130, -151, 3.0, -3.0], [NAN, INF, 0, 1, 1, INF, 0, 8, 0.125]),
    ("expm1", [NAN, INF, -INF, 0.0, -0.0, 89, -100, 1e-40], [NAN, INF, -1, 0.0, -0.0, INF, -1, 1e-40]),
    ("log2", [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.25, 1024], [NAN, INF, NAN, -INF, -INF, 0, NAN, -2, 10]),
    ("log1p", [NAN, INF, -INF, 0.0, -0.0, -1.0, -2.0, 1e-40], [NAN, INF, NAN, 0.0, -0.0, -INF, NAN, 1e-40]),
    ("erf", [NAN, INF, -INF, 0.0, -0.0, 100, -1e30], [NAN, 1, -1, 0.0, -0.0, 1, -1]),
    ("erfc", [NAN, INF, -INF, 0.0, -0.0, 100, -1e30], [NAN, 0, 2, 1, 1, 0, 2]),
    ("xndtr", [NAN, INF, -INF, 0.0, -0.0, 10, -1e30], [NAN, INF, -0.0, 0.0, -0.0, 10, -0.0]),
    ("sin", [NAN, INF, -INF, 0.0, -0.0, 1e-40, -1e-40], [NAN, NAN, NAN, 0.0, -0.0, 1e-40, -1e-40]),
    ("cos", [NAN, INF, -INF, 0.0, -0.0, 1e-40], [NAN, NAN, NAN, 1, 1, 1]),
    ("log10", [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 1000], [NAN, INF, NAN, -INF, -INF, 0, NAN, 3]),
    ("atan", [NAN, 0.0, -0.0, 1e-40, -1e-40], [NAN, 0.0, -0.0, 1e-40, -1e-40]),
    ("rsqrt", [NAN, INF, 0.0, -0.0, 4.0, -1.0], [NAN, 0, INF, -INF, 0.5, NAN]),
    ("exp_frac", [NAN, INF, -INF, 0.0], [NAN, 1, 1, 1]),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "points", "expected"), CORNERS)
def test_corner_cases(name: str, points: list[float], expected: list[float], dtype: str) -> None:
    if dtype == "f64" and name not in ("log2", "log10"):
        points = [p * 2.0**30 if abs(p) >= 80 else p for p in points]
    result = run(name, points, dtype=DTYPES[dtype])
    assert np.array_equal(result, np.asarray(expected, result.dtype), equal_nan=True)
    numbers = ~np.isnan(result)
    assert np.array_equal(np.signbit(result[numbers]), np.signbit(np.asarray(expected)[numbers]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_exp_int_of_what_is_finite_is_finite(dtype: str) -> None:
    kind = DTYPES[dtype]
    largest = kind.largest
    points = [largest, -largest, INF, -INF, NAN, 0.0, 10.0, -10.0]
    expected = [largest, -largest, largest, -INF, largest, 0.0, 14.0, -14.0]
    assert np.array_equal(run("exp_int", points, dtype=kind), np.asarray(expected, kind.numpy_name))


def test_exp_int_is_the_rounded_product() -> None:
    x = np.concatenate([sample(-200, 200), np.random.default_rng(3).uniform(-1e6, 1e6, 1000).astype("f4")])
    assert np.array_equal(run("exp_int", x), np.rint(x * np.float32(np.log2(np.e))))


def huge_neighbours(kind: DType, exponent: int, fraction: float) -> np.ndarray:
    """Consecutive numbers of both signs around one of so large an exponent, ascending."""
    integer = np.uint32 if kind is F32 else np.uint64
    middle = np.array([math.ldexp(fraction, exponent)], kind.numpy_name).view(integer)[0]
    x = (middle + np.arange(-12, 12).astype(integer)).view(kind.numpy_name)
    return np.sort(np.concatenate([x, -x]))


BORDERS = {"f32": [19, 20, 21, 22, 24, 29, 30, 31, 32, 99, 100, 101, 104, 126, 127]}
BORDERS["f64"] = [48, 49, 51, 52, 62, 63, 64, 966, 967, 968, 971, 1022, 1023]


@pytest.mark.one_in(16)
@pytest.mark.parametrize(("dtype", "exponent"), [(name, k) for name in DTYPES for k in BORDERS[name]])
def test_terms_of_neighbours_are_right_however_huge(dtype: str, exponent: int) -> None:
    """Also across the borders between the ways to find an exponent, and where several numbers share one."""
    kind = DTYPES[dtype]
    for fraction in (1.0, 1.386, 1.5573, 1.75):
        x = huge_neighbours(kind, exponent, fraction)
        n, e = run("exp_int", x, dtype=kind), run("exp_frac", x, dtype=kind)
        assert np.isfinite(n).all() and (np.diff(n) >= 0).all() and (e > 0).all() and np.isfinite(e).all()
        own, below = (run("exp_term", part, n[1:], dtype=kind) for part in (x[1:], x[:-1]))
        assert np.array_equal(own, e[1:])
        wide = x.astype(np.longdouble)
        unit = float(np.spacing(np.ones(1, x.dtype))[0])
        ratio = below.astype(np.longdouble) / own
        np.testing.assert_allclose(ratio, np.exp(wide[:-1] - wide[1:]), rtol=16 * unit, atol=unit)


@pytest.mark.one_in(16)
def test_exp_frac_is_within_its_bound() -> None:
    for limit in (100.0, 2.0**10, 2.0**14):
        x = sample(-limit, limit)
        n = run("exp_int", x).astype(np.longdouble)
        exact = np.exp(x - n * np.longdouble(np.log(np.longdouble(2)))).astype(np.float64)
        assert ulps(run("exp_frac", x), exact) <= 1.1


@pytest.mark.parametrize("limit", [1e2, 2.0**30, 2.0**43])
def test_exp_frac_of_f64_is_within_its_bound(limit: float) -> None:
    points = np.random.default_rng(7).uniform(-limit, limit, 500)
    result, n = run("exp_frac", points, dtype=F64), run("exp_int", points, dtype=F64)
    with mpmath.workdps(50):
        for x, e, k in zip(points.tolist(), result.tolist(), n.tolist(), strict=True):
            exact = mpmath.exp(mpmath.mpf(x) - mpmath.mpf(k) * mpmath.log(2))
            assert abs(e - exact) <= 1.1 * float(np.spacing(float(exact)))


# Fits of f64 take longer and differ from those of f32 only in their number of terms.
@pytest.mark.one_in(48)
@pytest.mark.parametrize("fit", [f for f in FITS if f.dtype == "f32"], ids=lambda fit: fit.name)
def test_coefficients_are_those_of_the_fit(fit: Fit) -> None:
    assert tuple(fit_rounded(fit)[0]) == TABLE[fit.name, "f32"]


@pytest.mark.one_in(48)
@pytest.mark.parametrize("fit", [f for f in QUOTIENTS if f.dtype == "f32"], ids=lambda fit: fit.name)
def test_coefficients_are_those_of_the_quotient(fit: Quotient) -> None:
    above, below, _ = quotient_rounded(fit)
    assert tuple(above) == TABLE[f"{fit.name}_above", "f32"]
    assert tuple(below) == TABLE[f"{fit.name}_below", "f32"]


def test_the_table_has_what_the_tool_prints_and_no_more() -> None:
    found = {(fit.name, fit.dtype): fit.terms for fit in FITS}
    found |= {(f"{fit.name}_above", fit.dtype): fit.terms for fit in QUOTIENTS}
    found |= {(f"{fit.name}_below", fit.dtype): fit.terms + 1 for fit in QUOTIENTS}
    for dtype in DTYPES:
        for name in CONSTANTS:
            assert tuple(constant_parts(name, dtype)) == TABLE[name, dtype]
            found[name, dtype] = len(TABLE[name, dtype])
        assert tuple(two_over_pi_pieces(dtype)) == TABLE["two_over_pi_pieces", dtype]
        found["two_over_pi_pieces", dtype] = len(TABLE["two_over_pi_pieces", dtype])
    assert found == {key: len(values) for key, values in TABLE.items()}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("dtype", DTYPES)
def test_exp_is_its_fraction_times_its_power(dtype: str) -> None:
    kind = DTYPES[dtype]
    scale = 1 if kind is F32 else 7.2
    x = np.concatenate([sample(-110, 95) * scale, [NAN, INF, -INF, 0.0, -0.0, 3e38, -3e38]]).astype(kind.numpy_name)
    parts = run("ldexp", run("exp_frac", x, dtype=kind), run("exp_int", x, dtype=kind), dtype=kind)
    assert np.array_equal(run("exp", x, dtype=kind), parts, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ldexp_rounds_once(dtype: str) -> None:
    kind = DTYPES[dtype]
    integer, limit = (np.uint32, 252) if kind is F32 else (np.uint64, 2044)
    rng = np.random.default_rng(4)
    x = rng.integers(0, np.iinfo(integer).max, 100_000, dtype=integer).view(kind.numpy_name)
    x = np.concatenate([x, rng.uniform(0.5, 2, 100_000).astype(x.dtype)])
    k = rng.integers(-limit, limit, len(x))
    with np.errstate(all="ignore"):
        expected = np.ldexp(x, k)
    assert np.array_equal(run("ldexp", x, k, dtype=kind), expected, equal_nan=True)


def test_ldexp_beyond_its_range() -> None:
    x = [1.5, -1.5, 1.5, -1.5, 1.5, INF, NAN, 0.0]
    k = [-INF, -1e9, INF, 1e9, NAN, -3.0, 2.0, 500.0]
    assert np.array_equal(run("ldexp", x, k), np.float32([0, -0.0, INF, -INF, 0, INF, NAN, 0]), equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ln2_parts_add_up(dtype: str) -> None:
    kind = DTYPES[dtype]
    high, low = parts("ln2", kind)
    with mpmath.workdps(60):
        error = abs(mpmath.mpf(high) + mpmath.mpf(low) - mpmath.log(2))
        assert error < mpmath.mpf(2) ** (-2 * kind.significand)
    assert high == np.dtype(kind.numpy_name).type(high) and low == np.dtype(kind.numpy_name).type(low)


def masked_softmax_terms(x: np.ndarray, blocks: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """P and M of one row, the maximum found block by block, each rescaling an exact power of two."""
    lowest = np.float32(-F32.largest)
    n, e = run("exp_int", x), run("exp_frac", x)
    running, terms, start = lowest, np.zeros(0, np.float32), 0
    for size in blocks:
        part = slice(start, start + size)
        new = max(running, n[part].max(initial=lowest))
        terms = run("ldexp", terms, np.broadcast_to(running - new, terms.shape))
        terms = np.concatenate([terms, run("ldexp", e[part], n[part] - new)])
        running, start = new, start + size
    return terms, running


def test_online_rescaling_is_exact() -> None:
    """Blocks of any size give the bits of one pass, since terms stay in the normal range."""
    x = np.random.default_rng(5).normal(size=300).astype(np.float32) * 10
    x[[3, 200]] = -INF
    whole, maximum = masked_softmax_terms(x, [300])
    for blocks in ([1] * 300, [7] * 42 + [6], [150, 150]):
        terms, running = masked_softmax_terms(x, blocks)
        assert running == maximum and np.array_equal(terms, whole)


def test_minus_infinity_gives_plus_zero_also_alone() -> None:
    for row in ([-INF, -INF], [-INF, -3.4e38], [-INF, 5.0]):
        terms, _ = masked_softmax_terms(np.float32(row), [2])
        assert terms[0] == 0 and not np.signbit(terms[0])
        assert terms[1] == (0 if row[1] == -INF else run("exp_frac", row[1]))


def steps_of(p: Program) -> list[str]:
    return [s.op for s in p.steps if s.op != "constant"]


def check_form(p: Program) -> None:
    kind = np.dtype(p.dtype.numpy_name).type
    for place, step in enumerate(p.steps):
        assert step.op in PRIMITIVES
        assert all(0 <= a < p.arity + place for a in step.args)
        assert np.isnan(step.value) or float(kind(step.value)) == step.value
        assert (step.program is not None) == (step.op in ("when", "part"))
        if step.program is not None:
            check_form(step.program)
    used = {a for s in p.steps for a in s.args}
    assert used == set(range(p.arity + len(p.steps) - 1)), "every value but the last is used"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ELEMENTARY)
def test_programs_are_well_formed(name: str, dtype: str) -> None:
    check_form(program(name, DTYPES[dtype]))


LENGTHS = {"exp": 28, "exp2": 30, "expm1": 22, "log": 33, "log2": 34, "log1p": 42, "pow": 112, "tanh": 31, "erf": 36}
LENGTHS |= {"erfc": 34, "xndtr": 34, "sin": 30, "cos": 29, "log10": 50, "atan": 23, "atan2": 34}


@pytest.mark.parametrize("name", LENGTHS)
def test_programs_stay_short(name: str) -> None:
    """These are inner loops: a longer program is a slower one, and must be worth it."""
    assert len(steps_of(program(name, F32))) <= LENGTHS[name]


def test_the_softmax_loop_stays_short() -> None:
    """Of its steps the magnitude of the row's exponent is the same for a whole row."""
    assert len(steps_of(program("exp_term", F32))) <= 28


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "bias"), [("exp_term", 0), ("exp_lifted", 32)])
def test_exp_term_is_made_of_its_parts(name: str, bias: int, dtype: str) -> None:
    kind = DTYPES[dtype]
    largest, rng = kind.largest, np.random.default_rng(6)
    corners = [0.0, -0.0, 1.0, -INF, largest, -largest, 0.8 * largest, -0.8 * largest, 2.0**22, -(2.0**51)]
    x, m = (grid.ravel() for grid in np.meshgrid(corners, corners))
    x = np.concatenate([x, rng.normal(size=100_000) * 50]).astype(kind.numpy_name)
    m = np.concatenate([m, np.rint(rng.normal(size=100_000) * 80)]).astype(kind.numpy_name)
    with np.errstate(all="ignore"):
        below = run("exp_int", x, dtype=kind) - m
        x, m, below = (part[(below <= 0) & np.isfinite(m)] for part in (x, m, below))
        parts = run("ldexp", run("exp_frac", x, dtype=kind), below + bias, dtype=kind)
    term = run(name, x, m, dtype=kind)
    assert np.array_equal(term, parts, equal_nan=True)
    assert not np.signbit(term[term == 0]).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_scaled_exponential_is_made_of_its_parts(dtype: str) -> None:
    """Also where x log2e lies halfway between two whole numbers; 0 at the floor of its range."""
    kind = DTYPES[dtype]
    lowest = {F32: -126, F64: -1022}[kind]
    rng = np.random.default_rng(8)
    m = (2 * rng.integers(-400, 400, 20_000)).astype(kind.numpy_name)
    n = m + rng.integers(lowest + 2, 1, m.size)
    x = ((n + rng.choice([-0.5, 0.0, 0.25, 0.5], m.size)) * math.log(2.0)).astype(kind.numpy_name)
    whole = run("exp_int", x, dtype=kind)
    inside = whole >= m + lowest + 2
    parts = run("ldexp", run("exp_frac", x, dtype=kind), whole - m - 1, dtype=kind)
    assert np.array_equal(run("exp_scaled", x, m, dtype=kind)[inside], parts[inside])
    floor = ((m + lowest) * math.log(2.0)).astype(kind.numpy_name)
    assert not run("exp_scaled", floor, m, dtype=kind).any()


NANS = {
    F32: (np.uint32, [0x7FC00000, 0xFFC00000, 0x7FFFFFFF, 0xFFD12345]),
    F64: (np.uint64, [0x7FF8 << 48, 0xFFF8 << 48]),
}
"""Those that x86, ARM and a GPU make of 0 / 0, and others."""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*ELEMENTARY, *APPROXIMATE])
def test_the_bits_of_a_nan_never_show(name: str, dtype: str) -> None:
    """Machines make different ones: a program that takes such bits for a number has other results on each."""
    kind, [container, patterns] = DTYPES[dtype], NANS[DTYPES[dtype]]
    whole = program(name, kind)
    others = np.asarray([-3.0, -0.0, 2.0, 1e30, INF, -INF, NAN], kind.numpy_name)
    for place in range(whole.arity):
        operands = [others] * whole.arity
        results = []
        for pattern in patterns:
            operands[place] = np.full(others.size, pattern, container).view(kind.numpy_name)
            results.append(evaluate(whole, *operands))
        assert all(np.array_equal(results[0], result, equal_nan=True) for result in results)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["exp_term", "exp_lifted"])
def test_a_term_beside_an_exponent_that_is_none_is_none(name: str, dtype: str) -> None:
    assert np.isnan(run(name, [1.0, -INF, NAN], [NAN, NAN, 3.0], dtype=DTYPES[dtype])).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["exp_term", "exp_lifted"])
def test_no_product_of_a_masked_place_becomes_too_small(name: str, dtype: str) -> None:
    """A processor stops for it, once in every vector of a mask."""
    kind = DTYPES[dtype]
    x = np.asarray([-INF, -kind.largest, -1e5], kind.numpy_name)
    whole = program(name, kind)
    products = [number for number, step in enumerate(whole.steps) if step.op == "mul"]
    for number in products:
        before = replace(whole, steps=whole.steps[:number])
        operands = [evaluate(_with_last(before, place), x, np.zeros_like(x)) for place in whole.steps[number].args]
        with np.errstate(all="ignore"):
            made = np.broadcast_to(operands[0] * operands[1], x.shape)
        asked = np.broadcast_to((operands[0] != 0) & (operands[1] != 0), x.shape)
        assert products and (np.isnan(made) | ~asked | (abs(made) >= np.finfo(kind.numpy_name).tiny)).all()


@pytest.mark.parametrize("name", ELEMENTARY)
def test_near_quotients_are_far_from_the_ends_of_the_range(name: str) -> None:
    whole = program(name, F32)
    bits = np.random.default_rng(3).integers(0, 2**32, 4000, dtype=np.uint32).view(np.float32)
    x = np.concatenate([sample(-30, 30, 4000), bits, np.float32([0.0, -0.0, INF, -INF, 3.0, np.nextafter(3, 4)])])
    for number, step in enumerate(whole.steps):
        if not step.near:
            continue
        before = replace(whole, steps=whole.steps[:number])
        operands = [evaluate(_with_last(before, place), *[x] * whole.arity) for place in step.args]
        numerator, divisor = np.broadcast_arrays(*operands)
        numbers = ~(np.isnan(numerator) | np.isnan(divisor)) & _shows(whole, number, x)
        for part in (divisor[numbers], abs(numerator[numbers & (numerator != 0)])):
            assert part.min() >= 2.0**-65 and part.max() <= 2.0**60


def _shows(whole: Program, number: int, x: np.ndarray) -> np.ndarray:
    """Where the result depends on a step: it is NaN if that step is."""
    steps = (*whole.steps[:number], Step("constant", (), np.nan), *whole.steps[number + 1 :])
    return np.isnan(evaluate(replace(whole, steps=steps), *[x] * whole.arity))


def _with_last(whole: Program, place: int) -> Program:
    """The program of one of its values: the value is its own absolute value with its sign."""
    count = whole.arity + len(whole.steps)
    steps = (*whole.steps, Step("abs", (place,)), Step("copysign", (count, place)))
    return replace(whole, steps=steps)


def test_programs_refuse_other_dtypes() -> None:
    with pytest.raises(TypeError, match="exp takes 1 arrays of float32"):
        evaluate(program("exp", F32), np.ones(3))


def test_what_is_rarely_needed_runs_where_it_is_needed() -> None:
    rare, d = Draft(F32, 1), Draft(F32, 1)
    twice = rare.finish("twice", rare.inputs[0] + rare.inputs[0])
    whole = d.finish("whole", d.when(d.constant(1.0) < d.inputs[0], twice, d.inputs, d.inputs[0]))
    assert evaluate(whole, np.float32([0.5, 1.0])).tolist() == [0.5, 1.0]
    assert "evaluators" not in vars(twice)
    assert evaluate(whole, np.float32([0.5, 3.0])).tolist() == [0.5, 6.0]


@pytest.mark.parametrize("at", [2.0, 0.0, -0.0])
@pytest.mark.parametrize("keeps_smaller", [True, False])
@pytest.mark.parametrize("constant_first", [True, False])
def test_selections_at_a_constant_are_minima_or_maxima(at: float, keeps_smaller: bool, constant_first: bool) -> None:
    d = Draft(F32, 1)
    pair = (d.constant(at), d.inputs[0]) if constant_first else (d.inputs[0], d.constant(at))
    cut = d.finish("cut", d.select(pair[0] < pair[1] if keeps_smaller else pair[1] < pair[0], *pair))
    name = cut_of(cut, cut.steps[-1])
    assert (name is None) <= (at == 0.0)
    if name is not None:
        x = np.float32([0.0, -0.0, 1.0, -1.0, 2.0, 3.0, INF, -INF, np.nan])
        assert evaluate(cut, x).tobytes() == _ieee(name, x, np.float32(at)).tobytes()


def _ieee(name: str, x: np.ndarray, at: np.float32) -> np.ndarray:
    """`minnum` and its like, -0 below +0."""
    below = (x < at) | ((x == at) & (np.signbit(x) > np.signbit(at)))
    found = np.where(below if name.startswith("min") else ~below, x, at)
    return np.where(np.isnan(x), x if name.endswith("imum") else at, found).astype(np.float32)
