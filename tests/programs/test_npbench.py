"""The programs of `benchmarks/npbench`: all check, and those whose loops are the hardest have the numbers of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tessera
from tesserac.base.source import SourceFile
from tesserac.driver.session import Session
from tests.support.paths import ROOT

FILES = sorted((ROOT / "benchmarks" / "npbench").glob("*.tess"))


@pytest.mark.one_in(12)
def test_all_programs_check() -> None:
    session = Session()
    found = {path.name: session.check(SourceFile(path.name, path.read_text())) for path in FILES}
    assert len(found) == 6
    assert [str(d) for checked in found.values() for d in checked.diagnostics] == []


def spd(n: int) -> np.ndarray:
    a = np.random.default_rng(n).normal(size=(n, n))
    return a @ a.T + n * np.eye(n)


@pytest.mark.one_in(48)
def test_loops_of_factorisations() -> None:
    m, a = tessera.load(ROOT / "benchmarks" / "npbench" / "polybench.tess"), spd(9)
    np.testing.assert_allclose(np.tril(m.cholesky_loops(a)), np.linalg.cholesky(a), rtol=1e-12)
    factors = m.lu(a)
    np.testing.assert_allclose((np.tril(factors, -1) + np.eye(9)) @ np.triu(factors), a, rtol=1e-10)
    x, _ = m.ludcmp(a, a[0])
    np.testing.assert_allclose(x, np.eye(9)[0], atol=1e-12)
    q, r = m.gramschmidt(a[:, :5])
    np.testing.assert_allclose(q @ r, a[:, :5], rtol=1e-10)
    np.testing.assert_allclose(m.gesummv(1.5, 0.5, a, 2.0 * a, a[0]), 2.5 * a @ a[0], rtol=1e-12)
