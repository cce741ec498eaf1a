"""Layers beside PyTorch at extreme inputs, values and gradients, in f64 and f32:

    python -m tests.tools.peer_layers f64|f32 [REPORT] [NAME...]

Each layer has a usual input, in which NaN, infinities, the largest numbers, subnormal ones, zeros of both signs or one
number everywhere are put, and a batch of no rows; some also inputs whose dims are 1. A difference is one beyond the
bound, of a NaN or of an infinity. Those that are meant have a reason in MEANT, which holds for the inputs that it names
and no others. The exit status is 1 where a difference has no reason. Needs the extra `peers`.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tessera

Array = np.ndarray


class Setting(NamedTuple):
    """A dtype: its large and tiny numbers; how far results may differ, relative, beside the largest element (what sums
    that cancel leave), and beside 0 (steps of subnormal numbers)."""

    dtype: str
    large: float
    tiny: float
    bound: float
    cancelled: float
    most_cancelled: float
    least: float

    def numbers(self, shape: tuple[int, ...], number: float | None = None) -> Array:
        drawn = np.random.default_rng(5).normal(size=shape) if number is None else np.full(shape, number)
        return drawn.astype(f"f{int(self.dtype[1:]) // 8}")


SETTINGS = {
    "f64": Setting("f64", 1e300, 1e-310, 1e-9, 1e-12, 1e290, 0.0),
    "f32": Setting("f32", 1e36, 1e-41, 2e-5, 3e-6, 1e33, 3e-44),
}
SHAPES = {
    "a": "B, 3, 5", "b": "B, 4, 5, 6", "c": "B, 2, 3, 4, 4", "l": "B, 5", "s": "B, 4, 3", "q": "B, 2, 4, 3",
    "o": "B, 3, 1, 1", "p": "B, 3, 1", "r": "B, 1", "t": "B, 1, 3", "u": "B, 2, 1, 3", "w": "B, 2, 4, 1",
}  # fmt: skip
"""Of the operand that a layer is called with, by its name."""
LAYERS = """
interpolate(b, size=(7, 4), mode="nearest") = F.interpolate(b, (7, 4), mode="nearest")
interpolate(b, size=(7, 4), mode="nearest-exact") = F.interpolate(b, (7, 4), mode="nearest-exact")
interpolate(a, size=7, mode="linear") = F.interpolate(a, 7, mode="linear")
interpolate(b, size=(7, 4), mode="bilinear") = F.interpolate(b, (7, 4), mode="bilinear")
interpolate(b, size=(7, 4), mode="bilinear", align_corners=True) = F.interpolate(b, (7, 4), None, "bilinear", True)
interpolate(b, (3, 4), mode="bilinear", antialias=True) = F.interpolate(b, (3, 4), None, "bilinear", False, None, True)
interpolate(b, size=(7, 4), mode="bicubic") = F.interpolate(b, (7, 4), mode="bicubic")
interpolate(c, size=(4, 3, 5), mode="trilinear") = F.interpolate(c, (4, 3, 5), mode="trilinear")
interpolate(b, size=(3, 4), mode="area") = F.interpolate(b, (3, 4), mode="area")
grid_sample(ones_like(b), g_of(b)) = F.grid_sample(ones_like(b), g_of(b), align_corners=False)
grid_sample(b, g_of(zeros_like(b)) + 0.3) = F.grid_sample(b, g_of(zeros_like(b)) + 0.3, align_corners=False)
max_pool1d(a, 2) = F.max_pool1d(a, 2)
max_pool2d(b, 2) = F.max_pool2d(b, 2)
max_pool2d(b, 3, stride=2, padding=1) = F.max_pool2d(b, 3, 2, 1)
max_pool3d(c, 2) = F.max_pool3d(c, 2)
avg_pool1d(a, 2) = F.avg_pool1d(a, 2)
avg_pool2d(b, 3, stride=2, padding=1) = F.avg_pool2d(b, 3, 2, 1)
avg_pool2d(b, 3, stride=2, padding=1, count_include_pad=False) = F.avg_pool2d(b, 3, 2, 1, count_include_pad=False)
lp_pool2d(b, 2.0, 2) = F.lp_pool2d(b, 2.0, 2)
adaptive_avg_pool2d(b, (2, 3)) = F.adaptive_avg_pool2d(b, (2, 3))
adaptive_max_pool2d(b, (2, 3)) = F.adaptive_max_pool2d(b, (2, 3))
layernorm(a) = F.layer_norm(a, (5,))
rmsnorm(a, eps=1e-6) = F.rms_norm(a, (5,), eps=1e-6)
groupnorm(b, 2) = F.group_norm(b, 2)
instancenorm(b) = F.instance_norm(b)
batchnorm_train(b, zeros(4, dtype=f64), ones(4, dtype=f64))[0] = F.batch_norm(b, None, None, training=True)
batchnorm(b, zeros(4, dtype=f64), ones(4, dtype=f64)) = F.batch_norm(b, torch.zeros(4), torch.ones(4))
local_response_norm(b, 3) = F.local_response_norm(b, 3)
normalize(a, 2.0, -1) = F.normalize(a, 2.0, -1)
cosine_similarity(a, ones_like(a)) = F.cosine_similarity(a, ones_like(a), dim=-1)
mse(a, ones_like(a)) = F.mse_loss(a, ones_like(a))
mae(a, ones_like(a)) = F.l1_loss(a, ones_like(a))
huber(a, ones_like(a)) = F.huber_loss(a, ones_like(a))
smooth_l1(a, ones_like(a)) = F.smooth_l1_loss(a, ones_like(a))
bce(sigmoid(a), ones_like(a)) = F.binary_cross_entropy(a.sigmoid(), ones_like(a))
bce_with_logits(a, 0.3 * ones_like(a)) = F.binary_cross_entropy_with_logits(a, 0.3 * ones_like(a))
mean(cross_entropy(l, labels(l))) = F.cross_entropy(l, labels(l))
mean(cross_entropy(l, labels(l), label_smoothing=0.1)) = F.cross_entropy(l, labels(l), label_smoothing=0.1)
nll(l, labels(l), reduction="mean") = F.nll_loss(l, labels(l))
kl_div(a, 0.5 * ones_like(a), reduction="mean") = F.kl_div(a, 0.5 * ones_like(a))
gaussian_nll(a, ones_like(a), 0.5 * ones_like(a)) = F.gaussian_nll_loss(a, ones_like(a), 0.5 * ones_like(a))
poisson_nll(a, ones_like(a)) = F.poisson_nll_loss(a, ones_like(a))
soft_margin(a, ones_like(a)) = F.soft_margin_loss(a, ones_like(a))
hinge_embedding(a, -ones_like(a)) = F.hinge_embedding_loss(a, -ones_like(a))
margin_ranking(a, ones_like(a), ones_like(a), margin=0.5) = F.margin_ranking_loss(a, ones_like(a), ones_like(a), 0.5)
cosine_embedding(l, ones_like(l), -ones_like(l[:, 0])) = F.cosine_embedding_loss(l, ones_like(l), -ones_like(l[:, 0]))
triplet_margin(l, ones_like(l), -ones_like(l)) = F.triplet_margin_loss(l, ones_like(l), -ones_like(l))
multi_margin(l, labels(l)) = F.multi_margin_loss(l, labels(l))
multilabel_soft_margin(l, ones_like(l)) = F.multilabel_soft_margin_loss(l, ones_like(l))
lstm(s, weights(8))[0] = recurrent("lstm", s, 8)
gru(s, weights(6))[0] = recurrent("gru", s, 6)
rnn(s, weights(2))[0] = recurrent("rnn_tanh", s, 2)
attention(q, ramp(q), ramp(q)) = F.scaled_dot_product_attention(q, ramp(q), ramp(q))
attention(ones_like(q), q, ramp(q)) = F.scaled_dot_product_attention(ones_like(q), q, ramp(q))
attention(ones_like(q), ones_like(q), q) = F.scaled_dot_product_attention(ones_like(q), ones_like(q), q)
attention(q, q, q, causal=True) = F.scaled_dot_product_attention(q, q, q, is_causal=True)
conv1d(a, ones(2, 3, 2, dtype=f64)) = F.conv1d(a, torch.ones(2, 3, 2))
conv2d(b, ones(2, 4, 3, 3, dtype=f64), padding=1) = F.conv2d(b, torch.ones(2, 4, 3, 3), padding=1)
conv_transpose2d(b, ones(4, 2, 3, 3, dtype=f64), stride=2) = F.conv_transpose2d(b, torch.ones(4, 2, 3, 3), stride=2)
pad(b, [(0, 0), (0, 0), (1, 1), (2, 2)], mode="reflect") = F.pad(b, (2, 2, 1, 1), mode="reflect")
pad(b, [(0, 0), (0, 0), (1, 1), (2, 2)], mode="edge") = F.pad(b, (2, 2, 1, 1), mode="replicate")
unfold(b, (2, 2)) = F.unfold(b, (2, 2))
pixel_shuffle(b, 2) = F.pixel_shuffle(b, 2)
glu(b, axis=1) = F.glu(b, dim=1)
prelu(a, 0.25) = F.prelu(a, torch.tensor(0.25))
softmax(a) = F.softmax(a, dim=-1)
log_softmax(a) = F.log_softmax(a, dim=-1)
gelu(a) = F.gelu(a)
gelu(a, approximate="tanh") = F.gelu(a, approximate="tanh")
linear(a, ones(5, 2, dtype=f64)) = F.linear(a, torch.ones(2, 5))
interpolate(o, size=(2, 3), mode="nearest") = F.interpolate(o, (2, 3), mode="nearest")
interpolate(o, size=(2, 3), mode="bilinear") = F.interpolate(o, (2, 3), mode="bilinear")
interpolate(o, size=(2, 3), mode="bilinear", align_corners=True) = F.interpolate(o, (2, 3), None, "bilinear", True)
interpolate(o, size=(2, 3), mode="bicubic") = F.interpolate(o, (2, 3), mode="bicubic")
interpolate(o, size=(2, 3), mode="area") = F.interpolate(o, (2, 3), mode="area")
interpolate(b, size=(1, 1), mode="nearest") = F.interpolate(b, (1, 1), mode="nearest")
interpolate(b, size=(1, 1), mode="bilinear") = F.interpolate(b, (1, 1), mode="bilinear")
interpolate(b, size=(1, 1), mode="bilinear", align_corners=True) = F.interpolate(b, (1, 1), None, "bilinear", True)
interpolate(b, size=(1, 1), mode="bicubic") = F.interpolate(b, (1, 1), mode="bicubic")
interpolate(b, (1, 1), mode="bicubic", antialias=True) = F.interpolate(b, (1, 1), None, "bicubic", False, None, True)
interpolate(b, size=(1, 1), mode="area") = F.interpolate(b, (1, 1), mode="area")
avg_pool2d(o, 3, stride=2, padding=1) = F.avg_pool2d(o, 3, 2, 1)
avg_pool2d(o, 3, stride=2, padding=1, count_include_pad=False) = F.avg_pool2d(o, 3, 2, 1, count_include_pad=False)
max_pool2d(o, 3, stride=2, padding=1) = F.max_pool2d(o, 3, 2, 1)
adaptive_avg_pool2d(o, (2, 3)) = F.adaptive_avg_pool2d(o, (2, 3))
adaptive_max_pool2d(b, (1, 1)) = F.adaptive_max_pool2d(b, (1, 1))
layernorm(p) = F.layer_norm(p, (1,))
rmsnorm(p, eps=1e-6) = F.rms_norm(p, (1,), eps=1e-6)
groupnorm(o, 1) = F.group_norm(o, 1)
batchnorm_train(r, zeros(1, dtype=f64), ones(1, dtype=f64))[0] = F.batch_norm(r, None, None, training=True)
local_response_norm(o, 3) = F.local_response_norm(o, 3)
normalize(p, 2.0, -1) = F.normalize(p, 2.0, -1)
cosine_similarity(p, ones_like(p)) = F.cosine_similarity(p, ones_like(p), dim=-1)
softmax(p) = F.softmax(p, dim=-1)
log_softmax(p) = F.log_softmax(p, dim=-1)
mean(cross_entropy(r, labels(r))) = F.cross_entropy(r, labels(r))
mean(cross_entropy(r, labels(r), label_smoothing=0.1)) = F.cross_entropy(r, labels(r), label_smoothing=0.1)
lstm(t, weights(8))[0] = recurrent("lstm", t, 8, 1)
gru(t, weights(6))[0] = recurrent("gru", t, 6, 1)
attention(u, u, u) = F.scaled_dot_product_attention(u, u, u)
attention(w, w, w, causal=True) = F.scaled_dot_product_attention(w, w, w, is_causal=True)
conv2d(o, ones(2, 3, 3, 3, dtype=f64), padding=1) = F.conv2d(o, torch.ones(2, 3, 3, 3), padding=1)
conv2d(o, ones(2, 3, 1, 1, dtype=f64)) = F.conv2d(o, torch.ones(2, 3, 1, 1))
conv_transpose2d(o, ones(3, 2, 3, 3, dtype=f64), stride=2) = F.conv_transpose2d(o, torch.ones(3, 2, 3, 3), stride=2)
pad(o, [(0, 0), (0, 0), (1, 1), (2, 2)], mode="edge") = F.pad(o, (2, 2, 1, 1), mode="replicate")
unfold(o, (1, 1)) = F.unfold(o, (1, 1))
linear(r, ones(1, 2, dtype=f64)) = F.linear(r, torch.ones(2, 1))
"""
HEAD = """
def labels(l: Tensor[B, K, f64]):
    return zeros(B, dtype=i64)

def ramp(q: Tensor[B, 2, 4, 3, f64]):
    return ones_like(q) * cast(arange(4), f64)[:, None]

def weights(n: int):
    return [(full((n, 3), 0.3, dtype=f64), full((n, 2), -0.2, dtype=f64))]

def shares(y):
    v = ravel(y)
    return sum(v * (1.0 + 0.1 * cast(arange(v.shape[0]) % 7, f64)))

def g_of(b: Tensor[B, 4, 5, 6, f64]):
    return permute(b[:, :2, :, :3], (0, 2, 3, 1))
"""


def extremes(shape: tuple[int, ...], setting: Setting) -> dict[str, Array]:
    """A usual input, and those made of it."""
    usual = setting.numbers(shape)
    planted = {"NaN": np.nan, "inf": np.inf, "-inf": -np.inf, "a large one": setting.large, "-0": -0.0}
    found, place = {"usual": usual}, min(3, usual[0].size - 1)
    for name, number in planted.items():
        found[name] = usual.copy()
        found[name][0].flat[place] = number
    found["both infinities"] = found["inf"].copy()
    found["both infinities"][0].flat[place + 1 if place == 3 else 0] = -np.inf
    found |= {"all large": usual * usual.dtype.type(setting.large), "zeros": 0 * usual}
    found |= {"subnormal": (usual.astype(np.float64) * setting.tiny).astype(usual.dtype)}
    found |= {"one number": setting.numbers(shape, 1.5), "all NaN": setting.numbers(shape, np.nan)}
    return found | {"no rows": setting.numbers((0, *shape[1:]))}


TIES = "elements that are equal share the slope, as of `max`; NaN has the slope NaN"
NAN = "NaN has the slope NaN; PyTorch has 0 or 1"
LIMITS = "limits at infinity, where PyTorch has NaN"
NO_OVERFLOW = "squares do not overflow on the way"
FEW_DIGITS = "sums of subnormal numbers have few digits"
RIGHT_ZERO = "0, as it should be; PyTorch has what is left of a difference, or NaN of squares that overflow"
MEANT: dict[str, tuple[str, str]] = {
    "max_pool2d(o": ("slope at ((all )?NaN|-inf|both infinities)", TIES + "; padding, too, is -inf and has a share"),
    "max_pool": ("slope at (NaN|zeros|one number|all NaN)", TIES),
    "adaptive_max_pool": ("slope at (NaN|zeros|one number|all NaN)", TIES),
    "interpolate(o": ("-?inf|both infinities", "an infinity, where PyTorch multiplies it by a weight of 0 in f32"),
    "layernorm(a": (
        "(slope at )?(a large one|all large)|subnormal",
        "squares overflow: 0, where PyTorch has NaN on some machines; " + FEW_DIGITS,
    ),
    "layernorm(p": ("a large one|all large|slope at .*", RIGHT_ZERO),
    "rmsnorm(p": ("slope at .*", "differences of numbers near 1, which leave one digit in both"),
    "groupnorm": (
        "(slope at )?(a large one|all large)|subnormal", "squares overflow: 0, where PyTorch has NaN; " + FEW_DIGITS,
    ),
    "instancenorm": ("one number", RIGHT_ZERO),
    "batchnorm_train": ("one number", RIGHT_ZERO),
    "normalize(p": ("slope at .*", RIGHT_ZERO),
    "normalize": ("(slope at )?(a large one|all large)", NO_OVERFLOW),
    "cosine_similarity(p": ("slope at .*", RIGHT_ZERO),
    "log_softmax(p": ("slope at .*", "a share of 1 is rounded: 1e-7 in place of 0"),
    "mean(cross_entropy(r": ("slope at .*", "a share of 1 is rounded: 1e-7 in place of 0"),
    "cosine_similarity": ("(slope at )?(a large one|all large|one number)", NO_OVERFLOW + "; slopes that cancel"),
    "cosine_embedding": (
        "(slope at )?(a large one|all large|subnormal|zeros|one number)",
        NO_OVERFLOW + "; `eps` is the least length, where PyTorch adds 1e-12 to squares; slopes that cancel",
    ),
    "mae": ("slope at (all )?NaN", NAN),
    "hinge_embedding": ("slope at (all )?NaN", NAN),
    "margin_ranking": ("slope at ((all )?NaN|one number)", NAN + "; half of the slope at the margin itself"),
    "bce_with_logits": ("-inf|both infinities", LIMITS),
    "soft_margin": ("slope at (-inf|both infinities|all large)", "PyTorch overflows on the way"),
    "multi_margin": ("(slope at )?(all )?NaN|no rows", "NaN stays, PyTorch leaves it out; the mean of none is NaN"),
    "attention(u": (
        "(slope at )?(NaN|-?inf|both infinities|a large one|all large)",
        "NaN stays NaN in its row, where PyTorch has 0; a score of +inf takes all; values are summed times 2^32",
    ),
    "attention": (
        "(slope at )?((all )?NaN|-?inf|both infinities|a large one|all large)",
        "NaN stays NaN in its row, and a row of -inf alone is NaN, where PyTorch has 0 on some machines and "
        "`attention_safe` of -inf everywhere; a score of +inf takes all; values are summed times 2^32",
    ),
    "triplet_margin": ("a large one|all large", NO_OVERFLOW),
    "glu": ("slope at (-?inf|both infinities)", "NaN, where PyTorch has inf or NaN"),
    "gelu": ("(slope at )?(-?inf|both infinities|a large one|all large)", LIMITS),
}
"""By the beginning of a call: the inputs for which a difference is meant, and why."""


def of_ours(call: str, name: str, dtype: str) -> Any:
    typed = f"{name}: Tensor[{SHAPES[name]}, f64]"
    slope = f"grad(lambda {name}: shares({call}))({name})"
    text = f"{HEAD}def f({typed}):\n    return {call}\ndef g({typed}):\n    return {slope}\n"
    return tessera.compile(text.replace("f64", dtype))


def of_theirs(torch: Any, peer: str, name: str, x: Array) -> tuple[Array, Array]:
    operand = torch.tensor(x, requires_grad=True)
    names = {"torch": torch, "F": torch.nn.functional, name: operand}
    value = eval(peer, names | _helpers(torch))
    flat = value.reshape(-1)
    (flat * (1.0 + 0.1 * (torch.arange(len(flat)) % 7))).sum().backward()
    return value.detach().numpy(), operand.grad.numpy()


def _helpers(torch: Any) -> dict[str, Any]:
    """What the calls of PyTorch are written with, as HEAD is for ours."""

    def recurrent(kind: str, s: Any, rows: int, batch: int = 4) -> Any:
        weights, zeros = [torch.full((rows, 3), 0.3), torch.full((rows, 2), -0.2)], torch.zeros(1, batch, 2)
        state = (zeros, zeros) if kind == "lstm" else zeros
        return getattr(torch._VF, kind)(s, state, weights, False, 1, 0.0, False, False, False)[0]

    return {
        "recurrent": recurrent, "ones_like": torch.ones_like, "zeros_like": torch.zeros_like,
        "g_of": lambda b: b[:, :2, :, :3].permute(0, 2, 3, 1),
        "labels": lambda x: torch.zeros(len(x), dtype=torch.int64),
        "ramp": lambda q: torch.ones_like(q) * torch.arange(4.0)[:, None],
    }  # fmt: skip


def differ(found: Array, wanted: Array, setting: Setting) -> bool:
    if found.shape != wanted.shape:
        return True
    exact = (np.isnan(found) & np.isnan(wanted)) | (found == wanted)
    top = np.max(np.abs(wanted), initial=0.0, where=np.isfinite(wanted))
    beside = min(setting.cancelled * top, setting.most_cancelled) + setting.least
    near = np.abs(found - wanted) <= setting.bound * np.abs(wanted) + beside
    return not bool((exact | near).all())


Line = tuple[str, int, list[str]]
"""A layer, how many results it has, and the inputs for which some differ."""


def every(setting: Setting, wanted: set[str]) -> Iterator[Line]:
    import torch

    torch.set_default_dtype(getattr(torch, f"float{setting.dtype[1:]}"))
    for entry in LAYERS.strip().splitlines():
        call, peer = entry.split(" = ", 1)
        if not wanted or any(map(call.startswith, wanted)):
            yield of_layer(torch, call, peer, setting)


def of_layer(torch: Any, call: str, peer: str, setting: Setting) -> Line:
    (name,) = {letter for letter in SHAPES if re.search(rf"[(\[ ]{letter}[,)\[]", call)}
    shape = tuple(int(size) if size != "B" else 3 for size in SHAPES[name].split(", "))
    module, bad, total = of_ours(call, name, setting.dtype), list[str](), 0
    for kind, x in extremes(shape, setting).items():
        try:
            theirs = of_theirs(torch, peer, name, x)
        except (RuntimeError, ValueError):
            continue  # the peer has no value: of no rows, or of what is no probability
        for said, run, expected in zip(("", "slope at "), (module.f, module.g), theirs, strict=True):
            total += 1
            bad += [said + kind] if differ(np.asarray(run(x)), expected, setting) else []
    return call, total, bad


def reason(call: str, bad: list[str]) -> str:
    """Why what differs does; nothing where there is no reason for all of it."""
    for beginning, (kinds, why) in MEANT.items():
        if call.startswith(beginning):
            return why if all(re.fullmatch(kinds, kind) for kind in bad) else ""
    return ""


def main() -> int:
    warnings.simplefilter("ignore")
    lines, unknown = ["| layer | results | differ | at | why |", "|---|---|---|---|---|"], 0
    with np.errstate(all="ignore"):
        for call, total, bad in every(SETTINGS[sys.argv[1]], {*sys.argv[3:]}):
            why = reason(call, bad) if bad else ""
            unknown += bool(bad and not why)
            lines.append(f"| `{call}` | {total} | {len(bad) or ''} | {', '.join(bad)} | {why} |")
            if bad and not why:
                print(lines[-1], flush=True)
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines) - 2} layers, {unknown} differ for no reason that is known")
    return int(unknown > 0)


if __name__ == "__main__":
    raise SystemExit(main())
