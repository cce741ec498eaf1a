"""Functions of the library beside PyTorch's: what each is called with, and the two expressions. Nothing but NumPy is
imported here, so that any Python can read it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    """A usual one (`is_common`) is to be level with the peer."""

    name: str
    inputs: str
    ours: str
    theirs: str
    is_common: bool = False


ARRAYS: dict[str, tuple[tuple[int, ...], str]] = {
    "v": ((1_000_000,), "f32"),
    "w": ((1_000_000,), "f32"),
    "p": ((100_000,), "positive"),
    "q": ((100_000,), "positive"),
    "x": ((1024, 1024), "f32"),
    "y": ((1024, 1024), "f32"),
    "i": ((8, 64, 56, 56), "f32"),
    "s": ((8, 32, 64, 64), "f32"),
    "g": ((8, 64, 64, 2), "f32"),
    "c": ((64, 64, 3, 3), "f32"),
    "d": ((64, 1, 3, 3), "f32"),
    "t": ((8, 64, 1024), "f32"),
    "k": ((64, 64, 3), "f32"),
    "u": ((2, 16, 16, 28, 28), "f32"),
    "e": ((16, 16, 3, 3, 3), "f32"),
    "a": ((4, 8, 256, 64), "f32"),
    "l": ((4, 128, 64), "f32"),
    "wi": ((1, 256, 64), "f32"),
    "wh": ((1, 256, 64), "f32"),
    "gi": ((1, 192, 64), "f32"),
    "gh": ((1, 192, 64), "f32"),
    "b4": ((1, 256), "f32"),
    "b3": ((1, 192), "f32"),
    "n": ((4096, 32), "f32"),
    "m": ((4096,), "label"),
    "r": ((65536,), "f32"),
    "j": ((65536,), "index"),
    "z": ((16, 16384), "f32"),
    "o": ((512, 64), "f32"),
    "h": ((1_000_000,), "index"),
    "f": ((8, 288, 4096), "f32"),
    "c1": ((64, 64, 1, 1), "f32"),
    "ct": ((128, 8, 32), "f32"),
    "cl": ((8, 20), "label"),
}
"""Shapes, and what is in them."""


def array(name: str) -> np.ndarray:
    shape, kind = ARRAYS[name]
    rng = np.random.default_rng(len(name) + sum(map(ord, name)))
    if kind == "label":
        return rng.integers(1, 32, shape)
    if kind == "index":
        return rng.integers(0, 1024, shape)
    drawn = rng.standard_normal(shape).astype(np.float32)
    return np.exp(drawn) if kind == "positive" else drawn


def parameter(name: str) -> str:
    shape, kind = ARRAYS[name]
    return f"{name}: Tensor[{', '.join(map(str, shape))}, {'i64' if kind in ('label', 'index') else 'f32'}]"


NO_STATE = "torch.zeros(1, 4, 64)"
STEPS = "True, 1, 0.0, False, False, True"

CASES: tuple[Case, ...] = (
    Case("relu", "v", "relu(v)", "F.relu(v)", True),
    Case("gelu", "v", "gelu(v)", "F.gelu(v)", True),
    Case("silu", "v", "silu(v)", "F.silu(v)", True),
    Case("selu", "v", "selu(v)", "F.selu(v)"),
    Case("softplus", "v", "softplus(v)", "F.softplus(v)"),
    Case("mish", "v", "mish(v)", "F.mish(v)"),
    Case("hardswish", "v", "hardswish(v)", "F.hardswish(v)"),
    Case("lgamma", "p", "lgamma(p)", "torch.lgamma(p)"),
    Case("digamma", "p", "digamma(p)", "torch.digamma(p)"),
    Case("erfinv", "v", "erfinv(tanh(v))", "torch.erfinv(torch.tanh(v))"),
    Case("i0", "p", "i0(p)", "torch.i0(p)"),
    Case("gammainc", "p q", "gammainc(p, q)", "torch.special.gammainc(p, q)"),
    Case("logaddexp", "v w", "logaddexp(v, w)", "torch.logaddexp(v, w)"),
    Case("float %", "v w", "v % w", "v % w"),
    Case("clip", "v", "clip(v, -1.0, 1.0)", "v.clip(-1.0, 1.0)", True),
    Case("softmax", "x", "softmax(x)", "x.softmax(-1)", True),
    Case("log_softmax", "x", "log_softmax(x)", "x.log_softmax(-1)", True),
    Case("layernorm", "x", "layernorm(x)", "F.layer_norm(x, (1024,))", True),
    Case("groupnorm", "i", "groupnorm(i, 8)", "F.group_norm(i, 8)"),
    Case("instancenorm", "i", "instancenorm(i)", "F.instance_norm(i)"),
    Case("local_response_norm", "i", "local_response_norm(i, 5)", "F.local_response_norm(i, 5)"),
    Case("cross_entropy", "n m", "mean(cross_entropy(n, m))", "F.cross_entropy(n, m)", True),
    Case("cumsum", "x", "cumsum(x, axis=1)", "x.cumsum(1)", True),
    Case("cummax", "x", "cummax(x, axis=1, return_indices=True)", "x.cummax(1)"),
    Case("logcumsumexp", "x", "logcumsumexp(x, axis=1)", "x.logcumsumexp(1)"),
    Case("sort", "z", "sort(z)", "z.sort(-1).values", True),
    Case("topk", "z", "topk(z, 10)", "z.topk(10)", True),
    Case("median", "z", "median(z, axis=1)", "z.median(1).values"),
    Case("quantile", "z", "quantile(z, 0.3, axis=1)", "z.quantile(0.3, dim=1)"),
    Case("unique", "j", "unique(j, size=1024)", "j.unique()"),
    Case("histogram", "r", "histogram(r, 64, range=(-3.0, 3.0))[0]", "torch.histc(r, 64, -3.0, 3.0)"),
    Case("bincount", "j", "bincount(j, 1024)", "torch.bincount(j, minlength=1024)"),
    Case(
        "searchsorted",
        "r",
        "searchsorted(linspace(-3.0, 3.0, 1024), r)",
        "torch.searchsorted(torch.linspace(-3.0, 3.0, 1024), r)",
    ),
    Case("segment_sum", "n m", "segment_sum(n, m, 32)", "torch.zeros(32, 32).index_add(0, m, n)"),
    Case("take", "x", "x[:, ::2]", "x[:, ::2].contiguous()"),
    Case("tile", "x", "tile(x, (2, 2))", "x.tile((2, 2))"),
    Case(
        "pad reflect",
        "i",
        'pad(i, [(0, 0), (0, 0), (2, 2), (2, 2)], mode="reflect")',
        'F.pad(i, (2, 2, 2, 2), mode="reflect")',
    ),
    Case("roll", "x", "roll(x, 5, axis=1)", "x.roll(5, 1)"),
    Case("permute", "i", "permute(i, (0, 2, 3, 1))", "i.permute(0, 2, 3, 1).contiguous()", True),
    Case("depth_to_space", "i", "depth_to_space(i, 2)", "F.pixel_shuffle(i, 2)"),
    Case(
        "resize nearest",
        "s",
        'interpolate(s, size=(128, 128), mode="nearest")',
        'F.interpolate(s, (128, 128), mode="nearest")',
    ),
    Case(
        "resize bilinear",
        "s",
        'interpolate(s, size=(128, 128), mode="bilinear")',
        'F.interpolate(s, (128, 128), mode="bilinear")',
        True,
    ),
    Case(
        "resize bicubic",
        "s",
        'interpolate(s, size=(128, 128), mode="bicubic")',
        'F.interpolate(s, (128, 128), mode="bicubic")',
    ),
    Case("grid_sample", "s g", "grid_sample(s, tanh(g))", "F.grid_sample(s, torch.tanh(g), align_corners=False)"),
    Case("unfold", "s", "unfold(s, (3, 3))", "F.unfold(s, (3, 3))"),
    Case("max_pool2d", "i", "max_pool2d(i, 2)", "F.max_pool2d(i, 2)", True),
    Case("max_pool2d 3, stride 2", "i", "max_pool2d(i, 3, stride=2, padding=1)", "F.max_pool2d(i, 3, 2, 1)", True),
    Case("avg_pool2d", "i", "avg_pool2d(i, 2)", "F.avg_pool2d(i, 2)", True),
    Case("adaptive_avg_pool2d", "i", "adaptive_avg_pool2d(i, (7, 7))", "F.adaptive_avg_pool2d(i, (7, 7))"),
    Case("max_pool3d", "u", "max_pool3d(u, 2)", "F.max_pool3d(u, 2)"),
    Case("conv2d", "i c", "conv2d(i, c, padding=1)", "F.conv2d(i, c, padding=1)", True),
    Case("depthwise conv2d", "i d", "conv2d(i, d, padding=1, groups=64)", "F.conv2d(i, d, padding=1, groups=64)"),
    Case("conv1d", "t k", "conv1d(t, k, padding=1)", "F.conv1d(t, k, padding=1)"),
    Case("conv3d", "u e", "conv3d(u, e, padding=1)", "F.conv3d(u, e, padding=1)"),
    Case("conv_transpose2d", "i c", "conv_transpose2d(i, c, stride=2)", "F.conv_transpose2d(i, c, stride=2)"),
    Case("attention", "a", "attention(a, a, a)", "F.scaled_dot_product_attention(a, a, a)", True),
    Case(
        "attention causal",
        "a",
        "attention(a, a, a, causal=True)",
        "F.scaled_dot_product_attention(a, a, a, is_causal=True)",
        True,
    ),
    Case("rfft", "z", "rfft(z)", "torch.fft.rfft(z)"),
    Case(
        "stft",
        "z",
        "stft(z, 512, hop_length=128, window=hann_window(512))",
        "torch.stft(z, 512, 128, window=torch.hann_window(512), return_complex=True)",
    ),
    Case(
        "quantize",
        "x",
        "quantize(x, 0.05, 3, dtype=i8)",
        "torch.quantize_per_tensor(x, 0.05, 3, torch.qint8).int_repr()",
    ),
    Case("cdist", "o", "norm(o[:, None] - o[None], axis=-1)", "(o[:, None] - o[None]).norm(dim=-1)"),
    Case("kron", "o", "kron(o[:32, :32], o[:32, 32:])", "torch.kron(o[:32, :32], o[:32, 32:])"),
    Case("cov", "o", "cov(o)", "torch.cov(o)"),
    Case("sigmoid", "v", "sigmoid(v)", "v.sigmoid()", True),
    Case("tanh", "v", "tanh(v)", "v.tanh()", True),
    Case("gelu tanh", "v", 'gelu(v, approximate="tanh")', 'F.gelu(v, approximate="tanh")', True),
    Case("elu", "v", "elu(v)", "F.elu(v)"),
    Case("leaky_relu", "v", "leaky_relu(v, 0.01)", "F.leaky_relu(v)", True),
    Case("logsigmoid", "v", "logsigmoid(v)", "F.logsigmoid(v)"),
    Case("softshrink", "v", "softshrink(v)", "F.softshrink(v)"),
    Case("glu", "x", "glu(x)", "F.glu(x)"),
    Case("i1", "p", "i1(p)", "torch.special.i1(p)"),
    Case("j0", "p", "j0(p)", "torch.special.bessel_j0(p)"),
    Case("rmsnorm", "x", "rmsnorm(x)", "F.rms_norm(x, (1024,), eps=1e-6)", True),
    Case(
        "batchnorm",
        "i",
        "batchnorm_train(i, zeros(64), ones(64))[0]",
        "F.batch_norm(i, None, None, training=True)",
        True,
    ),
    Case("mse", "v w", "mse(v, w)", "F.mse_loss(v, w)", True),
    Case("huber", "v w", "mean(huber(v, w))", "F.huber_loss(v, w)"),
    Case(
        "bce_with_logits",
        "v w",
        "mean(bce_with_logits(v, sigmoid(w)))",
        "F.binary_cross_entropy_with_logits(v, w.sigmoid())",
        True,
    ),
    Case("cosine_similarity", "x y", "cosine_similarity(x, y)", "F.cosine_similarity(x, y, dim=-1)"),
    Case("logsumexp", "x", "logsumexp(x, axis=1)", "x.logsumexp(1)", True),
    Case("var", "x", "var(x, axis=1)", "x.var(1, correction=0)", True),
    Case("var over rows", "x", "var(x, axis=0)", "x.var(0, correction=0)"),
    Case("argmax", "x", "argmax(x, axis=1)", "x.argmax(1)", True),
    Case("nansum", "x", "nansum(x, axis=1)", "x.nansum(1)"),
    Case("cumprod", "x", "cumprod(x, axis=1)", "x.cumprod(1)"),
    Case("argsort", "z", "argsort(z)", "z.argsort(-1)"),
    Case("gather rows", "x j", "gather(x, j[:8192], axis=0)", "x[j[:8192]]", True),
    Case(
        "take_along_axis",
        "x",
        "take_along_axis(x, argsort(x[:, :64]), axis=1)",
        "x.gather(1, x[:, :64].argsort(1))",
    ),
    Case("scatter_add", "v h", "scatter_add(zeros(1024), h, v)", "torch.zeros(1024).scatter_add(0, h, v)"),
    Case(
        "scatter_add of rows",
        "n j",
        "scatter_add(zeros(1024, 32), j[:4096], n)",
        "torch.zeros(1024, 32).index_add(0, j[:4096], n)",
    ),
    Case("one_hot", "j", "one_hot(j[:4096], 1024, dtype=i64)", "F.one_hot(j[:4096], 1024)"),
    Case("tril", "x", "tril(x)", "x.tril()"),
    Case("where", "v w", "where(v > 0.0, v, w)", "torch.where(v > 0.0, v, w)", True),
    Case("concat", "x y", "concat([x, y], axis=1)", "torch.cat([x, y], 1)", True),
    Case("transpose", "x", "transpose(x) * 1.0", "x.T.contiguous()", True),
    Case("flip", "x", "flip(x, 1)", "x.flip(1)"),
    Case("space_to_depth", "i", "pixel_unshuffle(i, 2)", "F.pixel_unshuffle(i, 2)"),
    Case("fold", "f", "fold(f, (64, 64), (3, 3), padding=1)", "F.fold(f, (64, 64), (3, 3), padding=1)"),
    Case(
        "resize area",
        "s",
        'interpolate(s, size=(32, 32), mode="area")',
        'F.interpolate(s, (32, 32), mode="area")',
    ),
    Case(
        "resize antialias",
        "s",
        'interpolate(s, size=(32, 32), mode="bilinear", antialias=True)',
        'F.interpolate(s, (32, 32), mode="bilinear", antialias=True)',
    ),
    Case(
        "grid_sample bicubic",
        "s g",
        'grid_sample(s, tanh(g), mode="bicubic")',
        'F.grid_sample(s, torch.tanh(g), mode="bicubic", align_corners=False)',
    ),
    Case(
        "max_unpool2d",
        "i",
        "max_unpool2d(i[:, :, ::2, ::2], max_pool2d(i, 2, return_indices=True)[1], 2)",
        "F.max_unpool2d(i[:, :, ::2, ::2].contiguous(), F.max_pool2d(i, 2, return_indices=True)[1], 2)",
    ),
    Case("avg_pool3d", "u", "avg_pool3d(u, 2)", "F.avg_pool3d(u, 2)"),
    Case("conv_transpose1d", "t k", "conv_transpose1d(t, k, stride=2)", "F.conv_transpose1d(t, k, stride=2)"),
    Case("conv_transpose3d", "u e", "conv_transpose3d(u, e, stride=2)", "F.conv_transpose3d(u, e, stride=2)"),
    Case("conv2d of 1 by 1", "i c1", "conv2d(i, c1)", "F.conv2d(i, c1)", True),
    Case(
        "lstm",
        "l wi wh b4",
        "lstm(l, [(wi[0], wh[0], b4[0], b4[0])], batch_first=True)[0]",
        f"torch.lstm(l, ({NO_STATE}, {NO_STATE}), [wi[0], wh[0], b4[0], b4[0]], {STEPS})[0]",
        True,
    ),
    Case(
        "gru",
        "l gi gh b3",
        "gru(l, [(gi[0], gh[0], b3[0], b3[0])], batch_first=True)[0]",
        f"torch.gru(l, {NO_STATE}, [gi[0], gh[0], b3[0], b3[0]], {STEPS})[0]",
    ),
    Case("normal", "v", "normal(1000000, seed=1)", "torch.randn(1000000)", True),
    Case("uniform", "v", "uniform(1000000, seed=1)", "torch.rand(1000000)", True),
    Case("dropout", "v", "dropout(v, 0.1, seed=1)", "F.dropout(v, 0.1)", True),
    Case("gamma samples", "p", "sample(Gamma(p, 1.0), seed=1)", "torch.distributions.Gamma(p, torch.ones(1)).sample()"),
    Case("poisson samples", "p", "poisson(p, seed=1)", "torch.poisson(p)"),
    Case(
        "categorical samples",
        "n",
        "categorical(n, seed=1)",
        "torch.distributions.Categorical(logits=n).sample()",
    ),
    Case(
        "density of normal",
        "v w",
        "log_prob(Normal(w, 2.0), v)",
        "torch.distributions.Normal(w, 2.0, validate_args=False).log_prob(v)",
    ),
    Case(
        "density of gamma",
        "p q",
        "log_prob(Gamma(p, 2.0), q)",
        "torch.distributions.Gamma(p, torch.tensor(2.0), validate_args=False).log_prob(q)",
    ),
    Case("gumbel_softmax", "n", "gumbel_softmax(n, seed=1)", "F.gumbel_softmax(n)"),
    Case(
        "quantize by channel",
        "x p",
        "quantize(x, p[:1024], axis=0, dtype=i8)",
        "torch.quantize_per_channel(x, p[:1024], torch.zeros(1024, dtype=torch.long), 0, torch.qint8).int_repr()",
    ),
    Case(
        "fake_quantize",
        "x",
        "fake_quantize(x, 0.05, 3)",
        "torch.fake_quantize_per_tensor_affine(x, 0.05, 3, -128, 127)",
    ),
    Case("fp8 and back", "v", "cast(cast(v, fp8_e4m3), f32)", "v.to(torch.float8_e4m3fn).float()"),
    Case("outer", "x", "outer(x[0], x[1])", "torch.outer(x[0], x[1])"),
    Case("matrix product", "x y", "x @ y", "x @ y", True),
    Case("einsum", "a", 'einsum("bhsd,bhtd->bhst", a, a)', 'torch.einsum("bhsd,bhtd->bhst", a, a)', True),
    Case(
        "grouped attention",
        "a",
        "grouped_attention(a, a[:, :2], a[:, :2])",
        "F.scaled_dot_product_attention(a, a[:, :2], a[:, :2], enable_gqa=True)",
    ),
    Case(
        "ctc_loss",
        "ct cl",
        "ctc_loss(log_softmax(ct), cl, full(8, 128, dtype=i64), full(8, 20, dtype=i64), reduction='none')",
        "F.ctc_loss(ct.log_softmax(-1), cl, torch.full((8,), 128), torch.full((8,), 20), reduction='none')",
    ),
)

SLOW: dict[str, str] = {
    "scatter_add": "elements of one place are folded by the aligned tree in their order",
    "unique": "one row is sorted by one thread",
}
"""Why one may take more than twice as long."""
