"""The loss of a training as a picture in SVG: one curve, a logarithmic scale where all losses are positive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 400, 80, 40, 30
MOST_POINTS = 2000
MARKS = 5


def loss_plot(losses: Sequence[float], title: str) -> str:
    """Losses that are not finite leave a gap. Of very many every n-th is drawn."""
    finite = [loss for loss in losses if math.isfinite(loss)] or [0.0]
    logarithmic = min(finite) > 0.0 and max(finite) > min(finite)
    scale = math.log10 if logarithmic else float
    low, high = scale(min(finite)), scale(max(finite))
    spread = (high - low) or 1.0

    def across(step: int) -> float:
        return LEFT + (WIDTH - LEFT - 20) * (step - 1) / max(1, len(losses) - 1)

    def down(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - low) / spread

    apart = max(1, len(losses) // MOST_POINTS)
    drawn = [(step, loss) for step, loss in enumerate(losses, 1) if math.isfinite(loss) and (step - 1) % apart == 0]
    points = " ".join(f"{across(step):.1f},{down(scale(loss)):.1f}" for step, loss in drawn)
    marks = [low + spread * n / (MARKS - 1) for n in range(MARKS)]
    labels = [(down(mark), 10.0**mark if logarithmic else mark) for mark in marks]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            f'<text x="{LEFT}" y="18">loss of {escape(title)}, {len(losses)} steps</text>',
            *(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - 20}" y2="{y:.1f}" stroke="#ddd"/>' for y, _ in labels),
            *(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>' for y, value in labels),
            f'<text x="{LEFT}" y="{HEIGHT - 15}">1</text>',
            f'<text x="{WIDTH - 20}" y="{HEIGHT - 15}" text-anchor="end">{len(losses)}</text>',
            f'<polyline points="{points}" fill="none" stroke="#1f6feb" stroke-width="1.5"/>',
            "</svg>\n",
        ]
    )
