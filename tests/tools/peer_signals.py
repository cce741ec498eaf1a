"""Short-time Fourier transforms over products of their options, and what PyTorch makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from tests.tools.peer_cases import Case

RNG = np.random.default_rng(4)
X, N_FFT, FRAMES = RNG.normal(size=(2, 40)), 8, 9


def stft_cases(torch: Any) -> Iterator[Case]:
    flags = (False, True)
    for hop, win, given, center, normed, half in product((None, 3), (None, 6), flags, flags, flags, flags):
        operands = {"x": X} | ({"w": RNG.uniform(0.2, 1, win or N_FFT)} if given else {})
        shape = f"{N_FFT}, {hop}, {win}, {'w' if given else None}, {center}"
        call = f'stft(x, {shape}, "reflect", {normed}, {half})'
        parts = f"stack([real({call}), imag({call})])"
        options = hop, win, center, normed, half
        yield Case(
            parts, operands, lambda x, w=None, o=options: torch.view_as_real(_stft(torch, x, w, o)).movedim(-1, 0)
        )
        if half:
            yield from _inverses(torch, shape, operands, options)
        elif center or not win:
            back = f"istft({call}, {shape}, {normed}, {half})"
            yield Case(back, operands, lambda x, w=None, o=options: _istft(torch, _stft(torch, x, w, o), w, o, None))


def _inverses(torch: Any, shape: str, operands: dict[str, np.ndarray], options: tuple[Any, ...]) -> Iterator[Case]:
    _, win, center, normed, _ = options
    parts = {name: RNG.normal(size=(2, N_FFT // 2 + 1, FRAMES)) for name in "ab"}
    given = parts | {name: array for name, array in operands.items() if name == "w"}
    for length in (None, 14) if center or not win else ():
        call = f"istft(complex(a, b), {shape}, {normed}, True, {length})"
        yield Case(call, given, lambda a, b, w=None, o=options, n=length: _istft(torch, torch.complex(a, b), w, o, n))


def _stft(torch: Any, x: Any, w: Any, options: tuple[Any, ...]) -> Any:
    hop, win, center, normed, half = options
    return torch.stft(x, N_FFT, hop, win, w, center, "reflect", normed, half, return_complex=True)


def _istft(torch: Any, z: Any, w: Any, options: tuple[Any, ...], length: int | None) -> Any:
    hop, win, center, normed, half = options
    return torch.istft(z, N_FFT, hop, win, w, center, normed, half, length)
