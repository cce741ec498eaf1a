"""Functions that are called become their bodies where they are called: for machines whose host programs call none.

Enters: a module of forms. Leaves: its entries alone. What is fused then is more, and no bit changes. Raises
TooManyOperators where a function becomes too large.

Before:
    func.func @g {called = "often", guards = [], params = ["v"]} {
      ^(%v: tensor<[K, 1], f32>):
        %0 = form.view(%v) {view = #reshape<>} : tensor<[K], f32>
        func.return(%0)
    }
    func.func @f {guards = [], params = ["x"]} {
      ^(%x: tensor<[2*N, 1], f32>):
        %y = form.call(%x) {callee = "g", dims = [["K", `2*N`]]} : tensor<[2*N], f32>
        func.return(%y)
    }
After:
    func.func @f {guards = [], params = ["x"]} {
      ^(%x: tensor<[2*N, 1], f32>):
        %y = form.view(%x) {view = #reshape<>} : tensor<[2*N], f32>
        func.return(%y)
    }
"""

from __future__ import annotations

from tesserac.graph.expansion import MAX_OPERATORS, TooManyOperators
from tesserac.graph.passes.inline import inline_call
from tesserac.ir.calls import INVOKE, callee_of, is_called, reached_functions
from tesserac.ir.core import Module, Op
from tesserac.ir.passes import FORMS, pass_


@pass_(FORMS, FORMS, "write_out_calls")
def write_out_calls(module: Module) -> Module:
    if not any(map(is_called, module.ops)):
        return module
    for entry in [function for function in module.ops if not is_called(function)]:
        for function in reached_functions(module, entry.symbol, INVOKE):
            _write_out(module, function)
    for function in [function for function in module.ops if is_called(function)]:
        function.erase()
    return module


def _write_out(module: Module, function: Op) -> None:
    """Callees come first, so that what is copied has no calls left."""
    calls = [op for op in function.walk() if op.name == INVOKE]
    sizes = [len(module.lookup(callee_of(op)).body.ops) for op in calls]
    if sum(sizes) > MAX_OPERATORS:
        raise TooManyOperators(sum(sizes), function.span)
    for op in calls:
        inline_call(op, module.lookup(callee_of(op)), function)
