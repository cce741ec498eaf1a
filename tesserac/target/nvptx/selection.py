"""The closed list of what LLVM's code generator for GPUs is known to take.

Enters: the LLVM text of a kernel. Leaves: nothing, or a `NotSelectableError` that names the first instruction which is
not on the list. LLVM ends the whole process on what it cannot select, so the text is looked at before. The tests
compile every entry of the list for every architecture.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tesserac.tile.gpu.model.errors import NotSelectableError

WHOLE = ("i1", "i8", "i16", "i32", "i64")
NUMBERS = WHOLE[1:]
DOUBLED = "i128"
"""That of a product of two numbers, of which the high half is taken."""
FLOATS = ("float", "double")
NARROW = ("half", "bfloat")

INSTRUCTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("add", "sub", "shl", "ashr", "sdiv", "udiv", "srem", "urem"), NUMBERS),
    **dict.fromkeys(("mul", "lshr"), (*NUMBERS, DOUBLED)),
    **dict.fromkeys(("and", "or", "xor", "icmp"), WHOLE),
    **dict.fromkeys(("fadd", "fsub", "fdiv", "fneg", "fcmp"), FLOATS),
    "fmul": (*FLOATS, "<2 x bfloat>"),
    **dict.fromkeys(("zext", "sext", "uitofp", "sitofp"), WHOLE),
    "trunc": (*NUMBERS, DOUBLED),
    "atomicrmw": ("ptr",),
    "fpext": ("float", *NARROW),
    "fptrunc": (*FLOATS, "<2 x float>"),
    "bitcast": ("i16", "i32", "i64", *FLOATS, *NARROW, *(f"<2 x {narrow}>" for narrow in NARROW)),
}
"""The types of the first operand of what computes; what moves values takes every type that registers have."""

MOVES = frozenset(
    {"load", "store", "getelementptr", "select", "phi", "alloca", "extractelement", "insertelement", "extractvalue"}
    | {"ptrtoint", "inttoptr", "addrspacecast", "br", "ret", "fence"}
)

INTRINSICS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("sqrt", "copysign", "floor", "ceil", "rint"), ("f32", "f64")),
    "fabs": ("f32", "f64"),
    "fma": ("f16", "bf16", "f32", "f64"),
    **dict.fromkeys(("minimum", "maximum", "minnum", "maxnum"), ("f32",)),
    **dict.fromkeys(("abs", "smin", "smax", "umin", "umax"), NUMBERS),
    **dict.fromkeys(("cttz", "ctlz"), ("i32", "i64")),
    "ctpop": ("i32",),
    **dict.fromkeys(
        ("fptosi.sat", "fptoui.sat"), tuple(f"{whole}.{real}" for whole in NUMBERS for real in ("f32", "f64"))
    ),
}
"""Those of LLVM, each with the types it may have; those of the vendor stand below."""

VENDOR = (
    *("read.ptx.sreg", "shfl.sync.bfly", "vote.any.sync", "vote.ballot.sync", "barrier.cta", "bar.warp.sync"),
    *("barrier.cluster", "setmaxnreg", "shfl.sync.idx", "d2f.rz", "ff2bf16x2.rn"),
    *("ex2.approx.ftz", "rcp.approx.ftz", "cp.async", "mbarrier", "fence", "ldmatrix", "mma"),
)
"""Names behind `llvm.nvvm.`, each with all its forms; they are machine instructions."""

_AROUND = ("define", "declare", "target")
"""What begins a line that is no instruction."""
_LINE = re.compile(r"^[ \t]*(?:%\S+ = )?([a-z]+) (?:[a-z]{2,3} )?(<[^>]*>|[^\s,]+)(.*)$", re.MULTILINE)
"""Opcode, type of the first operand behind the predicate of a comparison, and the rest."""
_CALLED = re.compile(r"@([\w.]+)\(")


def check_selectable(text: str) -> None:
    """Raises where the text has something that is not on the list."""
    for problem in unknown_instructions(text):
        raise NotSelectableError(f"LLVM is not known to take `{problem}` for a GPU")


def unknown_instructions(text: str) -> Iterator[str]:
    for found in _LINE.finditer(text):
        opcode, first, rest = found.groups()
        if opcode == "call":
            yield from _unknown_call(found[0])
        elif opcode not in MOVES and opcode not in _AROUND and first not in INSTRUCTIONS.get(opcode, ()):
            yield f"{opcode} {first} {rest}".strip()


def _unknown_call(line: str) -> Iterator[str]:
    called = _CALLED.search(line)
    if called is None:
        if " asm " not in line:
            yield line.strip()
        return
    name = called[1]
    if name.startswith("llvm.nvvm."):
        if not any(_is_form(name.removeprefix("llvm.nvvm."), known) for known in VENDOR):
            yield name
        return
    forms = (f"llvm.{known}.{types}" for known, each in INTRINSICS.items() for types in each)
    if name not in forms:
        yield name


def _is_form(name: str, known: str) -> bool:
    return name == known or name.startswith(f"{known}.")
