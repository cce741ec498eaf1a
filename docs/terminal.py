"""What a terminal shows, as a picture: text with colours to SVG."""

from __future__ import annotations

import re
from html import escape

_CODES = re.compile(r"\x1b\[([\d;]*)m")
_DARK, _TEXT = "#16181d", "#d6d9de"
_COLOURS = {"31": "#ff6b68", "32": "#6fce7c", "33": "#e5c07b", "34": "#7aa2f7", "36": "#56c8d8"}
_BUTTONS = ("#ff5f57", "#febc2e", "#28c840")
_WIDTH, _HEIGHT, _MARGIN, _BAR = 8.4, 19, 16, 30
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def terminal(text: str, title: str) -> str:
    """The picture of a window that shows the text."""
    lines = text.rstrip("\n").split("\n")
    columns = max(len(_CODES.sub("", line)) for line in lines)
    width = round(2 * _MARGIN + _WIDTH * columns)
    height = _BAR + 2 * _MARGIN + _HEIGHT * len(lines) - 8
    body = [
        f'<text x="{_MARGIN}" y="{_BAR + _MARGIN + 8 + _HEIGHT * number}">{_spans(line)}</text>'
        for number, line in enumerate(lines)
    ]
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    dots = [f'<circle cx="{18 + 18 * i}" cy="16" r="5.5" fill="{colour}"/>' for i, colour in enumerate(_BUTTONS)]
    label = 'text-anchor="middle" font-family="sans-serif" font-size="12" fill="#8b919c"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="{_DARK}"/>',
        *dots,
        f'<text x="{width / 2:g}" y="20" {label}>{escape(title)}</text>',
        f'<g font-family="{_FONT}" font-size="14" fill="{_TEXT}" xml:space="preserve" style="white-space: pre">',
        *body,
        "</g>",
        "</svg>",
        "",
    ])  # fmt: skip


def _spans(line: str) -> str:
    """Runs of one style; each stands at its column, whatever font the reader has."""
    parts, style, column = [], "", 0
    for number, piece in enumerate(_CODES.split(line)):
        if number % 2:
            style = piece if piece not in ("", "0") else ""
        elif piece:
            indent = len(piece) - len(piece.lstrip())
            x = _MARGIN + _WIDTH * (column + indent)
            parts.append(f'<tspan x="{x:.1f}"{_attributes(style)}>{escape(piece.strip())}</tspan>')
            column += len(piece)
    return "".join(parts)


def _attributes(style: str) -> str:
    codes = style.split(";")
    bold = ' font-weight="bold"' if "1" in codes else ""
    colour = "".join(f' fill="{_COLOURS[code]}"' for code in codes if code in _COLOURS)
    return bold + colour
