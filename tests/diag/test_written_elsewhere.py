"""What NumPy, PyTorch and Triton programs write: reductions over masks, values that only an iteration gives, tiles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tessera
from tesserac.check.names.foreign_tiles import DECORATORS, TILE_WORDS
from tests.diag.test_growing_lists import mended, offered

X = np.arange(12, dtype="f4").reshape(4, 3) - 5.0
MASK = np.array([True, False, True, False])
PICKED: dict[str, Callable[[], np.ndarray]] = {
    "x[m].mean(axis=0)": lambda: X[MASK].mean(axis=0),
    "x[m].sum()": lambda: X[MASK].sum(),
    "sum(x[x > 0.0])": lambda: X[X > 0].sum(),
    "max(x[x < 0.0])": lambda: X[X < 0].max(),
    "torch.mean(x[m], dim=0)": lambda: X[MASK].mean(axis=0),
    "x[x[:, 0] > 0.0].min(0)": lambda: X[X[:, 0] > 0].min(axis=0),
    "prod(x[x > 0.0])": lambda: X[X > 0].prod(),
}


@pytest.mark.parametrize("written", PICKED)
def test_a_reduction_over_a_mask(written: str) -> None:
    text = mended(f"def f(x: Tensor[M, N, f32], m: Tensor[M, bool]):\n    return {written}\n")
    np.testing.assert_allclose(np.asarray(tessera.compile(text).f(X, MASK)), PICKED[written](), rtol=1e-6)


@pytest.mark.parametrize("written", ["x[m].mean(axis=1)", "x[m] * 2.0", "sort(x[m])"])
def test_what_a_mask_cannot_say_has_no_fix(written: str) -> None:
    (said,) = offered(f"def f(x: Tensor[M, N, f32], m: Tensor[M, bool]):\n    return {written}\n")
    assert said.fixes == () and "where(mask, x, y)" in " ".join(said.notes)


@pytest.mark.parametrize("dtype", ["f32", "i64"])
def test_a_value_of_the_last_iteration(dtype: str) -> None:
    body = "    for i in range(N):\n        y = x[i] * x\n    return y\n"
    f = tessera.compile(mended(f"def f(x: Tensor[N, {dtype}]):\n{body}")).f
    x = np.arange(4).astype({"f32": "f4", "i64": "i8"}[dtype])
    np.testing.assert_array_equal(np.asarray(f(x)), 3 * x)
    assert np.asarray(f(x[:0])).dtype == x.dtype


def test_a_number_of_an_iteration() -> None:
    """Nothing says what it is before the loop."""
    (said,) = offered("def f(x: Tensor[4, f32]):\n    for k in range(4):\n        y = k\n    return x * y\n")
    assert said.code == "E0203" and said.fixes == () and "no iteration" in " ".join(said.notes)


@pytest.mark.parametrize("word", TILE_WORDS)
def test_words_of_triton(word: str) -> None:
    (said,) = offered(f"def f(x: Tensor[N, f32]):\n    return tl.{word}(x)\n")
    assert said.code == "E0201" and TILE_WORDS[word] in " ".join(said.notes)


@pytest.mark.parametrize("word", ["range", "device"])
def test_statements_are_no_part_of_tiles(word: str) -> None:
    (said,) = offered(f"def f(x: Tensor[N, f32]):\n    return tile.{word}(x)\n")
    assert said.code == "E0208" and said.title == f"`tile` has no `{word}`"


def test_a_program_id_of_tiles() -> None:
    kernel = "@kernel\ndef f(x: KTile[M, N, f32]) -> Tile[M, N, f32]:\n    return tile.load(x) * tile.program_id(0)\n"
    assert TILE_WORDS["program_id"] in " ".join(note for said in offered(kernel) for note in said.notes)


@pytest.mark.parametrize("name", ["triton.jit", "torch.compile", "numba.njit"])
def test_decorators_of_other_compilers(name: str) -> None:
    (said,) = offered(f"@{name}\ndef f(x: Tensor[N, f32]):\n    return x\n")
    assert said.fixes[0].title == f"here it is `@{DECORATORS[name]}`"


BUFFERS = {
    "y = np.empty_like(x)\n    y[:] = 2.0 * x": lambda: 2.0 * X,
    "y = np.empty((M, N), dtype=x.dtype)\n    y[:] = 2.0 * x": lambda: 2.0 * X,
    "y = np.lib.stride_tricks.sliding_window_view(x[0], 2)": lambda: np.lib.stride_tricks.sliding_window_view(X[0], 2),
    "y = sliding_window_view(x, 2, axis=0)": lambda: np.lib.stride_tricks.sliding_window_view(X, 2, axis=0),
}


@pytest.mark.parametrize("written", BUFFERS)
def test_buffers_and_windows_of_numpy(written: str) -> None:
    text = mended(f"def f(x: Tensor[M, N, f32]) where M >= 2, N >= 2:\n    {written}\n    return y\n")
    np.testing.assert_array_equal(np.asarray(tessera.compile(text).f(X)), BUFFERS[written]())


def test_a_range_among_indices_is_a_tensor_of_numbers() -> None:
    text = mended("def f(x: Tensor[M, N, f32], i: Tensor[M, i64]):\n    return x[range(M), i]\n")
    places = np.array([2, 0, 1, 2])
    np.testing.assert_array_equal(np.asarray(tessera.compile(text).f(X, places)), X[range(4), places])


@pytest.mark.parametrize("head", ["self.heads", "h"])
def test_a_field_that_divides_a_size_is_asserted(head: str) -> None:
    """A signature has no name for a field."""
    begin = "        h = self.heads\n" if head == "h" else ""
    body = f"    heads: int\n\n    def apply(self, x: Tensor[B, D, f32]):\n{begin}"
    told = f"        return x.reshape(B, {head}, D // {head})\n"
    text = mended(f"struct Split[D]:\n    w: Tensor[D, f32]\n{body}{told}")
    assert text == f"struct Split[D]:\n    w: Tensor[D, f32]\n{body}        assert D % self.heads == 0\n{told}"


GENERATORS = {
    "rng = np.random.default_rng(0)\n    y = x + rng.normal(size=(M, N))": "y = x + normal((M, N))",
    "rng = np.random.default_rng(seed=1)\n    y = x[rng.integers(0, M, size=2)]": "y = x[randint(0, M, 2)]",
    "rng = np.random.RandomState(3)\n    y = x + rng.rand(M, N)": "y = x + uniform(M, N)",
    "np.random.seed(0)\n    y = x + np.random.randn(M, N)": "y = x + normal(M, N)",
}


@pytest.mark.parametrize("written", GENERATORS)
def test_generators_of_numpy_are_left_out(written: str) -> None:
    program = "def f(x: Tensor[M, N, f32]):\n    {}\n    return y\n"
    assert mended(program.format(written)) == program.format(GENERATORS[written])


@pytest.mark.parametrize("product", ["w{} @ w", "x @ w{}", "(w + 1.0){} @ x.T"])
def test_a_vector_that_is_transposed_is_itself(product: str) -> None:
    program = "def f(w: Tensor[N, f32], x: Tensor[M, N, f32]):\n    return {}\n"
    assert mended(program.format(product.format(".T"))) == program.format(product.format(""))


RESULTS = {
    "x.max(dim=1).values": "x.max(dim=1)",
    "x.max(1).indices": "x.argmax(1)",
    "torch.min(x, 0).values": "min(x, axis=0)",
    "x.sort(dim=-1).indices": "x.argsort(dim=-1)",
    "x.topk(2).values": "x.topk(2)[0]",
    "topk(x, 2).indices": "topk(x, 2)[1]",
}


@pytest.mark.parametrize("written", RESULTS)
def test_named_results_of_pytorch(written: str) -> None:
    program = "def f(x: Tensor[M, N, f32]):\n    return {}\n"
    assert mended(program.format(written)) == program.format(RESULTS[written])


def test_places_of_medians_have_no_fix() -> None:
    said = offered("def f(x: Tensor[M, N, f32]):\n    return x.median(dim=1).indices\n")
    edits = [edit for d in said for fix in d.fixes if d.code == "E0208" for edit in fix.edits]
    assert "E0208" in [d.code for d in said] and not edits


@pytest.mark.parametrize("sum_", ["w.T * x", "x[0] - w.T", "(w.T) + x"])
def test_a_vector_that_is_transposed_in_a_sum_is_a_column(sum_: str) -> None:
    (said,) = offered(f"def f(w: Tensor[M, f32], x: Tensor[K, N, f32]):\n    return {sum_}\n")
    assert said.code == "E0311" and "[:, None]" in [edit.replacement for fix in said.fixes for edit in fix.edits]


Y = np.linspace(-2.0, 3.0, 12, dtype="f4").reshape(4, 3)
SQUARE = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 5.0]], dtype="f4")
V = np.array([0.5, -1.0, 2.0], dtype="f4")
def _skew(x: np.ndarray) -> np.ndarray:
    """Along the first axis."""
    d = x - x.mean(axis=0)
    return (d**3).mean(axis=0) / (d**2).mean(axis=0) ** 1.5


OTHERWISE: dict[str, Callable[[], object]] = {
    "F.pad(x, (1, 2))": lambda: np.pad(X, ((0, 0), (1, 2))),
    "F.pad(x, (1, 2, 0, 1), value=3.0)": lambda: np.pad(X, ((0, 1), (1, 2)), constant_values=3),
    "F.pad(x, [1, 1], mode='reflect')": lambda: np.pad(X, ((0, 0), (1, 1)), mode="reflect"),
    "F.linear(x, s)": lambda: X @ SQUARE.T,
    "F.linear(x, s, v)": lambda: X @ SQUARE.T + V,
    "torch.std(x, dim=1)": lambda: X.std(axis=1, ddof=1),
    "torch.var(x, 0, keepdim=True)": lambda: X.var(axis=0, ddof=1, keepdims=True),
    "torch.std(x, unbiased=False)": lambda: X.std(),
    "torch.median(x)": lambda: np.sort(X.ravel())[5],
    "torch.sort(x)[0]": lambda: np.sort(X, axis=1),
    "torch.sort(x, dim=0, descending=True)[1]": lambda: np.argsort(-X, axis=0, kind="stable"),
    "torch.max(x, 1)[0]": lambda: X.max(axis=1),
    "torch.min(x, dim=0)[1] * 2": lambda: X.argmin(axis=0) * 2,
    "torch.meshgrid(v, v[:2])[0]": lambda: np.meshgrid(V, V[:2], indexing="ij")[0],
    "torch.norm(s, p=1)": lambda: np.abs(SQUARE).sum(),
    "torch.norm(x, dim=1)": lambda: np.linalg.norm(X, axis=1),
    "torch.dist(x, y)": lambda: np.linalg.norm(X - Y),
    "torch.div(y, x + 0.5, rounding_mode='floor')": lambda: Y // (X + 0.5),
    "torch.split(v, [1, 2])[1]": lambda: V[1:],
    "torch.addcmul(x, x + y, y, value=0.5)": lambda: X + 0.5 * (X + Y) * Y,
    "torch.cholesky_solve(s, torch.linalg.cholesky(s))": lambda: np.eye(3),
    "torch.linalg.svd(x)[1]": lambda: np.linalg.svd(X, compute_uv=False),
    "torch.autograd.functional.jacobian(lambda u: u * u, v)": lambda: np.diag(2 * V),
    "torch.narrow(x, 0, 1, 2)": lambda: X[1:3],
    "torch.select(x, 1, 2)": lambda: X[:, 2],
    "torch.t(x + y)": lambda: (X + Y).T,
    "torch.block_diag(x, s)": lambda: np.block([[X, np.zeros((4, 3))], [np.zeros((3, 3)), SQUARE]]),
    "torch.linalg.multi_dot([x, s, s])": lambda: X @ SQUARE @ SQUARE,
    "torch.linalg.vector_norm(x)": lambda: np.sqrt((X * X).sum()),
    "jax.lax.dynamic_slice(x, (1, 0), (2, 2))": lambda: X[1:3, :2],
    "scipy.linalg.cho_solve((torch.linalg.cholesky(s), True), v)": lambda: np.linalg.solve(SQUARE, V),
    "scipy.signal.windows.hann(5)": lambda: np.hanning(5),
    "np.kaiser(5, 3.0)": lambda: np.kaiser(5, 3.0),
    "F.kl_div(x, y * y)": lambda: np.where(Y == 0, 0, Y * Y * (np.log(np.where(Y == 0, 1, Y * Y)) - X)).mean(),
    "np.triu_indices(3, 1)[1]": lambda: np.triu_indices(3, 1)[1],
    "np.append(x, y, axis=0)": lambda: np.append(X, Y, axis=0),
    "np.hanning(5)": lambda: np.hanning(5),
    "np.multiply.reduce(y, axis=1)": lambda: Y.prod(axis=1),
    "np.linalg.svd(x, compute_uv=False)": lambda: np.linalg.svd(X, compute_uv=False),
    "scipy.linalg.cholesky(s)": lambda: np.linalg.cholesky(SQUARE).T,
    "scipy.linalg.solve_triangular(s, v)": lambda: np.linalg.solve(np.triu(SQUARE), V),
    "torch.linalg.slogdet(s).logabsdet": lambda: np.linalg.slogdet(SQUARE)[1],
    "torch.linalg.eigh(s).eigenvalues": lambda: np.linalg.eigvalsh(SQUARE),
    "torch.linalg.lstsq(s, v).solution": lambda: np.linalg.solve(SQUARE, V),
    "torch.median(x, 0).values": lambda: np.sort(X, axis=0)[1],
    "x.median(0)[0]": lambda: np.sort(X, axis=0)[1],
    "x.median(dim=0).values": lambda: np.sort(X, axis=0)[1],
    "torch.nanmedian(x)": lambda: np.sort(X.ravel())[5],
    "x.var(1, keepdim=True)": lambda: X.var(axis=1, ddof=1, keepdims=True),
    "x.repeat(2, 1)": lambda: np.tile(X, (2, 1)),
    "v.repeat(2)": lambda: np.tile(V, 2),
    "x.addcdiv(x, y)": lambda: X + X / Y,
    "x.addcmul(x, y, value=0.5)": lambda: X + 0.5 * X * Y,
    "x.dist(y, 1)": lambda: np.abs(X - Y).sum(),
    "x.narrow(1, 1, 2)": lambda: X[:, 1:],
    "x.select(1, 2)": lambda: X[:, 2],
    "torch.sub(x, y, alpha=2.0)": lambda: X - 2 * Y,
    "torch.gradient(v)[0]": lambda: np.gradient(V),
    "torch.gradient(x, spacing=2.0)[1]": lambda: np.gradient(X, 2.0, axis=1),
    "torch.triangular_solve(x.T, s)[0]": lambda: np.linalg.solve(np.triu(SQUARE), X.T),
    "torch.triu_indices(3, 4, 1)": lambda: np.stack(np.triu_indices(3, 1, 4)),
    "torch.linalg.vander(v)": lambda: np.vander(V, increasing=True),
    "torch.diagflat(v + v, 1)": lambda: np.diagflat(2 * V, 1),
    "np.diagflat(x, k=1)": lambda: np.diagflat(X, 1),
    "np.cumsum(x)": lambda: np.cumsum(X),
    "np.cumprod(y, axis=0)": lambda: np.cumprod(Y, axis=0),
    "np.packbits(x > 0.0)": lambda: np.packbits(X > 0),
    "np.add.accumulate(x)": lambda: np.add.accumulate(X),
    "np.maximum.accumulate(x, axis=1)": lambda: np.maximum.accumulate(X, axis=1),
    "jax.lax.cumsum(x)": lambda: np.cumsum(X, axis=0),
    "jax.lax.cummax(x)": lambda: np.maximum.accumulate(X, axis=0),
    "x.cummin(1)[1]": lambda: np.zeros((4, 3)),
    "torch.cummax(x, 0)[1]": lambda: np.arange(4)[:, None] + np.zeros((1, 3)),
    "scipy.special.kl_div(y * y, x * x + 1.0)": lambda: Y * Y * np.log(Y * Y / (X * X + 1)) - Y * Y + X * X + 1,
    "scipy.special.softmax(x)": lambda: np.exp(X - X.max()) / np.exp(X - X.max()).sum(),
    "scipy.signal.correlate(v, v)": lambda: np.correlate(V, V, "full"),
    "scipy.stats.skew(x * x)": lambda: _skew(X * X),
    "scipy.linalg.solve_triangular(s, v, trans=1)": lambda: np.linalg.solve(np.triu(SQUARE).T, V),
    "scipy.linalg.qr(s, mode='economic')[1]": lambda: np.linalg.qr(SQUARE)[1],
    "x.to(y.dtype) + x.new_ones(4, 3)": lambda: X + 1,
    "torch.stack([row * 2.0 + v for row in x])": lambda: X * 2 + V,
}
HEAD = "def f(x: Tensor[4, 3, f32], y: Tensor[4, 3, f32], s: Tensor[3, 3, f32], v: Tensor[3, f32]):\n    return {}\n"


@pytest.mark.one_in(8)
@pytest.mark.parametrize("written", OTHERWISE)
def test_a_name_that_means_something_else_here(written: str) -> None:
    """The fix gives the value that the other library has, not that of the function with its name."""
    text = mended(HEAD.format(written))
    assert not offered(text)
    found = np.asarray(tessera.compile(text).f(X, Y, SQUARE, V))
    expected = np.asarray(OTHERWISE[written]())
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


ONLY_A_RUN_TELLS = [
    "torch.svd(x)", "F.pad(x, w)", "torch.split(v, 2)", "torch.std(x, 1, unbiased=u)",
    "jax.lax.cummax(x, reverse=True)", "torch.median(x, 0)", "np.add.outer(v, v)", "np.subtract.accumulate(v)",
    "jnp.nonzero(v, size=2)[0]", "jax.lax.round(x)", "scipy.linalg.qr(x)", "scipy.linalg.cholesky(s, lower=b)",
]  # fmt: skip


@pytest.mark.parametrize("written", ONLY_A_RUN_TELLS)
def test_nothing_is_written_where_only_a_run_tells(written: str) -> None:
    said = offered(HEAD.format(written))
    assert said[0].code == "E0201" and not said[0].fixes


def test_places_of_medians_by_position_have_no_fix() -> None:
    assert [(d.code, d.fixes) for d in offered(HEAD.format("x.median(0)[1]"))] == [("W0215", ())]


def test_a_layer_in_capitals_is_no_constant() -> None:
    assert "`gelu`" in " ".join(offered(HEAD.format("nn.GELU()(x)"))[0].notes)


@pytest.mark.parametrize(
    ("written", "fixed"),
    [("x.sort()[0]", "x.sort()"), ("x.sort(1, True)[1]", "x.argsort(1, True)"), ("x.max(1, True)[0]", "x.max(1, True)"),
     ("z.split(2, 1)[0]", "z.split(3, axis=1)[0]"), ("x.norm(1)", "vector_norm(x, 1)"),
     ("z.norm(p=1)", "vector_norm(z, 1)")],
)  # fmt: skip
def test_results_of_pytorch_by_position(written: str, fixed: str) -> None:
    text = f"def f(x: Tensor[4, 3, f32], z: Tensor[4, 6, f32]):\n    return {written}\n"
    assert [d.code for d in offered(text)] == ["W0215"]
    assert mended(text) == text.replace(written, fixed)


@pytest.mark.parametrize(
    "meant", ["sort(v)[0]", "sort(x, axis=1)[0]", "x.split(3, axis=1)[0]", "max(x, axis=1)[0]", "norm(x, 1)"]
)
def test_rows_that_are_meant(meant: str) -> None:
    assert not offered(HEAD.format(meant))
