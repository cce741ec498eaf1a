"""Host programs as machine code: control flow over launches, guards, extents, agreement with the runtime's sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera import TesseraError
from tessera.function import CompiledFunction
from tessera.sizes import SizeError, evaluate
from tesserac.target.llvm_types import F32, I8, const_float, const_i64
from tesserac.target.sizes import Equation, UnboundSymbolError, implied_guards, size_of, solve_symbols, split_fraction
from tesserac.types.dims import ONE, ZERO, Dim, DimError, parse_dim
from tests.support.native_support import Code, Kernel, build
from tests.support.sampling import examples

f4 = np.float32

STEP = """
cpu.kernel @{name} {{grid = [`1`], scratch = `0`, symbols = [{symbols}], target = "neon"}} {{
  ^(%p: index, %x: memref<[N], f32, global>):
    cpu.return()
}}
"""


def host(body: str, *kernels: str, symbols: str = '"N"') -> str:
    """A function of `x` with one result `z`, which each kernel changes in its own way."""
    return f"""
schedule.func @f {{params = ["x"]}} {{
  ^(%x: memref<[N], f32, global>):
    %z = schedule.buffer() {{role = "output", slot = 0}} : memref<[N], f32, global>
    tile.launch(%z) {{kernel = "clear"}}
    {body}
    schedule.return(%z)
}}
{STEP.format(name="clear", symbols='"N"')}
{"".join(STEP.format(name=k, symbols=symbols) for k in kernels)}
"""


def fill(value: float) -> Code:
    def code(k: Kernel) -> None:
        k.each(const_i64(0), k.sizes["N"], lambda i: k.store(const_float(F32, value), k.memory[0], i))

    return code


def increase(k: Kernel) -> None:
    one = const_float(F32, 1.0)
    k.each(const_i64(0), k.sizes["N"], lambda i: k.store(k.b.fadd(k.load(k.memory[0], i), one), k.memory[0], i))


def test_select_takes_the_first_predicate_that_holds() -> None:
    text = host(
        """schedule.select() {predicates = [#predicate<kind="at_least", left=`N`, right=`10`>,
                                            #predicate<kind="divides", left=`2`, right=`N`>]} {
      ^(): tile.launch(%z) {kernel = "one"}
           schedule.end()
    } {
      ^(): tile.launch(%z) {kernel = "two"}
           schedule.end()
    } {
      ^(): tile.launch(%z) {kernel = "three"}
           schedule.end()
    }""",
        "one", "two", "three",
    )  # fmt: skip
    codes: dict[str, Code] = {"clear": fill(0.0), "one": fill(1.0), "two": fill(2.0), "three": fill(3.0)}
    function = CompiledFunction(build(text, codes)).fast
    for size, value in ((10, 1), (11, 1), (8, 2), (9, 3), (0, 2)):
        np.testing.assert_array_equal(function(np.zeros(size, f4)), np.full(size, value, f4))


def test_loops_count_and_give_their_counter() -> None:
    text = host(
        """%low = index.dim() {dim = `1`} : index
    %n = index.dim() {dim = `N`} : index
    %high = index.add(%n, %low) : index
    schedule.loop(%low, %high) {counter = "I"} {
      ^(%i: index):
        tile.launch(%z) {kernel = "step"}
        schedule.end()
    }""",
        "step",
        symbols='"I", "N"',
    )

    def step(k: Kernel) -> None:
        """Adds the counter to every element."""
        count = k.b.cast("sitofp", k.sizes["I"], F32)
        k.each(const_i64(0), k.sizes["N"], lambda i: k.store(k.b.fadd(k.load(k.memory[0], i), count), k.memory[0], i))

    function = CompiledFunction(build(text, {"clear": fill(0.0), "step": step})).fast
    for size in (0, 1, 4, 9):
        np.testing.assert_array_equal(function(np.zeros(size, f4)), np.full(size, size * (size + 1) / 2, f4))


FLAGGED = """
schedule.func @f {params = ["x"]} {
  ^(%x: memref<[N], f32, global>):
    %flag = schedule.buffer() {role = "workspace", slot = 0} : memref<[], bool, global>
    %z = schedule.buffer() {role = "output", slot = 0} : memref<[N], f32, global>
    tile.launch(%z) {kernel = "clear"}
    BODY
    schedule.return(%z)
}
cpu.kernel @clear {grid = [`1`], scratch = `0`, symbols = ["N"], target = "neon"} {
  ^(%p: index, %z: memref<[N], f32, global>):
    cpu.return()
}
cpu.kernel @step {grid = [`1`], scratch = `0`, symbols = ["N"], target = "neon"} {
  ^(%p: index, %z: memref<[N], f32, global>):
    cpu.return()
}
cpu.kernel @test {grid = [`1`], scratch = `0`, symbols = ["N"], target = "neon"} {
  ^(%p: index, %z: memref<[N], f32, global>, %x: memref<[N], f32, global>, %flag: memref<[], bool, global>):
    cpu.return()
}
"""


def below(k: Kernel) -> None:
    """flag = z[0] < x[0]"""
    z, x, flag = k.memory
    less = k.b.fcmp("olt", k.load(z, const_i64(0)), k.load(x, const_i64(0)))
    k.b.store(k.b.cast("zext", less, I8), flag, 1)


def flagged(body: str) -> CompiledFunction:
    codes: dict[str, Code] = {"clear": fill(0.0), "step": increase, "test": below}
    return CompiledFunction(build(FLAGGED.replace("BODY", body), codes))


def test_while_runs_as_long_as_its_test_says() -> None:
    function = flagged("""schedule.while() {
      ^(): tile.launch(%z, %x, %flag) {kernel = "test"}
           schedule.test(%flag)
    } {
      ^(): tile.launch(%z) {kernel = "step"}
           schedule.end()
    }""").fast
    for bound, steps in ((-1.0, 0), (0.5, 1), (5.0, 5)):
        np.testing.assert_array_equal(function(np.full(3, bound, f4)), np.full(3, steps, f4))


def test_cond_reads_its_flag() -> None:
    function = flagged("""tile.launch(%z, %x, %flag) {kernel = "test"}
    schedule.cond(%flag) {
      ^(): tile.launch(%z) {kernel = "step"}
           tile.launch(%z) {kernel = "step"}
           schedule.end()
    } {
      ^(): tile.launch(%z) {kernel = "step"}
           schedule.end()
    }""").fast
    np.testing.assert_array_equal(function(np.ones(2, f4)), [2, 2])
    np.testing.assert_array_equal(function(np.zeros(2, f4)), [1, 1])


OUTER = """
schedule.func @f {params = ["x", "y"]} {
  ^(%x: memref<[N, 0], f32, global>, %y: memref<[M, 0], f32, global>):
    %a = schedule.buffer() {role = "workspace", slot = 0} : memref<[N, M], f32, global>
    %z = schedule.buffer() {role = "output", slot = 0} : memref<[], f32, global>
    tile.launch(%a, %z) {kernel = "k"}
    schedule.return(%z)
}
cpu.kernel @k {grid = [`N`, `M`], scratch = `0`, symbols = ["M", "N"], target = "neon"} {
  ^(%p: index, %q: index, %a: memref<[N, M], f32, global>, %z: memref<[], f32, global>):
    cpu.return()
}
"""


def test_products_that_do_not_fit_are_refused() -> None:
    """2^40 * 2^40 elements wrap to none in 64 bits; nothing may be allocated or run by that number."""
    function = CompiledFunction(build(OUTER, {"k": lambda k: None})).fast
    many = np.zeros((1 << 40, 0), f4)
    with pytest.raises(TesseraError, match="E0949"):
        function(many, many)
    function(np.zeros((3, 0), f4), np.zeros((4, 0), f4))


# --- sizes -----------------------------------------------------------------------------------------------------------

SYMBOLS = ("A", "B", "C")


@st.composite
def dims(draw: st.DrawFn, depth: int = 3) -> Dim:
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([Dim.sym(s) for s in SYMBOLS] + [Dim.const(i) for i in (0, 1, 2, 7, -3)]))
    left, right = draw(dims(depth - 1)), draw(dims(depth - 1))
    operation = draw(st.sampled_from(["add", "sub", "mul", "exact_div", "floor_div", "ceil_div", "mod", "min", "max"]))
    try:
        return {
            "add": Dim.__add__, "sub": Dim.__sub__, "mul": Dim.__mul__, "exact_div": Dim.exact_div,
            "floor_div": Dim.floor_div, "ceil_div": Dim.ceil_div, "mod": Dim.mod, "min": Dim.min, "max": Dim.max,
        }[operation](left, right)  # fmt: skip
    except DimError:
        return left


values = st.fixed_dictionaries({s: st.integers(0, 20) for s in SYMBOLS})


@pytest.mark.one_in(2)
@examples(120)
@given(dims(), values)
def test_the_runtime_evaluates_as_the_compiler_does(dim: Dim, symbols: dict[str, int]) -> None:
    try:
        expected = dim.evaluate(symbols)
        result = evaluate(size_of(dim).tree, symbols)
    except (DimError, SizeError):
        return  # the runtime refuses divisions by what is not positive; the compiler's sizes never are
    assert result == expected


@examples(120)
@given(dims(), values)
def test_guards_imply_a_value(dim: Dim, symbols: dict[str, int]) -> None:
    """Where every implied guard holds, in order, the size has a whole value."""
    for guard in implied_guards([dim]):
        left, right = guard.left.evaluate(symbols), guard.right.evaluate(symbols)
        holds = left >= right if guard.kind == "at_least" else left != 0 and right % left == 0
        if not holds:
            return
    assert isinstance(dim.evaluate(symbols), int)


@examples(100)
@given(dims())
def test_a_fraction_is_split_exactly(dim: Dim) -> None:
    numerator, denominator = split_fraction(dim)
    assert numerator.exact_div(denominator) == dim
    for part in (numerator, denominator):
        assert all(c.denominator == 1 and all(e > 0 for _, e in m) for m, c in part.terms)


def test_bare_symbols_are_bound_before_expressions() -> None:
    shapes = [[parse_dim("2*N + M")], [parse_dim("M")], [parse_dim("N/2")]]
    first, second = solve_symbols(shapes)
    assert first == Equation("M", 1, 0, ONE, ONE, ZERO)
    assert second == Equation("N", 0, 0, ONE, Dim.const(2), Dim.sym("M"))


def test_a_quotient_is_solved_by_multiplying() -> None:
    (_, equation) = solve_symbols([[parse_dim("D/h"), parse_dim("h")]])
    assert equation == Equation("D", 0, 0, Dim.sym("h"), ONE, ZERO)


@pytest.mark.parametrize("text", ["B*H", "N*N", "N % 4", "max(N, 4)"])
def test_what_cannot_be_solved_is_a_fault(text: str) -> None:
    with pytest.raises(UnboundSymbolError):
        solve_symbols([[parse_dim(text)]])
