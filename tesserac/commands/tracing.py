"""`tesserac why FILE:LINE NAME`: where the dims of a name came from.

    h: Tensor[B, H, f32]  (line 3)
      "B"
        line 1: declared by `x`
        line 2: h = x @ w : ["B", "D"] @ ["D", "H"] -> ["B", "H"]
"""

from __future__ import annotations

from collections.abc import Iterator

from tesserac.base.recursion import deep_recursion
from tesserac.base.source import SourceFile
from tesserac.check.provenance.why import Origin, origin_of
from tesserac.commands.outcome import Outcome, UsageMistake
from tesserac.commands.select import read
from tesserac.driver.session import Session
from tesserac.syntax import ast
from tesserac.syntax.parse import parse_module


def trace_name(session: Session, place: str, name: str) -> Outcome:
    """`place` is FILE:LINE. Raises ProgramError, UsageMistake."""
    path, colon, number = place.rpartition(":")
    if not (colon and path and number.isdecimal()):
        raise UsageMistake(f"`{place}` is not FILE:LINE")
    source = read(session, path)
    function = _function_at(source, int(number))
    checker = session.check(source).result.checker
    with deep_recursion():
        if checker.own_signature(function).has_open_parameters:
            raise UsageMistake(f"`{function}` has parameters without a type, so only a call tells its sizes")
        origin = origin_of(checker.checked_body(function), name, int(number))
    if origin is None:
        raise UsageMistake(f"`{function}` has no name `{name}` at line {number} or before")
    return Outcome("".join(f"{line}\n" for line in _lines(source, name, origin)))


def _function_at(source: SourceFile, line: int) -> str:
    """The function whose lines contain this one; a method has its struct's name before it."""
    for owner, node in _functions(parse_module(source).module):
        first, last = source.position(node.span.start)[0], source.position(node.span.end)[0]
        if first <= line <= last:
            return f"{owner}{node.name}"
    raise UsageMistake(f"line {line} of {source.path} is in no function")


def _functions(module: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for item in module.items:
        if isinstance(item, ast.FunctionDef):
            yield "", item
        elif isinstance(item, ast.StructDef):
            yield from ((f"{item.name}.", part) for part in item.methods)


def _lines(source: SourceFile, name: str, origin: Origin) -> Iterator[str]:
    yield f"{name}: {origin.type}  (line {source.position(origin.span.start)[0]})"
    for chain in origin.chains:
        yield f"  {chain.dim}"
        for link in chain.links:
            yield f"    line {source.position(link.span.start)[0]}: {link.text}"
