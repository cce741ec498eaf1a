"""Further functions of the library beside PyTorch's. What PyTorch has no function of is written with those that it has,
in `operator_written.py`."""

from __future__ import annotations

from benchmarks.operator_inputs import Case

NO_STATE = "torch.zeros(1, 4, 64)"
STEPS = "True, 1, 0.0, False, False, True"
SDPA = "F.scaled_dot_product_attention(a, a, a"
HANN = "window=torch.hann_window(512)"
EMPTY = "torch.full((32, 32), -torch.inf)"
TWO_ROWS = "x.log_softmax(-1), y.softmax(-1)"
D, FREE = "torch.distributions", "validate_args=False"

MORE: tuple[Case, ...] = (
    Case("prelu", "i", "prelu(i, 0.25)", "F.prelu(i, torch.tensor([0.25]))"),
    Case("celu", "v", "celu(v)", "F.celu(v)"),
    Case("softsign", "v", "softsign(v)", "F.softsign(v)"),
    Case("hardshrink", "v", "hardshrink(v)", "F.hardshrink(v)"),
    Case("hardsigmoid", "v", "hardsigmoid(v)", "F.hardsigmoid(v)"),
    Case("exp", "v", "exp(v)", "v.exp()", True),
    Case("log", "p", "log(p)", "p.log()", True),
    Case("sin", "v", "sin(v)", "v.sin()", True),
    Case("float ** float", "p q", "p ** q", "p ** q"),
    Case("integer power", "v", "v ** 3", "v ** 3"),
    Case("erf", "v", "erf(v)", "v.erf()"),
    Case("beta function", "p q", "beta(p, q)", "torch.exp(p.lgamma() + q.lgamma() - (p + q).lgamma())"),
    Case("i0e", "p", "i0e(p)", "torch.special.i0e(p)"),
    Case("j1", "p", "j1(p)", "torch.special.bessel_j1(p)"),
    Case("affine_grid", "th", "affine_grid(th, (8, 1, 64, 64))", "F.affine_grid(th, (8, 1, 64, 64), False)"),
    Case("adaptive_max_pool2d", "i", "adaptive_max_pool2d(i, (7, 7))", "F.adaptive_max_pool2d(i, (7, 7))"),
    Case("lp_pool2d", "i", "lp_pool2d(i, 2.0, 2)", "F.lp_pool2d(i, 2.0, 2)"),
    Case("max_pool1d", "t", "max_pool1d(t, 2)", "F.max_pool1d(t, 2)"),
    Case("avg_pool1d", "t", "avg_pool1d(t, 2)", "F.avg_pool1d(t, 2)"),
    Case(
        "max_pool2d with places",
        "i",
        "max_pool2d(i, 2, return_indices=True)",
        "F.max_pool2d(i, 2, return_indices=True)",
    ),
    Case(
        "pad edge",
        "i",
        'pad(i, [(0, 0), (0, 0), (2, 2), (2, 2)], mode="edge")',
        'F.pad(i, (2, 2, 2, 2), mode="replicate")',
    ),
    Case(
        "pad wrap",
        "i",
        'pad(i, [(0, 0), (0, 0), (2, 2), (2, 2)], mode="wrap")',
        'F.pad(i, (2, 2, 2, 2), mode="circular")',
    ),
    Case(
        "rnn",
        "l lr lb",
        "rnn(l, [(lr[0], lr[0], lb[0], lb[0])], batch_first=True)[0]",
        f"torch.rnn_tanh(l, {NO_STATE}, [lr[0], lr[0], lb[0], lb[0]], {STEPS})[0]",
    ),
    Case(
        "attention with a window",
        "a",
        "attention(a, a, a, causal=True, window=(64, 0))",
        "F.scaled_dot_product_attention(a, a, a, WINDOW)",
    ),
    Case("attention with a mask", "a", "attention(a, a, a, mask=tril(ones(256, 256)) > 0.0)", f"{SDPA}, TRIANGLE)"),
    Case("attention with a bias", "a y", "attention(a, a, a, bias=y[:256, :256])", f"{SDPA}, y[:256, :256])"),
    Case(
        "rotary_embedding",
        "a x y",
        "rotary_embedding(a, cos=x[:256, :32], sin=y[:256, :32])",
        "torch.cat([a[..., :32] * x[:256, :32] - a[..., 32:] * y[:256, :32], "
        "a[..., 32:] * x[:256, :32] + a[..., :32] * y[:256, :32]], -1)",
    ),
    Case(
        "moe",
        "tk er ew",
        "moe(tk, er, lambda t: einsum('ecd,edf->ecf', t, ew), 2, capacity=1024)",
        "moe(tk, er, ew)",
    ),
    Case("segment_max", "n m", "segment_max(n, m, 32)", f"{EMPTY}.index_reduce(0, m, n, 'amax')"),
    Case(
        "spmm_coo",
        "j r x",
        "spmm_coo(j, flip(j), r, x[:, :64], 1024)",
        "torch.sparse_coo_tensor(torch.stack([j, j.flip(0)]), r, (1024, 1024)) @ x[:, :64]",
    ),
    Case("sddmm", "o j", "sddmm(o, o.T, (j % 512, flip(j) % 512))", "(o[j % 512] * o[j.flip(0) % 512]).sum(-1)"),
    Case(
        "istft",
        "z",
        "istft(stft(z, 512, hop_length=128, window=hann_window(512)), 512, hop_length=128, window=hann_window(512))",
        f"torch.istft(torch.stft(z, 512, 128, {HANN}, return_complex=True), 512, 128, {HANN})",
    ),
    Case("fft", "z", "fft(z)", "torch.fft.fft(z)"),
    Case("rfft and back", "z", "irfft(rfft(z) * 0.5)", "torch.fft.irfft(torch.fft.rfft(z) * 0.5)"),
    Case("fft2", "x", "fft2(x)", "torch.fft.fft2(x)"),
    Case("fft along rows", "x", "fft(x, axis=0)", "torch.fft.fft(x, dim=0)"),
    Case(
        "spectral_conv",
        "sf sw",
        "spectral_conv(sf, cast(sw, c64))",
        "torch.fft.irfft(F.pad(torch.einsum('bik,iok->bok', torch.fft.rfft(sf)[..., :12], sw.to(torch.complex64)), "
        "(0, 245)), 512)",
    ),
    Case("nonzero", "v", "nonzero(v > 1.0, 200000)", "(v > 1.0).nonzero()"),
    Case(
        "unique rows",
        "j",
        "unique(reshape(j % 4, (32768, 2)), size=16, axis=0)",
        "(j % 4).reshape(-1, 2).unique(dim=0)",
    ),
    Case("rearrange", "a", 'rearrange(a, "b h s d -> b s (h d)")', "a.transpose(1, 2).reshape(4, 256, 512)"),
    Case("diff", "x", "diff(x)", "x.diff()"),
    Case("cumsum exclusive", "x", "cumsum(x, axis=1, exclusive=True)", "x.cumsum(1) - x"),
    Case(
        "bucketize", "r", "bucketize(r, linspace(-3.0, 3.0, 64))", "torch.bucketize(r, torch.linspace(-3.0, 3.0, 64))"
    ),
    Case("nanmean", "x", "nanmean(x, axis=1)", "x.nanmean(1)"),
    Case("nanmedian", "z", "nanmedian(z, axis=1)", "z.nanmedian(1).values"),
    Case("corrcoef", "o", "corrcoef(o)", "o.corrcoef()"),
    Case("inner", "o", "inner(o, o)", "torch.inner(o, o)"),
    Case("cross", "bx", "cross(bx[:, :3], bx[:, 1:])", "torch.linalg.cross(bx[:, :3], bx[:, 1:])"),
    Case("convolve", "r sv", "convolve(r, sv)", "F.conv1d(r[None, None], sv.flip(0)[None, None], padding=1023)[0, 0]"),
    Case("lexsort", "r j", "lexsort((r, j))", "r.argsort()[j[r.argsort()].argsort(stable=True)]"),
    Case("cummin", "x", "cummin(x, axis=1, return_indices=True)", "x.cummin(1)"),
    Case("cumprod near one", "x", "cumprod(1.0 + 0.001 * x, axis=1)", "(1.0 + 0.001 * x).cumprod(1)"),
    Case("prod", "x", "prod(x, axis=1)", "x.prod(1)"),
    Case("sum", "x", "sum(x)", "x.sum()", True),
    Case("sum of rows", "x", "sum(x, axis=1)", "x.sum(1)", True),
    Case("sum of columns", "x", "sum(x, axis=0)", "x.sum(0)", True),
    Case("max", "x", "max(x, axis=1)", "x.amax(1)", True),
    Case("norm", "x", "norm(x, axis=1)", "x.norm(dim=1)"),
    Case("std", "x", "std(x, axis=1, ddof=1)", "x.std(1)"),
    Case("kthvalue", "z", "kthvalue(z, 100)", "z.kthvalue(100)"),
    Case("nll with weights", "n m wc", "nll_loss(log_softmax(n), m, wc)", "F.nll_loss(n.log_softmax(-1), m, wc)"),
    Case(
        "cross_entropy with weights",
        "n m wc",
        "cross_entropy(n, m, weight=wc, reduction='mean')",
        "F.cross_entropy(n, m, wc)",
    ),
    Case("kl_div", "x y", "kl_div(log_softmax(x), softmax(y), reduction='mean')", f"F.kl_div({TWO_ROWS})"),
    Case("triplet_margin", "x y", "triplet_margin(x, y, x + 1.0)", "F.triplet_margin_loss(x, y, x + 1.0)"),
    Case("multi_margin", "n m", "multi_margin(n, m)", "F.multi_margin_loss(n, m)"),
    Case("top_k and top_p", "nn", "sample_tokens(nn, 0.8, top_k=50, top_p=0.9, seed=1)", "sampled(nn)"),
    Case("top_p", "nn", "top_p_logits(nn, 0.9)", "top_p(nn)"),
    Case("beam_search_step", "bs bl", "beam_search_step(bs, bl)", "beam_step(bs, bl)"),
    Case("ema", "v w", "ema(v, w, 0.9)", "v.lerp(w, 0.1)"),
    Case("exponential samples", "v", "exponential(1000000, seed=1)", "torch.empty(1000000).exponential_()"),
    Case(
        "beta samples",
        "p q",
        "sample(Beta(p, q), seed=1)",
        "torch.distributions.Beta(p, q, validate_args=False).sample()",
    ),
    Case(
        "dirichlet samples",
        "n",
        "sample(Dirichlet(exp(n)), seed=1)",
        "torch.distributions.Dirichlet(n.exp(), validate_args=False).sample()",
    ),
    Case("bernoulli samples", "v", "bernoulli(0.3, 1000000, seed=1)", "torch.empty(1000000).bernoulli_(0.3)"),
    Case(
        "student-t density",
        "v w",
        "log_prob(StudentT(3.0, w, 2.0), v)",
        f"{D}.StudentT(3.0, w, 2.0, {FREE}).log_prob(v)",
    ),
    Case("beta density", "p q", "log_prob(Beta(p, q), sigmoid(p))", f"{D}.Beta(p, q, {FREE}).log_prob(p.sigmoid())"),
    Case(
        "multivariate normal density",
        "mv mc",
        "log_prob(MultivariateNormal(mv[0], mc @ mc.T + eye(16)), mv)",
        f"{D}.MultivariateNormal(mv[0], mc @ mc.T + torch.eye(16), {FREE}).log_prob(mv)",
    ),
    Case(
        "kl of normals",
        "v w",
        "kl(Normal(v, 1.0), Normal(w, 2.0))",
        f"{D}.kl_divergence({D}.Normal(v, 1.0), {D}.Normal(w, 2.0))",
    ),
    Case("entropy of gamma", "p q", "entropy(Gamma(p, q))", f"{D}.Gamma(p, q, {FREE}).entropy()"),
    Case("dequantize", "x", "dequantize(cast(x * 9.0, i8), 0.05, 3)", "((x * 9.0).to(torch.int8).float() - 3) * 0.05"),
    Case("quantize dynamically", "x", "dynamic_quantize(x)[0]", "dynamic(x)"),
)
