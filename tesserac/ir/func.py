"""Functions over tensors whose bodies are structural forms: what leaves the Graph and enters Schedule.

    func.func @scale {params = ["x", "s"], guards = [#guard<...>]} {
      ^(%x: tensor<[N], f32>, %s: tensor<[], f32>):
        %y = form.map(%x, %s) {maps = [[0], []]} : tensor<[N], f32> { ... }
        func.return(%y)
    }

`params` names the arguments as the user's signature does, for messages and for the artifact's table; `guards` is what
must hold of the sizes on entry, in the order in which it is checked. A body may use an argument as it is and may
return one value twice: results never alias, so Schedule copies.
"""

from __future__ import annotations

from tesserac.ir.core import Op, attr_tuple, define_op
from tesserac.ir.forms import Guard
from tesserac.ir.types import TensorType
from tesserac.ir.verify import require


def params(func: Op) -> tuple[str, ...]:
    """The names of a function's parameters, one per argument."""
    return attr_tuple(func, "params", str)


def guards(func: Op) -> tuple[Guard, ...]:
    """What a function demands of the sizes it is called with."""
    return attr_tuple(func, "guards", Guard)


def _verify_func(op: Op) -> None:
    names, demanded = op.attrs.get("params"), op.attrs.get("guards")
    require(isinstance(names, tuple) and all(isinstance(n, str) for n in names), "needs parameter names", op)
    require(isinstance(demanded, tuple) and all(isinstance(g, Guard) for g in demanded), "needs guards", op)
    require(len(params(op)) == len(op.body.args), "needs one name per argument", op)
    require(all(isinstance(a.type, TensorType) for a in op.body.args), "takes tensors", op)
    require(op.body.terminator.name == "func.return", "ends in func.return", op)


def _verify_return(op: Op) -> None:
    require(all(isinstance(v.type, TensorType) for v in op.operands), "returns tensors", op)


define_op("func.func", pure=False, verify=_verify_func)
define_op("func.return", pure=False, verify=_verify_return, terminator=True)
