"""The standard operators of the Tessera specification: 51 names, what each is here, and an expression that uses it.

Leaves: the table of the operator index. The tests check and run every expression.
"""

from __future__ import annotations

from dataclasses import dataclass

_HEAD = """## The standard operators

The 51 operators of the Tessera Standard Operator Library, under their own names. A name that another function has is an
alias of it: one definition. `x`, `w`, ... are tensors of the right dims.

| | operator | as written | here |
|---|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    family: str
    name: str
    use: str
    note: str = ""


def _rows(family: str, *rows: tuple[str, ...]) -> list[Row]:
    return [Row(family, *row) for row in rows]


CANONICAL: tuple[Row, ...] = (
    *_rows(
        "Linear algebra",
        ("gemm", 'gemm(x, w, epilogue="bias_relu", bias=b)'),
        ("matmul", 'matmul(x, w, epilogue="bias_silu_residual", bias=b, residual=r)', "with an epilogue it is `gemm`"),
        ("batched_gemm", "batched_gemm(q3, k3, transpose_b=True)", "`gemm`"),
        ("einsum", 'einsum("md,dn->mn", x, w)'),
        ("factorized_matmul", "factorized_matmul(x, w, rank=2)"),
        ("tri_solve", "tri_solve(s + 9.0 * eye(4), s)", "`triangular_solve`"),
        ("cholesky", "cholesky(s @ s.T + eye(4))"),
        ("qr", "qr(s)[1]"),
        ("svd", "svd(s)[1]"),
    ),
    *_rows(
        "Neural networks",
        ("conv2d", "conv2d(i, c, padding=1)", "`[N, C, H, W]`"),
        ("conv3d", "conv3d(i[:, :, None], c[:, :, None])", "`[N, C, D, H, W]`"),
        ("layer_norm", "layer_norm(x)", "`layernorm`"),
        ("rmsnorm", "rmsnorm(x)"),
        ("softmax", "softmax(x)"),
        ("gelu", "gelu(x)"),
        ("relu", "relu(x)"),
        ("silu", "silu(x)"),
        ("dropout", "dropout(x, 0.1, seed=0)"),
        ("qkv_projection", "qkv_projection(q3, w12)[0]"),
        ("flash_attn", "flash_attn(q3, k3, k3, causal=True)", "`attention`; with a cache, `flash_attention`"),
        ("rope", "rope(q3)", "`rotary_embedding`"),
        ("moe", "moe(x, w, lambda t: t, k=2)", "on one device"),
        ("moe_dispatch", "moe_dispatch(x, moe_route(x @ w)[1], 5)"),
        ("moe_combine", "moe_combine(ones(5, 3, 4), moe_route(x @ w)[1], moe_route(x @ w)[0])"),
    ),
    *_rows(
        "Spectra",
        ("fft", "real(fft(x))"),
        ("ifft", "real(ifft(x))"),
        ("rfft", "real(rfft(x))"),
        ("irfft", "irfft(rfft(x))"),
        ("dct", "dct(x)"),
        ("stft", "real(stft(v, 4))"),
        ("istft", "istft(stft(v, 4), 4)"),
        ("spectral_conv", "spectral_conv(q3, cast(s3, c64))"),
        ("spectral_filter", "real(spectral_filter(rfft(x), ones(3, dtype=c64)))"),
    ),
    *_rows(
        "Sparse matrices, segments",
        ("spmm_coo", "spmm_coo(array([0, 1]), array([1, 0]), v[:2], x, 2)"),
        ("spmm_csr", "spmm_csr(array([0, 1, 2]), array([1, 0]), v[:2], x)"),
        ("sddmm", "sddmm(x, w, (array([0, 1]), array([1, 0])))"),
        ("bsmm", "bsmm(q3, array([0, 1]), array([0]), s[None])"),
        ("segment_reduce", 'segment_reduce(x, array([0, 1, 0]), 2, op="mean")'),
    ),
    *_rows(
        "Random numbers",
        ("rng_uniform", "rng_uniform(3, 4, seed=0)", "`uniform`"),
        ("rng_normal", "rng_normal(3, 4, seed=0)", "`normal`"),
        ("rng_philox_uniform", "rng_philox_uniform(3, 4, key=key(7))", "`uniform`: all streams are Philox's"),
        ("rng_philox_normal", "rng_philox_normal(3, 4, key=key(7))", "`normal`"),
    ),
    *_rows(
        "Collectives",
        ("all_reduce", 'pmap(lambda t: all_reduce(t, "dp"), axis_name="dp")(x[:2])', "under `pmap` or a mesh"),
        ("reduce_scatter", 'pmap(lambda t: reduce_scatter(t, "dp"), axis_name="dp")(x[:2])'),
        ("all_gather", 'pmap(lambda t: all_gather(t, "dp"), axis_name="dp")(x[:2])'),
        ("all_to_all", 'pmap(lambda t: all_to_all(t, "dp"), axis_name="dp")(x[:2])'),
    ),
    *_rows(
        "Layout",
        ("transpose", "transpose(q3, (2, 0, 1))", "without an order, of the last two dims"),
        ("rearrange", 'rearrange(x, "m (a b) -> a m b", a=2)'),
        ("pack", "pack(x, (2, 3))", "a layout is a shape here: blocks are dims"),
        ("unpack", "unpack(pack(x, (2, 3)), (3, 4))"),
        ("tile_view", "tile_view(s, 2, 2)"),
    ),
)  # fmt: skip

PARAMETERS = (
    "x: Tensor[3, 4, f32], w: Tensor[4, 5, f32], b: Tensor[5, f32], r: Tensor[3, 5, f32], s: Tensor[4, 4, f32], "
    "v: Tensor[16, f32], q3: Tensor[2, 3, 4, f32], k3: Tensor[2, 3, 4, f32], w12: Tensor[4, 12, f32], "
    "s3: Tensor[3, 5, 3, f32], i: Tensor[1, 2, 5, 5, f32], c: Tensor[3, 2, 3, 3, f32]"
)
"""What the expressions of the table are of."""


def canonical_table() -> str:
    """The table, with the family at its first row."""
    lines, before = [], ""
    for row in CANONICAL:
        family = row.family if row.family != before else ""
        lines.append(f"| {family} | `{row.name}` | `{row.use}` | {row.note} |")
        before = row.family
    return _HEAD + "\n".join(lines) + "\n"
