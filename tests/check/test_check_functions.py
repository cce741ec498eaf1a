"""What the checker hands on: instances, sizes of calls, guards, effects; and calls from outside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tesserac.base.source import SourceFile
from tesserac.check.infer import CheckResult
from tesserac.check.model import typed
from tesserac.check.names.refs import FunctionRef
from tesserac.check.sizes.facts import Facts
from tesserac.driver.session import Session
from tesserac.modules.library import load_library
from tesserac.types.dims import Dim, DimError, parse_dim
from tesserac.types.dtype import BF16, F32
from tesserac.types.policy import NO_POLICY, Policy
from tesserac.types.ty import BoolType, IntType, TensorType
from tests.support.checking import check_text


def function(result: CheckResult, name: str) -> typed.TypedFunction:
    return next(f for f in result.module.functions if f.name == name)


def tensor(*sizes: int, dtype: object = F32, policy: Policy = NO_POLICY) -> TensorType:
    assert dtype in (F32, BF16)
    return TensorType(tuple(map(Dim.const, sizes)), F32 if dtype == F32 else BF16, policy)


HEADS = """
def heads(x: Tensor[B, S, D, f32], h: int) -> Tensor[B, h, S, D/h, f32] where D % h == 0:
    return permute(reshape(x, (B, S, h, D/h)), (0, 2, 1, 3))

def use(x: Tensor[A, T, E, f32]):
    return heads(x, 8)
"""


def test_a_call_says_what_each_symbol_is() -> None:
    result = check_text(HEADS)
    use = function(result, "use")
    assert use.symbols == ("A", "T", "E")
    assert [guard.text for guard in use.guards] == ["E % 8 == 0"]
    [returned] = use.body
    assert isinstance(returned, typed.Return)
    call = returned.value
    assert isinstance(call, typed.Call)
    assert dict(call.dims) == {"B": Dim.sym("A"), "S": Dim.sym("T"), "D": Dim.sym("E")}
    callee = result.functions[call.function]
    assert callee.params[1].type == IntType(Dim.const(8))
    assert call.type == TensorType(tuple(map(parse_dim, ("A", "8", "T", "E/8"))), F32)


def test_one_instance_serves_all_dims() -> None:
    result = check_text(
        """
def double(x: Tensor[..., N]) -> Tensor[..., N, x.dtype]:
    return x + x

def use(a: Tensor[P, Q, f32], b: Tensor[3, 4, f32], c: Tensor[Q, f32], d: Tensor[P, Q, bf16]):
    return double(a), double(b), double(c), double(d)
"""
    )
    instances = [f for f in result.functions.values() if f.name == "double"]
    assert sorted(f"{f.params[0].type.show()}" for f in instances) == [
        "Tensor[D1, N, bf16]", "Tensor[D1, N, f32]", "Tensor[N, f32]",
    ]  # fmt: skip
    assert len({f.symbol for f in instances}) == 3


def test_guards_are_for_divisibility_and_bounds_only() -> None:
    result = check_text(
        """
def f(x: Tensor[N, f32], k: int):
    y = reshape(x, (N / 4, 4))
    return y, x[k], x[2:], x[:-3]
"""
    )
    texts = [guard.text for guard in function(result, "f").guards]
    assert texts == ["N % 4 == 0", "k >= 0", "N >= k + 1"]  # hence N >= 4


def test_facts_make_guards_needless() -> None:
    result = check_text("def f(x: Tensor[N, f32]) where N >= 3:\n    return x[2], x[1:]\n")
    assert [guard.text for guard in function(result, "f").guards] == ["N >= 3"]


def test_effects_pass_through_calls() -> None:
    result = check_text(
        """
def show(x: Tensor[N, f32]):
    print(sum(x))

def f(x: Tensor[N, f32]) -> Tensor[N, f32]:
    show(x)
    return x
"""
    )
    assert function(result, "f").effects == {"io"}
    assert isinstance(function(result, "f").body[0], typed.Evaluate)


def test_static_values_leave_no_statement() -> None:
    result = check_text("def f(x: Tensor[N, f32]):\n    n = N * 2\n    s = 0.5\n    return x * s * n\n")
    assert [type(statement) for statement in function(result, "f").body] == [typed.Return]


def test_a_return_in_a_branch_takes_the_rest_into_the_other() -> None:
    result = check_text("def f(x: f32) -> f32:\n    if x > 0.0:\n        return x\n    y = -x\n    return y\n")
    [branch] = function(result, "f").body
    assert isinstance(branch, typed.If)
    assert [type(s) for s in branch.then] == [typed.Return]
    assert [type(s) for s in branch.otherwise] == [typed.Bind, typed.Return]


def test_loops_say_what_they_carry() -> None:
    result = check_text(
        "def f(x: Tensor[N, D, f32]) -> Tensor[D, f32]:\n"
        "    acc = zeros(D)\n    for i in range(N):\n        row = x[i]\n        acc += row\n    return acc\n"
    )
    loop = function(result, "f").body[1]
    assert isinstance(loop, typed.For)
    assert loop.carried == (typed.Carried("acc", TensorType((Dim.sym("D"),), F32)),)
    assert loop.stop.type == IntType(Dim.sym("N"))


def test_a_missing_policy_is_taken_over_by_a_cast() -> None:
    result = check_text("def f(x: Tensor[N, bf16 @accum(f32)], y: Tensor[N, bf16]):\n    return x + y\n")
    [returned] = function(result, "f").body
    assert isinstance(returned, typed.Return)
    assert isinstance(returned.value, typed.Apply)
    assert all(operand.type == returned.value.type for operand in returned.value.operands)


GENERIC = """
def scale(x: Tensor[..., N], by: float, flip: bool = False):
    if flip:
        return -x * by
    return x * by

def add(x, y):
    return x + y
"""


def test_calls_from_outside() -> None:
    result = check_text(GENERIC)
    instance = result.instantiate("scale", [tensor(3, 4, dtype=BF16), typed_float(), BoolType(True)])
    assert instance.function is not None
    assert instance.function.result.show() == "Tensor[D1, N, bf16]"
    equal = result.instantiate("add", [tensor(3, 4), tensor(4)]).function
    assert equal is not None
    assert [p.type.show() for p in equal.params] == ["Tensor[D1, D2, f32]", "Tensor[D2, f32]"]
    unequal = result.instantiate("add", [tensor(3, 4), tensor(3)])
    assert unequal.function is None
    assert [d.code for d in unequal.diagnostics] == ["E0302"]
    assert result.instantiate("scale", [BoolType(True), typed_float(), BoolType(True)]).function is None


def typed_float() -> IntType:
    return IntType(Dim.const(2))


def test_reach_follows_calls_from_an_instance() -> None:
    result = check_text("def f(x):\n    return softmax(x)\n")
    instance = result.instantiate("f", [tensor(2, 3)]).function
    assert instance is not None
    reached = result.reach(instance)
    assert {f.name for f in reached.values()} >= {"f", "softmax"}


@pytest.mark.parametrize("text", ["", "x = 1\n", '"""Only a docstring."""\n', "test \"t\":\n    pass\n"])
def test_small_modules(text: str) -> None:
    assert check_text(text).diagnostics == ()


SIZES = {name: st.integers(0, 12) for name in ("A", "B", "C")}
POLYNOMIALS = ["A", "B", "C", "A + B", "2*A", "A*B", "A - B", "B + 1", "3", "A*C + 2", "A - 1", "C - 4"]
OTHERS = ["min(A, B)", "max(A, C)", "2*ceil_div(A, 2)", "2*floor_div(B, 2)", "min(A - 1, C)", "ceil_div(A + 1, 3)"]
SMALL = st.sampled_from([*POLYNOMIALS, *OTHERS])


@given(SMALL, SMALL, st.fixed_dictionaries(SIZES))
def test_what_facts_prove_is_true(left: str, right: str, sizes: dict[str, int]) -> None:
    facts = Facts()
    a, b = parse_dim(left), parse_dim(right)
    x, y = a.evaluate(sizes), b.evaluate(sizes)
    assert facts.at_least(a, b) in (None, x >= y)
    assert not facts.same(a, b) or x == y
    try:
        known = facts.divides(b, a)
    except DimError:
        return
    if known is not None and y:
        assert known == (x % y == 0)


@given(SMALL, SMALL, SMALL, SMALL, st.fixed_dictionaries(SIZES))
def test_stated_facts_prove_only_what_follows(p: str, q: str, left: str, right: str, sizes: dict[str, int]) -> None:
    low, high = parse_dim(p), parse_dim(q)
    if low.evaluate(sizes) < high.evaluate(sizes):
        return
    facts = Facts()
    facts.state("at_least", low, high)
    a, b = parse_dim(left), parse_dim(right)
    if facts.at_least(a, b):
        assert a.evaluate(sizes) >= b.evaluate(sizes)


def test_bounds_of_what_polynomials_cannot_express() -> None:
    for left, right in (("A", "min(A, B)"), ("max(A, B)", "B"), ("2*ceil_div(A, 2)", "A"), ("A", "2*floor_div(A, 2)")):
        assert Facts().at_least(parse_dim(left), parse_dim(right)) is True
        assert Facts().at_least(parse_dim(right), parse_dim(left)) is None


def test_a_turn_of_a_loop_knows_that_there_is_one() -> None:
    facts, n = Facts(), parse_dim("N")
    with facts.within("i", parse_dim("0"), n, 1):
        assert facts.at_least(n, parse_dim("1"))
    assert facts.at_least(n, parse_dim("1")) is None


def test_recursion_that_nothing_ends_is_one_error() -> None:
    result = check_text("""
def factorial(n: int) -> int:
    return n * factorial(n - 1)

def use(x: Tensor[N, f32]) -> Tensor[N, f32]:
    return x * factorial(5)
""")
    assert [d.code for d in result.diagnostics] == ["E0217"]
    assert "calls itself" in result.diagnostics[0].primary.text


@pytest.mark.one_in(4)
def test_files_of_the_library_share_what_is_not_the_programs() -> None:
    """`_squares` is in one file of `stdlib/linalg` and called in others; `_length` is in two, and only theirs."""
    checkers = {result.module.name: result.checker for result in load_library()}
    names = checkers["stdlib.linalg.jacobi"].names
    assert names.lookup("_squares") == FunctionRef("stdlib.linalg.basics", "_squares")
    last = checkers["stdlib.linalg.with_structure"].names
    assert last.lookup("_length") is None and last.lookup("_nothing") is None
    found = Session().check(SourceFile("linalg/own.tess", "def f(x: Tensor[N, f32]): return _squares(x)\n"))
    assert [problem.code for problem in found.diagnostics] == ["E0201"]


DERIVATIVES = """
def f(x: Tensor[N, f32], y: Tensor[N, f32]) -> Tensor[f32]:
    return sum(x * y * y)

def by_both(x: Tensor[N, f32], y: Tensor[N, f32]) -> (Tensor[N, f32], Tensor[N, f32]):
    return grad(f, argnums=(0, 1))(x, y)

def columns(x: Tensor[N, B, f32], y: Tensor[N, f32]) -> Tensor[B, f32]:
    return vmap(f, in_dims=(1, None), out_dims=0)(x, y)

def turned(x: Tensor[B, M, N, c64]) -> (Tensor[B, N, M, c64], Tensor[B, N, M, c64]):
    return x.mT, x.mH
"""


def test_settings_and_attributes_have_the_names_of_jax_and_torch() -> None:
    assert check_text(DERIVATIVES).module.functions
    assert not check_text(DERIVATIVES).diagnostics
