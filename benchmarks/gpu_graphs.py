"""Calls inside `torch.cuda.graph`: whether runs of the graph have the bits of calls, what it keeps, what is refused; a
check of `benchmarks.gpu_host`."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tessera

SHARED = """
def double(x: Tensor[N, f32]): return x + x
def scaled(x: Tensor[N, f32], s: f32): return x * s
def rows(x: Tensor[M, N, f32]): return softmax(x)
def half(a: Tensor[M, K, bf16 @accum(f32)], b: Tensor[K, N, bf16 @accum(f32)]): return a @ b
def picked(x: Tensor[N, f32], i: Tensor[K, i32]): return x[i]

def chain(x: Tensor[M, M, f32]):
    for i in range(20):
        x = softmax(x @ x)
    return x

def until(x: Tensor[N, f32]):
    while sum(x) > 1.0:
        x = x * 0.5
    return x
"""
"""What `gpu_host` calls too."""
PROGRAM = """
def attend(q: Tensor[B, H, S, 128, bf16 @accum(f32)], k: Tensor[B, H, S, 128, bf16 @accum(f32)],
           v: Tensor[B, H, S, 128, bf16 @accum(f32)]):
    return attention(q, k, v, causal=True)

def decode(q: Tensor[B, 32, 128, bf16 @accum(f32)], k: Tensor[B, 8, T, 128, bf16 @accum(f32)],
           v: Tensor[B, 8, T, 128, bf16 @accum(f32)], n: i32
           ) -> Tensor[B, 32, 128, bf16 @accum(f32)] where T % 256 == 0:
    return decode_attention(q, KVCache[B, 8, T, 128](K=k, V=v, len=n))

param w: Tensor[8, 4, f32]
def weighted(x: Tensor[B, 8, f32]): return x @ w
"""
CALLS_BEFORE = (0, 1, 4)
"""None, so that all is compiled while it is recorded; one; and so many that calls are replayed from graphs of ours."""


def check_graphs() -> None:
    import torch

    for before in CALLS_BEFORE:
        module = compiled()
        for name, inputs in cases(torch):
            told = f"{name}, {before} calls before"
            print(f"    {'ok  ' if has_the_bits(torch, module[name], inputs, before) else 'FAIL'} {told}", flush=True)
    check_refused(torch, compiled())
    check_memory(torch, compiled())
    times(torch, compiled())


def compiled() -> Any:
    module = tessera.compile(SHARED + PROGRAM, device="cuda")
    module.params = {"w": np.ones((8, 4), np.float32)}
    return module


def cases(torch: Any) -> Iterator[tuple[str, list[Any]]]:
    def wide(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda")

    def narrow(*shape: int) -> Any:
        return wide(*shape).to(torch.bfloat16)

    yield "double", [wide(1000)]
    yield "scaled", [wide(1000), 1.25]
    yield "rows", [wide(501, 33).T]
    yield "half", [narrow(512, 512), narrow(512, 512)]
    yield "picked", [wide(1000), torch.arange(0, 1000, 7, device="cuda", dtype=torch.int32)]
    yield "chain", [wide(64, 64)]
    yield "attend", [narrow(1, 8, 512, 128) for _ in range(3)]
    yield "decode", [narrow(1, 32, 128), narrow(1, 8, 8192, 128), narrow(1, 8, 8192, 128), 8000]
    yield "weighted", [wide(16, 8)]


def recorded(torch: Any, call: Callable[[], Any]) -> tuple[Any, Any]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()
    return graph, result


def has_the_bits(torch: Any, function: Any, inputs: list[Any], before: int) -> bool:
    """Three runs on other numbers, and one after calls that took new memory."""
    for _ in range(before):
        function(*inputs)
    graph, result = recorded(torch, lambda: torch.from_dlpack(function(*inputs)))
    equal = True
    for run in range(4):
        for tensor in inputs:
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and run < 3:
                tensor.normal_()
        result.zero_()
        others = [function(*inputs) for _ in range(8)]
        graph.replay()
        equal &= all(torch.equal(result, torch.from_dlpack(other)) for other in others)
    return equal


def check_refused(torch: Any, module: Any) -> None:
    x, i = torch.randn(100, device="cuda"), torch.tensor([1, 2], device="cuda", dtype=torch.int32)
    graph, y = recorded(torch, lambda: module.picked(x, i))
    graph.replay()
    told = [code(y.numpy)]
    for place in (1000, 1):
        i.fill_(place)
        graph.replay()
    torch.cuda.synchronize()
    told += [code(lambda: module.double(x)), code(lambda: module.double(x)), code(y.numpy)]
    expect(told == ["", "E0927", "", "E0927"], f"a bad index of one run of two: {told}")
    told = []

    def calls() -> Any:
        told.extend([code(lambda: module.until(x)), code(lambda: module.double(np.ones(4, np.float32)))])
        return torch.from_dlpack(module.double(x))

    graph, y = recorded(torch, calls)
    graph.replay()
    expect(told == ["E0571", "E0571"] and torch.equal(y, x + x), f"what is refused leaves the recording whole: {told}")


def code(run: Callable[[], object]) -> str:
    try:
        run()
    except tessera.TesseraError as error:
        return error.code
    return ""


def expect(holds: bool, what: str) -> None:
    print(f"    {'ok  ' if holds else 'FAIL'} {what}", flush=True)


def check_memory(torch: Any, module: Any) -> None:
    x = torch.randn(1 << 22, device="cuda")
    before = tessera.device_memory().in_use
    graphs = [recorded(torch, lambda: torch.from_dlpack(module.double(x))) for _ in range(8)]
    held = tessera.device_memory().in_use - before
    graphs.clear()
    gc.collect()
    torch.cuda.synchronize()
    time.sleep(0.5)
    left = tessera.device_memory().in_use - before
    expect(held >= 8 << 24 and left < 1 << 20, f"eight graphs keep {held} bytes, and none when they are gone: {left}")


def times(torch: Any, module: Any) -> None:
    *inputs, length = dict(cases(torch))["decode"]
    graph, _ = recorded(torch, lambda: [torch.from_dlpack(module.decode(*inputs, length)) for _ in range(10)])
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    took = []
    for _ in range(20):
        events[0].record()
        graph.replay()
        events[1].record()
        torch.cuda.synchronize()
        took.append(events[0].elapsed_time(events[1]) * 100)
    print(f"    decode of 8192 keys, ten in a graph: {min(took):.1f} us each")
    x, side = tessera.to_device(np.ones(1 << 10, np.float32)), torch.cuda.Stream()
    for what, stream in (("the default stream", torch.cuda.default_stream()), ("another stream", side)):
        with torch.cuda.stream(stream):
            print(f"    double(x) on {what}: {call_time(lambda: module.double(x)):.1f} us to start")


def call_time(call: Callable[[], object], count: int = 2000) -> float:
    best = []
    for _ in range(5):
        tessera.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            call()
        best.append((time.perf_counter() - start) / count * 1e6)
    return min(best)
