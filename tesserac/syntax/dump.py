"""The syntax tree as text, for `--emit ast`: one node per line, its plain fields behind its name.

FunctionDef name='relu' @1:1
  parameters:
    Parameter name='x' keyword_only=False @1:10
  body:
    Return @2:5
      value: Call @2:12
"""

from __future__ import annotations

from collections.abc import Iterator

from tesserac.base.source import SourceFile, Span
from tesserac.syntax.ast import Node
from tesserac.syntax.walk import field_names


def dump(node: Node, source: SourceFile) -> str:
    return "\n".join(_lines(node, source, "", ""))


def _lines(node: Node, source: SourceFile, indent: str, label: str) -> Iterator[str]:
    values = {name: getattr(node, name) for name in field_names(type(node))}
    plain = "".join(f" {name}={value!r}" for name, value in values.items() if _is_plain(value))
    line, column = source.position(node.span.start)
    yield f"{indent}{label}{type(node).__name__}{plain} @{line}:{column}"
    inner = indent + "  "
    for name, value in values.items():
        if isinstance(value, Node):
            yield from _lines(value, source, inner, f"{name}: ")
        elif _is_children(value):
            yield f"{inner}{name}:"
            for child in value:
                yield from _lines(child, source, inner + "  ", "")


def _is_children(value: object) -> bool:
    return type(value) is tuple and bool(value) and isinstance(value[0], Node)


def _is_plain(value: object) -> bool:
    """What is shown behind the name: no nodes, no spans, nothing that is absent or empty."""
    return value is not None and value != () and not isinstance(value, Node | Span) and not _is_children(value)
