"""The random stream of a module: one key for each call of a function that draws random numbers.

Enters: a seed, from `m.seed(0)`; 0 where nothing was said. Leaves: keys, which are integers modulo 2^64. The key of
call number c is `seed + c * STEP`; within a call the compiled code makes all further keys of it.
"""

from __future__ import annotations

import itertools
import operator
from typing import TYPE_CHECKING

from tessera.errors import WRONG_ARGUMENTS, failure, kind_of

if TYPE_CHECKING:
    from tessera.arguments import Array

STREAM = "random$stream"
"""The name under which a function takes its key, among the params that it reads."""

STEP = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


class Stream:
    def __init__(self) -> None:
        self.restart(0)

    def restart(self, seed: object) -> None:
        self._start = read_seed(seed)
        self._calls = itertools.count()  # counts without a lock, also where threads call

    def next(self) -> int:
        return (self._start + next(self._calls) * STEP) & _MASK


def read_seed(seed: object) -> int:
    """The key that a seed stands for."""
    try:
        return operator.index(seed) & _MASK  # type: ignore[arg-type]
    except TypeError:
        raise failure(WRONG_ARGUMENTS, f"a seed is an int, not {kind_of(seed)}") from None


def key_array(key: int) -> Array:
    """A key as compiled code takes it."""
    import numpy as np

    return np.array(key, np.uint64)


def fold_in(key: int, data: int) -> int:
    """The compiler's `fold_in`: words 0 and 1 of Philox4x32-10 with the counter {data, 1}."""
    word = 0xFFFFFFFF
    first, second = key & word, key >> 32
    words = [data & word, data >> 32, 1, 0]
    for _ in range(10):
        left, right = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [right >> 32 ^ words[1] ^ first, right & word, left >> 32 ^ words[3] ^ second, left & word]
        first, second = first + 0x9E3779B9 & word, second + 0xBB67AE85 & word
    return words[0] | words[1] << 32
