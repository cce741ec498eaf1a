"""Forms of operators that arrange, cut, join, index and order elements."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tests.tools.onnx.node import Node, called, dtype_name, form


@form("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def reshape(n: Node) -> str:
    axes = n.value(1) if n.has(1) else n.attr("axes")
    match n.op:
        case "Flatten":
            at = n.axis(1) % n.rank() if n.rank() and n.axis(1) != n.rank() else n.axis(1)
            return f"reshape(x0, ({int(np.prod(n.shape()[:at]))}, {int(np.prod(n.shape()[at:]))}))"
        case "Squeeze" if axes:
            return f"squeeze(x0, {tuple(axes) if len(axes) > 1 else axes[0]})"
        case "Unsqueeze" if len(axes) == 1:
            return f"unsqueeze(x0, {axes[0]})"
    return f"reinterpret(x0, {n.size()})"


@form("Shape")
def shape(n: Node) -> str:
    start, end = n.attr("start", 0), n.attr("end")
    if not n.size()[0]:
        return "zeros(0, dtype=i64)"
    return called("array", f"x0.shape[{start}:{'' if end is None else end}]", dtype="i64")


@form("Size")
def size(n: Node) -> str:
    return called("full", (), int(np.prod(n.shape())), dtype="i64")


@form("Transpose")
def transpose(n: Node) -> str:
    order = n.attr("perm") or list(range(n.rank()))[::-1]
    return f"transpose(x0, {tuple(order)})"


@form("Concat")
def concat(n: Node) -> str:
    return f"concat([{n.every()}], axis={n.axis()})"


@form("Expand")
def expand(n: Node) -> str:
    return f"broadcast_to(x0, {n.size()})"


@form("Tile")
def tile(n: Node) -> str:
    return f"tile(x0, {tuple(n.value(1))})"


@form("Split")
def split(n: Node) -> str:
    axis = n.axis(0)
    starts = np.cumsum([0, *(r.shape[axis] for r in n.results)]).tolist()
    lead = ":, " * (axis % n.rank())
    return ", ".join(f"x0[{lead}{a}:{b}]" for a, b in pairwise(starts))


@form("Slice")
def cut(n: Node) -> str:
    starts, ends = n.value(1), n.value(2)
    axes, steps = n.value(3, list(range(len(starts)))), n.value(4, [1] * len(starts))
    parts = [":"] * n.rank()
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        first, last, by = slice(start, end, step).indices(n.shape()[axis])
        parts[axis] = f"{first}:{'' if last < 0 else last}:{by}"
    return f"x0[{', '.join(parts)}]"


@form("Pad")
def pad(n: Node) -> str:
    widths, axes = n.value(1), n.value(3, list(range(n.rank())))
    pairs = [(0, 0)] * n.rank()
    for i, axis in enumerate(axes):
        pairs[axis] = (widths[i], widths[i + len(axes)])
    mode = n.attr("mode", b"constant")
    return called("pad", "x0", tuple(pairs), mode=mode, value="x2" if n.has(2) else None)


@form("CenterCropPad")
def center(n: Node) -> str:
    axes = n.attr("axes") or list(range(n.rank()))
    text = "x0"
    for axis, count in zip(axes, n.value(1), strict=True):
        has = n.shape()[axis]
        if count < has:
            start = (has - count) // 2
            text = f"{text}[{':, ' * (axis % n.rank())}{start}:{start + count}]"
        elif count > has:
            before = (count - has) // 2
            text = f"pad({text}, {before}, {count - has - before}, axis={axis})"
    return text


@form("Gather")
def gather(n: Node) -> str:
    return f"take(x0, x1, axis={n.axis(0)})"


@form("ArrayFeatureExtractor")
def extract(n: Node) -> str:
    return "take(x0, x1, axis=-1)" if n.rank(1) == 1 else "take(x0, x1[0], axis=-1)"


@form("GatherElements")
def gather_elements(n: Node) -> str:
    axis = n.axis(0)
    return f"take_along_axis(x0, where(x1 < 0, x1 + {n.shape()[axis]}, x1), axis={axis})"


@form("GatherND")
def gather_nd(n: Node) -> str:
    batch, depth = n.attr("batch_dims", 0), n.shape(1)[-1]
    places = ", ".join(f"i[..., {d}]" for d in range(depth))
    text = f"x[{places}]"
    if not batch:
        return text.replace("i[", "x1[").replace("x[", "x0[", 1)
    return f"vmap(lambda x, i: {text})(x0, x1)"


@form("ScatterElements", "Scatter")
def scatter_elements(n: Node) -> str:
    axis = n.axis(0) % n.rank()
    update = {"none": "set", "add": "add", "mul": "mul", "max": "max", "min": "min"}[
        n.attr("reduction", b"none").decode()
    ]
    grid = [
        f"arange({s})[{', '.join(':' if d == e else 'None' for e in range(n.rank()))}]"
        for d, s in enumerate(n.shape(1))
    ]
    grid[axis] = f"where(x1 < 0, x1 + {n.shape()[axis]}, x1)"
    return f"x0.at[{', '.join(grid)}].{update}(x2)"


@form("ScatterND")
def scatter_nd(n: Node) -> str:
    update = {"none": "set", "add": "add", "mul": "mul", "max": "max", "min": "min"}[
        n.attr("reduction", b"none").decode()
    ]
    return f"x0.at[{', '.join(f'x1[..., {d}]' for d in range(n.shape(1)[-1]))}].{update}(x2)"


@form("TensorScatter")
def tensor_scatter(n: Node) -> str:
    axis = n.axis(-2) % n.rank()
    rows = f"arange({n.shape(1)[axis]})"
    starts = f"x2[:, None] + {rows}[None, :]" if n.has(2) else f"zeros({n.shape()[0]}, 1, dtype=i64) + {rows}[None, :]"
    places = f"({starts}) % {n.shape()[axis]}" if n.attr("mode", b"linear") == b"circular" else starts
    lead = ", ".join(":" for _ in range(axis - 1))
    return f"vmap(lambda c, u, p: c.at[{lead + ', ' if lead else ''}p].set(u))(x0, x1, {places})"


@form("OneHot")
def one_hot(n: Node) -> str:
    depth, axis = int(np.asarray(n.inputs[1]).reshape(())), n.axis(-1)
    places = f"where(cast(x0, i64) < 0, cast(x0, i64) + {depth}, cast(x0, i64))"
    rank = n.rank() + 1
    classes = f"arange({depth})[{'None, ' * n.rank()}:]"
    return f"moveaxis(where(({places})[..., None] == {classes}, x2[1], x2[0]), {rank - 1}, {axis % rank})"


@form("Compress")
def compress(n: Node) -> str:
    axis = n.attr("axis")
    count = int(np.asarray(n.inputs[1]).sum())
    source = "x0" if axis is not None else "ravel(x0)"
    return f"take({source}, flatnonzero(x1, {count}), axis={0 if axis is None else axis})"


@form("TopK")
def topk(n: Node) -> str:
    return called("topk", "x0", int(n.value(1)[0]), axis=n.axis(-1), largest=bool(n.attr("largest", 1)))


@form("Unique")
def unique(n: Node) -> str:
    axis = n.attr("axis")
    count = n.size()[0] if axis is None else n.size()[axis]
    if not n.attr("sorted", 1):
        return (
            "    v, first, inverse, counts = "
            f"unique(x0, {count}, return_index=True, return_inverse=True, return_counts=True)\n"
            "    order = argsort(first)\n"
            "    return v[order], first[order], argsort(order)[inverse], counts[order]"
        )
    flags = {"return_index": 1, "return_inverse": 2, "return_counts": 3}
    wanted = {key: True for key, i in flags.items() if i < len(n.outputs) and n.outputs[i]}
    return called("unique", "x0", count, axis=axis, **wanted)


@form("Trilu")
def trilu(n: Node) -> str:
    k = int(n.value(1)) if n.has(1) else 0
    return f"{'triu' if n.attr('upper', 1) else 'tril'}(x0, {k})"


@form("EyeLike")
def eye(n: Node) -> str:
    dtype = dtype_name(n.results[0])
    return f"eye({n.shape()[0]}, {n.shape()[1]}, {n.attr('k', 0)}, dtype={dtype})"


@form("Range")
def arange(n: Node) -> str:
    start, stop, step = n.value(0), n.value(1), n.value(2)
    if n.is_float():
        return f"{start} + {step} * arange({n.size()[0]}, dtype={n.dtype()})"
    return called("arange", start, stop, step, dtype=n.dtype())


@form("ConstantOfShape")
def constant_of_shape(n: Node) -> str:
    value = n.attr("value")
    return called(
        "full",
        n.size(),
        0.0 if value is None else np.asarray(value).reshape(-1)[0].item(),
        dtype=dtype_name(n.results[0]),
    )


@form("Constant")
def constant(n: Node) -> str:
    return called("array", str(np.asarray(n.attr("value")).tolist()), dtype=dtype_name(n.results[0]))


@form("ReverseSequence")
def reverse_sequence(n: Node) -> str:
    return f"reverse_sequence(x0, x1, batch_axis={n.attr('batch_axis', 1)}, time_axis={n.attr('time_axis', 0)})"


@form("DepthToSpace", "SpaceToDepth")
def depth_to_space(n: Node) -> str:
    name = "depth_to_space" if n.op == "DepthToSpace" else "space_to_depth"
    return called(name, "x0", n.attr("blocksize"), mode=n.attr("mode"))


@form("Einsum")
def einsum(n: Node) -> str:
    return called("einsum", n.attr("equation"), n.every())
