"""Properties that are computed once: `functools.cached_property` without its lock, which costs more than what most of
ours compute. Two threads that ask at once compute the same twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from functools import cached_property as once
else:

    class once:
        """A property of an object with a `__dict__`, which has it from then on."""

        def __init__(self, compute):
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, owner, cls=None):
            if owner is None:
                return self
            value = owner.__dict__[self._name] = self._compute(owner)
            return value


__all__ = ["once"]
