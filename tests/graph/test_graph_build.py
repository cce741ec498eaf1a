"""Typed functions to Graph IR: values, scalars, calls, tuples and control flow, run through to the oracle."""

import numpy as np
import pytest

from tesserac.base.source import NO_SPAN
from tesserac.check.model import typed
from tesserac.graph.build import build_module
from tesserac.graph.interp import run_function
from tesserac.graph.passes.cse import cse
from tesserac.graph.passes.fold import fold
from tesserac.graph.passes.fold_views import fold_views
from tesserac.graph.passes.generalize import generalize
from tesserac.graph.passes.inline import inline
from tesserac.graph.passes.split_complex import split_complex
from tesserac.graph.rules import apply_rules
from tesserac.ir.core import Module, VerifyError
from tesserac.ir.passes import chosen, run_passes
from tesserac.ir.verify import verify_module
from tesserac.ops.compare import Less
from tesserac.ops.elementary import Rsqrt
from tesserac.ops.elementwise import Add, Mul
from tesserac.ops.reduce import Sum
from tesserac.ops.shape import Slice
from tesserac.pipeline import GRAPH_PASSES
from tesserac.types.dims import ONE, Dim
from tesserac.types.dtype import BOOL, F32
from tesserac.types.ty import FloatType, IntType, TensorType, TupleType, Type

N = Dim.sym("N")
VECTOR = TensorType((N,), F32)
NUMBER = TensorType((), F32)
FLAG = TensorType((), BOOL)
PASSES = [
    apply_rules,
    inline,
    *chosen(GRAPH_PASSES, fold, cse, generalize, split_complex, fold_views),
]


def local(name: str, ty: Type = VECTOR) -> typed.Local:
    return typed.Local(ty, NO_SPAN, name)


def integer(value: Dim | int) -> typed.Static:
    return typed.Static(IntType(value if isinstance(value, Dim) else Dim.const(value)), NO_SPAN)


def number(value: float | Dim, ty: Type = NUMBER) -> typed.Coerce:
    static = IntType(value) if isinstance(value, Dim) else FloatType(value)
    return typed.Coerce(ty, NO_SPAN, typed.Static(static, NO_SPAN))


def apply(op: object, *operands: typed.Expr, ty: Type = VECTOR) -> typed.Apply:
    return typed.Apply(ty, NO_SPAN, op, operands)


def add(left: typed.Expr, right: typed.Expr, ty: Type = VECTOR) -> typed.Apply:
    return apply(Add(), left, right, ty=ty)


def bind(name: str, value: typed.Expr) -> typed.Bind:
    return typed.Bind(NO_SPAN, name, value)


def give(value: typed.Expr) -> typed.Return:
    return typed.Return(NO_SPAN, value)


def function(*body: typed.Stmt, result: Type = VECTOR, params: tuple = (("x", VECTOR),), name: str = "f") -> object:
    return typed.TypedFunction(
        symbol=name,
        name=name,
        params=tuple(typed.Param(n, t, NO_SPAN) for n, t in params),
        result=result,
        symbols=("N",),
        guards=(),
        effects=frozenset(),
        body=body,
        span=NO_SPAN,
        exported=False,
        doc="",
    )


def compile_(*functions: object) -> Module:
    module = build_module(functions, {"f"})
    verify_module(module)
    return run_passes(module, PASSES, verify=True)


def run(*functions: object, args: list | None = None) -> list[np.ndarray]:
    return list(run_function(compile_(*functions), "f", args or [np.float32([1, 2, 3, 4])]))


def test_an_operation_that_has_changed_is_verified_again() -> None:
    one = TensorType((ONE,), F32)
    total = apply(Sum((0,), keep=True), add(local("x"), local("x")), ty=one)
    module = build_module([function(give(total), result=one)], set())
    verify_module(module)
    added, summed = module.ops[0].body.ops[:2]
    for type_, axes in ((TensorType((N, N), F32), (0,)), (VECTOR, (3,))):
        added.result.type, summed.attrs["axes"] = type_, axes
        with pytest.raises(VerifyError):
            verify_module(module)
        added.result.type, summed.attrs["axes"] = VECTOR, (0,)
        verify_module(module)


def test_numbers_meet_their_dtype() -> None:
    """x * 0.5 + N, the size as a value."""
    scaled = apply(Mul(), local("x"), number(0.5))
    (r,) = run(function(give(add(scaled, number(N)))))
    assert r.tolist() == [4.5, 5.0, 5.5, 6.0]


def test_constants_end_in_the_body_of_one_map() -> None:
    module = compile_(function(give(apply(Mul(), local("x"), number(0.5)))))
    assert [op.name for op in module.ops[0].body.ops] == ["form.map", "func.return"]
    assert len(module.ops[0].body.ops[0].operands) == 1


def test_an_open_float_is_f64_until_it_is_coerced() -> None:
    root = typed.Apply(FloatType(), NO_SPAN, Rsqrt(), (typed.Coerce(FloatType(), NO_SPAN, integer(N)),))
    (r,) = run(function(give(apply(Mul(), local("x"), typed.Coerce(NUMBER, NO_SPAN, root)))))
    assert r.tolist() == [0.5, 1.0, 1.5, 2.0]


def test_rebinding_and_tuples() -> None:
    pair = TupleType((VECTOR, NUMBER))
    total = apply(Sum((0,)), local("x"), ty=NUMBER)
    body = (
        bind("x", add(local("x"), local("x"))),
        bind("p", typed.TupleOf(pair, NO_SPAN, (local("x"), total))),
        typed.BindTuple(NO_SPAN, ("a", "s"), local("p", pair)),
        give(typed.TupleOf(pair, NO_SPAN, (local("a"), typed.Item(NUMBER, NO_SPAN, local("p", pair), 1)))),
    )
    a, s = run(function(*body, result=pair))
    assert a.tolist() == [2, 4, 6, 8] and s == 20


def test_calls_are_inlined_with_their_sizes() -> None:
    k = Dim.sym("K")
    own = TensorType((k,), F32)
    callee = function(
        give(add(local("v", own), number(k), ty=own)), result=own, params=(("v", own), ("k", IntType(k))), name="g"
    )
    call = typed.Call(VECTOR, NO_SPAN, "g", (local("x"), integer(N)), (("K", N),))
    again = typed.Call(VECTOR, NO_SPAN, "g", (call, integer(N)), (("K", N),))
    module = compile_(callee, function(give(again)))
    assert [op.symbol for op in module.ops] == ["f"]
    assert run_function(module, "f", [np.float32([1, 2])])[0].tolist() == [5, 6]


def loop(start: Dim | int, stop: Dim | int, step: int) -> typed.For:
    """total += x[i] for i in range(start, stop, step), where x[i] is a slice at a size that mentions i."""
    i = Dim.sym("i")
    element = apply(Slice((i,), (ONE,), (1,)), local("x"), ty=TensorType((ONE,), F32))
    term = apply(Sum((0,)), element, ty=NUMBER)
    body = (bind("t", add(local("t", NUMBER), apply(Mul(), term, number(i), ty=NUMBER), ty=NUMBER)),)
    return typed.For(NO_SPAN, "i", integer(start), integer(stop), step, body, (typed.Carried("t", NUMBER),))


@pytest.mark.parametrize(
    ("start", "stop", "step"), [(0, N, 1), (1, N, 1), (0, N, 2), (1, N - 1, 3), (N - 1, -1, -2), (3, 3, 1), (5, 2, 2)]
)
def test_loops(start: Dim | int, stop: Dim | int, step: int) -> None:
    x = np.arange(1, 9, dtype=np.float32)
    module = compile_(
        function(bind("t", number(0.0)), loop(start, stop, step), give(local("t", NUMBER)), result=NUMBER)
    )
    bounds = (b.evaluate({"N": 8}) if isinstance(b, Dim) else b for b in (start, stop))
    assert run_function(module, "f", [x])[0] == sum(x[i] * i for i in range(*bounds, step))


def test_while_carries_its_names() -> None:
    below = apply(Less(), local("t", NUMBER), number(100.0), ty=FLAG)
    body = (bind("t", add(local("t", NUMBER), local("t", NUMBER), ty=NUMBER)),)
    statement = typed.While(NO_SPAN, below, body, (typed.Carried("t", NUMBER),))
    assert run(function(bind("t", number(3.0)), statement, give(local("t", NUMBER)), result=NUMBER)) == [192]


def branch(then: typed.Block, otherwise: typed.Block, results: tuple = ()) -> typed.If:
    test = apply(Less(), apply(Sum((0,)), local("x"), ty=NUMBER), number(0.0), ty=FLAG)
    return typed.If(NO_SPAN, test, then, otherwise, results)


@pytest.mark.parametrize("sign", [1, -1])
def test_branches_bind_and_return(sign: int) -> None:
    double, triple = add(local("x"), local("x")), apply(Mul(), local("x"), number(3.0))
    x = np.float32([sign, sign])
    binding = branch((bind("y", double),), (bind("y", triple),), (typed.Carried("y", VECTOR),))
    expected = [[2 * sign] * 2, [3 * sign] * 2][sign > 0]
    assert run(function(binding, give(local("y"))), args=[x])[0].tolist() == expected
    returning = branch((give(double),), (give(triple),))
    assert run(function(returning), args=[x])[0].tolist() == expected
    chosen = typed.Conditional(VECTOR, NO_SPAN, binding.test, double, triple)
    assert run(function(give(chosen)), args=[x])[0].tolist() == expected


def test_guards_reach_the_forms() -> None:
    guarded = function(give(local("x")))
    guarded = typed.TypedFunction(
        **{**guarded.__dict__, "guards": (typed.Guard("at_least", N, Dim.const(2), NO_SPAN, "a test"),)}
    )
    (func,) = compile_(guarded).ops
    (guard,) = func.attrs["guards"]
    assert (guard.kind, guard.left, guard.right, guard.text) == ("at_least", N, Dim.const(2), "N >= 2")
