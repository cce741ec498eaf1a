"""Puts numbers in the place of sizes that are known for this compilation, and finds those that must be.

An operator may demand that a size is a number when code is made (`Operator.demands`: the length of an fft). A function
that reaches one with a symbol is compiled once for each value of that symbol; the caller says which.

Before, with the sizes {N: 8}:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[B, N], c64>):
        %y = graph.fft(%x) : tensor<[B, N], c64>
        graph.return(%y)
    }
After:
    graph.func @f {entry = true, guards = [], params = ["x"]} {
      ^(%x: tensor<[B, 8], c64>):
        %y = graph.fft(%x) : tensor<[B, 8], c64>
        graph.return(%y)
    }
"""

from __future__ import annotations

from collections.abc import Mapping

from tesserac.graph.built import Unsupported
from tesserac.graph.dialect import is_operator, operator_of
from tesserac.graph.substitute import copy_op
from tesserac.ir.core import Module, Op
from tesserac.ir.forms import Guard, tensor_type
from tesserac.ir.func import guards
from tesserac.ir.passes import GRAPH, Pass
from tesserac.types.dims import Dim


class SizesDemanded(Exception):
    """Sizes that must be numbers before code of `function` can be made; `first` is an operator that needs them."""

    def __init__(self, symbols: tuple[str, ...], first: Op, function: Op) -> None:
        super().__init__(f"{first.name} demands {', '.join(symbols)}")
        self.symbols, self.first, self.function = symbols, first, function


class SizesRefused(Exception):
    """A guard of the function does not hold for these sizes, so there is nothing to compile."""

    def __init__(self, guard: Guard) -> None:
        super().__init__(guard.text)
        self.guard = guard


def fix_sizes(sizes: Mapping[str, int]) -> Pass:
    """The pass for these sizes. Raises SizesDemanded where an operator demands more of them, SizesRefused where the
    function is not meant for them."""

    def run(module: Module) -> Module:
        sized = with_sizes(module, sizes)
        for function in sized.ops:
            _require_guards(function)
            _require_numbers(function)
        return sized

    return Pass("fix_sizes", GRAPH, GRAPH, run)


def with_sizes(module: Module, sizes: Mapping[str, int]) -> Module:
    """The module with numbers for these sizes of its entries. Functions that are called, and those of kernels, have
    sizes of their own, whatever their names: what these are, a call says."""
    numbers = {name: Dim.const(size) for name, size in sizes.items()}
    if not numbers:
        return module
    return Module([copy_op(function, {}, numbers if _is_entry(function) else {}) for function in module.ops])


def _is_entry(function: Op) -> bool:
    return function.attrs["entry"] is True


def _require_guards(function: Op) -> None:
    for guard in guards(function):
        left, right = guard.left.constant, guard.right.constant
        if left is not None and right is not None and not guard.holds(left, right):
            raise SizesRefused(guard)


def _require_numbers(function: Op) -> None:
    bound = {name for arg in function.body.args for dim in tensor_type(arg).dims for name in dim.symbols()}
    missing: dict[str, Op] = {}
    for op in function.walk():
        for name in sorted(_demanded(op)):
            if name not in bound:
                text = f"`{op.name.removeprefix('graph.')}` of a size that changes while the function runs (`{name}`)"
                raise Unsupported(op.span, text)
            missing.setdefault(name, op)
    if missing:
        raise SizesDemanded(tuple(missing), next(iter(missing.values())), function)


def _demanded(op: Op) -> set[str]:
    """The symbols of an operation that have to be numbers."""
    if not is_operator(op):
        return set()
    demands = operator_of(op).demands(tuple(map(tensor_type, op.operands)))
    return {name for dim in demands for name in dim.symbols()}
