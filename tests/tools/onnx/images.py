"""Forms of images, boxes, spectra and attention."""

from __future__ import annotations

import numpy as np

from tests.tools.onnx.node import Node, NotInTheLanguage, called, form


@form("Resize", "Upsample")
def resize(n: Node) -> str:
    if n.op == "Upsample":
        return called(
            "resize",
            "x0",
            scale=tuple(n.value(1)),
            mode=n.attr("mode", b"nearest"),
            coordinates=b"asymmetric",
            nearest_mode=b"floor",
        )
    axes = n.attr("axes") or list(range(n.rank()))
    roi, scales, sizes = n.value(1), n.value(2), n.value(3)
    coordinates = n.attr("coordinate_transformation_mode", b"half_pixel")
    crops = coordinates == b"tf_crop_and_resize"
    return called(
        "resize", "x0",
        size=tuple(sizes) if sizes else None,
        scale=tuple(scales) if scales else None,
        axes=tuple(axes),
        mode=n.attr("mode", b"nearest"),
        coordinates=coordinates,
        nearest_mode=n.attr("nearest_mode", b"round_prefer_floor"),
        cubic_a=n.attr("cubic_coeff_a", -0.75),
        exclude_outside=bool(n.attr("exclude_outside", 0)),
        antialias=bool(n.attr("antialias", 0)),
        roi=tuple(roi) if crops and roi else None,
        extrapolation_value=n.attr("extrapolation_value", 0.0),
        keep_aspect_ratio=n.attr("keep_aspect_ratio_policy", b"stretch"),
    )  # fmt: skip


@form("GridSample")
def grid_sample(n: Node) -> str:
    mode = {
        "linear": b"bilinear",
        "bilinear": b"bilinear",
        "nearest": b"nearest",
        "cubic": b"bicubic",
        "bicubic": b"bicubic",
    }
    chosen = mode[n.attr("mode", b"linear").decode()]
    return called(
        "grid_sample",
        "x0",
        "x1",
        mode=chosen,
        padding_mode=n.attr("padding_mode", b"zeros"),
        align_corners=bool(n.attr("align_corners", 0)),
    )


@form("AffineGrid")
def affine_grid(n: Node) -> str:
    return called("affine_grid", "x0", tuple(n.value(1)), align_corners=bool(n.attr("align_corners", 0)))


def _largest_of_weighted(n: Node) -> str:
    """The largest of neighbours times their weights; `roi_align` has the largest of what is between them."""
    (rois, _), (_, c, h, w) = n.shape(1), n.shape()
    rows, cols, each = n.attr("output_height", 1), n.attr("output_width", 1), n.attr("sampling_ratio", 0)
    half = n.attr("coordinate_transformation_mode", b"half_pixel") == b"half_pixel"
    length = "({})" if half else "maximum({}, 1.0)"
    lines = [f"    r = x1 * {n.attr('spatial_scale', 1.0)} - {0.5 if half else 0.0}", "    image = x0[x2]"]
    for v, first, count, size in (("v", 1, rows, h), ("u", 0, cols, w)):
        span = length.format(f"r[:, {first + 2}] - r[:, {first}]")
        lines += [
            f"    step = (cast(arange({count * each}), f32) + 0.5)[None, :] / {count * each}.0",
            f"    {v} = r[:, {first}, None] + step * ({span})[:, None]",
            f"    seen_{v} = ({v} >= -1.0) & ({v} <= {size}.0)",
            f"    {v} = clip({v}, 0.0, {size - 1}.0)",
            f"    {v}0 = floor({v})",
            f"    {v}1 = minimum({v}0 + 1.0, {size - 1}.0)",
        ]
    lines += [f"    best = full(({rois}, {c}, {rows * each * cols * each}), -INF)"]
    for y, x in (("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")):
        weights = [f"({v} - {v}0)" if k == "1" else f"(1.0 - ({v} - {v}0))" for v, k in (("v", y), ("u", x))]
        lines += [
            f"    at = cast(v{y}[:, :, None] * {w}.0 + u{x}[:, None, :], i64).reshape({rois}, 1, -1)",
            f"    weight = {weights[0]}[:, :, None] * {weights[1]}[:, None, :]",
            "    weight = where(seen_v[:, :, None] & seen_u[:, None, :], weight, 0.0)",
            f"    there = take_along_axis(image.reshape({rois}, {c}, {h * w}), expand(at, best.shape), axis=2)",
            f"    best = maximum(best, there * weight.reshape({rois}, 1, -1))",
        ]
    bins = f"best.reshape({rois}, {c}, {rows}, {each}, {cols}, {each})"
    return "\n".join([*lines, f"    return max({bins}, axis=(3, 5))"])


@form("RoiAlign")
def roi_align(n: Node) -> str:
    if n.attr("mode", b"avg") == b"max":
        return _largest_of_weighted(n)
    aligned = n.attr("coordinate_transformation_mode", b"half_pixel") == b"half_pixel"
    return called(
        "roi_align", "x0", "x1", (n.attr("output_height", 1), n.attr("output_width", 1)),
        spatial_scale=n.attr("spatial_scale", 1.0), sampling_ratio=n.attr("sampling_ratio", 0),
        aligned=aligned, mode=n.attr("mode", b"avg"), batch_indices="x2",
    )  # fmt: skip


@form("NonMaxSuppression")
def nms(n: Node) -> str:
    batch, classes = n.shape(1)[:2]
    most = int(n.value(2)[0]) if n.has(2) else 0
    boxes = "x0[{b}]"
    if n.attr("center_point_box", 0):
        boxes = "concat([x0[{b}][:, :2] - x0[{b}][:, 2:] / 2.0, x0[{b}][:, :2] + x0[{b}][:, 2:] / 2.0], axis=1)"
    else:
        boxes = "concat([minimum(x0[{b}][:, :2], x0[{b}][:, 2:]), maximum(x0[{b}][:, :2], x0[{b}][:, 2:])], axis=1)"
    found = np.asarray(n.results[0])
    lines, parts = [], []
    for b in range(batch):
        for c in range(classes):
            count = int(((found[:, 0] == b) & (found[:, 1] == c)).sum())
            score = float(n.value(4)[0]) if n.has(4) else None
            call = called(
                "nms",
                boxes.format(b=b),
                f"x1[{b}, {c}]",
                float(n.value(3)[0]) if n.has(3) else 0.0,
                max(most, 1),
                score,
            )
            lines.append(f"    p{b}_{c}, n{b}_{c} = {call}")
            head = f"full(({count}, 2), 0, dtype=i64) + array([{b}, {c}], dtype=i64)"
            parts.append(f"concat([{head}, p{b}_{c}[:{count}][:, None]], axis=1)")
    return "\n".join([*lines, f"    return concat([{', '.join(parts)}], axis=0)"])


@form("BlackmanWindow", "HammingWindow", "HannWindow")
def window(n: Node) -> str:
    name = {"BlackmanWindow": "blackman_window", "HammingWindow": "hamming_window", "HannWindow": "hann_window"}[n.op]
    exact = {"alpha": 25.0 / 46.0, "beta": 1.0 - 25.0 / 46.0} if n.op == "HammingWindow" else {}
    return called(name, int(n.value(0)), periodic=bool(n.attr("periodic", 1)), **exact)


@form("DFT")
def dft(n: Node) -> str:
    axis = (n.value(2) if n.has(2) else n.attr("axis", 1)) % n.rank()
    length = int(n.value(1)) if n.has(1) else None
    is_complex = n.shape()[-1] == 2
    source = "complex(x0[..., 0], x0[..., 1])" if is_complex else "x0[..., 0]"
    inverse, onesided = n.attr("inverse", 0), n.attr("onesided", 0)
    if onesided and inverse:
        return (
            f"irfft({source}, {length}, axis={axis})[..., None]"
            if length
            else f"irfft({source}, axis={axis})[..., None]"
        )
    name = "rfft" if onesided else "ifft" if inverse else "fft"
    if name == "ifft" and not is_complex:
        source = "cast(x0[..., 0], c64)"
    if onesided and is_complex:
        raise NotInTheLanguage("half of the spectrum of a complex signal")
    return f"    z = {called(name, source, length, axis=axis)}\n    return stack([real(z), imag(z)], axis=-1)"


@form("STFT")
def stft(n: Node) -> str:
    step = int(n.value(1))
    length = int(n.value(3)) if n.has(3) else n.shape(2)[0]
    window = "x2" if n.has(2) else None
    signal = "x0[..., 0]" if n.rank() == 3 else "x0"
    call = called(
        "stft", signal, length, hop_length=step, window=window, center=False, onesided=bool(n.attr("onesided", 1))
    )
    return f"    z = transpose({call}, (0, 2, 1))\n    return stack([real(z), imag(z)], axis=-1)"


@form("RotaryEmbedding")
def rotary(n: Node) -> str:
    heads = n.attr("num_heads", 0)
    x = "x0"
    if n.rank() == 3:
        b, s, d = n.shape()
        x = f"transpose(reshape(x0, ({b}, {s}, {heads}, {d // heads})), (0, 2, 1, 3))"
    size = n.attr("rotary_embedding_dim", 0) or None
    positions = "x3" if n.has(3) else None
    text = called(
        "rotary_embedding", x, positions, cos="x1", sin="x2", interleaved=bool(n.attr("interleaved", 0)), size=size
    )
    return f"reshape(transpose({text}, (0, 2, 1, 3)), {n.shape()})" if n.rank() == 3 else text


@form("Attention")
def attention(n: Node) -> str:
    if n.dtype() not in ("f32", "f64", "f16", "bf16"):
        raise NotInTheLanguage(n.dtype())
    lines = []
    q, k, v = "x0", "x1", "x2"
    if n.rank() == 3:
        heads, kv = n.attr("q_num_heads"), n.attr("kv_num_heads")
        q, k, v = (_heads(f"x{i}", n.shape(i), h) for i, h in ((0, heads), (1, kv), (2, kv)))
    lines.append(f"    q, k, v = {q}, {k}, {v}")
    past = n.shape(4)[2] if n.has(4) else 0
    if n.has(4):
        lines.append("    k, v = concat([x4, k], axis=2), concat([x5, v], axis=2)")
    keys = past + n.shape(1)[1 if n.rank() == 3 else 2]
    mask = _attention_mask(n, keys)
    causal, aligned = n.attr("is_causal", 0), n.shape(0)[1 if n.rank() == 3 else 2] == keys - past
    before, behind = n.attr("left_window_size", -1), n.attr("right_window_size", -1)
    if n.has(4) and not aligned and (causal or before >= 0):
        # Behind a cache the first query is as late as the first new key, whatever their numbers.
        lines.append(
            f"    apart = arange({keys})[None, :] - arange({n.shape(0)[1 if n.rank() == 3 else 2]})[:, None] - {past}"
        )
        limits = [f"(apart <= {0 if causal else behind})"] + ([f"(apart >= -{before})"] if before >= 0 else [])
        seen, before, behind, causal = " & ".join(limits), -1, -1, 0
        mask = (
            seen if mask is None else f"({seen}) & {mask}" if n.dtype(3) == "bool" else f"where({seen}, {mask}, -INF)"
        )
    options: dict[str, object] = {
        "causal": bool(causal) or None,
        "scale": n.attr("scale"),
        "softcap": n.attr("softcap") or None,
    }
    options["align"] = b"top-left" if causal and not n.has(6) and not n.has(4) else None
    if before >= 0 or behind >= 0:
        options["window"] = tuple(w if w >= 0 else None for w in (before, behind))
        options["align"] = b"top-left" if not n.has(6) and not n.has(4) else None
    if n.has(6):
        options["lengths"] = "x6"
    text = called("grouped_attention_safe", "q", "k", "v", mask=mask, **options)
    if n.rank() == 3:
        text = f"reshape(transpose({text}, (0, 2, 1, 3)), {n.size()})"
    every = [text, "k", "v"]
    wanted = [every[i] if i < 3 else _scores(n, mask, keys) for i, name in enumerate(n.outputs) if name]
    return "\n".join([*lines, f"    return {', '.join(wanted)}"])


def _heads(x: str, shape: tuple[int, ...], heads: int) -> str:
    b, s, d = shape
    return f"transpose(reshape({x}, ({b}, {s}, {heads}, {d // heads})), (0, 2, 1, 3))"


def _attention_mask(n: Node, keys: int) -> str | None:
    if not n.has(3):
        return None
    has = n.shape(3)[-1]
    if has == keys:
        return "x3"
    empty = "False" if n.dtype(3) == "bool" else "-INF"
    return f"pad(x3, 0, {keys - has}, axis=-1, value={empty})"


def _scores(n: Node, mask: str | None, keys: int) -> str:
    """What the result of `qk_matmul_output` is: products, softcapped, masked, or probabilities."""
    mode, cap = n.attr("qk_matmul_output_mode", 0), n.attr("softcap", 0.0)
    heads = n.attr("q_num_heads") or n.shape()[1]
    groups = n.attr("kv_num_heads") or n.shape(1)[1]
    size = n.shape()[-1] // (heads if n.rank() == 3 else 1)
    scale = n.attr("scale") or size**-0.5
    text = f'einsum("bhsd,bhtd->bhst", q, repeat_kv(k, {heads // groups})) * {scale}'
    if mode >= 1 and cap:
        text = f"{cap} * tanh(({text}) / {cap})"
    if mode >= 2 and mask:
        text = f"where({mask}, {text}, -INF)" if n.dtype(3) == "bool" else f"{text} + {mask}"
    if mode >= 2 and (n.attr("is_causal", 0) or n.attr("left_window_size", -1) >= 0):
        queries = n.shape()[1 if n.rank() == 3 else 2]
        first = keys - queries if n.has(4) else 0
        apart = f"arange({keys})[None, :] - arange({queries})[:, None] - {first}"
        seen = f"({apart} <= 0)" + (
            f" & ({apart} >= -{n.attr('left_window_size')})" if n.attr("left_window_size", -1) >= 0 else ""
        )
        text = f"where({seen}, {text}, -INF)"
    return f"softmax_safe({text})" if mode == 3 else text


@form("Bernoulli")
def bernoulli(n: Node) -> str:
    raise NotInTheLanguage("random numbers of another generator")


NOT_TENSORS = {
    "text": ("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "TfIdfVectorizer", "LabelEncoder"),
    "files of images": ("ImageDecoder",),
}


def _refused(reason: str, *ops: str) -> None:
    @form(*ops)
    def refuse(n: Node) -> str:
        raise NotInTheLanguage(reason)


for _reason, _ops in NOT_TENSORS.items():
    _refused(_reason, *_ops)
