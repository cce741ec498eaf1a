"""Derivatives where there is a choice or none: at corners, ties and poles, where everything is masked, at NaN.

Leaves: the tables of `docs/differentiation.md`. A test differentiates every row, forwards and back.
"""

from __future__ import annotations

from math import inf, nan
from typing import NamedTuple


class Row(NamedTuple):
    """One number as an expression of the vector x, and its gradient at a point."""

    expression: str
    at: tuple[float, ...]
    gradient: tuple[float, ...]


TABLES: dict[str, tuple[Row, ...]] = {
    "Equal ones share, and a corner has a slope between those of its sides": (
        Row("max(x)", (3.0, 1.0, 3.0), (0.5, 0.0, 0.5)),
        Row("min(x)", (3.0, 3.0), (0.5, 0.5)),
        Row("maximum(x[0], x[1])", (2.0, 2.0), (0.5, 0.5)),
        Row("minimum(x[0], x[1])", (2.0, 2.0), (0.5, 0.5)),
        Row("clamp(x[0], 0.0, 1.0)", (0.0,), (0.5,)),
        Row("x.at[0].max(x[1])[0]", (2.0, 2.0), (0.5, 0.5)),
        Row("abs(x[0])", (0.0,), (0.0,)),
        Row("relu(x[0])", (0.0,), (0.0,)),
        Row("relu6(x[0])", (6.0,), (0.0,)),
        Row("leaky_relu(x[0], slope=0.25)", (0.0,), (0.25,)),
        Row("hardswish(x[0])", (3.0,), (1.0,)),
        Row("mae(x, zeros(1, dtype=f64))", (0.0,), (0.0,)),
        Row("norm(x)", (0.0, 0.0), (0.0, 0.0)),
        Row("norm(x, ord=1)", (0.0, 2.0), (0.0, 1.0)),
        Row("global_norm((x, x))", (0.0,), (0.0,)),
        Row("std(x)", (2.0, 2.0), (0.0, 0.0)),
        Row("hypot(x[0], x[1])", (0.0, 0.0), (0.0, 0.0)),
        Row("abs(complex(x[0], x[1]))", (0.0, 0.0), (0.0, 0.0)),
        Row("atan2(x[0], x[1])", (0.0, 0.0), (0.0, 0.0)),
    ),
    "What chooses one element has the derivative of that": (
        Row("sum(cummax(x))", (3.0, 1.0, 3.0), (2.0, 0.0, 1.0)),
        Row("sum(cummin(x))", (3.0, 3.0), (1.0, 1.0)),
        Row("sort(x)[0]", (2.0, 2.0), (1.0, 0.0)),
        Row("topk(x, 1)[0][0]", (2.0, 2.0), (1.0, 0.0)),
        Row("median(x)", (3.0, 1.0, 2.0), (0.0, 0.0, 1.0)),
    ),
    "What has steps is flat, also at a step": (
        Row("floor(x[0]) + ceil(x[0]) + round(x[0])", (1.0,), (0.0,)),
        Row("sign(x[0])", (0.0,), (0.0,)),
        Row("cast(x[0] > 0.0, f64)", (0.0,), (0.0,)),
        Row("fmod(x[0], x[1])", (6.0, 3.0), (1.0, -2.0)),
    ),
    "Zeros of products and powers, and poles": (
        Row("prod(x)", (2.0, 0.0, 3.0), (0.0, 6.0, 0.0)),
        Row("sum(cumprod(x))", (0.0, 2.0), (3.0, 0.0)),
        Row("pow(x[0], x[1])", (0.0, 0.0), (0.0, 0.0)),
        Row("pow(x[0], x[1])", (0.0, 2.0), (0.0, 0.0)),
        Row("pow(x[0], 0.5)", (0.0,), (inf,)),
        Row("x[0] ** 2", (0.0,), (0.0,)),
        Row("sqrt(x[0])", (0.0,), (inf,)),
        Row("cbrt(x[0])", (0.0,), (inf,)),
        Row("rsqrt(x[0])", (0.0,), (-inf,)),
        Row("log(x[0])", (0.0,), (inf,)),
        Row("asin(x[0])", (1.0,), (inf,)),
        Row("acos(x[0])", (-1.0,), (-inf,)),
        Row("acosh(x[0])", (1.0,), (inf,)),
        Row("atanh(x[0])", (-1.0,), (inf,)),
        Row("x[0] / x[1]", (0.0, 0.0), (inf, nan)),
        Row("x[0] / x[1]", (0.0, 1e-310), (inf, nan)),
    ),
    "What is masked by -inf, or saturated": (
        Row("softmax(x)[1]", (-inf, 1.0), (0.0, 0.0)),
        Row("logsumexp(x)", (-inf, 1.0), (0.0, 1.0)),
        Row("log_softmax(x)[0]", (1.0, -inf), (0.0, 0.0)),
        Row("softmax(x)[0]", (-inf, -inf), (nan, nan)),
        Row("logsumexp(x)", (-inf, -inf), (nan, nan)),
        Row("softmax_safe(x)[0]", (-inf, -inf), (0.0, 0.0)),
        Row("logsumexp_safe(x)", (-inf, -inf), (0.0, 0.0)),
        Row("logsumexp_safe(x)", (inf, 1.0), (0.0, 0.0)),
        Row("logsumexp(x)", (inf, 1.0), (nan, nan)),
        Row("sigmoid(x[0]) + tanh(x[0]) + softplus(x[0])", (inf,), (1.0,)),
        Row("elu(x[0])", (1e300,), (1.0,)),
        Row('gelu(x[0], approximate="tanh")', (1e300,), (1.0,)),
    ),
    "At NaN: what compares is NaN, what moves or was told what to take passes on": (
        Row("maximum(x[0], x[1])", (nan, 1.0), (nan, nan)),
        Row("minimum(x[0], 0.0)", (nan,), (nan,)),
        Row("clamp(x[0], 0.0, 1.0)", (nan,), (nan,)),
        Row("max(x)", (nan, 1.0), (nan, nan)),
        Row("min(x)", (1.0, nan), (nan, nan)),
        Row("cummax(x)[1]", (1.0, nan), (0.0, nan)),
        Row("cummin(x)[1]", (nan, 1.0), (nan, nan)),
        Row("x.at[0].max(x[1])[0]", (nan, 1.0), (nan, nan)),
        Row("abs(x[0])", (nan,), (nan,)),
        Row("softmax(x)[0]", (1.0, nan), (nan, nan)),
        Row("sort(x)[1]", (nan, 1.0), (1.0, 0.0)),
        Row("median(x)", (nan, 1.0), (1.0, 0.0)),
        Row("where(x[0] > 0.0, x[0], 2.0 * x[0])", (nan,), (2.0,)),
        Row("relu(x[0])", (nan,), (1.0,)),
        Row("floor(x[0])", (nan,), (0.0,)),
    ),
}


def corner_section() -> str:
    return "\n".join(f"{title}:\n\n{_table(rows)}\n" for title, rows in TABLES.items())


def _table(rows: tuple[Row, ...]) -> str:
    lines = [f"| `{row.expression}` | {_numbers(row.at)} | {_numbers(row.gradient)} |" for row in rows]
    return "\n".join(["| of | at x = | derivative |", "|---|---|---|", *lines])


def _numbers(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}".replace("nan", "NaN") for value in values)
