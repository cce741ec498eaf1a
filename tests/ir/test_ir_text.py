"""IR text: whatever the core can hold prints, and parses back to the same thing."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tesserac.base.source import NO_SPAN, Span
from tesserac.ir import forms
from tesserac.ir.core import OPDEFS, Attr, Block, Module, Op, Region, Value, define_op
from tesserac.ir.parser import IRSyntaxError, parse_module
from tesserac.ir.passes import content_hash
from tesserac.ir.printer import print_module
from tesserac.ir.types import INDEX, AxisType, MemRefType, ScalarType, TensorType, TileType, TokenType, Type
from tesserac.numerics.order import Blocks, Chain
from tesserac.types.dims import Dim
from tesserac.types.dtype import BF16, F32, I64
from tesserac.types.policy import NO_POLICY, Policy

if "test.op" not in OPDEFS:
    define_op("test.op", pure=True)
    define_op("test.func", pure=False)

SYMBOLS = [Dim.sym(s) for s in "MNK"]
dims = st.one_of(
    st.sampled_from(SYMBOLS),
    st.integers(0, 9).map(Dim.const),
    st.tuples(st.sampled_from(SYMBOLS), st.integers(1, 9)).map(lambda p: p[0] * Dim.const(p[1]) + Dim.const(1)),
    st.sampled_from(SYMBOLS).map(lambda d: d.ceil_div(Dim.const(64))),
)
dim_tuples = st.lists(dims, max_size=3).map(tuple)
elements = st.sampled_from([(F32, NO_POLICY), (BF16, Policy(accum=F32)), (BF16, Policy(accum=F32, saturate=True))])


def _tensor(parts: tuple[tuple[Dim, ...], tuple]) -> Type:
    return TensorType(parts[0], *parts[1])


types: st.SearchStrategy[Type] = st.one_of(
    st.just(INDEX),
    st.sampled_from([ScalarType(F32), AxisType(128), TokenType("async")]),
    st.tuples(dim_tuples, elements).map(_tensor),
    st.tuples(st.lists(st.integers(1, 512), max_size=3).map(tuple), elements).map(lambda p: TileType(p[0], *p[1])),
    st.tuples(dim_tuples, elements, st.sampled_from(["global", "local"]), st.sampled_from(["strided", "panels"])).map(
        lambda p: MemRefType(p[0], *p[1], space=p[2], layout=p[3])
    ),
    st.just(MemRefType((SYMBOLS[0], SYMBOLS[1]), F32, strides=(Dim.const(1), SYMBOLS[0]))),
)

attrs: st.SearchStrategy[Attr] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.text(max_size=8),
        dims,
        types,
        st.sampled_from([F32, I64, Policy(accum=F32), NO_POLICY]),
        st.sampled_from([Chain(), Blocks(), forms.Permute((1, 0)), forms.Reshape(), forms.Broadcast((0, None)),
                         forms.Window(0, 2, 1)]),
        st.builds(forms.Slice, dim_tuples, st.lists(st.integers(-3, 3), max_size=3).map(tuple)),
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)
attr_dicts = st.dictionaries(st.sampled_from(["kind", "axes", "order", "x1"]), attrs, max_size=3)
spans = st.one_of(st.just(NO_SPAN), st.builds(Span, st.text(max_size=4), st.integers(0, 99), st.integers(0, 99)))
names = st.sampled_from(["", "acc", "x", "x", "i"])


@st.composite
def blocks(draw: st.DrawFn, depth: int, outer: list[Value]) -> Block:
    block = Block(draw(st.lists(types, max_size=2)), ["a", "a"])
    visible = [*outer, *block.args]
    for _ in range(draw(st.integers(0, 3))):
        operands = draw(st.lists(st.sampled_from(visible), max_size=3)) if visible else []
        regions = [Region(draw(blocks(depth - 1, visible))) for _ in range(draw(st.integers(0, 2)))] if depth else []
        results = draw(st.lists(types, max_size=2))
        hints = [draw(names)] * len(results)
        op = Op(OPDEFS["test.op"], operands, results, draw(attr_dicts), regions, draw(spans), hints)
        block.append(op)
        visible.extend(op.results)
    return block


@st.composite
def modules(draw: st.DrawFn) -> Module:
    module = Module()
    for i in range(draw(st.integers(0, 2))):
        region = Region(draw(blocks(2, [])))
        module.block.append(Op(OPDEFS["test.func"], attrs={"sym_name": f"f.{i}", **draw(attr_dicts)}, regions=[region]))
    return module


def same(a: Op, b: Op, names: dict[Value, Value]) -> bool:
    """Structural equality: all but printer hints."""
    if a.opdef is not b.opdef or a.attrs != b.attrs or a.span != b.span or len(a.regions) != len(b.regions):
        return False
    if [names[v] for v in a.operands] != list(b.operands) or [v.type for v in a.results] != [v.type for v in b.results]:
        return False
    for left, right in zip(a.regions, b.regions, strict=True):
        if [v.type for v in left.block.args] != [v.type for v in right.block.args]:
            return False
        names.update(zip(left.block.args, right.block.args, strict=True))
        if len(left.block.ops) != len(right.block.ops):
            return False
        if not all(same(x, y, names) for x, y in zip(left.block.ops, right.block.ops, strict=True)):
            return False
    names.update(zip(a.results, b.results, strict=True))
    return True


@pytest.mark.one_in(8)
@given(modules())
def test_text_parses_back(module: Module) -> None:
    text = print_module(module, locations=True)
    again = parse_module(text)
    assert len(again.ops) == len(module.ops)
    assert all(same(a, b, {}) for a, b in zip(module.ops, again.ops, strict=True))
    assert print_module(again, locations=True) == text


@pytest.mark.one_in(24)
@given(modules())
def test_a_clone_is_the_same_and_apart(module: Module) -> None:
    clone = module.clone()
    assert content_hash(clone) == content_hash(module)
    for op in list(clone.walk()):
        op.attrs["changed"] = True
    assert all("changed" not in op.attrs for op in module.walk())


@pytest.mark.parametrize("value", [math.inf, -math.inf, 5e-324, 1.7976931348623157e308, -0.0, 1e22, 0.1])
def test_floats_are_exact(value: float) -> None:
    module = Module([Op(OPDEFS["test.func"], attrs={"sym_name": "f", "v": value}, regions=[Region(Block())])])
    back = parse_module(print_module(module)).ops[0].attrs["v"]
    assert isinstance(back, float) and (back, math.copysign(1, back)) == (value, math.copysign(1, value))


def test_nan_prints_and_parses() -> None:
    module = parse_module("test.func @f {v = nan} { ^(): }")
    assert isinstance(module.ops[0].attrs["v"], float) and math.isnan(module.ops[0].attrs["v"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("test.func @f { ^(): test.op(%x) }", "%x is not defined"),
        ("test.nothing @f", "unknown operation test.nothing"),
        ("test.func @f { ^(%x: tensor<[M], f99>): }", "unknown element type 'f99'"),
        ("test.func @f { ^(%x: blob): }", "unknown type blob"),
        ("test.func @f {a = #nope<>} { ^(): }", "unknown attribute class nope"),
        ("test.func @f { ^(): %a, %b = test.op() : index }", "expected 2 result types"),
        ("test.func @f { ^(%x: tensor<[M, f32): }", "unclosed '<'"),
    ],
)
def test_what_is_not_ir_is_refused(text: str, message: str) -> None:
    with pytest.raises(IRSyntaxError, match=message.replace("[", r"\[")):
        parse_module(text)


HASH_PROGRAM = """
import sys
from tests.ir.test_ir_text import parse_module, content_hash
sys.stdout.write(content_hash(parse_module('test.func @f {s = "x", d = `N*M + 1`} { ^(%x: tensor<[N, M], f32>): }')))
"""


@pytest.mark.one_in(8)
def test_the_hash_is_stable_between_processes() -> None:
    def run(seed: str) -> str:
        command = [sys.executable, "-c", HASH_PROGRAM]
        env = {"PYTHONHASHSEED": seed, "PYTHONPATH": ".:runtime"}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    assert run("1") == run("2") != ""
