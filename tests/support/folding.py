"""Many cases in one test: what `pytest.mark.parametrize` does, where a case is too small to be a test of its own.

    @folded("path", FILES, ids=name)
    def test_imports_point_back(path): ...

All cases run, and all that fail are told. `pytest --case TEXT` runs only the cases whose names contain the text. Cases
share the fixtures of the test: what a fixture must make anew for each is parametrised.
"""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from tests.support import rotation

only = ""
"""Set by `--case`."""

Test = Callable[..., None]
Cases = Iterable[Any] | Callable[[], Iterable[Any]]
Names = Callable[[Any], object] | Sequence[str] | None


def folded(
    names: str | Sequence[str], cases: Cases, ids: Names = None, one_in: int = 1
) -> Callable[[Test], Test]:
    """Runs the test for every case; `names` are its parameters, as for `parametrize`. Cases that take time to find are
    a function: they are found when the test runs, not when it is collected. Of `one_in` cases one runs at a commit, as
    `rotation.py` says, and one of all if there are fewer."""
    parameters = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)

    def fold(test: Test) -> Test:
        @functools.wraps(test)
        def all_cases(**fixtures: Any) -> None:
            _run_all(test, parameters, _chosen(cases, one_in), ids, fixtures)

        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in parameters]
        all_cases.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return all_cases

    return fold


def _run_all(
    test: Test, parameters: Sequence[str], cases: Sequence[tuple[int, Any]], ids: Names, fixtures: dict[str, Any]
) -> None:
    failures, skips = [], []
    for i, case in cases:
        values, name = _case(case, i, len(parameters), ids)
        if only not in name:
            continue
        try:
            test(**dict(zip(parameters, values, strict=True)), **fixtures)
        except pytest.skip.Exception as skip:
            skips.append(f"{name}: {skip.msg}")
        except (Exception, pytest.fail.Exception) as error:
            failures.append((name, "".join(traceback.format_exception(error))))
    if failures:
        pytest.fail(_told(failures, len(cases)), pytrace=False)
    if len(skips) == len(cases):
        pytest.skip(skips[0])


def _chosen(cases: Cases, one_in: int) -> list[tuple[int, Any]]:
    """With their places among all."""
    every = list(enumerate(cases() if callable(cases) else cases))
    assert every, "there are no cases"
    turns = rotation.turns_of(len(every), one_in)
    return every if only else [case for case in every if rotation.is_turn_in_fold(case[0], turns)]


def _told(failures: Sequence[tuple[str, str]], count: int) -> str:
    """The names of all cases that fail, then what the first twenty of them said."""
    names = "".join(f"    {name}\n" for name, _ in failures)
    said = "\n".join(f"--- {name}\n{text}" for name, text in failures[:20])
    return f"{len(failures)} of {count} cases fail:\n{names}\n{said}"


def _case(case: Any, place: int, count: int, ids: Names) -> tuple[Sequence[Any], str]:
    """The values of a case and its name."""
    name = None
    if isinstance(case, type(pytest.param())):
        name, case = case.id, case.values if count > 1 else case.values[0]
    values = tuple(case) if count > 1 else (case,)
    if name is None and ids is not None:
        name = "-".join(str(ids(value)) for value in values) if callable(ids) else ids[place]
    return values, name or "-".join(map(repr, values))[:200]
