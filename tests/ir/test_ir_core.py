"""The core's invariants: use lists, the verifier, the rewriter, the pass runner."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from tesserac.ir.builder import Builder
from tesserac.ir.core import OPDEFS, Block, Module, Op, Region, VerifyError, define_op
from tesserac.ir.parser import parse_module
from tesserac.ir.passes import GRAPH, Level, PassFault, pass_, run_passes
from tesserac.ir.printer import print_module
from tesserac.ir.rewrite import Rewriter, at, erase_dead, rewrite
from tesserac.ir.verify import verify_module

if "core.func" not in OPDEFS:
    define_op("core.func", pure=False)
    define_op("core.return", pure=False, terminator=True)
    define_op("core.neg", pure=True)
    define_op("core.effect", pure=False)

CORE = Level("core", frozenset({"core"}))

PROGRAM = """core.func @f {
  ^(%x: tensor<[N], bf16 @accum(f32)>):
    %a = core.neg(%x) : tensor<[N], bf16 @accum(f32)>
    %b = core.neg(%a) : tensor<[N], bf16 @accum(f32)>
    core.return(%b)
}
"""


@at("core.neg")
def cancel_double_neg(op: Op, rewriter: Rewriter) -> bool:
    inner = op.operands[0].defining_op
    if inner is None or inner.name != "core.neg":
        return False
    rewriter.replace(op, [inner.operands[0]])
    return True


def test_rewrite_reaches_a_fixed_point() -> None:
    module = parse_module(PROGRAM)
    rewrite(module, [cancel_double_neg])
    erase_dead(module)
    verify_module(module)
    assert [op.name for op in module.walk()] == ["core.func", "core.return"]


def test_rewrite_stops_rules_that_undo_each_other() -> None:
    @at("core.neg")
    def flip(op: Op, rewriter: Rewriter) -> bool:
        new = rewriter.builder(op).value("core.neg", op.operands, op.result.type)
        rewriter.replace(op, [new])
        return True

    with pytest.raises(VerifyError, match="do not come to rest: flip"):
        rewrite(parse_module(PROGRAM), [flip])


def test_dead_code_keeps_effects() -> None:
    module = parse_module(PROGRAM)
    func = module.ops[0]
    builder = Builder.before(func.body.terminator)
    builder.value("core.neg", [func.body.args[0]], func.body.args[0].type)
    builder.op("core.effect", [func.body.args[0]])
    erase_dead(module)
    assert [op.name for op in func.body.ops] == ["core.neg", "core.neg", "core.effect", "core.return"]


def test_use_lists_follow_operands() -> None:
    module = parse_module(PROGRAM)
    first, second, ret = module.ops[0].body.ops
    assert list(first.result.uses) == [(second, 0)]
    ret.set_operand(0, first.result)
    assert not second.result.uses and list(first.result.uses) == [(second, 0), (ret, 0)]
    second.erase()
    verify_module(module)
    with pytest.raises(VerifyError, match="still used"):
        first.erase()


def test_verifier_sees_use_before_definition() -> None:
    module = parse_module(PROGRAM)
    block = module.ops[0].body
    block.ops[0], block.ops[1] = block.ops[1], block.ops[0]
    with pytest.raises(VerifyError, match="not defined before its use"):
        verify_module(module)


def test_verifier_sees_a_value_that_left_its_region() -> None:
    module = parse_module("core.func @f { ^(): core.effect() { ^(%i: index): } core.return() }")
    inner = module.ops[0].body.ops[0].body.args[0]
    module.ops[0].body.ops[1].set_operands([inner])
    with pytest.raises(VerifyError, match="not defined before its use"):
        verify_module(module)


def test_verifier_sees_an_early_terminator_and_a_double_symbol() -> None:
    with pytest.raises(VerifyError, match="does not stand last"):
        verify_module(parse_module("core.func @f { ^(): core.return() core.return() }"))
    with pytest.raises(VerifyError, match="defined twice"):
        verify_module(parse_module("core.func @f { ^(): } core.func @f { ^(): }"))


def test_the_runner_names_the_pass_that_broke_the_ir() -> None:
    @pass_(CORE, CORE, "breaker")
    def breaker(module: Module) -> Module:
        block = module.ops[0].body
        block.ops.reverse()
        return module

    with pytest.raises(PassFault, match="IR invalid after pass `breaker`"):
        run_passes(parse_module(PROGRAM), [breaker], verify=True)


def test_a_pass_that_loses_a_policy_is_refused() -> None:
    @pass_(CORE, CORE, "forget")
    def forget(module: Module) -> Module:
        return parse_module(print_module(module).replace(" @accum(f32)", ""))

    with pytest.raises(PassFault, match="had the interface"):
        run_passes(parse_module(PROGRAM), [forget], verify=True)


def test_a_pass_that_leaves_another_level_is_refused() -> None:
    @pass_(CORE, GRAPH, "stay")
    def stay(module: Module) -> Module:
        return module

    with pytest.raises(PassFault, match="does not belong to level graph"):
        run_passes(parse_module(PROGRAM), [stay], verify=True)


def test_passes_work_on_a_clone() -> None:
    @pass_(CORE, CORE, "cancel")
    def cancel(module: Module) -> Module:
        rewrite(module, [cancel_double_neg])
        return module

    before = parse_module(PROGRAM)
    text = print_module(before)
    after = run_passes(before, [cancel], verify=True)
    assert print_module(before) == text != print_module(after)


def nested(depth: int) -> Op:
    """An operation with others beside each other and within each other."""
    op = Op(OPDEFS["core.effect"])
    for _ in range(depth):
        block = Block()
        for inner in (Op(OPDEFS["core.effect"]), op, Op(OPDEFS["core.effect"])):
            block.append(inner)
        op = Op(OPDEFS["core.func"], (), (), {}, [Region(block)])
    return op


def steps_of_walk(depth: int) -> int:
    count = 0

    def see(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    top = nested(depth)
    sys.setprofile(see)
    try:
        for _ in top.walk():
            pass
    finally:
        sys.setprofile(None)
    return count


def test_a_walk_takes_as_many_steps_as_there_are_operations_however_deep() -> None:
    assert steps_of_walk(400) <= 2.1 * steps_of_walk(200)
    assert [op.name for op in nested(2).walk()] == [
        *("core.func", "core.effect", "core.func"),
        *("core.effect", "core.effect", "core.effect", "core.effect"),
    ]
