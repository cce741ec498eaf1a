"""What a primitive says when it would change a result or make no sense."""

from __future__ import annotations

from tesserac.ir.core import Op


class IllegalSchedule(Exception):
    """A primitive was refused. The text names the primitive, what makes it illegal and what would be legal."""

    def __init__(self, primitive: str, why: str, op: Op | None = None) -> None:
        super().__init__(f"{primitive}: {why}")
        self.primitive = primitive
        self.op = op


class ImpossibleSchedule(Exception):
    """What a program says of how a kernel runs does not fit the machine; the text has the figures."""

    def __init__(self, why: str, op: Op) -> None:
        super().__init__(why)
        self.op = op
