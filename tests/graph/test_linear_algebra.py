"""Linear algebra written naively in tensor code: the laws take the cheapest order and form, for all sizes at once; the
numbers stay those of the program, the same on machine code and interpreter."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessera
from tesserac.commands.inspection import rewrites
from tesserac.commands.rewriting import NOTHING
from tesserac.driver.session import Session
from tesserac.graph.algebra.costs import Facts, beats, never_above, total
from tesserac.graph.algebra.engine import Engine
from tesserac.graph.algebra.terms import Term, make
from tesserac.graph.build import build_module
from tesserac.graph.interp import run_function
from tesserac.graph.passes.choose_forms import Chosen, by_structure
from tesserac.graph.passes.inline import inline
from tesserac.ir.core import Op, Value
from tesserac.ir.forms import TensorType, tensor_type
from tesserac.ir.passes import run_passes
from tesserac.pipeline import CALL_PASSES
from tesserac.types.dims import Dim, parse_dim
from tesserac.types.dtype import F32, I64
from tests.support.cpu_kernels import same_bits
from tests.support.naive_algebra import ARGS, AS_WRITTEN, NAIVE, SIZES
from tests.support.naive_systems import SOLVE_ARGS, SOLVES, TAKEN
from tests.support.source_support import check_text, compile_to_forms, library

HELPERS = """
struct Model[D]:
    A: Operator[D, D]

def product(x: Tensor[N, N, f32], y: Tensor[N, N, f32]): return x @ y
def made(e: Tensor[N, f32], l: Tensor[N, K, f32]): return op.diag(e) + op.low_rank(l, l)
def used(A: Operator[N, N], e: Tensor[N, f32]): return A @ e
def stored(m: Model[D], e: Tensor[D, f32]): return m.A @ e
def looped(a: Tensor[N, N, f32], b: Tensor[N, N, f32], v: Tensor[N, f32]):
    for i in range(2):
        v = used(op.diag(v) ∘ op.dense(a @ b), v)
    return v
def carried(d: Tensor[N, f32], a: Tensor[N, N, f32], v: Tensor[N, f32]):
    A = op.diag(d)
    for i in range(2):
        v = (A ∘ op.dense(a)) @ v
        A = op.diag(2.0 * diagonal(A))
    return v

"""
PROGRAMS = NAIVE | {
    # operators that functions, fields, loops, derivatives and maps have taken and given, beside tensors
    "inlined": ("product(product(a, b), c) @ v", "a @ b @ c @ v", "3*N*N"),
    "given": ("used(op.dense(a) ∘ op.dense(b) ∘ op.dense(c), v)", "a @ b @ c @ v", "3*N*N"),
    "returned": ("used(made(d, u), v)", "d * v + u @ (u.T @ v)", "2*N*K + 2*N"),
    "field": ("stored(Model(A=op.kronecker(op.dense(m), op.dense(p))), z)", "np.kron(m, p) @ z", "M*M*P + M*P*P"),
    "beside": ("used(op.diag(d) ∘ op.dense(product(a, b)), v)", "d * (a @ (b @ v))", "2*N*N + N"),
    "in_gradient": ("grad(lambda e: sum(used(op.diag(e) ∘ op.dense(a @ b), v)))(d)", "a @ (b @ v)", "2*N*N + N"),
    "in_map": ("vmap(lambda e: op.kronecker(op.dense(m), op.dense(p)) @ e)(y.T)", "(np.kron(m, p) @ y).T",
               "M*M*P*R + M*P*P*R"),
    "in_loop": ("looped(a, b, v)", "(lambda w: w * (a @ (b @ w)))(v * (a @ (b @ v)))", "N*N*N + N*N + N"),
    "loop_carried": ("carried(d, a, v)", "2 * d * (a @ (d * (a @ v)))", "N*N + 3*N"),
    "structured_trace": ("trace(made(d, u) ∘ op.dense(a))", "np.trace((np.diag(d) + u @ u.T) @ a)",
                         "N*N*K + N*K + 3*N"),
}  # fmt: skip


def text() -> str:
    rows = [(name, row[0]) for name, row in (*PROGRAMS.items(), *AS_WRITTEN.items())]
    return HELPERS + "\n".join(f"def f_{name}({ARGS}):\n    return {expression}\n" for name, expression in rows)


@pytest.fixture(scope="module")
def graph() -> dict[str, Op]:
    checked = check_text(text(), "m", library())
    entries = {function.symbol for function in checked.module.functions}
    module = build_module(list(checked.functions.values()), entries)
    whole = run_passes(module, CALL_PASSES, verify=True)
    return {function.symbol.removeprefix("m.f_"): function for function in whole.ops}


def numbers() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    n, m, p, k, r, b = (SIZES[name] for name in "NMPKRB")
    shapes = {
        "a": (n, n), "b": (n, n), "c": (n, n), "m": (m, m), "p": (p, p), "u": (n, k), "w": (k, n), "v": (n,),
        "d": (n,), "z": (m * p,), "y": (m * p, r), "x": (b, n, n),
    }  # fmt: skip
    found: dict[str, Any] = {name: rng.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    h = (rng.standard_normal(8) + 1j * rng.standard_normal(8)).astype("c8")
    return {**found, "q": rng.permutation(n), "h": h, "s": np.float32(1.5)}


ELEMENTWISE = ("add", "sub", "mul", "neg", "diagonal", "gather")


def cost(function: Op) -> int:
    """Products and sums of what linear algebra is left, as the engine counts them."""
    total = 0
    for op in function.walk():
        name = op.name.removeprefix("graph.")
        size = count(tensor_type(op.result).dims) if len(op.results) == 1 and is_float(op.result) else 0
        if name == "matmul":
            total += size * SIZED(tensor_type(op.operands[0]).dims[-1])
        elif name == "einsum":
            total += einsum_cost(op)
        elif name in ("fft", "ifft"):
            total += 16 * size
        elif name in ELEMENTWISE:
            total += size
        elif name in ("sum", "mean"):
            total += count(tensor_type(op.operands[0]).dims)
    return total


def is_float(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.dtype.kind in "fc"


def SIZED(dim: Dim) -> int:
    return dim.evaluate(SIZES)


def count(dims: tuple[Dim, ...]) -> int:
    return int(np.prod([SIZED(dim) for dim in dims], dtype=int))


def einsum_cost(op: Op) -> int:
    terms = str(op.attrs["equation"]).split("->")[0].split(",")
    sizes = {x: SIZED(d) for t, v in zip(terms, op.operands, strict=True)
             for x, d in zip(t, tensor_type(v).dims, strict=True)}  # fmt: skip
    return int(np.prod(list(sizes.values()), dtype=int))


@pytest.mark.one_in(3)
def test_naive_programs_cost_what_the_best_form_costs(graph: dict[str, Op]) -> None:
    wanted = {name: row[2] for name, row in PROGRAMS.items()} | {name: row[1] for name, row in AS_WRITTEN.items()}
    found = {name: cost(graph[name]) for name in wanted}
    limits = {name: parse_dim(text).evaluate(SIZES) for name, text in wanted.items()}
    assert [name for name in wanted if not found[name] and limits[name]] == []
    assert {name: (found[name], limits[name]) for name in wanted if found[name] > 1.3 * limits[name] + 14} == {}
    assert {name: found[name] for name in AS_WRITTEN if found[name] < limits[name]} == {}


@pytest.mark.one_in(12)
def test_numbers_are_those_of_the_program() -> None:
    values = numbers()
    args = list(values.values())
    module = tessera.compile(text())
    forms = compile_to_forms(text())
    for name, (_, reference, _) in PROGRAMS.items():
        found = np.asarray(getattr(module, f"f_{name}")(*args))
        wide = {
            key: v.astype("c16" if v.dtype.kind == "c" else "f8") if v.dtype.kind in "fc" else v
            for key, v in values.items()
        }
        expected = eval(reference, {"np": np, **wide})
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5, err_msg=name)
        same_bits(found, np.asarray(run_function(forms, f"m.f_{name}", args)[0]))


def product_of(edges: list[str]) -> Term:
    """A chain of matrices, multiplied from left to right."""
    dims = [parse_dim(edge) for edge in edges]
    factors = [Term("", (), pair, Value(TensorType(pair, F32), None, i)) for i, pair in enumerate(pairwise(dims))]  # type: ignore[arg-type]
    found = factors[0]
    for factor in factors[1:]:
        found = make("mm", found, factor)
    return found


def best_cost(edges: list[int]) -> int:
    """By the definition: the cheapest of all orders."""
    known: dict[tuple[int, int], int] = {}

    def best(i: int, j: int) -> int:
        if j == i + 1:
            return 0
        if (i, j) not in known:
            known[i, j] = min(best(i, k) + best(k, j) + edges[i] * edges[k] * edges[j] for k in range(i + 1, j))
        return known[i, j]

    return best(0, len(edges) - 1)


@pytest.mark.parametrize("count_", [3, 5, 8, 12])
def test_chains_of_numbers_are_optimal(count_: int) -> None:
    rng = np.random.default_rng(count_)
    for _ in range(20):
        edges = [int(n) for n in rng.integers(1, 60, size=count_ + 1)]
        found = Engine(Facts()).simplify(product_of([str(edge) for edge in edges]))
        assert found.cost == Dim.const(best_cost(edges))


def test_symbols_decide_only_where_one_order_is_never_dearer() -> None:
    assert Engine(Facts()).simplify(product_of(["N", "M", "K", "1"])).cost == parse_dim("K*M + M*N")
    written = product_of(["N", "M", "K", "L"])
    assert Engine(Facts()).simplify(written) is written
    known = Facts((parse_dim("M - N"), parse_dim("L - N"), parse_dim("L - K"), parse_dim("M - K")))
    assert Engine(known).simplify(written) is written
    turned = make("mm", written.args[0].args[0], make("mm", written.args[0].args[1], written.args[1]))
    assert Engine(Facts((parse_dim("L - 4*N"), parse_dim("M - 4*K")))).simplify(turned).cost == written.cost


def test_costs_are_compared_for_all_sizes() -> None:
    assert never_above(parse_dim("N*K"), parse_dim("N*N"), Facts((parse_dim("N - K"),)))
    assert not never_above(parse_dim("N*K"), parse_dim("N*N"), Facts())
    assert beats(parse_dim("N*M + M*K"), parse_dim("N*M*K + N*K"), Facts())
    assert not beats(parse_dim("N*N"), parse_dim("N*N"), Facts())
    assert not beats(parse_dim("D*D"), parse_dim("D*N"), Facts())


def test_sizes_may_lie_between_two_numbers() -> None:
    inner_first, as_written = parse_dim("2*K*M*N"), parse_dim("K*N*N + M*N*N")
    small, large = parse_dim("8 - K"), (parse_dim("N - 64"), parse_dim("M - 64"))
    assert beats(inner_first, as_written, Facts((small, *large)))
    assert not beats(inner_first, as_written, Facts(large)) and not beats(inner_first, as_written, Facts((small,)))
    assert never_above(parse_dim("K*K"), parse_dim("8*K"), Facts((small,)))
    assert not never_above(parse_dim("K*K"), parse_dim("7*K"), Facts((small,)))
    assert never_above(parse_dim("9*K"), parse_dim("K*K + 14"), Facts((parse_dim("K - 7"), parse_dim("12 - K"))))
    assert not never_above(parse_dim("9*K"), parse_dim("K*K + 14"), Facts((parse_dim("12 - K"),)))


def test_what_is_proven_between_two_numbers_holds_at_each() -> None:
    rng, proven = np.random.default_rng(0), 0
    for _ in range(60):
        least, most, *factors = (int(n) for n in (*np.sort(rng.integers(1, 9, size=2)), *rng.integers(-6, 7, size=4)))
        terms = zip(factors, ("K*K*K", "K*K*N", "K*N", "N*N"), strict=True)
        gap = total(Dim.const(factor) * parse_dim(text) for factor, text in terms)
        if never_above(Dim.const(0), gap, Facts((parse_dim(f"K - {least}"), parse_dim(f"{most} - K")))):
            proven += 1
            assert all(gap.evaluate({"K": k, "N": n}) >= 0 for k in range(least, most + 1) for n in range(1, 12))
    assert proven > 5


def solve_text(*names: str) -> str:
    return "\n".join(f"def f_{name}({SOLVE_ARGS}):\n    return {SOLVES[name][0]}\n" for name in names or SOLVES)


def solve_numbers() -> dict[str, Any]:
    rng = np.random.default_rng(4)
    values = numbers()
    for name in ("a", "m", "p"):
        values[name] += 4 * np.eye(len(values[name]), dtype="f4")
    shapes = {"e": (16,), "g": (16, 2), "f": (16, 16), "k": (16,), "l": (16, 3)}
    found = {name: rng.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    return {**values, **found, "e": abs(found["e"]) + 1, "f": found["f"] + 9 * np.eye(16, dtype="f4")}


@pytest.mark.one_in(48)
@pytest.mark.parametrize("name", SOLVES)
def test_systems_of_structure_are_solved_by_it(name: str) -> None:
    """Numbers of the dense systems; the interpreter has the same bits."""
    values = solve_numbers()
    args, text = list(values.values()), solve_text(name)
    module, forms = tessera.compile(text), compile_to_forms(text)
    wide = {key: v.astype("f8") if v.dtype.kind == "f" else v for key, v in values.items()}
    found = np.asarray(getattr(module, f"f_{name}")(*args))
    np.testing.assert_allclose(found, eval(SOLVES[name][1], {"np": np, **wide}), rtol=2e-4, atol=2e-5)
    same_bits(found, np.asarray(run_function(forms, f"m.f_{name}", args)[0]))


@pytest.mark.one_in(12)
def test_structure_is_seen() -> None:
    checked = check_text(solve_text(), "m", library())
    entries = {function.symbol for function in checked.module.functions}
    module = run_passes(build_module(list(checked.functions.values()), entries), [inline], verify=True)
    found: dict[str, list[str]] = {name: [] for name in SOLVES}
    chosen: list[Any] = []
    by_structure(module, chosen.append)
    for taken in chosen:
        if isinstance(taken, Chosen):
            found[taken.function.removeprefix("m.f_")].append(taken.structure)
    assert {name: " ".join(names) for name, names in found.items()} == TAKEN


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    ("text", "alone"),
    [
        ("solve(a, v) + logdet(a)", "solve(a, v)"),
        ("solve(a, v), slogdet(a), det(a)", "solve(a, v)"),
        ("slogdet(a), det(a)", "logdet(a)"),
        ("logdet(a), solve(a, v), solve(a, w)", "solve(a, v)"),
        ("inv(a), solve(a, v), det(a)", "inv(a)"),
        ("w @ solve(a, v), v @ solve(a, v)", "solve(a, v)"),
        ("v @ inv(a + eye(N)) @ v - slogdet(a + eye(N))[1]", "solve(a + eye(N), v)"),
        ("slogdet(a.T @ a)[1] + slogdet(a.T)[1]", "slogdet(a)[1]"),
        ("grad(lambda m: v @ solve(m, v) + w @ solve(m, w))(a)", "grad(lambda m: v @ solve(m, v))(a)"),
    ],
)
def test_systems_and_determinants_of_one_matrix_are_one_elimination(text: str, alone: str) -> None:
    args = "a: Tensor[N, N, f32], v: Tensor[N, f32], w: Tensor[N, f32]"
    both, one = (compile_to_forms(f"def f({args}):\n    return {each}\n") for each in (text, alone))
    assert len(loops(both)) == len(loops(one))


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    "text",
    [
        "grad(lambda m: v @ solve(m, v))(a)",
        "grad(lambda m: slogdet(m)[1])(a)",
        "grad(det)(a)",
        "value_and_grad(lambda m: v @ solve(m, v) + logdet(m))(a)",
    ],
)
def test_a_derivative_goes_back_by_the_elimination_that_is_there(text: str) -> None:
    args = "a: Tensor[64, 64, f32], v: Tensor[64, f32]"
    both, one = (compile_to_forms(f"def f({args}):\n    return {each}\n") for each in (text, "solve(a, v)"))
    assert len(eliminated_columns(both)) == len(eliminated_columns(one)) == 2


@pytest.mark.one_in(24)
def test_each_of_several_systems_has_the_bits_that_it_has_alone() -> None:
    text = """
def alone(a: Tensor[N, N, f32], v: Tensor[N, f32]): return solve(a, v), inv(a)
def all(a: Tensor[N, N, f32], b: Tensor[N, 3, f32], v: Tensor[N, f32], w: Tensor[N, f32]):
    x = solve(a, v)
    return x, solve(a, b), inv(a), solve(a, x + w), solve(a.T, w)
"""
    module, rng = tessera.compile(text), np.random.default_rng(5)
    for n in (1, 31, 40, 70):
        a, b, v, w = (rng.standard_normal(shape).astype("f4") for shape in ((n, n), (n, 3), (n,), (n,)))
        found = module.all(a, b, v, w)
        x, inverse = module.alone(a, v)
        columns = [module.alone(a, np.ascontiguousarray(b[:, k]))[0] for k in range(3)]
        of_x, turned = module.alone(a, x + w)[0], module.alone(np.ascontiguousarray(a.T), w)[0]
        for got, wanted in zip(found, (x, np.stack(columns, axis=1), inverse, of_x, turned), strict=True):
            same_bits(np.asarray(got), np.asarray(wanted))
    with pytest.raises(tessera.TesseraError, match="singular"):
        module.all(0 * a, b, v, w)


def eliminated_columns(module: Any) -> list[Op]:
    """The loops over columns of a block, which carry it, the order of rows and the exchanges.

    The first block has one of its own."""
    return [op for op in loops(module) if [tensor_type(v).dtype for v in op.results] == [F32, I64, I64]]


def loops(module: Any) -> list[Op]:
    return [op for op in module.walk() if op.name == "form.loop"]


@pytest.mark.one_in(48)
def test_an_update_is_as_good_as_the_whole_system() -> None:
    """Backward errors for numbers of all magnitudes, with zeros in the diagonal, and with right sides that the update
    makes alone; a core that is singular in these digits is not a singular matrix."""
    text = "def f(d: Tensor[32, f32], u: Tensor[32, 2, f32], v: Tensor[2, 32, f32], y: Tensor[32, R, f32]):\n"
    solved = tessera.compile(text + "    return solve(diag(d) + u @ v, y), solve(diag(d) + u @ v, y[:, 0])\n").f
    rng = np.random.default_rng(3)
    for case in range(60):
        shapes, sizes = ((32,), (32, 2), (2, 32), (32, 2)), 10.0 ** rng.uniform(-5, 5, size=4)
        d, u, v, y = (np.float32(rng.standard_normal(shape) * size) for shape, size in zip(shapes, sizes, strict=True))
        d[: case % 3] = 0.0 if case % 2 else d[: case % 3]
        y = np.float32(u @ rng.standard_normal((2, 2))) if case % 5 == 0 else y
        whole = np.diag(d.astype("f8")) + u.astype("f8") @ v
        for x, right in zip(solved(d, u, v, y), (y, y[:, 0]), strict=True):
            scale = abs(whole).sum(axis=1).max() * abs(np.asarray(x)).max() + abs(right).max()
            assert abs(whole @ np.asarray(x, "f8") - right).max() <= 64 * 2.0**-23 * scale, case
    d, u, v = np.ones(32, "f4"), np.zeros((32, 2), "f4"), np.zeros((2, 32), "f4")
    d[0], u[0], v[:, 0] = 1e-9, 1.0, 1.0
    np.testing.assert_allclose(solved(d, u, v, np.ones((32, 1), "f4"))[1], [0.5, *[1.0] * 31], rtol=1e-6)


@pytest.mark.one_in(48)
def test_an_update_of_complex_numbers_keeps_its_digits() -> None:
    """Where b / d is far larger than x, whatever the dtype is."""
    numbers = "d: Tensor[16, c128], u: Tensor[16, 1, c128], v: Tensor[1, 16, c128], y: Tensor[16, c128]"
    body = "solve(diag(d) + u @ v, y), solve(diag(d) + outer(u[:, 0], v[0]), y)"
    solved = tessera.compile(f"def f({numbers}):\n    return {body}\n").f
    rng = np.random.default_rng(3)
    d, u, v, y = (rng.standard_normal((*shape, 2)) @ [1, 1j] for shape in ((16,), (16, 1), (1, 16), (16,)))
    d[0] *= 1e-9
    for x in solved(d, u, v, y):
        assert abs((np.diag(d) + u @ v) @ np.asarray(x) - y).max() <= 1e-13 * abs(np.asarray(x)).max()


def test_a_singular_diagonal_is_an_error_of_solve() -> None:
    module = tessera.compile("def f(d: Tensor[N, f32], x: Tensor[N, f32]):\n    return solve(diag(d), x)\n")
    with pytest.raises(tessera.TesseraError, match="pivot 1 is 0") as caught:
        module.f(np.array([1, 0, 2], "f4"), np.ones(3, "f4"))
    assert "_solve_diagonal" not in str(caught.value)


@pytest.mark.one_in(4)
def test_a_singular_matrix_is_an_error_of_its_inverse() -> None:
    """Where only its determinant is asked for, too."""
    module = tessera.compile("def f(a: Tensor[N, N, f32]):\n    return logdet(inv(a))\n")
    with pytest.raises(tessera.TesseraError, match="singular"):
        module.f(np.ones((3, 3), "f4"))


def test_inspect_lists_laws_costs_and_what_was_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "f.tess"
    path.write_text(
        "def f(a: Tensor[N, N, f32], d: Tensor[N, f32], v: Tensor[N, f32]):\n"
        "    return a @ a @ v, solve(diag(d), v)\n\n"
        "def g(a: Tensor[N, M, f32], b: Tensor[M, K, f32], c: Tensor[K, L, f32]):\n    return a @ b @ c\n\n"
        "def h(x: Tensor[N, f32]):\n    return x + x\n",
        encoding="utf-8",
    )
    shown = [rewrites(Session(), f"{path}:{name}").output for name in "fgh"]
    assert "associativity: ((a @ a) @ v) = (a @ (a @ v))" in shown[0]
    assert "cost: N*N*N + N*N before, 2*N*N after" in shown[0]
    assert "the matrix is diagonal" in shown[0]
    assert "as written: (a @ (b @ c)) costs K*L*M + L*M*N instead of K*L*N + K*M*N" in shown[1]
    assert shown[2] == NOTHING


def test_inspect_tells_what_operators_are_after_their_laws(tmp_path: Path) -> None:
    path = tmp_path / "f.tess"
    path.write_text(
        "def f(a: Tensor[M, M, f32], b: Tensor[P, P, f32], d: Tensor[N, f32], u: Tensor[N, K, f32]):\n"
        "    B = op.kronecker(op.dense(a), op.dense(b))\n    y = solve(op.diag(d) + op.low_rank(u, u), d)\n"
        "    return (B.H.H ∘ op.eye(M*P)) @ zeros(M*P), trace(B), y\n",
        encoding="utf-8",
    )
    shown = rewrites(Session(), f"{path}:f").output
    assert "f.tess:3: solve\n    the operator is inverse(sum(diag, low_rank)): computed by" in shown
    assert "`solve_update`\n" in shown and "trace\n    the operator is kronecker(dense, dense):" in shown
    assert "@\n    the operator is kronecker(dense, dense): computed by `as_matrix`, `dense`" in shown


ONE_VALUE = (
    "kron(a, a) @ n", "n @ kron(a, a)", "kron(a, a).T @ n", "kron(a, a.T) @ n", "kron(a, a) @ k", "k.T @ kron(a, a)",
    "kron(a, a) @ kron(a, a) @ n", "trace(kron(a, a))", "diagonal(kron(a, a))", "solve(kron(a, a), n)", "trace(a @ a)",
    "trace(a @ a.T)", "diagonal(a @ a)", "a @ a @ a @ v", "v @ a @ a", "diag(v) @ diag(v) @ v", "diag(v) @ a @ diag(v)",
    "inv(a) @ a @ v", "solve(diag(v) + outer(v, v), v)", "(a + a) @ v", "det(kron(a, a))",
)  # fmt: skip


@pytest.mark.one_in(24)
def test_one_value_may_stand_in_several_places_of_a_law() -> None:
    """Which operand is meant is said by its place, never by which value it is."""
    params = "a: Tensor[N, N, f64], v: Tensor[N, f64], n: Tensor[N * N, f64], k: Tensor[N * N, K, f64]"
    program = tessera.compile(f"def f({params}): return {', '.join(ONE_VALUE)}\n")
    rng = np.random.default_rng(4)
    shapes = {"a": (3, 3), "v": (3,), "n": (9,), "k": (9, 2)}
    values = {name: rng.random(shape) + 0.5 for name, shape in shapes.items()}
    values["a"] += 2.0 * np.eye(3)
    names = {name: getattr(np, name, None) or getattr(np.linalg, name) for name in
             ("kron", "trace", "diagonal", "diag", "outer", "solve", "inv", "det")}  # fmt: skip
    for text_, found in zip(ONE_VALUE, program.f(*values.values()), strict=True):
        np.testing.assert_allclose(found, eval(text_, names | values), rtol=1e-10, atol=1e-12, err_msg=text_)
