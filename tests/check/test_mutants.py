"""A sample of the mutation test, and its oracle on programs that are right and wrong.

`python -m tests.tools.mutants` runs a thousand of them and prints the figures.
"""

from __future__ import annotations

import pytest

from tesserac.base.source import SourceFile
from tesserac.syntax.parse import parse_module
from tests.mutation.evaluate import judge
from tests.mutation.mutate import mutants
from tests.mutation.programs import programs
from tests.mutation.score import REJECTED, Outcome, examine
from tests.mutation.values import Rejected
from tests.support import sampling

pytestmark = pytest.mark.slow

SAMPLE = 60 if sampling.thorough else 16
"""Each is examined with its fixes tried, which takes seconds: the tests that look at them take one turn together."""


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [examine(mutant) for mutant in mutants(seed=1, count=SAMPLE)]


@pytest.mark.one_in(48)
def test_there_are_many_programs() -> None:
    assert len(programs()) >= 250


@pytest.mark.one_in(12, "mutants")
def test_what_the_oracle_rejects_is_diagnosed(outcomes: list[Outcome]) -> None:
    wrong = [outcome for outcome in outcomes if outcome.verdict == REJECTED]
    assert len(wrong) >= SAMPLE // 2
    missed = [(o.mutant.program, o.mutant.change, o.reason) for o in wrong if not o.found]
    assert len(missed) <= 1, missed


@pytest.mark.one_in(12, "mutants")
def test_the_mutated_line_is_shown_and_errors_do_not_cascade(outcomes: list[Outcome]) -> None:
    found = [outcome for outcome in outcomes if outcome.verdict == REJECTED and outcome.found]
    assert sum(o.shown for o in found) >= 0.9 * len(found)
    assert sum(len(o.codes) == 1 for o in found) >= 0.9 * len(found)


@pytest.mark.one_in(12, "mutants")
def test_first_fixes_mend(outcomes: list[Outcome]) -> None:
    fixed = [outcome for outcome in outcomes if outcome.fix is not None]
    assert sum(o.mended for o in fixed) >= 0.8 * len(fixed)
    found = [outcome for outcome in outcomes if outcome.verdict == REJECTED and outcome.found]
    assert sum(o.mended for o in found) >= 0.5 * len(found)


@pytest.mark.one_in(48)
@pytest.mark.parametrize(
    "body",
    [
        "def f(x: Tensor[N, f32], y: Tensor[M, f32]): return x + y",
        "def f(x: Tensor[N, 1, f32], y: Tensor[N, f32]): return x - y",
        "def f(x: Tensor[N, f32], y: Tensor[N, f64]): return x + y",
        "def f(x: Tensor[M, K, f32], y: Tensor[N, K, f32]): return x @ y",
        "def f(x: Tensor[A, B, f32]): return reshape(x, (B, A))",
        "def f(x: Tensor[A, B, f32]) -> Tensor[A, f32]: return sum(x, axis=0)",
        "def f(x: Tensor[N, f32]) -> Tensor[M, f32]: return x",
        "def f(x: Tensor[N, i32]): return x * 0.5",
        "def f(x: Tensor[A, B, f32]): return sum(x, axis=2)",
        "def f(x: Tensor[N, f32], y: Tensor[N, f32]): return concat([x[:, None], y], axis=1)",
    ],
)
def test_the_oracle_rejects(body: str) -> None:
    with pytest.raises(Rejected):
        judge(parse_module(SourceFile("example.tess", body + "\n")).module)
