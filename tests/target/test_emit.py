"""The writer of LLVM text: what it writes parses, runs, and means what the calls said."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable

import llvmlite.binding as llvm
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tesserac.target.compile import (
    AARCH64,
    X86_64_V3,
    CodegenError,
    data_layout,
    emit_assembly,
    emit_object,
    host_machine,
    parse,
)
from tesserac.target.cpu.host.launches import in_turns
from tesserac.target.dims import emit_dim
from tesserac.target.emit import Function, Module
from tesserac.target.flow import choose, do_while, for_loop, if_return, if_then, switch
from tesserac.target.llvm_types import (
    BF16,
    F16,
    F32,
    F64,
    I1,
    I32,
    I64,
    PTR,
    VOID,
    LType,
    Value,
    const_float,
    const_i64,
    const_int,
    float_text,
    pointer,
    undefined,
    vector,
    zero,
)
from tesserac.types.dims import Dim
from tests.support.sampling import examples

_engines: list[object] = []


def jit(module: Module, name: str, result: object, *parameters: object) -> Callable[..., object]:
    machine = host_machine()
    target = llvm.Target.from_triple(machine.triple).create_target_machine(cpu=machine.cpu, opt=0)
    engine = llvm.create_mcjit_compiler(parse(str(module)), target)
    engine.finalize_object()
    _engines.append(engine)
    return ctypes.CFUNCTYPE(result, *parameters)(engine.get_function_address(name))


def integers(build: Callable[[Function], Value], count: int) -> Callable[..., int]:
    """A function of `count` i64 that returns what `build` makes."""
    module = Module("test")
    f = module.function("f", I64, [I64] * count)
    f.builder.ret(build(f))
    return jit(module, "f", ctypes.c_int64, *[ctypes.c_int64] * count)


@given(st.floats(width=32), st.floats())
@examples(60)
def test_float_constants_are_exact(single: float, double: float) -> None:
    assert int(float_text(F32, single), 16) == int.from_bytes(struct.pack(">d", _quiet(single)), "big")
    assert int(float_text(F64, double), 16) == int.from_bytes(struct.pack(">d", _quiet(double)), "big")


def _quiet(x: float) -> float:
    return math.nan if math.isnan(x) else x


def test_narrow_constants_round_through_memory() -> None:
    module = Module("test")
    f = module.function("f", VOID, [PTR])
    for i, (type_, number) in enumerate([(F16, -1.5), (BF16, 3.0), (F16, math.inf), (BF16, math.nan)]):
        f.builder.store(const_float(type_, number), f.builder.gep(LType("i16", "i16"), f.args[0], i), 2)
    f.builder.ret()
    memory = (ctypes.c_uint16 * 4)()
    jit(module, "f", None, ctypes.c_void_p)(ctypes.addressof(memory))
    assert list(memory) == [0xBE00, 0x4040, 0x7C00, 0x7FC0]


@given(st.integers(-20, 20), st.integers(-20, 20))
@examples(30)
def test_loops_run_as_ranges_do(low: int, high: int) -> None:
    for step, run in _LOOPS.items():
        assert run(low, high) == sum(i * i for i in range(low, high, step))


def _sum_of_squares(step: int) -> Callable[..., int]:
    def build(f: Function) -> Value:
        b = f.builder

        def body(i: Value, held: list[Value]) -> list[Value]:
            return [b.add(held[0], b.mul(i, i))]

        (total,) = for_loop(b, f.args[0], f.args[1], const_i64(step), [const_i64(0)], body)
        return total

    return integers(build, 2)


_LOOPS = {step: _sum_of_squares(step) for step in (1, 3)}


def test_loops_are_tested_at_the_bottom() -> None:
    module = Module("test")
    f = module.function("f", VOID, [I64])
    for_loop(f.builder, const_i64(0), f.args[0], const_i64(1), [], lambda i, held: [])
    f.builder.ret()
    text = str(module)
    body = text[text.index("loop1:") : text.index("done2:")]
    assert body.count("br ") == 1 and "br i1" in body and "!llvm.loop" in body


def test_choose_do_while_and_switch() -> None:
    def collatz(f: Function) -> Value:
        b = f.builder

        def step(state: list[Value]) -> tuple[Value, list[Value]]:
            n, count = state
            odd = b.cast("trunc", n, I1)
            (n,) = choose(
                b,
                odd,
                lambda: [b.add(b.mul(n, const_i64(3)), const_i64(1))],
                lambda: [b.binary("lshr", n, const_i64(1))],
            )
            return b.icmp("ne", n, const_i64(1)), [n, b.add(count, const_i64(1))]

        if_return(b, b.icmp("sle", f.args[0], const_i64(1)), lambda: b.ret(const_i64(0)))
        return do_while(b, [f.args[0], const_i64(0)], step)[1]

    run = integers(collatz, 1)
    assert [run(n) for n in (1, 2, 3, 6, 27)] == [0, 1, 7, 8, 111]

    def pick(f: Function) -> Value:
        b = f.builder
        slot = b.alloca(I64, 8)
        b.store(const_i64(-1), slot, 8)
        switch(b, f.args[0], [lambda n=n: b.store(const_i64(n), slot, 8) for n in (10, 20, 30)])
        if_then(b, b.icmp("sgt", f.args[0], const_i64(99)), lambda: b.store(const_i64(99), slot, 8))
        return b.load(I64, slot, 8)

    run = integers(pick, 1)
    assert [run(n) for n in (0, 1, 2, 3, 100)] == [10, 20, 30, -1, 99]


def test_vectors() -> None:
    module = Module("test")
    f = module.function("f", F32, [F32])
    b, v4 = f.builder, vector(F32, 4)
    x = b.insert(b.splat(f.args[0], 4), const_float(F32, 5.0), 2)
    x = b.fma(x, const_float(v4, 2.0), b.splat(const_float(F32, 1.0), 4))
    x = b.shuffle(x, undefined(v4), [2, 2, 1, 0])
    b.ret(b.fadd(b.extract(x, 0), b.extract(x, 3)))
    assert jit(module, "f", ctypes.c_float, ctypes.c_float)(3.0) == 11.0 + 7.0


def test_atomics_and_calls_through_pointers() -> None:
    module = Module("test")
    helper = module.function("helper", I64, [I64], linkage="internal")
    helper.builder.ret(helper.builder.add(helper.args[0], const_i64(1)))
    f = module.function("f", I64, [PTR])
    b = f.builder
    before = b.atomic_rmw("add", f.args[0], const_i64(5), "acq_rel")
    old, swapped = b.compare_exchange(f.args[0], const_i64(12), const_i64(40), "acq_rel")
    now = b.load_atomic(I64, f.args[0], "acquire")
    total = b.add(b.add(before, old), b.add(now, b.cast("zext", swapped, I64)))
    b.ret(b.call(helper.pointer, [b.call(helper, [total])], I64))
    memory = ctypes.c_int64(7)
    assert jit(module, "f", ctypes.c_int64, ctypes.c_void_p)(ctypes.addressof(memory)) == 7 + 12 + 40 + 1 + 2
    assert memory.value == 40


def test_globals_metadata_and_address_spaces() -> None:
    module = Module("test")
    table = module.bytes_constant("table", b'a"\\\0')
    module.variable("shared", LType("[16 x float]", ""), "undef", space=3, linkage="internal", align=16)
    node = module.metadata('!{!"note", i32 1}')
    module.named_metadata("notes", node)
    f = module.function("f", I32, [pointer(3)], attributes=("nounwind", '"target-cpu"="generic"'))
    b = f.builder
    b.store(zero(F32), f.args[0], 4)
    b.ret(b.cast("zext", b.load(LType("i8", "i8"), b.gep(LType("i8", "i8"), table, 1), 1), I32))
    text = str(parse(str(module)))
    assert 'c"a\\22' in text and "addrspace(3)" in text and "!notes" in text


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 9))
@examples(40)
def test_dims_as_code(n: int, m: int, h: int) -> None:
    values = {"N": n * h, "M": m, "H": h}
    for dim, run in _DIM_FUNCTIONS:
        assert run(*values.values()) == dim.evaluate(values), dim


def _dims() -> list[Dim]:
    n, m, h = (Dim.sym(name) for name in "NMH")
    half = (n * (m * 2 + 4)).exact_div(2)
    return [
        n * m + 3,
        n.exact_div(h) * m,
        half,
        n.ceil_div(64) * 64,
        (n - m).floor_div(7),
        (n - m).mod(8) + (m - n).mod(5),
        n.min(m).max(4) - h,
        n.exact_div(h) + m.floor_div(h),
    ]


def _dim_function(dim: Dim) -> Callable[..., int]:
    return integers(lambda f: emit_dim(f.builder, dim, dict(zip("NMH", f.args, strict=True))), 3)


_DIM_FUNCTIONS = [(dim, _dim_function(dim)) for dim in _dims()]


def test_type_errors_are_found_while_writing() -> None:
    f = Module("test").function("f", VOID, [I64, I32])
    with pytest.raises(TypeError):
        f.builder.add(*f.args)
    with pytest.raises(TypeError):
        f.module.declare("g", VOID, [I64])
        f.module.declare("g", VOID, [I32])


def test_a_call_is_of_its_callees_type() -> None:
    """LLVM takes any, for pointers have no types: a host program whose launches lacked a parameter crashed."""
    module = Module("test")
    callee = module.function("callee", VOID, [I64, I1])
    callee.builder.ret()
    b = module.function("caller", VOID, [I64]).builder
    with pytest.raises(TypeError, match=r"callee takes \(i64, i1\), and is called with \(i64\)"):
        b.call(callee, [const_i64(1)])


def test_text_that_llvm_cannot_take_is_refused() -> None:
    with pytest.raises(CodegenError):
        parse("define void @f() { ret i32 0 }")
    module = Module("test")
    f = module.function("f", VOID, [])
    f.builder.intrinsic("llvm.matrix.multiply", F32, [])
    f.builder.ret()
    with pytest.raises(CodegenError):
        emit_object(str(module), host_machine())


@pytest.mark.parametrize(("machine", "instruction"), [(X86_64_V3, "vfmadd"), (AARCH64, "fmla")])
def test_cross_emission(machine: object, instruction: str) -> None:
    module = Module("test", machine.triple, data_layout(machine))
    f = module.function("f", VOID, [PTR])
    b, lanes = f.builder, vector(F32, 4)
    x = b.load(lanes, f.args[0], 4)
    b.store(b.fma(x, x, x), f.args[0], 4)
    b.ret()
    assert instruction in emit_assembly(str(module), machine)
    assert emit_object(str(module), machine).startswith(b"\x7fELF")


def test_constants_fold_while_indices_are_written() -> None:
    f = Module("test").function("f", VOID, [I64])
    b = f.builder
    assert b.add(b.mul(const_i64(6), const_i64(7)), const_i64(0)).number == 42
    assert b.mul(f.args[0], const_i64(1)) == f.args[0] and b.add(const_i64(0), f.args[0]) == f.args[0]
    assert const_int(I32, 2**31).number == -(2**31) and f.lines == []


def test_a_block_has_one_instruction_of_a_kind() -> None:
    f = Module("m").function("f", I64, [I64, I64, PTR])
    b, (x, y, place) = f.builder, f.args
    assert b.mul(x, y) is b.mul(x, y)
    assert b.gep(I64, place, x) is b.gep(I64, place, x)
    assert b.load(I64, place, 8) is not b.load(I64, place, 8), "memory may have changed"
    before = b.add(x, y)
    if_then(b, b.icmp("eq", x, y), lambda: b.store(b.add(x, y), place, 8))
    assert b.add(x, y) is not before, "another block"
    b.ret(b.add(x, y))
    assert str(f).count("add i64") == 3


@pytest.mark.parametrize("op", ["add", "sub", "mul", "and", "or", "xor"])
def test_constants_fold_as_llvm_computes(op: str) -> None:
    for left, right in ((6030052921699716445, 4294967295), (-5, 3), (1 << 62, 1 << 62)):
        f = Module("m").function("f", I64, [])
        folded = f.builder.binary(op, const_int(I64, left), const_int(I64, right))
        f.builder.ret(folded)
        expected = {"add": left + right, "sub": left - right, "mul": left * right}.get(op)
        if expected is None:
            expected = {"and": left & right, "or": left | right, "xor": left ^ right}[op]
        assert folded.number is not None and (folded.number - expected) % (1 << 64) == 0
        assert "=" not in str(f)


def test_functions_that_say_the_same_have_one_code_and_all_names() -> None:
    m = Module("m")
    for name, number in (("one", 1), ("again", 1), ("two", 2)):
        f = m.function(name, I64, [I64])
        f.builder.ret(f.builder.add(f.args[0], const_int(I64, number)))
    m.merge_equal()
    assert str(m).count("define") == 2 and "@again = alias i64 (i64), ptr @one" in str(m)
    assert parse(str(m)).get_function("two") is not None


@pytest.mark.parametrize(
    ("threads", "units", "laid_out", "blocks"),
    [(16, 256, False, 64), (16, 256, True, 64), (16, 64, True, 22), (16, 20, True, 16), (16, 20, False, 64),
     (8, 256, True, 8)],
)  # fmt: skip
def test_many_threads_have_several_blocks_that_are_high_enough(
    threads: int, units: int, laid_out: bool, blocks: int
) -> None:
    def build(f: Function) -> Value:
        return in_turns(f.builder, f.args[0], 4, 9, f.args[1], laid_out=laid_out)

    assert integers(build, 2)(threads, units) == blocks
