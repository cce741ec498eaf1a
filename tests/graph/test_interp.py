"""The oracle: each form against NumPy, sizes and guards, control flow, and what it refuses."""

import numpy as np
import pytest

import tesserac.graph.dialect  # noqa: F401  (registers the operations of the texts below)
from tesserac.graph.interp import InterpreterError, bind_sizes, run_function
from tesserac.ir import func as _func  # noqa: F401
from tesserac.ir.parser import parse_module
from tesserac.ir.verify import verify_module
from tesserac.numerics.narrow import convert
from tesserac.numerics.order import block_sum, chain_contract
from tesserac.types.dims import parse_dim
from tesserac.types.dtype import BF16, F32


def run(text: str, *args: np.ndarray) -> list[np.ndarray]:
    module = parse_module(text)
    verify_module(module)
    return list(run_function(module, "f", args))


def function(head: str, body: str, guards: str = "") -> str:
    names = ", ".join(f'"a{i}"' for i in range(head.count("%")))
    return f"func.func @f {{guards = [{guards}], params = [{names}]}} {{\n^({head}):\n{body}\n}}"


def random(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


def test_map_broadcasts_and_transposes() -> None:
    text = function(
        "%x: tensor<[M, N], f32>, %y: tensor<[N, 1], f32>, %z: tensor<[], f32>",
        """%r = form.map(%x, %y, %z) {maps = [[0, 1], [1, none], []]} : tensor<[M, N], f32> {
          ^(%a: scalar<f32>, %b: scalar<f32>, %c: scalar<f32>):
            %d = scalar.fma(%a, %b, %c) : scalar<f32>
            form.yield(%d)
        }
        func.return(%r)""",
    )
    x, y, z = random(3, 4), random(4, 1), random()
    (r,) = run(text, x, y, z)
    np.testing.assert_allclose(r, x * y[:, 0] + z, rtol=1e-6)


def test_map_rounds_once_under_its_policy() -> None:
    """(x + y) * x in f32, then one rounding; 448 + 448 saturates."""
    text = function(
        "%x: tensor<[N], fp8_e4m3 @accum(f32) @saturate>",
        """%r = form.map(%x) {maps = [[0]]} : tensor<[N], fp8_e4m3 @accum(f32) @saturate> {
          ^(%a: scalar<f32>):
            %b = scalar.add(%a, %a) : scalar<f32>
            form.yield(%b)
        }
        func.return(%r)""",
    )
    x = np.array([1.125, 448.0, -448.0], np.float32).astype("float8_e4m3fn")
    assert run(text, x)[0].astype(float).tolist() == [2.25, 448.0, -448.0]


def test_index_dim_and_constants() -> None:
    text = function(
        "%x: tensor<[N], f32>",
        """%r = form.map() {maps = []} : tensor<[2, N], i64> {
          ^():
            %i = scalar.index() {axis = 0} : scalar<i64>
            %j = scalar.index() {axis = 1} : scalar<i64>
            %n = scalar.dim() {dim = `N + 1`} : scalar<i64>
            %k = scalar.mul(%i, %n) : scalar<i64>
            %l = scalar.add(%k, %j) : scalar<i64>
            form.yield(%l)
        }
        func.return(%r)""",
    )
    assert run(text, random(3))[0].tolist() == [[0, 1, 2], [4, 5, 6]]


def test_reduce_orders_the_axes_of_the_operand() -> None:
    """Axes are folded in the operand's row-major order, however they are listed."""
    order = "order = #blocks<block=512, lanes=64>"
    text = function(
        "%x: tensor<[A, B, C], f32>",
        f"""%r = form.reduce(%x) {{accum = dtype<f32>, axes = [2, 0], kind = "sum", {order}}} : tensor<[B], f32>
        func.return(%r)""",
    )
    x = random(7, 3, 200)
    expected = block_sum(np.ascontiguousarray(x.transpose(1, 0, 2)).reshape(3, -1))
    assert np.array_equal(run(text, x)[0], expected)


@pytest.mark.parametrize(("kind", "numpy"), [("max", np.max), ("min", np.min)])
def test_extremes(kind: str, numpy: object) -> None:
    text = function(
        "%x: tensor<[M, N], i32>",
        f"""%r = form.reduce(%x) {{accum = dtype<i32>, axes = [1], kind = "{kind}", order = none}} : tensor<[M], i32>
        func.return(%r)""",
    )
    x = np.random.default_rng(0).integers(-99, 99, (4, 13)).astype(np.int32)
    assert np.array_equal(run(text, x)[0], numpy(x, axis=1))


CONTRACT = """%r = form.contract(%a, %b) {accum = dtype<f32>, lhs = [0, 3, 1], order = #chain<length=4096>,
    out = [0, 1, 2], rhs = [2, 0, 3]} : tensor<[B, M, N], f32>
func.return(%r)"""


def test_contract_takes_any_layout() -> None:
    text = function("%a: tensor<[B, K, M], f32>, %b: tensor<[N, B, K], f32>", CONTRACT)
    a, b = random(2, 5, 3), random(4, 2, 5)
    expected = chain_contract(a.transpose(0, 2, 1), b.transpose(1, 2, 0))
    assert np.array_equal(run(text, a, b)[0], expected)


def test_bf16_contract_accumulates_wide() -> None:
    head = "%a: tensor<[M, K], bf16 @accum(f32)>, %b: tensor<[K, N], bf16 @accum(f32)>"
    body = """%r = form.contract(%a, %b) {accum = dtype<f32>, lhs = [0, 2], order = #chain<length=4096>,
        out = [0, 1], rhs = [2, 1]} : tensor<[M, N], bf16 @accum(f32)>
    func.return(%r)"""
    a, b = convert(random(3, 300), BF16), convert(random(300, 2), BF16)
    expected = convert(chain_contract(convert(a, F32), convert(b, F32)), BF16)
    assert np.array_equal(run(function(head, body), a, b)[0].view("u2"), expected.view("u2"))


@pytest.mark.one_in(2)
def test_a_matmul_of_test_size_is_quick() -> None:
    body = CONTRACT.replace("[0, 3, 1]", "[0, 2]").replace("[2, 0, 3]", "[2, 1]").replace("[0, 1, 2]", "[0, 1]")
    text = function("%a: tensor<[M, K], f32>, %b: tensor<[K, N], f32>", body.replace("[B, M, N]", "[M, N]"))
    a, b = random(200, 300), random(300, 500)
    np.testing.assert_allclose(run(text, a, b)[0], a @ b, rtol=1e-4, atol=1e-4)


VIEWS = [
    ("#permute<order=[1, 0]>", "[N, M]", lambda x: x.T),
    ("#reshape<>", "[M*N]", lambda x: x.reshape(-1)),
    ("#broadcast<dims=[0, 2]>", "[M, 2, N]", lambda x: np.broadcast_to(x[:, None], (3, 2, 4))),
    ("#slice<starts=[`1`, `N - 1`], steps=[1, -1]>", "[M - 1, N]", lambda x: x[1:, ::-1]),
    ("#slice<starts=[`0`, `1`], steps=[1, 2]>", "[M, 2]", lambda x: x[:, 1::2]),
]


@pytest.mark.parametrize(("view", "dims", "numpy"), VIEWS)
def test_views(view: str, dims: str, numpy: object) -> None:
    text = function(
        "%x: tensor<[M, N], f32>", f"%r = form.view(%x) {{view = {view}}} : tensor<{dims}, f32>\nfunc.return(%r)"
    )
    x = random(3, 4)
    assert np.array_equal(run(text, x)[0], numpy(x))


ADD_ONE = """= form.map(%c) {maps = [[]]} : tensor<[], i64> {
  ^(%a: scalar<i64>):
    %b = scalar.constant() {value = 1} : scalar<i64>
    %s = scalar.add(%a, %b) : scalar<i64>
    form.yield(%s)
}"""
BELOW = """= form.map(%c, %n) {maps = [[], []]} : tensor<[], bool> {
  ^(%a: scalar<i64>, %b: scalar<i64>):
    %s = scalar.lt(%a, %b) : scalar<bool>
    form.yield(%s)
}"""


def test_loop_counts_and_knows_its_counter() -> None:
    text = function(
        "%x: tensor<[N], i64>",
        """%low = index.dim() {dim = `1`} : index
        %high = index.dim() {dim = `N`} : index
        %r = form.loop(%low, %high, %x) {counter = "i"} : tensor<[N], i64> {
          ^(%i: index, %c: tensor<[N], i64>):
            %d = form.map(%c) {maps = [[0]]} : tensor<[N], i64> {
              ^(%a: scalar<i64>):
                %b = scalar.dim() {dim = `i`} : scalar<i64>
                %s = scalar.add(%a, %b) : scalar<i64>
                form.yield(%s)
            }
            form.yield(%d)
        }
        func.return(%r)""",
    )
    assert run(text, np.zeros(5, np.int64))[0].tolist() == [1 + 2 + 3 + 4] * 5
    assert run(text, np.zeros(1, np.int64))[0].tolist() == [0]


def test_while_and_cond() -> None:
    text = function(
        "%c0: tensor<[], i64>, %n: tensor<[], i64>",
        f"""%r = form.while(%c0) : tensor<[], i64> {{
          ^(%c: tensor<[], i64>):
            %t {BELOW}
            form.yield(%t)
        }} {{
          ^(%c: tensor<[], i64>):
            %d {ADD_ONE}
            form.yield(%d)
        }}
        %q {BELOW.replace("%c, %n", "%c0, %n")}
        %z = form.cond(%q) : tensor<[], i64> {{
          ^():
            form.yield(%r)
        }} {{
          ^():
            form.yield(%n)
        }}
        func.return(%r, %z)""",
    )
    two, seven = np.array(2, np.int64), np.array(7, np.int64)
    assert [int(v) for v in run(text, two, seven)] == [7, 7]
    assert [int(v) for v in run(text, seven, two)] == [7, 2]


def test_guards() -> None:
    guards = '#guard<kind="divides", left=`2`, right=`N`, text="N % 2 == 0">'
    text = function("%x: tensor<[N], f32>", "func.return(%x)", guards)
    assert len(run(text, random(4))[0]) == 4
    with pytest.raises(InterpreterError, match="N % 2 == 0"):
        run(text, random(5))


def test_results_do_not_alias_arguments() -> None:
    x = random(3)
    (r,) = run(function("%x: tensor<[N], f32>", "func.return(%x)"), x)
    r[0] = 99
    assert x[0] != 99


def test_sizes_are_found_and_checked() -> None:
    dims = [tuple(map(parse_dim, d)) for d in (("2*N + 1", "M"), ("N*M",), ("D/4",))]
    assert bind_sizes(dims, [(7, 5), (15,), (6,)]) == {"M": 5, "N": 3, "D": 24}
    with pytest.raises(InterpreterError, match="15 where"):
        bind_sizes(dims[:2], [(9, 5), (15,)])
    with pytest.raises(InterpreterError, match=r"2\*N"):
        bind_sizes(dims[:1], [(8, 5)])


def test_wrong_arguments_are_refused() -> None:
    text = function("%x: tensor<[N], f32>", "func.return(%x)")
    with pytest.raises(InterpreterError, match="float64"):
        run(text, random(3, dtype="float64"))
    with pytest.raises(InterpreterError, match="rank 2"):
        run(text, random(3, 3))
    with pytest.raises(InterpreterError, match="takes 1 arguments"):
        run(text)


def test_stochastic_rounding_is_refused() -> None:
    body = """%r = form.map(%x) {maps = [[0]]} : tensor<[N], bf16 @accum(f32) @stochastic_round> {
      ^(%a: scalar<f32>):
        form.yield(%a)
    }
    func.return(%r)"""
    with pytest.raises(InterpreterError, match="stochastic_round"):
        run(function("%x: tensor<[N], f32>", body), random(3))
