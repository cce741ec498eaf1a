"""What the formatter knows of names: which stand for types, and which spellings have a better one.

A name that the module itself binds is its own, and is never rewritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from functools import cache

from tesserac.base.resources import stdlib_files
from tesserac.syntax import ast
from tesserac.syntax.walk import descendants
from tesserac.types.dtype import lookup

BUILTIN_TYPES = frozenset(
    (
        "Tensor", "Tile", "KTile", "KVCache", "Operator", "SpectralOperator", "OptimizerState", "Mesh", "ShardSpec",
        "Schedule", "Key", "List", "Dict",
    )
)  # fmt: skip
_DTYPE_FAMILIES = frozenset(("fp8",))
_OVER_AN_AXIS = frozenset(
    (
        "sum", "prod", "mean", "var", "std", "max", "min", "argmax", "argmin", "any", "all", "cumsum", "cumprod",
        "concat", "stack", "split", "gather", "flip", "roll", "repeat", "take_along_axis", "argsort",
    )
)  # fmt: skip
"""Operators; functions of the library that run along an axis say so in their signatures."""
_RENAMED = {"dim": "axis", "keepdim": "keep", "keepdims": "keep"}
_NOT_AS_IN_PYTORCH = frozenset(("median", "split", "std", "var"))
"""Functions of which `dim=` has a warning: the word that brings it stays."""
_WITH_PLACES = frozenset(("max", "min", "sort", "cummax", "cummin"))
"""And those of which it has one where an item is taken of what they give: `x.max(dim=1)[0]`."""


def _runs_along_an_axis(function: str) -> bool:
    return function in _OVER_AN_AXIS or function in _library_along_an_axis()


@cache
def _library_along_an_axis() -> frozenset[str]:
    found = (_ALONG_AN_AXIS.findall(text) for text in stdlib_files().values())
    return frozenset(name for names in found for name in names)


_ALONG_AN_AXIS = re.compile(r"^def ([a-z]\w*)\([^)]*\baxis: Axis\b", re.MULTILINE)


class Role(Enum):
    """What an expression stands for. In a type, the entry that may be a dtype is a TYPE, a size is a DIM."""

    VALUE = "value"
    TYPE = "type"
    DIM = "dim"


class Names:
    """The names that a module binds anywhere, and what follows for the others."""

    def __init__(self, items: Iterable[ast.Item]) -> None:
        self._items = tuple(items)
        self._bound: frozenset[str] | None = None

    def dtype(self, text: str) -> str | None:
        """The name of the dtype that a spelling stands for."""
        dtype = lookup(text)
        if dtype is None or dtype.name == text:
            return None if dtype is None else text
        return None if text in self.bound else dtype.name

    def is_dtype(self, name: str) -> bool:
        return self.dtype(name) is not None or name.lower() in _DTYPE_FAMILIES

    def argument(self, function: str, name: str, is_indexed: bool) -> str:
        """The name that an argument of a library function should be given by; of what the call gives an item may be
        taken."""
        if name not in _RENAMED or function in self.bound or not _runs_along_an_axis(function):
            return name
        warned = function in _NOT_AS_IN_PYTORCH or (is_indexed and function in _WITH_PLACES)
        if name in ("dim", "keepdim") and warned:
            return name
        return _RENAMED[name]

    @property
    def bound(self) -> frozenset[str]:
        """Found when first asked for, since few files need it."""
        if self._bound is None:
            nodes = (node for item in self._items for node in descendants(item))
            self._bound = frozenset(name for node in nodes for name in _bound_by(node))
        return self._bound


def _bound_by(node: ast.Node) -> Iterable[str]:
    match node:
        case ast.FunctionDef() | ast.StructDef() | ast.Parameter() | ast.ParamDecl() | ast.FieldDef():
            return (node.name,)
        case ast.Assignment() | ast.ConstDef():
            return [name for target in node.targets for name in _target_names(target)]
        case ast.AnnotatedAssignment() | ast.For() | ast.ComprehensionClause():
            return _target_names(node.target)
        case ast.ImportedModule(alias=ast.Name(id=name)):
            return (name,)
        case ast.FromImport(path=ast.ModulePath(dots=0, names=("tessera", *_))):
            return [n.alias.id for n in node.names if n.alias is not None]
        case ast.FromImport():
            return [(n.alias or n.name).id for n in node.names]
    return ()


def _target_names(target: ast.Expr) -> list[str]:
    return [node.id for node in descendants(target) if isinstance(node, ast.Name)]
