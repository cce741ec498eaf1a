"""What is meant by a value that has other dims than it should: the first fix is that, not another signature."""

from __future__ import annotations

import pytest

from tests.diag.test_growing_lists import mended, offered

MEANT = [
    ("x: Tensor[B, C, H, W, f32], y: Tensor[B, C, H, W, f32]", "Tensor[B, 2*C, H, W, f32]",
     "concat([x, y], axis=0)", "concat([x, y], axis=1)"),
    ("x: Tensor[B, D, f32], y: Tensor[B, D, f32]", "Tensor[B, 2*D, f32]",
     "stack([x, y], axis=1)", "concat([x, y], axis=1)"),
    ("x: Tensor[B, D, f32], y: Tensor[B, D, f32]", "Tensor[2, B, D, f32]", "concat([x, y])", "stack([x, y])"),
    ("x: Tensor[B, S, D, f32]", "Tensor[B, D, f32]", "x[-1]", "x[:, -1]"),
    ("x: Tensor[B, S, V, f32]", "Tensor[B, S, i64]", "x.argmax(1)", "x.argmax(2)"),
    ("x: Tensor[B, S, V, f32]", "Tensor[B, S, f32]", "max(x * (x + 1.0), dim=-2)", "max(x * (x + 1.0), dim=-1)"),
    ("x: Tensor[B, 3, H, W, f32], w: Tensor[8, 3, 3, 3, f32]", "Tensor[B, 8, H, W, f32]",
     "relu(conv2d(x, w))", "relu(conv2d(x, w, padding=1))"),
    ("x: Tensor[B, 3, H, W, f32], w: Tensor[8, 3, 5, 5, f32]",
     "Tensor[B, 8, H/2, W/2, f32] where H % 2 == 0, W % 2 == 0",
     "conv2d(x, w, stride=2)", "conv2d(x, w, stride=2, padding=2)"),
    ("x: Tensor[B, 8, 8, 8, f32], w: Tensor[8, 3, 4, 4, f32]", "Tensor[B, 3, 16, 16, f32]",
     "conv_transpose2d(x, w, stride=2)", "conv_transpose2d(x, w, stride=2, padding=1)"),
    ("x: Tensor[B, S, D, f32], t: Tensor[L, D, f32]", "Tensor[B, S, D, f32]", "x + t", "x + t[:S]"),
    ("a: Tensor[M, f32], b: Tensor[N, f32]", "Tensor[M, N, f32]", "a * b", "a[:, None] * b[None]"),
    ("x: Tensor[N, D, f32], y: Tensor[M, D, f32]", "Tensor[N, M, D, f32]",
     "x[:, None] - y[:, None]", "x[:, None] - y[None]"),
    ("w: Tensor[H, D, f32], x: Tensor[D, f32]", "Tensor[H, f32]", "x @ w", "w @ x"),
    ("t: Tensor[1, 1, D, f32], x: Tensor[B, S, D, f32]", "Tensor[B, S+1, D, f32]",
     "concat([t, x], axis=1)", "concat([expand(t, (B, 1, D)), x], axis=1)"),
    ("t: Tensor[D, f32], x: Tensor[B, S, D, f32]", "Tensor[B, S+1, D, f32]",
     "concat([t, x], axis=1)", "concat([expand(t, (B, 1, D)), x], axis=1)"),
    ("q: Tensor[B, S, D, f32], k: Tensor[B, T, D, f32]", "Tensor[B, S, T, f32]",
     'einsum("bsd,bsd->bst", q, k)', 'einsum("bsd,btd->bst", q, k)'),
    ("x: Tensor[B, S, D, f32], w: Tensor[H, D, f32]", "Tensor[B, S, H, f32]",
     'einsum("bd,hd->bh", x, w)', 'einsum("bsd,hd->bsh", x, w)'),
    ("x: Tensor[B, V, S, f32], y: Tensor[B, S, i64]", "Tensor[B, S, f32]",
     "cross_entropy(x, y)", "cross_entropy(x, y, axis=1)"),
    ("x: Tensor[B, 3*D, f32]", "Tensor[B, D, f32]", "x.split(D, dim=1)[0]", "x.split(3, axis=1)[0]"),
    ("x: Tensor[N, f32], m: Tensor[N, bool]", "Tensor[N, f32]", "where(not m, x, 0)", "where(~m, x, 0)"),
    ("x: Tensor[B, D, f32], y: Tensor[B, D, f32]", "Tensor[B, 2, D, f32]", "stack([x, y])", "stack([x, y], axis=1)"),
    ("q: Tensor[B, H, S, D, f32], k: Tensor[B, H, T, D, f32]", "Tensor[B, H, S, T, f32]",
     'einsum("bhid,bhjd->bij", q, k)', 'einsum("bhid,bhjd->bhij", q, k)'),
    ("x: Tensor[N, f32], i: i64", "Tensor[3, f32]", "x[i:i + 3]", "slice(x, i, 3)"),
    ("x: Tensor[B, N, f32], i: i64, w: int", "Tensor[B, w, f32]",
     "x[:, i * w:(i + 1) * w]", "slice(x, i * w, w, axis=1)"),
    ("x: Tensor[N, f64], i: i64", "Tensor[f64]",
     "x[0] if i > 0 else array(1.0)", "x[0] if i > 0 else array(1.0, dtype=f64)"),
    ("l: Tensor[N, N, f32], y: Tensor[N, f32]", "Tensor[N, f32]", "cholesky_solve(y, l)", "cholesky_solve(l, y)"),
    ("c: Tensor[B, H, T, D, f32], k: Tensor[B, 1, H, D, f32]", "Tensor[B, H, T+1, D, f32]",
     "concat([c, k], axis=2)", "concat([c, permute(k, (0, 2, 1, 3))], axis=2)"),
]  # fmt: skip


@pytest.mark.parametrize(("taken", "given", "wrong", "right"), MEANT, ids=[wrong for _, _, wrong, _ in MEANT])
def test_a_value_is_meant_before_a_signature(taken: str, given: str, wrong: str, right: str) -> None:
    text = f"def f({taken}) -> {given}:\n    return {{}}\n"
    assert mended(text.format(wrong)) == text.format(right)


def test_a_table_of_a_struct_that_is_longer() -> None:
    text = """struct Embedded[V, L, D]:
    tokens: Embedding[V, D]
    places: Tensor[L, D, f32] = normal(L, D)

    def apply(self, t: Tensor[B, S, i64]) -> Tensor[B, S, D, f32]:
        return self.tokens(t) + self.places
"""
    assert mended(text) == text.replace("self.places", "self.places[:S]")


def test_a_value_that_has_a_name() -> None:
    text = """def f(x: Tensor[B, S, V, f32], y: Tensor[B, S, i64]) -> Tensor[f32]:
    found = argmax(x, dim=1)
    return mean(cast(found == y, f32))
"""
    assert mended(text) == text.replace("dim=1", "dim=2")


def test_results_in_the_other_order() -> None:
    text = """def f(x: Tensor[T, D, f32]) -> Tensor[T, D, f32]:
    ys, h = scan(lambda h, v: (h + v, h + v), zeros(D), x)
    return ys
"""
    assert mended(text) == text.replace("ys, h =", "h, ys =")


def test_a_derivative_by_another_argument() -> None:
    text = """def loss(x: Tensor[N, D, f32], w: Tensor[D, f32]) -> Tensor[f32]:
    return mean((x @ w) ** 2)

def step(w: Tensor[D, f32], x: Tensor[N, D, f32]) -> Tensor[D, f32]:
    return w - 0.1 * grad(loss)(x, w)
"""
    assert mended(text) == text.replace("grad(loss)", "grad(loss, wrt=1)")


def test_channels_of_a_weight() -> None:
    text = """def f(x: Tensor[B, 3, 8, 8, f32], v: Tensor[16, 3, 3, 3, f32], w: Tensor[32, 8, 3, 3, f32]):
    return conv2d(relu(conv2d(x, v)), w)
"""
    assert mended(text) == text.replace("[32, 8,", "[32, 16,")


def test_a_demand_of_the_library_is_told_in_sizes_of_the_call() -> None:
    text = """def f(x: Tensor[B, S, V, f32], y: Tensor[B, S, i64]):
    return cross_entropy(x.view(B, S * V), y.view(B * S))
"""
    said = offered(text)[0]
    assert said.title.startswith("`B*S == B`") and "labels have the dims of x" in said.notes[0]


def test_what_is_asserted_of_elements_holds_everywhere() -> None:
    text = "def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    assert {}\n    return log(x)\n"
    assert mended(text.format("x > 0.0")) == text.format("all(x > 0.0)")


def test_a_default_for_none() -> None:
    text = "def f(x: Tensor[N, f32], w: Tensor[N, f32] | None = None):\n    return x * {}\n"
    assert mended(text.format("(w or 1.0)")) == text.format("((w if w is not None else 1.0))")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("cross_entropy(softmax(x), y)", "cross_entropy(x, y)"),
        ("bce_with_logits(x.sigmoid(), t)", "bce_with_logits(x, t)"),
        ("nll_loss(softmax(x, axis=1), y)", "nll_loss(log_softmax(x, axis=1), y)"),
        ("kl_div(x.softmax(), t)", "kl_div(x.log_softmax(), t)"),
    ],
)
def test_what_a_loss_computes_itself(wrong: str, right: str) -> None:
    text = "def f(x: Tensor[B, C, f32], y: Tensor[B, i64], t: Tensor[B, C, f32]):\n    return {}\n"
    assert [d.code for d in offered(text.format(wrong))] == ["W0216"]
    assert mended(text.format(wrong)) == text.format(right)


KERNELS = [
    ("x: KTile[M, N, f32]", "Tile[M, 1, f32]", "tile.reduce_sum(tile.load(x, rows=T.m, cols=T.n), axis=1, keep=True)",
     "tile.reduce_sum(tile.load(x, rows=T.m), axis=1, keep=True)"),
    ("x: KTile[M, N, f32]", "Tile[M, N, f32]",
     "softmax(tile.load(x, rows=T.m, cols=T.n))", "softmax(tile.load(x, rows=T.m))"),
]  # fmt: skip


@pytest.mark.parametrize(("taken", "given", "wrong", "right"), KERNELS, ids=[right for *_, right in KERNELS])
def test_a_dim_that_a_kernel_takes_whole(taken: str, given: str, wrong: str, right: str) -> None:
    text = f"@kernel\ndef f({taken}) -> {given}:\n    T = tile.context()\n    return {{}}\n"
    assert mended(text.format(wrong)) == text.format(right)


PRODUCT = """@kernel
def f(a: KTile[M, K, {dtype}], b: KTile[K, N, {dtype}]) -> Tile[M, N, {dtype}]:
    T = tile.context()
    acc = tile.zeros((T.m, T.n), f32)
    for k in {blocks}:
        acc += tile.dot(tile.load(a, None, k, rows=T.m), tile.load(b, k, None, cols=T.n))
    return acc
"""


def test_blocks_that_a_loop_counts_itself_are_one_mistake() -> None:
    text = PRODUCT.format(dtype="f32", blocks="range(K // T.k)")
    assert [d.code for d in offered(text)] == ["E0520"]
    assert mended(text) == PRODUCT.format(dtype="f32", blocks="tile.range_k(a, T.k)")


def test_sums_of_narrow_tiles_are_wide() -> None:
    text = PRODUCT.format(dtype="bf16", blocks="tile.range_k(a, T.k)")
    assert mended(text) == PRODUCT.format(dtype="bf16 @accum(f32)", blocks="tile.range_k(a, T.k)")


def test_settings_of_triton() -> None:
    head = "@kernel.schedule(Schedule({}))\ndef f(x: KTile[M, N, f32]) -> Tile[M, N, f32]:\n"
    text = head + "    return tile.load(x) * 2.0\n"
    assert mended(text.format("BLOCK_M=64, BLOCK_N=32, num_warps=4")) == text.format("BM=64, BN=32, warps=4")


def test_a_last_value_that_is_not_returned() -> None:
    text = "def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    {}x * 2.0\n"
    assert mended(text.format("")) == text.format("return ")


OF_PYTHON = [
    ("for i in reversed(range(N)):", "for i in range(N - 1, -1, -1):"),
    ("for i in reversed(range(1, N)):", "for i in range(N - 1, 1 - 1, -1):"),
]


@pytest.mark.parametrize(("wrong", "right"), OF_PYTHON)
def test_a_loop_that_counts_down(wrong: str, right: str) -> None:
    text = "def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    {}\n        x[i] = x[i] + 1.0\n    return x\n"
    assert [d.code for d in offered(text.format(wrong))] == ["E0201"]
    assert mended(text.format(wrong)) == text.format(right)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("sorted(x)", "sort(x)"),
        ("sorted(x, reverse=True)", "sort(x, descending=True)"),
        ("x.reshape(list(x.shape))", "x.reshape(x.shape)"),
        ("copy.deepcopy(x)", "x"),
        ("sum([x, x])", "sum(stack([x, x]), axis=0)"),
        ("sum(v.mean() for v in (x, x)) + x", "sum(stack([v.mean() for v in (x, x)]), axis=0) + x"),
        ("max(x, 0)", "maximum(x, 0)"),
        ("x if x[0] > 0.0 else 0.0", "x if x[0] > 0.0 else full((N,), 0.0, dtype=f32)"),
        ("lax.cond(x[0] > 0.0, jnp.sin, lambda v: -v, x)", "sin(x) if x[0] > 0.0 else (lambda v: -v)(x)"),
        ("jax.lax.select(x > 0.0, x, -x)", "where(x > 0.0, x, -x)"),
        ("x.topk(N)[0] * x.topk(N)", "x.topk(N)[0] * x.topk(N)[0]"),
    ],
)
def test_words_of_python_and_jax(wrong: str, right: str) -> None:
    text = "def f(x: Tensor[N, f32]) -> Tensor[N, f32]:\n    return {}\n"
    assert mended(text.format(wrong)) == text.format(right)


def test_builtins_of_python_are_not_guessed_at() -> None:
    """`type` is not a misspelt `astype`, nor `list` a misspelt `dist`."""
    said = offered("def f(x):\n    return x if type(x) == list else x[0]\n")
    assert [d.code for d in said] == ["E0201", "E0201"]
    assert not any(d.fixes for d in said)
    assert "isinstance" in said[0].notes[0]


def test_a_name_whose_type_a_loop_changes_is_told_once() -> None:
    grown = """def f(x: Tensor[T, D, f32]) -> Tensor[T, D, f32]:
    out = x[0:1]
    for t in range(1, T):
        out = concat([out, x[t:t+1]], axis=0)
    return out
"""
    assert [d.code for d in offered(grown)] == ["E0212"]
    first = """def f(x: Tensor[T, D, f32]) -> Tensor[D, f32]:
    h = None
    for t in range(T):
        h = x[t] if h is None else h + x[t]
    return h
"""
    assert mended(first) == first.replace("None\n", "zeros(D)\n", 1)


def test_what_is_the_same_for_all_that_is_mapped() -> None:
    text = """def one(x: Tensor[D, f32], w: Tensor[D, f32]) -> Tensor[f32]:
    return x @ w

def f(x: Tensor[B, D, f32], w: Tensor[D, f32]) -> Tensor[B, f32]:
    return vmap(one{})(x, w)
"""
    assert mended(text.format("")) == text.format(", in_axes=(0, None)")


def test_results_that_the_signature_lacks() -> None:
    text = "def f(x: Tensor[N, f32]) -> {}:\n    return x, x.sum()\n"
    assert mended(text.format("Tensor[N, f32]")) == text.format("(Tensor[N, f32], Tensor[f32])")


@pytest.mark.parametrize("name", ["AdamState", "optax.OptState"])
def test_the_state_of_an_optimiser(name: str) -> None:
    text = "def f(w: Tensor[N, f32], s: {}):\n    return adam(w, w, s)\n"
    assert mended(text.format(name)) == text.format("OptimizerState")


def test_a_place_that_moves_is_told_once() -> None:
    text = "def f(x: Tensor[N, f32], i: i64) -> Tensor[N, f32]:\n    x[i:i + 3] = 0.0\n    return x\n"
    assert [(d.code, d.fixes) for d in offered(text)] == [("E0210", ())]


def test_two_numbers_of_a_tensor_that_is_sorted() -> None:
    text = "def f(x: Tensor[2, f32]) -> Tensor[f32]:\n    a, b = sort(x)\n    return b - a\n"
    assert mended(text) == text.replace("sort(x)", "unbind(sort(x))")
