"""One record per machine: who reads it, what is found of the machine at hand, and that no bit depends on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tessera import processor
from tessera.devices import ARCHES
from tessera.function import CompiledFunction
from tesserac.base.source import SourceFile
from tesserac.base.targets import CPU_ARCHES, GPU_ARCHES
from tesserac.commands.machines import describe_machine, list_machines
from tesserac.commands.targets import find_target
from tesserac.driver.session import Session
from tesserac.schedule.machine import (
    AARCH64,
    CPUS,
    GPUS,
    KIB,
    MACHINES,
    X86_64_V3,
    X86_64_V4,
    Code,
    as_found,
)
from tesserac.target import compile as llvm
from tesserac.target.cpu import build
from tesserac.tile.cpu.target import BY_ARCH

PROGRAM = """
def f(x: Tensor[M, K, f32], w: Tensor[K, N, f32]) -> Tensor[M, f32]:
    return sum(gelu(x @ w), axis=1)
"""


def test_every_record_has_a_target_and_every_target_a_record() -> None:
    assert CPU_ARCHES == tuple(machine.arch for machine in CPUS) == tuple(BY_ARCH)
    assert GPU_ARCHES == tuple(machine.arch for machine in GPUS) == ARCHES[::-1]
    for machine in MACHINES.values():
        assert find_target(machine.target).machine is machine and machine.arch in describe_machine(machine)
    assert all(machine.target in list_machines(None).output for machine in MACHINES.values())


SAID = {
    "sm_80": (19.5, 312, 1555, 2048, 164), "sm_86": (35.6, 71, 936, 1536, 100), "sm_89": (82.6, 165.2, 1008, 1536, 100),
    "sm_90a": (66.9, 989.4, 4800, 2048, 228), "sm_100a": (75.0, 2250, 7700, 2048, 228),
}  # fmt: skip
"""What NVIDIA says in data sheets and its table of compute capabilities: Tflop/s of f32 and of dense bf16 with sums in
f32, GB/s, threads and KiB of shared memory of a multiprocessor."""


@pytest.mark.parametrize("arch", SAID)
def test_rates_give_what_data_sheets_say(arch: str) -> None:
    machine, (plain, matrix, memory, threads, shared) = MACHINES[arch], SAID[arch]
    assert machine.peak_flops / 1e12 == pytest.approx(plain, rel=0.03)
    assert machine.matrix_flops / 1e12 == pytest.approx(matrix, rel=0.03)
    assert machine.peak_bytes / 1e9 == pytest.approx(memory, rel=0.01)
    held = machine.residency
    assert held is not None and (32 * held.warps, held.shared_bytes) == (threads, shared * KIB)


def test_a_core_of_the_machine_at_hand_was_measured() -> None:
    """A loop of fused multiply-adds in registers: 39.9 Gflop/s a core of a Neoverse N1 at 2.5 GHz."""
    assert AARCH64.peak_flops / AARCH64.cores / 1e9 == pytest.approx(39.9, rel=0.03)


def test_a_lower_record_of_a_family_needs_less() -> None:
    for least, most in (("x86-64-v3", "x86-64-v4"), ("x86-64-v4", "x86-64-v4-amx"), ("aarch64", "aarch64-sve")):
        assert set(MACHINES[least].code.needs) < set(MACHINES[most].code.needs)


@pytest.mark.parametrize(
    ("triple", "cpu", "has", "arch"),
    [
        ("x86_64-unknown-linux-gnu", "haswell", MACHINES["x86-64-v3"].code.needs, "x86-64-v3"),
        ("x86_64-unknown-linux-gnu", "icelake", (*MACHINES["x86-64-v4"].code.needs, "vaes"), "x86-64-v4"),
        ("x86_64-unknown-linux-gnu", "sapphirerapids", MACHINES["x86-64-v4-amx"].code.needs, "x86-64-v4-amx"),
        ("aarch64-unknown-linux-gnu", "neoverse-n1", (*MACHINES["apple"].code.needs, "crc32"), "aarch64"),
        ("aarch64-unknown-linux-gnu", "neoverse-v1", MACHINES["aarch64-sve"].code.needs, "aarch64-sve"),
        ("arm64-apple-darwin23", "apple-m2", None, "apple"),
        ("x86_64-unknown-linux-gnu", "nehalem", ("sse4_2",), "lacks avx2, bmi2, f16c, fma"),
        ("riscv64-unknown-linux-gnu", "generic", (), "no code generation for riscv64"),
    ],
)
def test_the_machine_at_hand_has_the_record_that_says_the_most_of_it(
    triple: str, cpu: str, has: tuple[str, ...] | None, arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llvm, "host_machine", lambda: llvm.Machine(triple, cpu))
    monkeypatch.setattr(build, "instructions", lambda: None if has is None else frozenset(has))
    monkeypatch.setattr(build, "available_cores", lambda: 3)
    monkeypatch.setattr(build, "caches", lambda: (16 * KIB, 0, 0))
    try:
        found = build._host_record.__wrapped__()
    except Exception as problem:
        assert arch in str(problem)
        return
    described = MACHINES[arch]
    assert (found.arch, found.cores, found.near_bytes, found.second_bytes) == (arch, 3, 16384, described.second_bytes)
    assert found.code.cpu == cpu and set(found.code.needs) == set(described.code.needs if has is None else has)


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu.max": "max 100000\n"}, 64),
        ({"quota": "50000\n", "period": "100000\n"}, 1),
        ({"quota": "-1\n", "period": "100000\n"}, 64),
        ({}, 64),
    ],
)
def test_a_control_group_grants_cores(
    files: dict[str, str], cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    quotas = ((str(tmp_path / "cpu.max"),), (str(tmp_path / "quota"), str(tmp_path / "period")))
    monkeypatch.setattr(processor, "_QUOTAS", quotas)
    monkeypatch.setattr(processor.os, "sched_getaffinity", lambda _: range(64), raising=False)
    assert processor.available_cores.__wrapped__() == cores


def test_caches_are_read_where_the_system_tells_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "_CACHES", str(tmp_path))
    assert processor.caches.__wrapped__() == (0, 0, 0)
    for index, (level, kind, size) in enumerate([(1, "Data", "48K"), (1, "Instruction", "32K"), (2, "Unified", "2M")]):
        (tmp_path / f"index{index}").mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (tmp_path / f"index{index}" / name).write_text(f"{text}\n")
    assert processor.caches.__wrapped__() == (48 * KIB, 2048 * KIB, 0)


@pytest.mark.one_in(12)
def test_no_bit_depends_on_the_record() -> None:
    here, source, session = build.host_platform(), SourceFile("m.tess", PROGRAM), Session()
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape).astype(np.float32) for shape in ((37, 1100), (1100, 50))]
    records = [
        here.schedule,
        replace(here.schedule, near_bytes=4 * KIB, second_bytes=64 * KIB, panel_bytes=256, cores=64),
        replace(here.schedule, near_bytes=512 * KIB, panel_bytes=4096, cores=1, flops_per_byte=64, columns=8),
    ]
    found = set()
    for record in records:
        artifact = session.artifact(source, session.function(source, "f"), replace(here, schedule=record))
        found.add(np.asarray(CompiledFunction(artifact)(*args)).tobytes())
    assert len(found) == 1


def test_panels_are_lower_where_the_first_cache_is_small() -> None:
    """A panel of f32 is at most two thirds of it: 256 terms of 32 columns need 48 KiB, those of 12 rows less."""
    code = Code("t", "c", "", ())
    found = {size: as_found(X86_64_V4, code, 2, (size * KIB, 0, 0)) for size in (0, 32, 48, 64)}
    assert {size: record.panel_bytes for size, record in found.items()} == {0: 1024, 32: 512, 48: 1024, 64: 1024}
    assert {size: record.left_panel_bytes for size, record in found.items()} == dict.fromkeys(found, 1024)
    other = as_found(X86_64_V3, code, 2, (32 * KIB, 0, 0))  # of which left panels pass
    assert (other.panel_bytes, other.left_panel_bytes) == (X86_64_V3.panel_bytes, 0)


def test_what_is_found_stands_in_the_place_of_what_is_described() -> None:
    found = as_found(AARCH64, Code("t", "c", "", ()), 7, (0, 2048 * KIB, 0))
    assert (found.cores, found.near_bytes, found.second_bytes) == (7, AARCH64.near_bytes, 2048 * KIB)
    assert found.arch == AARCH64.arch and found.code.cpu == "c"
