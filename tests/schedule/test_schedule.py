"""What scheduling decides: counts of launches, maps and slots; what it must not do; what primitives refuse."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tesserac.ir.core import Module, Op
from tesserac.ir.parser import parse_module
from tesserac.ir.passes import run_passes
from tesserac.pipeline import schedule_passes
from tesserac.schedule.dialect import KEPT, launch_loops, launch_space
from tesserac.schedule.machine import AARCH64, SM_90A, Machine
from tesserac.schedule.model.legality import IllegalSchedule
from tesserac.schedule.primitives.bind import bind
from tesserac.schedule.primitives.fuse import fuse
from tesserac.schedule.primitives.keep import keep
from tesserac.schedule.primitives.merge import merge
from tesserac.schedule.primitives.split import split
from tesserac.schedule.primitives.stage import stage
from tests.schedule.test_schedule_control import function
from tests.schedule.test_sequential import host
from tests.support.tile_eval import Peak, run_host
from tests.tile.test_tile_build import CASES, check, lower, named, values

F32, BF16 = named("f32"), named("bf16")
NARROW = "bf16 @accum(f32)"


def schedule(text: str, machine: Machine = AARCH64) -> Module:
    return run_passes(parse_module(text), schedule_passes(machine), verify=True)


def launches(module: Module) -> list[Op]:
    """Those of calls in which no operand is frozen."""
    kept = [op for op in module.walk() if op.name == KEPT]
    frozen = {inner for op in kept for region in op.regions[:-1] for each in region.block.ops for inner in each.walk()}
    return [op for op in module.walk() if op.name == "schedule.launch" and op not in frozen]


def kinds(module: Module) -> list[object]:
    return [op.attrs["kind"] for op in launches(module)]


def slots(module: Module) -> int:
    buffers = [op for op in module.walk() if op.name == "schedule.buffer" and op.attrs["role"] == "workspace"]
    return len({op.attrs["slot"] for op in buffers})


def unary(value: str, name: str, result: str, dims: str, element: str = "f32") -> str:
    rank = dims.count(",") + 1 if dims else 0
    return f"""%{result} = form.map(%{value}) {{maps = [{list(range(rank))}]}} : tensor<[{dims}], {element}> {{
          ^(%a{result}: scalar<f32>):
            %b{result} = scalar.{name}(%a{result}) : scalar<f32>
            form.yield(%b{result})
        }}
        """


def binary(left: str, right: str, maps: str, name: str, result: str, dims: str, element: str = "f32") -> str:
    return f"""%{result} = form.map(%{left}, %{right}) {{maps = {maps}}} : tensor<[{dims}], {element}> {{
          ^(%a{result}: scalar<f32>, %b{result}: scalar<f32>):
            %c{result} = scalar.{name}(%a{result}, %b{result}) : scalar<f32>
            form.yield(%c{result})
        }}
        """


def matmul(left: str, right: str, result: str, dims: str, element: str = "f32") -> str:
    attrs = "accum = dtype<f32>, lhs = [0, 2], order = #chain<length=4096>, out = [0, 1], rhs = [2, 1]"
    return f"%{result} = form.contract(%{left}, %{right}) {{{attrs}}} : tensor<[{dims}], {element}>\n"


def total(value: str, result: str, axes: str, dims: str) -> str:
    attrs = f'accum = dtype<f32>, axes = {axes}, kind = "sum", order = #blocks<block=512, lanes=64>'
    return f"%{result} = form.reduce(%{value}) {{{attrs}}} : tensor<[{dims}], f32>\n"


# -- fusion


@pytest.mark.parametrize("length", [1, 3, 40])
def test_a_chain_of_maps_is_one_map_without_workspace(length: int) -> None:
    names = [f"t{i}" for i in range(length)]
    steps = "".join(unary(a, "abs", b, "N") for a, b in zip(["x", *names], names, strict=False))
    text = function("%x: tensor<[N], f32>", f"{steps}func.return(%{names[-1]})")
    module = schedule(text)
    assert kinds(module) == ["map"] and slots(module) == 0
    assert sum(op.name == "form.map" for op in module.walk()) == 1
    peak = Peak()
    run_host(lower(parse_module(text), AARCH64), "f", [values(F32, (100,))], peak)
    assert peak.bytes == 0


def test_a_diamond_does_not_double_its_body() -> None:
    """y = f(x) + f(x), ten times over: equal operations become one, so the body stays linear."""
    steps, last = "", "x"
    for i in range(10):
        steps += unary(last, "sqrt", f"u{i}", "N") + binary(f"u{i}", f"u{i}", "[[0], [0]]", "mul", f"v{i}", "N")
        last = f"v{i}"
    module = schedule(function("%x: tensor<[N], f32>", f"{steps}func.return(%{last})"))
    assert kinds(module) == ["map"]
    assert sum(op.opdef.dialect == "scalar" for op in module.walk()) == 20


@pytest.mark.parametrize("rows", [1, 3])
def test_layernorm_is_one_launch(rows: int) -> None:
    text = function(
        "%x: tensor<[M, N], f32>, %g: tensor<[N], f32>",
        total("x", "s", "[1]", "M")
        + unary("s", "abs", "mean", "M")
        + binary("x", "mean", "[[0, 1], [0]]", "sub", "d", "M, N")
        + binary("d", "d", "[[0, 1], [0, 1]]", "mul", "q", "M, N")
        + total("q", "v", "[1]", "M")
        + unary("v", "sqrt", "sd", "M")
        + binary("d", "sd", "[[0, 1], [0]]", "div", "n", "M, N")
        + binary("n", "g", "[[0, 1], [1]]", "mul", "y", "M, N")
        + "func.return(%y)",
    )
    assert kinds(schedule(text)) == ["rows"]
    check(text, [values(F32, (rows, 700)), values(F32, (700,), 1)])


def test_epilogue_joins_its_product_and_prologue_the_packing() -> None:
    """relu(x @ |w| + b): on a CPU |w| is computed while it is laid out; on a GPU it is a launch of its own."""
    text = function(
        "%x: tensor<[M, K], f32>, %w: tensor<[K, N], f32>, %b: tensor<[N], f32>",
        unary("w", "abs", "p", "K, N")
        + matmul("x", "p", "c", "M, N")
        + binary("c", "b", "[[0, 1], [1]]", "add", "d", "M, N")
        + unary("d", "abs", "y", "M, N")
        + "func.return(%y)",
    )
    assert kinds(schedule(text)) == ["pack", "contract"]
    assert kinds(schedule(text, SM_90A)) == ["map", "contract", "contract", "contract", "contract"]
    for machine in (AARCH64, SM_90A):
        check(text, [values(F32, (50, 30)), values(F32, (30, 70), 1), values(F32, (70,), 2)], machine)


def test_epilogue_over_merged_rows() -> None:
    """x[b, s, d] @ w + residual[b, s, e]: one product of b*s rows, with the sum behind it."""
    attrs = "accum = dtype<f32>, lhs = [0, 1, 3], order = #chain<length=4096>, out = [0, 1, 2], rhs = [3, 2]"
    text = function(
        "%x: tensor<[B, S, D], f32>, %w: tensor<[D, E], f32>, %r: tensor<[B, S, E], f32>, %b: tensor<[E], f32>",
        f"%c = form.contract(%x, %w) {{{attrs}}} : tensor<[B, S, E], f32>\n"
        + binary("c", "b", "[[0, 1, 2], [2]]", "add", "d", "B, S, E")
        + binary("d", "r", "[[0, 1, 2], [0, 1, 2]]", "add", "y", "B, S, E")
        + "func.return(%y)",
    )
    assert kinds(schedule(text)) == ["pack", "contract", "contract", "contract"]
    args = [values(F32, s, i) for i, s in enumerate([(2, 30, 9), (9, 50), (2, 30, 50), (50,)])]
    check(text, args)


def test_narrow_intermediates_are_rounded_inside_a_fused_body() -> None:
    steps = unary("x", "exp", "t", "N", NARROW) + unary("t", "exp", "y", "N", NARROW)
    text = function(f"%x: tensor<[N], {NARROW}>", f"{steps}func.return(%y)")
    module = schedule(text)
    assert kinds(module) == ["map"] and sum(op.name == "scalar.round" for op in module.walk()) == 1
    check(text, [values(BF16, (3000,))])


def test_wide_intermediates_are_not_rounded() -> None:
    steps = unary("x", "exp", "t", "N") + unary("t", "exp", "y", "N")
    module = schedule(function("%x: tensor<[N], f32>", f"{steps}func.return(%y)"))
    assert not any(op.name == "scalar.round" for op in module.walk())


# -- variants


def test_variants_of_a_product_by_its_sizes() -> None:
    """Few rows are not packed before the grid, fewer not at all; on a GPU few programs take smaller blocks; a known
    size needs none."""
    text = (CASES / "matmul_f32.forms").read_text()
    (kept,) = [op for op in schedule(text).walk() if op.name == KEPT]
    (select,) = kept.regions[-1].block.ops[:-1]
    inside = [[op.attrs.get("kind") for op in region.block.ops[:-1]] for region in select.regions]
    assert inside == [["pack", "contract"], ["contract"], ["contract"]]
    gpu = launches(schedule(text, SM_90A))
    blocks = [[loop.block for loop in launch_loops(op)] for op in gpu]
    assert blocks == [[128, 256, 16], [128, 128, 16], [64, 64, 16], [16, 32, 64]]
    for rows, expected in (("8", ["contract"]), ("2048", ["pack", "contract"])):
        known = schedule(text.replace("[M,", f"[{rows},"))
        assert kinds(known) == expected and not any(op.name == "schedule.select" for op in known.walk())


@pytest.mark.parametrize("rows", [5, 200])
def test_variants_read_a_transposed_operand(rows: int) -> None:
    text = function(
        "%x: tensor<[M, K], f32>, %w: tensor<[N, K], f32>",
        "%t = form.view(%w) {view = #permute<order=[1, 0]>} : tensor<[K, N], f32>\n"
        + matmul("x", "t", "y", "M, N")
        + "func.return(%y)",
    )
    check(text, [values(F32, (rows, 30)), values(F32, (70, 30), 1)])


# -- what must not be fused


def test_an_expensive_row_is_not_recomputed_per_element() -> None:
    steps = unary("b", "exp", "e", "N") + binary("x", "e", "[[0, 1], [1]]", "mul", "y", "M, N")
    head = "%x: tensor<[M, N], f32>, %b: tensor<[N], f32>"
    assert kinds(schedule(function(head, f"{steps}func.return(%y)"))) == ["map", "map"]


@pytest.mark.parametrize(("name", "dims", "maps"), [("neg", "N", "[1]"), ("exp", "1", "[none]"), ("exp", "", "[]")])
def test_a_cheap_row_and_a_scalar_are(name: str, dims: str, maps: str) -> None:
    steps = unary("b", name, "e", dims) + binary("x", "e", f"[[0, 1], {maps}]", "mul", "y", "M, N")
    text = function(f"%x: tensor<[M, N], f32>, %b: tensor<[{dims}], f32>", f"{steps}func.return(%y)")
    assert kinds(schedule(text)) == ["map"]
    check(text, [values(F32, (7, 9)), values(F32, {"N": (9,), "1": (1,), "": ()}[dims], 1)])


def test_a_reversed_sibling_is_another_launch() -> None:
    """Program p would need elements that another program computes."""
    text = function(
        "%x: tensor<[N], f32>",
        unary("x", "exp", "t", "N")
        + "%r = form.view(%t) {view = #slice<starts=[`N - 1`], steps=[-1]>} : tensor<[N], f32>\n"
        + binary("t", "r", "[[0], [0]]", "add", "y", "N")
        + "func.return(%y, %t)",
    )
    assert kinds(schedule(text)) == ["map", "map"]
    check(text, [values(F32, (5000,))])


@pytest.mark.one_in(2)
def test_reductions_over_different_axes_are_different_launches() -> None:
    text = function(
        "%x: tensor<[M, N], f32>", total("x", "r", "[1]", "M") + total("x", "c", "[0]", "N") + "func.return(%r, %c)"
    )
    assert kinds(schedule(text)) == ["rows"] * 4, "each with a variant for long rows"
    check(text, [values(F32, (600, 70))])


# -- corner cases


def test_inputs_constants_scalars_and_twice_the_same() -> None:
    text = function(
        "%x: tensor<[M, N], f32>, %s: tensor<[], f32>",
        unary("s", "exp", "e", "")
        + """%k = form.map() {maps = []} : tensor<[N], f32> {
          ^():
            %o = scalar.constant() {value = 2.5} : scalar<f32>
            form.yield(%o)
        }
        %t = form.view(%x) {view = #permute<order=[1, 0]>} : tensor<[N, M], f32>
        %m = form.view(%t) {view = #reshape<>} : tensor<[M*N], f32>
        func.return(%x, %e, %e, %k, %m, %x)""",
    )
    for shape in ((3, 5), (0, 4), (1, 1)):
        check(text, [values(F32, shape), np.asarray(0.5, np.float32)])


@pytest.mark.one_in(8)
@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("axes", [[0], [1], [0, 1], [0, 2], [0, 1, 2]])
def test_reductions_over_any_axes(axes: list[int], kind: str) -> None:
    dims = ", ".join(d for i, d in enumerate("ABC") if i not in axes)
    order = ", order = #blocks<block=512, lanes=64>" if kind in ("sum", "prod") else ""
    attrs = f'accum = dtype<f32>, axes = {axes}, kind = "{kind}"{order}'
    text = function(
        "%x: tensor<[A, B, C], f32>",
        f"%r = form.reduce(%x) {{{attrs}}} : tensor<[{dims}], f32>\nfunc.return(%r)",
    )
    for shape in ((3, 5, 7), (20, 3, 90), (0, 2, 3)):
        check(text, [values(F32, shape)])


def test_integer_contractions_and_sums_widen() -> None:
    text = function(
        "%a: tensor<[M, K], i8>, %b: tensor<[K, N], i8>",
        """%c = form.contract(%a, %b) {accum = dtype<i32>, lhs = [0, 2], order = #chain<length=4096>, out = [0, 1],
            rhs = [2, 1]} : tensor<[M, N], i32>
        %s = form.reduce(%a) {accum = dtype<i64>, axes = [1], kind = "sum", order = #blocks<block=512, lanes=64>}
            : tensor<[M], i64>
        func.return(%c, %s)""",
    )
    i8 = named("i8")
    check(text, [values(i8, (5, 600)), values(i8, (600, 7), 1)])


# -- memory


@pytest.mark.parametrize("length", [2, 3, 7])
def test_a_chain_of_products_needs_two_results_and_one_packed_operand_at_a_time(length: int) -> None:
    names = ["x", *(f"t{i}" for i in range(length))]
    steps = "".join(matmul(a, "w", b, "N, N") for a, b in pairwise(names))
    text = function("%x: tensor<[N, N], f32>, %w: tensor<[N, N], f32>", f"{steps}func.return(%{names[-1]})")
    assert slots(schedule(text)) <= 3
    assert slots(schedule(text, SM_90A)) <= 2
    check(text, [values(F32, (20, 20)), values(F32, (20, 20), 1)])


# -- primitives


def launch(name: str) -> Op:
    return launches(schedule((CASES / f"{name}.forms").read_text(), SM_90A))[0]


@pytest.mark.parametrize(
    ("name", "apply", "says"),
    [
        ("softmax", lambda x: split(x, 1, 256), "blocks of 512"),
        ("matmul_f32", lambda x: split(x, 2, 48), "every 4096 terms, which 48 does not divide"),
        ("vadd", lambda x: split(x, 0, 0), "a block of 0"),
        ("matmul_f32", lambda x: merge(x, 0), "split already"),
        ("softmax", lambda x: merge(x, 0), "a parallel loop and a fold loop"),
        ("vadd", lambda x: stage(x, 0, "panels", 2), "reads each element once"),
        ("matmul_f32", lambda x: stage(x, 0, "panels", 2), "staged already"),
        ("vadd", lambda x: keep(x, 0), "one pass"),
        ("softmax", lambda x: keep(x, 1), "form.reduce is no map"),
        ("vadd", lambda x: bind(x, 8, "producer_consumer"), "depth of at least 2"),
        ("softmax", lambda x: fuse(x.body.ops[4], x.body.ops[1]), "form.reduce is not a map"),
        ("softmax", lambda x: fuse(x.body.ops[4], x.body.ops[0]), "does not read the producer"),
    ],
)
def test_primitives_refuse_with_the_reason(name: str, apply, says: str) -> None:
    with pytest.raises(IllegalSchedule, match=says):
        apply(launch(name))


def test_every_launch_says_why() -> None:
    for name in ("vadd", "softmax", "matmul_f32", "matmul_bf16"):
        for machine in (AARCH64, SM_90A):
            for op in launches(schedule((CASES / f"{name}.forms").read_text(), machine)):
                assert op.attrs["reason"]


def test_transposed_reads_are_walked_in_squares() -> None:
    text = function(
        "%x: tensor<[M, N], f32>",
        "%t = form.view(%x) {view = #permute<order=[1, 0]>} : tensor<[N, M], f32>\nfunc.return(%t)",
    )
    (op,) = launches(schedule(text))
    assert [loop.block for loop in launch_loops(op)] == [64, 64]
    check(text, [values(F32, (70, 130))])


def test_a_matrix_times_one_column_is_one_row() -> None:
    """It is read as it lies, not packed for a panel of columns that is empty but for one."""
    product = host("def f(a: Tensor[W, M, f64], v: Tensor[M, f64]):\n    return a @ v[:, None]\n", "f")
    assert [[str(size) for size in launch_space(launch)] for launch in launches(product)] == [["1", "W", "M"]]
