"""Every kernel of the library beside the meaning that it implements and beside other libraries, forward and back.

    python -m benchmarks.library_kernels [--gpu] [--out FILE] [--only softmax decode] [--peers torch jax]
                                         [--python PYTHON] [--threads 16 1] [--seconds 60] [--dtype bf16] [--warm]
                                         [--lock FILE]

Each library runs alone in a process of its own, and the processes take turns; the figure is the least of all turns, in
microseconds. `tiles` is the kernel, `meaning` the function that it implements as the compiler runs it. Peers are
PyTorch as it stands, `torch.compile` (on a GPU Triton), and JAX; the best is named, with the backend that it took. On a
GPU times are the device's own. Of several numbers of threads each has a table; JAX has the most of them. `--warm`
compiles all programs of ours first, on all cores, into the cache. Several of these commands that have one `--lock`
compile beside each other and time one after the other. `--seconds` is what one process may take: what is behind stays
out. `copy` is the time of a copy that reads and writes as many bytes as the kernel must, on the same machine, over the
time of the kernel; `unit` is what computes our products.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import numpy as np  # noqa: E402

from benchmarks.kernel_cases import CASES, WAYS, Case, Sizes, amount, program, shapes  # noqa: E402

OURS, PEERS = ("tiles", "meaning"), ("torch", "compile", "jax")
TURNS, SECONDS, LEAST = 2, 0.15, 3
UNITS = {"wgmma.mma_async": "wgmma", "mma.sync": "mma.sync", "fma.rn.f32": "fma"}
"""What stands in PTX where a matrix unit is used, the fastest first."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=["torch"])
    parser.add_argument("--python", default=sys.executable, help="a Python that has the peers")
    parser.add_argument("--threads", type=int, nargs="+", default=[os.cpu_count() or 1])
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--lock", type=Path)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--inside", choices=(*OURS, *PEERS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options)
        return
    if options.warm and not options.gpu:
        warm(options)
    found: dict[str, dict[str, Any]] = {}
    for _ in range(options.turns):
        for who in (*OURS, *options.peers):
            merge(found, who, turn(options, who))
    text = "\n".join(report(options, found, threads) for threads in options.threads)
    print(text)
    if options.out:
        options.out.write_text(text)


def warm(options: argparse.Namespace) -> None:
    """Has all programs of ours compiled, many at once: what is timed comes out of the cache."""
    jobs = {(name, way, who) for _, _, name, way, _ in rows(options) for who in OURS}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, *zip(*sorted(jobs), strict=True), [options.dtype] * len(jobs)))


def compile_one(name: str, way: str, who: str, dtype: str) -> None:
    import tessera

    case = CASES[name]
    text = program(case, who, way, NARROW if dtype == "bf16" else dtype)
    tessera.compile(text).f(*narrowed(arrays(case, case.small), dtype))


def turn(options: argparse.Namespace, who: str) -> dict[str, Any]:
    """One process of one library: what it found of each row, and of itself."""
    python = options.python if who in PEERS else sys.executable
    command = [python, "-m", "benchmarks.library_kernels", *sys.argv[1:], "--inside", who]
    most = str(max(options.threads))
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TESSERA_NUM_THREADS"), most)
    placed = {} if options.gpu else {"JAX_PLATFORMS": "cpu"}
    surrounding = {**os.environ, **threads, **placed}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=surrounding)
    rows = [json.loads(line[4:]) for line in done.stdout.splitlines() if line.startswith("ROW ")]
    if done.returncode:
        print(who, done.stdout[-1000:], done.stderr[-2000:], file=sys.stderr)
    else:
        print(*(f"{who} {line}" for line in done.stderr.splitlines() if "|" in line), sep="\n", file=sys.stderr)
    return dict(rows)


def merge(found: dict[str, dict[str, Any]], who: str, rows: dict[str, Any]) -> None:
    for key, value in rows.items():
        own = found.setdefault(key, {})
        own[who] = min(value, own.get(who, value)) if isinstance(value, float) else value


def rows(options: argparse.Namespace) -> Iterator[tuple[str, Case, str, str, Sizes]]:
    """A key, and the case, way and sizes that it stands for."""
    for name in options.only:
        case = CASES[name]
        for way in WAYS:
            for label, sizes in (("small", case.small), ("large", case.huge if options.gpu else case.large)):
                if way == "forward" or case.back:
                    yield f"{name}|{way}|{label}", case, name, way, sizes


def report(options: argparse.Namespace, found: dict[str, dict[str, Any]], threads: int) -> str:
    where = f"{options.arch}" if options.gpu else f"{platform.machine()}, {threads} thread{'s' * (threads != 1)}"
    backends = "; ".join(f"{who}: {text}" for who, text in found.get("backend", {}).items())
    lines = [
        f"# Kernels of the library, {options.dtype}, {where}\n",
        f"`python -m benchmarks.library_kernels {' '.join(sys.argv[1:])}`. Microseconds, the least of {options.turns} "
        f"turns; `ratio` is the best peer's time over ours. {backends}\n",
        "| kernel | way | sizes | tiles | meaning | peer | peer is | ratio | copy | unit |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for key, _, name, way, sizes in rows(options):
        times = found.get(f"{key}|{threads}", {})
        peers = {who: times[who] for who in options.peers if who in times}
        best = min(peers, key=lambda who: peers[who], default="-")
        mine = times.get("tiles", float("nan"))
        copied = found.get(f"copy {key}|{threads}", {}).get("tiles")
        share, unit = f"{copied / mine:.2f}" if copied else "", found.get("unit " + key, {}).get("tiles", "")
        shown = ", ".join(f"{symbol}={size}" for symbol, size in sizes.items())
        lines.append(
            f"| {name} | {way} | {shown} | {mine:.1f} | {times.get('meaning', float('nan')):.1f} | "
            f"{peers.get(best, float('nan')):.1f} | {best} | {peers.get(best, float('nan')) / mine:.2f} | "
            f"{share} | {unit} |"
        )
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------------------------------ in a process


def inside(options: argparse.Namespace) -> None:
    end = time.perf_counter() + options.seconds
    timer = (_Ours if options.inside in OURS else _Torch if options.inside != "jax" else _Jax)(options)
    tell("backend", timer.backend())
    for threads in options.threads:
        if not timer.use(threads):
            continue
        for key, case, name, way, sizes in rows(options):
            if time.perf_counter() > end:
                break
            try:
                tell(f"{key}|{threads}", timer.time(case, name, way, sizes))
                if timer.unit():
                    tell(f"unit {key}", timer.unit())
                if options.inside == "tiles" and way == "forward" and case.moved != "0":
                    tell(f"copy {key}|{threads}", copy_time(timer, amount(case.moved, sizes)))
            except Exception as error:  # a row that one library has not does not cost the others
                print(key, type(error).__name__, str(error)[:500], file=sys.stderr)


def tell(key: str, value: float | str) -> None:
    print("ROW " + json.dumps([key, value]), flush=True)


def arrays(case: Case, sizes: Sizes) -> list[np.ndarray]:
    """The tensors of a case, floats as f32. Weights are those that a model begins with: their sums have unit variance,
    and slopes are no numbers below 1e-38, which processors are slow at."""
    rng, found = np.random.default_rng(0), list[np.ndarray]()
    for (name, dims), (shape, other) in zip(case.args.items(), shapes(case, sizes), strict=True):
        if not other:
            scale = sizes["K"] ** -0.5 if dims.startswith("K,") else 1.0
            numbers = rng.standard_normal(shape, np.float32) * np.float32(scale)
            found.append(numbers * numbers if name.startswith("square") else numbers)
        elif shape:
            found.append(rng.integers(0, sizes["N"], shape).astype(np.int32))
        else:
            found.append(np.asarray(sizes["T"], np.int32))
    return found


def least(call: Callable[[], object]) -> float:
    """Microseconds of a call, the least of many."""
    call()
    best, end, count = float("inf"), time.perf_counter() + SECONDS, 0
    while count < LEAST or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best, count = min(best, time.perf_counter() - start), count + 1
    return best * 1e6


def copy_time(timer: Any, moved: float) -> float:
    """Microseconds of a copy that reads half of so many elements, and writes them."""
    dtype = timer.options.dtype
    text = f"def f(x: Tensor[N, {dtype}]):\n    return x + 0.0\n"
    call = timer.call(text, narrowed([np.ones(int(moved) // 2, np.float32)], dtype))
    with alone(timer.options):
        return call()


@contextmanager
def alone(options: argparse.Namespace) -> Iterator[None]:
    """What is timed while others that share a lock wait."""
    if options.lock is None:
        yield
        return
    with options.lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


NARROW = "bf16 @accum(f32)"


def narrowed(tensors: list[np.ndarray], dtype: str) -> list[np.ndarray]:
    """Floats in the type that is timed."""
    if dtype != "bf16":
        return tensors
    import ml_dtypes

    return [x.astype(ml_dtypes.bfloat16) if x.dtype == np.float32 else x for x in tensors]


class _Ours:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self._unit, self._made = options, "", dict[str, Any]()

    def backend(self) -> str:
        return self.options.arch if self.options.gpu else "LLVM"

    def unit(self) -> str:
        return self._unit

    def time(self, case: Case, name: str, way: str, sizes: Sizes) -> float:
        text = program(case, self.options.inside, way, NARROW if self.options.dtype == "bf16" else "f32")
        call = self.call(text, narrowed(arrays(case, sizes), self.options.dtype), case.work != "0")
        with alone(self.options):
            return call()

    def use(self, threads: int) -> bool:
        if not self.options.gpu:
            import tessera

            tessera.set_num_threads(threads)
        return True

    def call(self, text: str, inputs: list[np.ndarray], has_products: bool = False) -> Callable[[], float]:
        if not self.options.gpu:
            import tessera

            if text not in self._made:
                self._made[text] = tessera.compile(text)
            self._unit = "fma" if has_products else ""
            return lambda: least(lambda: self._made[text].f(*inputs))
        from benchmarks.gpu_runs import GpuCall
        from tesserac.base.source import SourceFile
        from tesserac.driver.session import Session
        from tesserac.target.nvptx.build import PLATFORMS

        if text not in self._made:
            session, source = Session(), SourceFile("f.tess", text)
            self._made[text] = session.gpu_program(source, session.function(source, "f"), PLATFORMS[self.options.arch])
        made = GpuCall(self._made[text], tuple(inputs))
        self._unit = _unit_of(made) if has_products else ""
        made.time(2)
        return lambda: min(made.time(10) for _ in range(3)) * 1e3


def _unit_of(call: Any) -> str:
    """The fastest unit that the launches of a call use, whichever of them its sizes choose."""
    from tessera.gpu_program import Launch, walk

    used: list[str] = []
    for step in walk(call.program.steps):
        if isinstance(step, Launch):
            code = call.variant(step).code()
            unit = next((unit for text, unit in UNITS.items() if text in code), "")
            used += [unit] if unit and unit not in used else []
    return " ".join(sorted(used, key=list(UNITS.values()).index)[:1])


class _Torch:
    def __init__(self, options: argparse.Namespace) -> None:
        import torch

        from benchmarks.kernel_peers import torch_functions

        self.torch, self.options, self.functions = torch, options, torch_functions()

    def use(self, threads: int) -> bool:
        self.torch.set_num_threads(threads)
        return True

    def backend(self) -> str:
        torch = self.torch
        if self.options.gpu:
            return f"PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}"
        config = torch.__config__.show()
        units = [name for name in ("MKL-DNN", "OpenBLAS", "Intel(R) oneAPI Math Kernel", "ACL") if name in config]
        return f"PyTorch {torch.__version__}, {', '.join(units)}"

    def unit(self) -> str:
        return ""

    def time(self, case: Case, name: str, way: str, sizes: Sizes) -> float:
        torch, function = self.torch, self.functions[name]
        device = "cuda" if self.options.gpu else "cpu"
        tensors = []
        for array in arrays(case, sizes):
            tensor = torch.from_numpy(array).to(device)
            is_narrow = self.options.dtype == "bf16" and tensor.is_floating_point()
            tensors.append(tensor.to(torch.bfloat16) if is_narrow else tensor)
        if self.options.inside == "compile":
            function = torch.compile(function)
        if way == "forward":
            with torch.no_grad():
                return self._least(lambda: function(*tensors))
        for tensor in tensors[: case.back]:
            tensor.requires_grad_()
        y = function(*tensors)
        w = torch.ones_like(y)
        return self._least(lambda: torch.autograd.grad(function(*tensors), tensors[: case.back], w))

    def _least(self, call: Callable[[], object]) -> float:
        if not self.options.gpu:
            return least(call)
        from benchmarks.attention_gpu import _events

        with alone(self.options):
            call()
            return min(_events(call) for _ in range(3)) * 1e3


class _Jax:
    def __init__(self, options: argparse.Namespace) -> None:
        import jax

        from benchmarks.kernel_peers import jax_functions

        self.jax, self.options, self.functions = jax, options, jax_functions()
        jax.config.update("jax_default_matmul_precision", "highest")

    def use(self, threads: int) -> bool:
        """A process of JAX has the threads that it started with."""
        return self.options.gpu or threads == max(self.options.threads)

    def backend(self) -> str:
        return f"JAX {self.jax.__version__} on {self.jax.default_backend()}"

    def unit(self) -> str:
        return ""

    def time(self, case: Case, name: str, way: str, sizes: Sizes) -> float:
        jax, function = self.jax, self.functions[name]
        assert not self.options.gpu or jax.default_backend() == "gpu", "this JAX has no GPU"
        given = [jax.numpy.asarray(array) for array in arrays(case, sizes)]
        narrow = self.options.dtype == "bf16"
        tensors = [x.astype("bfloat16") if narrow and x.dtype == "float32" else x for x in given]

        def back(*tensors: Any) -> Any:
            y, pull = jax.vjp(lambda *first: function(*first, *tensors[case.back :]), *tensors[: case.back])
            return y, pull(jax.numpy.ones_like(y))

        call = jax.jit(function if way == "forward" else back)
        return least(lambda: jax.block_until_ready(call(*tensors)))


if __name__ == "__main__":
    main()
