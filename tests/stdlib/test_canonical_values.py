"""Each of the 51 standard operators beside NumPy in f64: values, gradients beside differences of the same NumPy, and
both for a batch under `vmap`; and its kernels for GPUs, which the vendor's assembler takes. A row of the table without
a reference here fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product
from types import SimpleNamespace as Arrays

import numpy as np
import pytest

from docs.canonical import CANONICAL, PARAMETERS, Row
from tesserac.base.source import SourceFile
from tesserac.graph.interp import run_function
from tesserac.target.nvptx.ptx import assemble, find_ptxas
from tests.ops.test_random_bits import philox
from tests.stdlib.test_canonical import SHAPES
from tests.support.folding import folded
from tests.support.gpu_kernels import program_of
from tests.support.source_support import compile_to_forms

Array = np.ndarray
Reference = Callable[[Arrays], Array]
COUNT = 2
"""Elements of a batch."""


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def erf(x: Array) -> Array:
    """By the midpoint rule."""
    steps = (np.arange(20000) + 0.5) / 20000
    return np.asarray(2 / np.sqrt(np.pi) * x * np.exp(-((x[..., None] * steps) ** 2)).mean(-1))


def upright(q: Array, r: Array) -> Array:
    """The factor with a diagonal above 0: which of its rows are negated is no property of the matrix."""
    return np.asarray(np.sign(np.diag(r))[:, None] * r)


def nearest(a: Array, rank: int) -> Array:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return np.asarray((u[:, :rank] * s[:rank]) @ vh[:rank])


def convolved(x: Array, c: Array, pads: int) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (pads, pads), (pads, pads)))
    rows, columns = (n - k + 1 for n, k in zip(x.shape[2:], c.shape[2:], strict=True))
    y = np.zeros((len(x), len(c), rows, columns))
    for i, j in product(range(c.shape[2]), range(c.shape[3])):
        y += np.einsum("ncrs,oc->nors", x[:, :, i : i + rows, j : j + columns], c[:, :, i, j])
    return y


def attended(q: Array, k: Array, v: Array) -> Array:
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    return np.asarray(softmax(np.where(np.tri(q.shape[-2], dtype=bool), scores, -np.inf)) @ v)


def turned(x: Array) -> Array:
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[-2])[:, None] * 10000.0 ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def routed(logits: Array, k: int = 2) -> tuple[Array, Array]:
    chosen = np.argsort(-logits, axis=-1)[:, :k]
    return softmax(np.take_along_axis(logits, chosen, -1)), chosen


def dispatched(x: Array, chosen: Array, experts: int) -> Array:
    packed, used = np.zeros((experts, *x.shape)), [0] * experts
    for token, expert in ((t, e) for choices in chosen.T for t, e in enumerate(choices)):  # first choices come first
        packed[expert, used[expert]] = x[token]
        used[expert] += 1
    return packed


def mixed_frequencies(x: Array, w: Array) -> Array:
    z = np.fft.rfft(x)
    y = np.zeros((len(x), w.shape[1], z.shape[-1]), complex)
    y[..., : w.shape[-1]] = np.einsum("bik,iok->bok", z[..., : w.shape[-1]], w)
    return np.fft.irfft(y, x.shape[-1])


def frames(v: Array, n: int, hop: int) -> Array:
    v = np.pad(v, n // 2, mode="reflect")
    return np.fft.rfft(np.stack([v[i : i + n] for i in range(0, len(v) - n + 1, hop)], -1), axis=0)


def cosines(x: Array) -> Array:
    n = x.shape[-1]
    return np.asarray(2 * x @ np.cos(np.pi * np.outer(2 * np.arange(n) + 1, np.arange(n)) / (2 * n)))


def drawn(key: int) -> list[Array]:
    return philox(key, np.arange(12, dtype=np.uint64).reshape(3, 4), 0)


def even(key: int) -> Array:
    return np.asarray((drawn(key)[1] >> np.uint64(8)) * 2.0**-24)


def bell(key: int) -> Array:
    first, second, *_ = drawn(key)
    turn = second.astype(np.uint32).view(np.int32) * 2.0**-32
    return np.asarray(np.sqrt(-2 * np.log((first + 0.5) * 2.0**-32)) * np.cos(2 * np.pi * turn))


def blocks(x: Array, rows: int, columns: int) -> Array:
    filled = np.pad(x, ((0, -len(x) % rows), (0, -x.shape[1] % columns)))
    return filled.reshape(len(filled) // rows, rows, filled.shape[1] // columns, columns).swapaxes(1, 2)


REFERENCES: dict[str, Reference] = {
    "gemm": lambda a: np.maximum(a.x @ a.w + a.b, 0),
    "matmul": lambda a: silu(a.x @ a.w + a.b) + a.r,
    "batched_gemm": lambda a: a.q3 @ a.k3.swapaxes(1, 2),
    "einsum": lambda a: np.einsum("md,dn->mn", a.x, a.w),
    "factorized_matmul": lambda a: nearest(a.x @ a.w, 2),
    "tri_solve": lambda a: np.linalg.solve(np.tril(a.s + 9 * np.eye(4)), a.s),
    "cholesky": lambda a: np.linalg.cholesky(a.s @ a.s.T + np.eye(4)),
    "qr": lambda a: upright(*np.linalg.qr(a.s)),
    "svd": lambda a: np.linalg.svd(a.s, compute_uv=False),
    "conv2d": lambda a: convolved(a.i, a.c, 1),
    "conv3d": lambda a: convolved(a.i, a.c, 0)[:, :, None],
    "layer_norm": lambda a: (a.x - a.x.mean(-1, keepdims=True)) / np.sqrt(a.x.var(-1, keepdims=True) + 1e-5),
    "rmsnorm": lambda a: a.x / np.sqrt((a.x**2).mean(-1, keepdims=True) + 1e-5),
    "softmax": lambda a: softmax(a.x),
    "gelu": lambda a: a.x * 0.5 * (1 + erf(a.x / np.sqrt(2))),
    "relu": lambda a: np.maximum(a.x, 0),
    "silu": lambda a: silu(a.x),
    "dropout": lambda a: np.where(even(0) < 0.1, 0, a.x / 0.9),
    "qkv_projection": lambda a: (a.q3 @ a.w12)[..., :4],
    "flash_attn": lambda a: attended(a.q3, a.k3, a.k3),
    "rope": lambda a: turned(a.q3),
    "moe": lambda a: a.x,
    "moe_dispatch": lambda a: dispatched(a.x, routed(a.x @ a.w)[1], 5),
    "moe_combine": lambda a: np.ones((3, 4)) * routed(a.x @ a.w)[0].sum(-1, keepdims=True),
    "fft": lambda a: np.fft.fft(a.x).real,
    "ifft": lambda a: np.fft.ifft(a.x).real,
    "rfft": lambda a: np.fft.rfft(a.x).real,
    "irfft": lambda a: np.fft.irfft(np.fft.rfft(a.x)),
    "dct": lambda a: cosines(a.x),
    "stft": lambda a: frames(a.v, 4, 1).real,
    "istft": lambda a: a.v,
    "spectral_conv": lambda a: mixed_frequencies(a.q3, a.s3),
    "spectral_filter": lambda a: np.fft.rfft(a.x).real,
    "spmm_coo": lambda a: a.v[:2, None] * a.x[[1, 0]],
    "spmm_csr": lambda a: a.v[:2, None] * a.x[[1, 0]],
    "sddmm": lambda a: (a.x @ a.w)[[0, 1], [1, 0]],
    "bsmm": lambda a: np.einsum("mj,oj->mo", a.q3[:, 0], a.s)[:, None],
    "segment_reduce": lambda a: np.stack([(a.x[0] + a.x[2]) / 2, a.x[1]]),
    "rng_uniform": lambda a: even(0),
    "rng_normal": lambda a: bell(0),
    "rng_philox_uniform": lambda a: even(7),
    "rng_philox_normal": lambda a: bell(7),
    "all_reduce": lambda a: np.stack([a.x[0] + a.x[1]] * 2),
    "reduce_scatter": lambda a: (a.x[0] + a.x[1]).reshape(2, 2),
    "all_gather": lambda a: np.stack([a.x[:2].reshape(-1)] * 2),
    "all_to_all": lambda a: np.stack([a.x[:2, :2].reshape(-1), a.x[:2, 2:].reshape(-1)]),
    "transpose": lambda a: a.q3.transpose(2, 0, 1),
    "rearrange": lambda a: a.x.reshape(3, 2, 2).swapaxes(0, 1),
    "pack": lambda a: blocks(a.x, 2, 3),
    "unpack": lambda a: a.x,
    "tile_view": lambda a: blocks(a.s, 2, 2),
}
"""By the name of a row, what its expression is in NumPy."""
ROUNDED = {"rng_uniform", "rng_normal", "rng_philox_uniform", "rng_philox_normal"}
"""Draws of f32."""
WIDE = {name: kind for name, kind in re.findall(r"(\w+): (Tensor\[[^]]*)", PARAMETERS.replace("f32", "f64"))}


def test_every_row_has_a_reference() -> None:
    assert list(REFERENCES) == [row.name for row in CANONICAL]


def used(row: Row) -> list[str]:
    """The operands of a row; a draw is made beside one that it does not use."""
    return [name for name in SHAPES if re.search(rf"\b{name}\b(?!\()", row.use.partition("(")[2])] or ["x"]


def text(row: Row, batched: bool) -> str:
    """Value and gradient of a row in f64: of one, or of a batch of all its operands."""
    names, use = ", ".join(used(row)), re.sub(r"(eye|ones)\(([\d, ]+)\)", r"\1(\2, dtype=f64)", row.use)
    use = use.replace("c64", "c128")
    value = f"lambda {names}: {use}" if row.name != "qr" else f"lambda {names}: sign(diag({use}))[:, None] * {use}"
    if row.name in ROUNDED:
        pair = f"({value})({names}), ()"
    else:
        slopes = f"grad(lambda {names}: sum(sin(({value})({names}))), wrt={tuple(range(len(used(row))))})({names})"
        pair = f"({value})({names}), {slopes}"
    if not batched:
        return f"def f({', '.join(f'{n}: {WIDE[n]}]' for n in used(row))}):\n    return {pair}\n"
    typed = ", ".join(f"{n}: {WIDE[n].replace('[', f'[{COUNT}, ', 1)}]" for n in used(row))
    return f"def f({typed}):\n    return vmap(lambda {names}: ({pair}))({names})\n"


def operands(row: Row, count: int) -> list[Array]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal((count, *SHAPES[name])) for name in used(row)]


def wanted(row: Row, args: list[Array]) -> list[Array]:
    """The value, and the gradient of the sum of its sines by central differences."""
    value = REFERENCES[row.name]

    def of(parts: Sequence[Array]) -> Array:
        return value(Arrays(**dict(zip(used(row), parts, strict=True))))

    slopes = [np.zeros(arg.shape) for arg in args]
    for place, arg in enumerate(args):
        for index in np.ndindex(arg.shape):
            step = np.zeros(arg.shape)
            step[index] = 1e-5
            sides = [of([*args[:place], arg + s, *args[place + 1 :]]) for s in (step, -step)]
            slopes[place][index] = (np.sin(sides[0]).sum() - np.sin(sides[1]).sum()) / 2e-5
    return [of(args)] if row.name in ROUNDED else [of(args), *slopes]


@pytest.mark.one_in(3)
@folded("row", CANONICAL, ids=lambda row: row.name, one_in=24)
def test_values_and_gradients(row: Row) -> None:
    args = [arg[0] for arg in operands(row, 1)]
    found = run_function(compile_to_forms(text(row, False)), "m.f", args)
    compare(found, wanted(row, args))


@pytest.mark.one_in(3)
@folded("row", CANONICAL, ids=lambda row: row.name, one_in=24)
def test_batches(row: Row) -> None:
    args = operands(row, COUNT)
    found = run_function(compile_to_forms(text(row, True)), "m.f", args)
    each = [wanted(row, [arg[i] for arg in args]) for i in range(COUNT)]
    compare(found, [np.stack(parts) for parts in zip(*each, strict=True)])


def compare(found: Sequence[Array], expected: Sequence[Array]) -> None:
    assert [f.shape for f in found] == [e.shape for e in expected]
    for place, (one, other) in enumerate(zip(found, expected, strict=True)):
        bound = 1e-7 if place or one.dtype == np.float32 else 1e-9
        np.testing.assert_allclose(one, other, rtol=bound, atol=bound * 2)


@pytest.mark.one_in(6)
@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed (package nvidia-cuda-nvcc)")
@folded("row", CANONICAL, ids=lambda row: row.name, one_in=24)
def test_kernels_for_gpus_assemble(row: Row) -> None:
    typed = ", ".join(f"{n}: {WIDE[n].replace('f64', 'f32')}]" for n in used(row))
    made = program_of(SourceFile("m.tess", f"def f({typed}):\n    return {row.use}\n"), "f", "sm_90a")
    for kernel in made.kernels:
        assemble(kernel.code(), made.arch)
