"""Structured attributes: frozen dataclasses that an operation may carry and that print as `#name<field=value, ...>`.

A room registers its classes here with the name they have in IR text. Orders of `numerics/` are registered in
`forms.py`, since numerics lies below the IR.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypeVar

from tesserac.base.dataclass import is_data_class


class Attribute(Protocol):
    """Any frozen dataclass registered below."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


A = TypeVar("A", bound=type)

_BY_NAME: dict[str, type] = {}
_BY_CLASS: dict[type, str] = {}


def register_attribute(name: str, cls: A) -> A:
    """Gives a frozen dataclass its name in IR text."""
    if not is_data_class(cls) or name in _BY_NAME:
        raise ValueError(f"attribute {name} is not a dataclass or is registered twice")
    _BY_NAME[name] = cls
    _BY_CLASS[cls] = name
    return cls


def attribute_class(name: str) -> type | None:
    return _BY_NAME.get(name)


def attribute_name(value: object) -> str | None:
    return _BY_CLASS.get(type(value))
