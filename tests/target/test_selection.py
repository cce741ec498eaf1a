"""The closed list of instructions for GPUs: LLVM takes all of it, and nothing else comes through."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tesserac.target.compile import CodegenError
from tesserac.target.nvptx import selection, worker
from tesserac.target.nvptx.build import PLATFORMS
from tesserac.target.nvptx.ptx import assemble, emit_ptx, find_ptxas

FLOAT_CODES = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}
PREDICATES = {"icmp": "slt", "fcmp": "olt"}
RESULTS = {"zext": "i64", "sext": "i64", "trunc": "i1", "sitofp": "float", "uitofp": "double", "fpext": "double"}
TWO = ("copysign", "minimum", "maximum", "minnum", "maxnum", "smin", "smax", "umin", "umax")
VECTORS = {"<2 x half>": "i32", "<2 x bfloat>": "i32"}
BITS = {"i16": "half", "i32": "float", "i64": "double", "half": "i16", "bfloat": "i16", "float": "i32", "double": "i64"}
BITS |= VECTORS


def instruction(opcode: str, ty: str) -> tuple[str, str]:
    """A line that computes %r from %x and %y of a type, and the type of %r."""
    if opcode in PREDICATES:
        return f"%r = {opcode} {PREDICATES[opcode]} {ty} %x, %y", "i1"
    if opcode == "atomicrmw":
        return "%r = atomicrmw add ptr addrspace(1) %p, i32 1 monotonic", "i32"
    if opcode == "fneg":
        return f"%r = fneg {ty} %x", ty
    if opcode == "bitcast":
        return f"%r = bitcast {ty} %x to {BITS[ty]}", BITS[ty]
    if opcode == "fptrunc" and ty.startswith("<"):
        return f"%r = fptrunc {ty} %x to <2 x bfloat>", "<2 x bfloat>"
    if opcode == "fptrunc":
        return f"%r = fptrunc {ty} %x to bfloat", "bfloat"
    if opcode in RESULTS:
        to = "i64" if opcode in ("zext", "sext") and ty == "i32" else RESULTS[opcode]
        return (f"%r = {opcode} {ty} %x to {to}", to) if ty != to else ("%r = add i64 %x, %y", ty)
    return f"%r = {opcode} {ty} %x, %y", ty


def intrinsic(name: str, form: str) -> tuple[str, str, str, str]:
    """A call of an intrinsic, the type of its operands and result, and its declaration."""
    to, _, source = form.partition(".")
    result = FLOAT_CODES.get(to, to)
    ty = FLOAT_CODES.get(source, result)
    count = 3 if name == "fma" else 2 if name in TWO else 1
    arguments = [f"{ty} %{letter}" for letter in "xyx"[:count]]
    kinds = [ty] * count
    if name in ("cttz", "ctlz", "abs"):
        arguments, kinds = [*arguments, "i1 0"], [*kinds, "i1"]
    full = f"llvm.{name}.{form}"
    declared = f"declare {result} @{full}({', '.join(kinds)})"
    return f"%r = call {result} @{full}({', '.join(arguments)})", ty, result, declared


def function(number: int, line: str, ty: str, result: str) -> str:
    store, kept = (line, "%r") if result != "i1" else (f"{line}\n  %w = zext i1 %r to i8", "%w")
    width = "i8" if result == "i1" else result
    loaded = [f"  %{v} = load {ty}, ptr addrspace(1) %{p}, align 1" for v, p in (("x", "p"), ("y", "q"))]
    if ty == "i1":
        loaded = [
            f"  %b{v} = load i8, ptr addrspace(1) %{p}, align 1\n  %{v} = trunc i8 %b{v} to i1"
            for v, p in (("x", "p"), ("y", "q"))
        ]
    body = [*loaded, f"  {store}", f"  store {width} {kept}, ptr addrspace(1) %p, align 1", "  ret void"]
    pointers = "ptr addrspace(1) %p, ptr addrspace(1) %q"
    return f"define ptx_kernel void @k{number}({pointers}) {{\n" + "\n".join(body) + "\n}\n"


def whole_list() -> str:
    """A module with a kernel for every entry."""
    lines, declared = [], []
    for opcode, types in selection.INSTRUCTIONS.items():
        lines += [(*instruction(opcode, ty)[:1], ty, instruction(opcode, ty)[1]) for ty in types]
    for name, forms in selection.INTRINSICS.items():
        for form in forms:
            line, ty, result, declaration = intrinsic(name, form)
            lines.append((line, ty, result))
            declared.append(declaration)
    kernels = [function(i, line, ty, result) for i, (line, ty, result) in enumerate(lines)]
    return 'target triple = "nvptx64-nvidia-cuda"\n' + "\n".join([*declared, *kernels])


@pytest.mark.one_in(16)
@pytest.mark.parametrize("arch", PLATFORMS)
def test_the_code_generator_takes_the_whole_list(arch: str) -> None:
    """In a process of its own: where one entry is wrong, that ends."""
    ptx = worker.emit_ptx_apart(whole_list(), arch)
    assert ptx.count(".entry") == whole_list().count("define")
    if find_ptxas() is not None:
        assert assemble(ptx, arch).cubin


@pytest.mark.parametrize(
    "line",
    [
        "%r = call float @llvm.sin.f32(float %x)",
        "%r = call double @llvm.minimum.f64(double %x, double %y)",
        "%r = frem float %x, %y",
        "%r = fadd half %x, %y",
        "%r = add i128 %x, %y",
        "%r = add <2 x i64> %x, %y",
        "%r = tail call float @llvm.fabs.f32(float %x)",
        "%r = call float @f(float %x)",
        "  call void @llvm.nvvm.exit()",
    ],
)
def test_nothing_else_comes_through(line: str) -> None:
    text = f"define void @k() {{\n{line}\n  ret void\n}}\n"
    with pytest.raises(selection.NotSelectableError):
        emit_ptx(text, "sm_80")


@pytest.mark.one_in(6)
def test_a_process_that_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM ends its process on a sine; the next request is answered by another."""
    stub = "import sys; print('LLVM ERROR: Cannot select: fsin', file=sys.stderr); sys.exit(3)"
    ending = worker._Worker()
    real = subprocess.Popen
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", lambda command, **rest: real([sys.executable, "-c", stub], **rest))
        with pytest.raises(CodegenError, match="Cannot select: fsin"):
            ending.ask("text", "sm_80")
    assert ".entry" in ending.ask(whole_list(), "sm_80")
    ending.stop()
