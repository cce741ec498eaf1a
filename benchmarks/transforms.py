"""Times Fourier transforms beside SciPy's (pocketfft) and PyTorch's (MKL on x86), each library alone in its process.

    python -m benchmarks.transforms --out benchmarks/results [--threads 1] [--threads 16] [--peers PYTHON]

Lengths are written in the program, arrays are there, results are new. The best of some turns counts; on one thread
it is time of the processor, on several time that passed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

SIZES = ((1, 256), (1, 1000), (1, 1009), (1, 1024), (1, 65536), (1, 1 << 20), (256, 1024))
LIBRARIES = ("tessera", "scipy", "torch")
TURNS, SECONDS = 3, 0.05
FRAME = 1024
Function = Callable[..., object]
OTHERS = {
    "irfft 256 x 1024": ("Tensor[B, 513, c64]", "irfft(x)", (256, 513)),
    "fft over axis 0, 1024 x 256": ("Tensor[1024, B, c64]", "fft(x, axis=0)", (1024, 256)),
    "fft over axis 1, 16 x 1024 x 16": ("Tensor[A, 1024, B, c64]", "fft(x, axis=1)", (16, 1024, 16)),
    "fft2 512 x 512": ("Tensor[512, 512, c64]", "fft2(x)", (512, 512)),
    "rfft2 512 x 512": ("Tensor[512, 512, f32]", "rfft2(x)", (512, 512)),
    "irfft2 512 x 512": ("Tensor[512, 257, c64]", "irfft2(x)", (512, 257)),
    "rfftn 8 x 64 x 64 x 64": ("Tensor[B, 64, 64, 64, f32]", "rfftn(x, axes=(1, 2, 3))", (8, 64, 64, 64)),
    "irfftn 8 x 64 x 64 x 64": ("Tensor[B, 64, 64, 33, c64]", "irfftn(x, axes=(1, 2, 3))", (8, 64, 64, 33)),
    "dct 256 x 1024": ("Tensor[B, 1024, f32]", "dct(x)", (256, 1024)),
    "dct of type 1, 256 x 513": ("Tensor[B, 513, f32]", "dct(x, 1)", (256, 513)),
    "dct of type 3, 256 x 1024": ("Tensor[B, 1024, f32]", "dct(x, 3)", (256, 1024)),
    "dct of type 4, 256 x 1024": ("Tensor[B, 1024, f32]", "dct(x, 4)", (256, 1024)),
    "stft 16 x 16384, frames of 1024": ("Tensor[B, N, f32]", "stft(x, 1024, window=hann_window(1024))", (16, 16384)),
    "istft of it": ("Tensor[B, 513, T, c64]", "istft(x, 1024, window=hann_window(1024))", (16, 513, 65)),
}
"""What stands beside the transforms over the last dim: the type of x, the program, and the shape here."""


def cases() -> dict[str, tuple[str, str, tuple[int, ...]]]:
    found: dict[str, tuple[str, str, tuple[int, ...]]] = {}
    for name, dtype in (("fft", "c64"), ("rfft", "f32")):
        for rows, length in SIZES:
            found[f"{name} {rows} x {length}"] = (f"Tensor[B, {length}, {dtype}]", f"{name}(x)", (rows, length))
    return {**found, **OTHERS}


def measured(library: str, threads: int, peers: str) -> dict[str, float]:
    """Seconds of every case, in a process that knows no other library."""
    limits = {name: str(threads) for name in ("TESSERA_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    python = sys.executable if library == "tessera" else peers
    command = [python, "-m", "benchmarks.transforms", "--library", library, "--threads", str(threads)]
    done = subprocess.run(command, env={**os.environ, **limits}, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{library}: {(done.stderr.strip().splitlines() or [str(done.returncode)])[-1]}", file=sys.stderr)
        return {}
    return dict(json.loads(done.stdout))


def functions(library: str) -> Callable[[str], Function | None]:
    """What computes a case, as the library offers it; none where it does not."""
    if library == "tessera":
        import tessera

        lines = [f"def f{i}(x: {ty}):\n    return {code}\n" for i, (ty, code, _) in enumerate(cases().values())]
        module, names = tessera.compile("\n".join(lines)), list(cases())
        return lambda case: getattr(module, f"f{names.index(case)}")
    return lambda case: peer(library, cases()[case][1])


def peer(library: str, code: str) -> Function | None:
    """The same program in another library: its options are called as they are there, but for the names of axes."""
    if library == "scipy":
        import scipy.fft

        names = {name: getattr(scipy.fft, name) for name in dir(scipy.fft) if not name.startswith("_")}
    else:
        import torch

        names = {name: getattr(torch.fft, name) for name in dir(torch.fft) if "fft" in name}
        code = code.replace("axes=", "dim=").replace("axis=", "dim=")
        window = torch.hann_window(FRAME)
        names["stft"] = lambda x, n, **_: torch.stft(x, n, window=window, return_complex=True)
        names["istft"] = lambda x, n, **_: torch.istft(x, n, window=window)
        names["hann_window"] = torch.hann_window
    if code.partition("(")[0] not in names:
        return None
    made: Function = eval(f"lambda x: {code}", names)
    return made


def run(library: str, threads: int) -> list[tuple[str, float]]:
    rng, find, found = np.random.default_rng(0), functions(library), []
    clock = time.process_time if threads == 1 else time.perf_counter
    for case, (ty, _, shape) in cases().items():
        x = rng.normal(size=shape).astype(np.float32)
        z = (x + 1j * x[..., ::-1]).astype(np.complex64) if "c64" in ty else x
        function = find(case)
        if function is not None:
            found.append((case, best(function, given(library, z), clock)))
    return found


def given(library: str, x: np.ndarray) -> object:
    if library != "torch":
        return x
    import torch

    return torch.from_numpy(x)


def best(function: Function, x: object, clock: Callable[[], float]) -> float:
    function(x)
    start = clock()
    function(x)
    count = max(1, int(SECONDS / max(clock() - start, 1e-7)))
    times = []
    for _ in range(7):
        start = clock()
        for _ in range(count):
            function(x)
        times.append((clock() - start) / count)
    return min(times)


def table(threads: int, peers: str, turns: int) -> str:
    least: dict[str, dict[str, float]] = {library: {} for library in LIBRARIES}
    for _ in range(turns):
        for library in LIBRARIES:
            for row, seconds in measured(library, threads, peers).items():
                least[library][row] = min(seconds, least[library].get(row, seconds))
    return written(least, threads)


def written(least: dict[str, dict[str, float]], threads: int) -> str:
    """Microseconds, and how many times longer the others take."""
    lines = [f"## {threads} thread{'s' * (threads > 1)}", ""]
    lines += ["| transform | us | SciPy over ours | PyTorch over ours |", "|---|---|---|---|"]
    for case, ours in least["tessera"].items():
        ratios = [least[peer].get(case) for peer in ("scipy", "torch")]
        shown = ["" if other is None else f"{other / ours:.2f}" for other in ratios]
        lines.append(f"| {case} | {ours * 1e6:.2f} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where the table is written")
    parser.add_argument("--threads", type=int, action="append", help="how many; may be given several times")
    parser.add_argument("--turns", type=int, default=TURNS, help="of which the best counts")
    parser.add_argument("--peers", default=sys.executable, help="the Python that has SciPy and PyTorch")
    parser.add_argument("--library", choices=LIBRARIES, help="times one library, and prints JSON")
    chosen = parser.parse_args()
    counts = chosen.threads or [1]
    if chosen.library:
        print(json.dumps(run(chosen.library, counts[0])))
        return
    options = " ".join((*(f"--threads {count}" for count in counts), f"--turns {chosen.turns}"))
    command = f"python -m benchmarks.transforms {options}"
    head = f"# Fourier transforms, c64 and f32, {platform.machine()}\n\nMade by `{command}`."
    text = "\n\n".join([head, *(table(count, chosen.peers, chosen.turns) for count in counts)]) + "\n"
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / f"transforms-{platform.machine()}.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
