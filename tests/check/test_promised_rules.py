"""Rules of derivatives in the library are checked for programs that take derivatives or map functions, for no other."""

from __future__ import annotations

from typing import Any

import pytest

from tesserac.base.source import SourceFile
from tesserac.check.module import checker
from tesserac.check.module.definitions import check_definition
from tesserac.diag.codes.names import E0299
from tesserac.driver.refusals import ProgramError
from tesserac.driver.session import Session

RULES = {"_factor_forward", "_factor_back"}
PLAIN = "def f(x: Tensor[N, N, f64]):\n    return cholesky(x)\n"
DERIVED = PLAIN.replace("cholesky(x)", "grad(lambda a: sum(cholesky(a)))(x)")
MAPPED = PLAIN.replace("cholesky(x)", "vmap(cholesky)(x)").replace("[N, N", "[B, N, N")
OF_PROGRAM = """
def squared(x: Tensor[N, f32]):
    return x * x
@jvp_of(squared)
def changed(x: Tensor[N, f32], y, change):
    return 2.0 * x * change
def f(x: Tensor[N, f32]):
    return grad(lambda v: sum(squared(v)))(x)
"""


def reached(text: str) -> set[str]:
    session, source = Session(), SourceFile("program.tess", text)
    return {function.name for function in session.reached(source, session.function(source, "f")).values()}


def test_a_program_without_derivatives_has_no_rules() -> None:
    assert "_factor" in reached(PLAIN) and not RULES & reached(PLAIN)


@pytest.mark.parametrize("text", [DERIVED, MAPPED], ids=["grad", "vmap"])
def test_a_program_with_derivatives_or_mapped_functions_has_them(text: str) -> None:
    assert reached(text) >= RULES


def test_the_rules_of_a_program_are_its_own() -> None:
    assert "changed" in reached(OF_PROGRAM)
    plain = OF_PROGRAM.replace("grad(lambda v: sum(squared(v)))", "squared")
    source = SourceFile("program.tess", plain.replace("2.0 * x * change", "cast(change, f64)"))
    assert [d.code for d in Session().check(source).diagnostics] == ["E0705"]


def test_a_rule_of_the_library_that_does_not_fit_is_a_mistake_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(body: Any, signature: Any, types: Any, symbol: str, *rest: Any) -> Any:
        if signature.name in RULES and ".f64_3d" in symbol:
            body.sink.error(E0299, at=signature.node.name_span, feature="this rule")
            return None
        return check_definition(body, signature, types, symbol, *rest)

    monkeypatch.setattr(checker, "check_definition", fails)
    plain, derived = (text.replace("[N, N", "[B, N, N") for text in (PLAIN, DERIVED))
    assert "_factor" in reached(plain)
    with pytest.raises(ProgramError) as refused:
        reached(derived)
    assert [problem.code for problem in refused.value.diagnostics] == ["E0705"]
