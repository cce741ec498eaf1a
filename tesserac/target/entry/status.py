"""The status of a call: which sites of a program can end it, and the code that says which one did."""

from __future__ import annotations

from collections.abc import Sequence

from tesserac.base.dataclass import dataclass
from tesserac.base.source import Span
from tesserac.target.instructions import Builder
from tesserac.target.llvm_types import I32, I64, Value, const_int


@dataclass(frozen=True)
class HostSite:
    """A place in the program that can end a call; its number stands in the status."""

    operator: str
    text: str
    span: Span


class Sites:
    """The sites of one function, in the order in which they were made."""

    def __init__(self) -> None:
        self._sites: list[HostSite] = []

    def add(self, operator: str, text: str, span: Span) -> int:
        self._sites.append(HostSite(operator, text, span))
        return len(self._sites) - 1

    def table(self) -> tuple[HostSite, ...]:
        return tuple(self._sites)


def return_status(b: Builder, status: Value, code: int, site: int | Value, values: Sequence[Value]) -> None:
    """Fills {i32 code, i32 site, i64 values[]} and returns the code."""
    b.store(const_int(I32, code), status, 4)
    b.store(const_int(I32, site) if isinstance(site, int) else site, b.gep(I32, status, 1), 4)
    for i, value in enumerate(values):
        b.store(value, b.gep(I64, status, 1 + i), 8)
    b.ret(const_int(I32, code))
