"""Layers beside PyTorch at extreme inputs, values and gradients, in f64:

    python -m tests.tools.peer_layers [REPORT] [NAME...]

Each layer has a usual input, in which NaN, infinities, the largest numbers, subnormal ones, zeros of both signs or one
number everywhere are put, and a batch of no rows. A difference is one beyond the bound, of a NaN or of an infinity.
Those that are meant have a reason in MEANT, which holds for the inputs that it names and no others. The exit status is
1 where a difference has no reason. Needs the extra `peers`.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tessera

Array = np.ndarray
BOUND, CANCELLED = 1e-9, 1e-12
"""Relative; and what sums that cancel may leave beside the largest element."""
SHAPES = {
    "a": "B, 3, 5", "b": "B, 4, 5, 6", "c": "B, 2, 3, 4, 4", "l": "B, 5", "s": "B, 4, 3", "q": "B, 2, 4, 3",
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
"""
HEAD = """
def labels(l: Tensor[B, 5, f64]):
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


def extremes(shape: tuple[int, ...]) -> dict[str, Array]:
    """A usual input, and those made of it."""
    usual = np.random.default_rng(5).normal(size=shape)
    planted = {"NaN": np.nan, "inf": np.inf, "-inf": -np.inf, "a large one": 1e300, "-0": -0.0}
    found = {"usual": usual}
    for name, number in planted.items():
        found[name] = usual.copy()
        found[name][0].flat[3] = number
    found["both infinities"] = found["inf"].copy()
    found["both infinities"][0].flat[4] = -np.inf
    found |= {"all large": usual * 1e300, "subnormal": usual * 1e-310, "zeros": 0 * usual}
    found |= {"one number": np.full(shape, 1.5), "all NaN": np.full(shape, np.nan)}
    return found | {"no rows": np.zeros((0, *shape[1:]))}


TIES = "elements that are equal share the slope, as of `max`; NaN has the slope NaN"
NAN = "NaN has the slope NaN; PyTorch has 0 or 1"
LIMITS = "limits at infinity, where PyTorch has NaN"
NO_OVERFLOW = "squares do not overflow on the way"
MEANT: dict[str, tuple[str, str]] = {
    "max_pool": ("slope at (NaN|zeros|one number|all NaN)", TIES),
    "adaptive_max_pool": ("slope at (NaN|zeros|one number|all NaN)", TIES),
    "groupnorm": (".*all large", "squares overflow: 0, where PyTorch has NaN"),
    "normalize": ("(slope at )?(a large one|all large)", NO_OVERFLOW),
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
    "attention": (
        "(slope at )?(-?inf|both infinities|a large one|all large)",
        "a score of +inf takes all; of -inf alone NaN, `attention_safe` has 0; values are summed times 2^32",
    ),
    "glu": ("slope at (-?inf|both infinities)", "NaN, where PyTorch has inf or NaN"),
    "gelu": ("(slope at )?(-?inf|both infinities|a large one|all large)", LIMITS),
}
"""By the beginning of a call: the inputs for which a difference is meant, and why."""


def of_ours(call: str, name: str) -> Any:
    typed = f"{name}: Tensor[{SHAPES[name]}, f64]"
    slope = f"grad(lambda {name}: shares({call}))({name})"
    return tessera.compile(f"{HEAD}def f({typed}):\n    return {call}\ndef g({typed}):\n    return {slope}\n")


def of_theirs(torch: Any, peer: str, name: str, x: Array) -> tuple[Array, Array]:
    operand = torch.tensor(x, requires_grad=True)
    names = {"torch": torch, "F": torch.nn.functional, name: operand}
    value = eval(peer, names | _helpers(torch))
    flat = value.reshape(-1)
    (flat * (1.0 + 0.1 * (torch.arange(len(flat)) % 7))).sum().backward()
    return value.detach().numpy(), operand.grad.numpy()


def _helpers(torch: Any) -> dict[str, Any]:
    """What the calls of PyTorch are written with, as HEAD is for ours."""

    def recurrent(kind: str, s: Any, rows: int) -> Any:
        weights, zeros = [torch.full((rows, 3), 0.3), torch.full((rows, 2), -0.2)], torch.zeros(1, 4, 2)
        state = (zeros, zeros) if kind == "lstm" else zeros
        return getattr(torch._VF, kind)(s, state, weights, False, 1, 0.0, False, False, False)[0]

    return {
        "recurrent": recurrent, "ones_like": torch.ones_like, "zeros_like": torch.zeros_like,
        "g_of": lambda b: b[:, :2, :, :3].permute(0, 2, 3, 1),
        "labels": lambda x: torch.zeros(len(x), dtype=torch.int64),
        "ramp": lambda q: torch.ones_like(q) * torch.arange(4.0)[:, None],
    }  # fmt: skip


def differ(found: Array, wanted: Array) -> bool:
    if found.shape != wanted.shape:
        return True
    exact = (np.isnan(found) & np.isnan(wanted)) | (found == wanted)
    top = np.max(np.abs(wanted), initial=0.0, where=np.isfinite(wanted))
    near = np.abs(found - wanted) <= BOUND * np.abs(wanted) + min(CANCELLED * top, 1e290)
    return not bool((exact | near).all())


Line = tuple[str, int, list[str]]
"""A layer, how many results it has, and the inputs for which some differ."""


def every(wanted: set[str]) -> Iterator[Line]:
    import torch

    torch.set_default_dtype(torch.float64)
    for entry in LAYERS.strip().splitlines():
        call, peer = entry.split(" = ", 1)
        if not wanted or any(map(call.startswith, wanted)):
            yield of_layer(torch, call, peer)


def of_layer(torch: Any, call: str, peer: str) -> Line:
    (name,) = {letter for letter in SHAPES if re.search(rf"[(\[ ]{letter}[,)\[]", call)}
    shape = tuple(int(size) if size != "B" else 3 for size in SHAPES[name].split(", "))
    module, bad, total = of_ours(call, name), list[str](), 0
    for kind, x in extremes(shape).items():
        try:
            theirs = of_theirs(torch, peer, name, x)
        except (RuntimeError, ValueError):
            continue  # the peer has no value: of no rows, or of what is no probability
        for said, run, expected in zip(("", "slope at "), (module.f, module.g), theirs, strict=True):
            total += 1
            bad += [said + kind] if differ(np.asarray(run(x)), expected) else []
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
        for call, total, bad in every({*sys.argv[2:]}):
            why = reason(call, bad) if bad else ""
            unknown += bool(bad and not why)
            lines.append(f"| `{call}` | {total} | {len(bad) or ''} | {', '.join(bad)} | {why} |")
            if bad and not why:
                print(lines[-1], flush=True)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines) - 2} layers, {unknown} differ for no reason that is known")
    return int(unknown > 0)


if __name__ == "__main__":
    raise SystemExit(main())
