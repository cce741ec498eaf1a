"""`vmap`, `scan` and their kin, from the text to the compiled result: each is the loop it stands for."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tessera
from tesserac import cli
from tesserac.base.source import SourceFile
from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import Session
from tesserac.ops.error_functions import Erf
from tesserac.target.cpu.build import host_platform
from tests.graph.test_grad import numerically
from tests.support.checking import diagnose
from tests.support.paths import ROOT

PROGRAM = """
struct MLP[D, H]:
    w1: Tensor[D, H, f64] = normal(D, H, dtype=f64)
    w2: Tensor[H, f64] = zeros(H, dtype=f64)
    steps: Tensor[i32] = cast(0, i32)

    def apply(self, x: Tensor[D, f64]) -> Tensor[f64]:
        return tanh(x @ self.w1) @ self.w2

def forward(m: MLP[D, H], x: Tensor[D, f64]) -> Tensor[f64]:
    return m(x)

def batch(m: MLP[D, H], x: Tensor[B, D, f64]) -> Tensor[B, f64]:
    return vmap(forward, in_axes=(None, 0))(m, x)

def per_sample(m: MLP[D, H], x: Tensor[B, D, f64]) -> Tensor[B, D, H, f64]:
    g = vmap(grad(forward), in_axes=(None, 0))(m, x)
    return g.w1

def one_sample(m: MLP[D, H], x: Tensor[D, f64]) -> Tensor[D, H, f64]:
    g = grad(forward)(m, x)
    return g.w1

def jacobians(m: MLP[D, H], x: Tensor[B, D, f64]) -> (Tensor[B, D, H, f64], Tensor[B, H, f64]):
    j = jacrev(batch)(m, x)
    k = jacfwd(batch)(m, x)
    return j.w1, k.w2

def of_batch(m: MLP[D, H], x: Tensor[B, D, f64]) -> Tensor[D, H, f64]:
    g = grad(lambda m: sum(batch(m, x)))(m)
    return g.w1

def ensemble(ms: List[3, MLP[D, H]], x: Tensor[D, f64]) -> (Tensor[f64], Tensor[3, f64]):
    return scan(lambda total, m: (total + m(x), m(x)), 0.0, ms)

def pick(x: Tensor[N, f64], c: Tensor[f64]) -> Tensor[f64]:
    y = sum(x)
    if c > 0.0:
        y = y * c
        assert c < 100.0, "small"
    else:
        y = y - c
    return y

def branches(x: Tensor[B, N, f64], c: Tensor[B, f64]) -> Tensor[B, f64]:
    return vmap(pick)(x, c)

def one_branch(x: Tensor[B, N, f64], c: Tensor[f64]) -> Tensor[B, f64]:
    return vmap(pick, in_axes=(0, None))(x, c)

def branch_slopes(x: Tensor[B, N, f64], c: Tensor[B, f64]) -> (Tensor[B, f64], Tensor[B, f64]):
    return vmap(grad(pick, wrt="c"))(x, c), grad(lambda c: sum(vmap(pick)(x, c)))(c)

def collatz(n: Tensor[i64]) -> Tensor[i64]:
    k = cast(0, i64)
    while n > 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        k = k + 1
    return k

def lengths(n: Tensor[B, i64]) -> Tensor[B, i64]:
    return vmap(collatz)(n)

def turns(x: Tensor[f64], w: Tensor[N, f64]) -> Tensor[N, f64]:
    h = w
    for i in range(N):
        h = sin(h * x + w[i])
    return h

def all_turns(x: Tensor[B, f64], w: Tensor[N, f64]) -> Tensor[B, N, f64]:
    return vmap(turns, in_axes=(0, None))(x, w)

def turn_slopes(x: Tensor[B, f64], w: Tensor[N, f64]) -> (Tensor[B, f64], Tensor[B, f64]):
    each = vmap(grad(lambda x: sum(turns(x, w))))(x)
    return each, grad(lambda x: sum(all_turns(x, w)))(x)

def twice(x: Tensor[B, f64]) -> Tensor[B, f64]:
    return vmap(lambda a, v: a * sum(v), in_axes=(0, None))(x, x)

def kernel(x: Tensor[A, D, f64], y: Tensor[B, D, f64]) -> Tensor[A, B, f64]:
    return vmap(lambda a: vmap(lambda b: exp(-sum((a - b) ** 2)))(y))(x)

def kernel_slope(x: Tensor[A, D, f64], y: Tensor[B, D, f64]) -> Tensor[A, D, f64]:
    return grad(lambda x: sum(kernel(x, y)))(x)

def powers(n: int, x: Tensor[f64]) -> (Tensor[f64], Tensor[n, f64]):
    return scan(lambda c, _: (c * 1.5, c), x, None, length=n)

def pairs(x: Tensor[T, f64], y: Tensor[T, 2, f64]) -> (Tensor[2, f64], (Tensor[T, f64], Tensor[T, 2, f64])):
    return scan(lambda c, p: (c + p[1], (p[0] * sum(c), c)), zeros(2, dtype=f64), (x, y))

def recurrent(w: Tensor[D, D, f64], xs: Tensor[T, D, f64]) -> (Tensor[D, f64], Tensor[T, f64]):
    return scan(lambda h, x: (tanh(w @ h + x), sum(h)), zeros(D, dtype=f64), xs)

def recurrent_sum(w: Tensor[D, D, f64], xs: Tensor[T, D, f64]) -> Tensor[f64]:
    return sum(recurrent(w, xs)[1])

def recurrent_slope(w: Tensor[D, D, f64], xs: Tensor[T, D, f64]) -> Tensor[D, D, f64]:
    return grad(recurrent_sum)(w, xs)

def mapped_recurrent(w: Tensor[D, D, f64], xs: Tensor[B, T, D, f64]) -> Tensor[B, T, f64]:
    return vmap(lambda xs: recurrent(w, xs)[1])(xs)

def noisy(x: Tensor[D, f32]) -> Tensor[D, f32]:
    return x + normal(D)

def noise(xs: Tensor[T, D, f32]) -> Tensor[T, D, f32]:
    return vmap(noisy)(xs)

def noise_of_loop(xs: Tensor[T, D, f32]) -> Tensor[T, D, f32]:
    ys = zeros(T, D)
    for i in range(T):
        ys[i] = noisy(xs[i])
    return ys

def from_keys(k: Tensor[B, u64]) -> Tensor[B, 3, f32]:
    return vmap(lambda k: normal(3, key=k))(k)

def from_key(k: Key) -> Tensor[3, f32]:
    return normal(3, key=k)

def on_mesh(x: Tensor[B, f32]) -> Tensor[B, f32]:
    mesh = dist.Mesh(axes=["dp"], devices=range(1))
    return pmap(lambda v: v * 2.0, axis_name="dp", mesh=mesh)(x)

def mapped_softmax(x: Tensor[B, T, N, f32]) -> (Tensor[B, T, N, f32], Tensor[B, T, N, f32]):
    return vmap(softmax)(x), softmax(x)

def cubic(x: Tensor[D, f64]) -> Tensor[f64]:
    return sum(x ** 3 * sin(x))

def curvature(x: Tensor[D, f64], v: Tensor[D, f64]) -> (Tensor[D, D, f64], Tensor[D, f64]):
    return hessian(cubic)(x), hvp(cubic)(x, v)

def scaled(x: Tensor[N, f64], s: Tensor[f64]) -> Tensor[N, f64]:
    return sin(x) * s

@vjp_of(scaled)
def back(x: Tensor[N, f64], s: Tensor[f64], y: Tensor[N, f64], c: Tensor[N, f64]) -> (Tensor[N, f64], Tensor[f64]):
    return c * x * 10.0, sum(c)

def own_rule(x: Tensor[B, N, f64], s: Tensor[f64]) -> (Tensor[B, N, f64], Tensor[f64]):
    return grad(lambda x, s: sum(vmap(scaled, in_axes=(0, None))(x, s)), wrt=(0, 1))(x, s)

def square(x: Tensor[f64]) -> Tensor[f64]:
    return x * x

@jvp_of(square)
def square_change(x: Tensor[f64], y: Tensor[f64], dx: Tensor[f64]) -> Tensor[f64]:
    return 7.0 * x * dx

def equal_sizes(x: Tensor[A, N, f64], y: Tensor[B, N, f64]) -> Tensor[A, f64] where A == B:
    return vmap(jit(lambda u, v: u @ v))(x, y)

def root(a: Tensor[f64]) -> Tensor[f64]:
    x = a
    while abs(x * x - a) > 1e-9:
        x = 0.5 * (x + a / x)
    return x

def root_slopes(a: Tensor[B, f64]) -> (Tensor[B, f64], Tensor[B, f64], Tensor[B, f64]):
    along = vmap(lambda a: jvp(root, (a,), (cast(1.0, f64),))[1])(a)
    return vmap(grad(root))(a), grad(lambda a: sum(vmap(root)(a)))(a), along

def again(w: Tensor[D, f64], x: Tensor[D, f64]) -> Tensor[f64]:
    return sum(checkpoint(lambda w, x: sin(w * x))(w, x))

def again_slopes(w: Tensor[D, f64], x: Tensor[B, D, f64]) -> (Tensor[B, D, f64], Tensor[D, f64]):
    each = vmap(grad(again), in_axes=(None, 0))(w, x)
    return each, grad(lambda w: sum(vmap(again, in_axes=(None, 0))(w, x)))(w)

def own_curve(x: Tensor[B, f64]) -> Tensor[B, f64]:
    return grad(lambda x: sum(vmap(grad(square))(x) ** 2))(x)
"""


@pytest.fixture(scope="module")
def program() -> tessera.Module:
    return tessera.compile(PROGRAM)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def model(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {"w1": rng.normal(size=(3, 4)), "w2": rng.normal(size=4), "steps": np.int32(3)}


def same(found: np.ndarray, rows: list[np.ndarray]) -> None:
    np.testing.assert_array_equal(found, np.stack(rows))


@pytest.mark.one_in(48)
def test_structs(program: tessera.Module, rng: np.random.Generator) -> None:
    m, x = model(rng), rng.normal(size=(5, 3))
    same(program.batch(m, x), [program.forward(m, row) for row in x])
    same(program.per_sample(m, x), [program.one_sample(m, row) for row in x])
    np.testing.assert_allclose(program.of_batch(m, x), program.per_sample(m, x).sum(0), rtol=1e-13)


@pytest.mark.one_in(8)
def test_jacobians_of_structs(program: tessera.Module, rng: np.random.Generator) -> None:
    m, x = model(rng), rng.normal(size=(5, 3))
    by_w1, by_w2 = program.jacobians(m, x)
    np.testing.assert_allclose(by_w1, program.per_sample(m, x), rtol=1e-13)
    np.testing.assert_allclose(by_w2, np.tanh(x @ m["w1"]), rtol=1e-13)


@pytest.mark.one_in(3)
def test_curvature(program: tessera.Module, rng: np.random.Generator) -> None:
    x, v = rng.normal(size=4), rng.normal(size=4)
    found, along = program.curvature(x, v)
    expected = np.diag(6 * x * np.sin(x) + 6 * x**2 * np.cos(x) - x**3 * np.sin(x))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(along, expected @ v, atol=1e-12)


@pytest.mark.one_in(3)
def test_branches(program: tessera.Module, rng: np.random.Generator) -> None:
    x, c = rng.normal(size=(5, 3)), rng.normal(size=5)
    same(program.branches(x, c), [program.pick(*row) for row in zip(x, c, strict=True)])
    same(program.one_branch(x, c[0]), [program.pick(row, c[0]) for row in x])
    each, together = program.branch_slopes(x, c)
    np.testing.assert_allclose(each, np.where(c > 0, x.sum(1), -1.0), rtol=1e-14)
    np.testing.assert_array_equal(each, together)


def test_an_assertion_holds_for_the_elements_that_come_there(program: tessera.Module) -> None:
    x = np.ones((3, 2))
    program.branches(x, np.array([1.0, -200.0, 2.0]))
    with pytest.raises(tessera.TesseraError, match="small"):
        program.branches(x, np.array([1.0, -200.0, 200.0]))


@pytest.mark.one_in(12)
def test_loops(program: tessera.Module, rng: np.random.Generator) -> None:
    numbers = np.array([1, 7, 27, 4])
    same(program.lengths(numbers), [program.collatz(n) for n in numbers])
    x, w = rng.normal(size=5), rng.normal(size=4)
    same(program.all_turns(x, w), [program.turns(v, w) for v in x])
    each, together = program.turn_slopes(x, w)
    np.testing.assert_allclose(each, together, rtol=1e-13)
    np.testing.assert_allclose(each, numerically(lambda v: program.all_turns(v, w).sum(), x), rtol=1e-6, atol=1e-9)


@pytest.mark.one_in(16)
def test_loops_that_end_when_they_may(program: tessera.Module) -> None:
    a = np.array([2.0, 9.0, 0.3])
    for slope in program.root_slopes(a):
        np.testing.assert_allclose(slope, 0.5 / np.sqrt(a), rtol=1e-6)


def test_checkpoints(program: tessera.Module, rng: np.random.Generator) -> None:
    w, x = rng.normal(size=3), rng.normal(size=(4, 3))
    each, together = program.again_slopes(w, x)
    np.testing.assert_allclose(each, np.cos(w * x) * x, rtol=1e-13)
    np.testing.assert_allclose(together, each.sum(0), rtol=1e-13)


def test_sizes_that_facts_make_equal(program: tessera.Module, rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    np.testing.assert_allclose(program.equal_sizes(x, y), (x * y).sum(1), rtol=1e-13)


def test_one_value_mapped_and_not(program: tessera.Module, rng: np.random.Generator) -> None:
    x = rng.normal(size=5)
    np.testing.assert_allclose(program.twice(x), x * x.sum(), rtol=1e-13)


@pytest.mark.one_in(2)
def test_nested(program: tessera.Module, rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(2, 3))
    np.testing.assert_allclose(program.kernel(x, y), np.exp(-((x[:, None] - y) ** 2).sum(-1)), rtol=1e-13)
    slope = numerically(lambda v: program.kernel(v, y).sum(), x)
    np.testing.assert_allclose(program.kernel_slope(x, y), slope, rtol=1e-6, atol=1e-9)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("length", [0, 1, 6])
def test_scan(program: tessera.Module, rng: np.random.Generator, length: int) -> None:
    w, xs = rng.normal(size=(3, 3)), rng.normal(size=(length, 3))
    state, sums = np.zeros(3), []
    for x in xs:
        sums.append(state.sum())
        state = np.tanh(w @ state + x)
    last, found = program.recurrent(w, xs)
    np.testing.assert_allclose(last, state, rtol=1e-12)
    np.testing.assert_allclose(found, sums, rtol=1e-12)
    slope = numerically(lambda v: program.recurrent_sum(v, xs), w)
    np.testing.assert_allclose(program.recurrent_slope(w, xs), slope, rtol=1e-6, atol=1e-8)


@pytest.mark.one_in(3)
def test_a_mapped_scan(program: tessera.Module, rng: np.random.Generator) -> None:
    w, xs = rng.normal(size=(3, 3)), rng.normal(size=(4, 5, 3))
    same(program.mapped_recurrent(w, xs), [program.recurrent(w, own)[1] for own in xs])


@pytest.mark.one_in(4)
def test_scan_of_tuples_and_lists(program: tessera.Module, rng: np.random.Generator) -> None:
    last, rows = program.powers(3, 2.0)
    assert (last, list(rows)) == (6.75, [2.0, 3.0, 4.5])
    x, y = rng.normal(size=4), np.ones((4, 2))
    total, (scaled, before) = program.pairs(x, y)
    np.testing.assert_array_equal(total, [4, 4])
    np.testing.assert_array_equal(before, [[i, i] for i in range(4)])
    np.testing.assert_array_equal(scaled, x * 2 * np.arange(4))
    models, v = [model(rng) for _ in range(3)], rng.normal(size=3)
    total, each = program.ensemble(models, v)
    same(each, [program.forward(m, v) for m in models])
    assert total == each[0] + each[1] + each[2]


@pytest.mark.one_in(3)
def test_elements_draw_what_turns_of_a_loop_do(program: tessera.Module) -> None:
    x = np.zeros((4, 3), np.float32)
    program.seed(3)
    mapped = program.noise(x)
    program.seed(3)
    np.testing.assert_array_equal(mapped, program.noise_of_loop(x))
    assert len(np.unique(mapped)) == mapped.size
    keys = np.arange(4, dtype=np.uint64)
    same(program.from_keys(keys), [program.from_key(k) for k in keys])


def test_library_functions_keep_their_bits(program: tessera.Module, rng: np.random.Generator) -> None:
    mapped, plain = program.mapped_softmax(rng.normal(size=(2, 3, 700)).astype(np.float32))
    np.testing.assert_array_equal(mapped, plain)
    np.testing.assert_array_equal(program.on_mesh(np.ones(3, np.float32)), np.full(3, 2, np.float32))


def test_rules_of_the_program_are_mapped(program: tessera.Module, rng: np.random.Generator) -> None:
    x = rng.normal(size=(4, 3))
    by_x, by_s = program.own_rule(x, 2.0)
    np.testing.assert_array_equal(by_x, x * 10.0)
    assert by_s == x.size
    np.testing.assert_allclose(program.own_curve(x[:, 0].copy()), 98 * x[:, 0], rtol=1e-14)


MISTAKES = [
    ("vmap(sum, in_axes=(0, 0))(x)", "E0720"),
    ("vmap(sum, in_axes=2)(x)", "E0720"),
    ("vmap(sum, in_axes=None)(x)", "E0720"),
    ("vmap(sum, in_axes=1.5)(x)", "E0720"),
    ("vmap(sum, out_axes=1)(x)", "E0720"),
    ("vmap(lambda v: (v, v), out_axes=(0, 0, 0))(x)", "E0720"),
    ('vmap(sum, in_axes="M")(x)', "E0723"),
    ("vmap(lambda a, b: sum(a * b), in_axes=(0, 1))(x, x)", "E0721"),
    ("vmap(x)", "E0210"),
    ("jit(x)", "E0210"),
    ('pmap(sum, axis_name="tp", mesh=dist.Mesh(axes=["dp"], devices=range(1)))(x)', "E0604"),
    ("scan(lambda c, v: c + v, zeros(N), x)", "E0205"),
    ("scan(lambda c, v: (c, v), 0.0, None)", "E0205"),
    ("reduce(lambda c, v: sum(v), zeros(N), x)", "E0724"),
    ("map(sum)", "E0205"),
    ("hvp(lambda v: sum(v))(x)", "E0205"),
    ("hvp(lambda v: sum(v))(x, 1)", "E0210"),
    ('jacfwd(lambda v: v, wrt="w")(x)', "E0703"),
    ("jacrev(lambda v: v < 0.0)(x)", "E0702"),
]


@pytest.mark.parametrize(("call", "code"), MISTAKES)
def test_mistakes(call: str, code: str) -> None:
    text = f"def f(x: Tensor[B, N, f32]):\n    y = {call}\n    return x\n"
    found = [d.code for d in diagnose(SourceFile("mistake.tess", text)) if d.code.startswith("E")]
    assert found == [code]


WITHOUT_A_RULE = """
def bell(x: Tensor[N, f64]) -> Tensor[f64]:
    return sum(erf(x))

def f(x: Tensor[N, f64]) -> Tensor[N, f64]:
    return grad(bell)(x)
"""


def test_an_operator_without_a_rule_is_an_error_at_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """While checking, and where the checker does not see it, while compiling: never a zero."""
    session, source = Session(), SourceFile("rule.tess", WITHOUT_A_RULE)
    function = session.function(source, "f")
    monkeypatch.setattr(Erf, "not_differentiable", "nobody has written its rule")
    with pytest.raises(ProgramError) as caught:
        session.levels(source, function, host_platform().schedule, {})
    for (found,) in (diagnose(source), caught.value.diagnostics):
        assert found.code == "E0702" and "nobody has written its rule" in found.title
        assert source.slice(found.primary.span) == "erf(x)"


DOCS = ROOT / "docs"
PAGES = [(DOCS / name).read_text(encoding="utf-8") for name in ("transforms.md", "differentiation.md")]
EXAMPLES = [text for page in PAGES for text in re.findall(r"^```tess\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)]


@pytest.mark.one_in(48)
@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_of_the_page_hold(text: str, tmp_path: Path) -> None:
    path = tmp_path / "example.tess"
    path.write_text(text, encoding="utf-8")
    assert diagnose(SourceFile("example.tess", text)) == ()
    assert cli.main(cli.compiler, "tesserac", ["test", str(path)]) == 0
