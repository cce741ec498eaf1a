"""What users of NumPy, PyTorch, SciPy and ONNX look for, called with the options that they know: each call has a value,
is mapped over a batch to the same numbers, and has the gradient that differences say."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tesserac.graph.interp import run_function
from tests.support.folding import folded
from tests.support.source_support import compile_to_forms

RNG = np.random.default_rng(17)
Array = np.ndarray
OPERANDS: dict[str, Array] = {
    "x": RNG.normal(size=(3, 6)),
    "y": RNG.normal(size=(3, 6)),
    "v": RNG.normal(size=6),
    "w": RNG.uniform(0.5, 2.0, 6),
    "p": RNG.uniform(0.1, 0.9, (3, 6)),
    "i": np.array([0, 4, 2]),
    "j": np.array([5, 0, 3, 3, 1, 0]),
    "z": RNG.normal(size=(2, 4, 7, 6)),
    "g": RNG.uniform(-0.9, 0.9, (2, 3, 4, 2)),
    "t": RNG.normal(size=(2, 4, 9)),
    "u": RNG.normal(size=(1, 2, 4, 5, 4)),
    "s": RNG.normal(size=(4, 4)) + 4 * np.eye(4),
    "k": RNG.normal(size=(4, 2, 3, 3)) * 0.3,
    "k1": RNG.normal(size=(4, 2, 3)),
    "k3": RNG.normal(size=(2, 2, 2, 3, 2)),
    "q": RNG.normal(size=(2, 4, 5, 4)),
    "c": RNG.normal(size=(2, 2, 5, 4)),
    "b": np.array([[0.0, 0.5, 0.3, 5.1, 4.2], [1.0, 1.23, 0.71, 4.37, 5.9]]),
    "l": np.array([4, 3]),
    "r": RNG.normal(size=(3, 2, 4)),
    "wi": RNG.normal(size=(12, 4)) * 0.4,
    "wh": RNG.normal(size=(12, 3)) * 0.4,
    "f": RNG.normal(size=32),
}
VALUES = """
interpolate(z, size=(9, 4), mode="nearest-exact")
interpolate(z, scale_factor=(1.5, 0.7), mode="bilinear", align_corners=False)
interpolate(z, size=(9, 4), mode="bilinear", align_corners=True)
interpolate(z, size=(4, 5), mode="bicubic", antialias=True)
interpolate(z, size=(3, 3), mode="area")
interpolate(t, scale_factor=2.0, mode="linear")
resize(z, scale=(1.0, 1.0, 1.3, 0.6), mode="cubic", cubic_a=-0.5, exclude_outside=True)
grid_sample(z, g, mode="bicubic", padding_mode="reflection", align_corners=True)
grid_sample(z, g, padding_mode="border")
affine_grid(reshape(x[:2], (2, 2, 3)), (2, 1, 3, 4), align_corners=True)
roi_align(z, concat([round(b[:, :1]), b[:, 1:]], axis=1), (2, 3), 0.8, 2, True)
roi_align(z, concat([round(b[:, :1]), b[:, 1:]], axis=1), 2, mode="max")
roi_align(z, [b[:1, 1:], b[1:, 1:]], 2, aligned=True) + roi_align(z, b[:, 1:], 2, batch_indices=array([0, 1]))
roll(x, 4) + roll(y, (1, -2), axis=(0, 1))
clip(x, a_min=-0.31, a_max=0.43)
trace(s, -1)
pad(x, 2, constant_values=((1.0, 2.0), (3.0, 4.0))) + pad(y, 2, mode="linear_ramp", end_values=(0.5, 1.0))
pad(x, 1, mode="maximum") + pad(y, 1, mode="mean") + pad(y, 1, mode="minimum")
partition(x, 2) + unique_consecutive(v, size=6)
depth_to_space(z, 2, mode="CRD")
space_to_depth(z[:, :, :6], 2)
unfold(z, (2, 3), dilation=(1, 2), padding=((1, 0), 1), stride=2)
fold(unfold(z, 2), (7, 6), 2)
max_unpool2d(max_pool2d(z, 2), max_pool2d(z, 2, return_indices=True)[1], 2)
conv1d(t, k1, groups=2, padding=(2, 0), dilation=2)
conv2d(z, k, groups=2, stride=(2, 1), padding=((1, 0), "same"))
conv3d(u, k3, stride=(1, 2, 1), padding=1, dilation=(1, 1, 2))
conv_transpose1d(t, k1, stride=2, padding=(1, 0), output_padding=1)
conv_transpose2d(z, k, stride=2, padding=1, groups=2, output_padding=(1, 0))
conv_transpose3d(u, k3, stride=(1, 2, 1), padding=1)
max_pool2d(z, 3, 2, 1, dilation=2, ceil_mode=True)
avg_pool2d(z[0], 2) + adaptive_avg_pool2d(z[1], 3) + adaptive_max_pool2d(z[0], 3) + max_pool2d(z[1], 2)
max_unpool2d(max_pool2d(z[0], 2), max_pool2d(z[0], 2, return_indices=True)[1], 2) + pixel_shuffle(z[0], 2)[:, :6, :6]
avg_pool2d(z, (3, 2), 2, ((1, 0), 1), ceil_mode=True, count_include_pad=False)
avg_pool2d(z, 2, divisor_override=3)
max_pool3d(u, 2, 1, padding=((1, 0), 0, 1))
avg_pool3d(u, 2, ceil_mode=True)
max_pool1d(t, 3, 2, (1, 0))
lp_pool2d(abs(z) + 0.1, 3.0, 2)
adaptive_avg_pool2d(z, (3, 4))
adaptive_max_pool2d(z, (3, 4))
depthwise_conv2d(z, k[:, :1], stride=2)
deform_conv2d(z, g[:1, :1, :1, :1] * 0.4 + zeros(2, 18, 5, 4, dtype=f64), k)
deform_conv2d(z[:, :2], g[:1, :1, :1, :1] * 0.4 + zeros(2, 18, 5, 4, dtype=f64), k)
lstm(r, [(wi, wh)], lengths=l)[0]
lstm(r, [(wi, wh)], reverse=True, peepholes=[(v[:3], w[:3], v[3:])])[1][1]
gru(r, [(wi[:9], wh[:9])], linear_before_reset=False)[0]
rnn(r, [(wi[:3], wh[:3])], nonlinearity="tanh")[1]
lstm(r[:, 0], [(wi, wh)], (x[:1, :3], y[:1, :3]))[0] + gru(r[:, 0], [(wi[:9], wh[:9])])[0]
attention(q, q, q, causal=True, softcap=3.0, window=(2, None), sinks=v[:4])
attention(q, q, q, mask=q[:, :1, :1] @ zeros(4, 5, dtype=f64) >= 0.0, lengths=l, align="top-left")
grouped_attention(q, c, c, bias=q[0, 0] @ q[0, 1].T, causal=True, scale=0.3)
grouped_attention_safe(q, c, c, mask=c[0, 0] @ c[1, 0].T, lengths=l)
rotary_embedding(q, interleaved=True, size=2)
rotary_embedding(reshape(q, (2, 4, 20)), w[:4], num_heads=5) + rotary_embedding(reshape(q, (2, 4, 20)))
attention_weights(q, q, causal=True, softcap=3.0, sinks=v[:4])
scaled_dot_product_attention(q, c, c, dropout_p=0.3, is_causal=True, enable_gqa=True, seed=4)
rotary_embedding(q, cos=cos(q[0, 0, :, :2]), sin=sin(q[0, 1, :, :2]))
moe(x, transpose(x), lambda h: tanh(h), k=2)
segment_sum(x, i, 5)
segment_max(x, i, 5)[array([0, 2, 4])]
segment_min(x, i, 5)[array([0, 2, 4])]
segment_reduce(x, i, 5, op="mean")[array([0, 2, 4])]
spmm_coo(i, array([0, 1, 2]), v[:3], x, 5)
spmm_csr(array([0, 2, 2, 3]), array([0, 2, 1]), v[:3], x)
sddmm(x, transpose(y), (array([0, 1]), array([2, 1])))
dct(x)
dct(x, axis=0, norm="ortho")
dst(x, 1) + dst(y, 2, axis=0) + idst(x, 3, norm="ortho") + dctn(y) + idstn(x, 4)
mel_spectrogram(f, 8000.0, 8, n_mels=3, power=1.0) + spectrogram(f, 8, normalized=True)[:3]
abs(stft(f, 8, hop_length=3, win_length=6, window=hann_window(6, dtype=f64), center=True, pad_mode="reflect"))
istft(stft(f, 8, window=hamming_window(8, dtype=f64)), 8, window=hamming_window(8, dtype=f64), length=30)
kaiser_window(7, beta=5.0, dtype=f64) * f[:7]
f[:9] @ mel_filters(9, 4, 8000.0, 20.0, 3800.0, norm="slaney", mel_scale="slaney", dtype=f64)
abs(fft(x, n=8, axis=0, norm="ortho"))
tile(x, (2, 3))
pad(z, ((0, 0), (0, 0), (2, 1), (1, 3)), mode="reflect")
pad(x, 2, mode="edge")
pad(x, (1, 2), mode="wrap")
pad(x, 1, 2, axis=1, value=0.5)
x % 0.7
fmod(x, w)
cumsum(x, axis=0, exclusive=True)
cumsum(x, reverse=True)
cumprod(x, axis=1, exclusive=True, reverse=True)
reverse_sequence(x, array([2, 6, 3]))
rearrange(x, "a (b c) -> c a b", b=2)
prelu(z, v[:4])
selu(x) + celu(x, alpha=0.7) + softsign(x) + elu(x, 0.5)
softshrink(x, 0.3) + hardshrink(x, 0.4) + hardsigmoid(x, alpha=0.2, beta=0.5) + tanhshrink(x)
groupnorm(z, 2, v[:4], w[:4], eps=1e-3)
instancenorm(z, v[:4], w[:4])
layernorm(z, y[:1, :6] + zeros(7, 6, dtype=f64), axis=-2)
rmsnorm(x, v)
lrn(z, 3, 0.1, 0.6, 2.0)
cross_entropy(x, i, weight=w, label_smoothing=0.1, ignore_index=4, reduction="mean")
cross_entropy(transpose(x), array([0, 1, 2, 2, 1, 0]), reduction="sum")
nll(log_softmax(t, axis=1), zeros(2, 9, dtype=i64), weight=w[:4], axis=1, reduction="mean")
bce(p, square(p), reduction="sum") + bce_with_logits(x, p, pos_weight=w)
kl_div(log_softmax(x), softmax(y), reduction="batchmean")
mse(x, y) + mae(x, y) + huber(x, y, delta=0.4) + smooth_l1(x, y, beta=0.3)
gaussian_nll(x, y, p, full=True) + poisson_nll(x, p, log_input=True)
triplet_margin(x, y, p, margin=0.7) + margin_ranking(v, w, sign(v), margin=0.2)
triplet_margin(x, y, p, p=3, swap=True, reduction="sum") + poisson_nll(p, 3.0 * p, log_input=False, full=True)
ctc_loss(log_softmax(r[:, :, :4]), array([[1, 2], [3, 0]]), array([3, 3]), array([2, 1]))
gemm(s, s, s, alpha=0.5, beta=0.2, transpose_a=True)
matmul(s, s, epilogue="bias_gelu", bias=v[:4])
tri_solve(s, s)
clip(x, -0.5, 0.8)
diff(x, n=2, axis=1, prepend=0.0)
interp(v, cumsum(w), v)
convolve(v, w, mode="same")
correlate(v, w, mode="full")
logaddexp(x, y) + logaddexp2(x, y)
percentile(x, 30.0, axis=1)
quantile(x, 0.3, axis=0)
median(x, axis=1)
std(x, axis=0, ddof=1) + var(x, axis=0, ddof=1)
moveaxis(z, (1, 2), (3, 0))
take(x, j, axis=1)
nansum(x, axis=0) + nanmean(x, axis=0) + nanmax(x, axis=0) + nanmin(x, axis=0)
lgamma(w) + digamma(w) + beta(w, w + 0.5) + erfinv(p[0])
betainc(w, w + 0.3, p[0])
gammainc(w, w + 0.5) + gammaincc(w, v * v)
i0(v) + i1(v) + j0(v) + j1(v) + i0e(v) + i1e(v)
cov(x) + corrcoef(x)
cov(x, rowvar=False)
kron(s, s[:2])
outer(v, w) + inner(v, w)
cross(x[:, :3], y[:, :3])
cummax(x, axis=0, return_indices=True)[0]
cummin(x)
logcumsumexp(x, axis=1)
trapezoid(x, cumsum(w)) + trapezoid(x, dx=0.5)
gumbel_softmax(x, tau=0.7, seed=3)
ema(x, y, 0.9)
log_prob(Normal(x, p), y) + log_prob(LogNormal(x, p), exp(y)) + log_prob(Laplace(x, p), y)
log_prob(Beta(p + 1.0, w), p) + log_prob(Gamma(w, w + 1.0), p)
log_prob(StudentT(w + 2.0, x, p), y) + log_prob(Exponential(w), p) + log_prob(HalfNormal(p), abs(y))
log_prob(Categorical(logits=x), i) + log_prob(Bernoulli(logits=x), round(p))[:, 0]
log_prob(Poisson(w), cast(j, f64))[0]
expectation(Categorical(logits=x)) + variance(Categorical(probs=p))
log_prob(Dirichlet(w), softmax(x))
log_prob(MultivariateNormal(v[:4], scale_tril=cholesky(s @ s.T)), w[:4])
log_prob(VonMises(x, w), y) + entropy(Normal(x, p)) + kl(Normal(x, p), Normal(y, w))
log_prob(Cauchy(x, p), y) + log_prob(HalfCauchy(p), abs(y))
log_prob(Gumbel(x, w), y) + log_prob(Weibull(w, p), abs(y))
log_prob(Pareto(p, w), p + abs(y)) + log_prob(InverseGamma(w, p), abs(y)) + log_prob(Chi2(w), p)
log_prob(Binomial(6, logits=x), floor(6.9 * p)) + log_prob(Geometric(probs=p), floor(9.0 * p))
log_prob(NegativeBinomial(w, logits=x), floor(9.0 * p))
cdf(Normal(x, p), y) + cdf(Gamma(w, p), p) + cdf(Gumbel(x, w), y)
cdf(StudentT(w, x, p), y) + cdf(InverseGamma(w, p), p)
icdf(Normal(x, p), p) + icdf(Laplace(x, p), p) + icdf(Weibull(w, w), p) + icdf(Cauchy(x, w), p)
expectation(Weibull(w, p)) + variance(LogNormal(x, p)) + stddev(Beta(p, w)) + variance(Geometric(logits=x))
entropy(Weibull(w, p)) + entropy(InverseGamma(w, p)) + entropy(Geometric(logits=x)) + entropy(Pareto(p, w))
kl(Gumbel(x, p), Normal(y, w)) + kl_divergence(Normal(x, p), Laplace(y, w)) + kl(Exponential(p), Gamma(w, w))
kl(Cauchy(x, p), Cauchy(y, w)) + kl(Gumbel(x, p), Gumbel(y, w)) + kl(Geometric(logits=x), Geometric(logits=y))
kl(Uniform(p, p + w), Gamma(w, p)) + kl(Uniform(0.4 * p, p), Beta(w, p)) + kl(Uniform(x, x + p), Gumbel(y, w))
kl(Pareto(p, w + 2.0), Gamma(w, p)) + kl(Pareto(p + 1.0, w), Pareto(p, p)) + kl(Uniform(p + 1.0, w + 3.0), Pareto(p, w))
kl(Beta(p, w), Gamma(w, p)) + kl(Gamma(w, p), Gumbel(x, w))
kl(Normal(x, p), Gumbel(y, w)) + kl(Weibull(p, w), Weibull(w, p))
kl(Bernoulli(logits=x), Poisson(p)) + kl(Binomial(5, logits=x), Binomial(5, logits=y)) + entropy(Binomial(5, logits=x))
rsample(Gumbel(x, p), seed=3) + Weibull(w, p).rsample(seed=4) + Cauchy(x, p).rsample(seed=6)
grad(lambda a: sum(log_prob(Gamma(a, w), p[0]) + log_prob(Beta(a, w), p[0])))(ones_like(w) + 0.0 * v)
frexp(x)[0] * nextafter(ones_like(x), y)
polyadd(v, w[:3]) + polysub(w, v[:2]) + op.pad(polyder(v), 1, 0, axis=0) + polyint(w, k=0.5)[:6]
polyfit(cumsum(w), v, 2, w=p[0])
kthvalue(x, 2, axis=1)[0] + unwrap(x * 4.0, 3.5, axis=0)[:, 0] + nancumprod(x, axis=0)[:, 1]
pad(x, (-1, 2, 1, -1), value=0.3) + pad(x, (2, -1, -1, 1))
pad(x, ((1, 2), (3, 0)), "reflect", reflect_type="odd") + pad(y, ((1, 2), (2, 1)), mode="symmetric", reflect_type="odd")
sample(Normal(x, p), seed=3) + sample(Laplace(x, p), seed=4) + sample(LogNormal(x, p), seed=5)
where(top_k_logits(x, 2) == -INF, 0.0, top_k_logits(x, 2))
where(top_p_logits(x, 0.7) == -INF, 0.0, x)
where(typical_logits(x, 0.5, keep=2) == -INF, 0.0, x) + where(min_p_logits(x, 0.9, keep=3) == -INF, 0.0, y)
repetition_penalty(x, array([[0, 1], [2, 2], [5, 0]]), 1.3)
"""
WHOLE = """
nms(b[:, 1:], v[:2], 0.3)[0]
batched_nms(b[:, 1:], v[:2], array([0, 1]), 0.3)[0]
non_max_suppression(b[None, :, 1:], x[None, :2, :2], 1, 0.3, 0.1)[0]
quantize(x, 0.1, 3, axis=0, dtype=u8)
dynamic_quantize(x, axis=0, dtype=i8)[0]
cast(quantize(x, 0.5, dtype=fp4), f64)
bitcast(x, i64)
fake_quantize(x, 0.9, 1, dtype=i4)
straight_through(round(x), x)
i ** 3
eye(3, 4, k=1)
nonzero(x > 0.0, size=5)[1]
unique(j, size=6, return_counts=True)[1]
hardmax(x)
histogram(x, 4, range=(-2.0, 2.0))[0]
bincount(j, 6)
median(j) + quantile(j, (0.3, 0.9))
histogram2d(v, w, (3, 2), ((-2.0, 2.0), (0.5, 2.0)))[0]
histogramdd(x[:, :2], 3, density=True)[0] + histc(v, 3, min=-1.0, max=1.0)
frexp(x)[1] + cast(spacing(x) > nextafter(x, INF) - x, i32)
sample(Binomial(6, logits=x), seed=1) + NegativeBinomial(w, logits=x).sample(seed=3)
sample(Geometric(logits=x), seed=2)
searchsorted(sort(v), w, side="right")
lexsort((v, w))
cummax(x, return_indices=True)[1]
x.astype(f32).flatten().copy()
sample(Poisson(w), seed=2)
sample_tokens(x, temperature=0.7, top_k=3, top_p=0.9, seed=1)
sample_tokens(x, p[:, 0] * cast(i > 2, f64), top_k=0, seed=1)
multinomial(p, 4, seed=1) + sort(multinomial(p, 6, seed=2))[:, 2:]
choice(x, (2, 4), p=p[:, 0], seed=1)[:, :, 0] + choice(v, (4,), replace=False, seed=2)
beam_search_step(v[None, :3], log_softmax(x)[None])[1]
meshgrid(v, w)[0] + PI
"""
VALUED, COUNTED = ([line for line in text.splitlines() if line] for text in (VALUES, WHOLE))
DTYPES = {"f": "f64", "i": "i64"}


def used(call: str) -> list[str]:
    return [name for name in OPERANDS if re.search(rf"\b{name}\b", call)]


def typed(names: list[str], batch: str = "") -> str:
    kinds = {name: (OPERANDS[name].shape, DTYPES[OPERANDS[name].dtype.kind]) for name in names}
    return ", ".join(f"{n}: Tensor[{batch}{', '.join(map(str, (*shape, kind)))}]" for n, (shape, kind) in kinds.items())


def numbers(call: str, derived: bool) -> tuple[list[str], str]:
    names = used(call)
    given, floats = ", ".join(names), [k for k, n in enumerate(names) if OPERANDS[n].dtype.kind == "f"]
    text = f"def f({typed(names)}):\n    return {call}\n"
    text += f"def m({typed(names, '2, ')}):\n    return vmap(lambda {given}: {call})({given})\n"
    if derived:
        slopes = f"grad(lambda {given}: sum(square({call})), wrt=({', '.join(map(str, floats))},))({given})"
        text += f"def d({typed(names)}):\n    return {slopes}\n"
    return names, text


@pytest.mark.one_in(6)
@folded("call", [*VALUED, *COUNTED], one_in=24)
def test_values_batches_and_gradients(call: str) -> None:
    names, text = numbers(call, call in VALUED)
    forms = compile_to_forms(text)
    args = [OPERANDS[name] for name in names]
    (value,) = run_function(forms, "m.f", args)
    assert np.isfinite(value.astype(np.float64)).all(), call
    (batch,) = run_function(forms, "m.m", [np.stack([a, a[::-1] if a.dtype.kind == "f" else a]) for a in args])
    if "seed" not in call:
        np.testing.assert_allclose(batch[0], value, rtol=1e-12, atol=1e-12, err_msg=call)
    assert batch.shape == (2, *value.shape)
    if call in VALUED:
        close_to_differences(call, args, run_function(forms, "m.d", args), lambda a: run_function(forms, "m.f", a)[0])


def close_to_differences(
    call: str, args: list[Array], slopes: Sequence[Array], value: Callable[[list[Array]], Array]
) -> None:
    """The gradient of the sum of squares along one direction of all operands."""
    floats = [k for k, a in enumerate(args) if a.dtype.kind == "f"]
    ways = {k: np.random.default_rng(k).normal(size=args[k].shape) for k in floats}
    step = 1e-6
    ends = []
    for side in (step, -step):
        moved = [a + side * ways[k] if k in ways else a for k, a in enumerate(args)]
        ends.append(float(np.square(value(moved)).sum()))
    found = sum(float((slope * ways[k]).sum()) for k, slope in zip(floats, slopes, strict=True))
    assert abs(found - (ends[0] - ends[1]) / (2 * step)) <= 1e-5 * (1 + abs(found)), call
