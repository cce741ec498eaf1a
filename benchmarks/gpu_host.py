"""Checks the way from Python to a GPU: bits against the CPU, arrays that stay, other libraries, memory, faults, costs.

    python -m benchmarks.gpu_host --out DIR [--only NAME]

Each check runs in a process of its own. What it tells goes to DIR/gpu_host.md. Torch and CuPy are used where they are
installed. Needs a CUDA device.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "runtime")]

import numpy as np  # noqa: E402

import tessera  # noqa: E402
from benchmarks.gpu_commands import check_commands  # noqa: E402, F401
from benchmarks.gpu_graphs import SHARED, check_graphs  # noqa: E402, F401

TIME_LIMIT = 170
PROGRAM = SHARED + """
struct Layer[I, O]:
    w: Tensor[I, O, f32] = normal(I, O) * 0.1
    b: Tensor[O, f32] = zeros(O)
    def apply(self, x: Tensor[B, I, f32]) -> Tensor[B, O, f32]:
        return tanh(x @ self.w + self.b)

struct Net[I, H, O]:
    a: Layer[I, H]
    c: Layer[H, O]
    def apply(self, x: Tensor[B, I, f32]) -> Tensor[B, O, f32]:
        return self.c(self.a(x))

def halved(x: Tensor[N, f32]): return x * 0.5
def product(a: Tensor[M, K, f32], b: Tensor[K, N, f32]): return a @ b
def two(x: Tensor[N, f32]): return x + 1.0, sum(x)
def loss(m: Net[I, H, O], x: Tensor[B, I, f32], y: Tensor[B, O, f32]): return mean((m(x) - y) ** 2)

@export(donate=(m,))
def step(m: Net[I, H, O], x: Tensor[B, I, f32], y: Tensor[B, O, f32]):
    g = grad(loss)(m, x, y)
    return Net(a=Layer(w=m.a.w - 0.1 * g.a.w, b=m.a.b - 0.1 * g.a.b),
               c=Layer(w=m.c.w - 0.1 * g.c.w, b=m.c.b - 0.1 * g.c.b)), loss(m, x, y)

def many(x: Tensor[N, f32]):
    for i in range(20):
        x = x * 0.5 + 1.0
    return x

def noisy(x: Tensor[N, f32]): return x + normal(N)

def checked(x: Tensor[N, f32]):
    assert sum(x) > 0.0, "the sum must be positive"
    return x * 2.0
"""
WEIGHTED = "param w: Tensor[8, 4, f32]\ndef f(x: Tensor[B, 8, f32]): return x @ w\n"


def arrays(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(7)
    return [np.asarray(rng.standard_normal(shape), np.float32) for shape in shapes]


def modules() -> tuple[Any, Any]:
    return tessera.compile(PROGRAM), tessera.compile(PROGRAM, device="cuda")


def same(left: Any, right: Any, what: str) -> None:
    left, right = (x if isinstance(x, tuple) else (x,) for x in (left, right))
    for one, other in zip(left, right, strict=True):
        one, other = (np.asarray(tessera.to_host(x)) for x in (one, other))
        equal = one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()
        print(f"    {'ok  ' if equal else 'FAIL'} {what} {one.dtype}{list(one.shape)}")


def raises(code: str, run: Callable[[], object], what: str) -> None:
    try:
        run()
    except tessera.TesseraError as error:
        print(f"    {'ok  ' if error.code == code else 'FAIL'} {what}: {error.code}")
        print("        " + error.text.replace("\n", "\n        "))
    else:
        print(f"    FAIL {what}: nothing was raised")


def expect(holds: bool, what: str) -> None:
    print(f"    {'ok  ' if holds else 'FAIL'} {what}")


# --- the checks -----------------------------------------------------------------------------------------------------


def check_bits() -> None:
    cpu, gpu = modules()
    (x, a, b, v) = arrays((1000,), (65, 130), (130, 70), (33, 501))
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("double", (x,)), ("rows", (v,)), ("product", (a, b)), ("scaled", (x, 1.25)), ("two", (x,)),
        ("many", (x,)), ("until", (np.abs(x),)), ("picked", (x, np.arange(0, 1000, 7, dtype=np.int32))),
        ("checked", (np.abs(x),)), ("noisy", (x,)),
    ]  # fmt: skip
    for name, args in calls:
        try:
            same(cpu[name](*args), gpu[name](*args), f"{name}, NumPy")
            placed = tuple(tessera.to_device(arg) for arg in args)
            if name != "noisy":
                same(cpu[name](*args), gpu[name](*placed), f"{name}, on the device")
        except tessera.TesseraError as error:
            print(f"    FAIL {name}: {error}")
    raises("E0927", lambda: gpu.picked(x, np.array([5000], np.int32)), "a bad index")
    wrong = gpu.picked(tessera.to_device(x), np.array([-5000], np.int32))
    raises("E0927", wrong.numpy, "a bad index, device arrays")
    raises("E0933", lambda: gpu.checked(-np.abs(x)), "an assertion")
    same(cpu.double(x), gpu.double(x), "double after them")
    y = np.empty_like(x)
    expect(gpu.double(x, out=y) is y and np.array_equal(y, x + x), "out= of NumPy")
    d, e = tessera.to_device(x), tessera.to_device(np.zeros_like(x))
    expect(gpu.double(d, out=e) is e and np.array_equal(e.numpy(), x + x), "out= on the device")


def check_training() -> None:
    cpu, gpu = modules()
    x, y = arrays((64, 16), (64, 4))
    here, there = cpu.Net(16, 32, 4, seed=1), tessera.to_device(gpu.Net(16, 32, 4, seed=1))
    xd, yd = tessera.to_device((x, y))
    before = None
    for count in range(50):
        here, one = cpu.step(here, x, y)
        there, other = gpu.step(there, xd, yd)
        if count == 5:
            before = tessera.device_memory()
    after = tessera.device_memory()
    assert before is not None
    expect(before.copied_in == after.copied_in and before.copied_out == after.copied_out, "44 steps move no bytes")
    expect(before.in_use == after.in_use, f"memory is level: {after.in_use} bytes, peak {after.peak}")
    same(one, other, "the loss after 50 steps")
    same(here.a.w, there.a.w, "the weights after 50 steps")
    module = tessera.compile(WEIGHTED, device="cuda")
    module.params = {"w": arrays((8, 4))[0]}
    plain = tessera.compile(WEIGHTED)
    plain.params = {"w": arrays((8, 4))[0]}
    same(plain.f(x[:, :8].copy()), module.f(x[:, :8].copy()), "params")
    told = tessera.device_memory().copied_in
    module.f(tessera.to_device(x[:, :8].copy()))
    moved = tessera.device_memory().copied_in - told
    expect(moved == 64 * 8 * 4, f"params are uploaded once ({moved} bytes for x)")


def check_torch() -> None:
    import torch

    _, gpu = modules()
    t = torch.arange(1000, dtype=torch.float32, device="cuda")
    r = gpu.double(t)
    back = torch.from_dlpack(r)
    expect(back.data_ptr() == r.address and torch.equal(back, t + t), "torch in, torch out, no copy")
    viewed = torch.as_tensor(r, device="cuda")
    expect(viewed.data_ptr() == r.address, "by the array interface")
    told = tessera.device_memory()
    for _ in range(100):
        back = torch.from_dlpack(gpu.double(back * 0.5))
    expect(torch.equal(back, t + t), "100 calls in turn with torch")
    expect(told.copied_in == tessera.device_memory().copied_in, "without a byte to or from the host")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for count in range(50):
            big = torch.full((1 << 22,), float(count), device="cuda")
            big = torch.sin(big) * 0.0 + count
            out = torch.from_dlpack(gpu.double(big))
            expect_late = out.sum()
            if float(expect_late) != 2.0 * count * (1 << 22):
                expect(False, f"on a stream of torch's, turn {count}: {float(expect_late)}")
                break
        else:
            expect(True, "50 turns on a stream of torch's")
    halves = [torch.randn(64, 64, device="cuda").to(torch.bfloat16) for _ in range(2)]
    made = torch.from_dlpack(gpu.half(*halves))
    is_near = torch.allclose(made.float(), (halves[0] @ halves[1]).float(), atol=0.2)
    expect(made.dtype == torch.bfloat16 and is_near, "bf16")
    wide = torch.arange(3 * 40 * 50, dtype=torch.float32, device="cuda").reshape(3, 40, 50)
    views = {
        "transposed": wide[0].T, "every second": wide[1][::2, 1::3], "repeated": wide[2][:1].expand(7, 50),
        "middle": wide[:, 5],
    }  # fmt: skip
    for name, view in views.items():
        same(gpu.rows(view.contiguous()).numpy(), gpu.rows(view).numpy(), f"strides: {name}")
    streams_and_copies(gpu)
    raises("E0921", lambda: gpu.double(torch.ones(4, device="cuda", requires_grad=True)), "a tensor with a gradient")
    raises("E0563", lambda: tessera.compile(PROGRAM).double(t), "a CPU function")
    out = torch.empty(1000, device="cuda")
    gpu.double(t, out=out)
    expect(torch.equal(out, t + t), "out= of torch")
    frozen = tessera.freeze(tessera.to_device(np.ones(4, np.float32)))
    expect(torch.equal(torch.from_dlpack(gpu.double(frozen)).cpu(), torch.full((4,), 2.0)), "a frozen array")
    del back, viewed, out, made


def streams_and_copies(gpu: Any) -> None:
    import torch

    one, other = tessera.Stream(), tessera.Stream()
    x = tessera.to_device(np.ones(1 << 22, np.float32))
    with tessera.stream(one):
        y = x
        for _ in range(50):
            y = gpu.double(gpu.halved(y))
    with tessera.stream(other):
        z = gpu.double(y)
    expect(bool((z.numpy() == 2.0).all()), "an array that one stream writes and another reads")
    done = one.record()
    done.wait(other)
    done.synchronize()
    expect(done.done(), "an event that has passed")
    tessera.barrier()
    future = gpu.double.call_async(gpu.double.call_async(x))
    expect(bool((future.result().numpy() == 4.0).all()), "futures in turn")
    raises("E0927", lambda: gpu.picked.call_async(x, np.array([1 << 30], np.int32)).result(), "a future that fails")
    with tessera.stream(torch.cuda.Stream()):
        expect(bool((gpu.double(x).numpy() == 2.0).all()), "on a stream of torch's, chosen")
    big = np.arange(1 << 24, dtype=np.float32)
    start = time.perf_counter()
    there = tessera.to_device(big)
    tessera.synchronize()
    middle = time.perf_counter()
    back = there.numpy()
    ended = time.perf_counter()
    speeds = [big.nbytes / took / 1e9 for took in (middle - start, ended - middle)]
    expect(bool((back == big).all()), f"64 MiB there and back, {speeds[0]:.1f} and {speeds[1]:.1f} GB/s")


def check_cupy() -> None:
    import cupy

    _, gpu = modules()
    x = cupy.arange(1000, dtype=cupy.float32)
    r = gpu.double(x)
    back = cupy.from_dlpack(r)
    expect(back.data.ptr == r.address and bool((back == x + x).all()), "CuPy in, CuPy out, no copy")
    expect(cupy.asarray(r).data.ptr == r.address, "by the array interface")
    with cupy.cuda.Stream(non_blocking=True):
        for count in range(50):
            y = cupy.full((1 << 20,), float(count), dtype=cupy.float32)
            z = cupy.from_dlpack(gpu.double(y))
            if float(z.sum()) != 2.0 * count * (1 << 20):
                expect(False, f"on a stream of CuPy's, turn {count}")
                break
        else:
            expect(True, "50 turns on a stream of CuPy's")


def check_memory() -> None:
    _, gpu = modules()
    x = tessera.to_device(np.ones(1 << 16, np.float32))
    for _ in range(10):
        y = gpu.double(x)
    before = tessera.device_memory()
    for _ in range(10_000):
        y = gpu.double(x)
    after = tessera.device_memory()
    expect(before.in_use == after.in_use and before.cached == after.cached, f"10,000 calls hold memory level: {after}")
    expect(after.copied_in == before.copied_in, "they move no bytes")
    results: list[bool] = []

    def work() -> None:
        own = tessera.to_device(np.full(1 << 12, 3.0, np.float32))
        for _ in range(2000):
            out = gpu.double(own)
        results.append(bool((out.numpy() == 6.0).all()))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(results == [True, True], "two threads at once")
    total = after.total
    held: list[object] = []

    def fill() -> None:
        size = np.zeros(1 << 30, np.float32)
        for _ in range(total // size.nbytes + 1):
            held.append(tessera.to_device(size))

    raises("E0564", fill, "out of memory")
    expect(bool((gpu.double(x).numpy() == 2.0).all()), "a call after it")
    held.clear()
    tessera.release_device_memory()
    expect(tessera.device_memory().free > total * 0.9, f"free again: {tessera.device_memory().free}")
    tessera.set_device_memory_limit(1 << 20)
    raises("E0564", lambda: gpu.double(tessera.to_device(np.ones(1 << 20, np.float32))), "beyond the limit")
    del y


BAD_PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry bad(.param .u64 p0, .param .u64 p1)
{ .reg .b64 %rd<3>; .reg .f32 %f<2>;
  mov.u64 %rd1, 16; mov.f32 %f1, 0f00000000; st.global.f32 [%rd1], %f1; ret; }
"""


def check_faults() -> None:
    from tessera.devices import gpu as device
    from tessera.gpu_artifact import GpuArtifact
    from tessera.gpu_function import GpuFunction
    from tesserac.base.source import SourceFile
    from tesserac.driver.gpu_functions import artifact_for_gpu
    from tesserac.driver.session import Session
    from tesserac.target.nvptx.build import PLATFORMS

    cpu, gpu = modules()
    session, source = Session(), SourceFile("f.tess", PROGRAM)
    made = artifact_for_gpu(session, source, session.function(source, "double"), PLATFORMS["sm_90a"])
    kernels = tuple(k._replace(name="bad", code=lambda: BAD_PTX, symbols=()) for k in made.program.kernels)
    bad = GpuFunction(GpuArtifact(made.program._replace(kernels=kernels), made.returned), device(0))
    x = np.ones(8, np.float32)
    same(cpu.double(x), gpu.double(x), "before")
    raises("E0565", lambda: bad(x), "a kernel that writes where nothing is")
    raises("E0565", lambda: gpu.double(x), "a call after it")
    same(cpu.double(x), x + x, "the CPU goes on")
    raises("E0561", lambda: tessera.compile(PROGRAM, device="cuda:9"), "a GPU that is not there")
    raises("E0560", lambda: tessera.compile(PROGRAM, device="gpu"), "a name that is none")


def check_costs() -> None:
    _, gpu = modules()
    x = tessera.to_device(np.ones(1 << 10, np.float32))
    print("    double(x), 1024 f32 on the device:", timed(lambda: gpu.double(x)))
    y = tessera.to_device(np.ones((64, 64), np.float32))
    print("    chain(x), 20 rounds of product and softmax of 64 x 64:", timed(lambda: gpu.chain(y), 200))
    host = np.ones(1 << 10, np.float32)
    print("    double(x), NumPy:", timed(lambda: gpu.double(host), 500))
    try:
        import torch
    except ImportError:
        return
    t = torch.ones(1 << 10, device="cuda")
    print("    torch x + x:", timed(lambda: t + t, wait=torch.cuda.synchronize))
    print("    double(x) of torch's arrays:", timed(lambda: gpu.double(t)))
    print("    double(x), with torch in the process:", timed(lambda: gpu.double(x)))


def timed(run: Callable[[], object], count: int = 2000, wait: Callable[[], object] = tessera.synchronize) -> str:
    for _ in range(20):
        run()
    best = []
    for _ in range(5):
        wait()
        start = time.perf_counter()
        for _ in range(count // 5):
            run()
        issued = time.perf_counter()
        wait()
        best.append(((issued - start) / (count // 5), (time.perf_counter() - start) / (count // 5)))
    issued, whole = min(b[0] for b in best), min(b[1] for b in best)
    return f"{issued * 1e6:.1f} us to start, {whole * 1e6:.1f} us in all"


CHECKS = {name.removeprefix("check_"): run for name, run in globals().items() if name.startswith("check_")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--only", choices=sorted(CHECKS))
    parser.add_argument("--inside", choices=sorted(CHECKS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        try:
            CHECKS[options.inside]()
        except Exception:
            print("    FAIL " + traceback.format_exc())
        return
    report = []
    for name in [options.only] if options.only else list(CHECKS):
        report.append(f"{name}\n{run_apart(name)}")
        print(report[-1], flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "gpu_host.md").write_text("# The way from Python to a GPU\n\n```\n" + "\n".join(report) + "```\n")
    sys.exit(any("FAIL" in part for part in report))


def run_apart(name: str) -> str:
    command = [sys.executable, "-u", "-m", "benchmarks.gpu_host", "--inside", name]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    try:
        output, _ = process.communicate(timeout=TIME_LIMIT)
        ended = "" if process.returncode == 0 else f"    FAIL the process ended with {process.returncode}\n"
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        ended = f"    FAIL no end after {TIME_LIMIT} s\n"
    return f"{output}{ended}    {time.perf_counter() - start:.1f} s\n"


if __name__ == "__main__":
    main()
