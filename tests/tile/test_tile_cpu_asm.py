"""The instructions of the hot loops, on both processors, whichever of them runs the tests."""

from __future__ import annotations

import re

import pytest

from tesserac.target.compile import AARCH64, X86_64_V3, X86_64_V4, Machine, emit_assembly, emit_object
from tesserac.tile.cpu.target import AVX2, AVX512, NEON, CpuTarget
from tests.support.cpu_kernels import llvm_text, lowered
from tests.support.cpu_texts import DOTS, TEXTS
from tests.support.paths import CASES as PROGRAMS

CASES = PROGRAMS / "tile"
BOTH = [pytest.param(NEON, AARCH64, id="aarch64"), pytest.param(AVX2, X86_64_V3, id="x86-64-v3")]

ARITHMETIC = ("fmul", "fadd", "fsub", "fdiv", "fml", "fnml", "vmul", "vadd", "vsub", "vdiv", "vfm", "vfnm")


def assembly(name: str, target: CpuTarget, machine: Machine) -> str:
    return assembly_of((CASES / f"{name}.tile").read_text(), target, machine)


def assembly_of(text: str, target: CpuTarget, machine: Machine) -> str:
    """Micro-kernels of products are common code, which LLVM schedules."""
    return emit_assembly(llvm_text(lowered(text, target)), machine, scheduled="tile.dot" in text)


def loops(text: str) -> list[list[str]]:
    """Blocks that end in a branch to their own start: the instructions of each, without labels."""
    found, label, body = [], "", list[str]()
    for line in text.splitlines():
        start = re.match(r"(\.LBB\w+):", line)
        if start:
            label, body = start[1], []
        elif line.startswith("\t") and not line.startswith("\t."):
            body.append(line.strip())
            if label and label in line:
                found.append(body)
                body = []
    return found


def straight_lines(text: str) -> list[list[str]]:
    """The instructions between labels and branches."""
    found = [list[str]()]
    for line in text.splitlines():
        if line.startswith("\t") and not line.startswith("\t."):
            found[-1].append(line.strip())
        if re.match(r"[.\w]+:|\t(b|b\.\w+|cbn?z|tbn?z|j\w+)\s", line):
            found.append([])
    return found


def hottest(text: str, instruction: str) -> list[str]:
    return max(loops(text), key=lambda body: sum(instruction in line for line in body))


def names(body: list[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for line in filter(str.strip, body):
        name = line.split()[0]
        counts[name] = counts.get(name, 0) + 1
    return counts


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_micro_kernel_on_arm_is_loads_and_fma_by_element(kind: str) -> None:
    body = hottest(assembly(f"matmul_{kind}_cpu", NEON, AARCH64), "fmla")
    assert set(names(body)) <= {"ldp", "ldr", "fmla", "add", "cmp", "subs", "b.lt", "b.ne"}
    fma = [line for line in body if line.startswith("fmla")]
    assert len(fma) == 4 * 24 and all(re.search(r"\.s\[\d\]", line) for line in fma)
    assert not any("sp" in line for line in body)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("target", "machine", "register"),
    [
        pytest.param(AVX2, X86_64_V3, "%ymm", id="avx2"),
        pytest.param(AVX512, X86_64_V4, "%zmm", id="avx512"),
    ],
)
def test_micro_kernel_on_x86_has_no_spills_and_no_moves(
    kind: str, target: CpuTarget, machine: Machine, register: str
) -> None:
    body = hottest(assembly(f"matmul_{kind}_cpu", target, machine), "vfmadd")
    fma = [line for line in body if line.startswith("vfmadd")]
    assert len(fma) == 4 * target.micro_rows * target.micro_vectors and all(register in line for line in fma)
    spread = names(body).get("vbroadcastss", 0) + sum("{1to16}" in line for line in fma)
    assert spread >= 4 * target.micro_rows
    moves = [line for line in body if line.startswith(("vmovaps", "vmovups"))]
    assert all("(" in line for line in moves) and not any("%rsp" in line for line in body)


@pytest.mark.parametrize(("target", "machine"), BOTH)
def test_vector_add_streams_whole_vectors(target: CpuTarget, machine: Machine) -> None:
    add = "fadd" if target is NEON else "vaddps"
    body = hottest(assembly("vadd", target, machine), add)
    register = r"v\d+\.4s" if target is NEON else "%ymm"
    vectors = [line for line in body if line.startswith(add) and re.search(register, line)]
    assert len(vectors) == 4 and len(body) <= 20


@pytest.mark.parametrize(("target", "machine"), BOTH)
def test_nothing_is_contracted_and_no_zero_is_dropped(target: CpuTarget, machine: Machine) -> None:
    """(x * y + y) + 0.0 stays a product and two sums."""
    steps = """%m = scalar.mul(%l, %r) : scalar<f32>
        %a = scalar.add(%m, %r) : scalar<f32>
        %o = scalar.constant() {value = 0.0} : scalar<f32>
        %s = scalar.add(%a, %o) : scalar<f32>"""
    text = (CASES / "vadd.tile").read_text().replace("%s = scalar.add(%l, %r) : scalar<f32>", steps)
    counts = names(assembly_of(text, target, machine).split("\n"))
    multiply, add = ("fmul", "fadd") if target is NEON else ("vmulps", "vaddps")
    assert counts[multiply] >= 4 and counts[add] == 2 * counts[multiply]
    assert not any(name.startswith(("fmla", "fmadd", "vfma")) for name in counts)


@pytest.mark.parametrize(("target", "machine"), BOTH)
def test_softmax_is_vectorised_and_calls_only_what_is_rare(target: CpuTarget, machine: Machine) -> None:
    """What is called are programs of rare numbers, out of line, which code that computes jumps over, and those of the
    elements that whole groups leave over."""
    text = assembly("softmax", target, machine).partition("\t.size\tsoftmax")[0]
    for block in straight_lines(text):
        called = [line.split()[1] for line in block if re.match(r"(bl|callq?)\s", line)]
        assert all(name.startswith(("rare.", "rest.")) for name in called)
        rare = any(name.startswith("rare.") for name in called)
        assert not (rare and any(line.startswith(ARITHMETIC) for line in block))
    wanted = r"fdiv\s+v\d+\.4s" if target is NEON else r"vdivps.*%ymm"
    assert len(re.findall(wanted, text)) >= 4


@pytest.mark.one_in(16)
@pytest.mark.parametrize(("target", "machine"), BOTH)
@pytest.mark.parametrize("name", [*TEXTS, *DOTS])
def test_every_kernel_compiles_for_both(name: str, target: CpuTarget, machine: Machine) -> None:
    text = llvm_text(lowered({**TEXTS, **DOTS}[name], target))
    assert emit_object(text, machine).startswith(b"\x7fELF")


PARTS = [
    ("exp", {"vscalef"}),
    ("log", {"vgetexp", "vgetmant", "vfixupimm"}),
]


@pytest.mark.parametrize(("kind", "ending"), [("f32", "ps"), ("f64", "pd")])
@pytest.mark.parametrize(("function", "instructions"), PARTS)
def test_a_part_of_a_function_is_one_instruction_where_there_is_one(
    function: str, instructions: set[str], kind: str, ending: str
) -> None:
    """No shifts of exponents are left, and none of what they need of subnormal numbers; other processors shift."""
    both = (CASES / "vadd.tile").read_text().replace("%s = scalar.add(%l, %r)", f"%s = scalar.{function}(%l)")
    text = both.replace("f32", kind)
    llvm = llvm_text(lowered(text, AVX512), triple="x86_64-linux-gnu")
    counts = names(hottest(emit_assembly(llvm, X86_64_V4), f"{min(instructions)}{ending}"))
    assert all(counts[f"{name}{ending}"] == 4 for name in instructions)
    assert not any(name.startswith(("vpsll", "vpsrl")) for name in counts)
    shifting = names(assembly_of(text, AVX2, X86_64_V3).split("\n"))
    assert any(name.startswith(("vpsll", "vpsrl")) for name in shifting)
