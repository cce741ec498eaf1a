"""What the forward pass of a transformer of 24 layers holds: peak resident memory beside weights and lower bound.

    python -m benchmarks.transformer_memory [--width 512] [--tokens 256] [--out FILE]

The model is that of `examples/gpt2.tess`. The lower bound is the most that is alive at one place of the host program:
workspaces and the result, counted from the schedule, as if they lay without a gap. A process of its own, which compiles
nothing, then makes the weights and calls the model; what it held before, Python and NumPy and the code, is taken off.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import numpy as np  # noqa: E402

LAYERS, VOCABULARY = 24, 4000
GOAL = 1.1


def program(width: int, tokens: int) -> str:
    """The example, with the sizes of its model in the type."""
    model = (ROOT / "examples" / "gpt2.tess").read_text()
    entry = f"def forward(m: GPT2[{VOCABULARY}, {tokens}, {LAYERS}, {width}], ids: Tensor[B, S, i32]) -> "
    return model + f"\n{entry}Tensor[B, S, {VOCABULARY}, f32] where S <= {tokens}:\n    return m(ids, {width // 64})\n"


def lower_bound(width: int, tokens: int) -> tuple[int, int]:
    """Bytes alive at once, and bytes of all slots, for one sequence of all tokens."""
    from tesserac.base.source import SourceFile
    from tesserac.driver.session import Session
    from tesserac.ir.types import MemRefType
    from tesserac.schedule.dialect import memory
    from tesserac.schedule.host.memory import lives
    from tesserac.target.cpu.build import host_platform
    from tesserac.tile.cpu.lower import buffer_bytes
    from tesserac.tile.cpu.target import BY_ARCH

    session, source = Session(), SourceFile("memory.tess", program(width, tokens))
    machine = host_platform().schedule
    levels = session.levels(source, session.function(source, "forward"), machine)
    [host] = [op for op in levels.schedule.ops if op.name == "schedule.func"]

    def size(ty: MemRefType) -> int:
        return int(buffer_bytes(ty, BY_ARCH[machine.arch]).evaluate({"B": 1, "S": tokens}))

    found = [(life.first, life.last, size(memory(life.buffer.result))) for life in lives(host)]
    most = max(sum(bytes_ for low, high, bytes_ in found if low <= place <= high) for place, *_ in found)
    slots: dict[object, int] = {}
    for life, (_, _, bytes_) in zip(lives(host), found, strict=True):
        slot = life.buffer.attrs["slot"]
        slots[slot] = max(slots.get(slot, 0), bytes_)
    return most, sum(slots.values())


def inside(width: int, tokens: int) -> None:
    """Compiles by a call with two tokens; with `--inside` twice the second process finds the code in the cache."""
    import tessera

    module = tessera.compile(program(width, tokens))
    before = _status("VmRSS")
    model = module.GPT2(VOCABULARY, tokens, LAYERS, width, seed=0)
    weights = sum(array.nbytes for array in _arrays(model))
    ids = np.arange(tokens, dtype=np.int32)[None] * 37 % VOCABULARY
    module.forward(model, ids[:, :2])
    Path("/proc/self/clear_refs").write_text("5")  # Linux forgets the most that the process held so far
    logits = module.forward(model, ids)
    row = [_status("VmHWM") - before, weights, np.asarray(logits).nbytes]
    print("ROW " + json.dumps(row), flush=True)


def _arrays(value: object) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    parts = value if isinstance(value, tuple | list) else vars(value).values()
    return [array for part in parts for array in _arrays(part)]


def _status(name: str) -> int:
    """What Linux says of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024


def report(width: int, tokens: int) -> str:
    command = [sys.executable, "-m", "benchmarks.transformer_memory", "--width", str(width), "--tokens", str(tokens)]
    for _ in range(2):  # the second finds the code compiled
        done = subprocess.run([*command, "--inside"], cwd=ROOT, capture_output=True, text=True, check=False)
    rows = [json.loads(line[4:]) for line in done.stdout.splitlines() if line.startswith("ROW ")]
    if not rows:
        return done.stderr
    [(held, weights, result)] = rows
    alive, slots = lower_bound(width, tokens)
    least = weights + alive + result
    lines = [
        f"# Memory of a transformer of {LAYERS} layers, {platform.machine()}\n",
        f"`python -m benchmarks.transformer_memory --width {width} --tokens {tokens}`: the forward pass of",
        f"`examples/gpt2.tess`, f32, {LAYERS} layers of width {width}, {tokens} tokens. MiB.\n",
        "| weights | result | alive at once | slots | all three | held at most | of all three | goal |",
        "|---|---|---|---|---|---|---|---|",
        "| "
        + " | ".join(f"{n / 2**20:.1f}" for n in (weights, result, alive, slots, least, held))
        + f" | {held / least:.3f} | {GOAL} |",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options.width, options.tokens)
        return
    text = report(options.width, options.tokens)
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
