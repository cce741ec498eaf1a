"""What a law of the algebra is: an equation between two expressions. How its sides are written stands in `laws.py`."""

from __future__ import annotations

from tesserac.base.dataclass import dataclass


@dataclass(frozen=True)
class Law:
    """`when` names a condition on what the row's names stand for. A row that takes a sum apart says where it stands: it
    is not tried where no part of the sum can be cheaper to apply than to form."""

    name: str
    left: str
    right: str
    normal: bool = False
    when: str = ""
    sum_at: int | None = None


def normal(name: str, left: str, right: str, when: str = "") -> Law:
    """A law that is a normal form."""
    return Law(name, left, right, True, when)
