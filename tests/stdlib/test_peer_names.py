"""Calls as users of PyTorch, NumPy and ONNX type them: parameters by the names that these have, functions of their
names with their own order of arguments, and options that others have and we once lacked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tesserac.ops  # noqa: F401  (fills the registry)
from tesserac.check.model.library_annotations import other_names
from tesserac.graph.interp import run_function
from tesserac.modules.library import load_library
from tesserac.ops.registry import OPERATORS
from tests.support.folding import folded
from tests.support.source_support import compile_to_forms

Array = np.ndarray
RNG = np.random.default_rng(5)
OPERANDS: dict[str, Array] = {
    "x": RNG.normal(size=(3, 6)),
    "y": RNG.normal(size=(3, 6)),
    "p": RNG.uniform(0.1, 0.9, (3, 6)),
    "v": RNG.normal(size=6),
    "i": np.array([0, 4, 2]),
    "z": RNG.normal(size=(2, 4, 7, 6)),
    "t": RNG.normal(size=4),
    "u": RNG.uniform(0.5, 2.0, 4),
    "s": RNG.normal(size=(4, 4)) + 4 * np.eye(4),
    "k": RNG.normal(size=(4, 4, 3, 3)),
    "q": RNG.normal(size=(2, 4, 5, 8)),
    "c": RNG.normal(size=(3, 5)) + 1j * RNG.normal(size=(3, 5)),
}
SAME = """
max_pool2d(z, kernel_size=2, padding=1) = max_pool2d(z, 2, None, 1)
adaptive_avg_pool2d(z, output_size=(3, 2)) = adaptive_avg_pool2d(z, (3, 2))
conv2d(z, weight=k, bias=t) = conv2d(z, k, t)
depth_to_space(z, blocksize=2) = depth_to_space(z, 2)
v.at[i].get() + v.at[i].subtract(t[:3])[i] = v[i] + (v - zeros(6, dtype=f64).at[i].add(t[:3]))[i]
v.at[i].multiply(t[:3]) = v.at[i].mul(t[:3])
searchsorted(sort(v), t, "right") = searchsorted(sort(v), t, right=True)
matmul(s, s, epilogue="none", bias=t) = gemm(s, s, bias=t)
cross_entropy(x, target=i) = cross_entropy(x, i)
attention(q, q, q, attn_mask=None, is_causal=True) = attention(q, q, q, causal=True)
scaled_dot_product_attention(q, q, q, is_causal=True) = attention(q, q, q, causal=True)
scaled_dot_product_attention(q, q[:, :2], q[:, 2:], enable_gqa=True) = grouped_attention(q, q[:, :2], q[:, 2:])
scaled_dot_product_attention(s, s + 1.0, s * 2.0, is_causal=True) = attention(s, s + 1.0, s * 2.0, causal=True)
scaled_dot_product_attention(s, s, s, ones_like(s), enable_gqa=True) = attention(s, s, s)
diagonal(z, 1, 0, 2) = diagonal(z, offset=1, axis1=0, axis2=2)
diagonal(x, -1) = diagonal(x, offset=-1)
group_norm(z, num_groups=2, weight=t, bias=u, eps=1e-3) = groupnorm(z, 2, t, u, 1e-3)
layer_norm(x, (6,), v, v, 1e-3) = layernorm(x, v, v, 1e-3)
layer_norm(z, z.shape[2:]) = layernorm(z, axis=-2)
layer_norm(x, v, v) = layernorm(x, v, v)
rms_norm(x, (6,), weight=v, eps=1e-6) = rmsnorm(x, v, 1e-6)
instance_norm(z, weight=t, bias=u) = instancenorm(z, t, u)
batch_norm(z, t, u, u, t, False, eps=1e-3) = batchnorm(z, t, u, u, t, 1e-3)
batch_norm(z, training=True) = batchnorm_train(z, t, u)[0]
instance_norm(z, t, u, use_input_stats=False) = batchnorm(z, t, u)
instance_norm(z, t, u, use_input_stats=True) = instancenorm(z)
conv_transpose2d(z, k[:, :2], None, 1, 0, 0, 2, 2) = conv_transpose2d(z, k[:, :2], dilation=2, groups=2)
kl_div(log_softmax(x), p, reduction="mean") = mean(kl_div(log_softmax(x), p, reduction="none"))
kl_div(log_softmax(x), p, reduction="batchmean") = sum(kl_div(log_softmax(x), p)) / 3.0
sum(kl_div(log_softmax(x), p, reduction="none"), axis=-1) = kl_div(log_softmax(x), p)
cosine_embedding_loss(x, y, i - 1) = cosine_embedding(x, y, cast(i - 1, f64))
margin_ranking_loss(v[:3], t[:3], i - 1) = margin_ranking(v[:3], t[:3], cast(i - 1, f64))
hinge_embedding_loss(v[:3], i - 1) = hinge_embedding(v[:3], cast(i - 1, f64))
soft_margin_loss(v[:3], i - 1) = soft_margin(v[:3], cast(i - 1, f64))
nll_loss(log_softmax(x), i) = nll(log_softmax(x), i, reduction="mean")
mse_loss(x, target=y) = mse(x, y)
gemm(s, s, transA=True) = gemm(s, s, transpose_a=True)
fftn(x, dim=(0,)) = fft(x, axis=0)
flip(x, dims=(0, 1)) = flip(x, axis=(0, 1))
roll(x, shifts=2, dims=1) = roll(x, 2, axis=1)
tile(x, reps=(2, 3)) = tile(x, (2, 3))
repeat(x, repeats=2, axis=1) = repeat(x, 2, axis=1)
one_hot(i, num_classes=7) = one_hot(i, 7)
segment_sum(x, i, num_segments=5) = segment_sum(x, i, 5)
dropout(x, 0.5, training=False) = x
solve_triangular(s, s, upper=True) = triangular_solve(s, s, lower=False)
solve_triangular(s, s, trans=1, lower=False) = triangular_solve(s, s, lower=False, transpose=True)
solve_triangular(s, s, trans="C") = triangular_solve(s, s, trans=2)
solve_triangular(s, s, trans="N") = triangular_solve(s, s, trans=0)
cg(s @ s.T, t, rtol=1e-9, maxiter=50)[0] = cg(s @ s.T, t, 1e-9, 50)[0]
gmres(s, t, tol=1e-9, restart=4, maxiter=50)[0] = gmres(s, t, 1e-9, 4, 50)[0]
lsqr(s, t, iter_lim=60)[0] = lsqr(s, t, max_steps=60)[0]
quantile(x, 0.3, dim=1, interpolation="nearest") = quantile(x, 0.3, axis=1, method="nearest")
softmax(input=x, dim=1) + maximum(input=x, other=y) = softmax(x, axis=1) + maximum(x, y)
where(condition=x > 0.0, input=x, other=y) + pow(p, other=y) = where(x > 0.0, x, y) + pow(p, y)
embedding(input=i % 3, weight=x) = embedding(x, i % 3)
atan2(input=x, other=y) = atan2(x, y)
searchsorted(sort(v), input=x) = searchsorted(sort(v), x)
permute(input=x, dims=(1, 0)) + transpose(input=x, dim0=0, dim1=1) = x.T + transpose(x, axes=(1, 0))
x[None].expand(2, -1, -1) = stack([x, x])
v.at[i].divide(t[:3]) = v / ones(6, dtype=f64).at[i].set(t[:3])
v.at[array([1, 1])].div(t[:2], unique_indices=False) = v / array([1.0, t[0] * t[1], 1.0, 1.0, 1.0, 1.0])
v.at[i].get(mode="promise_in_bounds", indices_are_sorted=False) = v[i]
einsum(x, [0, 1], y, [2, 1]) + einsum("ij,kj", [x, y]) = 2.0 * x @ y.T
einsum(x, [3, 1], [1, 3]) = x.T
sort(x, axis=None, kind="mergesort") = sort(ravel(x))
argsort(x, axis=0, stable=True) + argsort(x, axis=0, kind="stable") = 2 * argsort(x, axis=0)
bincount(i, t[:3], 6) = bincount(i, size=6, weights=t[:3])
conv2d(z[0], k, t, padding=1) = conv2d(z, k, t, padding=1)[0]
conv1d(z[0, :, 0], k[:, :, 0]) = conv1d(z[:, :, 0], k[:, :, 0])[0]
conv_transpose1d(z[0, :, 0], k[:, :, 0]) = conv_transpose1d(z[:, :, 0], k[:, :, 0])[0]
conv_transpose2d(z[0], k, stride=2) = conv_transpose2d(z, k, stride=2)[0]
conv3d(z[0, :, None], k[:, :, None]) = conv3d(z[:, :, None], k[:, :, None])[0]
conv_transpose3d(z[0, :, None], k[:, :, None]) = conv_transpose3d(z[:, :, None], k[:, :, None])[0]
vmap(lambda one: conv2d(one, k))(z) = conv2d(z, k)
take_along_axis(x, indices=i[:, None], axis=1) = take_along_axis(x, i[:, None], axis=1)
swapaxes(x, axis0=0, axis1=1) + swapaxes(x, axis1=0, axis2=1) = 2.0 * x.T
batch_norm(z, t, u, u, t, False, 0.1, 1e-3) = batchnorm(z, t, u, u, t, 1e-3)
isin(i, [0, 2]) = isin(i, array([0, 2]))
comb(10, 3) + comb(4, 2, repetition=True) + comb(3, 4) + 0.0 * v = 130.0 + 0.0 * v
dctn(x) + idstn(x, axes=(0,)) = dct(dct(x, axis=0), axis=1) + idst(x, axis=0)
"""
PAIRS = [line.split(" = ") for line in SAME.splitlines() if line]


def operands_of(call: str) -> list[str]:
    return [name for name in OPERANDS if name in ast_names(call)]


def ast_names(call: str) -> set[str]:
    return {token for token in "".join(ch if ch.isalnum() or ch == "_" else " " for ch in call).split()}


def values(call: str, names: list[str]) -> list[Array]:
    kinds = {"f": "f64", "i": "i64", "c": "c128"}
    typed = (f"{n}: Tensor[{', '.join([*map(str, OPERANDS[n].shape), kinds[OPERANDS[n].dtype.kind]])}]" for n in names)
    forms = compile_to_forms(f"def f({', '.join(typed)}):\n    return {call}\n")
    return list(run_function(forms, "m.f", [OPERANDS[name] for name in names]))


@folded("theirs, ours", PAIRS, one_in=24)
def test_calls_by_other_names_are_the_same(theirs: str, ours: str) -> None:
    names = operands_of(theirs + " " + ours)
    for found, wanted in zip(values(theirs, names), values(ours, names), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14, atol=1e-14, err_msg=theirs)


LABELS = np.array([[1, 0, -1, 2, 3, 0], [3, 4, 5, -1, 0, 0], [-1, 0, 0, 0, 0, 0]])


def margins(x: Array) -> Array:
    """What `multilabel_margin` says, pair by pair."""
    total = 0.0
    for row, labels in zip(x, LABELS, strict=True):
        right = labels[: list(labels).index(-1)]
        wrong = [j for j in range(6) if j not in right]
        total += sum(max(0.0, 1 - (row[i] - row[j])) for i in right for j in wrong) / 6
    return np.array(total / 3)


def triangle(s: Array) -> Array:
    return np.tril(s, -1) + np.eye(4)


OPTIONS: list[tuple[str, Callable[..., Any]]] = [
    ("fftshift(x)", np.fft.fftshift),
    ("ifftshift(x)", np.fft.ifftshift),
    ("fftshift(x, axes=1)", lambda x: np.fft.fftshift(x, 1)),
    ("hfft(c)", np.fft.hfft),
    ('hfft(c, n=7, norm="ortho")', lambda c: np.fft.hfft(c, 7, norm="ortho")),
    ('ihfft(x, axis=0, norm="forward")', lambda x: np.fft.ihfft(x, axis=0, norm="forward")),
    ("pad(z, (1, 2, 0, 3))", lambda z: np.pad(z, ((0, 0), (0, 0), (0, 3), (1, 2)))),
    ('pad(z, (1, 2, 0, 3), mode="replicate")', lambda z: np.pad(z, ((0, 0), (0, 0), (0, 3), (1, 2)), mode="edge")),
    ('pad(z, (1, 2, 0, 3), "constant", 3)', lambda z: np.pad(z, ((0, 0), (0, 0), (0, 3), (1, 2)), constant_values=3)),
    ('pad(v, (1, 2), "constant", -0.5)', lambda v: np.pad(v, (1, 2), constant_values=-0.5)),
    ('pad(x, 1, "constant", 0) + pad(pad(x, (1, 1), "constant", 0, axis=0), 1, axis=1)', lambda x: 2 * np.pad(x, 1)),
    ("softplus(10.0 * x, 2.0, 3.0)", lambda x: np.where(20 * x > 3, 10 * x, np.log1p(np.exp(20 * x)) / 2)),
    (f"multilabel_margin(x, array({LABELS.tolist()}))", margins),
    ("solve_triangular(s, s, upper=False, unitriangular=True)", lambda s: np.linalg.solve(triangle(s), s)),
    ("solve_triangular(s, s, upper=True, left=False)", lambda s: s @ np.linalg.inv(np.triu(s))),
    ("solve_triangular(s, s, left=False, unit_diagonal=True)", lambda s: s @ np.linalg.inv(triangle(s))),
    ("cov(x, y)", np.cov),
    ("corrcoef(x, y, rowvar=False)", lambda x, y: np.corrcoef(x, y, rowvar=False)),
    ("cross(x, y, axis=0)", lambda x, y: np.cross(x, y, axis=0)),
    ("cross(x[0, :3], y[:, :3])", lambda x, y: np.cross(x[0, :3], y[:, :3])),
    ("searchsorted(sort(v), 0.3)", lambda v: np.searchsorted(np.sort(v), 0.3)),
    ("bucketize(v, sort(v), right=True)", lambda v: np.searchsorted(np.sort(v), v, side="right")),
    ("sum(x, axis=1, where=x > 0.0, initial=2.0)", lambda x: np.sum(x, 1, where=x > 0, initial=2)),
    ("prod(x, axis=0, where=x > 0.0)", lambda x: np.prod(x, 0, where=x > 0)),
    ("mean(x, axis=1, where=x > -0.5)", lambda x: np.mean(x, 1, where=x > -0.5)),
    ("mean(i, dtype=f64)", np.mean),
    ("max(x, axis=1, initial=0.5)", lambda x: np.max(x, 1, initial=0.5)),
    ("min(x, axis=1, where=x > 0.0, initial=9.0)", lambda x: np.min(x, 1, where=x > 0, initial=9)),
    ("diagonal(z, offset=1)", lambda z: np.diagonal(z, 1, 2, 3)),
    ("diagonal(z, offset=-1, dim1=1, dim2=2)", lambda z: np.diagonal(z, -1, 1, 2)),
    ("zeros_like(x, dtype=i32)", lambda x: np.zeros((3, 6), np.int32)),
    ("linspace(0.0, 1.0, num=5, endpoint=False, dtype=f64)", lambda: np.linspace(0, 1, 5, endpoint=False)),
    ("isin(i, array([0, 2]), invert=True)", lambda i: np.isin(i, [0, 2], invert=True)),
    ("gammainc(1e20 * exp(0.0 * v), 1e20 * exp(0.0 * v)) - 0.5", lambda v: 1.3298e-11 + 0.0 * v),
    ("mean(i)", np.mean),
    ("mean(x > 0.0, axis=0)", lambda x: np.mean(x > 0, 0)),
    ("var(i, ddof=1) + std(i)", lambda i: np.var(i, ddof=1) + np.std(i)),
    ("isclose(i, array([0, 4, 3]))", lambda i: np.isclose(i, [0, 4, 3])),
    ("ldexp(t[:3], i)", lambda i, t: np.ldexp(t[:3], i)),
    ("ldexp(i, i)", lambda i: np.ldexp(i.astype(np.float64), i)),
    ("gradient(x)[0]", lambda x: np.gradient(x)[0]),
    ("gradient(x, (0.5, 2.0), edge_order=2)[1]", lambda x: np.gradient(x, 0.5, 2.0, edge_order=2)[1]),
    ("gradient(x, sort(v), axis=1, edge_order=2)", lambda x, v: np.gradient(x, np.sort(v), axis=1, edge_order=2)),
    ("gradient(v, edge_order=2)", lambda v: np.gradient(v, edge_order=2)),
    ("digamma(0.0 * x[0, :2] - 0.0)", lambda x: np.where(np.signbit(0.0 * x[0, :2] - 0.0), np.inf, -np.inf)),
]


@folded("call, peer", OPTIONS, one_in=24)
def test_options_that_others_have(call: str, peer: Callable[..., Any]) -> None:
    names = operands_of(call)
    (found,) = values(call, names)
    np.testing.assert_allclose(found, peer(*(OPERANDS[name] for name in names)), rtol=1e-12, atol=1e-12, err_msg=call)


NARROW = [
    ("floor_divide(x, y)", np.floor_divide),
    ("logaddexp(x, y)", np.logaddexp),
    ("logaddexp2(x, y)", np.logaddexp2),
    ("xlogy(x, abs(y))", lambda x, y: x * np.log(np.abs(y))),
    ("xlog1py(x, abs(y))", lambda x, y: x * np.log1p(np.abs(y))),
]


@folded("call, peer", NARROW, one_in=24)
def test_narrow_numbers_are_rounded_once(call: str, peer: Callable[..., Any]) -> None:
    edges = np.array([9984, -9984, 88, -88, -0.5, -1, -2, 0.3, 3, 100]).astype(ml_dtypes.bfloat16)
    x, y = (side.ravel() for side in np.meshgrid(edges, edges))
    text = f"def f(x: Tensor[100, bf16 @accum(f32)], y: Tensor[100, bf16 @accum(f32)]):\n    return {call}\n"
    (found,) = run_function(compile_to_forms(text), "m.f", [x, y])
    wanted = peer(x.astype(np.float64), y.astype(np.float64))
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=2.0**-8, err_msg=call)


def library_names() -> Iterator[tuple[str, list[str], dict[str, tuple[str, ...]]]]:
    for module in load_library():
        for item in module.checker.names.functions.values():
            yield item.name, [parameter.name for parameter in item.parameters], other_names(item)
    for name, operator in OPERATORS.items():
        have = [option.name for option in (*operator.parsed[0].operands, *operator.parsed[0].statics)]
        yield name, have, dict(operator.others)


@pytest.mark.one_in(4)
def test_other_names_are_of_parameters() -> None:
    """Each stands for one parameter that there is, and is none itself."""
    said = [entry for entry in library_names() if entry[2]]
    assert len(said) > 100
    for name, have, others in said:
        given = [other for names in others.values() for other in names]
        assert {*others} <= {*have}, name
        assert len({*given}) == len(given) and not {*given} & {*have}, name
