"""Sizes, as the rest of the compiler imports them, and their text.

Enters: what `str(dim)` writes, or what a user types in a type: `2*K*M + 1`, `D/heads`, `ceil_div(N, 64)`.
Leaves: a `Dim`.
"""

import re
from collections.abc import Callable

from tesserac.types.polynomial import LARGEST_SIZE, ONE, ZERO, Dim, DimError, product
from tesserac.types.terms import MAX_DIMS, TooComplex

__all__ = ["LARGEST_SIZE", "MAX_DIMS", "Dim", "DimError", "ONE", "TooComplex", "ZERO", "parse_dim", "product"]

_TOKEN = re.compile(r"\s*(\d+|[^\W\d]\w*(?:\.[^\W\d]\w*)*|//|[-+*/%(),])")
_FUNCTIONS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "floor_div": Dim.floor_div,
    "mod": Dim.mod,
    "ceil_div": Dim.ceil_div,
    "min": Dim.min,
    "max": Dim.max,
}
_PRODUCTS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "*": Dim.__mul__,
    "/": Dim.exact_div,
    "//": Dim.floor_div,
    "%": Dim.mod,
}


def parse_dim(text: str) -> Dim:
    """The size a text stands for. Raises DimError if it is not one."""
    reader = _Reader(text)
    dim = reader.sum()
    if reader.peek():
        raise DimError(f"`{text}` is not a size: unexpected `{reader.peek()}`")
    return dim


class _Reader:
    """Recursive descent over the tokens of one size."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise DimError(f"`{text}` is not a size: unexpected `{text[position:].strip()[0]}`")
            self._tokens.append(match[1])
            position = match.end()

    def peek(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def _take(self, expected: str | None = None) -> str:
        token = self.peek()
        if not token or (expected is not None and token != expected):
            raise DimError(f"`{self._text}` is not a size: expected {expected or 'a number or a name'}")
        return self._tokens.pop(0)

    def sum(self) -> Dim:
        dim = self._product()
        while self.peek() in ("+", "-"):
            dim = dim + self._product() if self._take() == "+" else dim - self._product()
        return dim

    def _product(self) -> Dim:
        dim = self._factor()
        while self.peek() in _PRODUCTS:
            dim = _PRODUCTS[self._take()](dim, self._factor())
        return dim

    def _factor(self) -> Dim:
        token = self._take()
        if token == "-":
            return -self._factor()
        if token == "(":
            dim = self.sum()
            self._take(")")
            return dim
        if token.isdecimal():
            return Dim.const(int(token))
        if token in _FUNCTIONS and self.peek() == "(":
            return self._call(_FUNCTIONS[token])
        if all(part.isidentifier() for part in token.split(".")):  # `layers.D` is a size of another module
            return Dim.sym(token)
        raise DimError(f"`{self._text}` is not a size: unexpected `{token}`")

    def _call(self, function: Callable[[Dim, Dim], Dim]) -> Dim:
        self._take("(")
        dim = self.sum()
        while self.peek() == ",":
            self._take()
            dim = function(dim, self.sum())
        self._take(")")
        return dim
