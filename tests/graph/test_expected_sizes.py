"""`@sizes(N=1024, K=8)` decides where no order or form is always the cheaper one: for all calls alike, and told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tessera
from tessera_lsp.features.hover import hover
from tesserac.base.source import SourceFile
from tesserac.commands.inspection import rewrites
from tesserac.driver.session import Session
from tesserac.graph.algebra.costs import Facts, beats, is_open
from tesserac.types.dims import parse_dim

CHAIN = "(a: Tensor[N, M, f32], b: Tensor[M, K, f32], c: Tensor[K, L, f32])"
TEXT = f"""
@sizes(N=1024, M=8, K=1024, L=8)
def told{CHAIN}:
    return a @ b @ c

def open{CHAIN}:
    return a @ b @ c

def calling(a: Tensor[P, 4, f32], b: Tensor[4, Q, f32], c: Tensor[Q, R, f32]):
    return told(a, b, c)

@sizes(P=4, Q=1, R=1024)
def knowing(a: Tensor[P, M, f32], b: Tensor[M, Q, f32], c: Tensor[Q, R, f32]):
    return told(a, b, c)

def derived{CHAIN}:
    return grad(lambda x: sum(told(x, b, c)))(a)

def mapped(a: Tensor[B, N, M, f32], b: Tensor[M, K, f32], c: Tensor[K, L, f32]):
    return vmap(lambda x: told(x, b, c))(a)

@sizes(N=1024, K=8)
def update(d: Tensor[N, f32], u: Tensor[N, K, f32], y: Tensor[N, f32]):
    return solve(diag(d) + u @ u.T, y)

def whole(d: Tensor[N, f32], u: Tensor[N, K, f32], y: Tensor[N, f32]):
    return solve(diag(d) + u @ u.T, y)

@sizes(N=2, M=64, P=2, Q=64)
def grid(a: Tensor[N, M, f32], b: Tensor[P, Q, f32], x: Tensor[M*Q, f32]):
    return kron(a, b) @ x

def factored(a: Tensor[N, N, f32]):
    return qr(a)
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    path: Path = tmp_path_factory.mktemp("sizes") / "f.tess"
    path.write_text(TEXT, encoding="utf-8")
    session = Session()
    names = ("told", "open", "calling", "knowing", "mapped", "update", "whole", "grid", "factored")
    return {name: rewrites(session, f"{path}:{name}").output for name in names}


@pytest.mark.one_in(6)
def test_expected_sizes_decide_and_are_told(shown: dict[str, str]) -> None:
    assert "associativity: ((a @ b) @ c) = (a @ (b @ c))" in shown["told"]
    assert "by `@sizes`: N=1024, M=8, K=1024, L=8" in shown["told"]
    assert "as written: (a @ (b @ c)) costs" in shown["open"] and "`@sizes(...)`" in shown["open"]
    assert "associativity" in shown["calling"] and "by `@sizes`: P=1024, Q=1024, R=8" in shown["calling"]
    assert "associativity" not in shown["knowing"]  # its own sizes, of which it knows more
    assert "associativity" in shown["mapped"]
    assert "as written" not in shown["factored"]  # of the library's own orders a program cannot say more


@pytest.mark.one_in(2)
def test_expected_sizes_choose_forms(shown: dict[str, str]) -> None:
    assert "computed by `solve_update`\n    by `@sizes`: N=1024, K=8" in shown["update"]
    assert "as a whole: the matrix is a diagonal one and a product, by which it costs" in shown["whole"]
    assert "cheaper where" in shown["whole"]
    assert "second factor first" in shown["grid"] or "as written" not in shown["grid"]


def test_the_editor_tells_what_another_order_would_save() -> None:
    source = SourceFile("a.tess", TEXT)
    session = Session()
    first, second = TEXT.index("@ b @ c"), TEXT.index("@ b @ c", TEXT.index("def open"))
    taken, left = (hover(session, source, at) for at in (first, second))
    assert taken is not None and "by `@sizes`: N=1024" in taken.markdown
    assert left is not None and "it is cheaper where -K*L*M + K*L*N + K*M*N - L*M*N > 0" in left.markdown


@pytest.mark.one_in(24)
def test_what_is_expected_is_not_asked_for() -> None:
    """A call of other sizes is as right, and has the same order: rows have the same bits alone and in a batch."""
    module = tessera.compile(TEXT)
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(shape).astype("f4") for shape in ((5, 3), (3, 2), (2, 9)))
    found = np.asarray(module.told(a, b, c))
    np.testing.assert_allclose(found, a @ (b @ c), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found[:2], np.asarray(module.told(a[:2], b, c)))
    gradient = np.asarray(module.derived(a, b, c))
    np.testing.assert_allclose(gradient, np.ones((5, 9)) @ (b @ c).T, rtol=1e-4, atol=1e-5)


def test_costs_that_cross_are_decided_where_all_is_told() -> None:
    new, old = parse_dim("K*N"), parse_dim("N*N")
    assert is_open(new, old, Facts()) and not beats(new, old, Facts())
    assert beats(new, old, Facts((), (("K", 8), ("N", 64)))) and beats(old, new, Facts((), (("K", 64), ("N", 8))))
    assert is_open(new, old, Facts((), (("K", 512),)))
    assert beats(new, old, Facts((), (("K", 8),)))  # what it costs more where N is below K is less than a call
    known = Facts((parse_dim("N - K"),), (("K", 64), ("N", 8)))  # what is sure is not asked
    assert beats(new, old, known) and not beats(old, new, known)


WRONG = {
    "@sizes(M=3)": "`M` is no size of `f`",
    "@sizes(N=0)": "a size is a positive int that is known",
    "@sizes(N=2.5)": "a size is a positive int that is known",
    "@sizes(8)": "it names each size",
    "@sizes": "it names at least one size",
    "@sizes(N=4)\n@sizes(N=5)": "`N` is said twice",
    "@sizes(N=4, K=8)": "no call has N=4, K=8",
    "@sizes(K=8)\n@kernel.auto": "a kernel is computed as it is written",
}


def test_wrong_sizes_are_told() -> None:
    session = Session()
    for decorator, problem in WRONG.items():
        body = "    return a @ b\n" if "kernel" not in decorator else "    return a + a\n"
        text = f"{decorator}\ndef f(a: Tensor[N, N, f32], b: Tensor[N, K, f32]) where K <= N:\n{body}"
        found = [d for d in session.check(SourceFile("a.tess", text)).diagnostics if d.code == "E0807"]
        assert len(found) == 1 and problem in found[0].title, decorator
