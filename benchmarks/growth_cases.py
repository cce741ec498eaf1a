"""Programs whose work should grow with T as their loops do: every kind of update, and sequential programs as people
write them.

A case is a body over `x: Tensor[T, 8, f32]`, `p: Tensor[T, i32]` with numbers from 0 to 7, `w: Tensor[8, 8, f32]`. Its
bytes grow with T to the power `power`, forward and on the way back.
"""

from __future__ import annotations

from benchmarks.growth_branches import BRANCHES
from benchmarks.growth_forms import Case, alone, turns

__all__ = ["CASES", "Case"]

PLACES = turns(
    "place",
    {
        "row": ("out[t] = x[t] * 2.0",),
        "element": ("out[t, 3] = x[t, 2] * 2.0",),
        "slice": ("out[t, 2:5] = x[t, 1:4]",),
        "every other": ("out[t, ::2] = x[t, 1:5]",),
        "downwards": ("out[T - 1 - t] = x[t] * x[t]",),
        "index": ("out[p[t]] = x[t] * x[t]",),
        "index, constant": ("out[p[t], 3] = x[t, 1] * x[t, 2]",),
        "index, slice": ("out[p[t], 2:5] = x[t, 2:5] * x[t, 0]",),
        "index, every other": ("out[p[t], ::2] = x[t, 2:6]",),
        "counter, index": ("out[t, p[t]] = x[t, 1] * x[t, 2]",),
        "two indices": ("out[p[t], p[T - 1 - t]] = x[t, 1] * x[t, 2]",),
        "at set": ("out = out.at[t].set(x[t] * x[t])",),
        "where": ("out[t] = where(x[t] > 0.0, x[t], out[t])",),
    },
) + alone(
    "place",
    {
        "vector": ("out = zeros(T)", "for t in range(T):", "    out[t] = x[t, 2] * x[t, 1]", "return out"),
        "column": ("out = zeros(8, T)", "for t in range(T):", "    out[:, t] = x[t] * x[t]", "return out"),
        "constant, index": (
            "out = zeros(2, T)",
            "for t in range(T):",
            "    out[1, p[t]] = x[t, 1] * 2.0",
            "return out",
        ),
        "slice, index": ("out = zeros(4, T)", "for t in range(T):", "    out[1:3, p[t]] = x[t, 1:3]", "return out"),
        "index, counter": ("out = zeros(8, T)", "for t in range(T):", "    out[p[t], t] = x[t, 1]", "return out"),
        "slice, index, slice": (
            "out = zeros(4, T, 8)",
            "for t in range(T):",
            "    out[1:3, p[t], 2:4] = x[t, 1:3][:, None] * x[t, 2:4][None, :]",
            "return out",
        ),
        "flat": ("out = zeros(T * 8)", "for t in range(T):", "    out[8 * t:8 * t + 8] = x[t] * x[t]", "return out"),
    },
)

UNITS = alone(
    "unit dims",
    {
        "last": ("out = zeros(T, 8, 1)", "for t in range(T):", "    out[t] = x[t][:, None]", "return out"),
        "first": ("out = zeros(1, T, 8)", "for t in range(T):", "    out[0, t] = x[t] * 2.0", "return out"),
        "first, whole": ("out = zeros(1, T, 8)", "for t in range(T):", "    out[:, t] = x[t][None, :]", "return out"),
        "middle": ("out = zeros(T, 1, 8)", "for t in range(T):", "    out[t, 0] = x[t] * 2.0", "return out"),
        "column": ("out = zeros(T, 1)", "for t in range(T):", "    out[t] = x[t, 0:1] * 2.0", "return out"),
        "all around": ("out = zeros(1, T, 1, 1)", "for t in range(T):", "    out[0, t, 0, 0] = x[t, 1]", "return out"),
        "by index": ("out = zeros(T, 8, 1)", "for t in range(T):", "    out[p[t]] = x[t][:, None]", "return out"),
        "index behind": ("out = zeros(1, T, 8)", "for t in range(T):", "    out[0, p[t]] = x[t]", "return out"),
        "branch": (
            "out = zeros(T, 8, 1)",
            "for t in range(T):",
            "    if x[t, 0] > 0.0:",
            "        out[t] = x[t][:, None]",
            "return out",
        ),
        "swapped": (
            "out, b = zeros(T, 8, 1), zeros(T, 8, 1)",
            "for t in range(T):",
            "    out[t] = x[t][:, None] + b[t]",
            "    out, b = b, out",
            "return out * b",
        ),
        "states": (
            "out, s = zeros(T, 1, 8), zeros(1, 8)",
            "for t in range(T):",
            "    s = tanh(s @ w + x[t][None, :])",
            "    out[t] = s",
            "return out",
        ),
    },
)

FOLDS = turns(
    "fold",
    {
        "row": ("out[t] += x[t]",),
        "index": ("out[p[t]] += x[t] * x[t]",),
        "index, constant": ("out[p[t], 3] += x[t, 1] * x[t, 2]",),
        "index, slice": ("out[p[t], 2:5] += x[t, 2:5] * 2.0",),
        "at add": ("out = out.at[p[t]].add(x[t])",),
        "at add, several": ("out = out.at[p[0:4]].add(x[0:4] * x[t][None, :])",),
        "at mul": ("out = out.at[p[t]].mul(x[t])",),
        "at min": ("out = out.at[p[t]].min(x[t])",),
        "maximum": ("out[p[t]] = maximum(out[p[t]], x[t])",),
    },
)

SEVERAL = turns(
    "several",
    {
        "two places": ("out[t, 0] = x[t, 1]", "out[t, 1:3] = x[t, 2:4] * 2.0"),
        "two rows": ("out[t] = x[t]", "out[T - 1 - t] = x[t] * 2.0"),
        "reads first": ("old = out[p[t]]", "out[t] = x[t] + old * 0.5", "out[p[t], 1] = sum(old)"),
        "exchange": ("a = out[t] + x[t]", "b = out[p[t]]", "out[t] = b", "out[p[t]] = a * 1.5"),
        "branch": ("if x[t, 0] > 0.0:", "    out[t] = x[t] * x[t]"),
        "both branches": (
            "if x[t, 0] > 0.0:",
            "    out[t] = x[t] * x[t]",
            "else:",
            "    out[p[t], 3] = x[t, 0] * 3.0",
        ),
        "continue": ("if x[t, 0] > 0.0:", "    continue", "out[t] = x[t] * x[t]"),
        "loop inside": ("for j in range(8):", "    out[t, j] = x[t, j] * x[t, 7 - j]"),
        "loop inside, index": ("for j in range(8):", "    out[p[t], j] += x[t, j] * x[t, 7 - j]"),
        "a view changed": ("q = permute(out, (1, 0))", "q[:, t] = x[t]", "out = permute(q, (1, 0))"),
        "a reshape changed": (
            "q = reshape(out, (T, 2, 4))",
            "q[t] = reshape(x[t], (2, 4))",
            "out = reshape(q, (T, 8))",
        ),
        "a part changed": ("q = out[:, 2:6]", "q[t, 1:3] = x[t, 1:3]", "out[:, 2:6] = q"),
    },
) + alone(
    "several",
    {
        "neighbours": (
            "out = x",
            "for t in range(1, T):",
            "    out[t] = out[t - 1] * 0.5 + x[t] * x[t]",
            "return out",
        ),
        "while": (
            "out = zeros(T, 8)",
            "t = cast(0, i32)",
            "with checkpoint(max_steps=T):",
            "    while t < cast(T, i32):",
            "        out[t, 3] = x[t, 1] * x[t, 2]",
            "        t += 1",
            "return out",
        ),
        "struct": (
            "s = State[T](out=zeros(T, 8), sum=ones(8))",
            "for t in range(T):",
            "    s.out[t] = x[t] * s.sum",
            "    s.sum = s.sum * 0.5 + x[t]",
            "return s.out",
        ),
        "swapped": (
            "out, b = zeros(T, 8), zeros(T, 8)",
            "for t in range(T):",
            "    out[t] = x[t] + b[t]",
            "    out, b = b, out",
            "return out * b",
        ),
        "cache": (
            "cache = KVCache[1, 2, T, 4]()",
            "for t in range(T):",
            "    k = reshape(x[t], (1, 2, 1, 4))",
            "    cache = cache.append(k, k * 2.0)",
            "return cache.K * cache.V",
        ),
        "mapped": (
            "def one(v: Tensor[T, f32]):",
            "    o = zeros(T, 1)",
            "    for t in range(T):",
            "        o[p[t]] = v[t:t + 1] * v[t]",
            "    return o",
            "return vmap(one)(permute(x, (1, 0)))",
        ),
        "scan": (
            "_, ys = scan(lambda s, v: (tanh(s + v[:, None]), s * 2.0), zeros(8, 1), x)",
            "return ys",
        ),
        "bf16": (
            "out = zeros(T, 8, dtype=bf16 @accum(f32))",
            "for t in range(T):",
            "    out[p[t], 2:4] = cast(x[t, 2:4], bf16 @accum(f32))",
            "return cast(out, f32)",
        ),
        "complex": (
            "out = zeros(T, 8, dtype=c64)",
            "for t in range(T):",
            "    out[p[t], 3] = complex(x[t, 0], x[t, 1])",
            "return real(out) * 2.0 + imag(out)",
        ),
    },
)


def _state(line: str, first: str = "zeros(8)") -> tuple[str, ...]:
    return (f"s = {first}", "for t in range(T):", f"    s = {line}", "return s")


STATES = alone(
    "state",
    {
        "s[:, None]": _state("tanh(sum(s[:, None] * w, axis=0) + x[t])"),
        "column": _state("tanh(w @ s + x[t][:, None])", "zeros(8, 1)"),
        "row": _state("tanh(s @ w + x[t][None, :])", "zeros(1, 8)"),
        "softmax": _state("softmax(s @ w + x[t])"),
        "layernorm": _state("layernorm(s @ w + x[t], ones(8), zeros(8))"),
        "logsumexp": _state("logsumexp(s[:, None] + w, axis=0) + x[t]"),
        "reshape": _state("tanh(reshape(w @ reshape(s, (8, 1)), (8,)) + x[t])"),
        "solve": _state("solve(w, s) + x[t]"),
        "conv1d": _state(
            "tanh(reshape(conv1d(reshape(s, (1, 1, 8)), reshape(w[0, 0:3], (1, 1, 3)), padding=1), (8,))) + x[t]"
        ),
        "window": _state("concat([s[1:], x[t, 0:1] * s[0:1]])"),
        "power": _state("sin(s) * (w[0] * 0.1) ** 2 + x[t]"),
    },
)

READS = turns(
    "read",
    {
        "row": ("s = s * 0.5 + x[t] * w[0]",),
        "index": ("s = s * 0.5 + x[p[t]] * w[0]",),
        "index, constant": ("s = s * 0.5 + x[p[t], 3]",),
        "index, slice": ("s[1:4] = s[1:4] * 0.5 + x[p[t], 2:5]",),
        "slice": ("s = s * 0.5 + sum(slice(x, p[t], 1), axis=0)",),
    },
    "s = zeros(8)",
    "s",
)

PROGRAMS = (
    alone(
        "program",
        {
            "prefix sums": (
                "y, s = zeros(T), cast(0.0, f32)",
                "for i in range(T):",
                "    s = s + x[i, 0]",
                "    y[i] = s",
                "return y",
            ),
            "histogram": ("h = zeros(8)", "for i in range(T):", "    h[p[i]] += x[i, 0]", "return h"),
            "counts": (
                "h = zeros(T, dtype=i32)",
                "for i in range(T):",
                "    h[p[i]] += 1",
                "return cast(h, f32) * x[:, 0]",
            ),
            "ring buffer": (
                "buf, y, k = zeros(8), zeros(T), cast(0, i32)",
                "for t in range(T):",
                "    y[t] = buf[k] + x[t, 0]",
                "    buf[k] = y[t] * 0.5",
                "    k = (k + 1) % 8",
                "return y",
            ),
            "lstm": (
                "h, c = zeros(2), zeros(2)",
                "hs, cs = zeros(T, 2), zeros(T, 2)",
                "for t in range(T):",
                "    i, f, g, o = split(x[t] @ w + concat([h, h, h, h]), 4)",
                "    c = sigmoid(f) * c + sigmoid(i) * tanh(g)",
                "    h = sigmoid(o) * tanh(c)",
                "    hs[t] = h",
                "    cs[t] = c",
                "return hs + cs",
            ),
        },
    )
    + alone(
        "program",
        {
            "seidel": (
                "a = x @ permute(x, (1, 0))",
                "for i in range(1, T - 1):",
                "    for j in range(1, T - 1):",
                "        a[i, j] = (a[i - 1, j] + a[i, j - 1] + a[i, j] + a[i, j + 1] + a[i + 1, j]) / 5.0",
                "return a",
            ),
            "longest common subsequence": (
                "m = zeros(T + 1, T + 1)",
                "for i in range(T):",
                "    for j in range(T):",
                "        m[i + 1, j + 1] = maximum(maximum(m[i, j + 1], m[i + 1, j]), m[i, j] + x[i, 0] * x[j, 1])",
                "return m",
            ),
        },
        2,
    )
    + alone(
        "program",
        {
            "floyd-warshall": (
                "d = x @ permute(x, (1, 0))",
                "for k in range(T):",
                "    for i in range(T):",
                "        for j in range(T):",
                "            d[i, j] = minimum(d[i, j], d[i, k] + d[k, j])",
                "return d",
            ),
            "lu": (
                "a = x @ permute(x, (1, 0)) + eye(T)",
                "for k in range(T):",
                "    for i in range(k + 1, T):",
                "        a[i, k] /= a[k, k]",
                "        a[i, k + 1:] -= a[i, k] * a[k, k + 1:]",
                "return a",
            ),
        },
        3,
    )
)

CASES = (*PLACES, *UNITS, *FOLDS, *SEVERAL, *STATES, *READS, *PROGRAMS, *BRANCHES)
