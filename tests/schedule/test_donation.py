"""Donation: results in the memory of arguments that the caller gives away, with the bits they would have elsewhere."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tessera
from tessera.function import CompiledFunction
from tesserac.base.source import SourceFile
from tesserac.check.declarations.donation import donated_arguments
from tesserac.commands.building import build_bundle
from tesserac.driver.session import Session
from tesserac.graph.interp import run_function
from tesserac.ir.core import Op
from tesserac.target.cpu.build import host_platform
from tests.support.cpu_kernels import same_bits
from tests.support.edge_statements import random_program
from tests.support.paths import ROOT
from tests.support.random_runs import arguments
from tests.support.sampling import spread

HEAD = "def f(a: Tensor[N, N, f32], b: Tensor[N, N, f32], p: Tensor[N, i32]) -> {} where N >= 3:\n"
ONE, TWO = "Tensor[N, N, f32]", "(Tensor[N, N, f32], Tensor[N, N, f32])"

IN_PLACE = {
    "every element": (["return a * 2.0 + b"], ONE),
    "several results": (["m = a * 0.9 + b", "return m, b - m * a"], TWO),
    "behind a product": (["return a - 0.1 * (b @ b)"], ONE),
    "behind a sum": (["return a / sum(a, axis=1, keep=True)"], ONE),
    "softmax": (["return softmax(a)"], ONE),
    "read before": (["t = b @ a", "return a * 0.5 + b, t"], TWO),
    "read later, so it is moved": (["n = a * 2.0", "t = sort(a)", "return n, t + b"], TWO),
    "some elements": (["a[0] = 1.0", "return a"], ONE),
    "elements that integers name": (["a[p[0]] += 1.0", "a[1, 2] = a[2, 1]", "return a"], ONE),
    "unchanged": (["return a"], ONE),
    "the other one": (["return b, a + 1.0"], TWO),
    "a constant": (["return zeros(N, N)"], ONE),
}
SAVED = {
    "a slice of itself": (["a[1:] = a[:N - 1] * 2.0", "return a"], ONE),
    "what was there": (["t = a[0]", "a[0] = a[1]", "a[1] = t", "return a, b + t"], TWO),
}
COPIED = {
    "other elements": (["return flip(a, 0) + a"], ONE),
    "transposed": (["return a.T"], ONE),
    "itself twice": (["return a @ a"], ONE),
    "a running sum": (["return cumsum(a)"], ONE),
    "sorted": (["return sort(a)"], ONE),
    "exchanged": (["return b.T, a.T"], TWO),
    "a loop": (["for i in range(3):", "    a = a @ b", "return a"], ONE),
    "a branch": (["if sum(a) > 0.0:", "    a = a.T", "return a"], ONE),
    "parts": (["return concat([a[1:], a[:1]], axis=0)"], ONE),
    "read by what needs it": (["n = a * 2.0", "return n, n @ a"], TWO),
}


def program(lines: list[str], result: str, names: str) -> str:
    return f"@export(donate=({names},))\n" + HEAD.format(result) + "".join(f"    {line}\n" for line in lines)


def operands(size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(size)
    a, b = (rng.standard_normal((size, size)).astype(np.float32) for _ in range(2))
    return [a, b, rng.integers(0, size, size).astype(np.int32)]


CASES = IN_PLACE | SAVED | COPIED


@pytest.mark.one_in(48)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_results_are_the_same_in_other_memory(case: tuple[list[str], str]) -> None:
    text = program(*case, "a, b")
    given, plain = tessera.compile(text), tessera.compile(text.partition("\n")[2])
    for size in (3, 8, 70):
        expected, mine = plain.f(*operands(size)), operands(size)
        got = given.f(*mine)
        results = [got] if isinstance(got, np.ndarray) else list(got)
        for one, other in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
            np.testing.assert_array_equal(one, other)
        assert all(result is array for result, array in zip(results, mine, strict=False))


@cache
def session() -> Session:
    return Session(verify=True)


def host_of(text: str) -> Op:
    source = SourceFile("donated.tess", text)
    levels = session().levels(source, session().function(source, "f"), host_platform().schedule)
    return levels.schedule.ops[0]


def workspace(host: Op) -> int:
    """Buffers beside arguments and results, as large as these, that hold what a launch computes."""
    buffers = [op for op in host.body.ops if op.name == "schedule.buffer" and op.attrs["role"] == "workspace"]
    return sum("panels" not in str(op.result.type) and str(op.result.type).count("N") == 2 for op in buffers)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", IN_PLACE.values(), ids=IN_PLACE)
def test_nothing_is_copied_where_elements_are_read_as_they_are_written(case: tuple[list[str], str]) -> None:
    text = program(*case, "a")
    assert workspace(host_of(text)) <= workspace(host_of(text.partition("\n")[2]))


@pytest.mark.parametrize("case", COPIED.values(), ids=COPIED)
def test_what_would_be_overwritten_too_early_is_copied_at_the_end(case: tuple[list[str], str]) -> None:
    host = host_of(program(*case, "a, b"))
    last = [op for op in host.body.ops if op.name == "schedule.launch"][-1]
    assert last.operands[-1].defining_op.attrs["role"] == "output"
    assert workspace(host) > 0


@pytest.mark.one_in(24)
@pytest.mark.parametrize("seed", spread(range(5), 2))
def test_random_programs_give_the_same_bits(seed: int) -> None:
    drawn, session = random_program(seed, 3, 12), Session()
    source = SourceFile(f"random{seed}.tess", drawn.text)
    function = session.function(source, "f")
    function = replace(function, donated=tuple(param.name for param in function.params))
    taken = donated_arguments(function.donated, function.params, function.result)
    levels = session.levels(source, function, host_platform().schedule)
    compiled = CompiledFunction(session.artifact_of(levels, function, host_platform()))
    for number, sizes in enumerate(drawn.sizes):
        args = arguments(drawn, sizes, number)
        expected = run_function(levels.forms, function.symbol, args)
        given = [arg.copy() for arg in args]
        got = compiled(*given)
        for place, one, other in zip(taken, got if isinstance(got, tuple) else (got,), expected, strict=True):
            same_bits(np.asarray(one), other)
            assert place < 0 or one is given[place]


GRADIENT = """
@export(donate=(w,))
def step(w: Tensor[D, f32], x: Tensor[B, D, f32]) -> (Tensor[D, f32], Tensor[f32]):
    value, change = value_and_grad(loss)(w, x)
    return w - 0.1 * change, value

def loss(w: Tensor[D, f32], x: Tensor[B, D, f32]) -> Tensor[f32]:
    return mean((x @ w) ** 2)
"""


@pytest.mark.one_in(2)
def test_a_step_along_the_gradient() -> None:
    w, x = np.ones(5, np.float32), np.random.default_rng(0).random((3, 5), np.float32)
    expected, value = tessera.compile(GRADIENT.replace("(donate=(w,))", "")).step(w, x)
    result, loss = tessera.compile(GRADIENT).step(w, x)
    assert result is w and loss == value
    np.testing.assert_array_equal(w, expected)


# --- structs ---------------------------------------------------------------------------------------------------------

STEP = (ROOT / "examples" / "mlp.tess").read_text()
GIVEN = STEP.replace("@export\ndef step", "@export(donate=(m,))\ndef step")


def leaves(model: Any) -> list[np.ndarray]:
    return [model.l1.w, model.l1.b, model.l2.w, model.l2.b]


def batch(size: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.random((size, 8), np.float32), rng.random((size, 4), np.float32)


@pytest.mark.one_in(16)
def test_a_step_of_training_updates_the_model_in_place() -> None:
    given, plain, (x, y) = tessera.compile(GIVEN), tessera.compile(STEP), batch(5)
    model, other = given.MLP(8, 16, 4), plain.MLP(8, 16, 4)
    for _ in range(3):
        before = leaves(model)
        model, loss = given.step(model, x, y, lr=0.1)
        other, expected = plain.step(other, x, y, lr=0.1)
        assert loss == expected
        assert all(new is old for new, old in zip(leaves(model), before, strict=True))
        for one, two in zip(leaves(model), leaves(other), strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.one_in(16)
def test_a_step_allocates_nothing_for_the_model() -> None:
    given, (x, y) = tessera.compile(GIVEN), batch(2)
    model, _ = given.step(given.MLP(8, 50_000, 4), x, y)
    tracemalloc.start()
    given.step(model, x, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000, "NumPy tells of its memory; the model has 2.6 million bytes"


@pytest.mark.one_in(6)
def test_a_bundle_takes_memory_too(tmp_path: Path) -> None:
    path = tmp_path / "step.tess"
    path.write_text(GIVEN)
    build_bundle(Session(), str(path), None, "cpu", None, {})
    built, (x, y) = tessera.load(path.with_suffix(".tessb")), batch(3)
    w = [np.full(shape, 0.1, np.float32) for shape in ((8, 16), (16,), (16, 4), (4,))]
    model, _ = built.step({"l1": {"w": w[0], "b": w[1]}, "l2": {"w": w[2], "b": w[3]}}, x, y, lr=0.1)
    assert all(new is old for new, old in zip(leaves(model), w, strict=True))


@pytest.mark.one_in(6)
def test_a_struct_that_was_given_away_is_consumed() -> None:
    m, (x, y) = tessera.compile(GIVEN), batch(3)
    model = m.MLP(8, 16, 4)
    inner = model.l1
    m.step(model, x, y)
    for use in (lambda: m.step(model, x, y), lambda: m.loss(model, x, y), lambda: model.l1, lambda: inner.w):
        with pytest.raises(tessera.TesseraError, match="was given to `step`") as caught:
            use()
        assert caught.value.code == "E0936"
    assert repr(model) == "<MLP, given to `step`>"


@pytest.mark.one_in(3)
def test_a_call_that_is_refused_consumes_nothing() -> None:
    m, (x, y) = tessera.compile(GIVEN), batch(3)
    model = m.MLP(8, 16, 4)
    with pytest.raises(tessera.TesseraError):
        m.step(model, x[:, :5], y)
    with pytest.raises(tessera.TesseraError, match="takes no `out`"):
        m.step(model, x, y, out=(m.MLP(8, 16, 4), np.empty((), np.float32)))
    m.step(model, x, y)


def test_a_call_that_fails_halfway_consumes() -> None:
    m = tessera.compile(
        "struct S[N]:\n    w: Tensor[N, f32] = ones(N)\n"
        "@export(donate=(s,))\ndef f(s: S[N], i: Tensor[i32]) -> S[N]:\n"
        "    assert s.w[i] > 5.0\n    return s + s\n"
    )
    state = m.S(4)
    with pytest.raises(tessera.TesseraError, match="does not hold"):
        m.f(state, 1)
    with pytest.raises(tessera.TesseraError, match="was given to `f`"):
        m.f(state, 1)


def test_a_whole_struct_goes_to_the_result_of_its_type_and_scalars_stay_values() -> None:
    m = tessera.compile(
        "struct State[N]:\n    mu: Tensor[N, f32] = zeros(N)\n    t: i32 = 0\n"
        "@export(donate=(w, state))\n"
        "def step(w: Tensor[N, f32], state: State[N]) -> (State[N], Tensor[N, f32]):\n"
        "    mu = state.mu * 0.5 + w\n    return State(mu=mu, t=state.t + 1), w - mu\n"
    )
    w, state = np.ones(6, np.float32), m.State(6)
    mu = state.mu
    new, result = m.step(w, state)
    assert new.mu is mu and result is w and new.t == 1
    np.testing.assert_array_equal(new.mu, 1.0)
    np.testing.assert_array_equal(result, 0.0)


@pytest.mark.one_in(12)
def test_a_cache_is_consumed_by_what_grows_it() -> None:
    m = tessera.compile(
        "def attend(q: Tensor[B, H, S, D, f32], cache: KVCache[B, H, M, D, f32]): return flash_attention(q, cache)\n"
        "def kept(cache: KVCache[B, H, M, D, f32], k: Tensor[B, H, S, D, f32]): return cache.append(k, k)\n"
    )
    k = np.ones((2, 1, 3, 4), np.float32)
    first = m.KVCache(2, 1, 12, 4)
    memory = first.K
    second = first.append(k, k)
    assert second.K is memory and second.len == 3
    with pytest.raises(tessera.TesseraError, match=r"this `KVCache` was given to `KVCache.append`") as caught:
        first.append(k, k)
    assert caught.value.code == "E0936"
    m.attend(k, second)
    third = m.kept(second, k)
    assert third.K is not memory and (second.len, third.len) == (3, 6)


# --- every kind of element -------------------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("element", ["f64", "bf16", "i32", "bool", "c64"])
def test_every_dtype(element: str) -> None:
    head = f"def f(x: Tensor[N, {element}]) -> Tensor[N, {element}]:\n    return flip(x, 0)\n"
    dtype = {"f64": "f8", "bf16": ml_dtypes.bfloat16, "i32": "i4", "bool": "?", "c64": "c8"}[element]
    x = (np.arange(9) * (3 if element == "c64" else 1)).astype(dtype)
    expected = x[::-1].copy()
    assert tessera.compile(f"@export(donate=x)\n{head}").f(x) is x
    np.testing.assert_array_equal(x, expected)


# --- misuse ----------------------------------------------------------------------------------------------------------

SMALL = """
@export(donate=(x,))
def f(x: Tensor[N, f32], y: Tensor[N, f32]) -> Tensor[N, f32]:
    return x + y

@export(donate=(x, y))
def g(x: Tensor[N, f32], y: Tensor[N, f32]) -> (Tensor[N, f32], Tensor[N, f32]):
    return x + y, x - y
"""


def f4(count: int = 6) -> np.ndarray:
    return np.arange(count, dtype=np.float32)


def locked() -> np.ndarray:
    array = f4()
    array.setflags(write=False)
    return array


ALL = f4(12)


@pytest.mark.parametrize(
    ("code", "text", "call"),
    [
        ("E0935", "`x` of `f` is given away, but it is read-only", lambda m: m.f(locked(), f4())),
        ("E0935", "not contiguous", lambda m: m.f(f4(12)[::2], f4())),
        ("E0935", "`x` and `y` of `f` share memory", lambda m: m.f(ALL[:6], ALL[:6])),
        ("E0935", "`x` and `y` of `f` share memory", lambda m: m.f(ALL[:6], ALL[5:11])),
        ("E0935", "`x` and `y` of `g` share memory", lambda m: m.g(ALL[:6], ALL[:6])),
        ("E0922", "has dtype float64", lambda m: m.f(f4().astype(np.float64), f4())),
        ("E0920", "`f` takes no `out`", lambda m: m.f(f4(), f4(), out=f4())),
    ],
)
def test_misuse(code: str, text: str, call: Callable[[Any], object]) -> None:
    with pytest.raises(tessera.TesseraError, match=text) as caught:
        call(tessera.compile(SMALL))
    assert caught.value.code == code


@pytest.mark.one_in(4)
def test_a_frozen_model_cannot_be_given_away() -> None:
    m, (x, y) = tessera.compile(GIVEN), batch(3)
    with pytest.raises(tessera.TesseraError, match=r"`m.l1.w` of `step` is given away, but it is read-only"):
        m.step(tessera.freeze(m.MLP(8, 16, 4)), x, y)


def test_neighbours_in_one_memory_and_empty_arrays_are_fine() -> None:
    m, whole = tessera.compile(SMALL), f4(12)
    expected = whole[:6] + whole[6:]
    np.testing.assert_array_equal(m.f(whole[:6], whole[6:]), expected)
    empty = f4(0)
    assert m.f(empty, f4(0)) is empty
