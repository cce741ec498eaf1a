"""What a module offers, and what the runtime asks of the compiler.

The compiler is reached through `Compiler` alone. It is called for what the cache does not hold.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

from tessera.artifact import Artifact
from tessera.container import Row, pack, unpack

_KIND = "module 1"


class Missing(NamedTuple):
    """Stands where a parameter has no default."""


MISSING = Missing()

Static: TypeAlias = int | float | bool | str | None


class ArrayKind(NamedTuple):
    """What a generic parameter takes from its argument: NumPy's name of the dtype, and the rank."""

    dtype: str
    rank: int


Choice: TypeAlias = Static | ArrayKind
Specialization: TypeAlias = tuple[tuple[str, Choice], ...]
"""The compile-time arguments of one compilation, by parameter name, in the order of the parameters."""


class Parameter(NamedTuple):
    """`kind` is `tensor` (declared dtype and rank), `generic` (both follow the argument) or `static` (a value known
    when compiling)."""

    name: str
    kind: str
    keyword_only: bool = False
    default: Static | Missing = MISSING


class FunctionInterface(NamedTuple):
    name: str
    parameters: tuple[Parameter, ...]
    doc: str = ""


class ModuleInterface(NamedTuple):
    """`reads` are the other files that the module is made of, each with the SHA-256 of its content."""

    functions: tuple[FunctionInterface, ...]
    reads: tuple[tuple[str, str], ...] = ()

    def to_bytes(self) -> bytes:
        return pack([_KIND, [_function_row(f) for f in self.functions], self.reads], [])


class Source(NamedTuple):
    path: str
    text: str


class Compiler(Protocol):
    """Both methods raise TesseraError, with the rendered diagnostics, for mistakes in the source."""

    def interface(self, source: Source) -> ModuleInterface: ...

    def compile_function(self, source: Source, name: str, specialization: Specialization) -> Artifact: ...


def read_interface(data: bytes) -> ModuleInterface:
    """Raises ValueError where `data` is not an interface."""
    content, _ = unpack(data)
    kind, functions, reads = content
    if kind != _KIND:
        raise ValueError(f"it holds {kind!r}, not a module")
    return ModuleInterface(tuple(map(_function, functions)), tuple((path, digest) for path, digest in reads))


def _function_row(function: FunctionInterface) -> Row:
    rows = [
        [p.name, p.kind, p.keyword_only, [] if isinstance(p.default, Missing) else [p.default]]
        for p in function.parameters
    ]
    return [function.name, rows, function.doc]


def _function(row: Row) -> FunctionInterface:
    name, rows, doc = row
    parameters = tuple(Parameter(n, kind, only, *default) for n, kind, only, default in rows)
    return FunctionInterface(name, parameters, doc)
