"""The words for what a name is, by which an editor colours it; known before the compiler is loaded."""

from __future__ import annotations

from typing import Literal, get_args

Kind = Literal[
    "typeParameter", "parameter", "variable", "property", "function", "method", "struct", "type", "namespace", "weight"
]
Mark = Literal["declaration", "readonly", "defaultLibrary", "kernel", "linearOperator"]
KINDS: tuple[str, ...] = get_args(Kind)
MARKS: tuple[str, ...] = get_args(Mark)
OWN_KINDS = ("weight",)
OWN_MARKS = ("kernel", "linearOperator")
"""Those that are not the protocol's: an extension says what they are like."""
