"""Patterns of `rearrange`, read: `b (h d) -> b h d`.

Enters: the text of a pattern and how many dims a tensor has. Leaves: both sides as groups of axes, one group for each
dim; `...` has become axes of its own, `1` and `()` are a group without any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tesserac.base.dataclass import dataclass

Group = tuple[str, ...]
DOTS, MERGED = "...", "(...)"
"""Dims as they are, and inside parentheses, where they become a part of one."""
_TOKEN = re.compile(r"\s*(?:(?P<axis>[^\W\d]\w*)|(?P<mark>\.\.\.|[()1]))\s*")


class PatternError(ValueError):
    """What is wrong with a pattern."""


@dataclass(frozen=True)
class Pattern:
    """The two sides, one group of axes for each dim."""

    left: tuple[Group, ...]
    right: tuple[Group, ...]

    @property
    def taken(self) -> tuple[str, ...]:
        return axes_of(self.left)

    @property
    def given(self) -> tuple[str, ...]:
        return axes_of(self.right)


def axes_of(groups: Sequence[Group]) -> tuple[str, ...]:
    return tuple(axis for group in groups for axis in group)


def read_pattern(text: str, rank: int) -> Pattern:
    """The pattern for a tensor of that rank."""
    left, arrow, right = text.partition("->")
    if not arrow or "->" in right:
        raise PatternError('a pattern has one `->`, as in "b h w -> b (h w)"')
    sides = [_read_side(side) for side in (left, right)]
    for side in sides:
        _check_once(side)
    if MERGED in axes_of(sides[0]):
        raise PatternError("`...` stands alone on the left, since how it is split is not known")
    dots = _dots(sides[0], rank)
    if {DOTS, MERGED} & set(axes_of(sides[1])) and (DOTS,) not in sides[0]:
        raise PatternError("`...` stands on the right alone")
    taken = tuple(group for whole in sides[0] for group in ([(d,) for d in dots] if whole == (DOTS,) else [whole]))
    return Pattern(taken, tuple(_filled(sides[1], dots)))


def _read_side(text: str) -> tuple[Group, ...]:
    groups: list[Group] = []
    inside: list[str] | None = None
    at = 0
    while at < len(text.rstrip()):
        token = _TOKEN.match(text, at)
        if token is None:
            sign = text[at:].strip()[0]
            raise PatternError(f"`{sign}` is no part of a pattern, which has names, `(...)`, `...` and `1`")
        at, word = token.end(), token["axis"] or token["mark"]
        if word == "(" and inside is None:
            inside = []
        elif word == ")" and inside is not None:
            groups.append(tuple(inside))
            inside = None
        elif word in "()":
            raise PatternError("parentheses of a pattern do not fit: a group has no other inside it")
        elif inside is not None:
            inside += [] if word == "1" else [MERGED if word == DOTS else word]
        else:
            groups.append(() if word == "1" else (word,))
    if inside is not None:
        raise PatternError("a `(` of the pattern is not closed")
    return tuple(groups)


def _check_once(side: tuple[Group, ...]) -> None:
    axes = axes_of(side)
    twice = next((axis for axis in axes if axes.count(axis) > 1), None)
    if twice is not None:
        raise PatternError(f"axis `{twice}` stands twice on one side")


def _dots(side: tuple[Group, ...], rank: int) -> tuple[str, ...]:
    """Names for the dims that `...` is."""
    named = len(side) - side.count((DOTS,))
    if rank < named or (rank > named and (DOTS,) not in side):
        raise PatternError(f"the left side has {named} dims, and the tensor {rank}")
    return tuple(f"...{place}" for place in range(rank - named))


def _filled(side: tuple[Group, ...], dots: tuple[str, ...]) -> Iterator[Group]:
    for group in side:
        if group == (DOTS,):
            yield from ((axis,) for axis in dots)
        else:
            yield tuple(axis for part in group for axis in (dots if part == MERGED else (part,)))
