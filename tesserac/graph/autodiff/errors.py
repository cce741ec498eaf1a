"""What ends a derivative: something on the way has none. Becomes E0702 at its place."""

from __future__ import annotations

from tesserac.base.source import Span

NOT_FORWARD = "the `@vjp_of` rule of its function is for reverse mode only"
KERNEL = "it is of a kernel without `implements=` and without a `@jvp_of` rule"
ITSELF = "the rule of its function asks for the very derivative that it gives"
NOT_LINEAR = "it is not linear in the tangents of a `@jvp_of` rule here"
BY_TANGENTS = "which way is taken depends on tangents of a `@jvp_of` rule"


class NotDifferentiable(Exception):
    """The derivative of something is asked for that has none."""

    def __init__(self, span: Span, what: str, why: str) -> None:
        super().__init__(f"{what} {why}")
        self.span = span
        self.what = what
        self.why = why
