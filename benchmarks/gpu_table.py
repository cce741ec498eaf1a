"""The table of goals of a GPU: our programs and PyTorch's in turns, in one process, on the same arrays.

    python -m benchmarks.gpu_table --out DIR [--only TEXT] [--limit SECONDS]

Each line is a function of `gpu_table.tess`, called as a user calls it, with arrays that lie on the device. Both sides
run a number of calls in turns; the time of a side is the median of its turns, by events of the device. Results are
compared too: the largest difference, by the largest element. Where the peer has several ways (attention), the best one
counts and is named. The report goes to DIR/gpu_table.md, with the machine and the versions.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import tessera  # noqa: E402
from benchmarks.gpu_table_host import host_lines, host_report  # noqa: E402

TURNS, TURN_SECONDS = 7, 0.03
LONG = 100.0
"""Milliseconds of a call that one turn measures well enough."""
COPY = 4.1
"""TB/s of a copy, of which some goals are a part."""
PROGRAMS = Path(__file__).with_suffix(".tess")

Call = Callable[[], Any]


class Line(NamedTuple):
    """`arrays` makes the arguments, `peers` PyTorch's ways to the same; `work` is in FLOP or bytes, `unit` says which.
    Where `of_copy`, the goal is a part of the bandwidth of a copy, else of the peer's speed."""

    name: str
    function: str
    arrays: Callable[[], Sequence[Any]]
    peers: dict[str, Callable[..., Any]]
    work: float
    unit: str
    goal: float
    of_copy: bool = False


class Row(NamedTuple):
    line: Line
    ours: float
    peer: float
    peer_name: str
    error: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=float, default=600.0)
    parser.add_argument("--skip", default=[], nargs="+", help="lines with these texts are left out")
    options = parser.parse_args()
    started = time.monotonic()
    chosen = [n for n in lines() if options.only in n.name and not any(text in n.name for text in options.skip)]
    rows, failed = list[Row](), list[str]()
    for line in chosen:
        if time.monotonic() - started > options.limit:
            failed.append(f"{line.name}: no time")
            continue
        try:
            rows.append(measured(line))
            print(markdown_row(rows[-1]), flush=True)
        except Exception:
            failed.append(f"{line.name}: {traceback.format_exc().splitlines()[-1]}")
            print(f"FAILED {line.name}\n{traceback.format_exc()[-1500:]}", flush=True)
    text = report(rows, failed) + host_report([n for n in host_lines(programs) if options.only in n.name])
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "gpu_table.md").write_text(text)


# --- one line ---------------------------------------------------------------------------------------------------------


@cache
def programs() -> Any:
    return tessera.load(str(PROGRAMS), device="cuda")


def measured(line: Line) -> Row:
    import torch

    arrays = list(line.arrays())
    function = getattr(programs(), line.function)
    given = [tessera.to_device(array) for array in arrays]
    ours: Call = lambda: function(*given)  # noqa: E731
    error = difference(ours(), next(iter(line.peers.values()))(*arrays))
    peers: dict[str, Call] = {name: (lambda f=f: f(*arrays)) for name, f in line.peers.items()}
    times = in_turns({"": ours, **peers})
    name = min(peers, key=lambda n: times[n])
    torch.cuda.empty_cache()
    return Row(line, times[""], times[name], name, error)


def difference(ours: Any, theirs: Any) -> float:
    """The largest difference, by the largest element."""
    import torch

    mine = torch.from_dlpack(ours[0] if isinstance(ours, tuple) else ours)
    theirs = theirs[0] if isinstance(theirs, tuple) else theirs
    kind = torch.complex128 if mine.is_complex() else torch.float64
    step = max(1, mine.numel() // 1_000_000)
    left, right = (x.reshape(-1)[::step].to(kind) for x in (mine, theirs))
    return float((left - right).abs().max() / right.abs().max().clamp(min=1e-30))


def in_turns(calls: dict[str, Call]) -> dict[str, float]:
    """Milliseconds of each call."""
    counts, turns = dict[str, int](), TURNS
    for name, call in calls.items():
        once(call, 3)
        alone = max(once(call, 2), 1e-3)
        counts[name] = max(2, min(200, int(TURN_SECONDS * 1e3 / alone)))
        turns = 1 if alone > LONG else turns
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(turns):
        for name, call in calls.items():
            found[name].append(once(call, counts[name]))
    return {name: statistics.median(each) for name, each in found.items()}


def once(call: Call, count: int) -> float:
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(count):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / count


# --- the lines --------------------------------------------------------------------------------------------------------


def lines() -> Iterator[Line]:
    import torch
    from torch.nn import functional as nn

    def made(*shapes: tuple[int, ...], dtype: Any = torch.bfloat16) -> Callable[[], list[Any]]:
        return lambda: [torch.randn(*shape, device="cuda").to(dtype) for shape in shapes]

    def product(name: str, m: int, k: int, n: int, goal: float) -> Line:
        return Line(f"bf16 {name}", "product", made((m, k), (k, n)), {"@": torch.matmul}, 2.0 * m * k * n, "FLOP", goal)

    for n in (1024, 2048, 4096, 8192):
        yield product(f"gemm {n}", n, n, n, 1.0)
    for m in (1, 64, 256):
        yield product(f"{m} x 4096 x 4096", m, 4096, 4096, 1.0)
    yield product("4095 x 1001 x 4097", 4095, 1001, 4097, 0.9)
    square, flops = (4096, 4096), 2.0 * 4096**3
    across = {"@": lambda a, b: a @ b.T}
    yield Line("bf16 a @ b.T 4096", "product_transposed", made(square, square), across, flops, "FLOP", 1.0)
    bell = {"addmm, gelu": lambda a, b, c: nn.gelu(torch.addmm(c, a, b))}
    yield Line("bf16 gemm + bias + gelu 4096", "product_gelu", made(square, square, (4096,)), bell, flops, "FLOP", 1.05)
    tanh = {"addmm, gelu": lambda a, b, c: nn.gelu(torch.addmm(c, a, b), approximate="tanh")}
    yield Line("bf16 the same, by tanh", "product_gelu_tanh", made(square, square, (4096,)), tanh, flops, "FLOP", 1.05)
    wide = made(square, square, dtype=torch.float32)
    yield Line("f32 gemm 4096", "product_wide", wide, {"@": torch.matmul}, flops, "FLOP", 0.95)
    yield fp8_line()
    yield from map(integer_line, (1024, 4096, 8192))
    yield from attention_lines()
    yield from cache_lines()
    yield from row_lines()
    yield from other_lines()


def attention_lines() -> Iterator[Line]:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention as attend

    def way(backend: Any, causal: bool) -> Callable[..., Any]:
        def run(q: Any, k: Any, v: Any) -> Any:
            with sdpa_kernel(backend):
                return attend(q, k, v, is_causal=causal)

        return run

    for size in (512, 2048, 4096, 16384):
        for causal in (False, True):
            shape = (max(2, 8192 // size), 16, size, 128)
            arrays = lambda s=shape: [torch.randn(*s, device="cuda").to(torch.bfloat16) for _ in range(3)]  # noqa: E731
            ways = (("cuDNN", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION))
            peers = {name: way(backend, causal) for name, backend in ways}
            work = 4.0 * shape[0] * 16 * size * size * 128 / (2 if causal else 1)
            name = f"attention bf16, S {size}{', causal' if causal else ''}"
            function, goal = "attend_causal" if causal else "attend", 1.0 if size == 512 else 1.05
            yield Line(name, function, arrays, peers, work, "FLOP", goal)


def fp8_line() -> Line:
    import torch

    def arrays() -> list[Any]:
        return [torch.randn(8192, 8192, device="cuda").to(torch.float8_e4m3fn) for _ in range(2)]

    def scaled(a: Any, b: Any) -> Any:
        one = torch.ones((), device="cuda")
        return torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16)

    return Line("fp8 a @ b.T 8192", "product_quarter", arrays, {"_scaled_mm": scaled}, 2.0 * 8192**3, "FLOP", 0.95)


def integer_line(size: int) -> Line:
    import torch

    def arrays() -> list[Any]:
        return [torch.randint(-128, 128, (size, size), device="cuda", dtype=torch.int8) for _ in range(2)]

    peers = {"_int_mm": lambda a, b: torch._int_mm(a, b.T)}
    return Line(f"i8 a @ b.T {size}", "product_integers", arrays, peers, 2.0 * size**3, "FLOP", 1.0)


def cache_lines() -> Iterator[Line]:
    """Attention back, and one query against the keys and values of a cache."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention as attend

    def numbers(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda").to(torch.bfloat16)

    def back(q: Any, k: Any, v: Any, w: Any) -> Any:
        taken = [x.detach().requires_grad_() for x in (q, k, v)]
        return torch.autograd.grad(attend(*taken), taken, w)

    shape = (4, 16, 4096, 128)
    work = 14.0 * 4 * 16 * 4096 * 4096 * 128
    arrays = lambda: [numbers(*shape) for _ in range(4)]  # noqa: E731
    yield Line("attention bf16 and back, S 4096", "attend_back", arrays, {"sdpa": back}, work, "FLOP", 0.9)

    def decode(q: Any, k: Any, v: Any, n: Any) -> Any:
        return attend(q[:, :, None], k, v, enable_gqa=True)[:, :, 0]

    for keys, goal in ((8192, 0.6), (32768, 0.85), (131072, 0.85)):
        size = keys  # of this line
        given = lambda t=size: [  # noqa: E731
            numbers(1, 32, 128), numbers(1, 8, t, 128), numbers(1, 8, t, 128),
            torch.tensor(t, device="cuda", dtype=torch.int32),
        ]  # fmt: skip
        read = 4.0 * 8 * keys * 128
        yield Line(f"decode bf16, {keys} keys", "decoded", given, {"sdpa": decode}, read, "B", goal * COPY, True)


def row_lines() -> Iterator[Line]:
    import torch
    from torch.nn import functional as nn

    rows, columns = 32768, 4096
    bytes_ = 8.0 * rows * columns

    def wide(*more: tuple[int, ...], dtype: Any = torch.float32) -> Callable[[], list[Any]]:
        return lambda: [torch.randn(*shape, device="cuda").to(dtype) for shape in ((rows, columns), *more)]

    vector = (columns,)
    yield Line("f32 x + 1", "more", wide(), {"x + 1": lambda x: x + 1}, bytes_, "B", 3.9, True)
    norm = {"layer_norm": lambda x, g, b: nn.layer_norm(x, (columns,), g, b)}
    yield Line("f32 layer norm", "normed", wide(vector, vector), norm, bytes_, "B", 3.9, True)
    root = {"rms_norm": lambda x, g: nn.rms_norm(x, (columns,), g, 1e-5)}
    yield Line("f32 rms norm", "root_normed", wide(vector), root, bytes_, "B", 3.9, True)
    yield Line("f32 softmax", "soft", wide(), {"softmax": lambda x: x.softmax(-1)}, bytes_, "B", 3.9, True)
    half = wide(dtype=torch.bfloat16)
    yield Line("bf16 softmax", "soft_half", half, {"softmax": lambda x: x.softmax(-1)}, bytes_ / 2, "B", 3.9, True)
    for length, dtype, name in (
        (768, torch.float32, "soft"), (768, torch.bfloat16, "soft_half"), (1001, torch.bfloat16, "soft_half")
    ):  # fmt: skip
        shape, kind = (rows * columns // length, length), "f32" if dtype is torch.float32 else "bf16"
        given = lambda shape=shape, dtype=dtype: [torch.randn(*shape, device="cuda").to(dtype)]  # noqa: E731
        moved = 2.0 * shape[0] * length * dtype.itemsize
        peer = {"softmax": lambda x: x.softmax(-1)}
        yield Line(f"{kind} softmax, rows of {length}", name, given, peer, moved, "B", 3.9, True)
    yield Line("f32 gelu", "bell", wide(), {"gelu": nn.gelu}, bytes_, "B", 3.9, True)
    yield Line("f32 sum over rows", "total", wide(), {"sum": lambda x: x.sum(1)}, bytes_ / 2, "B", 3.7, True)


def other_lines() -> Iterator[Line]:
    import torch
    from torch.nn import functional as nn

    def numbers(*shape: int, dtype: Any = torch.float32) -> Any:
        return torch.randn(*shape, device="cuda").to(dtype)

    def labels() -> list[Any]:
        return [numbers(8192, 128_000), torch.randint(0, 128_000, (8192,), device="cuda", dtype=torch.int32)]

    entropy = {"cross_entropy": lambda x, y: nn.cross_entropy(x, y.long(), reduction="none")}
    yield Line("f32 cross entropy 8192 x 128k", "entropy", labels, entropy, 4.0 * 8192 * 128_000, "B", 3.7, True)
    count = 124_000_000
    weights = lambda: [numbers(count), numbers(count), numbers(count), numbers(count).abs()]  # noqa: E731
    yield Line("f32 adam, 124M weights", "stepped", weights, {"foreach": _adam}, 28.0 * count, "B", 3.7, True)
    rows = lambda: [numbers(16384, 1024, dtype=torch.complex64)]  # noqa: E731
    yield Line("fft 16384 x 1024 c64", "transform", rows, {"cuFFT": torch.fft.fft}, 16.0 * 16384 * 1024, "B", 0.8)
    long = lambda: [numbers(1 << 24)]  # noqa: E731
    yield Line("sort 16M f32", "order", long, {"sort": lambda x: x.sort(stable=True)[0]}, 8.0 * 2**24, "B", 0.7)
    yield Line("cumsum 16M f32", "running", long, {"cumsum": lambda x: x.cumsum(0)}, 8.0 * 2**24, "B", 3.9, True)
    for c, size in ((64, 56), (256, 14)):
        shapes = (64, c, size, size), (c, c, 3, 3)
        arrays = lambda shapes=shapes: [numbers(*shape, dtype=torch.bfloat16) for shape in shapes]  # noqa: E731
        work = 2.0 * 64 * c * c * 9 * size * size
        cudnn = {"cuDNN": lambda x, w: nn.conv2d(x, w, padding=1)}
        yield Line(f"bf16 conv 3x3, {c} channels of {size}", "convolve", arrays, cudnn, work, "FLOP", 0.8)

    def places() -> list[Any]:
        tokens = torch.randint(0, 50257, (8192,), device="cuda", dtype=torch.int32)
        return [numbers(50257, 768), tokens, numbers(8192, 768)]

    put = {"index_add": lambda x, i, v: x.index_add(0, i, v)}
    yield Line("x.at[i].add, 8192 rows of 768", "placed", places, put, 4.0 * 768 * (2 * 50257 + 8192), "B", 1.0)


def _adam(w: Any, g: Any, m: Any, v: Any) -> Any:
    import torch

    new = [w.clone()], [m.clone()], [v.clone()]
    step = [torch.tensor(10.0, device="cuda")]
    torch._fused_adam_(new[0], [g], *new[1:], [], step, lr=1e-3, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8,
                       amsgrad=False, maximize=False)  # fmt: skip
    return new[0][0]


# --- the report -------------------------------------------------------------------------------------------------------


def markdown_row(row: Row) -> str:
    line, per = row.line, 1e9
    ratio = row.peer / row.ours
    rate = f"{line.work / row.ours / per:.4g} T{line.unit}/s"
    theirs = f"{line.work / row.peer / per:.4g}"
    reached = line.work / row.ours / per if line.of_copy else ratio
    goal = f"{line.goal:.3g} TB/s" if line.of_copy else f"{line.goal}"
    state = "yes" if reached >= line.goal else "no"
    times = f"{row.ours:.4g}", f"{row.peer:.4g} ({row.peer_name})"
    cells = [line.name, *times, rate, theirs, f"{ratio:.2f}", goal, state]
    return f"| {' | '.join(cells)} | {row.error:.1e} |"


def report(rows: list[Row], failed: list[str]) -> str:
    import torch

    name = torch.cuda.get_device_name(0)
    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version,power.limit", "--format=csv,noheader"],
        capture_output=True, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    head = [
        "# Goals on a GPU", "",
        "`python -m benchmarks.gpu_table --out DIR`: " + PROGRAMS.name + " and PyTorch in turns, in one process.", "",
        f"{name}; driver and power limit {driver}; PyTorch {torch.__version__}, CUDA {torch.version.cuda}, "
        f"cuDNN {torch.backends.cudnn.version()}; TF32 off.", "",
        "| work | ours, ms | PyTorch, ms | ours | PyTorch | ratio | goal | reached | difference |",
        "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    problems = ["", *(f"Not measured: {text}." for text in failed)] if failed else []
    return "\n".join([*head, *map(markdown_row, rows), *problems]) + "\n"


if __name__ == "__main__":
    main()
