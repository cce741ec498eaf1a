"""NumPy and ml_dtypes, imported when something of them is first used: checking a program needs no arrays.

Enters: nothing. Leaves: `np` and `ml_dtypes`, which stand for the modules in the rooms that checking imports, and
`Array`, a type for annotations.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

__all__ = ["Array", "ml_dtypes", "np"]

if TYPE_CHECKING:
    import ml_dtypes
    import numpy as np
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]
else:
    Array = Any

    class _Lazy(ModuleType):
        def __getattr__(self, name: str) -> object:
            value = getattr(import_module(self.__name__), name)
            setattr(self, name, value)  # found without coming here from now on
            return value

    np = _Lazy("numpy")
    ml_dtypes = _Lazy("ml_dtypes")
