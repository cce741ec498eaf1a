"""What a case of growth is: a body inside functions for its values and its gradient."""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """
struct State[T]:
    out: Tensor[T, 8, f32]
    sum: Tensor[8, f32]

def run(x: Tensor[T, 8, f32], p: Tensor[T, i32], w: Tensor[8, 8, f32]) where T >= 8:
"""
TAIL = """
def loss(x: Tensor[T, 8, f32], p: Tensor[T, i32], w: Tensor[8, 8, f32]) -> Tensor[f32] where T >= 8:
    y = run(x, p, w)
    return sum(y * y)

def forward(x: Tensor[T, 8, f32], p: Tensor[T, i32], w: Tensor[8, 8, f32]) where T >= 8:
    return run(x, p, w)

def gradient(x: Tensor[T, 8, f32], p: Tensor[T, i32], w: Tensor[8, 8, f32]) where T >= 8:
    return grad(loss, wrt=("x", "w"))(x, p, w)
"""


@dataclass(frozen=True)
class Case:
    kind: str
    name: str
    lines: tuple[str, ...]
    power: int = 1

    @property
    def program(self) -> str:
        return HEAD + "".join(f"    {line}\n" for line in self.lines) + TAIL


def turns(
    kind: str, bodies: dict[str, tuple[str, ...]], before: str = "out = zeros(T, 8)", after: str = "out"
) -> list[Case]:
    """Loops over T that differ in what an iteration does."""
    return [
        Case(kind, name, (before, "for t in range(T):", *(f"    {line}" for line in lines), f"return {after}"))
        for name, lines in bodies.items()
    ]


def alone(kind: str, bodies: dict[str, tuple[str, ...]], power: int = 1) -> list[Case]:
    return [Case(kind, name, lines, power) for name, lines in bodies.items()]
