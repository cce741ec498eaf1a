"""Tessera for Python: load a module, call its functions on NumPy arrays.

    m = tessera.load("mlp.tess")                 compiled on first call, cached on disk
    m = tessera.load("mlp.tessb")                a built bundle: no compiler
    m = tessera.compile("def f(x: Tensor[N, f32]): return x * 2.0")

Importing this module costs next to nothing: NumPy and the compiler are imported when they are first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessera.errors import TesseraError

if TYPE_CHECKING:
    import os
    from typing import SupportsIndex

    from tessera.module import Module

__all__ = ["TesseraError", "__version__", "compile", "freeze", "get_num_threads", "load", "set_num_threads"]
__version__ = "0.1.0"


def load(path: str | os.PathLike[str]) -> Module:
    """The module in a `.tess` source or a `.tessb` bundle."""
    from tessera.loading import load_module

    return load_module(path)


def compile(text: str) -> Module:
    """The module that a text is the source of."""
    from tessera.interface import Source
    from tessera.loading import module_of

    return module_of("text", Source("<text>", text))


def freeze(model: object) -> object:
    """A copy of a struct (or of arrays, tuples, lists and dicts) that nothing can change, for any number of calls."""
    from tessera.frozen import freeze as frozen

    return frozen(model)


def set_num_threads(count: SupportsIndex) -> None:
    """Changes how many threads calls may use from now on. Results do not depend on it."""
    from tessera import threads

    threads.set_num_threads(count)


def get_num_threads() -> int:
    """How many threads a call may use: TESSERA_NUM_THREADS, or one per available core, unless set."""
    from tessera import threads

    return threads.get_num_threads()
