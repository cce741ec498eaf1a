"""`@kernel(implements=f)`: calls of `f` take the kernel where it fits and costs no more, with the bits of `f`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.commands.inspection import about
from tesserac.driver.session import Session
from tesserac.graph.build import build_module
from tesserac.graph.interp import run_function
from tesserac.ir.passes import run_passes
from tesserac.pipeline import CALL_PASSES, GRAPH_PASSES
from tesserac.schedule.machine import AARCH64, SM_90A
from tests.schedule.test_given_schedules import levels

ROWS = """
def rows(x: Tensor[S, 24, f32]) -> Tensor[S, 24, f32]:
    return x * rsqrt(mean(x * x, axis=-1, keep=True) + 1e-5)

@kernel(implements=rows{how})
def rows_tiled(x: KTile[S, 24, f32]) -> Tile[S, 24, f32]{where}:
    T = tile.context()
    t = tile.load(x, rows=T.m)
    return t * rsqrt(mean(t * t, axis=-1, keep=True) + {eps})

def f(x: Tensor[S, 24, f32]) -> Tensor[S, 24, f32]:
    return rows(x) + 1.0

def small(x: Tensor[16, 24, f32]) -> Tensor[16, 24, f32]:
    return rows(x) + 1.0

def slope(x: Tensor[S, 24, f32]) -> Tensor[S, 24, f32]:
    return grad(lambda x: sum(rows(x) ** 2))(x)
"""


def rows(how: str = "", where: str = "", eps: str = "1e-5") -> str:
    return ROWS.format(how=how, where=where, eps=eps)


PLAIN = rows().split("@kernel")[0] + "def f(" + rows().split("def f(")[1]
"""The same without the kernel."""


def told(text: str, tmp_path: Path, function: str = "f", target: str = "cpu:aarch64") -> list[str]:
    """What `inspect` says of kernels."""
    path = tmp_path / "m.tess"
    path.write_text(text)
    lines = about(Session(), f"{path}:{function}", target).splitlines()
    return [line for line in lines if "kernel `" in line or "beside a kernel" in line]


def interpreted(text: str, function: str, *args: np.ndarray) -> np.ndarray:
    session, source = Session(), SourceFile("m.tess", text)
    found = session.function(source, function)
    graph = build_module(list(session.check(source).result.reach(found).values()), {found.symbol})
    return run_function(run_passes(graph, [*CALL_PASSES, *GRAPH_PASSES], verify=True), found.symbol, list(args))[0]


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.one_in(12)
def test_a_call_takes_the_kernel_and_has_the_bits_of_the_function(tmp_path: Path) -> None:
    lines = told(rows(), tmp_path)
    assert any("`main.rows` takes kernel `rows_tiled`" in line for line in lines), lines
    assert "kernel `main.rows_tiled`: runs as tiles" in lines
    assert sum("compare the two: a release has none" in line for line in lines) == 1, lines
    x = numbers(37, 24)
    with_kernel, without = tessera.compile(rows()), tessera.compile(PLAIN)
    assert np.array_equal(with_kernel.f(x), without.f(x))
    assert np.array_equal(with_kernel.f(x), interpreted(rows(), "f", x))
    assert np.array_equal(with_kernel.rows(x), with_kernel.rows_tiled(x))


@pytest.mark.one_in(2)
def test_a_kernel_that_is_read_again_gives_what_it_gave() -> None:
    text = "def g(x: Tensor[S, 24, f32]):\n    y = rows_tiled(x)\n    return y, sum(y * y)\n"
    x = numbers(37, 24)
    m = tessera.compile(rows() + text)
    y, total = m.g(x)
    assert np.array_equal(y, m.rows(x)) and np.isclose(total, (y * y).sum())


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("how", "where", "target", "said"),
    [
        (', target="cuda"', "", "cpu:aarch64", "it is for cuda"),
        (', target="cuda"', "", "cuda:sm_90a", ""),
        (', target="cpu"', "", "cpu:aarch64", ""),
        ("", " where S % 8 == 0", "cpu:aarch64", "of what the function costs, where S % 8 == 0"),
    ],
)
def test_target_and_where_decide(how: str, where: str, target: str, said: str, tmp_path: Path) -> None:
    lines = told(rows(how, where), tmp_path, target=target)
    (line,) = [line for line in lines if line.startswith("`main.rows`")]
    assert said in line and ("does not take" in line) == said.startswith("it is for"), line


def test_what_is_told_names_functions_as_they_are_written_and_no_function_as_a_kernel(tmp_path: Path) -> None:
    """Also where nothing is left to choose from."""
    twice = "def twice(x: Tensor[M, N]):\n    return x + x\n\n@kernel(implements=twice{how})\n"
    twice += "def tiled(x: KTile[M, N, f32]) -> Tile[M, N, f32]{where}:\n    T = tile.context()\n"
    twice += "    return tile.load(x, rows=T.m, cols=T.n) * 2.0\n\ndef f(x: Tensor[M, N, {t}]):\n    return twice(x)\n"
    some = twice.format(how=", within=1e-3", where=" where N <= 128", t="f32")
    assert told(some, tmp_path) == ["`main.twice` does not take kernel `tiled`: it asks for 128 >= N"]
    other = twice.format(how="", where="", t="f64")
    assert told(other, tmp_path) == ["`main.twice` does not take kernel `tiled`: expected f32, found f64"]


@pytest.mark.one_in(2)
def test_what_a_kernel_asks_of_sizes_is_asked_in_the_run() -> None:
    m = tessera.compile(rows(where=" where S % 8 == 0"))
    for size in (8, 16, 37):
        x = numbers(size, 24)
        assert np.array_equal(m.f(x), tessera.compile(rows()).f(x))


def test_a_wrong_kernel_is_found_by_a_call_of_the_function() -> None:
    with pytest.raises(tessera.TesseraError, match="`rows_tiled` gives the bits of `rows`, which it implements"):
        tessera.compile(rows(eps="1e-4")).f(numbers(5, 24))


@pytest.mark.one_in(6)
def test_within_a_tolerance_it_is_a_rewrite_that_the_program_decides(tmp_path: Path) -> None:
    text, x = rows(", within=1e-3", eps="1.1e-5"), numbers(16, 24)
    m = tessera.compile(text)
    assert not np.array_equal(m.f(x), tessera.compile(rows()).f(x))
    assert np.array_equal(m.f(x), interpreted(text, "f", x))
    assert any("takes kernel `rows_tiled`: it is within its tolerance" in line for line in told(text, tmp_path))
    only_some = rows(", within=1e-3", " where S % 8 == 0", "1.1e-5")
    m = tessera.compile(only_some)
    assert np.array_equal(m.small(x), interpreted(text, "small", x))  # 16 rows are known to fit
    assert np.array_equal(m.f(x), tessera.compile(rows()).f(x))  # here only a run knows, which does not decide
    with pytest.raises(tessera.TesseraError, match="gives the values of `rows`, which it implements, to within 1e-06"):
        tessera.compile(rows(", within=1e-6", eps="1e-3")).f(x)


BOTH = """
def twice(x: Tensor[M, N]): return x + x

@kernel(implements=twice, within=1e-3)
def near(x: KTile[M, N, f32]) -> Tile[M, N, f32]:
    T = tile.context()
    return tile.load(x, rows=T.m, cols=T.n) * 2.0001

@kernel(implements=twice)
def exact(x: KTile[M, N, f32]) -> Tile[M, N, f32]:
    T = tile.context()
    return tile.load(x, rows=T.m, cols=T.n) * 2.0

def f(x: Tensor[M, N, f32]): return twice(x)
"""


def test_what_a_kernel_is_compared_with_is_no_kernel(tmp_path: Path) -> None:
    """A debug build computes the meaning beside the one that is taken, and says nothing of kernels for that."""
    taken = [line for line in told(BOTH, tmp_path) if "takes kernel" in line]
    assert taken == ["`main.twice` takes kernel `near`: it is within its tolerance"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", ["", ", within=1e-3"])
def test_derivatives_are_those_of_the_function(how: str, tmp_path: Path) -> None:
    x = numbers(5, 24)
    assert np.array_equal(tessera.compile(rows(how)).slope(x), tessera.compile(PLAIN).slope(x))


RULED = """
def third(x: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return x * x * x

@kernel(implements=third)
def third_tiled(x: KTile[M, N, f32]) -> Tile[M, N, f32]:
    T = tile.context()
    t = tile.load(x, rows=T.m, cols=T.n)
    return t * t * t

@kernel
def back(x: KTile[M, N, f32], dy: KTile[M, N, f32]) -> Tile[M, N, f32]:
    T = tile.context()
    t = tile.load(x, rows=T.m, cols=T.n)
    return 3.0 * t * t * tile.load(dy, rows=T.m, cols=T.n)

@vjp_of(third)
def third_back(x: Tensor[M, N, f32], y: Tensor[M, N, f32], dy: Tensor[M, N, f32]) -> Tensor[M, N, f32]:
    return back(x, dy)

def f(x: Tensor[M, N, f32]):
    return value_and_grad(lambda x: sum(third(x)))(x)
"""


@pytest.mark.one_in(3)
def test_a_rule_that_is_a_kernel_serves_the_way_back(tmp_path: Path) -> None:
    lines = told(RULED, tmp_path)
    assert any("takes kernel `third_tiled`" in line for line in lines), lines
    assert {"kernel `main.third_tiled`: runs as tiles", "kernel `main.back`: runs as tiles"} <= set(lines)
    x = numbers(3, 7)
    _, slope = tessera.compile(RULED).f(x)
    assert np.allclose(slope, 3 * x * x)


@pytest.mark.one_in(12)
def test_the_library_calls_kernels_of_the_program(tmp_path: Path) -> None:
    text = """
@kernel(implements=softmax)
def own(x: KTile[M, 32, f32], axis: int = -1) -> Tile[M, 32, f32]:
    T = tile.context()
    return softmax(tile.load(x, rows=T.m))

def g(x, axis): return softmax(x, axis=axis)
def f(x: Tensor[M, 32, f32]): return g(x, -1)
def wide(x: Tensor[M, 32, f64]): return g(x, -1)
"""
    x = numbers(9, 32)
    m = tessera.compile(text)
    assert any("takes kernel `own`" in line for line in told(text, tmp_path))
    assert any("does not take kernel `own`: expected f32, found f64" in line for line in told(text, tmp_path, "wide"))
    assert np.array_equal(m.f(x), tessera.compile("def f(x: Tensor[M, 32, f32]): return softmax(x)").f(x))


@pytest.mark.one_in(2)
def test_a_value_beside_a_derivative_is_computed_once() -> None:
    """The derivative of a kernel computes what the kernel implements: its value is part of that."""
    both = """
def f(x: Tensor[S, 600, f32], g: Tensor[S, 600, f32]):
    y, back = vjp({}, x)
    return y, back(g)
"""
    rows, plain = (levels(both.format(name), AARCH64) for name in ("softmax_rows", "softmax"))
    count = [sum(op.name == "form.reduce" for op in made.forms.walk()) for made in (rows, plain)]
    launches = [op for op in rows.schedule.walk() if op.name == "schedule.launch"]
    assert len(launches) == 1 and count[0] == count[1]


PRODUCT = """
def of_known(x: Tensor[512, 512, f32], w: Tensor[512, 512, f32], b: Tensor[512, f32]):
    return {}

def of_run(x: Tensor[M, K, f32], w: Tensor[K, N, f32], b: Tensor[N, f32]):
    return matmul_gelu(x, w, b)
"""
BACK = "matmul_gelu(x, w, b), grad(lambda x, w: sum(matmul_gelu(x, w, b) ** 2), wrt=(0, 1))(x, w)"


def products(body: str) -> int:
    return sum(op.name == "form.contract" for op in levels(PRODUCT.format(body), SM_90A, "of_known").forms.walk())


@pytest.mark.one_in(4)
def test_what_a_derivative_computes_again_is_not_computed_in_tiles_too(tmp_path: Path) -> None:
    """Of known sizes the program of one product is cut as a product is; of sizes of the run it has one cut."""
    alone, back, run = (
        told(PRODUCT.format(body), tmp_path, function, "cuda:sm_90a")[0]
        for body, function in (("matmul_gelu(x, w, b)", "of_known"), (BACK, "of_known"), (BACK, "of_run"))
    )
    assert "matmul_gelu` takes kernel `_gelu_by_blocks`" in alone
    assert "does not take kernel `_gelu_by_blocks`" in back and "beside what the caller computes of it anyhow" in back
    assert products(BACK) == 3, "one forward, and one for each operand"
    assert "does not take kernel `_gelu_by_blocks`: it would cost" in run and "anyhow" not in run


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("other", "count"), [("wide_product(x, w)", 1), ("wide_product(w, x)", 2)])
def test_only_equal_values_are_shared(other: str, count: int) -> None:
    assert products(f"matmul_gelu(x, w, b), {other}") == count
