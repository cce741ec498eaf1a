"""Checks a module: structure (uses, nesting, terminators), each operation's own rule, and the order of effects.

Passes run through `passes.py`, which verifies after each of them; a failure there is a compiler fault and says which
pass made it.
"""

from __future__ import annotations

from tesserac.ir.core import Block, Module, Op, Value, VerifyError
from tesserac.ir.ordering import verify_order


def verify_module(module: Module) -> None:
    """Raises VerifyError at the first thing that is wrong."""
    symbols: set[str] = set()
    for op in module.ops:
        if op.symbol in symbols:
            raise VerifyError(f"symbol @{op.symbol} is defined twice", op)
        symbols.add(op.symbol)
        _verify_op(op, set())
    verify_order(module)


def _verify_op(op: Op, visible: set[Value]) -> None:
    _verify_uses(op, visible)
    for region in op.regions:
        if region.parent is not op or region.block.parent is not region:
            raise VerifyError("a region has lost its parent", op)
        _verify_block(region.block, visible)
    op.opdef.verify(op)


def _verify_uses(op: Op, visible: set[Value]) -> None:
    for position, value in enumerate(op.operands):
        if value not in visible:
            raise VerifyError(f"operand {position} is not defined before its use", op)
        if (op, position) not in value.uses:
            raise VerifyError(f"operand {position} does not list this use", op)


def _verify_block(block: Block, visible: set[Value]) -> None:
    """What the block defines is visible to its end; `visible` is left as it was."""
    defined = list(block.args)
    visible.update(block.args)
    for op in block.ops:
        if op.parent is not block:
            raise VerifyError("stands in a block that it does not know", op)
        if op.opdef.terminator and op is not block.ops[-1]:
            raise VerifyError("a terminator does not stand last", op)
        _verify_op(op, visible)
        visible.update(op.results)
        defined.extend(op.results)
    visible.difference_update(defined)


def require(condition: bool, message: str, op: Op, *values: object) -> None:
    """One line of an operation's rule. What is to be shown in the message is made text only where it is shown."""
    if not condition:
        raise VerifyError(message.format(*values) if values else message, op)
