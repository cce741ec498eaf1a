"""Forms of products, convolutions, pools, norms, recurrent layers, losses and quantisation."""

from __future__ import annotations

import numpy as np

from tests.tools.onnx.node import Node, NotInTheLanguage, called, dtype_name, form


def _pads(n: Node, kernel: list[int]) -> tuple[tuple[int, int], ...]:
    """Before and after, of each spatial dim."""
    rank = len(kernel)
    strides, dilations = n.attr("strides", [1] * rank), n.attr("dilations", [1] * rank)
    auto = n.attr("auto_pad", b"NOTSET")
    if auto in (b"SAME_UPPER", b"SAME_LOWER"):
        pairs = []
        for size, k, s, d in zip(n.shape()[2:], kernel, strides, dilations, strict=True):
            all_ = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
            less, more = all_ // 2, all_ - all_ // 2
            pairs.append((less, more) if auto == b"SAME_UPPER" else (more, less))
        return tuple(pairs)
    flat = n.attr("pads", [0] * 2 * rank) if auto == b"NOTSET" else [0] * 2 * rank
    return tuple(zip(flat[:rank], flat[rank:], strict=True))


def _kernel(n: Node) -> list[int]:
    return n.attr("kernel_shape") or list(n.shape(1)[2:])


def _tuple(values: list[int]) -> object:
    return values[0] if len(values) == 1 else tuple(values)


def _steps(n: Node, rank: int) -> dict[str, object]:
    strides, dilations = n.attr("strides", [1] * rank), n.attr("dilations", [1] * rank)
    return {"stride": _tuple(strides), "dilation": _tuple(dilations)}


def _padding(n: Node, kernel: list[int]) -> object:
    pads = _pads(n, kernel)
    return pads[0] if len(pads) == 1 else pads


@form("Conv")
def conv(n: Node) -> str:
    k = _kernel(n)
    bias = "x2" if n.has(2) else None
    return called(
        f"conv{len(k)}d", "x0", "x1", bias=bias, padding=_padding(n, k), **_steps(n, len(k)), groups=n.attr("group", 1)
    )


def _centred(i: int, zero: int, n: Node) -> str:
    """Minus the zero point, which is one, or one for each first index."""
    if not n.has(zero):
        return f"cast(x{i}, i32)"
    point = f"x{zero}" if n.rank(zero) == 0 or n.rank(i) <= 3 else f"x{zero}[:, None, None, None]"
    return f"(cast(x{i}, i32) - cast({point}, i32))"


@form("ConvInteger")
def conv_integer(n: Node) -> str:
    k = list(n.shape(1)[2:])
    return called("conv2d", _centred(0, 2, n), _centred(1, 3, n), padding=_padding(n, k), **_steps(n, len(k)))


@form("QLinearConv")
def qlinear_conv(n: Node) -> str:
    product = f"cast(conv2d({_centred(0, 2, n)}, {_centred(3, 5, n)}), f32)"
    return f"quantize({product} * (x1 * x4) / x6, 1.0, x7, dtype={dtype_name(n.results[0])})"


@form("ConvTranspose")
def conv_transpose(n: Node) -> str:
    k = _kernel(n)
    rank = len(k)
    strides, dilations = n.attr("strides", [1] * rank), n.attr("dilations", [1] * rank)
    extra = n.attr("output_padding", [0] * rank)
    wanted = n.attr("output_shape") or n.size()[2:]
    pairs = []
    for size, s, d, kk, out, e, flat in zip(
        n.shape()[2:], strides, dilations, k, wanted, extra, _pads(n, k), strict=True
    ):
        over = s * (size - 1) + (kk - 1) * d + 1 + e - out
        if n.attr("pads") and not n.attr("output_shape"):
            pairs.append(flat)
        else:
            upper = n.attr("auto_pad") == b"SAME_UPPER"
            pairs.append((over // 2, over - over // 2) if upper else (over - over // 2, over // 2))
    extra = [e - min(a, 0) - min(b, 0) for e, (a, b) in zip(extra, pairs, strict=True)]
    pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    padding = pairs[0] if rank == 1 else tuple(pairs)
    options = {"stride": _tuple(strides), "dilation": _tuple(dilations), "output_padding": _tuple(extra)}
    bias = "x2" if n.has(2) else None
    return called(
        f"conv_transpose{rank}d", "x0", "x1", bias=bias, padding=padding, groups=n.attr("group", 1), **options
    )


@form("DeformConv")
def deform(n: Node) -> str:
    k = _kernel(n)
    pads = _pads(n, k)
    if any(a != b for a, b in pads):
        raise NotInTheLanguage("uneven pads of a deformable convolution")
    padding = tuple(a for a, _ in pads)
    bias, mask = ("x3" if n.has(3) else None), ("x4" if n.has(4) else None)
    return called(
        "deform_conv2d",
        "x0",
        "x2",
        "x1",
        bias=bias,
        padding=padding,
        mask=mask,
        **_steps(n, 2),
        groups=n.attr("group", 1),
    )


@form("Col2Im")
def col2im(n: Node) -> str:
    rank = len(n.value(1))
    pads = n.attr("pads", [0] * 2 * rank)
    if pads[:rank] != pads[rank:]:
        raise NotInTheLanguage("uneven pads of fold")
    return called(
        "fold", "x0", tuple(n.value(1)), tuple(n.value(2)), padding=tuple(pads[:rank]),
        stride=tuple(n.attr("strides", [1] * rank)), dilation=tuple(n.attr("dilations", [1] * rank)),
    )  # fmt: skip


@form("MaxPool", "AveragePool", "LpPool")
def pool(n: Node) -> str:
    k = n.attr("kernel_shape")
    rank = len(k)
    steps = _steps(n, rank)
    options: dict[str, object] = {"padding": _padding(n, k), **steps, "ceil_mode": bool(n.attr("ceil_mode", 0))}
    if n.op == "LpPool":
        return called(f"lp_pool{rank}d", "x0", float(n.attr("p", 2)), _tuple(k), **options)
    if n.op == "AveragePool":
        return called(
            f"avg_pool{rank}d", "x0", _tuple(k), count_include_pad=bool(n.attr("count_include_pad", 0)), **options
        )
    if len(n.outputs) == 1:
        return called(f"max_pool{rank}d", "x0", _tuple(k), **options)
    if n.attr("storage_order", 0):
        h, w = n.shape()[2:]
        places = f"p % {w} * {h} + p // {w}"
    else:
        places = "p"
    images = int(np.prod(n.shape()[2:]))
    lead = f"arange({n.shape()[0]})[:, None] * {n.shape()[1]} + arange({n.shape()[1]})[None, :]"
    spread = f"({lead})[:, :, {', '.join('None' for _ in range(rank))}] * {images}"
    call = called(f"max_pool{rank}d", "x0", _tuple(k), return_indices=True, **options)
    return f"    y, p = {call}\n    return y, {places} + {spread}"


@form("MaxUnpool")
def unpool(n: Node) -> str:
    k = n.attr("kernel_shape")
    strides = n.attr("strides", [1] * len(k))
    width = (n.shape()[3] - 1) * strides[1] + k[1]
    # Places count in the image that the windows covered; in a larger one it is the same row and column.
    rows, place = n.size()[3], f"x1 % {width * ((n.shape()[2] - 1) * strides[0] + k[0])}"
    places = f"({place}) // {width} * {rows} + ({place}) % {width}"
    return called("max_unpool2d", "x0", places, _tuple(k), stride=_tuple(strides), output_size=n.size()[2:])


@form("GlobalAveragePool", "GlobalMaxPool")
def global_pool(n: Node) -> str:
    return f"{'mean' if 'Average' in n.op else 'max'}(x0, axis={tuple(range(2, n.rank()))}, keep=True)"


@form("Gemm")
def gemm(n: Node) -> str:
    flags = {"transpose_a": bool(n.attr("transA", 0)), "transpose_b": bool(n.attr("transB", 0))}
    c = "x2" if n.has(2) else None
    return called("gemm", "x0", "x1", c, alpha=n.attr("alpha", 1.0), beta=n.attr("beta", 1.0), **flags)


@form("MatMulInteger")
def matmul_integer(n: Node) -> str:
    return f"{_centred(0, 2, n)} @ {_centred(1, 3, n)}"


@form("QLinearMatMul")
def qlinear_matmul(n: Node) -> str:
    product = f"cast({_centred(0, 2, n)} @ {_centred(3, 5, n)}, f32)"
    zero = "x7[0]" if n.rank(7) else "x7"
    scaled = f"{product} * (cast(x1, f32) * cast(x4, f32)) / cast(x6, f32)"
    return f"quantize({scaled}, 1.0, {zero}, dtype={dtype_name(n.results[0])})"


@form("QuantizeLinear", "DequantizeLinear")
def quantized(n: Node) -> str:
    block = n.attr("block_size", 0) or None
    axis = n.attr("axis", 1) if n.rank(1) else None
    zero = "x2" if n.has(2) and n.dtype(2)[0] in "iu" else None
    name = "quantize" if n.op == "QuantizeLinear" else "dequantize"
    scale = "x1" if n.rank(1) != 1 or n.shape(1)[0] != 1 or n.rank() == 0 else "x1[0]"
    text = called(name, "x0", scale, zero, axis=axis, block=block, dtype=dtype_name(n.results[0]))
    return {"int2": f"clip({text}, -2, 1)", "uint2": f"clip({text}, 0, 3)"}.get(str(n.results[0].dtype), text)


@form("DynamicQuantizeLinear")
def dynamic(n: Node) -> str:
    return "dynamic_quantize(x0)"


@form("BatchNormalization")
def batchnorm(n: Node) -> str:
    eps = n.attr("epsilon", 1e-5)
    if not n.attr("training_mode", 0):
        return f"batchnorm(x0, x3, x4, x1, x2, eps={eps})"
    axes = (0, *range(2, n.rank()))
    keep = n.attr("momentum", 0.9)
    return (
        f"    m, v = mean(x0, axis={axes}), var(x0, axis={axes})\n"
        f"    new = x3 * {keep} + m * (1.0 - {keep}), x4 * {keep} + v * (1.0 - {keep})\n"
        f"    return batchnorm(x0, m, v, x1, x2, eps={eps}), new[0], new[1]"
    )


@form("LayerNormalization", "RMSNormalization")
def layernorm(n: Node) -> str:
    eps, axis = n.attr("epsilon", 1e-5), n.axis(-1) % n.rank()
    if n.op == "RMSNormalization":
        return called("rmsnorm", "x0", "x1", eps=eps, axis=axis)
    whole = called("layernorm", "x0", "x1", "x2" if n.has(2) else None, eps=eps, axis=axis)
    axes = tuple(range(axis, n.rank()))
    more = [f"mean(x0, axis={axes}, keep=True)", f"rsqrt(var(x0, axis={axes}, keep=True) + {eps})"]
    return ", ".join([whole, *more[: len(n.outputs) - 1]])


@form("GroupNormalization", "InstanceNormalization", "LpNormalization", "LRN", "MeanVarianceNormalization")
def norms(n: Node) -> str:
    eps = n.attr("epsilon", 1e-5)
    match n.op:
        case "GroupNormalization":
            return f"groupnorm(x0, {n.attr('num_groups')}, x1, x2, eps={eps})"
        case "InstanceNormalization":
            return f"instancenorm(x0, x1, x2, eps={eps})"
        case "LpNormalization":
            return f"normalize(x0, p={n.attr('p', 2)}, axis={n.axis(-1)})"
        case "LRN":
            return f"lrn(x0, {n.attr('size')}, {n.attr('alpha', 1e-4)}, {n.attr('beta', 0.75)}, {n.attr('bias', 1.0)})"
    axes = tuple(n.attr("axes", [0, 2, 3]))
    return f"(x0 - mean(x0, axis={axes}, keep=True)) / (std(x0, axis={axes}, keep=True) + 1e-9)"


@form("Softmax", "LogSoftmax", "Hardmax")
def softmax(n: Node) -> str:
    name = {"Softmax": "softmax", "LogSoftmax": "log_softmax", "Hardmax": "hardmax"}[n.op]
    return f"{name}(x0, axis={n.axis(-1)})"


@form("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def losses(n: Node) -> str:
    name = "nll" if n.op.startswith("N") else "cross_entropy"
    weight = "x2" if n.has(2) else None
    options = {"ignore_index": n.attr("ignore_index"), "reduction": n.attr("reduction", b"mean"), "axis": 1}
    text = called(name, "x0", "x1", weight=weight, **options)
    return f"{text}, log_softmax(x0, axis=1)" if len(n.outputs) > 1 else text


@form("Dropout")
def dropout(n: Node) -> str:
    ratio = n.value(1, n.attr("ratio", 0.5))
    if n.has(2) and n.value(2) and ratio:
        raise NotInTheLanguage("random numbers of another generator")
    return "copy(x0)" if len(n.outputs) == 1 else f"copy(x0), full({n.shape()}, True, dtype=bool)"


def _gates(i: int, order: str, of: str, rows: str) -> str:
    """The gates of W, R or B in the order of the library."""
    size = f"{rows}"
    parts = [f"x{i}[0, {order.index(g)} * {size}:{order.index(g) + 1} * {size}]" for g in of]
    return f"concat([{', '.join(parts)}], axis=0)"


@form("LSTM", "GRU", "RNN")
def recurrent(n: Node) -> str:
    if n.attr("direction", b"forward") not in (b"forward", b"reverse") or n.shape(1)[0] != 1:
        return _two_ways(n)
    order, of = {"LSTM": ("iofc", "ifco"), "GRU": ("zrh", "rzh"), "RNN": ("h", "h")}[n.op]
    hidden = n.attr("hidden_size")
    weights = [_gates(1, order, of, hidden), _gates(2, order, of, hidden)]
    if n.has(3):
        rows = len(order) * hidden
        inside = [
            f"x3[0, {start} + {order.index(g)} * {hidden}:{start} + {order.index(g) + 1} * {hidden}]"
            for start in (0, rows)
            for g in of
        ]
        weights += [
            f"concat([{', '.join(inside[: len(of)])}], axis=0)",
            f"concat([{', '.join(inside[len(of) :])}], axis=0)",
        ]
    options: dict[str, object] = {}
    if n.attr("layout", 0):
        options["batch_first"] = True
    if n.op == "GRU":
        options["linear_before_reset"] = bool(n.attr("linear_before_reset", 0))
    if n.op == "LSTM" and n.has(7):
        parts = [f"x7[0, {k} * {hidden}:{k + 1} * {hidden}]" for k in (0, 2, 1)]
        options["peepholes"] = f"[({', '.join(parts)})]"
    state = None
    if n.has(5):
        state = "(x5, x6)" if n.op == "LSTM" and n.has(6) else "x5"
    if n.attr("direction") == b"reverse":
        options["reverse"] = True
    call = called(n.op.lower(), "x0", f"[({', '.join(weights)})]", state, **options)
    last = "(h, c)" if n.op == "LSTM" else "h"
    first = "y[:, :, None]" if n.attr("layout", 0) else "y[:, None]"
    batch = "transpose(h, (1, 0, 2))" if n.attr("layout", 0) else "h"
    every = [first, batch, "c"]
    chosen = ", ".join(every[i] for i, name in enumerate(n.outputs) if name)
    return f"    y, {last} = {call}\n    return {chosen}"


def _two_ways(n: Node) -> str:
    order, of = {"LSTM": ("iofc", "ifco"), "GRU": ("zrh", "rzh"), "RNN": ("h", "h")}[n.op]
    hidden = n.attr("hidden_size")
    if n.has(3) or n.attr("layout", 0):
        raise NotInTheLanguage("a form of bidirectional layers with biases is not written")

    def gates(i: int, way: int) -> str:
        return (
            "concat(["
            + ", ".join(f"x{i}[{way}, {order.index(g)} * {hidden}:{order.index(g) + 1} * {hidden}]" for g in of)
            + "], axis=0)"
        )

    layers = ", ".join(f"({gates(1, way)}, {gates(2, way)})" for way in (0, 1))
    options = {"linear_before_reset": bool(n.attr("linear_before_reset", 0))} if n.op == "GRU" else {}
    call = called(n.op.lower(), "x0", f"[{layers}]", bidirectional=True, **options)
    last = "(h, c)" if n.op == "LSTM" else "h"
    steps, batch = n.shape()[:2]
    every = [f"transpose(reshape(y, ({steps}, {batch}, 2, {hidden})), (0, 2, 1, 3))", "h", "c"]
    return f"    y, {last} = {call}\n    return {', '.join(every[i] for i, name in enumerate(n.outputs) if name)}"


@form("Adagrad", "Adam", "Momentum")
def optimizers(n: Node) -> str:
    """As arithmetic: ONNX divides by other corrections than `optim`. Behind the rate and the number of the step come
    all weights, all gradients, and all of each kind of state."""
    states = 2 if n.op == "Adam" else 1
    count = (len(n.inputs) - 2) // (2 + states)
    made = [_optimizer_step(n, *(f"x{2 + i + count * kind}" for kind in range(2 + states))) for i in range(count)]
    rate = {
        "Adagrad": f"x0 / (1.0 + cast(x1, f32) * {n.attr('decay_factor', 0.0)})",
        "Adam": f"where(x1 > 0, x0 * sqrt(1.0 - {n.attr('beta', 0.999)} ** cast(x1, f32)) "
        f"/ (1.0 - {n.attr('alpha', 0.9)} ** cast(maximum(x1, 1), f32)), x0)",
        "Momentum": "x0",
    }[n.op]
    results = ", ".join(step[kind] for kind in range(1 + states) for step in made)
    return f"    rate = {rate}\n    return {results}"


def _optimizer_step(n: Node, x: str, g: str, m: str, h: str = "") -> tuple[str, ...]:
    """The new weight, and what is carried on."""
    g = f"({g} + {n.attr('norm_coefficient', 0.0)} * {x})"
    if n.op == "Adagrad":
        m = f"({m} + {g} * {g})"
        return f"{x} - rate * {g} / (sqrt({m}) + {n.attr('epsilon', 1e-6)})", m
    alpha, beta = n.attr("alpha", 0.9), n.attr("beta", 0.999)
    if n.op == "Momentum":
        m = f"({alpha} * {m} + where(x1 > 0, {beta}, cast(1.0, f32)) * {g})"
        along = f"({g} + {alpha} * {m})" if n.attr("mode") == b"nesterov" else m
        return f"{x} - rate * {along}", m
    m, h = f"({alpha} * {m} + {1.0 - alpha} * {g})", f"({beta} * {h} + {1.0 - beta} * {g} * {g})"
    new = f"{x} - rate * {m} / (sqrt({h}) + {n.attr('epsilon', 1e-6)})"
    return f"{1.0 - n.attr('norm_coefficient_post', 0.0)} * ({new})", m, h
