"""The generated part of `docs/numerics.md`: the bounds of elementary functions, from the table that the tests hold."""

from __future__ import annotations

from docs.results import tables
from tesserac.numerics import elementary


def bounds_section() -> str:
    lines = (elementary.__doc__ or "").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    merged: list[list[str]] = []
    for row in rows[2:]:
        if row[0]:
            merged.append(row)
        else:
            merged[-1] = [merged[-1][0], merged[-1][1], f"{merged[-1][2]} {row[2]}"]
    body = [f"| `{name.replace(', ', '`, `')}` | {bound} | {corners} |" for name, bound, corners in merged]
    return "\n".join(["| function | bound (ulp) | corner cases |", "|---|---|---|", *body, ""])


def bits_section() -> str:
    rows = [f"| `{row[0]}` | {row[1]} | {row[2]} | {row[3]} |" for row in tables("bits")[1:]]
    return "\n".join(["| program | sizes | machines | result |", "|---|---|---|---|", *rows, ""])
