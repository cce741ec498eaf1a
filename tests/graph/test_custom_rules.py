"""Derivatives that a program gives itself: which rule is used when, to what order, and when one is refused."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import tessera
from tesserac.graph.interp import run_function
from tests.support.source_support import compile_to_forms

PROGRAM = """
def cube(x: Tensor[N, f64]) -> Tensor[N, f64]:
    return x * x * x

@vjp_of(cube)
def cube_back(x: Tensor[N, f64], y: Tensor[N, f64], ct: Tensor[N, f64]) -> Tensor[N, f64]:
    return ct * 100.0 * x * x

def square(x: Tensor[N, f64]) -> Tensor[N, f64]:
    return x * x

@jvp_of(square)
def square_forward(x: Tensor[N, f64], y: Tensor[N, f64], dx: Tensor[N, f64]) -> Tensor[N, f64]:
    return 7.0 * square(x) * dx

def scaled(x: Tensor[N, f64], w: Tensor[f64], n: int) -> Tensor[N, f64]:
    return x * w * float(n)

@vjp_of(scaled)
def scaled_back(x: Tensor[N, f64], w: Tensor[f64], n: int, y: Tensor[N, f64], ct: Tensor[N, f64]):
    return ct * 10.0, cast(float(n), f64)

def product(x: Tensor[N, f64], w: Tensor[N, f64]) -> Tensor[N, f64]:
    return x * w

@jvp_of(product)
def product_forward(
    x: Tensor[N, f64], w: Tensor[N, f64], y: Tensor[N, f64], dx: Tensor[N, f64], dw: Tensor[N, f64]
) -> Tensor[N, f64]:
    return 3.0 * dx * w + dw * x

param offset: Tensor[2, f64] = ones(2, dtype=f64)

def noisy(x: Tensor[N, f64]) -> Tensor[N, f64]:
    return x * sum(offset) + uniform(N, dtype=f64)

@jvp_of(noisy)
def noisy_forward(x: Tensor[N, f64], y: Tensor[N, f64], dx: Tensor[N, f64]) -> Tensor[N, f64]:
    return 5.0 * dx

def positive(x: Tensor[N, f64]) -> Tensor[N, f64]:
    assert all(x > 0.0), "positive numbers"
    return log(x)

@vjp_of(positive)
def positive_back(x: Tensor[N, f64], y: Tensor[N, f64], ct: Tensor[N, f64]) -> Tensor[N, f64]:
    return ct / x

struct Box[N]:
    a: Tensor[N, f64] = ones(N, dtype=f64)
    k: Tensor[N, i32] = ones(N, dtype=i32)

def boxed(box: Box[N], s: float) -> Tensor[N, f64]:
    return box.a * s

@vjp_of(boxed)
def boxed_back(box: Box[N], s: float, y: Tensor[N, f64], ct: Tensor[N, f64]):
    return Box[N](a=11.0 * ct, k=box.k), sum(ct)

def maybe(x: Tensor[N, f64], m: Tensor[N, f64] | None = None) -> Tensor[N, f64]:
    return x if m is None else x * m

@jvp_of(maybe)
def maybe_forward(
    x: Tensor[N, f64], m: Tensor[N, f64] | None, y: Tensor[N, f64], dx: Tensor[N, f64], dm: Tensor[N, f64] | None
) -> Tensor[N, f64]:
    if dm is None:
        return 13.0 * dx
    else:
        return 17.0 * dx + 19.0 * dm

def parts(x: Tensor[N, f64]) -> (Tensor[N, f64], Tensor[N, f64], Tensor[N, f64]):
    inside = grad(lambda v: sum(boxed(Box[N](a=v), 2.0)))(x)
    return inside, grad(lambda v: sum(maybe(v)))(x), grad(lambda v: sum(maybe(v, v)))(x)

def by_one(x: Tensor[N, f64], w: Tensor[N, f64]) -> (Tensor[N, f64], Tensor[N, f64]):
    total = lambda a, b: sum(product(a, b))
    return grad(total)(x, w), grad(total, wrt=1)(x, w)

def mapped_noise(x: Tensor[B, N, f64]) -> (Tensor[B, N, f64], Tensor[B, N, f64]):
    return vmap(grad(lambda v: sum(noisy(v))))(x), grad(lambda v: sum(vmap(noisy)(v)))(x)

def unused(x: Tensor[N, f64]) -> Tensor[N, f64]:
    _ = positive(x)
    return x

def checkpointed(x: Tensor[N, f64]) -> Tensor[N, f64]:
    return grad(lambda v: sum(checkpoint(positive)(v) ** 2))(x)

def reverse(x: Tensor[N, f64]) -> Tensor[N, f64]:
    return grad(lambda v: sum(cube(v)))(x)

def twice(x: Tensor[N, f64]) -> Tensor[N, f64]:
    return grad(lambda u: sum(grad(lambda v: sum(cube(v)))(u)))(x)

def forward(x: Tensor[N, f64], dx: Tensor[N, f64]) -> (Tensor[N, f64], Tensor[N, f64]):
    return jvp(square, (x,), (dx,))

def transposed(x: Tensor[N, f64]) -> Tensor[N, f64]:
    return grad(lambda v: sum(square(v)))(x)

def in_a_loop(x: Tensor[N, f64]) -> Tensor[N, f64]:
    def total(v: Tensor[N, f64]) -> Tensor[f64]:
        for i in range(3):
            v = cube(v)
        return sum(v)
    return grad(total)(x)

def several(x: Tensor[N, f64], w: Tensor[f64]) -> (Tensor[N, f64], Tensor[f64]):
    return grad(lambda a, b: sum(scaled(a, b, 3)), wrt=(0, 1))(x, w)

def value(x: Tensor[N, f64]) -> Tensor[N, f64]:
    return cube(x)
"""
LOOPS = """
def turned(x: Tensor[N, f64], w: Tensor[N, f64]) -> Tensor[N, f64]:
    for i in range(2):
        for j in range(3):
            x = sin(x) * w
        if sum(x) > 0.0:
            x = x * x
        else:
            x = -x
    k = cast(0, i32)
    while k < 2:
        x, k = cos(x) * w, k + 1
    return x

def by_hand(x: Tensor[N, f64], w: Tensor[N, f64]) -> Tensor[N, f64]:
    return turned(x, w)

@jvp_of(by_hand)
def by_hand_forward(
    x: Tensor[N, f64], w: Tensor[N, f64], y: Tensor[N, f64], dx: Tensor[N, f64], dw: Tensor[N, f64]
) -> Tensor[N, f64]:
    for i in range(2):
        for j in range(3):
            dx, x = cos(x) * dx * w + sin(x) * dw, sin(x) * w
        if sum(x) > 0.0:
            dx, x = 2.0 * x * dx, x * x
        else:
            dx, x = -dx, -x
    k = cast(0, i32)
    while k < 2:
        dx, x, k = cos(x) * dw - sin(x) * dx * w, cos(x) * w, k + 1
    return dx

def both_ways(x: Tensor[N, f64], w: Tensor[N, f64]):
    a, b = lambda v, u: sum(by_hand(v, u) ** 2), lambda v, u: sum(turned(v, u) ** 2)
    return grad(a, wrt=(0, 1))(x, w), grad(b, wrt=(0, 1))(x, w), grad(a, wrt=1)(x, w)
"""
X = np.array([0.5, 1.0, 2.0])


@pytest.fixture(scope="module")
def program() -> tessera.Module:
    return tessera.compile(PROGRAM)


@pytest.mark.one_in(2)
def test_reverse_mode_goes_by_the_rule(program: tessera.Module) -> None:
    np.testing.assert_array_equal(program.value(X), X * X * X)
    np.testing.assert_allclose(program.reverse(X), 100 * X**2, rtol=1e-15)
    np.testing.assert_allclose(program.twice(X), 200 * X, rtol=1e-15)


def test_forward_mode_goes_by_the_rule_and_is_transposed(program: tessera.Module) -> None:
    value, change = program.forward(X, np.ones(3))
    np.testing.assert_array_equal(value, X * X)
    np.testing.assert_allclose(change, 7 * X**2, rtol=1e-15)
    np.testing.assert_allclose(program.transposed(X), 7 * X**2, rtol=1e-15)


def test_a_rule_inside_a_loop(program: tessera.Module) -> None:
    expected, v = np.ones(3), X
    for _ in range(3):
        expected, v = expected * 100 * v**2, v**3
    np.testing.assert_allclose(program.in_a_loop(X), expected, rtol=1e-13)


def test_several_arguments_and_a_static_one(program: tessera.Module) -> None:
    by_x, by_w = program.several(X, 2.0)
    np.testing.assert_array_equal(by_x, [10.0] * 3)
    assert by_w == 3.0


def test_a_rule_for_several_arguments_serves_one_of_them(program: tessera.Module) -> None:
    by_x, by_w = program.by_one(X, 2 * X)
    np.testing.assert_array_equal(by_x, 6 * X)
    np.testing.assert_array_equal(by_w, X)


def test_rules_of_structs_numbers_and_optional_arguments(program: tessera.Module) -> None:
    for found, expected in zip(program.parts(X), (11.0, 13.0, 36.0), strict=True):
        np.testing.assert_array_equal(found, [expected] * 3)


@pytest.mark.one_in(24)
def test_a_rule_may_have_loops_and_branches() -> None:
    found = run_function(compile_to_forms(LOOPS), "m.both_ways", [X, np.array([1.1, -0.7, 0.9])])
    by_x, by_w, plain_x, plain_w, alone = found
    np.testing.assert_allclose([by_x, by_w, alone], [plain_x, plain_w, plain_w], rtol=1e-12)


def test_a_function_with_a_rule_may_read_params_and_draw(program: tessera.Module) -> None:
    for found in program.mapped_noise(np.stack([X, 2 * X])):
        np.testing.assert_array_equal(found, np.full((2, 3), 5.0))


def test_what_a_function_with_a_rule_asserts_holds_where_nobody_uses_it(program: tessera.Module) -> None:
    np.testing.assert_array_equal(program.unused(X), X)
    np.testing.assert_allclose(program.checkpointed(X), 2 * np.log(X) / X, rtol=1e-14, atol=1e-15)
    for function in (program.unused, program.checkpointed):
        with pytest.raises(tessera.TesseraError, match="positive numbers"):
            function(-X)


NESTED = """
def inner(a: Tensor[P, P, f64], x: Tensor[P, f64]):
    return a @ x

@vjp_of(inner)
def inner_back(a: Tensor[P, P, f64], x: Tensor[P, f64], y, ct):
    return outer(ct, x), 5.0 * (a.T @ ct)

def rows(a: Tensor[K, K, f64], x: Tensor[3, K, f64]):
    return vmap(lambda row: inner(a, row))(x)

@vjp_of(rows)
def rows_back(a: Tensor[K, K, f64], x: Tensor[3, K, f64], y, ct):
    back = vmap(grad(lambda row: sum(inner(a, row))))(x)
    return ct.T @ x, 2.0 * back

def both(a: Tensor[N, N, f64], x: Tensor[3, N, f64]):
    return rows(a, x), grad(lambda v: sum(rows(a, v)))(x)
"""


def test_a_mapped_function_within_one_that_has_rules_has_the_sizes_of_the_caller() -> None:
    a, x = np.arange(16.0).reshape(4, 4), np.arange(12.0).reshape(3, 4)
    found, slope = tessera.compile(NESTED)["both"](a, x)
    assert np.array_equal(found, x @ a.T)
    assert np.array_equal(slope, np.broadcast_to(10.0 * a.sum(0), (3, 4)))


BY_TURNS = """
def halved(x: Tensor[f64]):
    assert x > 1.0, "only what is above 1"
    n = x
    while n > 3.0:
        n = n - 1.0
    return x / 2.0 + 0.0 * n

@vjp_of(halved)
def halved_back(x: Tensor[f64], y, ct):
    return ct * 7.0

def down(x: Tensor[f64]):
    while x > 1.0:
        x = halved(x)
    return x

@vjp_of(down)
def down_back(x: Tensor[f64], y, ct):
    return ct

def above(x: Tensor[f64]):
    return halved(x) if x > 1.0 else x

def each(x: Tensor[N, f64]):
    return vmap(down)(x), vmap(above)(x), vmap(grad(above))(x)
"""


def test_a_function_with_a_rule_is_asked_for_elements_that_come_to_it() -> None:
    """Its assertion fails for others. Where its caller has a rule too, which elements come to it is known in a function
    that is pasted into another."""
    x = np.array([9.0, 0.5, 1.0, 1.5, 40.0])
    low, once, slope = tessera.compile(BY_TURNS)["each"](x)
    assert np.array_equal(low, [0.5625, 0.5, 1.0, 0.75, 0.625])
    assert np.array_equal(once, np.where(x > 1, x / 2, x))
    assert np.array_equal(slope, np.where(x > 1, 7.0, 1.0))
    run_function(compile_to_forms(BY_TURNS), "m.each", [x])


DOUBLED = """
def twice(x: Tensor[N, f64]) -> Tensor[N, f64]:
    return 2.0 * x

@vjp_of(twice)
def _twice(x: Tensor[N, f64], y: Tensor[N, f64], ct: Tensor[N, f64]) -> Tensor[N, f64]:
    return twice(concat([x, ct]))[N:] * 5.0

def f(x: Tensor[B, N, f64]):
    return vmap(twice)(x), grad(lambda v: sum(vmap(twice)(v) ** 2))(x)

def nested(x: Tensor[A, B, N, f64]):
    return vmap(lambda v: vmap(twice)(v))(x), grad(lambda v: sum(vmap(vmap(twice))(v) ** 2))(x)
"""


@pytest.mark.one_in(2)
def test_a_rule_that_calls_its_function_at_another_size_is_mapped_once() -> None:
    """As that of `expm` does, with a matrix of twice the size; each size had a mapped function, without end."""
    program, x = tessera.compile(DOUBLED), np.arange(24.0).reshape(2, 3, 4)
    for function, given in ((program.f, x[0]), (program.nested, x)):
        value, slope = function(given)
        np.testing.assert_array_equal(value, 2 * given)
        np.testing.assert_array_equal(slope, 2 * 2 * given * 2 * 5)


def failure(program: str, function: str) -> str:
    with pytest.raises(tessera.TesseraError) as caught:
        getattr(tessera.compile(program), function)(X)
    return str(caught.value)


def test_forward_mode_of_a_function_with_a_reverse_rule_is_refused() -> None:
    text = failure(PROGRAM + "\ndef f(x: Tensor[N, f64]):\n    return jvp(cube, (x,), (x,))\n", "f")
    assert "E0702" in text and "`@vjp_of`" in text


def test_a_forward_rule_that_is_not_linear_is_refused() -> None:
    program = PROGRAM.replace("7.0 * square(x) * dx", "dx * dx")
    assert "E0705" in failure(program, "transposed")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x: Tensor[N, f64], y: Tensor[N, f64], ct: Tensor[N, f64]) ->", "x: Tensor[N, f64], ct: Tensor[N, f64]) ->"),
        ("-> Tensor[N, f64]:\n    return ct * 100.0 * x * x", "-> Tensor[f64]:\n    return sum(ct)"),
        ("@vjp_of(cube)", "@vjp_of(sin)"),
    ],
)
def test_a_rule_that_does_not_fit_is_refused(before: str, after: str) -> None:
    assert before in PROGRAM
    assert "E0705" in failure(PROGRAM.replace(before, after), "reverse")


COUNTED = """
def doubled(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return x * 2.0

@vjp_of(doubled)
def doubled_back(x: Tensor[N, f32], y, ct):
    for i in range(N):
        for i_1 in range(i):
            ct[i_1] += 1.0
        ct[i] += 100.0
    return ct

def slope(x: Tensor[N, f32]) -> Tensor[N, f32]:
    for i in range(2):
        x = x + 1.0
    return grad(lambda z: sum(doubled(z)))(x)
"""


def test_a_counter_that_is_renamed_is_none_of_the_rule_itself() -> None:
    (found,) = run_function(compile_to_forms(COUNTED), "m.slope", (np.zeros(4, np.float32),))
    assert found.tolist() == [104.0, 103.0, 102.0, 101.0]


def test_equal_calls_that_assert_are_one_and_have_one_cotangent() -> None:
    """A rule that sees all uses of a value knows more than of each alone. What prints does so as often as written."""
    positive = PROGRAM[PROGRAM.index("def positive") : PROGRAM.index("@vjp_of(positive)")]
    back = PROGRAM[PROGRAM.index("@vjp_of(positive)") : PROGRAM.index("struct Box")]
    use = "def f(x: Tensor[N, f64]):\n    return {}\n"
    once = use.format("grad(lambda v: sum(positive(v) * positive(v)))(x)")
    aloud = positive.replace("    return log", '    print("log")\n    return log') + back
    twice = use.format("positive(x) * positive(x)")
    both = {"form.assert": 2, "form.print": 2}
    for text, count in ((positive + back + once, {"form.assert": 1}), (aloud + twice, both)):
        f = next(function for function in compile_to_forms(text).ops if function.symbol.endswith("f"))
        assert Counter(op.name for op in f.walk() if op.opdef.effect) == count, text
