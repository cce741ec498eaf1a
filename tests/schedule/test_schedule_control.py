"""Control flow on the host: loops carry buffers, conditions choose, bits are those of the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from tesserac.ir.core import Module
from tests.tile.test_tile_build import check, named, values

F32 = named("f32")

STEP = """{maps = [[0], [0]]} : tensor<[N], f32> {
          ^(%p: scalar<f32>, %q: scalar<f32>):
            %s = scalar.fma(%p, %q, %p) : scalar<f32>
            form.yield(%s)
        }"""


def function(head: str, body: str) -> str:
    names = ", ".join(f'"a{i}"' for i in range(head.count("%")))
    return f"func.func @f {{guards = [], params = [{names}]}} {{\n^({head}):\n{body}\n}}"


def loop(body: str, count: str = "K", after: str = "func.return(%r, %t)") -> str:
    return function(
        "%x: tensor<[N], f32>, %y: tensor<[N], f32>, %k: tensor<[K], f32>",
        f"""%low = index.dim() {{dim = `0`}} : index
        %high = index.dim() {{dim = `{count}`}} : index
        %r, %t = form.loop(%low, %high, %x, %y) {{counter = "i"}} : tensor<[N], f32>, tensor<[N], f32> {{
          ^(%i: index, %a: tensor<[N], f32>, %b: tensor<[N], f32>):
            {body}
        }}
        {after}""",
    )


def count(module: Module, name: str) -> int:
    return sum(op.name == name for op in module.walk())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
@pytest.mark.parametrize(
    "body",
    [
        f"%c = form.map(%a, %b) {STEP}\n form.yield(%c, %b)",
        "form.yield(%b, %a)",
        f"%c = form.map(%a, %b) {STEP}\n form.yield(%b, %c)",
        f"%c = form.map(%a, %x) {STEP}\n form.yield(%c, %c)",
    ],
    ids=["one changes", "swap", "shift", "reads the outside"],
)
def test_loops(body: str, rounds: int) -> None:
    lowered = check(loop(body), [values(F32, (37,)), values(F32, (37,), 1), values(F32, (rounds,))])
    assert count(lowered, "schedule.loop") == 1


def test_a_fold_of_one_of_several_results() -> None:
    fold = """{accum = dtype<f32>, axes = [0], kind = "max"} : tensor<[], f32>"""
    text = loop("form.yield(%b, %a)", after=f"%m = form.reduce(%t) {fold}\n func.return(%r, %m)")
    check(text, [values(F32, (37,)), values(F32, (37,), 1), values(F32, (3,))])


def test_dims_may_mention_the_counter() -> None:
    """Row i of a matrix is added in round i."""
    text = function(
        "%x: tensor<[M, N], f32>",
        """%low = index.dim() {dim = `0`} : index
        %high = index.dim() {dim = `M`} : index
        %zero = form.map() {maps = []} : tensor<[N], f32> {
          ^():
            %o = scalar.constant() {value = 0.5} : scalar<f32>
            form.yield(%o)
        }
        %r = form.loop(%low, %high, %zero) {counter = "i"} : tensor<[N], f32> {
          ^(%i: index, %a: tensor<[N], f32>):
            %row = form.view(%x) {view = #slice<starts=[`i`, `0`], steps=[1, 1]>} : tensor<[1, N], f32>
            %flat = form.view(%row) {view = #reshape<>} : tensor<[N], f32>
            %c = form.map(%a, %flat) {maps = [[0], [0]]} : tensor<[N], f32> {
              ^(%p: scalar<f32>, %q: scalar<f32>):
                %d = scalar.dim() {dim = `i`} : scalar<f32>
                %s = scalar.fma(%p, %q, %d) : scalar<f32>
                form.yield(%s)
            }
            form.yield(%c)
        }
        func.return(%r)""",
    )
    check(text, [values(F32, (5, 33))])


@pytest.mark.parametrize("limit", [-1.0, 3.0, 100.0])
def test_while(limit: float) -> None:
    text = function(
        "%x: tensor<[], f32>, %limit: tensor<[], f32>",
        """%r = form.while(%x) : tensor<[], f32> {
          ^(%a: tensor<[], f32>):
            %go = form.map(%a, %limit) {maps = [[], []]} : tensor<[], bool> {
              ^(%p: scalar<f32>, %q: scalar<f32>):
                %s = scalar.lt(%p, %q) : scalar<bool>
                form.yield(%s)
            }
            form.yield(%go)
        } {
          ^(%a: tensor<[], f32>):
            %b = form.map(%a) {maps = [[]]} : tensor<[], f32> {
              ^(%p: scalar<f32>):
                %s = scalar.fma(%p, %p, %p) : scalar<f32>
                form.yield(%s)
            }
            form.yield(%b)
        }
        func.return(%r)""",
    )
    check(text, [np.asarray(1.5, np.float32), np.asarray(limit, np.float32)])


@pytest.mark.parametrize("flag", [True, False])
def test_cond_with_a_view_in_a_branch(flag: bool) -> None:
    text = function(
        "%c: tensor<[], bool>, %x: tensor<[M, N], f32>, %y: tensor<[N, M], f32>",
        """%r = form.cond(%c) : tensor<[N, M], f32> {
          ^():
            %t = form.view(%x) {view = #permute<order=[1, 0]>} : tensor<[N, M], f32>
            form.yield(%t)
        } {
          ^():
            %t = form.map(%x, %y) {maps = [[1, 0], [0, 1]]} : tensor<[N, M], f32> {
              ^(%p: scalar<f32>, %q: scalar<f32>):
                %s = scalar.mul(%p, %q) : scalar<f32>
                form.yield(%s)
            }
            form.yield(%t)
        }
        func.return(%r)""",
    )
    check(text, [np.asarray(flag), values(F32, (7, 5)), values(F32, (5, 7), 1)])


MAP = """{maps = [[0]]} : tensor<[N], %s> {
          ^(%%p: scalar<f32>):
            %s
        }"""


def branches_behind(size: str) -> str:
    """A branch on whether a tensor has a number above 1 whose ways take the tensor as well."""
    above = "%c = scalar.constant() {value = 1.0} : scalar<f32>\n%s = scalar.lt(%c, %p) : scalar<bool>\n form.yield(%s)"
    double = "%s = scalar.add(%p, %p) : scalar<f32>\n form.yield(%s)"
    square = double.replace("add", "mul")
    return function(
        "%x: tensor<[N], f32>",
        f"""%size = form.map(%x) {MAP % ("f32", size)}
        %above = form.map(%size) {MAP % ("bool", above)}
        %any = form.reduce(%above) {{accum = dtype<bool>, axes = [0], kind = "max"}} : tensor<[], bool>
        %r = form.cond(%any) : tensor<[N], f32> {{
          ^():
            %1 = form.map(%size) {MAP % ("f32", double)}
            form.yield(%1)
        }} {{
          ^():
            %2 = form.map(%size) {MAP % ("f32", square)}
            form.yield(%2)
        }}
        func.return(%r)""",
    )


def test_branches_compute_what_costs_little() -> None:
    cheap = branches_behind("%s = scalar.abs(%p) : scalar<f32>\n form.yield(%s)")
    dear = branches_behind("%s = scalar.exp(%p) : scalar<f32>\n form.yield(%s)")
    given = [values(F32, (600,))]
    whole = "memref<[N], f32, global>"
    written = [
        sum(op.name == "schedule.buffer" and str(op.result.type) == whole for op in check(text, given).walk())
        for text in (cheap, dear)
    ]
    assert written == [1, 2], "what is dear is written for the branches, beside the result"
