"""Every Graph pass against the picture in its docstring, and the cases in which it must do nothing."""

import re

import ml_dtypes
import numpy as np
import pytest

import tesserac.graph.dialect  # noqa: F401  (registers the operations in the pictures)
from tesserac.graph import rules
from tesserac.graph.interp import run_function
from tesserac.graph.passes import (
    algebra,
    choose_forms,
    choose_kernels,
    choose_rewrites,
    cse,
    dce,
    fold,
    fold_views,
    forget_operators,
    forget_stops,
    generalize,
    hoist,
    inline,
    map_loops,
    sink_weight_gradients,
    split_complex,
    transforms,
    unroll_unit_loops,
    watch,
)
from tesserac.graph.passes.place_kernels import Placement, Tiles
from tesserac.ir.core import Module, VerifyError
from tesserac.ir.parser import parse_module
from tesserac.ir.passes import Pass, check_pass, interfaces, run_passes
from tesserac.ir.printer import print_module
from tesserac.ir.verify import verify_module
from tesserac.schedule.forms import write_out_calls
from tests.support.source_support import compile_to_forms

NO_TILES = Tiles("cpu", (), lambda kernel: Placement("none"), lambda module: 0)
PASSES = {
    "rules": (rules.apply_rules, rules.__doc__),
    "inline": (inline.inline, inline.__doc__),
    "choose_forms": (choose_forms.choose_forms, choose_forms.__doc__),
    "choose_rewrites": (choose_rewrites.choose_rewrites, choose_rewrites.__doc__),
    "choose_kernels": (choose_kernels.choose_kernels(NO_TILES), choose_kernels.__doc__),
    "hoist": (hoist.hoist, hoist.__doc__),
    "map_loops": (map_loops.inline_with_maps, map_loops.__doc__),
    "algebra": (algebra.algebra, algebra.__doc__),
    "forget_operators": (forget_operators.forget_operators, forget_operators.__doc__),
    "forget_stops": (forget_stops.forget_stops, forget_stops.__doc__),
    "transforms": (transforms.transforms, transforms.__doc__),
    "watch": (watch.watch, watch.__doc__),
    "unroll_unit_loops": (unroll_unit_loops.unroll_unit_loops, unroll_unit_loops.__doc__),
    "fold": (fold.fold, fold.__doc__),
    "cse": (cse.cse, cse.__doc__),
    "dce": (dce.dce, dce.__doc__),
    "generalize": (generalize.generalize, generalize.__doc__),
    "split_complex": (split_complex.split_complex, split_complex.__doc__),
    "fold_views": (fold_views.fold_views, fold_views.__doc__),
    "sink_weight_gradients": (sink_weight_gradients.sink_weight_gradients, sink_weight_gradients.__doc__),
    "write_out_calls": (write_out_calls.write_out_calls, write_out_calls.__doc__),
}


def picture(doc: str) -> tuple[Module, Module]:
    match = re.search(r"^Before:\n((?:    .*\n)+)After:\n((?:    .*\n?)+)", doc, re.MULTILINE)
    assert match, "the docstring has no picture"
    return parse_module(match[1]), parse_module(match[2])


def normal(module: Module) -> str:
    """The text without hints of names."""
    for op in module.walk():
        values = [*op.results, *(a for r in op.regions for a in r.block.args)]
        for value in values:
            value.name = ""
    return print_module(module)


@pytest.mark.parametrize("name", PASSES)
def test_pictures(name: str) -> None:
    step, doc = PASSES[name]
    before, after = picture(doc or "")
    verify_module(before)
    verify_module(after)
    assert normal(before.clone()) != normal(after.clone())
    result = run_passes(before, [step], verify=True)
    assert normal(result) == normal(after)


@pytest.mark.parametrize("name", [n for n in PASSES if n not in ("generalize", "watch")])
def test_passes_leave_their_own_result_alone(name: str) -> None:
    step, doc = PASSES[name]
    _, after = picture(doc or "")
    assert normal(run_passes(after, [step], verify=True)) == normal(after.clone())


def apply(step: Pass, text: str) -> Module:
    module = parse_module(text)
    result = step.run(module.clone())
    check_pass(step, interfaces(module), result)
    return result


def count(module: Module, name: str) -> int:
    return sum(op.name == name for op in module.walk())


HEAD = 'graph.func @f {entry = true, guards = [], params = ["x"]} {\n^(%x: tensor<[N], f32>):\n'


def test_cse_does_not_merge_across_branches() -> None:
    module = apply(
        cse.cse,
        'graph.func @f {entry = true, guards = [], params = ["c", "x"]} {\n'
        "^(%c: tensor<[], bool>, %x: tensor<[N], f32>):\n"
        "%y = form.cond(%c) : tensor<[N], f32> {\n^():\n%a = graph.exp(%x) : tensor<[N], f32>\nform.yield(%a)\n} {\n"
        "^():\n%b = graph.exp(%x) : tensor<[N], f32>\nform.yield(%b)\n}\ngraph.return(%y)\n}",
    )
    assert count(module, "graph.exp") == 2


@pytest.mark.parametrize(("second", "loops"), [("sin(b) + x", 1), ("cos(b) + x", 2), ("sin(b) + y", 2)])
def test_equal_loops_are_one_whatever_their_counters_are_called(second: str, loops: int) -> None:
    forms = compile_to_forms(
        "def f(x: Tensor[N, f32], y: Tensor[N, f32]):\n"
        "    a, b = x, x\n"
        "    for i in range(N): a = sin(a) + x\n"
        f"    for j in range(N): b = {second}\n"
        "    return a * b\n"
    )
    assert sum(op.name == "form.loop" for op in forms.walk()) == loops


def test_cse_tells_zeros_apart() -> None:
    full = "graph.full() {{dtype = dtype<f32>, policy = policy<>, shape = [], value = {}}} : tensor<[], f32>"
    text = HEAD + f"%a = {full.format('0.0')}\n%b = {full.format('-0.0')}\n%c = {full.format('0.0')}\n"
    text += "%d = graph.add(%a, %b) : tensor<[], f32>\n%e = graph.add(%d, %c) : tensor<[], f32>\ngraph.return(%e)\n}"
    assert count(apply(cse.cse, text), "graph.full") == 2


def test_fold_computes_chains_and_keeps_what_is_not_constant() -> None:
    full = "graph.full() {dtype = dtype<f32>, policy = policy<>, shape = [], value = 3.0} : tensor<[], f32>"
    text = HEAD + f"%a = {full}\n%b = graph.exp(%a) : tensor<[], f32>\n%c = graph.less(%b, %a) : tensor<[], bool>\n"
    text += "%n = graph.size() {dim = `N`} : tensor<[], f32>\n%d = graph.mul(%n, %b) : tensor<[], f32>\n"
    text += "%e = graph.where(%c, %d, %d) : tensor<[], f32>\ngraph.return(%e)\n}"
    module = apply(fold.fold, text)
    assert count(module, "graph.exp") == count(module, "graph.less") == 0
    assert count(module, "graph.size") == count(module, "graph.mul") == count(module, "graph.where") == 1
    values = [op.attrs["value"] for op in module.walk() if op.name == "graph.full"]
    assert values[0] == 3.0 and values[2] is False
    assert values[1] == pytest.approx(np.exp(3), rel=1e-6)


def test_fold_drops_assertions_that_hold() -> None:
    flag = "graph.full() {{dtype = dtype<bool>, policy = policy<>, shape = [], value = {}}} : tensor<[], bool>"
    head = HEAD.replace("{entry", '{effects = ["io"], entry')
    text = head + f"%a = {flag.format('true')}\n%b = {flag.format('false')}\n"
    text += 'form.assert(%a) {io = [0], text = "a"}\nform.assert(%b) {io = [1], text = "b"}\ngraph.return(%x)\n}'
    module = apply(fold.fold, text)
    assert [op.attrs["text"] for op in module.walk() if op.name == "form.assert"] == ["b"]


CALLEE = """
graph.func @g {entry = false, guards = [#guard<kind="divides", left=`2`, right=`K`, text="K % 2 == 0">],
               params = ["v"]} {
  ^(%v: tensor<[K], f32>):
    %a = index.dim() {dim = `0`} : index
    %b = index.dim() {dim = `K`} : index
    %r = form.loop(%a, %b, %v) {counter = "i"} : tensor<[K], f32> {
      ^(%i: index, %c: tensor<[K], f32>):
        %n = graph.size() {dim = `i`} : tensor<[], f32>
        %d = graph.add(%c, %n) : tensor<[K], f32>
        form.yield(%d)
    }
    graph.return(%r)
}
"""


def test_inline_renames_counters() -> None:
    """Called in a loop over the same counter, on a size that mentions it."""
    module = apply(
        inline.inline,
        CALLEE
        + HEAD
        + """%a = index.dim() {dim = `0`} : index
        %b = index.dim() {dim = `4`} : index
        %r = form.loop(%a, %b, %x) {counter = "i"} : tensor<[N], f32> {
          ^(%i: index, %c: tensor<[N], f32>):
            %d = graph.call(%c) {callee = "g", dims = [["K", `N`]]} : tensor<[N], f32>
            %e = graph.call(%d) {callee = "g", dims = [["K", `N`]]} : tensor<[N], f32>
            form.yield(%e)
        }
        graph.return(%r)
        }""",
    )
    counters = [op.attrs["counter"] for op in module.walk() if op.name == "form.loop"]
    assert len(counters) == len(set(counters)) == 3
    (function,) = module.ops
    assert function.attrs["guards"] == (), "the checker passes guards on, not this pass"
    x = np.ones(4, np.float32)
    forms = run_passes(module, [generalize.generalize], verify=True)
    (result,) = run_function(forms, "f", [x])
    assert result.tolist() == [1 + 4 * 2 * (0 + 1 + 2 + 3)] * 4


def test_inline_refuses_recursion() -> None:
    text = HEAD + '%y = graph.call(%x) {callee = "f", dims = [["N", `N`]]} : tensor<[N], f32>\ngraph.return(%y)\n}'
    with pytest.raises(VerifyError, match="calls itself"):
        inline.inline.run(parse_module(text))


def test_absorb_leaves_reshape_and_counted_maps() -> None:
    module = apply(
        fold_views.fold_views,
        """func.func @f {guards = [], params = ["x"]} {
          ^(%x: tensor<[4, N], f32>):
            %v = form.view(%x) {view = #reshape<>} : tensor<[4*N], f32>
            %i = form.map() {maps = []} : tensor<[4*N], f32> {
              ^():
                %0 = scalar.index() {axis = 0} : scalar<f32>
                form.yield(%0)
            }
            %y = form.map(%v, %i) {maps = [[0], [0]]} : tensor<[4*N], f32> {
              ^(%1: scalar<f32>, %2: scalar<f32>):
                %3 = scalar.add(%1, %2) : scalar<f32>
                form.yield(%3)
            }
            func.return(%y)
        }""",
    )
    assert count(module, "form.view") == 1 and count(module, "form.map") == 2


CONTRACT = """func.func @f {guards = [], params = ["a", "b"]} {
  ^(%a: tensor<[A, B, M], f32>, %b: tensor<[A, B, N], f32>):
    %t = form.view(%a) {view = #permute<order=[2, 1, 0]>} : tensor<[M, B, A], f32>
    %u = form.view(%b) {view = #permute<order=[1, 0, 2]>} : tensor<[B, A, N], f32>
    %y = form.contract(%t, %u) {accum = dtype<f32>, lhs = [0, 2, 3], order = #chain<length=4096>, out = [0, 1],
                                rhs = [2, 3, 1]} : tensor<[M, N], f32>
    func.return(%y)
}"""


def test_narrow_operands_keep_the_order_of_a_contraction() -> None:
    """Terms are summed in the order that the left operand names, however it lies in memory."""
    rng = np.random.default_rng(5)
    text = "half = bf16 @accum(f32)\ndef f(w: Tensor[6, 4, 5, half], x: Tensor[3, 5, 4, half]):\n"
    text += '    return einsum("oji,nji->on", wide(permute(w, (0, 2, 1))), wide(x))\n'
    module = compile_to_forms(text)
    w, x = (rng.standard_normal(s).astype(np.float32) * 2.0 ** rng.integers(-9, 9, s) for s in ((6, 4, 5), (3, 5, 4)))
    w, x = (v.astype(ml_dtypes.bfloat16) for v in (w, x))
    expected = np.zeros((6, 3), np.float32)
    for j in range(5):
        for i in range(4):
            terms = w[:, i, j].astype(np.float32)[:, None] * x[:, j, i].astype(np.float32)[None]
            expected = expected + terms  # products of two bf16 are exact, so that this is an fma
    assert np.array_equal(run_function(module, "m.f", [w, x])[0], expected)


def test_absorb_keeps_the_order_of_a_contraction() -> None:
    """Two indices are summed, B before A: the left permutation must stay, the right one may go."""
    before = parse_module(CONTRACT)
    after = apply(fold_views.fold_views, CONTRACT)
    assert count(after, "form.view") == 1
    rng = np.random.default_rng(0)
    args = [rng.normal(size=s).astype(np.float32) for s in ((3, 4, 5), (3, 4, 2))]
    assert np.array_equal(run_function(before, "f", args)[0], run_function(after, "f", args)[0])


CORNERS = np.float32([0.0, -0.0, 1.5, -1.5, 2.5, -0.3, np.inf, -np.inf, np.nan, 1e-45])


@pytest.mark.parametrize(("left", "right"), rules.RULES)
def test_rules_hold_to_the_bit(left: str, right: str) -> None:
    dtype = "bool" if "bitwise" in left else "f32"
    values = np.array([True, False]) if dtype == "bool" else CORNERS
    sides = [_evaluate(text, dtype, values) for text in (left, right)]
    assert np.array_equal(sides[0], sides[1], equal_nan=dtype == "f32")
    if dtype == "f32":
        numbers = ~np.isnan(sides[0])
        assert np.array_equal(np.signbit(sides[0][numbers]), np.signbit(sides[1][numbers]))


def _evaluate(text: str, dtype: str, values: np.ndarray) -> np.ndarray:
    lines, ty = [], f"tensor<[N], {dtype}>"

    def build(term: object) -> str:
        if not hasattr(term, "func"):
            return "%x"
        operands = ", ".join(build(arg) for arg in term.args)
        lines.append(f"%v{len(lines)} = graph.{term.func.id}({operands}) : {ty}")
        return f"%v{len(lines) - 1}"

    last = build(rules.parse_term(text))
    text = f'graph.func @f {{entry = true, guards = [], params = ["x"]}} {{\n^(%x: {ty}):\n' + "\n".join(lines)
    module = parse_module(text + f"\ngraph.return({last})\n}}")
    return run_function(run_passes(module, [generalize.generalize], verify=True), "f", [values])[0]
