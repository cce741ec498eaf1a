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
    "torch.min(x, 0).values": "min(x, 0)",
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
