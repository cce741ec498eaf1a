"""How much of a long sweep runs: a fixed sample under `make test`, all of it under `--thorough`.

A sweep says what its sample is; `docs/contributing.md` says for each what still covers the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from _pytest.mark.structures import ParameterSet
from hypothesis import settings

T = TypeVar("T")

thorough = False
"""Set by `--thorough` before any test module is imported."""


def spread(cases: Iterable[T], count: int) -> list[T]:
    """`count` of the cases at even distances, the first and the last among them."""
    every = list(cases)
    if thorough or len(every) <= count:
        return every
    return [every[round(i * (len(every) - 1) / max(count - 1, 1))] for i in range(count)]


def some_of_each(cases: Iterable[T], key: Callable[[T], Hashable], count: int = 1) -> list[T]:
    """`count` cases of every group, in the order they had. Groups begin one case further on each, so that what varies
    within them (an element type, a shape) is met over all of them."""
    every = list(cases)
    if thorough:
        return every
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for i, case in enumerate(every):
        groups[key(case)].append(i)
    return [every[i] for i in sorted(i for at, group in enumerate(groups.values()) for i in _turned(group, at, count))]


def of_each_operator(cases: Iterable[ParameterSet], count: int) -> list[ParameterSet]:
    """Of a sweep over the registry, whose cases are called `operator-...`, some of every operator."""
    return some_of_each(cases, lambda case: str(case.id).partition("-")[0], count)


def _turned(group: Sequence[int], start: int, count: int) -> list[int]:
    step = max(len(group) // count, 1)
    return [group[(start + i * step) % len(group)] for i in range(min(count, len(group)))]


def examples(count: int, brief: int | None = None) -> settings:
    """So many examples of hypothesis under `--thorough`; else a quarter of them, or `brief`."""
    return settings(max_examples=count if thorough else brief or max(count // 4, 5))
