"""Plain charts as SVG text: bars, lines on any axes, cells. No library, and the same bytes on every machine."""

from __future__ import annotations

import math
import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

COLOURS = ("#2f6fdb", "#e0882b", "#3a9d5d", "#8a63c9")
INK, FAINT, PAPER = "#24292f", "#d7dbe0", "#ffffff"
Point = tuple[float, float]


@dataclass
class Drawing:
    """Shapes on white paper, so that it reads on dark pages as well."""

    width: int
    height: int
    title: str
    shapes: list[str] = field(default_factory=list)

    def rect(self, x: float, y: float, w: float, h: float, fill: str, stroke: str = "none", radius: float = 0) -> None:
        size = f'x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"'
        self.shapes.append(f'<rect {size} rx="{radius:g}" fill="{fill}" stroke="{stroke}"/>')

    def line(self, a: Point, b: Point, colour: str = INK, width: float = 1, dashes: str = "") -> None:
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.shapes.append(
            f'<line x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}" '
            f'stroke="{colour}" stroke-width="{width:g}"{dashed}/>'
        )

    def path(self, points: Iterable[Point], colour: str, width: float = 2) -> None:
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.shapes.append(f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="{width:g}"/>')

    def dot(self, at: Point, colour: str, radius: float = 4) -> None:
        self.shapes.append(f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:g}" fill="{colour}"/>')

    def text(self, x: float, y: float, words: str, anchor: str = "start", size: int = 12, colour: str = INK) -> None:
        style = f'text-anchor="{anchor}" font-size="{size}" fill="{colour}"'
        self.shapes.append(f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>')

    def arrow(self, a: Point, b: Point, colour: str = INK) -> None:
        self.line(a, b, colour, 1.5)
        angle = math.atan2(b[1] - a[1], b[0] - a[0])
        for side in (2.6, -2.6):
            self.line(b, (b[0] + 8 * math.cos(angle + side), b[1] + 8 * math.sin(angle + side)), colour, 1.5)

    def cells(self, at: Point, width: float, height: float, rows: Sequence[Sequence[tuple[int, int, int]]]) -> None:
        """A field of coloured cells, from the top."""
        data = b64encode(png(rows)).decode()
        size = f'x="{at[0]:g}" y="{at[1]:g}" width="{width:g}" height="{height:g}"'
        self.shapes.append(
            f'<image {size} preserveAspectRatio="none" style="image-rendering: pixelated" '
            f'href="data:image/png;base64,{data}"/>'
        )

    def svg(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img" font-family="ui-sans-serif, Helvetica, Arial, sans-serif">'
        )
        paper = f'<rect width="{self.width}" height="{self.height}" fill="{PAPER}"/>'
        return "\n".join([head, f"<title>{escape(self.title)}</title>", paper, *self.shapes, "</svg>", ""])


def png(rows: Sequence[Sequence[tuple[int, int, int]]]) -> bytes:
    """A small picture, not compressed, so that it has the same bytes whatever zlib there is."""
    data = b"".join(b"\0" + bytes(part for pixel in row for part in pixel) for row in rows)
    assert len(data) < 1 << 16, "one stored block holds it"
    size = len(data).to_bytes(2, "little") + (len(data) ^ 0xFFFF).to_bytes(2, "little")
    stored = b"\x78\x01\x01" + size + data + zlib.adler32(data).to_bytes(4, "big")
    head = len(rows[0]).to_bytes(4, "big") + len(rows).to_bytes(4, "big") + b"\x08\x02\0\0\0"
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", stored) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def bars(title: str, unit: str, rows: Sequence[tuple[str, Mapping[str, float]]]) -> str:
    """One group of bars per row; the names in a row say the colour. Each row is drawn against its own largest value, so
    that short runs are seen beside long ones; the numbers stand behind the bars."""
    names = list(dict.fromkeys(name for _, values in rows for name in values))
    heights = [16 * len(values) + 26 for _, values in rows]
    drawing = Drawing(720, 60 + sum(heights), title)
    drawing.text(16, 24, title, size=15)
    for number, name in enumerate(names):
        drawing.rect(16 + 110 * number, 36, 10, 10, COLOURS[number])
        drawing.text(30 + 110 * number, 45, name)
    y = 66.0
    for (label, values), height in zip(rows, heights, strict=True):
        drawing.text(16, y + 6, label)
        most = max(values.values())
        for place, (name, value) in enumerate(values.items()):
            top = y + 12 + 16 * place
            drawing.rect(16, top, 560 * value / most, 12, COLOURS[names.index(name)])
            drawing.text(22 + 560 * value / most, top + 10, f"{value:g} {unit}", size=11)
        y += height
    return drawing.svg()


@dataclass(frozen=True)
class Axis:
    label: str
    low: float
    high: float
    ticks: Sequence[float]
    logarithmic: bool = False

    def place(self, value: float, start: float, end: float) -> float:
        low, high, at = (math.log10(v) if self.logarithmic else v for v in (self.low, self.high, value))
        return start + (end - start) * (at - low) / (high - low)


@dataclass
class Chart:
    """A drawing with two axes."""

    title: str
    x: Axis
    y: Axis
    width: int = 720
    height: int = 380

    def __post_init__(self) -> None:
        self.drawing = Drawing(self.width, self.height, self.title)
        self.drawing.text(16, 24, self.title, size=15)
        left, right, bottom, top = self._frame
        for tick in self.x.ticks:
            at = self.x.place(tick, left, right)
            self.drawing.line((at, bottom), (at, top), FAINT)
            self.drawing.text(at, bottom + 16, f"{tick:g}", "middle", 11)
        for tick in self.y.ticks:
            at = self.y.place(tick, bottom, top)
            self.drawing.line((left, at), (right, at), FAINT)
            self.drawing.text(left - 6, at + 4, f"{tick:g}", "end", 11)
        self.drawing.text((left + right) / 2, self.height - 8, self.x.label, "middle")
        self.drawing.text(16, 42, self.y.label)

    @property
    def _frame(self) -> tuple[float, float, float, float]:
        return 70.0, self.width - 30.0, self.height - 44.0, 56.0

    def at(self, x: float, y: float) -> Point:
        left, right, bottom, top = self._frame
        return self.x.place(x, left, right), self.y.place(y, bottom, top)

    def curve(self, points: Iterable[Point], colour: str, label: str = "") -> None:
        places = [self.at(*point) for point in points]
        self.drawing.path(places, colour)
        if label:
            self.drawing.text(places[-1][0] - 4, places[-1][1] - 8, label, "end", 12, colour)

    def mark(self, x: float, y: float, label: str, colour: str, anchor: str = "start") -> None:
        place = self.at(x, y)
        self.drawing.dot(place, colour)
        away = 8 if anchor == "start" else -8
        self.drawing.text(place[0] + away, place[1] + 14, label, anchor, 11)

    def svg(self) -> str:
        return self.drawing.svg()
