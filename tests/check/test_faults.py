"""A fault of the checker ends the program that it meets: later ones of the process find the library as it was."""

from __future__ import annotations

from typing import Any

import pytest

from tesserac.base.source import SourceFile
from tesserac.check.infer import CheckResult, check_module
from tesserac.check.module import checker
from tesserac.check.module.definitions import check_definition
from tesserac.syntax.parse import parse_module
from tests.support.checking import library

RULED = """
FACTOR = 3

def squared(x: Tensor[..., N]):
    return x * x

@jvp_of(squared)
def forward(x: Tensor[..., N], y, change):
    return 2.0 * x * change

def whole(x: Tensor[..., N]):
    return squared(x) * FACTOR

def applied(f, x):
    return f(x)

def by_guest(x: Tensor[..., N]):
    return applied(whole, x)
"""
FAULTS = ["squared", "forward", "whole", "by_guest"]


def checked(text: str, name: str, libraries: tuple[CheckResult, ...]) -> CheckResult:
    source = SourceFile(f"{name}.tess", text)
    return check_module(parse_module(source).module, source, name, libraries)


@pytest.mark.parametrize("failing", FAULTS)
@pytest.mark.parametrize("called", ["whole", "by_guest"])
def test_what_a_fault_left_unfinished_is_done_by_the_next_program(
    failing: str, called: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule of a derivative is checked when nothing of its module is under way."""
    module = checked(RULED, "ruled", library())
    assert not module.diagnostics
    scope = (*library(), module)

    def fails(body: Any, signature: Any, *rest: Any) -> Any:
        found = check_definition(body, signature, *rest)
        assert signature.name != failing
        return found

    monkeypatch.setattr(checker, "check_definition", fails)
    with pytest.raises(AssertionError):
        checked("def first(x: Tensor[N, f64]):\n    return by_guest(x)\n", "first", scope)
    monkeypatch.undo()
    result = checked(f"def second(x: Tensor[N, f64]):\n    return {called}(x)\n", "second", scope)
    assert not result.diagnostics
    assert any(symbol.startswith("ruled.forward.f64_1d") for symbol in result.functions)


def test_an_instance_whose_rule_is_refused_late_is_refused_to_every_program() -> None:
    narrow = RULED.replace("return 2.0 * x * change", "return cast(2.0 * x * change, f32)")
    scope = (*library(), checked(narrow, "narrow", library()))
    for called in ("by_guest", "whole"):
        result = checked(f"def f(x: Tensor[N, f64]):\n    return {called}(x)\n", called, scope)
        assert [d.code for d in result.diagnostics] == ["E0217"], called


def test_a_constant_that_was_read_when_the_checker_failed_does_not_depend_on_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = checked(RULED.replace("FACTOR = 3", "FACTOR = squared(ones(2))[0]"), "ruled", library())
    scope, program = (*library(), module), "def f(x: Tensor[N, f32]):\n    return whole(x)\n"
    with monkeypatch.context() as patched:
        patched.setattr(checker, "apart", lambda body, make: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            checked(program, "first", scope)
    assert not checked(program, "second", scope).diagnostics
