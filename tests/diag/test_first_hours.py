"""What users of PyTorch and Triton write in the first hours: one mistake, one message, and its first fix is right."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tests.diag.test_growing_lists import mended, offered

LINES = [
    ("torch.manual_seed(0)", ""),
    ("torch.backends.cuda.synchronize()", ""),
    ('dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")', ""),
    ('dev = "cuda" if torch.cuda.is_available() else "cpu"', ""),
    ("y = (x @ w).flatten() @ v", "y = (x @ w).flatten(1) @ v"),
    ("y = x.mean(1, keepdim=True).squeeze(0)", "y = x.mean(1, keepdim=True).squeeze(1)"),
]


@pytest.mark.parametrize(("wrong", "right"), LINES)
def test_a_line(wrong: str, right: str) -> None:
    head = "def f(x: Tensor[B, 2, D, f32], w: Tensor[D, 3, f32], v: Tensor[6, H, f32]):\n"
    if "squeeze" in wrong:
        head = "def f(x: Tensor[B, D, f32]):\n"
    last = "    return y\n" if "y =" in wrong else "    return x\n"
    text = f"{head}    {wrong}\n{last}"
    assert len(offered(text)) == 1
    assert mended(text) == f"{head}    {right}\n{last}" if right else f"{head}{last}"


def test_the_share_of_right_answers() -> None:
    """The mean of bools is f64, which nobody asked for."""
    text = """def share(x: Tensor[B, C, f32], y: Tensor[B, i64]) -> Tensor[f32]:
    return (x.argmax(1) == y).mean()
"""
    assert tessera.compile(mended(text)).share(np.eye(4, dtype="f4"), np.array([0, 1, 2, 0])) == np.float32(0.75)


def test_a_result_of_wider_arguments_is_declared_so() -> None:
    text = "def f(x: Tensor[N, f64]) -> Tensor[f32]:\n    return sum(x)\n"
    assert offered(text)[0].fixes[0].title == "declare the result as f64"


def test_what_is_done_when_a_file_runs() -> None:
    text = 'if __name__ == "__main__":\n    print(ones(3))\n'
    assert mended(text) == "def main():\n    print(ones(3))\n"


def test_a_network_of_any_kind() -> None:
    text = "def f({}, x: Tensor[B, D, f32]):\n    return model(x)\n"
    assert mended(text.format("model: nn.Module")) == text.format("model")


def test_labels_that_are_floats() -> None:
    text = "def f(x: Tensor[B, C, f32], y: Tensor[B, f32]):\n    return mean(cross_entropy(x, {}))\n"
    assert mended(text.format("y")) == text.format("cast(y, i32)")


def test_a_step_gives_weights_and_a_state() -> None:
    text = """def f(w: Tensor[D, f32], g: Tensor[D, f32]) -> Tensor[D, f32]:
    state = adam_init(w)
    for i in range(9):
        {} = adam(w, g, state, lr=0.1)
    return w
"""
    assert mended(text.format("w")) == text.format("w, state")


def test_rows_that_are_counted() -> None:
    text = """def f(xs: Tensor[N, D, f32], ys: Tensor[N, f32], w: Tensor[D, f32]) -> Tensor[f32]:
    total = 0.0
    for i, (x, y) in enumerate(zip(xs, ys)):
        total += (x @ w - y) ** 2
    return total
"""
    xs, ys, w = np.arange(6, dtype="f4").reshape(3, 2), np.ones(3, "f4"), np.array([1, 2], "f4")
    assert len(offered(text)) == 1
    assert tessera.compile(mended(text)).f(xs, ys, w) == ((xs @ w - ys) ** 2).sum()


def test_words_of_triton() -> None:
    text = """@kernel
def f(x: KTile[M, N, f32]) -> Tile[M, N, f32]:
    T = tile.context()
    row = tile.load(x, rows=T.m)
    e = tl.exp(row - tl.max(row, axis=1))
    return e / tl.sum(e, axis=1)

def g(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return f[(ceil_div(M, 64),)](x)
"""
    x = np.random.default_rng(0).normal(size=(5, 70)).astype("f4")
    expected = np.exp(x - x.max(1, keepdims=True))
    got = tessera.compile(mended(text, steps=9)).g(x)
    np.testing.assert_allclose(got, expected / expected.sum(1, keepdims=True), rtol=1e-5)


def test_a_float_for_the_bits_of_a_generator_is_told() -> None:
    assert [d.code for d in offered("def f(k: Key):\n    return random_bits(8, 5)\n")]


@pytest.mark.parametrize("product", ["2 @ 3", "2.0 @ 0.5"])
def test_a_product_of_matrices_of_two_numbers(product: str) -> None:
    text = "def f(x: Tensor[N, f32]):\n    return x * ({})\n"
    assert mended(text.format(product)) == text.format(product.replace("@", "*"))


def test_what_needs_dims_is_given_a_number() -> None:
    assert [d.code for d in offered("def f(x: Tensor[N, f32]):\n    return x * diagonal(2.0)\n")] == ["E0311"]


def test_fractions_of_numbers() -> None:
    text = "def f(x: Tensor[N, f32]):\n    return x * array([{}])[0]\n"
    assert mended(text.format("1/36, 4 / 9")) == text.format("1.0 / 36, 4.0 / 9")


def test_fields_in_the_order_of_the_declaration() -> None:
    text = """struct Belief[N]:
    mean: Tensor[N, f32]
    cov: Tensor[N, N, f32]

def f(x: Tensor[N, f32], c: Tensor[N, N, f32]):
    return Belief({})
"""
    assert mended(text.format("x, c")) == text.format("mean=x, cov=c")
    assert mended(text.format("c, mean=x")) == text.format("cov=c, mean=x")


def test_a_mistake_in_what_is_differentiated_names_its_function() -> None:
    text = """def loss(x: Tensor[N, f32], y: Tensor[N, i32]):
    return sum(x * cast(y, f32))

def f(x: Tensor[N, f32], y: Tensor[N, i64]):
    return grad(loss)(x, y)
"""
    (diagnostic,) = offered(text)
    assert "`y` of `loss` is declared here" in [label.text for label in diagnostic.secondary]


def test_a_key_is_split_into_as_many_as_are_said() -> None:
    (diagnostic,) = offered("def f(k: Key):\n    return split(k)\n")
    assert any("`split(key, 2)`" in note for note in diagnostic.notes)


def test_two_halves_handed_to_a_function_are_the_whole() -> None:
    text = """def mix(h: Tensor[N, f32], k: Tensor[N, f32]):
    return sum(h * k)

def f(x: Tensor[N, f32]){}:
    half = x[:N // 2]
    return mix(x, concat([half, half]))
"""
    assert mended(text.format("")) == text.format(" where N % 2 == 0")


def test_a_list_that_is_read_at_places_of_the_run_is_a_tensor() -> None:
    text = """def f(x: Tensor[9, f32], pair: (Tensor[N, f32], Tensor[N, f32]), i: i64):
    opposite = [0, 3, 4, 1, 2, 7, 8, 5, 6]
    weights = [0.0, 1.0, 0.0, -1.0]
    return {}
"""
    wrong, right = "x[opposite], weights[i], pair[i]", "x[array(opposite)], array(weights)[i], stack(pair)[i]"
    assert mended(text.format(wrong)) == text.format(right)
    assert any("found 9 ints" in diagnostic.title for diagnostic in offered(text.format(wrong)))


def test_items_of_several_types_are_read_at_known_places() -> None:
    (diagnostic,) = offered("def f(pair: (Tensor[N, f32], Tensor[N, M, f32]), i: i64):\n    return pair[i]\n")
    assert not diagnostic.fixes


def test_a_call_of_elsewhere_in_a_function_that_only_a_call_completes() -> None:
    text = "def line(f: fn(Tensor[N, f64]) -> Tensor[f64], x: Tensor[N, f64]):\n    s = {}\n    return f(x) + s\n"
    assert mended(text.format("dot(x, x)")) == text.format("x @ x")


def test_recursion_over_sizes_is_told_what_ends_it() -> None:
    text = """def cycle(u: Tensor[N, f64]) where N % 2 == 0:
    if N <= 4:
        return u
    return u + cycle(u.reshape(N // 2, 2).mean(axis=1)).repeat(2, 0)
"""
    (diagnostic,) = offered(text)
    assert diagnostic.code == "E0206" and any("levels: int" in note for note in diagnostic.notes)


def test_what_is_made_of_a_mistake_is_no_second_one() -> None:
    text = "def f(k: Key):\n    a, b = splitt(k)\n    return uniform(a, 4, 4) + uniform(b, 4, 4)\n"
    assert [diagnostic.code for diagnostic in offered(text)] == ["E0201"]


TRAINED = """def train(x: Tensor[B, 3, f32], y: Tensor[B, f32]):
    w = zeros(3)
    {made}
    for i in range(50):
        opt.zero_grad()
        loss = mean((x @ w - y) ** 2)
        loss.backward()
        opt.step()
    return w
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("made", ["opt = Adam([w], lr=0.1)", "opt = torch.optim.Adam([w], lr=0.1)"])
def test_an_optimizer_of_one_tensor(made: str) -> None:
    x = np.random.default_rng(0).normal(size=(30, 3)).astype("f4")
    found = tessera.compile(mended(TRAINED.format(made=made))).train(x, x @ np.float32([1, -1, 0.5]))
    assert abs(np.asarray(found) - [1, -1, 0.5]).max() < 0.5


WRONG_CALLS = [
    ("one_hot(y)", "one_hot(y, classes=10)"),
    ("lstsq(x, x, rcond=None)", "lstsq(x, x)"),
    ("lstsq(x, x, rcond=None)[0]", "lstsq(x, x)"),
    ("e(x)", "e(cast(x, i64))"),
    ("e(y)", "e(y)"),
    ("m(z, z, z)", "m(z, z, z, heads=1)"),
    ("randint(0, 5, size=(3,))", "randint(0, 5, size=(3,))"),
    ("randint(0, 5, size=3)", "randint(0, 5, size=3)"),
]


@pytest.mark.parametrize(("wrong", "right"), WRONG_CALLS)
def test_a_call(wrong: str, right: str) -> None:
    head = "def f(x: Tensor[4, 4, f32], y: Tensor[4, i64], z: Tensor[2, 3, 8, f32]):\n"
    head += "    e, m = Embedding[7, 3](seed=0), MultiheadAttention[8](seed=0)\n" if wrong[0] in "em" else ""
    text = f"{head}    return {wrong}\n"
    assert len(offered(text)) == (wrong != right)
    assert mended(text) == f"{head}    return {right}\n"


def test_a_solution_behind_its_module() -> None:
    text = "def f(x: Tensor[4, 4, f32]):\n    return {}\n"
    assert mended(text.format("np.linalg.lstsq(x, x, rcond=None)[0]")) == text.format("lstsq(x, x)")


@pytest.mark.parametrize("made", ["torch.Generator()", "torch.Generator().manual_seed(0)", "np.random.default_rng(0)"])
def test_a_generator_is_left_out(made: str) -> None:
    text = f"def f():\n    g = {made}\n    return torch.randn(3, generator=g)\n"
    assert mended(text) == "def f():\n    return normal(3)\n"


def test_a_power_of_integers_of_two_dtypes() -> None:
    (said,) = offered("def f(x: Tensor[N, i32], y: Tensor[N, i64]):\n    return x ** y\n")
    assert "needs a decision" in said.title and "float" not in said.title
