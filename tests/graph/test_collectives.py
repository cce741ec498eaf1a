"""Collectives: what devices compute together, and that their order is data which no pass can break unseen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessera
import tesserac.graph.dialect  # noqa: F401  (registers the operations in the texts)
from tesserac.graph.passes.cse import cse
from tesserac.graph.passes.dce import dce
from tesserac.ir.core import Module, Op, VerifyError
from tesserac.ir.parser import parse_module
from tesserac.ir.passes import GRAPH, Pass, PassFault, run_passes
from tesserac.ir.printer import print_module
from tesserac.ir.verify import verify_module
from tesserac.pipeline import CALL_PASSES
from tests.graph.test_effect_order import levels_of
from tests.runtime.test_runtime_codes import programs
from tests.support.native_runs import compiled_equals_oracle
from tests.support.sampling import examples

# ------------------------------------------------------------------------------------------------- what they compute

TOGETHER = """
def folds(x: Tensor[D, f32]):
    extremes = all_reduce(x, "dp", op="max"), all_reduce(x, "dp", op="min")
    return all_reduce(x, "dp"), all_reduce(x, "dp", op="mean"), extremes[0], extremes[1]

def exchanged(x: Tensor[K, D, f32]):
    return all_gather(x, "dp", axis=1), reduce_scatter(x, "dp"), all_to_all(x, "dp", concat_axis=1), all_to_all(x, "dp")

def many_folds(x: Tensor[B, D, f32]): return pmap(folds, axis_name="dp")(x)
def many_exchanged(x: Tensor[B, K, D, f32]): return pmap(exchanged, axis_name="dp")(x)
def flags(x: Tensor[B, D, bool], n: Tensor[B, i32]):
    both = lambda v, k: (all_reduce(v, "dp", op="any"), all_reduce(v, "dp", op="all"), all_reduce(k, "dp"))
    return pmap(both, axis_name="dp")(x, n)
def rows(x: Tensor[B, A, D, f32]): return pmap(vmap(folds), axis_name="dp")(x)
def nested(x: Tensor[B, A, D, f32]):
    inner = lambda v: all_reduce(all_reduce(v, "dp"), "tp") + all_reduce(v, "tp", op="max")
    return pmap(pmap(inner, axis_name="tp"), axis_name="dp")(x)
"""


def whole(*dims: int, seed: int) -> np.ndarray:
    """Small whole numbers: sums of them are exact in any order."""
    return np.random.default_rng(seed).integers(-8, 8, dims).astype("f4")


sizes = st.integers(1, 4)


def folded(x: np.ndarray, axis: int = 0) -> list[np.ndarray]:
    found = [np.sum(x, axis), np.mean(x, axis, dtype="f4"), np.max(x, axis), np.min(x, axis)]
    return [np.broadcast_to(np.expand_dims(v, axis), x.shape) for v in found]


@pytest.mark.one_in(3)
@examples(12)
@given(n=sizes, parts=sizes, width=sizes, seed=st.integers(0, 99))
def test_devices_are_the_elements_of_pmap(n: int, parts: int, width: int, seed: int) -> None:
    run = compiled_equals_oracle(TOGETHER)
    x = whole(n, n * parts, width, seed=seed)
    for got, expected in zip(run("many_folds", x[:, 0]), folded(x[:, 0]), strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-7)
    gathered, scattered, turned, exchanged = run("many_exchanged", x)
    np.testing.assert_array_equal(gathered, np.broadcast_to(np.concatenate(list(x), 1), (n, n * parts, n * width)))
    np.testing.assert_array_equal(scattered, x.sum(0).reshape(n, parts, width))
    blocks = x.reshape(n, n, parts, width).swapaxes(0, 1)  # receiver, giver, part, width
    np.testing.assert_array_equal(exchanged, blocks.reshape(n, n * parts, width))
    np.testing.assert_array_equal(turned, blocks.swapaxes(1, 2).reshape(n, parts, n * width))


@pytest.mark.one_in(4)
def test_they_compose_with_maps() -> None:
    run, x = compiled_equals_oracle(TOGETHER), whole(3, 2, 4, seed=1)
    for got, expected in zip(run("rows", x), folded(x), strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-7)
    both = x.sum((0, 1)) + x.max(1, keepdims=True)
    np.testing.assert_array_equal(run("nested", x), np.broadcast_to(both, x.shape))


def test_bools_and_integers() -> None:
    x = np.array([[True, False, False], [True, True, False]])
    some, every, total = compiled_equals_oracle(TOGETHER)("flags", x, np.array([2**31 - 1, 2], "i4"))
    assert some.tolist() == [[True, True, False]] * 2
    assert every.tolist() == [[True, False, False]] * 2
    assert total.dtype == np.int32 and total.tolist() == [1 - 2**31] * 2  # it wraps, and keeps its dtype


@pytest.mark.one_in(2)
def test_one_device_is_all_there_are() -> None:
    """An axis that nobody says has one device; what it computes has the bits of a `pmap` over one."""
    run, x = compiled_equals_oracle(TOGETHER), whole(1, 3, 2, seed=2)
    x[0, 0, 0] = -0.0
    for name in ("folds", "exchanged"):
        rows = x[:, 0] if name == "folds" else x
        for alone, mapped in zip(run(name, rows[0]), run(f"many_{name}", rows), strict=True):
            assert alone.tobytes() == mapped[0].tobytes()


# -------------------------------------------------------------------------------------------------------- derivatives

LINEAR = """
def collective(x: Tensor[K, D, f32]):
    y = all_reduce(x, "dp") + all_reduce(x, "dp", op="mean")
    return y, all_gather(x, "dp", axis=1), reduce_scatter(x, "dp"), all_to_all(x, "dp", concat_axis=1)

def forward(x: Tensor[B, K, D, f32]): return pmap(collective, axis_name="dp")(x)

def inside(x: Tensor[B, K, D, f32], a: Tensor[B, K, D, f32], b: Tensor[B, K, B*D, f32], c: Tensor[B, K/B, D, f32],
           d: Tensor[B, K/B, B*D, f32]):
    def back(x, a, b, c, d):
        _, pull = vjp(collective, x)
        return pull((a, b, c, d))
    return pmap(back, axis_name="dp")(x, a, b, c, d)

def largest(x: Tensor[D, f32]) -> Tensor[f32]:
    return sum(all_reduce(x, "dp", op="max") * x) + sum(all_reduce(x * x, "dp") ** 2)

def whole_cost(x: Tensor[B, D, f32]) -> Tensor[f32]: return sum(pmap(largest, axis_name="dp")(x))
def outside_gradient(x: Tensor[B, D, f32]): return grad(whole_cost)(x)
def inside_gradient(x: Tensor[B, D, f32]): return pmap(grad(largest), axis_name="dp")(x)
def forward_gradient(x: Tensor[B, D, f32], t: Tensor[B, D, f32]): return jvp(whole_cost, (x,), (t,))

def ruled(x: Tensor[D, f32]) -> Tensor[D, f32]: return all_reduce(x, "dp") * 2.0

@vjp_of(ruled)
def ruled_vjp(x: Tensor[D, f32], y: Tensor[D, f32], ct: Tensor[D, f32]) -> Tensor[D, f32]:
    return all_reduce(ct, "dp") * 2.0

def ruled_gradient(x: Tensor[B, D, f32]): return pmap(grad(lambda v: sum(ruled(v) * v)), axis_name="dp")(x)

def descent(x: Tensor[D, f32]) -> Tensor[f32]:
    for i in range(3):
        x = x - 0.25 * all_reduce(x, "dp", op="mean") * x
    if all_reduce(sum(x), "dp") > 0.0:
        x = x * all_reduce(x, "dp")
    return sum(x)

def whole_descent(x: Tensor[B, D, f32]) -> Tensor[f32]: return sum(pmap(descent, axis_name="dp")(x))
def loop_outside(x: Tensor[B, D, f32]): return grad(whole_descent)(x)
def loop_inside(x: Tensor[B, D, f32]): return pmap(grad(checkpoint(descent)), axis_name="dp")(x)
"""


@pytest.mark.one_in(8)
@settings(max_examples=6, deadline=None)
@given(n=st.integers(1, 3), seed=st.integers(0, 99))
def test_what_goes_back_is_the_transpose(n: int, seed: int) -> None:
    """<Ax, y> = <x, A'y> over all devices, to rounding: a mean of three goes back by thirds."""
    run = compiled_equals_oracle(LINEAR)
    x = whole(n, 2 * n, 3, seed=seed) * np.float32(12)  # divides by any number of devices
    given = [whole(*y.shape, seed=seed + 1) for y in run("forward", x)]
    pairs = list(zip(run("forward", x), given, strict=True))
    forward, size = sum(np.vdot(a, b) for a, b in pairs), sum(np.vdot(abs(a), abs(b)) for a, b in pairs)
    assert forward == pytest.approx(np.vdot(x, run("inside", x, *given)), abs=1e-6 * float(size))


@pytest.mark.one_in(16)
def test_gradients_inside_and_outside_agree() -> None:
    run, x = compiled_equals_oracle(LINEAR), whole(3, 4, seed=5)
    x[:, 0] = 2.0  # equal ones share the derivative of the largest
    outside = run("outside_gradient", x)
    np.testing.assert_allclose(run("inside_gradient", x), outside, rtol=1e-6)
    t = whole(3, 4, seed=6)
    np.testing.assert_allclose(run("forward_gradient", x, t)[1], np.vdot(outside, t), rtol=1e-6)


def test_the_derivative_of_an_extreme_that_is_nan_is_nan() -> None:
    x = np.array([[1.0, 2.0], [3.0, np.nan]], "f4")
    text = """
def largest(x: Tensor[N, f32]) -> Tensor[f32]: return sum(all_reduce(x, "dp", op="max"))
def slope(x: Tensor[B, N, f32]): return pmap(grad(largest), axis_name="dp")(x)
"""
    found = compiled_equals_oracle(text)("slope", x)
    np.testing.assert_array_equal(found, [[0.0, np.nan], [2.0, np.nan]])


@pytest.mark.one_in(3)
def test_a_rule_may_communicate_where_its_function_does() -> None:
    x = whole(3, 4, seed=8)
    expected = np.broadcast_to(4 * x.sum(0), x.shape)
    np.testing.assert_array_equal(compiled_equals_oracle(LINEAR)("ruled_gradient", x), expected)


@pytest.mark.one_in(12)
def test_gradients_through_loops_and_branches() -> None:
    run, x = compiled_equals_oracle(LINEAR), np.abs(whole(3, 4, seed=7)) / 8
    np.testing.assert_allclose(run("loop_inside", x), run("loop_outside", x), rtol=1e-5)
    e = np.zeros_like(x)
    e[1, 2] = 1e-2
    slope = (run("whole_descent", x + e) - run("whole_descent", x - e)) / 2e-2
    assert run("loop_outside", x)[1, 2] == pytest.approx(slope, rel=2e-3)


# -------------------------------------------------------------------------------------------------------------- order

PROGRAM = """
def helper(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return all_reduce(x, "dp") + all_reduce(x, "dp", op="max")

def main(x: Tensor[N, f32]) -> Tensor[N, f32]:
    y = all_reduce(x, "dp")
    print("between")
    y = helper(y)
    return y + all_reduce(x, "dp")
"""
GOLDEN = """
graph.func @main.main {effects = ["io", "collective"], entry = true, guards = [], params = ["x"]} {
  ^(%x: tensor<[N], f32>):
    %y = graph.all_reduce_sum(%x) {across = "dp", collective = [0], devices = `devices_of_dp`} : tensor<[N], f32>
    form.print() {io = [0], pieces = ["between\\n"], to = "output"}
    %0 = graph.all_reduce_sum(%y) {across = "dp", collective = [1, 0], devices = `devices_of_dp`} : tensor<[N], f32>
    %1 = graph.all_reduce_max(%y) {across = "dp", collective = [1, 1], devices = `devices_of_dp`} : tensor<[N], f32>
    %y_1 = graph.add(%0, %1) : tensor<[N], f32>
    %2 = graph.all_reduce_sum(%x) {across = "dp", collective = [2], devices = `devices_of_dp`} : tensor<[N], f32>
    %3 = graph.add(%y_1, %2) : tensor<[N], f32>
    graph.return(%3)
}
"""


def test_places_are_those_of_the_program() -> None:
    graph = levels_of(PROGRAM).graph
    found = [op for op in graph.find("main.main").walk() if "collective" in op.attrs]
    assert [(op.name, op.attrs["collective"]) for op in found] == [
        ("graph.all_reduce_sum", (0,)),
        ("graph.call", (1,)),
        ("graph.all_reduce_sum", (2,)),
    ]
    inlined = print_module(run_passes(graph, CALL_PASSES, verify=True))
    assert inlined.strip() == GOLDEN.strip()
    assert print_module(parse_module(inlined)) == inlined


def test_equal_ones_are_not_merged_and_derivatives_keep_the_order() -> None:
    program = """
def cost(x: Tensor[N, f32]) -> Tensor[f32]:
    y = x
    for i in range(3):
        y = all_reduce(y, "dp", op="mean") * x
    return sum(all_gather(y, "dp")) + sum(all_reduce(y, "dp") * all_reduce(y, "dp"))

def main(x: Tensor[N, f32]): return grad(cost)(x)
"""
    whole = run_passes(levels_of(program).graph, CALL_PASSES, verify=True)
    found = [(op.name.removeprefix("graph."), op.attrs["collective"]) for op in whole.walk() if is_collective(op)]
    assert [place for _, place in found] == [(number,) for number in range(len(found))]
    names = [name for name, _ in found]
    forward = ["all_reduce_mean", "all_gather", "all_reduce_sum", "all_reduce_sum"]
    assert names == [*forward, "all_reduce_sum", "all_reduce_sum", "reduce_scatter", "all_reduce_mean"]


def is_collective(op: Op) -> bool:
    return op.opdef.effect == "collective"


HEAD = """graph.func @f {effects = ["collective"], entry = true, guards = [], params = ["x", "c"]} {
^(%x: tensor<[N], f32>, %c: tensor<[], bool>):
"""
SUM = '%{name} = graph.all_reduce_sum(%{of}) {{across = "dp", devices = `1`{place}}} : tensor<[N], f32>\n'
FLAG = '%d = graph.all_reduce_any(%c) {across = "dp", collective = [0], devices = `1`} : tensor<[], bool>\n'


def reduced(name: str, of: str, place: int | None) -> str:
    return SUM.format(name=name, of=of, place="" if place is None else f", collective = [{place}]")


def two(first: int, second: int) -> str:
    return HEAD + reduced("y", "x", first) + reduced("z", "y", second) + "graph.return(%z)\n}"


def branch(flag: str, before: str = "") -> str:
    """A collective in a branch."""
    inside = f"^():\n{reduced('y', 'x', 1)}form.yield(%y)\n"
    branches = f"{{\n{inside}}} {{\n^():\nform.yield(%x)\n}}"
    return f"{HEAD}{before}%z = form.cond(%{flag}) : tensor<[N], f32> {branches}\ngraph.return(%z)\n}}"


def loop(carries: str, before: str) -> str:
    """A collective in a `while` whose test is what it carries: the flag, and at the next turn `carries`."""
    types = "tensor<[N], f32>, tensor<[], bool>"
    args = "%a: tensor<[N], f32>, %b: tensor<[], bool>"
    body = f"^({args}):\n{reduced('y', 'a', 1)}form.yield(%y, %{carries})\n"
    regions = f"{{\n^({args}):\nform.yield(%b)\n}} {{\n{body}}}"
    return f"{HEAD}{before}%z, %e = form.while(%x, %d) : {types} {regions}\ngraph.return(%z)\n}}"


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        ("has the effect collective and no place", HEAD + reduced("y", "x", None) + "graph.return(%y)\n}"),
        (r"has the place \[0\] of collective, after \[1\]", two(1, 0)),
        (r"has the place \[0\] of collective, after \[0\]", two(0, 0)),
        ("does not say that it has the effect collective", two(0, 1).replace('effects = ["collective"], ', "")),
        ('stands where devices along "dp" may disagree', branch("c")),
        ('stands where devices along "dp" may disagree', loop("c", FLAG)),
    ],
    ids=["none", "exchanged", "twice", "not said", "in a branch", "in a while"],
)
def test_the_verifier_refuses(problem: str, text: str) -> None:
    with pytest.raises(VerifyError, match=problem):
        verify_module(parse_module(text))


@pytest.mark.parametrize("text", [two(0, 1), branch("d", FLAG), loop("b", FLAG)], ids=["line", "branch", "while"])
def test_the_verifier_accepts_what_devices_agree_on(text: str) -> None:
    verify_module(parse_module(text))


def test_a_pass_that_exchanges_two_is_found() -> None:
    def exchange(module: Module) -> Module:
        block = module.ops[0].body
        first, second = (op for op in block.ops if is_collective(op))
        second.set_operand(0, block.args[0])
        second.detach()
        block.insert(block.ops.index(first), second)
        return module

    with pytest.raises(PassFault, match="IR invalid after pass `exchange`"):
        run_passes(parse_module(two(0, 1)), [Pass("exchange", GRAPH, GRAPH, exchange)], verify=True)


def test_what_nobody_reads_is_not_dropped() -> None:
    program = "def main(x: Tensor[N, f32]):\n    y = all_reduce(x, 'dp')\n    return all_gather(x, 'dp')\n"
    kept = run_passes(levels_of(program).graph, [*CALL_PASSES, cse, dce], verify=True)
    assert [op.attrs["collective"] for op in kept.walk() if is_collective(op)] == [(0,), (1,)]


# ------------------------------------------------------------------------------------------------------- many devices


def test_a_program_of_many_devices_says_so_when_it_is_called() -> None:
    found = programs("E0905")
    with pytest.raises(tessera.TesseraError, match='program of 8 devices along "dp"') as caught:
        exec(found["Fails"], {})
    assert caught.value.code == "E0905"
    exec(found["Fixed"], {})
